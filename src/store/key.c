/* API keys and access tokens, by hash and by team. */
#include "store_int.h"

#include <string.h>

#include "hutch/crypto.h"

#define LAYOUT_OLD 1                 /* API keys without name, use and length */
#define LAYOUT_KEY 2
#define HASH_LEN 32
#define INDEX_LEN (UUID_CHARS + HASH_LEN)

/* A UUID that the hash determines (RFC 9562 version 8), and that tells nothing of it. */
void store_key_id(const uint8_t hash[HASH_LEN], char out[UUID_LEN])
{
	uint8_t seed[4 + HASH_LEN] = { 'k', 'e', 'y', ':' }, h[SHA256_LEN];
	char hex[33];

	memcpy(seed + 4, hash, HASH_LEN);
	sha256(seed, sizeof seed, h);
	h[6] = (uint8_t)((h[6] & 0x0f) | 0x80);
	h[8] = (uint8_t)((h[8] & 0x3f) | 0x80);
	hex_encode(h, 16, hex);
	for (size_t i = 0, o = 0; i < 32; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			out[o++] = '-';
		out[o++] = hex[i];
		out[o] = '\0';
	}
}

static int unpack(const void *hash, const MDB_val *v, struct key_rec *r)
{
	struct dec d = { v->mv_data, v->mv_size, false };
	uint8_t layout = dec_u8(&d);

	memset(r, 0, sizeof *r);
	memcpy(r->hash, hash, HASH_LEN);
	r->kind = KEY_API;
	r->length = 40;
	if (layout == LAYOUT_KEY) {
		r->kind = dec_u8(&d);
		d.bad |= r->kind != KEY_API && r->kind != KEY_TOKEN;
		r->from_file = dec_bool(&d);
		r->length = dec_u8(&d);
	}
	r->created_us = (int64_t)dec_u64(&d);
	if (layout == LAYOUT_KEY)
		r->used_us = (int64_t)dec_u64(&d);
	dec_str(&d, r->team, sizeof r->team);
	dec_str(&d, r->mask, sizeof r->mask);
	if (layout == LAYOUT_KEY)
		dec_str(&d, r->name, sizeof r->name);
	return (layout == LAYOUT_KEY || layout == LAYOUT_OLD) && dec_done(&d) && strlen(r->team) == UUID_CHARS ? 0 : -1;
}

static int damaged(struct err *e)
{
	return err_set(e, ERR_INTERNAL, "key: unknown or damaged record");
}

int store_key_get(struct txn *t, const uint8_t hash[32], struct key_rec *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_KEYS, hash, HASH_LEN, &v, e);

	if (got == 1 && unpack(hash, &v, out) < 0)
		return damaged(e);
	return got;
}

static void index_key(uint8_t out[INDEX_LEN], const char *team, const uint8_t hash[HASH_LEN])
{
	memcpy(out, team, UUID_CHARS);
	memcpy(out + UUID_CHARS, hash, HASH_LEN);
}

int store_key_put(struct txn *t, const struct key_rec *r, struct err *e)
{
	uint8_t key[INDEX_LEN];
	struct key_rec was;
	struct buf b;
	int got = store_key_get(t, r->hash, &was, e);

	if (got < 0)
		return -1;
	if (strlen(r->team) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "key: team is not well-formed");
	if (got == 1 && strcmp(was.team, r->team) != 0) {
		index_key(key, was.team, r->hash);
		if (table_delete(t, T_TEAM_KEYS, key, sizeof key, e) < 0)
			return -1;
	}
	index_key(key, r->team, r->hash);
	if (table_put(t, T_TEAM_KEYS, key, sizeof key, "", 0, e) < 0)
		return -1;
	buf_init(&b, RECORD_MAX);
	enc_u8(&b, LAYOUT_KEY);
	enc_u8(&b, r->kind);
	enc_u8(&b, r->from_file);
	enc_u8(&b, r->length);
	enc_u64(&b, (uint64_t)r->created_us);
	enc_u64(&b, (uint64_t)r->used_us);
	enc_str(&b, r->team);
	enc_str(&b, r->mask);
	enc_str(&b, r->name);
	return store_packed(t, T_KEYS, r->hash, HASH_LEN, &b, e);
}

int store_key_delete(struct txn *t, const uint8_t hash[32], struct err *e)
{
	uint8_t key[INDEX_LEN];
	struct key_rec was;
	int got = store_key_get(t, hash, &was, e);

	if (got != 1)
		return got;
	index_key(key, was.team, hash);
	if (table_delete(t, T_TEAM_KEYS, key, sizeof key, e) < 0)
		return -1;
	return table_delete(t, T_KEYS, hash, HASH_LEN, e);
}

struct give { store_key_fn *fn; void *ctx; };

static int give(const struct give *g, const void *hash, const MDB_val *v, struct err *e)
{
	struct key_rec r;

	if (unpack(hash, v, &r) < 0)
		return damaged(e);
	store_key_id(r.hash, r.id);
	return g->fn(g->ctx, &r, e);
}

static int give_key(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	(void)t;
	return k->mv_size == HASH_LEN ? give(ctx, k->mv_data, v, e) : damaged(e);
}

/* The one that an entry of a team names. */
static int give_team_key(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const uint8_t *hash = (const uint8_t *)k->mv_data + UUID_CHARS;
	MDB_val rec;
	int got;

	(void)v;
	if (k->mv_size != INDEX_LEN)
		return damaged(e);
	got = table_get(t, T_KEYS, hash, HASH_LEN, &rec, e);
	return got == 1 ? give(ctx, hash, &rec, e) : got;
}

int store_walk_keys(struct txn *t, const char *team, store_key_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	if (team == NULL)
		return table_walk(t, &(struct stretch){ .tb = T_KEYS }, give_key, &g, e);
	if (strlen(team) != UUID_CHARS)
		return 0;
	return table_walk(t, &(struct stretch){ .tb = T_TEAM_KEYS, .prefix = team, .prefix_len = UUID_CHARS }, give_team_key, &g, e);
}

static int index_one(void *ctx, const struct key_rec *r, struct err *e)
{
	uint8_t key[INDEX_LEN];

	index_key(key, r->team, r->hash);
	return table_put(ctx, T_TEAM_KEYS, key, sizeof key, "", 0, e);
}

int keys_index(struct txn *t, struct err *e)
{
	return store_walk_keys(t, NULL, index_one, t, e);
}
