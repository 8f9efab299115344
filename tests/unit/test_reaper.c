/* The program hutch-reaper over real records, with a stand-in of the node. Skipped when the program is not built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "reaper_program.h"

static int ended(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return status;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (world_set_up((void **)&f->w) < 0)
		return -1;
	double_start(&f->n, f->w->pool, f->w->conf.node_socket);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	void *w = f->w;

	if (f->pid > 0) {
		kill(f->pid, SIGTERM);
		assert_int_equal(ended(f->pid), 0);
	}
	double_stop(&f->n);
	world_tear_down(&w);
	free(f);
	return 0;
}

/* Up when it has looked at the node for the first time. */
static void start(struct fixture *f)
{
	f->pid = reaper_run(f->w);
	wait_for(f->w->pool->templates == 1 && f->w->pool->calls[FAKE_LIST] > 0);
}

/* Running sandboxes with machines, numbered from..to, whose leases end at end_us. Past the API, which counts in seconds. */
static void leases(struct world *w, int from, int to, int64_t end_us)
{
	struct txn *t;

	assert_done(w, txn_write(w->d.store, &t, &w->e));
	for (int i = from; i <= to; i++) {
		struct sandbox_rec r = { .state = SB_RUNNING, .started_us = domain_now(&w->d), .end_us = end_us, .due_us = end_us };

		snprintf(r.id, sizeof r.id, "i%020d", i);
		snprintf(r.machine, sizeof r.machine, "sb_%020d", i);
		memcpy(r.team, w->team.id, sizeof r.team);
		fake_add(w->pool, r.machine, r.id, wall_us());
		assert_done(w, store_sandbox_put(t, NULL, &r, &w->e));
	}
	assert_done(w, txn_commit(t, &w->e));
}

static void kill_hard(struct fixture *f)
{
	kill(f->pid, SIGKILL);
	ended(f->pid);
	f->pid = 0;
}

static void test_lease(void **state)
{
	struct fixture *f = *state;
	int64_t worst = 0;

	start(f);
	for (int i = 1; i <= 5; i++) {
		int64_t end = domain_now(&f->w->d) + 60 * US_PER_MS, late;
		char id[SANDBOX_ID_LEN];

		leases(f->w, i, i, end);
		reaper_nudge(&f->w->d);
		snprintf(id, sizeof id, "i%020d", i);
		wait_for(world_state(f->w, id) == 0);
		late = domain_now(&f->w->d) - end;
		worst = late > worst ? late : worst;
	}
	print_message("lease ends acted on at most %lld us late\n", (long long)worst);
	assert_int_equal(f->w->pool->n, 0);
	world_agrees(f->w);
}

static void test_many(void **state)
{
	struct fixture *f = *state;
	int64_t end;

	start(f);
	end = domain_now(&f->w->d) + US_PER_S;
	f->w->pool->delay_us = 3000;
	leases(f->w, 1, 1000, end);
	reaper_nudge(&f->w->d);
	wait_for(f->w->pool->n == 0);
	print_message("1000 leases of one instant: all machines gone %lld ms later\n", (long long)(domain_now(&f->w->d) - end) / 1000);
	wait_for(world_rows(f->w) == 0);
	world_agrees(f->w);
}

static void test_node_away(void **state)
{
	struct fixture *f = *state;

	start(f);
	double_stop(&f->n);
	leases(f->w, 1, 20, domain_now(&f->w->d));
	reaper_nudge(&f->w->d);
	wait_for(world_events(f->w, "", "killed", NULL, 0) == 20);
	assert_int_equal(f->w->pool->n, 20);
	double_start(&f->n, f->w->pool, f->w->conf.node_socket);
	wait_for(f->w->pool->n == 0);
	wait_for(world_rows(f->w) == 0);
	world_agrees(f->w);
}

/* A node that takes calls and never answers delays no lease end. */
static void test_node_silent(void **state)
{
	struct fixture *f = *state;
	int seen;

	start(f);
	atomic_store(&f->n.silent, true);
	seen = atomic_load(&f->n.requests);
	leases(f->w, 1, 20, domain_now(&f->w->d));
	reaper_nudge(&f->w->d);
	wait_for(atomic_load(&f->n.requests) > seen);
	leases(f->w, 21, 21, domain_now(&f->w->d));
	reaper_nudge(&f->w->d);
	/* while the calls hang, which they do for ten seconds: it need not be quick, but before any of them is given up */
	wait_for(world_state(f->w, "i00000000000000000021") == SB_KILLING || atomic_load(&f->n.given_up) > 0);
	assert_int_equal(world_state(f->w, "i00000000000000000021"), SB_KILLING);
	atomic_store(&f->n.silent, false);
	wait_for(world_rows(f->w) == 0);
	world_agrees(f->w);
}

/* It ends though a call to the node hangs, and what was under way is finished by the next one. */
static void test_stop_silent(void **state)
{
	struct fixture *f = *state;
	int64_t began;
	int seen;

	start(f);
	atomic_store(&f->n.silent, true);
	seen = atomic_load(&f->n.requests);
	leases(f->w, 1, 4, domain_now(&f->w->d));
	reaper_nudge(&f->w->d);
	wait_for(atomic_load(&f->n.requests) > seen);
	began = boot_us();
	kill(f->pid, SIGTERM);
	assert_int_equal(ended(f->pid), 0);
	assert_in_range(boot_us() - began, 0, 9 * US_PER_S);         /* a call hangs for ten, and it needs no time but the machine's */
	f->pid = 0;
	atomic_store(&f->n.silent, false);
	f->pid = reaper_run(f->w);
	wait_for(world_rows(f->w) == 0);
	world_agrees(f->w);
}

/* Killed and started anew, it goes on; what another program left half-made is taken back. */
static void test_kill_9(void **state)
{
	struct fixture *f = *state;
	struct sandbox_rec r = { .id = "iaaaaaaaaaaaaaaaaaaaa", .state = SB_STARTING, .started_us = 1, .due_us = 1 };
	struct txn *t;

	start(f);
	f->w->pool->delay_us = 20000;
	leases(f->w, 1, 50, domain_now(&f->w->d));
	reaper_nudge(&f->w->d);
	wait_for(f->w->pool->n < 45);
	kill_hard(f);
	memcpy(r.team, f->w->team.id, sizeof r.team);
	fake_add(f->w->pool, "sb_half", r.id, wall_us());
	assert_done(f->w, txn_write(f->w->d.store, &t, &f->w->e));
	assert_done(f->w, store_sandbox_put(t, NULL, &r, &f->w->e));
	assert_done(f->w, txn_commit(t, &f->w->e));
	start(f);
	wait_for(world_rows(f->w) == 0);
	assert_int_equal(f->w->pool->n, 0);
	assert_int_equal(world_events(f->w, "", "killed", NULL, 0), 50);
	world_agrees(f->w);
}

static void test_one_only(void **state)
{
	struct fixture *f = *state;
	int status;

	start(f);
	status = ended(reaper_run(f->w));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_lease), T(test_many), T(test_node_away), T(test_node_silent), T(test_stop_silent), T(test_kill_9), T(test_one_only),
	};

	if (access(reaper_program(), X_OK) != 0) {
		fprintf(stderr, "%s is not there\n", reaper_program());
		return 77;
	}
	return cmocka_run_group_tests_name("reaper", tests, NULL, NULL);
}
