/*
 * pool.h - a pool of machines. Today the local one: hutch-node, spoken to by the sandboxd node API over its unix socket
 * (libcurl). No store transaction is open across any call.
 *
 * A kind of pool is a struct of functions; pool_open() makes the node's, tests bring their own.
 */
#ifndef HUTCH_POOL_H
#define HUTCH_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include "hutch/err.h"
#include "hutch/store.h"

struct pool;
struct json_object;

/* What a template asks of a machine; the key of the node's warm pools. */
struct pool_shape {
	const char *template_id;
	const char *image;           /* as template_rec.image */
	const char *command;         /* as template_rec.command */
	uint32_t ready_port;         /* as template_rec.ready_port */
	uint32_t cpu_count, memory_mb, disk_mb;
	uint32_t warm;               /* machines to keep ready */
	const char *checkpoint;      /* start as a copy of this checkpoint, whose shape the pool knows; NULL: from the template */
};

/* What a machine may reach: JSON array texts of IPv4 addresses and blocks (deny: IPv6 too), or NULL. allow beats deny. */
struct pool_network {
	const char *allow, *deny;
};

/* What the agent is told at a claim. */
struct pool_init {
	const char *sandbox_id, *template_id;
	const char *token;           /* envd access token, or NULL: open */
	const char *env;             /* JSON object text, or NULL */
	const char *default_user, *default_workdir;
	struct pool_network network;
	/* pool light; NULL elsewhere: what the guest admits, its folder and the program that runs its entry files */
	const char *profile, *folder, *program;
	/* Called once in this thread when the claim has been asked for and its answer is awaited, if that happens; NULL: nothing to do. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

struct pool_machine {
	char id[MACHINE_ID_LEN];
	char claim_ref[SANDBOX_ID_LEN]; /* sandbox id, "" when warm or another's */
	int64_t claimed_us;             /* the node's wall clock; 0 = not told */
	bool hibernated;
};

/* What a pool can do: one word of bits, and bounds. Every refusal of an option is computed from this record, in
 * domain/admit.c and nowhere else. A pool that learns something gets its bit here. */
enum pool_cap {
	CAP_PAUSE = 1 << 0,          /* a machine can be paused, and is there again at resume */
	CAP_PAUSE_MEMORY = 1 << 1,   /* its processes go on where they were */
	CAP_PAUSE_DISK = 1 << 2,     /* pausing may also keep the files alone */
	CAP_AUTO_PAUSE = 1 << 3,     /* lease end may pause instead of kill */
	CAP_AUTO_RESUME = 1 << 4,    /* traffic may wake a paused one */
	CAP_FORK = 1 << 5,           /* copies of a running machine */
	CAP_SNAPSHOT = 1 << 6,       /* a machine's files become a template */
	CAP_SNAPSHOT_MEMORY = 1 << 7,/* and its processes */
	CAP_INTERNET = 1 << 8,       /* there is a lane out */
	CAP_NO_INTERNET = 1 << 9,    /* there is a lane without a way out */
	CAP_NET_RULES = 1 << 10,     /* allow and deny lists */
	CAP_NET_HEADERS = 1 << 11,   /* rules that change requests */
	CAP_NET_PROXY = 1 << 12,     /* an egress proxy of the client's */
	CAP_CLOSED_TRAFFIC = 1 << 13,/* ports behind a token */
	CAP_MASK_HOST = 1 << 14,
	CAP_OWN_LEASE = 1 << 15,     /* the pool itself ends what is over: our reaper only forgets rows */
	CAP_BUILDS = 1 << 16,        /* templates can be made in it */
	CAP_SIZES = 1 << 17,         /* any cpuCount, memoryMB, diskSizeMB within bounds */
	CAP_COMMAND = 1 << 18,       /* a template's start command */
	CAP_INSECURE = 1 << 19,      /* an agent without a token */
	CAP_ENV = 1 << 20,           /* variables of the sandbox */
	CAP_VOLUMES = 1 << 21,
	CAP_TOKENS = 1 << 22,        /* iam.tokens */
	CAP_GUEST = 1 << 23,         /* a process answers guest traffic */
	CAP_NET_DOMAINS = 1 << 24,   /* domain names in allow lists */
	CAP_CREATE = 1 << 25,        /* sandboxes are made in it; else its rows come from elsewhere, and change there */
};

