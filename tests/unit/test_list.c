/* Lists: order, pages, filters, totals. */
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
#include "scratch.h"

static const struct { const char *map; const char *pair[2]; bool has; } map_cases[] = {
	{ "{}", { "a", "b" }, false },
	{ "{\"a\":\"b\"}", { "a", "b" }, true },
	{ "{\"a\":\"b\"}", { "a", "c" }, false },
	{ "{\"a\":\"bc\"}", { "a", "b" }, false },
	{ "{\"x\":\"y\",\"a\":\"b\",\"z\":\"\"}", { "a", "b" }, true },
	{ "{\"x\":\"y\",\"a\":\"b\",\"z\":\"\"}", { "z", "" }, true },
	{ "{\"x\":\"\\\"a\\\":\\\"b\\\"\"}", { "a", "b" }, false },          /* the pair's text inside a value */
	{ "{\"a,\":\":\",\"c\":\"d\"}", { ":", "," }, false },
	{ "{\"q\\\"\":\"\\\\\"}", { "q\"", "\\" }, true },
	{ "{\"\":\"\"}", { "", "" }, true },
	{ "{\"\xc3\xa4\":\"\xe2\x82\xac\"}", { "\xc3\xa4", "\xe2\x82\xac" }, true },
	{ "{\"n\":\"a\\nb\"}", { "n", "a\nb" }, true },
	{ "{\"a", { "a", "b" }, false },                                     /* damaged: no match, no crash */
	{ "{\"a\":\"b", { "a", "b" }, false },
	{ "{\"a\\", { "a", "b" }, false },
};

static void test_map(void **state)
{
	struct map_pairs m;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof map_cases / sizeof map_cases[0]; i++) {
		const char *text = map_cases[i].map;
		size_t n = strlen(text);
		char *exact = malloc(n);             /* no byte behind it is anybody's */

		memcpy(exact, text, n);
		assert_int_equal(map_pairs_init(&m, map_cases[i].pair, 1, &e), 0);
		if (map_has(exact, n, &m) != map_cases[i].has)
			fail_msg("case %zu: %s", i, text);
		for (size_t cut = 0; cut < n; cut++) /* cut off anywhere: no crash */
			map_has(exact + n - cut, cut, &m);
		map_pairs_release(&m);
		free(exact);
	}
	assert_int_equal(map_pairs_init(&m, map_cases[0].pair, MAP_PAIRS_MAX + 1, &e), -1);
}

