/* Connect's framing and errors, the JSON of process events, small parsers of the agent. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "forward.h"
#include "hutch/envd.h"
#include "process.h"

static void test_codes(void **state)
{
	static const struct { enum err_kind kind; const char *set, *code; int status; } rows[] = {
		{ ERR_INVALID, NULL, "invalid_argument", 400 },
		{ ERR_INVALID, "unimplemented", "unimplemented", 501 },
		{ ERR_CONFLICT, "already_exists", "already_exists", 409 },
		{ ERR_NOT_FOUND, NULL, "not_found", 404 },
		{ ERR_UNAUTHENTICATED, NULL, "unauthenticated", 401 },
		{ ERR_DENIED, NULL, "permission_denied", 403 },
		{ ERR_TOO_LARGE, NULL, "resource_exhausted", 429 },
		{ ERR_LIMIT, NULL, "resource_exhausted", 429 },
		{ ERR_UNAVAILABLE, NULL, "unavailable", 503 },
		{ ERR_TIMEOUT, NULL, "deadline_exceeded", 504 },
		{ ERR_TIMEOUT, "canceled", "canceled", 499 },
		{ ERR_INTERNAL, NULL, "internal", 500 },
		{ ERR_INTERNAL, "unknown", "unknown", 500 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct err e;

		assert_int_equal(rpc_fail(&e, rows[i].kind, rows[i].set, "no %d", 7), -1);
		assert_string_equal(e.text, "no 7");
		assert_string_equal(rpc_code(&e), rows[i].code);
		assert_int_equal(rpc_status(rpc_code(&e)), rows[i].status);
	}
}

static void test_envelopes(void **state)
{
	struct err e;
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	envelope_add(&b, RPC_END, "{}", 2);
	assert_int_equal(b.len, 7);
	assert_memory_equal(b.p, "\x02\0\0\0\x02{}", 7);
	buf_reset(&b);
	stream_end_json(&b, NULL);
	assert_string_equal(buf_str(&b), "{}");
	buf_reset(&b);
	rpc_fail(&e, ERR_NOT_FOUND, NULL, "no \"x\"");
	stream_end_json(&b, &e);
	assert_string_equal(buf_str(&b), "{\"error\":{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\"}}");
	buf_release(&b);
}

static void check_message(struct buf *b, const char *json)
{
	size_t n = strlen(json);

	assert_int_equal(b->len, n + 5);
	assert_int_equal(b->p[0], 0);
	assert_int_equal((size_t)(unsigned char)b->p[3] << 8 | (unsigned char)b->p[4], n);
	assert_string_equal(b->p + 5, json);
	buf_reset(b);
}

/* Wait statuses: exit code in bits 8-15, else the signal in bits 0-6 and 0x80 for a core. */
static void test_events(void **state)
{
	static const struct { int status; const char *json; } ends[] = {
		{ 0, "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}" },
		{ 3 << 8, "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit status 3\"}}}" },
		{ SIGKILL, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\",\"error\":\"signal: killed\"}}}" },
		{ SIGTERM, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: terminated\",\"error\":\"signal: terminated\"}}}" },
		{ SIGSEGV | 0x80, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: segmentation fault (core dumped)\","
		  "\"error\":\"signal: segmentation fault (core dumped)\"}}}" },
		{ 40, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: signal 40\",\"error\":\"signal: signal 40\"}}}" },
	};
	struct chunk *c = test_malloc(sizeof *c + 3);
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	event_start(&b, 431);
	check_message(&b, "{\"event\":{\"start\":{\"pid\":431}}}");
	event_keepalive(&b);
	check_message(&b, "{\"event\":{\"keepalive\":{}}}");
	c->channel = CH_STDOUT;
	c->n = 3;
	memcpy(c->data, "hi\n", 3);
	event_data(&b, c);
	check_message(&b, "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}");
	c->channel = CH_PTY;
	c->n = 1;
	event_data(&b, c);
	check_message(&b, "{\"event\":{\"data\":{\"pty\":\"aA==\"}}}");
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		event_end(&b, ends[i].status);
		check_message(&b, ends[i].json);
	}
	test_free(c);
	buf_release(&b);
}

