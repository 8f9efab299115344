/*
 * store.h - the records, kept in LMDB. The only code that knows lmdb.h is src/store/.
 *
 * Tables (DB name: key -> value), all integers big-endian in keys:
 *   meta            "schema" -> version; "clock" -> anchor (see domain.h); further ones are numbers or text of the modules of src/domain
 *   teams           uuid -> team
 *   team_names      name -> uuid
 *   team_slugs      slug -> uuid
 *   keys            SHA-256 of the decoded key bytes (32) -> key record: API keys and access tokens
 *   team_keys       team uuid (36) + hash (32) -> nothing
 *   templates       template id (20) -> template
 *   template_names  team uuid "/" alias -> template id; "/" alias -> template id for names without namespace
 *   sandboxes       sandbox id (21) -> sandbox
 *   by_start        team uuid (36) + ~started_us (8) + sandbox id -> state byte     newest first; no starting or killing ones
 *   due             due_us (8) + sandbox id -> nothing       the row's state says what is due; due_us 0 = never (paused)
 *   counts          team uuid -> live (8) + running (8)      live: all but paused and killing ones
 *   events          team uuid (36) + us (8) + seq (4) -> event JSON text, after a layout byte and its sandbox's id (21)
 *   events_of       sandbox id (21) + us (8) + seq (4) -> nothing: the keys of its events (those of the first layout have none)
 *   webhooks        team uuid (36) + webhook uuid (36) -> webhook
 *   outbox          webhook uuid (36) + next attempt us (8) + seq (4) -> what is to be delivered to it
 *   deliveries      us (8) + seq (4) -> what became of one attempt
 *   pools           pool name -> pool; `local` needs no row
 *   samples         sandbox id (21) + us (8) -> use of a sandbox
 *   snapshots       template id (20) -> snapshot
 *   snapshot_names  team uuid "/" alias -> template id
 *   snapshots_of    team uuid (36) + ~created_us (8) + ~id (20) -> nothing       newest first
 *   captures        template id (20) + build uuid (36) -> what is kept of a sandbox; those that are being removed outlive their snapshot
 *   making          sandbox id (21) -> template id (20) + build uuid (36): the capture that a sandbox in SB_SNAPSHOTTING is for
 *   team_samples    team uuid (36) + us (8) -> sandboxes of a team
 *   seen            SHA-256 of a delivery's id (32) -> us (8): what the vendor has told already
 *   seen_at         us (8) + that hash -> nothing
 * One state change, its index entries and its event are one transaction.
 *
 * Values are a packed struct of fixed size followed by length-prefixed strings; a leading byte is the record's
 * layout version. A value of an unknown layout is ERR_INTERNAL naming the key, never guessed at.
 *
 * Threads: one struct store per process, opened after fork; any thread may use it; a thread has at most one
 * transaction open, and none across a wait, a driver call or a client write.
 * Errors: a full map is ERR_UNAVAILABLE naming db_size_mb; damaged or unknown records and disk errors are ERR_INTERNAL.
 */
#ifndef HUTCH_STORE_H
#define HUTCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/buf.h"
#include "hutch/err.h"

#define STORE_SCHEMA 1
#define UUID_LEN 37
#define SANDBOX_ID_LEN 22        /* 'i' + 20 of [a-z0-9] + NUL */
#define TEMPLATE_ID_LEN 21
#define MACHINE_ID_LEN 32
#define NAME_MAX_LEN 129
#define POOL_NAME_LEN 64

enum sandbox_state {
	SB_STARTING = 1,             /* reserved; a machine may or may not exist */
	SB_RUNNING,
	SB_PAUSING, SB_PAUSED, SB_RESUMING, SB_SNAPSHOTTING,
	SB_KILLING,                  /* gone for every client; the machine is being removed */
};

enum team_state { TEAM_OPEN, TEAM_BLOCKED, TEAM_BANNED, TEAM_STATES };
#define TEAM_REASON_LEN 201

struct team_rec {
	char id[UUID_LEN];
	char name[NAME_MAX_LEN];
	char slug[NAME_MAX_LEN];     /* namespace of its templates */
	uint32_t max_sandboxes;
	uint32_t max_hours;
	int64_t created_us;
	uint8_t state;               /* enum team_state */
	char reason[TEAM_REASON_LEN];/* of a block, "" = none was given */
};

