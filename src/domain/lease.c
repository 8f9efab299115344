/* Moving the end of a lease (api.md 5.12, 5.14, 5.15, 6.2). */
#include "domain_int.h"

#include <string.h>

#define LEASE_MAX_S (10 * 366 * 86400LL)  /* longer than any team may ask; keeps the sums small */

int live_row(struct txn *t, const char *team, const char *id, int64_t now_us, struct sandbox_rec *r, struct err *e)
{
	int got = store_sandbox_get(t, id, r, e);

	if (got < 0)
		return -1;
	if (got == 1 && strcmp(r->team, team) == 0) {
		if (row_is_ours(r, e) < 0) {
			sandbox_rec_release(r);
			return -1;
		}
		if (sandbox_is_live(r, now_us))
			return 0;
		if (r->state == SB_KILLING && !r->handed) {
			sandbox_rec_release(r);
			return err_set(e, ERR_CONFLICT, "Sandbox %s is being killed", id);
		}
		if (r->state == SB_PAUSING || r->state == SB_RESUMING || r->state == SB_SNAPSHOTTING) {
			sandbox_rec_release(r);
			return err_set(e, ERR_CONFLICT, "Sandbox %s is in transition", id);
		}
	}
	if (got == 1)
		sandbox_rec_release(r);
	return sandbox_missing(id, e);
}

/* The end that `seconds` from now give; *change tells whether the row is to be written. */
static int new_end(const struct team_rec *team, const struct sandbox_rec *r, int64_t now_us, int64_t seconds, bool only_extend,
		   int64_t *end_us, bool *change, struct err *e)
{
	int64_t last = r->started_us + (int64_t)team->max_hours * 3600 * US_PER_S;

	if (now_us >= last)
		return err_set(e, ERR_INVALID, "Max instance length exceeded");
	*end_us = now_us + seconds * US_PER_S;
	if (*end_us > last)
		*end_us = last;
	*change = only_extend ? *end_us > r->end_us : *end_us != r->end_us;
	return 0;
}

/* As far as reading goes; 1 when nothing is to be written. */
static int look(struct domain *d, const struct team_rec *team, const char *id, int64_t seconds, struct sandbox_rec *r, struct err *e)
{
	int64_t now = domain_now(d), end;
	bool change = true;
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = live_row(t, team->id, id, now, r, e);
	txn_abort(t);
	if (status < 0)
		return -1;
	status = new_end(team, r, now, seconds, true, &end, &change, e);
	if (status == 0 && !change)
		return 1;
	sandbox_rec_release(r);
	return status;
}

static int write_end(struct domain *d, struct txn *t, const struct team_rec *team, const char *id, int64_t seconds, bool only_extend,
		     struct sandbox_rec *r, bool *sooner, struct err *e)
{
	int64_t now_us = domain_now(d), end = 0;
	struct sandbox_rec now;
	bool change = false;

	if (live_row(t, team->id, id, now_us, r, e) < 0)
		return -1;
	if (new_end(team, r, now_us, seconds, only_extend, &end, &change, e) < 0)
		goto failed;
	*sooner = end < r->end_us;
	if (!change)
		return 0;
	now = *r;
	now.end_us = end;
	now.due_us = running_due(&now);
	if (event_write(t, &now, EVENT_UPDATED, now_us, NULL, end, e) < 0 || store_sandbox_put(t, r, &now, e) < 0)
		goto failed;
	*r = now;
	return 0;
failed:
	sandbox_rec_release(r);
	return -1;
}

static int move_end(struct domain *d, const struct team_rec *team, const char *id, int64_t seconds, bool only_extend,
		    struct sandbox_rec *out, struct err *e)
{
	bool sooner = false;
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (write_end(d, t, team, id, seconds, only_extend, out, &sooner, e) < 0) {
		txn_abort(t);
		return -1;
	}
	if (txn_commit(t, e) < 0) {
		sandbox_rec_release(out);
		return -1;
	}
	if (sooner)
		reaper_nudge(d);
	return 0;
}

static int check_seconds(int64_t *seconds, struct err *e)
{
	if (*seconds < 0)
		return err_set(e, ERR_INVALID, "timeout must not be negative");
	if (*seconds > LEASE_MAX_S)
		*seconds = LEASE_MAX_S;
	return 0;
}

int sandbox_set_timeout(struct domain *d, const struct team_rec *team, const char *id, int64_t seconds, struct err *e)
{
	struct sandbox_rec r;

	if (check_seconds(&seconds, e) < 0)
		return -1;
	/* an id of nothing does not cost the writer's lock */
	if (sandbox_get(d, team->id, id, &r, e) == 0)
		sandbox_rec_release(&r);
	else if (e->kind != ERR_NOT_FOUND)
		return -1;
	if (move_end(d, team, id, seconds, false, &r, e) < 0)
		return -1;
	sandbox_rec_release(&r);
	return 0;
}

int sandbox_extend(struct domain *d, const struct team_rec *team, const char *id, int64_t seconds, struct sandbox_rec *out, struct err *e)
{
	int found;

	if (check_seconds(&seconds, e) < 0)
		return -1;
	found = look(d, team, id, seconds, out, e);
	if (found != 0)
		return found < 0 ? -1 : 0;
	return move_end(d, team, id, seconds, true, out, e);
}
