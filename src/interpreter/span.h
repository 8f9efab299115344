/*
 * span.h - stretches of JSON text, looked into without building a tree: what a kernel sends goes to the client as it is (numbers of any
 * size, any depth), only made ASCII. Every function but span_check expects text that passed it.
 */
#ifndef HUTCH_INTERPRETER_SPAN_H
#define HUTCH_INTERPRETER_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include "hutch/buf.h"

struct span { const char *p; size_t n; };        /* p NULL: not there */

/* JSON (RFC 8259) that is not nested too deeply, with an object outermost. */
bool span_check(struct span s);
/* Member of an object; keys are compared as written. The last one of several counts. */
struct span span_member(struct span object, const char *key);
/* Next member of an object or element of an array; *at starts as 0. False at the end. key may be NULL for arrays. */
bool span_next(struct span s, size_t *at, struct span *key, struct span *value);
bool span_is_string(struct span s);
bool span_is_null(struct span s);
/* A string's text without its quotes, escapes as written. */
struct span span_inner(struct span s);
/* Copy of a short string without escapes; false (and "") when it is none or does not fit. */
bool span_copy(struct span s, char *out, size_t max);
/* Is it this string? */
bool span_is(struct span s, const char *text);
/* Append as pure ASCII on one line. */
void span_ascii(struct buf *b, struct span s);

#endif
