/* After an attempt to deliver: its record, and the next attempt. */
#include "domain_int.h"

#include <string.h>

#include "hutch/crypto.h"

#define KEEP 100000                  /* records of deliveries */
#define KEEP_TIGHT 1000              /* when the records are nearly full */

void webhook_sign(const char *secret, const void *body, size_t n, char out[SIGNATURE_LEN])
{
	uint8_t hash[SHA256_LEN];
	struct buf b;

	sha256_two(secret, strlen(secret), body, n, hash);
	buf_init(&b, 64);
	base64_add(&b, hash, sizeof hash);
	memset(out, 0, SIGNATURE_LEN);               /* out of memory: a signature that nobody takes */
	if (!buf_failed(&b))
		memcpy(out, b.p, SIGNATURE_LEN - 1); /* without the one "=" */
	buf_release(&b);
}

static int settle(struct domain *d, struct txn *t, struct settlement *s, struct err *e)
{
	bool last = s->rec.state == DELIVERY_DONE || s->rec.state == DELIVERY_DROPPED;
	struct outbox_rec again = s->out;
	int got = store_outbox_delete(t, &s->out, e);

	if (got < 1)
		return got;
	if (!last && s->out.attempts >= d->conf->webhook_retries) {
		s->rec.state = DELIVERY_DEAD;
	} else if (!last) {
		s->rec.state = DELIVERY_RETRY;
		again.attempts++;
		again.next_us = s->rec.us + d->conf->webhook_retry_s * US_PER_S;
		if (store_outbox_later(t, &s->out, &again, e) < 0)
			return -1;
	}
	return store_delivery_add(t, &s->rec, e);
}

int outbox_settle(struct domain *d, struct settlement *const *s, size_t n, struct err *e)
{
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (settle(d, t, s[i], e) < 0) {
			txn_abort(t);
			return -1;
		}
	}
	return txn_commit(t, e);
}

static int keep_how_many(struct domain *d, size_t *keep, struct err *e)
{
	int percent, status = domain_fullness(d, &percent, e);

	*keep = status == 0 && percent >= TIGHT_PERCENT ? KEEP_TIGHT : KEEP;
	return status;
}

struct keeping {
	int64_t before_us;
	size_t keep;
};

static int trim_deliveries(struct txn *t, const void *ctx, int *removed, struct err *e)
{
	const struct keeping *k = ctx;

	return store_deliveries_trim(t, k->before_us, k->keep, TRIM_EACH, removed, e);
}

int deliveries_trim(struct domain *d, struct err *e)
{
	struct keeping k = { .before_us = domain_real_now(d) - d->conf->event_days * 86400 * US_PER_S };
	int64_t total = 0;

	return keep_how_many(d, &k.keep, e) < 0 ? -1 : trim_rounds(d, trim_deliveries, &k, &total, e);
}
