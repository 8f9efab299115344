#include "jsongrammar.h"

#include <stdbool.h>
#include <string.h>

struct scan {
	const char *p, *end;
	const char *why;
	size_t values, nested;
};

static bool wrong(struct scan *s, const char *why)
{
	if (s->why == NULL)
		s->why = s->p == s->end ? "it ends too early" : why;
	return false;
}

static void space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

static bool take(struct scan *s, char c)
{
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

static bool hex4(struct scan *s)
{
	for (int i = 0; i < 4; i++, s->p++)
		if (s->p == s->end || *s->p == '\0' || strchr("0123456789abcdefABCDEF", *s->p) == NULL)
			return wrong(s, "\\u needs four hex digits");
	return true;
}

static bool escape(struct scan *s)
{
	char c;

	if (s->p == s->end)
		return wrong(s, "");
	c = *s->p++;
	if (c == 'u')
		return hex4(s);
	if (c != '\0' && strchr("\"\\/bfnrt", c) != NULL)
		return true;
	s->p--;
	return wrong(s, "unknown escape in a string");
}

static bool string(struct scan *s)
{
	if (!take(s, '"'))
		return wrong(s, "a string is missing");
	while (s->p < s->end) {
		unsigned char c = (unsigned char)*s->p++;

		if (c == '"')
			return true;
		if (c == '\\' && !escape(s))
			return false;
		if (c < 0x20) {
			s->p--;
			return wrong(s, "control character in a string");
		}
	}
	return wrong(s, "");
}

static bool digits(struct scan *s)
{
	const char *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > from || wrong(s, "malformed number");
}

static bool number(struct scan *s)
{
	take(s, '-');
	if (!take(s, '0') && !digits(s))
		return false;
	if (take(s, '.') && !digits(s))
		return false;
	if (take(s, 'e') || take(s, 'E')) {
		if (!take(s, '+'))
			take(s, '-');
		return digits(s);
	}
	return true;
}

static bool word(struct scan *s, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
		return wrong(s, "unexpected character");
	s->p += n;
	return true;
}

static bool value(struct scan *s, int depth);

static bool member(struct scan *s, bool object, int depth)
{
	space(s);
	if (object) {
		if (!string(s))
			return false;
		space(s);
		if (!take(s, ':'))
			return wrong(s, "a colon is missing");
	}
	if (!value(s, depth))
		return false;
	space(s);
	return true;
}

static bool members(struct scan *s, char close, int depth)
{
	space(s);
	if (take(s, close))
		return true;
	do {
		if (!member(s, close == '}', depth))
			return false;
	} while (take(s, ','));
	return take(s, close) || wrong(s, close == '}' ? "a comma or } is missing" : "a comma or ] is missing");
}

static bool value(struct scan *s, int depth)
{
	space(s);
	if (s->p == s->end)
		return wrong(s, "");
	if (++s->values > JSON_VALUES_MAX)
		return wrong(s, "too many values");
	switch (*s->p) {
	case '{':
	case '[':
		if (depth == 0)
			return wrong(s, "nesting too deep");
		if (++s->nested > JSON_NESTED_MAX)
			return wrong(s, "too many objects and arrays");
		s->p++;
		return members(s, s->p[-1] == '{' ? '}' : ']', depth - 1);
	case '"':
		return string(s);
	case 't':
		return word(s, "true");
	case 'f':
		return word(s, "false");
	case 'n':
		return word(s, "null");
	default:
		return (*s->p == '-' || (*s->p >= '0' && *s->p <= '9')) ? number(s) : wrong(s, "unexpected character");
	}
}

const char *json_grammar(const char *text, size_t n, int depth)
{
	struct scan s = { .p = text, .end = text + n };

	if (!value(&s, depth))
		return s.why;
	space(&s);
	return s.p == s.end ? NULL : "text after the end";
}
