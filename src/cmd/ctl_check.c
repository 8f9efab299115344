/* hutchctl check: does this instance hang together? */
#include "ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct option no_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

static int verdict(const char *what, int status, const struct err *e)
{
	if (status < 0)
		printf("FAIL  %s: %s\n", what, e->text);
	else
		printf("ok    %s\n", what);
	return status < 0 ? 1 : 0;
}

static int check_file(const char *what, const char *path, int mode)
{
	struct err e;
	char text[512];

	snprintf(text, sizeof text, "%s %s", what, path);
	return verdict(text, access(path, mode) < 0 ? err_sys(&e, "not usable") : 0, &e);
}

static int check_secret(const struct config *c)
{
	uint8_t secret[SECRET_LEN];
	struct err e;

	return verdict("secret", secret_read(c->secret_file, secret, &e), &e);
}

/* What each program looks at before it starts. */
static int check_start(const struct config *c)
{
	struct err e;

	return verdict("who may ask, domain, key file, admin token", start_check(c, &e), &e);
}

static void print_problem(void *ctx, const char *text)
{
	(void)ctx;
	printf("      %s\n", text);
}

static int check_records(struct ctl *ctl)
{
	struct err e;
	struct txn *t;
	int problems = domain_open(&ctl->domain, &ctl->conf, &e);

	if (problems < 0)
		return verdict("records", -1, &e);
	ctl->have_domain = true;
	problems = txn_read(ctl->domain.store, &t, &e);
	if (problems == 0) {
		problems = store_check(t, print_problem, NULL, &e);
		txn_abort(t);
	}
	if (problems > 0)
		problems = err_set(&e, ERR_INTERNAL, "%d contradictions, shown above", problems);
	return verdict("records", problems, &e);
}

static int check_node(struct ctl *ctl)
{
	struct pool_machine *machines = NULL;
	struct err e;
	size_t n = 0;
	char text[64];
	int status;

	if (!ctl->have_domain)
		return 0;
	status = pool_list(ctl->domain.pool, &machines, &n, &e);
	free(machines);
	snprintf(text, sizeof text, "node (%zu claimed machines)", n);
	return verdict(status < 0 ? "node" : text, status, &e);
}

int ctl_check(struct ctl *ctl, int argc, char **argv)
{
	int status, failed = 0;

	if (ctl_option(ctl, argc, argv, no_options, &status) == -2)
		return status;
	if (optind != argc)
		return ctl_usage(ctl);
	if (ctl_conf(ctl) < 0)
		return 1;
	config_print(&ctl->conf, stdout);
	putchar('\n');
	failed += check_file("state_dir", ctl->conf.state_dir, R_OK | X_OK);
	failed += check_file("run_dir", ctl->conf.run_dir, R_OK | X_OK);
	failed += check_file("agent_path", ctl->conf.agent_path, X_OK);
	failed += check_file("base_root", ctl->conf.base_root, R_OK | X_OK);
	failed += check_secret(&ctl->conf);
	failed += check_start(&ctl->conf);
	failed += check_records(ctl);
	failed += check_node(ctl);
	return failed > 0 ? 1 : 0;
}