/* Rows put straight into the records: number, state, start. */
static void row(struct world *w, int n, uint8_t state, int64_t started, const char *template_id, const char *metadata)
{
	struct sandbox_rec r = { .state = state, .started_us = started, .end_us = INT64_MAX / 2, .due_us = INT64_MAX / 2 };
	struct txn *t;

	snprintf(r.id, sizeof r.id, "i%020d", n);
	snprintf(r.machine, sizeof r.machine, "sb_%020d", n);
	memcpy(r.team, w->team.id, sizeof r.team);
	snprintf(r.template_id, sizeof r.template_id, "%s", template_id);
	r.metadata = metadata != NULL ? strdup(metadata) : NULL;
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_sandbox_put(t, NULL, &r, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	sandbox_rec_release(&r);
}

static int on_row(void *ctx, const char *id, const struct sandbox_glance *g, struct err *e)
{
	char *text = ctx;

	(void)g;
	(void)e;
	sprintf(text + strlen(text), "%d ", atoi(id + 1));
	return 0;
}

static void listed(struct world *w, const struct sandbox_query *q, const char *want, uint64_t want_total, char next[200])
{
	char text[4000] = "";
	uint64_t total;

	assert_done(w, sandbox_list(&w->d, w->team.id, q, on_row, text, next, &total, &w->e));
	assert_string_equal(text, want);
	assert_int_equal(total, want_total);
}

static void some(struct world *w)
{
	row(w, 1, SB_RUNNING, 10, "a", NULL);
	row(w, 2, SB_RUNNING, 30, "b", "{\"k\":\"v\",\"l\":\"w\"}");
	row(w, 3, SB_RUNNING, 20, "a", "{\"k\":\"v\"}");
	row(w, 4, SB_KILLING, 25, "a", NULL);
	row(w, 5, SB_STARTING, 26, "a", NULL);
	row(w, 6, SB_RUNNING, 20, "b", "{\"k\":\"other\"}");
}

static void test_filters(void **state)
{
	const char *kv[] = { "k", "v", "l", "w" };
	struct sandbox_query q = { .want_running = true };
	struct world *w = *state;
	char next[200];

	listed(w, &q, "", 0, next);
	some(w);
	listed(w, &q, "2 3 6 1 ", 4, next);
	assert_string_equal(next, "");
	q.oldest_first = true;
	listed(w, &q, "1 6 3 2 ", 4, next);
	q.started_after_us = 20;                     /* inclusive */
	listed(w, &q, "6 3 2 ", 3, next);
	q.oldest_first = false;
	listed(w, &q, "2 3 6 ", 3, next);
	q.started_after_us = 0;
	q.template_id = "a";
	listed(w, &q, "3 1 ", 2, next);
	q.template_id = NULL;
	q.meta = kv;
	q.nmeta = 1;
	listed(w, &q, "2 3 ", 2, next);
	q.nmeta = 2;
	listed(w, &q, "2 ", 1, next);
	q.nmeta = 0;
	q.want_running = false;
	q.want_paused = true;
	listed(w, &q, "", 0, next);
}

/* A row whose lease is over is not listed any more. */
static void test_over(void **state)
{
	struct sandbox_query q = { .want_running = true, .template_id = NULL };
	struct world *w = *state;
	struct sandbox_rec r;
	char next[200], text[100] = "";

	world_create(w, 10, &r);
	world_advance(w, 10 * US_PER_S);
	assert_done(w, sandbox_list(&w->d, w->team.id, &q, on_row, text, next, NULL, &w->e));
	assert_string_equal(text, "");
}

static void test_pages(void **state)
{
	struct sandbox_query q = { .want_running = true, .limit = 3 };
	struct world *w = *state;
	char next[200], all[200];

	some(w);
	listed(w, &q, "2 3 6 ", 4, next);
	assert_string_not_equal(next, "");
	assert_int_equal(strspn(next, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_="), strlen(next));
	q.next_token = next;
	listed(w, &q, "1 ", 4, all);
	assert_string_equal(all, "");
	q.limit = 4;                                 /* exactly all: no further page */
	q.next_token = NULL;
	listed(w, &q, "2 3 6 1 ", 4, next);
	assert_string_equal(next, "");
}

/* Whatever the page size and the filter, the pages together are the whole list, each row once. */
static void test_pages_all(void **state)
{
	static const char *const k1[] = { "k", "1" };
	struct world *w = *state;
	struct rng rng = { 9 };
	char whole[4000], pages[4000], next[200], token[200], meta[40];

	for (int i = 1; i <= 120; i++) {
		snprintf(meta, sizeof meta, "{\"k\":\"%d\"}", (int)rng_below(&rng, 3));
		row(w, i, rng_below(&rng, 5) == 0 ? SB_KILLING : SB_RUNNING, 1 + (int64_t)rng_below(&rng, 40), i % 2 ? "a" : "b", meta);
	}
	for (int mode = 0; mode < 16; mode++) {
		struct sandbox_query q = {
			.want_running = true, .oldest_first = mode & 1, .started_after_us = mode & 2 ? 11 : 0,
			.template_id = mode & 4 ? "a" : NULL, .meta = k1, .nmeta = mode & 8 ? 1 : 0,
		};
		uint64_t total, first_total;

		whole[0] = pages[0] = '\0';
		assert_done(w, sandbox_list(&w->d, w->team.id, &q, on_row, whole, next, &first_total, &w->e));
		q.limit = 1 + (int)rng_below(&rng, 9);
		do {
			assert_done(w, sandbox_list(&w->d, w->team.id, &q, on_row, pages, next, &total, &w->e));
			assert_int_equal(total, first_total);
			strcpy(token, next);
			q.next_token = token;
		} while (next[0] != '\0');
		assert_string_equal(pages, whole);
		assert_true(strlen(whole) > 0);
	}
}

static void gone(struct world *w, const struct sandbox_rec *r)
{
	struct txn *t;

	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_sandbox_delete(t, r, &w->e));
	assert_done(w, txn_commit(t, &w->e));
}

/* Rows that come and go: numbers from `first` up to below `next` are there. The numbers below stay. */
#define STAY 20
#define MOST 1200
struct churn { int first, next; };

static void churn(struct world *w, struct rng *rng, struct churn *c)
{
	struct sandbox_rec r;
	char id[SANDBOX_ID_LEN];

	if (c->next - c->first < 3 || (c->next < MOST && rng_below(rng, 2) == 0)) {
		row(w, c->next++, rng_below(rng, 3) == 0 ? SB_PAUSED : SB_RUNNING, 1 + (int64_t)rng_below(rng, 9), "a", NULL);
		return;
	}
	snprintf(id, sizeof id, "i%020d", c->first++);
	world_row(w, id, &r);
	gone(w, &r);
	sandbox_rec_release(&r);
}

/* All pages, rows coming and going between them: none twice, and none left out that stays. */
static void walk_churning(struct world *w, struct rng *rng, struct churn *c, bool oldest_first)
{
	struct sandbox_query q = { .want_running = true, .want_paused = true, .oldest_first = oldest_first, .limit = 1 + (int)rng_below(rng, 6) };
	char pages[8000] = "", next[200], token[200];
	unsigned char seen[MOST + 1] = { 0 };

	do {
		assert_done(w, sandbox_list(&w->d, w->team.id, &q, on_row, pages, next, NULL, &w->e));
		strcpy(token, next);
		q.next_token = token;
		for (uint64_t i = rng_below(rng, 4); i > 0; i--)
			churn(w, rng, c);
	} while (next[0] != '\0');
	for (char *save = NULL, *s = strtok_r(pages, " ", &save); s != NULL; s = strtok_r(NULL, " ", &save))
		assert_int_equal(seen[atoi(s)]++, 0);
	for (int i = 1; i <= STAY; i++)
		assert_int_equal(seen[i], 1);
}

static void test_stable(void **state)
{
	struct churn c = { STAY + 1, STAY + 1 };
	struct world *w = *state;
	struct rng rng = { 4 };

	for (int i = 1; i <= STAY; i++)
		row(w, i, i % 4 == 0 ? SB_PAUSED : SB_RUNNING, 1 + (int64_t)rng_below(&rng, 9), "a", NULL);
	for (int round = 0; round < 60; round++)
		walk_churning(w, &rng, &c, round & 1);
}

static void test_bad_tokens(void **state)
{
	static const char *const bad[] = { "x", "AAAA", "!!!", "ZA==", "ZAAAAAAAAAAKaTAwMDAwMDAwMDAwMDAwMDAwMDAwLw==" };
	struct sandbox_query q = { .want_running = true, .limit = 1 };
	struct world *w = *state;
	char next[200], text[100] = "", other[200];

	some(w);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		q.next_token = bad[i];
		assert_fails(w, sandbox_list(&w->d, w->team.id, &q, on_row, text, next, NULL, &w->e), ERR_INVALID, "Invalid next token");
	}
	q.next_token = NULL;
	assert_done(w, sandbox_list(&w->d, w->team.id, &q, on_row, text, next, NULL, &w->e));
	strcpy(other, next);
	q.next_token = other;
	q.oldest_first = true;                       /* a token of the other order */
	assert_fails(w, sandbox_list(&w->d, w->team.id, &q, on_row, text, next, NULL, &w->e), ERR_INVALID, "Invalid next token");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map), T(test_filters), T(test_over), T(test_pages), T(test_pages_all), T(test_stable), T(test_bad_tokens),
	};

	return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
