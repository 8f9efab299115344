/* What an init writes into the sandbox's own files, below a root of the test's own. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host.h"
#include "scratch.h"

#define A "-----BEGIN CERTIFICATE-----\nMIIBAAAA\nAAAA\n-----END CERTIFICATE-----\n"
#define B "-----BEGIN CERTIFICATE-----\r\nMIIBBBBB\r\n-----END CERTIFICATE-----"
#define OURS "usr/local/share/ca-certificates/e2b-ca.crt"
#define BUNDLE "etc/ssl/certs/ca-certificates.crt"

static char root[64];

static const char *below(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", root, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(below(name), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect(const char *name, const char *text)
{
	static char got[4096];
	FILE *f = fopen(below(name), "r");
	size_t n;

	assert_non_null(f);
	n = fread(got, 1, sizeof got - 1, f);
	got[n] = '\0';
	fclose(f);
	assert_string_equal(got, text);
}

static int start(void **state)
{
	static const char *const dirs[] = { "etc", "etc/ssl", "etc/ssl/certs" };

	(void)state;
	scratch_make(root);
	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
		assert_int_equal(mkdir(below(dirs[i]), 0755), 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	scratch_remove(root);
	return 0;
}

static void test_trust(void **state)
{
	struct stat st;
	struct err e;

	(void)state;
	put(BUNDLE, "# of the system\nS");          /* a bundle without a last newline */
	assert_int_equal(host_trust(root, A, &e), 0);
	expect(OURS, A);
	expect(BUNDLE, "# of the system\nS\n" A);
	assert_int_equal(host_trust(root, A, &e), 0);      /* twice is once */
	expect(BUNDLE, "# of the system\nS\n" A);
	put(BUNDLE, "before\n" A "after\n");            /* the system's own tool has sorted it elsewhere */
	assert_int_equal(host_trust(root, "comment\n" A B, &e), 0);
	expect(OURS, "comment\n" A B "\n");
	expect(BUNDLE, "before\nafter\ncomment\n" A B "\n");
	assert_int_equal(stat(below(BUNDLE), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(access(below(BUNDLE ".hutch"), F_OK), -1);
}

/* A bundle that is a link stays one; without any there is one afterwards. */
static void test_bundles(void **state)
{
	struct stat st;
	struct err e;

	(void)state;
	assert_int_equal(unlink(below(BUNDLE)), 0);
	put("etc/real", "S\n");
	assert_int_equal(symlink("../../real", below(BUNDLE)), 0);
	assert_int_equal(host_trust(root, A, &e), 0);
	expect("etc/real", "S\n" A);
	assert_int_equal(lstat(below(BUNDLE), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(unlink(below(BUNDLE)), 0);
	assert_int_equal(unlink(below("etc/real")), 0);
	assert_int_equal(host_trust(root, A, &e), 0);
	expect(BUNDLE, A);
}

static void test_no_pem(void **state)
{
	static const char *const texts[] = {
		"x", "-----BEGIN CERTIFICATE-----\nMIIB\n", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\n" A, A "-----BEGIN CERTIFICATE-----\n",
	};
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		assert_int_equal(host_trust(root, texts[i], &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
		assert_non_null(strstr(e.text, "caBundle"));
	}
	expect(BUNDLE, A);
}

static void test_events(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(host_events(root, "10.0.0.1", &e), 0);
	expect("etc/hosts", "10.0.0.1 events.e2b.local\n");
	put("etc/hosts", "127.0.0.1 localhost\n1.1.1.1\tevents.e2b.local # old\n1.1.1.2 my.events.e2b.local\n# 1.1.1.3 events.e2b.local\n1.1.1.4 a events.e2b.local");
	assert_int_equal(host_events(root, "fd00::1", &e), 0);
	expect("etc/hosts", "127.0.0.1 localhost\n1.1.1.2 my.events.e2b.local\n# 1.1.1.3 events.e2b.local\nfd00::1 events.e2b.local\n");
	assert_true(host_is_address("10.0.0.1") && host_is_address("::1"));
	assert_false(host_is_address("10.0.0") || host_is_address("") || host_is_address("10.0.0.1 x") || host_is_address("host"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_bundles),
		cmocka_unit_test(test_no_pem),
		cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests_name("host", tests, start, stop);
}
