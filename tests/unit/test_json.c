#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../src/util/jsongrammar.h"
#include "hutch/json.h"

static void written(const char *in, size_t n, bool ascii, const char *want)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 1000);
	jw_init(&w, &b);
	w.ascii = ascii;
	jw_strn(&w, in, n);
	assert_string_equal(buf_str(&b), want);
	buf_release(&b);
}

static void test_strings(void **state)
{
	(void)state;
	written("plain", 5, false, "\"plain\"");
	written("q\"\\\n\x01", 5, false, "\"q\\\"\\\\\\n\\u0001\"");
	written("\xff" "a\xc3", 3, false, "\"\xef\xbf\xbd" "a\xef\xbf\xbd\"");
	written("\xed\xa0\x80", 3, false, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a lone surrogate */
	written("\xc3\xa4\xf0\x9f\x98\x80", 6, true, "\"\\u00e4\\ud83d\\ude00\"");
	written("a\0b", 3, false, "\"a\\u0000b\"");
}

static void test_structure(void **state)
{
	struct buf b;
	struct jw w;

	(void)state;
	buf_init(&b, 1000);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "a", -1);
	jw_kint(&w, "least", INT64_MIN);
	jw_kint(&w, "most", INT64_MAX);
	jw_kint(&w, "none", 0);
	jw_key(&w, "b");
	jw_open(&w, '[');
	jw_bool(&w, true);
	jw_null(&w);
	jw_base64(&w, "\x01\x02", 2);
	jw_close(&w, ']');
	jw_key(&w, "c");
	jw_open(&w, '{');
	jw_close(&w, '}');
	jw_close(&w, '}');
	assert_string_equal(buf_str(&b), "{\"a\":-1,\"least\":-9223372036854775808,\"most\":9223372036854775807,\"none\":0,\"b\":[true,null,\"AQI=\"],\"c\":{}}");
	buf_release(&b);
}

/* A buffer whose maximum is what a text takes holds it; one byte less does not. */
static void test_exact(void **state)
{
	static const char want[] = "[\"ab\",{\"key\":\"v\",\"lit\":\"a\\n\"}]";

	(void)state;
	for (size_t less = 0; less < 2; less++) {
		struct buf b;
		struct jw w;

		buf_init(&b, sizeof want - 1 - less);
		jw_init(&w, &b);
		jw_open(&w, '[');
		jw_str(&w, "ab");
		jw_open(&w, '{');
		jw_kstr(&w, "key", "v");
		JW_KEY(&w, "lit");
		jw_str(&w, "a\n");
		jw_close(&w, '}');
		jw_close(&w, ']');
		assert_int_equal(buf_failed(&b), less);
		if (less == 0)
			assert_string_equal(buf_str(&b), want);
		buf_release(&b);
		/* a string as the last one, and a key */
		buf_init(&b, 6 - less);
		jw_init(&w, &b);
		jw_str(&w, "abcd");
		assert_int_equal(buf_failed(&b), less);
		buf_release(&b);
		buf_init(&b, 4 - less);
		jw_init(&w, &b);
		JW_KEY(&w, "k");
		assert_int_equal(buf_failed(&b), less);
		buf_release(&b);
	}
}

