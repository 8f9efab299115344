/* Pause, resume, and what traffic and the reaper make of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

static const struct resume_spec minute = { .seconds = 60, .auto_pause = -1 };

static void create_with(struct world *w, const struct sandbox_spec *more, struct sandbox_rec *out)
{
	struct sandbox_spec s = *more;

	s.template_ref = "base";
	if (s.timeout_s == 0)
		s.timeout_s = 60;
	assert_done(w, sandbox_create(&w->d, &w->team, &s, out, &w->e));
}

static int resume(struct world *w, const char *id, const struct resume_spec *s, struct sandbox_rec *out, bool *resumed)
{
	return sandbox_resume(&w->d, &w->team, id, s, out, resumed, &w->e);
}

static void counts(struct world *w, uint64_t live, uint64_t running)
{
	uint64_t l, r;
	struct txn *t;

	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_done(w, store_live_count(t, w->team.id, &l, &w->e));
	assert_done(w, store_running_count(t, w->team.id, &r, &w->e));
	txn_abort(t);
	assert_int_equal(l, live);
	assert_int_equal(r, running);
}

/* Put the row into another state, as a program that died left it. */
static void put_state(struct world *w, const char *id, uint8_t state, bool memory)
{
	struct sandbox_rec was, now;
	struct txn *t;

	world_row(w, id, &was);
	now = was;
	now.state = state;
	now.memory = memory;
	now.due_us = domain_now(&w->d) + 60 * US_PER_S;
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_sandbox_put(t, &was, &now, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	sandbox_rec_release(&was);
}

static void test_pause(void **state)
{
	struct sandbox_spec s = { .metadata = "{\"k\":\"v\"}" };
	struct world *w = *state;
	struct sandbox_rec a, got;
	char event[2000];
	int64_t next;

	create_with(w, &s, &a);
	counts(w, 1, 1);
	world_advance(w, 5 * US_PER_S);
	assert_done(w, sandbox_pause(&w->d, w->team.id, a.id, true, &w->e));
	assert_true(fake_sleeps(w->pool, a.machine) && w->pool->last_memory);
	counts(w, 0, 0);
	assert_done(w, sandbox_get(&w->d, w->team.id, a.id, &got, &w->e));
	assert_int_equal(got.state, SB_PAUSED);
	assert_true(got.memory);
	assert_int_equal(got.started_us, a.started_us);
	assert_in_range(domain_now(&w->d) - got.end_us, 0, 60 * US_PER_S);
	assert_int_equal(got.due_us, 0);
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.paused", event, sizeof event), 1);
	assert_non_null(strstr(event, "\"execution\":{\"started_at\""));
	assert_non_null(strstr(event, "\"sandbox_metadata\":{\"k\":\"v\"}"));
	assert_null(strstr(event, "kill_reason"));
	assert_fails(w, sandbox_pause(&w->d, w->team.id, a.id, true, &w->e), ERR_CONFLICT, "is already paused");
	assert_fails(w, sandbox_pause(&w->d, "another", a.id, true, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, a.id, 60, &w->e), ERR_NOT_FOUND, "doesn't exist");
	sandbox_rec_release(&got);
	assert_fails(w, sandbox_extend(&w->d, &w->team, a.id, 60, &got, &w->e), ERR_NOT_FOUND, "doesn't exist");
	world_advance(w, 3600 * US_PER_S);           /* it has no end */
	assert_int_equal(reap_once(&w->d, &next, &w->e), 0);
	assert_int_equal(next, -1);
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	world_agrees(w);
	sandbox_rec_release(&a);
}

/* A machine that sleeps though its row runs is woken; one that is awake though its row is paused is put to sleep. No client hears of it. */
static void test_audit_aligns(void **state)
{
	struct sandbox_spec s = { .timeout_s = 600 };
	struct world *w = *state;
	struct sandbox_rec a, b, now;

	create_with(w, &s, &a);
	create_with(w, &s, &b);
	assert_done(w, sandbox_pause(&w->d, w->team.id, b.id, true, &w->e));
	assert_done(w, pool_hibernate(w->d.pool, a.machine, true, &w->e));
	assert_done(w, pool_wake(w->d.pool, b.machine, &w->e));
	assert_done(w, audit_once(&w->d, &w->e));
	assert_false(fake_sleeps(w->pool, a.machine));
	assert_true(fake_sleeps(w->pool, b.machine));
	world_row(w, a.id, &now);
	assert_int_equal(now.state, SB_RUNNING);
	assert_int_equal(now.due_us, a.end_us);
	assert_string_equal(now.execution_id, a.execution_id);
	assert_false(now.handed || now.memory);
	sandbox_rec_release(&now);
	world_row(w, b.id, &now);
	assert_int_equal(now.state, SB_PAUSED);
	assert_true(now.memory && now.due_us == 0);
	sandbox_rec_release(&now);
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle", NULL, 0), 1);
	assert_int_equal(world_events(w, b.id, "sandbox.lifecycle.paused", NULL, 0), 1);
	counts(w, 1, 1);
	world_agrees(w);
	sandbox_rec_release(&a);
	sandbox_rec_release(&b);
}

/* One that cannot be woken becomes what its machine is. */
static void test_audit_cannot_wake(void **state)
{
	struct sandbox_spec s = { .timeout_s = 600 };
	struct world *w = *state;
	struct sandbox_rec a;
	int64_t next;

	create_with(w, &s, &a);
	assert_done(w, pool_hibernate(w->d.pool, a.machine, true, &w->e));
	w->pool->refuse_wake = ERR_UNAVAILABLE;
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	assert_true(fake_sleeps(w->pool, a.machine));
	world_agrees(w);
	sandbox_rec_release(&a);
}

static void test_resume(void **state)
{
	const struct resume_spec only = { .seconds = 60, .only_paused = true, .auto_pause = 1 };
	struct sandbox_spec s = { .timeout_s = 30 };
	struct world *w = *state;
	struct sandbox_rec a, b;
	bool resumed;

	create_with(w, &s, &a);
	assert_fails(w, resume(w, a.id, &only, &b, &resumed), ERR_CONFLICT, "is already running");
	assert_done(w, resume(w, a.id, &minute, &b, &resumed));
	assert_false(resumed);
	assert_int_equal(b.started_us, a.started_us);
	assert_true(b.end_us > a.end_us);
	assert_done(w, sandbox_pause(&w->d, w->team.id, a.id, false, &w->e));
	assert_false(w->pool->last_memory);
	world_advance(w, 3600 * US_PER_S);
	assert_done(w, resume(w, a.id, &only, &b, &resumed));
	assert_true(resumed);
	assert_int_equal(b.state, SB_RUNNING);
	assert_in_range(domain_now(&w->d) - b.started_us, 0, 60 * US_PER_S);
	assert_int_equal(b.end_us - b.started_us, 60 * US_PER_S);
	assert_int_equal(b.due_us, b.end_us);
	assert_string_equal(b.machine, a.machine);
	assert_string_not_equal(b.execution_id, a.execution_id);
	assert_true(b.auto_pause && !b.memory);
	assert_false(fake_sleeps(w->pool, a.machine));
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.resumed", NULL, 0), 1);
	assert_int_equal(world_events(w, a.id, b.execution_id, NULL, 0), 1);
	counts(w, 1, 1);
	assert_fails(w, resume(w, "iaaaaaaaaaaaaaaaaaaaa", &minute, &b, &resumed), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, resume(w, a.id, &(struct resume_spec){ .seconds = 86401 }, &b, &resumed), ERR_INVALID, "24 hours");
	world_agrees(w);
}

/* Memory that was kept is dropped when asked for. */
static void test_reboot(void **state)
{
	struct resume_spec s = { .seconds = 60, .reboot = true, .auto_pause = -1 };
	struct world *w = *state;
	struct sandbox_rec a, b;
	bool resumed;

	world_create(w, 60, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	w->pool->refuse_pause = ERR_CONFLICT;
	assert_fails(w, resume(w, a.id, &s, &b, &resumed), ERR_INVALID, "memory");
	w->pool->refuse_pause = ERR_NONE;
	world_advance(w, 61 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 1);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	assert_done(w, resume(w, a.id, &s, &b, &resumed));
	assert_false(w->pool->last_memory);
	assert_int_equal(b.state, SB_RUNNING);
	world_agrees(w);
}

static void test_kill_paused(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a;

	world_create(w, 60, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	assert_done(w, sandbox_kill(&w->d, w->team.id, a.id, "request", &w->e));
	assert_int_equal(world_state(w, a.id), 0);
	assert_false(fake_has(w->pool, a.machine));
	assert_int_equal(world_events(w, a.id, "killed", NULL, 0), 0);
	assert_fails(w, sandbox_kill(&w->d, w->team.id, a.id, "request", &w->e), ERR_NOT_FOUND, "doesn't exist");
	world_agrees(w);
}

/* While it is being killed: connect and timeout say so, for a resume and all else it is gone (api.md 5.11, 5.12, 5.14). */
static void test_killing(void **state)
{
	static const struct resume_spec only_paused = { .seconds = 60, .only_paused = true, .auto_pause = -1 };
	struct world *w = *state;
	struct sandbox_rec a, got;
	bool resumed;
	int64_t next;

	world_create(w, 600, &a);
	put_state(w, a.id, SB_KILLING, false);
	assert_fails(w, resume(w, a.id, &minute, &got, &resumed), ERR_CONFLICT, "is being killed");
	assert_fails(w, resume(w, a.id, &only_paused, &got, &resumed), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, a.id, 60, &w->e), ERR_CONFLICT, "is being killed");
	assert_fails(w, sandbox_extend(&w->d, &w->team, a.id, 60, &got, &w->e), ERR_CONFLICT, "is being killed");
	assert_fails(w, sandbox_wake(&w->d, a.id, &got, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_pause(&w->d, w->team.id, a.id, true, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_get(&w->d, w->team.id, a.id, &got, &w->e), ERR_NOT_FOUND, "doesn't exist");
	world_advance(w, 61 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), 0);
	world_agrees(w);
}

/* While it is being resumed a pause neither waits nor joins; a kill goes before both (api.md 5.10). */
static void test_pause_resuming(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a;
	int64_t next;

	world_create(w, 600, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	put_state(w, a.id, SB_RESUMING, true);
	assert_fails(w, sandbox_pause(&w->d, w->team.id, a.id, true, &w->e), ERR_CONFLICT, "cannot be paused while in 'resuming' state");
	assert_int_equal(world_state(w, a.id), SB_RESUMING);
	assert_done(w, sandbox_kill(&w->d, w->team.id, a.id, "request", &w->e));
	while (world_rows(w) > 0) {
		world_advance(w, 61 * US_PER_S);
		assert_true(reap_once(&w->d, &next, &w->e) >= 0);
	}
	world_agrees(w);
}

/* Paused ones do not count, resuming ones do. */
static void test_limit(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b, c;
	struct team_rec team;
	struct txn *t;
	bool resumed;

	assert_done(w, txn_write(w->d.store, &t, &w->e));
	team = w->team;
	team.max_sandboxes = w->team.max_sandboxes = 1;
	assert_done(w, store_team_put(t, &team, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	world_create(w, 60, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	world_create(w, 60, &b);
	assert_fails(w, resume(w, a.id, &minute, &c, &resumed), ERR_LIMIT, "maximum number");
	assert_int_equal(w->e.retry_s, 1);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	assert_done(w, sandbox_kill(&w->d, NULL, b.id, "request", &w->e));
	assert_done(w, resume(w, a.id, &minute, &c, &resumed));
	world_agrees(w);
}

static void test_auto_pause(void **state)
{
	struct sandbox_spec s = { .auto_pause = true, .timeout_s = 10 };
	struct sandbox_spec disk = { .auto_pause = true, .auto_pause_disk = true, .timeout_s = 10 };
	struct world *w = *state;
	struct sandbox_rec a, b;
	bool resumed;
	int64_t next;

	create_with(w, &s, &a);
	world_advance(w, 10 * US_PER_S);
	assert_done(w, sandbox_get(&w->d, NULL, a.id, &b, &w->e));
	assert_int_equal(b.state, SB_PAUSED);        /* for clients, reaped or not */
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(next, -1);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	assert_true(w->pool->last_memory);
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.paused", NULL, 0), 1);
	assert_int_equal(world_events(w, a.id, "killed", NULL, 0), 0);
	/* and again after each resume; without a reaper, too */
	assert_done(w, resume(w, a.id, &minute, &b, &resumed));
	world_advance(w, 61 * US_PER_S);
	assert_done(w, resume(w, a.id, &minute, &b, &resumed));
	assert_true(resumed);
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.paused", NULL, 0), 2);
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.resumed", NULL, 0), 2);
	world_advance(w, 61 * US_PER_S);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, false, &w->e));
	assert_true(w->pool->last_memory);           /* the end of the lease came first */
	create_with(w, &disk, &b);
	world_advance(w, 11 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_false(w->pool->last_memory);
	world_agrees(w);
}

static void test_spec(void **state)
{
	const struct { struct sandbox_spec s; const char *text; } bad[] = {
		{ { .auto_pause_disk = true }, "autoPauseMemory" },
		{ { .auto_pause_disk = true, .auto_pause = true, .auto_resume = true }, "autoPauseMemory" },
	};
	struct sandbox_spec s = { .auto_resume = true, .timeout_s = 20 };
	struct world *w = *state;
	struct sandbox_rec a;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		s = bad[i].s;
		s.template_ref = "base";
		s.timeout_s = 10;
		assert_fails(w, sandbox_create(&w->d, &w->team, &s, &a, &w->e), ERR_INVALID, bad[i].text);
	}
	s = (struct sandbox_spec){ .auto_resume = true, .timeout_s = 20 };
	create_with(w, &s, &a);
	assert_true(a.auto_resume && a.auto_pause_memory);
	assert_int_equal(a.resume_s, 300);
	s.timeout_s = 3600;
	create_with(w, &s, &a);
	assert_int_equal(a.resume_s, 3600);
}

static void test_traffic(void **state)
{
	struct sandbox_spec s = { .auto_resume = true, .auto_pause = true };
	struct world *w = *state;
	struct sandbox_rec a, b, off;

	create_with(w, &s, &a);
	world_create(w, 60, &off);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	assert_done(w, sandbox_pause(&w->d, NULL, off.id, true, &w->e));
	assert_fails(w, sandbox_wake(&w->d, off.id, &b, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_done(w, sandbox_wake(&w->d, a.id, &b, &w->e));
	assert_int_equal(b.state, SB_RUNNING);
	assert_int_equal(b.end_us - b.started_us, 300 * US_PER_S);
	assert_done(w, sandbox_wake(&w->d, a.id, &off, &w->e));   /* runs: left as it is */
	assert_int_equal(off.end_us, b.end_us);
	world_advance(w, 301 * US_PER_S);
	assert_done(w, sandbox_wake(&w->d, a.id, &b, &w->e));     /* its lease was over just now */
	assert_true(b.started_us > off.end_us);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, false, &w->e));
	assert_fails(w, sandbox_wake(&w->d, a.id, &b, &w->e), ERR_NOT_FOUND, "doesn't exist");
	world_agrees(w);
}

/* What the pool's failures leave. */
static void test_pool_fails(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b;
	bool resumed;
	int64_t next;

	world_create(w, 600, &a);
	w->pool->refuse_pause = ERR_CONFLICT;        /* it cannot: the sandbox goes on */
	assert_fails(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e), ERR_INVALID, "Failed to pause sandbox: refused");
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	w->pool->refuse_pause = ERR_NONE;
	world_agrees(w);
	w->pool->lose_pause = true;                  /* nobody knows whether it did: the reaper finishes it */
	assert_fails(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e), ERR_TIMEOUT, "Failed to pause sandbox");
	assert_int_equal(world_state(w, a.id), SB_PAUSING);
	assert_done(w, sandbox_get(&w->d, NULL, a.id, &b, &w->e));
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, a.id, 5, &w->e), ERR_CONFLICT, "in transition");
	w->pool->lose_pause = false;
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	w->pool->down = true;
	assert_fails(w, resume(w, a.id, &minute, &b, &resumed), ERR_UNAVAILABLE, "Failed to place sandbox");
	assert_int_equal(world_state(w, a.id), SB_RESUMING);
	w->pool->down = false;
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	w->pool->refuse_wake = ERR_INTERNAL;
	assert_fails(w, resume(w, a.id, &minute, &b, &resumed), ERR_INTERNAL, "Failed to place sandbox");
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	w->pool->refuse_wake = ERR_NONE;
	assert_done(w, resume(w, a.id, &minute, &b, &resumed));
	assert_int_equal(world_events(w, a.id, "lifecycle.paused", NULL, 0), 1);
	assert_int_equal(world_events(w, a.id, "lifecycle.resumed", NULL, 0), 1);
	world_agrees(w);
}

/* The machine is gone. */
static void test_gone(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b;
	bool resumed;
	int64_t next;

	world_create(w, 600, &a);
	fake_drop(w->pool, a.machine);
	assert_fails(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e), ERR_NOT_FOUND, "doesn't exist");
	reap_once(&w->d, &next, &w->e);
	assert_int_equal(world_state(w, a.id), 0);
	assert_int_equal(world_events(w, a.id, "orphaned", NULL, 0), 1);
	world_create(w, 600, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	fake_drop(w->pool, a.machine);
	assert_fails(w, resume(w, a.id, &minute, &b, &resumed), ERR_NOT_FOUND, "doesn't exist");
	reap_once(&w->d, &next, &w->e);
	world_create(w, 600, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	fake_drop(w->pool, a.machine);
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(world_rows(w), 0);
	world_agrees(w);
}

/* Rows that a program left half-made when it died. */
static void test_repair(void **state)
{
	struct sandbox_spec s = { .auto_pause = true, .timeout_s = 10 };
	struct world *w = *state;
	struct sandbox_rec a, b, c;
	int64_t next;

	world_create(w, 600, &a);
	world_create(w, 600, &b);
	create_with(w, &s, &c);
	put_state(w, a.id, SB_PAUSING, true);
	assert_done(w, sandbox_pause(&w->d, NULL, b.id, false, &w->e));
	put_state(w, b.id, SB_RESUMING, false);
	world_advance(w, 61 * US_PER_S);
	w->pool->refuse_pause = ERR_CONFLICT;        /* at the end of a lease that is tried again, with the memory at last */
	assert_int_equal(reap_once(&w->d, &next, &w->e), 3);
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_int_equal(world_state(w, c.id), SB_PAUSING);
	w->pool->refuse_pause = ERR_NONE;
	put_state(w, a.id, SB_PAUSING, true);
	world_advance(w, 61 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 3);
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	assert_int_equal(world_state(w, b.id), SB_PAUSED);
	assert_int_equal(world_state(w, c.id), SB_PAUSED);
	assert_int_equal(next, -1);
	assert_int_equal(world_events(w, b.id, "lifecycle.paused", NULL, 0), 1);
	world_agrees(w);
}

/* The node was away at the end of the lease: done when it is back, without waiting for the next try. */
static void test_away(void **state)
{
	struct sandbox_spec s = { .auto_pause = true, .timeout_s = 10 };
	struct world *w = *state;
	struct sandbox_rec a;
	int64_t next;

	create_with(w, &s, &a);
	w->pool->down = true;
	world_advance(w, 11 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), SB_PAUSING);
	assert_true(next > domain_now(&w->d));
	w->pool->down = false;
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(world_state(w, a.id), SB_PAUSED);
	world_agrees(w);
}

static int on_listed(void *ctx, const char *id, const struct sandbox_glance *g, struct err *e)
{
	char *text = ctx;

	(void)e;
	snprintf(text + strlen(text), 100, "%.4s%s ", id, g->state == SB_RUNNING ? "+" : "-");
	return 0;
}

static int listed(struct world *w, bool running, bool paused, uint64_t *total)
{
	struct sandbox_query q = { .want_running = running, .want_paused = paused };
	char text[1000] = "", next[200];
	int n = 0;

	assert_done(w, sandbox_list(&w->d, w->team.id, &q, on_listed, text, next, total, &w->e));
	for (const char *p = text; *p != '\0'; p++)
		n += *p == '+' ? 1 : *p == '-' ? 100 : 0;
	return n;
}

static void test_list(void **state)
{
	struct sandbox_spec s = { .auto_pause = true, .timeout_s = 10 };
	struct world *w = *state;
	struct sandbox_rec r[5];
	uint64_t total;

	for (int i = 0; i < 4; i++)
		world_create(w, 600, &r[i]);
	create_with(w, &s, &r[4]);
	assert_done(w, sandbox_pause(&w->d, NULL, r[0].id, true, &w->e));
	assert_done(w, sandbox_pause(&w->d, NULL, r[1].id, true, &w->e));
	put_state(w, r[1].id, SB_RESUMING, true);
	put_state(w, r[2].id, SB_PAUSING, true);
	world_advance(w, 11 * US_PER_S);             /* the last one's lease is over, and nobody has reaped it */
	assert_int_equal(listed(w, true, true, &total), 401);
	assert_int_equal(listed(w, true, false, NULL), 1);
	assert_int_equal(listed(w, false, true, NULL), 300);
}

/* ---- races ---- */

struct racer {
	struct world *w;
	const char *id;
	int what;
	pthread_barrier_t *gate;
	int status, rounds;
	bool resumed, bad;
	struct err e;
};

static void step(struct racer *r, int what)
{
	struct resume_spec s = { .seconds = 30 + r->what, .auto_pause = -1 };
	struct world *w = r->w;
	struct sandbox_rec out;
	int64_t next;

	switch (what) {
	case 0:
		r->status = sandbox_pause(&w->d, w->team.id, r->id, true, &r->e);
		break;
	case 1:
		r->status = sandbox_resume(&w->d, &w->team, r->id, &s, &out, &r->resumed, &r->e);
		if (r->status == 0)
			sandbox_rec_release(&out);
		break;
	case 2:
		r->status = sandbox_set_timeout(&w->d, &w->team, r->id, 20, &r->e);
		break;
	case 3:
		r->status = reap_once(&w->d, &next, &r->e) < 0 ? -1 : 0;
		break;
	case 4:
		r->status = sandbox_wake(&w->d, r->id, &out, &r->e);
		if (r->status == 0)
			sandbox_rec_release(&out);
		break;
	default:
		r->status = sandbox_kill(&w->d, w->team.id, r->id, "request", &r->e);
	}
	/* whatever comes first, each answer is one of these */
	if (r->status < 0 && r->e.kind != ERR_NOT_FOUND && r->e.kind != ERR_CONFLICT)
		r->bad = true;
}

static void *racing(void *p)
{
	struct racer *r = p;

	pthread_barrier_wait(r->gate);
	for (int i = 0; i < r->rounds; i++)
		step(r, r->rounds > 1 ? (r->what + i) % 5 : r->what);
	return NULL;
}

static void race(struct world *w, const char *id, int n, const int *what, int rounds, struct racer *r)
{
	pthread_t thread[24];
	pthread_barrier_t gate;

	pthread_barrier_init(&gate, NULL, (unsigned)n);
	for (int i = 0; i < n; i++) {
		r[i] = (struct racer){ .w = w, .id = id, .what = what[i], .gate = &gate, .rounds = rounds };
		assert_int_equal(pthread_create(&thread[i], NULL, racing, &r[i]), 0);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		if (r[i].bad)
			fail_msg("client %d: kind %d: %s", i, r[i].e.kind, r[i].e.text);
	}
	pthread_barrier_destroy(&gate);
}

/* Twenty clients that pause: one pause, no error but for who comes late. */
static void test_pauses_join(void **state)
{
	struct world *w = *state;
	struct racer r[20];
	struct sandbox_rec a;
	int what[20] = { 0 };

	world_create(w, 600, &a);
	w->pool->pause_us = 20000;
	race(w, a.id, 20, what, 1, r);
	for (int i = 0; i < 20; i++)
		assert_true(r[i].status == 0 || r[i].e.kind == ERR_CONFLICT);
	assert_int_equal(w->pool->calls[FAKE_HIBERNATE], 1);
	assert_int_equal(world_events(w, a.id, "lifecycle.paused", NULL, 0), 1);
	world_agrees(w);
}

/* Twenty clients that connect, or send requests: one resume, all served. */
static void test_resumes_share(void **state)
{
	struct sandbox_spec s = { .auto_resume = true, .timeout_s = 600 };
	struct world *w = *state;
	struct racer r[20];
	struct sandbox_rec a, got;
	int what[20];

	create_with(w, &s, &a);
	assert_done(w, sandbox_pause(&w->d, NULL, a.id, true, &w->e));
	w->pool->pause_us = 20000;
	for (int i = 0; i < 20; i++)
		what[i] = i % 2 == 0 ? 1 : 4;
	race(w, a.id, 20, what, 1, r);
	for (int i = 0; i < 20; i++)
		assert_int_equal(r[i].status, 0);
	assert_int_equal(w->pool->calls[FAKE_WAKE], 1);
	assert_int_equal(world_events(w, a.id, "lifecycle.resumed", NULL, 0), 1);
	world_row(w, a.id, &got);
	assert_int_equal(got.state, SB_RUNNING);
	world_agrees(w);
}

/* Everything at once, with and without a kill in between: one outcome, nothing stuck, machine and row agree. */
static void test_melee(void **state)
{
	static const int with_kill[20] = { 0, 1, 2, 3, 4, 0, 1, 2, 5, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 5 };
	static const int without[20] = { 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4 };
	struct sandbox_spec s = { .auto_resume = true, .auto_pause = true, .timeout_s = 30 };
	struct world *w = *state;
	struct racer r[20];

	w->pool->pause_us = 500;
	for (int round = 0; round < 12; round++) {
		const bool kill = round % 2 == 0;
		struct sandbox_rec a, got;
		int at;

		create_with(w, &s, &a);
		if (round % 4 >= 2)
			world_advance(w, 30 * US_PER_S);
		race(w, a.id, 20, kill ? with_kill : without, kill ? 1 : 8, r);
		at = world_state(w, a.id);
		if (kill) {
			assert_int_equal(at, 0);
			assert_false(fake_has(w->pool, a.machine));
			continue;
		}
		assert_true(at == SB_RUNNING || at == SB_PAUSED);
		assert_int_equal(fake_sleeps(w->pool, a.machine), at == SB_PAUSED);
		assert_int_equal(world_events(w, a.id, "lifecycle.paused", NULL, 0) - world_events(w, a.id, "lifecycle.resumed", NULL, 0),
				 at == SB_PAUSED);
		world_row(w, a.id, &got);
		assert_int_equal(got.due_us, at == SB_PAUSED ? 0 : got.end_us);
		sandbox_rec_release(&got);
		assert_done(w, sandbox_kill(&w->d, NULL, a.id, "request", &w->e));
	}
	world_agrees(w);
	assert_int_equal(world_rows(w), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_pause), T(test_audit_aligns), T(test_audit_cannot_wake), T(test_resume), T(test_reboot), T(test_kill_paused), T(test_killing),
		T(test_pause_resuming), T(test_limit), T(test_auto_pause), T(test_spec),
		T(test_traffic), T(test_pool_fails), T(test_gone), T(test_repair), T(test_away), T(test_list), T(test_pauses_join),
		T(test_resumes_share), T(test_melee),
	};

	return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
