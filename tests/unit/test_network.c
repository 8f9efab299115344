/* Network rules of a sandbox: what the pool is told, what the row says, and that both agree whatever fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

#define ALLOW "[\"192.0.2.1\"]"
#define DENY "[\"0.0.0.0/0\"]"

static const struct sandbox_spec some = { .allow_out = ALLOW, .deny_out = DENY, .wants = WANT_BIT(WANT_ALLOW_OUT) | WANT_BIT(WANT_DENY_OUT) };
static const struct sandbox_spec none = { .allow_out = NULL };

static void create(struct world *w, const struct sandbox_spec *more, struct sandbox_rec *out)
{
	struct sandbox_spec s = *more;

	s.template_ref = "base";
	s.timeout_s = 600;
	assert_done(w, sandbox_create(&w->d, &w->team, &s, out, &w->e));
}

static int change(struct world *w, const char *id, const struct sandbox_spec *s)
{
	return sandbox_set_network(&w->d, &w->team, id, s, &w->e);
}

static void same(const char *a, const char *b)
{
	assert_string_equal(a != NULL ? a : "", b != NULL ? b : "");
}

/* Row and machine agree, and nothing is on its way. */
static void holds(struct world *w, const char *id, const char *allow, const char *deny)
{
	struct sandbox_rec r;

	world_row(w, id, &r);
	same(r.allow_out, allow);
	same(r.deny_out, deny);
	same(w->pool->last_allow, allow);
	same(w->pool->last_deny, deny);
	assert_int_equal(r.net_due_us, 0);
	assert_int_equal(r.due_us, r.end_us);
	sandbox_rec_release(&r);
	world_agrees(w);
}

static void test_rules(void **state)
{
	const struct sandbox_spec off = { .allow_out = ALLOW, .deny_out = "[\"9.9.9.9\"]", .allow_internet_set = true,
					  .wants = WANT_BIT(WANT_ALLOW_OUT) | WANT_BIT(WANT_DENY_OUT) };
	struct world *w = *state;
	struct sandbox_rec r;
	char event[4096];

	w->pool->can = CAP_NET_RULES;
	create(w, &some, &r);
	holds(w, r.id, ALLOW, DENY);
	assert_done(w, change(w, r.id, &none));      /* what is left out is cleared */
	holds(w, r.id, NULL, NULL);
	assert_int_equal(world_events(w, r.id, "sandbox.lifecycle.updated", event, sizeof event), 1);
	assert_non_null(strstr(event, "\"network_egress\":{\"allowed_cidrs\":[],\"denied_cidrs\":[],\"allowed_domains\":[]}"));
	assert_done(w, change(w, r.id, &off));       /* no internet takes the place of what was denied */
	holds(w, r.id, ALLOW, DENY);
	sandbox_rec_release(&r);
	create(w, &off, &r);
	holds(w, r.id, ALLOW, DENY);
	sandbox_rec_release(&r);
}

static void test_refused(void **state)
{
	struct world *w = *state;
	struct sandbox_spec s = some;
	struct sandbox_rec r;

	w->pool->can = 0;
	create(w, &none, &r);
	assert_fails(w, change(w, r.id, &some), ERR_INVALID, "option network.allowOut cannot be had in pool local");
	s.template_ref = "base";
	s.timeout_s = 60;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &(struct sandbox_rec){ .state = 0 }, &w->e), ERR_INVALID, "network.allowOut");
	assert_done(w, change(w, r.id, &none));
	w->pool->can = CAP_NET_RULES;
	assert_done(w, sandbox_pause(&w->d, w->team.id, r.id, true, &w->e));
	assert_fails(w, change(w, r.id, &some), ERR_NOT_FOUND, "");
	assert_fails(w, change(w, "i00000000000000000000", &some), ERR_NOT_FOUND, "");
	w->pool->down = true;
	assert_fails(w, change(w, r.id, &some), ERR_UNAVAILABLE, "");
	w->pool->down = false;
	sandbox_rec_release(&r);
}

/* A change that fails, or of which nobody knows: the reaper brings the rules of before back. */
static void test_undone(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->can = CAP_NET_RULES;
	create(w, &some, &r);
	w->pool->lose_network = true;
	assert_fails(w, change(w, r.id, &none), ERR_TIMEOUT, "");
	same(w->pool->last_allow, "");
	w->pool->lose_network = false;
	assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 1);
	holds(w, r.id, ALLOW, DENY);
	w->pool->refuse_network = ERR_CONFLICT;
	assert_fails(w, change(w, r.id, &none), ERR_INVALID, "network");
	assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 1);
	w->pool->refuse_network = ERR_NONE;
	holds(w, r.id, ALLOW, DENY);
	sandbox_rec_release(&r);
}

/* Killed before or after the machine has the new rules: they are those of the row in the end, and a lease that is moved meanwhile holds. */
static void test_crash(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->can = CAP_NET_RULES;
	create(w, &some, &r);
	for (int after = 0; after < 2; after++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			struct domain d;

			if (domain_open_with(&d, &w->conf, fake_pool_new(w->pool), &w->e) < 0)
				_exit(2);
			d.anchor_wall_us = w->d.anchor_wall_us;
			*(after ? &w->pool->kill_after : &w->pool->kill_before) = 1 + FAKE_NETWORK;
			sandbox_set_network(&d, &w->team, r.id, &none, &w->e);
			_exit(1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		w->pool->kill_before = w->pool->kill_after = 0;
		assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 1000, &w->e));
		world_agrees(w);                     /* a change under way is no contradiction */
		assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 0);
		world_advance(w, w->conf.repair_s * US_PER_S);
		assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 1);
		assert_int_equal(world_state(w, r.id), SB_RUNNING);
		holds(w, r.id, ALLOW, DENY);
	}
	sandbox_rec_release(&r);
}

static struct world *late;

/* The reaper gave it up while the machine was still at it. */
static void too_late(void *ctx)
{
	(void)ctx;
	late->pool->in_network = NULL;
	world_advance(late, late->conf.repair_s * US_PER_S);
	assert_int_equal(reap_once(&late->d, &(int64_t){ 0 }, &late->e), 1);
}

static void test_late(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->can = CAP_NET_RULES;
	create(w, &some, &r);
	late = w;
	w->pool->in_network = too_late;
	assert_fails(w, change(w, r.id, &none), ERR_CONFLICT, "took too long");
	assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 1);
	holds(w, r.id, ALLOW, DENY);
	sandbox_rec_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rules, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_refused, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_undone, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_crash, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_late, world_set_up, world_tear_down),
	};

	return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
