/* Snapshots: taken, listed, started from, deleted; and what is left when a program dies in the middle. */
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

#include "world.h"

#include "hutch/when.h"

static const struct resume_spec minute = { .seconds = 60, .auto_pause = -1 };

static int take(struct world *w, const char *id, const char *name, struct snapshot_info *out)
{
	return sandbox_snapshot(&w->d, &w->team, id, &(struct snapshot_spec){ .name = name }, out, &w->e);
}

static int start_from(struct world *w, const char *ref, struct sandbox_rec *out)
{
	struct sandbox_spec s = { .template_ref = ref, .timeout_s = 60 };

	return sandbox_create(&w->d, &w->team, &s, out, &w->e);
}

struct rows { char id[40][400], name[40][300]; size_t n; };

static int on_info(void *ctx, const struct snapshot_info *s, struct err *e)
{
	struct rows *r = ctx;

	(void)e;
	snprintf(r->id[r->n], sizeof r->id[0], "%s", s->id);
	snprintf(r->name[r->n++], sizeof r->name[0], "%s", s->name);
	return 0;
}

static size_t list(struct world *w, const char *sandbox, const char *name, struct rows *r)
{
	struct snapshot_query q = { .sandbox = sandbox, .name = name, .limit = 3 };
	char next[PAGE_TOKEN_LEN], token[PAGE_TOKEN_LEN];

	r->n = 0;
	do {
		size_t had = r->n;

		assert_done(w, snapshot_list(&w->d, &w->team, &q, on_info, r, next, &w->e));
		assert_true(r->n - had <= 3 && (next[0] == '\0' || r->n - had == 3));
		memcpy(token, next, sizeof token);
		q.next_token = token;
	} while (next[0] != '\0');
	return r->n;
}

static void test_take(void **state)
{
	struct world *w = *state;
	struct snapshot_info s, t;
	struct sandbox_rec a, b, got;
	char event[2000], id[60];
	struct rows r;

	w->pool->checkpoint_bytes = 1000;
	world_create(w, 60, &a);
	assert_done(w, take(w, a.id, NULL, &s));
	assert_string_equal(s.name, "");
	assert_int_equal(strlen(s.id), 20 + 8);
	assert_string_equal(s.id + 20, ":default");
	world_row(w, a.id, &got);
	assert_int_equal(got.state, SB_RUNNING);
	assert_int_equal(got.due_us, a.end_us);
	assert_string_equal(got.execution_id, a.execution_id);
	sandbox_rec_release(&got);
	assert_int_equal(world_events(w, a.id, "sandbox.lifecycle.checkpointed", event, sizeof event), 1);
	assert_int_equal(w->pool->checkpoints, 1);
	assert_int_equal(list(w, NULL, NULL, &r), 1);
	assert_string_equal(r.id[0], s.id);
	world_agrees(w);
	/* its forms: with the tag, the raw id, the build id */
	assert_done(w, start_from(w, s.id, &b));
	assert_string_equal(b.template_id, a.template_id);
	assert_string_equal(b.alias, "base");
	assert_string_not_equal(b.build_id, a.build_id);
	assert_int_equal(b.cpu_count, a.cpu_count);
	assert_string_equal(w->pool->last_checkpoint, w->pool->checkpoint[0].id);
	snprintf(id, sizeof id, "%.20s", s.id);
	assert_done(w, start_from(w, id, &got));
	sandbox_rec_release(&got);
	snprintf(id, sizeof id, "%.20s:%s", s.id, b.build_id);
	assert_done(w, start_from(w, id, &got));
	sandbox_rec_release(&got);
	snprintf(id, sizeof id, "%.20s:other", s.id);
	assert_fails(w, start_from(w, id, &got), ERR_NOT_FOUND, "tag 'other' does not exist");
	/* of one that was started from a snapshot: the template below is the same */
	assert_done(w, take(w, b.id, NULL, &t));
	assert_done(w, start_from(w, t.id, &got));
	assert_string_equal(got.template_id, a.template_id);
	sandbox_rec_release(&got);
	assert_int_equal(list(w, b.id, NULL, &r), 1);
	assert_string_equal(r.id[0], t.id);
	/* gone with all that it keeps, whoever started from it */
	assert_done(w, template_delete(&w->d, &w->team, s.id, &w->e));
	assert_int_equal(w->pool->checkpoints, 1);
	assert_fails(w, start_from(w, s.id, &got), ERR_NOT_FOUND, "not found");
	assert_fails(w, template_delete(&w->d, &w->team, s.id, &w->e), ERR_NOT_FOUND, "not found");
	assert_int_equal(world_state(w, b.id), SB_RUNNING);
	assert_int_equal(list(w, NULL, NULL, &r), 1);
	world_agrees(w);
	sandbox_rec_release(&a);
	sandbox_rec_release(&b);
}

