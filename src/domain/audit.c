/* The reaper's audit: rows against machines. */
#include "domain_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"

struct held {
	struct reap_work w;
	bool running;
	bool settled;                /* running or paused; else a step of the reaper's that is not done: doing one twice is harmless */
};

struct audit {
	struct domain *d;
	struct held *held;
	size_t n, cap;
	struct reap_work *work;      /* what is to be removed */
	size_t nwork;
};

static int on_row(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct audit *a = ctx;
	bool settled = r->state == SB_RUNNING || r->state == SB_PAUSED;
	struct held *h;

	if (!pool_on_node(r->pool_kind) && settled)  /* no list tells of its machine */
		return 0;
	if (!settled && !r->handed)
		return 0;
	if (a->n == a->cap) {
		size_t cap = a->cap != 0 ? 2 * a->cap : 256;

		h = realloc(a->held, cap * sizeof *h);
		if (h == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		a->held = h;
		a->cap = cap;
	}
	h = &a->held[a->n++];
	work_of(r, &h->w);
	h->settled = settled;
	h->running = r->state == SB_RUNNING;
	return 0;
}

static int read_rows(struct audit *a, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_read(a->d->store, &t, e) < 0)
		return -1;
	status = store_walk_sandboxes(t, "", on_row, a, e);
	txn_abort(t);
	return status;
}

static int by_machine_id(const void *a, const void *b)
{
	return strcmp(((const struct pool_machine *)a)->id, ((const struct pool_machine *)b)->id);
}

static const struct pool_machine *machine_find(const struct pool_machine *m, size_t n, const char *id)
{
	struct pool_machine key;

	snprintf(key.id, sizeof key.id, "%s", id);
	return bsearch(&key, m, n, sizeof *m, by_machine_id);
}

/* A running or paused row whose machine was not in a list made after the row was read: it ends, unless it changed meanwhile. */
static int end_orphan(struct audit *a, const struct reap_work *w, struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int got;

	if (txn_write(a->d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, w->id, &r, e);
	if (got == 1) {
		bool ours = (r.state == SB_RUNNING || r.state == SB_PAUSED) && strcmp(r.machine, w->machine) == 0;
		int64_t now = domain_now(a->d);

		got = ours ? killing_put(t, &r, "orphaned", now, now + KILL_RETRY_US, true, e) : 0;
		sandbox_rec_release(&r);
		if (ours && got == 0) {
			log_warn("sandbox %s: its machine %s is gone", w->id, w->machine);
			a->work[a->nwork++] = *w;
		}
	}
	return txn_end(t, got, e);
}

/* The row goes from one state to the next, if it is still as it was read: 1, else 0, or -1. */
static int shift(struct domain *d, const struct reap_work *w, uint8_t from, uint8_t to, struct err *e)
{
	int64_t now = domain_now(d);
	struct sandbox_rec before, r;
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, w->id, &before, e);
	if (got == 1) {
		r = before;
		r.state = to;
		r.memory = from == SB_RUNNING || (r.memory && to != SB_RUNNING);
		r.handed = from == SB_PAUSED;
		r.due_us = to == SB_RUNNING ? running_due(&r) : now + KILL_RETRY_US;
		if (before.state != from || strcmp(before.execution_id, w->execution) != 0 || strcmp(before.machine, w->machine) != 0)
			got = 0;
		else if (store_sandbox_put(t, &before, &r, e) < 0)
			got = -1;
		sandbox_rec_release(&before);
	}
	return txn_end(t, got, e) < 0 ? -1 : got;
}

/*
 * A machine that stands still though its row runs is woken; one that runs though its row is paused is put to sleep again. In between the row is
 * one that is being resumed, so that calls wait; if this program dies, or the machine does not wake, the reaper makes it a paused one.
 */
static int realign(struct audit *a, const struct held *h, struct err *e)
{
	struct reap_work w = h->w;
	struct err why;
	int got = shift(a->d, &w, h->running ? SB_RUNNING : SB_PAUSED, SB_RESUMING, e);

	if (got < 1)
		return got;
	w.act = REAP_UNDO;
	log_warn("sandbox %s is %s, and its machine %s is not", w.id, h->running ? "running" : "paused", w.machine);
	if (!h->running) {
		a->work[a->nwork++] = w;
		return 0;
	}
	w.memory = true;
	if (pool_wake(a->d->pool, w.machine, &why) == 0)
		return shift(a->d, &w, SB_RESUMING, SB_RUNNING, e) < 0 ? -1 : 0;
	if (why.kind == ERR_NOT_FOUND) {
		transit_orphaned(a->d, &w);
		return 0;
	}
	log_warn("sandbox %s: %s", w.id, why.text);
	transit_hand_over(a->d, &w);
	return 0;
}

static int sort_rows(struct audit *a, const struct pool_machine *m, size_t n, struct err *e)
{
	for (size_t i = 0; i < a->n; i++) {
		struct held *h = &a->held[i];
		const struct pool_machine *found = h->settled ? machine_find(m, n, h->w.machine) : NULL;

		if (!h->settled)
			a->work[a->nwork++] = h->w;
		else if (found == NULL && end_orphan(a, &h->w, e) < 0)
			return -1;
		else if (found != NULL && found->hibernated == h->running && realign(a, h, e) < 0)
			return -1;
	}
	return 0;
}

/* 1 when no row speaks for the machine. */
static int is_stray(struct audit *a, const struct pool_machine *m, struct err *e)
{
	int64_t age = wall_us() - m->claimed_us;
	struct sandbox_rec r;
	struct txn *t;
	int got;

	/* younger ones may be a start that is being undone; a negative age is a wall clock set back */
	if (m->claim_ref[0] == '\0' || (age >= 0 && age < a->d->conf->repair_s * US_PER_S))
		return 0;
	if (txn_read(a->d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, m->claim_ref, &r, e);
	txn_abort(t);
	if (got != 1)
		return got < 0 ? -1 : 1;
	/* a row that runs on another machine does not speak for this one */
	got = (r.state == SB_RUNNING || r.state == SB_PAUSED) && strcmp(r.machine, m->id) != 0;
	sandbox_rec_release(&r);
	return got;
}

static int free_strays(struct audit *a, const struct pool_machine *m, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int stray = is_stray(a, &m[i], e);

		if (stray < 0)
			return -1;
		if (stray == 0)
			continue;
		log_warn("machine %s of %s has no row: removing it", m[i].id, m[i].claim_ref);
		if (pool_release(a->d->pool, m[i].id, NULL, e) < 0)
			return -1;
	}
	return 0;
}

static int compare(struct audit *a, struct err *e)
{
	struct pool_machine *m = NULL;
	bool failed = false;
	size_t n = 0;
	int status;

	/* rows first: what runs now must be in the list that follows */
	if (read_rows(a, e) < 0 || pool_list(a->d->pool, &m, &n, e) < 0)
		return -1;
	qsort(m, n, sizeof *m, by_machine_id);
	a->work = calloc(a->n + 1, sizeof *a->work);
	if (a->work == NULL)
		status = err_set(e, ERR_INTERNAL, "out of memory");
	else
		status = sort_rows(a, m, n, e);
	if (status == 0)
		crew_finish(a->d, a->work, a->nwork, &failed, e);
	if (status == 0 && !failed)
		status = free_strays(a, m, n, e);
	free(m);
	free(a->work);
	return failed ? -1 : status;
}

int audit_once(struct domain *d, struct err *e)
{
	struct audit a = { .d = d };
	int status = compare(&a, e);

	free(a.held);
	return status < 0 ? -1 : captures_audit(d, e);
}