/* Kinds of machine pools; the numbers are in records. */
enum pool_kind {
	POOL_LOCAL,                  /* hutch-node of this machine */
	POOL_NONE,                   /* rows only */
	POOL_FAKE,                   /* HTTP reply fixtures, for verification */
	POOL_LIGHT,                  /* the local node; guests run `node FILE.js` and nothing else */
	POOL_VENDOR,                 /* mirrored rows of the upstream account; its machines are elsewhere */
	POOL_KINDS
};

struct pool_rec {
	char name[POOL_NAME_LEN];
	uint8_t kind;                /* enum pool_kind */
	int64_t created_us, updated_us;
	char *config;                /* JSON object text: the settings of its kind, all filled in */
};

struct template_rec {
	char id[TEMPLATE_ID_LEN];
	char team[UUID_LEN];
	char alias[NAME_MAX_LEN];
	char build_id[UUID_LEN];
	char pool[POOL_NAME_LEN];    /* its machine pool; "" = the instance's default */
	char *image;                 /* "host" = host userland behind the mask layer; else an absolute path to a root directory */
	char *command;               /* start command: JSON array of strings, or NULL */
	uint32_t ready_port;         /* TCP port that answers once the start command is up; 0 = not waited for */
	char envd_version[16];
	uint32_t cpu_count, memory_mb, disk_mb;
	bool is_public;
	int64_t created_us, updated_us;
	int64_t spawned_us;          /* last start, 0 = never */
	uint64_t spawn_count;
};

/* A template made of a sandbox. What may be started under its tags are its captures. */
struct snapshot_rec {
	char id[TEMPLATE_ID_LEN];
	char team[UUID_LEN];
	char alias[NAME_MAX_LEN];    /* "" = it has no name */
	int64_t created_us;
};

enum capture_state {
	CAPTURE_MAKING = 1,          /* reserved: there may or may not be something in the pool under the capture's id */
	CAPTURE_READY,
	CAPTURE_REMOVING,            /* gone for every client */
};

struct capture_rec {
	char snapshot[TEMPLATE_ID_LEN], id[UUID_LEN];    /* its key; id is a build id for clients */
	uint8_t state;               /* enum capture_state */
	uint8_t pool_kind;
	char tag[NAME_MAX_LEN];      /* "" = default */
	char sandbox[SANDBOX_ID_LEN];/* that it was made of */
	char template_id[TEMPLATE_ID_LEN], alias[NAME_MAX_LEN];  /* of that sandbox: what its own sandboxes are said to be of */
	char envd_version[16];
	char pool[POOL_NAME_LEN];
	char checkpoint[MACHINE_ID_LEN]; /* the pool's id of it; "" while it is being made */
	uint32_t cpu_count, memory_mb, disk_mb;
	uint64_t bytes;              /* of disk that it takes */
	int64_t created_us;
};

struct sandbox_rec {
	char id[SANDBOX_ID_LEN];
	char team[UUID_LEN];
	char template_id[TEMPLATE_ID_LEN];
	char alias[NAME_MAX_LEN];    /* first alias of the template, "" when none */
	char build_id[UUID_LEN];
	char execution_id[UUID_LEN];
	char machine[MACHINE_ID_LEN];/* "" while starting */
	char envd_version[16];
	char pool[POOL_NAME_LEN];    /* pool that made its machine, "" = local */
	uint8_t pool_kind;           /* enum pool_kind of that pool then: the name may be given to another since */
	uint8_t state;               /* enum sandbox_state */
	bool handed;                 /* SB_KILLING, SB_PAUSING, SB_RESUMING: no caller is at it, the reaper finishes it */
	bool secure;
	bool auto_pause;             /* the end of the lease pauses, not kills */
	bool auto_pause_memory;      /* ... and keeps the memory */
	bool auto_resume;            /* traffic for the paused one resumes it */
	bool memory;                 /* SB_PAUSING: the memory is to be kept; SB_PAUSED, SB_RESUMING: it was */
	bool allow_internet;         /* as asked; reported back */
	bool allow_internet_set;
	bool closed_traffic;         /* network.allowPublicTraffic = false: ports but the agent's ask for the traffic token */
	uint32_t cpu_count, memory_mb, disk_mb;
	uint32_t resume_s;           /* lease that an automatic resume gives */
	int64_t created_us;          /* reservation */
	int64_t started_us;          /* end of the start */
	int64_t end_us;              /* lease end; SB_PAUSED: when it was paused */
	int64_t due_us;              /* its key in `due`: lease end, or when a half-made row is repaired */
	int64_t net_due_us;          /* SB_RUNNING: new rules are on their way to the machine; undone then, 0 = they are as below */
	char *metadata;              /* compact JSON object text (string values), or NULL if never set */
	char *mask_host;             /* network.maskRequestHost, or NULL */
	char *allow_out, *deny_out;  /* compact JSON array texts of addresses and CIDRs, or NULL */
};

