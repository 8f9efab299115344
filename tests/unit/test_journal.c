/* What agents noted, kept. */
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

struct seen {
	struct txn *t;
	char text[4096];             /* messages, newest first */
	const char *team;
	int n;
};

static int on_line(void *ctx, const struct line_rec *r, struct err *e)
{
	struct seen *x = ctx;
	size_t at = strlen(x->text);

	(void)e;
	assert_string_equal(r->team, x->team);
	if (at < sizeof x->text / 2)
		snprintf(x->text + at, sizeof x->text - at, "%s:%s%s ", line_level_name(r->level), r->message, r->fields);
	x->n++;
	return 0;
}

static struct seen *lines_of(struct world *w, const char *id)
{
	static struct seen x;
	struct txn *t;

	x = (struct seen){ .team = w->team.id };
	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_done(w, store_walk_lines(t, id, on_line, &x, &w->e));
	txn_abort(t);
	return &x;
}

/* n lines from second `from` on, one a second, in the place of what was noted. */
static void noted(struct world *w, int64_t at_us, int from, int n)
{
	char *p = w->pool->journal, *end = p + sizeof w->pool->journal;

	p += snprintf(p, (size_t)(end - p), "[");
	for (int i = from; i < from + n; i++)
		p += snprintf(p, (size_t)(end - p), "%s{\"us\":%lld,\"level\":\"warn\",\"message\":\"m%d\"}", i > from ? "," : "",
			      (long long)(at_us + i), i);
	snprintf(p, (size_t)(end - p), "]");
}

static void checked(struct world *w, int problems)
{
	struct txn *t;

	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_int_equal(store_check(t, NULL, NULL, &w->e), problems);
	txn_abort(t);
}

static void test_collect(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	int64_t now;

	world_create(w, 3600, &r);
	now = domain_now(&w->d);
	assert_done(w, journal_collect(&w->d, w->team.id, r.id, &w->e));
	assert_int_equal(lines_of(w, r.id)->n, 0);
	snprintf(w->pool->journal, sizeof w->pool->journal, "[{\"us\":%lld,\"level\":\"info\",\"message\":\"a\",\"fields\":{\"pid\":\"1\"}},"
		 "{\"us\":%lld,\"level\":\"warn\",\"message\":\"b\"}]", (long long)now, (long long)now + 1);
	assert_done(w, journal_collect(&w->d, OTHER, r.id, &w->e));
	assert_int_equal(lines_of(w, r.id)->n, 0);           /* another team makes nothing happen */
	for (int i = 0; i < 3; i++)                          /* each is there once */
		assert_done(w, journal_collect(&w->d, i < 2 ? w->team.id : NULL, r.id, &w->e));
	assert_string_equal(lines_of(w, r.id)->text, "warn:b{} info:a{\"pid\":\"1\"} ");
	assert_true(w->pool->journal_after_us == now + 1);
	w->pool->down = true;
	assert_fails(w, journal_collect(&w->d, w->team.id, r.id, &w->e), ERR_UNAVAILABLE, "pool");
	w->pool->down = false;
	checked(w, 0);
	/* its end brings the last ones; then nobody is asked for them any more */
	noted(w, now, 10, 1);
	assert_done(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e));
	noted(w, now, 20, 1);
	assert_done(w, journal_collect(&w->d, w->team.id, r.id, &w->e));
	assert_string_equal(lines_of(w, r.id)->text, "warn:m10{} warn:b{} info:a{\"pid\":\"1\"} ");
	assert_int_equal(lines_of(w, "short")->n, 0);
	sandbox_rec_release(&r);
}

/* Ended by its lease: the reaper's release brings them as well. */
static void test_lease(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	int64_t next;

	world_create(w, 60, &r);
	noted(w, domain_now(&w->d), 0, 3);
	world_advance(w, 61 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, r.id), 0);
	assert_int_equal(lines_of(w, r.id)->n, 3);
	sandbox_rec_release(&r);
}

/* The guest's word: what is no line is passed over. */
static void test_nonsense(void **state)
{
	static const char *const bad[] = {
		"1", "\"x\"", "null", "{}", "{\"us\":1}", "{\"us\":0,\"level\":\"info\",\"message\":\"x\"}",
		"{\"us\":9007199254740991000,\"level\":\"info\",\"message\":\"x\"}", "{\"us\":1,\"level\":\"loud\",\"message\":\"x\"}",
		"{\"us\":1,\"level\":\"info\",\"message\":7}", "{\"us\":1,\"level\":\"info\",\"message\":\"x\",\"fields\":[]}",
		"{\"us\":1,\"level\":\"info\",\"message\":\"x\",\"fields\":{\"a\":1}}",
	};
	struct world *w = *state;
	struct sandbox_rec r;

	world_create(w, 3600, &r);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		snprintf(w->pool->journal, sizeof w->pool->journal, "[%s]", bad[i]);
		assert_done(w, journal_collect(&w->d, w->team.id, r.id, &w->e));
		assert_int_equal(lines_of(w, r.id)->n, 0);
	}
	snprintf(w->pool->journal, sizeof w->pool->journal,
		 "[{\"us\":1,\"level\":\"info\",\"message\":\"%02000d\"},{\"us\":2,\"level\":\"error\",\"message\":\"y\"}]", 7);
	assert_done(w, journal_collect(&w->d, w->team.id, r.id, &w->e));
	assert_string_equal(lines_of(w, r.id)->text, "error:y{} ");
	sandbox_rec_release(&r);
}

/* The newest thousand stay, then all go with time; the reaper's samples collect where something ran. */
static void test_bounds(void **state)
{
	struct world *w = *state;
	struct sampler *s = sampler_new();
	struct sandbox_rec r;
	int64_t at;

	world_create(w, 86400, &r);
	at = domain_now(&w->d);
	for (int i = 0; i < 1200; i += 100) {
		noted(w, at, i, 100);
		if (i == 0) {
			assert_done(w, sample_once(&w->d, s, &w->e));
			assert_int_equal(lines_of(w, r.id)->n, 100);
			noted(w, at, i + 100, 1);            /* it did nothing since: not asked */
			assert_done(w, sample_once(&w->d, s, &w->e));
			assert_int_equal(lines_of(w, r.id)->n, 100);
		} else {
			assert_done(w, journal_collect(&w->d, w->team.id, r.id, &w->e));
		}
	}
	assert_int_equal(lines_of(w, r.id)->n, 1000);
	assert_int_equal(strncmp(lines_of(w, r.id)->text, "warn:m1199{} ", 13), 0);
	checked(w, 0);
	w->pool->journal[0] = '\0';
	world_advance(w, (w->conf.event_days * 86400 - 60) * US_PER_S);
	assert_done(w, sample_once(&w->d, s, &w->e));
	assert_int_equal(lines_of(w, r.id)->n, 1000);
	world_advance(w, 120 * US_PER_S);
	for (int i = 0; i < 10; i++)
		assert_done(w, sample_once(&w->d, s, &w->e));
	assert_int_equal(lines_of(w, r.id)->n, 0);
	sandbox_rec_release(&r);
	sampler_free(s);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = { T(test_collect), T(test_lease), T(test_nonsense), T(test_bounds) };

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
