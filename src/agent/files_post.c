/* POST /files: uploads, written in place (guest.md 3.5). */
#include "config.h"

#include "files.h"
#include "strset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "hutch/io.h"

/* All that an upload takes, whatever its size. Not more: a larger write makes a file system ask for larger runs of free memory, and on a
 * machine that has been up for a while looking for them takes several times as long as the copy. */
#define BUFFER_SIZE (64 * 1024)
#define PATHS_MAX (16 << 20)         /* of all files of one request */
#define REPLY_MAX (64 << 20)

struct upload {
	struct agent *a;
	struct h1_req *r;
	struct files_query q;
	struct user user;
	struct metadata meta;
	struct body *body;
	char *buf;
	struct strset paths;         /* targets written: no two parts may have the same one */
	struct buf reply;
	struct jw w;
};

/* ---- one file ---- */

/*
 * Open the target for writing. The order of the calls is what watchers of the directory see: a new file is created, then
 * given to its owner; an old one is given first, then cut.
 */
static int open_target(struct upload *u, const char *path)
{
	struct stat st;
	int fd, made = reach_make_parents(u->a, path, u->user.uid, u->user.gid);
	bool old;

	if (made < 0)
		return files_fail_errno(u->r, "error ensuring directories of", path);
	if (made == 1)
		watch_poke(u->a);       /* a watched tree is to see the file's events, too */
	old = reach_stat(u->a, path, &st) == 0;
	if (!old && errno != ENOENT)
		return files_fail_errno(u->r, "error getting file info of", path);
	if (old && S_ISDIR(st.st_mode))
		return files_fail(u->r, 400, "path is a directory: '%.300s'", path);
	if (old && !S_ISREG(st.st_mode))
		return files_fail(u->r, 400, "path is not a regular file: '%.300s'", path);
	if (old && reach_chown(u->a, path, u->user.uid, u->user.gid) < 0)
		return files_fail_errno(u->r, "error changing the owner of", path);
	fd = reach_open(u->a, path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY, 0666);
	if (fd < 0)
		return files_fail_errno(u->r, "error opening file", path);
	if (!old && fchown(fd, u->user.uid, u->user.gid) < 0) {
		files_fail_errno(u->r, "error changing the owner of", path);
		close(fd);
		return -1;
	}
	return fd;
}

static int fail_body(struct upload *u, const struct err *e)
{
	const char *why = body_error(u->body);

	return files_fail(u->r, 400, "error reading the request body: %s", why != NULL ? why : e->text);
}

/* Uses errno. */
static int fail_write(struct upload *u, const char *path)
{
	const int why = errno;
	char text[201];

	snprintf(text, sizeof text, "%s", path);
	if (why == ENOSPC || why == EDQUOT)
		journal_add(&u->a->journal, "error", "The disk is full: a file cannot be written", (const struct journal_field[]){ { "path", text }, { 0 } });
	errno = why;
	return files_fail_errno(u->r, "error writing file", path);
}

/* Bytes of the current file: their number at *p, 0 at its end, -1 with e or body_error. */
typedef ssize_t next_bytes(struct upload *u, void *source, const char **p, struct err *e);

static int copy(struct upload *u, int fd, const char *path, next_bytes *next, void *source)
{
	struct err e = { .text = "" };
	const char *p;
	ssize_t n;

	while ((n = next(u, source, &p, &e)) > 0)
		if (write_all(fd, p, (size_t)n) < 0)
			return fail_write(u, path);
	return n < 0 ? fail_body(u, &e) : 0;
}

static void reply_entry(struct upload *u, const char *path)
{
	size_t n;
	const char *base = path_base(path, &n);

	jw_open(&u->w, '{');
	jw_kstr(&u->w, "path", path);
	jw_key(&u->w, "name");
	jw_strn(&u->w, base, n);
	jw_kstr(&u->w, "type", "file");
	metadata_member(&u->w, path);
	jw_close(&u->w, '}');
}

static int store(struct upload *u, const char *path, next_bytes *next, void *source)
{
	int fd = open_target(u, path), rc;

	if (fd < 0)
		return -1;
	rc = copy(u, fd, path, next, source);
	if (rc == 0 && metadata_set(fd, &u->meta) < 0)
		rc = files_fail_errno(u->r, "error storing metadata of", path);
	if (close(fd) < 0 && rc == 0)   /* some file systems tell of a full quota only here */
		rc = fail_write(u, path);
	if (rc == 0)
		reply_entry(u, path);
	return rc;
}

/* ---- application/octet-stream ---- */

static ssize_t next_raw(struct upload *u, void *source, const char **p, struct err *e)
{
	(void)source;
	(void)e;
	*p = u->buf;
	return body_fill(u->body, u->buf, BUFFER_SIZE);
}

static int upload_raw(struct upload *u)
{
	char path[PATH_MAX];
	struct err e;

	if (!u->q.has_path || u->q.path[0] == '\0')
		return files_fail(u->r, 400, "path is required with content type application/octet-stream");
	if (path_resolve(u->a, &u->user, u->q.path, path, &e) < 0)
		return files_fail(u->r, 400, "%s", e.text);
	return store(u, path, next_raw, NULL);
}