struct webhook_rec {
	char id[UUID_LEN], team[UUID_LEN];
	char name[NAME_MAX_LEN];
	char *url;
	char *secret;                /* sealed (seal.h) */
	bool clear;                  /* of the first layout: the secret stands there as it is */
	bool enabled;
	uint32_t events;             /* set of 1 << enum event_type (domain.h) */
	int64_t created_us;
};

/* One event on its way to one webhook. The body is made from the event; when that is gone (event_days), there is none to deliver. */
struct outbox_rec {
	char webhook[UUID_LEN];      /* these three are its key */
	int64_t next_us;             /* not tried before this, by the real clock; 0 = at once */
	uint32_t seq;
	char team[UUID_LEN];
	char sandbox[SANDBOX_ID_LEN];
	uint8_t type;                /* enum event_type */
	int64_t event_us;            /* the event's key, with team */
	uint32_t event_seq;
	uint32_t attempts;           /* that have failed */
};

enum delivery_state {
	DELIVERY_DONE = 1,           /* the receiver answered 2xx */
	DELIVERY_RETRY,              /* failed, will be tried again */
	DELIVERY_DEAD,               /* failed for the last time */
	DELIVERY_DROPPED,            /* given up without an attempt: the webhook is gone or disabled */
};

/* One attempt. */
struct delivery_rec {
	int64_t us;                  /* when it ended; with seq its key */
	uint32_t seq;
	char id[UUID_LEN];           /* e2b-delivery-id */
	char team[UUID_LEN], webhook[UUID_LEN], event[UUID_LEN];
	char sandbox[SANDBOX_ID_LEN];
	uint8_t type;                /* enum event_type */
	uint8_t state;               /* enum delivery_state */
	uint32_t attempt;            /* 1 = the first */
	uint32_t status;             /* of the answer, 0 = there was none */
	uint32_t duration_ms;
	char *url, *error, *answer;  /* any may be NULL; answer: the beginning of its body */
};

void webhook_rec_release(struct webhook_rec *r);
void delivery_rec_release(struct delivery_rec *r);
enum key_kind { KEY_API = 1, KEY_TOKEN };        /* e2b_..., sk_e2b_... */

struct key_rec {
	uint8_t hash[32];            /* SHA-256 of the decoded bytes */
	char id[UUID_LEN];           /* derived from the hash; store_key_get leaves it "" (see store_key_id) */
	char team[UUID_LEN];
	uint8_t kind;                /* enum key_kind */
	bool from_file;              /* of the key file: goes when it is no longer there */
	uint8_t length;              /* hex digits */
	char mask[16];               /* "ab...wxyz": first two, last four digits */
	char name[NAME_MAX_LEN];
	int64_t created_us;
	int64_t used_us;             /* last use, to the hour; 0 = never */
};

struct sample {                     /* use of one sandbox at an instant */
	int64_t us;
	char team[UUID_LEN];         /* whose it is: samples outlive the row */
	uint32_t cpu_count;
	uint32_t cpu_hundredths;     /* of a percent of all its processors, since the sample before */
	uint64_t mem_used, mem_total, mem_cache, disk_used, disk_total;  /* bytes; kept to the KiB */
};

