/* The pump: reads every process's output, reaps every child, ends what has run too long. */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/when.h"

#define ROUND 16                /* events handled under one hold of the lock */
#define READS 4                 /* of one output in a round */

void pump_arm(struct procs *t, int64_t us)
{
	struct itimerspec when = { .it_value = { .tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000 } };

	if (t->armed_us != 0 && t->armed_us <= us)
		return;
	t->armed_us = us;
	timerfd_settime(t->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- output ---- */

static void share(struct procs *t, struct proc *p, enum channel channel, size_t n)
{
	struct chunk *c;

	if (p->followers == NULL)
		return;
	c = malloc(sizeof *c + n);
	if (c == NULL) {
		log_error("out of memory: %zu bytes of output of pid %d are lost", n, (int)p->pid);
		return;
	}
	atomic_init(&c->refs, 1);
	c->channel = channel;
	c->n = n;
	memcpy(c->data, t->bounce, n);
	for (struct follower *f = p->followers; f != NULL; f = f->next) {
		atomic_fetch_add(&c->refs, 1);
		f->queue[f->n++] = c;
		f->bytes += n;
		proc_wake(t, f);
	}
	chunk_unref(c);
}

/* True when reading has to stop for now. */
static bool hold_if_full(struct procs *t, struct proc *p)
{
	if (!proc_full(p))
		return false;
	p->held = true;
	for (int i = 0; i < 2; i++)
		if (p->out[i].fd >= 0)
			epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, p->out[i].fd, NULL);
	return true;
}

/* One read. 1 read something, 0 nothing there, -1 end (EIO: the last slave of a PTY is closed). */
static int read_once(struct procs *t, struct output *o)
{
	ssize_t n = read(o->fd, t->bounce, o->channel == CH_PTY ? PTY_CHUNK : PIPE_CHUNK);

	if (n > 0) {
		share(t, o->proc, o->channel, (size_t)n);
		return 1;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void output_ready(struct procs *t, struct output *o, uint32_t events)
{
	struct proc *p = o->proc;
	int rc = 1;

	/* closed or held since this round's events were fetched */
	if (o->fd < 0 || p->held)
		return;
	for (int i = 0; i < READS && rc > 0; i++) {
		if (hold_if_full(t, p))
			return;
		rc = read_once(t, o);
		if (!(events & EPOLLHUP) && rc > 0)
			return;                 /* with a hang-up, go on to the end at once */
	}
	if (rc >= 0)
		return;
	output_close(t, o);
	proc_settle(t, p);
}

/* What a killed process had written before a grandchild's copy of the pipe is given up: no more than a pipe holds. */
static void drain(struct procs *t, struct proc *p)
{
	for (int i = 0; i < 2; i++)
		for (int reads = 0; p->out[i].fd >= 0 && reads < READS; reads++)
			if (proc_full(p) || read_once(t, &p->out[i]) <= 0)
				break;
}

/* ---- children ---- */

static void reaped(struct procs *t, pid_t pid, int status)
{
	for (struct proc *p = t->list; p != NULL; p = p->next) {
		if (p->pid != pid || p->reaped)
			continue;
		p->reaped = true;
		p->wait_status = status;
		if (p->signalled)
			drain(t, p);
		proc_settle(t, p);
		return;
	}
	if (pid == t->start_pid) {
		t->start_pid = 0;
		note_start_command(t, status);
	}
	/* else an orphan that PID 1 inherited, or a child that failed before it could be announced */
}

static void reap(struct procs *t)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	while (read(t->signal_fd, &info, sizeof info) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		reaped(t, pid, status);
}

/* ---- time ---- */

static void expire(struct procs *t)
{
	int64_t now = boot_us(), next = 0;
	uint64_t ticks;

	if (read(t->timer_fd, &ticks, sizeof ticks) < 0)
		return;
	t->armed_us = 0;
	for (struct proc *p = t->list, *after; p != NULL; p = after) {
		int64_t due = p->ended ? p->ended_us + KEEP_US : p->deadline_us;

		after = p->next;
		if (due == 0)
			continue;
		if (due > now)
			next = next == 0 || due < next ? due : next;
		else if (p->ended)
			proc_drop(t, p);
		else
			proc_time_out(t, p);
	}
	if (next != 0)
		pump_arm(t, next);
	if (t->list == NULL)
		malloc_trim(0);         /* quiet for a while: what the busy time left behind goes back */
}

static void bury(struct procs *t)
{
	while (t->dead != NULL) {
		struct proc *p = t->dead;

		t->dead = p->next;
		free(p);
	}
}

static void handle(struct procs *t, const struct epoll_event *ev)
{
	if (ev->data.ptr == &t->signal_fd)
		reap(t);
	else if (ev->data.ptr == &t->timer_fd)
		expire(t);
	else
		output_ready(t, ev->data.ptr, ev->events);
}

static void *pump_run(void *arg)
{
	struct procs *t = arg;
	struct epoll_event evs[ROUND];

	for (;;) {
		int n = epoll_wait(t->epoll_fd, evs, ROUND, -1);

		pthread_mutex_lock(&t->lock);
		for (int i = 0; i < n; i++)
			handle(t, &evs[i]);
		/* every event of this round is handled, so none points to the dead; those of the next round cannot */
		bury(t);
		proc_wake_all(t);       /* last, so that who wakes up finds the lock free */
		pthread_mutex_unlock(&t->lock);
	}
	return NULL;
}

static int open_all(struct procs *t, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &chld, NULL);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	t->signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	t->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	ev.data.ptr = &t->signal_fd;
	if (t->epoll_fd < 0 || t->signal_fd < 0 || t->timer_fd < 0 || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->signal_fd, &ev) < 0)
		return err_sys(e, "process table");
	ev.data.ptr = &t->timer_fd;
	if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->timer_fd, &ev) < 0)
		return err_sys(e, "process table");
	return 0;
}

int process_init(struct agent *a, struct err *e)
{
	struct procs *t = calloc(1, sizeof *t);
	pthread_condattr_t attr;

	if (t == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	a->procs = t;
	t->journal = &a->journal;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->ended, &attr);
	pthread_condattr_destroy(&attr);
	if (open_all(t, e) < 0)
		return -1;
	return agent_thread(pump_run, t, e);
}
