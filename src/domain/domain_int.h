/* domain_int.h - what the files of src/domain share. */
#ifndef HUTCH_DOMAIN_INT_H
#define HUTCH_DOMAIN_INT_H

#include "hutch/domain.h"
#include "hutch/json.h"
#include "hutch/webhook.h"
#include "hutch/when.h"

#define DEFAULT_TEAM "World team"

/* ---- events (event.c; api.md 14.1) ---- */
#define EVENT_CREATED "sandbox.lifecycle.created"
#define EVENT_KILLED "sandbox.lifecycle.killed"
#define EVENT_PAUSED "sandbox.lifecycle.paused"
#define EVENT_RESUMED "sandbox.lifecycle.resumed"
#define EVENT_UPDATED "sandbox.lifecycle.updated"
#define EVENT_CHECKPOINTED "sandbox.lifecycle.checkpointed"
/* reason: kill reason or NULL; new_end_us: of a lease change, else 0. The row is as it was while running. */
int event_write(struct txn *t, const struct sandbox_rec *r, const char *type, int64_t now_us, const char *reason,
		int64_t new_end_us, struct err *e);

/* What webhooks of the team are to be told of that event, in the same transaction (outbox.c). */
int outbox_put(struct txn *t, const struct sandbox_rec *r, const char *type, int64_t event_us, uint32_t event_seq, struct err *e);

#define TIGHT_PERCENT 85             /* fullness of the records from which history goes before its time */

/* For how long lines of agents are kept (journal.c). */
int64_t journal_keep_us(const struct domain *d, int percent);
/* What the agent of a sandbox that ended had noted, in the transaction that forgets it. */
int journal_keep(struct domain *d, struct txn *t, const char *team, const char *id, struct json_object *lines, struct err *e);
/* ---- what is too old (trim.c) ---- */
#define TRIM_EACH 1000               /* records removed in one transaction */
typedef int trim_fn(struct txn *t, const void *ctx, int *removed, struct err *e);
/* fn, which removes at most TRIM_EACH, in one transaction after the other until there is less to remove. total is added to. */
int trim_rounds(struct domain *d, trim_fn *fn, const void *ctx, int64_t *total, struct err *e);

/* ---- the mirrored account (upstream.c) ---- */
/* A refresh is due; or (removed) what a refresh that is under way brings may be older than a removal. */
int upstream_mark(struct txn *t, bool removed, int64_t now_us, struct err *e);
struct upstream_state;
/* Inside the transaction that takes over a page: ERR_CONFLICT as upstream_apply; else what was on it is noted down. */
int upstream_fresh(struct txn *t, const struct upstream_state *begun, int list, size_t rows, bool full, struct err *e);

/* ---- rows (kill.c) ---- */
/* -1 when the row is the mirrored account's: nothing here changes it. */
int row_is_ours(const struct sandbox_rec *r, struct err *e);
#define LONG_US (60 * US_PER_S)         /* what the pool may need beyond a usual call: to copy a disk, or to wait for a start command */
#define KILL_RETRY_US (15 * US_PER_S)    /* a kill comes due again after this: longer than a call to the pool may take */
int sandbox_missing(const char *id, struct err *e);     /* ERR_NOT_FOUND in the API's words; -1 */
/* Whether clients see the row; one whose lease is over and that is to be paused then becomes as if it were. */
bool row_show(struct sandbox_rec *r, int64_t now_us);
/* The same by what a glance tells; *state becomes what clients see. */
bool state_show(uint8_t *state, bool auto_pause, int64_t end_us, int64_t now_us);
bool sandbox_is_live(const struct sandbox_rec *r, int64_t now_us);
/* The row becomes SB_KILLING, with a killed event if clients ever saw it. */
int killing_put(struct txn *t, const struct sandbox_rec *before, const char *reason, int64_t now_us, int64_t due_us, bool handed,
		struct err *e);
/* A row in SB_KILLING becomes due now and the reaper's. */
int killing_hand_over(struct domain *d, const char *id, struct err *e);

/* ---- network rules (network.c) ---- */
#define ALL_ADDRESSES "[\"0.0.0.0/0\"]"
/* What a pool can do for a sandbox that wants this: its kind, and what has to be asked for. */
int pool_caps_for(struct domain *d, uint8_t kind, uint32_t wants, struct pool_caps *out, struct err *e);
int reap_network(struct domain *d, const struct reap_work *w, struct err *e);
int reap_network_done(struct txn *t, const struct reap_work *w, struct err *e);

