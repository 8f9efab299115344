/* The life of a sandbox: create, look, move the lease, kill. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/json.h"
#include "hutch/when.h"

static void test_create(void **state)
{
	struct sandbox_spec s = {
		.template_ref = "base", .timeout_s = 300, .secure = true, .metadata = "{ \"user id\": \"a&b\", \"\\u00e4\":\"\" }",
		.env = "{\"A\":\"1\"}", .allow_internet = true, .allow_internet_set = true,
	};
	struct world *w = *state;
	struct sandbox_rec r, got;
	struct template_rec t;
	char token[TOKEN_LEN], event[2000];
	json_object *o, *data = NULL;

	assert_done(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e));
	assert_int_equal(strlen(r.id), 21);
	assert_int_equal(r.id[0], 'i');
	assert_int_equal(r.state, SB_RUNNING);
	assert_string_equal(r.metadata, "{\"user id\":\"a&b\",\"\xc3\xa4\":\"\"}");
	assert_int_equal(r.end_us - r.started_us, 300 * US_PER_S);
	assert_int_equal(r.due_us, r.end_us);
	assert_in_range(domain_now(&w->d) - r.started_us, 0, 60 * US_PER_S);
	assert_true(fake_has(w->pool, r.machine));
	sandbox_token(&w->d, r.id, token);
	assert_string_equal(w->pool->last_token, token);
	assert_string_equal(w->pool->last_env, "{\"A\":\"1\"}");
	assert_done(w, sandbox_get(&w->d, w->team.id, r.id, &got, &w->e));
	assert_string_equal(got.machine, r.machine);
	assert_string_equal(got.alias, "base");
	assert_true(got.secure && got.allow_internet && got.allow_internet_set && !got.auto_pause);
	sandbox_rec_release(&got);
	assert_int_equal(world_events(w, r.id, "sandbox.lifecycle.created", event, sizeof event), 1);
	assert_done(w, json_read(event, strlen(event), &o, &w->e));
	assert_string_equal(json_object_get_string(json_object_object_get(o, "sandboxTeamId")), w->team.id);
	assert_string_equal(json_object_get_string(json_object_object_get(o, "sandboxTemplateId")), w->base.id);
	assert_true(json_object_object_get_ex(o, "eventData", &data));
	assert_non_null(json_object_object_get(json_object_object_get(data, "sandbox_metadata"), "user id"));
	json_object_put(o);
	assert_done(w, template_resolve(&w->d, &w->team, "base", &t, &w->e));
	assert_int_equal(t.spawn_count, 1);
	assert_int_equal(t.spawned_us, r.started_us);
	template_rec_release(&t);
	sandbox_rec_release(&r);
	world_agrees(w);
}

static void test_open_one(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 1 };
	struct world *w = *state;
	struct sandbox_rec r;
	char event[2000];

	assert_done(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e));
	assert_string_equal(w->pool->last_token, "-");
	assert_string_equal(w->pool->last_env, "-");
	assert_null(r.metadata);
	assert_int_equal(world_events(w, r.id, "created", event, sizeof event), 1);
	assert_non_null(strstr(event, "\"eventData\":null"));
}

/* A refused create leaves nothing behind. */
static void test_refusals(void **state)
{
	static const struct { struct sandbox_spec s; enum err_kind kind; const char *text; } bad[] = {
		{ { .template_ref = "base" }, ERR_INVALID, "Timeout must be greater than 0" },
		{ { .template_ref = "base", .timeout_s = -5 }, ERR_INVALID, "Timeout must be greater than 0" },
		{ { .template_ref = "base", .timeout_s = 24 * 3600 + 1 }, ERR_INVALID, "Timeout cannot be greater than 24 hours" },
		{ { .template_ref = "x", .timeout_s = 0 }, ERR_NOT_FOUND, "template 'x' not found" },
		{ { .template_ref = "old", .timeout_s = 5, .secure = true }, ERR_INVALID, "secure" },
		{ { .template_ref = "base", .timeout_s = 5, .metadata = "[]" }, ERR_INVALID, "metadata" },
		{ { .template_ref = "base", .timeout_s = 5, .metadata = "{\"a\":1}" }, ERR_INVALID, "metadata: the value of \"a\"" },
		{ { .template_ref = "base", .timeout_s = 5, .env = "{\"a\":\"\\u0000\"}" }, ERR_INVALID, "envVars" },
		{ { .template_ref = "base", .timeout_s = 5, .env = "{" }, ERR_INVALID, "envVars" },
	};
	struct template_spec old = { .alias = "old", .image = "host", .envd_version = "0.1.9" };
	struct world *w = *state;
	struct template_rec t;
	struct sandbox_rec r;

	assert_done(w, template_enrol(&w->d, &old, &t, &w->e));
	template_rec_release(&t);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_fails(w, sandbox_create(&w->d, &w->team, &bad[i].s, &r, &w->e), bad[i].kind, bad[i].text);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->calls[FAKE_CLAIM], 0);
}

