/* Request bodies: every field with a wrong type or out of its bounds is refused by name, nothing is dropped silently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "responder.h"

/* body, version, part of the error's text; NULL: accepted */
static const struct { const char *body; int version; const char *names; uint32_t wants; } creates[] = {
	{ "{\"templateID\":\"base\"}", 1, NULL, 0 },
	{ "{\"templateID\":\"base\",\"unknown\":{\"x\":[1]}}", 1, NULL, 0 },
	{ "", 1, "templateID is required", 0 },
	{ "{}", 1, "templateID is required", 0 },
	{ "{\"templateID\":null}", 1, "templateID must not be null", 0 },
	{ "{\"templateID\":1}", 1, "templateID", 0 },
	{ "{\"templateID\":[\"base\"]}", 1, "templateID", 0 },
	{ "[]", 1, "JSON object", 0 },
	{ "null", 1, "JSON object", 0 },
	{ "\"base\"", 1, "JSON object", 0 },
	{ "{\"templateID\":\"base\"", 1, "malformed JSON", 0 },
	{ "{\"templateID\":\"base\"}x", 1, "malformed JSON", 0 },
	{ "{'templateID':'base'}", 1, "malformed JSON", 0 },
	{ "{\"templateID\":\"base\",}", 1, "malformed JSON", 0 },
	{ "{\"templateID\":\"a\\u0000b\"}", 1, "templateID", 0 },
	/* timeout */
	{ "{\"templateID\":\"b\",\"timeout\":1}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"timeout\":null}", 1, "timeout must not be null", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":0}", 1, "Timeout must be greater than 0", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":-1}", 1, "timeout", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":2147483648}", 1, "timeout", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":99999999999999999999}", 1, "timeout", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":1.5}", 1, "timeout", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":\"300\"}", 1, "timeout", 0 },
	{ "{\"templateID\":\"b\",\"timeout\":true}", 1, "timeout", 0 },
	/* secure */
	{ "{\"templateID\":\"b\",\"secure\":false}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"secure\":true}", 2, NULL, 0 },
	{ "{\"templateID\":\"b\",\"secure\":null}", 2, "secure must not be null", 0 },
	{ "{\"templateID\":\"b\",\"secure\":false}", 2, "secure", 0 },
	{ "{\"templateID\":\"b\",\"secure\":\"yes\"}", 1, "secure", 0 },
	{ "{\"templateID\":\"b\",\"secure\":1}", 2, "secure", 0 },
	/* end of the lease */
	{ "{\"templateID\":\"b\",\"autoPause\":false,\"autoPauseMemory\":true,\"autoResume\":{\"enabled\":false}}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"autoResume\":{}}", 1, "autoResume: enabled is required", 0 },
	{ "{\"templateID\":\"b\",\"autoResume\":null}", 1, "autoResume must not be null", 0 },
	{ "{\"templateID\":\"b\",\"autoPause\":true}", 1, NULL, WANT_BIT(WANT_AUTO_PAUSE) },
	{ "{\"templateID\":\"b\",\"autoPause\":true,\"autoPauseMemory\":false}", 1, NULL,
	  WANT_BIT(WANT_AUTO_PAUSE) | WANT_BIT(WANT_AUTO_PAUSE_DISK) },
	{ "{\"templateID\":\"b\",\"autoPause\":\"true\"}", 1, "autoPause", 0 },
	{ "{\"templateID\":\"b\",\"autoPauseMemory\":false}", 1, "autoPauseMemory", 0 },
	{ "{\"templateID\":\"b\",\"autoPauseMemory\":0}", 1, "autoPauseMemory", 0 },
	{ "{\"templateID\":\"b\",\"autoPause\":true,\"autoPauseMemory\":false,\"autoResume\":{\"enabled\":true}}", 1, "autoPauseMemory", 0 },
	{ "{\"templateID\":\"b\",\"autoResume\":{\"enabled\":true}}", 1, NULL, WANT_BIT(WANT_AUTO_RESUME) },
	{ "{\"templateID\":\"b\",\"autoResume\":{\"enabled\":1}}", 1, "autoResume: enabled", 0 },
	{ "{\"templateID\":\"b\",\"autoResume\":true}", 1, "autoResume", 0 },
	/* network */
	{ "{\"templateID\":\"b\",\"allow_internet_access\":true}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"allow_internet_access\":false}", 1, NULL, WANT_BIT(WANT_NO_INTERNET) },
	{ "{\"templateID\":\"b\",\"allow_internet_access\":\"no\"}", 1, "allow_internet_access", 0 },
	{ "{\"templateID\":\"b\",\"network\":{}}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowPublicTraffic\":true,\"allowOut\":[],\"denyOut\":[],\"rules\":{}}}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"network\":[]}", 1, "network", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowPublicTraffic\":false}}", 1, NULL, WANT_BIT(WANT_CLOSED_TRAFFIC) },
	{ "{\"templateID\":\"b\",\"network\":{\"allowPublicTraffic\":1}}", 1, "network: allowPublicTraffic", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"1.1.1.1\"]}}", 1, NULL, WANT_BIT(WANT_ALLOW_OUT) },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":\"1.1.1.1\"}}", 1, "network: allowOut", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"denyOut\":[\"0.0.0.0/0\"]}}", 1, NULL, WANT_BIT(WANT_DENY_OUT) },
	{ "{\"templateID\":\"b\",\"network\":{\"rules\":{\"a.b\":[]}}}", 1, NULL, WANT_BIT(WANT_NET_HEADERS) },
	{ "{\"templateID\":\"b\",\"network\":{\"rules\":[]}}", 1, "network: rules", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"egressProxy\":{\"address\":\"a:1\"}}}", 1, NULL, WANT_BIT(WANT_NET_PROXY) },
	{ "{\"templateID\":\"b\",\"network\":{\"maskRequestHost\":\"x\"}}", 1, NULL, WANT_BIT(WANT_MASK_HOST) },
	{ "{\"templateID\":\"b\",\"network\":{\"maskRequestHost\":1}}", 1, "network: maskRequestHost", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"maskRequestHost\":\"a b\"}}", 1, "network.maskRequestHost", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"maskRequestHost\":\"localhost:${PORT}\"}}", 1, NULL, WANT_BIT(WANT_MASK_HOST) },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[1]}}", 1, "network.allowOut: entry 0", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"1.1.1.1/33\"]}}", 1, "network.allowOut", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"1.1.1.1\\u0000\"]}}", 1, "network.allowOut", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"::1\"]}}", 1, "network.allowOut: ::1: sandboxes have no IPv6", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"0.0.0.0\"]}}", 1, "network.allowOut", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"a.example\"]}}", 1, "network.denyOut: with domain names", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":[\"*.a.example\"],\"denyOut\":[\"0.0.0.0/0\"]}}", 1, NULL,
	  WANT_BIT(WANT_ALLOW_OUT) | WANT_BIT(WANT_ALLOW_DOMAIN) | WANT_BIT(WANT_DENY_OUT) },
	{ "{\"templateID\":\"b\",\"network\":{\"denyOut\":[\"a.example\"]}}", 1, "network.denyOut: invalid denied CIDR", 0 },
	{ "{\"templateID\":\"b\",\"network\":{\"denyOut\":[\"::/0\"]}}", 1, NULL, WANT_BIT(WANT_DENY_OUT) },
	{ "{\"templateID\":\"b\",\"network\":{\"denyOut\":{}}}", 1, "network: denyOut", 0 },
	/* maps */
	{ "{\"templateID\":\"b\",\"metadata\":{},\"envVars\":{}}", 1, NULL, WANT_BIT(WANT_ENV) },
	{ "{\"templateID\":\"b\",\"metadata\":[]}", 1, "metadata", 0 },
	{ "{\"templateID\":\"b\",\"metadata\":\"a=b\"}", 1, "metadata", 0 },
	{ "{\"templateID\":\"b\",\"metadata\":{\"k\":1}}", 1, "metadata", 0 },
	{ "{\"templateID\":\"b\",\"metadata\":{\"k\":null}}", 1, "metadata", 0 },
	{ "{\"templateID\":\"b\",\"metadata\":{\"k\":\"a\\u0000b\"}}", 1, "metadata", 0 },
	{ "{\"templateID\":\"b\",\"envVars\":{\"K\":true}}", 1, "envVars", 0 },
	{ "{\"templateID\":\"b\",\"envVars\":{\"\":\"x\"}}", 1, "envVars", 0 },
	{ "{\"templateID\":\"b\",\"envVars\":{\"A=B\":\"x\"}}", 1, "envVars", 0 },
	{ "{\"templateID\":\"b\",\"envVars\":[]}", 1, "envVars", 0 },
	/* the rest */
	{ "{\"templateID\":\"b\",\"mcp\":{\"server\":{}}}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"mcp\":null}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"mcp\":\"x\"}", 1, "mcp", 0 },
	{ "{\"templateID\":\"b\",\"iam\":{\"tokens\":{}}}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"iam\":{\"tokens\":{\"t\":{}}}}", 1, NULL, WANT_BIT(WANT_TOKENS) },
	{ "{\"templateID\":\"b\",\"iam\":{\"tokens\":[]}}", 1, "iam: tokens", 0 },
	{ "{\"templateID\":\"b\",\"iam\":1}", 1, "iam", 0 },
	{ "{\"templateID\":\"b\",\"volumeMounts\":[]}", 1, NULL, 0 },
	{ "{\"templateID\":\"b\",\"volumeMounts\":[{\"name\":\"v\",\"path\":\"/v\"}]}", 1, NULL, WANT_BIT(WANT_VOLUMES) },
	{ "{\"templateID\":\"b\",\"volumeMounts\":{}}", 1, "volumeMounts", 0 },
};

