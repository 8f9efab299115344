/*
 * The budget of requests to the mirrored account: a window of a minute, counted in the records, so that it is one for all programs and
 * a restart gives nobody a new one. What cannot be counted is not sent.
 */
#include "domain_int.h"

#include "hutch/upstream.h"

#define RECORD "upstream_budget"
#define WINDOW_US (BUDGET_WINDOW_S * US_PER_S)
#define BACK_US (5 * WINDOW_US)      /* a window that lies farther ahead than this is of a clock that was set back */

enum { WINDOW, USED, HELD_UNTIL, TAKEN, REFUSED, NUMBERS };

/* The window that now is in, with nothing used, unless the record is in it already or a little ahead. */
static void roll(int64_t v[NUMBERS], int64_t now_us)
{
	const int64_t window = now_us - now_us % WINDOW_US;

	if (window > v[WINDOW] || v[WINDOW] - window > BACK_US) {
		v[WINDOW] = window;
		v[USED] = 0;
	}
	if (v[HELD_UNTIL] - now_us > BUDGET_HOLD_MAX_S * US_PER_S)
		v[HELD_UNTIL] = now_us + BUDGET_HOLD_MAX_S * US_PER_S;
}

static int64_t ceiling(const struct domain *d)
{
	return d->conf->upstream_per_minute < BUDGET_ALLOWANCE ? d->conf->upstream_per_minute : BUDGET_ALLOWANCE;
}

static int take(struct domain *d, int64_t v[NUMBERS], int64_t now_us, int64_t *again_us)
{
	roll(v, now_us);
	*again_us = v[HELD_UNTIL] > now_us ? v[HELD_UNTIL] : v[USED] >= ceiling(d) ? v[WINDOW] + WINDOW_US : 0;
	if (*again_us == 0) {
		v[USED]++;
		v[TAKEN]++;
	} else {
		v[REFUSED]++;
	}
	return *again_us == 0;
}

int budget_take(struct domain *d, int64_t *again_us, struct err *e)
{
	int64_t v[NUMBERS], now = domain_real_now(d);
	struct txn *t;
	bool taken = false;
	int status;

	*again_us = now + WINDOW_US;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	status = store_numbers_get(t, RECORD, v, NUMBERS, e);
	if (status == 0) {
		taken = take(d, v, now, again_us);
		status = store_numbers_put(t, RECORD, v, NUMBERS, e);
	}
	if (txn_end(t, status, e) < 0)
		return -1;
	return taken ? 0 : err_set(e, ERR_LIMIT, "the budget of requests is used up: %lld of %lld a minute, the next in %lld s", (long long)v[USED],
				   (long long)ceiling(d), (long long)((*again_us - now + US_PER_S - 1) / US_PER_S));
}

int budget_hold(struct domain *d, int64_t seconds, struct err *e)
{
	int64_t v[NUMBERS], now = domain_real_now(d), until;
	struct txn *t;
	int status;

	if (seconds > BUDGET_HOLD_MAX_S)
		seconds = BUDGET_HOLD_MAX_S;
	until = now + seconds * US_PER_S;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	status = store_numbers_get(t, RECORD, v, NUMBERS, e);
	if (status == 0) {
		roll(v, now);
		v[HELD_UNTIL] = until > v[HELD_UNTIL] ? until : v[HELD_UNTIL];
		status = store_numbers_put(t, RECORD, v, NUMBERS, e);
	}
	return txn_end(t, status, e);
}

int budget_get(struct domain *d, struct budget *out, struct err *e)
{
	int64_t v[NUMBERS], now = domain_real_now(d);
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_numbers_get(t, RECORD, v, NUMBERS, e);
	txn_abort(t);
	if (status < 0)
		return -1;
	roll(v, now);
	*out = (struct budget){ .ceiling = ceiling(d), .used = v[USED], .resets_us = v[WINDOW] + WINDOW_US,
				.held_until_us = v[HELD_UNTIL] > now ? v[HELD_UNTIL] : 0, .taken = v[TAKEN], .refused = v[REFUSED] };
	return 0;
}
