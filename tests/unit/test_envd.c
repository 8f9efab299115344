/* The agent's plain HTTP, identity, control socket and forwarded ports, on the real program. */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "envd_client.h"
#include "hutch/h1.h"
#include "hutch/json.h"
#include "hutch/envd.h"

static struct envd envd;
static struct stream st;
static struct outcome out;

static int start_open(void **state)
{
	(void)state;
	envd_start(&envd, false);
	return 0;
}

static int start_guarded(void **state)
{
	(void)state;
	envd_start(&envd, true);
	return 0;
}

static int stop_agent(void **state)
{
	(void)state;
	envd_stop(&envd);
	return 0;
}

static void expect(const char *method, const char *target, const char *fields, const char *body, int status, const char *want)
{
	struct answer a;

	envd_call(&envd, method, target, fields, body, &a);
	if (a.status != status || (want != NULL && strcmp(buf_str(&a.body), want) != 0))
		fail_msg("%s %s: %d %s\n%s", method, target, a.status, a.head, buf_str(&a.body));
	answer_release(&a);
}

static void expect_line(const char *method, const char *target, const char *fields, const char *body, int status, const char *line)
{
	struct answer a;

	envd_call(&envd, method, target, fields, body, &a);
	if (a.status != status || !answer_has(&a, line))
		fail_msg("%s %s: %d, no %s in\n%s", method, target, a.status, line, a.head);
	answer_release(&a);
}

#define JSON_TYPE "Content-Type: application/json\r\n"


/* ---- routes ---- */

static void test_routes(void **state)
{
	(void)state;
	expect_line("GET", "/health", "", "", 204, "Cache-Control: no-store");
	expect("GET", "/nope", "", "", 404, "{\"code\":404,\"message\":\"no such route\"}\n");
	expect("POST", "/process.Process/Nope", JSON_TYPE, "{}", 404, NULL);
	expect_line("PUT", "/files", "", "", 405, "Allow: GET, POST");
	expect_line("DELETE", "/health", "", "", 405, "Allow: GET");
	expect_line("GET", "/process.Process/List", "", "", 405, "Allow: POST");
	expect_line("POST", "/process.Process/List", "Content-Type: application/proto\r\n", "", 415,
		    "Accept-Post: application/json, application/connect+json");
	expect_line("POST", "/process.Process/Start", JSON_TYPE, "{}", 415, "Accept-Post: application/json, application/connect+json");
	expect("POST", "/process.Process/List", "", "{}", 415, NULL);
	expect("POST", "/process.Process/List", "Content-Type: application/json; charset=utf-8\r\n", "{}", 200, "{\"processes\":[]}");
	expect("POST", "/process.Process/List", JSON_TYPE "Content-Encoding: identity\r\n", "{}", 200, NULL);
	expect("POST", "/process.Process/List", JSON_TYPE "Content-Encoding: gzip\r\n", "{}", 501, NULL);
	expect("POST", "/process.Process/List", JSON_TYPE "Connect-Protocol-Version: 2\r\n", "{}", 400, NULL);
	expect("POST", "/process.Process/List", JSON_TYPE "Connect-Timeout-Ms: 5s\r\n", "{}", 400,
	       "{\"code\":\"invalid_argument\",\"message\":\"protocol error: invalid timeout \\\"5s\\\"\"}");
	expect("POST", "/process.Process/List", JSON_TYPE "Connect-Timeout-Ms: 12345678901\r\n", "{}", 400, NULL);
	expect("POST", "/process.Process/List", JSON_TYPE, "{", 400, NULL);
	expect("POST", "/process.Process/List", JSON_TYPE, "7", 400, NULL);
}

static void test_metrics(void **state)
{
	static const char *const names[] = { "ts", "cpu_count", "mem_total", "mem_used", "disk_used", "disk_total", "mem_total_mib" };
	json_object *o = NULL, *v;
	struct answer a;
	struct err e;

	(void)state;
	envd_call(&envd, "GET", "/metrics", "", "", &a);
	assert_int_equal(a.status, 200);
	assert_int_equal(json_read_object(buf_str(&a.body), a.body.len, &o, &e), 0);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		assert_true(json_object_object_get_ex(o, names[i], &v));
		assert_true(json_object_get_int64(v) > 0);
	}
	assert_true(json_object_object_get_ex(o, "cpu_used_pct", &v));
	assert_true(json_object_get_double(v) >= 0 && json_object_get_double(v) <= 100);
	json_object_put(o);
	answer_release(&a);
}