/* ---- clock (clock.c) ---- */
int clock_open(struct domain *d, struct err *e);
void clock_close(struct domain *d);

/* ---- pausing and resuming (pause.c, resume.c) ----
 * Running -> SB_PAUSING -> SB_PAUSED -> SB_RESUMING -> running. The steps in the middle are rows that come due; the reaper
 * finishes a pause and takes a resume back. struct reap_work names such a step: the execution id tells it from a later one. */
/* The lease is over and the row is to be paused: for clients it is paused already. */
bool sandbox_lapsed(const struct sandbox_rec *r, int64_t now_us);
/* The row by id if it is the team's (NULL = any team's): 0, or -1 with sandbox_missing. */
int get_own(struct txn *t, const char *team, const char *id, struct sandbox_rec *r, struct err *e);
void work_of(const struct sandbox_rec *r, struct reap_work *w);
int pausing_put(struct txn *t, struct sandbox_rec *r, bool memory, bool handed, int64_t due_us, struct err *e);
/* The machine stands still: the row becomes SB_PAUSED. *done is false when the row is no longer that of the work. */
int paused_put(struct txn *t, const struct reap_work *w, int64_t now_us, bool *done, struct err *e);
int paused_commit(struct domain *d, const struct reap_work *w, bool *done, struct err *e);
void transit_hand_over(struct domain *d, const struct reap_work *w);  /* due now, the reaper's */
void transit_orphaned(struct domain *d, const struct reap_work *w);   /* the machine is gone: the row goes too */
/* The pool's part of REAP_PAUSE and REAP_UNDO. */
int reap_pause(struct domain *d, const struct reap_work *w, struct err *e);

/* Waiting for another process's step, by looking again and again: no process tells another. */
struct patience { int64_t until_us, pause_us; };
void patience_begin(struct patience *p);
bool patience_wait(struct patience *p);                 /* false: it has been long enough */

/* ---- what a sandbox starts from (origin.c) ---- */
struct origin {
	struct template_rec t;       /* what its row says of it; of a snapshot: that of the sandbox it was made of, under the capture's build id */
	struct pool_rec p;
	uint8_t pool_kind;           /* of a snapshot */
	char checkpoint[MACHINE_ID_LEN]; /* "" = the template itself */
};
/* ERR_INVALID grammar, ERR_NOT_FOUND. Release also after a failure of what follows. */
int origin_resolve(struct domain *d, const struct team_rec *team, const char *text, struct origin *o, struct err *e);
void origin_release(struct origin *o);

/* ---- snapshots (snapshot.c, captures.c) ---- */
void snapshot_describe(const struct team_rec *team, const struct snapshot_rec *s, const char *tag, struct snapshot_info *out);
struct captures {
	struct capture_rec *c;       /* the caller's to free */
	size_t n, cap;
};
/* Adds those of a snapshot, or all (NULL). */
int captures_of(struct txn *t, const char *snapshot, struct captures *out, struct err *e);
/* Those rows are CAPTURE_REMOVING: out of the pool, and then the rows. What does not succeed is left to the audit. */
void captures_remove(struct domain *d, const struct captures *l);
/* A capture that is not to be: its sandbox runs on, its snapshot goes if there is no other; unsure: the pool may have made it. */
int capture_undo(struct domain *d, struct txn *t, struct capture_rec *c, bool unsure, struct err *e);
/* A row in SB_SNAPSHOTTING that came due. */
int snapshotting_undo(struct domain *d, struct txn *t, const struct sandbox_rec *r, struct err *e);
/* Captures and checkpoints: finishes removals, forgets what was not finished, removes checkpoints without a row. */
int captures_audit(struct domain *d, struct err *e);

/* ---- paging (page.c) ---- */
struct place {
	int64_t us;
	char id[SANDBOX_ID_LEN];     /* "" = before the first */
};
void page_token_write(char list, const struct place *p, char out[PAGE_TOKEN_LEN]);
/* ERR_INVALID when it is none of that list, which has ids of id_len characters. */
int page_token_read(const char *token, char list, size_t id_len, struct place *p, struct err *e);

/* ---- lease.c ---- */
/* The live row, or ERR_NOT_FOUND (paused ones too), or ERR_CONFLICT while it changes. */
int live_row(struct txn *t, const char *team, const char *id, int64_t now_us, struct sandbox_rec *r, struct err *e);

/* ---- create.c ---- */
bool version_before(const char *a, const char *b);       /* of x.y.z; one that is none is before all */
int place_failed(struct err *e);     /* what a failed claim or wake means to the client (api.md 3, 5.2); -1 */