enum line_level { LINE_DEBUG, LINE_INFO, LINE_WARN, LINE_ERROR, LINE_LEVELS };

struct line_rec {                    /* what a sandbox's agent noted */
	int64_t us;
	char team[UUID_LEN];         /* whose it is: lines outlive the row */
	uint8_t level;               /* enum line_level */
	char *message;
	char *fields;                /* a JSON object of strings */
};

struct team_sample {
	int64_t us;
	uint32_t running;
	uint32_t starts_milli;       /* thousandths of a start per second, since the sample before */
};

void template_rec_release(struct template_rec *t);
void pool_rec_release(struct pool_rec *p);
void sandbox_rec_release(struct sandbox_rec *s);

struct store;
struct txn;

/* Open (making it if absent) the environment in dir; checks the schema number. Once per process at a time (LMDB's rule). */
int store_open(const char *dir, int64_t size_mb, struct store **out, struct err *e);
void store_close(struct store *st);
/* Clear slots of readers that died (mdb_reader_check); number cleared. */
int store_reader_check(struct store *st);

/* Read transactions are cheap (a renewed slot per thread). Values copied into records stay valid after the end. */
int txn_read(struct store *st, struct txn **out, struct err *e);
int txn_write(struct store *st, struct txn **out, struct err *e);
/* As txn_write, for a step that nobody is told of before a later commit of the same work, or that is done again when it is found undone: a power
 * cut may take back the last ones of these (nothing else does), so the disk is waited for once less (LMDB's MDB_NOMETASYNC). */
int txn_write_step(struct store *st, struct txn **out, struct err *e);
int txn_commit(struct txn *t, struct err *e);    /* t is gone either way */
void txn_abort(struct txn *t);                   /* also ends a read; NULL is fine */
/* Commits when status is not negative, else aborts; 0 or -1. */
int txn_end(struct txn *t, int status, struct err *e);

/* Gets: 1 found, 0 not there, -1 error. Puts: 0 or -1. */
int store_team_get(struct txn *t, const char *id, struct team_rec *out, struct err *e);
int store_team_by_name(struct txn *t, const char *name, struct team_rec *out, struct err *e);
int store_team_by_slug(struct txn *t, const char *slug, struct team_rec *out, struct err *e);
int store_team_put(struct txn *t, const struct team_rec *r, struct err *e);
int store_key_get(struct txn *t, const uint8_t hash[32], struct key_rec *out, struct err *e);
/* Insert or replace; id is not looked at. */
int store_key_put(struct txn *t, const struct key_rec *r, struct err *e);
int store_key_delete(struct txn *t, const uint8_t hash[32], struct err *e);   /* 1 deleted, 0 not there */
void store_key_id(const uint8_t hash[32], char out[UUID_LEN]);
/* Every key of a team (NULL = of all teams); fn: 0 goes on, 1 stops, -1 fails. It must not write. */
typedef int store_key_fn(void *ctx, const struct key_rec *r, struct err *e);
int store_walk_keys(struct txn *t, const char *team, store_key_fn *fn, void *ctx, struct err *e);

int store_template_get(struct txn *t, const char *id, struct template_rec *out, struct err *e);
/* ns is a team id or "" (names without namespace). */
int store_template_by_name(struct txn *t, const char *ns, const char *alias, struct template_rec *out, struct err *e);
int store_template_put(struct txn *t, const struct template_rec *r, struct err *e);
/* Its record alone: names are the caller's. 1 deleted, 0 not there. */
int store_template_delete(struct txn *t, const char *id, struct err *e);
int store_template_name_put(struct txn *t, const char *ns, const char *alias, const char *id, struct err *e);
int store_template_name_delete(struct txn *t, const char *ns, const char *alias, struct err *e);

int store_pool_get(struct txn *t, const char *name, struct pool_rec *out, struct err *e);
int store_pool_put(struct txn *t, const struct pool_rec *r, struct err *e);
typedef int store_pool_fn(void *ctx, const struct pool_rec *r, struct err *e);
int store_walk_pools(struct txn *t, store_pool_fn *fn, void *ctx, struct err *e);