static void test_cors(void **state)
{
	struct answer a;

	(void)state;
	envd_call(&envd, "OPTIONS", "/process.Process/Start",
		  "Origin: https://x.test\r\nAccess-Control-Request-Method: POST\r\n"
		  "Access-Control-Request-Headers: x-access-token,connect-protocol-version\r\n", "", &a);
	assert_int_equal(a.status, 204);
	assert_true(answer_has(&a, "Access-Control-Allow-Origin: *"));
	assert_true(answer_has(&a, "Access-Control-Allow-Headers: x-access-token,connect-protocol-version"));
	assert_true(answer_has(&a, "Access-Control-Allow-Methods: HEAD, GET, POST, PUT, PATCH, DELETE"));
	assert_true(answer_has(&a, "Access-Control-Max-Age: 7200"));
	answer_release(&a);
	expect_line("GET", "/nope", "Origin: https://x.test\r\n", "", 404, "Access-Control-Allow-Origin: *");
	expect_line("GET", "/health", "Origin: https://x.test\r\n", "", 204, "Vary: Origin");
	expect("OPTIONS", "/health", "", "", 405, NULL);
	envd_call(&envd, "GET", "/health", "", "", &a);
	assert_null(strstr(a.head, "Access-Control"));
	answer_release(&a);
}

/* "nobody-here:" */
#define UNKNOWN_USER "Authorization: Basic bm9ib2R5LWhlcmU6\r\n"

static void test_unknown_user(void **state)
{
	static const char text[] = "{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'nobody-here'\"}";

	(void)state;
	expect("GET", "/health", UNKNOWN_USER, "", 401, text);
	expect("GET", "/nope", UNKNOWN_USER, "", 401, text);
	expect("POST", "/process.Process/List", JSON_TYPE UNKNOWN_USER, "{}", 401, text);
	stream_open(&st, &envd, "Start", UNKNOWN_USER, "{\"process\":{\"cmd\":\"ls\"}}");
	stream_outcome(&st, &out);
	assert_string_equal(out.last, "{\"error\":{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'nobody-here'\"}}");
	outcome_release(&out);
	expect("GET", "/health", "Authorization: Bearer xyz\r\n", "", 204, NULL);
	expect("GET", "/health", "Authorization: Basic !!!\r\n", "", 204, NULL);
}

/* ---- POST /init ---- */

#define TOKEN "X-Access-Token: t1\r\n"
#define NO_TOKEN "{\"code\":401,\"message\":\"unauthorized access, please provide a valid access token or method signing if supported\"}\n"

