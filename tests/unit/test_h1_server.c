#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/h1.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define REST " HTTP/1.1\r\nHost: a\r\n"
#define LAST "Connection: close\r\n"
#define PATIENCE_S 300          /* where a limit of the server is not what is tested */

struct fixture {
	char dir[32], path[64];
	int listen_fd;
	struct h1_server *server;
	int file_fd;            /* what /file sends */
	int64_t file_size;
};

/* ---- what the server under test does ---- */

static void echo(struct h1_req *r)
{
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, 1 << 20);
	if (h1_read_all(r, &b, &e) < 0)
		h1_reply_error(r, e.kind == ERR_TOO_LARGE ? 413 : 400, e.text);
	else
		h1_reply(r, 200, "text/plain", NULL, buf_str(&b), b.len);
	buf_release(&b);
}

static void bounded(struct h1_req *r)
{
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, 5);
	h1_reply(r, h1_read_all(r, &b, &e) == 0 ? 200 : e.kind == ERR_TOO_LARGE ? 413 : 400, NULL, NULL, buf_str(&b), b.len);
	buf_release(&b);
}

/* Small reads, answered while the body still comes. */
static void stream(struct h1_req *r)
{
	char p[3];
	ssize_t n;

	h1_begin(r, 200, "text/plain", "X-Extra: 1\r\n");
	while ((n = h1_read(r, p, sizeof p)) > 0)
		h1_write(r, p, (size_t)n);
	if (n == 0)
		h1_end(r);
	else
		h1_abort(r);
}

static void handler(void *ctx, struct h1_req *r)
{
	struct fixture *f = ctx;
	struct h1_span path = r->head->path;

	assert_false(h1_replied(r));
	if (h1_span_is(path, "/echo")) {
		echo(r);
	} else if (h1_span_is(path, "/bounded")) {
		bounded(r);
	} else if (h1_span_is(path, "/stream")) {
		stream(r);
	} else if (h1_span_is(path, "/file")) {
		h1_reply_file(r, 200, "application/octet-stream", NULL, f->file_fd, 1, f->file_size);
	} else if (h1_span_is(path, "/abort")) {
		h1_begin(r, 200, "text/plain", NULL);
		h1_write(r, "half", 4);
		h1_abort(r);
	} else if (h1_span_is(path, "/unended")) {
		h1_begin(r, 200, "text/plain", NULL);
		h1_write(r, "half", 4);
	} else if (h1_span_is(path, "/with")) {
		h1_begin_with(r, 200, "text/plain", NULL, "first", 5);
		h1_write(r, "", 0);
		h1_end_with(r, "last", 4);
	} else if (h1_span_is(path, "/none")) {
		h1_reply(r, 204, "text/plain", NULL, "never", 5);
	} else if (h1_span_is(path, "/common")) {
		r->common = "X-Common: yes\r\n";
		h1_reply_error(r, 404, "a \"quoted\" text");
	} else if (h1_span_is(path, "/thread")) {
		char id[16];

		h1_reply(r, 200, "text/plain", NULL, id, (size_t)snprintf(id, sizeof id, "%d", (int)gettid()));
	} else if (!h1_span_is(path, "/silent")) {
		h1_reply(r, 200, "text/plain", NULL, "ok", 2);
	}
}

/* ---- a plain client ---- */

static int dial(const struct fixture *f)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, f->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

