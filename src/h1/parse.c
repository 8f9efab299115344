#include "config.h"

#include "hutch/h1.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A cursor over the head. Lines end with CR LF only: a peer that also takes a bare LF or CR would see
 * other lines than we do, which is what request smuggling is made of. */
struct cursor {
	const char *p, *end;
};

static bool is_tchar(unsigned char ch)
{
	if ((ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'))
		return true;
	return ch != '\0' && strchr("!#$%&'*+-.^_`|~", ch) != NULL;
}

static bool is_token(struct h1_span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_tchar((unsigned char)s.p[i]))
			return false;
	return s.n != 0;
}

/* Next line without its CR LF. 1 got one, 0 not complete yet, -1 a control byte in it. */
static int next_line(struct cursor *c, struct h1_span *line, struct err *e)
{
	for (const char *p = c->p; p < c->end; p++) {
		unsigned char ch = (unsigned char)*p;

		if (ch == '\r') {
			if (p + 1 == c->end)
				return 0;
			if (p[1] != '\n')
				return err_set(e, ERR_INVALID, "bare CR in the request head");
			*line = (struct h1_span){ c->p, (size_t)(p - c->p) };
			c->p = p + 2;
			return 1;
		}
		if (ch == '\n')
			return err_set(e, ERR_INVALID, "line of the request head ends without CR");
		if ((ch < 0x20 && ch != '\t') || ch == 0x7f)
			return err_set(e, ERR_INVALID, "control byte in the request head");
	}
	return 0;
}

/* The part of *rest before its first `sep`, which is taken off. */
static struct h1_span cut(struct h1_span *rest, char sep)
{
	const char *at = rest->n != 0 ? memchr(rest->p, sep, rest->n) : NULL;
	struct h1_span s = *rest;

	if (at == NULL) {
		*rest = (struct h1_span){ rest->p + rest->n, 0 };
		return s;
	}
	s.n = (size_t)(at - s.p);
	*rest = (struct h1_span){ at + 1, rest->n - s.n - 1 };
	return s;
}

static struct h1_span trim(struct h1_span s)
{
	while (s.n != 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n != 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static bool starts_nocase(struct h1_span s, const char *prefix)
{
	return s.n >= strlen(prefix) && strncasecmp(s.p, prefix, strlen(prefix)) == 0;
}

/* http://authority/path?query: its authority has to agree with Host (checked once the fields are known),
 * else two readers could route one request differently. */
static void split_absolute(struct h1_head *head, struct h1_span *authority)
{
	size_t skip = starts_nocase(head->target, "https://") ? 8 : 7, n = 0;
	struct h1_span s = { head->target.p + skip, head->target.n - skip };

	while (n < s.n && s.p[n] != '/' && s.p[n] != '?')
		n++;
	*authority = (struct h1_span){ s.p, n };
	head->query = (struct h1_span){ s.p + n, s.n - n };
	head->path = cut(&head->query, '?');
	if (head->path.n == 0)
		head->path = (struct h1_span){ "/", 1 };
}

static int parse_target(struct h1_head *head, struct h1_span *authority, struct err *e)
{
	struct h1_span t = head->target;

	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] <= 0x20 || t.p[i] == '#')
			return err_set(e, ERR_INVALID, "malformed request target");
	*authority = (struct h1_span){ NULL, 0 };
	if (starts_nocase(t, "http://") || starts_nocase(t, "https://")) {
		split_absolute(head, authority);
		return 0;
	}
	if (t.n == 0 || (t.p[0] != '/' && !(h1_span_is(t, "*") && h1_span_is(head->method, "OPTIONS"))))
		return err_set(e, ERR_INVALID, "malformed request target");
	head->query = t;
	head->path = cut(&head->query, '?');
	return 0;
}

static int parse_request_line(struct h1_span line, struct h1_head *head, struct h1_span *authority, struct err *e)
{
	head->method = cut(&line, ' ');
	head->target = cut(&line, ' ');
	if (!is_token(head->method))
		return err_set(e, ERR_INVALID, "malformed request line");
	if (h1_span_is(line, "HTTP/1.1"))
		head->minor = 1;
	else if (h1_span_is(line, "HTTP/1.0"))
		head->minor = 0;
	else
		return err_set(e, ERR_INVALID, "request line must end with HTTP/1.1 or HTTP/1.0");
	return parse_target(head, authority, e);
}

static int parse_field(struct h1_span line, struct h1_head *head, struct err *e)
{
	struct h1_field *f;
	struct h1_span name;

	if (line.p[0] == ' ' || line.p[0] == '\t')
		return err_set(e, ERR_INVALID, "folded header line");
	if (memchr(line.p, ':', line.n) == NULL)
		return err_set(e, ERR_INVALID, "header line without a colon");
	name = cut(&line, ':');
	if (!is_token(name))
		return err_set(e, ERR_INVALID, "malformed header name");
	if (head->nfields == H1_FIELDS_MAX)
		return err_set(e, ERR_TOO_LARGE, "more than %d header fields", H1_FIELDS_MAX);
	f = &head->fields[head->nfields++];
	f->name = name;
	f->value = trim(line);
	return 0;
}

/* ---- what the fields mean ---- */

static int take_length(struct h1_head *head, struct h1_span v, struct err *e)
{
	int64_t n = 0;

	if (v.n == 0 || v.n > 18)
		return err_set(e, ERR_INVALID, "malformed Content-Length");
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return err_set(e, ERR_INVALID, "malformed Content-Length");
		n = n * 10 + (v.p[i] - '0');
	}
	if (head->length != -1 && head->length != n)
		return err_set(e, ERR_INVALID, "two different Content-Lengths");
	head->length = n;
	return 0;
}

