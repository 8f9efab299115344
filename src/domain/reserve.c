/* A create's reservation: the row that counts against the team's limit, before there is a machine. */
#include "domain_int.h"

#define FULL_PERCENT 95              /* the rest of the records' room is for ending what runs */

int check_limit(struct txn *t, const struct team_rec *team, struct err *e)
{
	uint64_t live;

	if (store_live_count(t, team->id, &live, e) < 0)
		return -1;
	if (live < team->max_sandboxes)
		return 0;
	err_set(e, ERR_LIMIT, "you have reached the maximum number of concurrent E2B sandboxes (%u). "
		"Kill one, or ask the operator of this server for more", team->max_sandboxes);
	e->retry_s = LIMIT_RETRY_S;
	return -1;
}

int reserve_check(struct domain *d, const struct team_rec *team, uint8_t pool_kind, struct err *e)
{
	struct txn *t;
	int percent, status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_fullness(t, &percent, e);
	if (status == 0)
		status = node_takes(t, pool_kind, e);
	if (status == 0 && percent >= FULL_PERCENT)
		status = err_set(e, ERR_UNAVAILABLE, "the records are full: db_size_mb is %lld, raise it and restart all programs",
				 (long long)d->conf->db_size_mb);
	if (status == 0)
		status = check_limit(t, team, e);
	txn_abort(t);
	return status;
}

void reserve_row(void *ctx)
{
	struct reserving *v = ctx;
	struct txn *t;

	if (v->done)
		return;
	v->done = true;
	v->status = txn_write_step(v->d->store, &t, &v->e);
	if (v->status == 0)
		v->status = txn_end(t, check_limit(t, v->team, &v->e) < 0 ? -1 : store_sandbox_put(t, NULL, v->r, &v->e), &v->e);
}
