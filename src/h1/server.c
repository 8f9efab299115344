#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conn.h"
#include "hutch/log.h"
#include "hutch/sanitize.h"
#include "hutch/when.h"

#define STACK_DEFAULT (128 * 1024)
#define SURPLUS 16              /* connections beyond max_connections that get their refusal by a thread of their own */
#define STACK_FACTOR (SANITIZED ? 8 : 1)

static void server_unref(struct h1_server *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	close(s->stop_fd);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- one connection ---- */

/* Wait for bytes until `until`. 1 readable, 0 time is up, -1 the server stops (only asked when idle). */
static int wait_readable(struct conn *c, int64_t until, bool idle)
{
	struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN }, { .fd = c->server->stop_fd, .events = POLLIN } };

	for (;;) {
		int64_t left = until - boot_us();
		int rc;

		if (left <= 0)
			return 0;
		rc = poll(p, idle ? 2 : 1, (int)((left + US_PER_MS - 1) / US_PER_MS));
		if (rc < 0 && errno != EINTR)
			return -1;
		if (rc > 0 && p[0].revents != 0)
			return 1;
		if (rc > 0)
			return -1;
	}
}

static int grow_in(struct conn *c)
{
	size_t cap = c->in_cap == 0 ? CONN_HEAD_FIRST : c->in_cap * 2;
	char *p;

	if (c->in_len < c->in_cap)
		return 0;
	p = realloc(c->in, cap);
	if (p == NULL)
		return -1;
	c->in = p;
	c->in_cap = cap;
	return 0;
}

/* Keep what the client sent beyond the last request; an idle connection holds no buffer. */
static void carry_rest(struct conn *c)
{
	if (c->rest_n != 0) {
		memmove(c->in, c->rest, c->rest_n);
	} else {
		free(c->in);
		c->in = NULL;
		c->in_cap = 0;
	}
	c->in_len = c->rest_n;
	c->rest_n = 0;
	c->reply = REPLY_NONE;
	c->body = BODY_DONE;
	c->head_only = c->continue_due = false;
}

/* Receive some of the head. 1 something new to parse, 0 not yet, -1 the connection ends here (answered if need be). */
static int more_head(struct conn *c, int64_t until)
{
	ssize_t got;
	int rc = c->eager ? 1 : wait_readable(c, until, c->in_len == 0);

	c->eager = false;
	if (rc == 0 && c->in_len != 0)
		conn_error(c, 408, "request head did not arrive in time");
	if (rc <= 0 || grow_in(c) < 0)
		return -1;
	got = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return -1;
	c->in_len += (size_t)got;
	/* parse at line ends only: a client that sends byte by byte costs no more than 130 looks */
	return memchr(c->in + c->in_len - got, '\n', (size_t)got) != NULL || c->in_len >= H1_HEAD_MAX;
}

static void start_request(struct conn *c)
{
	c->head_only = h1_span_is(c->head.method, "HEAD");
	c->chunk_reply = false;
	c->close_after = false;
	c->req.common = NULL;
	conn_body_start(c);
}

static int refuse_head(struct conn *c, const struct err *e)
{
	return conn_error(c, e->kind == ERR_TOO_LARGE ? 431 : 400, e->text), -1;
}

/* Only once the head was read: a close with the request unread would be a reset, and a proxy would not see the answer. */
static int refuse_surplus(struct conn *c)
{
	start_request(c);
	return conn_error(c, 503, "too many connections"), -1;
}

/* Get the next request's head. 0, or -1 when the connection is over. */
static int read_head(struct conn *c)
{
	const struct h1_server_opts *o = &c->server->opts;
	int64_t until = boot_us() + (c->surplus ? o->head_timeout_s : o->idle_timeout_s) * US_PER_S;
	bool begun = false;
	int fresh;

	carry_rest(c);
	for (fresh = c->in_len != 0; fresh >= 0; fresh = more_head(c, until)) {
		struct err e;
		ssize_t n = fresh > 0 ? h1_parse_request(c->in, c->in_len, &c->head, &e) : 0;

		if (n < 0)
			return refuse_head(c, &e);
		if (n > 0) {
			c->rest = c->in + n;
			c->rest_n = c->in_len - (size_t)n;
			return c->surplus ? refuse_surplus(c) : 0;
		}
		if (!begun && c->in_len != 0) {
			until = boot_us() + c->server->opts.head_timeout_s * US_PER_S;
			begun = true;
		}
	}
	return -1;
}

