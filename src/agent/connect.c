/* Connect RPC over HTTP/1.1 with JSON (https://connectrpc.com/docs/protocol): framing, errors, dispatch. */
#include "config.h"

#include "agent.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/when.h"

#define UNARY_OUT_MAX (64 << 20)
#define KEEPALIVE_S 90
#define KEEPALIVE_MAX_S 3600

int rpc_fail(struct err *e, enum err_kind kind, const char *code, const char *fmt, ...)
{
	va_list ap;

	e->kind = kind;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	return -1;
}

const char *rpc_code(const struct err *e)
{
	static const char *const codes[ERR_KINDS] = {
		[ERR_NONE] = "unknown",
		[ERR_INVALID] = "invalid_argument",
		[ERR_UNAUTHENTICATED] = "unauthenticated",
		[ERR_DENIED] = "permission_denied",
		[ERR_NOT_FOUND] = "not_found",
		[ERR_CONFLICT] = "failed_precondition",
		[ERR_TOO_LARGE] = "resource_exhausted",
		[ERR_LIMIT] = "resource_exhausted",
		[ERR_UNAVAILABLE] = "unavailable",
		[ERR_TIMEOUT] = "deadline_exceeded",
		[ERR_INTERNAL] = "internal",
	};

	return e->code != NULL ? e->code : codes[e->kind];
}

int rpc_status(const char *code)
{
	static const struct { const char *code; int status; } rows[] = {
		{ "canceled", 499 }, { "invalid_argument", 400 }, { "deadline_exceeded", 504 }, { "not_found", 404 },
		{ "already_exists", 409 }, { "permission_denied", 403 }, { "resource_exhausted", 429 },
		{ "failed_precondition", 400 }, { "aborted", 409 }, { "out_of_range", 400 }, { "unimplemented", 501 },
		{ "unavailable", 503 }, { "unauthenticated", 401 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strcmp(rows[i].code, code) == 0)
			return rows[i].status;
	return 500;             /* unknown, internal, data_loss */
}

int rpc_get_u32(json_object *o, const char *key, uint32_t *out, struct err *e)
{
	json_object *v = NULL;
	const char *s;
	char *end;
	int64_t n;
	int got;

	if (json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string)) {
		s = json_object_get_string(v);
		n = strtoll(s, &end, 10);
		if (*s < '0' || *s > '9' || *end != '\0' || n > UINT32_MAX)
			return err_set(e, ERR_INVALID, "%s must be an unsigned 32-bit number", key);
		*out = (uint32_t)n;
		return 1;
	}
	got = json_get_int(o, key, 0, UINT32_MAX, &n, e);
	if (got == 1)
		*out = (uint32_t)n;
	return got;
}

/* ---- framing ---- */

void envelope_add(struct buf *b, unsigned flags, const char *json, size_t n)
{
	unsigned char head[5] = { (unsigned char)flags, (unsigned char)(n >> 24), (unsigned char)(n >> 16),
				  (unsigned char)(n >> 8), (unsigned char)n };

	buf_add(b, head, sizeof head);
	buf_add(b, json, n);
}

static void error_members(struct jw *w, const struct err *e)
{
	jw_open(w, '{');
	jw_kstr(w, "code", rpc_code(e));
	jw_kstr(w, "message", e->text);
	jw_close(w, '}');
}

void stream_end_json(struct buf *b, const struct err *e)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	if (e != NULL) {
		jw_key(&w, "error");
		error_members(&w, e);
	}
	jw_close(&w, '}');
}

int stream_begin(struct h1_req *r)
{
	return h1_begin(r, 200, STREAM_TYPE, NULL);
}

int stream_send(struct h1_req *r, const char *json, size_t n)
{
	struct buf b;
	int rc;

	buf_init(&b, n + 5);
	envelope_add(&b, 0, json, n);
	rc = buf_failed(&b) ? -1 : h1_write(r, b.p, b.len);
	buf_release(&b);
	return rc;
}

int stream_end(struct h1_req *r, const struct err *e)
{
	struct buf json, b;
	int rc = -1;

	buf_init(&json, 8192);
	buf_init(&b, 8192 + 5);
	stream_end_json(&json, e);
	envelope_add(&b, RPC_END, buf_str(&json), json.len);
	if (!buf_failed(&json) && !buf_failed(&b) && h1_end_with(r, b.p, b.len) == 0)
		rc = 0;
	else
		h1_abort(r);    /* a clean end without the end-stream envelope would be a lie */
	buf_release(&json);
	buf_release(&b);
	return rc;
}

