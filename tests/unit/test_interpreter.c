/* hutch-interpreter: stretches of JSON, lines of /execute, ZMTP, signed messages, code that sets variables. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "event.h"
#include "language.h"
#include "span.h"
#include "wire.h"
#include "zmtp.h"

static struct span of(const char *s)
{
	return (struct span){ s, strlen(s) };
}

static void is(struct buf *b, const char *want)
{
	assert_string_equal(buf_str(b), want);
	buf_reset(b);
}

/* ---- span ---- */

static void test_span(void **state)
{
	const char *text = " { \"a\" : [1, {\"b\":\"x,]}\\\"\"}] ,\"n\":null,\"big\":123456789012345678901234567890 , \"a\":-1.5e3 } ";
	struct span o = of(text), k, v;
	char copy[8];
	size_t at = 0, n = 0;

	(void)state;
	assert_true(span_check(o));
	assert_false(span_check(of("[1]")));
	assert_false(span_check(of("{\"a\":}")));
	assert_false(span_check(of("")));
	assert_false(span_check((struct span){ NULL, 0 }));
	while (span_next(o, &at, &k, &v))
		n++;
	assert_int_equal(n, 4);
	v = span_member(o, "a");                     /* the last of two */
	assert_int_equal(v.n, 6);
	assert_memory_equal(v.p, "-1.5e3", 6);
	assert_int_equal(span_member(o, "big").n, 30);
	assert_true(span_is_null(span_member(o, "n")));
	assert_true(span_is_null(span_member(o, "zz")));
	assert_null(span_member(of("[1]"), "a").p);
	at = n = 0;
	o = of("[ 1 , \"x\" , {} , [] ]");
	while (span_next(o, &at, NULL, &v))
		n++;
	assert_int_equal(n, 4);
	at = 0;
	assert_false(span_next(of("{}"), &at, &k, &v));
	assert_true(span_copy(of("\"short\""), copy, sizeof copy));
	assert_string_equal(copy, "short");
	assert_false(span_copy(of("\"longer text\""), copy, sizeof copy));
	assert_false(span_copy(of("\"a\\n\""), copy, sizeof copy));
	assert_false(span_copy(of("12"), copy, sizeof copy));
}

