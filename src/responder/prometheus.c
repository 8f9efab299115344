/* GET /metrics: the text format of Prometheus (version 0.0.4). On the operator's socket, since it tells about all teams. */
#include "responder.h"

#include "hutch/upstream.h"

static void family(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_sandboxes(struct buf *b, const struct use *u)
{
	static const char *const states[SB_KILLING + 1] = {
		[SB_STARTING] = "starting", [SB_RUNNING] = "running", [SB_PAUSING] = "pausing", [SB_PAUSED] = "paused",
		[SB_RESUMING] = "resuming", [SB_SNAPSHOTTING] = "snapshotting", [SB_KILLING] = "killing",
	};

	family(b, "hutch_sandboxes", "gauge", "Sandbox records by state.");
	for (int i = SB_STARTING; i <= SB_KILLING; i++)
		buf_addf(b, "hutch_sandboxes{state=\"%s\"} %llu\n", states[i], (unsigned long long)u->state[i]);
	family(b, "hutch_allocated_cpus", "gauge", "Processors promised to sandboxes.");
	buf_addf(b, "hutch_allocated_cpus %llu\n", (unsigned long long)u->cpu_count);
	family(b, "hutch_allocated_memory_bytes", "gauge", "Memory promised to sandboxes.");
	buf_addf(b, "hutch_allocated_memory_bytes %llu\n", (unsigned long long)u->memory_mb << 20);
}

static void add_counts(struct buf *b, const struct domain *d)
{
	static const struct { enum count c; const char *reason; } kills[] = {
		{ COUNT_KILLED_REQUEST, "request" }, { COUNT_KILLED_TIMEOUT, "timeout" }, { COUNT_KILLED_ADMIN, "admin" },
	};

	family(b, "hutch_sandbox_creates_total", "counter", "Starts of sandboxes by their outcome.");
	buf_addf(b, "hutch_sandbox_creates_total{outcome=\"started\"} %llu\n", (unsigned long long)count_get(d, COUNT_CREATED));
	buf_addf(b, "hutch_sandbox_creates_total{outcome=\"failed\"} %llu\n", (unsigned long long)count_get(d, COUNT_CREATE_FAILED));
	family(b, "hutch_sandbox_kills_total", "counter", "Ends of sandboxes by their reason.");
	for (size_t i = 0; i < sizeof kills / sizeof kills[0]; i++)
		buf_addf(b, "hutch_sandbox_kills_total{reason=\"%s\"} %llu\n", kills[i].reason, (unsigned long long)count_get(d, kills[i].c));
}

static void add_requests(struct buf *b, const struct domain *d)
{
	struct request_counts r;

	family(b, "hutch_requests_total", "counter", "Requests by program and status.");
	for (size_t i = 0; count_requests(d, i, &r); i++)
		for (int s = 1; s < 6; s++)
			if (r.status[s] > 0)
				buf_addf(b, "hutch_requests_total{program=\"%s\",status=\"%dxx\"} %llu\n", r.program, s,
					 (unsigned long long)r.status[s]);
}

static void add_durations(struct buf *b, const struct domain *d)
{
	static const char name[] = "hutch_request_duration_seconds";
	struct request_counts r;

	family(b, name, "histogram", "Time in the program, from the request's head to its answer.");
	for (size_t i = 0; count_requests(d, i, &r); i++) {
		unsigned long long sum = 0;

		for (int k = 0; k <= COUNT_BUCKETS; k++)
			sum += r.bucket[k];
		if (sum == 0)
			continue;
		sum = 0;
		for (int k = 0; k < COUNT_BUCKETS; k++) {
			sum += r.bucket[k];
			buf_addf(b, "%s_bucket{program=\"%s\",le=\"%g\"} %llu\n", name, r.program, (double)count_bounds_us[k] / 1e6, sum);
		}
		sum += r.bucket[COUNT_BUCKETS];
		buf_addf(b, "%s_bucket{program=\"%s\",le=\"+Inf\"} %llu\n", name, r.program, sum);
		buf_addf(b, "%s_sum{program=\"%s\"} %.6f\n", name, r.program, (double)r.sum_us / 1e6);
		buf_addf(b, "%s_count{program=\"%s\"} %llu\n", name, r.program, sum);
	}
}

static int add_records(struct buf *b, const struct domain *d, struct err *e)
{
	int percent;

	if (domain_fullness(d, &percent, e) < 0)
		return -1;
	family(b, "hutch_records_fullness_ratio", "gauge", "Used part of db_size_mb.");
	buf_addf(b, "hutch_records_fullness_ratio %.2f\n", percent / 100.0);
	return 0;
}

static int add_upstream(struct buf *b, struct domain *d, struct err *e)
{
	struct upstream_state s;
	struct budget g;

	if (upstream_state(d, &s, e) < 0 || budget_get(d, &g, e) < 0)
		return -1;
	family(b, "hutch_upstream_requests_total", "counter", "Requests to the mirrored account, and those that the budget did not allow.");
	buf_addf(b, "hutch_upstream_requests_total{outcome=\"sent\"} %lld\n", (long long)g.taken);
	buf_addf(b, "hutch_upstream_requests_total{outcome=\"refused\"} %lld\n", (long long)g.refused);
	family(b, "hutch_upstream_budget_used", "gauge", "Requests in this minute.");
	buf_addf(b, "hutch_upstream_budget_used %lld\n", (long long)g.used);
	family(b, "hutch_upstream_budget_limit", "gauge", "Requests that a minute allows.");
	buf_addf(b, "hutch_upstream_budget_limit %lld\n", (long long)g.ceiling);
	family(b, "hutch_upstream_failures", "gauge", "Refreshes that failed since the last good one.");
	buf_addf(b, "hutch_upstream_failures %lld\n", (long long)s.failures);
	family(b, "hutch_upstream_refresh_timestamp_seconds", "gauge", "Time of the last good refresh, 0 = there was none.");
	buf_addf(b, "hutch_upstream_refresh_timestamp_seconds %lld\n", (long long)(s.done_us / 1000000));
	return 0;
}

int prometheus(struct call *c, struct err *e)
{
	struct use u;

	if (sandboxes_use(c->d, &u, e) < 0)
		return -1;
	c->status = 200;
	c->type = "text/plain; version=0.0.4; charset=utf-8";
	add_sandboxes(&c->out, &u);
	add_counts(&c->out, c->d);
	add_requests(&c->out, c->d);
	add_durations(&c->out, c->d);
	if (c->d->conf->upstream_url[0] != '\0' && add_upstream(&c->out, c->d, e) < 0)
		return -1;
	return add_records(&c->out, c->d, e);
}
