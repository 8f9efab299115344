/*
 * One event loop. Every descriptor is watched edge-triggered: an event means "go as far as you can". Room to write is watched for from the
 * first time that it is missing: a peer that reads makes an event of it each time, and a short request never needs one.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/when.h"
#include "relay_int.h"

#define EVENTS 64
#define ACCEPT_PAUSE_US (100 * US_PER_MS)
#define UP_BIT 1                /* in the pointer of an event: it is the upstream's */

void loop_wake(struct loop *l)
{
	uint64_t one = 1;

	if (write(l->wake_fd, &one, sizeof one) < 0)
		log_error("relay: wake: %s", strerror(errno));
}

static int watch(struct loop *l, int op, int fd, struct link *k, bool up, uint32_t further)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET | further,
				  .data.u64 = (uint64_t)(uintptr_t)k | (up ? UP_BIT : 0) };

	return epoll_ctl(l->epoll_fd, op, fd, &ev);
}

int loop_watch(struct loop *l, int fd, struct link *k, bool up)
{
	return watch(l, EPOLL_CTL_ADD, fd, k, up, 0);
}

void loop_watch_room(struct link *k, bool up)
{
	bool *watched = up ? &k->room_up : &k->room_web;

	if (*watched)
		return;
	*watched = true;
	if (watch(k->loop, EPOLL_CTL_MOD, up ? k->up : k->web, k, up, EPOLLOUT) < 0)
		log_error("relay: watch: %s", strerror(errno));
}

void loop_ready(struct loop *l, struct link *k)
{
	if (k->ready)
		return;
	k->ready = true;
	k->ready_next = l->ready;
	l->ready = k;
}

static int watch_own(struct loop *l, int fd, uint32_t events, void *mark)
{
	struct epoll_event ev = { .events = events, .data.ptr = mark };

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

int loop_init(struct loop *l, struct relay *r, struct err *e)
{
	*l = (struct loop){ .relay = r };
	pthread_mutex_init(&l->done_lock, NULL);
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->scratch = malloc(SCRATCH_BYTES);
	if (l->epoll_fd >= 0 && l->wake_fd >= 0 && l->scratch != NULL && watch_own(l, l->wake_fd, EPOLLIN, l) == 0 &&
	    watch_own(l, r->listen_fd, EPOLLIN | EPOLLEXCLUSIVE, r) == 0)
		return 0;
	err_sys(e, "event loop");
	loop_release(l);
	return -1;
}

void loop_release(struct loop *l)
{
	while (l->npipes > 0) {
		l->npipes--;
		close(l->pipes[l->npipes][0]);
		close(l->pipes[l->npipes][1]);
	}
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	free(l->scratch);
	pthread_mutex_destroy(&l->done_lock);
}

/* ---- accepting ---- */

static void admit(struct loop *l, int fd)
{
	struct link *k = link_new(l, fd);

	if (k == NULL)
		close(fd);
	else if (loop_watch(l, fd, k, false) < 0)
		link_drop(k);
	else
		link_go(k);                           /* the head is there already as a rule */
}

/* Connections wait in the backlog meanwhile; the listening socket, which stays readable, must not keep the loop busy. */
static void pause_accept(struct loop *l)
{
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->relay->listen_fd, NULL);
	l->accept_again_us = boot_us() + ACCEPT_PAUSE_US;
}

/* One for each event: asking for the next would as a rule only tell that there is none. */
static void accept_one(struct loop *l)
{
	const struct relay *r = l->relay;
	bool room = atomic_load(&r->links) < r->opts.max_links + SURPLUS;
	int fd = room ? accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;

	if (fd >= 0) {
		admit(l, fd);
	} else if (!room || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)) {
		log_warn("relay: accept: %s", room ? strerror(errno) : "too many connections");
		pause_accept(l);
	}
}

static void listen_again(struct loop *l, int64_t now)
{
	if (l->accept_again_us == 0 || l->accept_again_us > now || l->stopping)
		return;
	l->accept_again_us = watch_own(l, l->relay->listen_fd, EPOLLIN | EPOLLEXCLUSIVE, l->relay) == 0 ? 0 : now + ACCEPT_PAUSE_US;
}

