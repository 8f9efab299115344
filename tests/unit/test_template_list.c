/* A team's templates: listed, looked up, deleted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

static void enrol(struct world *w, const char *alias, bool is_public, struct template_rec *out)
{
	struct template_spec s = { .team = w->team.name, .alias = alias, .image = "host", .is_public = is_public };

	assert_done(w, template_enrol(&w->d, &s, out, &w->e));
	template_rec_release(out);
}

struct rows { char alias[40][NAME_MAX_LEN]; size_t n; };

static int on_row(void *ctx, const struct template_rec *r, struct err *e)
{
	struct rows *l = ctx;

	(void)e;
	memcpy(l->alias[l->n++], r->alias, NAME_MAX_LEN);
	return 0;
}

static void test_list(void **state)
{
	struct world *w = *state;
	struct template_rec t;
	struct rows l = { .n = 0 };
	char next[PAGE_TOKEN_LEN] = "", key[45];
	struct team_rec other;
	int pages = 0;

	for (int i = 0; i < 7; i++) {
		char alias[16];

		snprintf(alias, sizeof alias, "t%d", i);
		world_advance(w, i == 3 ? 0 : US_PER_S);     /* two of one instant, if the clock is slow */
		enrol(w, alias, i % 2, &t);
	}
	do {
		char token[PAGE_TOKEN_LEN];

		memcpy(token, next, sizeof token);
		assert_done(w, template_list(&w->d, &w->team, 3, token[0] != '\0' ? token : NULL, on_row, &l, next, &w->e));
		pages++;
	} while (next[0] != '\0');
	assert_int_equal(pages, 3);
	assert_int_equal(l.n, 8);
	assert_string_equal(l.alias[0], "t6");
	assert_string_equal(l.alias[7], "base");
	l.n = 0;
	assert_done(w, template_list(&w->d, &w->team, 0, NULL, on_row, &l, next, &w->e));
	assert_int_equal(l.n, 8);
	assert_string_equal(next, "");
	assert_done(w, template_list(&w->d, &w->team, 8, NULL, on_row, &l, next, &w->e));
	assert_string_equal(next, "");                       /* none is behind the last one */
	assert_fails(w, template_list(&w->d, &w->team, 3, "x", on_row, &l, next, &w->e), ERR_INVALID, "Invalid next token");
	assert_done(w, team_make(&w->d, "other", &other, key, &w->e));
	l.n = 0;
	assert_done(w, template_list(&w->d, &other, 0, NULL, on_row, &l, next, &w->e));
	assert_int_equal(l.n, 0);
}

static void test_look_up(void **state)
{
	struct world *w = *state;
	struct template_alias a;
	struct template_rec t, got;
	struct team_rec other;
	char key[45], text[200];

	assert_done(w, team_make(&w->d, "other", &other, key, &w->e));
	enrol(w, "open", true, &t);
	assert_done(w, template_get(&w->d, &w->team, t.id, &got, &w->e));
	assert_string_equal(got.alias, "open");
	template_rec_release(&got);
	assert_fails(w, template_get(&w->d, &other, t.id, &got, &w->e), ERR_DENIED, "access");
	assert_fails(w, template_get(&w->d, &w->team, "open", &got, &w->e), ERR_NOT_FOUND, "not found");
	assert_done(w, template_alias(&w->d, &w->team, "open", &a, &w->e));
	assert_string_equal(a.id, t.id);
	assert_true(a.is_public);
	snprintf(text, sizeof text, "%s/open:default", w->team.slug);
	assert_done(w, template_alias(&w->d, &w->team, text, &a, &w->e));
	assert_fails(w, template_alias(&w->d, &w->team, "open:v1", &a, &w->e), ERR_NOT_FOUND, "tag 'v1'");
	assert_fails(w, template_alias(&w->d, &other, "open", &a, &w->e), ERR_DENIED, "access");
	assert_fails(w, template_alias(&w->d, &other, text, &a, &w->e), ERR_INVALID, "must match your team");
	assert_fails(w, template_alias(&w->d, &other, "nosuch", &a, &w->e), ERR_NOT_FOUND, "not found");
	assert_fails(w, template_alias(&w->d, &other, "a b", &a, &w->e), ERR_INVALID, "Invalid template reference");
}

static void test_delete(void **state)
{
	struct world *w = *state;
	struct template_rec t;
	struct sandbox_rec a;
	struct team_rec other;
	char key[45];

	assert_done(w, team_make(&w->d, "other", &other, key, &w->e));
	world_create(w, 60, &a);
	assert_fails(w, template_delete(&w->d, &w->team, "base", &w->e), ERR_INVALID, "there are sandboxes of it");
	assert_done(w, sandbox_pause(&w->d, w->team.id, a.id, true, &w->e));
	assert_fails(w, template_delete(&w->d, &w->team, "base:any", &w->e), ERR_INVALID, "there are sandboxes of it");
	assert_fails(w, template_delete(&w->d, &other, a.template_id, &w->e), ERR_DENIED, "access");
	assert_done(w, sandbox_kill(&w->d, w->team.id, a.id, "request", &w->e));
	enrol(w, "open", true, &t);
	assert_fails(w, template_delete(&w->d, &other, "open", &w->e), ERR_DENIED, "access");
	assert_fails(w, template_delete(&w->d, &w->team, "nosuch", &w->e), ERR_NOT_FOUND, "not found");
	assert_done(w, template_push_shapes(&w->d, &w->e));
	assert_int_equal(w->pool->templates, 2);
	assert_done(w, template_delete(&w->d, &w->team, "open", &w->e));
	assert_int_equal(w->pool->templates, 1);             /* the node is told */
	assert_fails(w, template_delete(&w->d, &w->team, t.id, &w->e), ERR_NOT_FOUND, "not found");
	assert_fails(w, template_resolve(&w->d, &other, "open", &t, &w->e), ERR_NOT_FOUND, "not found");
	assert_done(w, template_delete(&w->d, &w->team, w->base.id, &w->e));
	assert_fails(w, template_resolve(&w->d, &w->team, "base", &t, &w->e), ERR_NOT_FOUND, "not found");
	enrol(w, "base", false, &t);                         /* the name is free again */
	assert_string_not_equal(t.id, w->base.id);
	world_agrees(w);
	sandbox_rec_release(&a);
}

/* Rows of a mirrored account: they may have no name, or one that is another's here. */
static void test_mirrored(void **state)
{
	struct world *w = *state;
	char next[PAGE_TOKEN_LEN];
	struct rows l = { .n = 0 };
	struct template_rec r = w->base;
	struct txn *t;

	memcpy(r.id, "mmmmmmmmmmmmmmmmmmmm", sizeof r.id);
	strcpy(r.pool, POOL_UPSTREAM_NAME);
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_template_put(t, &r, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	assert_done(w, template_list(&w->d, &w->team, 0, NULL, on_row, &l, next, &w->e));
	assert_int_equal(l.n, 2);
	assert_fails(w, template_delete(&w->d, &w->team, r.id, &w->e), ERR_INVALID, "mirrored");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = { T(test_list), T(test_look_up), T(test_delete), T(test_mirrored) };

	return cmocka_run_group_tests_name("template_list", tests, NULL, NULL);
}
