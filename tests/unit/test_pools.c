/* Machine pools by name: enrolling, the default one, templates and sandboxes in each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/when.h"
#include "world.h"

static void enrol(struct world *w, const char *body)
{
	struct pool_rec p;

	assert_done(w, pool_enrol(&w->d, body, strlen(body), &p, &w->e));
	pool_rec_release(&p);
}

/* body, kind of error, part of its text */
static const struct { const char *body; enum err_kind kind; const char *names; } bad[] = {
	{ "", ERR_INVALID, "kind is required" },
	{ "[]", ERR_INVALID, "JSON object" },
	{ "{\"kind\":1}", ERR_INVALID, "kind" },
	{ "{\"kind\":\"cloud\"}", ERR_INVALID, "kind must be" },
	{ "{\"kind\":\"none\",\"replies\":[]}", ERR_INVALID, "no field \"replies\"" },
	{ "{\"kind\":\"none\",\"name\":\"\"}", ERR_INVALID, "name" },
	{ "{\"kind\":\"none\",\"name\":\"A b\"}", ERR_INVALID, "name" },
	{ "{\"kind\":\"none\",\"name\":\"local\"}", ERR_INVALID, "local" },
	{ "{\"kind\":\"light\",\"folder\":\"guest\"}", ERR_INVALID, "folder" },
	{ "{\"kind\":\"light\",\"folder\":5}", ERR_INVALID, "folder" },
	{ "{\"kind\":\"light\",\"node\":\"bin/node\"}", ERR_INVALID, "node" },
	{ "{\"kind\":\"light\",\"node\":\"\"}", ERR_INVALID, "node" },
	{ "{\"kind\":\"fake\",\"replies\":{}}", ERR_INVALID, "replies" },
	{ "{\"kind\":\"fake\",\"replies\":[1]}", ERR_INVALID, "replies[0]" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/a\"},{}]}", ERR_INVALID, "replies[1]: path is required" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"a\"}]}", ERR_INVALID, "path" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"port\":0}]}", ERR_INVALID, "port" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"status\":199}]}", ERR_INVALID, "status" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"times\":0}]}", ERR_INVALID, "times" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"method\":\"G T\"}]}", ERR_INVALID, "method" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"headers\":{\"a\":\"b\\r\\nc: d\"}}]}", ERR_INVALID, "headers" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"headers\":{\"Content-Length\":\"1\"}}]}", ERR_INVALID, "headers" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"headers\":{\"a\":1}}]}", ERR_INVALID, "headers" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"body\":\"a\",\"bodyBase64\":\"YQ==\"}]}", ERR_INVALID, "exclude" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"bodyBase64\":\"***\"}]}", ERR_INVALID, "base64" },
	{ "{\"kind\":\"fake\",\"replies\":[{\"path\":\"/\",\"unknown\":1}]}", ERR_INVALID, "unknown" },
};

static void test_bad(void **state)
{
	struct world *w = *state;
	struct pool_rec p;

	w->conf.verification = true;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_fails(w, pool_enrol(&w->d, bad[i].body, strlen(bad[i].body), &p, &w->e), bad[i].kind, bad[i].names);
	w->conf.verification = false;
	assert_fails(w, pool_enrol(&w->d, "{\"kind\":\"fake\"}", 15, &p, &w->e), ERR_DENIED, "verification");
}

static void test_replies_stored(void **state)
{
	static const char body[] = "{\"kind\":\"fake\",\"name\":\"f\",\"replies\":[{\"path\":\"/x\",\"body\":\"hi\",\"headers\":{\"A\":\"b\"},\"times\":2}]}";
	struct world *w = *state;
	struct pool_rec p;

	w->conf.verification = true;
	assert_done(w, pool_enrol(&w->d, body, strlen(body), &p, &w->e));
	assert_string_equal(p.name, "f");
	assert_int_equal(p.kind, POOL_FAKE);
	assert_string_equal(p.config, "{\"replies\":[{\"port\":49983,\"method\":\"GET\",\"path\":\"/x\",\"status\":200,\"times\":2,"
			    "\"headers\":{\"A\":\"b\"},\"bodyBase64\":\"aGk=\"}]}");
	pool_rec_release(&p);
}