static char *map_of(const char *key, size_t key_len, size_t value_len)
{
	char *s = malloc(key_len + value_len + 20);
	size_t n = (size_t)sprintf(s, "{\"%s", key);

	while (n < key_len + 2)
		s[n++] = 'k';
	n += (size_t)sprintf(s + n, "\":\"");
	memset(s + n, 'v', value_len);
	strcpy(s + n + value_len, "\"}");
	return s;
}

static void test_bounds(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 5 };
	struct world *w = *state;
	struct sandbox_rec r;
	char *big = map_of("", 256, 65000), *long_key = map_of("", 257, 1), *too_big = map_of("", 10, 65536);

	s.metadata = s.env = big;
	assert_done(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e));
	assert_string_equal(r.metadata, big);
	sandbox_rec_release(&r);
	s.metadata = long_key;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_INVALID, "metadata: a key is longer than 256 bytes");
	s.metadata = too_big;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_INVALID, "metadata is larger than 65536 bytes");
	s.metadata = NULL;
	s.env = too_big;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_INVALID, "envVars is larger than 65536 bytes");
	free(big);
	free(long_key);
	free(too_big);
	world_agrees(w);
}

static void test_limit(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 60 };
	struct world *w = *state;
	struct sandbox_rec r[3];

	w->team.max_sandboxes = 2;
	world_create(w, 60, &r[0]);
	world_create(w, 60, &r[1]);
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r[2], &w->e), ERR_LIMIT,
		     "you have reached the maximum number of concurrent E2B sandboxes (2)");
	assert_int_equal(w->e.retry_s, 1);
	assert_done(w, sandbox_kill(&w->d, w->team.id, r[0].id, "request", &w->e));
	world_create(w, 60, &r[2]);
	world_agrees(w);
}

static void fill_up(void *ctx, const char *ref)
{
	struct world *w = ctx;
	struct sandbox_rec r;

	(void)ref;
	w->pool->in_claim = NULL;
	w->pool->late = false;
	world_create(w, 60, &r);
	w->pool->late = true;
	sandbox_rec_release(&r);
}

static void fill_up_and_lose(void *ctx, const char *ref)
{
	struct world *w = ctx;

	fill_up(ctx, ref);
	w->pool->lose_answer = true;
}

/* The last place goes to another while the machine of this one was asked for: it is given back. */
static void test_limit_late(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 60 };
	struct world *w = *state;
	struct sandbox_rec r;

	w->team.max_sandboxes = 1;
	w->pool->late = true;
	w->pool->in_claim = fill_up;
	w->pool->ctx = w;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_LIMIT, "maximum number of concurrent");
	assert_int_equal(w->pool->calls[FAKE_RELEASE], 1);
	assert_int_equal(w->pool->n, 1);
	assert_int_equal(world_rows(w), 1);
	/* the same, and the answer to the claim is lost, too */
	w->team.max_sandboxes = 2;
	w->pool->in_claim = fill_up_and_lose;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_LIMIT, "maximum number of concurrent");
	w->pool->lose_answer = false;
	assert_int_equal(w->pool->calls[FAKE_RELEASE] + w->pool->calls[FAKE_RELEASE_REF], 2);
	assert_int_equal(w->pool->n, 2);
	assert_int_equal(world_rows(w), 2);
	world_agrees(w);
}

