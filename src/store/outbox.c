/*
 * What is to be delivered: by webhook, then by next attempt. A webhook whose receiver is slow has its own stretch of the
 * table, so that looking for what is due at all others does not pass over what waits for it.
 */
#include "store_int.h"

#include <string.h>

#define LAYOUT_OUTBOX 1

void outbox_pack(struct buf *b, const struct outbox_rec *r)
{
	enc_u8(b, LAYOUT_OUTBOX);
	enc_u8(b, r->type);
	enc_u32(b, r->attempts);
	enc_u64(b, (uint64_t)r->event_us);
	enc_u32(b, r->event_seq);
	enc_str(b, r->team);
	enc_str(b, r->sandbox);
}

int outbox_unpack(const void *key, size_t key_len, const void *p, size_t n, struct outbox_rec *r)
{
	struct dec d = { p, n, false };

	memset(r, 0, sizeof *r);
	if (key_len != KEY_OUTBOX_LEN || memchr(key, 0, UUID_CHARS) != NULL || dec_u8(&d) != LAYOUT_OUTBOX)
		return -1;
	memcpy(r->webhook, key, UUID_CHARS);
	r->next_us = (int64_t)be64_get((const uint8_t *)key + UUID_CHARS);
	r->seq = be32_get((const uint8_t *)key + UUID_CHARS + 8);
	r->type = dec_u8(&d);
	r->attempts = dec_u32(&d);
	r->event_us = (int64_t)dec_u64(&d);
	r->event_seq = dec_u32(&d);
	dec_str(&d, r->team, sizeof r->team);
	dec_str(&d, r->sandbox, sizeof r->sandbox);
	return dec_done(&d) ? 0 : -1;
}

static void key_outbox(uint8_t out[KEY_OUTBOX_LEN], const char *webhook, int64_t next_us, uint32_t seq)
{
	memcpy(out, webhook, UUID_CHARS);
	be64_put(out + UUID_CHARS, (uint64_t)next_us);
	be32_put(out + UUID_CHARS + 8, seq);
}

static int put(struct txn *t, struct outbox_rec *r, struct err *e)
{
	uint8_t key[KEY_OUTBOX_LEN];
	struct buf b;

	if (strlen(r->webhook) != UUID_CHARS || r->next_us < 0 || r->next_us == INT64_MAX)
		return err_set(e, ERR_INTERNAL, "outbox: webhook or time is not well-formed");
	key_outbox(key, r->webhook, r->next_us, 0);
	if (key_next(t, T_OUTBOX, key, sizeof key, &r->seq, e) < 0)
		return -1;
	buf_init(&b, RECORD_MAX);
	outbox_pack(&b, r);
	return store_packed(t, T_OUTBOX, key, sizeof key, &b, e);
}

int store_outbox_add(struct txn *t, struct outbox_rec *r, struct err *e)
{
	t->announce = true;
	return put(t, r, e);
}

int store_outbox_delete(struct txn *t, const struct outbox_rec *r, struct err *e)
{
	uint8_t key[KEY_OUTBOX_LEN];

	if (strlen(r->webhook) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "outbox: webhook is not well-formed");
	key_outbox(key, r->webhook, r->next_us, r->seq);
	return table_delete(t, T_OUTBOX, key, sizeof key, e);
}

int store_outbox_later(struct txn *t, const struct outbox_rec *before, struct outbox_rec *now, struct err *e)
{
	return store_outbox_delete(t, before, e) < 0 ? -1 : put(t, now, e);
}

int store_outbox_webhook(struct txn *t, const char *after, char webhook[UUID_LEN], struct err *e)
{
	uint8_t key[KEY_OUTBOX_LEN];
	MDB_val k = { sizeof key, key }, v;
	size_t n = strlen(after);
	MDB_cursor *c;
	int got;

	if (n > UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "outbox: webhook is not well-formed");
	memset(key, 0xff, sizeof key);
	memcpy(key, after, n);
	if (cursor_open(t, T_OUTBOX, &c, e) < 0)
		return -1;
	got = cursor_step(t, c, n != 0 ? MDB_SET_RANGE : MDB_FIRST, &k, &v, e);
	if (got == 1 && k.mv_size != KEY_OUTBOX_LEN) {
		got = store_damaged("outbox", k.mv_data, k.mv_size, e);
	} else if (got == 1) {
		memcpy(webhook, k.mv_data, UUID_CHARS);
		webhook[UUID_CHARS] = '\0';
	}
	mdb_cursor_close(c);
	return got;
}

struct give { store_outbox_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct outbox_rec r;

	if (outbox_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("outbox", k->mv_data, k->mv_size, e);
	return g->fn(g->ctx, t, &r, e);
}

int store_walk_outbox(struct txn *t, const char *webhook, store_outbox_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	if (strlen(webhook) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "outbox: webhook is not well-formed");
	return table_walk(t, &(struct stretch){ .tb = T_OUTBOX, .prefix = webhook, .prefix_len = UUID_CHARS }, give, &g, e);
}
