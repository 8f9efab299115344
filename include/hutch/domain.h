/*
 * domain.h - teams, keys, templates, sandboxes: the rules, with records and machines behind.
 * Time comes in through the domain's clock; nothing here knows HTTP.
 */
#ifndef HUTCH_DOMAIN_H
#define HUTCH_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/buf.h"
#include "hutch/conf.h"
#include "hutch/err.h"
#include "hutch/pool.h"
#include "hutch/secret.h"
#include "hutch/store.h"

#define LIMIT_RETRY_S 1              /* when to ask again after the limit of sandboxes at once: unlike what a team keeps, they end by themselves */

struct domain {
	const struct config *conf;
	struct store *store;
	struct pool *pool;                       /* the local node's: kinds local and light */
	struct pool *rows, *fake;                /* kinds none and fake */
	uint8_t secret[SECRET_LEN];
	int64_t anchor_wall_us, anchor_boot_us;  /* see domain_now */
	_Atomic int64_t *clock;                  /* shared by all processes: 0 = real, else the frozen time */
	int nudge_fd;                            /* datagram socket of reaper_nudge */
	bool has_admin;                          /* admin_token_file is set */
	uint8_t admin_hash[32];                  /* SHA-256 of the admin token */
	struct rates *rates;                     /* NULL while no rate is bounded */
	struct counts *counts;                   /* NULL in tools: shared_open */
};

/* Opens store and pool, reads the secret. `conf` must outlive it. The node need not be there yet. */
int domain_open(struct domain *d, const struct config *conf, struct err *e);
/* As domain_open over a pool of the caller's, which is closed with the domain (and at a failure). */
int domain_open_with(struct domain *d, const struct config *conf, struct pool *pool, struct err *e);
void domain_close(struct domain *d);

/* The instance's time: wall clock at the first start after boot, plus boot time since. It is one for all processes
 * (the anchor is a record) and a stepped wall clock moves no deadline. Or the instant at which it was frozen. */
int64_t domain_now(const struct domain *d);
/* The same, but never frozen: for what happens outside of the instance's world, such as deliveries. */
int64_t domain_real_now(const struct domain *d);

struct world_clock {
	bool frozen;
	int64_t now_us;
};
void clock_get(const struct domain *d, struct world_clock *out);
struct clock_spec {
	const char *mode;            /* "real" or "frozen", NULL = as it is */
	int64_t at_us;               /* freeze there; 0 = at the present time */
	int64_t advance_us;          /* and go on by this much */
};
/* Set the clock of all processes. On the way forward what comes due is done at its time and in order, before this returns (what takes too
 * long is left to the reaper). ERR_INVALID naming the field: bad mode; at or advance with a clock that is not frozen. */
int clock_set(struct domain *d, const struct clock_spec *s, struct err *e);

/* May programs run with this configuration? The domain is a name, secret, admin token and key file are well-formed, and someone may
 * use the instance. Warns of anonymous use. 0, or -1 saying what to do. */
int start_check(const struct config *conf, struct err *e);
/* Imports the key file, if there is one. */
int start_init(struct domain *d, struct err *e);
/* The file with a random token, unless it is there. */
int admin_token_make(const char *path, struct err *e);

/* ---- who is asking (api.md 2); each argument is a header's value or NULL ---- */
/* X-API-Key | X-Admin-Token and X-Team-ID. ERR_UNAUTHENTICATED, ERR_INVALID (team id), ERR_NOT_FOUND (no such team). */
int auth_team(struct domain *d, const char *key, const char *admin, const char *team_id, struct team_rec *out, struct err *e);
/* Authorization: Bearer sk_e2b_...: the team that the access token is of. */
int auth_user(struct domain *d, const char *authorization, struct team_rec *out, struct err *e);
/* auth_user, for its own team if X-Team-ID names one | X-Admin-Token and X-Team-ID. */
int auth_manager(struct domain *d, const char *authorization, const char *admin, const char *team_id, struct team_rec *out,
		 struct err *e);
int auth_admin(struct domain *d, const char *admin, struct err *e);
/* A UUID in lower case; -1 when it is none. */
int uuid_canonical(const char *text, char out[UUID_LEN]);

/* ---- teams ---- */
/* Make the team of that name (NULL = "World team") unless there; its door key is derived from the secret, so asking again
 * answers the same. key: "e2b_" + 40 hex and a NUL. */
