/*
 * The programs as a web server runs them: each case once as plain CGI (fork, environment, pipes) and once over FastCGI,
 * on real records, with no node there.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "fcgi_client.h"
#include "hutch/h1.h"

static char dir[] = "/tmp/hutch-responder-XXXXXX";
static char conf_path[128], key[64];
static char admin[128], team_id[64], bearer[80];

struct request {
	const char *program, *method, *uri;
	const char *body;                /* NULL: none */
	const char *more[9];             /* further variables: name, value, ..., NULL */
};

/* ---- running programs ---- */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void program_path(const char *name, char out[4096])
{
	snprintf(out, 4096, "%s/%s", BUILDDIR, name);
}

/* Standard output of a program with the given input; its exit status. env: name, value, ..., NULL. */
static int run(char *const *argv, const char *const *env, const char *in, size_t n, struct buf *out)
{
	char path[4096];
	int to[2], from[2], status;
	ssize_t got;
	pid_t pid;

	program_path(argv[0], path);
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (; env != NULL && *env != NULL; env += 2)
			setenv(env[0], env[1], 1);
		setenv("HUTCH_CONFIG", conf_path, 1);
		dup2(to[0], 0);
		dup2(from[1], 1);
		execv(path, argv);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	for (size_t at = 0; at < n && (got = write(to[1], in + at, n - at)) > 0;)
		at += (size_t)got;
	close(to[1]);
	while (buf_room(out, 4096) != NULL && (got = read(from[0], out->p + out->len, 4096)) > 0) {
		out->len += (size_t)got;
		out->p[out->len] = '\0';
	}
	close(from[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct server {
	pid_t pid;
	char socket[64];
};

/* A responder on a listening socket, as spawn-fcgi starts it. The socket is there before the program, so nobody waits. */
static struct server start(const char *program, const char *threads)
{
	struct server s;
	struct err e;
	char path[4096];
	int fd;

	snprintf(s.socket, sizeof s.socket, "%s/%s.sock", dir, program);
	fd = h1_listen_unix(s.socket, 0600, -1, &e);
	assert_true(fd >= 0);
	program_path(program, path);
	s.pid = fork();
	assert_true(s.pid >= 0);
	if (s.pid == 0) {
		dup2(fd, 0);
		execl(path, path, "-c", conf_path, "-t", threads, (char *)NULL);
		_exit(127);
	}
	close(fd);
	return s;
}

static int stop(const struct server *s)
{
	int status;

	kill(s->pid, SIGTERM);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- one request ---- */

#define ENV_SLOTS 24

static void environment(const struct request *r, const char *env[ENV_SLOTS], char length[24])
{
	size_t n = 0;

	env[n++] = "GATEWAY_INTERFACE";
	env[n++] = "CGI/1.1";
	env[n++] = "REQUEST_METHOD";
	env[n++] = r->method;
	env[n++] = "REQUEST_URI";
	env[n++] = r->uri;
	if (r->body != NULL) {
		snprintf(length, 24, "%zu", strlen(r->body));
		env[n++] = "CONTENT_LENGTH";
		env[n++] = length;
	}
	for (const char *const *p = r->more; *p != NULL; p++)
		env[n++] = *p;
	env[n] = NULL;
}

static void ask_cgi(const struct request *r, struct buf *out)
{
	/* what a query without "=" would be turned into by some servers: it must not be read */
	char *argv[] = { (char *)(uintptr_t)r->program, (char *)(uintptr_t)"-h", NULL };
	const char *env[ENV_SLOTS];
	char length[24];

	environment(r, env, length);
	assert_int_equal(run(argv, env, r->body, r->body != NULL ? strlen(r->body) : 0, out), 0);
}

static void ask_fcgi(const char *socket, const struct request *r, struct buf *out)
{
	const char *env[ENV_SLOTS];
	struct buf records;
	char length[24];
	int fd;

	environment(r, env, length);
	buf_init(&records, 1 << 24);
	fcgi_begin(&records, env, true);                 /* even when asked to, no connection is kept */
	if (r->body != NULL && r->body[0] != '\0')
		fcgi_record(&records, FCGI_STDIN, r->body, strlen(r->body));
	fcgi_record(&records, FCGI_STDIN, "", 0);
	fd = fcgi_open(socket, &records);
	assert_true(fd >= 0);
	assert_true(fcgi_answer(fd, out));
	buf_release(&records);
	close(fd);
}

static int status_of(const struct buf *out)
{
	assert_int_equal(strncmp(buf_str(out), "Status: ", 8), 0);
	return atoi(buf_str(out) + 8);
}

/* The body; its length must be what the head says. */
static const char *body_of(const struct buf *out)
{
	const char *end = strstr(buf_str(out), "\r\n\r\n"), *length = strstr(buf_str(out), "Content-Length: ");

	assert_non_null(end);
	if (status_of(out) == 204) {
		assert_null(length);
		assert_string_equal(end + 4, "");
	} else {
		assert_true(length != NULL && length < end);
		assert_int_equal(atoi(length + 16), strlen(end + 4));
	}
	return end + 4;
}

/* ---- cases ---- */

#define KEY "HTTP_X_API_KEY", key
#define ADMIN "HTTP_X_ADMIN_TOKEN", admin
#define TEAM "HTTP_X_TEAM_ID", team_id
#define BEARER "HTTP_AUTHORIZATION", bearer
#define SB "hutch-sandboxes"
#define EV "hutch-events"
#define T "sandbox.lifecycle."
#define EVS "[\"" T "paused\"]"
#define HOOK(name, url, events, secret) \
	"{\"name\":\"" name "\",\"url\":\"" url "\",\"events\":" events ",\"signatureSecret\":\"" secret "\"}"
#define TEMPLATE "{\"alias\":\"base\",\"image\":\"host\",\"public\":true,\"command\":[\"sleep\",\"9\"]}"

static const struct {
	struct request r;
	int status;
	const char *has;                 /* part of head or body */
} cases[] = {
	{ { SB, "GET", "/health", NULL, { NULL } }, 200, "Health check successful" },
	{ { SB, "HEAD", "/health", NULL, { NULL } }, 200, NULL },
	{ { SB, "GET", "/nowhere", NULL, { KEY } }, 404, "{\"code\":404,\"message\":\"" },
	{ { SB, "POST", "/sandboxes/i1/park", "{}", { KEY } }, 404, "is not served" },
	{ { SB, "POST", "/sandboxes/i1/pause", "{}", { KEY } }, 404, "doesn't exist or you don't have access to it" },
	{ { SB, "POST", "/sandboxes/i1/pause", NULL, { KEY } }, 404, "doesn't exist" },
	{ { SB, "POST", "/sandboxes/i1/pause", "{\"memory\":1}", { KEY } }, 400, "memory" },
	{ { SB, "POST", "/sandboxes/i1/resume", NULL, { KEY } }, 404, "doesn't exist" },
	{ { SB, "POST", "/sandboxes/i1/resume", "{\"timeout\":86401}", { KEY } }, 400, "Timeout cannot be greater than 24 hours" },
	{ { SB, "PUT", "/sandboxes", NULL, { KEY } }, 405, "Allow: POST, GET\r\n" },
	{ { SB, "GET", "/v2/sandboxes", NULL, { NULL } }, 401, "\"authorization header is missing\"" },
	{ { SB, "GET", "/v2/sandboxes", NULL, { "HTTP_X_API_KEY", "x" } }, 401, "\"authorization header is malformed\"" },
	{ { SB, "GET", "/v2/sandboxes", NULL, { "HTTP_X_API_KEY", "e2b_00" } }, 401, "Invalid API key" },
	{ { SB, "GET", "/v2/sandboxes", NULL, { KEY } }, 200, "X-Total-Running: 0\r\n" },
	{ { SB, "GET", "/sandboxes", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { SB, "GET", "/v2/sandboxes?template=unknown&limit=5", NULL, { KEY } }, 200, "X-Total-Running: 0\r\n" },
	{ { SB, "GET", "/v2/sandboxes?state=paused", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { SB, "GET", "/v2/sandboxes?template=a%3Ab", NULL, { KEY } }, 400, "Invalid template" },
	{ { SB, "GET", "/v2/sandboxes?template=%2F", NULL, { KEY } }, 400, "Invalid template" },
	{ { SB, "GET", "/v2/sandboxes?nextToken=x", NULL, { KEY } }, 400, "Invalid next token" },
	{ { SB, "GET", "/v2/sandboxes?limit=0", NULL, { KEY } }, 400, "limit" },
	{ { SB, "GET", "/sandboxes?metadata=", NULL, { KEY } }, 400, "metadata" },
	{ { SB, "GET", "/sandboxes/i123", NULL, { KEY } }, 404, "doesn't exist or you don't have access to it" },
	{ { SB, "GET", "/sandboxes/i12345678901234567890x", NULL, { KEY } }, 404, "doesn't exist" },
	{ { SB, "GET", "/sandboxes/..%2F..%2Fetc", NULL, { KEY } }, 400, "Invalid sandbox ID" },
	{ { SB, "GET", "/sandboxes/..", NULL, { KEY } }, 400, "Invalid sandbox ID" },
	{ { SB, "DELETE", "/sandboxes/i123-6532622b", NULL, { KEY } }, 404, "{\"code\":404," },
	{ { SB, "POST", "/sandboxes/i123/timeout", "{\"timeout\":5}", { KEY } }, 404, "{\"code\":404," },
	{ { SB, "POST", "/sandboxes/i123/timeout", "{\"timeout\":-5}", { KEY } }, 400, "timeout" },
	{ { SB, "POST", "/sandboxes/i123/timeout", "", { KEY } }, 400, "timeout is required" },
	{ { SB, "POST", "/sandboxes/i123/refreshes", "{\"duration\":3601}", { KEY } }, 400, "duration" },
	{ { SB, "POST", "/sandboxes/i123/refreshes", NULL, { KEY } }, 404, "{\"code\":404," },
	{ { SB, "POST", "/sandboxes/i123/connect", "{}", { KEY } }, 400, "timeout is required" },
	{ { SB, "POST", "/sandboxes/i123/connect", "{\"timeout\":86401}", { KEY } }, 400, "Timeout cannot be greater than 24 hours" },
	{ { SB, "POST", "/v2/sandboxes/i123/connect", NULL, { KEY } }, 404, "{\"code\":404," },
	{ { SB, "POST", "/sandboxes", "{\"templateID\":\"no such\"}", { KEY } }, 400, "Invalid template reference" },
	{ { SB, "POST", "/sandboxes", "{\"templateID\":\"nosuch\"}", { KEY } }, 404, "template 'nosuch' not found" },
	{ { SB, "POST", "/sandboxes", "{\"templateID\":\"base\",\"timeout\":86401}", { KEY } }, 400, "Timeout cannot be greater" },
	{ { SB, "POST", "/sandboxes", "{\"templateID\":\"base:v9\"}", { KEY } }, 404, "tag 'v9'" },
	{ { SB, "POST", "/sandboxes", "{", { KEY } }, 400, "malformed JSON" },
	{ { SB, "POST", "/v2/sandboxes", "{\"templateID\":\"base\",\"autoPauseMemory\":false}", { KEY } }, 400, "autoPauseMemory" },
	{ { SB, "POST", "/v2/sandboxes", "{\"templateID\":\"base\"}", { KEY } }, 503, "Failed to place sandbox" }, /* no node here */
	{ { SB, "GET", "/sandboxes", NULL, { KEY } }, 200, "\r\n\r\n[]" },           /* and nothing of it remains */
	{ { SB, "POST", "/sandboxes", "{\"templateID\":\"base\"}", { NULL } }, 401, "missing" },
	{ { SB, "POST", "/sandboxes", NULL, { KEY, "CONTENT_LENGTH", "5000000" } }, 413, "{\"code\":413," },
	{ { SB, "POST", "/sandboxes", NULL, { KEY, "CONTENT_LENGTH", "50" } }, 400, "the body ended early" },
	{ { SB, "POST", "/sandboxes", NULL, { KEY, "CONTENT_LENGTH", "five" } }, 400, "Content-Length" },
	{ { SB, "OPTIONS", "/v2/sandboxes", NULL, { "HTTP_ORIGIN", "http://a", "HTTP_ACCESS_CONTROL_REQUEST_METHOD", "POST" } }, 204,
	  "Access-Control-Allow-Origin: *\r\n" },
	{ { "hutch-teams", "GET", "/teams", NULL, { NULL } }, 401, "authorization header is missing" },
	{ { "hutch-teams", "GET", "/teams", NULL, { "HTTP_AUTHORIZATION", "Bearer sk_e2b_00" } }, 401, "Invalid Access token." },
	{ { "hutch-teams", "GET", "/teams", NULL, { "HTTP_AUTHORIZATION", "Bearer a.b.c" } }, 401, "Backend authentication failed" },
	{ { EV, "GET", "/events/sandboxes", NULL, { NULL } }, 401, "authorization header is missing" },
	{ { EV, "GET", "/events/sandboxes", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { EV, "GET", "/events/sandboxes?limit=100&offset=5&orderAsc=true", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { EV, "GET", "/events/sandboxes?types=" T "created&types=" T "killed", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { EV, "GET", "/events/sandboxes/i12345678901234567890", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { EV, "GET", "/events/sandboxes/i%2F1", NULL, { KEY } }, 400, "Invalid sandbox ID" },
	{ { EV, "GET", "/events/sandboxes?limit=101", NULL, { KEY } }, 400, "limit" },
	{ { EV, "GET", "/events/sandboxes?limit=0", NULL, { KEY } }, 400, "limit" },
	{ { EV, "GET", "/events/sandboxes?offset=-1", NULL, { KEY } }, 400, "offset" },
	{ { EV, "GET", "/events/sandboxes?orderAsc=1", NULL, { KEY } }, 400, "orderAsc" },
	{ { EV, "GET", "/events/sandboxes?types=" T "created&types=created", NULL, { KEY } }, 400, "types" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "https://example.com/x", "[\"" T "killed\",\"" T "created\"]", "s"), { KEY } }, 201,
	  ",\"enabled\":true,\"url\":\"https://example.com/x\",\"events\":[\"" T "created\",\"" T "killed\"]}" },
	{ { EV, "GET", "/events/webhooks", NULL, { KEY } }, 200, "\"name\":\"w\"" },
	{ { EV, "POST", "/events/webhooks", "{}", { KEY } }, 400, "name is required" },
	{ { EV, "POST", "/events/webhooks", HOOK("", "https://example.com", EVS, "s"), { KEY } }, 400, "name" },
	{ { EV, "POST", "/events/webhooks", "{\"name\":7}", { KEY } }, 400, "name" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "ftp://example.com", EVS, "s"), { KEY } }, 400, "url" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "http://127.1/", EVS, "s"), { KEY } }, 400, "url" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "https://example.com", "[]", "s"), { KEY } }, 400, "events" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "https://example.com", "[7]", "s"), { KEY } }, 400, "events" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "https://example.com", "[\"create\"]", "s"), { KEY } }, 400, "events" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "https://example.com", "7", "s"), { KEY } }, 400, "events" },
	{ { EV, "POST", "/events/webhooks", HOOK("w", "https://example.com", EVS, ""), { KEY } }, 400, "signatureSecret" },
	{ { EV, "POST", "/events/webhooks", "{\"name\":\"w\",\"url\":\"https://example.com\",\"events\":" EVS "}", { KEY } }, 400,
	  "signatureSecret is required" },
	{ { EV, "POST", "/events/webhooks", "{\"name\":\"w\",\"enabled\":\"yes\"}", { KEY } }, 400, "enabled" },
	{ { EV, "PATCH", "/events/webhooks/00000000-0000-4000-8000-000000000000", "{\"name\":\"x\"}", { KEY } }, 404, "Webhook" },
	{ { EV, "GET", "/events/webhooks/x", NULL, { KEY } }, 404, "Webhook" },
	{ { EV, "DELETE", "/events/webhooks/x", NULL, { KEY } }, 404, "Webhook" },
	{ { EV, "PUT", "/events/webhooks/x", NULL, { KEY } }, 405, "Allow: GET, PATCH, DELETE\r\n" },
	{ { "hutch-teams", "GET", "/teams", NULL, { BEARER } }, 200, "\"isDefault\":true" },
	{ { "hutch-teams", "GET", "/teams", NULL, { ADMIN, TEAM } }, 401, "authorization header is missing" },
	{ { "hutch-teams", "GET", "/teams/x/metrics", NULL, { KEY } }, 400, "must be a UUID" },
	{ { "hutch-teams", "GET", "/teams/11111111-1111-4111-8111-111111111111/metrics", NULL, { KEY } }, 403, "{\"code\":403," },
	{ { "hutch-teams", "GET", "/api-keys", NULL, { BEARER } }, 200, "\"valueLength\":40" },
	{ { "hutch-teams", "GET", "/api-keys", NULL, { ADMIN, TEAM } }, 200, "\"name\":\"door\"" },
	{ { "hutch-teams", "GET", "/api-keys", NULL, { KEY } }, 401, "authorization header is missing" },
	{ { "hutch-teams", "GET", "/api-keys", NULL, { ADMIN, "HTTP_X_TEAM_ID", "x" } }, 400, "Invalid team ID" },
	{ { "hutch-teams", "GET", "/api-keys", NULL, { "HTTP_X_ADMIN_TOKEN", "x", TEAM } }, 401, "Invalid Access token." },
	{ { "hutch-teams", "POST", "/api-keys", "{\"name\":\"ci\"}", { BEARER } }, 201, "\"key\":\"e2b_" },
	{ { "hutch-teams", "POST", "/api-keys", "{}", { BEARER } }, 400, "name is required" },
	{ { "hutch-teams", "POST", "/api-keys", "{\"name\":7}", { BEARER } }, 400, "name" },
	{ { "hutch-teams", "POST", "/api-keys", "{\"name\":\"\"}", { BEARER } }, 400, "name" },
	{ { "hutch-teams", "PATCH", "/api-keys/x", "{\"name\":\"a\"}", { BEARER } }, 400, "UUID" },
	{ { "hutch-teams", "DELETE", "/api-keys/11111111-1111-4111-8111-111111111111", NULL, { BEARER } }, 404, "id not found" },
	{ { "hutch-teams", "POST", "/access-tokens", "{\"name\":\"t\"}", { BEARER } }, 201, "\"token\":\"sk_e2b_" },
	{ { "hutch-teams", "DELETE", "/access-tokens/11111111-1111-4111-8111-111111111111", NULL, { BEARER } }, 404, "id not found" },
	{ { "hutch-teams", "GET", "/nodes", NULL, { ADMIN } }, 200, "\"status\":\"unhealthy\"" },     /* no node here */
	{ { "hutch-teams", "GET", "/nodes/local", NULL, { ADMIN } }, 200, "\"id\":\"local\"" },
	{ { "hutch-teams", "GET", "/nodes/x", NULL, { ADMIN } }, 404, "node x" },
	{ { "hutch-teams", "GET", "/nodes", NULL, { KEY } }, 401, "missing" },
	{ { "hutch-teams", "GET", "/admin/sandboxes/running-counts", NULL, { ADMIN } }, 200, "\r\n\r\n{}" },
	{ { "hutch-teams", "POST", "/admin/teams/x/sandboxes/kill", NULL, { ADMIN } }, 400, "UUID" },
	{ { "hutch-teams", "POST", "/admin/teams/11111111-1111-4111-8111-111111111111/sandboxes/kill", NULL, { ADMIN } }, 404, "Team" },
	{ { SB, "GET", "/v2/sandboxes", NULL, { ADMIN, TEAM } }, 200, "\r\n\r\n[]" },
	{ { SB, "GET", "/sandboxes/i123/metrics", NULL, { KEY } }, 200, "\r\n\r\n[]" },
	{ { SB, "GET", "/sandboxes/i123/metrics?start=2&end=1", NULL, { KEY } }, 400, "start" },
	{ { SB, "GET", "/sandboxes/i123/metrics?start=-1", NULL, { KEY } }, 400, "start" },
	{ { SB, "GET", "/sandboxes/metrics", NULL, { KEY } }, 400, "sandbox_ids" },
	{ { SB, "GET", "/sandboxes/metrics?sandbox_ids=i1%2Ci2", NULL, { KEY } }, 200, "{\"sandboxes\":{}}" },
	{ { SB, "GET", "/sandboxes/metrics?sandbox_ids=i1,i1", NULL, { KEY } }, 400, "twice" },
	{ { SB, "GET", "/sandboxes/metrics?sandbox_ids=,", NULL, { KEY } }, 400, "sandbox_ids" },
	{ { "hutch-templates", "GET", "/templates/x?nextToken=x", NULL, { KEY } }, 400, "Invalid next token" },
	{ { "hutch-templates", "GET", "/templates/x?nextToken=", NULL, { KEY } }, 404, "{\"code\":404," },
	{ { SB, "GET", "/sandboxes/i123/logs", NULL, { KEY } }, 200, "{\"logs\":[],\"logEntries\":[]}" },
	{ { SB, "GET", "/sandboxes/i123/logs?limit=1001", NULL, { KEY } }, 200, "{\"logs\":[]," },
	{ { SB, "GET", "/sandboxes/i123/logs?limit=2147483648", NULL, { KEY } }, 400, "limit" },
	{ { SB, "GET", "/v2/sandboxes/i123/logs?limit=1001", NULL, { KEY } }, 400, "limit" },
	{ { SB, "GET", "/sandboxes/i123/logs?limit=0", NULL, { KEY } }, 200, "{\"logs\":[]," },
	{ { SB, "GET", "/v2/sandboxes/i123/logs", NULL, { KEY } }, 200, "{\"logs\":[]}" },
	{ { SB, "GET", "/v2/sandboxes/i123/logs?direction=up", NULL, { KEY } }, 400, "direction" },
	{ { SB, "GET", "/v2/sandboxes/i123/logs?level=loud", NULL, { KEY } }, 400, "level" },
	{ { "hutch-doors", "GET", "/metrics", NULL, { NULL } }, 200, "\nhutch_requests_total{program=\"hutch-sandboxes\",status=\"2xx\"} " },
	{ { "hutch-teams", "GET", "/metrics", NULL, { NULL } }, 404, "is not served" },
	{ { "hutch-doors", "POST", "/_twin/teams", NULL, { NULL } }, 201, key },
	{ { "hutch-doors", "POST", "/_twin/teams", "{\"name\":\"World team\"}", { NULL } }, 201, key },
	{ { "hutch-doors", "POST", "/_twin/teams", "{\"name\":\"\"}", { NULL } }, 400, "name" },
	{ { "hutch-doors", "POST", "/_twin/teams", "{\"name\":7}", { NULL } }, 400, "name" },
	{ { "hutch-doors", "POST", "/_twin/teams", "[]", { NULL } }, 400, "object" },
	{ { "hutch-doors", "POST", "/_twin/templates", TEMPLATE, { NULL } }, 201, "\"names\":[\"world-team/base\"]" },
	{ { "hutch-doors", "POST", "/_twin/templates", TEMPLATE, { NULL } }, 201, "\"buildStatus\":\"ready\"" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"image\":\"host\"}", { NULL } }, 400, "alias is required" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\"}", { NULL } }, 400, "image is required" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a b\",\"image\":\"host\"}", { NULL } }, 400, "alias" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"relative\"}", { NULL } }, 400, "image" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"team\":\"no\"}", { NULL } }, 404, "team" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"command\":\"x\"}", { NULL } }, 400, "command" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"command\":[1]}", { NULL } }, 400, "command" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"command\":[]}", { NULL } }, 400, "command" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"envdVersion\":\"new\"}", { NULL } }, 400,
	  "envdVersion" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"cpuCount\":0}", { NULL } }, 400, "cpuCount" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"memoryMB\":1}", { NULL } }, 400, "memoryMB" },
	{ { "hutch-doors", "POST", "/_twin/templates", "{\"alias\":\"a\",\"image\":\"host\",\"diskSizeMB\":\"9\"}", { NULL } }, 400,
	  "diskSizeMB" },
	{ { "hutch-doors", "GET", "/_twin/teams", NULL, { NULL } }, 405, "Allow: POST" },
	{ { "hutch-doors", "POST", "/sandboxes", "{}", { KEY } }, 404, "is not served" },
};
#define CASES (sizeof cases / sizeof cases[0])

