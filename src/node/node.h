/*
 * node.h - the local pool daemon: its state and the parts that work on it.
 *
 * Threads: one per API connection (h1), refill (keeps sandboxes and disks ready), cleaner (removes what is left of dead ones),
 * watcher (sees sandboxes die). One lock over tables and counters; nothing slow is done under it.
 *
 * A machine's life: STARTING -> WARM -> CLAIMING -> CLAIMED -> DEAD, or STARTING -> CLAIMED for one that was started for a claim.
 * A claimed one that is hibernated or woken is CHANGING meanwhile; st.sleep tells how it stands still.
 * Who makes it DEAD takes it out of all tables; the cleaner then removes its files and groups.
 */
#ifndef HUTCH_NODE_H
#define HUTCH_NODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base.h"
#include "cgroup.h"
#include "checkpoint.h"
#include "disk.h"
#include "hutch/conf.h"
#include "hutch/h1.h"
#include "lane.h"
#include "shape.h"
#include "spawn.h"
#include "state.h"

#define BUCKETS 1024
#define BLANKS_MAX 32                /* state files kept for new machines */
#define PORTS_MAX 128                /* guest ports open at the front at a time, per sandbox; the agent knows which one to give up */
/* Host ids: ranges of SPAWN_IDS from 2^28 up to 2^31. A daemon starts at a place that its state directory's hash says, so that
 * two daemons of one host seldom use the same. */
#define RANGE_FIRST 4096u
#define RANGES 28672u

struct hnode {
	struct hnode *next;
	const char *key;
};
struct htab { struct hnode *bucket[BUCKETS]; };

struct hnode *htab_find(const struct htab *t, const char *key);
void htab_add(struct htab *t, struct hnode *n, const char *key);
void htab_del(struct htab *t, struct hnode *n);          /* not there: nothing happens */

enum phase { PHASE_STARTING, PHASE_WARM, PHASE_CLAIMING, PHASE_CLAIMED, PHASE_CHANGING, PHASE_DEAD };

struct machine {
	struct hnode by_id, by_ref;  /* first: tables hold these */
	struct machine *next_warm;   /* in its pool, among the warming or in the graveyard */
	struct machine *next_dirty;  /* in the cleaner's queue */
	enum phase phase;
	bool doomed;                 /* to be ended: whoever starts or claims it gives up */
	int refs;
	struct machine_state st;
	int pidfd;                   /* -1 before the start and while only the disk is kept */
	struct disk disk;            /* none after a restart of the daemon */
	int image;                   /* the checkpoint that its disk begins as, until it is started; -1 none */
	pthread_mutex_t port_lock;   /* one port is opened at a time; before ctl_lock */
	pthread_mutex_t ctl_lock;    /* over ctl and ports */
	int ctl;
	uint16_t ports[PORTS_MAX];
	size_t nports;
	size_t saved;                /* size of its state file, 0 before the first */
	int sweeps;                  /* rounds of the cleaner so far */
	int64_t ready_until_us;      /* boot_us by which its start command must be up */
};

struct checkpoint {
	struct hnode by_id;          /* first */
	struct checkpoint_state st;
	int64_t still_us;            /* how long its sandbox stood still for it */
};

struct pool {
	struct hnode by_template;
	struct shape shape;
	struct machine *warm;        /* a stack: the newest is the one in the caches */
	uint32_t nwarm, starting;
	int64_t retry_us;            /* boot_us before which no further start is tried */
	int failures;
	char error[160];             /* why the last start failed, "" when it did not */
};

struct node {
	const struct config *conf;
	gid_t gid;                   /* of the sockets */
	int lock_fd;
	int dir, states, ck, run_sb, run_ctl;    /* STATE/node, STATE/node/sb, STATE/node/ck, RUN/sb, RUN/node/ctl */
	char *dir_path;
	char boot[BOOT_ID_LEN];
	char base[BASE_NAME_LEN];    /* name of the mask, "" when image `host` cannot be had */
	char *base_path, *usr_path;
	char base_error[160];
	struct cgroups cg;
	struct disks disks;
	struct spawner spawner;
	struct lane lane;            /* to the internet */
	char resolv[SPAWN_RESOLV_LEN];

	pthread_mutex_t lock;
	pthread_cond_t changed;      /* a machine changed its phase */
	pthread_cond_t work;         /* for refill */
	pthread_cond_t dirt;         /* for the cleaner */
	struct htab ids, refs, pools, checkpoints;
	uint32_t ncheckpoints;
	struct pool **pool;
	size_t npools;
	struct machine *range[RANGES];       /* owner of a range of host ids; freed last of all */
	uint32_t range_next;
	uint32_t machines;           /* all that are not DEAD */
	struct machine *graveyard;   /* warm ones that nobody wants any more */
	struct machine *warming;     /* made for a pool, their start commands not up yet */
	uint32_t nwarming;
	struct machine *dirty;       /* DEAD ones, for the cleaner */
	uint32_t ndirty;
	unsigned blank[BLANKS_MAX];  /* state files of dead ones, by the number in their names: to be written over for new ones */
	size_t nblanks;
	unsigned blank_next;
	bool unsettled;              /* lane_settle, for the cleaner */
	char disk_error[160];        /* what the last disk for the reserve failed with */
	bool closing;                /* nothing is waited for any more that may take long */
	bool stop;
	int epoll, wake;             /* of the watcher; wake is an eventfd that ends it */
	int busy;                    /* API calls under way */
	int claims;                  /* claims among them: refill lets them go first */
	int64_t claimed_us;          /* boot_us at the end of the last one */
	int slow_starts;             /* claims that make a machine and wait for its start command */
	pthread_t refill, cleaner, watcher;
	bool threads;
	int listen_fd;
	struct h1_server *server;
};

