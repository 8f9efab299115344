/*
 * reaper.h - what the threads of hutch-reaper share.
 *
 * Four kinds of threads, so that a machine pool that hangs delays no lease end:
 * the main one marks what is due (no pool call), workers remove the machines, the keeper does what is periodic, and the sampler
 * notes what sandboxes use. Webhooks are delivered in a further one (hutch/hook.h), an account is mirrored in another (hutch/upstream.h).
 */
#ifndef HUTCH_CMD_REAPER_H
#define HUTCH_CMD_REAPER_H

#include <pthread.h>
#include "hutch/domain.h"
#include "hutch/hook.h"
#include "hutch/upstream.h"

#define REAPER_BATCH 256             /* rows in one transaction */

struct job {
	struct reap_work w;
	struct job *next;
};

struct reaper {
	struct domain d;
	struct hook_sender *hooks;
	struct upstream *upstream;   /* NULL: no account is mirrored */
	int nudges;                  /* datagram socket */
	pthread_mutex_t lock;        /* over all below */
	pthread_cond_t work, keep, sample;
	struct job *first, **last;   /* machines to remove */
	struct job *removed;         /* rows to delete */
	bool deleting;               /* a worker is at it */
	bool stop;
	bool node_away;
	bool reload;                 /* the key file, whether it changed or not */
};

/* ---- reaper_workers.c ---- */
/* Their machines are to be removed. */
void reaper_push(struct reaper *r, const struct reap_work *w, size_t n);
/* What nobody took; no thread runs any more. */
void reaper_drop(struct reaper *r);
/* The node's coming and going is said once; the keeper then asks for it more often. */
void reaper_node_is(struct reaper *r, bool away, const char *why);
bool reaper_pool_is_away(const struct err *e);

/* Threads, with the reaper as their argument. */
void *reaper_worker(void *r);
void *reaper_keeper(void *r);        /* reaper_keeper.c */
void *reaper_sampler(void *r);

#endif
