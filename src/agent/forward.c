/*
 * User ports: connections to a listener that the node handed over go to loopback:PORT in the sandbox. When nothing
 * listens there, the agent answers 502 itself, as E2B's proxy does (guest.md 8.1, 8.3). A thread per connection.
 *
 * Whoever asks for a port has it served, so there may be many that were asked for once: of too many the one of the least use is given up.
 */
#include "config.h"

#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "forward.h"
#include "hutch/log.h"
#include "hutch/when.h"

#define DOORS_MAX 128           /* ports forwarded at a time; the node has room for as many */
#define LINKS_MAX 1024          /* connections */

struct door {
	int port, fd;
	int64_t used_us;                /* boot_us() of its last connection */
	bool open;                      /* it led somewhere */
};

struct forward {
	pthread_mutex_t lock;
	struct door doors[DOORS_MAX];
	size_t n;
	int wake_fd;                    /* the set of doors has changed */
	bool running;
	atomic_int links;
	struct agent *agent;
};

struct link {
	struct forward *f;
	int client, port;
};

/* ---- dialling ---- */

static int dial_one(const struct sockaddr *to, socklen_t n)
{
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof error;

	if (fd < 0)
		return -1;
	if (connect(fd, to, n) == 0)
		return fd;
	/* loopback answers at once unless the backlog is full */
	if (errno == EINPROGRESS && poll(&p, 1, 1000) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0)
		return fd;
	close(fd);
	return -1;
}

int dial_loopback(int port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_loopback };
	int fd = dial_one((struct sockaddr *)&v4, sizeof v4);

	return fd >= 0 ? fd : dial_one((struct sockaddr *)&v6, sizeof v6);
}

/* A server that was started a moment ago is waited for: five tries within a second. -1: refused, or the client left. */
static int dial_patiently(int port, int client)
{
	static const int pauses_ms[] = { 100, 200, 300, 400 };
	struct pollfd p = { .fd = client, .events = POLLRDHUP };
	int fd = dial_loopback(port);

	for (size_t i = 0; fd < 0 && i < sizeof pauses_ms / sizeof pauses_ms[0]; i++) {
		if (poll(&p, 1, pauses_ms[i]) > 0)
			return -1;
		fd = dial_loopback(port);
	}
	return fd;
}

/* ---- copying ---- */

/* One direction; what is under way sits in a pipe, so the bytes never come to user space. */
struct way {
	int from, to, pipe[2];
	size_t held;
	bool eof, done;
};

static int way_open(struct way *w, int from, int to)
{
	*w = (struct way){ .from = from, .to = to };
	return pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK);
}

static void way_close(struct way *w)
{
	close(w->pipe[0]);
	close(w->pipe[1]);
}

static int again(void)
{
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* As far as it goes without waiting. -1: broken. */
static int way_move(struct way *w)
{
	ssize_t n;

	if (w->held == 0 && !w->eof) {
		n = splice(w->from, NULL, w->pipe[1], NULL, 65536, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n < 0)
			return again();
		w->held = (size_t)n;
		w->eof = n == 0;
	}
	if (w->held > 0) {
		n = splice(w->pipe[0], NULL, w->to, NULL, w->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		if (n < 0)
			return again();
		w->held -= (size_t)n;
	}
	if (w->eof && !w->done) {
		shutdown(w->to, SHUT_WR);
		w->done = true;
	}
	return 0;
}

static short wants(const struct way *in, const struct way *out)
{
	return (short)((in->held == 0 && !in->eof ? POLLIN : 0) | (out->held > 0 ? POLLOUT : 0));
}

static void copy_both(int client, int server, struct way *up, struct way *down)
{
	while (!up->done || !down->done) {
		struct pollfd p[2] = { { .fd = client, .events = wants(up, down) }, { .fd = server, .events = wants(down, up) } };

		if (p[1].events == 0)
			p[1].fd = -1;           /* its hang-up alone is no news: what it sent is still on the way */
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return;
		if (p[0].revents & (POLLHUP | POLLERR))
			return;                 /* the client is gone: so is its connection to the server */
		if (way_move(up) < 0 || way_move(down) < 0)
			return;
	}
}

static void join(int client, int server)
{
	struct way up, down;

	if (way_open(&up, client, server) < 0)
		return;
	if (way_open(&down, server, client) == 0) {
		copy_both(client, server, &up, &down);
		way_close(&down);
	}
	way_close(&up);
}

/* ---- connections ---- */

/* Under the lock. */
static struct door *find_door(struct forward *f, int port)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->doors[i].port == port)
			return &f->doors[i];
	return NULL;
}

static void note_use(struct forward *f, int port, bool open)
{
	struct door *d;

	pthread_mutex_lock(&f->lock);
	d = find_door(f, port);
	if (d != NULL)
		d->open = open;
	pthread_mutex_unlock(&f->lock);
}

