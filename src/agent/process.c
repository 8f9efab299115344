/* The table of processes. */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hutch/when.h"

#define AWAIT_S 2

/* ---- rows ---- */

struct proc *proc_add(struct procs *t)
{
	struct proc *p;

	if (t->live >= PROCS_MAX || (p = calloc(1, sizeof *p)) == NULL)
		return NULL;
	p->refs = 2;
	p->listed = true;
	p->in = -1;
	for (int i = 0; i < 2; i++)
		p->out[i] = (struct output){ .proc = p, .fd = -1 };
	p->next = t->list;
	t->list = p;
	t->live++;
	return p;
}

void proc_unref(struct procs *t, struct proc *p)
{
	if (--p->refs > 0)
		return;
	free(p->config);
	free(p->tag);
	p->config = p->tag = NULL;
	p->next = t->dead;              /* an event of the pump's round may still point here */
	t->dead = p;
}

void proc_drop(struct procs *t, struct proc *p)
{
	struct proc **at = &t->list;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->listed = false;
	if (p->ended)
		t->kept--;
	else
		t->live--;
	proc_unref(t, p);
}

void proc_forget(struct procs *t, struct proc *p)
{
	proc_drop(t, p);
	proc_unref(t, p);
}

static bool same_name(const struct proc *a, const struct proc *b)
{
	return a->pid == b->pid || (a->tag != NULL && b->tag != NULL && strcmp(a->tag, b->tag) == 0);
}

static void evict_namesakes(struct procs *t, const struct proc *p)
{
	for (struct proc *q = t->list, *next; q != NULL; q = next) {
		next = q->next;
		if (q != p && q->ended && same_name(p, q))
			proc_drop(t, q);
	}
}

static void watch_output(struct procs *t, struct output *o)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = o };

	if (o->fd >= 0)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, o->fd, &ev);
}

void proc_started(struct procs *t, struct proc *p, struct follower *f, int64_t deadline_us)
{
	evict_namesakes(t, p);
	p->started = true;
	p->deadline_us = deadline_us;
	proc_follow(p, f);
	for (int i = 0; i < 2; i++)
		watch_output(t, &p->out[i]);
	if (p->deadline_us != 0)
		pump_arm(t, p->deadline_us);
}

void output_close(struct procs *t, struct output *o)
{
	if (o->fd < 0)
		return;
	epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, o->fd, NULL);     /* first: a copy in a child being born would keep it in the set */
	close(o->fd);
	o->fd = -1;
}

void proc_close_in(struct proc *p)
{
	p->in_closed = true;
	if (p->in_busy || p->in < 0)
		return;
	close(p->in);
	p->in = -1;
}

void proc_wake(struct procs *t, struct follower *f)
{
	if (f->wake_due)
		return;
	f->wake_due = true;
	f->wake_next = t->wake;
	t->wake = f;
}

void proc_wake_all(struct procs *t)
{
	for (struct follower *f = t->wake; f != NULL; f = f->wake_next) {
		f->wake_due = false;
		eventfd_write(f->wake_fd, 1);
	}
	t->wake = NULL;
}

static void keep_few(struct procs *t)
{
	struct proc *oldest = NULL;

	if (t->kept <= KEPT_MAX)
		return;
	for (struct proc *p = t->list; p != NULL; p = p->next)
		if (p->ended && (oldest == NULL || p->ended_us < oldest->ended_us))
			oldest = p;
	if (oldest != NULL)
		proc_drop(t, oldest);
}

void proc_settle(struct procs *t, struct proc *p)
{
	if (p->ended || !p->reaped || !p->started)
		return;
	if (!p->signalled && (p->out[0].fd >= 0 || p->out[1].fd >= 0))
		return;
	for (int i = 0; i < 2; i++)
		output_close(t, &p->out[i]);
	p->ended = true;
	p->ended_us = boot_us();
	t->live--;
	t->kept++;
	proc_close_in(p);
	free(p->config);
	p->config = NULL;
	for (struct follower *f = p->followers; f != NULL; f = f->next)
		proc_wake(t, f);
	note_ended(t, p);
	pthread_cond_broadcast(&t->ended);
	pump_arm(t, p->ended_us + KEEP_US);
	keep_few(t);
}