/* The answer is there at once, so that nothing was reserved while it was awaited. */
static void test_hasty(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 60 };
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->hasty = true;
	world_create(w, 60, &r);
	assert_int_equal(world_state(w, r.id), SB_RUNNING);
	w->pool->lose_answer = true;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_TIMEOUT, "Failed to place sandbox");
	assert_string_equal(w->e.code, "sandbox_placement_timeout");
	assert_int_equal(w->pool->n, 1);             /* the other machine was given back */
	assert_int_equal(world_rows(w), 1);
	world_agrees(w);
}

/* What the pool's failures become, and that they leave neither row nor machine. */
static void test_pool_fails(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 60 };
	struct world *w = *state;
	struct sandbox_rec r;
	int64_t next;

	w->pool->down = true;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_UNAVAILABLE, "Failed to place sandbox: the machine pool does not answer");
	w->pool->down = false;
	w->pool->full = true;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_UNAVAILABLE, "Failed to place sandbox");
	assert_string_equal(w->e.code, "sandbox_capacity_unavailable");
	w->pool->full = false;
	w->pool->refuse = ERR_INVALID;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_UNAVAILABLE, "Failed to place sandbox");
	assert_string_equal(w->e.code, "sandbox_no_compatible_node");
	w->pool->refuse = ERR_CONFLICT;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_UNAVAILABLE, "Failed to place sandbox");
	w->pool->refuse = ERR_INTERNAL;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_INTERNAL, "Failed to place sandbox");
	assert_string_equal(w->e.code, "sandbox_create_failed");
	w->pool->refuse = ERR_NONE;
	w->pool->forgets = true;
	w->pool->templates = 0;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_INTERNAL, "unknown template");
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	w->pool->forgets = false;
	/* the answer is lost, the machine is there: the row stays for the reaper */
	w->pool->lose_answer = true;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_TIMEOUT, "Failed to place sandbox");
	assert_string_equal(w->e.code, "sandbox_placement_timeout");
	assert_int_equal(w->pool->n, 1);
	assert_int_equal(world_rows(w), 1);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

static void end_starting(void *ctx, const char *ref)
{
	struct world *w = ctx;
	int64_t next;

	world_advance(w, 61 * US_PER_S);             /* the repair age is over */
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, ref), 0);
}

/* A start that took longer than the repair age finds its row gone and gives the machine back. */
static void test_repaired_under_way(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 60 };
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->in_claim = end_starting;
	w->pool->ctx = w;
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_UNAVAILABLE, "ended while it started");
	assert_int_equal(w->pool->n, 0);
	assert_int_equal(world_rows(w), 0);
	assert_int_equal(world_events(w, "sandboxId", "lifecycle", NULL, 0), 0);
	world_agrees(w);
}

static void test_get(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r, got;
	struct team_rec b;
	char key[45];

	assert_done(w, team_make(&w->d, "B", &b, key, &w->e));
	world_create(w, 60, &r);
	assert_fails(w, sandbox_get(&w->d, b.id, r.id, &got, &w->e), ERR_NOT_FOUND, "doesn't exist or you don't have access to it");
	assert_non_null(strstr(w->e.text, r.id));
	assert_done(w, sandbox_get(&w->d, NULL, r.id, &got, &w->e));
	assert_fails(w, sandbox_get(&w->d, w->team.id, "izzzzzzzzzzzzzzzzzzzz", &got, &w->e), ERR_NOT_FOUND, "Sandbox \"izz");
	assert_fails(w, sandbox_get(&w->d, w->team.id, "", &got, &w->e), ERR_NOT_FOUND, "Sandbox");
	world_advance(w, 60 * US_PER_S);             /* over, though not reaped */
	assert_fails(w, sandbox_get(&w->d, w->team.id, r.id, &got, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, r.id, 60, &w->e), ERR_NOT_FOUND, "doesn't exist");
	assert_fails(w, sandbox_extend(&w->d, &w->team, r.id, 60, &got, &w->e), ERR_NOT_FOUND, "doesn't exist");
}

