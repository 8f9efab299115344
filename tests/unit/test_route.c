#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "http_fake.h"

static int echo(struct call *c, struct err *e)
{
	(void)e;
	c->status = 200;
	buf_addf(&c->out, "%s|%s", c->param[0], c->param[1]);
	return 0;
}

static int literal(struct call *c, struct err *e)
{
	(void)e;
	c->status = 200;
	buf_adds(&c->out, "literal");
	return 0;
}

static int empty(struct call *c, struct err *e)
{
	(void)e;
	c->status = 202;
	return 0;
}

static int broken(struct call *c, struct err *e)
{
	buf_adds(&c->out, "half an answer");
	call_header(c, "X-Half", "1");
	return err_set(e, ERR_INTERNAL, "a path of this machine");
}

static int coded(struct call *c, struct err *e)
{
	(void)c;
	err_set(e, ERR_UNAVAILABLE, "Failed to place sandbox");
	e->code = "sandbox_capacity_unavailable";
	return -1;
}

static int used_up(struct call *c, struct err *e)
{
	err_set(e, ERR_LIMIT, "one more would be too many");
	if (c->method[0] == 'P')
		e->retry_s = 7;
	return -1;
}

static const struct route table[] = {
	{ "GET", "/health", AUTH_OPEN, empty, IN_BOTH },
	{ "GET", "/things/special", AUTH_OPEN, literal, IN_FULL },
	{ "GET", "/things/:id", AUTH_OPEN, echo, IN_FULL },
	{ "DELETE", "/things/:id", AUTH_OPEN, echo, IN_FULL },
	{ "GET", "/things/:id/parts/:part", AUTH_OPEN, echo, IN_FULL },
	{ "POST", "/broken", AUTH_OPEN, broken, IN_FULL },
	{ "POST", "/coded", AUTH_OPEN, coded, IN_FULL },
	{ "DELETE", "/used-up", AUTH_OPEN, used_up, IN_FULL },
	{ "POST", "/used-up", AUTH_OPEN, used_up, IN_FULL },
	{ "GET", "/mine", AUTH_TEAM, empty, IN_FULL },
	{ "POST", "/mine", AUTH_TEAM, empty, IN_FULL },
	{ "PUT", "/mine", AUTH_START, empty, IN_FULL },
	{ "GET", "/user", AUTH_USER, empty, IN_FULL },
	{ "GET", "/keys", AUTH_MANAGER, empty, IN_FULL },
	{ "GET", "/all", AUTH_ADMIN, empty, IN_FULL },
};
#define ROWS (sizeof table / sizeof table[0])

static void request(struct call *c, const char *method, const char *path)
{
	call_reset(c);
	c->method = method;
	c->path = path;
	c->header = fake_header;
	route_call(table, ROWS, c);
}

/* A twin serves its rows and answers everything else with the gap, whatever it is in the full profile, and without a key. */
static void test_twin(void **state)
{
	static const struct { const char *method, *path; int status; } cases[] = {
		{ "GET", "/health", 202 }, { "HEAD", "/health", 202 }, { "GET", "/things/i1", 404 }, { "PUT", "/health", 404 },
		{ "GET", "/things/%", 404 }, { "GET", "/mine", 404 }, { "GET", "/nowhere", 404 }, { "POST", "/coded", 404 },
	};
	struct config conf = { .profile = (char *)(uintptr_t)"twin" };
	struct domain d = { .conf = &conf };
	struct call c;

	(void)state;
	call_init(&c, 1024);
	c.d = &d;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		request(&c, cases[i].method, cases[i].path);
		if (c.status != cases[i].status)
			fail_msg("%s %s: %d", cases[i].method, cases[i].path, c.status);
		if (c.status == 404)
			assert_string_equal(buf_str(&c.out), "{\"code\":404,\"message\":\"the method is not implemented by this twin\"}");
	}
	call_release(&c);
}

