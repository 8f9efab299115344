/* Snapshots of sandboxes, their names, and what is kept of sandboxes under their tags. */
#include "store_int.h"

#include <stdio.h>
#include <string.h>

#define LAYOUT_SNAPSHOT 1
#define LAYOUT_CAPTURE 1
#define ID_CHARS (TEMPLATE_ID_LEN - 1)

/* ---- packed forms ---- */

void snapshot_pack(struct buf *b, const struct snapshot_rec *r)
{
	enc_u8(b, LAYOUT_SNAPSHOT);
	enc_u64(b, (uint64_t)r->created_us);
	enc_str(b, r->team);
	enc_str(b, r->alias);
}

int snapshot_unpack(const void *key, size_t key_len, const void *p, size_t n, struct snapshot_rec *r)
{
	struct dec d = { p, n, false };

	memset(r, 0, sizeof *r);
	if (key_len != ID_CHARS || memchr(key, 0, key_len) != NULL || dec_u8(&d) != LAYOUT_SNAPSHOT)
		return -1;
	memcpy(r->id, key, ID_CHARS);
	r->created_us = (int64_t)dec_u64(&d);
	dec_str(&d, r->team, sizeof r->team);
	dec_str(&d, r->alias, sizeof r->alias);
	return dec_done(&d) ? 0 : -1;
}

void capture_pack(struct buf *b, const struct capture_rec *r)
{
	enc_u8(b, LAYOUT_CAPTURE);
	enc_u8(b, r->state);
	enc_u8(b, r->pool_kind);
	enc_u32(b, r->cpu_count);
	enc_u32(b, r->memory_mb);
	enc_u32(b, r->disk_mb);
	enc_u64(b, r->bytes);
	enc_u64(b, (uint64_t)r->created_us);
	enc_str(b, r->tag);
	enc_str(b, r->sandbox);
	enc_str(b, r->template_id);
	enc_str(b, r->alias);
	enc_str(b, r->envd_version);
	enc_str(b, r->pool);
	enc_str(b, r->checkpoint);
}

int capture_unpack(const void *key, size_t key_len, const void *p, size_t n, struct capture_rec *r)
{
	struct dec d = { p, n, false };

	memset(r, 0, sizeof *r);
	if (key_len != KEY_CAPTURE_LEN || memchr(key, 0, key_len) != NULL || dec_u8(&d) != LAYOUT_CAPTURE)
		return -1;
	memcpy(r->snapshot, key, ID_CHARS);
	memcpy(r->id, (const char *)key + ID_CHARS, UUID_CHARS);
	r->state = dec_u8(&d);
	r->pool_kind = dec_u8(&d);
	d.bad |= r->state < CAPTURE_MAKING || r->state > CAPTURE_REMOVING || r->pool_kind >= POOL_KINDS;
	r->cpu_count = dec_u32(&d);
	r->memory_mb = dec_u32(&d);
	r->disk_mb = dec_u32(&d);
	r->bytes = dec_u64(&d);
	r->created_us = (int64_t)dec_u64(&d);
	dec_str(&d, r->tag, sizeof r->tag);
	dec_str(&d, r->sandbox, sizeof r->sandbox);
	dec_str(&d, r->template_id, sizeof r->template_id);
	dec_str(&d, r->alias, sizeof r->alias);
	dec_str(&d, r->envd_version, sizeof r->envd_version);
	dec_str(&d, r->pool, sizeof r->pool);
	dec_str(&d, r->checkpoint, sizeof r->checkpoint);
	return dec_done(&d) ? 0 : -1;
}

/* ---- keys ---- */

/* Newest first, and of one instant by id downwards (api.md 4). */
static void key_snapshot_of(uint8_t out[KEY_SNAPSHOT_OF_LEN], const char *team, int64_t created_us, const char *id)
{
	memcpy(out, team, UUID_CHARS);
	be64_put(out + UUID_CHARS, ~(uint64_t)created_us);
	for (size_t i = 0; i < ID_CHARS; i++)
		out[UUID_CHARS + 8 + i] = (uint8_t)~(uint8_t)id[i];
}