struct pool_caps {
	uint32_t can;                /* enum pool_cap */
	/* bounds of a sandbox's metadata; 0 = no narrower than the API's own */
	uint32_t meta_pairs, meta_key, meta_value, meta_bytes;
};

const struct pool_caps *pool_kind_caps(enum pool_kind kind);
const char *pool_kind_name(enum pool_kind kind);             /* "local" */
int pool_kind_find(const char *name);                        /* a kind, or -1 */
/* Name of one bit ("pause"), NULL beyond the last. */
const char *pool_cap_name(int bit);

/* What a claimed machine uses. */
struct pool_use {
	char claim_ref[SANDBOX_ID_LEN];
	uint64_t cpu_us;             /* processor time so far; may go back when a process ends */
	uint64_t mem_used, mem_cache, disk_used, disk_total;     /* bytes */
};

/* What is kept of a machine: other machines start as copies of it. */
struct pool_checkpoint {
	char id[MACHINE_ID_LEN];
	char name[UUID_LEN];         /* the caller's; "" = another's */
	int64_t created_us;          /* the pool's wall clock; 0 = not told */
	uint64_t bytes;              /* of disk that it takes */
};

#define POOL_UPSTREAM_LEN 128

struct pool_ops {
	void (*close)(struct pool *p);
	int (*claim)(struct pool *p, const struct pool_shape *shape, const char *ref, const struct pool_init *init,
		     char machine[MACHINE_ID_LEN], bool *unsure, struct err *e);
	int (*release)(struct pool *p, const char *machine, struct json_object **lines, struct err *e);
	int (*release_ref)(struct pool *p, const char *ref, struct err *e);
	int (*list)(struct pool *p, struct pool_machine **out, size_t *n, struct err *e);
	int (*set_shapes)(struct pool *p, const struct pool_shape *shapes, size_t n, struct err *e);
	int (*templates)(struct pool *p, char (**out)[TEMPLATE_ID_LEN], size_t *n, struct err *e);
	int (*open_port)(struct pool *p, const char *machine, int port, struct err *e);
	/* NULL: a unix socket that open_port makes, at SOCKETS/machine/port */
	int (*upstream)(struct pool *p, const char *run_dir, const char *machine, int port, char out[POOL_UPSTREAM_LEN], struct err *e);
	int (*hibernate)(struct pool *p, const char *machine, bool memory, struct err *e);
	int (*wake)(struct pool *p, const char *machine, struct err *e);
	int (*checkpoint)(struct pool *p, const char *machine, const char *name, uint64_t max_bytes, struct pool_checkpoint *out, bool *unsure,
			  struct err *e);
	int (*checkpoints)(struct pool *p, struct pool_checkpoint **out, size_t *n, struct err *e);
	int (*checkpoint_drop)(struct pool *p, const char *id, struct err *e);
	/* NULL: this kind has no rules */
	int (*network)(struct pool *p, const char *machine, const struct pool_network *rules, struct err *e);
	/* NULL: its kind tells all that it can */
	int (*abilities)(struct pool *p, uint32_t *can, struct err *e);
	/* NULL: this pool does not measure */
	int (*use)(struct pool *p, struct pool_use **out, size_t *n, struct err *e);
	/* NULL: its machines note nothing */
	int (*journal)(struct pool *p, const char *machine, int64_t after_us, struct json_object **lines, struct err *e);
};

/* The first member of every kind's own struct. */
struct pool {
	const struct pool_ops *ops;
};

/* Thread-safe: each thread gets a connection of its own. Does not connect yet. */
int pool_open(const char *node_socket, struct pool **out, struct err *e);
/* A pool without machines (kinds none and fake): every claim succeeds at once and gives an id. */
int pool_open_rows(bool guest, struct pool **out, struct err *e);
void pool_close(struct pool *p);

/* Errors of every call: ERR_UNAVAILABLE: the pool does not answer, hung up or is full (then with code
 * sandbox_capacity_unavailable); ERR_TIMEOUT: no answer in time; ERR_INTERNAL: the pool failed. */

/* A machine for ref (the sandbox id). Asking twice with one ref gives the same machine.
 * ERR_NOT_FOUND: the pool does not know the template yet (pool_set_shapes, then again), or has no such checkpoint; ERR_INVALID: the shape cannot be had
 * here. *unsure: at a failure, whether a machine may have been made all the same (then pool_release_ref). */