static void test_names(void **state)
{
	struct world *w = *state;
	struct template_spec enrol = { .team = w->team.name, .alias = "mine", .image = "host" };
	struct sandbox_rec a, got;
	struct template_rec t;
	struct snapshot_info s;
	char text[200], first[40];
	struct rows r;

	world_create(w, 600, &a);
	assert_done(w, take(w, a.id, "Mine", &s));
	snprintf(text, sizeof text, "%s/mine:default", w->team.slug);
	assert_string_equal(s.id, text);
	snprintf(text, sizeof text, "%s/mine", w->team.slug);
	assert_string_equal(s.name, text);
	strcpy(first, w->pool->checkpoint[0].id);
	/* the same tag again replaces; another one stands beside it */
	assert_done(w, take(w, a.id, "mine:default", &s));
	assert_int_equal(w->pool->checkpoints, 1);
	assert_string_not_equal(w->pool->checkpoint[0].id, first);
	world_advance(w, 1);
	snprintf(text, sizeof text, "%s/mine:v1", w->team.slug);
	assert_done(w, take(w, a.id, text, &s));
	assert_string_equal(s.id, text);
	assert_int_equal(w->pool->checkpoints, 2);
	assert_int_equal(list(w, NULL, NULL, &r), 1);
	assert_string_equal(r.id[0], text);          /* the newest */
	assert_int_equal(list(w, NULL, "mine:default", &r), 1);
	assert_non_null(strstr(r.id[0], ":default"));
	assert_int_equal(list(w, NULL, "mine:other", &r), 0);
	assert_int_equal(list(w, NULL, "others", &r), 0);
	for (size_t i = 0; i < 3; i++) {
		static const char *const refs[] = { "mine", "mine:v1", NULL };

		assert_done(w, start_from(w, refs[i] != NULL ? refs[i] : text, &got));
		sandbox_rec_release(&got);
	}
	assert_fails(w, start_from(w, "mine:v2", &got), ERR_NOT_FOUND, "tag 'v2' does not exist");
	assert_fails(w, take(w, a.id, "other-team/mine", &s), ERR_INVALID, "must match your team");
	assert_fails(w, take(w, a.id, "a b", &s), ERR_INVALID, "name: ");
	assert_fails(w, take(w, a.id, "x:", &s), ERR_INVALID, "name: ");
	assert_fails(w, take(w, a.id, "x:00000000-0000-4000-8000-000000000000", &s), ERR_INVALID, "UUID");
	/* names of templates and of snapshots are one kind */
	assert_fails(w, take(w, a.id, "base", &s), ERR_CONFLICT, "that of a template");
	assert_fails(w, template_enrol(&w->d, &enrol, &t, &w->e), ERR_CONFLICT, "name of a snapshot");
	assert_done(w, template_delete(&w->d, &w->team, "mine:whatever", &w->e));
	assert_int_equal(w->pool->checkpoints, 0);
	assert_int_equal(list(w, NULL, NULL, &r), 0);
	assert_done(w, template_enrol(&w->d, &enrol, &t, &w->e));
	template_rec_release(&t);
	world_agrees(w);
	sandbox_rec_release(&a);
}

