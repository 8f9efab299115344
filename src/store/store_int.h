/*
 * store_int.h - what the files of src/store share: the environment, keys, and the packed form of records.
 */
#ifndef HUTCH_STORE_INT_H
#define HUTCH_STORE_INT_H

#include <lmdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hutch/buf.h"
#include "hutch/store.h"

enum table {
	T_META, T_TEAMS, T_TEAM_NAMES, T_TEAM_SLUGS, T_KEYS, T_TEMPLATES, T_TEMPLATE_NAMES, T_SANDBOXES, T_BY_START, T_DUE,
	T_COUNTS, T_EVENTS, T_POOLS,
	T_EVENTS_OF, T_WEBHOOKS, T_OUTBOX, T_DELIVERIES,
	T_TEAM_KEYS, T_SAMPLES, T_TEAM_SAMPLES, T_LINES,
	T_SEEN, T_SEEN_AT,
	T_SNAPSHOTS, T_SNAPSHOT_NAMES, T_SNAPSHOTS_OF, T_CAPTURES, T_MAKING,
	TABLES
};

extern const char *const table_names[TABLES];

#define UUID_CHARS (UUID_LEN - 1)
#define SANDBOX_ID_CHARS (SANDBOX_ID_LEN - 1)
#define KEY_START_LEN (UUID_CHARS + 8 + SANDBOX_ID_CHARS)
#define KEY_DUE_LEN (8 + SANDBOX_ID_CHARS)
#define KEY_EVENT_LEN (UUID_CHARS + 8 + 4)
#define KEY_EVENT_OF_LEN (SANDBOX_ID_CHARS + 8 + 4)
#define KEY_WEBHOOK_LEN (2 * UUID_CHARS)
#define KEY_OUTBOX_LEN (UUID_CHARS + 8 + 4)
#define KEY_DELIVERY_LEN (8 + 4)
#define KEY_SNAPSHOT_OF_LEN (UUID_CHARS + 8 + TEMPLATE_ID_LEN - 1)
#define KEY_CAPTURE_LEN (TEMPLATE_ID_LEN - 1 + UUID_CHARS)
#define KEY_NAME_MAX (UUID_CHARS + 1 + NAME_MAX_LEN)
#define LAYOUT_EVENT 1               /* that byte, the sandbox's id or zeros, the text; before it there was the text alone, with its '{' */
#define EVENT_TEXT_AT (1 + SANDBOX_ID_CHARS)
#define RECORD_MAX (1 << 20)         /* bytes of one packed record */

struct txn {
	struct store *st;
	MDB_txn *mdb;
	bool write;
	bool announce;               /* it put something new into the outbox */
	struct txn *next;            /* all read slots of the process, for store_close */
};

struct store {
	MDB_env *env;
	MDB_dbi dbi[TABLES];
	int64_t size_mb;
	void (*on_outbox)(void *ctx);
	void *outbox_ctx;
	pthread_key_t slot;          /* this thread's parked read transaction */
	pthread_mutex_t lock;        /* over slots */
	struct txn *slots;
};

/* Maps an LMDB result to *e; always -1. what: table or act. */
int store_fail(const struct store *st, int rc, const char *what, struct err *e);

/* 1 found, 0 not there, -1. */
int table_get(struct txn *t, enum table tb, const void *key, size_t n, MDB_val *out, struct err *e);
int table_put(struct txn *t, enum table tb, const void *key, size_t n, const void *p, size_t size, struct err *e);
/* 1 deleted, 0 was not there, -1. */
int table_delete(struct txn *t, enum table tb, const void *key, size_t n, struct err *e);
int cursor_open(struct txn *t, enum table tb, MDB_cursor **out, struct err *e);
/* mdb_cursor_get with "not found" as 0. */
int cursor_step(struct txn *t, MDB_cursor *c, MDB_cursor_op op, MDB_val *k, MDB_val *v, struct err *e);

/* A stretch of a table, in the order of its keys. */
struct stretch {
	enum table tb;
	const void *prefix;          /* that all its keys begin with; prefix_len 0: the whole table */
	size_t prefix_len;
	const void *from;            /* where it begins; from_len 0: at its end */
	size_t from_len;
	bool past;                   /* behind the key `from`, not at it */
	bool back;                   /* downwards, and from below `from` */
};
/* One entry. 0 goes on, 1 ends the walk, -1 fails. What k and v point to holds until the next write. */
typedef int entry_fn(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e);
/* 0 at the end or when fn ended it, -1. */
int table_walk(struct txn *t, const struct stretch *s, entry_fn *fn, void *ctx, struct err *e);

/* Integers in keys and records: big-endian, so that bytes sort as numbers do. */
void be64_put(uint8_t *p, uint64_t v);
uint64_t be64_get(const uint8_t *p);
void be32_put(uint8_t *p, uint32_t v);
uint32_t be32_get(const uint8_t *p);

/* ---- packed records: layout byte, integers, then strings with their lengths ---- */
void enc_u8(struct buf *b, uint8_t v);
void enc_u32(struct buf *b, uint32_t v);
void enc_u64(struct buf *b, uint64_t v);
void enc_str(struct buf *b, const char *s);    /* up to 255 bytes */
void enc_text(struct buf *b, const char *s);   /* any length; NULL is kept as NULL */

