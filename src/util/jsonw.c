/* Writing JSON (RFC 8259) into a buffer. */
#include "hutch/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"

void jw_init(struct jw *w, struct buf *b)
{
	*w = (struct jw){ .b = b };
}

static void before_value(struct jw *w)
{
	if (w->comma)
		buf_addc(w->b, ',');
	w->comma = true;
}

void jw_open(struct jw *w, char bracket)
{
	before_value(w);
	buf_addc(w->b, bracket);
	w->comma = false;
}

void jw_close(struct jw *w, char bracket)
{
	buf_addc(w->b, bracket);
	w->comma = true;
}

/* Length of the well-formed UTF-8 sequence at p (RFC 3629), or 0; *cp gets the code point. */
static size_t utf8_at(const unsigned char *p, size_t n, unsigned *cp)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = p[0] < 0x80 ? 1 : (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : (p[0] & 0xf8) == 0xf0 ? 4 : 0;

	if (len == 0 || len > n)
		return 0;
	if (len == 1) {
		*cp = p[0];
		return 1;
	}
	*cp = p[0] & (0xffU >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | (p[i] & 0x3f);
	}
	if (*cp < least[len] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff))
		return 0;
	return len;
}

bool utf8_valid(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned cp;

	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_at(p + i, n - i, &cp);
		if (len == 0)
			return false;
	}
	return true;
}

static void add_u16(struct buf *b, unsigned u)
{
	static const char hex[] = "0123456789abcdef";
	char s[6] = { '\\', 'u', hex[u >> 12 & 15], hex[u >> 8 & 15], hex[u >> 4 & 15], hex[u & 15] };

	buf_add(b, s, sizeof s);
}

static void add_escaped(struct buf *b, unsigned cp)
{
	switch (cp) {
	case '"': buf_add(b, "\\\"", 2); break;
	case '\\': buf_add(b, "\\\\", 2); break;
	case '\n': buf_add(b, "\\n", 2); break;
	case '\r': buf_add(b, "\\r", 2); break;
	case '\t': buf_add(b, "\\t", 2); break;
	default:
		if (cp < 0x10000) {
			add_u16(b, cp);
		} else {
			add_u16(b, 0xd800 + ((cp - 0x10000) >> 10));
			add_u16(b, 0xdc00 + ((cp - 0x10000) & 0x3ff));
		}
	}
}

size_t json_escape_char(struct buf *b, const char *s, size_t n)
{
	unsigned cp = 0xfffd;
	size_t len = utf8_at((const unsigned char *)s, n, &cp);

	add_escaped(b, len != 0 ? cp : 0xfffd);
	return len != 0 ? len : 1;
}

/* Printable ASCII that needs no escape: nearly all there is. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Eight at a time, as nearly all text consists of them. */
static bool eight_plain(uint64_t x)
{
	const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
	const uint64_t quote = x ^ ones * '"', slash = x ^ ones * '\\', del = x ^ ones * 0x7f;

	/* a high bit in x, or left by a borrow: below 0x20, or one of the three */
	return (((x - ones * 0x20) | (quote - ones) | (slash - ones) | (del - ones) | x) & high) == 0;
}

static uint64_t load(const unsigned char *p, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, p, n);
	return x;
}

/* Bytes at the front that need no escape. */
static size_t plain_run(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i + 8 <= n && eight_plain(load(p + i, 8)))
		i += 8;
	/* the rest at once, with bytes of before */
	if (n >= 8 && i + 8 > n && eight_plain(load(p + n - 8, 8)))
		return n;
	if (n >= 4 && n < 8 && eight_plain(load(p, 4) | load(p + n - 4, 4) << 32))
		return n;
	while (i < n && is_plain(p[i]))
		i++;
	return i;
}

/* The whole value, comma and end in one step. end: what follows the quote, or 0. */
static void add_plain(struct jw *w, const char *s, size_t n, char end)
{
	char *to = buf_room(w->b, n + 2 + w->comma + (end != '\0')), *p = to;        /* not more: a buffer may be filled up to its bound */

	if (to == NULL)
		return;
	if (w->comma)
		*p++ = ',';
	*p++ = '"';
	memcpy(p, s, n);
	p += n;
	*p++ = '"';
	if (end != '\0')
		*p++ = end;
	*p = '\0';
	w->b->len += (size_t)(p - to);
	w->comma = end == '\0';
}

/* A string from its i-th byte on, which is the first that is not plain. */
static void add_rest(struct jw *w, const char *s, size_t n, size_t i)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t from = 0;

	before_value(w);
	buf_addc(w->b, '"');
	for (;;) {
		unsigned cp = 0;
		size_t len;
		bool plain;

		i += plain_run(p + i, n - i);
		if (i == n)
			break;
		len = utf8_at(p + i, n - i, &cp);
		plain = len != 0 && cp > 0x7f && !w->ascii;
		if (plain) {
			i += len;
			continue;
		}
		buf_add(w->b, s + from, i - from);
		if (len == 0) {
			buf_adds(w->b, w->ascii ? "\\ufffd" : "\xef\xbf\xbd");
			i += 1;
		} else {
			add_escaped(w->b, cp);
			i += len;
		}
		from = i;
	}
	buf_add(w->b, s + from, n - from);
	buf_addc(w->b, '"');
}

static void add_string(struct jw *w, const char *s, size_t n, char end)
{
	const size_t plain = plain_run((const unsigned char *)s, n);

	if (plain == n) {
		add_plain(w, s, n, end);
		return;
	}
	add_rest(w, s, n, plain);
	if (end != '\0')
		buf_addc(w->b, end);
	w->comma = end == '\0';
}

void jw_key(struct jw *w, const char *key)
{
	add_string(w, key, strlen(key), ':');
}

void jw_strn(struct jw *w, const char *s, size_t n)
{
	add_string(w, s, n, '\0');
}

void jw_str(struct jw *w, const char *s)
{
	if (s == NULL)
		jw_null(w);
	else
		jw_strn(w, s, strlen(s));
}

void jw_int(struct jw *w, int64_t v)
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char text[20], *p = text + sizeof text;

	before_value(w);
	do {
		*--p = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (v < 0)
		*--p = '-';
	buf_add(w->b, p, (size_t)(text + sizeof text - p));
}

void jw_dbl(struct jw *w, double v)
{
	if (!isfinite(v)) {
		jw_null(w);
		return;
	}
	before_value(w);
	buf_addf(w->b, "%.10g", v);
}

void jw_bool(struct jw *w, bool v)
{
	before_value(w);
	buf_adds(w->b, v ? "true" : "false");
}

void jw_null(struct jw *w)
{
	before_value(w);
	buf_adds(w->b, "null");
}

void jw_raw(struct jw *w, const char *json, size_t n)
{
	before_value(w);
	buf_add(w->b, json, n);
}

void jw_base64(struct jw *w, const void *p, size_t n)
{
	before_value(w);
	buf_addc(w->b, '"');
	base64_add(w->b, p, n);
	buf_addc(w->b, '"');
}

void jw_kstr(struct jw *w, const char *key, const char *s)
{
	jw_key(w, key);
	jw_str(w, s);
}

void jw_kint(struct jw *w, const char *key, int64_t v)
{
	jw_key(w, key);
	jw_int(w, v);
}

void jw_kbool(struct jw *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_bool(w, v);
}