static void test_pages(void **state)
{
	struct world *w = *state;
	struct snapshot_query q = { .limit = 3, .next_token = "nonsense" };
	char made[10][400], next[PAGE_TOKEN_LEN];
	struct sandbox_rec a, b;
	struct snapshot_info s;
	struct rows r;

	world_create(w, 600, &a);
	world_create(w, 600, &b);
	for (int i = 0; i < 10; i++) {
		if (i % 3 != 0)                      /* some of one instant */
			world_advance(w, US_PER_S);
		assert_done(w, take(w, i % 2 ? a.id : b.id, NULL, &s));
		memcpy(made[i], s.id, sizeof s.id < sizeof made[0] ? sizeof s.id : sizeof made[0]);
	}
	assert_int_equal(list(w, NULL, NULL, &r), 10);
	for (int i = 0; i < 10; i++) {
		bool found = false;

		for (int k = 0; k < 10; k++)
			found = found || strcmp(r.id[i], made[k]) == 0;
		assert_true(found);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(r.id[i], r.id[k]);
	}
	assert_string_equal(r.id[0], made[9]);
	assert_int_equal(list(w, a.id, NULL, &r), 5);
	made[4][20] = '\0';
	assert_int_equal(list(w, NULL, made[4], &r), 1);
	assert_int_equal(list(w, a.id, made[4], &r), 0);
	assert_int_equal(list(w, "i00000000000000000000", NULL, &r), 0);
	assert_fails(w, snapshot_list(&w->d, &w->team, &q, on_info, &r, next, &w->e), ERR_INVALID, "Invalid next token");
	q.name = "elsewhere/x";
	assert_fails(w, snapshot_list(&w->d, &w->team, &q, on_info, &r, next, &w->e), ERR_INVALID, "must match your team");
	sandbox_rec_release(&a);
	sandbox_rec_release(&b);
}

