/* From a web server's variables to the reply, without any web server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "http_fake.h"
#include "front.h"

static int show(struct call *c, struct err *e)
{
	(void)e;
	c->status = 200;
	buf_addf(&c->out, "%s?%s#%zu", c->path, c->query, c->body.len);
	return 0;
}

static int nothing(struct call *c, struct err *e)
{
	(void)e;
	c->status = c->path[3] == '2' ? 202 : 204;
	return 0;
}

static const struct route table[] = {
	{ "GET", "/:a", AUTH_OPEN, show, IN_FULL },
	{ "POST", "/:a", AUTH_OPEN, show, IN_FULL },
	{ "PUT", "/202", AUTH_OPEN, nothing, IN_FULL },
	{ "PUT", "/204", AUTH_OPEN, nothing, IN_FULL },
};

/* The body arrives in pieces of this size. */
static const char *body_text;
static size_t body_piece, body_at, body_breaks_at;

static ssize_t read_body(struct call *c, void *p, size_t n)
{
	size_t left = strlen(body_text) - body_at;

	(void)c;
	if (body_breaks_at != 0 && body_at >= body_breaks_at)
		return -1;
	if (n > left)
		n = left;
	if (n > body_piece)
		n = body_piece;
	memcpy(p, body_text + body_at, n);
	body_at += n;
	return (ssize_t)n;
}

static struct front front = { .table = table, .rows = 4, .body_ends = true, .lock = PTHREAD_MUTEX_INITIALIZER };
static struct call call;
static char path[URI_MAX];

static void serve(const char *const *env, const char *body)
{
	fake_env = env;
	body_text = body;
	body_at = 0;
	call.header = fake_header;
	front_serve(&front, &call, path, read_body);
}

static int setup(void **state)
{
	(void)state;
	body_piece = 7;
	body_breaks_at = 0;
	front.body_ends = true;
	front.conf.domain = (char *)(uintptr_t)"d";
	front.conf.profile = (char *)(uintptr_t)"full";
	call_init(&call, 20);
	call.header = fake_header;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	call_release(&call);
	return 0;
}

