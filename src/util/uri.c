#include "hutch/uri.h"

#include <string.h>

#include "hutch/crypto.h"

/* One decoded byte at s.p[*i], which moves on; -1 for a bad escape or NUL. */
static int decode_one(struct uri_span s, size_t *i, bool form)
{
	char ch = s.p[(*i)++];
	int hi, lo;

	if (ch == '+' && form)
		return ' ';
	if (ch != '%')
		return ch != '\0' ? (unsigned char)ch : -1;
	if (s.n - *i < 2 || (hi = hex_value(s.p[*i])) < 0 || (lo = hex_value(s.p[*i + 1])) < 0)
		return -1;
	*i += 2;
	return hi * 16 + lo != 0 ? hi * 16 + lo : -1;
}

static ssize_t decode(struct uri_span s, bool form, char *out, size_t max)
{
	size_t n = 0;

	if (max == 0)
		return -1;
	for (size_t i = 0; i < s.n;) {
		int ch = decode_one(s, &i, form);

		if (ch < 0 || n + 1 >= max)
			return -1;
		out[n++] = (char)ch;
	}
	out[n] = '\0';
	return (ssize_t)n;
}

ssize_t path_decode(const char *s, size_t n, char *out, size_t max)
{
	return decode((struct uri_span){ s, n }, false, out, max);
}

ssize_t form_decode(const char *s, size_t n, char *out, size_t max)
{
	return decode((struct uri_span){ s, n }, true, out, max);
}

/* ---- query ---- */

/* Does s, decoded, equal name? */
static bool decodes_to(struct uri_span s, const char *name)
{
	size_t i = 0;

	while (i < s.n) {
		int ch = decode_one(s, &i, true);

		if (ch < 0 || ch != (unsigned char)*name++)
			return false;
	}
	return *name == '\0';
}

int query_next(struct uri_span *query, const char *name, char *out, size_t max)
{
	while (query->n != 0) {
		const char *amp = memchr(query->p, '&', query->n);
		size_t n = amp != NULL ? (size_t)(amp - query->p) : query->n;
		const char *eq = memchr(query->p, '=', n);
		struct uri_span key = { query->p, eq != NULL ? (size_t)(eq - query->p) : n };
		struct uri_span value = { key.p + key.n, 0 };

		if (eq != NULL)
			value = (struct uri_span){ eq + 1, n - key.n - 1 };
		n += amp != NULL;
		*query = (struct uri_span){ query->p + n, query->n - n };
		if (decodes_to(key, name))
			return decode(value, true, out, max) < 0 ? -1 : 1;
	}
	return 0;
}

/* ---- routes ---- */

bool uri_match(const char *pattern, struct uri_span path, struct uri_params *params)
{
	const char *p = path.p, *end = path.p + path.n;

	params->n = 0;
	while (*pattern != '\0' && p < end) {
		const char *slash;
		struct uri_span segment = { p, 0 };

		if (*pattern != ':') {
			if (*pattern++ != *p++)
				return false;
			continue;
		}
		slash = memchr(p, '/', (size_t)(end - p));
		segment.n = (size_t)((slash != NULL ? slash : end) - p);
		if (segment.n == 0 || params->n == URI_PARAMS_MAX)
			return false;
		params->at[params->n++] = segment;
		p += segment.n;
		pattern += strcspn(pattern, "/");
	}
	return *pattern == '\0' && p == end;
}

const void *uri_route(const void *table, size_t rows, size_t size, struct uri_span method, struct uri_span path,
		      struct uri_params *params, struct buf *allow)
{
	buf_reset(allow);
	for (size_t i = 0; i < rows; i++) {
		const char *const *row = (const void *)((const char *)table + i * size);

		if (!uri_match(row[1], path, params))
			continue;
		if (strlen(row[0]) == method.n && memcmp(row[0], method.p, method.n) == 0) {
			buf_reset(allow);
			return row;
		}
		if (allow->len > 0)
			buf_adds(allow, ", ");
		buf_adds(allow, row[0]);
	}
	return NULL;
}
