#include "config.h"

#include "hutch/cert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "hutch/io.h"

#define AUTHORITY_DAYS 3650
#define DOMAIN_MAX 240                   /* a sandbox's label goes before it, and a name has at most 253 */

struct pair {
	X509 *cert;
	EVP_PKEY *key;
};

static void pair_release(struct pair *p)
{
	X509_free(p->cert);
	EVP_PKEY_free(p->key);
	*p = (struct pair){ NULL, NULL };
}

/* OpenSSL's last error as ours. */
static int failed(struct err *e, const char *what)
{
	unsigned long code = ERR_get_error();
	char text[256] = "unknown error";

	if (code != 0)
		ERR_error_string_n(code, text, sizeof text);
	ERR_clear_error();
	return err_set(e, ERR_INTERNAL, "%s: %s", what, text);
}

bool cert_domain_ok(const char *domain)
{
	size_t label = 0, dots = 0;

	if (strlen(domain) > DOMAIN_MAX)
		return false;
	for (const char *p = domain; *p != '\0'; p++) {
		if (*p == '.') {
			if (label == 0 || p[-1] == '-')
				return false;
			dots++;
			label = 0;
		} else if ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || (*p == '-' && label > 0)) {
			if (++label > 63)
				return false;
		} else {
			return false;
		}
	}
	return dots > 0 && label > 0 && domain[strlen(domain) - 1] != '-';
}

/* ---- making ---- */

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *x;
	X509V3_CTX ctx;
	int rc;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	x = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	if (x == NULL)
		return -1;
	rc = X509_add_ext(cert, x, -1);
	X509_EXTENSION_free(x);
	return rc == 1 ? 0 : -1;
}

static int set_serial(X509 *cert)
{
	unsigned char raw[16];
	BIGNUM *n;
	int rc;

	if (RAND_bytes(raw, sizeof raw) != 1)
		return -1;
	raw[0] &= 0x7f;                          /* positive, and never the empty number */
	raw[0] |= 0x40;
	n = BN_bin2bn(raw, sizeof raw, NULL);
	rc = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL ? 0 : -1;
	BN_free(n);
	return rc;
}

static int set_name(X509 *cert, const char *text)
{
	X509_NAME *name = X509_get_subject_name(cert);

	/* a common name has at most 64 characters; who reads names today reads the alternative ones */
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text, (int)strnlen(text, 64), -1, 0) == 1 ? 0 : -1;
}

/* A fresh key and a certificate for it that is not signed yet. An hour back: clocks differ. */
static int pair_new(struct pair *p, const char *name, int days)
{
	p->key = EVP_EC_gen("P-256");
	p->cert = X509_new();
	if (p->key == NULL || p->cert == NULL || X509_set_version(p->cert, X509_VERSION_3) != 1 || set_serial(p->cert) < 0)
		return -1;
	if (X509_gmtime_adj(X509_getm_notBefore(p->cert), -3600) == NULL ||
	    X509_time_adj_ex(X509_getm_notAfter(p->cert), days, 0, NULL) == NULL)
		return -1;
	return set_name(p->cert, name) < 0 || X509_set_pubkey(p->cert, p->key) != 1 ? -1 : 0;
}

