#include "config.h"

#include "hutch/h1.h"

static struct uri_span of(struct h1_span s)
{
	return (struct uri_span){ s.p, s.n };
}

int h1_query_get(struct h1_span query, const char *name, char *out, size_t max)
{
	struct uri_span q = of(query);

	return query_next(&q, name, out, max);
}

const void *h1_route(const struct h1_head *head, const void *table, size_t rows, size_t size, struct uri_params *params, struct buf *allow)
{
	return uri_route(table, rows, size, of(head->method), of(head->path), params, allow);
}
