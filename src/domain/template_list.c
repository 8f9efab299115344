/* A team's templates, and one of them by id or by alias (api.md 8.8). Snapshots are none of the lists'. */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

struct rows {
	const char *team;
	struct template_rec *r;
	size_t n, cap;
};

static int add(void *ctx, const struct template_rec *r, struct err *e)
{
	struct rows *l = ctx;

	if (strcmp(r->team, l->team) != 0)
		return 0;
	if (l->n == l->cap) {
		size_t cap = l->cap != 0 ? 2 * l->cap : 16;
		struct template_rec *more = realloc(l->r, cap * sizeof *more);

		if (more == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		l->r = more;
		l->cap = cap;
	}
	l->r[l->n] = *r;
	l->r[l->n].image = l->r[l->n].command = NULL;        /* nobody is told */
	l->n++;
	return 0;
}

/* By the time of making, then by id, both downwards. */
static int newest_first(const void *a, const void *b)
{
	const struct template_rec *x = a, *y = b;

	if (x->created_us != y->created_us)
		return x->created_us < y->created_us ? 1 : -1;
	return strcmp(y->id, x->id);
}

static bool is_after(const struct place *p, const struct template_rec *r)
{
	if (p->id[0] == '\0')
		return true;
	return r->created_us < p->us || (r->created_us == p->us && strcmp(r->id, p->id) < 0);
}

static int give(const struct rows *l, int limit, const struct place *after, template_fn *fn, void *ctx, char next[PAGE_TOKEN_LEN], struct err *e)
{
	struct place last;
	int given = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (!is_after(after, &l->r[i]))
			continue;
		if (limit > 0 && given == limit) {
			page_token_write('t', &last, next);
			break;
		}
		given++;
		last.us = l->r[i].created_us;
		memcpy(last.id, l->r[i].id, sizeof l->r[i].id);
		if (fn(ctx, &l->r[i], e) < 0)
			return -1;
	}
	return 0;
}

int template_list(struct domain *d, const struct team_rec *team, int limit, const char *next_token, template_fn *fn, void *ctx,
		  char next[PAGE_TOKEN_LEN], struct err *e)
{
	struct place after = { .id = "" };
	struct rows l = { .team = team->id };
	struct txn *t;
	int status;

	next[0] = '\0';
	if (next_token != NULL && page_token_read(next_token, 't', TEMPLATE_ID_LEN - 1, &after, e) < 0)
		return -1;
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_templates(t, add, &l, e);
	txn_abort(t);
	if (status == 0 && l.n > 1)
		qsort(l.r, l.n, sizeof *l.r, newest_first);
	if (status == 0)
		status = give(&l, limit, &after, fn, ctx, next, e);
	free(l.r);
	return status;
}

int template_get(struct domain *d, const struct team_rec *team, const char *id, struct template_rec *out, struct err *e)
{
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_template_get(t, id, out, e);
	txn_abort(t);
	if (got == 1 && strcmp(out->team, team->id) == 0)
		return 0;
	if (got == 0)
		return err_set(e, ERR_NOT_FOUND, "template '%.64s' not found", id);
	if (got == 1)
		template_rec_release(out);
	return got < 0 ? -1 : err_set(e, ERR_DENIED, "You don't have access to template '%.64s'", id);
}

/* The alias as the team sees it, of whichever team: its own, then public ones. */
static int by_alias(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct template_alias *out, struct err *e)
{
	struct template_rec r;
	struct snapshot_rec s;
	int got = store_template_by_name(t, team->id, ref->alias, &r, e);

	if (got == 0 && (got = store_snapshot_by_name(t, team->id, ref->alias, &s, e)) == 1) {
		memcpy(out->id, s.id, sizeof out->id);
		out->is_public = false;
		out->snapshot = true;
		return 1;
	}
	if (got == 0 && ref->ns[0] == '\0')
		got = store_template_by_name(t, "", ref->alias, &r, e);
	if (got != 1)
		return got;
	got = strcmp(r.team, team->id) == 0 ? 1 : err_set(e, ERR_DENIED, "You don't have access to template '%s'", ref->alias);
	memcpy(out->id, r.id, sizeof out->id);
	out->is_public = r.is_public;
	if (got == 1)
		got = template_check_tag(&r, ref, e) == 0 ? 1 : -1;
	template_rec_release(&r);
	return got;
}

struct tag {
	const char *tag;             /* NULL: any */
	bool found;
};

static int on_capture(void *ctx, const struct capture_rec *r, struct err *e)
{
	struct tag *x = ctx;

	(void)e;
	x->found = r->state == CAPTURE_READY && (x->tag == NULL || strcmp(r->tag, x->tag) == 0 || strcmp(r->id, x->tag) == 0);
	return x->found;
}

/* A snapshot under a tag that is asked for; and one that is only being made is not there yet. */
static int check_snapshot(struct txn *t, const struct template_alias *a, const struct template_ref *ref, bool tagged, struct err *e)
{
	struct tag x = { .tag = tagged ? ref->tag : NULL };

	if (store_walk_captures(t, a->id, on_capture, &x, e) < 0)
		return -1;
	return x.found ? 0 : err_set(e, ERR_NOT_FOUND, "tag '%s' does not exist for template '%s'", ref->tag[0] != '\0' ? ref->tag : "default",
				     ref->alias);
}

int template_alias(struct domain *d, const struct team_rec *team, const char *text, struct template_alias *out, struct err *e)
{
	struct template_ref ref;
	struct txn *t;
	int got;

	memset(out, 0, sizeof *out);
	if (template_ref_parse(text, &ref, e) < 0)
		return -1;
	if (ref.ns[0] != '\0' && strcmp(ref.ns, team->slug) != 0)
		return err_set(e, ERR_INVALID, "namespace '%s' must match your team '%s'", ref.ns, team->slug);
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = by_alias(t, team, &ref, out, e);
	if (got == 1 && out->snapshot)
		got = check_snapshot(t, out, &ref, strchr(text, ':') != NULL, e) < 0 ? -1 : 1;
	txn_abort(t);
	return got == 0 ? err_set(e, ERR_NOT_FOUND, "template alias '%s' not found", ref.alias) : got < 0 ? -1 : 0;
}
