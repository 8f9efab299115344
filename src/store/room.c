/* How full the records are. */
#include "store_int.h"

#define FREE_DBI 0                   /* LMDB's own list of free pages: each value begins with a count */

static int free_pages(struct txn *t, uint64_t *n, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	int got, rc = mdb_cursor_open(t->mdb, FREE_DBI, &c);

	if (rc != 0)
		return store_fail(t->st, rc, "free pages", e);
	*n = 0;
	for (got = cursor_step(t, c, MDB_FIRST, &k, &v, e); got == 1; got = cursor_step(t, c, MDB_NEXT, &k, &v, e))
		if (v.mv_size >= sizeof(size_t))
			*n += *(const size_t *)v.mv_data;
	mdb_cursor_close(c);
	return got;
}

int store_fullness(struct txn *t, int *percent, struct err *e)
{
	uint64_t all, used, unused = 0;
	MDB_envinfo info;
	MDB_stat st;
	int rc = mdb_env_info(t->st->env, &info);

	if (rc == 0)
		rc = mdb_env_stat(t->st->env, &st);
	if (rc != 0)
		return store_fail(t->st, rc, "records", e);
	all = info.me_mapsize / st.ms_psize;
	used = info.me_last_pgno + 1;
	/* counting what is free inside takes a while, so only when it matters */
	if (used * 100 / all >= STORE_FULLNESS_EXACT) {
		if (free_pages(t, &unused, e) < 0)
			return -1;
		used = unused < used ? used - unused : 0;
	}
	*percent = (int)(used * 100 / all);
	return 0;
}
