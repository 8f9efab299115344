/* The reaper's main pass: rows that are due. */
#include "domain_int.h"

#include <string.h>

#include "hutch/log.h"

#define BATCH 256                    /* rows marked in one transaction */
#define RETRY_MAX_US (60 * US_PER_S)
#define STUCK_US US_PER_S            /* a due key that could not be handled is looked at again after this */

/* A kill that does not succeed is tried again after as long as it has been tried, within bounds. */
static int64_t retry_us(const struct sandbox_rec *r, int64_t now_us)
{
	int64_t age = now_us - r->end_us;

	if (r->state != SB_KILLING || age < KILL_RETRY_US)
		return KILL_RETRY_US;
	return age < RETRY_MAX_US ? age : RETRY_MAX_US;
}

/* One due row, read anew inside the write transaction: an extension that landed first has moved its key. */
static int mark_row(struct domain *d, struct txn *t, const struct sandbox_rec *r, int64_t now_us, struct reap_work *w, bool *add,
		    struct err *e)
{
	struct sandbox_rec now = *r;         /* borrows the metadata */
	int status;

	switch (r->state) {
	case SB_PAUSING:
	case SB_RESUMING:
		now.handed = true;
		now.due_us = now_us + KILL_RETRY_US;
		work_of(&now, w);
		*add = true;
		return store_sandbox_put(t, r, &now, e);
	case SB_SNAPSHOTTING:                /* its taker is gone: it runs on, or comes due again at once */
		return snapshotting_undo(d, t, r, e);
	case SB_RUNNING:
		if (r->end_us > now_us) {    /* a change of its rules that nobody finished */
			now.net_due_us = now_us + KILL_RETRY_US;
			now.due_us = running_due(&now);
			work_of(&now, w);
			w->act = REAP_NETWORK;
			*add = true;
			return store_sandbox_put(t, r, &now, e);
		}
		if (r->auto_pause) {
			status = pausing_put(t, &now, r->auto_pause_memory, true, now_us + KILL_RETRY_US, e);
			work_of(&now, w);
			*add = true;
			return status;
		}
		count_add(d, COUNT_KILLED_TIMEOUT, 1);
		/* fall through */
	case SB_STARTING:
	case SB_KILLING:
		work_of(r, w);
		w->act = REAP_REMOVE;
		*add = true;
		return killing_put(t, r, "timeout", now_us, now_us + retry_us(r, now_us), true, e);
	default:
		log_error("sandbox %s: due in state %d, which nothing here ends", r->id, r->state);
		now.due_us = now_us + d->conf->repair_s * US_PER_S;
		return store_sandbox_put(t, r, &now, e);
	}
}

/* The row of a due key. A damaged one is reported and passed over: it must not stop the others. */
static int mark_key(struct domain *d, struct txn *t, const char *id, int64_t now_us, struct reap_work *w, bool *add, struct err *e)
{
	struct sandbox_rec r;
	struct err why;
	int got = store_sandbox_get(t, id, &r, &why);

	*add = false;
	if (got != 1) {
		log_error("due sandbox %s: %s", id, got < 0 ? why.text : "there is no such row");
		return 0;
	}
	got = mark_row(d, t, &r, now_us, w, add, e);
	sandbox_rec_release(&r);
	return got;
}

static int mark_all(struct domain *d, struct txn *t, int64_t now_us, struct reap_work *work, size_t max, size_t *n, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	int64_t us;
	int got = store_due_first(t, &us, id, e);

	while (got == 1 && us <= now_us && *n < max) {
		bool add;

		if (mark_key(d, t, id, now_us, &work[*n], &add, e) < 0)
			return -1;
		*n += add;
		got = store_due_next(t, &us, id, e);
	}
	return got < 0 ? -1 : 0;
}

static int first_due(struct domain *d, int64_t *us, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_due_first(t, us, id, e);
	txn_abort(t);
	if (got == 0)
		*us = -1;
	return got;
}

int reap_mark(struct domain *d, struct reap_work *work, size_t max, size_t *n, int64_t *next_us, struct err *e)
{
	int64_t now = domain_now(d);
	struct txn *t;

	*n = 0;
	if (first_due(d, next_us, e) < 0)
		return -1;
	if (*next_us < 0 || *next_us > now)
		return 0;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (mark_all(d, t, now, work, max, n, e) < 0) {
		txn_abort(t);
		*n = 0;
		return -1;
	}
	if (txn_commit(t, e) < 0) {
		*n = 0;
		return -1;
	}
	if (first_due(d, next_us, e) < 0)
		*next_us = now + STUCK_US;
	else if (*next_us >= 0 && *next_us <= now && *n < max)
		*next_us = now + STUCK_US;
	return 0;
}

int reap_once(struct domain *d, int64_t *next_us, struct err *e)
{
	struct reap_work work[BATCH];
	bool failed = false;
	struct err why;
	size_t n;
	int handled = 0;

	do {
		size_t done;

		if (reap_mark(d, work, BATCH, &n, next_us, e) < 0)
			return -1;
		done = crew_finish(d, work, n, &failed, &why);
		if (failed)
			log_warn("%zu of %zu ended or paused sandboxes wait for the machine pool: %s", n - done, n, why.text);
		handled += (int)n;
	} while (n == BATCH);
	/* rows that are gone by now had a later key while they were being removed */
	if (handled > 0 && first_due(d, next_us, e) < 0)
		return -1;
	return handled;
}
