/* Walks over sandboxes: by start, by due time, by id. */
#include "store_int.h"

#include <string.h>

struct give_start { store_start_fn *fn; void *ctx; };

static int give_start(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give_start *g = ctx;
	const uint8_t *p = k->mv_data;
	char id[SANDBOX_ID_LEN];

	if (k->mv_size != KEY_START_LEN || v->mv_size != 1)
		return store_damaged("by_start", p, k->mv_size, e);
	memcpy(id, p + UUID_CHARS + 8, SANDBOX_ID_CHARS);
	id[SANDBOX_ID_CHARS] = '\0';
	return g->fn(g->ctx, t, id, (int64_t)~be64_get(p + UUID_CHARS), *(const uint8_t *)v->mv_data, e);
}

/* Keys sort newest first, then by id. */
int store_walk_started(struct txn *t, const char *team, bool oldest_first, int64_t after_us, const char *after_id,
		       store_start_fn *fn, void *ctx, struct err *e)
{
	uint8_t after[KEY_START_LEN];
	struct stretch s = { .tb = T_BY_START, .prefix = team, .prefix_len = UUID_CHARS, .from = after, .past = true, .back = oldest_first };
	struct give_start g = { fn, ctx };

	if (strlen(team) != UUID_CHARS || (after_id[0] != '\0' && strlen(after_id) != SANDBOX_ID_CHARS))
		return err_set(e, ERR_INTERNAL, "walk: team or id is not well-formed");
	if (after_id[0] != '\0') {
		key_start(after, team, after_us, after_id);
		s.from_len = sizeof after;
	}
	return table_walk(t, &s, give_start, &g, e);
}

static int due_at(struct txn *t, const uint8_t *after, int64_t *us, char id[SANDBOX_ID_LEN], struct err *e)
{
	MDB_cursor *c;
	MDB_val k = { KEY_DUE_LEN, (void *)(uintptr_t)after }, v;
	uint8_t key[KEY_DUE_LEN];
	int got;

	if (cursor_open(t, T_DUE, &c, e) < 0)
		return -1;
	got = cursor_step(t, c, after != NULL ? MDB_SET_RANGE : MDB_FIRST, &k, &v, e);
	if (got == 1 && after != NULL && k.mv_size == KEY_DUE_LEN && memcmp(k.mv_data, after, KEY_DUE_LEN) == 0)
		got = cursor_step(t, c, MDB_NEXT, &k, &v, e);
	if (got == 1 && k.mv_size == KEY_DUE_LEN)
		memcpy(key, k.mv_data, KEY_DUE_LEN);
	else if (got == 1)
		got = store_damaged("due", k.mv_data, k.mv_size, e);
	mdb_cursor_close(c);
	if (got == 1) {
		*us = (int64_t)be64_get(key);
		memcpy(id, key + 8, SANDBOX_ID_CHARS);
		id[SANDBOX_ID_CHARS] = '\0';
	}
	return got;
}

int store_due_first(struct txn *t, int64_t *us, char id[SANDBOX_ID_LEN], struct err *e)
{
	return due_at(t, NULL, us, id, e);
}

int store_due_next(struct txn *t, int64_t *us, char id[SANDBOX_ID_LEN], struct err *e)
{
	uint8_t after[KEY_DUE_LEN];

	key_due(after, *us, id);
	return due_at(t, after, us, id, e);
}

struct give { store_sandbox_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct sandbox_rec r;
	int status;

	(void)t;
	if (sandbox_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("sandbox", k->mv_data, k->mv_size, e);
	status = g->fn(g->ctx, &r, e);
	sandbox_rec_release(&r);
	return status;
}

int store_walk_sandboxes(struct txn *t, const char *after, store_sandbox_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	return table_walk(t, &(struct stretch){ .tb = T_SANDBOXES, .from = after, .from_len = strlen(after), .past = true }, give, &g, e);
}
