/* GET /snapshots: one row per snapshot, with the tag of its newest capture that matches (api.md 7). */
#include "domain_int.h"

#include <string.h>

struct listing {
	const struct snapshot_query *q;
	const struct team_rec *team;
	struct template_ref ref;     /* of q->name */
	bool tagged;                 /* it has a tag; without one all match */
	snapshot_fn *fn;
	void *ctx;
	struct place last;
	int given;
	bool more;
};

struct newest {
	const struct listing *l;
	struct capture_rec c;
	bool found;
};

static int on_capture(void *ctx, const struct capture_rec *r, struct err *e)
{
	struct newest *n = ctx;
	const struct snapshot_query *q = n->l->q;

	(void)e;
	if (r->state != CAPTURE_READY || (q->sandbox != NULL && strcmp(r->sandbox, q->sandbox) != 0))
		return 0;
	if (n->l->tagged && strcmp(r->tag, n->l->ref.tag) != 0 && strcmp(r->id, n->l->ref.tag) != 0)
		return 0;
	if (!n->found || r->created_us > n->c.created_us)
		n->c = *r;
	n->found = true;
	return 0;
}

static int on_snapshot(void *ctx, struct txn *t, const struct snapshot_rec *r, struct err *e)
{
	struct listing *l = ctx;
	struct newest n = { .l = l };
	struct snapshot_info info;

	if (l->ref.alias[0] != '\0' && strcmp(l->ref.alias, r->alias) != 0 &&
	    (l->ref.ns[0] != '\0' || strcmp(l->ref.alias, r->id) != 0))
		return 0;
	if (store_walk_captures(t, r->id, on_capture, &n, e) < 0)
		return -1;
	if (!n.found)
		return 0;
	if (l->given == l->q->limit) {
		l->more = true;
		return 1;
	}
	l->given++;
	l->last.us = r->created_us;
	memcpy(l->last.id, r->id, sizeof r->id);
	snapshot_describe(l->team, r, n.c.tag, &info);
	return l->fn(l->ctx, &info, e);
}

int snapshot_list(struct domain *d, const struct team_rec *team, const struct snapshot_query *q, snapshot_fn *fn, void *ctx,
		  char next[PAGE_TOKEN_LEN], struct err *e)
{
	struct listing l = { .q = q, .team = team, .fn = fn, .ctx = ctx, .tagged = q->name != NULL && strchr(q->name, ':') != NULL };
	struct place after = { .id = "" };
	struct txn *t;
	int status;

	next[0] = '\0';
	if (q->name != NULL && template_ref_parse(q->name, &l.ref, e) < 0)
		return -1;
	if (l.ref.ns[0] != '\0' && strcmp(l.ref.ns, team->slug) != 0)
		return err_set(e, ERR_INVALID, "name: namespace '%s' must match your team '%s'", l.ref.ns, team->slug);
	if (q->next_token != NULL && page_token_read(q->next_token, 's', TEMPLATE_ID_LEN - 1, &after, e) < 0)
		return -1;
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_snapshots(t, team->id, after.us, after.id, on_snapshot, &l, e);
	txn_abort(t);
	if (status == 0 && l.more)
		page_token_write('s', &l.last, next);
	return status;
}
