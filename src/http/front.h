/*
 * front.h - what the two front ends share. A front end fills a struct call from its environment, hands over a function
 * that reads the body, and writes head and body of the reply.
 */
#ifndef HUTCH_HTTP_FRONT_H
#define HUTCH_HTTP_FRONT_H

#include <pthread.h>
#include <stdatomic.h>
#include "hutch/call.h"

#define URI_MAX 16384

struct front {
	const char *name;
	struct config conf;
	const struct route *table;   /* NULL: raw answers every request */
	size_t rows;
	void (*raw)(struct call *c);
	bool body_ends;              /* a body without a length has an end mark (FastCGI) */
	pthread_mutex_t lock;        /* of the opening of domain */
	atomic_bool open;
	struct domain domain;
};

/* Up to n bytes of the request body: > 0, 0 at its end, -1 when it broke off. */
typedef ssize_t body_reader(struct call *c, void *p, size_t n);

/* Everything between environment and reply; `path` is the thread's own room for the path (URI_MAX bytes). */
void front_serve(struct front *f, struct call *c, char *path, body_reader *read_body);
/* Status line (CGI style) and header fields of the reply, up to and with the empty line. */
void front_head(const struct call *c, struct buf *head);
/* May the body of this reply be sent? (not with HEAD and 204) */
bool front_has_body(const struct call *c);

/* One request from the process's environment, descriptors 0 and 1. Exit status. */
int cgi_run(struct front *f);
/* Serve the listening socket on descriptor 0 with that many threads until SIGTERM or SIGINT. Exit status. */
int fcgi_run(struct front *f, int threads);

#endif