static void test_target(void **state)
{
	static const struct { const char *uri, *prefix, *out; int status; } cases[] = {
		{ "/a", NULL, "/a?#0", 200 },
		{ "/a%2Fb?x=%26&y", NULL, "/a%2Fb?x=%26&y#0", 200 },
		{ "/a?", NULL, "/a?#0", 200 },
		{ "/a?b?c", NULL, "/a?b?c#0", 200 },
		{ "http://h:1/a?q", NULL, "/a?q#0", 200 },
		{ "https://h", NULL, NULL, 404 },
		{ "/cgi-bin/x/a", "/cgi-bin/x", "/a?#0", 200 },
		{ "/a", "/cgi-bin/x", "/a?#0", 200 },
		{ "*", NULL, NULL, 404 },
		{ "", NULL, NULL, 404 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *env[] = { "REQUEST_METHOD", "GET", "REQUEST_URI", cases[i].uri, "HUTCH_PREFIX",
				      cases[i].prefix, NULL };

		if (cases[i].prefix == NULL)
			env[4] = NULL;
		serve(env, "");
		assert_int_equal(call.status, cases[i].status);
		if (cases[i].out != NULL)
			assert_string_equal(buf_str(&call.out), cases[i].out);
	}
}

static void test_no_uri(void **state)
{
	const char *old[] = { "REQUEST_METHOD", "GET", "PATH_INFO", "/p", "QUERY_STRING", "q=1", NULL };
	const char *none[] = { "REQUEST_METHOD", "GET", NULL };
	const char *bare[] = { NULL };

	(void)state;
	serve(old, "");
	assert_string_equal(buf_str(&call.out), "/p?q=1#0");
	serve(none, "");
	assert_int_equal(call.status, 400);
	serve(bare, "");
	assert_int_equal(call.status, 400);
}

static void test_long_uri(void **state)
{
	char *uri = malloc(URI_MAX + 2);
	const char *env[] = { "REQUEST_METHOD", "GET", "REQUEST_URI", uri, NULL };

	(void)state;
	assert_non_null(uri);
	memset(uri, 'a', URI_MAX + 1);
	uri[0] = '/';
	uri[URI_MAX + 1] = '\0';
	serve(env, "");
	assert_int_equal(call.status, 400);
	free(uri);
}

static void test_body(void **state)
{
	static const struct { const char *length, *chunked, *body; bool ends; size_t breaks; int status; const char *out; } cases[] = {
		{ "5", NULL, "12345", true, 0, 200, "/a?#5" },
		{ "20", NULL, "12345678901234567890", true, 0, 200, "/a?#20" },
		{ "0", NULL, "", true, 0, 200, "/a?#0" },
		{ "5", NULL, "1234567", true, 0, 200, "/a?#5" },                     /* what is too much is not read */
		{ "6", NULL, "12345", true, 0, 400, "the body ended early" },
		{ "20", NULL, "12345678901234567890", true, 7, 400, "the body ended early" },
		{ "21", NULL, "123456789012345678901", true, 0, 413, "larger than 20 bytes" },
		{ "99999999999", NULL, "", true, 0, 413, "larger than 20 bytes" },
		{ "99999999999999999999", NULL, "", true, 0, 400, "Content-Length" },
		{ "-1", NULL, "", true, 0, 400, "Content-Length" },
		{ "+5", NULL, "12345", true, 0, 400, "Content-Length" },
		{ "5x", NULL, "12345", true, 0, 400, "Content-Length" },
		{ "", NULL, "12345678901234567890", true, 0, 200, "/a?#20" },        /* chunked by the client: no length */
		{ NULL, NULL, "123456789012345678901", true, 0, 413, "larger" },
		{ NULL, NULL, "12345678901", true, 7, 400, "the body ended early" },
		{ NULL, NULL, "12345", false, 0, 200, "/a?#0" },                     /* plain CGI: no length, no body */
		{ NULL, "chunked", "12345", false, 0, 200, "/a?#5" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *env[12] = { "REQUEST_METHOD", "POST", "REQUEST_URI", "/a" };
		size_t n = 4;

		if (cases[i].length != NULL) {
			env[n++] = "CONTENT_LENGTH";
			env[n++] = cases[i].length;
		}
		if (cases[i].chunked != NULL) {
			env[n++] = "HTTP_TRANSFER_ENCODING";
			env[n++] = cases[i].chunked;
		}
		front.body_ends = cases[i].ends;
		body_breaks_at = cases[i].breaks;
		serve(env, cases[i].body);
		if (call.status != cases[i].status || strstr(buf_str(&call.out), cases[i].out) == NULL)
			fail_msg("case %zu: %d %s", i, call.status, buf_str(&call.out));
	}
}

static void test_head_lines(void **state)
{
	static const struct { const char *method, *uri, *head; bool body; } cases[] = {
		{ "GET", "/a", "Status: 200\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n", true },
		{ "HEAD", "/a", "Status: 200\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n", false },
		{ "PUT", "/202", "Status: 202\r\nContent-Length: 0\r\n\r\n", false },        /* api.md T4 */
		{ "PUT", "/204", "Status: 204\r\n\r\n", false },
	};
	struct buf head;

	(void)state;
	buf_init(&head, 4096);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *env[] = { "REQUEST_METHOD", cases[i].method, "REQUEST_URI", cases[i].uri, NULL };

		serve(env, "");
		front_head(&call, &head);
		assert_string_equal(buf_str(&head), cases[i].head);
		assert_int_equal(front_has_body(&call), cases[i].body);
	}
	buf_release(&head);
}

static void test_cors(void **state)
{
	const char *asked[] = { "REQUEST_METHOD", "OPTIONS", "REQUEST_URI", "/a/b/c", "HTTP_ORIGIN", "https://x",
				"HTTP_ACCESS_CONTROL_REQUEST_METHOD", "POST", NULL };
	const char *plain[] = { "REQUEST_METHOD", "OPTIONS", "REQUEST_URI", "/a", NULL };
	const char *origin[] = { "REQUEST_METHOD", "GET", "REQUEST_URI", "/nowhere/x", "HTTP_ORIGIN", "https://x", NULL };

	(void)state;
	serve(asked, "");
	assert_int_equal(call.status, 204);
	assert_int_equal(call.out.len, 0);
	assert_non_null(strstr(buf_str(&call.headers), "Access-Control-Allow-Origin: *\r\n"));
	assert_non_null(strstr(buf_str(&call.headers), "X-API-Key"));
	assert_non_null(strstr(buf_str(&call.headers), "DELETE"));
	serve(plain, "");
	assert_int_equal(call.status, 405);
	assert_null(strstr(buf_str(&call.headers), "Access-Control"));
	serve(origin, "");                                   /* errors are readable too */
	assert_int_equal(call.status, 404);
	assert_non_null(strstr(buf_str(&call.headers), "Access-Control-Allow-Origin: *\r\n"));
	assert_non_null(strstr(buf_str(&call.headers), "X-Next-Token"));
}

/* Records that cannot be opened are a 503, and are tried again by the next request. */
static void test_records(void **state)
{
	const char *env[] = { "REQUEST_METHOD", "GET", "REQUEST_URI", "/a", NULL };
	struct front f = { .table = table, .rows = 4, .lock = PTHREAD_MUTEX_INITIALIZER };

	(void)state;
	f.conf.profile = (char *)(uintptr_t)"full";
	fake_env = env;
	records_broken = true;
	front_serve(&f, &call, path, read_body);
	assert_int_equal(call.status, 503);
	records_broken = false;
	opened = 0;
	front_serve(&f, &call, path, read_body);
	front_serve(&f, &call, path, read_body);
	assert_int_equal(call.status, 200);
	assert_int_equal(opened, 1);
}

static void raw_answer(struct call *c)
{
	c->status = c->d != NULL ? 200 : 502;
	c->type = "text/html";
	buf_adds(&c->out, "<p>");
}

static void test_raw(void **state)
{
	const char *env[] = { "REQUEST_METHOD", "BREW", "REQUEST_URI", "/any/where", "CONTENT_LENGTH", "100", NULL };
	struct front f = { .raw = raw_answer, .lock = PTHREAD_MUTEX_INITIALIZER };
	struct buf head;

	(void)state;
	f.conf.profile = (char *)(uintptr_t)"full";
	fake_env = env;
	records_broken = true;
	front_serve(&f, &call, path, read_body);
	assert_int_equal(call.status, 502);
	records_broken = false;
	front_serve(&f, &call, path, read_body);
	buf_init(&head, 4096);
	front_head(&call, &head);
	assert_string_equal(buf_str(&head), "Status: 200\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n");
	buf_release(&head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_target, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_uri, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_uri, setup, teardown),
		cmocka_unit_test_setup_teardown(test_body, setup, teardown),
		cmocka_unit_test_setup_teardown(test_head_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_records, setup, teardown),
		cmocka_unit_test_setup_teardown(test_raw, setup, teardown),
	};

	return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