/* ---- snapshots ---- */
int store_snapshot_get(struct txn *t, const char *id, struct snapshot_rec *out, struct err *e);
int store_snapshot_by_name(struct txn *t, const char *team, const char *alias, struct snapshot_rec *out, struct err *e);
/* A new one, with its name. */
int store_snapshot_add(struct txn *t, const struct snapshot_rec *r, struct err *e);
int store_snapshot_delete(struct txn *t, const struct snapshot_rec *r, struct err *e);
/* A team's, newest first, after (us, id) when id is not "". fn: 0 goes on, 1 stops, -1 fails. */
typedef int store_snapshot_fn(void *ctx, struct txn *t, const struct snapshot_rec *r, struct err *e);
int store_walk_snapshots(struct txn *t, const char *team, int64_t after_us, const char *after_id, store_snapshot_fn *fn, void *ctx,
			 struct err *e);
int store_capture_get(struct txn *t, const char *snapshot, const char *id, struct capture_rec *out, struct err *e);
int store_capture_put(struct txn *t, const struct capture_rec *r, struct err *e);
int store_capture_delete(struct txn *t, const char *snapshot, const char *id, struct err *e);    /* 1 deleted, 0 not there */
/* Of one snapshot, or of all (NULL), in no order; fn: 0 goes on, 1 stops, -1 fails. It must not write. */
typedef int store_capture_fn(void *ctx, const struct capture_rec *r, struct err *e);
int store_walk_captures(struct txn *t, const char *snapshot, store_capture_fn *fn, void *ctx, struct err *e);
int store_making_get(struct txn *t, const char *sandbox, char snapshot[TEMPLATE_ID_LEN], char id[UUID_LEN], struct err *e);
int store_making_put(struct txn *t, const struct capture_rec *r, struct err *e);
int store_making_delete(struct txn *t, const char *sandbox, struct err *e);

/* Running for clients: one of which a snapshot is being taken, too. */
bool sandbox_state_runs(uint8_t state);
/* Its key in `due` while it runs: the lease's end, or when a change of its rules is undone. */
int64_t running_due(const struct sandbox_rec *r);
/* What lists select by and show of a row, read where it lies: nothing is copied, and it holds as long as the transaction. */
struct sandbox_glance {
	uint8_t state;               /* enum sandbox_state */
	bool auto_pause;
	uint32_t cpu_count, memory_mb, disk_mb;
	int64_t started_us, end_us;
	struct glance_text { const char *p; size_t n; } template_id, alias, envd_version, metadata;   /* not ended by a NUL; metadata: NULL = never set */
};
int store_sandbox_glance(struct txn *t, const char *id, struct sandbox_glance *out, struct err *e);
/* The same of a record; it holds as long as that. */
void sandbox_glance_of(const struct sandbox_rec *r, struct sandbox_glance *out);
int store_sandbox_get(struct txn *t, const char *id, struct sandbox_rec *out, struct err *e);
/* Insert or replace; `before` is the row as read in this transaction, or NULL for a new one: by_start, due and counts follow
 * the difference. */
int store_sandbox_put(struct txn *t, const struct sandbox_rec *before, const struct sandbox_rec *now, struct err *e);
int store_sandbox_delete(struct txn *t, const struct sandbox_rec *before, struct err *e);
/* Starting and running ones (what the team's limit counts), or running ones alone. */
int store_live_count(struct txn *t, const char *team, uint64_t *out, struct err *e);
int store_running_count(struct txn *t, const char *team, uint64_t *out, struct err *e);

/* Walk a team's sandboxes newest first (or oldest first), from just after (started_us, id) when id is not "".
 * fn: 0 goes on, 1 stops (walk returns 0), -1 fails. The index alone is read; get the row when needed. */
typedef int store_start_fn(void *ctx, struct txn *t, const char *id, int64_t started_us, uint8_t state, struct err *e);
int store_walk_started(struct txn *t, const char *team, bool oldest_first, int64_t after_us, const char *after_id,
		       store_start_fn *fn, void *ctx, struct err *e);