static void check_case(size_t i, const char *front, const struct buf *out)
{
	const char *body = body_of(out);

	if (status_of(out) != cases[i].status || (cases[i].has != NULL && strstr(buf_str(out), cases[i].has) == NULL))
		fail_msg("%s, case %zu (%s %s): %s", front, i, cases[i].r.method, cases[i].r.uri, buf_str(out));
	if (cases[i].status >= 400 && strncmp(body, "{\"code\":", 8) != 0)
		fail_msg("%s, case %zu: no JSON: %s", front, i, body);
}

static void test_cgi(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < CASES; i++) {
		buf_reset(&out);
		ask_cgi(&cases[i].r, &out);
		if (strcmp(cases[i].r.method, "HEAD") != 0)
			check_case(i, "CGI", &out);
	}
	buf_release(&out);
}

static void test_fcgi(void **state)
{
	static const char *const programs[] = { SB, "hutch-teams", EV, "hutch-doors" };
	struct buf out;

	(void)state;
	buf_init(&out, 1 << 20);
	for (size_t p = 0; p < sizeof programs / sizeof programs[0]; p++) {
		struct server s = start(programs[p], "2");

		for (size_t i = 0; i < CASES; i++) {
			if (strcmp(cases[i].r.program, programs[p]) != 0)
				continue;
			buf_reset(&out);
			ask_fcgi(s.socket, &cases[i].r, &out);
			if (strcmp(cases[i].r.method, "HEAD") != 0)
				check_case(i, "FastCGI", &out);
		}
		assert_int_equal(stop(&s), 0);
	}
	buf_release(&out);
}