int team_make(struct domain *d, const char *name, struct team_rec *out, char key[45], struct err *e);
/* ERR_NOT_FOUND */
int team_get(struct domain *d, const char *id, struct team_rec *out, struct err *e);
/* Change the limits of a team; 0 leaves one. ERR_NOT_FOUND. */
int team_limit(struct domain *d, const char *name, uint32_t sandboxes, uint32_t hours, struct err *e);

/* A blocked team reads and removes, but starts and changes nothing; a banned one may do nothing. What runs goes on. reason: up to
 * TEAM_REASON_LEN - 1 bytes, told to the team; NULL = none. ERR_NOT_FOUND. */
int team_state_set(struct domain *d, const char *name, enum team_state state, const char *reason, struct err *e);
/* ERR_DENIED in the API's words (api.md 2). changes: the request starts or changes something. */
int team_may(const struct team_rec *team, bool changes, struct err *e);

/* ---- API keys and access tokens; only their SHA-256 is kept ---- */
#define KEY_LEN 48                   /* "sk_e2b_" + 40 hex and a NUL */
#define KEYS_MAX 1000                /* of one team */
/* The team of an API key ("e2b_" + hex; NULL = none was sent). ERR_UNAUTHENTICATED. */
int team_by_key(struct domain *d, const char *key, struct team_rec *out, struct err *e);
/* A further random key of the team; ERR_LIMIT when it has KEYS_MAX. */
int key_new(struct domain *d, const char *team_id, enum key_kind kind, const char *name, char key[KEY_LEN], struct key_rec *out,
	    struct err *e);
/* Keys of a team, told one by one outside any transaction. fn: 0 goes on, -1 fails. */
int key_each(struct domain *d, const char *team_id, enum key_kind kind, store_key_fn *fn, void *ctx, struct err *e);
/* By id, and only the team's. ERR_NOT_FOUND. */
int key_rename(struct domain *d, const char *team_id, const char *id, const char *name, struct err *e);
int key_delete(struct domain *d, const char *team_id, enum key_kind kind, const char *id, struct err *e);
/* The key of the CLI's login: the same each time, made again if it was deleted (api.md 10). */
int key_of_login(struct domain *d, const char *team_id, char key[45], struct err *e);
/* By names, for the operator. */
int team_key_new(struct domain *d, const char *team_name, enum key_kind kind, char key[KEY_LEN], struct err *e);
int team_key_revoke(struct domain *d, const char *key, struct err *e);
/* Import `key [namespace]` lines. whole: keys that came from a file before and are not in this one end. ERR_INVALID "FILE:LINE: ..." */
int key_file_import(struct domain *d, const char *path, bool whole, int *added, int *ended, struct err *e);
/* Only look whether it could be imported. */
int key_file_check(const char *path, struct err *e);

/* ---- how often a team may ask ---- */
enum rate_group { RATE_READ, RATE_CHANGE, RATE_CREATE, RATE_GROUPS };
struct rate_answer {
	bool bounded;                /* else nothing below is set */
	bool refused;
	uint32_t limit, remaining;   /* requests at once; what is left of them */
	uint32_t reset_s;            /* until all of them are there again, rounded up */
	uint32_t retry_s;            /* refused: until one is, at least 1 */
};
/* Map what the serving programs share in run_dir, rates and counts; they all run as one user, and an operator's tool does not. */
int shared_open(struct domain *d, struct err *e);
void rate_take(struct domain *d, const char *team_id, enum rate_group group, struct rate_answer *out);

/* ---- templates ---- */
struct template_spec {
	const char *team;            /* name, or NULL for "World team" */
	const char *alias, *image;
	const char *pool;            /* name of its machine pool, or NULL: the default one, whichever that is at a create */
	const char *command;         /* JSON array text or NULL */
	uint32_t ready_port;         /* 0 = the start command is not waited for */
	const char *envd_version;    /* or NULL */
	uint32_t cpu_count, memory_mb, disk_mb;  /* 0 = 2, 1024, 1024 */
	bool is_public;              /* also reachable without namespace */
};
/* The same team and alias again replaces image and sizes and keeps the id (a new build id). ERR_INVALID naming the field,
 * ERR_NOT_FOUND: no such team, ERR_CONFLICT: the public name is another team's. */