static void test_create_table(void **state)
{
	struct create_request r;

	(void)state;
	for (size_t i = 0; i < sizeof creates / sizeof creates[0]; i++) {
		struct err e = { .kind = ERR_NONE };
		int got = create_read(creates[i].body, strlen(creates[i].body), creates[i].version == 2, &r, &e);

		if ((got == 0) != (creates[i].names == NULL))
			fail_msg("%s: %d %s", creates[i].body, got, e.text);
		if (got < 0 && (e.kind != ERR_INVALID || strstr(e.text, creates[i].names) == NULL))
			fail_msg("%s: %s", creates[i].body, e.text);
		if (got == 0)
			assert_int_equal(r.spec.wants & ~WANT_BIT(WANT_INSECURE), creates[i].wants);
		create_release(&r);
	}
}

static void read_ok(const char *body, bool v2, struct create_request *r)
{
	struct err e;

	if (create_read(body, strlen(body), v2, r, &e) < 0)
		fail_msg("%s", e.text);
}

static void test_create_values(void **state)
{
	struct create_request r;

	(void)state;
	read_ok("{\"templateID\":\"t/a:x\"}", false, &r);
	assert_string_equal(r.spec.template_ref, "t/a:x");
	assert_int_equal(r.spec.timeout_s, 15);
	assert_int_equal(r.spec.wants, WANT_BIT(WANT_INSECURE));
	assert_false(r.spec.secure || r.spec.auto_pause || r.spec.allow_internet_set);
	assert_null(r.spec.metadata);
	assert_null(r.spec.env);
	create_release(&r);
	read_ok("{\"templateID\":\"a\"}", true, &r);
	assert_int_equal(r.spec.timeout_s, 300);
	assert_true(r.spec.secure);
	create_release(&r);
	read_ok("{\"templateID\":\"a\",\"secure\":true,\"timeout\":7,\"allow_internet_access\":false,\"metadata\":{},"
		"\"envVars\":{\"A\":\"\\\"\\n\\u00e9\",\"B\":\"\"}}", false, &r);
	assert_int_equal(r.spec.timeout_s, 7);
	assert_true(r.spec.secure && r.spec.allow_internet_set && !r.spec.allow_internet);
	assert_string_equal(r.spec.metadata, "{}");
	assert_string_equal(r.spec.env, "{\"A\":\"\\\"\\n\xc3\xa9\",\"B\":\"\"}");
	create_release(&r);
}