static bool key_capture(uint8_t out[KEY_CAPTURE_LEN], const char *snapshot, const char *id)
{
	if (strlen(snapshot) != ID_CHARS || strlen(id) != UUID_CHARS)
		return false;
	memcpy(out, snapshot, ID_CHARS);
	memcpy(out + ID_CHARS, id, UUID_CHARS);
	return true;
}

static size_t key_name(char out[KEY_NAME_MAX], const char *team, const char *alias)
{
	int n = snprintf(out, KEY_NAME_MAX, "%s/%s", team, alias);

	return n > 0 && n < KEY_NAME_MAX ? (size_t)n : 0;
}

/* ---- snapshots ---- */

int store_snapshot_get(struct txn *t, const char *id, struct snapshot_rec *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_SNAPSHOTS, id, strlen(id), &v, e);

	if (got == 1 && snapshot_unpack(id, strlen(id), v.mv_data, v.mv_size, out) < 0)
		return store_damaged("snapshot", id, strlen(id), e);
	return got;
}

int store_snapshot_by_name(struct txn *t, const char *team, const char *alias, struct snapshot_rec *out, struct err *e)
{
	char key[KEY_NAME_MAX], id[TEMPLATE_ID_LEN] = "";
	size_t n = key_name(key, team, alias);
	MDB_val v;
	int got = table_get(t, T_SNAPSHOT_NAMES, key, n, &v, e);

	if (got != 1)
		return got;
	if (v.mv_size == ID_CHARS)
		memcpy(id, v.mv_data, ID_CHARS);
	got = store_snapshot_get(t, id, out, e);
	return got == 0 ? store_damaged("snapshot_names", key, n, e) : got;
}

int store_snapshot_add(struct txn *t, const struct snapshot_rec *r, struct err *e)
{
	uint8_t of[KEY_SNAPSHOT_OF_LEN];
	char name[KEY_NAME_MAX];
	struct buf b;

	if (strlen(r->id) != ID_CHARS || strlen(r->team) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "snapshot %s: id or team is not well-formed", r->id);
	buf_init(&b, RECORD_MAX);
	snapshot_pack(&b, r);
	key_snapshot_of(of, r->team, r->created_us, r->id);
	if (store_packed(t, T_SNAPSHOTS, r->id, ID_CHARS, &b, e) < 0 || table_put(t, T_SNAPSHOTS_OF, of, sizeof of, "", 0, e) < 0)
		return -1;
	if (r->alias[0] == '\0')
		return 0;
	return table_put(t, T_SNAPSHOT_NAMES, name, key_name(name, r->team, r->alias), r->id, ID_CHARS, e);
}

int store_snapshot_delete(struct txn *t, const struct snapshot_rec *r, struct err *e)
{
	uint8_t of[KEY_SNAPSHOT_OF_LEN];
	char name[KEY_NAME_MAX];

	key_snapshot_of(of, r->team, r->created_us, r->id);
	if (table_delete(t, T_SNAPSHOTS, r->id, ID_CHARS, e) < 0 || table_delete(t, T_SNAPSHOTS_OF, of, sizeof of, e) < 0)
		return -1;
	if (r->alias[0] == '\0')
		return 0;
	return table_delete(t, T_SNAPSHOT_NAMES, name, key_name(name, r->team, r->alias), e) < 0 ? -1 : 0;
}

struct give_snapshot { store_snapshot_fn *fn; void *ctx; };

static int give_snapshot(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give_snapshot *g = ctx;
	const uint8_t *key = k->mv_data;
	char id[TEMPLATE_ID_LEN] = "";
	struct snapshot_rec r;
	int got;

	(void)v;
	if (k->mv_size != KEY_SNAPSHOT_OF_LEN)
		return store_damaged("snapshots_of", key, k->mv_size, e);
	for (size_t i = 0; i < ID_CHARS; i++)
		id[i] = (char)(uint8_t)~key[UUID_CHARS + 8 + i];
	got = store_snapshot_get(t, id, &r, e);
	if (got != 1)
		return got < 0 ? -1 : store_damaged("snapshots_of", key, UUID_CHARS, e);
	return g->fn(g->ctx, t, &r, e);
}

