/* Webhooks of teams. */
#include "store_int.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUT_WEBHOOK_1 1           /* its secret was not sealed */
#define LAYOUT_WEBHOOK 2

void webhook_rec_release(struct webhook_rec *r)
{
	free(r->url);
	free(r->secret);
	r->url = r->secret = NULL;
}

void webhook_pack(struct buf *b, const struct webhook_rec *r)
{
	enc_u8(b, r->clear ? LAYOUT_WEBHOOK_1 : LAYOUT_WEBHOOK);
	enc_u8(b, r->enabled);
	enc_u32(b, r->events);
	enc_u64(b, (uint64_t)r->created_us);
	enc_str(b, r->name);
	enc_text(b, r->url);
	enc_text(b, r->secret);
}

int webhook_unpack(const void *key, size_t key_len, const void *p, size_t n, struct webhook_rec *r)
{
	struct dec d = { p, n, false };
	uint8_t layout = dec_u8(&d);

	memset(r, 0, sizeof *r);
	if (key_len != KEY_WEBHOOK_LEN || memchr(key, 0, key_len) != NULL || (layout != LAYOUT_WEBHOOK && layout != LAYOUT_WEBHOOK_1))
		return -1;
	r->clear = layout == LAYOUT_WEBHOOK_1;
	memcpy(r->team, key, UUID_CHARS);
	memcpy(r->id, (const char *)key + UUID_CHARS, UUID_CHARS);
	r->enabled = dec_bool(&d);
	r->events = dec_u32(&d);
	r->created_us = (int64_t)dec_u64(&d);
	dec_str(&d, r->name, sizeof r->name);
	r->url = dec_text(&d);
	r->secret = dec_text(&d);
	if (dec_done(&d) && r->url != NULL && r->secret != NULL)
		return 0;
	webhook_rec_release(r);
	return -1;
}

/* False when one of them is no id, so that no record has it. */
static bool key_webhook(uint8_t out[KEY_WEBHOOK_LEN], const char *team, const char *id)
{
	if (strlen(team) != UUID_CHARS || strlen(id) != UUID_CHARS)
		return false;
	memcpy(out, team, UUID_CHARS);
	memcpy(out + UUID_CHARS, id, UUID_CHARS);
	return true;
}

int store_webhook_get(struct txn *t, const char *team, const char *id, struct webhook_rec *out, struct err *e)
{
	uint8_t key[KEY_WEBHOOK_LEN];
	MDB_val v;
	int got;

	if (!key_webhook(key, team, id))
		return 0;
	got = table_get(t, T_WEBHOOKS, key, sizeof key, &v, e);
	if (got == 1 && webhook_unpack(key, sizeof key, v.mv_data, v.mv_size, out) < 0)
		return store_damaged("webhook", id, strlen(id), e);
	return got;
}

int store_webhook_put(struct txn *t, const struct webhook_rec *r, struct err *e)
{
	uint8_t key[KEY_WEBHOOK_LEN];
	struct buf b;

	if (!key_webhook(key, r->team, r->id))
		return err_set(e, ERR_INTERNAL, "webhook: team or id is not well-formed");
	buf_init(&b, RECORD_MAX);
	webhook_pack(&b, r);
	return store_packed(t, T_WEBHOOKS, key, sizeof key, &b, e);
}

int store_webhook_delete(struct txn *t, const char *team, const char *id, struct err *e)
{
	uint8_t key[KEY_WEBHOOK_LEN];

	return key_webhook(key, team, id) ? table_delete(t, T_WEBHOOKS, key, sizeof key, e) : 0;
}

struct give { store_webhook_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct webhook_rec r;
	int status;

	(void)t;
	if (webhook_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("webhook", k->mv_data, k->mv_size, e);
	status = g->fn(g->ctx, &r, e);
	webhook_rec_release(&r);
	return status;
}

int store_walk_webhooks(struct txn *t, const char *team, store_webhook_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	if (team != NULL && strlen(team) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "webhook: team is not well-formed");
	return table_walk(t, &(struct stretch){ .tb = T_WEBHOOKS, .prefix = team, .prefix_len = team != NULL ? UUID_CHARS : 0 }, give, &g, e);
}
