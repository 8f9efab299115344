/* Sandbox rows with the index entries and counts that follow them. */
#include "store_int.h"

#include <string.h>

bool sandbox_live(const struct sandbox_rec *r)
{
	return r->state != SB_PAUSED && r->state != SB_KILLING && r->pool_kind != POOL_VENDOR;
}

bool sandbox_state_runs(uint8_t state)
{
	return state == SB_RUNNING || state == SB_SNAPSHOTTING;
}

int64_t running_due(const struct sandbox_rec *r)
{
	return r->net_due_us != 0 && r->net_due_us < r->end_us ? r->net_due_us : r->end_us;
}

bool state_listed(uint8_t state)
{
	return state != SB_STARTING && state != SB_KILLING;
}

void key_start(uint8_t out[KEY_START_LEN], const char *team, int64_t started_us, const char *id)
{
	memcpy(out, team, UUID_CHARS);
	be64_put(out + UUID_CHARS, ~(uint64_t)started_us);
	memcpy(out + UUID_CHARS + 8, id, SANDBOX_ID_CHARS);
}

void key_due(uint8_t out[KEY_DUE_LEN], int64_t due_us, const char *id)
{
	be64_put(out, (uint64_t)due_us);
	memcpy(out + 8, id, SANDBOX_ID_CHARS);
}

int store_sandbox_get(struct txn *t, const char *id, struct sandbox_rec *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_SANDBOXES, id, strlen(id), &v, e);

	if (got == 1 && sandbox_unpack(id, strlen(id), v.mv_data, v.mv_size, out) < 0)
		return store_damaged("sandbox", id, strlen(id), e);
	return got;
}

int store_sandbox_glance(struct txn *t, const char *id, struct sandbox_glance *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_SANDBOXES, id, strlen(id), &v, e);

	if (got == 1 && sandbox_glance(v.mv_data, v.mv_size, out) < 0)
		return store_damaged("sandbox", id, strlen(id), e);
	return got;
}

/* ---- counts ---- */

static int counts_get(struct txn *t, const char *team, uint64_t *live, uint64_t *running, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_COUNTS, team, strlen(team), &v, e);

	*live = *running = 0;
	if (got != 1)
		return got;
	if (v.mv_size != 16)
		return store_damaged("counts", team, strlen(team), e);
	*live = be64_get(v.mv_data);
	*running = be64_get((const uint8_t *)v.mv_data + 8);
	return 0;
}

int store_live_count(struct txn *t, const char *team, uint64_t *out, struct err *e)
{
	uint64_t running;

	return counts_get(t, team, out, &running, e);
}

int store_running_count(struct txn *t, const char *team, uint64_t *out, struct err *e)
{
	uint64_t live;

	return counts_get(t, team, &live, out, e);
}

/* Either may be NULL: no row. */
static int counts_move(struct txn *t, const char *team, const struct sandbox_rec *before, const struct sandbox_rec *now, struct err *e)
{
	int live_by = (now != NULL && sandbox_live(now)) - (before != NULL && sandbox_live(before));
	int running_by = (now != NULL && sandbox_state_runs(now->state)) - (before != NULL && sandbox_state_runs(before->state));
	uint64_t live, running;
	uint8_t value[16];

	if (live_by == 0 && running_by == 0)
		return 0;
	if (counts_get(t, team, &live, &running, e) < 0)
		return -1;
	if ((live_by < 0 && live == 0) || (running_by < 0 && running == 0))
		return err_set(e, ERR_INTERNAL, "counts of team %s would fall below zero", team);
	be64_put(value, live + (uint64_t)(int64_t)live_by);
	be64_put(value + 8, running + (uint64_t)(int64_t)running_by);
	return table_put(t, T_COUNTS, team, strlen(team), value, sizeof value, e);
}

/* ---- rows ---- */

static int start_entry(struct txn *t, const struct sandbox_rec *before, const struct sandbox_rec *now, struct err *e)
{
	bool was = before != NULL && state_listed(before->state), is = now != NULL && state_listed(now->state);
	bool moved = was && is && before->started_us != now->started_us;
	uint8_t key[KEY_START_LEN];

	if (was && (!is || moved)) {
		key_start(key, before->team, before->started_us, before->id);
		if (table_delete(t, T_BY_START, key, sizeof key, e) < 0)
			return -1;
	}
	if (!is || (was && !moved && before->state == now->state))
		return 0;
	key_start(key, now->team, now->started_us, now->id);
	return table_put(t, T_BY_START, key, sizeof key, &now->state, 1, e);
}

static int due_entry(struct txn *t, const struct sandbox_rec *before, const struct sandbox_rec *now, struct err *e)
{
	int64_t was = before != NULL ? before->due_us : 0, is = now != NULL ? now->due_us : 0;
	uint8_t key[KEY_DUE_LEN];

	if (was == is)
		return 0;
	if (was > 0) {
		key_due(key, was, before->id);
		if (table_delete(t, T_DUE, key, sizeof key, e) < 0)
			return -1;
	}
	if (is <= 0)
		return 0;
	key_due(key, is, now->id);
	return table_put(t, T_DUE, key, sizeof key, "", 0, e);
}

static int entries(struct txn *t, const struct sandbox_rec *before, const struct sandbox_rec *now, struct err *e)
{
	const char *team = now != NULL ? now->team : before->team;

	if (start_entry(t, before, now, e) < 0 || due_entry(t, before, now, e) < 0)
		return -1;
	return counts_move(t, team, before, now, e);
}

int store_sandbox_put(struct txn *t, const struct sandbox_rec *before, const struct sandbox_rec *now, struct err *e)
{
	struct buf b;

	/* fixed-width keys; and a row never changes hands */
	if (strlen(now->id) != SANDBOX_ID_CHARS || strlen(now->team) != UUID_CHARS ||
	    (before != NULL && (strcmp(before->id, now->id) != 0 || strcmp(before->team, now->team) != 0)))
		return err_set(e, ERR_INTERNAL, "sandbox %s: id or team is not well-formed", now->id);
	buf_init(&b, RECORD_MAX);
	sandbox_pack(&b, now);
	if (store_packed(t, T_SANDBOXES, now->id, SANDBOX_ID_CHARS, &b, e) < 0)
		return -1;
	return entries(t, before, now, e);
}

int store_sandbox_delete(struct txn *t, const struct sandbox_rec *before, struct err *e)
{
	if (table_delete(t, T_SANDBOXES, before->id, strlen(before->id), e) < 0)
		return -1;
	return entries(t, before, NULL, e);
}