/* ---- FastCGI only ---- */

static const struct request create = { SB, "POST", "/v2/sandboxes", "{\"templateID\":\"nosuch\"}", { KEY } };

/* Connections that have sent everything but the last bytes of the body. */
static int half_sent(const char *socket, struct buf *rest)
{
	const char *env[ENV_SLOTS];
	struct buf records;
	char length[24];
	int fd;

	environment(&create, env, length);
	buf_init(&records, 1 << 20);
	fcgi_begin(&records, env, false);
	fcgi_record(&records, FCGI_STDIN, create.body, 10);
	fd = fcgi_open(socket, &records);
	assert_true(fd >= 0);
	buf_release(&records);
	buf_reset(rest);
	fcgi_record(rest, FCGI_STDIN, create.body + 10, strlen(create.body) - 10);
	fcgi_record(rest, FCGI_STDIN, "", 0);
	return fd;
}

/* More connections at once than threads: all are served. */
static void test_more_than_threads(void **state)
{
	struct server s = start(SB, "2");
	struct buf rest, out;
	int fds[6];

	(void)state;
	buf_init(&rest, 1 << 20);
	buf_init(&out, 1 << 20);
	for (int i = 0; i < 6; i++)
		fds[i] = half_sent(s.socket, &rest);
	for (int i = 0; i < 6; i++) {
		assert_true(fcgi_send(fds[i], &rest));
		buf_reset(&out);
		assert_true(fcgi_answer(fds[i], &out));
		assert_int_equal(status_of(&out), 404);
		close(fds[i]);
	}
	assert_int_equal(stop(&s), 0);
	buf_release(&rest);
	buf_release(&out);
}