static void test_init_bad(void **state)
{
	static const char *const bodies[] = {
		"{", "[]", "{\"accessToken\":\"\"}", "{\"accessToken\":\"a\\\\b\"}", "{\"accessToken\":7}", "{\"envVars\":[]}",
		"{\"envVars\":{\"A\":7}}", "{\"envVars\":{\"A=\":\"x\"}}", "{\"timestamp\":\"yesterday\"}",
		"{\"volumeMounts\":[{\"path\":\"/x\"}]}", "{\"volumeMounts\":{}}", "{\"hyperloopIP\":\"10.0.0\"}",
		"{\"hyperloopIP\":\"10.0.0.1 evil\"}", "{\"hyperloopIP\":7}", "{\"caBundle\":\"x\"}", "{\"caBundle\":[]}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
		expect_line("POST", "/init", "", bodies[i], 400, "X-Envd-Version: " ENVD_VERSION);
	expect_line("POST", "/init", "", "", 204, "X-Envd-Version: " ENVD_VERSION);
}

static void test_init_token(void **state)
{
	(void)state;
	expect("POST", "/init", "", "{\"accessToken\":\"t1\",\"envVars\":{\"A\":\"1\",\"E2B_SANDBOX\":\"no\"}}", 204, NULL);
	expect("GET", "/envs", "", "", 401, NO_TOKEN);
	expect("GET", "/envs", "X-Access-Token: t2\r\n", "", 401, NO_TOKEN);
	expect("GET", "/envs", TOKEN, "", 200, "{\"A\":\"1\",\"E2B_SANDBOX\":\"true\"}");
	expect("GET", "/nope", "", "", 401, NO_TOKEN);
	expect("GET", "/health", "", "", 204, NULL);
	expect("POST", "/process.Process/List", JSON_TYPE, "{}", 401, NO_TOKEN);
	expect("POST", "/process.Process/List", JSON_TYPE TOKEN, "{}", 200, NULL);
	expect("POST", "/files/compose", JSON_TYPE, "{}", 401, NO_TOKEN);
	expect_line("POST", "/init", "", "{}", 401, "X-Envd-Version: " ENVD_VERSION);
	expect("POST", "/init", "", "{\"accessToken\":\"t2\"}", 401, NULL);
	expect("POST", "/init", "", "{\"accessToken\":\"t1\"}", 204, NULL);     /* the environment stays */
	expect("GET", "/envs", TOKEN, "", 200, "{\"A\":\"1\",\"E2B_SANDBOX\":\"true\"}");
}

/* After test_init_token, whose token is set. */
static void test_init_order(void **state)
{
	(void)state;
	expect("POST", "/init", "", "{\"accessToken\":\"t1\",\"envVars\":{\"B\":\"2\"},\"timestamp\":\"2026-01-02T00:00:00Z\"}", 204, NULL);
	expect("POST", "/init", "", "{\"accessToken\":\"t1\",\"envVars\":{\"C\":\"3\"},\"timestamp\":\"2026-01-01T00:00:00Z\"}", 204, NULL);
	expect("POST", "/init", "", "{\"accessToken\":\"t1\",\"envVars\":{\"C\":\"3\"},\"timestamp\":\"2026-01-02T00:00:00Z\"}", 204, NULL);
	expect("GET", "/envs", TOKEN, "", 200, "{\"B\":\"2\",\"E2B_SANDBOX\":\"true\"}");
	expect("POST", "/init", "", "{\"accessToken\":\"t1\",\"envVars\":{},\"timestamp\":\"2026-01-02T00:00:01Z\"}", 204, NULL);
	expect("GET", "/envs", TOKEN, "", 200, "{\"E2B_SANDBOX\":\"true\"}");
}

static void test_env_order(void **state)
{
	(void)state;
	expect("POST", "/init", "", "{\"accessToken\":\"t1\",\"envVars\":{\"A\":\"init\",\"B\":\"init\",\"PATH\":\"/bin:/usr/bin\"}}", 204, NULL);
	run_request(&envd, TOKEN, "{\"process\":{\"cmd\":\"sh\",\"args\":[\"-c\",\"echo $A $B $PATH $E2B_SANDBOX\"],"
		    "\"envs\":{\"B\":\"own\",\"E2B_SANDBOX\":\"own\"}}}", &out);
	assert_string_equal(buf_str(&out.out), "init own /bin:/usr/bin own\n");
	outcome_release(&out);
}

/* ---- control socket ---- */

static void ctl(const char *line, const char *want)
{
	assert_string_equal(envd_ctl(&envd, line, -1), want);
}

static void test_reserved(void **state)
{
	static const char text[] = "{\"code\":404,\"message\":\"This endpoint is reserved for the E2B control plane and is not reachable "
		"through the sandbox URL\",\"path\":\"/init\"}\n";

	(void)state;
	expect("POST", "/init", "", "{}", 404, text);
	expect("GET", "/init", "", "", 404, text);
	expect("POST", "/%69nit", "", "", 404, text);
	expect("POST", "//x/..//init/", "", "", 404, text);
	expect("POST", "/freeze", "", "", 404, NULL);
	expect("GET", "/initial", "", "", 404, "{\"code\":404,\"message\":\"no such route\"}\n");
}

static void test_ctl_init(void **state)
{
	(void)state;
	ctl("{\"op\":\"ping\"}", "{\"ok\":true,\"version\":\"" ENVD_VERSION "\"}");
	ctl("{\"op\":\"init\",\"sandboxId\":\"iabc\",\"templateId\":\"tdef\",\"accessToken\":\"t1\",\"envVars\":{\"A\":\"1\"}}", "{\"ok\":true}");
	expect("GET", "/envs", "", "", 401, NULL);
	expect("GET", "/envs", TOKEN, "", 200,
	       "{\"A\":\"1\",\"E2B_SANDBOX\":\"true\",\"E2B_SANDBOX_ID\":\"iabc\",\"E2B_TEMPLATE_ID\":\"tdef\"}");
	ctl("{\"op\":\"init\",\"sandboxId\":\"iabc\",\"defaultWorkdir\":\"/etc\",\"cpuCount\":2,\"memoryMB\":512}", "{\"ok\":true}");
	expect("GET", "/envs", "", "", 200, "{\"E2B_SANDBOX\":\"true\",\"E2B_SANDBOX_ID\":\"iabc\",\"E2B_TEMPLATE_ID\":\"tdef\"}");
	run_script(&envd, "pwd", &out);
	assert_string_equal(buf_str(&out.out), "/etc\n");
	outcome_release(&out);
	ctl("{\"op\":\"init\",\"defaultUser\":7}", "{\"ok\":false,\"message\":\"defaultUser must be a string\"}");
	assert_memory_equal(envd_ctl(&envd, "nonsense", -1), "{\"ok\":false,\"message\":\"malformed JSON", 37);
}

/* It runs, once, in a session of its own; no client sees it. */
static void test_start_command(void **state)
{
	char line[512];
	struct answer a;

	(void)state;
	ctl("{\"op\":\"ready\"}", "{\"ok\":true}");
	snprintf(line, sizeof line, "{\"op\":\"start\",\"command\":[\"/bin/sh\",\"-c\",\"exec >%s/started; ps -o sid= -p $$ | tr -d ' '; echo $$; "
		 "mv %s/started %s/done; exec sleep 60\"],\"readyPort\":1}", envd.dir, envd.dir, envd.dir);
	ctl(line, "{\"ok\":true}");
	ctl(line, "{\"ok\":false,\"message\":\"the start command runs already\"}");
	ctl("{\"op\":\"ready\"}", "{\"ok\":false,\"message\":\"nothing answers at port 1 yet\"}");
	envd_unary(&envd, "List", "{}", &a);
	assert_string_equal(buf_str(&a.body), "{\"processes\":[]}");
	answer_release(&a);
	snprintf(line, sizeof line, "until [ -e %s/done ]; do sleep 0.02; done; uniq %s/done | wc -l; kill $(tail -n 1 %s/done); rm %s/done",
		 envd.dir, envd.dir, envd.dir, envd.dir);
	run_script(&envd, line, &out);
	assert_string_equal(buf_str(&out.out), "1\n");
	outcome_release(&out);
}

static void test_limits_in_metrics(void **state)
{
	struct answer a;

	(void)state;    /* after test_ctl_init */
	envd_call(&envd, "GET", "/metrics", "", "", &a);
	assert_non_null(strstr(buf_str(&a.body), "\"cpu_count\":2,"));
	assert_non_null(strstr(buf_str(&a.body), "\"mem_total\":536870912,"));
	answer_release(&a);
}

/* A line over the bound ends the connection, nothing else. */
static void test_ctl_long_line(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char junk[65536], c;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	memset(junk, 'x', sizeof junk);
	snprintf(a.sun_path, sizeof a.sun_path, "%s/ctl", envd.dir);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	while (send(fd, junk, sizeof junk, MSG_NOSIGNAL) > 0)
		;
	assert_true(recv(fd, &c, 1, 0) <= 0);
	close(fd);
	ctl("{\"op\":\"ping\"}", "{\"ok\":true,\"version\":\"" ENVD_VERSION "\"}");
}

/* ---- forwarded ports ---- */

/* A server socket on loopback, bound and perhaps listening; its port. */
static int serve_on(int family, int *port, bool listening)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr *to = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t n = family == AF_INET ? sizeof v4 : sizeof v6;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, to, n) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	assert_int_equal(getsockname(fd, to, &n), 0);
	*port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	if (listening)
		assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* Hand the agent a listener for the port; a connection to it. */