/* First due key: 1 with its time and id, 0 when there is none. Next one after (us, id) likewise. */
int store_due_first(struct txn *t, int64_t *us, char id[SANDBOX_ID_LEN], struct err *e);
int store_due_next(struct txn *t, int64_t *us, char id[SANDBOX_ID_LEN], struct err *e);
/* Every row, by id, after `after` ("" = from the start): fn as above. */
typedef int store_sandbox_fn(void *ctx, const struct sandbox_rec *r, struct err *e);
int store_walk_sandboxes(struct txn *t, const char *after, store_sandbox_fn *fn, void *ctx, struct err *e);
typedef int store_template_fn(void *ctx, const struct template_rec *r, struct err *e);
int store_walk_templates(struct txn *t, store_template_fn *fn, void *ctx, struct err *e);
typedef int store_team_fn(void *ctx, const struct team_rec *r, struct err *e);
int store_walk_teams(struct txn *t, store_team_fn *fn, void *ctx, struct err *e);

/* sandbox may be NULL: an event of no sandbox's list. seq (may be NULL) gets the second half of its key. */
int store_event_add(struct txn *t, const char *team, const char *sandbox, int64_t us, const char *json, size_t n, uint32_t *seq,
		    struct err *e);
/* The text as long as the transaction lasts: 1, 0 not there, -1. */
int store_event_get(struct txn *t, const char *team, int64_t us, uint32_t seq, const char **json, size_t *n, struct err *e);
/* Events of a team, newest first. fn: 0 goes on, 1 stops, -1 fails. */
typedef int store_event_fn(void *ctx, int64_t us, const char *json, size_t n, struct err *e);
int store_walk_events(struct txn *t, const char *team, store_event_fn *fn, void *ctx, struct err *e);
/* The same either way round, and of one sandbox alone when it is not NULL. */
int store_walk_events_of(struct txn *t, const char *team, const char *sandbox, bool oldest_first, store_event_fn *fn, void *ctx,
			 struct err *e);
int store_events_trim(struct txn *t, int64_t before_us, int max, int *removed, struct err *e);

/* ---- webhooks ---- */
int store_webhook_get(struct txn *t, const char *team, const char *id, struct webhook_rec *out, struct err *e);
int store_webhook_put(struct txn *t, const struct webhook_rec *r, struct err *e);
int store_webhook_delete(struct txn *t, const char *team, const char *id, struct err *e);   /* 1 deleted, 0 not there */
typedef int store_webhook_fn(void *ctx, const struct webhook_rec *r, struct err *e);
/* Of a team (NULL = of all). */
int store_walk_webhooks(struct txn *t, const char *team, store_webhook_fn *fn, void *ctx, struct err *e);

int store_outbox_add(struct txn *t, struct outbox_rec *r, struct err *e);
int store_outbox_delete(struct txn *t, const struct outbox_rec *r, struct err *e);
/* The first webhook after `after` ("" = from the start) that something waits for: 1, 0, -1. */
int store_outbox_webhook(struct txn *t, const char *after, char webhook[UUID_LEN], struct err *e);
/* What waits for it, by next attempt. */
typedef int store_outbox_fn(void *ctx, struct txn *t, const struct outbox_rec *r, struct err *e);
int store_walk_outbox(struct txn *t, const char *webhook, store_outbox_fn *fn, void *ctx, struct err *e);
/* fn is called after each commit of this process that put something new into the outbox: to wake who delivers. */
void store_on_outbox(struct store *st, void (*fn)(void *ctx), void *ctx);
/* The same entry due later is none that is new: no call of fn. */
int store_outbox_later(struct txn *t, const struct outbox_rec *before, struct outbox_rec *now, struct err *e);

