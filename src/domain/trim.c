/* What is too old: in transactions of bounded size, so that nobody waits long for the writer's lock. */
#include "domain_int.h"

#include "hutch/log.h"

#define LEAST_US (60 * US_PER_S)     /* younger ones stay in any case */

int trim_rounds(struct domain *d, trim_fn *fn, const void *ctx, int64_t *total, struct err *e)
{
	int removed = TRIM_EACH;

	while (removed == TRIM_EACH) {
		struct txn *t;

		if (txn_write(d->store, &t, e) < 0)
			return -1;
		if (fn(t, ctx, &removed, e) < 0) {
			txn_abort(t);
			return -1;
		}
		*total += removed;
		if (removed == 0)
			txn_abort(t);
		else if (txn_commit(t, e) < 0)
			return -1;
	}
	return 0;
}

static int trim_events(struct txn *t, const void *before_us, int *removed, struct err *e)
{
	return store_events_trim(t, *(const int64_t *)before_us, TRIM_EACH, removed, e);
}

static int trim_before(struct domain *d, int64_t before_us, int64_t *total, struct err *e)
{
	return trim_rounds(d, trim_events, &before_us, total, e);
}

int domain_fullness(const struct domain *d, int *percent, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_fullness(t, percent, e);
	txn_abort(t);
	return status;
}

int events_trim(struct domain *d, struct err *e)
{
	int64_t keep = d->conf->event_days * 86400 * US_PER_S, total = 0, early = 0;
	int percent;

	if (trim_before(d, domain_now(d) - keep, &total, e) < 0 || domain_fullness(d, &percent, e) < 0)
		return -1;
	while (percent >= TIGHT_PERCENT && keep > LEAST_US) {
		keep /= 2;
		if (trim_before(d, domain_now(d) - keep, &early, e) < 0 || domain_fullness(d, &percent, e) < 0)
			return -1;
	}
	if (early > 0)
		log_warn("the records were nearly full (db_size_mb is %lld): dropped %lld events before their time",
			 (long long)d->conf->db_size_mb, (long long)early);
	return 0;
}
