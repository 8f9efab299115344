/* Samples of what sandboxes use, and of what teams run; both by owner and time. */
#include "store_int.h"

#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"

#define LAYOUT_SAMPLE 1
#define OWNER_MAX UUID_CHARS
#define KEY_SAMPLE_MAX (OWNER_MAX + 8)

static size_t owner_len(enum table tb)
{
	return tb == T_TEAM_SAMPLES ? UUID_CHARS : SANDBOX_ID_CHARS;
}

static int key_sample(uint8_t out[KEY_SAMPLE_MAX], enum table tb, const char *owner, int64_t us, struct err *e)
{
	size_t n = owner_len(tb);

	if (strlen(owner) != n)
		return err_set(e, ERR_INTERNAL, "%s: %.40s is not well-formed", table_names[tb], owner);
	memcpy(out, owner, n);
	be64_put(out + n, (uint64_t)us);
	return 0;
}

int64_t owned_us(enum table tb, const MDB_val *k)
{
	return (int64_t)be64_get((const uint8_t *)k->mv_data + owner_len(tb));
}

bool owned_is_of(enum table tb, const MDB_val *k, const void *owner)
{
	return k->mv_size == owner_len(tb) + 8 && memcmp(k->mv_data, owner, owner_len(tb)) == 0;
}

static uint32_t kib(uint64_t bytes)
{
	return bytes >> 10 > UINT32_MAX ? UINT32_MAX : (uint32_t)(bytes >> 10);
}

int owned_put(struct txn *t, enum table tb, const char *owner, int64_t us, struct buf *b, struct err *e)
{
	uint8_t key[KEY_SAMPLE_MAX];

	if (key_sample(key, tb, owner, us, e) < 0) {
		buf_release(b);
		return -1;
	}
	return store_packed(t, tb, key, owner_len(tb) + 8, b, e);
}

void enc_uuid(struct buf *b, const char *id)
{
	uint8_t raw[16];
	char hex[33] = "";
	size_t n = 0;

	for (; *id != '\0' && n < 32; id++)
		if (*id != '-')
			hex[n++] = *id;
	if (hex_decode(hex, n, raw) < 0 || n != 32)
		b->failed = true;
	buf_add(b, raw, sizeof raw);
}

