/* Teams. */
#include "store_int.h"

#include <string.h>

int store_team_get(struct txn *t, const char *id, struct team_rec *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_TEAMS, id, strlen(id), &v, e);

	if (got == 1 && team_unpack(v.mv_data, v.mv_size, out) < 0)
		return store_damaged("team", id, strlen(id), e);
	return got;
}

/* name -> uuid -> team */
static int team_through(struct txn *t, enum table index, const char *name, struct team_rec *out, struct err *e)
{
	char id[UUID_LEN];
	MDB_val v;
	int got = table_get(t, index, name, strlen(name), &v, e);

	if (got != 1)
		return got;
	if (v.mv_size != UUID_CHARS)
		return store_damaged(table_names[index], name, strlen(name), e);
	memcpy(id, v.mv_data, UUID_CHARS);
	id[UUID_CHARS] = '\0';
	got = store_team_get(t, id, out, e);
	return got == 0 ? store_damaged(table_names[index], name, strlen(name), e) : got;
}

int store_team_by_name(struct txn *t, const char *name, struct team_rec *out, struct err *e)
{
	return team_through(t, T_TEAM_NAMES, name, out, e);
}

int store_team_by_slug(struct txn *t, const char *slug, struct team_rec *out, struct err *e)
{
	return team_through(t, T_TEAM_SLUGS, slug, out, e);
}

int store_team_put(struct txn *t, const struct team_rec *r, struct err *e)
{
	struct buf b;

	buf_init(&b, RECORD_MAX);
	team_pack(&b, r);
	if (store_packed(t, T_TEAMS, r->id, strlen(r->id), &b, e) < 0 ||
	    table_put(t, T_TEAM_NAMES, r->name, strlen(r->name), r->id, strlen(r->id), e) < 0)
		return -1;
	return table_put(t, T_TEAM_SLUGS, r->slug, strlen(r->slug), r->id, strlen(r->id), e);
}

struct give { store_team_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct team_rec r;

	(void)t;
	if (team_unpack(v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("team", k->mv_data, k->mv_size, e);
	return g->fn(g->ctx, &r, e);
}

int store_walk_teams(struct txn *t, store_team_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	return table_walk(t, &(struct stretch){ .tb = T_TEAMS }, give, &g, e);
}
