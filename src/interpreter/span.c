#include "config.h"

#include "span.h"

#include <stdint.h>
#include <string.h>

#include "hutch/json.h"

#define DEPTH_MAX 512

static const char *end_of(struct span s)
{
	return s.p + s.n;
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Past the string at p. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : end;
}

/* Past the value at p. */
static const char *skip_value(const char *p, const char *end)
{
	int depth = 0;

	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
			if (depth == 0)
				return p;
			continue;
		}
		if (depth == 0 && (*p == ',' || *p == '}' || *p == ']' || *p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
			return p;
		if (*p == '{' || *p == '[')
			depth++;
		if ((*p == '}' || *p == ']') && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

bool span_check(struct span s)
{
	const char *p = s.p != NULL ? skip_space(s.p, end_of(s)) : NULL;

	return p != NULL && p < end_of(s) && *p == '{' && json_well_formed(s.p, s.n, DEPTH_MAX);
}

bool span_next(struct span s, size_t *at, struct span *key, struct span *value)
{
	const char *end = end_of(s), *p = skip_space(s.p + *at, end), *from;
	const bool object = s.n > 0 && *skip_space(s.p, end) == '{';

	if (*at == 0 && p < end)
		p = skip_space(p + 1, end);             /* the bracket */
	if (p >= end || *p == '}' || *p == ']')
		return false;
	if (*p == ',')
		p = skip_space(p + 1, end);
	if (object) {
		from = p;
		p = skip_string(p, end);
		if (key != NULL)
			*key = (struct span){ from, (size_t)(p - from) };
		p = skip_space(p, end);
		p = skip_space(p + (p < end), end);     /* the colon */
	}
	from = p;
	p = skip_value(p, end);
	*value = (struct span){ from, (size_t)(p - from) };
	*at = (size_t)(p - s.p);
	return true;
}

struct span span_inner(struct span s)
{
	return span_is_string(s) ? (struct span){ s.p + 1, s.n - 2 } : (struct span){ NULL, 0 };
}

bool span_is(struct span s, const char *text)
{
	struct span in = span_inner(s);

	return in.p != NULL && in.n == strlen(text) && memcmp(in.p, text, in.n) == 0;
}

struct span span_member(struct span object, const char *key)
{
	struct span k, v, found = { NULL, 0 };
	size_t at = 0;

	if (object.p == NULL || skip_space(object.p, end_of(object)) == end_of(object) || *skip_space(object.p, end_of(object)) != '{')
		return found;
	while (span_next(object, &at, &k, &v))
		if (span_is(k, key))
			found = v;
	return found;
}

bool span_is_string(struct span s)
{
	return s.p != NULL && s.n >= 2 && s.p[0] == '"';
}

bool span_is_null(struct span s)
{
	return s.p == NULL || (s.n == 4 && memcmp(s.p, "null", 4) == 0);
}

bool span_copy(struct span s, char *out, size_t max)
{
	struct span in = span_inner(s);

	out[0] = '\0';
	if (in.p == NULL || in.n >= max || memchr(in.p, '\\', in.n) != NULL)
		return false;
	memcpy(out, in.p, in.n);
	out[in.n] = '\0';
	return true;
}

/* Bytes below 0x20 stand between values only, where they mean nothing: without them it is one line. */
void span_ascii(struct buf *b, struct span s)
{
	size_t from = 0, i = 0;

	while (i < s.n) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >= 0x20 && c < 0x80) {
			i++;
			continue;
		}
		buf_add(b, s.p + from, i - from);
		if (c < 0x20)
			i++;
		else
			i += json_escape_char(b, s.p + i, s.n - i);
		from = i;
	}
	buf_add(b, s.p + from, i - from);
}
