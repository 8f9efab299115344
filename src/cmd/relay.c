/* hutch-relay: proxies the data plane for web servers whose back ends are fixed at start (lighttpd, Apache). */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hutch/h1.h"
#include "hutch/log.h"
#include "hutch/opt.h"
#include "hutch/relay.h"

#define REPLACED_GRACE_S (30 * 86400)

struct options {
	const char *config, *socket;
	int grace_s, loops, max_links;
	bool check;
};

static int take_options(int argc, char **argv, struct options *o)
{
	static const struct opt_program program = { .name = "hutch-relay", .synopsis = "[-c FILE] [-s SOCKET] [-g SECONDS] [-t THREADS] [-m LINKS] [-n]" };
	const struct opt rows[] = {
		OPT_CONFIG(&o->config),
		{ .letter = 's', .arg = "SOCKET", .text = &o->socket, .help = "listening socket (default: the one that is standard input, else RUN/relay.sock)" },
		{ .letter = 'g', .arg = "SECONDS", .number = &o->grace_s, .max = 86400, .help = "how long streams may go on after SIGTERM (default 10)" },
		{ .letter = 't', .arg = "THREADS", .number = &o->loops, .min = 1, .max = 64, .help = "event loops (default: one per processor, at most 4)" },
		{ .letter = 'm', .arg = "LINKS", .number = &o->max_links, .min = 1, .max = 1 << 20,
		  .help = "connections served at once (default: what the limit of descriptors allows)" },
		OPT_CHECK(&o->check),
	};

	return opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
}

static int listen_at(const struct config *conf, const char *socket, struct err *e)
{
	struct group *g = getgrnam(conf->socket_group);
	int fd = socket == NULL ? h1_listen_stdin() : -1;
	char path[256];

	if (fd >= 0)
		return fd;
	if (g == NULL)
		return err_set(e, ERR_INVALID, "socket_group: there is no group %s", conf->socket_group);
	snprintf(path, sizeof path, "%s/relay.sock", conf->run_dir);
	return h1_listen_unix(socket != NULL ? socket : path, 0660, (int)g->gr_gid, e);
}

/* Every stream takes two descriptors. */
static void raise_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &lim) < 0)
		log_warn("limit of descriptors stays as it is: %s", strerror(errno));
}

static void ending_signals(sigset_t *ends)
{
	sigemptyset(ends);
	sigaddset(ends, SIGTERM);
	sigaddset(ends, SIGINT);
	sigaddset(ends, SIGUSR1);
}

/* The first signal ends it gracefully, a second one at once. SIGUSR1: another has taken over, so streams may go on for as long as they like. */
static void wait_and_stop(struct relay *r, const struct options *o)
{
	int sig, grace_s;
	sigset_t ends;

	ending_signals(&ends);
	sigwait(&ends, &sig);
	grace_s = sig == SIGUSR1 ? REPLACED_GRACE_S : o->grace_s;
	log_info("ending: %d connections have up to %d s", relay_links(r), grace_s);
	sigdelset(&ends, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
	relay_stop(r, grace_s);
}

static int serve(const struct config *conf, const struct options *o, struct err *e)
{
	struct relay_opts opts = { .loops = o->loops, .max_links = o->max_links };
	struct domain d;
	struct relay *r;
	int fd;

	if (domain_open(&d, conf, e) < 0)
		return -1;
	fd = listen_at(conf, o->socket, e);
	if (fd >= 0 && relay_start(&d, fd, &opts, &r, e) == 0) {
		wait_and_stop(r, o);
		close(fd);
		domain_close(&d);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	domain_close(&d);
	return -1;
}

int main(int argc, char **argv)
{
	struct options o = { .grace_s = 10 };
	struct config conf;
	struct err e;
	sigset_t ends;
	int rc = take_options(argc, argv, &o);

	if (rc >= 0)
		return rc;
	log_init("hutch-relay");
	ending_signals(&ends);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	raise_limit();
	if (config_read(&conf, o.config, &e) < 0) {
		log_error("%s", e.text);
		return 1;
	}
	rc = o.check ? 0 : serve(&conf, &o, &e);
	if (rc < 0)
		log_error("%s", e.text);
	config_release(&conf);
	return rc < 0 ? 1 : 0;
}