static void test_ascii(void **state)
{
	static const struct { const char *from, *to; } rows[] = {
		{ "\"plain\"", "\"plain\"" },
		{ "\"\xc3\xa9 \xe2\x80\xa8 \xf0\x9f\x98\x80\"", "\"\\u00e9 \\u2028 \\ud83d\\ude00\"" },
		{ "\"\xff\xc3\"", "\"\\ufffd\\ufffd\"" },
		{ "{\n\t\"a\": 1,\r\n \"b\": [ ] }", "{\"a\": 1, \"b\": [ ] }" },
		{ "\"\\n\\u0085\x7f\"", "\"\\n\\u0085\x7f\"" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		span_ascii(&b, of(rows[i].from));
		is(&b, rows[i].to);
	}
	buf_release(&b);
}

/* ---- event ---- */

#define WHEN "\"2026-01-02T03:04:05.678901Z\""

static void test_results(void **state)
{
	static const struct { const char *data; bool main; const char *line; } rows[] = {
		{ "{\"text/plain\":\"42\"}", true, "{\"type\":\"result\",\"text\":\"42\",\"extra\":{},\"is_main_result\":true}\n" },
		{ "{\"text/plain\":\"'it'\"}", true, "{\"type\":\"result\",\"text\":\"it\",\"extra\":{},\"is_main_result\":true}\n" },
		{ "{\"text/plain\":\"\\\"it's\\\"\"}", true, "{\"type\":\"result\",\"text\":\"it's\",\"extra\":{},\"is_main_result\":true}\n" },
		{ "{\"text/plain\":\"'a\"}", true, "{\"type\":\"result\",\"text\":\"'a\",\"extra\":{},\"is_main_result\":true}\n" },
		{ "{\"text/plain\":\"'\"}", true, "{\"type\":\"result\",\"text\":\"'\",\"extra\":{},\"is_main_result\":true}\n" },
		{ "{\"text/plain\":\"'a\\\"\"}", true, "{\"type\":\"result\",\"text\":\"'a\\\"\",\"extra\":{},\"is_main_result\":true}\n" },
		{ "{\"e2b/chart\":{\"title\":null},\"image/png\":\"aGk=\",\"x/y\":[1],\"text/html\":null,\"text/plain\":\"F\"}", false,
		  "{\"type\":\"result\",\"text\":\"F\",\"png\":\"aGk=\",\"chart\":{\"title\":null},\"extra\":{\"x/y\":[1]},\"is_main_result\":false}\n" },
		{ "{\"application/json\":{\"a\":123456789012345678901}}", false,
		  "{\"type\":\"result\",\"json\":{\"a\":123456789012345678901},\"extra\":{},\"is_main_result\":false}\n" },
		{ "[]", false, "{\"type\":\"result\",\"extra\":{},\"is_main_result\":false}\n" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		event_result(&b, of(rows[i].data), rows[i].main);
		is(&b, rows[i].line);
	}
	buf_release(&b);
}

static void test_lines(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	event_count(&b, of("3"));
	is(&b, "{\"type\":\"number_of_executions\",\"execution_count\":3}\n");
	event_stream(&b, "stdout", of("\"\xc3\xa9\\n\""), of(WHEN));
	is(&b, "{\"type\":\"stdout\",\"text\":\"\\u00e9\\n\",\"timestamp\":" WHEN "}\n");
	event_stream(&b, "stderr", (struct span){ NULL, 0 }, of(WHEN));
	is(&b, "{\"type\":\"stderr\",\"text\":\"\",\"timestamp\":" WHEN "}\n");
	event_stream(&b, "stdout", of("\"x\""), (struct span){ NULL, 0 });
	assert_non_null(strstr(buf_str(&b), "\",\"timestamp\":\"20"));
	buf_reset(&b);
	event_error(&b, of("{\"ename\":\"E\",\"evalue\":\"v\xc3\xa9\",\"traceback\":[\"one\\n\",\"two\",3]}"));
	is(&b, "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\\u00e9\",\"traceback\":\"one\\ntwo\"}\n");
	event_error(&b, of("{}"));
	is(&b, "{\"type\":\"error\",\"name\":\"\",\"value\":\"\",\"traceback\":\"\"}\n");
	event_error_text(&b, "N", "\xc3\xa9\"");
	is(&b, "{\"type\":\"error\",\"name\":\"N\",\"value\":\"\\u00e9\\\"\",\"traceback\":\"\"}\n");
	event_keepalive(&b);
	event_end(&b);
	is(&b, "{\"type\":\"keepalive\"}\n{\"type\":\"end_of_execution\"}\n");
	buf_release(&b);
}

/* ---- zmtp ---- */

static void test_frames(void **state)
{
	static const char two[] = "\1\3abc\0\2de", longer[] = "\2\0\0\0\0\0\0\0\1x", command[] = "\4\2xy";
	struct zmtp_msg m;
	uint64_t want;

	(void)state;
	assert_int_equal(zmtp_parse(two, 9, &m, &want), 9);
	assert_int_equal(m.n, 2);
	assert_memory_equal(m.frame[1].p, "de", 2);
	for (size_t n = 0; n < 9; n++) {
		assert_int_equal(zmtp_parse(two, n, &m, &want), 0);
		assert_true(want > n);
	}
	assert_int_equal(zmtp_parse(longer, 10, &m, &want), 10);
	assert_int_equal(m.frame[0].n, 1);
	assert_int_equal(zmtp_parse(command, 4, &m, &want), 4);
	assert_int_equal(m.n, 0);
	assert_int_equal(zmtp_parse("\x08\0", 2, &m, &want), -1);       /* reserved */
	assert_int_equal(zmtp_parse("\5\0", 2, &m, &want), -1);         /* a command has one frame */
	assert_int_equal(zmtp_parse("\1\0\4\0", 4, &m, &want), -1);     /* and stands between messages */
	assert_int_equal(zmtp_parse("\2\xff\xff\xff\xff\xff\xff\xff\xff", 9, &m, &want), -1);
}

/* What is longer than the bound is dropped as it comes, and what follows is read. */
static void test_too_long(void **state)
{
	static char chunk[1 << 20];
	const uint64_t size = ZMTP_MESSAGE_MAX + 1000;
	struct zmtp z = { .fd = -1 };
	struct zmtp_msg m;
	char head[9] = { 3 };
	uint64_t left = size;
	int pair[2], got = 0, told = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	z.fd = pair[0];
	buf_init(&z.in, ZMTP_MESSAGE_MAX + 2 * 65536);
	for (int i = 0; i < 8; i++)
		head[1 + i] = (char)(size >> (56 - 8 * i) & 0xff);
	assert_int_equal(send(pair[1], "\1\1t", 3, 0), 3);
	assert_int_equal(send(pair[1], head, 9, 0), 9);
	while (left > 0) {
		ssize_t n = send(pair[1], chunk, left < sizeof chunk ? (size_t)left : sizeof chunk, MSG_DONTWAIT);

		if (n > 0)
			left -= (uint64_t)n;
		assert_int_equal(zmtp_fill(&z), 0);
		while ((got = zmtp_next(&z, &m)) > 0) {
			told++;
			assert_int_equal(m.n, 1);
			assert_true(m.lost == size);
		}
		assert_int_equal(got, 0);
	}
	assert_int_equal(send(pair[1], "\0\2zz\0\2ok", 8, 0), 8);        /* its last frame, then a message */
	do {
		assert_int_equal(zmtp_fill(&z), 0);
		got = zmtp_next(&z, &m);
	} while (got == 0);
	assert_int_equal(told, 1);
	assert_int_equal(got, 1);
	assert_int_equal(m.n, 1);
	assert_memory_equal(m.frame[0].p, "ok", 2);
	assert_true(z.in.cap < ZMTP_MESSAGE_MAX);
	close(pair[1]);
	zmtp_close(&z);
}

/* ---- wire ---- */

static void test_messages(void **state)
{
	static const char key[] = "0123456789abcdef";
	struct wire_out out;
	struct zmtp_msg m = { .n = 7 };
	struct kmsg got;
	struct err e;
	char sign[64];

	(void)state;
	assert_int_equal(wire_build(key, "sess", "id-1", "execute_request", of("{\"code\":\"1\"}"), &out, &e), 0);
	assert_memory_equal(out.frame[0].p, "<IDS|MSG>", 9);
	assert_int_equal(out.frame[1].n, 64);
	assert_non_null(strstr(out.frame[2].p, "\"msg_id\":\"id-1\""));
	/* a kernel's answer has a topic before, and names the request as its parent */
	m.frame[0] = of("topic");
	memcpy(m.frame + 1, out.frame, sizeof out.frame);
	m.frame[3] = of("{\"msg_type\":\"stream\",\"date\":\"d\"}");
	m.frame[4] = of("{\"msg_id\":\"id-1\"}");
	assert_int_equal(wire_parse(&m, key, "id-1", &got, &e), -1);    /* not what was signed */
	assert_int_equal(e.kind, ERR_DENIED);
	assert_int_equal(wire_parse(&m, key, "id-2", &got, &e), 0);
	buf_release(&out.text);
	assert_int_equal(wire_build(key, "s", "x", "t", of("{}"), &out, &e), 0);
	memcpy(sign, out.frame[1].p, 64);
	memcpy(m.frame + 1, out.frame, sizeof out.frame);
	assert_int_equal(wire_parse(&m, key, "x", &got, &e), 0);        /* no parent */
	m.frame[2].n = 0;
	m.n = 4;
	assert_int_equal(wire_parse(&m, key, "x", &got, &e), -1);
	m.n = 1;
	assert_int_equal(wire_parse(&m, key, "x", &got, &e), -1);
	buf_release(&out.text);
}

/* Signed by hand: Python's hmac over the four frames. */
#define SIGNATURE "3d5d17b161772dc26a18c92e10eb709713a2e5a5c04ecdc665dafcde21509d85"

static void test_signed(void **state)
{
	struct zmtp_msg m = { .n = 6, .frame = { { 0 } } };
	struct kmsg got;
	struct err e;

	(void)state;
	m.frame[0] = of("<IDS|MSG>");
	m.frame[1] = of(SIGNATURE);
	m.frame[2] = of("{\"msg_type\":\"stream\",\"date\":\"now\"}");
	m.frame[3] = of("{\"msg_id\":\"abc\"}");
	m.frame[4] = of("{}");
	m.frame[5] = of("{\"name\":\"stdout\",\"text\":\"hi\"}");
	assert_int_equal(wire_parse(&m, "key", "abc", &got, &e), 1);
	assert_string_equal(got.type, "stream");
	assert_true(span_is(got.date, "now"));
	assert_true(span_is(span_member(got.content, "text"), "hi"));
	m.frame[5] = of("{\"name\":\"stdout\",\"text\":\"ho\"}");
	assert_int_equal(wire_parse(&m, "key", "abc", &got, &e), -1);
	m.lost = 7;                                  /* only its beginning came */
	m.n = 5;
	assert_int_equal(wire_parse(&m, "key", "abc", &got, &e), 1);
	assert_null(got.content.p);
}

/* ---- languages ---- */

static void test_names(void **state)
{
	static const struct { const char *given, *name; } rows[] = {
		{ " Python ", "python" }, { "JS", "javascript" }, { "ts\n", "typescript" }, { "R", "r" }, { "", "" }, { "Deno", "deno" },
	};
	char name[LANGUAGE_LEN];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		language_name(rows[i].given, name);
		assert_string_equal(name, rows[i].name);
	}
	assert_null(language_find("deno")->name);
	assert_string_equal(language_find("r")->name, "r");
}

static void test_env(void **state)
{
	static const struct { const char *language, *name, *value, *code; } rows[] = {
		{ "python", "A", "x\"\\\n\xc3\xa9", "__import__('os').environ.update({\"A\": \"x\\\"\\\\\\x0a\xc3\xa9\"})\n" },
		{ "python", "A", NULL, "__import__('os').environ.pop(\"A\", None)\n" },
		{ "javascript", "A", "v'", "process.env[\"A\"] = \"v'\";\n" },
		{ "typescript", "A", NULL, "delete process.env[\"A\"];\n" },
		{ "bash", "A", "it's $x", "export A='it'\\''s $x'\n" },
		{ "bash", "A", NULL, "unset A\n" },
		{ "bash", "a b", "v", "" },
		{ "bash", "1", "v", "" },
		{ "r", "A", "v", "invisible(Sys.setenv(\"A\" = \"v\"))\n" },
		{ "java", "A", "v\n", "System.setProperty(\"A\", \"v\\012\");\n" },
		{ "java", "A", "\\u0041\x01" "1", "System.setProperty(\"A\", \"\\\\u0041\\0011\");\n" },
		{ "java", "A", NULL, "System.clearProperty(\"A\");\n" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		language_find(rows[i].language)->env(&b, rows[i].name, rows[i].value);
		is(&b, rows[i].code);
	}
	buf_release(&b);
}

/* ---- kernelspecs ---- */

static void test_spec(void **state)
{
	static const char text[] = "{\"argv\":[\"run\",\"{resource_dir}/a{connection_file}\",\"{other}\"],"
				   "\"env\":{\"A\":\"$HUTCH_T/${HUTCH_T}x$$HUTCH_T\",\"B\":\"$ ${ ${HUTCH_T $HUTCH_NONE ${}\"}}";
	struct argv out = { .n = 0 };
	json_object *spec = NULL, *words = NULL;
	struct err e;

	(void)state;
	setenv("HUTCH_T", "it", 1);
	assert_int_equal(json_read_object(text, strlen(text), &spec, &e), 0);
	assert_int_equal(json_get_arr(spec, "argv", &words, &e), 1);
	assert_int_equal(kernelspec_argv(words, "/dir", "/file", &out, &e), 0);
	assert_int_equal(out.n, 3);
	assert_string_equal(out.word[1], "/dir/a/file");
	assert_string_equal(out.word[2], "{other}");
	assert_null(out.word[3]);
	assert_int_equal(kernelspec_env(spec, &out, &e), 0);
	assert_int_equal(out.env_n, 2);
	assert_string_equal(out.env[0], "A=it/itx$HUTCH_T");
	assert_string_equal(out.env[1], "B=$ ${ ${HUTCH_T $HUTCH_NONE ${}");
	argv_release(&out);
	json_object_put(spec);
	assert_int_equal(json_read_object("{\"env\":{\"A\":7}}", 15, &spec, &e), 0);
	assert_int_equal(kernelspec_env(spec, &out, &e), -1);
	assert_non_null(strstr(e.text, "env"));
	json_object_put(spec);
	for (int i = 0; i < ARGV_MAX; i++)
		assert_int_equal(argv_add(&out, "w", &e), 0);
	assert_int_equal(argv_add(&out, "w", &e), -1);
	argv_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_span), cmocka_unit_test(test_ascii), cmocka_unit_test(test_results), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_frames), cmocka_unit_test(test_too_long), cmocka_unit_test(test_messages), cmocka_unit_test(test_signed),
		cmocka_unit_test(test_names), cmocka_unit_test(test_env), cmocka_unit_test(test_spec),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