static int bad_framing(struct err *e)
{
	return err_set(e, ERR_INVALID, "protocol error: incomplete envelope");
}

/* n bytes of the body, or 0 at its clean end, -1. */
static int read_exactly(struct h1_req *r, char *p, size_t n, struct err *e)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = h1_read(r, p + done, n - done);

		if (got < 0)
			return rpc_fail(e, ERR_INVALID, "canceled", "the request broke off");
		if (got == 0)
			return done == 0 ? 0 : bad_framing(e);
		done += (size_t)got;
	}
	return 1;
}

int stream_next(struct h1_req *r, json_object **out, struct err *e)
{
	unsigned char head[5];
	struct buf b;
	size_t n;
	int rc = read_exactly(r, (char *)head, sizeof head, e);

	if (rc <= 0)
		return rc;
	n = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
	if (head[0] & RPC_COMPRESSED)
		return rpc_fail(e, ERR_INVALID, NULL, "protocol error: compressed message without a compression");
	if (head[0] != 0)
		return rpc_fail(e, ERR_INVALID, NULL, "protocol error: invalid envelope flags %u", head[0]);
	if (n > RPC_BODY_MAX)
		return err_set(e, ERR_TOO_LARGE, "message size %zu is larger than the maximum of %d", n, RPC_BODY_MAX);
	buf_init(&b, RPC_BODY_MAX);
	if (buf_room(&b, n) == NULL) {
		rc = err_set(e, ERR_INTERNAL, "out of memory");
	} else if (n > 0 && (rc = read_exactly(r, b.p, n, e)) <= 0) {
		rc = rc == 0 ? bad_framing(e) : -1;
	} else {
		rc = json_read_object(n > 0 ? b.p : "", n, out, e) < 0 ? -1 : 1;
	}
	buf_release(&b);
	return rc;
}

/* ---- dispatch ---- */

static bool media_type_is(const struct h1_span *v, const char *type)
{
	struct h1_span s = *v;

	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ';')
			s.n = i;
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return h1_span_is_nocase(s, type);
}

/* Digits only, at most ten (the protocol's bound). 1 with *ms, 0 absent, -1. */
static int timeout_header(struct h1_req *r, int64_t *ms, struct err *e)
{
	const struct h1_span *v = h1_field(r->head, "connect-timeout-ms");
	int64_t n = 0;
	bool ok;

	if (v == NULL)
		return 0;
	ok = v->n > 0 && v->n <= 10;
	for (size_t i = 0; ok && i < v->n; i++) {
		ok = v->p[i] >= '0' && v->p[i] <= '9';
		n = n * 10 + (v->p[i] - '0');
	}
	if (!ok)
		return err_set(e, ERR_INVALID, "protocol error: invalid timeout \"%.*s\"", v->n < 64 ? (int)v->n : 64, v->p);
	*ms = n;
	return 1;
}

static int keepalive_header(struct h1_req *r)
{
	const struct h1_span *v = h1_field(r->head, "keepalive-ping-interval");
	int n = 0;

	if (v == NULL || v->n == 0 || v->n > 6)
		return KEEPALIVE_S;
	for (size_t i = 0; i < v->n; i++) {
		if (v->p[i] < '0' || v->p[i] > '9')
			return KEEPALIVE_S;
		n = n * 10 + (v->p[i] - '0');
	}
	return n == 0 ? KEEPALIVE_S : n < KEEPALIVE_MAX_S ? n : KEEPALIVE_MAX_S;
}

/* Version and compression that we do not speak. */
static int check_protocol(struct h1_req *r, const char *encoding_field, struct err *e)
{
	const struct h1_span *v = h1_field(r->head, "connect-protocol-version");

	if (v != NULL && !h1_span_is(*v, "1"))
		return err_set(e, ERR_INVALID, "connect-protocol-version must be \"1\"");
	v = h1_field(r->head, encoding_field);
	if (v != NULL && v->n > 0 && !h1_span_is_nocase(*v, "identity"))
		return rpc_fail(e, ERR_INVALID, "unimplemented", "unknown compression \"%.*s\": supported encodings are identity",
				v->n < 64 ? (int)v->n : 64, v->p);
	return 0;
}

