/*
 * hutch-reaper - ends leases, finishes half-made rows, and keeps rows and machines in agreement. One per set of records.
 * Here is the main thread: it marks what is due and hands it on (reaper.h).
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/opt.h"
#include "hutch/webhook.h"
#include "hutch/when.h"
#include "reaper.h"

#define WORKERS 8
#define THREADS (WORKERS + 2)
#define STOP_S 2                     /* for calls that are under way at the end */
#define LOOK_AGAIN_US (5 * US_PER_S) /* longest sleep of the main thread */
#define ERROR_PAUSE_US US_PER_S
#define STACK (256 << 10)

/* Mark everything that is due; how long to sleep after it. */
static int64_t mark(struct reaper *r)
{
	struct reap_work work[REAPER_BATCH];
	int64_t next, wait;
	struct err e;
	size_t n;

	do {
		if (reap_mark(&r->d, work, REAPER_BATCH, &n, &next, &e) < 0) {
			log_error("%s", e.text);
			return ERROR_PAUSE_US;
		}
		reaper_push(r, work, n);
	} while (n == REAPER_BATCH);
	if (next < 0)
		return LOOK_AGAIN_US;
	wait = next - domain_now(&r->d);
	return wait < 0 ? 0 : wait < LOOK_AGAIN_US ? wait : LOOK_AGAIN_US;
}

static void drain(struct reaper *r)
{
	char byte;

	while (recv(r->nudges, &byte, 1, MSG_DONTWAIT) >= 0)
		;
}

/* SIGHUP: the key file is read again. False: a signal that ends the program. */
static bool hangup(struct reaper *r, int signals)
{
	struct signalfd_siginfo s;

	if (read(signals, &s, sizeof s) != (ssize_t)sizeof s || s.ssi_signo != SIGHUP)
		return false;
	pthread_mutex_lock(&r->lock);
	r->reload = true;
	pthread_cond_signal(&r->keep);
	pthread_mutex_unlock(&r->lock);
	return true;
}

static void loop(struct reaper *r, int signals)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = signals, .events = POLLIN }, { .fd = r->nudges, .events = POLLIN } };
		int64_t us = mark(r);
		struct timespec t = { .tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000 };

		if (ppoll(p, 2, &t, NULL) < 0 && errno != EINTR) {
			log_error("poll: %s", strerror(errno));
			return;
		}
		if (p[0].revents != 0 && !hangup(r, signals))
			return;
		if (p[1].revents != 0) {
			drain(r);
			hook_wake(r->hooks);
			upstream_wake(r->upstream);
		}
	}
}

static int start_threads(struct reaper *r, pthread_t *thread, int *n, struct err *e)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (*n = 0; *n < THREADS; ++*n) {
		int rc = pthread_create(&thread[*n], &attr, *n == 0 ? reaper_keeper : *n == 1 ? reaper_sampler : reaper_worker, r);

		if (rc != 0) {
			pthread_attr_destroy(&attr);
			return err_set(e, ERR_INTERNAL, "thread: %s", strerror(rc));
		}
	}
	pthread_attr_destroy(&attr);
	return 0;
}

/* A thread hangs in a call to a machine pool or to a receiver of webhooks. What it did not finish is repaired at the next start, as after a kill. */
static void leave(int sig)
{
	(void)sig;
	_exit(0);
}

static void stop_threads(struct reaper *r, pthread_t *thread, int n)
{
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_broadcast(&r->work);
	pthread_cond_broadcast(&r->keep);
	pthread_cond_broadcast(&r->sample);
	pthread_mutex_unlock(&r->lock);
	while (n > 0)
		pthread_join(thread[--n], NULL);
	reaper_drop(r);
}

static int run(struct reaper *r, int signals, struct err *e)
{
	pthread_t thread[THREADS];
	pthread_condattr_t attr;
	int n, status;

	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->work, &attr);
	pthread_cond_init(&r->keep, &attr);
	pthread_cond_init(&r->sample, &attr);
	r->last = &r->first;
	if (webhooks_seal(&r->d, e) < 0 || hook_start(&r->d, &r->hooks, e) < 0)
		return -1;
	if (upstream_start(&r->d, &r->upstream, e) < 0) {
		hook_stop(r->hooks);
		return -1;
	}
	status = start_threads(r, thread, &n, e);
	if (status == 0) {
		log_info("ready");
		loop(r, signals);
		log_info("stopping");
		signal(SIGALRM, leave);
		alarm(STOP_S);
	}
	stop_threads(r, thread, n);
	upstream_stop(r->upstream);
	hook_stop(r->hooks);
	return status;
}

struct options {
	const char *config;
	bool check;
};

static int take_options(int argc, char **argv, struct options *o)
{
	static const struct opt_program program = { .name = "hutch-reaper", .synopsis = "[-c FILE] [-n]", .about = "SIGHUP: read the key file again." };
	const struct opt rows[] = { OPT_CONFIG(&o->config), OPT_CHECK(&o->check) };

	return opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
}

static int open_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int serve(const struct config *conf, bool check_only, struct err *e)
{
	struct reaper r = { .nudges = -1 };
	int lock = -1, signals = open_signals(), status = -1;

	if (signals < 0)
		return err_sys(e, "signalfd");
	if (start_check(conf, e) < 0 || domain_open(&r.d, conf, e) < 0) {
		close(signals);
		return -1;
	}
	if (check_only)
		status = 0;
	else if ((lock = reaper_lock(conf, e)) >= 0 && shared_open(&r.d, e) == 0 && (r.nudges = reaper_bind(conf, e)) >= 0)
		status = run(&r, signals, e);
	if (r.nudges >= 0)
		close(r.nudges);
	if (lock >= 0)
		close(lock);
	domain_close(&r.d);
	close(signals);
	return status;
}

int main(int argc, char **argv)
{
	struct options o = { .config = NULL };
	struct config conf;
	struct err e;
	int status;

	log_init("hutch-reaper");
	status = take_options(argc, argv, &o);
	if (status >= 0)
		return status;
	if (config_read(&conf, o.config, &e) < 0) {
		log_error("%s", e.text);
		return 2;
	}
	status = serve(&conf, o.check, &e);
	if (status < 0)
		log_error("%s", e.text);
	config_release(&conf);
	return status < 0 ? 1 : 0;
}
