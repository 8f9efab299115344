/*
 * conn.h - one connection of the HTTP/1.1 server; shared by the files of this directory only.
 */
#ifndef HUTCH_H1_CONN_H
#define HUTCH_H1_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include "hutch/chunked.h"
#include "hutch/h1.h"

#define CONN_HEAD_FIRST 4096    /* the head buffer starts at this size and grows to H1_HEAD_MAX */
#define CONN_FRAME 1024         /* chunk framing read ahead once the head buffer is used up */

struct h1_server {
	struct h1_server_opts opts;
	h1_handler *handler;
	void *ctx;
	int listen_fd;
	int stop_fd;            /* eventfd; readable for good once stopped, so idle connections end too */
	atomic_bool stopping;
	pthread_t thread;
	atomic_int connections;
	atomic_int refs;        /* the owner, each connection and each thread of one */
	/* threads that wait for a connection, and what was given to them */
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct conn *given;
	int waiting, promised;
	bool stopped;
};

enum body_state { BODY_DONE, BODY_LENGTH, BODY_CHUNKED, BODY_BROKEN };
enum reply_state { REPLY_NONE, REPLY_STREAM, REPLY_DONE, REPLY_BROKEN };

struct conn {
	struct h1_req req;
	struct h1_server *server;
	struct conn *next;      /* given and not taken yet */
	int fd;

	char *in;               /* the head (its spans point here) and what came with it */
	size_t in_len, in_cap;
	struct h1_head head;
	const char *rest;       /* bytes received and not used yet: in `in` or in `frame` */
	size_t rest_n;
	char frame[CONN_FRAME];

	enum body_state body;
	int64_t left;           /* of a BODY_LENGTH */
	struct chunked chunked;
	bool continue_due;      /* the client waits for 100 Continue */

	enum reply_state reply;
	bool head_only;         /* HEAD: no body follows */
	bool chunk_reply;
	bool close_after;
	bool surplus;           /* beyond max_connections: its request is read and refused */
	bool eager;             /* just accepted: the head is there already as a rule, so receive before waiting */
};

/* body.c */
void conn_body_start(struct conn *c);
/* Read over what is left of the body, within the bounds of h1.h. If its end is not reached, the connection is to close. */
void conn_skip(struct conn *c);
/* After a reply to a client that may still be sending: say that we are done and let it see the reply before the close. */
void conn_linger(struct conn *c);

/* reply.c */
int conn_send(struct conn *c, struct iovec *iov, int n);
int conn_error(struct conn *c, int status, const char *message);

#endif