/* What of `create` is sent now is answered, and the program, which has been told to end, then ends with 0. */
static void last_answer(const struct server *s, int fd, const struct buf *rest, struct buf *out)
{
	int status;

	assert_true(fcgi_send(fd, rest));
	buf_reset(out);
	assert_true(fcgi_answer(fd, out));
	assert_int_equal(status_of(out), 404);
	close(fd);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* SIGTERM while a request is in hand: it is answered, then the program ends with 0. */
static void test_graceful_end(void **state)
{
	struct server s = start(SB, "2");
	struct buf rest, out;
	int fd, status;

	(void)state;
	buf_init(&rest, 1 << 20);
	buf_init(&out, 1 << 20);
	ask_fcgi(s.socket, &create, &out);               /* it is up */
	fd = half_sent(s.socket, &rest);
	buf_reset(&out);
	ask_fcgi(s.socket, &create, &out);               /* by the other thread: connections are accepted in their order */
	kill(s.pid, SIGTERM);
	assert_int_equal(waitpid(s.pid, &status, WNOHANG), 0);
	last_answer(&s, fd, &rest, &out);
	buf_release(&rest);
	buf_release(&out);
}

/* SIGTERM while a connection has been accepted on which nothing has come yet: it is served, too. */
static void test_silent_at_the_end(void **state)
{
	struct server s = start(SB, "2");
	const char *env[ENV_SLOTS];
	struct buf records, out;
	char length[24];
	int fd, status;

	(void)state;
	buf_init(&records, 1 << 20);
	buf_init(&out, 1 << 20);
	environment(&create, env, length);
	fcgi_begin(&records, env, false);
	fcgi_record(&records, FCGI_STDIN, create.body, strlen(create.body));
	fcgi_record(&records, FCGI_STDIN, "", 0);
	fd = fcgi_connect(s.socket);
	ask_fcgi(s.socket, &create, &out);               /* by the other thread: connections are accepted in their order */
	kill(s.pid, SIGTERM);
	for (int i = 0; i < 10; i++) {                   /* until its threads have been told */
		assert_int_equal(waitpid(s.pid, &status, WNOHANG), 0);
		usleep(10000);
	}
	last_answer(&s, fd, &records, &out);
	buf_release(&records);
	buf_release(&out);
}

/* A web server that goes away or aborts in the middle of a body, or talks nonsense, costs nothing but that request. */
static void test_broken_peers(void **state)
{
	struct server s = start(SB, "1");
	struct buf rest, out, abort_record;
	int fd;

	(void)state;
	buf_init(&rest, 1 << 20);
	buf_init(&out, 1 << 20);
	buf_init(&abort_record, 64);
	fcgi_record(&abort_record, FCGI_ABORT, "", 0);
	close(half_sent(s.socket, &rest));
	fd = half_sent(s.socket, &rest);
	assert_true(fcgi_send(fd, &abort_record));
	fcgi_answer(fd, &out);
	assert_true(out.len == 0 || status_of(&out) == 400);
	close(fd);
	fd = fcgi_connect(s.socket);
	assert_int_equal(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	shutdown(fd, SHUT_WR);
	fcgi_answer(fd, &out);
	close(fd);
	close(fcgi_connect(s.socket));
	buf_reset(&out);
	ask_fcgi(s.socket, &create, &out);
	assert_int_equal(status_of(&out), 404);
	assert_int_equal(stop(&s), 0);
	buf_release(&rest);
	buf_release(&out);
	buf_release(&abort_record);
}

/* What of a body is not read does not reset the connection under the reply: one that is too large, one that a GET has no use for. */
static void test_unread_body(void **state)
{
	static const struct request requests[] = {
		{ SB, "POST", "/sandboxes", NULL, { KEY, "CONTENT_LENGTH", "5000000" } },
		{ SB, "GET", "/health", NULL, { "HTTP_TRANSFER_ENCODING", "chunked" } },
	};
	static const int status[] = { 413, 200 };
	static const char zeros[30000];
	struct server s = start(SB, "1");
	struct buf records, out;

	(void)state;
	buf_init(&records, 1 << 20);
	buf_init(&out, 1 << 20);
	for (int i = 0; i < 2; i++) {
		const char *env[ENV_SLOTS];
		char length[24];
		int fd;

		environment(&requests[i], env, length);
		buf_reset(&records);
		buf_reset(&out);
		fcgi_begin(&records, env, false);
		fcgi_record(&records, FCGI_STDIN, zeros, sizeof zeros);
		fcgi_record(&records, FCGI_STDIN, "", 0);
		fd = fcgi_open(s.socket, &records);
		assert_true(fd >= 0);
		assert_true(fcgi_answer(fd, &out));
		assert_int_equal(status_of(&out), status[i]);
		close(fd);
	}
	assert_int_equal(stop(&s), 0);
	buf_release(&records);
	buf_release(&out);
}

/* Started while the records cannot be opened: 503, then at work once they can. */
static void test_late_records(void **state)
{
	char was[128], text[512], db[128], away[128], *init[] = { (char *)(uintptr_t)"hutchctl", (char *)(uintptr_t)"init", NULL };
	static const struct request health = { SB, "GET", "/health", NULL, { NULL } };
	struct server s;
	struct buf out;

	(void)state;
	memcpy(was, conf_path, sizeof was);
	snprintf(conf_path, sizeof conf_path, "%s/late.conf", dir);
	snprintf(text, sizeof text, "state_dir = %s/late\nrun_dir = %s\n", dir, dir);
	write_file(conf_path, text);
	buf_init(&out, 1 << 20);
	assert_int_equal(run(init, NULL, "", 0, &out), 0);
	snprintf(db, sizeof db, "%s/late/db", dir);
	snprintf(away, sizeof away, "%s/late/away", dir);
	assert_int_equal(rename(db, away), 0);
	write_file(db, "no directory");
	s = start(SB, "1");
	buf_reset(&out);
	ask_fcgi(s.socket, &health, &out);
	assert_int_equal(status_of(&out), 503);
	assert_non_null(strstr(body_of(&out), "\"code\":503"));
	assert_int_equal(unlink(db), 0);
	assert_int_equal(rename(away, db), 0);
	buf_reset(&out);
	ask_fcgi(s.socket, &health, &out);
	assert_int_equal(status_of(&out), 200);
	assert_int_equal(stop(&s), 0);
	memcpy(conf_path, was, sizeof was);
	buf_release(&out);
}

/* What no program starts with: -n tells, and so does a start. */
static void test_refusals(void **state)
{
	static const char *const programs[] = { SB, "hutch-teams", "hutch-doors", "hutch-reaper" };
	static const char *const bad[] = {
		"domain =", "domain = a b", "secret_file = /nonexistent/secret", "key_file = /nonexistent/keys",
		"admin_token_file = /nonexistent/token", "doors = false\ndb_dir = $state_dir/empty", "default_team =",
	};
	char was[128], text[512];
	struct buf out;

	(void)state;
	memcpy(was, conf_path, sizeof was);
	snprintf(conf_path, sizeof conf_path, "%s/refused.conf", dir);
	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		snprintf(text, sizeof text, "state_dir = %s/s\nrun_dir = %s\n%s\n", dir, dir, bad[i]);
		write_file(conf_path, text);
		for (size_t p = 0; p < sizeof programs / sizeof programs[0]; p++) {
			char *argv[] = { (char *)(uintptr_t)programs[p], (char *)(uintptr_t)"-n", NULL };

			if (run(argv, NULL, "", 0, &out) != 1)
				fail_msg("%s -n with %s", programs[p], bad[i]);
		}
	}
	buf_release(&out);
	memcpy(conf_path, was, sizeof was);
}

static void test_rate_limit(void **state)
{
	static const struct request list = { SB, "GET", "/v2/sandboxes", NULL, { KEY } };
	char was[128], text[512];
	struct buf out;

	(void)state;
	memcpy(was, conf_path, sizeof was);
	snprintf(conf_path, sizeof conf_path, "%s/rate.conf", dir);
	snprintf(text, sizeof text, "state_dir = %s/s\nrun_dir = %s\nrate_read = 1\nrate_burst_s = 120\n", dir, dir);
	write_file(conf_path, text);
	buf_init(&out, 1 << 20);
	for (int i = 0; i < 3; i++) {                /* three programs, one after the other: the count is theirs together */
		buf_reset(&out);
		ask_cgi(&list, &out);
		assert_int_equal(status_of(&out), i < 2 ? 200 : 429);
		assert_non_null(strstr(buf_str(&out), "RateLimit-Limit: 2\r\n"));
	}
	assert_non_null(strstr(buf_str(&out), "RateLimit-Remaining: 0\r\n"));
	assert_non_null(strstr(buf_str(&out), "Retry-After: "));
	assert_non_null(strstr(buf_str(&out), "{\"code\":429,\"message\":\"Rate limit exceeded\"}"));
	buf_release(&out);
	memcpy(conf_path, was, sizeof was);
}

static void test_closed_doors(void **state)
{
	static const struct request team = { "hutch-doors", "POST", "/_twin/teams", "{}", { NULL } };
	static const struct request template = { "hutch-doors", "POST", "/_twin/templates", TEMPLATE, { NULL } };
	char was[128], text[256];
	struct buf out;

	(void)state;
	memcpy(was, conf_path, sizeof was);
	snprintf(conf_path, sizeof conf_path, "%s/closed.conf", dir);
	snprintf(text, sizeof text, "state_dir = %s/s\nrun_dir = %s\ndoors = false\n", dir, dir);
	write_file(conf_path, text);
	buf_init(&out, 1 << 20);
	ask_cgi(&team, &out);
	assert_int_equal(status_of(&out), 403);
	buf_reset(&out);
	ask_cgi(&template, &out);
	assert_int_equal(status_of(&out), 403);
	buf_release(&out);
	memcpy(conf_path, was, sizeof was);
}

/* ---- options ---- */

static void test_options(void **state)
{
	static const struct { const char *argv[4]; int status; } rows[] = {
		{ { SB, "-n" }, 0 }, { { SB, "-h" }, 0 }, { { SB }, 2 }, { { SB, "-x" }, 2 }, { { SB, "-t", "0" }, 2 },
		{ { SB, "-t", "two" }, 2 }, { { SB, "extra" }, 2 }, { { SB, "-nc", "/nonexistent" }, 1 },
		{ { "hutchctl" }, 2 }, { { "hutchctl", "--help" }, 0 }, { { "hutchctl", "nonsense" }, 2 }, { { "hutchctl", "team" }, 2 },
		{ { "hutchctl", "team", "--help" }, 0 }, { { "hutchctl", "kill", "inone" }, 1 }, { { "hutchctl", "list", "x" }, 2 },
		{ { "hutchctl", "list" }, 0 }, { { "hutchctl", "list", "--team=no" }, 1 }, { { "hutchctl", "template", "a" }, 2 },
		{ { "hutchctl", "key", "list", "World team" }, 0 }, { { "hutchctl", "keys", "list", "no" }, 1 },
		{ { "hutchctl", "keys", "import", "/nonexistent" }, 1 }, { { "hutchctl", "key", "nonsense", "x" }, 2 },
		{ { "hutchctl", "team", "x", "--hours=0" }, 2 }, { { "hutchctl", "team", "x", "--hours=9" }, 0 },
		{ { "hutchctl", "key", "new" }, 2 }, { { "hutchctl", "key", "revoke", "e2b_00" }, 1 }, { { "hutchctl", "env" }, 0 },
		{ { "hutchctl", "try" }, 2 }, { { "hutchctl", "check" }, 1 },                /* no node, no agent */
	};
	struct buf out;

	(void)state;
	unsetenv("E2B_API_URL");
	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *argv[5] = { NULL };
		int got;

		for (int a = 0; a < 4; a++)
			argv[a] = (char *)(uintptr_t)rows[i].argv[a];
		buf_reset(&out);
		got = run(argv, NULL, "", 0, &out);
		if (got != rows[i].status)
			fail_msg("%s %s: %d", argv[0], argv[1], got);
	}
	buf_release(&out);
}

