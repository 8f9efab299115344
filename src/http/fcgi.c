/*
 * FastCGI: threads that each accept, serve one request and close the connection.
 *
 * A kept connection would occupy its thread while idle, so none is kept, whatever the web server asks for. Accept is
 * not serialized: the kernel wakes one thread per connection.
 *
 * SIGTERM: requests in hand are finished. Threads waiting in accept are woken by SIGUSR2. Its handler restarts system calls, so
 * that it breaks no request; an accept is not restarted because the listening socket has a receive timeout (signal(7)).
 */
#include "config.h"

#include "front.h"

#include <errno.h>
#include <fcgiapp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "hutch/log.h"

#define STACK_SIZE (256U << 10)
#define IO_TIMEOUT_S 10              /* of one read of a request or one write of a long reply */
#define LONG_REPLY 8000              /* what libfcgi gathers before it writes */
#define RECORD_MAX 65528             /* content of one record: a multiple of 8, so that none needs padding */
#define RECORD_HEAD 8
#define RECORD_STDOUT 6              /* FastCGI 1.0, 3.3 */

struct crew {
	struct front *front;
	atomic_bool stop;
};

struct worker {
	pthread_t thread;
	struct crew *crew;
	atomic_bool done;
	FCGX_Request req;
	struct call c;
	struct buf head;
	char path[URI_MAX];
};

static const char *fcgi_header(const struct call *c, const char *cgi_name)
{
	const struct worker *w = c->front;

	return FCGX_GetParam(cgi_name, w->req.envp);
}

static void set_timeout(int fd, int option, time_t seconds)
{
	struct timeval t = { .tv_sec = seconds };

	if (setsockopt(fd, SOL_SOCKET, option, &t, sizeof t) < 0)
		log_warn("no timeout on descriptor %d", fd);
}

static ssize_t fcgi_body(struct call *c, void *p, size_t n)
{
	struct worker *w = c->front;
	int got;

	got = FCGX_GetStr(p, n > INT32_MAX ? INT32_MAX : (int)n, w->req.in);
	return got < (int)n && FCGX_GetError(w->req.in) != 0 ? -1 : got;
}

/* All of it, or -1: the web server went away, or takes nothing for too long. */
static int write_parts(int fd, struct iovec *v, int n)
{
	while (n > 0) {
		ssize_t done = writev(fd, v, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -1;
		while (n > 0 && (size_t)done >= v->iov_len) {
			done -= (ssize_t)v->iov_len;
			v++;
			n--;
		}
		if (n > 0) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= (size_t)done;
		}
	}
	return 0;
}

/* The next n bytes of head and body as one record. */
static int write_record(struct worker *w, struct iovec part[2], size_t n)
{
	const int id = w->req.requestId;
	uint8_t head[RECORD_HEAD] = { 1, RECORD_STDOUT, (uint8_t)(id >> 8), (uint8_t)id, (uint8_t)(n >> 8), (uint8_t)n, 0, 0 };
	struct iovec v[3] = { { head, sizeof head }, { part[0].iov_base, part[0].iov_len }, { part[1].iov_base, part[1].iov_len } };

	if (v[1].iov_len > n)
		v[1].iov_len = n;
	if (v[2].iov_len > n - v[1].iov_len)
		v[2].iov_len = n - v[1].iov_len;
	for (int i = 0; i < 2; i++) {
		part[i].iov_base = (char *)part[i].iov_base + v[i + 1].iov_len;
		part[i].iov_len -= v[i + 1].iov_len;
	}
	return write_parts(w->req.ipcFd, v, 3);
}

/* libfcgi would write a long reply in pieces of its buffer, and wake the web server for each. Its own stream has nothing in it by now, so
 * records written past it stand before its end of the stream. */
static void reply_long(struct worker *w)
{
	struct iovec part[2] = { { w->head.p, w->head.len }, { w->c.out.p, w->c.out.len } };
	size_t left = part[0].iov_len + part[1].iov_len;

	set_timeout(w->req.ipcFd, SO_SNDTIMEO, IO_TIMEOUT_S);
	while (left > 0) {
		size_t n = left < RECORD_MAX ? left : RECORD_MAX;

		if (write_record(w, part, n) < 0)
			return;
		left -= n;
	}
}

static void reply(struct worker *w)
{
	const struct call *c = &w->c;

	front_head(c, &w->head);
	if (front_has_body(c) && w->head.len + c->out.len > LONG_REPLY) {
		reply_long(w);
		return;
	}
	FCGX_PutStr(buf_str(&w->head), (int)w->head.len, w->req.out);
	if (front_has_body(c))
		FCGX_PutStr(buf_str(&c->out), (int)c->out.len, w->req.out);
}

/* Is all that the client was to send here? What has neither length nor encoding has no body (RFC 9112, 6.3). */
static bool body_is_read(const struct worker *w)
{
	const char *length = fcgi_header(&w->c, "CONTENT_LENGTH");

	if (fcgi_header(&w->c, "HTTP_TRANSFER_ENCODING") != NULL)
		return false;
	return w->c.body.len == (length != NULL ? strtoul(length, NULL, 10) : 0);
}

/* libfcgi ends its side, then holds the thread until the web server has closed too: bytes that nobody read would reset the connection
 * under the reply. Where the stream is read to its end there are none, and "detached" has libfcgi close at once: three system calls and
 * a wait for another process less. */
static void close_at_once(struct worker *w)
{
	if (body_is_read(w) && FCGX_GetChar(w->req.in) == EOF && FCGX_GetError(w->req.in) == 0)
		FCGX_Detach(&w->req);
}

