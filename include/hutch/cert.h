/*
 * cert.h - a certificate authority of one's own and certificates by it, for tests and labs: files in PEM, keys on P-256 with
 * mode 0600. Who trusts the authority trusts it for one domain only: it carries a name constraint (RFC 5280 4.2.1.10).
 */
#ifndef HUTCH_CERT_H
#define HUTCH_CERT_H

#include <stdbool.h>
#include "hutch/err.h"

#define CERT_DAYS_MAX 825        /* what clients take of a private authority (Apple's limit) */

/* May a wildcard certificate be made for it: two labels or more, [a-z0-9-]. OpenSSL, and with it most clients, takes no *.localhost. */
bool cert_domain_ok(const char *domain);
/* Make an authority for domain and all below it, for ten years. Neither file may exist. */
int cert_authority(const char *domain, const char *cert_path, const char *key_path, struct err *e);
/* Make a key and a certificate for domain and *.domain by the authority in ca_path and ca_key_path, from an hour ago until `days` from
 * now. Neither file may exist unless `replace`: then both are replaced by rename(2). ERR_INVALID when the authority is for another
 * domain or ends before. */
int cert_issue(const char *domain, int days, const char *ca_path, const char *ca_key_path, const char *cert_path, const char *key_path,
	       bool replace, struct err *e);

#endif
