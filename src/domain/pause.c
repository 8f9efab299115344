/* Pausing a sandbox (api.md 5.10), and the steps between running and paused that resuming and the reaper share. */
#include "domain_int.h"

#include <string.h>
#include <time.h>

#include "hutch/log.h"

#define WAIT_US (20 * US_PER_S)      /* longer than a call to the pool may take that copies or writes back no disk */
#define PAUSE_FIRST_US US_PER_MS
#define PAUSE_MAX_US (20 * US_PER_MS)

void patience_begin(struct patience *p)
{
	*p = (struct patience){ .until_us = boot_us() + WAIT_US, .pause_us = PAUSE_FIRST_US };
}

bool patience_wait(struct patience *p)
{
	struct timespec t = { 0, (long)p->pause_us * 1000 };

	if (boot_us() >= p->until_us)
		return false;
	nanosleep(&t, NULL);
	p->pause_us = p->pause_us * 2 < PAUSE_MAX_US ? p->pause_us * 2 : PAUSE_MAX_US;
	return true;
}

bool sandbox_lapsed(const struct sandbox_rec *r, int64_t now_us)
{
	return r->state == SB_RUNNING && r->auto_pause && r->end_us <= now_us;
}

void work_of(const struct sandbox_rec *r, struct reap_work *w)
{
	*w = (struct reap_work){ .act = r->state == SB_PAUSING ? REAP_PAUSE : r->state == SB_RESUMING ? REAP_UNDO : REAP_REMOVE,
				 .memory = r->memory, .pool_kind = r->pool_kind, .net_due_us = r->net_due_us };
	memcpy(w->id, r->id, sizeof w->id);
	memcpy(w->machine, r->machine, sizeof w->machine);
	memcpy(w->execution, r->execution_id, sizeof w->execution);
}

int pausing_put(struct txn *t, struct sandbox_rec *r, bool memory, bool handed, int64_t due_us, struct err *e)
{
	struct sandbox_rec before = *r;

	r->state = SB_PAUSING;
	r->memory = memory;
	r->handed = handed;
	r->due_us = due_us;
	return store_sandbox_put(t, &before, r, e);
}

/* The row if the work is still about it: 1, else 0, or -1. */
static int get_of_work(struct txn *t, const struct reap_work *w, struct sandbox_rec *r, struct err *e)
{
	const uint8_t state = w->act == REAP_PAUSE ? SB_PAUSING : SB_RESUMING;
	int got = store_sandbox_get(t, w->id, r, e);

	if (got != 1 || (r->state == state && strcmp(r->execution_id, w->execution) == 0))
		return got;
	sandbox_rec_release(r);
	return 0;
}

int paused_put(struct txn *t, const struct reap_work *w, int64_t now_us, bool *done, struct err *e)
{
	struct sandbox_rec before, now;
	int status = get_of_work(t, w, &before, e);

	*done = status == 1;
	if (status != 1)
		return status;
	now = before;
	now.state = SB_PAUSED;
	now.handed = false;
	now.memory = w->memory;
	now.due_us = 0;
	status = 0;
	if (w->act == REAP_PAUSE) {          /* a resume that is taken back was never seen */
		now.end_us = now_us;
		status = event_write(t, &before, EVENT_PAUSED, now_us, NULL, 0, e);
	}
	if (status == 0)
		status = store_sandbox_put(t, &before, &now, e);
	sandbox_rec_release(&before);
	return status;
}

int paused_commit(struct domain *d, const struct reap_work *w, bool *done, struct err *e)
{
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, paused_put(t, w, domain_now(d), done, e), e);
}

/* Change the row in one transaction, if the work is still about it. */
static int change(struct domain *d, const struct reap_work *w, int (*fn)(struct domain *d, struct txn *t, struct sandbox_rec *r, struct err *e),
		  struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int status;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	status = get_of_work(t, w, &r, e);
	if (status == 1) {
		status = fn(d, t, &r, e);
		sandbox_rec_release(&r);
	}
	if (txn_end(t, status, e) < 0)
		return -1;
	reaper_nudge(d);
	return 0;
}

static int to_reaper(struct domain *d, struct txn *t, struct sandbox_rec *r, struct err *e)
{
	struct sandbox_rec before = *r;

	r->handed = true;
	r->due_us = domain_now(d);
	return store_sandbox_put(t, &before, r, e);
}

void transit_hand_over(struct domain *d, const struct reap_work *w)
{
	struct err e;

	if (change(d, w, to_reaper, &e) < 0)
		log_warn("sandbox %s: %s", w->id, e.text);   /* comes due by itself */
}

static int to_orphan(struct domain *d, struct txn *t, struct sandbox_rec *r, struct err *e)
{
	int64_t now = domain_now(d);

	return killing_put(t, r, "orphaned", now, now, true, e);
}

void transit_orphaned(struct domain *d, const struct reap_work *w)
{
	struct err e;

	log_warn("sandbox %s: its machine %s is gone", w->id, w->machine);
	if (change(d, w, to_orphan, &e) < 0)
		log_warn("sandbox %s: %s", w->id, e.text);
}

/* The pool cannot pause it. It goes on while it may; at the end of its lease memory is kept where a disk alone cannot be. */
static int to_running(struct domain *d, struct txn *t, struct sandbox_rec *r, struct err *e)
{
	struct sandbox_rec before = *r;
	int64_t now = domain_now(d);

	if (r->auto_pause && r->end_us <= now) {
		r->due_us = r->memory ? now + KILL_RETRY_US : now;
		r->memory = true;
	} else {
		r->state = SB_RUNNING;
		r->memory = false;
		r->due_us = running_due(r);
	}
	r->handed = r->state == SB_PAUSING;
	return store_sandbox_put(t, &before, r, e);
}