/* A template without a pool follows the default one, whichever it is at the create. */
static void test_default(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b, c;

	world_create(w, 300, &a);
	assert_string_equal(a.pool, "local");
	assert_int_equal(a.pool_kind, POOL_LOCAL);
	assert_int_equal(w->pool->n, 1);
	enrol(w, "{\"kind\":\"none\"}");
	world_create(w, 300, &b);
	assert_string_equal(b.pool, "default");
	assert_int_equal(b.pool_kind, POOL_NONE);
	assert_int_equal(w->pool->n, 1);             /* no machine was claimed */
	enrol(w, "{\"kind\":\"local\"}");
	world_create(w, 300, &c);
	assert_int_equal(c.pool_kind, POOL_LOCAL);
	/* each is finished by the kind that made it */
	assert_done(w, sandbox_kill(&w->d, w->team.id, b.id, "request", &w->e));
	assert_int_equal(w->pool->n, 2);
	assert_done(w, sandbox_kill(&w->d, w->team.id, a.id, "request", &w->e));
	assert_false(fake_has(w->pool, a.machine));
	assert_true(fake_has(w->pool, c.machine));
	sandbox_rec_release(&a);
	sandbox_rec_release(&b);
	sandbox_rec_release(&c);
}

static void test_named(void **state)
{
	struct template_spec spec = { .alias = "t", .image = "registry.example/any:1", .pool = "rows", .command = "[\"sleep\",\"9\"]" };
	struct sandbox_spec s = { .template_ref = "t", .timeout_s = 10 };
	struct world *w = *state;
	struct template_rec t;
	struct sandbox_rec r;

	assert_fails(w, template_enrol(&w->d, &spec, &t, &w->e), ERR_INVALID, "pool 'rows' is not enrolled");
	enrol(w, "{\"kind\":\"none\",\"name\":\"rows\"}");
	assert_done(w, template_enrol(&w->d, &spec, &t, &w->e));
	assert_string_equal(t.pool, "rows");
	template_rec_release(&t);
	/* the local pool makes nothing of such an image, and the light one of such a command */
	spec.pool = "local";
	assert_fails(w, template_enrol(&w->d, &spec, &t, &w->e), ERR_INVALID, "image");
	enrol(w, "{\"kind\":\"light\",\"name\":\"js\"}");
	spec.pool = "js";
	spec.image = "host";
	assert_fails(w, template_enrol(&w->d, &spec, &t, &w->e), ERR_INVALID, "option command cannot be had in pool js");
	/* no machine, no shape for the node, but a row that lives, is due and ends */
	assert_done(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e));
	assert_string_equal(r.pool, "rows");
	assert_int_equal(w->pool->n, 0);
	assert_done(w, audit_once(&w->d, &w->e));
	assert_int_equal(world_state(w, r.id), SB_RUNNING);
	assert_done(w, template_push_shapes(&w->d, &w->e));
	assert_int_equal(w->pool->templates, 1);
	world_advance(w, 11 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &(int64_t){ 0 }, &w->e), 1);
	assert_int_equal(world_state(w, r.id), 0);
	sandbox_rec_release(&r);
}

/* The row says which pool it was refused for. */
static void test_refused(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 10, .wants = WANT_BIT(WANT_NET_PROXY) };
	struct world *w = *state;
	struct sandbox_rec r;

	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_DENIED,
		     "option network.egressProxy cannot be had in pool local");
	enrol(w, "{\"kind\":\"none\"}");
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_DENIED,
		     "option network.egressProxy cannot be had in pool default");
	assert_int_equal(world_rows(w), 0);
}

static int count_pool(void *ctx, const struct pool_rec *p, struct err *e)
{
	(void)e;
	strcat(strcat(ctx, p->name), " ");
	return 0;
}

static void test_walk(void **state)
{
	struct world *w = *state;
	char names[200] = "";

	enrol(w, "{\"kind\":\"none\",\"name\":\"b\"}");
	enrol(w, "{\"kind\":\"light\",\"name\":\"a\"}");
	enrol(w, "{\"kind\":\"none\",\"name\":\"a\"}");
	assert_done(w, pool_walk(&w->d, count_pool, names, &w->e));
	assert_string_equal(names, "local a b ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bad, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_replies_stored, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_default, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_named, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_refused, world_set_up, world_tear_down),
		cmocka_unit_test_setup_teardown(test_walk, world_set_up, world_tear_down),
	};

	return cmocka_run_group_tests_name("pools", tests, NULL, NULL);
}