static void *link_run(void *arg)
{
	struct link *l = arg;
	struct agent *a = l->f->agent;
	int server = dial_patiently(l->port, l->client);

	note_use(l->f, l->port, server >= 0);
	if (server >= 0) {
		fcntl(l->client, F_SETFL, O_NONBLOCK);
		join(l->client, server);
		close(server);
	} else {
		char id[SANDBOX_ID_MAX];

		pthread_mutex_lock(&a->lock);
		snprintf(id, sizeof id, "%s", a->sandbox_id);
		pthread_mutex_unlock(&a->lock);
		refuse_client(l->client, id, l->port);
	}
	close(l->client);
	atomic_fetch_sub(&l->f->links, 1);
	free(l);
	return NULL;
}

/* A connection of that port, if it is still served. -1 with errno. */
static int accept_at(struct forward *f, int port)
{
	struct door *d;
	int fd = -1;

	errno = 0;
	pthread_mutex_lock(&f->lock);
	d = find_door(f, port);
	if (d != NULL) {
		d->used_us = boot_us();
		fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC);
	}
	pthread_mutex_unlock(&f->lock);
	return fd;
}

static void accept_one(struct forward *f, int port)
{
	struct link *l = malloc(sizeof *l);
	struct err e;
	int fd = accept_at(f, port);

	if (fd < 0 || l == NULL || atomic_load(&f->links) >= LINKS_MAX)
		goto no;
	*l = (struct link){ .f = f, .client = fd, .port = port };
	atomic_fetch_add(&f->links, 1);
	if (agent_thread(link_run, l, &e) == 0)
		return;
	atomic_fetch_sub(&f->links, 1);
	log_warn("forward: %s", e.text);
no:
	free(l);
	if (fd >= 0)
		close(fd);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
		poll(NULL, 0, 50);      /* the backlog keeps it meanwhile */
}

static void *accept_run(void *arg)
{
	struct forward *f = arg;
	struct pollfd p[DOORS_MAX + 1];
	struct door doors[DOORS_MAX];
	eventfd_t count;

	for (;;) {
		size_t n;

		pthread_mutex_lock(&f->lock);
		n = f->n;
		memcpy(doors, f->doors, n * sizeof *doors);
		pthread_mutex_unlock(&f->lock);
		for (size_t i = 0; i < n; i++)
			p[i] = (struct pollfd){ .fd = doors[i].fd, .events = POLLIN };
		p[n] = (struct pollfd){ .fd = f->wake_fd, .events = POLLIN };
		if (poll(p, n + 1, -1) < 0)
			continue;
		if (p[n].revents != 0) {
			eventfd_read(f->wake_fd, &count);
			continue;               /* the set is another one */
		}
		for (size_t i = 0; i < n; i++)
			if (p[i].revents != 0)
				accept_one(f, doors[i].port);
	}
	return NULL;
}

/* ---- doors ---- */

int forward_init(struct agent *a, struct err *e)
{
	struct forward *f = calloc(1, sizeof *f);

	if (f == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	pthread_mutex_init(&f->lock, NULL);
	f->agent = a;
	f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->wake_fd < 0) {
		free(f);
		return err_sys(e, "eventfd");
	}
	a->forward = f;
	return 0;
}

/* The one of the least use: first those behind which nobody listened, then by their last connection. */
static struct door *least_used(struct forward *f)
{
	struct door *least = f->doors;

	for (struct door *d = f->doors + 1; d < f->doors + f->n; d++)
		if (d->open != least->open ? !d->open : d->used_us < least->used_us)
			least = d;
	return least;
}

/* Under the lock. The thread that accepts looks doors up by their port, and does not wait in accept: a number that it still polls does no harm. */
static void put_door(struct forward *f, int port, int fd, int *closed)
{
	struct door *d = find_door(f, port);

	*closed = 0;
	if (d == NULL && f->n == DOORS_MAX) {
		d = least_used(f);
		*closed = d->port;
	}
	if (d != NULL)
		close(d->fd);
	else
		d = &f->doors[f->n++];
	*d = (struct door){ .port = port, .fd = fd, .used_us = boot_us(), .open = true };
}

int forward_add(struct agent *a, int port, int listen_fd, int *closed, struct err *e)
{
	struct forward *f = a->forward;
	int rc = 0;

	fcntl(listen_fd, F_SETFL, O_NONBLOCK);
	pthread_mutex_lock(&f->lock);
	if (!f->running)
		rc = agent_thread(accept_run, f, e);    /* most sandboxes never need it */
	f->running = rc == 0;
	if (rc == 0)
		put_door(f, port, listen_fd, closed);
	pthread_mutex_unlock(&f->lock);
	if (rc < 0)
		close(listen_fd);
	else
		eventfd_write(f->wake_fd, 1);
	return rc;
}