/* Handle one request. True when another may follow. */
static bool serve_one(struct conn *c)
{
	start_request(c);
	c->server->handler(c->server->ctx, &c->req);
	c->req.common = NULL;                         /* it lived as long as the handler */
	if (c->reply == REPLY_NONE) {
		log_error("h1: no reply to %.*s %.*s", (int)c->head.method.n, c->head.method.p, (int)c->head.path.n, c->head.path.p);
		h1_reply_error(&c->req, 500, "internal error");
	}
	if (c->reply == REPLY_STREAM)
		h1_abort(&c->req);                    /* a final chunk would claim that the reply is whole */
	if (c->reply != REPLY_DONE)
		return false;
	conn_skip(c);
	if (c->body == BODY_DONE && !c->close_after)
		return true;
	if (c->body != BODY_DONE)
		conn_linger(c);
	return false;
}

static void conn_free(struct conn *c)
{
	struct h1_server *s = c->server;

	close(c->fd);
	free(c->in);
	free(c);
	atomic_fetch_sub(&s->connections, 1);
	server_unref(s);
}

static void serve_conn(struct conn *c)
{
	while (read_head(c) == 0)
		if (!serve_one(c))
			goto out;
	if (c->reply == REPLY_DONE && c->close_after)
		conn_linger(c);                       /* after 400, 408, 431, 503 */
out:
	conn_free(c);
}

/* ---- spare threads: one more than there is work for, so that some work goes on when no more threads can be made ---- */

/* To a thread that waits, if there is one. *more: none would be left. */
static bool give(struct h1_server *s, struct conn *c, bool *more)
{
	bool ok;

	pthread_mutex_lock(&s->lock);
	ok = s->waiting > s->promised;
	if (ok) {
		c->next = s->given;
		s->given = c;
		s->promised++;
		pthread_cond_signal(&s->work);
	}
	*more = s->waiting == s->promised && s->opts.spare_threads > 0;
	pthread_mutex_unlock(&s->lock);
	return ok;
}

/* For a thread that counts as waiting already. NULL: the server stops. */
static struct conn *take(struct h1_server *s)
{
	struct conn *c;

	pthread_mutex_lock(&s->lock);
	while (s->given == NULL && !s->stopped)
		pthread_cond_wait(&s->work, &s->lock);
	c = s->given;
	if (c != NULL) {
		s->given = c->next;
		s->promised--;
	}
	s->waiting--;
	pthread_mutex_unlock(&s->lock);
	return c;
}

/* Enter the ranks of the waiting, unless they are enough. */
static bool stay(struct h1_server *s)
{
	bool ok;

	pthread_mutex_lock(&s->lock);
	ok = s->waiting - s->promised < s->opts.spare_threads && !s->stopped;
	s->waiting += ok;
	pthread_mutex_unlock(&s->lock);
	return ok;
}

static void *spare_run(void *arg)
{
	struct h1_server *s = arg;
	struct conn *c;

	do {
		c = take(s);
		if (c != NULL)
			serve_conn(c);
	} while (c != NULL && stay(s));
	server_unref(s);
	return NULL;
}

static void *conn_run(void *arg)
{
	struct conn *c = arg;
	struct h1_server *s = c->server;

	atomic_fetch_add(&s->refs, 1);
	serve_conn(c);
	if (stay(s))
		return spare_run(s);
	server_unref(s);
	return NULL;
}

static void add_spare(struct h1_server *s, const pthread_attr_t *attr)
{
	pthread_t t;

	if (!stay(s))
		return;
	atomic_fetch_add(&s->refs, 1);
	if (pthread_create(&t, attr, spare_run, s) == 0)
		return;
	atomic_fetch_sub(&s->refs, 1);
	pthread_mutex_lock(&s->lock);
	s->waiting--;
	pthread_mutex_unlock(&s->lock);
}

static void set_socket(const struct h1_server *s, int fd)
{
	struct timeval in = { .tv_sec = s->opts.body_timeout_s }, out = { .tv_sec = s->opts.send_timeout_s };
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &in, sizeof in);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &out, sizeof out);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);     /* fails on unix sockets, which never wait */
}

/* ---- accepting ---- */