/* A map just under its bound, and one over it. */
static void test_create_bounds(void **state)
{
	char *body = malloc(METADATA_BYTES_MAX + 200);
	struct create_request r;
	struct err e;
	size_t n;

	(void)state;
	assert_non_null(body);
	for (int over = 0; over < 2; over++) {
		n = (size_t)sprintf(body, "{\"templateID\":\"a\",\"metadata\":{\"k\":\"");
		memset(body + n, 'x', METADATA_BYTES_MAX - 8 + (size_t)over);
		strcpy(body + n + METADATA_BYTES_MAX - 8 + over, "\"}}");
		assert_int_equal(create_read(body, strlen(body), false, &r, &e), -over);
		create_release(&r);
	}
	assert_non_null(strstr(e.text, "metadata is larger than"));
	free(body);
}

static void test_deep_json(void **state)
{
	char body[400] = "{\"templateID\":\"a\",\"x\":";
	struct create_request r;
	struct err e;

	(void)state;
	memset(body + strlen(body), '[', 200);
	assert_int_equal(create_read(body, strlen(body), false, &r, &e), -1);
	create_release(&r);
}

static void test_lease(void **state)
{
	static const struct { const char *body; int64_t fallback; int64_t seconds; } good[] = {
		{ "{\"timeout\":0}", -1, 0 }, { "{\"timeout\":2147483647}", -1, INT32_MAX }, { "", 300, 300 }, { "{}", 300, 300 },
		{ "{\"timeout\":5,\"memory\":false}", 300, 5 },
	};
	static const struct { const char *body; int64_t fallback; const char *names; } bad[] = {
		{ "", -1, "timeout is required" }, { "{}", -1, "timeout is required" }, { "{\"timeout\":null}", -1, "timeout must not be null" },
		{ "{\"timeout\":null}", 300, "timeout must not be null" },
		{ "{\"timeout\":-1}", 300, "timeout" }, { "{\"timeout\":\"5\"}", 300, "timeout" }, { "{\"timeout\":1e3}", 300, "timeout" },
		{ "{\"timeout\":2147483648}", 300, "timeout" }, { "{\"timeout\":5,\"memory\":\"no\"}", 300, "memory" }, { "5", 300, "object" },
		{ "{", 300, "malformed" },
	};
	struct err e;
	bool memory;
	int64_t s;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		s = -7;
		assert_int_equal(lease_read(good[i].body, strlen(good[i].body), good[i].fallback, &s, &memory, &e), 0);
		assert_int_equal(s, good[i].seconds);
		assert_int_equal(memory, strstr(good[i].body, "memory") == NULL);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(lease_read(bad[i].body, strlen(bad[i].body), bad[i].fallback, &s, &memory, &e), -1);
		if (e.kind != ERR_INVALID || strstr(e.text, bad[i].names) == NULL)
			fail_msg("%s: %s", bad[i].body, e.text);
	}
}