static void test_match(void **state)
{
	static const struct { const char *method, *path; int status; const char *out; } cases[] = {
		{ "GET", "/health", 202, "" },
		{ "GET", "/things/special", 200, "literal" },
		{ "GET", "/things/i1", 200, "i1|" },
		{ "HEAD", "/things/i1", 200, "i1|" },
		{ "DELETE", "/things/special", 200, "special|" },
		{ "GET", "/things/a%2Fb%3Av1", 200, "a/b:v1|" },                /* api.md T3 */
		{ "GET", "/things/a%2fb/parts/%C3%A9+", 200, "a/b|\xc3\xa9+" },
		{ "GET", "/things/..", 200, "..|" },
		{ "GET", "/things/%2e%2e", 200, "..|" },
		{ "GET", "/things/", 404, NULL },
		{ "GET", "/things", 404, NULL },
		{ "GET", "/things//parts/1", 404, NULL },
		{ "GET", "/things/a/b", 404, NULL },
		{ "GET", "/things/i1/", 404, NULL },
		{ "GET", "/health/", 404, NULL },
		{ "GET", "/healthy", 404, NULL },
		{ "GET", "//health", 404, NULL },
		{ "GET", "/he%61lth", 404, NULL },
		{ "GET", "", 404, NULL },
		{ "GET", "health", 404, NULL },
		{ "GET", "/../health", 404, NULL },
		{ "GET", "/things/%", 400, NULL },
		{ "GET", "/things/%4", 400, NULL },
		{ "GET", "/things/%zz", 400, NULL },
		{ "GET", "/things/a%00b", 400, NULL },
		{ "PUT", "/health", 405, NULL },
		{ "get", "/health", 405, NULL },
		{ "", "/health", 405, NULL },
		{ "HEAD", "/broken", 405, NULL },
		{ "PATCH", "/nowhere", 404, NULL },
		{ "POST", "/coded", 503, NULL },
	};
	struct call c;

	(void)state;
	call_init(&c, 100);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char start[32];

		memset(c.param, 0, sizeof c.param);
		request(&c, cases[i].method, cases[i].path);
		if (c.status != cases[i].status)
			fail_msg("%s %s: %d", cases[i].method, cases[i].path, c.status);
		snprintf(start, sizeof start, "{\"code\":%d,\"message\":\"", cases[i].status);
		if (cases[i].out != NULL)
			assert_string_equal(buf_str(&c.out), cases[i].out);
		else
			assert_ptr_equal(strstr(buf_str(&c.out), start), buf_str(&c.out));
	}
	call_release(&c);
}

static void test_allow(void **state)
{
	struct call c;

	(void)state;
	call_init(&c, 100);
	request(&c, "POST", "/things/x");
	assert_int_equal(c.status, 405);
	assert_string_equal(buf_str(&c.headers), "Allow: GET, DELETE\r\n");
	request(&c, "DELETE", "/things/x");
	assert_string_equal(buf_str(&c.headers), "");
	/* a malformed parameter is no matter of methods, although a row of another method came before */
	request(&c, "DELETE", "/things/%");
	assert_int_equal(c.status, 400);
	call_release(&c);
}

static void test_long_segment(void **state)
{
	char path[CALL_PARAM_LEN + 64] = "/things/";
	struct call c;

	(void)state;
	call_init(&c, 100);
	memset(path + 8, 'a', CALL_PARAM_LEN - 1);
	request(&c, "GET", path);
	assert_int_equal(c.status, 200);
	path[8 + CALL_PARAM_LEN - 1] = 'a';
	request(&c, "GET", path);
	assert_int_equal(c.status, 400);
	call_release(&c);
}

/* An internal error tells the client nothing, and nothing of the half-made answer remains. */
static void test_internal(void **state)
{
	struct call c;

	(void)state;
	call_init(&c, 100);
	request(&c, "POST", "/broken");
	assert_string_equal(buf_str(&c.out),
			    "{\"code\":500,\"message\":\"internal server error\",\"error_code\":\"internal_server_error\"}");
	assert_string_equal(buf_str(&c.headers), "");
	request(&c, "POST", "/coded");
	assert_string_equal(buf_str(&c.out), "{\"code\":503,\"message\":\"Failed to place sandbox\","
			    "\"error_code\":\"sandbox_capacity_unavailable\"}");
	call_release(&c);
}

