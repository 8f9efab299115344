/* Machine pools by name. */
#include "store_int.h"

#include <string.h>

int store_pool_get(struct txn *t, const char *name, struct pool_rec *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_POOLS, name, strlen(name), &v, e);

	if (got == 1 && pool_unpack(name, strlen(name), v.mv_data, v.mv_size, out) < 0)
		return store_damaged("pool", name, strlen(name), e);
	return got;
}

int store_pool_put(struct txn *t, const struct pool_rec *r, struct err *e)
{
	struct buf b;

	buf_init(&b, RECORD_MAX);
	pool_pack(&b, r);
	return store_packed(t, T_POOLS, r->name, strlen(r->name), &b, e);
}

struct give { store_pool_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct pool_rec r;
	int status;

	(void)t;
	if (pool_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("pool", k->mv_data, k->mv_size, e);
	status = g->fn(g->ctx, &r, e);
	pool_rec_release(&r);
	return status;
}

int store_walk_pools(struct txn *t, store_pool_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	return table_walk(t, &(struct stretch){ .tb = T_POOLS }, give, &g, e);
}