int template_enrol(struct domain *d, const struct template_spec *s, struct template_rec *out, struct err *e);
/* api.md 4: [namespace/]alias[:tag] or id, seen by the team. ERR_INVALID grammar, ERR_NOT_FOUND. */
int template_resolve(struct domain *d, const struct team_rec *team, const char *ref, struct template_rec *out, struct err *e);
/* Lists are paged by tokens of at most this size; "" = it was the last page. */
#define PAGE_TOKEN_LEN 200
/* The team's, newest first; limit 0 = all. fn: 0 goes on, -1 fails; it is not told image and command. */
typedef int template_fn(void *ctx, const struct template_rec *r, struct err *e);
int template_list(struct domain *d, const struct team_rec *team, int limit, const char *next_token, template_fn *fn, void *ctx,
		  char next[PAGE_TOKEN_LEN], struct err *e);
/* By id: ERR_NOT_FOUND, ERR_DENIED: another team's. */
int template_get(struct domain *d, const struct team_rec *team, const char *id, struct template_rec *out, struct err *e);
struct template_alias {
	char id[TEMPLATE_ID_LEN];
	bool is_public, snapshot;
};
/* [slug/]alias[:tag] of a template or snapshot of the team. ERR_INVALID (another team's namespace too), ERR_NOT_FOUND, ERR_DENIED: a public one
 * of another team. */
int template_alias(struct domain *d, const struct team_rec *team, const char *text, struct template_alias *out, struct err *e);
/* By id, alias or slug/alias; a tag is not looked at. A snapshot goes with all that it keeps, whoever started from it.
 * ERR_NOT_FOUND, ERR_DENIED: another team's, ERR_INVALID: there are sandboxes of the template. */
int template_delete(struct domain *d, const struct team_rec *team, const char *text, struct err *e);
/* Push every template's shape to the pool, so that it keeps warm machines. */
int template_push_shapes(struct domain *d, struct err *e);

/* ---- sandboxes ---- */
/* ---- machine pools ---- */
#define POOL_LOCAL_NAME "local"
#define POOL_UPSTREAM_NAME "upstream"    /* rows of the vendor (hutch/upstream.h) */
#define POOL_DEFAULT_NAME "default"      /* if there is one of that name, templates without a pool use it; else `local` */

/* Enrol a pool, or replace the one of its name: sandboxes that run are finished by the kind that made them. body is a JSON object,
 * {"kind", "name" (default "default"), and what the kind takes}. ERR_INVALID naming the field, unknown ones too; ERR_DENIED: kind
 * fake without option verification. */
int pool_enrol(struct domain *d, const char *body, size_t n, struct pool_rec *out, struct err *e);
/* The pool of that name ("" = the default one); `local` is always there. 1, 0 not there, -1. */
int pool_resolve(struct txn *t, const char *name, struct pool_rec *out, struct err *e);
/* `local`, `upstream` where one is set, then all others by name. */
int pool_walk(struct domain *d, store_pool_fn *fn, void *ctx, struct err *e);
/* The driver of a kind; the domain's. */
struct pool *pool_of(const struct domain *d, uint8_t kind);
bool pool_on_node(uint8_t kind);         /* its machines are the local node's */

/* What may be asked for beyond the plain sandbox; each is a row of the table in domain/admit.c: its option's name and what the
 * pool must be able to do for it. */
enum pool_want {
	WANT_AUTO_PAUSE, WANT_AUTO_PAUSE_DISK, WANT_AUTO_RESUME, WANT_INSECURE, WANT_NO_INTERNET, WANT_CLOSED_TRAFFIC, WANT_MASK_HOST,
	WANT_ALLOW_OUT, WANT_ALLOW_DOMAIN, WANT_DENY_OUT, WANT_NET_HEADERS, WANT_NET_PROXY, WANT_TOKENS, WANT_VOLUMES, WANT_ENV, WANT_METADATA,
	WANT_SIZES, WANT_COMMAND, WANT_CREATE,
	WANT_PAUSE, WANT_PAUSE_DISK, WANT_FORK, WANT_SNAPSHOT, WANT_SNAPSHOT_MEMORY, WANT_BUILD,
	POOL_WANTS
};
#define WANT_BIT(w) (1U << (w))

/* Whether a pool of these capabilities can have all of `wants` (WANT_BITs); metadata is JSON object text or NULL. ERR_INVALID
 * "option X cannot be had in pool Y". */
int pool_admit(const struct pool_caps *caps, const char *pool, uint32_t wants, const char *metadata, struct err *e);