/* ---- rounds ---- */

static void start_stopping(struct loop *l)
{
	struct link *next;

	l->stopping = true;
	if (l->accept_again_us == 0)
		epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->relay->listen_fd, NULL);
	for (struct link *k = l->links[LINK_HEAD].first; k != NULL; k = next) {
		next = k->next;
		if (k->in_len == 0)
			link_drop(k);                 /* asked nothing yet */
	}
}

static void handle(struct loop *l, const struct epoll_event *ev)
{
	uint64_t drain;

	if (ev->data.ptr == l->relay) {
		if (!l->stopping)
			accept_one(l);
	} else if (ev->data.ptr == l) {
		if (read(l->wake_fd, &drain, sizeof drain) < 0 && errno != EAGAIN)
			log_error("relay: wake: %s", strerror(errno));
		jobs_collect(l);
	} else {
		link_event((struct link *)(uintptr_t)(ev->data.u64 & ~(uint64_t)UP_BIT), ev->events, (ev->data.u64 & UP_BIT) != 0);
	}
}

static void run_ready(struct loop *l)
{
	struct link *k = l->ready;

	l->ready = NULL;
	while (k != NULL) {
		struct link *next = k->ready_next;

		k->ready = false;
		link_go(k);
		k = next;
	}
}

static const enum link_state timed[] = { LINK_HEAD, LINK_SKIP, LINK_LINGER };

#define TIMED (sizeof timed / sizeof timed[0])

static void run_timeouts(struct loop *l, int64_t now)
{
	for (size_t i = 0; i < TIMED; i++) {
		struct link *k;

		while ((k = l->links[timed[i]].first) != NULL && k->deadline_us <= now)
			link_timeout(k);
	}
}

static void cut_all(struct loop *l)
{
	static const enum link_state cut[] = { LINK_HEAD, LINK_STREAM, LINK_SKIP, LINK_LINGER };

	for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
		while (l->links[cut[i]].first != NULL)
			link_drop(l->links[cut[i]].first);
}

static void bury(struct loop *l)
{
	struct link *k, *next;

	for (k = l->links[LINK_DEAD].first; k != NULL; k = next) {
		next = k->next;
		if (!k->ready)                        /* else once more, when it is off that list */
			link_free(k);
	}
}

static bool idle(const struct loop *l)
{
	for (int i = 0; i < LINK_STATES; i++)
		if (l->links[i].first != NULL)
			return false;
	return true;
}

static void sooner(int64_t *due, int64_t us)
{
	if (us < *due)
		*due = us;
}

/* Milliseconds until something is due, -1 for never. */
static int until_due(const struct loop *l, int64_t now)
{
	int64_t due = INT64_MAX;

	if (l->ready != NULL || l->links[LINK_DEAD].first != NULL)
		return 0;
	for (size_t i = 0; i < TIMED; i++)
		if (l->links[timed[i]].first != NULL)
			sooner(&due, l->links[timed[i]].first->deadline_us);
	if (l->stopping && atomic_load(&l->relay->stop_us) > now)    /* later only jobs are left, and their end wakes us */
		sooner(&due, atomic_load(&l->relay->stop_us));
	if (l->accept_again_us != 0 && !l->stopping)
		sooner(&due, l->accept_again_us);
	if (due == INT64_MAX)
		return -1;
	return due <= now ? 0 : (int)((due - now + US_PER_MS - 1) / US_PER_MS);
}

void *loop_run(void *arg)
{
	struct loop *l = arg;
	struct epoll_event events[EVENTS];

	while (!l->stopping || !idle(l)) {
		int n = epoll_wait(l->epoll_fd, events, EVENTS, until_due(l, boot_us()));

		for (int i = 0; i < n; i++)
			handle(l, &events[i]);
		run_ready(l);
		run_timeouts(l, boot_us());
		listen_again(l, boot_us());
		if (atomic_load(&l->relay->stop) && !l->stopping)
			start_stopping(l);
		if (l->stopping && boot_us() >= atomic_load(&l->relay->stop_us))
			cut_all(l);
		bury(l);
	}
	return NULL;
}
