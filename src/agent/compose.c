/* POST /files/compose: many files become one (guest.md 3.6). */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/io.h"

#define BODY_MAX (4 << 20)
#define SOURCES_MAX 10000
#define COPY_SIZE 65536

struct compose {
	struct agent *a;
	struct h1_req *r;
	struct user user;
	char dest[PATH_MAX], temp[PATH_MAX];
	char **sources;
	size_t n;
};

/* One name of one file, however it is written. Else the new destination would be removed as a source of it. */
static bool same_name(const char *a, const char *b)
{
	size_t an, bn;
	const char *abase = path_base(a, &an), *bbase = path_base(b, &bn);
	char adir[PATH_MAX], bdir[PATH_MAX];
	struct stat as, bs;

	if (an != bn || memcmp(abase, bbase, an) != 0)
		return false;
	snprintf(adir, sizeof adir, "%.*s.", (int)(abase - a), a);
	snprintf(bdir, sizeof bdir, "%.*s.", (int)(bbase - b), b);
	return stat(adir, &as) == 0 && stat(bdir, &bs) == 0 && as.st_dev == bs.st_dev && as.st_ino == bs.st_ino;
}

static int add_source(struct compose *c, json_object *v)
{
	const char *s = json_object_get_string(v);
	char path[PATH_MAX];
	struct stat st;
	struct err e;

	if (!json_object_is_type(v, json_type_string) || strlen(s) != (size_t)json_object_get_string_len(v))
		return files_fail(c->r, 400, "source_paths must be an array of strings");
	if (path_resolve(c->a, &c->user, s, path, &e) < 0)
		return files_fail(c->r, 400, "source_paths: %s", e.text);
	if (same_name(path, c->dest))
		return files_fail(c->r, 400, "source path '%.300s' cannot be the same as destination", s);
	if (stat(path, &st) < 0)
		return files_fail(c->r, 404, "source file not found: '%.300s'", s);
	if (!S_ISREG(st.st_mode))
		return files_fail(c->r, 400, "source path is not a regular file: '%.300s'", s);
	c->sources[c->n] = strdup(path);
	if (c->sources[c->n] == NULL)
		return files_fail(c->r, 500, "out of memory");
	c->n++;
	return 0;
}

