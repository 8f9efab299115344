#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/chunked.h"
#include "hutch/h1.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define H "Host: a\r\n"

struct good {
	const char *text, *path, *query;
	int64_t length;
	bool chunked, keep_alive, expect_continue, upgrade;
};

static const struct good good[] = {
	{ "GET / HTTP/1.1\r\n" H "\r\n", "/", "", -1, false, true, false, false },
	{ "\r\nGET / HTTP/1.1\r\n" H "\r\n", "/", "", -1, false, true, false, false },
	{ "GET /a%2Fb?x=1?y HTTP/1.1\r\n" H "\r\n", "/a%2Fb", "x=1?y", -1, false, true, false, false },
	{ "GET /? HTTP/1.1\r\n" H "\r\n", "/", "", -1, false, true, false, false },
	{ "GET //x/../y HTTP/1.1\r\n" H "\r\n", "//x/../y", "", -1, false, true, false, false },
	{ "OPTIONS * HTTP/1.1\r\n" H "\r\n", "*", "", -1, false, true, false, false },
	{ "GET http://A/x?q HTTP/1.1\r\n" H "\r\n", "/x", "q", -1, false, true, false, false },
	{ "GET http://a?q HTTP/1.1\r\n" H "\r\n", "/", "q", -1, false, true, false, false },
	{ "GET / HTTP/1.0\r\n\r\n", "/", "", -1, false, false, false, false },
	{ "GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", "/", "", -1, false, true, false, false },
	{ "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "/", "", -1, false, false, false, false },
	{ "GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\nConnection:close\r\n\r\n", "/", "", -1, false, false, false, false },
	{ "GET / HTTP/1.1\r\nHost:\r\n\r\n", "/", "", -1, false, true, false, false },
	{ "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "/", "", -1, false, true, false, false },
	{ "POST / HTTP/1.1\r\n" H "Content-Length:\t5 \r\n\r\n", "/", "", 5, false, true, false, false },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "/", "", 5, false, true, false, false },
	{ "POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n", "/", "", -1, true, true, false, false },
	{ "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nExpect: 100-Continue\r\n\r\n", "/", "", 5, false, true, true, false },
	{ "POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", "/", "", 5, false, false, false, false },
	{ "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "/", "", -1, false, true, false, true },
	{ "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\n\r\n", "/", "", -1, false, true, false, false },
	{ "GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n\r\n", "/", "", -1, false, true, false, false },
	{ "GET /\xc3\xa4 HTTP/1.1\r\n" H "X: \xc3\xa4\r\nEmpty:\r\n\r\n", "/\xc3\xa4", "", -1, false, true, false, false },
};

static void test_good(void **state)
{
	struct h1_head h;
	struct err e;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		const struct good *g = &good[i];
		size_t n = strlen(g->text);

		for (size_t k = 0; k < n; k++)
			if (h1_parse_request(g->text, k, &h, &e) != 0)
				fail_msg("row %zu is not incomplete at %zu bytes", i, k);
		if (h1_parse_request(g->text, n, &h, &e) != (ssize_t)n)
			fail_msg("row %zu: %s", i, e.text);
		assert_true(h1_span_is(h.path, g->path));
		assert_true(h1_span_is(h.query, g->query));
		assert_int_equal(h.length, g->length);
		if (h.chunked != g->chunked || h.keep_alive != g->keep_alive || h.expect_continue != g->expect_continue ||
		    h.upgrade != g->upgrade)
			fail_msg("row %zu: a derived flag is wrong", i);
	}
}

/* Each could be read in two ways by two readers, or is no HTTP at all. */
static const char *const bad[] = {
	"GET / HTTP/1.1\n" H "\r\n",                                    /* bare LF */
	"GET / HTTP/1.1\r\n" H "\n",
	"GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n",                       /* bare CR */
	"GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n",                    /* folded */
	"GET / HTTP/1.1\r\n X: a\r\n" H "\r\n",
	"GET / HTTP/1.1\r\n" H "X : a\r\n\r\n",                         /* space before the colon */
	"GET / HTTP/1.1\r\n" H "X\r\n\r\n",
	"GET / HTTP/1.1\r\n" H ": a\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "X\x01: a\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "X: \x7f\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: -5\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: \r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: 9999999999999999999\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n",
	"GET / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n",
	"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",                                       /* no Host */
	"GET / HTTP/1.1\r\n" H H "\r\n",
	"GET / HTTP/1.0\r\n" H H "\r\n",
	"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
	"GET http://b/ HTTP/1.1\r\n" H "\r\n",                          /* two different hosts */
	"GET  / HTTP/1.1\r\n" H "\r\n",
	"GET /  HTTP/1.1\r\n" H "\r\n",
	"GET / HTTP/1.1 \r\n" H "\r\n",
	" GET / HTTP/1.1\r\n" H "\r\n",
	"GET /\tx HTTP/1.1\r\n" H "\r\n",
	"GET /#x HTTP/1.1\r\n" H "\r\n",
	"GET x HTTP/1.1\r\n" H "\r\n",
	"GET * HTTP/1.1\r\n" H "\r\n",
	"GET /\r\n" H "\r\n",
	"GET / HTTP/2.0\r\n" H "\r\n",
	"GET / HTTP/1.2\r\n" H "\r\n",
	"GET / http/1.1\r\n" H "\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"CONNECT a:80 HTTP/1.1\r\n" H "\r\n",
	"G@T / HTTP/1.1\r\n" H "\r\n",
	"\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n",
	"\x16\x03\x01\x02\r\n",                                         /* TLS */
};

static void test_bad(void **state)
{
	struct h1_head h;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct err e = { 0 };

		if (h1_parse_request(bad[i], strlen(bad[i]), &h, &e) != -1)
			fail_msg("row %zu was taken: %s", i, bad[i]);
		assert_int_equal(e.kind, ERR_INVALID);
		assert_true(e.text[0] != '\0');
	}
	assert_int_equal(h1_parse_request("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29, &h, &(struct err){ 0 }), -1);
}

static void test_bounds(void **state)
{
	size_t n = H1_HEAD_MAX + 100;
	char *text = malloc(n);
	struct h1_head h;
	struct err e = { 0 };
	int len;

	(void)state;
	len = sprintf(text, "GET / HTTP/1.1\r\n" H);
	for (int i = 0; i < H1_FIELDS_MAX - 1; i++)
		len += sprintf(text + len, "x: 1\r\n");
	strcpy(text + len, "\r\n");
	assert_int_equal(h1_parse_request(text, (size_t)len + 2, &h, &e), len + 2);
	assert_int_equal(h.nfields, H1_FIELDS_MAX);
	strcpy(text + len, "x: 1\r\n\r\n");
	assert_int_equal(h1_parse_request(text, (size_t)len + 8, &h, &e), -1);
	assert_int_equal(e.kind, ERR_TOO_LARGE);

	len = sprintf(text, "GET / HTTP/1.1\r\n" H "x: ");
	memset(text + len, 'a', n - (size_t)len);
	memcpy(text + H1_HEAD_MAX - 4, "\r\n\r\n", 4);
	assert_int_equal(h1_parse_request(text, n, &h, &e), H1_HEAD_MAX);
	assert_int_equal(h1_parse_request(text, H1_HEAD_MAX - 1, &h, &e), 0);
	memcpy(text + H1_HEAD_MAX - 4, "aaa\r\n\r\n", 7);
	e.kind = ERR_NONE;
	assert_int_equal(h1_parse_request(text, n, &h, &e), -1);
	assert_int_equal(e.kind, ERR_TOO_LARGE);
	free(text);
}

static void test_fields(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nhOsT: a:80\r\nX-One:  1 2\t\r\nx-one: 2\r\n\r\nrest";
	struct h1_head h;
	struct err e;

	(void)state;
	assert_int_equal(h1_parse_request(text, sizeof text - 1, &h, &e), sizeof text - 5);
	assert_true(h1_span_is(*h1_field(&h, "HOST"), "a:80"));
	assert_true(h1_span_is(*h1_field(&h, "X-One"), "1 2"));
	assert_null(h1_field(&h, "X-On"));
	assert_true(h1_span_is_nocase(h.method, "get"));
	assert_false(h1_span_is(h.method, "get"));
}

static void test_query(void **state)
{
	static const struct { const char *query, *name; int rc; const char *value; } rows[] = {
		{ "a=1", "a", 1, "1" }, { "a=1&b=2", "b", 1, "2" }, { "a=1&a=2", "a", 1, "1" }, { "a", "a", 1, "" },
		{ "a=", "a", 1, "" }, { "", "a", 0, NULL }, { "ab=1", "a", 0, NULL }, { "a=1", "ab", 0, NULL },
		{ "&&a=b=c&", "a", 1, "b=c" }, { "a=%2Fx+y%2b", "a", 1, "/x y+" }, { "%61=1", "a", 1, "1" },
		{ "a=%C3%A4", "a", 1, "\xc3\xa4" }, { "a=%", "a", -1, NULL }, { "a=%2", "a", -1, NULL }, { "a=%2g", "a", -1, NULL },
		{ "a=%00", "a", -1, NULL }, { "a=%2&b=1", "a", -1, NULL }, { "b=%zz&a=1", "a", 1, "1" }, { "%zz=1&a=1", "a", 1, "1" },
		{ "a=1234567", "a", 1, "1234567" }, { "a=12345678", "a", -1, NULL },
	};
	char out[8];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int rc = h1_query_get((struct h1_span){ rows[i].query, strlen(rows[i].query) }, rows[i].name, out, sizeof out);

		if (rc != rows[i].rc || (rc == 1 && strcmp(out, rows[i].value) != 0))
			fail_msg("%s of %s: %d", rows[i].name, rows[i].query, rc);
	}
}

/* Decode text in pieces of `step` bytes. Payload length into *n (its bytes into out), framing bytes used or -1. */
static ssize_t dechunk(const char *text, size_t len, size_t step, char *out, size_t *n)
{
	struct chunked c;
	size_t at = 0;

	chunked_init(&c);
	*n = 0;
	while (at < len && !chunked_done(&c)) {
		size_t piece = len - at < step ? len - at : step, payload = (size_t)chunked_payload(&c);
		ssize_t used;

		if (payload != 0) {
			used = (ssize_t)(payload < piece ? payload : piece);
			memcpy(out + *n, text + at, (size_t)used);
			*n += (size_t)used;
			chunked_took(&c, (uint64_t)used);
		} else {
			used = chunked_frame(&c, text + at, piece);
			if (used < 0)
				return -1;
		}
		at += (size_t)used;
	}
	return chunked_done(&c) ? (ssize_t)at : 0;
}

static void test_chunked_good(void **state)
{
	static const struct { const char *text, *body; size_t used; } rows[] = {
		{ "0\r\n\r\n", "", 5 },
		{ "5\r\nhello\r\n0\r\n\r\nGET", "hello", 15 },
		{ "5;a=b;c\r\nhello\r\n00;x\r\nTrailer: 1\r\nB: 2\r\n\r\n", "hello", 42 },
		{ "a\r\n0\r\n\r\n56789\r\nA\r\nabcdefghij\r\n0\r\n\r\n", "0\r\n\r\n56789abcdefghij", 35 },
		{ "000000000000001\r\nx\r\n0\r\n\r\n", "x", 25 },
		{ "5\r\nhel", "hel", 0 },
		{ "5\r\nhello\r\n0\r\n\r", "hello", 0 },
	};
	char out[64];
	size_t n;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t step = 1; step <= strlen(rows[i].text); step++) {
			if (dechunk(rows[i].text, strlen(rows[i].text), step, out, &n) != (ssize_t)rows[i].used)
				fail_msg("row %zu in steps of %zu", i, step);
			assert_int_equal(n, strlen(rows[i].body));
			assert_memory_equal(out, rows[i].body, n);
		}
}