/* What a client's shell, and a runtime that injects the address, are told. */
static void test_env(void **state)
{
	static const struct { const char *option, *value, *api, *twin; } rows[] = {
		{ NULL, NULL, "export E2B_API_URL='http://", "export E2B_TWIN_URL='http://" },
		{ "--url", "https://x.test", "export E2B_API_URL='https://x.test'\n", "export E2B_TWIN_URL='https://x.test'\n" },
		{ "--tls", NULL, NULL, "export E2B_TWIN_URL='https://api." },
	};
	struct buf out;

	(void)state;
	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *argv[] = { (char *)(uintptr_t)"hutchctl", (char *)(uintptr_t)"env", (char *)(uintptr_t)rows[i].option,
				 (char *)(uintptr_t)rows[i].value, NULL };

		buf_reset(&out);
		assert_int_equal(run(argv, NULL, "", 0, &out), 0);
		assert_non_null(strstr(buf_str(&out), rows[i].twin));
		assert_non_null(strstr(buf_str(&out), "export E2B_API_KEY='e2b_"));
		assert_non_null(strstr(buf_str(&out), "export E2B_DOMAIN='"));
		if (rows[i].api != NULL)
			assert_non_null(strstr(buf_str(&out), rows[i].api));
		else
			assert_null(strstr(buf_str(&out), "_API_URL"));
	}
	buf_release(&out);
}

