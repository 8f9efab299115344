/* Looking at one sandbox, and ending it. */
#include "domain_int.h"

#include <stdio.h>
#include <string.h>

#include "hutch/json.h"
#include "hutch/log.h"

int sandbox_missing(const char *id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "Sandbox \"%.64s\" doesn't exist or you don't have access to it", id);
}

int row_is_ours(const struct sandbox_rec *r, struct err *e)
{
	if (r->pool_kind != POOL_VENDOR)
		return 0;
	return err_set(e, ERR_INVALID, "Sandbox \"%.64s\" is only mirrored here: change it in the account that it is of", r->id);
}

bool sandbox_is_live(const struct sandbox_rec *r, int64_t now_us)
{
	return r->state == SB_RUNNING && r->end_us > now_us;
}

bool state_show(uint8_t *state, bool auto_pause, int64_t end_us, int64_t now_us)
{
	if (*state == SB_RUNNING && end_us <= now_us) {
		if (!auto_pause)
			return false;
		*state = SB_PAUSED;
	}
	return *state == SB_RUNNING || (*state >= SB_PAUSING && *state <= SB_SNAPSHOTTING);
}

bool row_show(struct sandbox_rec *r, int64_t now_us)
{
	const uint8_t was = r->state;
	const bool seen = state_show(&r->state, r->auto_pause, r->end_us, now_us);

	if (r->state != was)
		r->memory = r->auto_pause_memory;
	return seen;
}

int sandbox_get(struct domain *d, const char *team, const char *id, struct sandbox_rec *out, struct err *e)
{
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, id, out, e);
	txn_abort(t);
	if (got < 0)
		return -1;
	if (got == 1 && row_show(out, domain_now(d)) && (team == NULL || strcmp(team, out->team) == 0))
		return 0;
	if (got == 1)
		sandbox_rec_release(out);
	return sandbox_missing(id, e);
}

int killing_put(struct txn *t, const struct sandbox_rec *before, const char *reason, int64_t now_us, int64_t due_us, bool handed,
		struct err *e)
{
	struct sandbox_rec now = *before;    /* borrows the metadata */

	now.state = SB_KILLING;
	now.handed = handed;
	now.due_us = due_us;
	if (before->state != SB_KILLING)
		now.end_us = now_us;         /* from here on the age of the kill */
	/* of one that is paused no client hears */
	if ((sandbox_state_runs(before->state) || before->state == SB_PAUSING) && event_write(t, before, EVENT_KILLED, now_us, reason, 0, e) < 0)
		return -1;
	return store_sandbox_put(t, before, &now, e);
}

/* A row that this kill may act on: any that is not being killed already, unless by a call that is still at it. One whose lease
 * is over is gone for clients, whether or not the reaper has come to it. */
static bool killable(const struct sandbox_rec *r, const char *team, int64_t now_us)
{
	if (team != NULL && strcmp(team, r->team) != 0)
		return false;
	if (r->state == SB_RUNNING && r->end_us <= now_us && !r->auto_pause)
		return false;
	return r->state != SB_KILLING || !r->handed;
}

static int find_killable(struct domain *d, struct txn *t, const char *team, const char *id, struct sandbox_rec *r, struct err *e)
{
	int got = store_sandbox_get(t, id, r, e);

	if (got < 0)
		return -1;
	if (got == 1 && !killable(r, team, domain_now(d))) {
		sandbox_rec_release(r);
		got = 0;
	}
	if (got == 0)
		return sandbox_missing(id, e);
	if (team == NULL || row_is_ours(r, e) == 0)
		return 0;
	sandbox_rec_release(r);
	return -1;
}

/* Ids of nothing do not cost the writer's lock. */
static int peek(struct domain *d, const char *team, const char *id, uint8_t *state, struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = find_killable(d, t, team, id, &r, e);
	txn_abort(t);
	if (status == 0) {
		*state = r.state;
		sandbox_rec_release(&r);
	}
	return status;
}

/* A snapshot that is being taken comes first; not for ever. */
static int wait_turn(struct domain *d, const char *team, const char *id, struct err *e)
{
	struct patience p;
	uint8_t state;

	patience_begin(&p);
	do
		if (peek(d, team, id, &state, e) < 0)
			return -1;
	while (state == SB_SNAPSHOTTING && patience_wait(&p));
	return 0;
}

