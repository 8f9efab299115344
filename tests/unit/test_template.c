/* Enrolling and resolving templates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "domain_int.h"

static void test_ref(void **state)
{
	static const struct { const char *text, *ns, *alias, *tag; } good[] = {
		{ "base", "", "base", "" }, { " Base ", "", "base", "" }, { "base:default", "", "base", "" },
		{ "ns/base:v1.0", "ns", "base", "v1.0" }, { "NS / base : Tag", "ns", "base", "tag" }, { "a_b-c", "", "a_b-c", "" },
	};
	static const char *const bad[] = { "", " ", "/a", "a/", "a:", ":", "a b", "a/b/c", "a:b:c", "a:b/c", "ä", "a.b", "ns/:t", "../x" };
	struct template_ref r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		if (template_ref_parse(good[i].text, &r, &e) < 0)
			fail_msg("%s: %s", good[i].text, e.text);
		assert_string_equal(r.ns, good[i].ns);
		assert_string_equal(r.alias, good[i].alias);
		assert_string_equal(r.tag, good[i].tag);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (template_ref_parse(bad[i], &r, &e) == 0)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_int_equal(e.kind, ERR_INVALID);
		assert_non_null(strstr(e.text, "Invalid template reference: "));
	}
}

static void resolves(struct world *w, const struct team_rec *team, const char *ref, const char *id)
{
	struct template_rec t;

	assert_done(w, template_resolve(&w->d, team, ref, &t, &w->e));
	assert_string_equal(t.id, id);
	template_rec_release(&t);
}

static void test_resolve(void **state)
{
	struct template_spec ours = { .alias = "mine", .image = "host" }, theirs = { .team = "B", .alias = "base", .image = "host" },
			     shared = { .team = "B", .alias = "shared", .image = "host", .is_public = true };
	struct world *w = *state;
	struct template_rec mine, b_base, pub, t;
	struct team_rec b;
	char key[45], ref[100];

	assert_done(w, team_make(&w->d, "B", &b, key, &w->e));
	assert_done(w, template_enrol(&w->d, &ours, &mine, &w->e));
	assert_done(w, template_enrol(&w->d, &theirs, &b_base, &w->e));
	assert_done(w, template_enrol(&w->d, &shared, &pub, &w->e));
	resolves(w, &w->team, "base", w->base.id);
	resolves(w, &b, "base", b_base.id);          /* own names first */
	resolves(w, &w->team, "world-team/base", w->base.id);
	resolves(w, &w->team, w->base.id, w->base.id);
	resolves(w, &w->team, "shared", pub.id);
	resolves(w, &w->team, "b/shared", pub.id);
	resolves(w, &w->team, pub.id, pub.id);
	resolves(w, &w->team, "base:default", w->base.id);
	snprintf(ref, sizeof ref, "base:%s", w->base.build_id);
	resolves(w, &w->team, ref, w->base.id);
	assert_fails(w, template_resolve(&w->d, &w->team, "nope", &t, &w->e), ERR_NOT_FOUND, "template 'nope' not found");
	assert_fails(w, template_resolve(&w->d, &w->team, "b/base", &t, &w->e), ERR_NOT_FOUND, "template 'b/base' not found");
	assert_fails(w, template_resolve(&w->d, &w->team, b_base.id, &t, &w->e), ERR_NOT_FOUND, "not found");
	assert_fails(w, template_resolve(&w->d, &b, "mine", &t, &w->e), ERR_NOT_FOUND, "not found");
	assert_fails(w, template_resolve(&w->d, &w->team, "base:v9", &t, &w->e), ERR_NOT_FOUND, "tag 'v9' does not exist for template 'base'");
	snprintf(ref, sizeof ref, "world-team/%s", w->base.id);
	assert_fails(w, template_resolve(&w->d, &w->team, ref, &t, &w->e), ERR_NOT_FOUND, "not found");
	assert_fails(w, template_resolve(&w->d, &w->team, "a b", &t, &w->e), ERR_INVALID, "Invalid template reference");
	template_rec_release(&mine);
	template_rec_release(&b_base);
	template_rec_release(&pub);
	world_agrees(w);
}

