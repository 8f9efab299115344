/* The pool kind `node` against a stand-in of hutch-node on a unix socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <cmocka.h>

#include "node_double.h"
#include "nodehttp.h"
#include "scratch.h"
#include "hutch/json.h"

#define ID "iaaaaaaaaaaaaaaaaaaaa"

struct fixture {
	char dir[64], path[90];
	struct node_double n;
	struct fake_state *state;
	struct pool *p;
	struct pool_shape shape;
	struct pool_init init;
	struct err e;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	scratch_make(f->dir);
	snprintf(f->path, sizeof f->path, "%s/node.sock", f->dir);
	f->state = fake_state_new();
	f->shape = (struct pool_shape){ "tttttttttttttttttttt", "/img", "[\"a b\"]", 8080, 1, 512, 64, 2, NULL };
	f->init = (struct pool_init){ .sandbox_id = ID, .template_id = "tttttttttttttttttttt", .token = "tok", .env = "{\"A\":\"\xc3\xa4\"}",
				      .default_user = "user", .default_workdir = "/home/user" };
	double_start(&f->n, f->state, f->path);
	assert_int_equal(pool_open(f->path, &f->p, &f->e), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	pool_close(f->p);
	double_stop(&f->n);
	fake_state_free(f->state);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

static int claim(struct fixture *f, char machine[MACHINE_ID_LEN], bool *unsure)
{
	return pool_claim(f->p, &f->shape, ID, &f->init, machine, unsure, &f->e);
}

static void claimed(struct fixture *f, char machine[MACHINE_ID_LEN])
{
	bool unsure;

	if (claim(f, machine, &unsure) < 0)
		fail_msg("%s", f->e.text);
}

static void test_calls(void **state)
{
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN], again[MACHINE_ID_LEN];
	char (*there)[TEMPLATE_ID_LEN];
	struct pool_machine *m;
	size_t n;
	bool unsure;

	assert_int_equal(claim(f, machine, &unsure), -1);
	assert_int_equal(f->e.kind, ERR_NOT_FOUND);
	assert_false(unsure);
	assert_int_equal(pool_set_shapes(f->p, &f->shape, 1, &f->e), 0);
	assert_string_equal(f->n.method, "PUT");
	assert_string_equal(f->n.body, "{\"pools\":[{\"template\":\"tttttttttttttttttttt\",\"image\":\"/img\",\"cpu_count\":1,"
			    "\"memory_mb\":512,\"disk_mb\":64,\"warm\":2,\"command\":[\"a b\"],\"ready_port\":8080}]}");
	assert_int_equal(pool_templates(f->p, &there, &n, &f->e), 0);
	assert_int_equal(n, 1);
	assert_string_equal(there[0], f->shape.template_id);
	free(there);
	claimed(f, machine);
	assert_string_equal(f->n.method, "POST");
	assert_string_equal(f->n.body, "{\"template\":\"tttttttttttttttttttt\",\"claim_ref\":\"" ID "\",\"init\":{\"op\":\"init\",\"sandboxId\":\"" ID
			    "\",\"templateId\":\"tttttttttttttttttttt\",\"accessToken\":\"tok\",\"envVars\":{\"A\":\"\xc3\xa4\"},"
			    "\"defaultUser\":\"user\",\"defaultWorkdir\":\"/home/user\",\"hostname\":\"" ID "\",\"cpuCount\":1,"
			    "\"memoryMB\":512}}");
	claimed(f, again);
	assert_string_equal(machine, again);
	assert_int_equal(pool_list(f->p, &m, &n, &f->e), 0);
	assert_int_equal(n, 1);
	assert_string_equal(m[0].id, machine);
	assert_string_equal(m[0].claim_ref, ID);
	assert_int_equal(m[0].claimed_us, f->state->machine[0].claimed_us);
	free(m);
	assert_int_equal(pool_open_port(f->p, machine, 3000, &f->e), 0);
	assert_string_equal(f->n.method, "PUT");
	assert_non_null(strstr(f->n.target, "/ports/3000"));
	assert_int_equal(pool_release(f->p, machine, NULL, &f->e), 0);
	assert_string_equal(f->n.method, "POST");
	assert_int_equal(f->state->n, 0);
	assert_int_equal(pool_release(f->p, machine, NULL, &f->e), 0);     /* not there is fine */
	claimed(f, machine);
	assert_int_equal(pool_release_ref(f->p, ID, &f->e), 0);
	assert_int_equal(f->state->n, 0);
	assert_int_equal(pool_release_ref(f->p, ID, &f->e), 0);
}

