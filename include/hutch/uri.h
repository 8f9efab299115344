/*
 * uri.h - the path and query of a request's target as they were sent: decoding, parameters, and which row of a route table
 * serves them (RFC 3986; WHATWG URL for forms).
 */
#ifndef HUTCH_URI_H
#define HUTCH_URI_H

#include <stddef.h>
#include <sys/types.h>
#include "hutch/buf.h"

/* Percent-decode n bytes of a path segment ('+' stays) into out, with a NUL. Length without the NUL, or -1 (bad escape, NUL
 * byte, longer than max-1). out may be s. */
ssize_t path_decode(const char *s, size_t n, char *out, size_t max);
/* The same for application/x-www-form-urlencoded text: '+' is a space. */
ssize_t form_decode(const char *s, size_t n, char *out, size_t max);

struct uri_span { const char *p; size_t n; };

/* Value of the query's next pair of that name (compared decoded), form-decoded into out; the query moves on past it.
 * 1 found, 0 none, -1 malformed or longer than max-1 bytes. */
int query_next(struct uri_span *query, const char *name, char *out, size_t max);

#define URI_PARAMS_MAX 4

/* What a path has where the pattern has ":name", as sent, in order. */
struct uri_params { struct uri_span at[URI_PARAMS_MAX]; size_t n; };

/* Does the raw path match? ":name" in the pattern takes one segment that is not empty; an encoded slash belongs to its segment. */
bool uri_match(const char *pattern, struct uri_span path, struct uri_params *params);
/* The first row that serves method and raw path, or NULL. A row is `size` bytes and begins with two members of type const char *:
 * method and pattern. allow gets the methods of the rows that match the path alone, ", " between them: empty, no row has the path. */
const void *uri_route(const void *table, size_t rows, size_t size, struct uri_span method, struct uri_span path,
		      struct uri_params *params, struct buf *allow);

#endif
