/* Resolving template references, and telling the pool what templates there are. */
#include "domain_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool visible(const struct team_rec *team, const struct template_rec *t)
{
	return t->is_public || strcmp(t->team, team->id) == 0;
}

/* A template the team does not see is as good as none: 1 and *out, 0, or -1. */
static int seen(const struct team_rec *team, int got, struct template_rec *out)
{
	if (got == 1 && !visible(team, out)) {
		template_rec_release(out);
		return 0;
	}
	return got;
}

static int find_in_namespace(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct template_rec *out,
			     struct err *e)
{
	struct team_rec owner;
	int got;

	if (strcmp(ref->ns, team->slug) == 0)
		return seen(team, store_template_by_name(t, team->id, ref->alias, out, e), out);
	got = store_team_by_slug(t, ref->ns, &owner, e);
	if (got != 1)
		return got;
	return seen(team, store_template_by_name(t, owner.id, ref->alias, out, e), out);
}

int template_find(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct template_rec *out, struct err *e)
{
	int got;

	if (ref->ns[0] != '\0')
		return find_in_namespace(t, team, ref, out, e);
	got = seen(team, store_template_by_name(t, team->id, ref->alias, out, e), out);
	if (got == 0)
		got = seen(team, store_template_by_name(t, "", ref->alias, out, e), out);
	if (got == 0)
		got = seen(team, store_template_get(t, ref->alias, out, e), out);
	return got;
}

/* The only build has the default tag; its id pins it too. */
int template_check_tag(const struct template_rec *t, const struct template_ref *ref, struct err *e)
{
	if (ref->tag[0] == '\0' || strcmp(ref->tag, t->build_id) == 0)
		return 0;
	return err_set(e, ERR_NOT_FOUND, "tag '%s' does not exist for template '%s'", ref->tag, ref->alias);
}

int template_resolve(struct domain *d, const struct team_rec *team, const char *text, struct template_rec *out, struct err *e)
{
	struct template_ref ref;
	struct txn *t;
	int got;

	if (template_ref_parse(text, &ref, e) < 0 || txn_read(d->store, &t, e) < 0)
		return -1;
	got = template_find(t, team, &ref, out, e);
	txn_abort(t);
	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(e, ERR_NOT_FOUND, "template '%.200s' not found", text);
	if (template_check_tag(out, &ref, e) == 0)
		return 0;
	template_rec_release(out);
	return -1;
}

/* ---- shapes ---- */

struct shapes {
	struct txn *t;
	struct template_rec *rec;    /* own their strings */
	size_t n, cap;
};

static int add_shape(void *ctx, const struct template_rec *r, struct err *e)
{
	struct shapes *s = ctx;
	struct template_rec *to;
	struct pool_rec pool;
	bool ours;
	int got = pool_resolve(s->t, r->pool, &pool, e);

	if (got != 1)
		return got;
	ours = pool_on_node(pool.kind);
	pool_rec_release(&pool);
	if (!ours)
		return 0;
	if (s->n == s->cap) {
		size_t cap = s->cap != 0 ? 2 * s->cap : 16;

		to = realloc(s->rec, cap * sizeof *to);
		if (to == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		s->rec = to;
		s->cap = cap;
	}
	to = &s->rec[s->n];
	*to = *r;
	to->image = strdup(r->image);
	to->command = r->command != NULL ? strdup(r->command) : NULL;
	s->n++;
	return to->image != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static void shapes_release(struct shapes *s)
{
	for (size_t i = 0; i < s->n; i++)
		template_rec_release(&s->rec[i]);
	free(s->rec);
}

static int shapes_read(struct domain *d, struct shapes *s, struct err *e)
{
	struct txn *t;
	int status;

	*s = (struct shapes){ .n = 0 };
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	s->t = t;
	status = store_walk_templates(t, add_shape, s, e);
	txn_abort(t);
	if (status < 0)
		shapes_release(s);
	return status;
}

int template_push_shapes(struct domain *d, struct err *e)
{
	struct pool_shape *shape;
	struct shapes s;
	int status;

	if (shapes_read(d, &s, e) < 0)
		return -1;
	shape = calloc(s.n + 1, sizeof *shape);
	if (shape == NULL) {
		shapes_release(&s);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	for (size_t i = 0; i < s.n; i++)
		shape[i] = (struct pool_shape){
			.template_id = s.rec[i].id,
			.image = s.rec[i].image,
			.command = s.rec[i].command,
			.ready_port = s.rec[i].ready_port,
			.cpu_count = s.rec[i].cpu_count,
			.memory_mb = s.rec[i].memory_mb,
			.disk_mb = s.rec[i].disk_mb,
			.warm = (uint32_t)d->conf->warm,
		};
	status = pool_set_shapes(d->pool, shape, s.n, e);
	free(shape);
	shapes_release(&s);
	return status;
}

/* FNV-1a over the builds: a new build is a new shape. */
static uint64_t shapes_sum(const struct shapes *s)
{
	uint64_t sum = 0xcbf29ce484222325u;

	for (size_t i = 0; i < s->n; i++)
		for (const char *p = s->rec[i].build_id; *p != '\0'; p++)
			sum = (sum ^ (unsigned char)*p) * 0x100000001b3u;
	return sum;
}

int template_shapes_state(struct domain *d, uint64_t *state, bool *known, struct err *e)
{
	char (*there)[TEMPLATE_ID_LEN] = NULL;
	struct shapes s;
	size_t n = 0, found = 0;

	if (shapes_read(d, &s, e) < 0)
		return -1;
	if (pool_templates(d->pool, &there, &n, e) < 0) {
		shapes_release(&s);
		return -1;
	}
	for (size_t i = 0; i < s.n; i++)
		for (size_t j = 0; j < n; j++)
			if (strcmp(s.rec[i].id, there[j]) == 0) {
				found++;
				break;
			}
	*state = shapes_sum(&s);
	*known = found == s.n && n == s.n;
	free(there);
	shapes_release(&s);
	return 0;
}