static void test_kill(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	struct team_rec b;
	char key[45], event[2000];

	assert_done(w, team_make(&w->d, "B", &b, key, &w->e));
	world_freeze(w);
	world_create(w, 60, &r);
	assert_fails(w, sandbox_kill(&w->d, b.id, r.id, "request", &w->e), ERR_NOT_FOUND, r.id);
	world_advance(w, 1500 * US_PER_MS);
	assert_done(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e));
	assert_int_equal(world_state(w, r.id), 0);
	assert_int_equal(w->pool->n, 0);
	assert_fails(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e), ERR_NOT_FOUND, r.id);
	assert_int_equal(world_events(w, r.id, "sandbox.lifecycle.killed", event, sizeof event), 1);
	assert_non_null(strstr(event, "\"kill_reason\":\"request\""));
	assert_non_null(strstr(event, "\"execution_time\":1500"));
	assert_non_null(strstr(event, "\"vcpu_count\":2,\"memory_mb\":1024"));
	world_agrees(w);
	world_create(w, 60, &r);
	assert_done(w, sandbox_kill(&w->d, NULL, r.id, "admin", &w->e));
	world_agrees(w);
}

/* The node is away: gone for the client at once and for good, the machine follows when the node is back. */
static void test_kill_without_node(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r, got;
	int64_t next;

	world_freeze(w);
	world_create(w, 600, &r);
	w->pool->down = true;
	assert_done(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e));
	assert_int_equal(world_state(w, r.id), SB_KILLING);
	assert_fails(w, sandbox_get(&w->d, w->team.id, r.id, &got, &w->e), ERR_NOT_FOUND, r.id);
	assert_fails(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e), ERR_NOT_FOUND, r.id);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, r.id), SB_KILLING);
	assert_true(next > domain_now(&w->d));       /* no spinning */
	assert_int_equal(reap_once(&w->d, &next, &w->e), 0);
	w->pool->down = false;
	world_advance(w, next - domain_now(&w->d));
	assert_int_equal(reap_once(&w->d, &next, &w->e), 1);
	assert_int_equal(world_state(w, r.id), 0);
	assert_int_equal(w->pool->n, 0);
	assert_int_equal(world_events(w, r.id, "killed", NULL, 0), 1);
	world_agrees(w);
}

struct killer {
	struct world *w;
	const char *id;
	pthread_barrier_t *go;
	int status;
	struct err e;
};

static void *kill_it(void *p)
{
	struct killer *k = p;

	pthread_barrier_wait(k->go);
	k->status = sandbox_kill(&k->w->d, k->w->team.id, k->id, "request", &k->e);
	return NULL;
}