static void put(int fd, const void *p, size_t n)
{
	assert_int_equal(send(fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void puts_to(int fd, const char *text)
{
	put(fd, text, strlen(text));
}

/* Return when the server has read all that was sent. */
static void taken(int fd)
{
	int left;

	do {
		sched_yield();
		assert_int_equal(ioctl(fd, SIOCOUTQ, &left), 0);
	} while (left != 0);
}

/* All bytes until the end; *err is 0 for a clean end or the errno. */
static size_t slurp(int fd, char *out, size_t max, int *err)
{
	size_t len = 0;
	ssize_t n;

	while ((n = recv(fd, out + len, max - len - 1, 0)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	if (err != NULL)
		*err = n < 0 ? errno : 0;
	close(fd);
	return len;
}

static void expect(const struct fixture *f, const char *request, const char *want)
{
	char out[8192];
	int fd = dial(f);

	puts_to(fd, request);
	slurp(fd, out, sizeof out, NULL);
	if (strcmp(out, want) != 0)
		fail_msg("request:\n%s\nwant:\n%s\ngot:\n%s", request, want, out);
}

static size_t times(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		n++;
	}
	return n;
}

/* ---- tests ---- */

static void test_replies(void **state)
{
	struct fixture *f = *state;

	expect(f, "GET /" REST LAST "\r\n",
	       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nok");
	expect(f, "HEAD /" REST LAST "\r\n",
	       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n");
	expect(f, "GET /none" REST LAST "\r\n", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	expect(f, "GET /none" REST "\r\nGET /" REST LAST "\r\n", "HTTP/1.1 204 No Content\r\n\r\n"
	       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nok");
	expect(f, "HEAD /stream" REST LAST "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
	       "Content-Type: text/plain\r\nX-Extra: 1\r\n\r\n");
	expect(f, "GET /with" REST LAST "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
	       "Content-Type: text/plain\r\n\r\n5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n");
	expect(f, "GET /with HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nfirstlast");
	expect(f, "HEAD /with" REST LAST "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
	       "Content-Type: text/plain\r\n\r\n");
	expect(f, "GET /common" REST LAST "\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 42\r\nConnection: close\r\n"
	       "Content-Type: application/json\r\nX-Common: yes\r\n\r\n{\"code\":404,\"message\":\"a \\\"quoted\\\" text\"}");
	expect(f, "GET /silent" REST LAST "\r\n", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 39\r\nConnection: close\r\n"
	       "Content-Type: application/json\r\n\r\n{\"code\":500,\"message\":\"internal error\"}");
	expect(f, "GET / HTTP/1.0\r\n\r\n",
	       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nok");
	expect(f, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
	       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\n\r\nok"
	       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nok");
	expect(f, "POST /stream HTTP/1.0\r\nContent-Length: 4\r\n\r\nabcd",
	       "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nX-Extra: 1\r\n\r\nabcd");
}

static void test_bodies(void **state)
{
	struct fixture *f = *state;
	static const char echoed[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\n";
	char want[2048];

	/* one write: by length, chunked, no body, and the last one answered in chunks */
	snprintf(want, sizeof want, "%shello%sHELLO%s", echoed, echoed,
		 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: text/plain\r\n\r\n"
		 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nContent-Type: text/plain\r\nX-Extra: 1\r\n\r\n"
		 "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
	expect(f, "POST /echo" REST "Content-Length: 5\r\n\r\nhello"
	       "POST /echo" REST "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nHE\r\n3\r\nLLO\r\n0\r\nT: 1\r\n\r\n"
	       "GET /echo" REST "\r\n"
	       "POST /stream" REST LAST "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", want);
}

/* The request arrives in two parts, cut at every place, and the server has read the first before the second comes. */
static void test_split(void **state)
{
	static const char *const requests[] = {
		"POST /echo" REST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nb;x\r\n, big world\r\n0\r\nT: 1\r\n\r\nGET /" REST LAST "\r\n",
		"POST /echo" REST "Content-Length: 16\r\n\r\nhello, big worldGET /" REST LAST "\r\n",
	};
	struct fixture *f = *state;
	char out[2048];

	for (size_t i = 0; i < COUNT(requests); i++)
		for (size_t k = 1; k < strlen(requests[i]); k++) {
			int fd = dial(f);

			put(fd, requests[i], k);
			taken(fd);
			puts_to(fd, requests[i] + k);
			slurp(fd, out, sizeof out, NULL);
			if (strstr(out, "\r\n\r\nhello, big worldHTTP/1.1 200 OK\r\n") == NULL || times(out, "\r\n\r\nok") != 1)
				fail_msg("request %zu cut at %zu:\n%s", i, k, out);
		}
}

static void test_bound(void **state)
{
	static const struct { const char *body; const char *status; } rows[] = {
		{ "Content-Length: 5\r\n\r\nhello", " 200 " },
		{ "Content-Length: 6\r\n\r\nhello!", " 413 " },
		{ "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", " 200 " },
		{ "Transfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n0\r\n\r\n", " 413 " },
		{ "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", " 413 " },
		{ "Transfer-Encoding: chunked\r\n\r\nx\r\n", " 400 " },
	};
	struct fixture *f = *state;
	char request[512], out[2048];

	for (size_t i = 0; i < COUNT(rows); i++) {
		int fd = dial(f);

		snprintf(request, sizeof request, "POST /bounded" REST LAST "%s", rows[i].body);
		puts_to(fd, request);
		slurp(fd, out, sizeof out, NULL);
		if (strstr(out, rows[i].status) == NULL)
			fail_msg("row %zu: %s", i, out);
	}
}

/* Whatever is refused ends the connection: what follows is never taken for a request. */
static void test_smuggling(void **state)
{
	static const char *const heads[] = {
		"POST /" REST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /" REST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"POST /" REST "Transfer-Encoding: x\r\n\r\n",
		"POST /" REST "Transfer-Encoding : chunked\r\n\r\n",
		"POST /" REST "X: 1\r\n Transfer-Encoding: chunked\r\n\r\n",
		"POST /" REST "X: 1\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\n\r\n",
		"POST /echo" REST "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
		"POST /echo" REST "Transfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n",
	};
	struct fixture *f = *state;
	char request[512], out[2048];

	for (size_t i = 0; i < COUNT(heads); i++) {
		int fd = dial(f);

		snprintf(request, sizeof request, "%sGET /smuggled" REST "\r\n", heads[i]);
		puts_to(fd, request);
		slurp(fd, out, sizeof out, NULL);
		if (strncmp(out, "HTTP/1.1 400 Bad Request\r\n", 26) != 0 || times(out, "HTTP/1.1") != 1 ||
		    strstr(out, "{\"code\":400,\"message\":\"") == NULL)
			fail_msg("row %zu: %s", i, out);
	}
}

static void test_too_large(void **state)
{
	struct fixture *f = *state;
	char *big = malloc(H1_HEAD_MAX + 1), out[1024];
	int fd = dial(f);

	memset(big, 'a', H1_HEAD_MAX);
	puts_to(fd, "GET /" REST "X: ");
	put(fd, big, H1_HEAD_MAX);
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, " 431 "));
	/* a head of more than one step of the buffer is fine */
	fd = dial(f);
	puts_to(fd, "POST /echo" REST LAST "Content-Length: 2\r\nX: ");
	put(fd, big, 40000);
	puts_to(fd, "\r\n\r\nhi");
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, "\r\n\r\nhi"));
	free(big);
}

static void test_continue(void **state)
{
	struct fixture *f = *state;
	char out[1024];
	int fd = dial(f);

	puts_to(fd, "POST /echo" REST LAST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	assert_int_equal(recv(fd, out, 25, MSG_WAITALL), 25);
	assert_memory_equal(out, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	puts_to(fd, "hi");
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, "\r\n\r\nhi"));

	/* refused without reading: no 100, and no second request on a connection whose next bytes are in doubt */
	fd = dial(f);
	puts_to(fd, "POST /" REST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	slurp(fd, out, sizeof out, NULL);
	assert_string_equal(out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nok");
}

static void test_early_close(void **state)
{
	struct fixture *f = *state;
	char out[1024];
	int fd = dial(f);

	puts_to(fd, "POST /echo" REST "Content-Length: 10\r\n\r\nhalf");
	shutdown(fd, SHUT_WR);
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, " 400 "));
	fd = dial(f);
	puts_to(fd, "POST /stream" REST "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
	shutdown(fd, SHUT_WR);
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, "\r\nhal\r\n"));
	assert_null(strstr(out, "\r\n0\r\n"));         /* cut, not ended */
	for (int i = 0; i < 50; i++)                    /* and it lives on, whenever the client leaves */
		close(dial(f));
	for (size_t i = 0; i < 60; i++) {
		fd = dial(f);
		put(fd, "POST /stream" REST "Content-Length: 9\r\n\r\nabc", 30 + i % 20);
		close(fd);
	}
	expect(f, "GET /none" REST LAST "\r\n", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
}

static void test_abort(void **state)
{
	static const char *const paths[] = { "/abort", "/unended" };
	struct fixture *f = *state;
	char request[64], out[1024];

	for (size_t i = 0; i < COUNT(paths); i++) {
		int fd = dial(f);

		snprintf(request, sizeof request, "GET %s" REST "\r\n", paths[i]);
		puts_to(fd, request);
		slurp(fd, out, sizeof out, NULL);
		assert_non_null(strstr(out, "4\r\nhalf\r\n"));
		assert_null(strstr(out, "0\r\n\r\n"));
	}
}

/* Over TCP even a close-delimited reply must not look complete. */
static void test_abort_tcp(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, why;
	struct h1_server_opts opts = { 0 };
	struct h1_server *s;
	struct err e;
	char out[1024];

	assert_int_equal(bind(lfd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(lfd, 8), 0);
	getsockname(lfd, (struct sockaddr *)&a, &n);
	assert_int_equal(h1_server_start(lfd, &opts, handler, *state, &s, &e), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	puts_to(fd, "GET /abort HTTP/1.0\r\n\r\n");
	slurp(fd, out, sizeof out, &why);
	assert_int_equal(why, ECONNRESET);
	h1_server_stop(s);
	close(lfd);
}

/* A head and n bytes of its body, in one call: the server gives up a writer who is silent for two seconds, and between two calls this one may
 * have to wait that long for a processor. */
static ssize_t send_with_body(int fd, const char *head, size_t n)
{
	size_t head_n = strlen(head);
	char *p = calloc(1, head_n + n);
	ssize_t sent;

	memcpy(p, head, head_n);
	sent = send(fd, p, head_n + n, MSG_NOSIGNAL);
	free(p);
	return sent - (ssize_t)head_n;
}

static void test_unread(void **state)
{
	struct fixture *f = *state;
	char out[1024];
	int fd = dial(f);

	puts_to(fd, "POST /" REST "Content-Length: 200000\r\n\r\n");
	assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 50), 0);       /* the answer follows the body's end */
	assert_int_equal(send_with_body(fd, "", 200000), 200000);
	puts_to(fd, "GET /none" REST LAST "\r\n");
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, "okHTTP/1.1 204 "));
	/* too much to read over: the reply still arrives whole, and the writer is not cut off before it has it */
	fd = dial(f);
	assert_int_equal(send_with_body(fd, "POST /" REST "Content-Length: 30000000\r\n\r\n", 2000000), 2000000);
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, "\r\nConnection: close\r\n"));
	assert_non_null(strstr(out, "\r\n\r\nok"));
	assert_int_equal(times(out, "HTTP/1.1"), 1);
	fd = dial(f);                                   /* a client that stops in the middle is answered, too */
	puts_to(fd, "POST /" REST "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
	slurp(fd, out, sizeof out, NULL);
	assert_non_null(strstr(out, "\r\nConnection: close\r\n"));
	assert_non_null(strstr(out, "\r\n\r\nok"));
}

static void test_file(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/hutch-h1-XXXXXX", *out = malloc(1 << 20), *body;
	int fd, p[2];
	size_t n;

	f->file_fd = mkstemp(path);
	unlink(path);
	for (int i = 0; i < 30000; i++)
		assert_int_equal(write(f->file_fd, "0123456789", 10), 10);
	f->file_size = 299999;
	fd = dial(f);
	puts_to(fd, "GET /file" REST LAST "\r\n");
	n = slurp(fd, out, 1 << 20, NULL);
	body = strstr(out, "\r\n\r\n") + 4;
	assert_non_null(strstr(out, "Content-Length: 299999\r\n"));
	assert_int_equal(n - (size_t)(body - out), 299999);
	for (size_t i = 0; i < 299999; i++)
		if (body[i] != (char)('0' + (i + 1) % 10))
			fail_msg("byte %zu differs", i);

	f->file_size = 400000;                          /* shorter than promised: cut */
	fd = dial(f);
	puts_to(fd, "GET /file" REST "\r\n");
	n = slurp(fd, out, 1 << 20, NULL);
	body = strstr(out, "\r\n\r\n") + 4;
	assert_int_equal(n - (size_t)(body - out), 299999);
	close(f->file_fd);

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);       /* cannot be sent by offset at all: cut after the head */
	f->file_fd = p[0];
	fd = dial(f);
	puts_to(fd, "GET /file" REST "\r\n");
	slurp(fd, out, 1 << 20, NULL);
	assert_true(out[0] == '\0' || strcmp(strstr(out, "\r\n\r\n"), "\r\n\r\n") == 0);
	close(p[0]);
	close(p[1]);
	free(out);
}

/* ---- limits, with a server of their own ---- */

/* It listens, and serves nobody yet: what is sent to it now waits. */
static void listening(struct fixture *f, struct fixture *g)
{
	struct err e;

	*g = *f;
	snprintf(g->path, sizeof g->path, "%s/limits", f->dir);
	g->listen_fd = h1_listen_unix(g->path, 0600, -1, &e);
	assert_true(g->listen_fd >= 0);
}

static void serving(struct fixture *g, const struct h1_server_opts *opts)
{
	struct err e;

	assert_int_equal(h1_server_start(g->listen_fd, opts, handler, g, &g->server, &e), 0);
}

static void test_slow(void **state)
{
	const struct h1_server_opts opts = { .head_timeout_s = 1, .body_timeout_s = 1, .idle_timeout_s = 1 };
	struct fixture g;
	char out[3][512];
	int fd[3];

	listening(*state, &g);
	for (int i = 0; i < 3; i++)
		fd[i] = dial(&g);
	puts_to(fd[1], "GET /" REST);
	puts_to(fd[2], "POST /echo" REST "Content-Length: 5\r\n\r\nhal");
	serving(&g, &opts);                             /* only now its limits count: none is over before all this was sent */
	for (int i = 0; i < 3; i++)
		slurp(fd[i], out[i], sizeof out[i], NULL);
	assert_string_equal(out[0], "");
	assert_non_null(strstr(out[1], "HTTP/1.1 408 Request Timeout\r\n"));
	assert_non_null(strstr(out[2], " 400 "));
	h1_server_stop(g.server);
	close(g.listen_fd);
}

static void test_full(void **state)
{
	const struct h1_server_opts opts = { .max_connections = 2, .idle_timeout_s = PATIENCE_S, .head_timeout_s = PATIENCE_S };
	struct fixture g;
	char out[512];
	int a, b, c;

	listening(*state, &g);
	serving(&g, &opts);
	a = dial(&g);
	b = dial(&g);
	c = dial(&g);
	puts_to(c, "POST / HTTP/1.1\r\n");               /* its end comes later than a moment; the answer is not lost by it */
	poll(NULL, 0, 100);
	puts_to(c, "Host: x\r\nContent-Length: 9\r\n\r\n");
	puts_to(c, "some body");
	slurp(c, out, sizeof out, NULL);
	assert_non_null(strstr(out, "HTTP/1.1 503 "));
	assert_int_equal(strlen(strstr(out, "\r\n\r\n") + 4), atoi(strstr(out, "Content-Length: ") + 16));
	puts_to(a, "GET /" REST LAST "\r\n");
	slurp(a, out, sizeof out, NULL);
	assert_non_null(strstr(out, "\r\n\r\nok"));
	do {                                            /* its place is free again as soon as its thread is gone */
		c = dial(&g);
		if (send(c, "GET /" REST LAST "\r\n", 46, MSG_NOSIGNAL) < 0)
			out[0] = '\0';
		slurp(c, out, sizeof out, NULL);
	} while (strstr(out, "\r\n\r\nok") == NULL);
	h1_server_stop(g.server);
	assert_int_equal(slurp(b, out, sizeof out, NULL), 0);  /* an idle connection ends with the server */
	close(g.listen_fd);
}

/* Until that thread of ours sleeps, or is no more. */
static void wait_idle(int tid)
{
	char path[64], text[512], *state;
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	do {
		sched_yield();
		f = fopen(path, "re");
		if (f == NULL)
			return;
		state = fgets(text, sizeof text, f) != NULL ? strrchr(text, ')') : NULL;
		fclose(f);
	} while (state != NULL && state[2] != 'S');
}

static int served_by(const struct fixture *f)
{
	char out[512];
	int fd = dial(f), tid;

	puts_to(fd, "GET /thread" REST LAST "\r\n");
	slurp(fd, out, sizeof out, NULL);
	tid = atoi(strstr(out, "\r\n\r\n") + 4);
	wait_idle(tid);                                 /* the connection ends before its thread is free for the next one */
	return tid;
}

/* A few threads serve one connection after the other; more at a time get threads of their own, and those held up do no harm. */
static void test_spare_threads(void **state)
{
	const struct h1_server_opts opts = { .spare_threads = 2, .idle_timeout_s = PATIENCE_S, .head_timeout_s = PATIENCE_S };
	struct fixture g;
	int seen[40], n = 0, fd[5];
	char out[512];

	listening(*state, &g);
	serving(&g, &opts);
	for (int i = 0; i < 5; i++)
		fd[i] = dial(&g);               /* served, but silent */
	for (int i = 0; i < 40; i++) {
		int id = served_by(&g), k = 0;

		assert_true(id > 0);
		while (k < n && seen[k] != id)
			k++;
		seen[k] = id;
		n += k == n;
	}
	assert_in_range(n, 1, 20);
	for (int i = 4; i >= 0; i--) {
		puts_to(fd[i], "GET /" REST LAST "\r\n");
		slurp(fd[i], out, sizeof out, NULL);
		assert_non_null(strstr(out, "\r\n\r\nok"));
	}
	h1_server_stop(g.server);
	close(g.listen_fd);
}

static void test_listen(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	struct err e = { 0 };
	char path[128];
	int fd, again;

	snprintf(path, sizeof path, "%s/sock", f->dir);
	fd = h1_listen_unix(path, 0620, (int)getgid(), &e);
	assert_true(fd >= 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0620);
	again = h1_listen_unix(path, 0600, -1, &e);
	assert_true(again >= 0);
	close(fd);
	close(again);
	unlink(path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(h1_listen_unix(path, 0600, -1, &e), -1);
	assert_non_null(strstr(e.text, "no socket"));
	unlink(path);
	memset(path, 'x', sizeof path - 1);
	path[0] = '/';
	path[sizeof path - 1] = '\0';
	assert_int_equal(h1_listen_unix(path, 0600, -1, &e), -1);
	assert_int_equal(h1_listen_unix("/nowhere/sock", 0600, -1, &e), -1);
}

static int start(void **state)
{
	static struct fixture f = { .dir = "/tmp/hutch-h1-XXXXXX" };
	struct h1_server_opts opts = { .idle_timeout_s = PATIENCE_S, .head_timeout_s = PATIENCE_S, .body_timeout_s = PATIENCE_S };
	struct err e;

	if (mkdtemp(f.dir) == NULL)
		return -1;
	snprintf(f.path, sizeof f.path, "%s/h1", f.dir);
	f.listen_fd = h1_listen_unix(f.path, 0600, -1, &e);
	if (f.listen_fd < 0 || h1_server_start(f.listen_fd, &opts, handler, &f, &f.server, &e) < 0)
		return -1;
	*state = &f;
	return 0;
}

static int stop(void **state)
{
	struct fixture *f = *state;
	char path[64];

	h1_server_stop(f->server);
	close(f->listen_fd);
	unlink(f->path);
	snprintf(path, sizeof path, "%s/limits", f->dir);
	unlink(path);
	return rmdir(f->dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_smuggling),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_continue),
		cmocka_unit_test(test_early_close),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_abort_tcp),
		cmocka_unit_test(test_unread),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_spare_threads),
		cmocka_unit_test(test_listen),
	};

	return cmocka_run_group_tests_name("h1_server", tests, start, stop);
}
