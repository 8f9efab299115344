/*
 * hutch-fake: answers the guest traffic of all sandboxes in fake pools with the fixtures that were enrolled. For verification only: it
 * refuses to start unless option `verification` is on. Web servers reach it as they reach any sandbox, by the socket that the edge names.
 */
#include "config.h"

#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "edge/fixture.h"
#include "hutch/crypto.h"
#include "hutch/edge.h"
#include "hutch/envd.h"
#include "hutch/h1.h"
#include "hutch/log.h"
#include "hutch/opt.h"

#define BODY_MAX (1 << 20)

struct fake {
	struct domain d;
	pthread_mutex_t lock;        /* over uses */
	struct fixture_uses uses;
};

/* ---- the request ---- */

/* A copy of a span, in b's memory from its own offset on. */
static const char *keep(struct buf *b, const struct h1_span *s)
{
	size_t at = b->len;

	if (s == NULL)
		return NULL;
	buf_add(b, s->p, s->n);
	buf_addc(b, '\0');
	return buf_failed(b) ? NULL : b->p + at;
}

static void take_request(const struct h1_head *h, struct buf *b, struct edge_request *r)
{
	buf_room(b, H1_HEAD_MAX + H1_FIELDS_MAX);    /* once: it must not move while texts are taken from it */
	*r = (struct edge_request){
		.method = keep(b, &h->method),
		.host = keep(b, h1_field(h, "host")),
		.sandbox_header = keep(b, h1_field(h, "e2b-sandbox-id")),
		.port_header = keep(b, h1_field(h, "e2b-sandbox-port")),
		.raw_target = keep(b, &h->target),
		.content_type = keep(b, h1_field(h, "content-type")),
		.access_token = keep(b, h1_field(h, "x-access-token")),
		.user_agent = keep(b, h1_field(h, "user-agent")),
		.accept = keep(b, h1_field(h, "accept")),
		.sec_fetch_mode = keep(b, h1_field(h, "sec-fetch-mode")),
		.requested_with = keep(b, h1_field(h, "x-requested-with")),
		.origin = keep(b, h1_field(h, "origin")),
		.asked_method = keep(b, h1_field(h, "access-control-request-method")),
		.asked_headers = keep(b, h1_field(h, "access-control-request-headers")),
	};
}

/* ---- its answer ---- */

static void say(struct h1_req *r, const struct edge_request *q, const struct edge_answer *a, int status, const char *type, const char *body)
{
	struct buf fields;

	buf_init(&fields, 16384);
	edge_fields(q, a, &fields);
	h1_reply(r, status, type, buf_str(&fields), body, strlen(body));
	buf_release(&fields);
}

static void refuse(struct h1_req *r, const struct edge_request *q, struct edge_answer *a, enum edge_verdict verdict)
{
	const char *type;
	struct buf b;

	buf_init(&b, 8192);
	edge_refuse(a, verdict);
	type = edge_body(q, a, &b);
	say(r, q, a, a->status, type, buf_str(&b));
	buf_release(&b);
}

static void send_reply(struct h1_req *r, json_object *reply)
{
	const char *type = NULL, *coded = "";
	json_object *headers = NULL;
	struct buf lines, body;
	int64_t status = 200;
	struct err e;

	buf_init(&lines, H1_HEAD_MAX);
	buf_init(&body, BODY_MAX);
	json_get_int(reply, "status", 200, 599, &status, &e);
	json_get_str(reply, "bodyBase64", BODY_MAX, &coded, &e);
	if (json_get_obj(reply, "headers", &headers, &e) == 1) {
		json_object_object_foreach(headers, name, v) {
			if (strcasecmp(name, "content-type") == 0)
				type = json_object_get_string(v);
			else
				buf_addf(&lines, "%s: %s\r\n", name, json_object_get_string(v));
		}
	}
	if (base64_decode(&body, coded, strlen(coded)) < 0 || buf_failed(&lines) || buf_failed(&body))
		h1_reply_error(r, 500, "the reply of the fake pool is damaged");
	else
		h1_reply(r, (int)status, type, buf_str(&lines), buf_str(&body), body.len);
	buf_release(&lines);
	buf_release(&body);
}

static void refuse_token(struct h1_req *r, const struct edge_request *q, const struct edge_answer *a)
{
	static const char body[] = "{\"code\":401,\"message\":\"" ENVD_TOKEN_TEXT "\"}";

	say(r, q, a, 401, "application/json", body);
}

/* A secure sandbox's token, which its agent would ask for. A preflight has none, and is not asked for it. Signed addresses of files are the client's
 * word here. */
static bool token_ok(struct fake *f, const struct edge_request *q, const struct edge_answer *a)
{
	const char *t = q->raw_target;
	char token[TOKEN_LEN];

	if (a->port != ENVD_PORT || a->preflight || strcmp(t, "/health") == 0 || (strncmp(t, "/files?", 7) == 0 && strstr(t, "signature=") != NULL))
		return true;
	sandbox_token(&f->d, a->sandbox_id, token);
	return q->access_token != NULL && secret_equal(q->access_token, strlen(q->access_token), token, strlen(token));
}

