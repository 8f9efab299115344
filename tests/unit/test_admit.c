/* What a pool can have and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/domain.h"

/* Each want alone: a pool that can do everything has it; one that can do nothing refuses it by name, if it needs anything. */
static void test_wants(void **state)
{
	static const struct pool_caps all = { .can = UINT32_MAX }, nothing = { .can = 0 };
	struct err e;

	(void)state;
	for (int w = 0; w < POOL_WANTS; w++) {
		assert_int_equal(pool_admit(&all, "p", WANT_BIT(w), NULL, &e), 0);
		if (w == WANT_METADATA)
			continue;
		assert_int_equal(pool_admit(&nothing, "mine", WANT_BIT(w), NULL, &e), -1);
		assert_int_equal(e.kind, w == WANT_NET_PROXY ? ERR_DENIED : ERR_INVALID);
		assert_int_equal(strncmp(e.text, "option ", 7), 0);
		assert_non_null(strstr(e.text, " cannot be had in pool mine"));
	}
	assert_int_equal(pool_admit(&nothing, "p", 0, "{\"a\":\"b\"}", &e), 0);
}

/* A bit that is not needed does not matter, a bit that is does. */
static void test_bits(void **state)
{
	const struct pool_caps c = { .can = CAP_AUTO_PAUSE };
	struct err e;

	(void)state;
	assert_int_equal(pool_admit(&c, "p", WANT_BIT(WANT_AUTO_PAUSE), NULL, &e), 0);
	assert_int_equal(pool_admit(&c, "p", WANT_BIT(WANT_AUTO_PAUSE) | WANT_BIT(WANT_AUTO_PAUSE_DISK), NULL, &e), -1);
	assert_string_equal(e.text, "option autoPauseMemory = false cannot be had in pool p");
}

static void test_metadata(void **state)
{
	static const struct { struct pool_caps c; const char *text; int want; } cases[] = {
		{ { .meta_pairs = 1 }, "{\"a\":\"\"}", 0 }, { { .meta_pairs = 1 }, "{\"a\":\"\",\"b\":\"\"}", -1 },
		{ { .meta_key = 2 }, "{\"ab\":\"\"}", 0 }, { { .meta_key = 2 }, "{\"abc\":\"\"}", -1 },
		{ { .meta_value = 1 }, "{\"ab\":\"1\"}", 0 }, { { .meta_value = 1 }, "{\"ab\":\"12\"}", -1 },
		{ { .meta_bytes = 8 }, "{\"a\":\"\"}", 0 }, { { .meta_bytes = 7 }, "{\"a\":\"\"}", -1 },
		{ { .meta_bytes = 7 }, NULL, 0 },
	};
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(pool_admit(&cases[i].c, "p", 0, cases[i].text, &e), cases[i].want);
		if (cases[i].want < 0)
			assert_non_null(strstr(e.text, "option metadata cannot be had in pool p"));
	}
}

static void test_names(void **state)
{
	(void)state;
	for (int k = 0; k < POOL_KINDS; k++) {
		assert_int_equal(pool_kind_find(pool_kind_name((enum pool_kind)k)), k);
		for (int b = 0; b < 32; b++)
			if ((pool_kind_caps((enum pool_kind)k)->can >> b & 1) != 0)
				assert_non_null(pool_cap_name(b));
	}
	assert_int_equal(pool_kind_find("cloud"), -1);
	assert_string_equal(pool_cap_name(23), "guest");
	assert_string_equal(pool_cap_name(24), "net-domains");
	assert_string_equal(pool_cap_name(25), "create");
	assert_null(pool_cap_name(26));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wants),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("admit", tests, NULL, NULL);
}
