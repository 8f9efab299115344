/*
 * memory_request.h - a request whose body is bytes in memory: what reads it by h1_read() can be fuzzed without a socket.
 * Replies go nowhere.
 */
#ifndef HUTCH_TESTS_MEMORY_REQUEST_H
#define HUTCH_TESTS_MEMORY_REQUEST_H

#include <string.h>

#include "conn.h"

struct memory_request {
	struct h1_server server;
	struct conn conn;
};

/* head and body must outlive m. chunked: the body is as it came over the wire, else it is all of the content. */
static inline struct h1_req *memory_request(struct memory_request *m, const char *body, size_t n, bool chunked)
{
	struct conn *c = &m->conn;

	memset(m, 0, sizeof *m);
	c->server = &m->server;
	c->fd = -1;
	c->req = (struct h1_req){ .head = &c->head, .fd = -1, .conn = c };
	c->head.minor = 1;
	c->head.chunked = chunked;
	c->head.length = chunked ? -1 : (int64_t)n;
	c->rest = body;
	c->rest_n = n;
	conn_body_start(c);
	return &c->req;
}

#endif
