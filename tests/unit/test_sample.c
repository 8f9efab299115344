/* Samples of what sandboxes use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

#define OTHER "22222222-2222-4222-8222-222222222222"

struct series {
	struct sample s[5000];
	int n;
};

static int add(void *ctx, const struct sample *s, struct err *e)
{
	struct series *x = ctx;

	(void)e;
	assert_true(x->n < 5000);
	if (x->n > 0)
		assert_true(x->s[x->n - 1].us < s->us);
	x->s[x->n++] = *s;
	return 0;
}

static struct series *samples_of(struct world *w, const char *team, const char *id, int64_t from_us, int64_t to_us)
{
	static struct series x;

	x.n = 0;
	assert_done(w, sample_each(&w->d, team, id, from_us, to_us, add, &x, &w->e));
	return &x;
}

static void test_values(void **state)
{
	struct world *w = *state;
	struct sampler *s = sampler_new();
	struct sandbox_rec r;
	struct series *x;
	struct sample last;

	world_create(w, 3600, &r);
	w->pool->use = (struct pool_use){ .cpu_us = 1000, .mem_used = 3 << 20, .mem_cache = 5 << 20, .disk_used = 7 << 20, .disk_total = 1 << 30 };
	assert_done(w, sample_once(&w->d, s, &w->e));
	world_advance(w, 5 * US_PER_S);
	w->pool->use.cpu_us += 1000 * US_PER_S;              /* more than there are processors */
	assert_done(w, sample_once(&w->d, s, &w->e));
	world_advance(w, 5 * US_PER_S);
	w->pool->use.cpu_us = 5;                             /* a process that ended took its time along */
	assert_done(w, sample_once(&w->d, s, &w->e));
	x = samples_of(w, w->team.id, r.id, 0, domain_now(&w->d) + US_PER_S);
	assert_int_equal(x->n, 3);
	assert_int_equal(x->s[0].cpu_hundredths, 0);         /* there is nothing to compare with yet */
	assert_int_equal(x->s[1].cpu_hundredths, 10000);
	assert_int_equal(x->s[2].cpu_hundredths, 0);
	assert_int_equal(x->s[0].cpu_count, r.cpu_count);
	assert_int_equal(x->s[0].mem_used, 3 << 20);
	assert_int_equal(x->s[0].mem_total, (uint64_t)r.memory_mb << 20);
	assert_int_equal(x->s[0].mem_cache, 5 << 20);
	assert_int_equal(x->s[0].disk_used, 7 << 20);
	assert_int_equal(x->s[0].disk_total, 1 << 30);
	assert_string_equal(x->s[0].team, w->team.id);
	assert_int_equal(samples_of(w, w->team.id, r.id, x->s[1].us, x->s[2].us)->n, 1);
	assert_int_equal(samples_of(w, OTHER, r.id, 0, domain_now(&w->d) + US_PER_S)->n, 0);
	assert_int_equal(samples_of(w, w->team.id, "short", 0, INT64_MAX)->n, 0);
	assert_int_equal(sample_newest(&w->d, w->team.id, r.id, &last, &w->e), 1);
	assert_int_equal(sample_newest(&w->d, OTHER, r.id, &last, &w->e), 0);
	assert_int_equal(sample_newest(&w->d, w->team.id, "i00000000000000000000", &last, &w->e), 0);
	/* they outlive the sandbox; none are added */
	assert_done(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e));
	assert_done(w, sample_once(&w->d, s, &w->e));
	assert_int_equal(samples_of(w, w->team.id, r.id, 0, domain_now(&w->d) + US_PER_S)->n, 3);
	sandbox_rec_release(&r);
	sampler_free(s);
}