void dec_uuid(struct dec *d, char out[UUID_LEN])
{
	uint8_t raw[16];
	char hex[33];

	for (size_t i = 0; i < sizeof raw; i++)
		raw[i] = dec_u8(d);
	hex_encode(raw, sizeof raw, hex);
	snprintf(out, UUID_LEN, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

int store_sample_put(struct txn *t, const char *id, const struct sample *s, struct err *e)
{
	struct buf b;

	buf_init(&b, 128);
	enc_u8(&b, LAYOUT_SAMPLE);
	enc_uuid(&b, s->team);
	enc_u32(&b, s->cpu_count);
	enc_u32(&b, s->cpu_hundredths);
	enc_u32(&b, kib(s->mem_used));
	enc_u32(&b, kib(s->mem_total));
	enc_u32(&b, kib(s->mem_cache));
	enc_u32(&b, kib(s->disk_used));
	enc_u32(&b, kib(s->disk_total));
	return owned_put(t, T_SAMPLES, id, s->us, &b, e);
}

static int unpack_sample(const MDB_val *k, const MDB_val *v, struct sample *s, struct err *e)
{
	struct dec d = { v->mv_data, v->mv_size, false };

	if (k->mv_size != SANDBOX_ID_CHARS + 8)
		return store_damaged("sample", k->mv_data, k->mv_size, e);
	d.bad = dec_u8(&d) != LAYOUT_SAMPLE;
	*s = (struct sample){ .us = owned_us(T_SAMPLES, k) };
	dec_uuid(&d, s->team);
	s->cpu_count = dec_u32(&d);
	s->cpu_hundredths = dec_u32(&d);
	s->mem_used = (uint64_t)dec_u32(&d) << 10;
	s->mem_total = (uint64_t)dec_u32(&d) << 10;
	s->mem_cache = (uint64_t)dec_u32(&d) << 10;
	s->disk_used = (uint64_t)dec_u32(&d) << 10;
	s->disk_total = (uint64_t)dec_u32(&d) << 10;
	return dec_done(&d) ? 0 : store_damaged("sample", k->mv_data, k->mv_size, e);
}

int store_team_sample_put(struct txn *t, const char *team, const struct team_sample *s, struct err *e)
{
	struct buf b;

	buf_init(&b, 128);
	enc_u8(&b, LAYOUT_SAMPLE);
	enc_u32(&b, s->running);
	enc_u32(&b, s->starts_milli);
	return owned_put(t, T_TEAM_SAMPLES, team, s->us, &b, e);
}

static int unpack_team_sample(const MDB_val *k, const MDB_val *v, struct team_sample *s, struct err *e)
{
	struct dec d = { v->mv_data, v->mv_size, false };

	if (k->mv_size != UUID_CHARS + 8)
		return store_damaged("team sample", k->mv_data, k->mv_size, e);
	d.bad = dec_u8(&d) != LAYOUT_SAMPLE;
	*s = (struct team_sample){ .us = owned_us(T_TEAM_SAMPLES, k) };
	s->running = dec_u32(&d);
	s->starts_milli = dec_u32(&d);
	return dec_done(&d) ? 0 : store_damaged("team sample", k->mv_data, k->mv_size, e);
}

/* The cursor at the owner's first entry from us on. The caller closes it. */
static int seek(struct txn *t, enum table tb, const char *owner, int64_t us, MDB_cursor **c, MDB_val *k, MDB_val *v, struct err *e)
{
	uint8_t key[KEY_SAMPLE_MAX];
	int got;

	if (key_sample(key, tb, owner, us, e) < 0 || cursor_open(t, tb, c, e) < 0)
		return -1;
	*k = (MDB_val){ owner_len(tb) + 8, key };
	got = cursor_step(t, *c, MDB_SET_RANGE, k, v, e);
	if (got < 0)
		mdb_cursor_close(*c);
	return got;
}

/* A walk over an owner's samples of one table. */
struct give {
	int64_t to_us;
	store_sample_fn *fn;
	store_team_sample_fn *team_fn;
	void *ctx;
};

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct sample s;

	(void)t;
	if (unpack_sample(k, v, &s, e) < 0)
		return -1;
	return s.us < g->to_us ? g->fn(g->ctx, &s, e) : 1;
}

static int give_team(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct team_sample s;

	(void)t;
	if (unpack_team_sample(k, v, &s, e) < 0)
		return -1;
	return s.us < g->to_us ? g->team_fn(g->ctx, &s, e) : 1;
}

static int walk_from(struct txn *t, enum table tb, const char *owner, int64_t from_us, entry_fn *fn, struct give *g, struct err *e)
{
	uint8_t from[KEY_SAMPLE_MAX];
	size_t n = owner_len(tb);

	if (key_sample(from, tb, owner, from_us, e) < 0)
		return -1;
	return table_walk(t, &(struct stretch){ .tb = tb, .prefix = owner, .prefix_len = n, .from = from, .from_len = n + 8 }, fn, g, e);
}

int store_walk_samples(struct txn *t, const char *id, int64_t from_us, int64_t to_us, store_sample_fn *fn, void *ctx, struct err *e)
{
	return walk_from(t, T_SAMPLES, id, from_us, give, &(struct give){ .to_us = to_us, .fn = fn, .ctx = ctx }, e);
}

int store_walk_team_samples(struct txn *t, const char *team, int64_t from_us, int64_t to_us, store_team_sample_fn *fn, void *ctx,
			    struct err *e)
{
	return walk_from(t, T_TEAM_SAMPLES, team, from_us, give_team, &(struct give){ .to_us = to_us, .team_fn = fn, .ctx = ctx }, e);
}

int owned_seek_before(struct txn *t, enum table tb, const char *owner, int64_t us, MDB_cursor **c, MDB_val *k, MDB_val *v, struct err *e)
{
	int got = seek(t, tb, owner, us, c, k, v, e);

	if (got < 0)
		return -1;
	got = cursor_step(t, *c, got == 1 ? MDB_PREV : MDB_LAST, k, v, e);
	if (got < 0)
		mdb_cursor_close(*c);
	return got == 1 ? owned_is_of(tb, k, owner) : got;
}

int store_sample_last(struct txn *t, const char *id, struct sample *out, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	int got = owned_seek_before(t, T_SAMPLES, id, INT64_MAX, &c, &k, &v, e);

	if (got < 0)
		return -1;
	if (got == 1 && unpack_sample(&k, &v, out, e) < 0)
		got = -1;
	mdb_cursor_close(c);
	return got;
}

int store_sample_thin(struct txn *t, const char *id, int64_t before_us, int64_t step_us, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v, before;
	int64_t us;
	int rc, got = owned_seek_before(t, T_SAMPLES, id, before_us, &c, &k, &v, e);

	if (got < 0)
		return -1;
	if (got == 1) {
		us = owned_us(T_SAMPLES, &k);
		got = cursor_step(t, c, MDB_PREV, &before, &v, e);
		if (got == 1 && owned_is_of(T_SAMPLES, &before, id) && owned_us(T_SAMPLES, &before) / step_us == us / step_us) {
			got = cursor_step(t, c, MDB_NEXT, &k, &v, e);
			if (got == 1 && (rc = mdb_cursor_del(c, 0)) != 0)
				got = store_fail(t->st, rc, table_names[T_SAMPLES], e);
		}
	}
	mdb_cursor_close(c);
	return got < 0 ? -1 : 0;
}

/* A walk over owners, that of one table. */
struct trim {
	int64_t before_us;
	int look, remove;            /* what is left of the bounds */
	int removed;
	uint8_t owner[OWNER_MAX];    /* the place */
	bool done;
};

static int trim_table(struct txn *t, enum table tb, bool resume, struct trim *x, struct err *e)
{
	uint8_t key[KEY_SAMPLE_MAX];
	size_t n = owner_len(tb);
	MDB_cursor *c;
	MDB_val k, v;
	int got, rc;

	if (cursor_open(t, tb, &c, e) < 0)
		return -1;
	memcpy(key, x->owner, n);
	k = (MDB_val){ n, key };
	got = cursor_step(t, c, resume ? MDB_SET_RANGE : MDB_FIRST, &k, &v, e);
	while (got == 1 && x->look > 0 && x->remove > 0) {
		if (k.mv_size != n + 8) {
			got = store_damaged(table_names[tb], k.mv_data, k.mv_size, e);
		} else if (owned_us(tb, &k) < x->before_us) {
			rc = mdb_cursor_del(c, 0);
			x->remove--;
			x->removed++;
			got = rc != 0 ? store_fail(t->st, rc, table_names[tb], e) : cursor_step(t, c, MDB_NEXT, &k, &v, e);
		} else {                     /* its others are younger: behind it */
			memcpy(key, k.mv_data, n);
			memset(key + n, 0xff, 8);
			k = (MDB_val){ n + 8, key };
			x->look--;
			got = cursor_step(t, c, MDB_SET_RANGE, &k, &v, e);
		}
	}
	x->done = got == 0;
	if (got == 1)
		memcpy(x->owner, k.mv_data, n);
	mdb_cursor_close(c);
	return got < 0 ? -1 : 0;
}

int store_samples_trim(struct txn *t, int64_t before_us, int max, char after[64], int *removed, struct err *e)
{
	struct trim x = { .before_us = before_us, .look = max, .remove = max };
	bool teams = after[0] == 't';
	int status = 0;

	memcpy(x.owner, after + 1, OWNER_MAX);
	if (!teams)
		status = trim_table(t, T_SAMPLES, after[0] != '\0', &x, e);
	if (status == 0 && (teams || x.done)) {
		status = trim_table(t, T_TEAM_SAMPLES, teams, &x, e);
		teams = true;
	}
	memset(after, 0, 64);
	if (status == 0 && !x.done) {
		after[0] = teams ? 't' : 's';
		memcpy(after + 1, x.owner, OWNER_MAX);
	}
	*removed = x.removed;
	return status;
}

int owned_trim(struct txn *t, enum table tb, int64_t before_us, int max, char after[64], int *removed, struct err *e)
{
	struct trim x = { .before_us = before_us, .look = max, .remove = max };
	int status;

	memcpy(x.owner, after + 1, OWNER_MAX);
	status = trim_table(t, tb, after[0] != '\0', &x, e);
	memset(after, 0, 64);
	if (status == 0 && !x.done) {
		after[0] = '+';
		memcpy(after + 1, x.owner, OWNER_MAX);
	}
	*removed = x.removed;
	return status;
}
