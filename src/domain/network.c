/*
 * Changing the network rules of a running sandbox (api.md 5.16): mark the row, let the machine have them, commit.
 *
 * The mark is a time at which the change counts as not finished: then the reaper gives the machine the row's rules, which are those of before.
 * Another change waits for it; one whose mark is gone when it comes back was too late, and what it did is undone.
 */
#include "domain_int.h"

#include <string.h>

#include "hutch/log.h"

#define NEEDS_ASKING (WANT_BIT(WANT_ALLOW_OUT) | WANT_BIT(WANT_ALLOW_DOMAIN) | WANT_BIT(WANT_DENY_OUT))

int pool_caps_for(struct domain *d, uint8_t kind, uint32_t wants, struct pool_caps *out, struct err *e)
{
	uint32_t more = 0;

	*out = *pool_kind_caps((enum pool_kind)kind);
	if ((wants & NEEDS_ASKING) == 0)
		return 0;
	if (pool_abilities(pool_of(d, kind), &more, e) < 0)
		return place_failed(e);
	out->can |= more;
	return 0;
}

static int put_marked(struct txn *t, const struct sandbox_rec *before, int64_t net_due_us, struct err *e)
{
	struct sandbox_rec now = *before;

	now.net_due_us = net_due_us;
	if (now.state == SB_RUNNING)
		now.due_us = running_due(&now);
	return store_sandbox_put(t, before, &now, e);
}

/* ---- the mark ---- */

/* 1 marked, 0 another change is under way, -1. The row, with its mark, is the caller's with 1. */
static int mark_once(struct domain *d, const struct team_rec *team, const char *id, struct sandbox_rec *r, struct err *e)
{
	const int64_t now = domain_now(d), due = now + d->conf->repair_s * US_PER_S;
	struct txn *t;
	int status;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (live_row(t, team->id, id, now, r, e) < 0)
		return txn_end(t, -1, e);
	if (r->net_due_us != 0) {
		txn_abort(t);
		sandbox_rec_release(r);
		return 0;
	}
	status = txn_end(t, put_marked(t, r, due, e), e);
	r->net_due_us = due;
	if (status < 0)
		sandbox_rec_release(r);
	return status < 0 ? -1 : 1;
}

static int mark(struct domain *d, const struct team_rec *team, const char *id, struct sandbox_rec *r, struct err *e)
{
	struct patience p;
	int got;

	patience_begin(&p);
	while ((got = mark_once(d, team, id, r, e)) == 0)
		if (!patience_wait(&p))
			return err_set(e, ERR_CONFLICT, "Sandbox %s is in transition", id);
	return got < 0 ? -1 : 0;
}

/* The reaper is to see to it now; if that fails it comes due by itself. */
static void hand_over(struct domain *d, const struct sandbox_rec *marked)
{
	struct sandbox_rec r;
	struct txn *t;
	struct err e;
	int got;

	if (txn_write(d->store, &t, &e) < 0)
		return;
	got = store_sandbox_get(t, marked->id, &r, &e);
	if (got == 1) {
		got = put_marked(t, &r, domain_now(d), &e);
		sandbox_rec_release(&r);
	}
	if (txn_end(t, got < 0 ? -1 : 0, &e) < 0)
		log_warn("sandbox %s: %s", marked->id, e.text);
	reaper_nudge(d);
}

/* ---- the end ---- */

static int write_rules(struct domain *d, struct txn *t, const struct sandbox_rec *before, const struct sandbox_spec *s,
		       const struct pool_network *rules, struct err *e)
{
	struct sandbox_rec now = *before;

	now.allow_out = (char *)(uintptr_t)rules->allow;     /* borrowed until it is written */
	now.deny_out = (char *)(uintptr_t)rules->deny;
	if (s->allow_internet_set) {
		now.allow_internet = s->allow_internet;
		now.allow_internet_set = true;
	}
	now.net_due_us = 0;
	if (now.state == SB_RUNNING)
		now.due_us = running_due(&now);
	if (event_write(t, &now, EVENT_UPDATED, domain_now(d), NULL, 0, e) < 0)
		return -1;
	return store_sandbox_put(t, before, &now, e);
}

