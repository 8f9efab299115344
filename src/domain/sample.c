/*
 * Samples of what sandboxes use and of how many a team runs.
 *
 * One is taken each SAMPLE_S seconds; those older than THIN_AFTER_US are thinned to one per THIN_US, and metrics_hours ends all. A sample
 * outlives its sandbox, so it says whose it is.
 */
#include "config.h"

#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"

#define THIN_AFTER_US (3600 * US_PER_S)
#define THIN_US (60 * US_PER_S)
#define COLLECT_US (US_PER_S / 2)
#define BATCH 128                    /* sandboxes whose samples are written in one transaction */
#define TRIM 500                     /* sandboxes looked at for old samples, each time */
#define SAMPLE_PERCENT 75             /* fullness of the records from which no samples are taken */

struct reading {                     /* of processor time, of one sandbox */
	char id[SANDBOX_ID_LEN];
	uint64_t cpu_us;
};

struct sampler {
	struct reading *last;        /* by id */
	size_t n;
	int64_t boot_us;             /* when those were read; 0 = never */
	size_t collect_at;           /* whose journal is next */
	int64_t teams_us;            /* until when the starts of teams are counted */
	char after[64], lines_after[64];     /* places of the trimming */
};

struct sampler *sampler_new(void)
{
	return calloc(1, sizeof(struct sampler));
}

void sampler_free(struct sampler *s)
{
	if (s != NULL)
		free(s->last);
	free(s);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(a, b);             /* the id comes first in both */
}

/* Hundredths of a percent of the sandbox's processors since the reading before; 0 for the first. */
static uint32_t cpu_share(const struct sampler *s, const struct pool_use *u, uint32_t cpus, int64_t boot)
{
	const struct reading *was = s->n > 0 ? bsearch(u->claim_ref, s->last, s->n, sizeof *s->last, by_id) : NULL;
	double share;

	if (was == NULL || boot <= s->boot_us || u->cpu_us <= was->cpu_us || cpus == 0)
		return 0;
	share = 10000.0 * (double)(u->cpu_us - was->cpu_us) / (double)(boot - s->boot_us) / cpus;
	return share > 10000 ? 10000 : (uint32_t)(share + 0.5);
}

/* What busy sandboxes' agents noted, so that it outlives them. In a pass no longer than COLLECT_US: who was left out comes in a later one. */
static void collect_lines(struct domain *d, struct sampler *s, const struct pool_use *u, size_t n)
{
	int64_t until = boot_us() + COLLECT_US;
	size_t looked = 0;

	for (; looked < n && boot_us() < until; looked++) {
		const struct pool_use *x = &u[(s->collect_at + looked) % n];
		const struct reading *was = s->n > 0 ? bsearch(x->claim_ref, s->last, s->n, sizeof *s->last, by_id) : NULL;
		struct err why;

		if (was != NULL && was->cpu_us == x->cpu_us)
			continue;
		if (journal_collect(d, NULL, x->claim_ref, &why) < 0)
			log_debug("journal of sandbox %s: %s", x->claim_ref, why.text);
	}
	s->collect_at = looked < n ? s->collect_at + looked : 0;
}

static int remember(struct sampler *s, const struct pool_use *u, size_t n, int64_t boot, struct err *e)
{
	struct reading *last = calloc(n + 1, sizeof *last);

	if (last == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < n; i++) {
		memcpy(last[i].id, u[i].claim_ref, sizeof last[i].id);
		last[i].cpu_us = u[i].cpu_us;
	}
	qsort(last, n, sizeof *last, by_id);
	free(s->last);
	s->last = last;
	s->n = n;
	s->boot_us = boot;
	return 0;
}

/* One sandbox that still runs. */
static int put_one(struct txn *t, const struct sampler *s, const struct pool_use *u, int64_t now_us, int64_t boot, struct err *e)
{
	struct sandbox_rec r;
	int got = store_sandbox_get(t, u->claim_ref, &r, e);

	if (got != 1)
		return got;
	if (sandbox_state_runs(r.state)) {
		struct sample x = {
			.us = now_us, .cpu_count = r.cpu_count, .cpu_hundredths = cpu_share(s, u, r.cpu_count, boot),
			.mem_used = u->mem_used, .mem_cache = u->mem_cache, .mem_total = (uint64_t)r.memory_mb << 20,
			.disk_used = u->disk_used, .disk_total = u->disk_total,
		};

		memcpy(x.team, r.team, sizeof x.team);
		if (store_sample_put(t, r.id, &x, e) < 0 || store_sample_thin(t, r.id, now_us - THIN_AFTER_US, THIN_US, e) < 0)
			got = -1;
	}
	sandbox_rec_release(&r);
	return got < 0 ? -1 : 0;
}

