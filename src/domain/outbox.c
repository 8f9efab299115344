/*
 * The outbox: what a state change owes to webhooks is written in the change's own transaction. It is due at once, whatever the
 * world's clock says; only further attempts have a time.
 */
#include "domain_int.h"

#include <string.h>

struct putting {
	struct txn *t;
	struct outbox_rec r;
};

static int put_one(void *ctx, const struct webhook_rec *hook, struct err *e)
{
	struct putting *p = ctx;

	if (!hook->enabled || (hook->events & 1U << p->r.type) == 0)
		return 0;
	memcpy(p->r.webhook, hook->id, sizeof p->r.webhook);
	return store_outbox_add(p->t, &p->r, e);
}

int outbox_put(struct txn *t, const struct sandbox_rec *r, const char *type, int64_t event_us, uint32_t event_seq, struct err *e)
{
	struct putting p = { .t = t, .r = { .event_us = event_us, .event_seq = event_seq } };
	int n = event_type_find(type);

	if (n < 0)
		return err_set(e, ERR_INTERNAL, "event of %s: %s is no type of webhooks", r->id, type);
	p.r.type = (uint8_t)n;
	memcpy(p.r.team, r->team, sizeof p.r.team);
	memcpy(p.r.sandbox, r->id, sizeof p.r.sandbox);
	return store_walk_webhooks(t, r->team, put_one, &p, e);
}