int store_delivery_add(struct txn *t, struct delivery_rec *r, struct err *e);
typedef int store_delivery_fn(void *ctx, const struct delivery_rec *r, struct err *e);
int store_walk_deliveries(struct txn *t, store_delivery_fn *fn, void *ctx, struct err *e);   /* newest first */
/* Drop those before before_us, and the oldest beyond keep, at most max. */
int store_deliveries_trim(struct txn *t, int64_t before_us, size_t keep, int max, int *removed, struct err *e);
int store_sample_put(struct txn *t, const char *id, const struct sample *s, struct err *e);
/* Oldest first, from from_us on, before to_us; fn: 0 goes on, 1 stops, -1 fails. */
typedef int store_sample_fn(void *ctx, const struct sample *s, struct err *e);
int store_walk_samples(struct txn *t, const char *id, int64_t from_us, int64_t to_us, store_sample_fn *fn, void *ctx, struct err *e);
/* The newest: 1, or 0 when there is none. */
int store_sample_last(struct txn *t, const char *id, struct sample *out, struct err *e);
/* Of the samples of one span of step_us only the first stays: deletes the last one before before_us if it is not that. */
int store_sample_thin(struct txn *t, const char *id, int64_t before_us, int64_t step_us, struct err *e);
int store_team_sample_put(struct txn *t, const char *team, const struct team_sample *s, struct err *e);
typedef int store_team_sample_fn(void *ctx, const struct team_sample *s, struct err *e);
int store_walk_team_samples(struct txn *t, const char *team, int64_t from_us, int64_t to_us, store_team_sample_fn *fn, void *ctx,
			    struct err *e);
/* Drops samples of both kinds from before before_us: looks at no more than max sandboxes and teams and deletes no more than max
 * samples. `after` ("" at first; 64 bytes) keeps the place; "" again once everything was looked at. */
int store_samples_trim(struct txn *t, int64_t before_us, int max, char after[64], int *removed, struct err *e);

/* ---- lines of agents ---- */
const char *line_level_name(int level);
int line_level_find(const char *name);       /* a level, or -1 */
/* Of a time of a sandbox there is one: put again it is replaced. */
int store_line_put(struct txn *t, const char *id, const struct line_rec *r, struct err *e);
/* Newest first; fn: 0 goes on, 1 stops, -1 fails. The record is lent. */
typedef int store_line_fn(void *ctx, const struct line_rec *r, struct err *e);
int store_walk_lines(struct txn *t, const char *id, store_line_fn *fn, void *ctx, struct err *e);
/* The time of the newest; 0 when there is none. */
int store_line_newest(struct txn *t, const char *id, int64_t *us, struct err *e);
/* Only the newest `keep` of a sandbox stay. */
int store_lines_cap(struct txn *t, const char *id, size_t keep, struct err *e);
/* As store_samples_trim. */
int store_lines_trim(struct txn *t, int64_t before_us, int max, char after[64], int *removed, struct err *e);

int store_meta_get(struct txn *t, const char *key, void *out, size_t size, struct err *e); /* exact size */
int store_meta_put(struct txn *t, const char *key, const void *p, size_t size, struct err *e);
/* n numbers of a meta record; all 0 when it is not there. */
int store_numbers_get(struct txn *t, const char *key, int64_t *v, size_t n, struct err *e);
int store_numbers_put(struct txn *t, const char *key, const int64_t *v, size_t n, struct err *e);
/* Text of a meta record, appended to out: 1, 0, -1. text NULL deletes it. */
int store_text_get(struct txn *t, const char *key, struct buf *out, struct err *e);
int store_text_put(struct txn *t, const char *key, const char *text, struct err *e);

/* Ids of deliveries that were taken: 1 it was, 0, -1. */
int store_seen_get(struct txn *t, const uint8_t hash[32], struct err *e);
/* Note it down; beyond max ids the oldest goes. */
int store_seen_put(struct txn *t, const uint8_t hash[32], int64_t us, size_t max, struct err *e);
/* Forget those from before before_us, at most max. */
int store_seen_trim(struct txn *t, int64_t before_us, int max, int *removed, struct err *e);

/* How much of db_size_mb is in use, in percent; from STORE_FULLNESS_EXACT on, pages that were freed are taken off.
 * In a read transaction. */
#define STORE_FULLNESS_EXACT 75
int store_fullness(struct txn *t, int *percent, struct err *e);

/* Audit: every row decodes, every index entry has its row and every row its entries, the counts are right. problem() is told
 * each contradiction in one line. Number of contradictions, or -1 when the check itself failed. Reads all records. */
typedef void store_problem_fn(void *ctx, const char *text);
int store_check(struct txn *t, store_problem_fn *problem, void *ctx, struct err *e);

#endif