/* ---- selectors ---- */

static struct proc *find(struct procs *t, bool by_pid, uint32_t pid, const char *tag, bool ended_too)
{
	struct proc *kept = NULL;

	for (struct proc *p = t->list; p != NULL; p = p->next) {
		if (!p->started || (by_pid ? (uint32_t)p->pid != pid : p->tag == NULL || strcmp(p->tag, tag) != 0))
			continue;
		if (!p->ended)
			return p;
		if (ended_too && kept == NULL)
			kept = p;
	}
	return kept;
}

struct proc *proc_select(struct procs *t, json_object *request, bool ended_too, struct err *e)
{
	json_object *sel = NULL;
	const char *tag = NULL;
	uint32_t pid = 0;
	struct proc *p;
	int by_pid;

	if (json_get_obj(request, "process", &sel, e) < 0)
		return NULL;
	by_pid = sel != NULL ? rpc_get_u32(sel, "pid", &pid, e) : 0;
	if (by_pid < 0 || (sel != NULL && json_get_str(sel, "tag", TAG_MAX, &tag, e) < 0))
		return NULL;
	if (!by_pid && tag == NULL) {
		rpc_fail(e, ERR_INVALID, "unimplemented", "process selector with neither pid nor tag");
		return NULL;
	}
	p = find(t, by_pid, pid, tag, ended_too);
	if (p == NULL && by_pid)
		err_set(e, ERR_NOT_FOUND, "process with pid %u not found", pid);
	else if (p == NULL)
		err_set(e, ERR_NOT_FOUND, "process with tag %.400s not found", tag);
	else
		p->refs++;
	return p;
}

/* ---- followers ---- */

void proc_follow(struct proc *p, struct follower *f)
{
	f->next = p->followers;
	p->followers = f;
}

bool proc_full(const struct proc *p)
{
	for (const struct follower *f = p->followers; f != NULL; f = f->next)
		if (f->n == QUEUE_MAX || f->bytes >= QUEUE_BYTES)
			return true;
	return false;
}

static void release_hold(struct procs *t, struct proc *p)
{
	if (!p->held || proc_full(p))
		return;
	p->held = false;
	for (int i = 0; i < 2; i++)
		watch_output(t, &p->out[i]);
}

void proc_unfollow(struct procs *t, struct proc *p, struct follower *f)
{
	struct follower **at = &p->followers;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	for (size_t i = 0; i < f->n; i++)
		chunk_unref(f->queue[i]);
	f->n = f->bytes = 0;
	release_hold(t, p);
}

size_t proc_take(struct procs *t, struct proc *p, struct follower *f, struct chunk **out)
{
	size_t n = f->n;

	memcpy(out, f->queue, n * sizeof *out);
	f->n = f->bytes = 0;
	release_hold(t, p);
	return n;
}

void chunk_unref(struct chunk *c)
{
	if (atomic_fetch_sub(&c->refs, 1) == 1)
		free(c);
}

/* ---- ending ---- */

int proc_signal(struct procs *t, struct proc *p, int sig, struct err *e)
{
	if (!p->reaped && kill(p->pid, sig) < 0)
		return err_sys(e, "signal to pid %d", (int)p->pid);
	p->signalled = true;
	proc_settle(t, p);              /* it may be gone already, with a grandchild holding its output */
	proc_wake_all(t);
	return 0;
}

void proc_await_end(struct procs *t, struct proc *p)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += AWAIT_S;
	while (!p->ended && pthread_cond_timedwait(&t->ended, &t->lock, &until) == 0)
		;
}

void proc_time_out(struct procs *t, struct proc *p)
{
	struct err ignored;

	if (!p->started || p->ended || p->timed_out)
		return;
	p->timed_out = true;
	p->deadline_us = 0;
	proc_signal(t, p, SIGKILL, &ignored);
}