static int forwarded(int port)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = ENVD_PATIENCE_S };
	struct err e;
	char line[64];
	int fd;

	snprintf(a.sun_path, sizeof a.sun_path, "%s/%d", envd.dir, port);
	fd = h1_listen_unix(a.sun_path, 0600, -1, &e);
	assert_true(fd >= 0);
	snprintf(line, sizeof line, "{\"op\":\"listen\",\"port\":%d}", port);
	assert_int_equal(strncmp(envd_ctl(&envd, line, fd), "{\"ok\":true", 10), 0);
	close(fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	unlink(a.sun_path);
	return fd;
}

static size_t read_to_end(int fd, char *p, size_t max)
{
	size_t n = 0;
	ssize_t got;

	while (n + 1 < max && (got = recv(fd, p + n, max - 1 - n, 0)) > 0)
		n += (size_t)got;
	p[n] = '\0';
	return n;
}

static void check_forward(int family)
{
	static char sent[300000], got[300001];
	int port, server = serve_on(family, &port, true), client, conn;
	pid_t writer;

	if (server < 0)
		return;                 /* no IPv6 here */
	client = forwarded(port);
	conn = accept(server, NULL, NULL);
	assert_true(conn >= 0);
	for (size_t i = 0; i < sizeof sent; i++)
		sent[i] = (char)(i * 7 + i / 251);
	/* both ways, more than any buffer on the way, with a half-close as its end */
	writer = fork();
	if (writer == 0) {
		for (size_t i = 0; i < sizeof sent;) {
			ssize_t n = send(client, sent + i, sizeof sent - i, MSG_NOSIGNAL);

			if (n <= 0)
				_exit(1);
			i += (size_t)n;
		}
		shutdown(client, SHUT_WR);
		_exit(0);
	}
	assert_int_equal(read_to_end(conn, got, sizeof got), sizeof sent);
	assert_memory_equal(got, sent, sizeof sent);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	assert_int_equal(send(conn, "answer", 6, MSG_NOSIGNAL), 6);
	close(conn);
	assert_int_equal(read_to_end(client, got, sizeof got), 6);
	assert_string_equal(got, "answer");
	close(client);
	close(server);
}

