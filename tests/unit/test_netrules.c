/* Addresses, blocks and names of network rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/netrules.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ROUNDS 20000

static void test_parse(void **state)
{
	static const struct { const char *text; uint32_t first, last; } good[] = {
		{ "0.0.0.0/0", 0, UINT32_MAX }, { "1.2.3.4", 0x01020304, 0x01020304 }, { "1.2.3.4/32", 0x01020304, 0x01020304 },
		{ "10.9.8.7/8", 0x0a000000, 0x0affffff }, { "255.255.255.255", UINT32_MAX, UINT32_MAX }, { "192.0.2.128/25", 0xc0000280, 0xc00002ff },
		{ "128.0.0.0/1", 0x80000000, UINT32_MAX },
	};
	static const char *const bad[] = { "", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/-1", "1.2.3.4/+1", "1.2.3.4/08",
		"1.2.3.4/1/2", " 1.2.3.4", "1.2.3.4 ", "01.2.3.4x", "0x1.2.3.4", "1.2.3.4;drop", "::1", "a.b", "1.2.3.4\n", "1.2.3.4/255.0.0.0",
		"1.2.3.4 } drop; chain x {" };
	struct ip4_range r;
	char longer[1000];

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_int_equal(ip4_parse(good[i].text, &r), 0);
		assert_true(r.first == good[i].first && r.last == good[i].last);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		if (ip4_parse(bad[i], &r) == 0)
			fail_msg("\"%s\" was taken", bad[i]);
	memset(longer, '1', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(ip4_parse(longer, &r), -1);
	assert_true(ip6_is("::1") && ip6_is("2001:db8::/32") && ip6_is("::/0") && !ip6_is("1.2.3.4") && !ip6_is("::/129") && !ip6_is("x::"));
}

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*seed >> 32);
}

/* What is printed as a block and read again has just the addresses that agree in the prefix. */
static void test_property_parse(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const uint32_t a = next(&seed), other = next(&seed);
		const unsigned bits = next(&seed) % 33;
		const uint32_t mask = bits == 0 ? 0 : UINT32_MAX << (32 - bits), probe = i % 2 == 0 ? other : (a & mask) | (other & ~mask);
		struct ip4_range r;
		char text[32];

		snprintf(text, sizeof text, "%u.%u.%u.%u/%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255, bits);
		assert_int_equal(ip4_parse(text, &r), 0);
		assert_true((r.first <= probe && probe <= r.last) == ((probe & mask) == (a & mask)));
	}
}

static int inside(const struct ip4_range *r, size_t n, uint32_t a)
{
	for (size_t i = 0; i < n; i++)
		if (r[i].first <= a && a <= r[i].last)
			return 1;
	return 0;
}

/* Merged ranges hold the same addresses, in order and apart: at every edge, and one beside it. */
static void test_property_merge(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int i = 0; i < ROUNDS / 10; i++) {
		struct ip4_range r[24] = { 0 }, m[24];
		const size_t n = next(&seed) % 24;
		size_t left;

		for (size_t k = 0; k < n; k++) {
			const uint32_t base = i % 3 == 0 ? next(&seed) : next(&seed) % 64, len = next(&seed) % 16;

			r[k].first = i % 5 == 0 ? UINT32_MAX - base % 64 : base;
			r[k].last = r[k].first > UINT32_MAX - len ? UINT32_MAX : r[k].first + len;
		}
		memcpy(m, r, sizeof m);
		left = ip4_merge(m, n);
		assert_true(left <= n && (left > 0) == (n > 0));
		for (size_t k = 1; k < left; k++)
			assert_true(m[k - 1].last < UINT32_MAX && m[k - 1].last + 1 < m[k].first);
		for (size_t k = 0; k < n; k++) {
			const uint32_t at[] = { r[k].first, r[k].last, r[k].first - 1, r[k].last + 1, next(&seed) };

			for (size_t p = 0; p < COUNT(at); p++)
				assert_int_equal(inside(m, left, at[p]), inside(r, n, at[p]));
		}
	}
}

static void test_names(void **state)
{
	static const char *const domains[] = { "example.com", "*.example.com", "*", "a", "a-b.c_d.e", "1.2" };
	static const char *const not_domains[] = { "", ".", "a..b", "a.", ".a", "-a", "a-", "a.-b", "a b", "*a", "*.", "a.*", "**", "a/b", "a\nb", "\xc3\xa4.de" };
	static const char *const hosts[] = { "example.com", "localhost:3000", "localhost:${PORT}", "127.0.0.1:80", "a:65535" };
	static const char *const not_hosts[] = { "", ":80", "a:", "a:0", "a:65536", "a:80x", "a b", "a\r\nX: y", "*.a", "a:${port}", "${PORT}", "a:80:90",
		"http://a", "a/b", "\xc3\xa4.de", "[::1]", "a:${PORT}1", "a@b" };
	char label[80];

	(void)state;
	for (size_t i = 0; i < COUNT(domains); i++)
		assert_true(domain_is(domains[i]));
	for (size_t i = 0; i < COUNT(not_domains); i++)
		if (domain_is(not_domains[i]))
			fail_msg("\"%s\" is a domain", not_domains[i]);
	for (size_t i = 0; i < COUNT(hosts); i++)
		assert_true(mask_host_is(hosts[i]));
	for (size_t i = 0; i < COUNT(not_hosts); i++)
		if (mask_host_is(not_hosts[i]))
			fail_msg("\"%s\" is a host", not_hosts[i]);
	memset(label, 'a', 64);
	label[64] = '\0';
	assert_false(domain_is(label));
	label[63] = '\0';
	assert_true(domain_is(label));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse), cmocka_unit_test(test_property_parse), cmocka_unit_test(test_property_merge), cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("netrules", tests, NULL, NULL);
}
