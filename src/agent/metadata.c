/* File metadata: request fields X-Metadata-KEY, kept as extended attributes user.e2b.KEY (guest.md 3.5). */
#include "config.h"

#include "files.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/xattr.h>

#include "hutch/log.h"

#define FIELD_PREFIX "x-metadata-"
#define ATTR_PREFIX "user.e2b."
#define KEY_MAX (255 - (sizeof ATTR_PREFIX - 1))     /* XATTR_NAME_MAX */
#define TOTAL_MAX 4096
#define LIST_MAX 65536       /* XATTR_LIST_MAX */

static bool printable(struct h1_span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return true;
}

static bool has_key(const struct metadata *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->pairs[i].key, key) == 0)
			return true;
	return false;
}

static int add_pair(struct metadata *m, struct h1_span key, struct h1_span value, struct err *e)
{
	struct meta_pair *p = &m->pairs[m->n];

	if (key.n == 0)
		return err_set(e, ERR_INVALID, "metadata key is empty");
	if (key.n > KEY_MAX)
		return err_set(e, ERR_INVALID, "metadata key '%.*s...' is longer than %zu bytes", 32, key.p, KEY_MAX);
	if (!printable(key))
		return err_set(e, ERR_INVALID, "metadata key holds a byte that is not printable ASCII");
	if (!printable(value))
		return err_set(e, ERR_INVALID, "metadata value of '%.*s' holds a byte that is not printable ASCII", (int)key.n, key.p);
	p->key = strndup(key.p, key.n);
	p->value = strndup(value.p, value.n);
	if (p->key == NULL || p->value == NULL) {
		free(p->key);
		free(p->value);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	for (char *c = p->key; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	if (has_key(m, p->key)) {       /* the first one counts */
		free(p->key);
		free(p->value);
		return 0;
	}
	m->n++;
	return 0;
}

int metadata_read(struct metadata *m, const struct h1_head *head, struct err *e)
{
	const size_t skip = sizeof FIELD_PREFIX - 1;
	size_t total = 0;

	m->n = 0;
	for (size_t i = 0; i < head->nfields; i++) {
		const struct h1_field *f = &head->fields[i];

		if (f->name.n < skip || strncasecmp(f->name.p, FIELD_PREFIX, skip) != 0)
			continue;
		if (add_pair(m, (struct h1_span){ f->name.p + skip, f->name.n - skip }, f->value, e) < 0)
			return -1;
	}
	for (size_t i = 0; i < m->n; i++)
		total += sizeof ATTR_PREFIX - 1 + strlen(m->pairs[i].key) + strlen(m->pairs[i].value);
	if (total > TOTAL_MAX)
		return err_set(e, ERR_INVALID, "metadata takes %zu bytes; at most %d are kept", total, TOTAL_MAX);
	return 0;
}

void metadata_release(struct metadata *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->pairs[i].key);
		free(m->pairs[i].value);
	}
	m->n = 0;
}

static bool unsupported(int err)
{
	return err == ENOTSUP || err == EOPNOTSUPP || err == ENOSYS;
}

/* Remove what m does not have. */
static int remove_stale(int fd, const struct metadata *m, const char *list, size_t len)
{
	for (size_t at = 0; at < len; at += strlen(list + at) + 1) {
		const char *name = list + at;

		if (strncmp(name, ATTR_PREFIX, sizeof ATTR_PREFIX - 1) != 0 || has_key(m, name + sizeof ATTR_PREFIX - 1))
			continue;
		if (fremovexattr(fd, name) < 0 && errno != ENODATA)
			return -1;
	}
	return 0;
}

static int set_pair(int fd, const struct meta_pair *p)
{
	char name[256] = ATTR_PREFIX, was[TOTAL_MAX];
	size_t n = strlen(p->value);
	ssize_t got;

	strncat(name, p->key, KEY_MAX);
	got = fgetxattr(fd, name, was, sizeof was);
	if (got >= 0 && (size_t)got == n && memcmp(was, p->value, n) == 0)
		return 0;       /* watchers would see a change */
	return fsetxattr(fd, name, p->value, n, 0);
}

static int replace(int fd, const struct metadata *m)
{
	ssize_t len = flistxattr(fd, NULL, 0);
	char *list = NULL;
	int rc = len < 0 ? -1 : 0, saved;

	if (len > 0) {          /* most files have none: no memory */
		list = malloc(LIST_MAX);
		len = list != NULL ? flistxattr(fd, list, LIST_MAX) : -1;
		rc = len < 0 ? -1 : remove_stale(fd, m, list, (size_t)len);
	}
	for (size_t i = 0; rc == 0 && i < m->n; i++)
		rc = set_pair(fd, &m->pairs[i]);
	saved = errno;
	free(list);
	errno = saved;
	return rc;
}

int metadata_set(int fd, const struct metadata *m)
{
	if (replace(fd, m) == 0)
		return 0;
	if (!unsupported(errno))
		return -1;
	if (m->n != 0)
		log_warn("file metadata is not kept: the file system has no extended attributes");
	return 0;
}

static void one_member(struct jw *w, const char *path, const char *name, bool *opened)
{
	char value[TOTAL_MAX];
	const char *key = name + sizeof ATTR_PREFIX - 1;
	ssize_t n = getxattr(path, name, value, sizeof value);

	if (n < 0 || !utf8_valid(value, (size_t)n) || !utf8_valid(key, strlen(key)))
		return;
	if (!*opened) {
		jw_key(w, "metadata");
		jw_open(w, '{');
		*opened = true;
	}
	jw_key(w, key);
	jw_strn(w, value, (size_t)n);
}

void metadata_member(struct jw *w, const char *path)
{
	ssize_t len = listxattr(path, NULL, 0);
	bool opened = false;
	char *list;

	if (len <= 0 || (list = malloc(LIST_MAX)) == NULL)
		return;
	len = listxattr(path, list, LIST_MAX);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(list + at) + 1)
		if (strncmp(list + at, ATTR_PREFIX, sizeof ATTR_PREFIX - 1) == 0)
			one_member(w, path, list + at, &opened);
	if (opened)
		jw_close(w, '}');
	free(list);
}
