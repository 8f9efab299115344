/*
 * node_double.h - stands in for hutch-node: its API on a unix socket, over the machines of a fake pool's state.
 */
#ifndef HUTCH_TEST_NODE_DOUBLE_H
#define HUTCH_TEST_NODE_DOUBLE_H

#include <stdatomic.h>
#include "fake_pool.h"
#include "hutch/h1.h"

struct node_double {
	struct fake_state *state;
	struct pool *pool;
	struct h1_server *server;
	int fd;
	char path[108];
	atomic_int requests, connections;
	atomic_int busy;                             /* requests in hand */
	atomic_int given_up;                         /* requests whose client left before `silent` was cleared */
	pthread_mutex_t lock;                        /* over the next two lines */
	void *last_conn;
	char method[16], target[200], body[4096];    /* of the last request */
	/* what is to go wrong */
	atomic_int status;                           /* answer this status with `reply` as the body */
	const char *reply;
	atomic_bool cut;                             /* break off in the middle of the answer */
	atomic_bool silent;                          /* no answer until this is cleared */
};

void double_start(struct node_double *n, struct fake_state *state, const char *path);
void double_stop(struct node_double *n);

#endif