static void test_refusals(void **state)
{
	struct world *w = *state;
	struct team_rec other;
	struct snapshot_info s;
	struct sandbox_rec a;
	struct rows r;
	char key[45];

	assert_done(w, team_make(&w->d, "other", &other, key, &w->e));
	world_create(w, 60, &a);
	assert_fails(w, take(w, "i00000000000000000000", NULL, &s), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_snapshot(&w->d, &other, a.id, &(struct snapshot_spec){ .name = NULL }, &s, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_done(w, sandbox_pause(&w->d, w->team.id, a.id, true, &w->e));
	assert_fails(w, take(w, a.id, NULL, &s), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_fork(&w->d, &w->team, a.id, 1, 15, &w->e), ERR_CONFLICT, "is paused");
	sandbox_rec_release(&a);
	world_create(w, 60, &a);
	assert_fails(w, sandbox_fork(&w->d, &w->team, a.id, 1, 15, &w->e), ERR_INVALID, "option fork cannot be had in pool local");
	assert_fails(w, sandbox_fork(&w->d, &w->team, a.id, 2000, 15, &w->e), ERR_INVALID, "count");
	assert_fails(w, sandbox_fork(&w->d, &w->team, a.id, 1, 90000, &w->e), ERR_INVALID, "Timeout");
	assert_fails(w, sandbox_fork(&w->d, &other, a.id, 1, 15, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_snapshot(&w->d, &w->team, a.id, &(struct snapshot_spec){ .memory = true }, &s, &w->e), ERR_INVALID,
		     "option memory = true cannot be had in pool local");
	/* what the pool says; and the sandbox runs on */
	w->pool->refuse_checkpoint = ERR_CONFLICT;
	assert_fails(w, take(w, a.id, "x", &s), ERR_INVALID, "Failed to snapshot sandbox: refused");
	w->pool->refuse_checkpoint = ERR_INTERNAL;
	assert_fails(w, take(w, a.id, "x", &s), ERR_INTERNAL, "Failed to snapshot sandbox");
	w->pool->refuse_checkpoint = ERR_NONE;
	w->pool->down = true;
	assert_fails(w, take(w, a.id, "x", &s), ERR_UNAVAILABLE, "Failed to snapshot sandbox");
	w->pool->down = false;
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_int_equal(list(w, NULL, NULL, &r), 0);
	assert_int_equal(world_events(w, a.id, "checkpointed", NULL, 0), 0);
	world_agrees(w);
	/* bounds */
	w->conf.team_snapshots = 2;
	w->pool->checkpoint_bytes = 600 << 10;
	w->conf.team_snapshot_mb = 1;
	w->e.retry_s = 1;
	assert_done(w, take(w, a.id, "x", &s));
	assert_fails(w, take(w, a.id, NULL, &s), ERR_LIMIT, "no more space");
	assert_int_equal(w->e.retry_s, 0);           /* only deleting one helps */
	w->pool->checkpoint_bytes = 424 << 10;
	assert_done(w, take(w, a.id, NULL, &s));
	w->conf.team_snapshots = 10;
	assert_fails(w, take(w, a.id, NULL, &s), ERR_LIMIT, "all the space that they may");
	w->conf.team_snapshot_mb = 100;
	w->conf.team_snapshots = 2;
	assert_fails(w, take(w, a.id, NULL, &s), ERR_LIMIT, "maximum number of snapshots (2)");
	assert_int_equal(w->e.retry_s, 0);
	assert_done(w, template_delete(&w->d, &w->team, "x", &w->e));
	assert_done(w, take(w, a.id, NULL, &s));
	/* another team neither sees nor deletes it, and learns from a delete that it is there (T26) */
	assert_fails(w, template_delete(&w->d, &other, s.id, &w->e), ERR_DENIED, "access");
	assert_int_equal(sandbox_create(&w->d, &other, &(struct sandbox_spec){ .template_ref = s.id, .timeout_s = 60 }, &a, &w->e), -1);
	assert_int_equal(w->e.kind, ERR_NOT_FOUND);
	w->conf.team_snapshots = 100;
}

/* ---- others at the sandbox while it is taken ---- */

struct meanwhile {
	struct world *w;
	struct sandbox_rec *a;
	pid_t child;
};

/* In a child: waits for its turn. */
static pid_t in_child(struct world *w, const char *id, bool kill)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct domain d;
		struct err e;

		if (domain_open_with(&d, &w->conf, fake_pool_new(w->pool), &e) < 0)
			_exit(2);
		d.anchor_wall_us = w->d.anchor_wall_us;
		w->pool->in_checkpoint = NULL;
		if (kill)
			_exit(sandbox_kill(&d, w->team.id, id, "request", &e) < 0);
		_exit(sandbox_pause(&d, w->team.id, id, true, &e) < 0);
	}
	return pid;
}

static void meet(void *ctx)
{
	struct meanwhile *m = ctx;
	struct world *w = m->w;
	struct sandbox_rec got;
	struct snapshot_info s;
	bool resumed;

	w->pool->in_checkpoint = NULL;
	assert_int_equal(world_state(w, m->a->id), SB_SNAPSHOTTING);
	assert_done(w, sandbox_get(&w->d, w->team.id, m->a->id, &got, &w->e));
	sandbox_rec_release(&got);
	assert_fails(w, take(w, m->a->id, NULL, &s), ERR_CONFLICT, "in transition");
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, m->a->id, 60, &w->e), ERR_CONFLICT, "in transition");
	assert_fails(w, sandbox_resume(&w->d, &w->team, m->a->id, &(struct resume_spec){ .seconds = 9, .only_paused = true, .auto_pause = -1 },
				       &got, &resumed, &w->e), ERR_CONFLICT, "snapshot");
	assert_fails(w, sandbox_fork(&w->d, &w->team, m->a->id, 1, 15, &w->e), ERR_CONFLICT, "in transition");
	assert_done(w, sandbox_wake(&w->d, m->a->id, &got, &w->e));  /* traffic */
	sandbox_rec_release(&got);
	world_agrees(w);
	m->child = in_child(w, m->a->id, m->child != 0);
	usleep(20000);                               /* it has most likely begun to wait; both ways are right */
}

