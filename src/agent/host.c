/* What an init sets up in the sandbox's own files: a certificate authority to trust, the address of a host (guest.md 2.2). */
#include "config.h"

#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "hutch/crypto.h"
#include "hutch/io.h"

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"
#define OURS "/usr/local/share/ca-certificates/e2b-ca.crt"
#define HOSTS "/etc/hosts"
#define EVENTS_HOST "events.e2b.local"
#define FILE_BYTES (16u << 20)

/* One at a time: each reads, changes and writes the same files. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- files ---- */

/* The whole file appended to b. -1 with errno. */
static int read_file(const char *path, struct buf *b)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;
	char *room;

	while (fd >= 0 && (room = buf_room(b, 65536)) != NULL && (n = read(fd, room, 65536)) > 0)
		b->len += (size_t)n;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && n > 0)
		errno = EFBIG;
	return n == 0 ? 0 : -1;
}

/* Cut to length only when all is written: on a full disk what was there is not lost to an empty file. */
static int write_file(const char *path, int flags, const struct buf *b)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644), saved;
	int rc = fd >= 0 ? write_all(fd, buf_str(b), b->len) : -1;

	if (rc == 0)
		rc = ftruncate(fd, (off_t)b->len);
	saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return rc;
}

/* At no moment is there half of it: a program that starts now reads the old or the new one. */
static int replace_file(const char *path, const struct buf *b)
{
	char temp[PATH_MAX];

	if (snprintf(temp, sizeof temp, "%s.hutch", path) >= (int)sizeof temp) {
		errno = ENAMETOOLONG;
		return -1;
	}
	unlink(temp);
	if (make_parents(path, 0, 0) < 0 || write_file(temp, O_EXCL, b) < 0 || rename(temp, path) < 0) {
		int saved = errno;

		unlink(temp);
		errno = saved;
		return -1;
	}
	return 0;
}

/* ---- caBundle ---- */

/* Certificates one after the other; what stands between them is comment. */
static int check_pem(const char *pem, struct err *e)
{
	size_t found = 0;

	for (const char *at = pem; (at = strstr(at, BEGIN)) != NULL; found++) {
		const char *end = strstr(at, END), *next = strstr(at + 1, BEGIN);
		struct buf der, text;
		bool ok;

		if (end == NULL || (next != NULL && next < end))
			return err_set(e, ERR_INVALID, "caBundle: certificate %zu has no end", found + 1);
		buf_init(&text, FILE_BYTES);
		buf_init(&der, FILE_BYTES);
		for (at += strlen(BEGIN); at < end; at++)
			if (strchr("\r\n\t ", *at) == NULL)
				buf_addc(&text, *at);
		ok = base64_decode(&der, buf_str(&text), text.len) == 0 && der.len > 2 && der.p[0] == 0x30;
		buf_release(&text);
		buf_release(&der);
		if (!ok)
			return err_set(e, ERR_INVALID, "caBundle: certificate %zu is no PEM", found + 1);
		at = end;
	}
	return found > 0 ? 0 : err_set(e, ERR_INVALID, "caBundle holds no certificate in PEM");
}

/* The system's bundle, links resolved. */
static void bundle_path(const char *root, char out[PATH_MAX])
{
	static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem" };
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(path, sizeof path, "%s%s", root, places[i]);
		if (realpath(path, out) != NULL)
			return;
	}
	snprintf(out, PATH_MAX, "%s%s", root, places[0]);
}

/* The bundle without what we had added, and with ours at its end. */
static void join(const struct buf *bundle, const struct buf *before, const struct buf *ours, struct buf *out)
{
	const char *text = buf_str(bundle), *hit = before->len > 0 ? memmem(text, bundle->len, before->p, before->len) : NULL;
	size_t head = hit != NULL ? (size_t)(hit - text) : bundle->len, tail = hit != NULL ? head + before->len : bundle->len;

	buf_add(out, text, head);
	buf_add(out, text + tail, bundle->len - tail);
	if (out->len > 0 && out->p[out->len - 1] != '\n')
		buf_addc(out, '\n');
	buf_add(out, ours->p, ours->len);
}

static int install(const char *root, const struct buf *ours, struct err *e)
{
	char path[PATH_MAX], file[PATH_MAX];
	struct buf bundle, before, all;
	int rc = 0;

	bundle_path(root, path);
	snprintf(file, sizeof file, "%s" OURS, root);
	buf_init(&bundle, FILE_BYTES);
	buf_init(&before, FILE_BYTES);
	buf_init(&all, 2 * (size_t)FILE_BYTES);
	if ((read_file(path, &bundle) < 0 && errno != ENOENT) || (read_file(file, &before) < 0 && errno != ENOENT))
		rc = err_sys(e, "caBundle: %.200s", path);
	join(&bundle, &before, ours, &all);
	if (rc == 0 && buf_failed(&all))
		rc = err_set(e, ERR_INTERNAL, "caBundle: out of memory");
	/* the bundle first: what is in our file is known to be in it */
	if (rc == 0 && (replace_file(path, &all) < 0 || replace_file(file, ours) < 0))
		rc = err_sys(e, "caBundle: %.200s", path);
	buf_release(&bundle);
	buf_release(&before);
	buf_release(&all);
	return rc;
}

int host_trust(const char *root, const char *pem, struct err *e)
{
	struct buf ours;
	int rc;

	if (check_pem(pem, e) < 0)
		return -1;
	buf_init(&ours, FILE_BYTES);
	buf_adds(&ours, pem);
	if (pem[strlen(pem) - 1] != '\n')
		buf_addc(&ours, '\n');
	pthread_mutex_lock(&lock);
	rc = install(root, &ours, e);
	pthread_mutex_unlock(&lock);
	buf_release(&ours);
	return rc;
}

/* ---- hyperloopIP ---- */

static bool names_events(const char *line, size_t n)
{
	const char *hit = memmem(line, n, EVENTS_HOST, strlen(EVENTS_HOST));
	const char *end = hit != NULL ? hit + strlen(EVENTS_HOST) : NULL;

	return hit != NULL && line[0] != '#' && hit > line && strchr(" \t", hit[-1]) != NULL && (end == line + n || strchr(" \t\r#", *end) != NULL);
}

bool host_is_address(const char *ip)
{
	unsigned char a[16];

	return inet_pton(AF_INET, ip, a) == 1 || inet_pton(AF_INET6, ip, a) == 1;
}

int host_events(const char *root, const char *ip, struct err *e)
{
	char path[PATH_MAX];
	struct buf was, now;
	int rc = 0;

	snprintf(path, sizeof path, "%s" HOSTS, root);
	buf_init(&was, FILE_BYTES);
	buf_init(&now, 2 * (size_t)FILE_BYTES);
	pthread_mutex_lock(&lock);
	if (read_file(path, &was) < 0 && errno != ENOENT)
		rc = -1;
	for (const char *at = buf_str(&was), *end = at + was.len; at < end;) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((nl != NULL ? nl : end) - at);

		if (!names_events(at, n)) {
			buf_add(&now, at, n);
			buf_addc(&now, '\n');
		}
		at += n + 1;
	}
	buf_addf(&now, "%s " EVENTS_HOST "\n", ip);
	/* in place: it may be a mount of its own */
	if (rc < 0 || buf_failed(&now) || write_file(path, 0, &now) < 0)
		rc = err_sys(e, "hyperloopIP: %.200s", path);
	pthread_mutex_unlock(&lock);
	buf_release(&was);
	buf_release(&now);
	return rc;
}