/* The pool cannot: it runs on. */
static void pause_undo(struct domain *d, const struct reap_work *w)
{
	struct err e;

	if (change(d, w, to_running, &e) < 0)
		log_warn("sandbox %s: %s", w->id, e.text);
}

int reap_pause(struct domain *d, const struct reap_work *w, struct err *e)
{
	if (pool_hibernate(pool_of(d, w->pool_kind), w->machine, w->memory, e) == 0)
		return 0;
	if (e->kind == ERR_NOT_FOUND) {
		transit_orphaned(d, w);
		return 0;
	}
	if (e->kind == ERR_CONFLICT && w->act == REAP_PAUSE)
		pause_undo(d, w);
	return -1;
}

/* ---- a call ---- */

enum step { STEP_DONE, STEP_WAIT, STEP_ACT };

/* What is to be done about the row, or -1. joined: another call's pause was waited for. */
static int next_step(const struct sandbox_rec *r, int64_t now_us, bool joined, struct err *e)
{
	switch (r->state) {
	case SB_RUNNING:
		return sandbox_is_live(r, now_us) || sandbox_lapsed(r, now_us) ? STEP_ACT : sandbox_missing(r->id, e);
	case SB_PAUSING:
	case SB_SNAPSHOTTING:
		return STEP_WAIT;
	case SB_PAUSED:
		return joined ? STEP_DONE : err_set(e, ERR_CONFLICT, "Sandbox %s is already paused", r->id);
	case SB_RESUMING:
		return err_set(e, ERR_CONFLICT, "Sandbox %s cannot be paused while in 'resuming' state", r->id);
	default:
		return sandbox_missing(r->id, e);
	}
}

int get_own(struct txn *t, const char *team, const char *id, struct sandbox_rec *r, struct err *e)
{
	int got = store_sandbox_get(t, id, r, e);

	if (got < 0)
		return -1;
	if (got == 0)
		return sandbox_missing(id, e);
	if (team == NULL || (strcmp(team, r->team) == 0 && row_is_ours(r, e) == 0))
		return 0;
	if (strcmp(team, r->team) != 0)
		sandbox_missing(id, e);
	sandbox_rec_release(r);
	return -1;
}

static int look(struct domain *d, const char *team, const char *id, bool joined, struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int step;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	step = get_own(t, team, id, &r, e);
	txn_abort(t);
	if (step < 0)
		return -1;
	step = next_step(&r, domain_now(d), joined, e);
	sandbox_rec_release(&r);
	return step;
}

/* The row becomes SB_PAUSING, if it still may: then *w is what to do. */
static int mark(struct domain *d, const char *team, const char *id, bool memory, bool joined, struct reap_work *w, struct err *e)
{
	int64_t now = domain_now(d);
	struct sandbox_rec r;
	struct txn *t;
	int step;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (get_own(t, team, id, &r, e) < 0) {
		txn_abort(t);
		return -1;
	}
	step = next_step(&r, now, joined, e);
	if (step == STEP_ACT) {
		if (sandbox_lapsed(&r, now))         /* then it is the end of the lease that says how */
			memory = r.auto_pause_memory;
		if (pool_admit(pool_kind_caps(r.pool_kind), r.pool, WANT_BIT(WANT_PAUSE) | (memory ? 0 : WANT_BIT(WANT_PAUSE_DISK)), NULL, e) < 0 ||
		    pausing_put(t, &r, memory, false, now + d->conf->repair_s * US_PER_S, e) < 0)
			step = -1;
		work_of(&r, w);
	}
	sandbox_rec_release(&r);
	if (step != STEP_ACT) {
		txn_abort(t);
		return step;
	}
	return txn_commit(t, e) < 0 ? -1 : STEP_ACT;
}

/* The machine stands still, but the row is no longer ours. */
static int lost(struct domain *d, const struct reap_work *w, struct err *e)
{
	struct sandbox_rec r;
	struct err why;

	if (sandbox_get(d, NULL, w->id, &r, e) < 0)
		return -1;                           /* killed meanwhile */
	/* finished by the reaper; or even resumed since, and stopped by our late call */
	if (r.state == SB_RUNNING && pool_wake(pool_of(d, w->pool_kind), w->machine, &why) < 0)
		log_warn("sandbox %s: %s", w->id, why.text);
	sandbox_rec_release(&r);
	return 0;
}

static int act(struct domain *d, const struct reap_work *w, struct err *e)
{
	bool done = false;

	if (pool_hibernate(pool_of(d, w->pool_kind), w->machine, w->memory, e) == 0) {
		if (paused_commit(d, w, &done, e) < 0)
			return -1;                   /* the reaper finishes it */
		return done ? 0 : lost(d, w, e);
	}
	if (e->kind == ERR_NOT_FOUND) {
		transit_orphaned(d, w);
		return sandbox_missing(w->id, e);
	}
	if (e->kind == ERR_CONFLICT) {
		pause_undo(d, w);
		e->kind = ERR_INVALID;
	} else {
		transit_hand_over(d, w);
	}
	return err_wrap(e, "Failed to pause sandbox");
}

int sandbox_pause(struct domain *d, const char *team, const char *id, bool memory, struct err *e)
{
	struct patience p;
	struct reap_work w;
	bool joined = false;

	patience_begin(&p);
	for (;;) {
		int step = look(d, team, id, joined, e);

		if (step == STEP_ACT)
			step = mark(d, team, id, memory, joined, &w, e);
		if (step == STEP_ACT)
			return act(d, &w, e);
		if (step != STEP_WAIT)
			return step;
		joined = true;
		if (!patience_wait(&p))
			return err_set(e, ERR_CONFLICT, "Sandbox %s is still being paused", id);
	}
}