static int put_all(struct domain *d, const struct sampler *s, const struct pool_use *u, size_t n, int64_t boot, struct err *e)
{
	int64_t now = domain_now(d);

	for (size_t at = 0; at < n; at += BATCH) {
		struct txn *t;

		if (txn_write(d->store, &t, e) < 0)
			return -1;
		for (size_t i = at; i < n && i < at + BATCH; i++)
			if (put_one(t, s, &u[i], now, boot, e) < 0) {
				txn_abort(t);
				return -1;
			}
		if (txn_commit(t, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- teams ---- */

struct starts {
	int64_t from_us;
	uint64_t n;
};

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	static const char created[] = "\"type\":\"" EVENT_CREATED "\"";
	struct starts *s = ctx;

	(void)e;
	if (us <= s->from_us)
		return 1;
	s->n += memmem(json, n, created, sizeof created - 1) != NULL;
	return 0;
}

struct team_row {
	char id[UUID_LEN];
	struct team_sample x;
};

struct teams {
	struct txn *t;
	int64_t from_us, now_us;
	struct team_row *row;
	size_t n;
};

/* A team that did nothing has no sample. */
static int on_team(void *ctx, const struct team_rec *r, struct err *e)
{
	struct teams *x = ctx;
	struct starts s = { .from_us = x->from_us };
	struct team_row *more;
	uint64_t running;

	if (store_running_count(x->t, r->id, &running, e) < 0 || store_walk_events(x->t, r->id, on_event, &s, e) < 0)
		return -1;
	if (running == 0 && s.n == 0)
		return 0;
	more = realloc(x->row, (x->n + 1) * sizeof *more);
	if (more == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	x->row = more;
	more = &x->row[x->n++];
	memcpy(more->id, r->id, sizeof more->id);
	more->x = (struct team_sample){
		.us = x->now_us, .running = (uint32_t)running,
		.starts_milli = (uint32_t)(s.n * 1000 * US_PER_S / (uint64_t)(x->now_us - x->from_us)),
	};
	return 0;
}

static int put_teams(struct domain *d, const struct teams *x, struct err *e)
{
	struct txn *t;

	if (x->n == 0)
		return 0;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	for (size_t i = 0; i < x->n; i++)
		if (store_team_sample_put(t, x->row[i].id, &x->row[i].x, e) < 0) {
			txn_abort(t);
			return -1;
		}
	return txn_commit(t, e);
}

static int sample_teams(struct domain *d, struct sampler *s, struct err *e)
{
	struct teams x = { .from_us = s->teams_us, .now_us = domain_now(d) };
	int status;

	if (s->teams_us == 0 || x.now_us <= s->teams_us) {
		s->teams_us = x.now_us;
		return 0;
	}
	if (txn_read(d->store, &x.t, e) < 0)
		return -1;
	status = store_walk_teams(x.t, on_team, &x, e);
	txn_abort(x.t);
	if (status == 0)
		status = put_teams(d, &x, e);
	free(x.row);
	s->teams_us = x.now_us;
	return status;
}

/* ---- once ---- */

static int trim(struct domain *d, struct sampler *s, int percent, struct err *e)
{
	int64_t keep = d->conf->metrics_hours * 3600 * US_PER_S;
	int removed, lines;
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (store_samples_trim(t, domain_now(d) - keep, TRIM, s->after, &removed, e) < 0 ||
	    store_lines_trim(t, domain_now(d) - journal_keep_us(d, percent), TRIM, s->lines_after, &lines, e) < 0) {
		txn_abort(t);
		return -1;
	}
	if (removed + lines > 0)
		return txn_commit(t, e);
	txn_abort(t);
	return 0;
}

int sample_once(struct domain *d, struct sampler *s, struct err *e)
{
	struct pool_use *u = NULL;
	int percent, status;
	int64_t boot;
	size_t n;

	if (domain_fullness(d, &percent, e) < 0 || trim(d, s, percent, e) < 0)
		return -1;
	if (d->conf->metrics_hours == 0 || percent >= SAMPLE_PERCENT)
		return 0;
	if (sample_teams(d, s, e) < 0 || pool_use(d->pool, &u, &n, e) < 0)
		return -1;
	boot = boot_us();
	status = put_all(d, s, u, n, boot, e);
	collect_lines(d, s, u, n);
	if (remember(s, u, n, boot, e) < 0)
		status = -1;
	free(u);
	return status;
}

/* ---- reading ---- */

/* api.md 5.17 */
static int64_t step_of(int64_t range_us)
{
	static const struct { int64_t below_s, step_s; } steps[] = {
		{ 3600, 5 }, { 6 * 3600, 30 }, { 12 * 3600, 60 }, { 24 * 3600, 120 }, { 7 * 86400, 300 },
	};

	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
		if (range_us < steps[i].below_s * US_PER_S)
			return steps[i].step_s * US_PER_S;
	return 900 * US_PER_S;
}

struct series {
	const char *team;            /* of sandboxes' */
	int64_t step_us, bucket;     /* the span last given out */
	struct sample *row;
	struct team_sample *team_row;
	size_t n, cap;
};

static int first_only(void *ctx, const struct sample *s, struct err *e)
{
	(void)e;
	*(int64_t *)ctx = s->us;
	return 1;
}

/* Room for one row more of that size at *rows. */
static int grow(struct series *x, void **rows, size_t size, struct err *e)
{
	void *more;

	if (x->n < x->cap)
		return 0;
	x->cap = x->cap != 0 ? 2 * x->cap : 256;
	more = realloc(*rows, x->cap * size);
	if (more == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	*rows = more;
	return 0;
}

static int collect(void *ctx, const struct sample *s, struct err *e)
{
	struct series *x = ctx;
	void *rows = x->row;

	if (strcmp(s->team, x->team) != 0)
		return 0;
	/* five seconds are not exactly that: at the finest step every sample counts */
	if (x->n > 0 && x->step_us > SAMPLE_S * US_PER_S && s->us / x->step_us == x->bucket)
		return 0;
	if (grow(x, &rows, sizeof *x->row, e) < 0)
		return -1;
	x->row = rows;
	x->row[x->n++] = *s;
	x->bucket = s->us / x->step_us;
	return 0;
}

int sample_each(struct domain *d, const char *team_id, const char *id, int64_t from_us, int64_t to_us, store_sample_fn *fn, void *ctx,
		struct err *e)
{
	struct series x = { .team = team_id };
	struct txn *t;
	int status = 0;

	if (strlen(id) != SANDBOX_ID_LEN - 1)
		return 0;
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	if (from_us == 0)
		status = store_walk_samples(t, id, 0, to_us, first_only, &from_us, e);
	x.step_us = step_of(to_us - from_us);
	if (status == 0)
		status = store_walk_samples(t, id, from_us, to_us, collect, &x, e);
	txn_abort(t);
	for (size_t i = 0; i < x.n && status == 0; i++)
		status = fn(ctx, &x.row[i], e);
	free(x.row);
	return status < 0 ? -1 : 0;
}

int sample_newest(struct domain *d, const char *team_id, const char *id, struct sample *out, struct err *e)
{
	struct txn *t;
	int got;

	if (strlen(id) != SANDBOX_ID_LEN - 1)
		return 0;
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_sample_last(t, id, out, e);
	txn_abort(t);
	return got == 1 ? strcmp(out->team, team_id) == 0 : got;
}

/* Of a step the most: running ones, and starts per second. */
static int collect_team(void *ctx, const struct team_sample *s, struct err *e)
{
	struct series *x = ctx;
	void *rows = x->team_row;

	if (x->n > 0 && s->us / x->step_us == x->bucket) {
		struct team_sample *at = &x->team_row[x->n - 1];

		at->running = s->running > at->running ? s->running : at->running;
		at->starts_milli = s->starts_milli > at->starts_milli ? s->starts_milli : at->starts_milli;
		return 0;
	}
	if (grow(x, &rows, sizeof *x->team_row, e) < 0)
		return -1;
	x->team_row = rows;
	x->team_row[x->n++] = *s;
	x->bucket = s->us / x->step_us;
	return 0;
}

int team_sample_each(struct domain *d, const char *team_id, int64_t from_us, int64_t to_us, store_team_sample_fn *fn, void *ctx,
		     struct err *e)
{
	struct series x = { .step_us = step_of(to_us - from_us) };
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_team_samples(t, team_id, from_us, to_us, collect_team, &x, e);
	txn_abort(t);
	for (size_t i = 0; i < x.n && status == 0; i++)
		status = fn(ctx, &x.team_row[i], e);
	free(x.team_row);
	return status < 0 ? -1 : 0;
}
