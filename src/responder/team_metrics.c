/* How many sandboxes a team ran, over time (api.md 10). */
#include "responder.h"

#include <string.h>

#include "hutch/when.h"

#define DEFAULT_US (7 * 86400 * US_PER_S)
#define LATEST_S 253402300799LL      /* the last second that RFC 3339 can write */

int take_range(const struct call *c, int64_t *from_us, int64_t *to_us, struct err *e)
{
	int64_t from = 0, to = 0;
	int has_from = call_query_int(c, "start", 0, LATEST_S, &from, e), has_to;

	if (has_from < 0 || (has_to = call_query_int(c, "end", 0, LATEST_S, &to, e)) < 0)
		return -1;
	*to_us = has_to ? (to + 1) * US_PER_S : domain_now(c->d) + US_PER_S;     /* that second is in */
	*from_us = from * US_PER_S;
	if (has_from && *from_us >= *to_us)
		return err_set(e, ERR_INVALID, "start must not be after end");
	return has_from;
}

/* The range, and the path's team, which must be the caller's. */
static int take_request(const struct call *c, int64_t *from_us, int64_t *to_us, struct err *e)
{
	char id[UUID_LEN];
	int has_from;

	if (take_uuid(c, 0, "the team's id", id, e) < 0)
		return -1;
	if (strcmp(id, c->team.id) != 0)
		return err_set(e, ERR_DENIED, "You are not allowed to see the metrics of this team");
	has_from = take_range(c, from_us, to_us, e);
	if (has_from == 0)
		*from_us = *to_us > DEFAULT_US ? *to_us - DEFAULT_US : 0;
	return has_from < 0 ? -1 : 0;
}

void json_sample_time(struct jw *w, int64_t us)
{
	json_time(w, "timestamp", us);
	jw_kint(w, "timestampUnix", us / US_PER_S);
}

static int add_sample(void *ctx, const struct team_sample *s, struct err *e)
{
	struct jw *w = ctx;

	(void)e;
	jw_open(w, '{');
	json_sample_time(w, s->us);
	jw_kint(w, "concurrentSandboxes", s->running);
	jw_key(w, "sandboxStartRate");
	jw_dbl(w, s->starts_milli / 1000.0);
	jw_close(w, '}');
	return 0;
}

int team_metrics(struct call *c, struct err *e)
{
	int64_t from, to;
	struct jw w;

	if (take_request(c, &from, &to, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (team_sample_each(c->d, c->team.id, from, to, add_sample, &w, e) < 0)
		return -1;
	jw_close(&w, ']');
	return 0;
}

struct most {
	bool starts;                 /* else running ones */
	int64_t us;
	double value;
};

static int keep_most(void *ctx, const struct team_sample *s, struct err *e)
{
	struct most *m = ctx;
	double value = m->starts ? s->starts_milli / 1000.0 : s->running;

	(void)e;
	if (m->us == 0 || value > m->value) {
		m->us = s->us;
		m->value = value;
	}
	return 0;
}

int team_metrics_max(struct call *c, struct err *e)
{
	struct most m = { .us = 0 };
	char metric[32];
	int64_t from, to;
	struct jw w;
	int got;

	if (take_request(c, &from, &to, e) < 0 || (got = call_query(c, "metric", metric, sizeof metric, e)) < 0)
		return -1;
	m.starts = got == 1 && strcmp(metric, "sandbox_start_rate") == 0;
	if (got == 0 || (!m.starts && strcmp(metric, "concurrent_sandboxes") != 0))
		return err_set(e, ERR_INVALID, "metric must be concurrent_sandboxes or sandbox_start_rate");
	if (team_sample_each(c->d, c->team.id, from, to, keep_most, &m, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	json_sample_time(&w, m.us != 0 ? m.us : to - US_PER_S);
	jw_key(&w, "value");
	jw_dbl(&w, m.value);
	jw_close(&w, '}');
	return 0;
}
