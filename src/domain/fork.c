/* Forking (api.md 5.13): no pool of ours can yet, which is said after all that would be wrong with the call itself. */
#include "domain_int.h"

int sandbox_fork(struct domain *d, const struct team_rec *team, const char *id, int64_t count, int64_t timeout_s, struct err *e)
{
	struct sandbox_rec r;
	int status;

	if (timeout_s > (int64_t)team->max_hours * 3600)
		return err_set(e, ERR_INVALID, "Timeout cannot be greater than %u hours", team->max_hours);
	if (count >= (int64_t)team->max_sandboxes)
		return err_set(e, ERR_INVALID, "count must be less than the number of sandboxes that you may run at once (%u)", team->max_sandboxes);
	if (sandbox_get(d, team->id, id, &r, e) < 0)
		return -1;
	if (r.state != SB_RUNNING)
		status = err_set(e, ERR_CONFLICT, "Sandbox %s is %s", id, r.state == SB_PAUSED ? "paused" : "in transition");
	else
		status = pool_admit(pool_kind_caps(r.pool_kind), r.pool, WANT_BIT(WANT_FORK), NULL, e);
	if (status == 0)
		status = err_set(e, ERR_INTERNAL, "pool %s is said to fork", r.pool);
	sandbox_rec_release(&r);
	return status;
}
