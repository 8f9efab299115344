/* Decoding of paths and queries, and which row of a route table serves a request (api.md T3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/envd.h"
#include "hutch/uri.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct uri_span span(const char *s)
{
	return (struct uri_span){ s, strlen(s) };
}

static void test_decode(void **state)
{
	static const struct { const char *in, *form, *path; } cases[] = {
		{ "", "", "" }, { "a+b", "a b", "a+b" }, { "%41%7a%2F", "Az/", "Az/" }, { "%c3%A9", "\xc3\xa9", "\xc3\xa9" },
		{ "100%25", "100%", "100%" }, { "%", NULL, NULL }, { "%4", NULL, NULL }, { "a%4", NULL, NULL }, { "%4g", NULL, NULL },
		{ "%%41", NULL, NULL }, { "%00", NULL, NULL }, { "%-1", NULL, NULL }, { "% 1", NULL, NULL },
	};
	char out[32];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ssize_t n = form_decode(cases[i].in, strlen(cases[i].in), out, sizeof out);

		if (cases[i].form == NULL) {
			assert_int_equal(n, -1);
			assert_int_equal(path_decode(cases[i].in, strlen(cases[i].in), out, sizeof out), -1);
			continue;
		}
		assert_int_equal(n, strlen(cases[i].form));
		assert_string_equal(out, cases[i].form);
		assert_int_equal(path_decode(cases[i].in, strlen(cases[i].in), out, sizeof out), strlen(cases[i].path));
		assert_string_equal(out, cases[i].path);
	}
	assert_int_equal(form_decode("%41x", 3, out, 2), 1);         /* n bounds the input */
	assert_int_equal(form_decode("%41", 2, out, sizeof out), -1);
	assert_int_equal(form_decode("abc", 3, out, 4), 3);
	assert_int_equal(form_decode("abc", 3, out, 3), -1);
	assert_int_equal(form_decode("", 0, out, 0), -1);
}

/* The query moves on past what was found, so that a repeated parameter is read to its end. */
static void test_query_next(void **state)
{
	struct uri_span q = span("a=1&b=%zz&a=2&%61&a=12345678&");
	char out[8];

	(void)state;
	assert_int_equal(query_next(&q, "a", out, sizeof out), 1);
	assert_string_equal(out, "1");
	assert_int_equal(query_next(&q, "a", out, sizeof out), 1);
	assert_string_equal(out, "2");
	assert_int_equal(query_next(&q, "a", out, sizeof out), 1);
	assert_string_equal(out, "");
	assert_int_equal(query_next(&q, "a", out, sizeof out), -1);
	assert_int_equal(query_next(&q, "a", out, sizeof out), 0);
	q = span("b=%zz");
	assert_int_equal(query_next(&q, "b", out, sizeof out), -1);
}

static void test_route(void **state)
{
	static const struct row { const char *method, *path; int more; } table[] = {
		{ "GET", "/a", 1 }, { "POST", "/a", 2 }, { "GET", "/a/special", 3 }, { "GET", "/a/:id", 4 }, { "PUT", "/a/:id/b/:port", 5 },
		{ "GET", "/:1/:2/:3/:4/:5", 6 },
	};
	static const struct { const char *method, *path; int row; const char *allow, *params[2]; } cases[] = {
		{ "GET", "/a", 0, "", { NULL } }, { "POST", "/a", 1, "", { NULL } }, { "PUT", "/a", -1, "GET, POST", { NULL } },
		{ "GET", "/a/special", 2, "", { NULL } }, { "GET", "/a/x%2Fy", 3, "", { "x%2Fy" } }, { "PUT", "/a/x/b/80", 4, "", { "x", "80" } },
		{ "GE", "/a", -1, "GET, POST", { NULL } }, { "GETS", "/a", -1, "GET, POST", { NULL } }, { "get", "/a", -1, "GET, POST", { NULL } },
		{ "GET", "/a/", -1, "", { NULL } }, { "GET", "/a/x/", -1, "", { NULL } }, { "PUT", "/a//b/80", -1, "", { NULL } },
		{ "PUT", "/a/x/b", -1, "", { NULL } }, { "GET", "", -1, "", { NULL } }, { "GET", "/b", -1, "", { NULL } },
		{ "GET", "/1/2/3/4/5", -1, "", { NULL } },           /* more parameters than there is room for: no row of ours has them */
	};
	struct uri_params params;
	struct buf allow;

	(void)state;
	buf_init(&allow, 64);
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct row *got = uri_route(table, COUNT(table), sizeof table[0], span(cases[i].method), span(cases[i].path), &params, &allow);

		if (got != (cases[i].row < 0 ? NULL : &table[cases[i].row]) || strcmp(buf_str(&allow), cases[i].allow) != 0)
			fail_msg("%s %s: %s", cases[i].method, cases[i].path, buf_str(&allow));
		for (size_t p = 0; got != NULL && p < params.n; p++)
			assert_true(params.at[p].n == strlen(cases[i].params[p]) && memcmp(params.at[p].p, cases[i].params[p], params.at[p].n) == 0);
	}
	buf_release(&allow);
}

/* Whole and as it is written: what only begins so, or is shorter, is not one. */
static void test_envd(void **state)
{
	(void)state;
	assert_string_equal(envd_reserved("/init", 5), "/init");
	assert_null(envd_reserved("/init/", 6));
	assert_null(envd_reserved("/ini", 4));
	assert_null(envd_reserved("", 0));
	assert_true(twin_admits(ENVD_PORT, "/files", 6));
	assert_false(twin_admits(ENVD_PORT, "/files/compose", 14));
	assert_false(twin_admits(INTERPRETER_PORT, "/files", 6));
	assert_true(twin_admits(INTERPRETER_PORT, "/execute", 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode),
		cmocka_unit_test(test_query_next),
		cmocka_unit_test(test_route),
		cmocka_unit_test(test_envd),
	};

	return cmocka_run_group_tests_name("uri", tests, NULL, NULL);
}