/* ---- node.c ---- */
/* Checks, locks, directories; no sandbox is touched yet. */
int node_open(struct node *n, const struct config *conf, struct err *e);
void node_close(struct node *n);
/* Build the mask, find the system's abilities, adopt, start threads and the API. */
int node_start(struct node *n, struct err *e);
/* No new calls, those under way get their answers; sandboxes live on. */
void node_stop(struct node *n);
/* The check of `hutch-node -n`, too. */
int node_check(const struct config *conf, gid_t *gid, struct err *e);
/* Everything of this state directory: sandboxes, groups, sockets, disks. */
int node_purge(struct node *n, struct err *e);

/* ---- machine.c (with the lock held, where nothing else is said) ---- */
/* A new one in STARTING, in the tables, with one reference for the caller. NULL: all ids are in use. ref "" or a claim's. */
struct machine *machine_new(struct node *n, const struct shape *s, const char *ref);
/* Put an adopted one into the tables. -1: its ids are taken. */
int machine_enter(struct node *n, struct machine *m);
void machine_phase(struct node *n, struct machine *m, enum phase p);
/* DEAD: out of the tables, to the cleaner. Twice is harmless. */
void machine_retire(struct node *n, struct machine *m);
void machine_unref(struct node *n, struct machine *m);    /* without the lock */
void machine_put(struct node *n, struct machine *m);     /* the same with the lock held */
bool machine_alive(const struct machine *m);             /* its first process runs */
/* The machine once nobody starts, claims or changes it, referenced, or NULL. With doom those give up. */
struct machine *machine_settled(struct node *n, const char *id, bool doom);
/* Claimed by ref; the table follows. */
void machine_set_ref(struct node *n, struct machine *m, const char *ref, int64_t now_us);
/* Write its state file; without the lock, like the next. */
int machine_save(struct node *n, struct machine *m, struct err *e);
/* It is dead: its state file goes, or is overwritten and kept for another machine. The cleaner's. */
void machine_unsave(struct node *n, const struct machine *m);
struct pool *pool_find(struct node *n, const char *template);
/* Take the newest ready one out of its pool, or NULL. */
struct machine *pool_pop(struct pool *p);
/* Take that one out, if it is there. */
void pool_remove(struct pool *p, struct machine *m);
/* Make m its pool's, or send it to the graveyard when nobody wants it or it is dead already. */
void pool_push(struct node *n, struct machine *m);

/* ---- create.c (without the lock) ---- */
/* Everything up to the answering agent. On failure m is retired. */
int machine_create(struct node *n, struct machine *m, bool background, struct err *e);
/* The same for a kept disk: on failure m is as it was, but for processes and sockets. */
int machine_boot(struct node *n, struct machine *m, bool background, struct err *e);
/* Kill, wait, retire. -1: it does not die. */
int machine_end(struct node *n, struct machine *m, struct err *e);
/* A call to its agent over the control socket, which is connected anew when needed. */
int machine_ctl(struct node *n, struct machine *m, const char *line, size_t len, int pass_fd, int timeout_ms, struct err *e);
/* For an answer that says more, which is the guest's word; the caller puts *out. The time is for its turn and the answer together. */
int machine_ask(struct node *n, struct machine *m, const char *line, size_t len, int pass_fd, int timeout_ms, json_object **out, struct err *e);
/* Stream socket listening at NAME in directory dir, mode and group as given. */
int bind_at(int dir, const char *name, mode_t mode, gid_t gid, struct err *e);

/* ---- command.c (machine_* without the lock, warming_* with it) ---- */
/* Have its agent run the template's start command, if there is one. */
int machine_start(struct node *n, struct machine *m, struct err *e);
/* Its start command is up, or not waited for. */
int machine_ready(struct node *n, struct machine *m, struct err *e);
/* Wait until it is, to a boot_us() time. -1: it is not in time (ERR_UNAVAILABLE), or the sandbox died. */
int machine_await(struct node *n, struct machine *m, int64_t until_us, struct err *e);
/* A machine for a claim that found none ready: made, its start command up. */
int machine_create_claimed(struct node *n, struct machine *m, struct err *e);
/* m, with the caller's reference, is to become its pool's once its start command is up. Only the refill thread uses the list. */
void warming_add(struct node *n, struct machine *m);
/* Look at all of them; the lock is dropped meanwhile. When to look again, boot_us(), or 0: none is left. */
int64_t warming_look(struct node *n);

