/* Plain HTTP of the agent: the route table, CORS and the order of checks that stand before every handler. */
#include "config.h"

#include "agent.h"
#include "files.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/envd.h"

typedef void rest_handler(struct agent *a, struct h1_req *r);

struct rest {
	const char *method, *path;
	bool open;                      /* no access token asked (the handler may have a rule of its own) */
	rest_handler *handler;
};

static void health_get(struct agent *a, struct h1_req *r)
{
	(void)a;
	h1_reply(r, 204, NULL, "Cache-Control: no-store\r\n", NULL, 0);
}

static const struct rest rests[] = {
	{ "GET",  "/health",        true,  health_get },
	{ "GET",  "/metrics",       false, metrics_get },
	{ "GET",  "/envs",          false, envs_get },
	{ "POST", "/init",          true,  init_post },
	{ "GET",  "/files",         true,  files_get },
	{ "POST", "/files",         true,  files_post },
	{ "POST", "/files/compose", false, files_compose },
};
#define RESTS (sizeof rests / sizeof rests[0])

/* ---- errors ---- */

static void json_error(struct h1_req *r, int status, const char *extra, const char *text, const char *path)
{
	struct buf b, lines;
	struct jw w;

	buf_init(&b, 4 * H1_HEAD_MAX);
	buf_init(&lines, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "code", status);
	jw_kstr(&w, "message", text);
	if (path != NULL)
		jw_kstr(&w, "path", path);
	jw_close(&w, '}');
	buf_addc(&b, '\n');
	buf_adds(&lines, "X-Content-Type-Options: nosniff\r\n");
	if (extra != NULL)
		buf_adds(&lines, extra);
	h1_reply(r, status, "application/json; charset=utf-8", buf_str(&lines), buf_str(&b), b.len);
	buf_release(&lines);
	buf_release(&b);
}

void rest_reply_error(struct h1_req *r, int status, const char *extra, const char *text)
{
	json_error(r, status, extra, text, NULL);
}

void rest_fail(struct h1_req *r, int status, const struct err *e)
{
	static const int statuses[ERR_KINDS] = {
		[ERR_NONE] = 500, [ERR_INVALID] = 400, [ERR_UNAUTHENTICATED] = 401, [ERR_DENIED] = 403, [ERR_NOT_FOUND] = 404,
		[ERR_CONFLICT] = 409, [ERR_TOO_LARGE] = 413, [ERR_LIMIT] = 429, [ERR_UNAVAILABLE] = 503, [ERR_TIMEOUT] = 504,
		[ERR_INTERNAL] = 500,
	};

	json_error(r, status != 0 ? status : statuses[e->kind], NULL, e->text, NULL);
}

/* ---- CORS: any origin, before every other check (the SDK in a browser asks first) ---- */

bool is_preflight(const struct h1_head *head)
{
	return h1_span_is(head->method, "OPTIONS") && h1_field(head, "origin") != NULL && h1_field(head, "access-control-request-method") != NULL;
}

static void cors_lines(const struct h1_head *head, bool preflight, struct buf *b)
{
	const struct h1_span *ask = h1_field(head, "access-control-request-headers");

	if (preflight)
		envd_preflight(b, ask != NULL ? ask->p : NULL, ask != NULL ? ask->n : 0);
	else
		buf_adds(b, "Access-Control-Allow-Origin: *\r\nVary: Origin\r\nAccess-Control-Expose-Headers: Grpc-Status, Grpc-Message, "
			 "Grpc-Status-Details-Bin, Location, Cache-Control, X-Content-Type-Options\r\n");
}

/* ---- who may ---- */

bool token_ok(struct agent *a, struct h1_req *r)
{
	const struct h1_span *v = h1_field(r->head, "x-access-token");
	bool ok;

	pthread_mutex_lock(&a->lock);
	ok = a->token == NULL || (v != NULL && secret_equal(v->p, v->n, a->token, strlen(a->token)));
	pthread_mutex_unlock(&a->lock);
	return ok;
}

