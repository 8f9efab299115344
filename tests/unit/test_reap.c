/* The reaper's passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

static void test_lease_end(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b;
	char event[2000];
	int64_t next;

	assert_int_equal(reap_once(&w->d, &next, &w->e), 0);
	assert_int_equal(next, -1);
	world_freeze(w);
	world_create(w, 10, &a);
	world_create(w, 20, &b);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 0);
	assert_int_equal(next, a.end_us);
	world_advance(w, 10 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(next, b.end_us);
	assert_int_equal(world_state(w, a.id), 0);
	assert_int_equal(world_state(w, b.id), SB_RUNNING);
	assert_false(fake_has(w->pool, a.machine));
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.killed", event, sizeof event), 1);
	assert_non_null(strstr(event, "\"kill_reason\":\"timeout\""));
	world_agrees(w);
}

/* An extension that landed first wins. */
static void test_extended(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, got;
	int64_t next;

	world_freeze(w);
	world_create(w, 10, &a);
	world_advance(w, 9 * US_PER_S);
	assert_done(w, sandbox_extend(&w->d, &w->team, a.id, 10, &got, &w->e));
	world_advance(w, 2 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 0);
	assert_int_equal(next, got.end_us);
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, a.id, 0, &w->e));
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), 0);
}

static void test_many(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	int64_t next;

	for (int i = 0; i < 600; i++) {
		world_create(w, 5, &r);
		sandbox_rec_release(&r);
	}
	world_advance(w, 6 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 600);
	assert_int_equal(next, -1);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

/* While the node is away leases end all the same, and one failing call does for all. */
static void test_node_away(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	int64_t next;

	world_freeze(w);
	for (int i = 0; i < 50; i++)
		world_create(w, 5, &r);
	w->pool->down = true;
	world_advance(w, 6 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 50);
	assert_in_range(w->pool->calls[FAKE_RELEASE], 1, 8);
	assert_int_equal(world_events(w, "", "killed", NULL, 0), 50);
	assert_int_equal(world_rows(w), 50);
	assert_in_range(next - domain_now(&w->d), US_PER_S, 60 * US_PER_S);
	assert_fails(w, audit_once(&w->d, &w->e), ERR_UNAVAILABLE, "does not answer");
	w->pool->down = false;
	world_advance(w, 2 * US_PER_S);
	assert_done(w, audit_once(&w->d, &w->e));    /* the node is back: no need to wait for the retry */
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

/* The longer it fails the rarer it is tried, up to once a minute. */
static void test_back_off(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	int64_t next, pause = 0;

	world_freeze(w);
	world_create(w, 5, &r);
	w->pool->down = true;
	world_advance(w, 6 * US_PER_S);
	for (int i = 0; i < 10; i++) {
		int64_t was = pause;

		assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
		pause = next - domain_now(&w->d);
		assert_true(pause >= was - US_PER_S && pause <= 60 * US_PER_S);
		world_advance(w, pause);
	}
	assert_in_range(pause, 59 * US_PER_S, 60 * US_PER_S);
}

static void test_audit(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b;
	char event[2000];

	world_create(w, 600, &a);
	world_create(w, 600, &b);
	fake_add(w->pool, "sb_stray_old", "iaaaaaaaaaaaaaaaaaaaa", wall_us() - 61 * US_PER_S);
	fake_add(w->pool, "sb_stray_new", "ibbbbbbbbbbbbbbbbbbbb", wall_us());
	fake_add(w->pool, "sb_stray_future", "icccccccccccccccccccc", wall_us() + 3600 * US_PER_S);
	fake_add(w->pool, "sb_other", "", wall_us() - 3600 * US_PER_S);
	fake_add(w->pool, "sb_second_of_a", a.id, wall_us() - 3600 * US_PER_S);
	fake_drop(w->pool, b.machine);
	assert_done(w, audit_once(&w->d, &w->e));
	assert_true(fake_has(w->pool, a.machine));
	assert_false(fake_has(w->pool, "sb_stray_old"));
	assert_true(fake_has(w->pool, "sb_stray_new"));      /* may be a start under way */
	assert_false(fake_has(w->pool, "sb_stray_future"));
	assert_true(fake_has(w->pool, "sb_other"));          /* nobody's claim of ours */
	assert_false(fake_has(w->pool, "sb_second_of_a"));
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_int_equal(world_state(w, b.id), 0);
	assert_int_equal(world_events(w, b.id, "killed", event, sizeof event), 1);
	assert_non_null(strstr(event, "\"kill_reason\":\"orphaned\""));
	fake_drop(w->pool, "sb_stray_new");
	fake_drop(w->pool, "sb_other");
	world_agrees(w);
}

/* A node that lost everything. */
static void test_all_gone(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	for (int i = 0; i < 20; i++)
		world_create(w, 600, &r);
	w->pool->n = 0;
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(world_rows(w), 0);
	world_agrees(w);
}

static void *run_audit(void *p)
{
	struct world *w = p;
	struct err e;

	while (w->pool->delay_us == 0)
		if (audit_once(&w->d, &e) < 0)
			return p;
	return NULL;
}

/* Audits beside creates and kills touch nothing that is alive. */
static void test_audit_beside(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r[8];
	pthread_t thread;
	void *failed;

	w->conf.repair_s = 1;
	pthread_create(&thread, NULL, run_audit, w);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 8; i++)
			world_create(w, 600, &r[i]);
		for (int i = 0; i < 8; i++)
			assert_done(w, sandbox_kill(&w->d, w->team.id, r[i].id, "request", &w->e));
	}
	w->pool->delay_us = 1;
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(world_events(w, "", "orphaned", NULL, 0), 0);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

struct race {
	struct world *w;
	atomic_bool stop;
	char id[SANDBOX_ID_LEN];
	int64_t at_us;               /* when to extend */
	int status;
	struct err e;
};

static void *extender(void *p)
{
	struct race *r = p;
	struct sandbox_rec got;

	while (domain_now(&r->w->d) < r->at_us)
		;
	r->status = sandbox_extend(&r->w->d, &r->w->team, r->id, 60, &got, &r->e);
	if (r->status == 0)
		sandbox_rec_release(&got);
	return NULL;
}

static void *reaping(void *p)
{
	struct race *r = p;
	int64_t next;
	struct err e;

	while (!atomic_load(&r->stop))
		reap_once(&r->w->d, &next, &e);
	return NULL;
}

/* A lease of a moment, written past the API. */
static void short_lease(struct world *w, int64_t us, struct sandbox_rec *r)
{
	struct sandbox_rec before;
	struct txn *t;

	world_create(w, 60, r);
	before = *r;
	r->end_us = r->due_us = domain_now(&w->d) + us;
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_sandbox_put(t, &before, r, &w->e));
	assert_done(w, txn_commit(t, &w->e));
}

