/* What a reference of a create names: a template, or what a snapshot keeps (api.md 4, 7). */
#include "domain_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_named(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct snapshot_rec *out, struct err *e)
{
	if (ref->ns[0] != '\0' && strcmp(ref->ns, team->slug) != 0)
		return 0;
	return store_snapshot_by_name(t, team->id, ref->alias, out, e);
}

static int find_id(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct snapshot_rec *out, struct err *e)
{
	int got = ref->ns[0] == '\0' ? store_snapshot_get(t, ref->alias, out, e) : 0;

	return got == 1 && strcmp(out->team, team->id) != 0 ? 0 : got;
}

struct pick {
	const char *tag;
	struct capture_rec *out;
	bool found;
};

static int on_capture(void *ctx, const struct capture_rec *r, struct err *e)
{
	struct pick *p = ctx;

	(void)e;
	if (r->state != CAPTURE_READY || (strcmp(r->tag, p->tag) != 0 && strcmp(r->id, p->tag) != 0))
		return 0;
	*p->out = *r;
	p->found = true;
	return 1;                            /* a tag has one */
}

/* The capture of the tag, as the template that its sandboxes start from. */
static int take_capture(struct txn *t, const struct snapshot_rec *s, const struct template_ref *ref, struct origin *o, struct err *e)
{
	struct capture_rec c;
	struct pick p = { .tag = ref->tag, .out = &c };

	if (store_walk_captures(t, s->id, on_capture, &p, e) < 0)
		return -1;
	if (!p.found)
		return err_set(e, ERR_NOT_FOUND, "tag '%s' does not exist for template '%s'", ref->tag[0] != '\0' ? ref->tag : "default", ref->alias);
	o->t = (struct template_rec){ .cpu_count = c.cpu_count, .memory_mb = c.memory_mb, .disk_mb = c.disk_mb };
	memcpy(o->t.id, c.template_id, sizeof o->t.id);
	memcpy(o->t.alias, c.alias, sizeof o->t.alias);
	memcpy(o->t.build_id, c.id, sizeof o->t.build_id);
	memcpy(o->t.envd_version, c.envd_version, sizeof o->t.envd_version);
	memcpy(o->t.pool, c.pool[0] != '\0' ? c.pool : POOL_LOCAL_NAME, sizeof o->t.pool);
	memcpy(o->checkpoint, c.checkpoint, sizeof o->checkpoint);
	o->pool_kind = c.pool_kind;
	o->t.image = strdup("");             /* the pool knows what the copy was made of */
	return o->t.image != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

/* 1 found, 0, -1: names before ids, the team's own before public ones; a name is a template's or a snapshot's. */
static int find(struct txn *t, const struct team_rec *team, const struct template_ref *ref, struct origin *o, struct err *e)
{
	struct snapshot_rec s;
	int got = find_named(t, team, ref, &s, e);

	if (got == 0) {
		got = template_find(t, team, ref, &o->t, e);
		if (got != 0)
			return got;
		got = find_id(t, team, ref, &s, e);
	}
	if (got != 1)
		return got;
	return take_capture(t, &s, ref, o, e) < 0 ? -1 : 1;
}

static int take_pool(struct txn *t, struct origin *o, struct err *e)
{
	int got = pool_resolve(t, o->t.pool, &o->p, e);

	if (got == 0)
		return err_set(e, ERR_INTERNAL, "template %s is of pool %s, which does not exist", o->t.id, o->t.pool);
	if (got == 1 && o->checkpoint[0] != '\0' && o->p.kind != o->pool_kind)
		return err_set(e, ERR_INVALID, "the snapshot is of pool %s, which is of another kind by now", o->t.pool);
	return got < 0 ? -1 : 0;
}

static int resolve(struct txn *t, const struct team_rec *team, const struct template_ref *ref, const char *text, struct origin *o,
		   struct err *e)
{
	int got = find(t, team, ref, o, e);

	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(e, ERR_NOT_FOUND, "template '%.200s' not found", text);
	if (o->checkpoint[0] == '\0' && template_check_tag(&o->t, ref, e) < 0)
		return -1;
	return take_pool(t, o, e);
}

int origin_resolve(struct domain *d, const struct team_rec *team, const char *text, struct origin *o, struct err *e)
{
	struct template_ref ref;
	struct txn *t;
	int status;

	memset(o, 0, sizeof *o);
	if (template_ref_parse(text, &ref, e) < 0 || txn_read(d->store, &t, e) < 0)
		return -1;
	status = resolve(t, team, &ref, text, o, e);
	txn_abort(t);
	if (status < 0)
		origin_release(o);
	return status;
}

void origin_release(struct origin *o)
{
	template_rec_release(&o->t);
	pool_rec_release(&o->p);
}
