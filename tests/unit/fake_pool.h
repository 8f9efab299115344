/*
 * fake_pool.h - a machine pool for tests, in memory that children share: what a killed program leaves behind can be looked at.
 * Each call may be told to fail, or to kill the calling process before or after it took effect.
 */
#ifndef HUTCH_TEST_FAKE_POOL_H
#define HUTCH_TEST_FAKE_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "hutch/pool.h"

#define FAKE_MACHINES 4096
#define FAKE_TEMPLATES 16
#define FAKE_CHECKPOINTS_MAX 64

enum fake_call { FAKE_CLAIM, FAKE_RELEASE, FAKE_RELEASE_REF, FAKE_LIST, FAKE_SHAPES, FAKE_HIBERNATE, FAKE_WAKE, FAKE_NETWORK, FAKE_CHECKPOINT, FAKE_CHECKPOINTS,
		 FAKE_CHECKPOINT_DROP, FAKE_CALLS };

struct fake_state {
	pthread_mutex_t lock;
	struct pool_machine machine[FAKE_MACHINES];
	atomic_size_t n;
	atomic_size_t gap, gap_last;             /* 1 + the place of a machine that goes, 0 = none; and the place of the last one */
	struct pool_checkpoint checkpoint[FAKE_CHECKPOINTS_MAX];
	atomic_size_t checkpoints;
	char last_checkpoint[MACHINE_ID_LEN];    /* that a claim was made from, "" = none */
	char template_id[FAKE_TEMPLATES][TEMPLATE_ID_LEN];
	atomic_size_t templates;
	unsigned serial;
	atomic_int calls[FAKE_CALLS];
	char last_token[80], last_env[512];      /* of the last claim */
	/* what is to go wrong */
	atomic_bool down;                        /* ERR_UNAVAILABLE, nothing happens */
	atomic_bool full;                        /* claims: 429 */
	atomic_bool lose_answer;                 /* claims take effect, then ERR_TIMEOUT and unsure */
	atomic_bool forgets;                     /* templates stay unknown */
	enum err_kind refuse;                    /* claims fail with this, nothing happens */
	enum err_kind refuse_pause, refuse_wake; /* hibernate, wake likewise */
	atomic_bool lose_pause, lose_wake, lose_checkpoint;      /* they take effect, then ERR_TIMEOUT */
	enum err_kind refuse_checkpoint;
	uint64_t checkpoint_bytes;
	char last_allow[256], last_deny[256];    /* of the last claim or network; "" for none */
	atomic_uint can;                         /* its abilities: enum pool_cap */
	enum err_kind refuse_network;
	atomic_bool lose_network;                /* it takes effect, then ERR_TIMEOUT */
	void (*in_network)(void *ctx);           /* called in the middle of one */
	atomic_bool last_memory;                 /* of the last hibernate */
	atomic_int pause_us;                     /* how long they take */
	atomic_bool late;                        /* claims: what the caller does meanwhile comes after the effect, else before it */
	atomic_bool hasty;                       /* claims: the answer is there before the caller does anything meanwhile */
	int kill_before, kill_after;             /* 1 + enum fake_call: SIGKILL to the caller */
	int kill_midway;                         /* claims likewise: between their effect and what the caller does meanwhile */
	atomic_int delay_us;                     /* of a release */
	char journal[8192];                      /* what every machine's agent noted: a JSON array, or "" */
	int64_t journal_after_us;                /* asked for last */
	struct pool_use use;                     /* of every machine; its claim_ref is not looked at */
	void (*in_claim)(void *ctx, const char *ref);/* called in the middle of a claim */
	void (*in_checkpoint)(void *ctx);        /* ... of a checkpoint */
	void *ctx;
};

struct fake_pool {
	struct pool base;
	struct fake_state *s;
};

/* The state is the caller's and stays when the pool is closed; one state may serve many pools. */
struct fake_state *fake_state_new(void);
void fake_state_free(struct fake_state *s);
struct pool *fake_pool_new(struct fake_state *s);

bool fake_has(struct fake_state *s, const char *machine);
bool fake_has_ref(struct fake_state *s, const char *ref);
/* A machine that no claim of this test made. */
void fake_add(struct fake_state *s, const char *machine, const char *ref, int64_t claimed_us);
void fake_drop(struct fake_state *s, const char *machine);
bool fake_has_checkpoint(struct fake_state *s, const char *id);
bool fake_sleeps(struct fake_state *s, const char *machine);

#endif
