/* Resuming a paused sandbox: by a call (api.md 5.11, 5.12) or by traffic (6.6). Calls at the same time share one resume. */
#include "domain_int.h"

#include <string.h>

#include "hutch/crypto.h"
#include "hutch/log.h"

struct resume {
	struct domain *d;
	const struct resume_spec *s;
	const char *team;            /* NULL = whoever's it is */
	const char *id;
	bool traffic;                /* only where it is allowed, and a running one is left as it is */
	bool joined;                 /* another call's resume was waited for */
	bool reboot;                 /* without the memory that was kept */
	int64_t seconds;
	struct reap_work w;
};

static struct pool *driver(const struct resume *m)
{
	return pool_of(m->d, m->w.pool_kind);
}

enum step { STEP_RUNS, STEP_WAIT, STEP_LAPSED, STEP_ACT };

/* A paused row that traffic may not resume is not there for it. */
static bool allowed(const struct resume *m, const struct sandbox_rec *r, bool memory)
{
	return !m->traffic || (r->auto_resume && memory);
}

static int next_step(struct resume *m, const struct sandbox_rec *r, int64_t now_us, struct err *e)
{
	switch (r->state) {
	case SB_RUNNING:
		if (sandbox_is_live(r, now_us))
			return STEP_RUNS;
		return sandbox_lapsed(r, now_us) && allowed(m, r, r->auto_pause_memory) ? STEP_LAPSED : sandbox_missing(r->id, e);
	case SB_RESUMING:
		m->joined = true;
		return STEP_WAIT;
	case SB_SNAPSHOTTING:                /* it runs */
		if (m->traffic)
			return STEP_RUNS;
		if (m->s->only_paused)
			return err_set(e, ERR_CONFLICT, "Sandbox %s is running, and a snapshot of it is being taken", r->id);
		return STEP_WAIT;
	case SB_PAUSING:
		return allowed(m, r, r->memory) ? STEP_WAIT : sandbox_missing(r->id, e);
	case SB_PAUSED:
		return allowed(m, r, r->memory) ? STEP_ACT : sandbox_missing(r->id, e);
	case SB_KILLING:
		if (!r->handed && !m->traffic && !m->s->only_paused)
			return err_set(e, ERR_CONFLICT, "Sandbox %s is being killed", r->id);
		return sandbox_missing(r->id, e);
	default:
		return sandbox_missing(r->id, e);
	}
}

/* The row and its step; *r is the caller's unless that is -1. */
static int look(struct resume *m, struct sandbox_rec *r, struct err *e)
{
	struct txn *t;
	int step;

	if (txn_read(m->d->store, &t, e) < 0)
		return -1;
	step = get_own(t, m->team, m->id, r, e);
	txn_abort(t);
	if (step < 0)
		return -1;
	step = next_step(m, r, domain_now(m->d), e);
	if (step < 0)
		sandbox_rec_release(r);
	return step;
}

/* May it run again: by its team, its limit, and the machine that it sleeps on? */
static int check_room(struct txn *t, const struct sandbox_rec *r, struct err *e)
{
	struct team_rec team;
	int got = store_team_get(t, r->team, &team, e);

	if (got == 0)
		return sandbox_missing(r->id, e);
	if (got < 0 || team_may(&team, true, e) < 0 || node_takes(t, r->pool_kind, e) < 0)
		return -1;
	return check_limit(t, &team, e);
}

/* The row becomes SB_RESUMING. Each try has an execution id of its own, so that a late one is known. */
static int resuming_put(struct resume *m, struct txn *t, struct sandbox_rec *r, struct err *e)
{
	struct sandbox_rec before = *r;

	if (check_room(t, r, e) < 0)
		return -1;
	m->seconds = m->traffic ? r->resume_s : m->s->seconds;
	m->reboot = !m->traffic && m->s->reboot && r->memory;
	random_uuid(r->execution_id);
	r->state = SB_RESUMING;
	r->handed = false;
	r->due_us = domain_now(m->d) + m->d->conf->repair_s * US_PER_S;
	work_of(r, &m->w);
	return store_sandbox_put(t, &before, r, e);
}

static int mark(struct resume *m, struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int step;

	if (txn_write(m->d->store, &t, e) < 0)
		return -1;
	if (get_own(t, m->team, m->id, &r, e) < 0) {
		txn_abort(t);
		return -1;
	}
	step = next_step(m, &r, domain_now(m->d), e);
	if (step == STEP_ACT && resuming_put(m, t, &r, e) < 0)
		step = -1;
	sandbox_rec_release(&r);
	if (step != STEP_ACT) {
		txn_abort(t);
		return step;
	}
	return txn_commit(t, e) < 0 ? -1 : STEP_ACT;
}

static int running_put(struct resume *m, struct txn *t, struct sandbox_rec *r, bool *first, struct err *e)
{
	struct sandbox_rec before = *r;
	char id[SANDBOX_ID_LEN];
	int64_t due;

	r->state = SB_RUNNING;
	r->memory = r->handed = false;
	r->started_us = domain_now(m->d);
	r->end_us = r->started_us + m->seconds * US_PER_S;
	r->due_us = running_due(r);
	if (!m->traffic && m->s->auto_pause >= 0)
		r->auto_pause = m->s->auto_pause > 0;
	if (store_sandbox_put(t, &before, r, e) < 0 || event_write(t, r, EVENT_RESUMED, r->started_us, NULL, 0, e) < 0 ||
	    store_due_first(t, &due, id, e) < 0)
		return -1;
	*first = strcmp(id, r->id) == 0;
	return 0;
}

