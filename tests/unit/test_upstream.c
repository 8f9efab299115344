/* The mirrored account: webhooks from it, the budget of requests, its lists, and what they may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "domain_int.h"
#include "hutch/crypto.h"
#include "hutch/upstream.h"

#define MINUTE (60 * US_PER_S)

/* ---- webhooks ---- */

static void sign(const char *secret, const char *body, char out[64])
{
	webhook_sign(secret, body, strlen(body), out);
}

static int take(struct world *w, const char *body, const char *signature, const char *delivery, enum ingest_effect *effect)
{
	const struct ingest in = { .version = "v1", .signature = signature, .delivery = delivery, .body = body, .n = strlen(body) };

	return ingest_take(&w->d, &in, effect, &w->e);
}

static void test_signature(void **state)
{
	static const char body[] = "{\"type\":\"sandbox.lifecycle.updated\"}";
	struct world *w = *state;
	enum ingest_effect effect;
	char good[64];

	sign("s3cr3t", body, good);
	assert_fails(w, take(w, body, good, "d", &effect), ERR_UNAUTHENTICATED, "signature");    /* none is set */
	assert_done(w, ingest_secret_set(&w->d, "s3cr3t", &w->e));
	assert_done(w, take(w, body, good, "d", &effect));
	assert_int_equal(effect, INGEST_REFRESH);
	assert_done(w, take(w, body, good, "d", &effect));
	assert_int_equal(effect, INGEST_REPEATED);
	for (size_t i = 0; good[i] != '\0'; i++) {   /* every digit counts; the last one's two low bits are none of the hash's */
		const char was = good[i];

		good[i] = was == 'A' ? 'Q' : 'A';
		assert_fails(w, take(w, body, good, "e", &effect), ERR_UNAUTHENTICATED, "signature");
		good[i] = was;
	}
	assert_fails(w, take(w, body, NULL, "e", &effect), ERR_UNAUTHENTICATED, "signature");
	assert_fails(w, take(w, body, good, NULL, &effect), ERR_INVALID, "e2b-delivery-id");
	assert_done(w, ingest_secret_set(&w->d, "another", &w->e));
	assert_fails(w, take(w, body, good, "f", &effect), ERR_UNAUTHENTICATED, "signature");
	assert_done(w, ingest_secret_set(&w->d, NULL, &w->e));
	assert_fails(w, take(w, body, good, "f", &effect), ERR_UNAUTHENTICATED, "signature");
	assert_fails(w, ingest_secret_set(&w->d, "", &w->e), ERR_INVALID, "secret");
}

static int take_signed(struct world *w, const char *body, const char *delivery, enum ingest_effect *effect)
{
	char signature[64];

	sign("s", body, signature);
	return take(w, body, signature, delivery, effect);
}

static void test_kill(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b;
	enum ingest_effect effect;
	char body[256];

	assert_done(w, ingest_secret_set(&w->d, "s", &w->e));
	world_create(w, 100, &a);
	world_create(w, 100, &b);
	snprintf(body, sizeof body, "{\"type\":\"sandbox.lifecycle.killed\",\"sandbox_id\":\"%s\"}", a.id);
	assert_done(w, take_signed(w, body, "1", &effect));
	assert_int_equal(effect, INGEST_REMOVED);
	assert_int_equal(world_state(w, a.id), 0);
	assert_int_equal(world_state(w, b.id), SB_RUNNING);
	assert_done(w, take_signed(w, body, "2", &effect));  /* not there any more: acknowledged all the same */
	assert_int_equal(effect, INGEST_REMOVED);
	snprintf(body, sizeof body, "{\"type\":\"sandbox.lifecycle.killed\",\"sandboxId\":\"%s\"}", b.id);
	assert_done(w, take_signed(w, body, "2", &effect));
	assert_int_equal(effect, INGEST_REPEATED);
	assert_int_equal(world_state(w, b.id), SB_RUNNING);
	atomic_store(&w->pool->down, true);
	assert_done(w, take_signed(w, body, "3", &effect));  /* the machine is left to the reaper */
	assert_int_equal(world_state(w, b.id), SB_KILLING);
	sandbox_rec_release(&a);
	sandbox_rec_release(&b);
}

/* ---- budget ---- */