/* The pool's record, if the sandbox lives and the pool still is a fake one: 1, 0, -1. */
static int find_pool(struct fake *f, const char *id, struct pool_rec *p, bool *secure, struct err *e)
{
	struct sandbox_rec row;
	struct txn *t;
	int got;

	if (sandbox_get(&f->d, NULL, id, &row, e) < 0)
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	*secure = row.secure;
	got = row.pool_kind == POOL_FAKE ? txn_read(f->d.store, &t, e) : 0;
	if (row.pool_kind == POOL_FAKE && got == 0) {
		got = pool_resolve(t, row.pool, p, e);
		txn_abort(t);
		if (got == 1 && p->kind != POOL_FAKE) {
			pool_rec_release(p);
			got = 0;
		}
	}
	sandbox_rec_release(&row);
	return got;
}

/* True: answered, by a fixture or since the token is wrong. */
static bool by_fixture(struct fake *f, struct h1_req *r, const struct edge_request *q, const struct edge_answer *a)
{
	json_object *config = NULL, *reply = NULL;
	char method[64];
	struct pool_rec p;
	struct err e;
	bool secure = false;
	int got = find_pool(f, a->sandbox_id, &p, &secure, &e);

	if (got == 1 && secure && !token_ok(f, q, a)) {
		pool_rec_release(&p);
		refuse_token(r, q, a);
		return true;
	}
	if (got == 1) {
		snprintf(method, sizeof method, "%.*s", (int)r->head->method.n, r->head->method.p);
		got = json_read_object(p.config, strlen(p.config), &config, &e);
		if (got == 0) {
			pthread_mutex_lock(&f->lock);
			got = fixture_find(&f->uses, &p, config, a->port, method, q->raw_target, &reply, &e);
			pthread_mutex_unlock(&f->lock);
		}
		pool_rec_release(&p);
	}
	if (got < 0)
		log_error("sandbox %s: %s", a->sandbox_id, e.text);
	if (got == 1)
		send_reply(r, reply);
	json_object_put(config);
	return got == 1;
}

static void handle(void *ctx, struct h1_req *r)
{
	struct fake *f = ctx;
	struct edge_request q;
	struct edge_answer a = { .port = 0 };
	struct buf texts;

	buf_init(&texts, 2 * (H1_HEAD_MAX + H1_FIELDS_MAX));
	take_request(r->head, &texts, &q);
	if (buf_failed(&texts))
		h1_reply_error(r, 503, "out of memory");
	else if (edge_place(f->d.conf->domain, &q, &a) < 0)
		refuse(r, &q, &a, EDGE_BAD_HOST);
	else if (!by_fixture(f, r, &q, &a))
		refuse(r, &q, &a, EDGE_UNAVAILABLE);
	buf_release(&texts);
}

/* ---- start and end ---- */

static int serve(const struct config *conf, struct err *e)
{
	static struct fake f = { .lock = PTHREAD_MUTEX_INITIALIZER };    /* static: handlers may outlive the end of serve() */
	const struct group *g = getgrnam(conf->socket_group);
	const struct h1_server_opts opts = { .max_connections = 64, .stack_size = 256 << 10 };
	struct h1_server *server;
	char path[256];
	sigset_t ends;
	int fd, sig;

	if (conf->socket_group[0] != '\0' && g == NULL)
		return err_set(e, ERR_INVALID, "socket_group: there is no group %s", conf->socket_group);
	if (domain_open(&f.d, conf, e) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/fake.sock", conf->run_dir);
	fd = h1_listen_unix(path, 0660, g != NULL ? (int)g->gr_gid : -1, e);
	if (fd < 0 || h1_server_start(fd, &opts, handle, &f, &server, e) < 0)
		return -1;
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigwait(&ends, &sig);
	h1_server_stop(server);
	close(fd);
	unlink(path);
	return 0;
}

struct options {
	const char *config;
	bool check;
};

static int take_options(int argc, char **argv, struct options *o)
{
	static const struct opt_program program = { .name = "hutch-fake", .synopsis = "[-c FILE] [-n]" };
	const struct opt rows[] = { OPT_CONFIG(&o->config), OPT_CHECK(&o->check) };

	return opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
}

static int run(const char *path, bool check_only)
{
	struct config conf;
	struct err e;
	int status = 0;

	if (config_read(&conf, path, &e) < 0) {
		log_error("%s", e.text);
		return 2;
	}
	if (!conf.verification) {
		log_error("fake pools are for verification: option verification is off");
		status = 2;
	} else if (!check_only && serve(&conf, &e) < 0) {
		log_error("%s", e.text);
		status = 1;
	}
	if (status != 0 || check_only)
		config_release(&conf);
	return status;
}

int main(int argc, char **argv)
{
	struct options o = { .config = NULL };
	sigset_t ends;
	int status;

	log_init("hutch-fake");
	status = take_options(argc, argv, &o);
	if (status >= 0)
		return status;
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	return run(o.config, o.check);
}