/* ---- multipart ---- */

static ssize_t next_of_part(struct upload *u, void *source, const char **p, struct err *e)
{
	(void)u;
	return multipart_data(source, p, e);
}

static int upload_part(struct upload *u, struct multipart *m, const struct multipart_part *part)
{
	char path[PATH_MAX];
	struct err e;
	int rc;

	if (path_resolve(u->a, &u->user, u->q.has_path ? u->q.path : part->filename, path, &e) < 0)
		return files_fail(u->r, 400, "%s", e.text);
	rc = strset_add(&u->paths, path);
	if (rc == 0)
		return files_fail(u->r, 400, "two files of one request have the same path '%.300s'; only the first was written", path);
	if (rc < 0)
		return files_fail(u->r, 413, "too many files in one request");
	return store(u, path, next_of_part, m);
}

static int upload_multipart(struct upload *u, struct h1_span type)
{
	char boundary[BOUNDARY_MAX + 1];
	struct multipart_part *part;
	struct multipart m;
	struct err e;
	int rc;

	if (multipart_boundary(type, boundary, &e) < 0)
		return files_fail(u->r, 400, "%s", e.text);
	part = malloc(sizeof *part);
	if (part == NULL)
		return files_fail(u->r, 500, "out of memory");
	multipart_init(&m, boundary, u->buf, BUFFER_SIZE, body_fill, u->body);
	while ((rc = multipart_next(&m, part, &e)) == 1) {
		if (strcmp(part->name, "file") == 0 && upload_part(u, &m, part) < 0) {
			free(part);
			return -1;
		}
	}
	free(part);
	return rc < 0 ? fail_body(u, &e) : 0;
}

/* ---- */

/* 0 with *gzip, or -1: an encoding that is not known. */
static int content_encoding(struct h1_req *r, bool *gzip)
{
	const struct h1_span *v = h1_field(r->head, "Content-Encoding");

	*gzip = v != NULL && h1_span_is_nocase(*v, "gzip");
	return v == NULL || v->n == 0 || *gzip || h1_span_is_nocase(*v, "identity") ? 0 : -1;
}

static struct h1_span media_type(struct h1_span type)
{
	const char *semi = memchr(type.p, ';', type.n);

	if (semi != NULL)
		type.n = (size_t)(semi - type.p);
	while (type.n > 0 && (type.p[type.n - 1] == ' ' || type.p[type.n - 1] == '\t'))
		type.n--;
	return type;
}

static int upload_by_type(struct upload *u)
{
	const struct h1_span *type = h1_field(u->r->head, "Content-Type");
	struct h1_span media = type != NULL ? media_type(*type) : (struct h1_span){ "", 0 };

	if (media.n > 10 && strncasecmp(media.p, "multipart/", 10) == 0)
		return upload_multipart(u, *type);
	if (h1_span_is_nocase(media, "application/octet-stream"))
		return upload_raw(u);
	return files_fail(u->r, 400, "unsupported content type '%.*s': send multipart/form-data or application/octet-stream",
			  media.n < 100 ? (int)media.n : 100, media.p);
}

/* All that is checked before the first byte of the body is asked for. */
static int prepare(struct upload *u)
{
	struct err e;
	bool gzip;

	if (files_query(u->r, &u->q) < 0 || files_authorize(u->a, u->r, &u->q, "write") < 0 ||
	    files_user(u->a, u->r, u->q.has_username ? u->q.username : NULL, &u->user) < 0)
		return -1;
	if (content_encoding(u->r, &gzip) < 0)
		return files_fail(u->r, 400, "unsupported content encoding, supported: [identity, gzip]");
	if (metadata_read(&u->meta, u->r->head, &e) < 0)
		return files_fail(u->r, 400, "%s", e.text);
	u->body = body_new(u->r, gzip);
	u->buf = malloc(BUFFER_SIZE);
	return u->body != NULL && u->buf != NULL ? 0 : files_fail(u->r, 500, "out of memory");
}

static void upload_release(struct upload *u)
{
	if (u->body != NULL)
		body_free(u->body);
	metadata_release(&u->meta);
	strset_release(&u->paths);
	buf_release(&u->reply);
	free(u->buf);
	free(u);
}

void files_post(struct agent *a, struct h1_req *r)
{
	struct upload *u = calloc(1, sizeof *u);        /* too big for a small stack */

	if (u == NULL) {
		files_fail(r, 500, "out of memory");
		return;
	}
	u->a = a;
	u->r = r;
	strset_init(&u->paths, PATHS_MAX);
	buf_init(&u->reply, REPLY_MAX);
	jw_init(&u->w, &u->reply);
	jw_open(&u->w, '[');
	if (prepare(u) == 0 && upload_by_type(u) == 0) {
		jw_close(&u->w, ']');
		watch_poke(a);
		if (buf_failed(&u->reply))
			files_fail(r, 413, "too many files in one request");
		else
			h1_reply(r, 200, "application/json", NULL, u->reply.p, u->reply.len);
	}
	upload_release(u);
}