static int read_request(struct compose *c, json_object *in)
{
	const char *dest = NULL, *username = NULL;
	json_object *list = NULL;
	struct err e;
	size_t n;

	if (json_get_arr(in, "source_paths", &list, &e) < 0 || json_get_str(in, "destination", PATH_MAX - 1, &dest, &e) < 0 ||
	    json_get_str(in, "username", 255, &username, &e) < 0)
		return files_fail(c->r, 400, "invalid request body: %s", e.text);
	n = list != NULL ? json_object_array_length(list) : 0;
	if (n == 0)
		return files_fail(c->r, 400, "source_paths must not be empty");
	if (n > SOURCES_MAX)
		return files_fail(c->r, 400, "source_paths has more than %d entries", SOURCES_MAX);
	if (dest == NULL || *dest == '\0')
		return files_fail(c->r, 400, "destination is required");
	if (files_user(c->a, c->r, username, &c->user) < 0)
		return -1;
	if (path_resolve(c->a, &c->user, dest, c->dest, &e) < 0)
		return files_fail(c->r, 400, "destination: %s", e.text);
	c->sources = calloc(n, sizeof *c->sources);
	if (c->sources == NULL)
		return files_fail(c->r, 500, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (add_source(c, json_object_array_get_idx(list, i)) < 0)
			return -1;
	return 0;
}

/* From here on functions return -1 with errno; *what and *where say at what and with which file. */

static int copy_plain(int to, int from)
{
	char *p = malloc(COPY_SIZE);
	ssize_t n = -1;

	while (p != NULL && (n = read(from, p, COPY_SIZE)) > 0) {
		if (write_all(to, p, (size_t)n) < 0) {
			free(p);
			return -1;
		}
	}
	free(p);
	return n < 0 ? -1 : 0;
}

static int append(int to, const char *path)
{
	int from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), saved, rc = 0;
	bool first = true;
	ssize_t n;

	if (from < 0)
		return -1;
	while ((n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0)) > 0)
		first = false;
	/* Between file systems, or from /proc (which says "end" at once): the long way. */
	if (first && (n == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
		rc = copy_plain(to, from);
	else
		rc = n < 0 ? -1 : 0;
	saved = errno;
	close(from);
	errno = saved;
	return rc;
}

static int build(struct compose *c, int fd, const char **what, const char **where)
{
	*what = "error changing the owner of";
	*where = c->temp;
	if (fchown(fd, c->user.uid, c->user.gid) < 0)
		return -1;
	*what = "error composing source";
	for (size_t i = 0; i < c->n; i++) {
		*where = c->sources[i];
		if (append(fd, c->sources[i]) < 0)
			return -1;
	}
	*what = "error writing file";
	*where = c->temp;
	return 0;
}

/* The old destination stays until the new one is complete. */
static int compose(struct compose *c, const char **what, const char **where)
{
	int fd, rc, saved;

	*where = c->dest;
	*what = "error ensuring directories of";
	if (make_parents(c->dest, c->user.uid, c->user.gid) < 0)
		return -1;
	*what = "error creating destination file";
	fd = open(c->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	rc = build(c, fd, what, where);
	saved = errno;
	if (close(fd) < 0 && rc == 0) {
		rc = -1;
		saved = errno;
	}
	if (rc == 0 && rename(c->temp, c->dest) < 0) {
		*what = "error replacing";
		*where = c->dest;
		rc = -1;
		saved = errno;
	}
	if (rc < 0)
		unlink(c->temp);
	errno = saved;
	return rc;
}

static void reply(struct compose *c)
{
	struct buf b;
	struct jw w;
	size_t n;
	const char *base = path_base(c->dest, &n);

	buf_init(&b, 64 * 1024);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "path", c->dest);
	jw_key(&w, "name");
	jw_strn(&w, base, n);
	jw_kstr(&w, "type", "file");
	metadata_member(&w, c->dest);
	jw_close(&w, '}');
	h1_reply(c->r, 200, "application/json", NULL, buf_str(&b), b.len);
	buf_release(&b);
}

static void run(struct compose *c)
{
	const char *what, *where;
	char id[17];
	int n;

	random_id(id, 16);
	n = snprintf(c->temp, sizeof c->temp, "%s.compose.%s.tmp", c->dest, id);
	if (n < 0 || (size_t)n >= sizeof c->temp) {
		files_fail(c->r, 400, "destination is too long");
		return;
	}
	if (compose(c, &what, &where) < 0) {
		files_fail_errno(c->r, what, where);
		return;
	}
	for (size_t i = 0; i < c->n; i++)
		unlink(c->sources[i]);
	watch_poke(c->a);
	reply(c);
}

void files_compose(struct agent *a, struct h1_req *r)
{
	struct compose *c = calloc(1, sizeof *c);
	json_object *in = NULL;
	struct buf body;
	struct err e;

	buf_init(&body, BODY_MAX);
	if (c == NULL) {
		files_fail(r, 500, "out of memory");
		return;
	}
	c->a = a;
	c->r = r;
	if (h1_read_all(r, &body, &e) < 0)
		files_fail(r, e.kind == ERR_TOO_LARGE ? 413 : 400, "invalid request body: %s", e.text);
	else if (json_read_object(buf_str(&body), body.len, &in, &e) < 0)
		files_fail(r, 400, "invalid request body: %s", e.text);
	else if (read_request(c, in) == 0)
		run(c);
	json_object_put(in);
	buf_release(&body);
	for (size_t i = 0; i < c->n; i++)
		free(c->sources[i]);
	free(c->sources);
	free(c);
}