static void test_enrol_again(void **state)
{
	struct template_spec s = { .alias = "BASE", .image = "/", .command = "[\"sleep\", \"inf\"]", .cpu_count = 4, .memory_mb = 512,
				   .disk_mb = 64, .envd_version = "0.3.0", .is_public = true };
	struct world *w = *state;
	struct template_rec t;
	struct team_rec b;
	char key[45];

	assert_int_equal(w->base.cpu_count, 2);
	assert_int_equal(w->base.memory_mb, 1024);
	assert_int_equal(w->base.disk_mb, 1024);
	assert_done(w, template_enrol(&w->d, &s, &t, &w->e));
	assert_string_equal(t.id, w->base.id);
	assert_string_not_equal(t.build_id, w->base.build_id);
	assert_int_equal(t.created_us, w->base.created_us);
	assert_string_equal(t.image, "/");
	assert_string_equal(t.envd_version, "0.3.0");
	template_rec_release(&t);
	assert_done(w, team_make(&w->d, "B", &b, key, &w->e));
	resolves(w, &b, "base", w->base.id);
	s.team = "B";
	assert_fails(w, template_enrol(&w->d, &s, &t, &w->e), ERR_CONFLICT, "public name");
	s.team = NULL;
	s.is_public = false;                         /* takes the public name back */
	assert_done(w, template_enrol(&w->d, &s, &t, &w->e));
	template_rec_release(&t);
	assert_fails(w, template_resolve(&w->d, &b, "base", &t, &w->e), ERR_NOT_FOUND, "not found");
	world_agrees(w);
}

static void test_refusals(void **state)
{
	static const struct { struct template_spec s; enum err_kind kind; const char *text; } bad[] = {
		{ { .image = "host" }, ERR_INVALID, "alias is required" },
		{ { .alias = "x" }, ERR_INVALID, "image is required" },
		{ { .alias = "x y", .image = "host" }, ERR_INVALID, "alias" },
		{ { .alias = "ns/x", .image = "host" }, ERR_INVALID, "alias" },
		{ { .alias = "x:y", .image = "host" }, ERR_INVALID, "alias" },
		{ { .alias = "x", .image = "debian:12" }, ERR_INVALID, "image" },
		{ { .alias = "x", .image = "/no/such/dir" }, ERR_INVALID, "image /no/such/dir" },
		{ { .alias = "x", .image = "/etc/passwd" }, ERR_INVALID, "not a directory" },
		{ { .alias = "x", .image = "host", .command = "[1]" }, ERR_INVALID, "command" },
		{ { .alias = "x", .image = "host", .command = "[]" }, ERR_INVALID, "command" },
		{ { .alias = "x", .image = "host", .command = "{" }, ERR_INVALID, "command" },
		{ { .alias = "x", .image = "host", .command = "[\"a\\u0000b\"]" }, ERR_INVALID, "command" },
		{ { .alias = "x", .image = "host", .ready_port = 80 }, ERR_INVALID, "readyPort" },
		{ { .alias = "x", .image = "host", .command = "[\"x\"]", .ready_port = 65536 }, ERR_INVALID, "readyPort" },
		{ { .alias = "x", .image = "host", .envd_version = "1.2" }, ERR_INVALID, "envdVersion" },
		{ { .alias = "x", .image = "host", .envd_version = "1..2" }, ERR_INVALID, "envdVersion" },
		{ { .alias = "x", .image = "host", .envd_version = "v1.2.3" }, ERR_INVALID, "envdVersion" },
		{ { .alias = "x", .image = "host", .cpu_count = 33 }, ERR_INVALID, "cpuCount" },
		{ { .alias = "x", .image = "host", .memory_mb = 127 }, ERR_INVALID, "memoryMB" },
		{ { .alias = "x", .image = "host", .disk_mb = 1 }, ERR_INVALID, "diskSizeMB" },
		{ { .alias = "x", .image = "host", .team = "nobody" }, ERR_NOT_FOUND, "team 'nobody' not found" },
	};
	struct world *w = *state;
	struct template_rec t;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_fails(w, template_enrol(&w->d, &bad[i].s, &t, &w->e), bad[i].kind, bad[i].text);
	assert_fails(w, template_resolve(&w->d, &w->team, "x", &t, &w->e), ERR_NOT_FOUND, "'x'");
	world_agrees(w);
}

static void test_shapes(void **state)
{
	struct template_spec s = { .alias = "two", .image = "host" };
	struct world *w = *state;
	struct template_rec t;
	uint64_t one, two;
	bool known;

	assert_done(w, template_shapes_state(&w->d, &one, &known, &w->e));
	assert_false(known);
	assert_done(w, template_push_shapes(&w->d, &w->e));
	assert_done(w, template_shapes_state(&w->d, &two, &known, &w->e));
	assert_true(known && one == two);
	assert_done(w, template_enrol(&w->d, &s, &t, &w->e));
	template_rec_release(&t);
	assert_done(w, template_shapes_state(&w->d, &two, &known, &w->e));
	assert_true(!known && one != two);
	assert_done(w, template_push_shapes(&w->d, &w->e));
	assert_int_equal(w->pool->templates, 2);
	w->pool->down = true;
	assert_fails(w, template_push_shapes(&w->d, &w->e), ERR_UNAVAILABLE, "does not answer");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref), T(test_resolve), T(test_enrol_again), T(test_refusals), T(test_shapes),
	};

	return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