/* A thread's connection is kept. libcurl may give one up now and then; without keeping there would be one for each call. */
static void test_kept(void **state)
{
	struct fixture *f = *state;
	struct pool_machine *m;
	size_t n;

	for (int i = 0; i < 200; i++) {
		assert_int_equal(pool_list(f->p, &m, &n, &f->e), 0);
		free(m);
	}
	assert_int_equal(atomic_load(&f->n.requests), 200);
	assert_in_range(atomic_load(&f->n.connections), 1, 20);
}

static void test_open_token(void **state)
{
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN];

	f->init.token = f->init.env = NULL;
	assert_int_equal(pool_set_shapes(f->p, &f->shape, 1, &f->e), 0);
	claimed(f, machine);
	assert_null(strstr(f->n.body, "accessToken"));
	assert_non_null(strstr(f->n.body, "\"envVars\":{}"));
}

static void test_statuses(void **state)
{
	static const struct { int status; const char *reply; enum err_kind kind; const char *text, *code; } cases[] = {
		{ 400, "{\"error\":\"bad shape\"}", ERR_INVALID, "bad shape", NULL },
		{ 404, "{\"error\":\"unknown template\"}", ERR_NOT_FOUND, "unknown template", NULL },
		{ 409, "{\"error\":\"busy\"}", ERR_CONFLICT, "busy", NULL },
		{ 429, "{\"error\":\"no capacity\"}", ERR_UNAVAILABLE, "no capacity", "sandbox_capacity_unavailable" },
		{ 503, "", ERR_UNAVAILABLE, "answers 503", NULL },
		{ 500, "<html>", ERR_INTERNAL, "answers 500", NULL },
		{ 500, "[]", ERR_INTERNAL, "answers 500", NULL },
		{ 500, "{\"error\":5}", ERR_INTERNAL, "answers 500", NULL },
		{ 302, "{}", ERR_INTERNAL, "answers 302", NULL },
	};
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN];
	bool unsure;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		f->n.reply = cases[i].reply;
		atomic_store(&f->n.status, cases[i].status);
		assert_int_equal(claim(f, machine, &unsure), -1);
		assert_int_equal(f->e.kind, cases[i].kind);
		assert_non_null(strstr(f->e.text, cases[i].text));
		assert_false(unsure);
		if (cases[i].code != NULL)
			assert_string_equal(f->e.code, cases[i].code);
		else
			assert_null(f->e.code);
	}
}

/* Answers that say yes and cannot be made out: a machine may be there. */
static void test_garbage(void **state)
{
	static const char *const claims[] = { "", "x", "{}", "[]", "{\"id\":5}", "{\"id\":\"\"}", "{\"id\":\"../x\"}", "{\"id\":\"a b\"}",
		"{\"id\":\"0123456789012345678901234567890123\"}", "{\"redirect\":[\"10.0.0.1:7777\"]}" };
	static const char *const lists[] = { "", "{}", "{\"sandboxes\":{}}", "{\"sandboxes\":[5]}", "{\"sandboxes\":[{}]}",
		"{\"sandboxes\":[{\"id\":\"x/y\"}]}" };
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN];
	struct pool_machine *m;
	bool unsure;
	size_t n;

	atomic_store(&f->n.status, 200);
	for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
		f->n.reply = claims[i];
		assert_int_equal(claim(f, machine, &unsure), -1);
		assert_int_equal(f->e.kind, ERR_INTERNAL);
		assert_true(unsure);
	}
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		f->n.reply = lists[i];
		assert_int_equal(pool_list(f->p, &m, &n, &f->e), -1);
		assert_int_equal(f->e.kind, ERR_INTERNAL);
	}
	f->n.reply = "{\"sandboxes\":[{\"id\":\"sb_1\",\"claim_ref\":\"an/other-control-plane\",\"claimed_at\":\"x\"},{\"id\":\"sb_2\"}]}";
	assert_int_equal(pool_list(f->p, &m, &n, &f->e), 0);
	assert_int_equal(n, 2);
	assert_string_equal(m[0].claim_ref, "");
	assert_int_equal(m[0].claimed_us, 0);
	free(m);
	assert_int_equal(pool_release(f->p, "../../x", NULL, &f->e), -1);
	assert_int_equal(pool_release_ref(f->p, "a&b", &f->e), -1);
	assert_int_equal(pool_open_port(f->p, "sb_1", 0, &f->e), -1);
}