/* Which headers count on which rows. */
static void test_auth(void **state)
{
	static const struct { const char *path; const char *env[5]; int status; const char *team; } cases[] = {
		{ "/mine", { NULL }, 401, "" },
		{ "/mine", { "HTTP_X_API_KEY", GOOD_KEY, NULL }, 202, "team" },
		{ "/mine", { "HTTP_X_API_KEY", "e2b_00", NULL }, 401, "" },
		{ "/mine", { "HTTP_X_ADMIN_TOKEN", "x", "HTTP_X_TEAM_ID", "other", NULL }, 202, "other" },
		{ "/mine", { "HTTP_X_TEAM_ID", "other", NULL }, 401, "" },
		{ "/mine", { "HTTP_AUTHORIZATION", "x", NULL }, 401, "" },
		{ "/user", { "HTTP_AUTHORIZATION", "x", NULL }, 202, "user" },
		{ "/user", { "HTTP_X_ADMIN_TOKEN", "x", "HTTP_X_TEAM_ID", "other", NULL }, 401, "" },
		{ "/user", { "HTTP_X_API_KEY", GOOD_KEY, NULL }, 401, "" },
		{ "/keys", { "HTTP_AUTHORIZATION", "x", NULL }, 202, "user" },
		{ "/keys", { "HTTP_X_ADMIN_TOKEN", "x", "HTTP_X_TEAM_ID", "other", NULL }, 202, "other" },
		{ "/keys", { "HTTP_X_API_KEY", GOOD_KEY, NULL }, 401, "" },
		{ "/all", { "HTTP_X_ADMIN_TOKEN", "x", NULL }, 202, "" },
		{ "/all", { "HTTP_X_API_KEY", GOOD_KEY, NULL }, 401, "" },
		{ "/all", { "HTTP_AUTHORIZATION", "x", NULL }, 401, "" },
	};
	struct call c;

	(void)state;
	call_init(&c, 100);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		fake_env = cases[i].env;
		request(&c, "GET", cases[i].path);
		if (c.status != cases[i].status || strcmp(c.team.id, cases[i].team) != 0)
			fail_msg("row %zu, %s: %d, team %s", i, cases[i].path, c.status, c.team.id);
		call_reset(&c);
		assert_string_equal(c.team.id, "");          /* the next request starts as nobody */
	}
	fake_env = NULL;
	call_release(&c);
}

static void test_rate(void **state)
{
	static const char *const key[] = { "HTTP_X_API_KEY", GOOD_KEY, NULL };
	struct call c;

	(void)state;
	call_init(&c, 100);
	fake_env = key;
	fake_rate = (struct rate_answer){ .bounded = true, .limit = 5, .remaining = 4, .reset_s = 2 };
	request(&c, "GET", "/mine");
	assert_int_equal(c.status, 202);
	assert_int_equal(fake_group, RATE_READ);
	assert_string_equal(buf_str(&c.headers), "RateLimit-Limit: 5\r\nRateLimit-Remaining: 4\r\nRateLimit-Reset: 2\r\n");
	request(&c, "POST", "/mine");
	assert_int_equal(fake_group, RATE_CHANGE);
	request(&c, "PUT", "/mine");
	assert_int_equal(fake_group, RATE_CREATE);
	fake_rate = (struct rate_answer){ .bounded = true, .refused = true, .limit = 5, .reset_s = 9, .retry_s = 3 };
	request(&c, "GET", "/mine");
	assert_string_equal(buf_str(&c.out), "{\"code\":429,\"message\":\"Rate limit exceeded\"}");
	assert_string_equal(buf_str(&c.headers), "RateLimit-Limit: 5\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: 9\r\nRetry-After: 3\r\n");
	request(&c, "GET", "/health");                       /* nobody's request is no team's */
	assert_string_equal(buf_str(&c.headers), "");
	request(&c, "DELETE", "/used-up");
	assert_int_equal(c.status, 429);
	assert_string_equal(buf_str(&c.headers), "");        /* waiting does not lift it */
	request(&c, "POST", "/used-up");
	assert_int_equal(c.status, 429);
	assert_string_equal(buf_str(&c.headers), "Retry-After: 7\r\n");
	fake_rate = (struct rate_answer){ .bounded = false };
	fake_env = NULL;
	call_release(&c);
}