/*
 * A connection, with the waking signal let in; -1 when it was the signal, a timeout or an error.
 *
 * It is not left to libfcgi, which polls what it has accepted: a signal in that poll is a client that went away to it, and once it is to
 * end, too, it closes the number of that descriptor again and again, whosever it is by then, and never returns.
 */
static int accept_connection(struct worker *w, const sigset_t *wake)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t n = sizeof from;
	int fd = -1, why = EINTR, on = 1;

	pthread_sigmask(SIG_UNBLOCK, wake, NULL);
	if (!atomic_load(&w->crew->stop)) {
		fd = accept4(0, (struct sockaddr *)&from, &n, SOCK_CLOEXEC);
		why = errno;
	}
	pthread_sigmask(SIG_BLOCK, wake, NULL);
	if (fd >= 0 && from.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (fd < 0 && why != EINTR && why != EAGAIN && why != ECONNABORTED) {
		log_error("cannot accept a FastCGI connection: %s", strerror(why));
		nanosleep(&pause, NULL);     /* out of descriptors: let others finish */
	}
	return fd;
}

/* A request, read up to its body; false when there is none. */
static bool accept_request(struct worker *w, const sigset_t *wake)
{
	int fd = accept_connection(w, wake);

	if (fd < 0)
		return false;
	set_timeout(fd, SO_RCVTIMEO, IO_TIMEOUT_S);
	w->req.ipcFd = fd;
	w->req.keepConnection = 1;           /* as if it had been kept from an earlier request: else libfcgi would close it first */
	return FCGX_Accept_r(&w->req) == 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	sigset_t wake;

	sigemptyset(&wake);
	sigaddset(&wake, SIGUSR2);
	while (!atomic_load(&w->crew->stop)) {
		if (!accept_request(w, &wake))
			continue;
		front_serve(w->crew->front, &w->c, w->path, fcgi_body);
		reply(w);
		close_at_once(w);
		FCGX_Finish_r(&w->req);
		FCGX_Free(&w->req, 1);
	}
	atomic_store(&w->done, true);
	return NULL;
}

static void on_wake(int sig)
{
	(void)sig;
}

/* Signals that end the program wait for sigwait; the waking one for accept. Blocked before libfcgi starts: its own handler would swallow one that
 * comes just then, and the process would neither serve nor end. */
static void block_signals(sigset_t *ends)
{
	sigset_t blocked;

	sigemptyset(ends);
	sigaddset(ends, SIGTERM);
	sigaddset(ends, SIGINT);
	sigaddset(ends, SIGUSR1);
	blocked = *ends;
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

/* After libfcgi, which has handlers of its own. */
static void set_handlers(void)
{
	struct sigaction wake = { .sa_handler = on_wake, .sa_flags = SA_RESTART };

	sigaction(SIGUSR2, &wake, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static struct worker *worker_new(struct crew *crew, struct err *e)
{
	struct worker *w = calloc(1, sizeof *w);
	pthread_attr_t attr;
	int failed;

	if (w == NULL) {
		err_set(e, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	w->crew = crew;
	buf_init(&w->head, 32768);
	call_init(&w->c, (size_t)crew->front->conf.body_max_kb << 10);
	w->c.header = fcgi_header;
	w->c.front = w;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	failed = FCGX_InitRequest(&w->req, -1, 0);
	if (failed == 0)
		failed = pthread_create(&w->thread, &attr, work, w);
	pthread_attr_destroy(&attr);
	if (failed == 0)
		return w;
	err_set(e, ERR_INTERNAL, "cannot start a thread: %s", strerror(failed));
	free(w);
	return NULL;
}

/* Wake it until it has seen the end: a signal may come just before accept. A second end signal gives up waiting. */
static bool worker_end(struct worker *w, const sigset_t *ends)
{
	struct timespec tick = { .tv_nsec = 10000000 };

	while (!atomic_load(&w->done)) {
		pthread_kill(w->thread, SIGUSR2);
		if (sigtimedwait(ends, NULL, &tick) > 0)
			return false;
	}
	pthread_join(w->thread, NULL);
	call_release(&w->c);
	buf_release(&w->head);
	free(w);
	return true;
}

/* False when a thread may still be at work. */
static bool serve_until_signal(struct crew *crew, struct worker **workers, int threads, const sigset_t *ends, int *status)
{
	struct err e;
	int n = 0, sig = 0;
	bool clean = true;

	while (n < threads && (workers[n] = worker_new(crew, &e)) != NULL)
		n++;
	if (n == threads)
		sigwait(ends, &sig);
	else
		log_error("%s", e.text);
	atomic_store(&crew->stop, true);
	for (int i = 0; i < n && clean; i++)
		clean = worker_end(workers[i], ends);
	*status = n == threads && clean ? 0 : 1;
	return clean;
}

int fcgi_run(struct front *f, int threads)
{
	struct crew crew = { .front = f };
	struct worker **workers;
	sigset_t ends;
	int status = 1;

	block_signals(&ends);
	if (FCGX_Init() != 0) {
		log_error("libfcgi does not start");
		return 1;
	}
	set_handlers();
	set_timeout(0, SO_RCVTIMEO, 3600);
	f->body_ends = true;
	workers = calloc((size_t)threads, sizeof(struct worker *));
	if (workers == NULL) {
		log_error("out of memory");
		return 1;
	}
	if (!serve_until_signal(&crew, workers, threads, &ends, &status))
		_exit(status);               /* whatever that thread uses stays as it is */
	free(workers);
	return status;
}