struct sandbox_spec {
	const char *template_ref;
	int64_t timeout_s;
	bool secure;
	bool auto_pause;             /* pause at the end of the lease */
	bool auto_pause_disk;        /* ... keeping the disk alone: only with auto_pause and without auto_resume */
	bool auto_resume;            /* traffic resumes it */
	bool allow_internet, allow_internet_set;
	bool closed_traffic;         /* ports but the agent's ask for sandbox_traffic_token */
	const char *mask_host;       /* the host that guests' servers see, or NULL */
	const char *allow_out, *deny_out;    /* JSON array texts, canonical, or NULL */
	uint32_t wants;              /* WANT_BITs */
	const char *metadata;        /* JSON object text or NULL */
	const char *env;             /* JSON object text or NULL */
};

#define METADATA_BYTES_MAX 65536  /* of the JSON text, likewise of env */
#define METADATA_KEY_MAX 256

/* Every _create/_get/... fills *out, which the caller releases with sandbox_rec_release. In _get and _kill a team of NULL is
 * any team: for the data plane and the operator. A sandbox whose lease is over is not there, reaped or not. */
int sandbox_create(struct domain *d, const struct team_rec *team, const struct sandbox_spec *s, struct sandbox_rec *out, struct err *e);
/* Running or paused (or on the way) and the team's; else ERR_NOT_FOUND. One that is to be paused at the end of its lease is SB_PAUSED from
 * then on, whether that is done or not. */
int sandbox_get(struct domain *d, const char *team, const char *id, struct sandbox_rec *out, struct err *e);
/* ERR_NOT_FOUND when not there; racing kills both succeed. reason: api.md 6.8. Success when the machine does not answer, too:
 * the mark is durable, no client reaches the sandbox from then on, and the reaper removes the machine. */
int sandbox_kill(struct domain *d, const char *team, const char *id, const char *reason, struct err *e);
/* Lease end = now + seconds, may shorten; capped at started + max_hours (api.md 5.14). */
int sandbox_set_timeout(struct domain *d, const struct team_rec *team, const char *id, int64_t seconds, struct err *e);
/* Extends only (api.md 5.12 running, 5.15). */
int sandbox_extend(struct domain *d, const struct team_rec *team, const char *id, int64_t seconds, struct sandbox_rec *out, struct err *e);
/* Pause it (api.md 5.10). memory false keeps its disk alone. Joins a pause that is under way. ERR_CONFLICT: paused already or being
 * resumed; ERR_INVALID: the pool cannot; ERR_NOT_FOUND. At ERR_UNAVAILABLE and ERR_TIMEOUT the reaper finishes it. */
int sandbox_pause(struct domain *d, const char *team, const char *id, bool memory, struct err *e);
struct resume_spec {
	int64_t seconds;             /* lease from the moment it is up */
	bool only_paused;            /* a running one is ERR_CONFLICT; else its lease is extended to that, if longer */
	bool reboot;                 /* start on the disk alone, even if memory was kept */
	int auto_pause;              /* 0, 1, or -1: as it is */
};
/* Resume it (api.md 5.11, 5.12); *resumed: whether it was paused. Calls at the same time share one resume. ERR_LIMIT and the kinds
 * of sandbox_create; ERR_CONFLICT: being killed, or in transition for too long. */
int sandbox_resume(struct domain *d, const struct team_rec *team, const char *id, const struct resume_spec *s, struct sandbox_rec *out,
		   bool *resumed, struct err *e);
/* The same by traffic, whoever's it is (api.md 6.6): one that runs is left as it is. ERR_NOT_FOUND also where traffic resumes nothing. */
int sandbox_wake(struct domain *d, const char *id, struct sandbox_rec *out, struct err *e);
/* ---- snapshots (api.md 7) ---- */
struct snapshot_info {
	char id[3 * NAME_MAX_LEN];   /* slug/alias:tag, or template id:tag */
	char name[2 * NAME_MAX_LEN]; /* slug/alias, "" = without a name */
};
struct snapshot_spec {
	const char *name;            /* NULL, or [slug/]alias[:tag], which takes the place of an earlier one */
	bool memory;                 /* its processes, too, are asked for in so many words */
};
/* Keep the files of a running sandbox; it goes on. ERR_INVALID naming what is wrong, or that the pool cannot; ERR_NOT_FOUND (paused
 * ones too); ERR_CONFLICT in transition, or a name that a template has; ERR_LIMIT (team_snapshots, team_snapshot_mb). */
int sandbox_snapshot(struct domain *d, const struct team_rec *team, const char *id, const struct snapshot_spec *s, struct snapshot_info *out,
		     struct err *e);