static void test_forward(void **state)
{
	(void)state;
	check_forward(AF_INET);
	check_forward(AF_INET6);
}

/* A client that leaves takes its connection to the server along. */
static void test_forward_hangup(void **state)
{
	int port, server = serve_on(AF_INET, &port, true), client = forwarded(port), conn = accept(server, NULL, NULL);
	char c;

	(void)state;
	assert_int_equal(send(conn, "x", 1, MSG_NOSIGNAL), 1);
	assert_int_equal(recv(client, &c, 1, 0), 1);
	close(client);
	assert_true(recv(conn, &c, 1, 0) <= 0);
	close(conn);
	close(server);
}

static void expect_closed(int port, const char *request, const char *type, const char *part)
{
	int fd = forwarded(port);
	char got[4096];

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	read_to_end(fd, got, sizeof got);
	assert_memory_equal(got, "HTTP/1.1 502 Bad Gateway\r\n", 26);
	assert_non_null(strstr(got, type));
	if (strstr(got, part) == NULL)
		fail_msg("no %s in %s", part, got);
	close(fd);
}

/* A browser asks before the request that will be refused. */
static void expect_preflight(int port)
{
	static const char ask[] = "OPTIONS / HTTP/1.1\r\nHost: x\r\nOrigin: https://x.test\r\nAccess-Control-Request-Method: PUT\r\n"
		"Access-Control-Request-Headers: x-a\r\n\r\n";
	int fd = forwarded(port);
	char got[4096];

	assert_int_equal(send(fd, ask, strlen(ask), MSG_NOSIGNAL), (ssize_t)strlen(ask));
	read_to_end(fd, got, sizeof got);
	assert_memory_equal(got, "HTTP/1.1 204 No Content\r\n", 25);
	assert_non_null(strstr(got, "\r\nAccess-Control-Allow-Methods: HEAD, GET, POST, PUT, PATCH, DELETE\r\n"));
	assert_non_null(strstr(got, "\r\nAccess-Control-Allow-Headers: x-a\r\nConnection: close\r\n\r\n"));
	close(fd);
}

/* The refusal follows the body's end. */
static void expect_refused_last(int port)
{
	static const char *const parts[] = { "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nha", "lf\r\n", "0\r\n\r\n" };
	int fd = forwarded(port);
	char got[4096];

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 50), 0);
		assert_int_equal(send(fd, parts[i], strlen(parts[i]), MSG_NOSIGNAL), (ssize_t)strlen(parts[i]));
	}
	read_to_end(fd, got, sizeof got);
	assert_memory_equal(got, "HTTP/1.1 502 Bad Gateway\r\n", 26);
	close(fd);
}