static void test_read(void **state)
{
	static const char *const good[] = { "{}", " {\"a\":1} \n", "[1]", "12", "null", "\"x\"", "[ ]", "{ }", "[ 1 , \"\" , { \"a\" : [ ] } ]", "-0",
		"0", "-1.5e+10", "1E3", "0.0", "true", " false ", "\"'\"", "\"\\u00FF\\/\\b\"", "99999999999999999999999999", "[-99999999999999999999]",
		"\r\n\t[]\r\n" };
	static const char *const bad[] = { "", "{", "{}x", "{'a':1}", "[1,]", "{\"a\":1}{", "\xff", "nul", "{a:1}", "\"a\nb\"", "\"a\tb\"", "1 2",
		"[1,,2]", "[,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{1:2}", "01", "-", "1.", ".5", "+1", "1e", "1e+", "0x1", "-a", "NaN", "Infinity",
		"-Infinity", "True", "NULL", "tru", "/* c */1", "[1 // c\n]", "\"\\x\"", "\"\\u12g4\"", "\"\\u123", "\"\\", "\"", "[", "[1", "{\"a\":1",
		"]", "\"\\\xc3\xa4\"", "\xc3\xa4", "\"\xed\xa0\x80\"", "\"\xc3\"" };
	static const char all[] = "\"\xc3\xa4\xe2\x98\x83\xf0\x9f\x98\x80\x7f\\\"\\u00e4\\u2603\\ud83d\\ude00\"";
	char deep[80];
	json_object *o;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(json_read(good[i], strlen(good[i]), &o, &e), 0);
		json_object_put(o);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(json_read(bad[i], strlen(bad[i]), &o, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
	}
	/* all of Unicode, raw and escaped, means the same; json-c 0.18 in its strict mode refuses it raw */
	assert_int_equal(json_read(all, strlen(all), &o, &e), 0);
	assert_string_equal(json_object_get_string(o), "\xc3\xa4\xe2\x98\x83\xf0\x9f\x98\x80\x7f\"\xc3\xa4\xe2\x98\x83\xf0\x9f\x98\x80");
	json_object_put(o);
	memset(deep, '[', 40);
	memset(deep + 40, ']', 40);
	assert_int_equal(json_read(deep, 80, &o, &e), -1);
}

static size_t repeat(char *to, const char *before, const char *one, size_t times, const char *after)
{
	char *p = stpcpy(to, before);

	for (size_t i = 0; i < times; i++)
		p = stpcpy(p, one);
	return (size_t)(stpcpy(p, after) - to);
}

/* Five million empty objects are 15 MB of text and would be 4 GB of memory. */
static void test_many_values(void **state)
{
	char *text = malloc(1 << 20);
	json_object *o;
	struct err e;

	(void)state;
	assert_non_null(text);
	assert_int_equal(json_read(text, repeat(text, "[", "0,", JSON_VALUES_MAX - 2, "0]"), &o, &e), 0);
	json_object_put(o);
	assert_int_equal(json_read(text, repeat(text, "[", "0,", JSON_VALUES_MAX - 1, "0]"), &o, &e), -1);
	assert_string_equal(e.text, "malformed JSON: too many values");
	assert_int_equal(json_read(text, repeat(text, "[", "{},", JSON_NESTED_MAX - 1, "0]"), &o, &e), 0);
	json_object_put(o);
	assert_int_equal(json_read(text, repeat(text, "[", "{},", JSON_NESTED_MAX, "0]"), &o, &e), -1);
	assert_string_equal(e.text, "malformed JSON: too many objects and arrays");
	free(text);
}

static void test_fields(void **state)
{
	static const char text[] = "{\"s\":\"x\",\"n\":5,\"f\":1.5,\"b\":true,\"m\":{\"k\":\"v\"},\"bad\":{\"k\":1},\"z\":null,\"nul\":\"a\\u0000b\"}";
	json_object *o, *m;
	struct err e;
	const char *s = "untouched";
	int64_t n = 0;
	bool b = false;

	(void)state;
	assert_int_equal(json_read_object(text, strlen(text), &o, &e), 0);
	assert_int_equal(json_get_str(o, "z", 9, &s, &e), 0);
	assert_string_equal(s, "untouched");
	assert_int_equal(json_get_str(o, "s", 9, &s, &e), 1);
	assert_string_equal(s, "x");
	assert_int_equal(json_get_str(o, "s", 0, &s, &e), -1);
	assert_int_equal(json_get_str(o, "nul", 9, &s, &e), -1);
	assert_int_equal(json_get_int(o, "n", 1, 4, &n, &e), -1);
	assert_string_equal(e.text, "n must be from 1 to 4");
	assert_int_equal(json_get_int(o, "f", 1, 4, &n, &e), -1);
	assert_int_equal(json_get_bool(o, "b", &b, &e), 1);
	assert_true(b);
	assert_int_equal(json_get_bool(o, "n", &b, &e), -1);
	assert_int_equal(json_get_strmap(o, "m", &m, &e), 1);
	assert_int_equal(json_get_strmap(o, "bad", &m, &e), -1);
	assert_int_equal(json_need_str(o, "none", 9, &s, &e), -1);
	assert_string_equal(e.text, "none is required");
	json_object_put(o);
	assert_int_equal(json_read_object("[]", 2, &o, &e), -1);
	assert_int_equal(json_read_object("", 0, &o, &e), 0);
	json_object_put(o);
}

/* In a request's body null is a value of the wrong type, in objects within it too; elsewhere it is the same as absent. */
static void test_null(void **state)
{
	static const char text[] = "{\"a\":null,\"in\":{\"b\":null},\"list\":[{\"c\":null}]}";
	json_object *o, *in = NULL, *list = NULL;
	const char *s = NULL;
	struct err e;

	(void)state;
	assert_int_equal(json_read_object(text, sizeof text - 1, &o, &e), 0);
	assert_int_equal(json_get_str(o, "a", 9, &s, &e), 0);
	json_object_put(o);
	assert_int_equal(json_read_body(text, sizeof text - 1, &o, &e), 0);
	assert_int_equal(json_get_str(o, "a", 9, &s, &e), -1);
	assert_string_equal(e.text, "a must not be null");
	assert_int_equal(json_get_obj(o, "in", &in, &e), 1);
	assert_int_equal(json_get_str(in, "b", 9, &s, &e), -1);
	assert_int_equal(json_get_arr(o, "list", &list, &e), 1);
	assert_int_equal(json_get_str(json_object_array_get_idx(list, 0), "c", 9, &s, &e), -1);
	json_drop_null(o, "a");
	json_drop_null(o, "in");
	assert_int_equal(json_get_str(o, "a", 9, &s, &e), 0);
	assert_int_equal(json_get_obj(o, "in", &in, &e), 1);
	json_object_put(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_structure),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_many_values),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_null),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
