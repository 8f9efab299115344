/* What became of each attempt to deliver, by time. */
#include "store_int.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUT_DELIVERY 1

void delivery_rec_release(struct delivery_rec *r)
{
	free(r->url);
	free(r->error);
	free(r->answer);
	r->url = r->error = r->answer = NULL;
}

void delivery_pack(struct buf *b, const struct delivery_rec *r)
{
	enc_u8(b, LAYOUT_DELIVERY);
	enc_u8(b, r->type);
	enc_u8(b, r->state);
	enc_u32(b, r->attempt);
	enc_u32(b, r->status);
	enc_u32(b, r->duration_ms);
	enc_str(b, r->id);
	enc_str(b, r->team);
	enc_str(b, r->webhook);
	enc_str(b, r->event);
	enc_str(b, r->sandbox);
	enc_text(b, r->url);
	enc_text(b, r->error);
	enc_text(b, r->answer);
}

int delivery_unpack(const void *key, size_t key_len, const void *p, size_t n, struct delivery_rec *r)
{
	struct dec d = { p, n, false };

	memset(r, 0, sizeof *r);
	if (key_len != KEY_DELIVERY_LEN || dec_u8(&d) != LAYOUT_DELIVERY)
		return -1;
	r->us = (int64_t)be64_get(key);
	r->seq = be32_get((const uint8_t *)key + 8);
	r->type = dec_u8(&d);
	r->state = dec_u8(&d);
	r->attempt = dec_u32(&d);
	r->status = dec_u32(&d);
	r->duration_ms = dec_u32(&d);
	dec_str(&d, r->id, sizeof r->id);
	dec_str(&d, r->team, sizeof r->team);
	dec_str(&d, r->webhook, sizeof r->webhook);
	dec_str(&d, r->event, sizeof r->event);
	dec_str(&d, r->sandbox, sizeof r->sandbox);
	r->url = dec_text(&d);
	r->error = dec_text(&d);
	r->answer = dec_text(&d);
	if (dec_done(&d))
		return 0;
	delivery_rec_release(r);
	return -1;
}

int store_delivery_add(struct txn *t, struct delivery_rec *r, struct err *e)
{
	uint8_t key[KEY_DELIVERY_LEN];
	MDB_val k, v;
	MDB_cursor *c;
	struct buf b;
	int got;

	if (cursor_open(t, T_DELIVERIES, &c, e) < 0)
		return -1;
	/* times go forward, so that the last one is the only one that may have this time; were the clock set back, its time is kept */
	got = cursor_step(t, c, MDB_LAST, &k, &v, e);
	r->seq = 0;
	if (got == 1 && k.mv_size == sizeof key && (int64_t)be64_get(k.mv_data) >= r->us) {
		r->us = (int64_t)be64_get(k.mv_data);
		r->seq = be32_get((const uint8_t *)k.mv_data + 8) + 1;
	}
	mdb_cursor_close(c);
	if (got < 0)
		return -1;
	be64_put(key, (uint64_t)r->us);
	be32_put(key + 8, r->seq);
	buf_init(&b, RECORD_MAX);
	delivery_pack(&b, r);
	return store_packed(t, T_DELIVERIES, key, sizeof key, &b, e);
}

struct give { store_delivery_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct delivery_rec r;
	int status;

	(void)t;
	if (delivery_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("delivery", k->mv_data, k->mv_size, e);
	status = g->fn(g->ctx, &r, e);
	delivery_rec_release(&r);
	return status;
}

int store_walk_deliveries(struct txn *t, store_delivery_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	return table_walk(t, &(struct stretch){ .tb = T_DELIVERIES, .back = true }, give, &g, e);
}

int store_deliveries_trim(struct txn *t, int64_t before_us, size_t keep, int max, int *removed, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	MDB_stat s;
	int got, rc = mdb_stat(t->mdb, t->st->dbi[T_DELIVERIES], &s);
	size_t over = rc == 0 && s.ms_entries > keep ? s.ms_entries - keep : 0;

	*removed = 0;
	if (rc != 0)
		return store_fail(t->st, rc, "deliveries", e);
	if (cursor_open(t, T_DELIVERIES, &c, e) < 0)
		return -1;
	got = cursor_step(t, c, MDB_FIRST, &k, &v, e);
	while (got == 1 && *removed < max) {
		if (k.mv_size != KEY_DELIVERY_LEN) {
			got = store_damaged("delivery", k.mv_data, k.mv_size, e);
			break;
		}
		if ((size_t)*removed >= over && (int64_t)be64_get(k.mv_data) >= before_us)
			break;
		rc = mdb_cursor_del(c, 0);
		if (rc != 0) {
			got = store_fail(t->st, rc, "deliveries", e);
			break;
		}
		++*removed;
		got = cursor_step(t, c, MDB_NEXT, &k, &v, e);
	}
	mdb_cursor_close(c);
	return got < 0 ? -1 : 0;
}