static int take_encoding(struct h1_head *head, struct h1_span v, struct err *e)
{
	if (head->chunked || !h1_span_is_nocase(v, "chunked"))
		return err_set(e, ERR_INVALID, "Transfer-Encoding other than chunked");
	if (head->minor == 0)
		return err_set(e, ERR_INVALID, "Transfer-Encoding in HTTP/1.0");
	head->chunked = true;
	return 0;
}

static int take_host(struct h1_span v, const struct h1_span *authority, struct err *e)
{
	for (size_t i = 0; i < v.n; i++)
		if ((unsigned char)v.p[i] <= 0x20 || strchr("/\\@?#,\"<>", v.p[i]) != NULL)
			return err_set(e, ERR_INVALID, "malformed Host");
	if (authority->p != NULL && (authority->n != v.n || strncasecmp(authority->p, v.p, v.n) != 0))
		return err_set(e, ERR_INVALID, "Host differs from the request target");
	return 0;
}

struct connection_words {
	bool close, keep_alive, upgrade;
};

static void take_connection(struct connection_words *w, struct h1_span v)
{
	while (v.n != 0) {
		struct h1_span word = trim(cut(&v, ','));

		w->close |= h1_span_is_nocase(word, "close");
		w->keep_alive |= h1_span_is_nocase(word, "keep-alive");
		w->upgrade |= h1_span_is_nocase(word, "upgrade");
	}
}

static int derive(struct h1_head *head, const struct h1_span *authority, struct err *e)
{
	struct connection_words w = { false, false, false };
	int hosts = 0, rc = 0;

	for (size_t i = 0; i < head->nfields && rc == 0; i++) {
		struct h1_span name = head->fields[i].name, v = head->fields[i].value;

		if (h1_span_is_nocase(name, "Content-Length")) {
			rc = take_length(head, v, e);
		} else if (h1_span_is_nocase(name, "Transfer-Encoding")) {
			rc = take_encoding(head, v, e);
		} else if (h1_span_is_nocase(name, "Host")) {
			hosts++;
			rc = take_host(v, authority, e);
		} else if (h1_span_is_nocase(name, "Connection")) {
			take_connection(&w, v);
		} else if (h1_span_is_nocase(name, "Expect")) {
			head->expect_continue = head->minor == 1 && h1_span_is_nocase(v, "100-continue");
		}
	}
	if (rc < 0)
		return -1;
	if (hosts > 1 || (hosts == 0 && head->minor == 1))
		return err_set(e, ERR_INVALID, "%s Host field", hosts == 0 ? "no" : "more than one");
	if (head->chunked && head->length != -1)
		return err_set(e, ERR_INVALID, "Content-Length together with Transfer-Encoding");
	head->keep_alive = !w.close && (head->minor == 1 || w.keep_alive);
	head->upgrade = w.upgrade && h1_field(head, "Upgrade") != NULL;
	return 0;
}

ssize_t h1_parse_request(const char *buf, size_t n, struct h1_head *head, struct err *e)
{
	struct cursor c = { buf, buf + (n < H1_HEAD_MAX ? n : H1_HEAD_MAX) };
	struct h1_span line, authority = { NULL, 0 };
	int rc;

	/* not a whole memset: the field table is 4 KiB */
	memset(head, 0, offsetof(struct h1_head, fields));
	head->nfields = 0;
	head->chunked = head->keep_alive = head->expect_continue = head->upgrade = false;
	head->length = -1;
	if (n >= 2 && memcmp(buf, "\r\n", 2) == 0)      /* RFC 9112 2.2: one empty line before is ignored */
		c.p += 2;
	for (bool first = true; (rc = next_line(&c, &line, e)) == 1; first = false) {
		if (first)
			rc = parse_request_line(line, head, &authority, e);
		else if (line.n != 0)
			rc = parse_field(line, head, e);
		else
			return derive(head, &authority, e) < 0 ? -1 : c.p - buf;
		if (rc < 0)
			return -1;
	}
	if (rc == 0 && n >= H1_HEAD_MAX)
		return err_set(e, ERR_TOO_LARGE, "request head is over %d bytes", H1_HEAD_MAX);
	return rc;
}

const struct h1_span *h1_field(const struct h1_head *head, const char *name)
{
	for (size_t i = 0; i < head->nfields; i++)
		if (h1_span_is_nocase(head->fields[i].name, name))
			return &head->fields[i].value;
	return NULL;
}

bool h1_span_is(struct h1_span s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

bool h1_span_is_nocase(struct h1_span s, const char *text)
{
	return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}
