#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "scratch.h"

static void write_config(struct world *w)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof path, "%s/hutch.conf", w->dir);
	f = fopen(path, "w");
	fprintf(f, "state_dir = %s\nrun_dir = %s\ndb_size_mb = 256\nteam_sandboxes = 2000\nrepair_s = 60\n", w->dir, w->dir);
	fclose(f);
	assert_done(w, config_read(&w->conf, path, &w->e));
	assert_done(w, secret_make(w->conf.secret_file, &w->e));
}

int world_set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);
	struct template_spec base = { .alias = "base", .image = "host" };

	scratch_make(w->dir);
	write_config(w);
	w->pool = fake_state_new();
	assert_done(w, domain_open_with(&w->d, &w->conf, fake_pool_new(w->pool), &w->e));
	assert_done(w, team_make(&w->d, NULL, &w->team, w->key, &w->e));
	assert_done(w, template_enrol(&w->d, &base, &w->base, &w->e));
	*state = w;
	return 0;
}

int world_tear_down(void **state)
{
	struct world *w = *state;

	template_rec_release(&w->base);
	domain_close(&w->d);
	config_release(&w->conf);
	fake_state_free(w->pool);
	scratch_remove(w->dir);
	free(w);
	return 0;
}

void world_advance(struct world *w, int64_t us)
{
	if (atomic_load(w->d.clock) != 0)
		atomic_fetch_add(w->d.clock, us);
	else
		w->d.anchor_wall_us += us;
}

void world_freeze(struct world *w)
{
	atomic_store(w->d.clock, domain_now(&w->d));
}

void world_reopen(struct world *w)
{
	domain_close(&w->d);
	assert_done(w, domain_open_with(&w->d, &w->conf, fake_pool_new(w->pool), &w->e));
}

void world_create(struct world *w, int64_t timeout_s, struct sandbox_rec *out)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = timeout_s };

	assert_done(w, sandbox_create(&w->d, &w->team, &s, out, &w->e));
}

static struct txn *reading(struct world *w)
{
	struct txn *t;

	assert_done(w, txn_read(w->d.store, &t, &w->e));
	return t;
}

int world_state(struct world *w, const char *id)
{
	struct txn *t = reading(w);
	struct sandbox_rec r;
	int got = store_sandbox_get(t, id, &r, &w->e), state = 0;

	txn_abort(t);
	assert_done(w, got);
	if (got == 1) {
		state = r.state;
		sandbox_rec_release(&r);
	}
	return state;
}

void world_row(struct world *w, const char *id, struct sandbox_rec *out)
{
	struct txn *t = reading(w);
	int got = store_sandbox_get(t, id, out, &w->e);

	txn_abort(t);
	assert_int_equal(got, 1);
}

static void print_problem(void *ctx, const char *text)
{
	(void)ctx;
	print_error("%s\n", text);
}

struct rows {
	struct world *w;
	int n;
};

static int on_row(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct rows *rows = ctx;

	(void)e;
	rows->n++;
	if (r->state == SB_RUNNING && !fake_has(rows->w->pool, r->machine))
		fail_msg("sandbox %s runs without its machine", r->id);
	return 0;
}

int world_rows(struct world *w)
{
	struct rows rows = { .w = w };
	struct txn *t = reading(w);
	int status = store_walk_sandboxes(t, "", on_row, &rows, &w->e);

	txn_abort(t);
	assert_done(w, status);
	return rows.n;
}

void world_agrees(struct world *w)
{
	struct txn *t = reading(w);
	int n = store_check(t, print_problem, NULL, &w->e);

	txn_abort(t);
	assert_int_equal(n, 0);
	world_rows(w);
	for (size_t i = 0; i < w->pool->n; i++)
		if (world_state(w, w->pool->machine[i].claim_ref) == 0)
			fail_msg("machine %s of %s has no row", w->pool->machine[i].id, w->pool->machine[i].claim_ref);
}

struct search {
	const char *id, *type;
	char *last;
	size_t size;
	int n;
};

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	struct search *s = ctx;
	char *text = strndup(json, n);

	(void)us;
	(void)e;
	if (strstr(text, s->id) != NULL && strstr(text, s->type) != NULL) {
		if (s->n == 0 && s->last != NULL)
			snprintf(s->last, s->size, "%s", text);
		s->n++;
	}
	free(text);
	return 0;
}

int world_events(struct world *w, const char *id, const char *type, char *last, size_t size)
{
	struct search s = { id, type, last, size, 0 };
	struct txn *t = reading(w);
	int status = store_walk_events(t, w->team.id, on_event, &s, &w->e);

	txn_abort(t);
	assert_done(w, status);
	return s.n;
}
