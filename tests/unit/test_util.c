#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/conf.h"
#include "hutch/crypto.h"
#include "hutch/seal.h"
#include "hutch/secret.h"
#include "hutch/when.h"

static void test_buf(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 10);
	buf_adds(&b, "12345");
	buf_addf(&b, "%d", 678);
	buf_cut(&b, 2);
	assert_string_equal(buf_str(&b), "345678");
	buf_adds(&b, "9012");
	assert_false(buf_failed(&b));
	buf_addc(&b, 'x');
	assert_true(buf_failed(&b));
	buf_addc(&b, 'y');
	assert_int_equal(b.len, 10);
	buf_release(&b);
}

static void test_when(void **state)
{
	static const struct { const char *text; int64_t us; } good[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2026-01-02T03:04:05.123456Z", 1767323045123456 },
		{ "2026-01-02T03:04:05.123456789Z", 1767323045123456 },
		{ "2026-01-02T05:04:05.1+02:00", 1767323045100000 },
		{ "2026-01-02T01:04:05-02:00", 1767323045000000 },
	};
	static const char *const bad[] = { "", "2026-01-02", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z",
		"2026-01-02T03:04:05", "2026-01-02T03:04:05.Z", "2026-01-02T24:04:05Z", "2026-01-02T03:04:05Zx" };
	char text[WHEN_LEN];
	int64_t us;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(when_parse(good[i].text, strlen(good[i].text), &us), 0);
		assert_int_equal(us, good[i].us);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(when_parse(bad[i], strlen(bad[i]), &us), -1);
	when_format(1767323045123456, text);
	assert_string_equal(text, "2026-01-02T03:04:05.123456Z");
}

/* Against the C library, through all months and leap years; beyond the years 1 to 9999 the text stays well-formed. */
static void test_when_dates(void **state)
{
	char text[WHEN_LEN], want[64];

	(void)state;
	for (int64_t s = -62135596800; s <= 253402300799; s += 86400 * 13 + 86399) {
		time_t t = (time_t)s;
		struct tm tm;

		gmtime_r(&t, &tm);
		snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.000007Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
			 tm.tm_hour, tm.tm_min, tm.tm_sec);
		when_format(s * US_PER_S + 7, text);
		assert_string_equal(text, want);
	}
	when_format(INT64_MIN, text);
	assert_string_equal(text, "0001-01-01T00:00:00.000000Z");
	when_format(INT64_MAX, text);
	assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
	when_format(-1, text);
	assert_string_equal(text, "1969-12-31T23:59:59.999999Z");
}

static void test_encodings(void **state)
{
	static const char *const pairs[][2] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" } };
	struct buf b;
	uint8_t raw[2];
	char hex[5];

	(void)state;
	buf_init(&b, 100);
	for (size_t i = 0; i < 5; i++) {
		buf_reset(&b);
		base64_add(&b, pairs[i][0], strlen(pairs[i][0]));
		assert_string_equal(buf_str(&b), pairs[i][1]);
		buf_reset(&b);
		assert_int_equal(base64_decode(&b, pairs[i][1], strlen(pairs[i][1])), 0);
		assert_string_equal(buf_str(&b), pairs[i][0]);
	}
	buf_reset(&b);
	assert_int_equal(base64_decode(&b, "_-8", 3), 0);       /* URL-safe, unpadded */
	assert_memory_equal(buf_str(&b), "\xff\xef", 2);
	assert_int_equal(base64_decode(&b, "Zm9v!", 5), -1);
	assert_int_equal(base64_decode(&b, "Z", 1), -1);
	buf_release(&b);
	hex_encode("\xab\x01", 2, hex);
	assert_string_equal(hex, "ab01");
	assert_int_equal(hex_decode("aB01", 4, raw), 0);
	assert_int_equal(raw[0], 0xab);
	assert_int_equal(hex_decode("abc", 3, raw), -1);
	assert_int_equal(hex_decode("zz", 2, raw), -1);
}

