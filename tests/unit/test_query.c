/* Query parameters, and the filters of the lists (api.md 5.6, 5.7, T11-T13). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "responder.h"

static struct call query_call(const char *query)
{
	struct call c;

	memset(&c, 0, sizeof c);
	c.query = query;
	return c;
}

static void test_call_query(void **state)
{
	static const struct { const char *query; int got; const char *value; } cases[] = {
		{ "", 0, NULL }, { "x=1", 0, NULL }, { "aa=1", 0, NULL }, { "a=1", 1, "1" }, { "x&a=1", 1, "1" }, { "a", 1, "" },
		{ "a=", 1, "" }, { "&&a=2&", 1, "2" }, { "a=1&a=2", 1, "1" }, { "a=1=2", 1, "1=2" }, { "%61=x+y%2B", 1, "x y+" },
		{ "%zz=1&a=3", 1, "3" }, { "a=%zz", -1, NULL }, { "a=12345678", -1, NULL }, { "b=a=1", 0, NULL }, { "A=1", 0, NULL },
	};
	struct err e;
	char out[8];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct call c = query_call(cases[i].query);

		if (call_query(&c, "a", out, sizeof out, &e) != cases[i].got)
			fail_msg("%s", cases[i].query);
		if (cases[i].got == 1)
			assert_string_equal(out, cases[i].value);
	}
}

static void test_call_query_int(void **state)
{
	static const char *const bad[] = { "n=", "n=0", "n=101", "n=x", "n=1x", "n=+1", "n=%201", "n=1%20", "n=1.0", "n=-1", "n",
		"n=99999999999999999999", "n=0x10" };
	struct call c = query_call("n=100");
	int64_t n = 7;
	struct err e;

	(void)state;
	assert_int_equal(call_query_int(&c, "n", 1, 100, &n, &e), 1);
	assert_int_equal(n, 100);
	assert_int_equal(call_query_int(&c, "m", 1, 100, &n, &e), 0);
	assert_int_equal(n, 100);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		c = query_call(bad[i]);
		if (call_query_int(&c, "n", 1, 100, &n, &e) != -1)
			fail_msg("%s", bad[i]);
		assert_non_null(strstr(e.text, "n "));
	}
}

/* What is wrong in a query must be named. */
static void test_list_refusals(void **state)
{
	static const struct { const char *query, *names; } cases[] = {
		{ "limit=0", "limit" }, { "limit=101", "limit" }, { "limit=x", "limit" }, { "state=ended", "state" }, { "state=", "state" }, { "state=%2C", "state" },
		{ "state=running,", NULL }, { "state=running,x", "state" }, { "state=RUNNING", "state" }, { "order=up", "order" },
		{ "order=", "order" }, { "order=ascending-long", "order" }, { "startedAfter=yesterday", "startedAfter" },
		{ "startedAfter=", "startedAfter" }, { "startedAfter=2026-01-02T03:04:05+02:00", "startedAfter" }, /* a bare + is a space */
		{ "metadata=", "metadata" }, { "metadata=a", "metadata" }, { "metadata=a%3Db%3Dc", "metadata" },
		{ "metadata=a%3Db%26", "metadata" }, { "metadata=a%25zz%3Db", "metadata" }, { "metadata=%2525zz%3Db", "metadata" },
		{ "metadata=%3Db", "empty key" }, { "metadata=a%3Db%26%3D", "empty key" }, { "metadata=a%3Db%26a%3Db", "repeated key" },
		{ "metadata=a%3Db%26c%3Db%26%252561%3Dd", "repeated key" }, { "metadata=a%3Db%26A%3Db", NULL },
		{ "template=", "template" }, { "nextToken=%zz", "nextToken" }, { "metadata=%zz", "metadata" },
	};
	struct list_request r;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct call c = query_call(cases[i].query);
		int got = list_read(&c, &r, &e);

		if ((got == 0) != (cases[i].names == NULL))
			fail_msg("%s: %d", cases[i].query, got);
		if (got < 0 && (e.kind != ERR_INVALID || strstr(e.text, cases[i].names) == NULL))
			fail_msg("%s: %s", cases[i].query, e.text);
	}
}

static void test_list_defaults(void **state)
{
	struct call c = query_call("");
	struct list_request r;
	struct err e;

	(void)state;
	memset(&r, 0xff, sizeof r);
	assert_int_equal(list_read(&c, &r, &e), 0);
	assert_true(r.q.want_running && r.q.want_paused && !r.q.oldest_first);
	assert_int_equal(r.q.limit, 100);
	assert_int_equal(r.q.started_after_us, 0);
	assert_int_equal(r.q.nmeta, 0);
	assert_null(r.q.next_token);
	assert_string_equal(r.template_ref, "");
}