static void turn(struct world *w, bool kill)
{
	struct snapshot_info s;
	struct sandbox_rec a;
	struct meanwhile m = { w, &a, kill };
	struct rows r;
	int status;

	world_create(w, 600, &a);
	w->pool->in_checkpoint = meet;
	w->pool->ctx = &m;
	assert_done(w, take(w, a.id, NULL, &s));
	waitpid(m.child, &status, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(world_state(w, a.id), kill ? 0 : SB_PAUSED);
	assert_int_equal(world_events(w, a.id, "checkpointed", NULL, 0), 1);
	assert_int_equal(world_events(w, a.id, kill ? "killed" : "paused", NULL, 0), 1);
	assert_int_equal(list(w, a.id, NULL, &r), 1);
	world_agrees(w);
	sandbox_rec_release(&a);
}

static void test_turns(void **state)
{
	turn(*state, false);
	turn(*state, true);
}

static void delete_it(void *ctx)
{
	struct world *w = ctx;

	w->pool->in_checkpoint = NULL;
	assert_done(w, template_delete(&w->d, &w->team, "x", &w->e));
}

static void kill_row(void *ctx)
{
	struct world *w = ctx;
	int killed;

	w->pool->in_checkpoint = NULL;
	assert_done(w, team_kill(&w->d, w->team.id, &killed, &w->e));
	assert_int_equal(killed, 1);
}

static void test_gone_meanwhile(void **state)
{
	struct world *w = *state;
	struct snapshot_info s;
	struct sandbox_rec a, b;
	struct rows r;
	int64_t next;

	world_create(w, 600, &a);
	w->pool->ctx = w;
	w->pool->in_checkpoint = delete_it;
	assert_fails(w, take(w, a.id, "x", &s), ERR_CONFLICT, "deleted while");
	assert_int_equal(w->pool->checkpoints, 0);
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	world_agrees(w);
	w->pool->in_checkpoint = kill_row;
	assert_done(w, take(w, a.id, "x", &s));      /* the copy is as good */
	assert_true(reap_once(&w->d, &next, &w->e) >= 0);
	assert_int_equal(world_state(w, a.id), 0);
	assert_int_equal(list(w, NULL, "x", &r), 1);
	assert_done(w, start_from(w, "x", &b));
	world_agrees(w);
	sandbox_rec_release(&a);
	sandbox_rec_release(&b);
}

/* The lease's end comes while it is taken: it ends right after. */
static void lease_over(void *ctx)
{
	struct world *w = ctx;
	int64_t next;

	w->pool->in_checkpoint = NULL;
	world_advance(w, 31 * US_PER_S);             /* and not yet the repair age */
	assert_int_equal(reap_once(&w->d, &next, &w->e), 0);
}

static void test_lease(void **state)
{
	struct world *w = *state;
	struct snapshot_info s;
	struct sandbox_rec a;
	int64_t next;

	world_create(w, 30, &a);
	w->pool->ctx = w;
	w->pool->in_checkpoint = lease_over;
	assert_done(w, take(w, a.id, NULL, &s));
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, a.id), 0);
	world_agrees(w);
	sandbox_rec_release(&a);
}

/* ---- programs that die ---- */

static void repair(struct world *w)
{
	int64_t next;

	w->pool->kill_before = w->pool->kill_after = 0;
	world_advance(w, 10 * 60 * US_PER_S);
	assert_true(reap_once(&w->d, &next, &w->e) >= 0);
	assert_done(w, audit_once(&w->d, &w->e));
}

