#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hutch/when.h"
#include "relay_int.h"

/* A link has two descriptors and, while both ways are blocked, two pipes; the records and the node need some too. */
static int links_by_limit(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return 100;
	if (lim.rlim_cur > 1 << 20)
		lim.rlim_cur = 1 << 20;
	return lim.rlim_cur > 200 ? (int)(lim.rlim_cur - 100) / 4 : 25;
}

static void set_defaults(struct relay_opts *o)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int most = links_by_limit();

	if (o->loops <= 0)
		o->loops = cpus > 4 ? 4 : cpus < 1 ? 1 : (int)cpus;
	if (o->max_links <= 0 || o->max_links > most)
		o->max_links = most;
	if (o->head_timeout_s <= 0)
		o->head_timeout_s = 10;
	if (o->linger_timeout_s <= 0)
		o->linger_timeout_s = 5;
}

static int start_loops(struct relay *r, struct err *e)
{
	for (; r->nloops < r->opts.loops; r->nloops++) {
		struct loop *l = &r->loops[r->nloops];
		int rc;

		if (loop_init(l, r, e) < 0)
			return -1;
		rc = pthread_create(&l->thread, NULL, loop_run, l);
		if (rc != 0) {
			loop_release(l);
			errno = rc;
			return err_sys(e, "thread");
		}
	}
	return 0;
}

int relay_start(struct domain *d, int listen_fd, const struct relay_opts *opts, struct relay **out, struct err *e)
{
	struct relay *r = calloc(1, sizeof *r);
	sigset_t all, before;
	int rc;

	if (r == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	r->domain = d;
	r->opts = *opts;
	r->listen_fd = listen_fd;
	set_defaults(&r->opts);
	r->loops = calloc((size_t)r->opts.loops, sizeof *r->loops);
	if (r->loops == NULL || fcntl(listen_fd, F_SETFL, O_NONBLOCK) < 0) {
		free(r->loops);
		free(r);
		return err_sys(e, "relay");
	}
	/* signals are the program's; blocked here, the SIGPIPE of splice(2) does no harm either */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = start_loops(r, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc < 0) {
		relay_stop(r, 0);
		return -1;
	}
	*out = r;
	return 0;
}

void relay_stop(struct relay *r, int grace_s)
{
	atomic_store(&r->stop_us, boot_us() + grace_s * US_PER_S);
	atomic_store(&r->stop, true);
	for (int i = 0; i < r->nloops; i++)
		loop_wake(&r->loops[i]);
	for (int i = 0; i < r->nloops; i++) {
		pthread_join(r->loops[i].thread, NULL);
		/* the last job may still hold the lock it woke the loop under */
		pthread_mutex_lock(&r->loops[i].done_lock);
		pthread_mutex_unlock(&r->loops[i].done_lock);
		loop_release(&r->loops[i]);
	}
	free(r->loops);
	free(r);
}

int relay_links(const struct relay *r)
{
	return atomic_load(&r->links);
}