static void test_u32(void **state)
{
	static const struct { const char *json; int got; uint32_t n; } rows[] = {
		{ "{\"pid\":42}", 1, 42 }, { "{\"pid\":\"42\"}", 1, 42 }, { "{\"pid\":4294967295}", 1, UINT32_MAX },
		{ "{}", 0, 0 }, { "{\"pid\":null}", 0, 0 }, { "{\"pid\":-1}", -1, 0 }, { "{\"pid\":4294967296}", -1, 0 },
		{ "{\"pid\":\"\"}", -1, 0 }, { "{\"pid\":\"4x\"}", -1, 0 }, { "{\"pid\":\"-4\"}", -1, 0 },
		{ "{\"pid\":\"99999999999999999999\"}", -1, 0 }, { "{\"pid\":true}", -1, 0 }, { "{\"pid\":{}}", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		json_object *o = NULL;
		uint32_t n = 0;
		struct err e;

		assert_int_equal(json_read_object(rows[i].json, strlen(rows[i].json), &o, &e), 0);
		assert_int_equal(rpc_get_u32(o, "pid", &n, &e), rows[i].got);
		assert_int_equal(n, rows[i].n);
		if (rows[i].got < 0)
			assert_non_null(strstr(e.text, "pid"));
		json_object_put(o);
	}
}

static void test_env_check(void **state)
{
	static const struct { const char *json; int rc; } rows[] = {
		{ "{}", 0 }, { "{\"A\":\"\",\"b c\":\"x=y\"}", 0 }, { "{\"\":\"x\"}", -1 }, { "{\"A=B\":\"x\"}", -1 },
		{ "{\"A\":\"x\\u0000y\"}", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		json_object *o = NULL;
		struct err e;

		assert_int_equal(json_read_object(rows[i].json, strlen(rows[i].json), &o, &e), 0);
		assert_int_equal(env_check(o, "envs", &e), rows[i].rc);
		json_object_put(o);
	}
}

static void test_wants_page(void **state)
{
	static const struct { const char *fields; bool page; } rows[] = {
		{ "User-Agent: Mozilla/5.0 (X11) Firefox/130\r\nAccept: text/html,*/*\r\n", true },
		{ "User-Agent: Mozilla/5.0\r\n", true },
		{ "User-Agent: e2b-js-sdk/2.51.0\r\n", false },
		{ "User-Agent: node\r\n", false },
		{ "User-Agent: python-httpx/0.27\r\n", false },
		{ "", false },
		{ "User-Agent: Mozilla/5.0\r\nAccept: application/json\r\n", false },
		{ "User-Agent: Mozilla/5.0\r\nAccept: application/json, text/html\r\n", true },
		{ "User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: cors\r\n", false },
		{ "User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: websocket\r\n", false },
		{ "User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: navigate\r\n", true },
		{ "User-Agent: Mozilla/5.0\r\nX-Requested-With: XMLHttpRequest\r\n", false },
		{ "User-Agent: Mozilla/5.0\r\nX-Requested-With: app\r\nSec-Fetch-Mode: navigate\r\n", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct h1_head head;
		struct err e;
		struct buf b;

		buf_init(&b, 1000);
		buf_addf(&b, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", rows[i].fields);
		assert_true(h1_parse_request(b.p, b.len, &head, &e) > 0);
		assert_int_equal(wants_page(&head), rows[i].page);
		buf_release(&b);
	}
}

static void test_ctl_lines(void **state)
{
	static const struct { const char *line, *answer; } rows[] = {
		{ "{\"op\":\"ping\"}", "{\"ok\":true,\"version\":\"" ENVD_VERSION "\"}\n" },
		{ "{\"op\":\"dance\"}", "{\"ok\":false,\"message\":\"op \\\"dance\\\" is unknown\"}\n" },
		{ "{}", "{\"ok\":false,\"message\":\"op is required\"}\n" },
		{ "{\"op\":\"listen\"}", "{\"ok\":false,\"message\":\"port is required\"}\n" },
		{ "{\"op\":\"listen\",\"port\":0}", "{\"ok\":false,\"message\":\"port must be from 1 to 65535\"}\n" },
		{ "{\"op\":\"listen\",\"port\":80}", "{\"ok\":false,\"message\":\"no listening socket came with the request\"}\n" },
		{ "{\"op\":\"ready\"}", "{\"ok\":true}\n" },
		{ "{\"op\":\"start\"}", "{\"ok\":false,\"message\":\"command is required\"}\n" },
		{ "{\"op\":\"start\",\"command\":[]}", "{\"ok\":false,\"message\":\"command is required\"}\n" },
		{ "{\"op\":\"start\",\"command\":[\"x\"],\"readyPort\":65536}",
		  "{\"ok\":false,\"message\":\"readyPort must be from 0 to 65535\"}\n" },
		{ "{\"op\":\"init\",\"accessToken\":\"\"}",
		  "{\"ok\":false,\"message\":\"accessToken must not be empty or hold a backslash\"}\n" },
		{ "{\"op\":\"init\",\"envVars\":{\"A\":1}}",
		  "{\"ok\":false,\"message\":\"envVars: the value of \\\"A\\\" must be a string\"}\n" },
	};
	struct agent a;
	struct err e;

	(void)state;
	assert_int_equal(agent_init(&a, "root", &e), 0);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct buf b;

		buf_init(&b, 4096);
		ctl_line(&a, rows[i].line, strlen(rows[i].line), -1, &b);
		assert_string_equal(buf_str(&b), rows[i].answer);
		buf_release(&b);
	}
	agent_release(&a);
}

/* Lines after a time, oldest first; the newest of too many; refusals counted, not all noted; texts that are no UTF-8. */
static void test_journal(void **state)
{
	struct json_object *said = NULL, *lines = NULL;
	char ask[80], last[16];
	struct agent a;
	int64_t us;
	struct err e;
	struct buf b;

	(void)state;
	assert_int_equal(agent_init(&a, "root", &e), 0);
	for (int i = 0; i < JOURNAL_LINES + 10; i++) {
		snprintf(last, sizeof last, "%d", i);
		journal_add(&a.journal, "info", last, NULL);
	}
	for (int i = 0; i < 5; i++)
		journal_refused(&a.journal, "wrong \xff", "/x?y", 2);
	buf_init(&b, 1 << 20);
	ctl_line(&a, "{\"op\":\"journal\"}", 16, -1, &b);
	assert_int_equal(json_read_object(b.p, b.len, &said, &e), 0);
	assert_int_equal(json_get_arr(said, "lines", &lines, &e), 1);
	assert_int_equal(json_object_array_length(lines), JOURNAL_LINES);
	assert_string_equal(json_object_get_string(json_object_object_get(json_object_array_get_idx(lines, 0), "message")), "11");
	us = json_object_get_int64(json_object_object_get(json_object_array_get_idx(lines, JOURNAL_LINES - 2), "us"));
	json_object_put(said);
	snprintf(ask, sizeof ask, "{\"op\":\"journal\",\"after\":%lld}", (long long)us);
	buf_reset(&b);
	ctl_line(&a, ask, strlen(ask), -1, &b);
	assert_non_null(strstr(b.p, ",\"level\":\"warn\",\"message\":\"Request refused: wrong \xef\xbf\xbd\",\"fields\":{\"path\":\"/x\"}}]}"));
	assert_null(strstr(b.p, "\"265\""));
	buf_release(&b);
	agent_release(&a);
}

/* A descriptor that no request uses is closed. */
static void test_ctl_stray_fd(void **state)
{
	struct agent a;
	struct err e;
	struct buf b;
	int pair[2];
	char c;

	(void)state;
	assert_int_equal(agent_init(&a, "root", &e), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	buf_init(&b, 4096);
	ctl_line(&a, "not json", 8, pair[1], &b);
	assert_memory_equal(buf_str(&b), "{\"ok\":false,", 12);
	assert_int_equal(read(pair[0], &c, 1), 0);
	close(pair[0]);
	buf_release(&b);
	agent_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_envelopes),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_u32),
		cmocka_unit_test(test_env_check),
		cmocka_unit_test(test_wants_page),
		cmocka_unit_test(test_ctl_lines),
		cmocka_unit_test(test_journal),
		cmocka_unit_test(test_ctl_stray_fd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
