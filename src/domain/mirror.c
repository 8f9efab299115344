/*
 * A page of the vendor's into the records. Only rows of pool `upstream` are ever written or removed. There is one writer of them, the reaper's
 * thread, so what is to go is looked for outside of the write transaction: the walk over all rows holds nobody up.
 */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/log.h"
#include "hutch/upstream.h"

#define ID_LEN SANDBOX_ID_LEN        /* the longer of both kinds */

struct gone {
	const struct vendor_page *page;  /* what is on it stays; NULL = nothing does */
	char (*id)[ID_LEN];
	size_t n, cap;
};

static int add_gone(struct gone *g, const char *id, struct err *e)
{
	if (g->n == g->cap) {
		size_t cap = g->cap != 0 ? 2 * g->cap : 64;
		char (*more)[ID_LEN] = realloc(g->id, cap * sizeof *more);

		if (more == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		g->id = more;
		g->cap = cap;
	}
	memcpy(g->id[g->n++], id, strlen(id) + 1);
	return 0;
}

static bool on_page(const struct vendor_page *p, const char *id)
{
	for (size_t i = 0; p != NULL && i < p->n; i++)
		if (strcmp(p->sandbox != NULL ? p->sandbox[i].id : p->template[i].id, id) == 0)
			return true;
	return false;
}

/* ---- sandboxes ---- */

/* One that is being removed is on its way out already. */
static bool mirrored(const struct sandbox_rec *r)
{
	return r->pool_kind == POOL_VENDOR && r->state != SB_KILLING;
}

static int sandbox_gone(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct gone *g = ctx;

	return mirrored(r) && !on_page(g->page, r->id) ? add_gone(g, r->id, e) : 0;
}

static int put_sandbox(struct txn *t, const char *team, const struct sandbox_rec *from, struct err *e)
{
	struct sandbox_rec before, now = *from;      /* borrows the metadata */
	int got = store_sandbox_get(t, from->id, &before, e), status = 0;

	if (got < 0)
		return -1;
	memcpy(now.team, got == 1 ? before.team : team, sizeof now.team);
	if (got == 1)
		memcpy(now.execution_id, before.execution_id, sizeof now.execution_id);
	else
		random_uuid(now.execution_id);
	if (got == 0 || mirrored(&before))
		status = store_sandbox_put(t, got == 1 ? &before : NULL, &now, e);
	if (got == 1)
		sandbox_rec_release(&before);
	return status;
}

static int drop_sandbox(struct txn *t, const char *id, struct err *e)
{
	struct sandbox_rec r;
	int got = store_sandbox_get(t, id, &r, e);

	if (got == 1) {
		got = mirrored(&r) ? store_sandbox_delete(t, &r, e) : 0;
		sandbox_rec_release(&r);
	}
	return got < 0 ? -1 : 0;
}

/* ---- templates ---- */

static bool is_mirrored(const struct template_rec *r)
{
	return strcmp(r->pool, POOL_UPSTREAM_NAME) == 0;
}

static int template_gone(void *ctx, const struct template_rec *r, struct err *e)
{
	struct gone *g = ctx;

	return is_mirrored(r) && !on_page(g->page, r->id) ? add_gone(g, r->id, e) : 0;
}

/* A name that another template, or a snapshot, has stays that one's. */
static int put_name(struct txn *t, const struct template_rec *r, struct err *e)
{
	struct template_rec other;
	struct snapshot_rec snapshot;
	bool ours = true;
	int got = r->alias[0] != '\0' ? store_snapshot_by_name(t, r->team, r->alias, &snapshot, e) : 1;

	if (got != 0)
		return got < 0 ? -1 : 0;
	got = store_template_by_name(t, r->team, r->alias, &other, e);
	if (got == 1) {
		ours = is_mirrored(&other);
		template_rec_release(&other);
	}
	return got < 0 ? -1 : ours ? store_template_name_put(t, r->team, r->alias, r->id, e) : 0;
}

static int put_template(struct txn *t, const char *team, const struct template_rec *from, struct err *e)
{
	struct template_rec before, now = *from;     /* borrows its strings */
	int got = store_template_get(t, from->id, &before, e);
	const bool found = got == 1, ours = found && is_mirrored(&before);

	memcpy(now.team, ours ? before.team : team, sizeof now.team);
	if (ours && strcmp(before.alias, now.alias) != 0 && template_name_drop(t, before.team, &before, e) < 0)
		got = -1;
	if (got >= 0 && (ours || got == 0) && (store_template_put(t, &now, e) < 0 || put_name(t, &now, e) < 0))
		got = -1;
	if (found)
		template_rec_release(&before);
	return got < 0 ? -1 : 0;
}

static int drop_template(struct txn *t, const char *id, struct err *e)
{
	struct template_rec r;
	int got = store_template_get(t, id, &r, e);

	if (got == 1) {
		got = is_mirrored(&r) && (template_name_drop(t, r.team, &r, e) < 0 || store_template_delete(t, id, e) < 0) ? -1 : 0;
		template_rec_release(&r);
	}
	return got < 0 ? -1 : 0;
}

/* ---- a page ---- */

static int find_gone(struct domain *d, enum vendor_list what, struct gone *g, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = what == VENDOR_SANDBOXES ? store_walk_sandboxes(t, "", sandbox_gone, g, e) : store_walk_templates(t, template_gone, g, e);
	txn_abort(t);
	return status;
}

static int write_page(struct domain *d, struct txn *t, const struct vendor_page *p, const struct gone *g, struct err *e)
{
	struct team_rec team;

	if (team_named(d, t, d->conf->upstream_team, &team, e) < 0)
		return -1;
	for (size_t i = 0; i < g->n; i++)
		if ((p->sandbox != NULL ? drop_sandbox : drop_template)(t, g->id[i], e) < 0)
			return -1;
	for (size_t i = 0; i < p->n; i++)
		if ((p->sandbox != NULL ? put_sandbox(t, team.id, &p->sandbox[i], e) : put_template(t, team.id, &p->template[i], e)) < 0)
			return -1;
	return 0;
}

int upstream_apply(struct domain *d, const struct upstream_state *begun, enum vendor_list what, const struct vendor_page *p, struct err *e)
{
	struct gone g = { .page = p };
	struct txn *t;
	int status = p->full ? 0 : find_gone(d, what, &g, e);

	if (status == 0)
		status = txn_write(d->store, &t, e);
	if (status == 0) {
		status = upstream_fresh(t, begun, what, p->n, p->full, e);
		if (status == 0)
			status = write_page(d, t, p, &g, e);
		status = txn_end(t, status, e);
	}
	free(g.id);
	if (status == 0)
		reaper_nudge(d);             /* their ends */
	return status;
}

static int forget_list(struct domain *d, enum vendor_list what, struct err *e)
{
	struct gone g = { .page = NULL };
	struct txn *t;
	int status = find_gone(d, what, &g, e);

	if (status == 0 && g.n > 0)
		status = txn_write(d->store, &t, e);
	if (status == 0 && g.n > 0) {
		for (size_t i = 0; i < g.n && status == 0; i++)
			status = what == VENDOR_SANDBOXES ? drop_sandbox(t, g.id[i], e) : drop_template(t, g.id[i], e);
		status = txn_end(t, status, e);
	}
	if (status == 0 && g.n > 0)
		log_info("%zu mirrored %s are forgotten: no upstream_url is set", g.n, what == VENDOR_SANDBOXES ? "sandboxes" : "templates");
	free(g.id);
	return status;
}

int upstream_forget(struct domain *d, struct err *e)
{
	return forget_list(d, VENDOR_SANDBOXES, e) < 0 ? -1 : forget_list(d, VENDOR_TEMPLATES, e);
}
