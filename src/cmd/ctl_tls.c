/* hutchctl tls: an authority and a wildcard certificate of one's own, for tests and labs. */
#include "ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/cert.h"

#define DAYS 365
#define PATH_MAX_LEN 4000

struct files {
	char dir[PATH_MAX_LEN], ca[PATH_MAX_LEN + 16], ca_key[PATH_MAX_LEN + 16], cert[PATH_MAX_LEN + 16], key[PATH_MAX_LEN + 16];
};

static int name_files(const struct ctl *ctl, const char *dir, struct files *f)
{
	int n = dir != NULL ? snprintf(f->dir, sizeof f->dir, "%s", dir) : snprintf(f->dir, sizeof f->dir, "%s/tls", ctl->conf.state_dir);

	if (n >= (int)sizeof f->dir) {
		ctl_failed(ctl, "the path is too long");
		return -1;
	}
	snprintf(f->ca, sizeof f->ca, "%s/ca.pem", f->dir);
	snprintf(f->ca_key, sizeof f->ca_key, "%s/ca.key", f->dir);
	snprintf(f->cert, sizeof f->cert, "%s/cert.pem", f->dir);
	snprintf(f->key, sizeof f->key, "%s/key.pem", f->dir);
	return 0;
}

static int make(const struct files *f, const char *domain, int days, bool renew, struct err *e)
{
	if (mkdir(f->dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "%s", f->dir);
	if (!renew && (access(f->cert, F_OK) == 0 || access(f->key, F_OK) == 0))
		return err_set(e, ERR_CONFLICT, "%s has a certificate already; --renew makes another by the same authority", f->dir);
	if (renew && access(f->ca, F_OK) < 0)
		return err_set(e, ERR_NOT_FOUND, "%s has no authority yet: leave --renew out", f->dir);
	if (access(f->ca, F_OK) < 0 && cert_authority(domain, f->ca, f->ca_key, e) < 0)
		return -1;
	return cert_issue(domain, days, f->ca, f->ca_key, f->cert, f->key, renew, e);
}

/* The domain of the option, or of the configuration, without its port. */
static int take_domain(const struct ctl *ctl, const char *option, char out[256])
{
	const char *text = option != NULL ? option : ctl->conf.domain;

	snprintf(out, 256, "%.*s", (int)strcspn(text, ":"), text);
	if (cert_domain_ok(out))
		return 0;
	ctl_failed(ctl, "%s: no wildcard certificate can be made for it: clients take one for two labels or more, in lower case, such as "
		   "hutch.localhost; set domain in the configuration, or --domain", out);
	return -1;
}

int ctl_tls(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "dir", required_argument, NULL, 'd' }, { "domain", required_argument, NULL, 'n' }, { "days", required_argument, NULL, 'D' },
		{ "renew", no_argument, NULL, 'r' }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	const char *dir = NULL, *name = NULL;
	char domain[256];
	struct files f;
	struct err e;
	bool renew = false;
	long days = DAYS;
	int c, status;

	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (c == 'd')
			dir = optarg;
		else if (c == 'n')
			name = optarg;
		else if (c == 'r')
			renew = true;
		else if (ctl_number(ctl, "days", optarg, 1, CERT_DAYS_MAX, &days) < 0)
			return 2;
	}
	if (optind != argc)
		return ctl_usage(ctl);
	if (((dir == NULL || name == NULL) && ctl_conf(ctl) < 0) || take_domain(ctl, name, domain) < 0 || name_files(ctl, dir, &f) < 0)
		return 1;
	if (make(&f, domain, (int)days, renew, &e) < 0)
		return ctl_failed(ctl, "%s", e.text);
	printf("%s\n%s\n%s\n", f.cert, f.key, f.ca);
	return 0;
}