/* Published vectors: RFC 4231 cases 2 and 6 (a key longer than a block), FIPS 180 "abc". */
static void test_hmac(void **state)
{
	uint8_t mac[SHA256_LEN], long_key[131], wide[SHA512_LEN];
	char hex[129];

	(void)state;
	hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
	hex_encode(mac, sizeof mac, hex);
	assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(long_key, 0xaa, sizeof long_key);
	hmac_sha256(long_key, sizeof long_key, "Test Using Larger Than Block-Size Key - Hash Key First", 54, mac);
	hex_encode(mac, sizeof mac, hex);
	assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	sha256("abc", 3, mac);
	hex_encode(mac, sizeof mac, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha512("abc", 3, wide);
	hex_encode(wide, 8, hex);
	assert_string_equal(hex, "ddaf35a193617aba");
	assert_true(secret_equal("ab", 2, "ab", 2));
	assert_false(secret_equal("ab", 2, "ac", 2));
	assert_false(secret_equal("ab", 2, "a", 1));
}

static void conf_case(const char *text, const char *want)
{
	char path[] = "/tmp/hutch-conf-XXXXXX";
	struct config c;
	struct err e = { 0 };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	if (want == NULL) {
		assert_int_equal(config_read(&c, path, &e), 0);
		assert_string_equal(c.db_dir, "/s/db");
		assert_int_equal(c.warm, 7);
		config_release(&c);
	} else {
		assert_int_equal(config_read(&c, path, &e), -1);
		assert_non_null(strstr(e.text, want));
	}
	unlink(path);
}

static void test_conf(void **state)
{
	(void)state;
	conf_case("# c\n\n state_dir = /s \nwarm=7\n", NULL);
	conf_case("warm = 1\nwarm = 2\n", ":2: warm is given twice");
	conf_case("nope = 1\n", ":1: unknown option nope");
	conf_case("\nwarm = x\n", ":2: warm must be a whole number");
	conf_case("warm\n", ":1: expected");
	conf_case("state_dir = rel\n", "absolute path");
	conf_case("secret_file = $state_dir/other\nstate_dir = /s\nwarm = 7\n", NULL);
	conf_case("db_dir = $nothing/x\n", ":1: db_dir: $nothing/x is no path option");
	conf_case("state_dir = $run_dir\n", "state_dir: $run_dir is no path option that comes before it");
	conf_case("db_dir = $domain/x\n", "db_dir: $domain/x is no path option");
	conf_case("doors = yes\n", "doors must be true or false");
}

static void test_secret(void **state)
{
	char path[] = "/tmp/hutch-secret-XXXXXX", again[TOKEN_LEN], token[TOKEN_LEN];
	uint8_t a[SECRET_LEN], b[SECRET_LEN];
	struct err e;

	(void)state;
	close(mkstemp(path));
	unlink(path);
	assert_int_equal(secret_make(path, &e), 0);
	assert_int_equal(secret_read(path, a, &e), 0);
	assert_int_equal(secret_make(path, &e), 0);             /* kept, not replaced */
	assert_int_equal(secret_read(path, b, &e), 0);
	assert_memory_equal(a, b, SECRET_LEN);
	secret_token(a, "envd", "i1", token);
	secret_token(a, "envd", "i2", again);
	assert_string_not_equal(token, again);
	chmod(path, 0644);
	assert_int_equal(secret_read(path, b, &e), -1);
	unlink(path);
}

/* What was sealed comes out again, and nothing when a single character, the name, the purpose or the secret is another. */
static void test_seal(void **state)
{
	static const char *const texts[] = { "", "x", "s3cr3t \xc3\xa4", "0123456789abcdef0123456789abcdef" };
	uint8_t secret[SECRET_LEN] = { 1, 2, 3 };
	struct buf a, b, out;
	struct err e;

	(void)state;
	buf_init(&a, 1000);
	buf_init(&b, 1000);
	buf_init(&out, 1000);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		buf_reset(&a);
		buf_reset(&b);
		buf_reset(&out);
		assert_int_equal(seal_text(secret, "webhook", "w1", texts[i], &a, &e), 0);
		assert_int_equal(seal_text(secret, "webhook", "w1", texts[i], &b, &e), 0);
		assert_string_not_equal(buf_str(&a), buf_str(&b));
		assert_int_equal(seal_open(secret, "webhook", "w1", buf_str(&a), &out, &e), 0);
		assert_string_equal(buf_str(&out), texts[i]);
	}
	buf_reset(&out);
	for (size_t i = 0; i < a.len && a.p[i] != '='; i++) {
		char was = a.p[i];

		a.p[i] = was == 'A' ? 'B' : 'A';
		if (i + 2 < a.len)                   /* the last digits carry bits that are not looked at */
			assert_int_equal(seal_open(secret, "webhook", "w1", a.p, &out, &e), -1);
		a.p[i] = was;
	}
	assert_int_equal(seal_open(secret, "webhook", "w2", a.p, &out, &e), -1);
	assert_int_equal(seal_open(secret, "ingest", "w1", a.p, &out, &e), -1);
	assert_int_equal(seal_open(secret, "webhook", "w1", "", &out, &e), -1);
	assert_int_equal(seal_open(secret, "webhook", "w1", "AAAA", &out, &e), -1);
	assert_int_equal(seal_open(secret, "webhook", "w1", "!", &out, &e), -1);
	secret[31] = 1;
	assert_int_equal(seal_open(secret, "webhook", "w1", a.p, &out, &e), -1);
	assert_int_equal(out.len, 0);
	buf_release(&a);
	buf_release(&b);
	buf_release(&out);
}

static void test_ids(void **state)
{
	char id[21], uuid[37];

	(void)state;
	random_id(id, 20);
	assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789"), 20);
	random_uuid(uuid);
	assert_int_equal(strlen(uuid), 36);
	assert_int_equal(uuid[14], '4');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf),
		cmocka_unit_test(test_when),
		cmocka_unit_test(test_when_dates),
		cmocka_unit_test(test_encodings),
		cmocka_unit_test(test_hmac),
		cmocka_unit_test(test_conf),
		cmocka_unit_test(test_secret),
		cmocka_unit_test(test_seal),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