/* Two hours of samples: the older hour has one a minute, and steps are those of the range. Then all go. */
static void test_thin(void **state)
{
	struct world *w = *state;
	struct sampler *s = sampler_new();
	struct sandbox_rec r;
	int64_t now;
	int n;

	world_create(w, 86400, &r);
	*w->d.clock = domain_now(&w->d) / (60 * US_PER_S) * 60 * US_PER_S;   /* it stands still in between */
	for (int i = 0; i < 1440; i++) {
		assert_done(w, sample_once(&w->d, s, &w->e));
		*w->d.clock += SAMPLE_S * US_PER_S;
	}
	now = domain_now(&w->d);
	assert_in_range(samples_of(w, w->team.id, r.id, now - 3590 * US_PER_S, now)->n, 717, 719);
	assert_in_range(samples_of(w, w->team.id, r.id, now - 7200 * US_PER_S, now - 3610 * US_PER_S)->n, 58, 61);
	n = samples_of(w, w->team.id, r.id, 0, now)->n;      /* steps of 30 s, of which the older hour has half */
	assert_in_range(n, 178, 182);
	w->conf.metrics_hours = 1;
	assert_done(w, sample_once(&w->d, s, &w->e));
	n = samples_of(w, w->team.id, r.id, 0, domain_now(&w->d) - 3600 * US_PER_S)->n;
	assert_int_equal(n, 0);
	*w->d.clock += 7200 * US_PER_S;
	w->conf.metrics_hours = 0;                           /* none are taken, and what is there goes */
	for (int i = 0; i < 10; i++)
		assert_done(w, sample_once(&w->d, s, &w->e));
	assert_int_equal(samples_of(w, w->team.id, r.id, 0, domain_now(&w->d) + US_PER_S)->n, 0);
	sandbox_rec_release(&r);
	sampler_free(s);
}

/* Every range has its step, and the next one from its bound on (api.md 5.17). */
static void test_steps(void **state)
{
	enum { H = 3600, DAY = 24 * H, FINE = 30 };
	static const struct { int range_s, step_s; } cases[] = {
		{ 6 * H - 30, 30 }, { 6 * H, 60 }, { 12 * H - 60, 60 }, { 12 * H, 120 }, { DAY - 120, 120 }, { DAY, 300 }, { 7 * DAY - 300, 300 },
		{ 7 * DAY, 900 }, { 8 * DAY, 900 },
	};
	static const char id[] = "i00000000000000000000";
	const int64_t end = 1900000800LL / DAY * DAY * US_PER_S;     /* steps count from there */
	struct world *w = *state;
	struct txn *t;

	assert_done(w, txn_write(w->d.store, &t, &w->e));
	for (int s = 8 * DAY; s > 0; s -= FINE) {
		struct sample x = { .us = end - s * US_PER_S, .cpu_count = 1 };

		memcpy(x.team, w->team.id, sizeof x.team);
		assert_done(w, store_sample_put(t, id, &x, &w->e));
	}
	assert_done(w, txn_commit(t, &w->e));
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct series *x = samples_of(w, w->team.id, id, end - cases[i].range_s * US_PER_S, end);

		assert_int_equal(x->n, cases[i].range_s / cases[i].step_s);
		assert_int_equal(x->s[1].us - x->s[0].us, cases[i].step_s * US_PER_S);
	}
}

static int add_team(void *ctx, const struct team_sample *s, struct err *e)
{
	struct team_sample *last = ctx;

	(void)e;
	*last = *s;
	return 0;
}

static void test_teams(void **state)
{
	struct world *w = *state;
	struct sampler *s = sampler_new();
	struct team_sample last = { .us = 0 };
	struct sandbox_rec r[3];

	assert_done(w, sample_once(&w->d, s, &w->e));        /* begins to count */
	world_advance(w, US_PER_S);
	for (int i = 0; i < 3; i++)
		world_create(w, 60, &r[i]);
	assert_done(w, sandbox_kill(&w->d, w->team.id, r[0].id, "request", &w->e));
	world_advance(w, 5 * US_PER_S);
	assert_done(w, sample_once(&w->d, s, &w->e));
	assert_done(w, team_sample_each(&w->d, w->team.id, 0, INT64_MAX, add_team, &last, &w->e));
	assert_int_equal(last.running, 2);
	assert_in_range(last.starts_milli, 100, 500);        /* three in six seconds and what the machine took */
	for (int i = 0; i < 3; i++)
		sandbox_rec_release(&r[i]);
	sampler_free(s);
}

static void test_pool_away(void **state)
{
	struct world *w = *state;
	struct sampler *s = sampler_new();

	w->pool->down = true;
	assert_fails(w, sample_once(&w->d, s, &w->e), ERR_UNAVAILABLE, "pool");
	w->pool->down = false;
	assert_done(w, sample_once(&w->d, s, &w->e));
	sampler_free(s);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = { T(test_values), T(test_thin), T(test_steps), T(test_teams), T(test_pool_away) };

	return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