static void test_closed_port(void **state)
{
	int port, server = serve_on(AF_INET, &port, false);
	char part[256];

	(void)state;
	ctl("{\"op\":\"init\",\"sandboxId\":\"iabc\"}", "{\"ok\":true}");
	snprintf(part, sizeof part, "\r\n\r\n{\"sandboxId\":\"iabc\",\"message\":\"The sandbox is running but port is not open\",\"port\":%d,"
		 "\"code\":502}", port);
	expect_closed(port, "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: node\r\n\r\n", "application/json; charset=utf-8", part);
	/* a body that does not come whole does not cost the answer */
	expect_closed(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nbegin", "application/json; charset=utf-8", part);
	expect_closed(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nbegin", "application/json; charset=utf-8", part);
	expect_refused_last(port);
	expect_closed(port, "GET / HTTP/1.1\r\nHost: x\r\nOrigin: https://x.test\r\n\r\n", "\r\nAccess-Control-Allow-Origin: *\r\nVary: Origin\r\n", part);
	expect_closed(port, "OPTIONS / HTTP/1.1\r\nHost: x\r\nOrigin: https://x.test\r\n\r\n", "\r\nAccess-Control-Allow-Origin: *\r\n", part);
	expect_preflight(port);
	snprintf(part, sizeof part, "no service running on port <code>%d</code>.</p></body></html>", port);
	expect_closed(port, "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0 Firefox/130.0\r\nAccept: text/html\r\n\r\n",
		      "text/html; charset=utf-8", part);
	close(server);
}

/* Serve one more port; the port that was given up for it, or 0. */
static int listen_at(int port)
{
	char path[128], line[64], closed[64];
	const char *answer;
	struct err e;
	int fd, got = 0;

	snprintf(path, sizeof path, "%s/more", envd.dir);
	fd = h1_listen_unix(path, 0600, -1, &e);
	assert_true(fd >= 0);
	unlink(path);
	snprintf(line, sizeof line, "{\"op\":\"listen\",\"port\":%d}", port);
	answer = envd_ctl(&envd, line, fd);
	close(fd);
	if (sscanf(answer, "{\"ok\":true,\"closed\":%d}", &got) != 1)
		assert_string_equal(answer, "{\"ok\":true}");
	snprintf(closed, sizeof closed, "%d", got);
	return got;
}

/* Of too many ports the one of the least use is given up: a closed one first, then the one whose last connection is the oldest. */
static void test_many_ports(void **state)
{
	int port, server = serve_on(AF_INET, &port, true), closed_port, closed = serve_on(AF_INET, &closed_port, false), given_up = 0;

	(void)state;
	for (int i = 1; i <= 300; i++) {
		int other = listen_at(i);

		assert_int_not_equal(other, port);
		given_up += other != 0;
		if (i % 20 == 0) {
			int client = forwarded(port), conn = accept(server, NULL, NULL);

			assert_true(conn >= 0);
			close(conn);
			close(client);
		}
	}
	assert_in_range(given_up, 170, 180);
	expect_closed(closed_port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "application/json", "\"code\":502");
	assert_int_equal(listen_at(301), closed_port);
	close(closed);
	close(server);
}

/* A server that listens only after the client has connected. False: the client got the refusal first. */
static bool opens_in_time(void)
{
	int port, server = serve_on(AF_INET, &port, false), client = forwarded(port), conn;
	struct pollfd p[2] = { { .fd = server, .events = POLLIN }, { .fd = client, .events = POLLIN } };
	bool served;
	char got[16];

	assert_int_equal(listen(server, 16), 0);
	assert_true(poll(p, 2, ENVD_PATIENCE_S * 1000) > 0);
	served = (p[0].revents & POLLIN) != 0;
	if (served) {
		conn = accept(server, NULL, NULL);
		assert_int_equal(send(conn, "up", 2, MSG_NOSIGNAL), 2);
		close(conn);
		assert_int_equal(read_to_end(client, got, sizeof got), 2);
	}
	close(client);
	close(server);
	return served;
}

/* A server that comes up a moment later is waited for: for a second, and on a busy machine this one may not be quicker every time. */
static void test_port_opens(void **state)
{
	int tries = 1;

	(void)state;
	while (!opens_in_time())
		assert_true(tries++ < 30);
}

int main(void)
{
	const struct CMUnitTest open_tests[] = {
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_cors),
		cmocka_unit_test(test_unknown_user),
		cmocka_unit_test(test_init_bad),
		cmocka_unit_test(test_init_token),
		cmocka_unit_test(test_init_order),
		cmocka_unit_test(test_env_order),
	};
	const struct CMUnitTest guarded_tests[] = {
		cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_ctl_init),
		cmocka_unit_test(test_start_command),
		cmocka_unit_test(test_limits_in_metrics),
		cmocka_unit_test(test_ctl_long_line),
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_forward_hangup),
		cmocka_unit_test(test_closed_port), cmocka_unit_test(test_many_ports),
		cmocka_unit_test(test_port_opens),
	};
	int failed = cmocka_run_group_tests(open_tests, start_open, stop_agent);

	return failed + cmocka_run_group_tests(guarded_tests, start_guarded, stop_agent);
}