static void reply_unary_error(struct h1_req *r, const struct err *e)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 8192);
	jw_init(&w, &b);
	error_members(&w, e);
	h1_reply(r, rpc_status(rpc_code(e)), "application/json", NULL, buf_str(&b), b.len);
	buf_release(&b);
}

/* What all calls have in common before the body: headers and user. */
static int prepare(struct agent *a, struct rpc_stream_req *s, struct user *u, const char *encoding_field, struct err *e)
{
	int64_t ms = 0;
	int got;

	if (check_protocol(s->r, encoding_field, e) < 0)
		return -1;
	got = timeout_header(s->r, &ms, e);
	if (got < 0)
		return -1;
	if (got == 1)
		s->deadline_us = boot_us() + ms * US_PER_MS;
	s->keepalive_s = keepalive_header(s->r);
	return request_user(a, s->r, u, e);
}

static int run_unary(struct agent *a, struct h1_req *r, const struct rpc *row, struct buf *out, struct err *e)
{
	struct user u;
	struct rpc_stream_req s = { .r = r, .user = &u };
	struct buf body;
	struct jw w;
	int rc;

	if (prepare(a, &s, &u, "content-encoding", e) < 0)
		return -1;
	buf_init(&body, RPC_BODY_MAX);
	rc = h1_read_all(r, &body, e);
	if (rc == 0)
		rc = json_read_object(buf_str(&body), body.len, &s.in, e);
	buf_release(&body);
	if (rc < 0)
		return -1;
	jw_init(&w, out);
	jw_open(&w, '{');
	rc = row->unary != NULL ? row->unary(a, &u, s.in, &w, e) : row->waiting(a, &s, &w, e);
	jw_close(&w, '}');
	json_object_put(s.in);
	if (rc == 0 && buf_failed(out))
		return err_set(e, ERR_INTERNAL, "the reply is too large");
	return rc;
}

static void serve_unary(struct agent *a, struct h1_req *r, const struct rpc *row)
{
	struct err e = { 0 };
	struct buf out;

	buf_init(&out, UNARY_OUT_MAX);
	if (run_unary(a, r, row, &out, &e) < 0)
		reply_unary_error(r, &e);
	else
		h1_reply(r, 200, "application/json", NULL, buf_str(&out), out.len);
	buf_release(&out);
}

/* Exactly one message, and nothing after it. */
static int read_single(struct h1_req *r, json_object **in, struct err *e)
{
	char more;
	int rc = stream_next(r, in, e);

	if (rc == 0)
		return rpc_fail(e, ERR_INVALID, "unimplemented", "unary request has zero messages");
	if (rc == 1 && h1_read(r, &more, 1) != 0) {
		json_object_put(*in);
		*in = NULL;
		return rpc_fail(e, ERR_INVALID, "unimplemented", "unary request has multiple messages");
	}
	return rc;
}

/* Errors of a stream travel in its end, under status 200: by status JS would lose the code. */
static void serve_stream(struct agent *a, struct h1_req *r, const struct rpc *row)
{
	struct err e = { 0 };
	struct user u;
	struct rpc_stream_req s = { .r = r, .user = &u };

	if (prepare(a, &s, &u, "connect-content-encoding", &e) < 0 || (row->upload == NULL && read_single(r, &s.in, &e) < 0)) {
		if (stream_begin(r) == 0)
			stream_end(r, &e);
		return;
	}
	if (row->upload != NULL)
		row->upload(a, &s);
	else
		row->stream(a, &s);
	json_object_put(s.in);
}

void rpc_serve(struct agent *a, struct h1_req *r, const struct rpc *row)
{
	const struct h1_span *type = h1_field(r->head, "content-type");
	bool unary = row->unary != NULL || row->waiting != NULL;
	const char *want = unary ? "application/json" : STREAM_TYPE;

	if (type == NULL || !media_type_is(type, want)) {
		rest_reply_error(r, 415, "Accept-Post: application/json, application/connect+json\r\n", "unsupported media type");
		return;
	}
	if (unary)
		serve_unary(a, r, row);
	else
		serve_stream(a, r, row);
}