static void test_resume(void **state)
{
	static const struct { const char *body; int64_t seconds; int auto_pause; bool reboot; } good[] = {
		{ "", 15, -1, false }, { "{}", 15, -1, false }, { "{\"timeout\":60,\"autoPause\":true}", 60, 1, false },
		{ "{\"autoPause\":false,\"memory\":false}", 15, 0, true }, { "{\"memory\":true}", 15, -1, false },
	};
	static const struct { const char *body, *names; } bad[] = {
		{ "{\"timeout\":0}", "Timeout" }, { "{\"timeout\":-1}", "timeout" }, { "{\"autoPause\":1}", "autoPause" },
		{ "{\"memory\":\"x\"}", "memory" }, { "[]", "object" },
	};
	struct resume_spec s;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(resume_read(good[i].body, strlen(good[i].body), &s, &e), 0);
		assert_true(s.only_paused);
		assert_int_equal(s.seconds, good[i].seconds);
		assert_int_equal(s.auto_pause, good[i].auto_pause);
		assert_int_equal(s.reboot, good[i].reboot);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(resume_read(bad[i].body, strlen(bad[i].body), &s, &e), -1);
		if (e.kind != ERR_INVALID || strstr(e.text, bad[i].names) == NULL)
			fail_msg("%s: %s", bad[i].body, e.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_table),
		cmocka_unit_test(test_create_values),
		cmocka_unit_test(test_create_bounds),
		cmocka_unit_test(test_deep_json),
		cmocka_unit_test(test_lease),
		cmocka_unit_test(test_resume),
	};

	return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
