/* Removing what is kept of sandboxes: gone for clients first (CAPTURE_REMOVING), then from the pool, then the row. */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"

static int add(void *ctx, const struct capture_rec *r, struct err *e)
{
	struct captures *l = ctx;

	if (l->n == l->cap) {
		size_t cap = l->cap != 0 ? 2 * l->cap : 16;
		struct capture_rec *more = realloc(l->c, cap * sizeof *more);

		if (more == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		l->c = more;
		l->cap = cap;
	}
	l->c[l->n++] = *r;
	return 0;
}

int captures_of(struct txn *t, const char *snapshot, struct captures *out, struct err *e)
{
	return store_walk_captures(t, snapshot, add, out, e);
}

static int remove_one(struct domain *d, const struct capture_rec *c, struct err *e)
{
	struct pool *p = pool_of(d, c->pool_kind);
	struct txn *t;

	if ((c->checkpoint[0] != '\0' ? pool_checkpoint_drop(p, c->checkpoint, e) : pool_checkpoint_drop_named(p, c->id, e)) < 0)
		return -1;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (store_capture_delete(t, c->snapshot, c->id, e) < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

void captures_remove(struct domain *d, const struct captures *l)
{
	struct err e;

	for (size_t i = 0; i < l->n; i++)
		if (remove_one(d, &l->c[i], &e) < 0)
			log_warn("capture %s is left to the audit: %s", l->c[i].id, e.text);
}

/* ---- the audit ---- */

static int read_all(struct domain *d, struct captures *l, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = captures_of(t, NULL, l, e);
	txn_abort(t);
	return status;
}

/* It becomes CAPTURE_REMOVING if it is still as it was read; *c is then to be removed. */
static int give_up(struct domain *d, struct capture_rec *c, struct err *e)
{
	struct capture_rec now;
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_capture_get(t, c->snapshot, c->id, &now, e);
	if (got == 1 && now.state == c->state && capture_undo(d, t, c, true, e) < 0)
		got = -1;
	if (got < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

/* Its maker is gone: a row that is still SB_SNAPSHOTTING comes due before. */
static bool forgotten(const struct domain *d, const struct capture_rec *c)
{
	return c->state == CAPTURE_MAKING && domain_now(d) - c->created_us > 2 * (d->conf->repair_s * US_PER_S + LONG_US);
}

static bool listed(const struct pool_checkpoint *p, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(p[i].id, id) == 0)
			return true;
	return false;
}

/* A ready one whose checkpoint was not in a list made after the row was read cannot be started. */
static bool lost(const struct capture_rec *c, const struct pool_checkpoint *p, size_t n)
{
	return c->state == CAPTURE_READY && pool_on_node(c->pool_kind) && !listed(p, n, c->checkpoint);
}

static int settle(struct domain *d, struct captures *l, const struct pool_checkpoint *p, size_t n, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		struct capture_rec *c = &l->c[i];
		bool gone = lost(c, p, n);

		if (gone)
			log_warn("capture %s of snapshot %s: its checkpoint %s is gone", c->id, c->snapshot, c->checkpoint);
		if ((gone || forgotten(d, c)) && give_up(d, c, e) < 0)
			return -1;
		if (c->state == CAPTURE_REMOVING && remove_one(d, c, e) < 0)
			return -1;
	}
	return 0;
}

/* 1 when no row speaks for it: of a list that is older than it. */
static bool is_stray(const struct domain *d, const struct captures *l, const struct pool_checkpoint *p)
{
	int64_t age = wall_us() - p->created_us;

	/* a younger one may be on its way into its row; a negative age is a wall clock set back */
	if (p->name[0] == '\0' || (age >= 0 && age < d->conf->repair_s * US_PER_S + LONG_US))
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->c[i].id, p->name) == 0)
			return false;
	return true;
}

int captures_audit(struct domain *d, struct err *e)
{
	struct captures l = { NULL, 0, 0 };
	struct pool_checkpoint *p = NULL;
	size_t n = 0;
	int status = read_all(d, &l, e);

	if (status == 0)
		status = pool_checkpoints(d->pool, &p, &n, e);
	if (status == 0)
		status = settle(d, &l, p, n, e);
	for (size_t i = 0; i < n && status == 0; i++) {
		if (!is_stray(d, &l, &p[i]))
			continue;
		log_warn("checkpoint %s has no row: removing it", p[i].id);
		status = pool_checkpoint_drop(d->pool, p[i].id, e);
	}
	free(p);
	free(l.c);
	return status;
}