static void test_budget(void **state)
{
	struct world *w = *state;
	struct budget b;
	int64_t again;

	w->conf.upstream_per_minute = 3;
	assert_done(w, budget_get(&w->d, &b, &w->e));
	world_advance(w, b.resets_us - domain_real_now(&w->d) + 1);  /* at the start of a minute */
	for (int i = 0; i < 3; i++)
		assert_done(w, budget_take(&w->d, &again, &w->e));
	assert_fails(w, budget_take(&w->d, &again, &w->e), ERR_LIMIT, "3 of 3");
	world_reopen(w);                     /* the anchor goes back to what is on record: less than a minute, so that the window is ahead */
	assert_done(w, budget_get(&w->d, &b, &w->e));
	assert_true(b.ceiling == 3 && b.taken == 3 && b.refused == 1 && again == b.resets_us);
	world_advance(w, again - domain_real_now(&w->d) + 1);
	assert_done(w, budget_take(&w->d, &again, &w->e));
	assert_done(w, budget_hold(&w->d, 100000, &w->e));
	world_advance(w, 270 * US_PER_S);
	assert_fails(w, budget_take(&w->d, &again, &w->e), ERR_LIMIT, "budget");
	world_advance(w, 31 * US_PER_S);
	assert_done(w, budget_take(&w->d, &again, &w->e));
	world_advance(w, -100 * MINUTE);     /* a clock that was set back holds nothing up for longer than that */
	assert_fails(w, budget_take(&w->d, &again, &w->e), ERR_LIMIT, "budget");
	world_advance(w, 301 * US_PER_S);
	assert_done(w, budget_take(&w->d, &again, &w->e));
	w->conf.upstream_per_minute = 1000;
	assert_done(w, budget_get(&w->d, &b, &w->e));
	assert_int_equal(b.ceiling, BUDGET_ALLOWANCE);
}

/* ---- lists ---- */

#define SANDBOX(id, more) "{\"sandboxID\":\"" id "\",\"templateID\":\"tttttttttttttttttttt\",\"envdVersion\":\"0.6.13\",\"cpuCount\":2,\"memoryMB\":512," \
	"\"diskSizeMB\":1024,\"startedAt\":\"2026-01-02T03:04:05Z\",\"endAt\":\"2096-01-02T03:04:05.123456789Z\",\"state\":\"running\"" more "}"
#define TEMPLATE(id, alias, more) "{\"templateID\":\"" id "\",\"buildID\":\"00000000-0000-4000-8000-000000000000\",\"aliases\":[\"" alias "\"]," \
	"\"envdVersion\":\"0.6.13\",\"cpuCount\":2,\"memoryMB\":512,\"diskSizeMB\":1024,\"createdAt\":\"2026-01-02T03:04:05Z\"," \
	"\"updatedAt\":\"2026-01-02T03:04:05Z\",\"public\":true" more "}"
#define A "iaaaaaaaaaaaaaaaaaaaa"
#define B "ibbbbbbbbbbbbbbbbbbbb"
#define TA "aaaaaaaaaaaaaaaaaaaa"
#define TB "bbbbbbbbbbbbbbbbbbbb"

static const struct { enum vendor_list what; const char *text, *says; } wrong[] = {
	{ VENDOR_SANDBOXES, "", "empty" }, { VENDOR_SANDBOXES, "<html>", "no JSON" }, { VENDOR_SANDBOXES, "[] []", "no JSON" },
	{ VENDOR_SANDBOXES, "{}", "no array" }, { VENDOR_SANDBOXES, "null", "no array" }, { VENDOR_SANDBOXES, "[1]", "entry 0" },
	{ VENDOR_SANDBOXES, "[" SANDBOX(A, "") ",{}]", "entry 1: sandboxID" },
	{ VENDOR_SANDBOXES, "[" SANDBOX("short", "") "]", "sandboxID" }, { VENDOR_SANDBOXES, "[" SANDBOX("iAAAAAAAAAAAAAAAAAAAA", "") "]", "sandboxID" },
	{ VENDOR_SANDBOXES, "[" SANDBOX(A "b", "") "]", "sandboxID" },
	{ VENDOR_SANDBOXES, "[" SANDBOX(A, ",\"metadata\":{\"a\":1}") "]", "metadata" },
	{ VENDOR_SANDBOXES, "[" SANDBOX(A, ",\"metadata\":[]") "]", "metadata" },
	{ VENDOR_SANDBOXES, "[" SANDBOX(A, ",\"alias\":5") "]", "alias" },
	{ VENDOR_TEMPLATES, "[" TEMPLATE("../etc", "x", "") "]", "templateID" }, { VENDOR_TEMPLATES, "[" TEMPLATE(TA, "a b", "") "]", "aliases" },
	{ VENDOR_TEMPLATES, "[" TEMPLATE(TA, "a", ",\"spawnCount\":-1") "]", "spawnCount" },
};

