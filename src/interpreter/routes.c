/* Routes of port 49999 (guest.md 7.1). */
#include "config.h"

#include "interpreter.h"

#include <stdio.h>
#include <string.h>

#define BODY_MAX (CODE_MAX + (2u << 20))
#define CONTEXTS_BYTES (4u << 20)
#define ID_TEXT 64                       /* of a context's id in a path */

struct call {
	struct interpreter *x;
	struct h1_req *r;
	char id[ID_TEXT];                /* :id of the path */
};

/* ---- answers ---- */

static void text(struct call *q, int status, const char *s)
{
	h1_reply(q->r, status, "text/plain; charset=utf-8", NULL, s, strlen(s));
}

static void json(struct call *q, int status, const char *s, size_t n)
{
	h1_reply(q->r, status, "application/json", NULL, s, n);
}

static void not_found(struct call *q, const char *id)
{
	char s[ID_TEXT + 32];

	snprintf(s, sizeof s, "Context %.*s not found", ID_TEXT, id);
	text(q, 404, s);
}

/* 422 in the shape of the original's framework. */
static void unprocessable(struct call *q, const struct err *e)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 8192);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "detail");
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "type", "value_error");
	jw_key(&w, "loc");
	jw_open(&w, '[');
	jw_str(&w, "body");
	jw_close(&w, ']');
	jw_kstr(&w, "msg", e->text);
	jw_close(&w, '}');
	jw_close(&w, ']');
	jw_close(&w, '}');
	json(q, 422, buf_str(&b), b.len);
	buf_release(&b);
}

/* ---- bodies ---- */

static int read_body(struct call *q, json_object **out, struct err *e)
{
	struct buf body;
	int rc;

	buf_init(&body, BODY_MAX);
	rc = h1_read_all(q->r, &body, e);
	if (rc == 0)
		rc = json_read_object(buf_str(&body), body.len, out, e);
	buf_release(&body);
	return rc;
}

/* Names that are none, or values with NUL, no language can set. */
static int check_env(json_object *env, struct err *e)
{
	json_object_object_foreach(env, name, value) {
		if (*name == '\0' || strchr(name, '=') != NULL)
			return err_set(e, ERR_INVALID, "env_vars: \"%.64s\" is no name of a variable", name);
		if (strlen(json_object_get_string(value)) != (size_t)json_object_get_string_len(value))
			return err_set(e, ERR_INVALID, "env_vars: the value of \"%.64s\" holds a NUL character", name);
	}
	return 0;
}

struct execution {
	struct span code;
	const char *context, *language;  /* NULL or filled */
	json_object *env;
};

static const char *filled(const char *s)
{
	return s != NULL && *s != '\0' ? s : NULL;
}

static int read_execution(json_object *o, struct execution *x, struct err *e)
{
	const char *code = NULL;
	json_object *v = NULL;

	*x = (struct execution){ .env = NULL };
	if (json_need_str(o, "code", CODE_MAX, &code, e) < 0 || json_get_str(o, "context_id", 1024, &x->context, e) < 0 ||
	    json_get_str(o, "language", LANGUAGE_LEN - 1, &x->language, e) < 0 || json_get_strmap(o, "env_vars", &x->env, e) < 0 ||
	    (x->env != NULL && check_env(x->env, e) < 0))
		return -1;
	json_object_object_get_ex(o, "code", &v);
	x->code = (struct span){ code, (size_t)json_object_get_string_len(v) };
	x->context = filled(x->context);
	x->language = filled(x->language);
	return 0;
}

/* ---- handlers ---- */

static void health(struct call *q)
{
	json(q, 200, "\"OK\"", 4);
}

static void token_of(const struct h1_head *head, char out[TOKEN_MAX])
{
	const struct h1_span *v = h1_field(head, "x-access-token");

	out[0] = '\0';
	if (v == NULL || v->n >= TOKEN_MAX)
		return;
	memcpy(out, v->p, v->n);
	out[v->n] = '\0';
}

/* The context of a request, with a reference; NULL: answered. */
static struct context *context_of(struct call *q, const struct execution *x)
{
	char language[LANGUAGE_LEN] = "python";
	struct context *c = NULL;
	struct err e;

	if (x->context != NULL && x->language != NULL) {
		text(q, 400, "Only one of context_id or language can be provided");
	} else if (x->context != NULL) {
		c = context_get(&q->x->contexts, x->context);
		if (c == NULL)
			not_found(q, x->context);
	} else {
		if (x->language != NULL)
			language_name(x->language, language);
		if (context_default(&q->x->contexts, language, &c, &e) < 0)
			text(q, 500, e.text);
	}
	return c;
}

static void post_execute(struct call *q)
{
	char token[TOKEN_MAX];
	struct execution x;
	json_object *o = NULL;
	struct context *c;
	struct err e;

	if (read_body(q, &o, &e) < 0 || read_execution(o, &x, &e) < 0) {
		unprocessable(q, &e);
		json_object_put(o);
		return;
	}
	token_of(q->r->head, token);
	c = context_of(q, &x);
	if (c != NULL) {
		execute(q->x, q->r, c, x.code, x.env, token);
		context_unref(&q->x->contexts, c);
	}
	json_object_put(o);
}