/* ---- reserve.c ---- */
int check_limit(struct txn *t, const struct team_rec *team, struct err *e);
/* Could it be reserved now? Costs no lock. */
int reserve_check(struct domain *d, const struct team_rec *team, uint8_t pool_kind, struct err *e);
/* A reservation, made once however often reserve_row is called with it. */
struct reserving {
	struct domain *d;
	const struct team_rec *team;
	const struct sandbox_rec *r;
	bool done;
	int status;                  /* once done: 0, or -1 with e */
	struct err e;
};
void reserve_row(void *reserving);

/* ---- string maps (map.c) ---- */
/* The object `text` (NULL = none) as compact canonical JSON, bounded; errors name `field`. *out is NULL or the caller's to free. */
int map_canonical(const char *field, const char *text, char **out, struct err *e);
/* Pairs that are looked for in many maps, as canonical text. */
#define MAP_PAIRS_MAX 32
struct map_pairs {
	struct buf text;
	size_t n, end[MAP_PAIRS_MAX];
};
/* Of key, value, ...; ERR_INVALID: too many or too long. */
int map_pairs_init(struct map_pairs *m, const char *const *pairs, size_t npairs, struct err *e);
void map_pairs_release(struct map_pairs *m);
/* Whether the canonical map of n bytes holds all of them. */
bool map_has(const char *map, size_t n, const struct map_pairs *m);

/* ---- names (name.c; api.md 4) ---- */
struct template_ref {
	char ns[NAME_MAX_LEN];       /* "" = bare */
	char alias[NAME_MAX_LEN];
	char tag[NAME_MAX_LEN];      /* "" = default */
};
int template_ref_parse(const char *text, struct template_ref *out, struct err *e);
/* A name in namespace ns, if it is this template's, goes (template_delete.c). */
int template_name_drop(struct txn *t, const char *ns, const struct template_rec *r, struct err *e);
bool name_chars_ok(const char *s, const char *more);    /* [a-z0-9-_] and those of more, at least one */
/* Of a template with one build: its tag, if one is named, must be that of the build, or its id. */
int template_check_tag(const struct template_rec *t, const struct template_ref *ref, struct err *e);
/* A template that the team sees: its own name, a public one, an id. 1, 0, -1. */
int template_find(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct template_rec *out, struct err *e);
void team_slug(const char *name, char out[NAME_MAX_LEN]);

/* ---- teams and keys (team.c, key.c) ---- */
#define KEY_PREFIX "e2b_"
#define TOKEN_PREFIX "sk_e2b_"
#define KEY_HEX_MAX 128              /* longer ones are nobody's */
int name_check(const char *name, struct err *e);
/* The team of that name, made unless there. */
int team_named(struct domain *d, struct txn *t, const char *name, struct team_rec *out, struct err *e);
/* Hash, kind, length and mask of a key's text; false when it is not well-formed (the case of the digits does not matter). */
bool key_parse(const char *text, struct key_rec *out);
/* The key that the secret and `purpose` give a team, recorded unless it is there. */
int key_derive(struct domain *d, struct txn *t, const char *purpose, const char *name, const char *team_id, char key[45], struct err *e);
/* 1 and the record if the text is a key of that kind; its use is noted. */
int key_find(struct domain *d, const char *text, enum key_kind kind, struct team_rec *team, struct err *e);
/* The file of the admin token; hash of its line. */
int admin_token_read(const char *path, uint8_t hash[32], struct err *e);

/* ---- the machine pool (across.c) ---- */
/* A machine of that kind of pool may be made or woken now: else ERR_UNAVAILABLE, when it would be the node's and that takes none. */
int node_takes(struct txn *t, uint8_t pool_kind, struct err *e);

/* ---- what programs share (count.c, rate.c) ---- */
/* The file RUN/name of that size, mapped; NULL. Zeros at first. */
void *shared_map(const struct config *c, const char *name, size_t size, struct err *e);
int rates_open(struct domain *d, struct err *e);
void rates_close(struct rates *r);
void counts_close(struct counts *c);

/* ---- removing many machines at once (crew.c) ---- */
/* reap_remove for each, a few at a time (none more once the pool does not answer), then reap_forget for those removed, which
 * stand first in work[] then. Their number; *failed tells whether some are left, and *e why. */
size_t crew_finish(struct domain *d, struct reap_work *work, size_t n, bool *failed, struct err *e);

#endif