int pool_claim(struct pool *p, const struct pool_shape *shape, const char *ref, const struct pool_init *init,
	       char machine[MACHINE_ID_LEN], bool *unsure, struct err *e);
/* Remove the machine; done or not there both give 0. Processes are dead when it returns. lines (NULL: not asked) gets what its agent had noted, as
 * pool_journal's, as far as the agent told it in time. */
int pool_release(struct pool *p, const char *machine, struct json_object **lines, struct err *e);
/* Same by claim reference, for rows that never learnt their machine. */
int pool_release_ref(struct pool *p, const char *ref, struct err *e);
/* Claimed machines. *out is malloc'ed, the caller frees. */
int pool_list(struct pool *p, struct pool_machine **out, size_t *n, struct err *e);
/* Tell the node which templates to keep warm (whole replacement). */
int pool_set_shapes(struct pool *p, const struct pool_shape *shapes, size_t n, struct err *e);
/* Templates that the node keeps machines for. *out is malloc'ed, the caller frees. */
int pool_templates(struct pool *p, char (**out)[TEMPLATE_ID_LEN], size_t *n, struct err *e);
/* Make the unix socket of a guest port exist (SOCKETS/machine/port). */
int pool_open_port(struct pool *p, const char *machine, int port, struct err *e);
/* Where the guest port of a machine is served: "unix:PATH", or "ADDRESS:PORT" in pools to come. A path that is not there comes with
 * pool_open_port. ERR_UNAVAILABLE: nothing in this pool answers guests. */
int pool_upstream(struct pool *p, const char *run_dir, const char *machine, int port, char out[POOL_UPSTREAM_LEN], struct err *e);
/* Rules in the place of those that the machine had, all at once; what is open and not allowed by them is cut. ERR_NOT_FOUND; ERR_CONFLICT: they
 * cannot be kept there. */
int pool_network(struct pool *p, const char *machine, const struct pool_network *rules, struct err *e);
/* What it can do beyond its kind, found out where the machines are: enum pool_cap. */
int pool_abilities(struct pool *p, uint32_t *can, struct err *e);
/* What every claimed machine uses, in one call. *out is malloc'ed, the caller frees; a pool that does not measure gives none. */
int pool_use(struct pool *p, struct pool_use **out, size_t *n, struct err *e);
/* What the machine's agent noted down after that time, oldest first, as much as it tells at once: a JSON array, which the caller puts, or NULL
 * for none. It is the guest's word. It takes POOL_JOURNAL_MS at most. ERR_NOT_FOUND: there is no such machine, or it is hibernated. */
#define POOL_JOURNAL_MS 250
int pool_journal(struct pool *p, const char *machine, int64_t after_us, struct json_object **lines, struct err *e);
/* The machine stands still and nobody can connect to it: frozen with its memory, or (memory false) its processes ended and its disk
 * kept. Done twice is done once; memory false for a frozen one drops the memory. ERR_NOT_FOUND: there is no such machine;
 * ERR_CONFLICT: this pool cannot do it, and the machine goes on. */
int pool_hibernate(struct pool *p, const char *machine, bool memory, struct err *e);
/* It goes on under the same id and sockets, without memory as freshly started on its disk with what it was told at the claim.
 * A machine that is awake is left so. ERR_NOT_FOUND. After a failure it is hibernated as it was, if it is there. */
int pool_wake(struct pool *p, const char *machine, struct err *e);
/* A checkpoint of a machine that is awake: its files as they are at one instant, for which it stands still; then it goes on. A machine that
 * is being captured is released, hibernated ... afterwards. name is the caller's; asked twice with one name it is one checkpoint.
 * ERR_NOT_FOUND: there is no such machine; ERR_CONFLICT: it is hibernated, or this pool cannot; ERR_LIMIT: it would take more than
 * max_bytes. *unsure: at a failure, whether it may have been made all the same. */
int pool_checkpoint(struct pool *p, const char *machine, const char *name, uint64_t max_bytes, struct pool_checkpoint *out, bool *unsure,
		    struct err *e);
/* *out is malloc'ed, the caller frees. */
int pool_checkpoints(struct pool *p, struct pool_checkpoint **out, size_t *n, struct err *e);
/* Remove it; machines that started from it stay. Done or not there both give 0. */
int pool_checkpoint_drop(struct pool *p, const char *id, struct err *e);
/* Same by name, for records that never learnt its id. */
int pool_checkpoint_drop_named(struct pool *p, const char *name, struct err *e);

#endif