char *token_copy(struct agent *a)
{
	char *t;

	pthread_mutex_lock(&a->lock);
	t = a->token != NULL ? strdup(a->token) : NULL;
	pthread_mutex_unlock(&a->lock);
	return t;
}

/* True: answered. */
static bool refuse_reserved(struct agent *a, struct h1_req *r)
{
	char path[64];
	const char *hit;

	/* decoded and cleaned: what a router before us could take the path for */
	if (!a->guarded || path_decode(r->head->path.p, r->head->path.n, path, sizeof path) < 0)
		return false;
	path_clean(path);
	hit = envd_reserved(path, strlen(path));
	if (hit != NULL)
		json_error(r, 404, NULL, ENVD_RESERVED_TEXT, path);
	return hit != NULL;
}

static bool is_open(const struct h1_head *head)
{
	for (size_t i = 0; i < RESTS; i++)
		if (rests[i].open && h1_span_is(head->path, rests[i].path) && h1_span_is(head->method, rests[i].method))
			return true;
	return false;
}

/* A Basic user who does not exist fails every route, in Connect's form. True: answered. */
static bool refuse_user(struct agent *a, struct h1_req *r)
{
	struct err e = { 0 };
	struct user u;
	struct buf b;
	struct jw w;

	if (!basic_given(r) || request_user(a, r, &u, &e) == 0)
		return false;
	buf_init(&b, 8192);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "code", rpc_code(&e));
	jw_kstr(&w, "message", e.text);
	jw_close(&w, '}');
	h1_reply(r, 401, "application/json", NULL, buf_str(&b), b.len);
	buf_release(&b);
	return true;
}

/* ---- routes ---- */

static const struct rpc *find_rpc(struct h1_span path)
{
	const struct rpc *const tables[] = { process_rpcs, filesystem_rpcs };

	for (size_t t = 0; t < 2; t++)
		for (const struct rpc *row = tables[t]; row->path != NULL; row++)
			if (h1_span_is(path, row->path))
				return row;
	return NULL;
}

static void serve_rest(struct agent *a, struct h1_req *r)
{
	struct uri_params none;
	const struct rest *row;
	struct buf allow, line;

	buf_init(&allow, 64);
	buf_init(&line, 128);
	row = h1_route(r->head, rests, RESTS, sizeof rests[0], &none, &allow);
	if (row != NULL) {
		row->handler(a, r);
	} else if (allow.len > 0) {
		buf_addf(&line, "Allow: %s\r\n", buf_str(&allow));
		rest_reply_error(r, 405, buf_str(&line), "method not allowed");
	} else {
		rest_reply_error(r, 404, NULL, "no such route");
	}
	buf_release(&line);
	buf_release(&allow);
}

static void serve(struct agent *a, struct h1_req *r)
{
	const struct rpc *row;

	if (refuse_reserved(a, r))
		return;
	if (!is_open(r->head) && !token_ok(a, r)) {
		journal_refused(&a->journal, "wrong access token", r->head->path.p, r->head->path.n);
		rest_reply_error(r, 401, NULL, ENVD_TOKEN_TEXT);
		return;
	}
	if (light_refuses(a, r))
		return;
	row = find_rpc(r->head->path);
	if (row != NULL && !h1_span_is(r->head->method, "POST"))
		rest_reply_error(r, 405, "Allow: POST\r\n", "method not allowed");
	else if (row != NULL)
		rpc_serve(a, r, row);
	else if (!refuse_user(a, r))
		serve_rest(a, r);
}

void agent_handle(void *ctx, struct h1_req *r)
{
	const struct h1_head *head = r->head;
	struct buf lines;
	bool preflight;

	if (h1_field(head, "origin") == NULL) {
		serve(ctx, r);
		return;
	}
	preflight = is_preflight(head);
	buf_init(&lines, 2 * H1_HEAD_MAX);
	cors_lines(head, preflight, &lines);
	r->common = buf_str(&lines);
	if (preflight)
		h1_reply(r, 204, NULL, NULL, NULL, 0);
	else
		serve(ctx, r);
	r->common = NULL;
	buf_release(&lines);
}
