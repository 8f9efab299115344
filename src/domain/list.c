/* Lists of a team's sandboxes, paged (api.md 4, 5.6). */
#include "domain_int.h"

#include <string.h>

struct listing {
	const struct sandbox_query *q;
	struct map_pairs meta;
	size_t template_n;
	int64_t now_us;
	sandbox_list_fn *fn;
	void *ctx;
	struct place after;          /* from the token */
	bool filters;                /* the row itself must be looked at to know whether it matches */
	bool count_all;              /* the walk goes on for the total */
	struct place last;           /* last one given out */
	int given;
	bool more;
	uint64_t running;
};

/* Whether (us, id) comes after the token's place in the order of the walk. */
static bool is_after(const struct listing *l, int64_t us, const char *id)
{
	int by_id = strcmp(id, l->after.id);

	if (l->after.id[0] == '\0')
		return true;
	if (l->q->oldest_first)
		return us > l->after.us || (us == l->after.us && by_id < 0);
	return us < l->after.us || (us == l->after.us && by_id > 0);
}

/* Whether clients see it, in a state that is asked for; *runs is that state. */
static bool shown(const struct listing *l, struct sandbox_glance *g, bool *runs)
{
	if (!state_show(&g->state, g->auto_pause, g->end_us, l->now_us))
		return false;
	*runs = sandbox_state_runs(g->state);
	return *runs ? l->q->want_running : l->q->want_paused;
}

static bool matches(const struct listing *l, const struct sandbox_glance *g)
{
	if (l->q->template_id != NULL && (g->template_id.n != l->template_n || memcmp(g->template_id.p, l->q->template_id, l->template_n) != 0))
		return false;
	return l->meta.n == 0 || map_has(g->metadata.p, g->metadata.n, &l->meta);
}

static int give(struct listing *l, const char *id, const struct sandbox_glance *g, struct err *e)
{
	if (l->q->limit > 0 && l->given == l->q->limit) {
		l->more = true;
		return 0;
	}
	l->given++;
	l->last.us = g->started_us;
	memcpy(l->last.id, id, sizeof l->last.id);
	return l->fn(l->ctx, id, g, e) < 0 ? -1 : 0;
}

static int on_entry(void *ctx, struct txn *t, const char *id, int64_t started_us, uint8_t state, struct err *e)
{
	struct listing *l = ctx;
	const bool running = sandbox_state_runs(state);
	struct sandbox_glance g;
	bool wanted, runs;
	int got;

	if (started_us < l->q->started_after_us)
		return l->q->oldest_first ? 0 : 1;
	if (!(running ? l->q->want_running : l->q->want_paused))
		return 0;
	wanted = !l->more && is_after(l, started_us, id);
	if (!wanted && !l->filters) {
		l->running += running;
		return l->count_all ? 0 : l->more;
	}
	got = store_sandbox_glance(t, id, &g, e);
	if (got != 1)
		return got;
	if (matches(l, &g) && shown(l, &g, &runs)) {
		l->running += runs;
		if (wanted && give(l, id, &g, e) < 0)
			return -1;
	}
	return l->more && !l->count_all;
}

static int walk(struct domain *d, const char *team, struct listing *l, uint64_t *total, struct err *e)
{
	const struct place *from = &l->after;
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	/* the total of everything that runs is a record; else each match is counted, from the very first on */
	l->count_all = total != NULL && (l->filters || l->q->started_after_us > 0);
	status = store_walk_started(t, team, l->q->oldest_first, l->count_all ? 0 : from->us, l->count_all ? "" : from->id,
				    on_entry, l, e);
	if (status == 0 && total != NULL) {
		*total = l->running;
		if (!l->count_all)
			status = store_running_count(t, team, total, e);
	}
	txn_abort(t);
	return status;
}

/* Which of the two orders a token is of. */
static char order_of(const struct sandbox_query *q)
{
	return q->oldest_first ? 'a' : 'd';
}

int sandbox_list(struct domain *d, const char *team, const struct sandbox_query *q, sandbox_list_fn *fn, void *ctx,
		 char next[PAGE_TOKEN_LEN], uint64_t *total_running, struct err *e)
{
	struct listing l = {
		.q = q, .now_us = domain_now(d), .fn = fn, .ctx = ctx,
		.filters = q->template_id != NULL || q->nmeta > 0,
		.template_n = q->template_id != NULL ? strlen(q->template_id) : 0,
	};
	int status;

	next[0] = '\0';
	if (total_running != NULL)
		*total_running = 0;
	if (q->next_token != NULL && page_token_read(q->next_token, order_of(q), SANDBOX_ID_LEN - 1, &l.after, e) < 0)
		return -1;
	if (map_pairs_init(&l.meta, q->meta, q->nmeta, e) < 0)
		return -1;
	status = walk(d, team, &l, q->want_running ? total_running : NULL, e);
	map_pairs_release(&l.meta);
	if (status < 0)
		return -1;
	if (l.more)
		page_token_write(order_of(q), &l.last, next);
	return 0;
}
