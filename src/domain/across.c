/* What goes over all teams, or all sandboxes of one. */
#include "domain_int.h"

#include <string.h>

#define BATCH 256                    /* rows marked in one transaction */

struct counting {
	struct txn *t;
	team_running_fn *fn;
	void *ctx;
};

static int on_team(void *ctx, const struct team_rec *r, struct err *e)
{
	struct counting *c = ctx;
	uint64_t n;

	if (store_running_count(c->t, r->id, &n, e) < 0)
		return -1;
	return n > 0 ? c->fn(c->ctx, r, n, e) : 0;
}

int teams_running(struct domain *d, team_running_fn *fn, void *ctx, struct err *e)
{
	struct counting c = { .fn = fn, .ctx = ctx };
	int status;

	if (txn_read(d->store, &c.t, e) < 0)
		return -1;
	status = store_walk_teams(c.t, on_team, &c, e);
	txn_abort(c.t);
	return status;
}

struct batch {
	char id[BATCH][SANDBOX_ID_LEN];
	size_t n;
};

static int collect(void *ctx, struct txn *t, const char *id, int64_t started_us, uint8_t state, struct err *e)
{
	struct batch *b = ctx;
	struct sandbox_rec r;
	int got = sandbox_state_runs(state) ? store_sandbox_get(t, id, &r, e) : 0;

	(void)started_us;
	if (got != 1)
		return got;
	if (r.pool_kind != POOL_VENDOR)
		memcpy(b->id[b->n++], id, SANDBOX_ID_LEN);
	sandbox_rec_release(&r);
	return b->n == BATCH;
}

static int kill_batch(struct domain *d, struct txn *t, const char *team_id, struct batch *b, struct err *e)
{
	int64_t now = domain_now(d);

	b->n = 0;
	if (store_walk_started(t, team_id, false, 0, "", collect, b, e) < 0)
		return -1;
	for (size_t i = 0; i < b->n; i++) {
		struct sandbox_rec r;
		int got = store_sandbox_get(t, b->id[i], &r, e);

		if (got == 1) {
			got = killing_put(t, &r, "admin", now, now, true, e);
			sandbox_rec_release(&r);
		}
		if (got < 0)
			return -1;
	}
	return 0;
}

int team_kill(struct domain *d, const char *team_id, int *killed, struct err *e)
{
	struct batch b = { .n = BATCH };

	*killed = 0;
	while (b.n == BATCH) {
		struct txn *t;

		if (txn_write(d->store, &t, e) < 0)
			return -1;
		if (kill_batch(d, t, team_id, &b, e) < 0) {
			txn_abort(t);
			return -1;
		}
		if (txn_commit(t, e) < 0)
			return -1;
		*killed += (int)b.n;
		reaper_nudge(d);
	}
	count_add(d, COUNT_KILLED_ADMIN, (uint64_t)*killed);
	return 0;
}

static int on_row(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct use *u = ctx;

	(void)e;
	u->state[r->state]++;
	if (r->machine[0] != '\0') {
		u->cpu_count += r->cpu_count;
		u->memory_mb += r->memory_mb;
	}
	return 0;
}

int sandboxes_use(struct domain *d, struct use *out, struct err *e)
{
	struct txn *t;
	int status;

	memset(out, 0, sizeof *out);
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_sandboxes(t, "", on_row, out, e);
	txn_abort(t);
	return status;
}

/* ---- the machine pool ---- */

#define NODE_RECORD "node"
#define NODE_SINCE "node-since"      /* when that was changed; not there before the first change */

static int node_status_read(struct txn *t, enum node_status *out, struct err *e)
{
	uint8_t status = NODE_READY;

	if (store_meta_get(t, NODE_RECORD, &status, sizeof status, e) < 0)
		return -1;
	*out = status == NODE_DRAINING || status == NODE_STANDBY ? status : NODE_READY;
	return 0;
}

int node_takes(struct txn *t, uint8_t pool_kind, struct err *e)
{
	enum node_status status = NODE_READY;

	if (!pool_on_node(pool_kind))
		return 0;
	if (node_status_read(t, &status, e) < 0)
		return -1;
	if (status == NODE_READY)
		return 0;
	err_set(e, ERR_UNAVAILABLE, "Failed to place sandbox: the machine pool takes no sandboxes, it is %s",
		status == NODE_DRAINING ? "draining" : "on standby");
	e->code = "sandbox_no_compatible_node";
	return -1;
}

int node_status_get(struct domain *d, enum node_status *out, int64_t *since_us, struct err *e)
{
	struct txn *t;
	int got;

	*since_us = 0;
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = node_status_read(t, out, e);
	if (got == 0)
		got = store_numbers_get(t, NODE_SINCE, since_us, 1, e);
	txn_abort(t);
	if (*since_us == 0)
		*since_us = d->anchor_wall_us;
	return got;
}

static int node_status_put(struct domain *d, struct txn *t, enum node_status status, struct err *e)
{
	const int64_t now = domain_now(d);
	uint8_t byte = (uint8_t)status;
	enum node_status was = status;

	if (node_status_read(t, &was, e) < 0)
		return -1;
	if (was == status)
		return 0;
	if (store_numbers_put(t, NODE_SINCE, &now, 1, e) < 0)
		return -1;
	return store_meta_put(t, NODE_RECORD, &byte, sizeof byte, e);
}

int node_status_set(struct domain *d, enum node_status status, struct err *e)
{
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, node_status_put(d, t, status, e), e);
}