/* A blocked team gets no further than reading and removing. */
static void test_blocked(void **state)
{
	static const char *const key[] = { "HTTP_X_API_KEY", GOOD_KEY, NULL };
	struct call c;

	(void)state;
	call_init(&c, 100);
	fake_env = key;
	fake_blocked = true;
	request(&c, "GET", "/mine");
	assert_int_equal(c.status, 202);
	request(&c, "HEAD", "/mine");
	assert_int_equal(c.status, 202);
	request(&c, "POST", "/mine");
	assert_string_equal(buf_str(&c.out), "{\"code\":403,\"message\":\"team is blocked\"}");
	request(&c, "PUT", "/mine");
	assert_int_equal(c.status, 403);
	request(&c, "GET", "/health");
	assert_int_equal(c.status, 202);
	fake_blocked = false;
	fake_env = NULL;
	call_release(&c);
}

static void test_hidden_rows(void **state)
{
	static const struct route same[] = { { "GET", "/a/:x", AUTH_OPEN, echo, IN_FULL }, { "POST", "/a/b", AUTH_OPEN, echo, IN_FULL },
					     { "GET", "/a/b", AUTH_OPEN, echo, IN_FULL } };
	static const struct route twice[] = { { "GET", "/a", AUTH_OPEN, echo, IN_FULL }, { "GET", "/a", AUTH_OPEN, echo, IN_FULL } };
	static const struct route deep[] = { { "GET", "/:a/b", AUTH_OPEN, echo, IN_FULL }, { "GET", "/a/:b", AUTH_OPEN, echo, IN_FULL },
					     { "GET", "/x/b", AUTH_OPEN, echo, IN_FULL } };

	(void)state;
	assert_int_equal(route_hidden(table, ROWS), -1);
	assert_int_equal(route_hidden(same, 3), 2);
	assert_int_equal(route_hidden(twice, 2), 1);
	assert_int_equal(route_hidden(deep, 3), 2);
}

static void test_status(void **state)
{
	static const struct { enum err_kind kind; int status; } cases[] = {
		{ ERR_NONE, 500 }, { ERR_INVALID, 400 }, { ERR_UNAUTHENTICATED, 401 }, { ERR_DENIED, 403 }, { ERR_NOT_FOUND, 404 },
		{ ERR_CONFLICT, 409 }, { ERR_TOO_LARGE, 413 }, { ERR_LIMIT, 429 }, { ERR_UNAVAILABLE, 503 }, { ERR_TIMEOUT, 504 },
		{ ERR_INTERNAL, 500 }, { ERR_KINDS, 500 },
	};

	(void)state;
	assert_int_equal(sizeof cases / sizeof cases[0], ERR_KINDS + 1);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(err_status(cases[i].kind), cases[i].status);
}

static void test_header_injection(void **state)
{
	struct call c;

	(void)state;
	call_init(&c, 100);
	call_header(&c, "X-A", "one\r\nSet-Cookie: two");
	assert_string_equal(buf_str(&c.headers), "X-A: one  Set-Cookie: two\r\n");
	call_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_twin),
		cmocka_unit_test(test_allow),
		cmocka_unit_test(test_long_segment),
		cmocka_unit_test(test_internal),
		cmocka_unit_test(test_auth),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_hidden_rows),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_header_injection),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
