/*
 * Multipart bodies (RFC 2046 section 5.1) as form uploads send them (RFC 7578): a pull parser that works in the caller's
 * buffer and hands out spans of it, so that a part of any size passes through without a copy.
 */
#include "config.h"

#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX 16384    /* of one part; a buffer holds more */

/* ---- parameters of a header value: name=token or name="quoted" (RFC 9110 section 5.6.6) ---- */

static bool token_char(char c)
{
	return c > 0x20 && c < 0x7f && strchr("()<>@,;:\\\"/[]?=", c) == NULL;
}

static void skip_space(struct h1_span *s)
{
	while (s->n > 0 && (*s->p == ' ' || *s->p == '\t')) {
		s->p++;
		s->n--;
	}
}

static void advance(struct h1_span *s, size_t n)
{
	s->p += n;
	s->n -= n;
}

/* Value of a parameter, unquoted, into out. A backslash quotes only what would need it: old browsers send C:\dir\file. */
static int param_value(struct h1_span *s, char *out, size_t max)
{
	bool quoted = s->n > 0 && *s->p == '"';
	size_t n = 0;

	if (quoted)
		advance(s, 1);
	while (s->n > 0 && (quoted ? *s->p != '"' : token_char(*s->p) || (unsigned char)*s->p > 0x7f)) {
		if (quoted && *s->p == '\\' && s->n > 1 && !token_char(s->p[1]) && (unsigned char)s->p[1] < 0x80)
			advance(s, 1);
		if (n + 1 < max)
			out[n] = *s->p;
		n++;
		advance(s, 1);
	}
	if (quoted && s->n == 0)
		return -1;
	if (quoted)
		advance(s, 1);
	out[n < max ? n : max - 1] = '\0';
	return n < max ? 0 : -1;
}

/* Next "; name=value" of s: 1, 0 at the end, -1 malformed or longer than max - 1 bytes. */
static int next_param(struct h1_span *s, struct h1_span *name, char *value, size_t max)
{
	skip_space(s);
	if (s->n == 0)
		return 0;
	if (*s->p != ';')
		return -1;
	advance(s, 1);
	skip_space(s);
	if (s->n == 0)
		return 0;       /* a ';' at the end harms nobody */
	name->p = s->p;
	while (s->n > 0 && token_char(*s->p))
		advance(s, 1);
	name->n = (size_t)(s->p - name->p);
	skip_space(s);
	if (name->n == 0 || s->n == 0 || *s->p != '=')
		return -1;
	advance(s, 1);
	skip_space(s);
	return param_value(s, value, max) < 0 ? -1 : 1;
}

/* Cut s at its first ';': the part before, without space at its end. */
static struct h1_span before_params(struct h1_span *s)
{
	const char *semi = memchr(s->p, ';', s->n);
	struct h1_span head = { s->p, semi != NULL ? (size_t)(semi - s->p) : s->n };

	advance(s, head.n);
	while (head.n > 0 && (head.p[head.n - 1] == ' ' || head.p[head.n - 1] == '\t'))
		head.n--;
	return head;
}