static void test_away(void **state)
{
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN];
	bool unsure;

	assert_int_equal(pool_set_shapes(f->p, &f->shape, 1, &f->e), 0);
	double_stop(&f->n);
	assert_int_equal(claim(f, machine, &unsure), -1);
	assert_int_equal(f->e.kind, ERR_UNAVAILABLE);
	assert_non_null(strstr(f->e.text, "does not answer"));
	assert_false(unsure);
	double_start(&f->n, f->state, f->path);      /* back: the kept connection is dead, nobody notices */
	claimed(f, machine);
	for (int i = 0; i < 5; i++) {
		double_stop(&f->n);
		double_start(&f->n, f->state, f->path);
		claimed(f, machine);
	}
	atomic_store(&f->n.cut, true);
	assert_int_equal(claim(f, machine, &unsure), -1);
	assert_int_equal(f->e.kind, ERR_UNAVAILABLE);
	assert_non_null(strstr(f->e.text, "broke off"));
	assert_true(unsure);
	atomic_store(&f->n.cut, false);
	claimed(f, machine);
}

static void test_silent(void **state)
{
	struct fixture *f = *state;
	const struct node_call post = { .method = "POST", .path = "/v1/claim", .body = "{}", .len = 2 };
	const struct node_call get = { .method = "GET", .path = "/v1/info" };
	struct node_reply r;
	struct nodehttp *h;
	bool sent = false;

	atomic_store(&f->n.silent, true);
	for (long ms = 400; !sent && ms < 200000; ms *= 5) {             /* on a busy machine sending takes its time */
		assert_int_equal(nodehttp_open(f->path, ms, &h, &f->e), 0);
		assert_int_equal(nodehttp_call(h, &post, &r, &sent, &f->e), -1);
		nodehttp_close(h);
	}
	assert_int_equal(f->e.kind, ERR_TIMEOUT);
	assert_true(sent);
	atomic_store(&f->n.silent, false);
	assert_int_equal(nodehttp_open(f->path, 180000, &h, &f->e), 0);  /* and so does answering */
	assert_int_equal(nodehttp_call(h, &get, &r, &sent, &f->e), 0);
	assert_int_equal(r.status, 200);
	nodehttp_close(h);
}

struct waiting {
	struct fixture *f;
	int called;
};

static void end_silence(void *ctx)
{
	struct waiting *v = ctx;

	v->called++;
	atomic_store(&v->f->n.silent, false);
}

/* The node answers only once the caller has done what it had to do meanwhile: so it is done while the answer is awaited, and once. */
static void test_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct waiting v = { f, 0 };
	char machine[MACHINE_ID_LEN];
	bool unsure;

	assert_int_equal(pool_set_shapes(f->p, &f->shape, 1, &f->e), 0);
	for (int i = 1; i <= 3; i++) {
		atomic_store(&f->n.silent, true);
		f->init.meanwhile = end_silence;
		f->init.ctx = &v;
		assert_int_equal(claim(f, machine, &unsure), 0);
		assert_int_equal(v.called, i);
		f->init.meanwhile = NULL;             /* without it, nothing is called */
		claimed(f, machine);
		assert_int_equal(v.called, i);
	}
	double_stop(&f->n);
	f->init.meanwhile = end_silence;
	assert_int_equal(claim(f, machine, &unsure), -1);
	assert_false(unsure);
	assert_int_equal(v.called, 3);                /* nothing went out */
	double_start(&f->n, f->state, f->path);
	f->init.meanwhile = NULL;
	claimed(f, machine);
	assert_int_equal(v.called, 3);
}

static void *silent_for(void *n)
{
	sleep(11);
	atomic_store(&((struct node_double *)n)->silent, false);
	return NULL;
}

/* Writing back a disk may take longer than a call does else. */
static void test_long_pause(void **state)
{
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN];
	pthread_t t;

	assert_int_equal(pool_set_shapes(f->p, &f->shape, 1, &f->e), 0);
	claimed(f, machine);
	atomic_store(&f->n.silent, true);
	assert_int_equal(pthread_create(&t, NULL, silent_for, &f->n), 0);
	if (pool_hibernate(f->p, machine, false, &f->e) < 0)
		fail_msg("%s", f->e.text);
	pthread_join(t, NULL);
}