/* 1 done, 0 the mark is no longer ours, -1. A pause that came in between does not matter: the rules are the sandbox's, whatever it does. */
static int commit(struct domain *d, const struct sandbox_rec *marked, const struct sandbox_spec *s, const struct pool_network *rules,
		  struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	bool ours = false;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, marked->id, &r, e);
	if (got == 0)
		got = sandbox_missing(marked->id, e);
	if (got < 0)
		return txn_end(t, -1, e);
	ours = r.net_due_us == marked->net_due_us && r.state != SB_KILLING;
	got = r.state == SB_KILLING ? sandbox_missing(r.id, e) : ours ? write_rules(d, t, &r, s, rules, e) : 0;
	sandbox_rec_release(&r);
	return txn_end(t, got, e) < 0 ? -1 : ours;
}

static int failed(struct err *e)
{
	if (e->kind == ERR_CONFLICT)         /* it keeps no rules (any more) */
		e->kind = ERR_INVALID;
	else if (e->kind != ERR_UNAVAILABLE && e->kind != ERR_TIMEOUT)
		e->kind = ERR_INTERNAL;
	return err_wrap(e, "network");
}

static int act(struct domain *d, const struct sandbox_rec *r, const struct sandbox_spec *s, struct err *e)
{
	const struct pool_network rules = { s->allow_out, s->allow_internet_set && !s->allow_internet ? ALL_ADDRESSES : s->deny_out };
	int done;

	if (pool_network(pool_of(d, r->pool_kind), r->machine, &rules, e) < 0) {
		hand_over(d, r);
		return e->kind == ERR_NOT_FOUND ? sandbox_missing(r->id, e) : failed(e);
	}
	done = commit(d, r, s, &rules, e);
	if (done == 1 || (done < 0 && e->kind == ERR_NOT_FOUND))
		return done < 0 ? -1 : 0;
	hand_over(d, r);
	return done < 0 ? -1 : err_set(e, ERR_CONFLICT, "Sandbox %s: the change of its network took too long and is undone", r->id);
}

int sandbox_set_network(struct domain *d, const struct team_rec *team, const char *id, const struct sandbox_spec *s, struct err *e)
{
	struct pool_caps caps;
	struct sandbox_rec r;
	int status;

	if (sandbox_get(d, team->id, id, &r, e) < 0)
		return -1;
	status = pool_caps_for(d, r.pool_kind, s->wants, &caps, e);
	if (status == 0)
		status = pool_admit(&caps, r.pool[0] != '\0' ? r.pool : POOL_LOCAL_NAME, s->wants, NULL, e);
	sandbox_rec_release(&r);
	if (status < 0 || mark(d, team, id, &r, e) < 0)
		return -1;
	status = act(d, &r, s, e);
	sandbox_rec_release(&r);
	return status;
}

/* ---- the reaper's part ---- */

int reap_network(struct domain *d, const struct reap_work *w, struct err *e)
{
	struct pool_network rules;
	struct sandbox_rec r;
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, w->id, &r, e);
	txn_abort(t);
	if (got < 1)
		return got;
	rules = (struct pool_network){ r.allow_out, r.deny_out };
	got = pool_network(pool_of(d, w->pool_kind), w->machine, &rules, e);
	sandbox_rec_release(&r);
	/* a machine that is gone is the audit's; one that keeps no rules has none to undo */
	return got < 0 && e->kind != ERR_NOT_FOUND && e->kind != ERR_CONFLICT ? -1 : 0;
}

int reap_network_done(struct txn *t, const struct reap_work *w, struct err *e)
{
	struct sandbox_rec r;
	int got = store_sandbox_get(t, w->id, &r, e);

	if (got < 1)
		return got;
	got = r.net_due_us == w->net_due_us ? put_marked(t, &r, 0, e) : 0;
	sandbox_rec_release(&r);
	return got;
}