/* Extending at the very end of the lease: acknowledged and it lives, or refused and it ends. How early it must be to be the first depends on the
 * machine and is found on the way: later after each that won, earlier after each that lost. */
static void test_extend_race(void **state)
{
	struct world *w = *state;
	struct race r = { .w = w };
	int64_t early = 200;
	pthread_t reaper;
	int won = 0, rounds = 0;

	pthread_create(&reaper, NULL, reaping, &r);
	for (; rounds < 150 || ((won == 0 || won == rounds) && rounds < 2000); rounds++) {
		struct sandbox_rec s;
		pthread_t thread;

		short_lease(w, 1000 + 2 * (early > 0 ? early : 0), &s);
		memcpy(r.id, s.id, sizeof r.id);
		r.at_us = s.end_us - early;
		pthread_create(&thread, NULL, extender, &r);
		pthread_join(thread, NULL);
		if (r.status == 0) {
			won++;
			early -= 20;
			assert_int_equal(world_state(w, s.id), SB_RUNNING);
			assert_int_equal(world_events(w, s.id, "killed", NULL, 0), 0);
			assert_done(w, sandbox_kill(&w->d, NULL, s.id, "request", &w->e));
		} else {
			assert_true(r.e.kind == ERR_NOT_FOUND);
			early += 20;
			while (world_state(w, s.id) != 0)
				;
		}
		assert_int_equal(world_events(w, s.id, "killed", NULL, 0), 1);
		assert_int_equal(world_events(w, s.id, "updated", NULL, 0), r.status == 0);
	}
	atomic_store(&r.stop, true);
	pthread_join(reaper, NULL);
	assert_in_range(won, 1, rounds - 1);
	world_agrees(w);
}