int store_walk_snapshots(struct txn *t, const char *team, int64_t after_us, const char *after_id, store_snapshot_fn *fn, void *ctx,
			 struct err *e)
{
	uint8_t after[KEY_SNAPSHOT_OF_LEN];
	struct stretch s = { .tb = T_SNAPSHOTS_OF, .prefix = team, .prefix_len = UUID_CHARS, .from = after, .past = true };
	struct give_snapshot g = { fn, ctx };

	if (strlen(team) != UUID_CHARS || (after_id[0] != '\0' && strlen(after_id) != ID_CHARS))
		return err_set(e, ERR_INTERNAL, "walk: team or id is not well-formed");
	if (after_id[0] != '\0') {
		key_snapshot_of(after, team, after_us, after_id);
		s.from_len = sizeof after;
	}
	return table_walk(t, &s, give_snapshot, &g, e);
}

/* ---- captures ---- */

int store_capture_get(struct txn *t, const char *snapshot, const char *id, struct capture_rec *out, struct err *e)
{
	uint8_t key[KEY_CAPTURE_LEN];
	MDB_val v;
	int got;

	if (!key_capture(key, snapshot, id))
		return 0;
	got = table_get(t, T_CAPTURES, key, sizeof key, &v, e);
	if (got == 1 && capture_unpack(key, sizeof key, v.mv_data, v.mv_size, out) < 0)
		return store_damaged("capture", key, sizeof key, e);
	return got;
}

int store_capture_put(struct txn *t, const struct capture_rec *r, struct err *e)
{
	uint8_t key[KEY_CAPTURE_LEN];
	struct buf b;

	if (!key_capture(key, r->snapshot, r->id))
		return err_set(e, ERR_INTERNAL, "capture %s of %s: ids are not well-formed", r->id, r->snapshot);
	buf_init(&b, RECORD_MAX);
	capture_pack(&b, r);
	return store_packed(t, T_CAPTURES, key, sizeof key, &b, e);
}

int store_capture_delete(struct txn *t, const char *snapshot, const char *id, struct err *e)
{
	uint8_t key[KEY_CAPTURE_LEN];

	return key_capture(key, snapshot, id) ? table_delete(t, T_CAPTURES, key, sizeof key, e) : 0;
}

struct give_capture { store_capture_fn *fn; void *ctx; };

static int give_capture(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give_capture *g = ctx;
	struct capture_rec r;

	(void)t;
	if (capture_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("capture", k->mv_data, k->mv_size, e);
	return g->fn(g->ctx, &r, e);
}

int store_walk_captures(struct txn *t, const char *snapshot, store_capture_fn *fn, void *ctx, struct err *e)
{
	struct give_capture g = { fn, ctx };

	return table_walk(t, &(struct stretch){ .tb = T_CAPTURES, .prefix = snapshot, .prefix_len = snapshot != NULL ? strlen(snapshot) : 0 }, give_capture, &g, e);
}

/* ---- which one a sandbox in SB_SNAPSHOTTING is for ---- */

int store_making_get(struct txn *t, const char *sandbox, char snapshot[TEMPLATE_ID_LEN], char id[UUID_LEN], struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_MAKING, sandbox, strlen(sandbox), &v, e);

	if (got != 1)
		return got;
	if (v.mv_size != KEY_CAPTURE_LEN)
		return store_damaged("making", sandbox, strlen(sandbox), e);
	memcpy(snapshot, v.mv_data, ID_CHARS);
	memcpy(id, (const char *)v.mv_data + ID_CHARS, UUID_CHARS);
	snapshot[ID_CHARS] = id[UUID_CHARS] = '\0';
	return 1;
}

int store_making_put(struct txn *t, const struct capture_rec *r, struct err *e)
{
	uint8_t key[KEY_CAPTURE_LEN];

	if (!key_capture(key, r->snapshot, r->id) || strlen(r->sandbox) != SANDBOX_ID_CHARS)
		return err_set(e, ERR_INTERNAL, "capture %s of %s: ids are not well-formed", r->id, r->snapshot);
	return table_put(t, T_MAKING, r->sandbox, SANDBOX_ID_CHARS, key, sizeof key, e);
}

int store_making_delete(struct txn *t, const char *sandbox, struct err *e)
{
	return table_delete(t, T_MAKING, sandbox, strlen(sandbox), e) < 0 ? -1 : 0;
}
