/* The logs of a sandbox as clients ask for them (api.md 5.19), on real records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "responder.h"
#include "world.h"

#include "hutch/when.h"

/* A line `mN` of N milliseconds after `at_us`, for each N in from .. from + n - 1. */
static void note(struct world *w, const char *id, int64_t at_us, int from, int n)
{
	char *p = w->pool->journal, *end = p + sizeof w->pool->journal;

	p += snprintf(p, (size_t)(end - p), "[");
	for (int i = from; i < from + n; i++)
		p += snprintf(p, (size_t)(end - p), "%s{\"us\":%lld,\"level\":\"info\",\"message\":\"m%d\"}", i > from ? "," : "",
			      (long long)(at_us + i * US_PER_MS), i);
	assert_true(end - p > 2);
	snprintf(p, (size_t)(end - p), "]");
	assert_done(w, journal_collect(&w->d, w->team.id, id, &w->e));
	w->pool->journal[0] = '\0';
}

/* The messages of an answer, in its order, each with a space after it; their number. */
static int messages(struct world *w, const char *id, call_handler *route, const char *query, char *out, size_t max)
{
	struct call c;
	int n = 0;

	call_init(&c, 1024);
	c.d = &w->d;
	c.team = w->team;
	c.query = query;
	snprintf(c.param[0], CALL_PARAM_LEN, "%s", id);
	if (route(&c, &w->e) < 0)
		fail_msg("%s: %s", query, w->e.text);
	assert_int_equal(c.status, 200);
	out[0] = '\0';
	for (const char *p = buf_str(&c.out); (p = strstr(p, "\"message\":\"")) != NULL; n++) {
		const size_t len = strcspn(p += 11, "\"");

		if (strlen(out) + len + 2 < max)
			sprintf(out + strlen(out), "%.*s ", (int)len, p);
	}
	call_release(&c);
	return n;
}

/* The cursor is where to go on from: forward with what is of its millisecond or later, backward of it or earlier. */
static void test_cursor(void **state)
{
	static const struct { int at; const char *more, *want; } cases[] = {
		{ 0, "&direction=forward", "m0 m1 m2 m3 m4 " }, { 2, "&direction=forward", "m2 m3 m4 " }, { 4, "&direction=forward", "m4 " },
		{ 5, "&direction=forward", "" }, { 1, "&direction=forward&limit=2", "m1 m2 " },
		{ 5, "&direction=backward", "m4 m3 m2 m1 m0 " }, { 2, "&direction=backward", "m2 m1 m0 " }, { 2, "", "m2 m1 m0 " },
		{ 0, "", "m0 " }, { -1, "", "" }, { 3, "&direction=backward&limit=2", "m3 m2 " },
	};
	struct world *w = *state;
	struct sandbox_rec r;
	char query[200], got[200];
	int64_t at;

	world_freeze(w);
	world_create(w, 3600, &r);
	at = domain_now(&w->d) / US_PER_MS * US_PER_MS;
	note(w, r.id, at, 0, 5);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(query, sizeof query, "search=m&cursor=%lld%s", (long long)(at / US_PER_MS + cases[i].at), cases[i].more);
		messages(w, r.id, sandbox_logs_v2, query, got, sizeof got);
		if (strcmp(got, cases[i].want) != 0)
			fail_msg("%s: %s", query, got);
	}
	sandbox_rec_release(&r);
}

/* Version 1 takes any limit and gives 1000 at most, the oldest. */
static void test_most(void **state)
{
	enum { MANY = 1000, SOME = 100 };
	struct world *w = *state;
	struct sandbox_rec r;
	char got[200];
	int64_t at;

	world_freeze(w);
	world_create(w, 3600, &r);                   /* an event, which is a line, too */
	at = domain_now(&w->d) / US_PER_MS * US_PER_MS + US_PER_MS;
	for (int i = 0; i < MANY; i += SOME)
		note(w, r.id, at, i, SOME);
	assert_int_equal(messages(w, r.id, sandbox_logs_v1, "limit=5000", got, sizeof got), MANY);
	assert_int_equal(strncmp(got, "Sandbox created m0 m1 ", 22), 0);
	sandbox_rec_release(&r);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = { T(test_cursor), T(test_most) };

	return cmocka_run_group_tests_name("logs", tests, NULL, NULL);
}
