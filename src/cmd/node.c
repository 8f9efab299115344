/* hutch-node: daemon of the local pool (hutch-node(8)). */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "hutch/conf.h"
#include "hutch/log.h"
#include "hutch/opt.h"
#include "node/node.h"
#include "node/spawn.h"

struct options {
	const char *config;
	bool check, purge;
};

static int take_options(int argc, char **argv, struct options *o)
{
	static const struct opt_program program = { .name = "hutch-node", .synopsis = "[-c FILE] [-n | --purge]" };
	const struct opt rows[] = {
		OPT_CONFIG(&o->config),
		OPT_CHECK(&o->check),
		{ .name = "purge", .flag = &o->purge, .help = "remove all sandboxes of state_dir and what belongs to them, and end" },
	};

	return opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
}

/* Signals to wait for are blocked in all threads, so that sigwait gets them. */
static void serve(struct node *n)
{
	struct err e;
	sigset_t ends;
	int sig = 0;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGUSR1);           /* another one takes over */
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (node_start(n, &e) < 0) {
		log_error("%s", e.text);
		node_close(n);
		exit(1);
	}
	log_info("ready on %s", n->conf->node_socket);
	while (sigwait(&ends, &sig) != 0)
		continue;
	log_info("%s: ending, sandboxes live on", strsignal(sig));
	node_stop(n);
}

static int run(const struct options *o, const struct config *conf)
{
	static struct node n;
	struct err e;
	int status;

	status = node_open(&n, conf, &e);
	if (status == 0 && o->purge)
		status = node_purge(&n, &e);
	if (status == 0 && !o->purge)
		serve(&n);
	if (status < 0)
		log_error("%s", e.text);
	node_close(&n);
	return status < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct options o = { NULL, false, false };
	struct config conf;
	struct err e;
	gid_t gid;
	int status;

	if (argc == 6 && strcmp(argv[1], "--spawner") == 0)
		return spawner_main(argv + 2);
	status = take_options(argc, argv, &o);
	if (status >= 0)
		return status;
	log_init("hutch-node");
	if (config_read(&conf, o.config, &e) < 0) {
		log_error("%s", e.text);
		return 1;
	}
	if (o.check) {
		status = node_check(&conf, &gid, &e) < 0;
		if (status != 0)
			log_error("%s", e.text);
	} else {
		status = run(&o, &conf);
	}
	config_release(&conf);
	return status;
}
