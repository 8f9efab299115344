/* GET /files: downloads (guest.md 3.4), with ranges and conditions (RFC 9110 sections 13 and 14). */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define SMALL 65536          /* read at once: the length that files of /proc and /sys report is not theirs */
#define EXTRA_MAX 16384

/* ---- what is asked ---- */

struct download {
	struct agent *a;
	struct h1_req *r;
	int fd;
	struct stat st;
	const char *path;
	const char *type;
	char sniffed[32];
	char *buf;                   /* SMALL + 1 bytes: the first ones of the file */
	size_t have;
	bool whole;                  /* buf holds all there is */
	bool gzip;
	struct buf extra;            /* header lines */
};

static struct h1_span trim(struct h1_span s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* The part of s before the first c, trimmed; s becomes what comes after it. */
static struct h1_span cut(struct h1_span *s, char c)
{
	const char *hit = s->n != 0 ? memchr(s->p, c, s->n) : NULL;
	size_t n = hit != NULL ? (size_t)(hit - s->p) : s->n;
	struct h1_span part = { s->p, n };

	n += hit != NULL;
	s->p += n;
	s->n -= n;
	return trim(part);
}

/* "q=0.5" in thousandths; anything else is 1000. */
static int weight(struct h1_span param)
{
	char text[8] = "";

	if (param.n < 3 || strncasecmp(param.p, "q=", 2) != 0)
		return 1000;
	memcpy(text, param.p + 2, param.n - 2 < sizeof text ? param.n - 2 : sizeof text - 1);
	return (int)(strtod(text, NULL) * 1000 + 0.5);
}

/* The weight of a coding in an Accept-Encoding list, or -1 if it is not named. */
static int quality(struct h1_span list, const char *coding)
{
	while (list.n > 0) {
		struct h1_span item = cut(&list, ','), name = cut(&item, ';');

		if (h1_span_is_nocase(name, coding))
			return weight(cut(&item, ';'));
	}
	return -1;
}

/* Identity whenever it will do: compressing costs more than it saves on the way to a web server. 0, or -1: nothing will do. */
static int choose_encoding(struct h1_req *r, bool must_be_identity, bool *gzip)
{
	const struct h1_span *list = h1_field(r->head, "Accept-Encoding");
	int any, identity, zipped;

	*gzip = false;
	if (list == NULL)
		return 0;
	any = quality(*list, "*");
	identity = quality(*list, "identity");
	zipped = quality(*list, "gzip");
	if (identity > 0 || (identity < 0 && any != 0))
		return 0;
	*gzip = zipped > 0 || (zipped < 0 && any > 0);
	return *gzip && !must_be_identity ? 0 : -1;
}

static bool conditional(const struct h1_head *h)
{
	static const char *const names[] = { "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since",
					     "If-Unmodified-Since" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (h1_field(h, names[i]) != NULL)
			return true;
	return false;
}

/* ---- headers ---- */

static void http_date(time_t t, char out[40])
{
	static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm;

	out[0] = '\0';
	if (gmtime_r(&t, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900)
		return;
	snprintf(out, 40, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday, tm.tm_mday,
		 months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* IMF-fixdate only; the other two forms are obsolete, and a condition that is not understood does not count. */
static int parse_date(struct h1_span s, time_t *out)
{
	char text[40], check[40];
	struct tm tm = { 0 };
	const char *end;

	if (s.n >= sizeof text)
		return -1;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	if (end == NULL || *end != '\0')
		return -1;
	*out = timegm(&tm);
	http_date(*out, check);
	return strcasecmp(text, check) == 0 ? 0 : -1;
}

static const char *type_by_name(const char *base, size_t n)
{
	static const char *const types[][2] = {
		{ "avif", "image/avif" }, { "bmp", "image/bmp" }, { "css", "text/css; charset=utf-8" },
		{ "csv", "text/csv; charset=utf-8" }, { "gif", "image/gif" }, { "gz", "application/gzip" },
		{ "htm", "text/html; charset=utf-8" }, { "html", "text/html; charset=utf-8" }, { "ico", "image/vnd.microsoft.icon" },
		{ "jpeg", "image/jpeg" }, { "jpg", "image/jpeg" }, { "js", "text/javascript; charset=utf-8" },
		{ "json", "application/json" }, { "md", "text/markdown; charset=utf-8" }, { "mjs", "text/javascript; charset=utf-8" },
		{ "mp3", "audio/mpeg" }, { "mp4", "video/mp4" }, { "pdf", "application/pdf" }, { "png", "image/png" },
		{ "svg", "image/svg+xml" }, { "tar", "application/x-tar" }, { "txt", "text/plain; charset=utf-8" },
		{ "wasm", "application/wasm" }, { "wav", "audio/x-wav" }, { "webm", "video/webm" }, { "webp", "image/webp" },
		{ "xml", "text/xml; charset=utf-8" }, { "zip", "application/zip" },
	};
	const char *dot = memrchr(base, '.', n);
	size_t len = dot != NULL ? (size_t)(base + n - dot - 1) : 0;

	for (size_t i = 0; len != 0 && i < sizeof types / sizeof types[0]; i++)
		if (strlen(types[i][0]) == len && strncasecmp(types[i][0], dot + 1, len) == 0)
			return types[i][1];
	return NULL;
}

/* Text if the first bytes hold no control character that texts do not have. */
static const char *type_by_bytes(const char *p, size_t n)
{
	if (n > 512)
		n = 512;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c <= 0x08 || c == 0x0b || (c >= 0x0e && c <= 0x1a) || (c >= 0x1c && c <= 0x1f))
			return "application/octet-stream";
	}
	return "text/plain; charset=utf-8";
}

/* Content-Disposition with the file's name as token, quoted string or RFC 8187 value. */
static void add_disposition(struct buf *b, const char *base, size_t n)
{
	bool token = n != 0, ascii = true;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)base[i];

		if (c <= 0x20 || c >= 0x7f || strchr("()<>@,;:\\\"/[]?=", c) != NULL)
			token = false;
		if (c < 0x20 || c >= 0x7f)
			ascii = false;
	}
	buf_adds(b, "Content-Disposition: inline; filename");
	buf_adds(b, !ascii ? "*=utf-8''" : token ? "=" : "=\"");
	for (size_t i = 0; i < n; i++) {
		char c = base[i];

		if (!ascii && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && strchr("-._~", c) == NULL)
			buf_addf(b, "%%%02X", (unsigned char)c);
		else if (ascii && (c == '"' || c == '\\'))
			buf_addf(b, "\\%c", c);
		else
			buf_addc(b, c);
	}
	buf_adds(b, ascii && !token ? "\"\r\n" : "\r\n");
}

static void add_headers(struct download *d)
{
	size_t n;
	const char *base = path_base(d->path, &n);
	char date[40];

	d->type = type_by_name(base, n);
	if (d->type == NULL)
		d->type = type_by_bytes(d->buf, d->have);
	add_disposition(&d->extra, base, n);
	buf_adds(&d->extra, "Vary: Accept-Encoding\r\n");
	http_date(d->st.st_mtime, date);
	if (date[0] != '\0' && d->st.st_mtime != 0)
		buf_addf(&d->extra, "Last-Modified: %s\r\n", date);
}

/* ---- conditions and ranges ---- */

/* 0: go on, else the status to answer. There are no entity tags here: only "*" matches. */
static int precondition(const struct download *d)
{
	const struct h1_head *h = d->r->head;
	const struct h1_span *v;
	time_t t;

	if ((v = h1_field(h, "If-Match")) != NULL) {
		if (!h1_span_is(*v, "*"))
			return 412;
	} else if ((v = h1_field(h, "If-Unmodified-Since")) != NULL && parse_date(*v, &t) == 0 && d->st.st_mtime > t) {
		return 412;
	}
	if ((v = h1_field(h, "If-None-Match")) != NULL)
		return h1_span_is(*v, "*") ? 304 : 0;
	if ((v = h1_field(h, "If-Modified-Since")) != NULL && parse_date(*v, &t) == 0 && d->st.st_mtime <= t)
		return 304;
	return 0;
}

static bool range_counts(const struct download *d)
{
	const struct h1_span *v = h1_field(d->r->head, "If-Range");
	time_t t;

	return v == NULL || (parse_date(*v, &t) == 0 && t == d->st.st_mtime);
}

static bool digits(const char **s, const char *end, int64_t *out)
{
	const char *from = *s;

	for (*out = 0; *s < end && **s >= '0' && **s <= '9'; ++*s)
		if (*out < INT64_MAX / 16)
			*out = *out * 10 + (**s - '0');
	return *s != from;
}

/* One range of bytes: 1 with [*from, *from + *n), 0 there is none that counts (several are not served apart), -1 unsatisfiable. */
static int parse_range(struct h1_span v, int64_t size, int64_t *from, int64_t *n)
{
	const char *s = v.p, *end = v.p + v.n;
	int64_t last;
	bool first;

	if (v.n < 6 || strncasecmp(s, "bytes=", 6) != 0)
		return 0;
	s += 6;
	first = digits(&s, end, from);
	if (s == end || *s++ != '-')
		return 0;
	if (digits(&s, end, &last)) {
		if (!first) {           /* the last n bytes */
			*from = last < size ? size - last : 0;
			if (last == 0)
				return s == end ? -1 : 0;
			last = size - 1;
		} else if (last < *from) {
			return 0;
		}
	} else if (!first) {
		return 0;
	} else {
		last = size - 1;
	}
	if (s != end)
		return 0;
	if (*from >= size)
		return -1;
	*n = (last < size - 1 ? last : size - 1) - *from + 1;
	return 1;
}

/* ---- sending ---- */

static void send_bytes(struct download *d, int status, int64_t from, int64_t n)
{
	const char *extra = buf_str(&d->extra);

	if (from + n <= (int64_t)d->have)
		h1_reply(d->r, status, d->type, extra, d->buf + from, (size_t)n);
	else
		h1_reply_file(d->r, status, d->type, extra, d->fd, from, n);
}

static ssize_t read_some(int fd, char *p, size_t n)
{
	ssize_t got;

	do
		got = read(fd, p, n);
	while (got < 0 && errno == EINTR);
	return got;
}

/* One span through the deflater (last: its end). -1: the client is gone. */
static int deflate_span(struct h1_req *r, z_stream *z, const char *p, size_t n, bool last)
{
	unsigned char out[16384];

	z->next_in = (unsigned char *)(uintptr_t)p;
	z->avail_in = (uInt)n;
	do {
		z->next_out = out;
		z->avail_out = sizeof out;
		deflate(z, last ? Z_FINISH : Z_NO_FLUSH);
		if (z->avail_out != sizeof out && h1_write(r, out, sizeof out - z->avail_out) < 0)
			return -1;
	} while (z->avail_out == 0);
	return 0;
}

/* All of the file until its end, which nobody knows in advance: buf first, then what read gives. */
static void send_stream(struct download *d)
{
	z_stream z = { 0 };
	ssize_t n = (ssize_t)d->have;
	int rc;

	if (d->gzip && deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		files_fail(d->r, 500, "out of memory");
		return;
	}
	rc = h1_begin(d->r, 200, d->type, buf_str(&d->extra));
	while (rc == 0 && n > 0) {
		rc = d->gzip ? deflate_span(d->r, &z, d->buf, (size_t)n, false) : h1_write(d->r, d->buf, (size_t)n);
		if (rc == 0)
			n = d->whole ? 0 : read_some(d->fd, d->buf, SMALL);
	}
	if (n < 0 && errno != EAGAIN)
		rc = -1;
	if (rc == 0 && d->gzip)
		rc = deflate_span(d->r, &z, NULL, 0, true);
	if (rc == 0)
		h1_end(d->r);
	else
		h1_abort(d->r);
	if (d->gzip)
		deflateEnd(&z);
}

static void send_known(struct download *d, int64_t size)
{
	const struct h1_span *range = h1_field(d->r->head, "Range");
	int64_t from = 0, n = size;
	int status = precondition(d), got;

	if (status != 0) {
		if (status == 304)
			h1_reply(d->r, 304, NULL, buf_str(&d->extra), NULL, 0);
		else
			files_fail(d->r, status, "a precondition of the request does not hold for '%.300s'", d->path);
		return;
	}
	got = range != NULL && range_counts(d) ? parse_range(*range, size, &from, &n) : 0;
	if (got < 0) {
		char line[64];

		snprintf(line, sizeof line, "Content-Range: bytes */%lld\r\n", (long long)size);
		rest_reply_error(d->r, 416, line, "the file has no such range");
		return;
	}
	buf_adds(&d->extra, "Accept-Ranges: bytes\r\n");
	if (got > 0)
		buf_addf(&d->extra, "Content-Range: bytes %lld-%lld/%lld\r\n", (long long)from, (long long)(from + n - 1), (long long)size);
	else
		n = size;
	send_bytes(d, got > 0 ? 206 : 200, got > 0 ? from : 0, n);
}

/* ---- */

/* Read the file's first bytes, or all of a small one. */
static int look(struct download *d)
{
	ssize_t n = 1;

	d->buf = malloc(SMALL + 1);
	if (d->buf == NULL)
		return files_fail(d->r, 500, "out of memory");
	if (d->st.st_size > SMALL) {
		n = read_some(d->fd, d->buf, 512);
		if (n > 0)
			d->have = (size_t)n;
		return 0;
	}
	while (n > 0 && d->have <= SMALL) {
		n = read_some(d->fd, d->buf + d->have, SMALL + 1 - d->have);
		if (n > 0)
			d->have += (size_t)n;
	}
	if (n < 0 && errno != EAGAIN)
		return files_fail_errno(d->r, "error reading file", d->path);
	d->whole = n <= 0;
	return 0;
}

static void serve_open(struct download *d)
{
	if (look(d) < 0)
		return;
	buf_init(&d->extra, EXTRA_MAX);
	add_headers(d);
	if (d->gzip)
		buf_adds(&d->extra, "Content-Encoding: gzip\r\n");
	if (d->gzip || (!d->whole && d->st.st_size <= SMALL))
		send_stream(d);
	else
		send_known(d, d->whole ? (int64_t)d->have : d->st.st_size);
	buf_release(&d->extra);
}

static int fail_open(struct h1_req *r, const char *path)
{
	if (errno == ENOENT || errno == ENOTDIR)
		return files_fail(r, 404, "path '%.300s' does not exist", path);
	return files_fail_errno(r, "error opening file", path);
}

/* Never blocks: a fifo or a device is looked at before it is opened for more. */
static int open_regular(struct download *d)
{
	if (reach_stat(d->a, d->path, &d->st) < 0)
		return fail_open(d->r, d->path);
	if (S_ISDIR(d->st.st_mode))
		return files_fail(d->r, 400, "path '%.300s' is a directory", d->path);
	if (!S_ISREG(d->st.st_mode))
		return files_fail(d->r, 400, "path '%.300s' is not a regular file", d->path);
	d->fd = reach_open(d->a, d->path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (d->fd < 0)
		return fail_open(d->r, d->path);
	if (fstat(d->fd, &d->st) < 0 || !S_ISREG(d->st.st_mode))
		return files_fail(d->r, 500, "error opening file '%.300s': it was replaced meanwhile", d->path);
	return 0;
}

static int resolve(struct agent *a, struct h1_req *r, const char *in, const char *username, char path[PATH_MAX])
{
	struct user u;
	struct err e;

	if (files_user(a, r, username, &u) < 0)
		return -1;
	if (path_resolve(a, &u, in, path, &e) < 0)
		return files_fail(r, 400, "%s", e.text);
	return 0;
}

void files_get(struct agent *a, struct h1_req *r)
{
	struct files_query q;
	char path[PATH_MAX];
	struct download d = { .a = a, .r = r, .fd = -1, .path = path };

	if (files_query(r, &q) < 0 || files_authorize(a, r, &q, "read") < 0 ||
	    resolve(a, r, q.path, q.has_username ? q.username : NULL, path) < 0)
		return;
	if (open_regular(&d) == 0) {
		if (choose_encoding(r, conditional(r->head), &d.gzip) < 0)
			files_fail(r, 406, "no acceptable encoding found, supported: [identity, gzip]");
		else
			serve_open(&d);
	}
	free(d.buf);
	if (d.fd >= 0)
		close(d.fd);
}
