/* Query parameters as handlers read them. */
#include "hutch/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int call_query_next(const char **at, const char *name, char *out, size_t max, struct err *e)
{
	struct uri_span rest = { *at, strlen(*at) };
	int got = query_next(&rest, name, out, max);

	*at = rest.p;
	return got < 0 ? err_set(e, ERR_INVALID, "query parameter %s is malformed or longer than %zu bytes", name, max - 1) : got;
}

int call_query(const struct call *c, const char *name, char *out, size_t max, struct err *e)
{
	const char *at = c->query;

	return call_query_next(&at, name, out, max, e);
}

int call_query_int(const struct call *c, const char *name, int64_t min, int64_t max, int64_t *out, struct err *e)
{
	char text[24], *end = NULL;
	int got = call_query(c, name, text, sizeof text, e);
	long long v;

	if (got < 1)
		return got;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || strchr("+ \t\n\v\f\r", text[0]) != NULL || v < min || v > max)
		return err_set(e, ERR_INVALID, "query parameter %s must be an integer from %lld to %lld", name,
			       (long long)min, (long long)max);
	*out = v;
	return 1;
}
