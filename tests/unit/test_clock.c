/* The instance's clock: frozen, moved on with everything that comes due on the way, and real again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/when.h"
#include "world.h"

#define AT 4000000000000000LL        /* 2096-10-02T07:06:40Z: ahead of any real time */

static void set(struct world *w, const char *mode, int64_t at_us, int64_t advance_s)
{
	const struct clock_spec s = { mode, at_us, advance_s * US_PER_S };

	assert_done(w, clock_set(&w->d, &s, &w->e));
}

static void test_bad(void **state)
{
	static const struct { struct clock_spec s; const char *names; } bad[] = {
		{ { "still", 0, 0 }, "mode" }, { { NULL, AT, 0 }, "at" }, { { NULL, 0, 5 }, "advance" }, { { "real", AT, 0 }, "at" },
		{ { "real", 0, 5 }, "advance" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_fails(w, clock_set(&w->d, &bad[i].s, &w->e), ERR_INVALID, bad[i].names);
}

static void test_modes(void **state)
{
	struct world *w = *state;
	int64_t real = domain_now(&w->d);
	struct world_clock c;

	clock_get(&w->d, &c);
	assert_false(c.frozen);
	set(w, "frozen", 0, 0);
	clock_get(&w->d, &c);
	assert_true(c.frozen && c.now_us >= real && c.now_us == domain_now(&w->d));
	set(w, "frozen", AT, 0);
	assert_int_equal(domain_now(&w->d), AT);
	set(w, NULL, 0, 90);
	assert_int_equal(domain_now(&w->d), AT + 90 * US_PER_S);
	set(w, "frozen", AT - US_PER_S, 3);          /* back, then on */
	assert_int_equal(domain_now(&w->d), AT + 2 * US_PER_S);
	world_reopen(w);
	assert_int_equal(domain_now(&w->d), AT + 2 * US_PER_S);
	set(w, "real", 0, 0);
	assert_true(domain_now(&w->d) >= real && domain_now(&w->d) < AT);
}

/* The record is what holds: a page that is gone or differs is put right at the next open. */
static void test_page(void **state)
{
	struct world *w = *state;
	char path[128];

	set(w, "frozen", AT, 0);
	snprintf(path, sizeof path, "%s/clock", w->conf.db_dir);
	assert_int_equal(unlink(path), 0);
	world_reopen(w);
	assert_int_equal(domain_now(&w->d), AT);
	atomic_store(w->d.clock, 1);
	world_reopen(w);
	assert_int_equal(domain_now(&w->d), AT);
}

/* Another process sees every change at once. */
static void test_shared(void **state)
{
	struct world *w = *state;
	int to[2], from[2];
	char byte = 'x';
	pid_t pid;

	assert_int_equal(pipe(to) | pipe(from), 0);
	pid = fork();
	if (pid == 0) {
		struct domain d;
		struct err e;

		/* the parent's stays untouched: this one maps its own */
		if (domain_open_with(&d, &w->conf, fake_pool_new(w->pool), &e) < 0)
			_exit(1);
		if (write(from[1], &byte, 1) != 1 || read(to[0], &byte, 1) != 1)
			_exit(2);
		_exit(domain_now(&d) == AT ? 0 : 3);
	}
	assert_int_equal(read(from[0], &byte, 1), 1);
	set(w, "frozen", AT, 0);
	assert_int_equal(write(to[1], &byte, 1), 1);
	{
		int status;

		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
}

/* Ends on the way: each at its time and in order, before the call returns; what is not due yet lives. */
static void test_advance(void **state)
{
	static const int64_t timeouts[] = { 30, 10, 20, 100 };
	struct world *w = *state;
	struct sandbox_rec r[4];
	char last[1024], when[WHEN_LEN];

	set(w, "frozen", AT, 0);
	for (size_t i = 0; i < 4; i++)
		world_create(w, timeouts[i], &r[i]);
	set(w, NULL, 0, 29);
	assert_int_equal(world_state(w, r[0].id), SB_RUNNING);
	assert_int_equal(world_state(w, r[1].id), 0);
	assert_int_equal(world_state(w, r[2].id), 0);
	assert_int_equal(w->pool->n, 2);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(world_events(w, r[i].id, "sandbox.lifecycle.killed", last, sizeof last), 1);
		when_format(AT + timeouts[i] * US_PER_S, when);
		if (strstr(last, when) == NULL)
			fail_msg("%s was not ended at %s: %s", r[i].id, when, last);
	}
	set(w, NULL, 0, 1);                          /* exactly at its end it is over */
	assert_int_equal(world_state(w, r[0].id), 0);
	set(w, "frozen", AT + 200 * US_PER_S, 0);    /* a leap forward ends too */
	assert_int_equal(world_rows(w), 0);
	world_agrees(w);
	for (size_t i = 0; i < 4; i++)
		sandbox_rec_release(&r[i]);
}

/* A pool that is away stops no clock: the row is gone for clients, and its machine goes later. */
static void test_pool_away(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r, out;

	set(w, "frozen", AT, 0);
	world_create(w, 10, &r);
	w->pool->down = true;
	set(w, NULL, 0, 3600);
	assert_int_equal(domain_now(&w->d), AT + 3600 * US_PER_S);
	assert_fails(w, sandbox_get(&w->d, w->team.id, r.id, &out, &w->e), ERR_NOT_FOUND, r.id);
	w->pool->down = false;
	set(w, NULL, 0, 120);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	sandbox_rec_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bad, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_modes, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_page, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_shared, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_advance, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_pool_away, world_set_up, world_tear_down),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