static void test_chunked_bad(void **state)
{
	static const char *const rows[] = {
		"\r\n", ";x\r\n", "g\r\n", "-1\r\n", "+1\r\n", " 1\r\n", "0x1\r\n", "1 \r\n", "1\n", "1\rx", "1\r\nxy", "1\r\nx\n", "1\r\nx\rz",
		"1;\n\r\n", "1;\x01\r\n", "0000000000000001\r\n", "fffffffffffffffff\r\n", "0\r\n\rx", "0\r\n\n", "0\r\nT: \n", "0\r\nT\r\r", "0\n\r\n",
	};
	char out[64], *big = malloc(3 * CHUNKED_EXTRA_MAX);
	size_t n, len;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t step = 1; step <= strlen(rows[i]); step++)
			if (dechunk(rows[i], strlen(rows[i]), step, out, &n) != -1)
				fail_msg("row %zu in steps of %zu was taken", i, step);

	/* extensions and trailers are bounded together, however they are spread */
	for (len = 0, n = 0; n < CHUNKED_EXTRA_MAX / 4; n++)
		len += (size_t)sprintf(big + len, "1;%s\r\nx\r\n", n % 2 ? "ab" : "abcdef");
	{
		char *sink = malloc(len);

		assert_int_equal(dechunk(big, len, len, sink, &n), 0);
		strcpy(big + len, "0;1\r\n\r\n");
		assert_int_equal(dechunk(big, len + 7, len + 7, sink, &n), -1);
		free(sink);
	}
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_chunked_good),
		cmocka_unit_test(test_chunked_bad),
	};

	return cmocka_run_group_tests_name("h1_parse", tests, NULL, NULL);
}