struct dec {
	const uint8_t *p;
	size_t n;
	bool bad;                    /* sticky: too short, too long, or not what the field may hold */
};
uint8_t dec_u8(struct dec *d);
bool dec_bool(struct dec *d);
uint32_t dec_u32(struct dec *d);
uint64_t dec_u64(struct dec *d);
void dec_str(struct dec *d, char *out, size_t size);
char *dec_text(struct dec *d);                 /* malloc'ed or NULL; out of memory is bad too */
bool dec_done(const struct dec *d);            /* all was good and nothing is left */

/* Record <-> bytes. Unpacking fills the whole struct; -1 for an unknown layout or damaged bytes (nothing to release then). */
void team_pack(struct buf *b, const struct team_rec *r);
int team_unpack(const void *p, size_t n, struct team_rec *r);
void template_pack(struct buf *b, const struct template_rec *r);
int template_unpack(const char *id, size_t id_len, const void *p, size_t n, struct template_rec *r);
void pool_pack(struct buf *b, const struct pool_rec *r);
int pool_unpack(const char *name, size_t name_len, const void *p, size_t n, struct pool_rec *r);
void sandbox_pack(struct buf *b, const struct sandbox_rec *r);
int sandbox_unpack(const char *id, size_t id_len, const void *p, size_t n, struct sandbox_rec *r);
/* The part of it that struct sandbox_glance has. */
int sandbox_glance(const void *p, size_t n, struct sandbox_glance *g);
void webhook_pack(struct buf *b, const struct webhook_rec *r);
/* team and id are the record's key, n bytes. */
int webhook_unpack(const void *key, size_t key_len, const void *p, size_t n, struct webhook_rec *r);
void outbox_pack(struct buf *b, const struct outbox_rec *r);
int outbox_unpack(const void *key, size_t key_len, const void *p, size_t n, struct outbox_rec *r);
void delivery_pack(struct buf *b, const struct delivery_rec *r);
int delivery_unpack(const void *key, size_t key_len, const void *p, size_t n, struct delivery_rec *r);
void snapshot_pack(struct buf *b, const struct snapshot_rec *r);
int snapshot_unpack(const void *key, size_t key_len, const void *p, size_t n, struct snapshot_rec *r);
void capture_pack(struct buf *b, const struct capture_rec *r);
int capture_unpack(const void *key, size_t key_len, const void *p, size_t n, struct capture_rec *r);
/* What the parts of store_check share. */
struct store_audit {
	struct txn *t;
	store_problem_fn *problem;
	void *ctx;
	int problems;
};
void store_say(struct store_audit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* fn for every entry of a table, with the audit as ctx. */
int store_check_each(struct store_audit *a, enum table tb, entry_fn *fn, struct err *e);
int store_check_size(struct store_audit *a, enum table tb, size_t want, struct err *e);
/* store_check's part about snapshots (check_snapshots.c). */
int store_check_snapshots(struct txn *t, store_problem_fn *problem, void *ctx, struct err *e);
/* store_check's part about events and webhooks (check_hooks.c). */
int store_check_hooks(struct txn *t, store_problem_fn *problem, void *ctx, struct err *e);
/* ---- what an owner (a sandbox or team, by the table) has at a time: key owner and time (sample.c) ---- */
/* Packs b into the table and releases it. */
int owned_put(struct txn *t, enum table tb, const char *owner, int64_t us, struct buf *b, struct err *e);
int64_t owned_us(enum table tb, const MDB_val *k);
bool owned_is_of(enum table tb, const MDB_val *k, const void *owner);
/* The cursor at the owner's last entry before us: 1, 0 when there is none, -1. The caller closes it unless -1. */
int owned_seek_before(struct txn *t, enum table tb, const char *owner, int64_t us, MDB_cursor **c, MDB_val *k, MDB_val *v, struct err *e);
/* As store_samples_trim, of one table. */
int owned_trim(struct txn *t, enum table tb, int64_t before_us, int max, char after[64], int *removed, struct err *e);
/* A UUID as its 16 bytes. */
void enc_uuid(struct buf *b, const char *id);
void dec_uuid(struct dec *d, char out[UUID_LEN]);
/* store_check's part about lines (line.c). */
int store_check_lines(struct store_audit *a, struct err *e);
/* Keys of n bytes that end in a number of 4: set it in key to one more than the highest of those that begin alike, 0 when there
 * is none. */
int key_next(struct txn *t, enum table tb, uint8_t *key, size_t n, uint32_t *number, struct err *e);
/* "sandbox i...: unknown or damaged record". */
int store_damaged(const char *what, const void *key, size_t n, struct err *e);
/* Finish a packed buffer into the table and release it. */
int store_packed(struct txn *t, enum table tb, const void *key, size_t n, struct buf *b, struct err *e);

/* The index of a store that had none: entries of keys that are there. */
int keys_index(struct txn *t, struct err *e);

bool sandbox_live(const struct sandbox_rec *r);     /* counts against the team's limit: not one whose machine is elsewhere */
bool state_listed(uint8_t state);              /* clients may see it: has an entry in by_start */
void key_start(uint8_t out[KEY_START_LEN], const char *team, int64_t started_us, const char *id);
void key_due(uint8_t out[KEY_DUE_LEN], int64_t due_us, const char *id);

#endif