struct snapshot_query {
	const char *sandbox;         /* that it was made of, or NULL */
	const char *name;            /* id or name, with or without tag; or NULL */
	int limit;
	const char *next_token;      /* or NULL */
};
/* The team's, newest first. fn: inside a read transaction. ERR_INVALID naming the field. */
typedef int snapshot_fn(void *ctx, const struct snapshot_info *s, struct err *e);
int snapshot_list(struct domain *d, const struct team_rec *team, const struct snapshot_query *q, snapshot_fn *fn, void *ctx,
		  char next[PAGE_TOKEN_LEN], struct err *e);
/* Refused, since no pool can: ERR_INVALID naming what; ERR_NOT_FOUND; ERR_CONFLICT: paused or in transition. */
int sandbox_fork(struct domain *d, const struct team_rec *team, const char *id, int64_t count, int64_t timeout_s, struct err *e);
/* Its network rules are those of s (allow_out, deny_out, allow_internet) from now on, and no others (api.md 5.16); what is open and no longer
 * allowed is cut. ERR_NOT_FOUND: not running; ERR_CONFLICT: in transition; ERR_INVALID, ERR_DENIED: the pool cannot. */
int sandbox_set_network(struct domain *d, const struct team_rec *team, const char *id, const struct sandbox_spec *s, struct err *e);
/* envd access token of a sandbox. */
void sandbox_token(const struct domain *d, const char *id, char out[TOKEN_LEN]);
/* Its traffic access token: the edge asks for it where closed_traffic is set (api.md 6.10). */
void sandbox_traffic_token(const struct domain *d, const char *id, char out[TOKEN_LEN]);

struct sandbox_query {
	bool want_running, want_paused;
	bool oldest_first;
	int64_t started_after_us;    /* inclusive; 0 = none */
	const char *template_id;     /* or NULL */
	const char *const *meta;     /* key, value, key, value ... */
	size_t nmeta;                /* pairs */
	int limit;                   /* 0 = no limit */
	const char *next_token;      /* or NULL */
};
/* Inside a read transaction: it must not touch the store, and the glance ends with the call. g->state is what clients see. 0 goes on, -1 fails. */
typedef int sandbox_list_fn(void *ctx, const char *id, const struct sandbox_glance *g, struct err *e);
/* next gets the token or "".
 * total_running (may be NULL): running ones that match, on this page or not. A bad token is ERR_INVALID. */
int sandbox_list(struct domain *d, const char *team, const struct sandbox_query *q, sandbox_list_fn *fn, void *ctx,
		 char next[PAGE_TOKEN_LEN], uint64_t *total_running, struct err *e);

/* ---- across teams ---- */
typedef int team_running_fn(void *ctx, const struct team_rec *team, uint64_t running, struct err *e);
/* Teams with running sandboxes; fn must not touch the store. */
int teams_running(struct domain *d, team_running_fn *fn, void *ctx, struct err *e);
/* Ends all that run of a team, in transactions of many: gone for clients when it returns, the reaper removes the machines. */
int team_kill(struct domain *d, const char *team_id, int *killed, struct err *e);
struct use {                         /* of the whole instance */
	uint64_t state[SB_KILLING + 1];      /* rows by enum sandbox_state */
	uint64_t cpu_count, memory_mb;       /* promised to rows with a machine */
};
int sandboxes_use(struct domain *d, struct use *out, struct err *e);

/* Whether the local node takes sandboxes: in another state than NODE_READY creates and resumes on it are refused (ERR_UNAVAILABLE), all that
 * runs goes on, and what sleeps can be removed. */
enum node_status { NODE_READY, NODE_DRAINING, NODE_STANDBY };
/* *since_us: when it was last changed; before the first change, when the machine started. */
int node_status_get(struct domain *d, enum node_status *out, int64_t *since_us, struct err *e);
int node_status_set(struct domain *d, enum node_status status, struct err *e);

/* ---- counts of all serving programs since the machine's start (or since RUN/counts was made) ---- */
enum count { COUNT_CREATED, COUNT_CREATE_FAILED, COUNT_KILLED_REQUEST, COUNT_KILLED_TIMEOUT, COUNT_KILLED_ADMIN, COUNTS };
void count_add(const struct domain *d, enum count c, uint64_t n);
uint64_t count_get(const struct domain *d, enum count c);
#define COUNT_BUCKETS 12
extern const int64_t count_bounds_us[COUNT_BUCKETS];     /* upper bounds; a last bucket has none */
struct request_counts {
	char program[24];
	uint64_t status[6];                  /* by hundreds; [0] is unused */
	uint64_t bucket[COUNT_BUCKETS + 1];  /* not summed up */
	uint64_t sum_us;
};
void count_request(const struct domain *d, const char *program, int status, int64_t us);
/* The i-th program's; false behind the last. */
bool count_requests(const struct domain *d, size_t i, struct request_counts *out);

