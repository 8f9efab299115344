/* The lab authority and its certificates, held against what OpenSSL says as a client. */
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

#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "hutch/cert.h"

static char dir[64];
static char ca[128], ca_key[128], cert[128], key[128];

static void name(char *out, const char *file)
{
	snprintf(out, 128, "%s/%s", dir, file);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/hutch-cert-XXXXXX");
	assert_non_null(mkdtemp(dir));
	name(ca, "ca.pem");
	name(ca_key, "ca.key");
	name(cert, "cert.pem");
	name(key, "key.pem");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(ca);
	unlink(ca_key);
	unlink(cert);
	unlink(key);
	assert_int_equal(rmdir(dir), 0);        /* nothing half written is left */
	return 0;
}

static bool owned_by(const char *path, uid_t uid, gid_t gid)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_uid == uid && st.st_gid == gid;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static X509 *read_cert(const char *path)
{
	FILE *f = fopen(path, "re");
	X509 *x;

	assert_non_null(f);
	x = PEM_read_X509(f, NULL, NULL, NULL);
	fclose(f);
	assert_non_null(x);
	return x;
}

/* As a client that trusts the authority and asked for `host`. */
static bool accepted(const char *host)
{
	X509 *root = read_cert(ca), *leaf = read_cert(cert);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ok;

	X509_STORE_add_cert(store, root);
	X509_STORE_CTX_init(ctx, store, leaf, NULL);
	X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
	X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), host, 0);
	ok = X509_verify_cert(ctx) == 1;
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(root);
	X509_free(leaf);
	return ok;
}

static void test_domains(void **state)
{
	static const struct { const char *domain; bool ok; } cases[] = {
		{ "hutch.localhost", true }, { "a.b", true }, { "sandboxes.example.com", true }, { "x-1.example", true },
		{ "localhost", false }, { "", false }, { ".a.b", false }, { "a..b", false }, { "a.b.", false }, { "-a.b", false }, { "a-.b", false },
		{ "a.b-", false }, { "A.b", false }, { "a_b.c", false }, { "*.a.b", false }, { "a.b,DNS:evil.example", false }, { "a.b\n", false },
		{ "1234567890123456789012345678901234567890123456789012345678901234.b", false },
	};
	char lengthy[300];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		if (cert_domain_ok(cases[i].domain) != cases[i].ok)
			fail_msg("%s", cases[i].domain);
	for (size_t i = 0; i < 260; i++)
		lengthy[i] = i % 2 == 0 ? 'a' : '.';
	strcpy(lengthy + 260, "a");
	assert_false(cert_domain_ok(lengthy));
}

static void test_made(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(cert_authority("hutch.localhost", ca, ca_key, &e), 0);
	assert_int_equal(cert_issue("hutch.localhost", 30, ca, ca_key, cert, key, false, &e), 0);
	assert_int_equal(mode_of(key), 0600);
	assert_int_equal(mode_of(ca_key), 0600);
	assert_int_equal(mode_of(cert), 0644);
	assert_int_equal(mode_of(ca), 0644);
	assert_true(accepted("hutch.localhost"));
	assert_true(accepted("api.hutch.localhost"));
	assert_true(accepted("49983-i0000000000000000000a.hutch.localhost"));
	assert_false(accepted("a.b.hutch.localhost"));
	assert_false(accepted("localhost"));
	assert_false(accepted("example.com"));
}

static void test_nothing_is_overwritten(void **state)
{
	X509 *before, *after;
	struct err e;

	(void)state;
	assert_int_equal(cert_authority("a.test", ca, ca_key, &e), 0);
	assert_int_equal(cert_authority("a.test", ca, ca_key, &e), -1);
	assert_int_equal(e.kind, ERR_CONFLICT);
	assert_int_equal(cert_issue("a.test", 1, ca, ca_key, cert, key, false, &e), 0);
	before = read_cert(cert);
	assert_int_equal(cert_issue("a.test", 1, ca, ca_key, cert, key, false, &e), -1);
	assert_int_equal(e.kind, ERR_CONFLICT);
	after = read_cert(cert);
	assert_int_equal(X509_cmp(before, after), 0);
	X509_free(after);
	assert_int_equal(cert_issue("a.test", 1, ca, ca_key, cert, key, true, &e), 0);
	after = read_cert(cert);
	assert_int_not_equal(X509_cmp(before, after), 0);
	X509_free(before);
	X509_free(after);
	assert_true(accepted("x.a.test"));
	/* who may read them stays as it was */
	assert_int_equal(chmod(key, 0640), 0);
	assert_int_equal(chmod(cert, 0600), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(key, 1, 2), 0);
	assert_int_equal(cert_issue("a.test", 1, ca, ca_key, cert, key, true, &e), 0);
	assert_int_equal(mode_of(key), 0640);
	assert_int_equal(mode_of(cert), 0600);
	assert_int_equal(owned_by(key, 1, 2), geteuid() == 0);
}

/* A half of a pair that is in the way leaves no other half behind. */
static void test_half_a_pair(void **state)
{
	struct err e;
	FILE *f;

	(void)state;
	assert_int_equal(cert_authority("a.test", ca, ca_key, &e), 0);
	f = fopen(cert, "we");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(cert_issue("a.test", 1, ca, ca_key, cert, key, false, &e), -1);
	assert_int_equal(access(key, F_OK), -1);
}

static void test_authority_of_another(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(cert_authority("a.test", ca, ca_key, &e), 0);
	assert_int_equal(cert_issue("b.test", 1, ca, ca_key, cert, key, false, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	assert_int_equal(cert_issue("a.test", 3651, ca, ca_key, cert, key, false, &e), -1);
	assert_non_null(strstr(e.text, "ends before"));
	assert_int_equal(cert_issue("a.test", 1, ca, "/dev/null", cert, key, false, &e), -1);
	assert_int_equal(cert_issue("a.test", 1, "/nonexistent", ca_key, cert, key, false, &e), -1);
	assert_int_equal(access(cert, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_domains),
		cmocka_unit_test_setup_teardown(test_made, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_overwritten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_half_a_pair, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_authority_of_another, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