static void test_long_list(void **state)
{
	struct fixture *f = *state;
	struct pool_machine *m;
	char id[MACHINE_ID_LEN];
	size_t n;

	for (int i = 0; i < FAKE_MACHINES; i++) {
		snprintf(id, sizeof id, "sb_%d", i);
		fake_add(f->state, id, ID, 1);
	}
	assert_int_equal(pool_list(f->p, &m, &n, &f->e), 0);
	assert_int_equal(n, FAKE_MACHINES);
	assert_string_equal(m[FAKE_MACHINES - 1].id, id);
	free(m);
}

static void *many_calls(void *p)
{
	struct fixture *f = p;
	struct err e;

	for (int i = 0; i < 50; i++)
		if (pool_release(f->p, "sb_none", NULL, &e) < 0)
			return p;
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	pthread_t thread[6];
	void *failed;

	for (int i = 0; i < 6; i++)
		pthread_create(&thread[i], NULL, many_calls, f);
	for (int i = 0; i < 6; i++) {
		pthread_join(thread[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(atomic_load(&f->n.requests), 300);
}

/* Their requests and answers; a claim from one names no template. */
static void test_checkpoints(void **state)
{
	static const char *const garbage[] = { "", "{}", "{\"checkpoint\":5}", "{\"checkpoint\":{}}", "{\"checkpoint\":{\"id\":\"../x\"}}" };
	struct fixture *f = *state;
	char machine[MACHINE_ID_LEN];
	struct pool_checkpoint c, *all;
	bool unsure;
	size_t n;

	assert_int_equal(pool_checkpoints(f->p, &all, &n, &f->e), 0);
	assert_int_equal(n, 0);
	free(all);
	atomic_store(&f->n.status, 200);
	f->n.reply = "{\"checkpoint\":{\"id\":\"ck_1\",\"name\":\"a-b\",\"bytes\":77,\"created_at\":\"2026-01-02T03:04:05Z\"},\"still_us\":1}";
	assert_int_equal(pool_checkpoint(f->p, "sb_1", "a-b", 1000, &c, &unsure, &f->e), 0);
	assert_string_equal(f->n.method, "POST");
	assert_string_equal(f->n.target, "/v1/sandboxes/sb_1/checkpoint");
	assert_string_equal(f->n.body, "{\"name\":\"a-b\",\"max_bytes\":1000}");
	assert_string_equal(c.id, "ck_1");
	assert_int_equal(c.bytes, 77);
	assert_int_equal(c.created_us, 1767323045000000);
	for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
		f->n.reply = garbage[i];
		assert_int_equal(pool_checkpoint(f->p, "sb_1", "a", 1, &c, &unsure, &f->e), -1);
		assert_true(unsure);
	}
	f->n.reply = "{\"checkpoints\":[{\"id\":\"ck_1\",\"name\":\"x\"},{\"id\":\"ck_2\",\"name\":\"a name of somebody else that is longer\"}]}";
	assert_int_equal(pool_checkpoints(f->p, &all, &n, &f->e), 0);
	assert_int_equal(n, 2);
	assert_string_equal(all[0].name, "x");
	assert_string_equal(all[1].name, "");
	free(all);
	f->n.reply = "{\"id\":\"sb_2\"}";
	f->shape.checkpoint = "ck_1";
	assert_int_equal(claim(f, machine, &unsure), 0);
	assert_string_equal(f->n.target, "/v1/checkpoints/ck_1/claim");
	assert_null(strstr(f->n.body, "\"template\""));
	f->shape.checkpoint = "../x";
	assert_int_equal(claim(f, machine, &unsure), -1);
	assert_int_equal(pool_checkpoint(f->p, "../x", "a", 1, &c, &unsure, &f->e), -1);
	assert_int_equal(pool_checkpoint_drop(f->p, "../x", &f->e), -1);
	f->n.reply = "{\"error\":\"the disk holds 5 bytes\"}";
	atomic_store(&f->n.status, 413);
	assert_int_equal(pool_checkpoint(f->p, "sb_1", "a", 1, &c, &unsure, &f->e), -1);
	assert_int_equal(f->e.kind, ERR_LIMIT);
	atomic_store(&f->n.status, 404);
	assert_int_equal(pool_checkpoint_drop(f->p, "ck_1", &f->e), 0);      /* not there is fine */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_calls), T(test_kept), T(test_open_token), T(test_statuses), T(test_garbage), T(test_away), T(test_silent), T(test_meanwhile),
		T(test_long_pause), T(test_long_list), T(test_threads), T(test_checkpoints),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