static void test_list_all(void **state)
{
	struct call c = query_call("state=running%2Cpaused&limit=1&order=asc&startedAfter=2026-01-02T05:04:05.123456%2B02:00"
				   "&template=team%2Fname&nextToken=abc%3D");
	struct list_request r;
	struct err e;

	(void)state;
	assert_int_equal(list_read(&c, &r, &e), 0);
	assert_true(r.q.want_running && r.q.want_paused && r.q.oldest_first);
	assert_int_equal(r.q.limit, 1);
	assert_int_equal(r.q.started_after_us, 1767323045123456);
	assert_string_equal(r.template_ref, "team/name");
	assert_string_equal(r.q.next_token, "abc=");
	c = query_call("state=paused");
	assert_int_equal(list_read(&c, &r, &e), 0);
	assert_true(!r.q.want_running && r.q.want_paused);
}

/* The wire forms of one pair list: three times encoded by the SDKs, once by hand (api.md 5.7). */
static void test_metadata(void **state)
{
	static const struct { const char *query; size_t n; const char *pairs[4]; } cases[] = {
		{ "metadata=user%252520id%3Da%252526b", 1, { "user id", "a&b" } },
		{ "metadata=user%3Dabc", 1, { "user", "abc" } },
		{ "metadata=user=abc", 1, { "user", "abc" } },
		{ "metadata=a%3D1%26b%3D2", 2, { "a", "1", "b", "2" } },
		{ "metadata=a%253D1%2526b%253D2", 2, { "a", "1", "b", "2" } },       /* the pair list encoded as a whole once more */
		{ "metadata=plus%3D1%25252B1", 1, { "plus", "1+1" } },
		{ "metadata=path%3D%2Fhome%252Fuser", 1, { "path", "/home/user" } }, /* Python leaves the slash alone */
		{ "metadata=eq%3D%25253D", 1, { "eq", "=" } },
		{ "metadata=k%3D", 1, { "k", "" } },
		{ "metadata=k%3D%2525C3%2525A9", 1, { "k", "\xc3\xa9" } },
		{ "limit=5&metadata=k%3Dv", 1, { "k", "v" } },
	};
	struct list_request *r = calloc(1, sizeof *r);
	struct err e;

	(void)state;
	assert_non_null(r);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct call c = query_call(cases[i].query);

		if (list_read(&c, r, &e) < 0)
			fail_msg("%s: %s", cases[i].query, e.text);
		assert_int_equal(r->q.nmeta, cases[i].n);
		for (size_t p = 0; p < 2 * cases[i].n; p++)
			assert_string_equal(r->q.meta[p], cases[i].pairs[p]);
	}
	free(r);
}

static void test_metadata_bounds(void **state)
{
	struct list_request *r = calloc(1, sizeof *r);
	char *query = malloc(META_QUERY_MAX + 64);
	struct call c = query_call(query);
	struct err e;

	(void)state;
	assert_true(r != NULL && query != NULL);
	strcpy(query, "metadata=");
	for (int i = 0; i <= META_PAIRS_MAX; i++)
		sprintf(query + strlen(query), "%sa%d=b", i == 0 ? "" : "%26", i);
	assert_int_equal(list_read(&c, r, &e), -1);
	assert_non_null(strstr(e.text, "pairs"));
	memset(query + 9, 'a', META_QUERY_MAX);
	query[9 + META_QUERY_MAX] = '\0';
	assert_int_equal(list_read(&c, r, &e), -1);
	assert_non_null(strstr(e.text, "metadata"));
	free(query);
	free(r);
}

static void test_sandbox_id(void **state)
{
	static const struct { const char *param, *id; enum err_kind kind; } cases[] = {
		{ "iabc0", "iabc0", ERR_NONE }, { "iabc0-6532622b", "iabc0", ERR_NONE }, { "iabc-", "iabc", ERR_NONE },
		{ "iabc-ANY/thing", "iabc", ERR_NONE }, { "i12345678901234567890", "i12345678901234567890", ERR_NONE },
		{ "i123456789012345678901", NULL, ERR_NOT_FOUND }, { "a-b-c", NULL, ERR_INVALID }, { "a--", NULL, ERR_INVALID },
		{ "-a", NULL, ERR_INVALID }, { "", NULL, ERR_INVALID }, { "iABC", NULL, ERR_INVALID }, { "..", NULL, ERR_INVALID },
		{ "i/x", NULL, ERR_INVALID }, { "i\xc3\xa9", NULL, ERR_INVALID }, { "i_1", NULL, ERR_INVALID },
	};
	char id[SANDBOX_ID_LEN];
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct call c = query_call("");
		int got;

		strcpy(c.param[0], cases[i].param);
		got = take_sandbox_id(&c, id, &e);
		if ((got == 0) != (cases[i].id != NULL))
			fail_msg("%s: %d", cases[i].param, got);
		if (got == 0)
			assert_string_equal(id, cases[i].id);
		else
			assert_int_equal(e.kind, cases[i].kind);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call_query),
		cmocka_unit_test(test_call_query_int),
		cmocka_unit_test(test_list_refusals),
		cmocka_unit_test(test_list_defaults),
		cmocka_unit_test(test_list_all),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_metadata_bounds),
		cmocka_unit_test(test_sandbox_id),
	};

	return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