/* ---- lines of agents ---- */
/* Ask the machine of the team's sandbox (team NULL: of anybody's) what its agent noted since the newest line that is kept, and keep it.
 * Nothing to do unless it runs. It takes JOURNAL_COLLECT_US at most. */
#define JOURNAL_COLLECT_US 250000
int journal_collect(struct domain *d, const char *team, const char *id, struct err *e);

/* ---- samples of use ---- */
#define SAMPLE_S 5
struct sampler;                      /* what the sample before said: processor use is a difference */
struct sampler *sampler_new(void);
void sampler_free(struct sampler *s);
/* Take a sample of every running sandbox and team, and drop some of what is too old or too dense. */
int sample_once(struct domain *d, struct sampler *s, struct err *e);
/* Samples of the team's sandbox, dead ones too, oldest first, one for each step of the range (api.md 5.17). from_us 0 = the first.
 * fn must not touch the store. */
int sample_each(struct domain *d, const char *team_id, const char *id, int64_t from_us, int64_t to_us, store_sample_fn *fn, void *ctx,
		struct err *e);
/* The newest of the team's sandbox: 1, or 0. */
int sample_newest(struct domain *d, const char *team_id, const char *id, struct sample *out, struct err *e);
int team_sample_each(struct domain *d, const char *team_id, int64_t from_us, int64_t to_us, store_team_sample_fn *fn, void *ctx,
		     struct err *e);

/* ---- the reaper's passes; each may safely run twice ---- */
/* Marking and finishing apart, so that a pool that hangs delays no lease end: */
enum reap_act {
	REAP_REMOVE,                     /* the machine goes, then the row */
	REAP_PAUSE,                      /* the machine is put to sleep, then the row is paused */
	REAP_UNDO,                       /* of a resume: likewise, and nobody hears of it */
	REAP_NETWORK,                    /* the machine gets the rules that the row has: a change of them was not finished */
};
struct reap_work {
	char id[SANDBOX_ID_LEN];
	uint8_t pool_kind;
	char machine[MACHINE_ID_LEN];    /* "" = by claim reference */
	char execution[UUID_LEN];        /* the run that it is about */
	enum reap_act act;
	bool memory;                     /* to be kept */
	int64_t net_due_us;              /* REAP_NETWORK: as in the row */
	struct json_object *lines;       /* what its agent had noted, or NULL: reap_remove sets it, reap_forget keeps it and puts it */
};
/* Marks up to max due rows as killing (with their events) or pausing in one transaction and lists what is to be done about machines.
 * *next_us: first key still to come, or -1. */
int reap_mark(struct domain *d, struct reap_work *work, size_t max, size_t *n, int64_t *next_us, struct err *e);
/* The machine's part; the row comes due again if this fails. */
int reap_remove(struct domain *d, struct reap_work *w, struct err *e);
/* The rows' part, in one transaction, once the machines are gone or asleep. */
int reap_forget(struct domain *d, struct reap_work *work, size_t n, struct err *e);
/* Both, until nothing is due. Number of rows handled, or -1. */
int reap_once(struct domain *d, int64_t *next_us, struct err *e);
/* Compares rows and machines: frees machines without a row, ends running rows whose machine is gone
 * (only when the node answered a full list), finishes kills that are left over; likewise with what snapshots keep. */
int audit_once(struct domain *d, struct err *e);
/* How full the records are, in percent. */
int domain_fullness(const struct domain *d, int *percent, struct err *e);
/* Drops events older than event_days; earlier ones too when the records are nearly full, since ending what runs needs room. */
int events_trim(struct domain *d, struct err *e);
/* A number that changes when what template_push_shapes would push does; *known: whether the node has just these templates. */
int template_shapes_state(struct domain *d, uint64_t *state, bool *known, struct err *e);
/* Tell the reaper that an earlier deadline may be there; never blocks, failure is harmless. */
void reaper_nudge(const struct domain *d);
/* Datagram socket the reaper waits on (RUN/reaper.sock), non-blocking. The descriptor, or -1. */
int reaper_bind(const struct config *c, struct err *e);
/* Take the lock of the one reaper of these records (DB/reaper.lock), held while the descriptor is open. ERR_CONFLICT. */
int reaper_lock(const struct config *c, struct err *e);

#endif
