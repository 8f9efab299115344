/*
 * nodehttp.h - one HTTP call to hutch-node over its unix socket. The only code that knows libcurl.
 */
#ifndef HUTCH_NODEHTTP_H
#define HUTCH_NODEHTTP_H

#include <stdbool.h>
#include "hutch/buf.h"
#include "hutch/err.h"

struct nodehttp;

/* call_ms bounds a whole call that does not say otherwise; connecting has a second at most. */
int nodehttp_open(const char *socket_path, long call_ms, struct nodehttp **out, struct err *e);
void nodehttp_close(struct nodehttp *h);

struct node_reply {
	int status;
	const char *body;            /* the thread's buffer: valid until its next call */
	size_t len;
};

struct node_call {
	const char *method, *path;   /* path begins with '/' */
	const char *body;            /* NULL = none */
	size_t len;
	long ms;                     /* 0 = as opened with */
	/* Called once when the request has gone out and the answer is awaited, if that happens; NULL: nothing to do. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

/* -1: no complete answer; *sent tells whether the node may have acted. */
int nodehttp_call(struct nodehttp *h, const struct node_call *n, struct node_reply *r, bool *sent, struct err *e);

#endif