static void die(struct world *w, int before, int after, const char *id, bool delete)
{
	int status;
	pid_t pid;

	w->pool->kill_before = before;
	w->pool->kill_after = after;
	pid = fork();
	if (pid == 0) {
		struct snapshot_info s;
		struct domain d;
		struct err e;

		if (domain_open_with(&d, &w->conf, fake_pool_new(w->pool), &e) < 0)
			_exit(2);
		d.anchor_wall_us = w->d.anchor_wall_us;
		_exit((delete ? template_delete(&d, &w->team, "x", &e) : sandbox_snapshot(&d, &w->team, id, &(struct snapshot_spec){ .name = "x" }, &s, &e)) < 0);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
}

static void test_crash(void **state)
{
	struct world *w = *state;
	struct snapshot_info s;
	struct sandbox_rec a;
	struct rows r;

	world_create(w, 6000, &a);
	for (int when = 0; when < 2; when++) {
		die(w, when == 0 ? 1 + FAKE_CHECKPOINT : 0, when == 1 ? 1 + FAKE_CHECKPOINT : 0, a.id, false);
		assert_int_equal(world_state(w, a.id), SB_SNAPSHOTTING);
		assert_int_equal(w->pool->checkpoints, when);
		assert_int_equal(list(w, NULL, NULL, &r), 0);
		world_agrees(w);
		repair(w);
		assert_int_equal(world_state(w, a.id), SB_RUNNING);
		assert_int_equal(w->pool->checkpoints, 0);
		world_agrees(w);
	}
	assert_done(w, take(w, a.id, "x", &s));
	for (int when = 0; when < 2; when++) {
		assert_done(w, take(w, a.id, "x", &s));
		die(w, when == 0 ? 1 + FAKE_CHECKPOINT_DROP : 0, when == 1 ? 1 + FAKE_CHECKPOINT_DROP : 0, a.id, true);
		assert_int_equal(list(w, NULL, NULL, &r), 0);
		world_agrees(w);
		repair(w);
		assert_int_equal(w->pool->checkpoints, 0);
		world_agrees(w);
	}
	sandbox_rec_release(&a);
}

static void test_unsure(void **state)
{
	struct world *w = *state;
	struct snapshot_info s;
	struct sandbox_rec a;
	struct rows r;

	world_create(w, 6000, &a);
	w->pool->lose_checkpoint = true;
	assert_fails(w, take(w, a.id, "x", &s), ERR_TIMEOUT, "Failed to snapshot sandbox");
	w->pool->lose_checkpoint = false;
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	assert_int_equal(w->pool->checkpoints, 1);
	world_agrees(w);
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(w->pool->checkpoints, 0);
	/* one that nobody knows goes by age; one that is another's stays; one that is gone ends its row */
	assert_done(w, take(w, a.id, "x", &s));
	w->pool->checkpoint[1] = (struct pool_checkpoint){ .id = "ck_stray", .name = "0", .created_us = 1 };
	w->pool->checkpoint[2] = (struct pool_checkpoint){ .id = "ck_young", .name = "1", .created_us = wall_us() };
	w->pool->checkpoint[3] = (struct pool_checkpoint){ .id = "ck_other", .name = "", .created_us = 1 };
	w->pool->checkpoints = 4;
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(w->pool->checkpoints, 3);
	assert_false(fake_has_checkpoint(w->pool, "ck_stray"));
	assert_int_equal(list(w, NULL, NULL, &r), 1);
	w->pool->checkpoints = 0;
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(list(w, NULL, NULL, &r), 0);
	assert_int_equal(world_state(w, a.id), SB_RUNNING);
	world_agrees(w);
	/* deleted while the pool is away: gone for clients at once, from the pool later */
	assert_done(w, take(w, a.id, "x", &s));
	w->pool->down = true;
	assert_done(w, template_delete(&w->d, &w->team, "x", &w->e));
	assert_int_equal(list(w, NULL, NULL, &r), 0);
	w->pool->down = false;
	assert_int_equal(w->pool->checkpoints, 1);
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(w->pool->checkpoints, 0);
	/* the machine is gone */
	fake_drop(w->pool, a.machine);
	assert_fails(w, take(w, a.id, "x", &s), ERR_NOT_FOUND, "doesn't exist");
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(world_state(w, a.id), 0);
	world_agrees(w);
	sandbox_rec_release(&a);
}

static void test_connect_waits(void **state)
{
	struct world *w = *state;
	struct snapshot_info s;
	struct sandbox_rec a, got;
	bool resumed;

	world_create(w, 50, &a);
	assert_done(w, take(w, a.id, NULL, &s));
	assert_done(w, sandbox_resume(&w->d, &w->team, a.id, &minute, &got, &resumed, &w->e));
	assert_false(resumed);
	sandbox_rec_release(&got);
	sandbox_rec_release(&a);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_take), T(test_names), T(test_pages), T(test_refusals), T(test_turns), T(test_gone_meanwhile), T(test_lease), T(test_crash),
		T(test_unsure), T(test_connect_waits),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