/* A last resort: it holds up the thread that accepts, so no longer than a moment. */
static void read_request(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char scrap[4096];

	for (int i = 0; i < 16 && poll(&p, 1, i == 0 ? 20 : 0) == 1; i++)
		if (recv(fd, scrap, sizeof scrap, MSG_DONTWAIT) < (ssize_t)sizeof scrap)
			return;
}

static void refuse(int fd)
{
	static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 45\r\n"
		"Connection: close\r\n\r\n{\"code\":503,\"message\":\"too many connections\"}";

	read_request(fd);
	if (send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		shutdown(fd, SHUT_WR);
	close(fd);
}

/* Not a whole memset: head and frame are 5 KiB that an idle connection need not touch. */
static void conn_init(struct conn *c, struct h1_server *s, int fd)
{
	memset(c, 0, offsetof(struct conn, head));
	c->rest_n = 0;
	c->close_after = false;
	c->eager = true;
	c->surplus = atomic_load(&s->connections) >= s->opts.max_connections;
	c->head.minor = 1;
	c->head.keep_alive = false;
	c->server = s;
	c->fd = fd;
	c->req = (struct h1_req){ .head = &c->head, .fd = fd, .conn = c };
}

static void accepted(struct h1_server *s, const pthread_attr_t *attr, int fd)
{
	struct conn *c;
	pthread_t t;
	bool more;

	if (atomic_load(&s->connections) >= s->opts.max_connections + SURPLUS || (c = malloc(sizeof *c)) == NULL) {
		refuse(fd);
		return;
	}
	conn_init(c, s, fd);
	set_socket(s, fd);
	atomic_fetch_add(&s->connections, 1);
	atomic_fetch_add(&s->refs, 1);
	if (!give(s, c, &more) && pthread_create(&t, attr, conn_run, c) != 0) {
		c->fd = dup(fd);
		refuse(fd);
		conn_free(c);
	} else if (more) {
		add_spare(s, attr);
	}
}

/* Out of descriptors or memory: connections wait in the backlog meanwhile. */
static void back_off(const struct h1_server *s)
{
	struct pollfd p = { .fd = s->stop_fd, .events = POLLIN };

	log_warn("h1: accept: %s", strerror(errno));
	poll(&p, 1, 100);
}

static void *accept_run(void *arg)
{
	struct h1_server *s = arg;
	struct pollfd p[2] = { { .fd = s->listen_fd, .events = POLLIN }, { .fd = s->stop_fd, .events = POLLIN } };
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, s->opts.stack_size * STACK_FACTOR);
	while (poll(p, 2, -1) >= 0 || errno == EINTR) {
		int fd;

		if (p[1].revents != 0)
			break;
		fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			accepted(s, &attr, fd);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			back_off(s);
	}
	pthread_attr_destroy(&attr);
	return NULL;
}

static void set_defaults(struct h1_server_opts *o)
{
	if (o->max_connections <= 0)
		o->max_connections = 256;
	if (o->idle_timeout_s <= 0)
		o->idle_timeout_s = 75;
	if (o->head_timeout_s <= 0)
		o->head_timeout_s = 15;
	if (o->body_timeout_s <= 0)
		o->body_timeout_s = 30;
	if (o->send_timeout_s <= 0)
		o->send_timeout_s = 600;
	if (o->stack_size == 0)
		o->stack_size = STACK_DEFAULT;
}

int h1_server_start(int listen_fd, const struct h1_server_opts *opts, h1_handler *handler, void *ctx,
		    struct h1_server **out, struct err *e)
{
	struct h1_server *s = calloc(1, sizeof *s);
	sigset_t all, before;
	int rc;

	if (s == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	s->opts = *opts;
	set_defaults(&s->opts);
	s->handler = handler;
	s->ctx = ctx;
	s->listen_fd = listen_fd;
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->stop_fd < 0) {
		free(s);
		return err_sys(e, "eventfd");
	}
	/* signals are the program's; blocked here, SIGPIPE of sendfile(2) does no harm either */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&s->thread, NULL, accept_run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0) {
		server_unref(s);
		errno = rc;
		return err_sys(e, "thread");
	}
	*out = s;
	return 0;
}

void h1_server_stop(struct h1_server *s)
{
	uint64_t one = 1;

	atomic_store(&s->stopping, true);
	if (write(s->stop_fd, &one, sizeof one) < 0)
		log_error("h1: stop: %s", strerror(errno));
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&s->lock);
	s->stopped = true;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	server_unref(s);
}