int multipart_boundary(struct h1_span type, char out[BOUNDARY_MAX + 1], struct err *e)
{
	char value[BOUNDARY_MAX + 1];
	struct h1_span name;
	int rc;

	before_params(&type);
	while ((rc = next_param(&type, &name, value, sizeof value)) == 1) {
		if (h1_span_is_nocase(name, "boundary") && value[0] != '\0') {
			strcpy(out, value);
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, rc < 0 ? "Content-Type: malformed parameter or a boundary of more than %d characters"
					      : "Content-Type: multipart without a boundary (1 to %d characters)", BOUNDARY_MAX);
}

/* ---- the buffer ---- */

void multipart_init(struct multipart *m, const char *boundary, char *buf, size_t cap, multipart_read *read, void *ctx)
{
	*m = (struct multipart){ .read = read, .ctx = ctx, .buf = buf, .cap = cap };
	m->delim_len = (size_t)snprintf(m->delim, sizeof m->delim, "\r\n--%s", boundary);
	/* The first delimiter has no line break before it if nothing precedes it: supply one. */
	memcpy(buf, "\r\n", 2);
	m->to = 2;
}

/* Move what is unread to the front and fill up behind it. -1 broken input. */
static int refill(struct multipart *m)
{
	ssize_t n;

	if (m->from != 0) {
		memmove(m->buf, m->buf + m->from, m->to - m->from);
		m->to -= m->from;
		m->from = 0;
	}
	if (m->eof || m->to == m->cap)
		return 0;
	n = m->read(m->ctx, m->buf + m->to, m->cap - m->to);
	if (n < 0)
		return -1;
	if ((size_t)n < m->cap - m->to)
		m->eof = true;
	m->to += (size_t)n;
	return 0;
}

static int broken(struct err *e)
{
	return err_set(e, ERR_INVALID, "malformed multipart body: it ends before its last boundary");
}

/* At least n unread bytes in the buffer, or as many as there are. */
static int need(struct multipart *m, size_t n, struct err *e)
{
	if (m->to - m->from < n && !m->eof && refill(m) < 0)
		return broken(e);
	return 0;
}

/*
 * Up to the next delimiter: *n bytes of data at *p, which the caller takes by m->from += *n. 1: the delimiter follows them,
 * 0: more data may come, -1.
 */
static int scan(struct multipart *m, const char **p, size_t *n, struct err *e)
{
	char *hit;

	if (need(m, m->delim_len + 2, e) < 0)
		return -1;
	*p = m->buf + m->from;
	hit = memmem(*p, m->to - m->from, m->delim, m->delim_len);
	if (hit != NULL) {
		*n = (size_t)(hit - *p);
		return 1;
	}
	if (m->eof)
		return broken(e);
	*n = m->to - m->from - (m->delim_len - 1);      /* the tail may be the start of a delimiter */
	return 0;
}

/*
 * m->from stands at a delimiter. 1: a part's headers follow, 0: it was the last, 2: it only looked like one
 * ("--boundary" and more text on the line), -1.
 */
static int take_delimiter(struct multipart *m, struct err *e)
{
	size_t at = m->delim_len;
	const char *p;

	if (need(m, HEADERS_MAX, e) < 0)
		return -1;
	p = m->buf + m->from;
	if (m->to - m->from >= at + 2 && memcmp(p + at, "--", 2) == 0) {
		m->from += at + 2;
		return 0;
	}
	while (at < m->to - m->from && at < HEADERS_MAX && (p[at] == ' ' || p[at] == '\t'))
		at++;           /* transport padding */
	if (m->to - m->from >= at + 2 && memcmp(p + at, "\r\n", 2) == 0) {
		m->from += at;  /* the line break stays: headers are lines after line breaks */
		return 1;
	}
	return 2;
}

/* ---- part headers ---- */

static int extended_value(const char *value, char *out, size_t max)
{
	const char *text;

	if (strncasecmp(value, "utf-8'", 6) != 0 || (text = strchr(value + 6, '\'')) == NULL)
		return -1;
	text++;
	return path_decode(text, strlen(text), out, max) < 0 ? -1 : 0;
}

static int disposition(struct h1_span v, struct multipart_part *part)
{
	char value[PATH_MAX];
	struct h1_span name;
	bool extended = false;
	int rc;

	skip_space(&v);
	if (!h1_span_is_nocase(before_params(&v), "form-data"))
		return 0;
	while ((rc = next_param(&v, &name, value, sizeof value)) == 1) {
		if (h1_span_is_nocase(name, "name")) {
			snprintf(part->name, sizeof part->name, "%.*s", (int)sizeof part->name - 1, value);
		} else if (h1_span_is_nocase(name, "filename") && !extended) {
			strcpy(part->filename, value);
			part->has_filename = true;
		} else if (h1_span_is_nocase(name, "filename*")) {      /* RFC 2231: wins */
			if (extended_value(value, part->filename, sizeof part->filename) < 0)
				return -1;
			part->has_filename = extended = true;
		}
	}
	return rc;
}

/* m->from stands at the line break before the first header line. */
static int read_headers(struct multipart *m, struct multipart_part *part, struct err *e)
{
	size_t max = m->to - m->from < HEADERS_MAX ? m->to - m->from : HEADERS_MAX;
	const char *at = m->buf + m->from, *limit = at + max;

	part->name[0] = part->filename[0] = '\0';
	part->has_filename = false;
	for (;;) {
		const char *line = at + 2, *end = memmem(line, (size_t)(limit - line), "\r\n", 2), *colon;

		if (end == NULL)
			return err_set(e, ERR_INVALID, max == HEADERS_MAX ? "a part's headers are over %d bytes"
				       : "malformed multipart body: it ends inside a part's headers (bound: %d bytes)", HEADERS_MAX);
		at = end;
		if (end == line)
			break;
		colon = memchr(line, ':', (size_t)(end - line));
		if (colon == NULL || memchr(line, '\0', (size_t)(end - line)) != NULL)
			return err_set(e, ERR_INVALID, "malformed header line in a part");
		if (h1_span_is_nocase((struct h1_span){ line, (size_t)(colon - line) }, "content-disposition") &&
		    disposition((struct h1_span){ colon + 1, (size_t)(end - colon - 1) }, part) < 0)
			return err_set(e, ERR_INVALID, "malformed Content-Disposition of a part");
	}
	/* The blank line's break may also be the one before the next delimiter, for a part of no bytes: leave it in place
	 * only then. */
	m->from = (size_t)(at - m->buf);
	if (need(m, m->delim_len + 2, e) < 0)
		return -1;
	if (m->to - m->from < m->delim_len || memcmp(m->buf + m->from, m->delim, m->delim_len) != 0)
		m->from += 2;
	return 0;
}

/* Take the delimiter at m->from: as take_delimiter, and the state follows. */
static int end_part(struct multipart *m, struct err *e)
{
	int rc = take_delimiter(m, e);

	if (rc == 0 || rc == 1) {
		m->in_part = false;
		m->at_headers = rc == 1;
		m->done = rc == 0;
	}
	return rc;
}

int multipart_next(struct multipart *m, struct multipart_part *part, struct err *e)
{
	const char *p;
	size_t n;
	int rc;

	while (!m->at_headers && !m->done) {
		rc = scan(m, &p, &n, e);
		if (rc < 0)
			return -1;
		m->from += n;
		if (rc == 0)
			continue;
		rc = end_part(m, e);
		if (rc < 0)
			return -1;
		if (rc == 2)
			m->from += 2;
	}
	if (m->done)
		return 0;
	m->at_headers = false;
	m->in_part = true;
	return read_headers(m, part, e) < 0 ? -1 : 1;
}

ssize_t multipart_data(struct multipart *m, const char **p, struct err *e)
{
	size_t n;
	int rc;

	if (!m->in_part)
		return 0;
	/* A full buffer first: a small file is to be written by one write, a big one by few. */
	if (!m->eof && m->to - m->from < m->cap / 2 && refill(m) < 0)
		return broken(e);
	rc = scan(m, p, &n, e);
	if (rc < 0)
		return -1;
	if (rc == 1 && n == 0) {
		rc = end_part(m, e);
		if (rc != 2)
			return rc < 0 ? -1 : 0;
		*p = m->buf + m->from;
		n = 2;          /* its line break is data, and the rest is looked at again */
	}
	m->from += n;
	return (ssize_t)n;
}
