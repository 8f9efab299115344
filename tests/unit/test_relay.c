/* The relay between a web server (this test) and upstreams (this test too), with real records and a fake node. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/h1.h"
#include "hutch/relay.h"
#include "hutch/when.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ID "irunning0000000000000"
#define REST " HTTP/1.1\r\nHost: 49983-" ID ".localhost\r\n"
#define USER " HTTP/1.1\r\nHost: 3000-" ID ".localhost\r\n"
#define MIB (1 << 20)
#define PATIENCE_S 300          /* where a limit of the relay is not what is tested */

struct fixture {
	char dir[32], relay_path[64], agent_path[80], user_path[80];
	struct config conf;
	struct domain d;
	struct pool pool;
	int listen_fd, agent_fd;
	atomic_int user_fd;             /* the fake node makes it in a thread of the relay */
	struct relay *relay;
};

static struct fixture *F;

/* ---- the node ---- */

static int gate[2];             /* the fake node answers after a byte came through */

static int fake_open_port(struct pool *p, const char *machine, int port, struct err *e)
{
	char path[128], byte;

	(void)p;
	if (read(gate[0], &byte, 1) != 1 || byte == 'x')
		return err_set(e, ERR_UNAVAILABLE, "made to fail");
	snprintf(path, sizeof path, "%s/sb/%s/%d", F->dir, machine, port);
	F->user_fd = h1_listen_unix(path, 0600, -1, e);
	return F->user_fd < 0 ? -1 : 0;
}

static const struct pool_ops fake_ops = { .open_port = fake_open_port };

/* ---- sockets ---- */

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

static int web(const char *text)
{
	int fd = dial(F->relay_path);

	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
	return fd;
}

