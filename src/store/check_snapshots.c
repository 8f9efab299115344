/* The audit of snapshots: their names and order, their captures, and what sandboxes are being captured. */
#include "store_int.h"

#include <string.h>

struct check {
	struct store_audit a;        /* first: it is the ctx of store_check_each */
	size_t snapshots, named, making;
};

static int on_capture(void *ctx, const struct capture_rec *r, struct err *e)
{
	(void)r;
	(void)e;
	++*(size_t *)ctx;
	return 0;
}

static int check_refs(struct check *c, const struct snapshot_rec *r, struct err *e)
{
	struct snapshot_rec named;
	struct team_rec team;
	size_t captures = 0;
	int got = store_team_get(c->a.t, r->team, &team, e);

	if (got == 0)
		store_say(&c->a, "snapshot %s: its team does not exist", r->id);
	if (got < 0 || store_walk_captures(c->a.t, r->id, on_capture, &captures, e) < 0)
		return -1;
	if (captures == 0)
		store_say(&c->a, "snapshot %s: it has no captures", r->id);
	if (r->alias[0] == '\0')
		return 0;
	c->named++;
	got = store_snapshot_by_name(c->a.t, r->team, r->alias, &named, e);
	if (got == 0 || (got == 1 && strcmp(named.id, r->id) != 0))
		store_say(&c->a, "snapshot %s: its name is not its own", r->id);
	return got < 0 ? -1 : 0;
}

static int check_snapshot(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct check *c = ctx;
	struct snapshot_rec r;

	(void)t;
	if (snapshot_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0) {
		store_say(&c->a, "snapshots: damaged record");
		return 0;
	}
	c->snapshots++;
	return check_refs(c, &r, e);
}

static int check_capture(void *ctx, const struct capture_rec *r, struct err *e)
{
	struct check *c = ctx;
	char snapshot[TEMPLATE_ID_LEN], id[UUID_LEN];
	struct snapshot_rec s;
	int got = store_snapshot_get(c->a.t, r->snapshot, &s, e);

	if (got == 0 && r->state != CAPTURE_REMOVING)
		store_say(&c->a, "capture %s: its snapshot %s does not exist", r->id, r->snapshot);
	if (r->state == CAPTURE_READY && r->checkpoint[0] == '\0')
		store_say(&c->a, "capture %s: ready, and nothing is behind it", r->id);
	if (got >= 0)
		got = store_making_get(c->a.t, r->sandbox, snapshot, id, e);
	c->making += got == 1 && strcmp(id, r->id) == 0;
	return got < 0 ? -1 : 0;
}

/* A sandbox of which a snapshot is being taken says of which. */
static int check_sandbox(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct check *c = ctx;
	char snapshot[TEMPLATE_ID_LEN], id[UUID_LEN];
	int got;

	if (r->state != SB_SNAPSHOTTING)
		return 0;
	got = store_making_get(c->a.t, r->id, snapshot, id, e);
	if (got == 0)
		store_say(&c->a, "sandbox %s: a snapshot of it is being taken, and none is being made", r->id);
	return got < 0 ? -1 : 0;
}

int store_check_snapshots(struct txn *t, store_problem_fn *problem, void *ctx, struct err *e)
{
	struct check c = { .a = { .t = t, .problem = problem, .ctx = ctx } };

	if (store_check_each(&c.a, T_SNAPSHOTS, check_snapshot, e) < 0 || store_walk_captures(t, NULL, check_capture, &c, e) < 0 ||
	    store_walk_sandboxes(t, "", check_sandbox, &c, e) < 0 || store_check_size(&c.a, T_SNAPSHOTS_OF, c.snapshots, e) < 0 ||
	    store_check_size(&c.a, T_SNAPSHOT_NAMES, c.named, e) < 0 || store_check_size(&c.a, T_MAKING, c.making, e) < 0)
		return -1;
	return c.a.problems;
}