/* Racing kills succeed or come too late, one event is written, nothing is left. */
static void test_kill_race(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->delay_us = 2000;
	for (int round = 0; round < 20; round++) {
		struct killer k[4];
		pthread_t thread[4];
		pthread_barrier_t go;
		int ok = 0;

		world_create(w, 60, &r);
		pthread_barrier_init(&go, NULL, 4);
		for (int i = 0; i < 4; i++) {
			k[i] = (struct killer){ .w = w, .id = r.id, .go = &go };
			pthread_create(&thread[i], NULL, kill_it, &k[i]);
		}
		for (int i = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			assert_true(k[i].status == 0 || k[i].e.kind == ERR_NOT_FOUND);
			ok += k[i].status == 0;
		}
		pthread_barrier_destroy(&go);
		assert_true(ok >= 1);
		assert_int_equal(world_events(w, r.id, "killed", NULL, 0), 1);
		assert_int_equal(world_state(w, r.id), 0);
	}
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

static int64_t end_of(struct world *w, const char *id)
{
	struct sandbox_rec r;

	world_row(w, id, &r);
	assert_int_equal(r.due_us, r.end_us);
	sandbox_rec_release(&r);
	return r.end_us;
}

static void near(struct world *w, int64_t end, int64_t seconds)
{
	assert_in_range(domain_now(&w->d) + seconds * US_PER_S - end, 0, 60 * US_PER_S);
}

static void test_timeout(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;
	char event[2000];

	w->team.max_hours = 1;
	world_create(w, 60, &r);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 600, &w->e));
	near(w, end_of(w, r.id), 600);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 30, &w->e));   /* may shorten */
	near(w, end_of(w, r.id), 30);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, INT64_MAX, &w->e));   /* capped, not refused */
	assert_int_equal(end_of(w, r.id), r.started_us + 3600 * US_PER_S);
	assert_int_equal(world_events(w, r.id, "sandbox.lifecycle.updated", event, sizeof event), 3);
	assert_non_null(strstr(event, "\"set_timeout\":\""));
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, r.id, -1, &w->e), ERR_INVALID, "timeout");
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, "inone", 5, &w->e), ERR_NOT_FOUND, "inone");
	w->team.max_hours = 0;                       /* past the longest life a team may have had cut */
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, r.id, 5, &w->e), ERR_INVALID, "Max instance length exceeded");
	w->team.max_hours = 1;
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 0, &w->e));    /* over now */
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, r.id, 5, &w->e), ERR_NOT_FOUND, r.id);
	world_agrees(w);
}

static void test_extend(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r, got;
	struct team_rec b;
	char key[45];

	assert_done(w, team_make(&w->d, "B", &b, key, &w->e));
	w->team.max_hours = 1;
	world_create(w, 60, &r);
	assert_done(w, sandbox_extend(&w->d, &w->team, r.id, 0, &got, &w->e));   /* never shortens */
	assert_int_equal(got.end_us, r.end_us);
	sandbox_rec_release(&got);
	assert_int_equal(world_events(w, r.id, "updated", NULL, 0), 0);
	assert_done(w, sandbox_extend(&w->d, &w->team, r.id, 600, &got, &w->e));
	near(w, got.end_us, 600);
	assert_int_equal(end_of(w, r.id), got.end_us);
	sandbox_rec_release(&got);
	assert_done(w, sandbox_extend(&w->d, &w->team, r.id, 7200, &got, &w->e));
	assert_int_equal(got.end_us, r.started_us + 3600 * US_PER_S);
	sandbox_rec_release(&got);
	assert_fails(w, sandbox_extend(&w->d, &b, r.id, 60, &got, &w->e), ERR_NOT_FOUND, r.id);
	world_agrees(w);
}

static void call_others(void *ctx, const char *ref)
{
	struct world *w = ctx;
	struct sandbox_rec got;

	/* not there yet for any client */
	assert_fails(w, sandbox_get(&w->d, w->team.id, ref, &got, &w->e), ERR_NOT_FOUND, ref);
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, ref, 5, &w->e), ERR_NOT_FOUND, ref);
}

static void test_starting(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r;

	w->pool->in_claim = call_others;
	w->pool->ctx = w;
	world_create(w, 60, &r);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_create), T(test_open_one), T(test_refusals), T(test_bounds), T(test_limit), T(test_limit_late), T(test_hasty), T(test_pool_fails),
		T(test_repaired_under_way), T(test_get), T(test_kill), T(test_kill_without_node), T(test_kill_race), T(test_timeout),
		T(test_extend), T(test_starting),
	};

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