static void write_context(void *ctx, const struct context *c)
{
	struct jw *w = ctx;

	jw_open(w, '{');
	jw_kstr(w, "id", c->id);
	jw_kstr(w, "language", c->language);
	jw_kstr(w, "cwd", c->cwd);
	jw_close(w, '}');
}

static void post_contexts(struct call *q)
{
	char language[LANGUAGE_LEN];
	const char *given = NULL, *cwd = NULL;
	json_object *o = NULL;
	struct context *c;
	struct buf b;
	struct jw w;
	struct err e;

	if (read_body(q, &o, &e) < 0 || json_get_str(o, "language", LANGUAGE_LEN - 1, &given, &e) < 0 ||
	    json_get_str(o, "cwd", PATH_MAX - 1, &cwd, &e) < 0) {
		unprocessable(q, &e);
		json_object_put(o);
		return;
	}
	language_name(filled(given) != NULL ? given : "python", language);
	if (context_make(&q->x->contexts, language, filled(cwd), &c, &e) < 0) {
		text(q, 500, e.text);
	} else {
		buf_init(&b, 65536);
		jw_init(&w, &b);
		write_context(&w, c);
		json(q, 200, buf_str(&b), b.len);
		buf_release(&b);
		context_unref(&q->x->contexts, c);
	}
	json_object_put(o);
}

static void get_contexts(struct call *q)
{
	struct buf b;
	struct jw w;

	buf_init(&b, CONTEXTS_BYTES);
	jw_init(&w, &b);
	jw_open(&w, '[');
	contexts_each(&q->x->contexts, write_context, &w);
	jw_close(&w, ']');
	json(q, 200, buf_str(&b), b.len);
	buf_release(&b);
}

static void restart_context(struct call *q)
{
	struct context *c = context_get(&q->x->contexts, q->id);
	char failed[ID_TEXT + 32];
	struct err e;

	if (c == NULL) {
		not_found(q, q->id);
		return;
	}
	snprintf(failed, sizeof failed, "Failed to restart context %s", c->id);
	if (context_restart(&q->x->contexts, c, &e) == 0)
		json(q, 200, "null", 4);
	else
		text(q, e.kind == ERR_NOT_FOUND ? 404 : 500, e.kind == ERR_NOT_FOUND ? e.text : failed);
	context_unref(&q->x->contexts, c);
}

static void delete_context(struct call *q)
{
	struct context *c = context_get(&q->x->contexts, q->id);

	if (c == NULL) {
		not_found(q, q->id);
		return;
	}
	context_remove(&q->x->contexts, c);
	context_unref(&q->x->contexts, c);
	json(q, 200, "null", 4);
}

/* ---- the table ---- */

static const struct row { const char *method, *path; void (*fn)(struct call *q); } routes[] = {
	{ "GET", "/health", health },
	{ "POST", "/execute", post_execute },
	{ "POST", "/contexts", post_contexts },
	{ "GET", "/contexts", get_contexts },
	{ "POST", "/contexts/:id/restart", restart_context },
	{ "DELETE", "/contexts/:id", delete_context },
};

/* False: too long to be a context's. */
static bool take_id(struct call *q, const struct uri_params *params)
{
	const struct uri_span id = params->n > 0 ? params->at[0] : (struct uri_span){ "", 0 };

	return snprintf(q->id, sizeof q->id, "%.*s", (int)id.n, id.p) < ID_TEXT;
}

static void route(struct call *q)
{
	const struct row *row;
	struct uri_params params;
	struct buf allow;

	buf_init(&allow, 64);
	row = h1_route(q->r->head, routes, sizeof routes / sizeof routes[0], sizeof routes[0], &params, &allow);
	if (row != NULL && take_id(q, &params))
		row->fn(q);
	else if (row == NULL && allow.len > 0)
		json(q, 405, "{\"detail\":\"Method Not Allowed\"}", 31);
	else
		json(q, 404, "{\"detail\":\"Not Found\"}", 22);
	buf_release(&allow);
}

/* ---- CORS: any origin, method and header ---- */

static bool preflight(struct call *q)
{
	const struct h1_span *headers = h1_field(q->r->head, "access-control-request-headers");
	struct buf b;

	if (!h1_span_is(q->r->head->method, "OPTIONS") || h1_field(q->r->head, "access-control-request-method") == NULL)
		return false;
	buf_init(&b, H1_HEAD_MAX + 1024);
	buf_adds(&b, "Vary: Origin\r\nAccess-Control-Allow-Methods: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT\r\nAccess-Control-Max-Age: 600\r\n");
	if (headers != NULL) {
		buf_adds(&b, "Access-Control-Allow-Headers: ");
		buf_add(&b, headers->p, headers->n);
		buf_adds(&b, "\r\n");
	}
	h1_reply(q->r, 200, "text/plain; charset=utf-8", buf_str(&b), "OK", 2);
	buf_release(&b);
	return true;
}

void interpreter_handle(void *ctx, struct h1_req *r)
{
	struct call q = { .x = ctx, .r = r };

	if (h1_field(r->head, "origin") != NULL)
		r->common = "Access-Control-Allow-Origin: *\r\n";
	if (!preflight(&q))
		route(&q);
}
