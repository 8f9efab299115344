/* The audit of events, webhooks, outbox and deliveries. */
#include "store_int.h"

#include <string.h>

struct check {
	struct store_audit a;        /* first: it is the ctx of store_check_each */
	size_t of;                   /* events that stand in a sandbox's list */
};

static int check_event(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct check *c = ctx;
	uint8_t key[KEY_EVENT_OF_LEN];
	const char *p = v->mv_data;
	MDB_val there;
	int got;

	if (k->mv_size != KEY_EVENT_LEN || v->mv_size == 0) {
		store_say(ctx, "events: damaged record");
		return 0;
	}
	if (p[0] == '{')                     /* the first layout: in no list */
		return 0;
	if (p[0] != LAYOUT_EVENT || v->mv_size < EVENT_TEXT_AT) {
		store_say(ctx, "events: damaged record");
		return 0;
	}
	if (p[1] == '\0')
		return 0;
	c->of++;
	memcpy(key, p + 1, SANDBOX_ID_CHARS);
	memcpy(key + SANDBOX_ID_CHARS, (const char *)k->mv_data + UUID_CHARS, 12);
	got = table_get(t, T_EVENTS_OF, key, sizeof key, &there, e);
	if (got == 0)
		store_say(ctx, "events: one does not stand in its sandbox's list");
	return got < 0 ? -1 : 0;
}

static int check_webhook(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct webhook_rec r;
	struct team_rec team;
	int got;

	if (webhook_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0) {
		store_say(ctx, "webhooks: damaged record");
		return 0;
	}
	got = store_team_get(t, r.team, &team, e);
	if (got == 0)
		store_say(ctx, "webhooks: one of a team that does not exist");
	webhook_rec_release(&r);
	return got < 0 ? -1 : 0;
}

static int check_outbox(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct outbox_rec r;

	(void)t;
	(void)e;
	if (outbox_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		store_say(ctx, "outbox: damaged record");
	return 0;
}

static int check_delivery(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct delivery_rec r;

	(void)t;
	(void)e;
	if (delivery_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		store_say(ctx, "deliveries: damaged record");
	else
		delivery_rec_release(&r);
	return 0;
}

int store_check_hooks(struct txn *t, store_problem_fn *problem, void *ctx, struct err *e)
{
	struct check c = { .a = { .t = t, .problem = problem, .ctx = ctx } };

	if (store_check_each(&c.a, T_EVENTS, check_event, e) < 0 || store_check_each(&c.a, T_WEBHOOKS, check_webhook, e) < 0 ||
	    store_check_each(&c.a, T_OUTBOX, check_outbox, e) < 0 || store_check_each(&c.a, T_DELIVERIES, check_delivery, e) < 0 ||
	    store_check_size(&c.a, T_EVENTS_OF, c.of, e) < 0)
		return -1;
	return c.a.problems;
}