static int agent(void)
{
	int fd = accept4(F->agent_fd, NULL, NULL, SOCK_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Exactly this text comes next. */
static void expect(int fd, const char *text)
{
	size_t n = strlen(text);
	char *got = calloc(1, n + 1);

	if (n != 0)                                     /* a receive of nothing waits all the same */
		assert_int_equal(recv(fd, got, n, MSG_WAITALL), (ssize_t)n);
	assert_string_equal(got, text);
	free(got);
}

/* Everything until the end. */
static const char *rest(int fd)
{
	static char out[65536];
	size_t len = 0;
	ssize_t n;

	while (len < sizeof out - 1 && (n = recv(fd, out + len, sizeof out - 1 - len, 0)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(fd);
	return out;
}

/* Is there an answer, now that the relay had time for one? */
static bool answered(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 50) > 0;
}

/* The request head at the upstream. */
static const char *head_at(int fd)
{
	static char out[70000];
	size_t len = 0;

	while (len < sizeof out - 1 && recv(fd, out + len, 1, 0) == 1) {
		out[++len] = '\0';
		if (len >= 4 && memcmp(out + len - 4, "\r\n\r\n", 4) == 0)
			return out;
	}
	return "";
}

/* ---- passing on ---- */

static void test_head(void **state)
{
	int w = web("GET /a%2Fb?c=d HTTP/1.1\r\nhost: 49983-" ID ".localhost:8080\r\nX-One:  1\t\r\nKeep-Alive: 5\r\nConnection: keep-alive, x-one\r\n"
		    "Upgrade: h2c\r\nE2b-Sandbox-Port: 1\r\n\r\n"), u = agent();

	(void)state;
	assert_string_equal(head_at(u), "GET /a%2Fb?c=d HTTP/1.1\r\nhost: 49983-" ID ".localhost:8080\r\nX-One: 1\r\n"
			    "E2b-Sandbox-Port: 1\r\nConnection: close\r\n\r\n");
	put(u, "HTTP/1.1 200 OK\r\n\r\nbody");
	close(u);
	assert_string_equal(rest(w), "HTTP/1.1 200 OK\r\n\r\nbody");

	/* by headers, byte by byte */
	w = dial(F->relay_path);
	for (const char *p = "GET / HTTP/1.0\r\nE2b-Sandbox-Id: " ID "\r\nE2b-Sandbox-Port: 49983\r\n\r\n"; *p != '\0'; p++)
		assert_int_equal(send(w, p, 1, MSG_NOSIGNAL), 1);
	u = agent();
	assert_string_equal(head_at(u), "GET / HTTP/1.0\r\nE2b-Sandbox-Id: " ID "\r\nE2b-Sandbox-Port: 49983\r\nConnection: close\r\n\r\n");
	close(w);
	assert_string_equal(rest(u), "");
}

/* One request goes through a link, whatever comes after it, at once or later. */
static void test_one_request(void **state)
{
	static const char extra[] = "POST /init" REST "\r\n";
	static const struct { const char *head, *body; } rows[] = {
		{ "GET /" REST "\r\n", "" },
		{ "POST /" REST "Content-Length: 5\r\n\r\n", "hello" },
		{ "POST /" REST "Content-Length: 0\r\n\r\n", "" },
		{ "POST /" REST "Transfer-Encoding: chunked\r\n\r\n", "5;x\r\nhello\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n" },
		{ "POST /" REST "Transfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n" },
		{ "GET /" REST "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", "" },
		{ "GET /" REST "Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n", "ab" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char all[1024];
		size_t n = (size_t)snprintf(all, sizeof all, "%s%s", rows[i].head, rows[i].body);

		strcat(all, extra);
		/* cut anywhere: 0 is all in one write */
		for (size_t cut = 0; cut < strlen(all); cut++) {
			int w, u, left;

			if (cut == 0) {
				w = web(all);
			} else {
				char keep = all[cut];

				all[cut] = '\0';
				w = web(all);
				all[cut] = keep;
				do              /* until the relay has read the first part, as far as it reads it at all */
					assert_int_equal(ioctl(w, SIOCOUTQ, &left), 0);
				while (left != 0 && cut <= n && sched_yield() == 0);
				put(w, all + cut);
			}
			u = agent();
			assert_non_null(strstr(head_at(u), "\r\nConnection: close\r\n"));
			expect(u, rows[i].body);
			put(u, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
			shutdown(u, SHUT_WR);
			if (strcmp(rest(u), "") != 0)
				fail_msg("row %zu cut at %zu: more was passed on", i, cut);
			expect(w, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
			close(w);
		}
	}
}

static void test_malformed_body(void **state)
{
	int w = web("POST /" REST "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"), u = agent();

	(void)state;
	head_at(u);
	expect(u, "2\r\nab\r\n");
	put(w, "2\r\nabc0\r\n\r\n");
	assert_string_equal(rest(u), "");               /* cut: it never sees an end */
	assert_string_equal(rest(w), "");
	w = web("POST /" REST "Transfer-Encoding: chunked\r\n\r\nx\r\n");
	assert_int_equal(strncmp(rest(w), "HTTP/1.1 400 ", 13), 0);
}

/* The path form: the guest sees what is behind it, and the place as the other forms say it, whatever the client says. */
static void test_path_form(void **state)
{
	int w = web("GET /_sandbox/" ID "/49983/a%2Fb?q HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: forged\r\nE2b-Sandbox-Port: 1\r\n"
		    "X-Forwarded-Prefix: /forged\r\nX-Mine: 1\r\n\r\n"), u = agent();

	(void)state;
	assert_string_equal(head_at(u), "GET /a%2Fb?q HTTP/1.1\r\nX-Forwarded-Prefix: /_sandbox/" ID "/49983\r\nE2b-Sandbox-Id: " ID "\r\n"
			    "E2b-Sandbox-Port: 49983\r\nHost: localhost\r\nX-Mine: 1\r\nConnection: close\r\n\r\n");
	put(u, "HTTP/1.1 204 No Content\r\n\r\n");
	shutdown(u, SHUT_WR);
	expect(w, "HTTP/1.1 204 No Content\r\n\r\n");
	close(w);
	w = web("POST /_sandbox/" ID "/49983//init HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(strncmp(rest(w), "HTTP/1.1 404 ", 13), 0);
	close(w);
}

static void test_tunnel(void **state)
{
	int w, u;

	(void)state;
	assert_int_equal(write(gate[1], "o", 1), 1);
	w = web("GET /ws" USER "Connection: close, upgrade\r\nUpgrade: websocket\r\nX-Forwarded-Host: forged\r\nSec-WebSocket-Key: x\r\n\r\nearly");
	while (F->user_fd < 0)
		sched_yield();
	u = accept4(F->user_fd, NULL, NULL, SOCK_CLOEXEC);
	/* network.maskRequestHost is set, and the agent's port is not concerned by it */
	assert_string_equal(head_at(u), "GET /ws HTTP/1.1\r\nHost: app.example:3000\r\nX-Forwarded-Host: 3000-" ID ".localhost\r\nUpgrade: websocket\r\n"
			    "Sec-WebSocket-Key: x\r\nConnection: Upgrade\r\n\r\n");
	expect(u, "early");
	put(u, "HTTP/1.1 101 Switching Protocols\r\n\r\nhi");
	expect(w, "HTTP/1.1 101 Switching Protocols\r\n\r\nhi");
	for (int i = 0; i < 10; i++) {
		put(w, "ping");
		expect(u, "ping");
		put(u, "pong");
		expect(w, "pong");
	}
	shutdown(w, SHUT_WR);                           /* one half ends, the other goes on */
	assert_int_equal(recv(u, &(char){ 0 }, 1, 0), 0);
	put(u, "last words");
	close(u);
	assert_string_equal(rest(w), "last words");
}

/* ---- refusals ---- */

static void test_refusals(void **state)
{
	static const struct { const char *request, *status, *type, *body; } rows[] = {
		{ "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 Bad Request", "application/json; charset=utf-8", "\"code\":400}" },
		{ "GET / HTTP/1.1\r\nHost: 1-inever.localhost\r\n\r\n", "502 Bad Gateway", "application/json; charset=utf-8",
		  "{\"sandboxId\":\"inever\",\"message\":\"The sandbox was not found\",\"code\":502}" },
		{ "GET / HTTP/1.1\r\nHost: 1-inever.localhost\r\nUser-Agent: Mozilla/5.0\r\n\r\n", "502 Bad Gateway", "text/html; charset=utf-8", "</html>" },
		{ "HEAD / HTTP/1.1\r\nHost: 1-inever.localhost\r\n\r\n", "502 Bad Gateway", "application/json; charset=utf-8", "\r\n\r\n" },
		{ "POST /init" REST "Content-Length: 9\r\n\r\nsome body", "404 Not Found", "application/json; charset=utf-8", "\"path\":\"/init\",\"code\":404}" },
		{ "POST /x/%2E%2E/init" REST "\r\n", "404 Not Found", "application/json; charset=utf-8", "\"path\":\"/init\",\"code\":404}" },
		{ "GET / HTTP/1.1\r\n\r\n", "400 Bad Request", "application/json; charset=utf-8", "\"code\":400,\"message\":\"no Host field\"}" },
		{ "GET /" REST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request", "application/json; charset=utf-8", "}" },
		{ "GET /" REST "X: a\n\r\n", "400 Bad Request", "application/json; charset=utf-8", "}" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *got = rest(web(rows[i].request));
		char want[256];

		snprintf(want, sizeof want, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: ", rows[i].status, rows[i].type);
		if (strncmp(got, want, strlen(want)) != 0 || strlen(got) < strlen(rows[i].body) ||
		    strcmp(got + strlen(got) - strlen(rows[i].body), rows[i].body) != 0 || strstr(got, "\r\nConnection: close\r\n") == NULL)
			fail_msg("row %zu: %s", i, got);
	}
	assert_non_null(strstr(rest(web("GET / HTTP/1.1\r\nHost: 1-inever.localhost\r\nOrigin: http://x\r\n\r\n")), "\r\nAccess-Control-Allow-Origin: *\r\n"));
}

/* A browser asks first: where its request would be refused the relay answers, elsewhere the guest. */
static void test_preflight(void **state)
{
	static const char ask[] = "Origin: http://x\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-access-token\r\n\r\n";
	static const char *const refused[] = { "OPTIONS / HTTP/1.1\r\nHost: 1-inever.localhost\r\n", "OPTIONS /init" REST,
		"OPTIONS /_sandbox/inever/3000/a HTTP/1.1\r\nHost: localhost\r\n", "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: inever\r\n" };
	char text[512];
	int w, u;

	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++) {
		snprintf(text, sizeof text, "%s%s", refused[i], ask);
		assert_string_equal(rest(web(text)), "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n"
				    "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n"
				    "Access-Control-Allow-Methods: HEAD, GET, POST, PUT, PATCH, DELETE\r\nAccess-Control-Max-Age: 7200\r\n"
				    "Access-Control-Allow-Headers: x-access-token\r\nConnection: close\r\n\r\n");
	}
	assert_int_equal(strncmp(rest(web("OPTIONS / HTTP/1.1\r\nHost: 1-inever.localhost\r\nOrigin: http://x\r\n\r\n")), "HTTP/1.1 502 ", 13), 0);
	snprintf(text, sizeof text, "OPTIONS /process.Process/Start" REST "%s", ask);
	w = web(text);
	u = agent();
	assert_non_null(strstr(head_at(u), "OPTIONS /process.Process/Start HTTP/1.1\r\n"));
	put(u, "HTTP/1.1 405 No\r\n\r\n");
	close(u);
	assert_string_equal(rest(w), "HTTP/1.1 405 No\r\n\r\n");
}

static void test_large_head(void **state)
{
	char *big = malloc(H1_HEAD_MAX + 200);
	int n = sprintf(big, "GET /" REST "X: "), w, u;

	(void)state;
	memset(big + n, 'a', H1_HEAD_MAX);
	strcpy(big + H1_HEAD_MAX - 4, "\r\n\r\n");
	w = web(big);
	u = agent();
	assert_int_equal(strlen(head_at(u)), H1_HEAD_MAX + strlen("Connection: close\r\n"));
	close(u);
	rest(w);
	memset(big + n, 'a', H1_HEAD_MAX);
	big[H1_HEAD_MAX] = '\0';
	assert_int_equal(strncmp(rest(web(big)), "HTTP/1.1 431 ", 13), 0);
	free(big);
}

/* A refusal follows the end of the request's body: a web server that sees it before ends its client's connection, too. */
static void test_refusal_last(void **state)
{
	static const struct { const char *head, *part, *last; } rows[] = {
		{ "POST / HTTP/1.1\r\nHost: 1-inever.localhost\r\nContent-Length: 9\r\n\r\n", "some ", "body" },
		{ "POST / HTTP/1.1\r\nHost: 1-inever.localhost\r\nTransfer-Encoding: chunked\r\n\r\n", "9\r\nsome bo", "dy\r\n0\r\n\r\n" },
		{ "POST /init" REST "Content-Length: 9\r\n\r\n", "some ", "body" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		int w = web(rows[i].head);

		assert_false(answered(w));
		put(w, rows[i].part);
		assert_false(answered(w));
		put(w, rows[i].last);
		assert_int_equal(strncmp(rest(w), i < 2 ? "HTTP/1.1 502 " : "HTTP/1.1 404 ", 13), 0);
	}
	/* who waits to be told to go on sends nothing before it is answered */
	assert_int_equal(strncmp(rest(web("POST / HTTP/1.1\r\nHost: 1-inever.localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")),
				 "HTTP/1.1 502 ", 13), 0);
	/* a body that goes wrong has no end to wait for */
	assert_int_equal(strncmp(rest(web("POST / HTTP/1.1\r\nHost: 1-inever.localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nx")),
				 "HTTP/1.1 502 ", 13), 0);
}

/* The upstream went away before it answered, and part of the body was passed on. */
static void test_refusal_midway(void **state)
{
	int w = web("POST /" REST "Content-Length: 9\r\n\r\nsome "), u = agent();

	(void)state;
	head_at(u);
	expect(u, "some ");
	close(u);
	assert_false(answered(w));
	put(w, "body");
	assert_int_equal(strncmp(rest(w), "HTTP/1.1 502 ", 13), 0);
}

/* A web server that is still sending an upload gets the refusal all the same. */
static void test_refused_upload(void **state)
{
	char block[65536] = "";
	int w = web("POST / HTTP/1.1\r\nHost: 1-inever.localhost\r\nContent-Length: 100000000\r\n\r\n");

	(void)state;
	for (int i = 0; i < 64; i++)
		if (send(w, block, sizeof block, MSG_NOSIGNAL) < 0)
			fail_msg("broken off after %d blocks", i);
	assert_int_equal(strncmp(rest(w), "HTTP/1.1 502 ", 13), 0);
}

static void test_nobody_there(void **state)
{
	char path[128];
	int w, u;

	(void)state;
	/* ended before it answered */
	w = web("GET /" REST "\r\n");
	u = agent();
	head_at(u);
	close(u);
	assert_non_null(strstr(rest(w), "502 Bad Gateway"));
	/* a socket nobody listens on, then no socket */
	snprintf(path, sizeof path, "%s.away", F->agent_path);
	assert_int_equal(rename(F->agent_path, path), 0);
	assert_non_null(strstr(rest(web("GET /" REST "\r\n")), "The sandbox was not found"));
	u = h1_listen_unix(F->agent_path, 0600, -1, &(struct err){ 0 });
	close(u);
	assert_non_null(strstr(rest(web("GET /" REST "\r\n")), "The sandbox was not found"));
	assert_int_equal(rename(path, F->agent_path), 0);
}

/* While the node is slow for one request, all others go on. */
static void test_slow_node(void **state)
{
	int w[3], u, other = web("GET /" REST "\r\n");

	(void)state;
	if (F->user_fd >= 0)
		close(F->user_fd);
	F->user_fd = -1;
	unlink(F->user_path);
	u = agent();
	head_at(u);
	for (int i = 0; i < 3; i++)
		w[i] = web("GET /" USER "User-Agent: Mozilla\r\n\r\n");
	for (int i = 0; i < 100; i++) {
		put(u, "tick");
		expect(other, "tick");
	}
	close(u);
	close(other);
	close(w[2]);                                    /* one gives up meanwhile */
	assert_int_equal(write(gate[1], "xxx", 3), 3);
	for (int i = 0; i < 2; i++)
		assert_non_null(strstr(rest(w[i]), "cannot be reached"));
}

/* A backlog that is full is waited for. */
static void test_backlog(void **state)
{
	char kept[128];
	int lfd, w[8], got = 0;
	struct err e;

	(void)state;
	snprintf(kept, sizeof kept, "%s.away", F->agent_path);
	assert_int_equal(rename(F->agent_path, kept), 0);
	lfd = h1_listen_unix(F->agent_path, 0600, -1, &e);
	assert_int_equal(listen(lfd, 1), 0);
	for (int i = 0; i < 8; i++)
		w[i] = web("GET /" REST "\r\n");
	for (int i = 0; i < 8; i++) {
		int u = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);

		head_at(u);
		put(u, "HTTP/1.1 200 OK\r\n\r\n");
		close(u);
		got++;
	}
	for (int i = 0; i < 8; i++)
		assert_string_equal(rest(w[i]), "HTTP/1.1 200 OK\r\n\r\n");
	assert_int_equal(got, 8);
	close(lfd);
	assert_int_equal(rename(kept, F->agent_path), 0);
}

/* ---- streams ---- */

static void test_ends(void **state)
{
	int w = web("GET /" REST "\r\n"), u = agent();

	(void)state;
	head_at(u);
	put(u, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	expect(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	close(u);
	assert_string_equal(rest(w), "");               /* no final chunk is made up */

	w = web("GET /" REST "\r\n");
	u = agent();
	head_at(u);
	put(u, "HTTP/1.1 200 OK\r\n\r\n");
	expect(w, "HTTP/1.1 200 OK\r\n\r\n");
	close(w);
	assert_string_equal(rest(u), "");               /* a silent stream ends with its client */

	w = web("POST /" REST "Content-Length: 100\r\n\r\nabc");
	u = agent();
	head_at(u);
	expect(u, "abc");
	shutdown(w, SHUT_WR);                           /* half an upload */
	assert_string_equal(rest(u), "");
	close(w);
}

/* An early answer to an upload goes through though the upstream reads no more of it. */
static void test_early_answer(void **state)
{
	char block[65536] = "";
	int w = web("POST /" REST "Content-Length: 100000000\r\n\r\n"), u = agent();

	(void)state;
	head_at(u);
	put(u, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
	close(u);
	for (int i = 0; i < 64; i++)
		if (send(w, block, sizeof block, MSG_NOSIGNAL) < 0)
			break;
	expect(w, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
	assert_string_equal(rest(w), "");
}

/* A client that does not read stops its upstream, at a bounded amount, and nobody else. */
static void test_slow_client(void **state)
{
	int w = web("GET /" REST "\r\n"), u = agent(), w2 = web("GET /" REST "\r\n"), u2 = agent();
	size_t sent = 0, got = 0, total = 16 * MIB;
	uint32_t block[4096];

	(void)state;
	head_at(u);
	head_at(u2);
	fcntl(u, F_SETFL, O_NONBLOCK);
	while (got < total) {
		struct pollfd p = { .fd = u, .events = POLLOUT };
		ssize_t n = 0;

		while (n >= 0 && sent < total) {
			for (uint32_t i = 0; i < COUNT(block); i++)
				block[i] = (uint32_t)(sent / 4) + i;
			n = send(u, block, sizeof block - sent % sizeof block, MSG_NOSIGNAL);
			if (n > 0 && sent % sizeof block != 0)
				fail_msg("partial sends are not expected on this socket");
			sent += n > 0 ? (size_t)n : 0;
			if (n > 0 && (size_t)n < sizeof block)
				break;
		}
		assert_true(sent - got < 4 * MIB);
		put(u2, "tick");
		expect(w2, "tick");
		while (got < sent && (got < total)) {
			ssize_t m = recv(w, block, sizeof block, MSG_DONTWAIT);

			if (m <= 0)
				break;
			for (ssize_t i = 0; i < m; i++)
				if (((unsigned char *)block)[i] != ((((got + (size_t)i) / 4) >> (8 * ((got + (size_t)i) % 4))) & 0xff))
					fail_msg("byte %zu differs", got + (size_t)i);
			got += (size_t)m;
		}
		if (sent == total && got < total)
			poll(&(struct pollfd){ .fd = w, .events = POLLIN }, 1, 1000);
		else if (sent < total)
			poll(&p, 1, 10);
	}
	close(u);
	close(u2);
	assert_string_equal(rest(w), "");
	assert_string_equal(rest(w2), "");
}

static long resident_kb(void)
{
	long pages = 0, total = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f == NULL || fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f != NULL)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void test_idle_streams(void **state)
{
	struct rlimit lim;
	int n = 1000, *w, *u;
	long before;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &lim);
	if ((rlim_t)n > (lim.rlim_cur - 100) / 4)
		n = (int)((lim.rlim_cur - 100) / 4);
	w = calloc((size_t)n, sizeof *w);
	u = calloc((size_t)n, sizeof *u);
	before = resident_kb();
	for (int i = 0; i < n; i++) {
		w[i] = web("GET /" REST "\r\n");
		u[i] = agent();
		head_at(u[i]);
		put(u[i], "HTTP/1.1 200 OK\r\n\r\n");
		expect(w[i], "HTTP/1.1 200 OK\r\n\r\n");
	}
	printf("%d idle streams: %.1f kB each\n", n, (double)(resident_kb() - before) / n);
	assert_true(relay_links(F->relay) >= n);
	for (int i = 0; i < n; i++) {
		put(u[i], "x");
		expect(w[i], "x");
	}
	for (int i = 0; i < n; i++) {
		close(i % 2 ? u[i] : w[i]);
		assert_int_equal(recv(i % 2 ? w[i] : u[i], &(char){ 0 }, 1, 0), 0);
		close(i % 2 ? w[i] : u[i]);
	}
	while (relay_links(F->relay) != 0)
		sched_yield();
	free(w);
	free(u);
}

/* ---- throughput: a figure for the log, and every byte counted ---- */

static void bulk(void *ctx, struct h1_req *r)
{
	char *p = calloc(1, 65536), text[32];
	int64_t total = 0;
	ssize_t n;

	(void)ctx;
	if (h1_span_is(r->head->method, "GET")) {
		h1_begin(r, 200, "x", NULL);
		for (int i = 0; i < 256 * 16; i++)
			h1_write(r, p, 65536);
		h1_end(r);
	} else {
		while ((n = h1_read(r, p, 65536)) > 0)
			total += n;
		h1_reply(r, 200, "x", NULL, text, (size_t)snprintf(text, sizeof text, "%lld %d", (long long)total, n == 0));
	}
	free(p);
}

static double since(int64_t us)
{
	return 256.0 * US_PER_S / (double)(boot_us() - us);
}

static void upload(bool chunked)
{
	char *block = calloc(1, 65536 + 16);
	int64_t start = boot_us();
	int w = web(chunked ? "POST /" REST "Transfer-Encoding: chunked\r\n\r\n" : "POST /" REST "Content-Length: 268435456\r\n\r\n");

	memcpy(block, "10000\r\n", 7);
	memcpy(block + 7 + 65536, "\r\n", 2);
	for (int i = 0; i < 256 * 16; i++)
		assert_int_equal(send(w, chunked ? block : block + 8, chunked ? 65536 + 9 : 65536, MSG_NOSIGNAL), chunked ? 65536 + 9 : 65536);
	if (chunked)
		put(w, "0\r\n\r\n");
	assert_non_null(strstr(rest(w), "268435456 1"));
	printf("upload, %s: %.0f MiB/s\n", chunked ? "chunked" : "by length", since(start));
	free(block);
}

static void test_throughput(void **state)
{
	struct h1_server_opts opts = { 0 };
	struct h1_server *s;
	int64_t start, total = 0;
	char *p = malloc(65536);
	ssize_t n;
	int w;

	(void)state;
	assert_int_equal(h1_server_start(F->agent_fd, &opts, bulk, NULL, &s, &(struct err){ 0 }), 0);
	upload(false);
	upload(true);
	start = boot_us();
	w = web("GET /" REST "\r\n");
	while ((n = recv(w, p, 65536, 0)) > 0)
		total += n;
	printf("download: %.0f MiB/s\n", since(start));
	assert_true(total > 256LL * MIB);
	close(w);
	free(p);
	h1_server_stop(s);
}

/* ---- limits and the end, with a relay of their own ---- */

/* In the place of the one before; who connects waits until somebody serves it. */
static int listening(void)
{
	struct err e;
	int lfd;

	unlink(F->relay_path);
	lfd = h1_listen_unix(F->relay_path, 0600, -1, &e);
	assert_true(lfd >= 0);
	return lfd;
}

static struct relay *serving(const struct relay_opts *opts, int lfd)
{
	struct relay *r;
	struct err e;

	assert_int_equal(relay_start(&F->d, lfd, opts, &r, &e), 0);
	return r;
}

/* More than it may serve at once: refused, and heard out first. */
static void test_full(void **state)
{
	struct relay_opts opts = { .loops = 1, .max_links = 2, .head_timeout_s = PATIENCE_S, .linger_timeout_s = PATIENCE_S };
	int lfd = listening(), a = dial(F->relay_path), b = dial(F->relay_path), c;
	struct relay *r = serving(&opts, lfd);
	const char *answer;

	(void)state;
	c = web("POST /x HTTP/1.1\r\n");                /* the rest of it comes later: the refusal waits for it */
	while (relay_links(r) != 3)
		sched_yield();
	put(c, &"POST /x" REST "Content-Length: 9\r\nOrigin: http://o\r\n\r\n"[sizeof "POST /x HTTP/1.1\r\n" - 1]);
	put(c, "some body");
	answer = rest(c);
	assert_int_equal(strncmp(answer, "HTTP/1.1 503 ", 13), 0);
	assert_non_null(strstr(answer, "Access-Control-Allow-Origin: *"));
	assert_non_null(strstr(answer, "\"code\":503"));
	relay_stop(r, 0);
	assert_string_equal(rest(a), "");
	assert_string_equal(rest(b), "");
	close(lfd);
}

static void test_times(void **state)
{
	struct relay_opts opts = { .loops = 1, .head_timeout_s = 1, .linger_timeout_s = 1 };
	int lfd = listening(), a = web("GET / HTTP/1.1\r\n"), b = dial(F->relay_path), c = web("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
	int d = web("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf");
	struct relay *r = serving(&opts, lfd);          /* its times begin when all have said what they have to say */

	(void)state;
	assert_int_equal(strncmp(rest(a), "HTTP/1.1 408 ", 13), 0);
	assert_string_equal(rest(b), "");               /* never said anything */
	assert_int_equal(strncmp(rest(d), "HTTP/1.1 400 ", 13), 0);     /* refused, though the rest never came */
	expect(c, "HTTP/1.1 400 ");                     /* reads the refusal but does not hang up */
	while (recv(c, &(char){ 0 }, 1, 0) == 1)
		;
	while (relay_links(r) != 0)
		sched_yield();
	close(c);
	relay_stop(r, 0);
	close(lfd);
}

static void *stop_later(void *r)
{
	relay_stop(r, PATIENCE_S);
	return NULL;
}

static void test_stop(void **state)
{
	struct relay_opts opts = { .head_timeout_s = PATIENCE_S, .linger_timeout_s = PATIENCE_S };
	int lfd = listening(), w, u, idle;
	struct relay *r = serving(&opts, lfd);
	pthread_t t;

	(void)state;
	w = web("GET /" REST "\r\n");
	u = agent();
	head_at(u);
	idle = dial(F->relay_path);
	while (relay_links(r) != 2)                     /* one that is still to be accepted would wait for who comes next */
		sched_yield();
	assert_int_equal(pthread_create(&t, NULL, stop_later, r), 0);
	assert_string_equal(rest(idle), "");            /* it is stopping */
	put(u, "still here");
	expect(w, "still here");
	close(u);
	assert_string_equal(rest(w), "");
	pthread_join(t, NULL);
	close(lfd);

	lfd = listening();
	r = serving(&opts, lfd);
	w = web("GET /" REST "\r\n");
	u = agent();
	head_at(u);
	relay_stop(r, 0);
	assert_string_equal(rest(u), "");
	assert_string_equal(rest(w), "");
	close(lfd);
}

/* ---- set-up ---- */

static void put_row(struct store *st)
{
	struct sandbox_rec r = { .state = SB_RUNNING, .id = ID, .mask_host = (char *)(uintptr_t)"app.example:${PORT}",
				 .machine = "sb_running", .created_us = 1, .started_us = 1, .end_us = INT64_MAX,
		.due_us = 2, .team = "11111111-1111-4111-8111-111111111111", .template_id = "tttttttttttttttttttt" };
	struct txn *t;
	struct err e;

	assert_int_equal(txn_write(st, &t, &e), 0);
	assert_int_equal(store_sandbox_put(t, NULL, &r, &e), 0);
	assert_int_equal(txn_commit(t, &e), 0);
}

static _Atomic int64_t real_time;

static int start(void **state)
{
	static struct fixture f = { .dir = "/tmp/hutch-relay-XXXXXX", .pool = { .ops = &fake_ops }, .user_fd = -1 };
	struct relay_opts opts = { .head_timeout_s = PATIENCE_S, .linger_timeout_s = PATIENCE_S };
	struct rlimit lim;
	char path[128];
	struct err e;

	F = &f;
	*state = &f;
	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	if (mkdtemp(f.dir) == NULL || pipe2(gate, O_CLOEXEC) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/db", f.dir);
	if (store_open(path, 16, &f.d.store, &e) < 0)
		return -1;
	f.d.clock = &real_time;
	f.conf.run_dir = f.dir;
	f.conf.domain = (char *)(uintptr_t)"example.com";
	f.conf.profile = (char *)(uintptr_t)"full";
	f.d.conf = &f.conf;
	f.d.pool = &f.pool;
	put_row(f.d.store);
	snprintf(path, sizeof path, "%s/sb", f.dir);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/sb/sb_running", f.dir);
	mkdir(path, 0700);
	snprintf(f.agent_path, sizeof f.agent_path, "%s/sb/sb_running/49983", f.dir);
	snprintf(f.user_path, sizeof f.user_path, "%s/sb/sb_running/3000", f.dir);
	snprintf(f.relay_path, sizeof f.relay_path, "%s/relay.sock", f.dir);
	f.agent_fd = h1_listen_unix(f.agent_path, 0600, -1, &e);
	f.listen_fd = h1_listen_unix(f.relay_path, 0600, -1, &e);
	return f.agent_fd < 0 || f.listen_fd < 0 ? -1 : relay_start(&f.d, f.listen_fd, &opts, &f.relay, &e);
}

static int stop(void **state)
{
	struct fixture *f = *state;
	static const char *const leftovers[] = { "db/data.mdb", "db/lock.mdb", "db", "sb/sb_running/49983", "sb/sb_running/49983.away",
		"sb/sb_running/3000", "sb/sb_running", "sb", "relay.sock", "" };
	char path[128];

	relay_stop(f->relay, 0);
	close(f->listen_fd);
	close(f->agent_fd);
	store_close(f->d.store);
	for (size_t i = 0; i < COUNT(leftovers); i++) {
		snprintf(path, sizeof path, "%s/%s", f->dir, leftovers[i]);
		remove(path);
	}
	return access(f->dir, F_OK) == 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_one_request),
		cmocka_unit_test(test_malformed_body),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_preflight),
		cmocka_unit_test(test_large_head),
		cmocka_unit_test(test_refusal_last),
		cmocka_unit_test(test_refusal_midway),
		cmocka_unit_test(test_refused_upload),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_path_form),
		cmocka_unit_test(test_tunnel),
		cmocka_unit_test(test_slow_node),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_early_answer),
		cmocka_unit_test(test_slow_client),
		cmocka_unit_test(test_idle_streams),
		cmocka_unit_test(test_throughput),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests_name("relay", tests, start, stop);
}