static void test_wrong_lists(void **state)
{
	struct vendor_page p;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		assert_int_equal(vendor_page_read(wrong[i].what, wrong[i].text, strlen(wrong[i].text), false, &p, &e), -1);
		if (e.kind != ERR_INVALID || strstr(e.text, wrong[i].says) == NULL)
			fail_msg("%s: %s", wrong[i].text, e.text);
	}
}

/* The list is taken over as a refresh that begins now does. */
static int apply(struct world *w, enum vendor_list what, const char *text, bool more)
{
	struct upstream_state begun;
	struct vendor_page p;
	int status;

	assert_done(w, upstream_begin(&w->d, &begun, &w->e));
	assert_done(w, vendor_page_read(what, text, strlen(text), more, &p, &w->e));
	status = upstream_apply(&w->d, &begun, what, &p, &w->e);
	vendor_page_release(&p);
	return status;
}

static void test_sandboxes(void **state)
{
	struct world *w = *state;
	struct sandbox_rec ours, r;
	char text[1024];

	world_create(w, 100, &ours);
	assert_done(w, apply(w, VENDOR_SANDBOXES, "[" SANDBOX(A, ",\"metadata\":{\"k\":\"v\"}") "," SANDBOX(B, "") "]", false));
	world_row(w, A, &r);
	assert_true(r.state == SB_RUNNING && r.pool_kind == POOL_VENDOR && r.cpu_count == 2 && r.memory_mb == 512 && r.end_us == 3976311845123456);
	assert_string_equal(r.metadata, "{\"k\":\"v\"}");
	assert_string_equal(r.team, w->team.id);     /* upstream_team is by default the one of the world */
	sandbox_rec_release(&r);
	assert_fails(w, sandbox_kill(&w->d, w->team.id, A, "request", &w->e), ERR_INVALID, "mirrored");
	assert_fails(w, sandbox_pause(&w->d, w->team.id, A, true, &w->e), ERR_INVALID, "mirrored");
	assert_fails(w, sandbox_set_timeout(&w->d, &w->team, A, 10, &w->e), ERR_INVALID, "mirrored");
	/* a page with one of ours on it; B is missing, but there may be more */
	snprintf(text, sizeof text, "[" SANDBOX("%s", ",\"metadata\":{\"x\":\"y\"}") "]", ours.id);
	assert_done(w, apply(w, VENDOR_SANDBOXES, text, true));
	assert_int_equal(world_state(w, B), SB_RUNNING);
	world_row(w, ours.id, &r);
	assert_true(r.pool_kind == POOL_LOCAL && r.metadata == NULL && r.end_us == ours.end_us);
	sandbox_rec_release(&r);
	assert_done(w, apply(w, VENDOR_SANDBOXES, "[" SANDBOX(A, ",\"alias\":\"x\"") "]", false));
	assert_int_equal(world_state(w, B), 0);
	assert_int_equal(world_state(w, ours.id), SB_RUNNING);
	assert_int_equal(world_events(w, A, "sandbox.", NULL, 0), 0);
	assert_done(w, upstream_forget(&w->d, &w->e));
	assert_int_equal(world_state(w, A), 0);
	assert_int_equal(world_rows(w), 1);
	world_agrees(w);
	sandbox_rec_release(&ours);
}

/* Their machines are elsewhere, and nobody could end them here to make room. */
static void test_limit(void **state)
{
	struct world *w = *state;
	struct sandbox_rec ours, second;
	uint64_t running;
	struct txn *t;

	w->team.max_sandboxes = 1;
	assert_done(w, apply(w, VENDOR_SANDBOXES, "[" SANDBOX(A, "") "," SANDBOX(B, "") "]", false));
	world_create(w, 100, &ours);
	assert_fails(w, sandbox_create(&w->d, &w->team, &(struct sandbox_spec){ .template_ref = "base", .timeout_s = 100 }, &second, &w->e), ERR_LIMIT,
		     "maximum number");
	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_done(w, store_running_count(t, w->team.id, &running, &w->e));
	txn_abort(t);
	assert_int_equal(running, 3);
	assert_done(w, apply(w, VENDOR_SANDBOXES, "[]", false));
	world_agrees(w);
	sandbox_rec_release(&ours);
}

/* A page that is older than a webhook's removal is not taken over. */
static void test_overtaken(void **state)
{
	static const char text[] = "[" SANDBOX(A, "") "]";
	struct world *w = *state;
	struct upstream_state begun;
	enum ingest_effect effect;
	struct vendor_page p;

	assert_done(w, ingest_secret_set(&w->d, "s", &w->e));
	assert_done(w, apply(w, VENDOR_SANDBOXES, text, false));
	assert_done(w, upstream_begin(&w->d, &begun, &w->e));
	assert_done(w, take_signed(w, "{\"type\":\"sandbox.lifecycle.killed\",\"sandboxId\":\"" A "\"}", "1", &effect));
	assert_int_equal(world_state(w, A), 0);
	assert_done(w, vendor_page_read(VENDOR_SANDBOXES, text, strlen(text), false, &p, &w->e));
	assert_fails(w, upstream_apply(&w->d, &begun, VENDOR_SANDBOXES, &p, &w->e), ERR_CONFLICT, "removed");
	vendor_page_release(&p);
	assert_int_equal(world_state(w, A), 0);
}

