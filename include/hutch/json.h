/*
 * json.h - writing JSON into a struct buf, and reading requests with json-c.
 *
 * Writing: commas are kept by the writer. Strings are escaped; bytes that are not
 * UTF-8 become U+FFFD, so that output is always valid JSON text.
 * Reading: json_read() parses one strict document of at most 250,000 values; the json_get_* functions check type and
 * bounds and name the field in the error. Absent and null are equal (api.md 1).
 */
#ifndef HUTCH_JSON_H
#define HUTCH_JSON_H

#include <json-c/json.h>
#include <string.h>
#include "hutch/buf.h"
#include "hutch/err.h"

struct jw {
	struct buf *b;
	bool comma;          /* a comma is due before the next value or key */
	bool ascii;          /* write non-ASCII as \uXXXX */
};

void jw_init(struct jw *w, struct buf *b);
void jw_open(struct jw *w, char bracket);          /* '{' or '[' */
void jw_close(struct jw *w, char bracket);         /* '}' or ']' */
void jw_key(struct jw *w, const char *key);
/* The same for a literal of plain characters, written where it is called: for rows that are listed by the hundred. */
#define JW_KEY(w, key) jw_literal((w), "\"" key "\":", sizeof key + 2)
static inline void jw_literal(struct jw *w, const char *text, size_t n)
{
	const size_t need = n + w->comma;
	char *to = buf_has_room(w->b, need) ? w->b->p + w->b->len : buf_room(w->b, need), *p = to;

	if (to == NULL)
		return;
	if (w->comma)
		*p++ = ',';
	memcpy(p, text, n);
	p += n;
	*p = '\0';
	w->b->len += (size_t)(p - to);
	w->comma = false;
}
void jw_str(struct jw *w, const char *s);          /* NULL writes null */
void jw_strn(struct jw *w, const char *s, size_t n);
void jw_int(struct jw *w, int64_t v);
void jw_dbl(struct jw *w, double v);
void jw_bool(struct jw *w, bool v);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, const char *json, size_t n); /* a finished JSON value */
void jw_base64(struct jw *w, const void *p, size_t n); /* a base64 string (standard, padded) */
/* key and value in one call */
void jw_kstr(struct jw *w, const char *key, const char *s);
void jw_kint(struct jw *w, const char *key, int64_t v);
void jw_kbool(struct jw *w, const char *key, bool v);

/* Well-formed UTF-8 (RFC 3629)? */
bool utf8_valid(const char *s, size_t n);

/* Append the character at s as \uXXXX (two of them beyond U+FFFF), U+FFFD for what is no UTF-8; bytes of s that it took. n > 0. */
size_t json_escape_char(struct buf *b, const char *s, size_t n);
/* Is it one JSON text (RFC 8259) and nothing else, nested depth times at most? UTF-8 is not looked at. */
bool json_well_formed(const char *text, size_t n, int depth);

/* Parse exactly one document of n bytes (depth <= 32, nothing but white space after it).
 * The caller json_object_put()s *out. ERR_INVALID otherwise. */
int json_read(const char *text, size_t n, json_object **out, struct err *e);
/* As json_read, and the value must be an object. n == 0 gives an empty object. */
int json_read_object(const char *text, size_t n, json_object **out, struct err *e);

/* Each returns 1 if the field is there (*out set), 0 if absent or null (*out untouched),
 * -1 with ERR_INVALID naming the field. Strings are borrowed from o. */
/* As json_read_object, for the body of a request of the API (api.md 1): where a field is asked for, null is wrong, in objects within it too. */
int json_read_body(const char *text, size_t n, json_object **out, struct err *e);
/* A field that may be null is dropped then. */
void json_drop_null(json_object *o, const char *key);

int json_get_str(json_object *o, const char *key, size_t max, const char **out, struct err *e);
int json_get_int(json_object *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e);
int json_get_bool(json_object *o, const char *key, bool *out, struct err *e);
int json_get_obj(json_object *o, const char *key, json_object **out, struct err *e);
int json_get_arr(json_object *o, const char *key, json_object **out, struct err *e);
/* An object whose values are all strings. */
int json_get_strmap(json_object *o, const char *key, json_object **out, struct err *e);
/* Absent is an error too (ERR_INVALID "key is required"). */
int json_need_str(json_object *o, const char *key, size_t max, const char **out, struct err *e);
int json_need_bool(json_object *o, const char *key, bool *out, struct err *e);

#endif
