/* What must hold before a program starts, and what a new instance is made with. */
#include "domain_int.h"

#include <string.h>

#include "hutch/log.h"
#include "hutch/upstream.h"

/* Labels of letters, digits and dashes with dots between, and maybe a port: sandbox hosts are made of it. */
static int check_domain(const char *domain, struct err *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
	size_t n = strspn(domain, letters);
	const char *port = domain + n;

	if (domain[0] == '\0')
		return err_set(e, ERR_INVALID, "domain is empty: it is what the hosts of sandboxes end in");
	if (n == 0 || domain[0] == '.' || domain[n - 1] == '.' ||
	    (*port != '\0' && (*port != ':' || port[1] == '\0' || strspn(port + 1, "0123456789") != strlen(port + 1))))
		return err_set(e, ERR_INVALID, "domain %.100s is no host name with or without a port", domain);
	return 0;
}

static int on_team(void *ctx, const struct team_rec *r, struct err *e)
{
	(void)r;
	(void)e;
	*(bool *)ctx = true;
	return 1;
}

static int check_teams(const struct config *conf, struct err *e)
{
	struct store *store;
	bool any = false;
	struct txn *t;
	int status;

	if (store_open(conf->db_dir, conf->db_size_mb, &store, e) < 0)
		return -1;
	status = txn_read(store, &t, e);
	if (status == 0) {
		status = store_walk_teams(t, on_team, &any, e);
		txn_abort(t);
	}
	store_close(store);
	if (status == 0 && !any)
		return err_set(e, ERR_INVALID, "nobody could use this instance: there is no team; make one with `hutchctl team NAME`, "
			       "set key_file, or doors = true");
	return status;
}

int start_check(const struct config *conf, struct err *e)
{
	uint8_t secret[SECRET_LEN], hash[32];
	int status;

	if (check_domain(conf->domain, e) < 0 || secret_read(conf->secret_file, secret, e) < 0)
		return -1;
	explicit_bzero(secret, sizeof secret);
	if (name_check(conf->default_team, e) < 0)
		return err_wrap(e, "default_team");
	if (conf->admin_token_file[0] != '\0' && admin_token_read(conf->admin_token_file, hash, e) < 0)
		return -1;
	if (conf->key_file[0] != '\0' && key_file_check(conf->key_file, e) < 0)
		return -1;
	if (upstream_check(conf, e) < 0)
		return -1;
	status = conf->key_file[0] == '\0' && !conf->allow_anonymous && !conf->doors ? check_teams(conf, e) : 0;
	if (status == 0 && conf->allow_anonymous)
		log_warn("allow_anonymous is set: ANYONE who reaches this server starts sandboxes and sees those of team %s. "
			 "For development only", conf->default_team);
	return status;
}

int start_init(struct domain *d, struct err *e)
{
	int added, ended;

	if (d->conf->key_file[0] == '\0')
		return 0;
	if (key_file_import(d, d->conf->key_file, true, &added, &ended, e) < 0)
		return -1;
	if (added + ended > 0)
		log_info("key file: %d keys are new, %d ended", added, ended);
	return 0;
}