static void test_nudge(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	struct pollfd p;
	struct err e;
	char byte;
	int lock, again;

	reaper_nudge(&w->d);                         /* nobody listens: harmless */
	lock = reaper_lock(&w->conf, &e);
	assert_true(lock >= 0);
	again = reaper_lock(&w->conf, &e);
	assert_int_equal(again, -1);
	assert_int_equal(e.kind, ERR_CONFLICT);
	p = (struct pollfd){ .fd = reaper_bind(&w->conf, &e), .events = POLLIN };
	assert_true(p.fd >= 0);
	world_create(w, 20, &r);                     /* the first deadline there is */
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(recv(p.fd, &byte, 1, 0), 1);
	world_create(w, 30, &r);                     /* a later one */
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 1, &w->e));
	assert_int_equal(poll(&p, 1, 0), 1);
	for (int i = 0; i < 1000; i++)
		reaper_nudge(&w->d);                 /* a full queue does not block */
	close(p.fd);
	p.fd = reaper_bind(&w->conf, &e);            /* over the dead one's socket */
	assert_true(p.fd >= 0);
	close(p.fd);
	close(lock);
	lock = reaper_lock(&w->conf, &e);
	assert_true(lock >= 0);
	close(lock);
}

static int fullness(struct world *w)
{
	struct txn *t;
	int percent;

	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_done(w, store_fullness(t, &percent, &w->e));
	txn_abort(t);
	return percent;
}

/* Records full of events: no new sandbox, but what runs can be ended, and the reaper makes room. */
static void test_nearly_full(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 5 };
	struct world *w = *state;
	struct sandbox_rec r, no;
	char big[3000];
	int64_t at = domain_now(&w->d) - 3600 * US_PER_S, next;

	w->conf.db_size_mb = 16;
	world_reopen(w);
	world_create(w, 600, &r);
	memset(big, 'x', sizeof big);
	while (fullness(w) < 95) {
		struct txn *t;

		assert_done(w, txn_write(w->d.store, &t, &w->e));
		for (int i = 0; i < 20; i++)
			assert_done(w, store_event_add(t, w->team.id, NULL, at++, big, sizeof big, NULL, &w->e));
		assert_done(w, txn_commit(t, &w->e));
	}
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &no, &w->e), ERR_UNAVAILABLE, "db_size_mb is 16");
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 0, &w->e));
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_done(w, events_trim(&w->d, &w->e));
	assert_true(fullness(w) < 85);
	world_create(w, 5, &r);
	world_agrees(w);
}

static void test_trim(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	world_create(w, 600, &r);
	assert_done(w, events_trim(&w->d, &w->e));
	assert_int_equal(world_events(w, r.id, "created", NULL, 0), 1);
	world_advance(w, 8 * 86400 * US_PER_S);
	assert_done(w, events_trim(&w->d, &w->e));
	assert_int_equal(world_events(w, r.id, "created", NULL, 0), 0);
}

/* A damaged row stands in nobody's way. */
static void test_damaged(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b, odd;
	struct txn *t;
	int64_t next;

	world_freeze(w);
	world_create(w, 5, &a);
	world_create(w, 6, &b);
	world_row(w, a.id, &odd);
	odd.state = SB_PAUSED;                       /* such a row is never due */
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_sandbox_put(t, &a, &odd, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	world_advance(w, 7 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, b.id), 0);
	assert_true(next > domain_now(&w->d));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_lease_end), T(test_extended), T(test_many), T(test_node_away), T(test_back_off), T(test_audit), T(test_all_gone),
		T(test_audit_beside), T(test_extend_race), T(test_nudge),
		T(test_nearly_full), T(test_trim), T(test_damaged),
	};

	return cmocka_run_group_tests_name("reap", tests, NULL, NULL);
}