/* ---- claim.c ---- */
#define INIT_MS 10000                /* time for an agent to take its identity */
struct claim_order {
	const char *template;        /* NULL: from a checkpoint */
	const char *checkpoint;
	const char *ref;
	json_object *init;
	json_object *network;        /* rules (rules_read) or NULL */
};
int node_claim(struct node *n, const struct claim_order *o, char id[MACHINE_LEN], struct err *e);
/* said: what the agent had noted is asked for first and comes back, if it was awake and answers; the caller puts it. NULL: not asked. */
int node_release(struct node *n, const char *id, json_object **said, struct err *e);
int node_open_port(struct node *n, const char *id, int port, struct err *e);
/* What the agent of an awake, claimed sandbox noted after that time; the caller puts *out. ERR_NOT_FOUND. */
int node_journal(struct node *n, const char *id, int64_t after_us, json_object **out, struct err *e);

/* ---- network.c (without the lock) ---- */
/* Whether rules can be kept here: ERR_CONFLICT. */
int network_admit(const struct node *n, const char *rules, struct err *e);
/* A new one gets its wire and its rules. */
int machine_wire(struct node *n, struct machine *m, struct err *e);
/* Its rules in the place of those that hold. */
int machine_rules(struct node *n, struct machine *m, struct err *e);
/* An adopted one: its rules anew, or no way out where there is none any more. */
void machine_rewire(struct node *n, struct machine *m);
/* The text becomes its rules, and is the machine's. */
void machine_set_rules(struct node *n, struct machine *m, char *rules);
/* PUT /v1/sandboxes/ID/network. A sleeping one gets them when it wakes. */
int node_network(struct node *n, const char *id, json_object *network, struct err *e);

/* ---- hibernate.c ---- */
/* The claimed machine, for this caller alone to change; referenced. NULL with ERR_NOT_FOUND. */
struct machine *machine_take(struct node *n, const char *id, struct err *e);
/* 0, or -1: it died meanwhile. */
int machine_give_back(struct node *n, struct machine *m);
/* pool_hibernate and pool_wake of hutch/pool.h. */
int node_hibernate(struct node *n, const char *id, bool memory, struct err *e);
int node_wake(struct node *n, const char *id, struct err *e);
/* The claimed machine, for this caller alone to change. Referenced. NULL: ERR_NOT_FOUND. */
struct machine *machine_take(struct node *n, const char *id, struct err *e);
/* 0, or -1: it died meanwhile. */
int machine_give_back(struct node *n, struct machine *m);
/* An adopted one goes on standing still, or running. */
void machine_keep_asleep(struct node *n, struct machine *m);

/* ---- checkpoint.c ---- */
struct checkpoint_order {
	const char *name;            /* asked twice with one name it is one checkpoint */
	uint64_t max_bytes;
	char id[MACHINE_LEN];        /* out, like all below */
	uint64_t bytes;
	int64_t created_us, still_us;
};
/* ERR_NOT_FOUND; ERR_CONFLICT: hibernated, the name is another's, or this host cannot; ERR_TOO_LARGE: over max_bytes. Whatever else is
 * to be done with the sandbox waits. */
int node_checkpoint(struct node *n, const char *machine, struct checkpoint_order *o, struct err *e);
/* Its image, opened for reading, and its shape: the caller's. */
int node_checkpoint_open(struct node *n, const char *id, struct shape *shape, struct err *e);
int node_checkpoint_drop(struct node *n, const char *id, struct err *e);
/* Those of an earlier daemon; what is left of tries goes. */
void checkpoints_load(struct node *n);
void checkpoints_free(struct node *n);

/* ---- pools.c ---- */
/* Replace the rows. Takes l's rows. */
int node_set_pools(struct node *n, struct shape_list *l, struct err *e);
int node_load_pools(struct node *n, struct err *e);

/* ---- workers.c ---- */
int workers_start(struct node *n, struct err *e);
/* Wait on a condition of n->lock up to a boot_us() time, 0 = for ever. */
void node_wait(struct node *n, pthread_cond_t *c, int64_t until_us);
void workers_stop(struct node *n);
void watch(struct node *n, struct machine *m);
/* A start for a pool has ended; e NULL: well. Takes the reference. With the lock held, which is dropped meanwhile. */
void warming_done(struct node *n, struct machine *m, const struct err *e);

/* ---- adopt.c ---- */
/* Sandboxes of an earlier daemon: those that live go into the tables, what is left of others is removed. With purge none live. */
int node_adopt(struct node *n, bool purge, struct err *e);

/* ---- use.c ---- */
/* {"sandboxes":[...]}: what every claimed sandbox uses. */
void node_write_use(struct node *n, struct buf *b);

/* ---- api.c ---- */
int api_start(struct node *n, struct err *e);

#endif
