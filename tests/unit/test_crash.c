/* Programs killed in the middle: what they leave is repaired, and rows, indexes, counts and machines agree again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

/* Repair and audit until nothing is left to do. */
static void repair(struct world *w)
{
	int64_t next;

	w->pool->kill_before = w->pool->kill_after = w->pool->kill_midway = 0;
	world_advance(w, (w->conf.repair_s + 1) * US_PER_S);
	assert_true(reap_once(&w->d, &next, &w->e) >= 0);
	assert_done(w, audit_once(&w->d, &w->e));
	/* machines of the test are seconds old by the wall clock; the audit frees them by age */
	w->conf.repair_s = 0;
	assert_done(w, audit_once(&w->d, &w->e));
	w->conf.repair_s = 60;
}

enum deed { CREATE, KILL, REAP };

/* A child with records and pool of its own does it, and dies where the pool's state says. Returns whether it was killed. */
static bool child_does(struct world *w, enum deed deed, const char *id)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 600 };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sandbox_rec r;
		struct domain d;
		struct err e;
		int64_t next;

		if (domain_open_with(&d, &w->conf, fake_pool_new(w->pool), &e) < 0)
			_exit(2);
		d.anchor_wall_us = w->d.anchor_wall_us;
		if (deed == CREATE)
			_exit(sandbox_create(&d, &w->team, &s, &r, &e) < 0);
		if (deed == KILL)
			_exit(sandbox_kill(&d, w->team.id, id, "request", &e) < 0);
		_exit(reap_once(&d, &next, &e) < 0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		fail_msg("the child failed: %d", WEXITSTATUS(status));
	return WIFSIGNALED(status);
}

/* A create dies with so many rows and machines made. */
static void create_dies(struct world *w, size_t rows, size_t machines)
{
	assert_done(w, template_push_shapes(&w->d, &w->e));
	assert_true(child_does(w, CREATE, NULL));
	assert_int_equal(world_rows(w), rows);
	assert_int_equal(w->pool->n, machines);
	repair(w);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

static void test_create(void **state)
{
	struct world *w = *state;

	w->pool->kill_before = 1 + FAKE_CLAIM;
	create_dies(w, 0, 0);
	w->pool->kill_midway = 1 + FAKE_CLAIM;               /* reserved, and not claimed */
	create_dies(w, 1, 0);
	w->pool->late = true;
	w->pool->kill_midway = 1 + FAKE_CLAIM;               /* claimed, and not reserved */
	create_dies(w, 0, 1);
	w->pool->kill_after = 1 + FAKE_CLAIM;                /* both, before the commit */
	create_dies(w, 1, 1);
	w->pool->late = false;
	assert_int_equal(world_events(w, "", "lifecycle", NULL, 0), 0);   /* no client ever saw it */
}

static void kill_at(struct world *w, bool before, enum deed deed)
{
	struct sandbox_rec r;

	world_create(w, 600, &r);
	w->pool->kill_before = before ? 1 + FAKE_RELEASE : 0;
	w->pool->kill_after = before ? 0 : 1 + FAKE_RELEASE;
	if (deed == REAP)
		world_advance(w, 600 * US_PER_S);
	assert_true(child_does(w, deed, r.id));
	assert_int_equal(world_state(w, r.id), SB_KILLING);
	repair(w);
	assert_int_equal(world_state(w, r.id), 0);
	assert_int_equal(w->pool->n, 0);
	assert_int_equal(world_events(w, r.id, "killed", NULL, 0), 1);
	world_agrees(w);
}

static void test_kill(void **state)
{
	kill_at(*state, true, KILL);
	kill_at(*state, false, KILL);
}

static void test_reap(void **state)
{
	kill_at(*state, true, REAP);
	kill_at(*state, false, REAP);
}

#define ROUNDS 25
#define WORK 120                     /* half of them stay: in all rounds fewer than the team may have */

/* Creates and kills, many more than there is time for as a rule; then it waits to be killed. Acknowledged ones are written to the pipe: 'c' and
 * 'k' with the id. */
static void work(struct world *w, int out)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 600, .metadata = "{\"a\":\"b\"}" };
	struct domain d;
	struct err e;

	if (domain_open_with(&d, &w->conf, fake_pool_new(w->pool), &e) < 0)
		_exit(2);
	d.anchor_wall_us = w->d.anchor_wall_us;
	for (unsigned i = 0; i < WORK; i++) {
		char line[32];
		struct sandbox_rec r;

		if (sandbox_create(&d, &w->team, &s, &r, &e) < 0)
			_exit(3);
		snprintf(line, sizeof line, "c%s", r.id);
		if (write(out, line, 22) != 22)
			_exit(4);
		sandbox_rec_release(&r);
		if (i % 2 == 0)
			continue;
		if (sandbox_kill(&d, w->team.id, r.id, "request", &e) < 0)
			_exit(5);
		line[0] = 'k';
		if (write(out, line, 22) != 22)
			_exit(4);
	}
	for (;;)
		pause();
}

/* Nothing acknowledged is lost: created ones run unless they were killed. */
static void check_acknowledged(struct world *w, int in)
{
	char line[23] = "", killing[23] = "";
	int created = 0;

	while (read(in, line, 22) == 22) {
		if (line[0] == 'c') {
			snprintf(killing, sizeof killing, "%s", line);
			created++;
			continue;
		}
		if (world_state(w, line + 1) != 0)
			fail_msg("%s was killed and is there", line + 1);
		killing[0] = '\0';
	}
	assert_true(created >= 0);
}

static void random_kill(struct world *w, unsigned us)
{
	struct timespec t = { .tv_nsec = us * 1000L };
	int pipe_fd[2], status;
	char first[22];
	pid_t pid;

	assert_int_equal(pipe(pipe_fd), 0);
	pid = fork();
	if (pid == 0)
		work(w, pipe_fd[1]);
	close(pipe_fd[1]);
	assert_int_equal(read(pipe_fd[0], first, 22), 22);   /* it is at work */
	nanosleep(&t, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	repair(w);
	check_acknowledged(w, pipe_fd[0]);
	close(pipe_fd[0]);
	world_agrees(w);
}

/* Killed at any instant, in the middle of commits too. */
static void test_any_instant(void **state)
{
	struct world *w = *state;
	unsigned us = 0;

	assert_done(w, template_push_shapes(&w->d, &w->e));
	for (int i = 0; i < ROUNDS; i++) {
		us = (us * 7 + 331) % 2000;
		random_kill(w, us);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = { T(test_create), T(test_kill), T(test_reap), T(test_any_instant) };

	return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