/* ---- group ---- */

static void read_line(const char *name, char *out, size_t max)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(out, (int)max, f));
	out[strcspn(out, "\n")] = '\0';
	fclose(f);
}

static int setup(void **state)
{
	static const struct request door = { "hutch-doors", "POST", "/_twin/teams", "{}", { NULL } };
	char text[512], *init[] = { (char *)(uintptr_t)"hutchctl", (char *)(uintptr_t)"init", NULL };
	char *token[] = { (char *)(uintptr_t)"hutchctl", (char *)(uintptr_t)"key", (char *)(uintptr_t)"token", (char *)(uintptr_t)"World team", NULL };
	char *team[] = { (char *)(uintptr_t)"hutchctl", (char *)(uintptr_t)"team", (char *)(uintptr_t)"World team", NULL };
	char *base[] = { (char *)(uintptr_t)"hutchctl", (char *)(uintptr_t)"template", (char *)(uintptr_t)"base",
			 (char *)(uintptr_t)"--image=host", (char *)(uintptr_t)"--public", NULL };
	struct buf out;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	unsetenv("REQUEST_METHOD");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(conf_path, sizeof conf_path, "%s/hutch.conf", dir);
	snprintf(text, sizeof text, "state_dir = %s/s\nrun_dir = %s\nagent_path = /nonexistent/hutch-envd\n"
		 "admin_token_file = %s/s/admin\n", dir, dir, dir);
	write_file(conf_path, text);
	buf_init(&out, 1 << 20);
	if (run(init, NULL, "", 0, &out) != 0 || run(team, NULL, "", 0, &out) != 0)
		return -1;
	snprintf(key, sizeof key, "%.*s", (int)strcspn(buf_str(&out), "\n"), buf_str(&out));
	buf_reset(&out);
	if (strlen(key) != 44 || run(base, NULL, "", 0, &out) != 0)
		return -1;
	buf_reset(&out);
	if (run(token, NULL, "", 0, &out) != 0)
		return -1;
	snprintf(bearer, sizeof bearer, "Bearer %.*s", (int)strcspn(buf_str(&out), "\n"), buf_str(&out));
	buf_reset(&out);
	ask_cgi(&door, &out);
	if (strstr(buf_str(&out), "\"teamID\":\"") == NULL)
		return -1;
	snprintf(team_id, sizeof team_id, "%.36s", strstr(buf_str(&out), "\"teamID\":\"") + 10);
	read_line("s/admin", admin, sizeof admin);
	buf_release(&out);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cgi),
		cmocka_unit_test(test_fcgi),
		cmocka_unit_test(test_more_than_threads),
		cmocka_unit_test(test_graceful_end),
		cmocka_unit_test(test_silent_at_the_end),
		cmocka_unit_test(test_broken_peers),
		cmocka_unit_test(test_unread_body),
		cmocka_unit_test(test_late_records),
		cmocka_unit_test(test_closed_doors),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_rate_limit),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_env),
	};

	return cmocka_run_group_tests_name("responder", tests, setup, teardown);
}