/* What was asked for while a refresh was under way is still asked for after it. */
static void test_due(void **state)
{
	struct world *w = *state;
	struct upstream_state begun, now;
	enum ingest_effect effect;

	assert_done(w, ingest_secret_set(&w->d, "s", &w->e));
	for (int i = 0; i < 2; i++) {
		char id[8];

		snprintf(id, sizeof id, "%d", i);
		world_advance(w, US_PER_S);
		if (i == 0)
			assert_done(w, take_signed(w, "{\"type\":\"x\"}", id, &effect));
		assert_done(w, upstream_begin(&w->d, &begun, &w->e));
		world_advance(w, US_PER_S);
		if (i == 1)
			assert_done(w, take_signed(w, "{\"type\":\"x\"}", id, &effect));
		assert_done(w, upstream_end(&w->d, &begun, true, &w->e));
		assert_done(w, upstream_state(&w->d, &now, &w->e));
		assert_int_equal(now.due_us != 0, i == 1);
	}
	assert_done(w, upstream_end(&w->d, &begun, false, &w->e));
	assert_done(w, upstream_state(&w->d, &now, &w->e));
	assert_true(now.failures == 1 && now.done_us == begun.tried_us);
}

static void test_templates(void **state)
{
	struct world *w = *state;
	struct sandbox_spec s = { .template_ref = "theirs", .timeout_s = 10 };
	struct template_rec t;
	struct sandbox_rec r;

	assert_done(w, apply(w, VENDOR_TEMPLATES, "[" TEMPLATE(TA, "theirs", "") "," TEMPLATE(TB, "base", "") "]", false));
	assert_done(w, template_resolve(&w->d, &w->team, "theirs", &t, &w->e));
	assert_string_equal(t.id, TA);
	template_rec_release(&t);
	assert_fails(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e), ERR_INVALID, "pool upstream");
	assert_done(w, template_resolve(&w->d, &w->team, "base", &t, &w->e));        /* the name was taken */
	assert_string_equal(t.id, w->base.id);
	template_rec_release(&t);
	assert_done(w, apply(w, VENDOR_TEMPLATES, "[" TEMPLATE(TA, "renamed", "") "]", false));
	assert_fails(w, template_resolve(&w->d, &w->team, "theirs", &t, &w->e), ERR_NOT_FOUND, "theirs");
	assert_fails(w, template_resolve(&w->d, &w->team, TB, &t, &w->e), ERR_NOT_FOUND, TB);
	assert_done(w, upstream_forget(&w->d, &w->e));
	assert_fails(w, template_resolve(&w->d, &w->team, "renamed", &t, &w->e), ERR_NOT_FOUND, "renamed");
	assert_done(w, template_resolve(&w->d, &w->team, "base", &t, &w->e));
	template_rec_release(&t);
	world_agrees(w);
}

static void test_seen(void **state)
{
	struct world *w = *state;
	uint8_t hash[32] = { 0 };
	int removed = 0;
	struct txn *t;

	assert_done(w, txn_write(w->d.store, &t, &w->e));
	for (uint8_t i = 0; i < 10; i++) {
		hash[0] = i;
		assert_done(w, store_seen_put(t, hash, 100 + i, 5, &w->e));
	}
	for (uint8_t i = 0; i < 10; i++) {
		hash[0] = i;
		assert_int_equal(store_seen_get(t, hash, &w->e), i >= 5);
	}
	assert_done(w, store_seen_trim(t, 107, 100, &removed, &w->e));
	assert_int_equal(removed, 2);
	assert_int_equal(store_seen_get(t, hash, &w->e), 1);
	assert_done(w, txn_commit(t, &w->e));
	w->conf.event_days = 1;
	assert_done(w, ingest_trim(&w->d, &w->e));
	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_int_equal(store_seen_get(t, hash, &w->e), 0);
	txn_abort(t);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_signature), T(test_kill), T(test_budget), cmocka_unit_test(test_wrong_lists), T(test_sandboxes), T(test_limit), T(test_overtaken), T(test_due),
		T(test_templates), T(test_seen),
	};

	return cmocka_run_group_tests_name("upstream", tests, NULL, NULL);
}