static int make_authority(struct pair *p, const char *domain)
{
	char name[300], constraint[300];

	snprintf(name, sizeof name, "hutch lab authority for %s", domain);
	snprintf(constraint, sizeof constraint, "critical,permitted;DNS:%s", domain);
	if (pair_new(p, name, AUTHORITY_DAYS) < 0 || X509_set_issuer_name(p->cert, X509_get_subject_name(p->cert)) != 1)
		return -1;
	if (add_extension(p->cert, p->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") < 0 ||
	    add_extension(p->cert, p->cert, NID_key_usage, "critical,keyCertSign,cRLSign") < 0 ||
	    add_extension(p->cert, p->cert, NID_subject_key_identifier, "hash") < 0 ||
	    add_extension(p->cert, p->cert, NID_name_constraints, constraint) < 0)
		return -1;
	return X509_sign(p->cert, p->key, EVP_sha256()) > 0 ? 0 : -1;
}

static int make_leaf(struct pair *p, const struct pair *ca, const char *domain, int days)
{
	char names[600];

	snprintf(names, sizeof names, "DNS:%s,DNS:*.%s", domain, domain);
	if (pair_new(p, domain, days) < 0 || X509_set_issuer_name(p->cert, X509_get_subject_name(ca->cert)) != 1)
		return -1;
	if (add_extension(p->cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") < 0 ||
	    add_extension(p->cert, ca->cert, NID_key_usage, "critical,digitalSignature") < 0 ||
	    add_extension(p->cert, ca->cert, NID_ext_key_usage, "serverAuth") < 0 ||
	    add_extension(p->cert, ca->cert, NID_subject_key_identifier, "hash") < 0 ||
	    add_extension(p->cert, ca->cert, NID_authority_key_identifier, "keyid") < 0 ||
	    add_extension(p->cert, ca->cert, NID_subject_alt_name, names) < 0)
		return -1;
	return X509_sign(p->cert, ca->key, EVP_sha256()) > 0 ? 0 : -1;
}

/* Would a client that trusts the authority take it? */
static int check_leaf(const struct pair *p, const struct pair *ca, struct err *e)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	int rc = -1;

	if (store == NULL || ctx == NULL || X509_STORE_add_cert(store, ca->cert) != 1 || X509_STORE_CTX_init(ctx, store, p->cert, NULL) != 1)
		failed(e, "certificate");
	else if (ASN1_TIME_compare(X509_get0_notAfter(p->cert), X509_get0_notAfter(ca->cert)) > 0)
		err_set(e, ERR_INVALID, "the authority ends before the certificate would: fewer days, or remove the authority to make another");
	else if (X509_verify_cert(ctx) == 1)
		rc = 0;
	else
		err_set(e, ERR_INVALID, "the authority does not fit: %s", X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	ERR_clear_error();
	return rc;
}

/* ---- files ---- */

/* Who may read it stays as it was where a file is replaced: a web server that is not root may have to. */
static int set_access(int fd, const char *path, mode_t mode)
{
	struct stat was;

	if (stat(path, &was) < 0)
		return fchmod(fd, mode);
	return fchown(fd, was.st_uid, was.st_gid) < 0 ? -1 : fchmod(fd, was.st_mode & 0777);
}

/* A file beside path; its name into tmp. */
static int write_beside(const char *path, mode_t mode, BIO *text, char *tmp, size_t max, struct err *e)
{
	char *p;
	long n = BIO_get_mem_data(text, &p);
	int fd;

	if (snprintf(tmp, max, "%s.XXXXXX", path) >= (int)max)
		return err_set(e, ERR_INVALID, "%.64s...: the path is too long", path);
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%s", path);
	if (set_access(fd, path, mode) < 0 || write_all(fd, p, (size_t)n) < 0 || fsync(fd) < 0) {
		err_sys(e, "%s", path);
		close(fd);
		unlink(tmp);
		return -1;
	}
	close(fd);
	return 0;
}

static int put(const char *tmp, const char *path, bool replace, struct err *e)
{
	int rc = replace ? rename(tmp, path) : link(tmp, path);

	if (rc < 0 && errno == EEXIST)
		return err_set(e, ERR_CONFLICT, "%s is there already", path);
	return rc < 0 ? err_sys(e, "%s", path) : 0;
}

static int put_both(const struct pair *p, BIO *key, BIO *cert, const char *cert_path, const char *key_path, bool replace, struct err *e)
{
	char key_tmp[4096], cert_tmp[4096];
	int rc = -1;

	if (PEM_write_bio_PrivateKey(key, p->key, NULL, NULL, 0, NULL, NULL) != 1 || PEM_write_bio_X509(cert, p->cert) != 1)
		return failed(e, "PEM");
	if (write_beside(key_path, 0600, key, key_tmp, sizeof key_tmp, e) < 0)
		return -1;
	if (write_beside(cert_path, 0644, cert, cert_tmp, sizeof cert_tmp, e) == 0) {
		if (put(key_tmp, key_path, replace, e) == 0) {
			rc = put(cert_tmp, cert_path, replace, e);
			if (rc < 0 && !replace)
				unlink(key_path);
		}
		unlink(cert_tmp);
	}
	unlink(key_tmp);
	return rc;
}

/* Both complete beside their places first, so that only two renames stand between the old pair and the new. */
static int pair_write(const struct pair *p, const char *cert_path, const char *key_path, bool replace, struct err *e)
{
	BIO *key = BIO_new(BIO_s_mem()), *cert = BIO_new(BIO_s_mem());
	int rc = key != NULL && cert != NULL ? put_both(p, key, cert, cert_path, key_path, replace, e) : failed(e, "memory");

	BIO_free(key);
	BIO_free(cert);
	return rc;
}

static FILE *open_read(const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");

	if (f == NULL)
		err_sys(e, "%s", path);
	return f;
}

static int pair_read(struct pair *p, const char *cert_path, const char *key_path, struct err *e)
{
	FILE *cert = open_read(cert_path, e), *key = cert != NULL ? open_read(key_path, e) : NULL;
	int rc = -1;

	if (key != NULL) {
		p->cert = PEM_read_X509(cert, NULL, NULL, NULL);
		p->key = PEM_read_PrivateKey(key, NULL, NULL, NULL);
		if (p->cert == NULL || p->key == NULL || X509_check_private_key(p->cert, p->key) != 1)
			err_set(e, ERR_INVALID, "%s and %s are no certificate and its key", cert_path, key_path);
		else
			rc = 0;
		fclose(key);
		ERR_clear_error();
	}
	if (cert != NULL)
		fclose(cert);
	return rc;
}

/* ---- both ---- */

int cert_authority(const char *domain, const char *cert_path, const char *key_path, struct err *e)
{
	struct pair p = { NULL, NULL };
	int rc = make_authority(&p, domain) < 0 ? failed(e, "authority") : pair_write(&p, cert_path, key_path, false, e);

	pair_release(&p);
	return rc;
}

int cert_issue(const char *domain, int days, const char *ca_path, const char *ca_key_path, const char *cert_path, const char *key_path,
	       bool replace, struct err *e)
{
	struct pair ca = { NULL, NULL }, p = { NULL, NULL };
	int rc = pair_read(&ca, ca_path, ca_key_path, e);

	if (rc == 0 && make_leaf(&p, &ca, domain, days) < 0)
		rc = failed(e, "certificate");
	if (rc == 0)
		rc = check_leaf(&p, &ca, e);
	if (rc == 0)
		rc = pair_write(&p, cert_path, key_path, replace, e);
	pair_release(&p);
	pair_release(&ca);
	return rc;
}