static int mark(struct domain *d, const char *team, const char *id, const char *reason, struct reap_work *w, struct err *e)
{
	int64_t now = domain_now(d);
	struct sandbox_rec r;
	struct txn *t;
	int status;

	if (txn_write_step(d->store, &t, e) < 0)
		return -1;
	if (find_killable(d, t, team, id, &r, e) < 0) {
		txn_abort(t);
		return -1;
	}
	work_of(&r, w);
	w->act = REAP_REMOVE;
	status = r.state == SB_KILLING ? 0 : killing_put(t, &r, reason, now, now + d->conf->repair_s * US_PER_S, false, e);
	sandbox_rec_release(&r);
	return txn_end(t, status, e);
}

int sandbox_kill(struct domain *d, const char *team, const char *id, const char *reason, struct err *e)
{
	struct reap_work w;
	struct err why;

	if (wait_turn(d, team, id, e) < 0 || mark(d, team, id, reason, &w, e) < 0)
		return -1;
	count_add(d, team != NULL ? COUNT_KILLED_REQUEST : COUNT_KILLED_ADMIN, 1);
	if (reap_remove(d, &w, &why) == 0 && reap_forget(d, &w, 1, &why) == 0)
		return 0;
	log_warn("sandbox %s: left to the reaper: %s", id, why.text);
	if (killing_hand_over(d, id, &why) < 0)
		log_warn("sandbox %s: %s", id, why.text);    /* comes due by itself */
	return 0;
}

int reap_remove(struct domain *d, struct reap_work *w, struct err *e)
{
	struct pool *p = pool_of(d, w->pool_kind);

	if (w->act == REAP_NETWORK)
		return reap_network(d, w, e);
	if (w->act != REAP_REMOVE)
		return reap_pause(d, w, e);
	return w->machine[0] != '\0' ? pool_release(p, w->machine, &w->lines, e) : pool_release_ref(p, w->id, e);
}

/* The row if it is SB_KILLING: 1, else 0 (someone else was faster), or -1. */
static int get_killing(struct txn *t, const char *id, struct sandbox_rec *r, struct err *e)
{
	int got = store_sandbox_get(t, id, r, e);

	if (got == 1 && r->state != SB_KILLING) {
		sandbox_rec_release(r);
		return 0;
	}
	return got;
}

static int forget(struct domain *d, struct txn *t, const struct reap_work *w, struct err *e)
{
	struct sandbox_rec r;
	bool done;
	int got;

	if (w->act == REAP_NETWORK)
		return reap_network_done(t, w, e);
	if (w->act != REAP_REMOVE)
		return paused_put(t, w, domain_now(d), &done, e);
	got = get_killing(t, w->id, &r, e);
	if (got == 1) {
		got = w->lines != NULL ? journal_keep(d, t, r.team, r.id, w->lines, e) : 0;
		if (got == 0)
			got = store_sandbox_delete(t, &r, e);
		sandbox_rec_release(&r);
	}
	return got;
}

static int forget_all(struct domain *d, const struct reap_work *work, size_t n, struct err *e)
{
	struct txn *t;

	if (txn_write_step(d->store, &t, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (forget(d, t, &work[i], e) < 0) {
			txn_abort(t);
			return -1;
		}
	}
	return txn_commit(t, e);
}

int reap_forget(struct domain *d, struct reap_work *work, size_t n, struct err *e)
{
	int status = forget_all(d, work, n, e);

	for (size_t i = 0; i < n; i++) {
		json_object_put(work[i].lines);
		work[i].lines = NULL;
	}
	return status;
}

int killing_hand_over(struct domain *d, const char *id, struct err *e)
{
	int64_t now = domain_now(d);
	struct sandbox_rec r;
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = get_killing(t, id, &r, e);
	if (got == 1) {
		got = killing_put(t, &r, NULL, now, now, true, e);
		sandbox_rec_release(&r);
	}
	if (txn_end(t, got, e) < 0)
		return -1;
	reaper_nudge(d);
	return 0;
}
