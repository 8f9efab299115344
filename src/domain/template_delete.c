/* DELETE /templates/{id}: an enrolled template, or a snapshot with all that it keeps (api.md 7, 8.9). */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"

/* What the reference names, of whichever team. */
struct target {
	bool is_snapshot;
	struct template_rec t;
	struct snapshot_rec s;
};

static int found_template(struct target *x, int got)
{
	x->is_snapshot = false;
	return got;
}

static int find_in(struct txn *t, const char *team, const char *alias, struct target *x, struct err *e)
{
	int got = found_template(x, store_template_by_name(t, team, alias, &x->t, e));

	if (got != 0)
		return got;
	x->is_snapshot = true;
	return store_snapshot_by_name(t, team, alias, &x->s, e);
}

/* Names of the own team, of the public, ids; or names of the namespace (api.md 4). 1, 0, -1. */
static int find(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct target *x, struct err *e)
{
	struct team_rec owner;
	int got;

	if (ref->ns[0] != '\0' && strcmp(ref->ns, team->slug) != 0) {
		got = store_team_by_slug(t, ref->ns, &owner, e);
		return got == 1 ? find_in(t, owner.id, ref->alias, x, e) : got;
	}
	got = find_in(t, team->id, ref->alias, x, e);
	if (got != 0 || ref->ns[0] != '\0')
		return got;
	got = found_template(x, store_template_by_name(t, "", ref->alias, &x->t, e));
	if (got == 0)
		got = found_template(x, store_template_get(t, ref->alias, &x->t, e));
	if (got != 0)
		return got;
	x->is_snapshot = true;
	return store_snapshot_get(t, ref->alias, &x->s, e);
}

static void target_release(struct target *x)
{
	if (!x->is_snapshot)
		template_rec_release(&x->t);
}

/* That, if it is the team's. */
static int find_own(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct target *x, struct err *e)
{
	int got = find(t, team, ref, x, e);

	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(e, ERR_NOT_FOUND, "template '%s' not found", ref->alias);
	if (strcmp(x->is_snapshot ? x->s.team : x->t.team, team->id) == 0)
		return 0;
	target_release(x);
	return err_set(e, ERR_DENIED, "You don't have access to template '%s'", ref->alias);
}

/* ---- templates ---- */

struct users { const char *template_id; bool any; };

static int on_sandbox(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct users *u = ctx;

	(void)e;
	u->any = r->state != SB_KILLING && strcmp(r->template_id, u->template_id) == 0;
	return u->any;
}

static int check_unused(struct txn *t, const struct template_rec *r, struct err *e)
{
	struct users u = { .template_id = r->id };

	if (strcmp(r->pool, POOL_UPSTREAM_NAME) == 0)
		return err_set(e, ERR_INVALID, "template '%s' is the mirrored account's: delete it there", r->id);
	if (store_walk_sandboxes(t, "", on_sandbox, &u, e) < 0)
		return -1;
	return u.any ? err_set(e, ERR_INVALID, "template '%s' cannot be deleted: there are sandboxes of it, running or paused", r->alias) : 0;
}

int template_name_drop(struct txn *t, const char *ns, const struct template_rec *r, struct err *e)
{
	struct template_rec named;
	int got = r->alias[0] != '\0' ? store_template_by_name(t, ns, r->alias, &named, e) : 0;
	bool own;

	if (got != 1)
		return got;
	own = strcmp(named.id, r->id) == 0;
	template_rec_release(&named);
	return own ? store_template_name_delete(t, ns, r->alias, e) : 0;
}

static int drop_template(struct txn *t, const struct template_rec *r, struct err *e)
{
	return template_name_drop(t, "", r, e) < 0 || template_name_drop(t, r->team, r, e) < 0 || store_template_delete(t, r->id, e) < 0 ? -1 : 0;
}

/* ---- snapshots ---- */

static int drop_snapshot(struct txn *t, const struct snapshot_rec *s, struct captures *l, struct err *e)
{
	if (captures_of(t, s->id, l, e) < 0)
		return -1;
	for (size_t i = 0; i < l->n; i++) {
		l->c[i].state = CAPTURE_REMOVING;
		if (store_capture_put(t, &l->c[i], e) < 0)
			return -1;
	}
	return store_snapshot_delete(t, s, e);
}

/* ---- the call ---- */

/* What can be told without the writer's lock: that there is no such thing, or that it is in use. */
static int peek(struct domain *d, const struct team_rec *team, const struct template_ref *ref, struct err *e)
{
	struct target x;
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = find_own(t, team, ref, &x, e);
	if (status == 0) {
		status = x.is_snapshot ? 0 : check_unused(t, &x.t, e);
		target_release(&x);
	}
	txn_abort(t);
	return status;
}

static int drop(struct domain *d, const struct team_rec *team, const struct template_ref *ref, struct target *x, struct captures *l,
		struct err *e)
{
	struct txn *t;
	int status;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	status = find_own(t, team, ref, x, e);
	if (status == 0) {
		if (x->is_snapshot)
			status = drop_snapshot(t, &x->s, l, e);
		else if (check_unused(t, &x->t, e) < 0 || drop_template(t, &x->t, e) < 0)
			status = -1;
		target_release(x);
	}
	if (status < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

int template_delete(struct domain *d, const struct team_rec *team, const char *text, struct err *e)
{
	struct captures l = { NULL, 0, 0 };
	struct template_ref ref;
	struct target x;
	struct err why;
	int status;

	if (template_ref_parse(text, &ref, e) < 0 || peek(d, team, &ref, e) < 0)
		return -1;
	status = drop(d, team, &ref, &x, &l, e);
	if (status == 0 && x.is_snapshot)
		captures_remove(d, &l);
	else if (status == 0 && template_push_shapes(d, &why) < 0)
		log_warn("template %s: the node was not told that it is gone: %s", ref.alias, why.text);
	free(l.c);
	return status;
}