/* 1 with the row in *out, 0 when it is no longer ours (then *out says what it is, if it is there: release), -1. */
static int commit(struct resume *m, struct sandbox_rec *out, struct err *e)
{
	bool first = false, ours;
	struct txn *t;

	if (txn_write(m->d->store, &t, e) < 0)
		return -1;
	if (get_own(t, NULL, m->id, out, e) < 0) {
		txn_abort(t);
		return -1;
	}
	ours = out->state == SB_RESUMING && strcmp(out->execution_id, m->w.execution) == 0;
	if (!ours) {
		txn_abort(t);
		return 0;
	}
	if (running_put(m, t, out, &first, e) < 0) {
		txn_abort(t);
		sandbox_rec_release(out);
		return -1;
	}
	if (txn_commit(t, e) < 0) {
		sandbox_rec_release(out);
		return -1;
	}
	if (first)
		reaper_nudge(m->d);
	return 1;
}

/* Back to how it was paused; by the reaper, if the pool does not do it now. */
static void undo(struct resume *m)
{
	bool done;
	struct err e;

	if (pool_hibernate(driver(m), m->w.machine, m->w.memory, &e) < 0 || paused_commit(m->d, &m->w, &done, &e) < 0)
		transit_hand_over(m->d, &m->w);
}

/* The machine is awake and the row is another's: killed, or taken back by the reaper because this took too long. */
static int lost(struct resume *m, struct sandbox_rec *r, struct err *e)
{
	const bool killed = r->state == SB_KILLING;
	struct err why;

	if (r->state == SB_PAUSED && pool_hibernate(driver(m), m->w.machine, r->memory, &why) < 0)
		log_warn("sandbox %s: %s", m->id, why.text);
	sandbox_rec_release(r);
	if (killed && !m->traffic && m->s->only_paused)
		return sandbox_missing(m->id, e);
	return err_set(e, ERR_CONFLICT, "Sandbox %s was ended or paused while it was resumed", m->id);
}

static int wake(struct resume *m, struct err *e)
{
	if (m->reboot && pool_hibernate(driver(m), m->w.machine, false, e) < 0) {
		if (e->kind == ERR_CONFLICT)
			e->kind = ERR_INVALID;
		return -1;
	}
	m->w.memory = m->w.memory && !m->reboot;
	return pool_wake(driver(m), m->w.machine, e);
}

static int act(struct resume *m, struct sandbox_rec *out, struct err *e)
{
	int got;

	if (wake(m, e) < 0) {
		if (e->kind == ERR_NOT_FOUND) {
			transit_orphaned(m->d, &m->w);
			return sandbox_missing(m->id, e);
		}
		undo(m);
		return e->kind == ERR_INVALID ? err_wrap(e, "memory") : place_failed(e);
	}
	got = commit(m, out, e);
	if (got == 0)
		return lost(m, out, e);
	if (got < 0 && e->kind != ERR_NOT_FOUND)
		undo(m);
	return got < 0 ? -1 : 0;
}

/* A running one: 0 with its row, 1 when it no longer runs: look again, or -1. */
static int runs(struct resume *m, const struct team_rec *team, struct sandbox_rec *r, struct sandbox_rec *out, struct err *e)
{
	if (m->traffic) {
		*out = *r;
		return 0;
	}
	sandbox_rec_release(r);
	if (m->s->only_paused && !m->joined)
		return err_set(e, ERR_CONFLICT, "Sandbox %s is already running", m->id);
	if (sandbox_extend(m->d, team, m->id, m->s->seconds, out, e) == 0)
		return 0;
	return e->kind == ERR_NOT_FOUND || e->kind == ERR_CONFLICT ? 1 : -1;
}

static int go(struct resume *m, const struct team_rec *team, struct sandbox_rec *out, bool *resumed, struct err *e)
{
	struct patience p;

	patience_begin(&p);
	for (;;) {
		struct sandbox_rec r;
		int step = look(m, &r, e), status = 1;

		if (step < 0)
			return -1;
		if (step == STEP_RUNS) {
			*resumed = m->joined;
			status = runs(m, team, &r, out, e);
		} else {
			sandbox_rec_release(&r);
		}
		/* the end of the lease has come, and the reaper has not: as it would */
		if (step == STEP_LAPSED && sandbox_pause(m->d, m->team, m->id, true, e) < 0 && e->kind != ERR_CONFLICT)
			return -1;
		if (step == STEP_ACT && (step = mark(m, e)) < 0)
			return -1;
		if (step == STEP_ACT) {
			*resumed = true;
			return act(m, out, e);
		}
		if (status != 1)
			return status;
		if (!patience_wait(&p))
			return err_set(e, ERR_CONFLICT, "Sandbox %s is in transition", m->id);
	}
}

int sandbox_resume(struct domain *d, const struct team_rec *team, const char *id, const struct resume_spec *s, struct sandbox_rec *out,
		   bool *resumed, struct err *e)
{
	struct resume m = { .d = d, .s = s, .team = team->id, .id = id };

	*resumed = false;
	if (s->seconds > (int64_t)team->max_hours * 3600)
		return err_set(e, ERR_INVALID, "Timeout cannot be greater than %u hours", team->max_hours);
	return go(&m, team, out, resumed, e);
}

int sandbox_wake(struct domain *d, const char *id, struct sandbox_rec *out, struct err *e)
{
	struct resume m = { .d = d, .id = id, .traffic = true };
	bool resumed;

	return go(&m, NULL, out, &resumed, e);
}
