/* The node API on its unix socket: the part of sandboxd's that is in use, and our extensions (docs/architecture.md). */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/when.h"
#include "ctl.h"
#include "node.h"

#define BODY_MAX (1 << 20)           /* as sandboxd takes */
#define POOLS_BODY_MAX (16 << 20)
#define LIST_MAX (16 << 20)
#define CONNECTIONS 1024
#define JSON_TYPE "application/json"

struct request {
	struct node *n;
	struct h1_req *r;
	char id[MACHINE_LEN];        /* :id of the path */
	int port;                    /* :port */
};

static void reply_json(struct request *q, int status, struct buf *b)
{
	buf_addc(b, '\n');
	if (buf_failed(b))
		h1_reply(q->r, 500, JSON_TYPE, NULL, "{\"error\":\"the answer is too large\"}\n", 34);
	else
		h1_reply(q->r, status, JSON_TYPE, NULL, b->p, b->len);
}

static void reply_error(struct request *q, int status, const char *text)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "error", text);
	jw_close(&w, '}');
	reply_json(q, status, &b);
	buf_release(&b);
}

static void fail(struct request *q, const struct err *e)
{
	static const int status[ERR_KINDS] = {
		[ERR_INVALID] = 400, [ERR_DENIED] = 403, [ERR_NOT_FOUND] = 404, [ERR_CONFLICT] = 409, [ERR_TOO_LARGE] = 413,
		[ERR_LIMIT] = 429, [ERR_UNAVAILABLE] = 503, [ERR_TIMEOUT] = 500, [ERR_INTERNAL] = 500,
	};

	if (status[e->kind] >= 500 || status[e->kind] == 0)
		log_error("%.*s %.*s: %s", (int)q->r->head->method.n, q->r->head->method.p, (int)q->r->head->path.n, q->r->head->path.p, e->text);
	reply_error(q, status[e->kind] != 0 ? status[e->kind] : 500, e->text);
}

static void write_key(struct jw *w, const struct shape *s, bool egress)
{
	jw_key(w, "key");
	jw_open(w, '{');
	jw_kstr(w, "template", s->template);
	jw_kstr(w, "net", egress ? "egress" : "none");
	jw_close(w, '}');
}

/* ---- claim and release ---- */

/* template (unless it is from a checkpoint), claim_ref and init out of a claim's body. */
static int read_claim(json_object *o, struct claim_order *c, struct err *e)
{
	if ((c->checkpoint == NULL && json_need_str(o, "template", TEMPLATE_LEN - 1, &c->template, e) < 0) ||
	    json_need_str(o, "claim_ref", REF_LEN - 1, &c->ref, e) < 0)
		return -1;
	if (c->ref[0] == '\0')
		return err_set(e, ERR_INVALID, "claim_ref is empty");
	if (json_get_obj(o, "init", &c->init, e) != 1)
		return err_set(e, ERR_INVALID, "init must be an object");
	if (json_get_obj(o, "network", &c->network, e) < 0)
		return -1;
	json_object_object_add(c->init, "op", json_object_new_string("init"));
	return 0;
}

static void write_claim(struct buf *b, const char *id, const struct claim_order *c)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "id", id);
	jw_kstr(&w, "claim_ref", c->ref);
	jw_kstr(&w, "net_route", "none");
	if (c->checkpoint != NULL)
		jw_kstr(&w, "from_checkpoint", c->checkpoint);
	jw_close(&w, '}');
}

static void claim_as(struct request *q, struct claim_order c)
{
	json_object *o = NULL;
	char id[MACHINE_LEN];
	struct buf body, b;
	struct err e;

	buf_init(&body, BODY_MAX);
	buf_init(&b, 4096);
	if (h1_read_all(q->r, &body, &e) < 0 || json_read_object(buf_str(&body), body.len, &o, &e) < 0) {
		reply_error(q, 400, "invalid request body");
	} else if (read_claim(o, &c, &e) < 0 || node_claim(q->n, &c, id, &e) < 0) {
		fail(q, &e);
	} else {
		write_claim(&b, id, &c);
		reply_json(q, 200, &b);
	}
	json_object_put(o);
	buf_release(&body);
	buf_release(&b);
}

static void claim(struct request *q)
{
	claim_as(q, (struct claim_order){ .template = NULL });
}

static void checkpoint_claim(struct request *q)
{
	claim_as(q, (struct claim_order){ .checkpoint = q->id });
}

static void hibernate(struct request *q)
{
	json_object *o = NULL;
	bool memory = true;
	struct buf body;
	struct err e;

	buf_init(&body, 4096);
	if (h1_read_all(q->r, &body, &e) < 0 || json_read_object(buf_str(&body), body.len, &o, &e) < 0)
		reply_error(q, 400, "invalid request body");
	else if (json_get_bool(o, "memory", &memory, &e) < 0 || node_hibernate(q->n, q->id, memory, &e) < 0)
		fail(q, &e);
	else
		h1_reply(q->r, 204, NULL, NULL, NULL, 0);
	json_object_put(o);
	buf_release(&body);
}

static void network(struct request *q)
{
	json_object *o = NULL;
	struct buf body;
	struct err e;

	buf_init(&body, BODY_MAX);
	if (h1_read_all(q->r, &body, &e) < 0 || json_read_object(buf_str(&body), body.len, &o, &e) < 0)
		reply_error(q, 400, "invalid request body");
	else if (node_network(q->n, q->id, o, &e) < 0)
		fail(q, &e);
	else
		h1_reply(q->r, 204, NULL, NULL, NULL, 0);
	json_object_put(o);
	buf_release(&body);
}

static void wake(struct request *q)
{
	struct err e;

	if (node_wake(q->n, q->id, &e) < 0)
		fail(q, &e);
	else
		h1_reply(q->r, 204, NULL, NULL, NULL, 0);
}

/* ---- checkpoints ---- */

static void write_checkpoint(struct jw *w, const struct checkpoint *c)
{
	char when[WHEN_LEN];

	when_format(c->st.created_us, when);
	jw_open(w, '{');
	jw_kstr(w, "id", c->st.id);
	jw_kstr(w, "name", c->st.name);
	jw_kstr(w, "sandbox_id", c->st.sandbox);
	write_key(w, &c->st.shape, false);
	jw_kstr(w, "created_at", when);
	jw_kint(w, "bytes", (int64_t)c->st.bytes);
	jw_close(w, '}');
}

static int read_order(json_object *o, struct checkpoint_order *c, struct err *e)
{
	int64_t max = INT64_MAX;

	if (json_need_str(o, "name", CHECKPOINT_NAME_LEN - 1, &c->name, e) < 0 || json_get_int(o, "max_bytes", 0, INT64_MAX, &max, e) < 0)
		return -1;
	c->max_bytes = (uint64_t)max;
	return checkpoint_name_ok(c->name) ? 0 : err_set(e, ERR_INVALID, "name is not well-formed");
}

/* The one of that id as it is in the table. False: it is not there. */
static bool show_checkpoint(struct request *q, const char *id, int64_t still_us)
{
	const struct checkpoint *c;
	struct buf b;
	struct jw w;

	buf_init(&b, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "checkpoint");
	pthread_mutex_lock(&q->n->lock);
	c = (const struct checkpoint *)htab_find(&q->n->checkpoints, id);
	if (c != NULL)
		write_checkpoint(&w, c);
	pthread_mutex_unlock(&q->n->lock);
	jw_kint(&w, "still_us", still_us);
	jw_close(&w, '}');
	if (c != NULL)
		reply_json(q, 200, &b);
	buf_release(&b);
	return c != NULL;
}

static void checkpoint(struct request *q)
{
	struct checkpoint_order c = { .name = NULL };
	json_object *o = NULL;
	struct buf body;
	struct err e;

	buf_init(&body, 4096);
	if (h1_read_all(q->r, &body, &e) < 0 || json_read_object(buf_str(&body), body.len, &o, &e) < 0)
		reply_error(q, 400, "invalid request body");
	else if (read_order(o, &c, &e) < 0 || node_checkpoint(q->n, q->id, &c, &e) < 0)
		fail(q, &e);
	else if (!show_checkpoint(q, c.id, c.still_us))
		reply_error(q, 404, "unknown checkpoint");   /* removed already */
	json_object_put(o);
	buf_release(&body);
}

static void checkpoint_drop(struct request *q)
{
	struct err e;

	if (node_checkpoint_drop(q->n, q->id, &e) < 0)
		fail(q, &e);
	else
		h1_reply(q->r, 204, NULL, NULL, NULL, 0);
}

static int newest_first(const void *a, const void *b)
{
	const struct checkpoint *x = *(struct checkpoint *const *)a, *y = *(struct checkpoint *const *)b;

	return (x->st.created_us < y->st.created_us) - (x->st.created_us > y->st.created_us);
}

/* With the lock held. */
static void write_checkpoints(struct node *n, struct jw *w)
{
	const struct checkpoint **all = calloc(n->ncheckpoints + 1, sizeof *all);
	size_t count = 0;

	for (size_t i = 0; all != NULL && i < BUCKETS; i++)
		for (const struct hnode *x = n->checkpoints.bucket[i]; x != NULL; x = x->next)
			all[count++] = (const struct checkpoint *)x;
	if (all == NULL)
		w->b->failed = true;
	else
		qsort(all, count, sizeof *all, newest_first);
	for (size_t i = 0; i < count; i++)
		write_checkpoint(w, all[i]);
	free(all);
}

static void checkpoints(struct request *q)
{
	struct buf b;
	struct jw w;

	buf_init(&b, LIST_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "checkpoints");
	jw_open(&w, '[');
	pthread_mutex_lock(&q->n->lock);
	write_checkpoints(q->n, &w);
	pthread_mutex_unlock(&q->n->lock);
	jw_close(&w, ']');
	jw_close(&w, '}');
	reply_json(q, 200, &b);
	buf_release(&b);
}

static void open_port(struct request *q)
{
	struct err e;

	if (q->port < 1)
		reply_error(q, 400, "port must be 1-65535");
	else if (node_open_port(q->n, q->id, q->port, &e) < 0)
		fail(q, &e);
	else
		h1_reply(q->r, 204, NULL, NULL, NULL, 0);
}

static void write_journal(struct request *q, json_object *said)
{
	json_object *lines = NULL;
	const char *text = "[]";
	struct err ignored;
	struct buf b;
	struct jw w;

	if (json_get_arr(said, "lines", &lines, &ignored) == 1)
		text = json_object_to_json_string_ext(lines, JSON_C_TO_STRING_PLAIN);
	buf_init(&b, 8 * CTL_ANSWER_MAX);    /* written anew, escapes take more */
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "lines");
	jw_raw(&w, text != NULL ? text : "[]", text != NULL ? strlen(text) : 2);
	jw_close(&w, '}');
	reply_json(q, 200, &b);
	buf_release(&b);
}

static void journal(struct request *q)
{
	int64_t after = 0;
	json_object *said = NULL;
	char text[24];
	struct err e;

	if (h1_query_get(q->r->head->query, "after", text, sizeof text) == 1)
		after = strtoll(text, NULL, 10);
	if (node_journal(q->n, q->id, after > 0 ? after : 0, &said, &e) < 0)
		reply_error(q, e.kind == ERR_NOT_FOUND ? 404 : 503, e.text);     /* the guest's fault, mostly: not logged */
	else
		write_journal(q, said);
	json_object_put(said);
}

/* With ?journal=true the answer is 200 with what the agent had noted, when there is something. */
static void release(struct request *q)
{
	char word[8];
	bool ask = h1_query_get(q->r->head->query, "journal", word, sizeof word) == 1 && strcmp(word, "true") == 0;
	json_object *said = NULL, *lines = NULL;
	struct err e, ignored;

	if (node_release(q->n, q->id, ask ? &said : NULL, &e) < 0)
		fail(q, &e);
	else if (said != NULL && json_get_arr(said, "lines", &lines, &ignored) == 1 && json_object_array_length(lines) > 0)
		write_journal(q, said);
	else
		h1_reply(q->r, 204, NULL, NULL, NULL, 0);
	json_object_put(said);
}

/* ---- lists ---- */

static void write_machine(struct jw *w, const struct machine *m)
{
	char when[WHEN_LEN];

	when_format(m->st.claimed_us, when);
	jw_open(w, '{');
	jw_kstr(w, "id", m->st.id);
	if (m->st.claim_ref[0] != '\0') {
		jw_kstr(w, "claim_ref", m->st.claim_ref);
		jw_kstr(w, "claimed_at", when);
	}
	jw_kstr(w, "template", m->st.shape.template);
	write_key(w, &m->st.shape, m->st.address != 0);
	jw_kbool(w, "hibernated", m->st.sleep != SLEEP_NONE);
	jw_kint(w, "cpu_count", m->st.shape.cpu_count);
	jw_kint(w, "mem_total_bytes", (int64_t)m->st.shape.memory_mb << 20);
	jw_kint(w, "pid", m->st.pid);
	jw_close(w, '}');
}

/* Machines that belong to a claim, those on their way included; with all, the ready ones too. */
static bool listed(const struct machine *m, const char *ref, bool all)
{
	if (ref != NULL)
		return strcmp(m->st.claim_ref, ref) == 0;
	return m->st.claim_ref[0] != '\0' || (all && m->phase == PHASE_WARM);
}

static void write_list(struct node *n, struct buf *b, const char *ref, bool all)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_key(&w, "sandboxes");
	jw_open(&w, '[');
	pthread_mutex_lock(&n->lock);
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct hnode *x = n->ids.bucket[i]; x != NULL; x = x->next)
			if (listed((const struct machine *)x, ref, all))
				write_machine(&w, (const struct machine *)x);
	pthread_mutex_unlock(&n->lock);
	jw_close(&w, ']');
	jw_close(&w, '}');
}

static void list(struct request *q)
{
	char ref[REF_LEN], word[8];
	int filtered = h1_query_get(q->r->head->query, "claim_ref", ref, sizeof ref);
	bool all = h1_query_get(q->r->head->query, "all", word, sizeof word) == 1 && strcmp(word, "true") == 0;
	struct buf b;

	if (filtered < 0 || (filtered == 1 && ref[0] == '\0')) {
		reply_error(q, 400, "claim_ref is not well-formed");
		return;
	}
	buf_init(&b, LIST_MAX);
	write_list(q->n, &b, filtered == 1 ? ref : NULL, all);
	reply_json(q, 200, &b);
	buf_release(&b);
}

static void get(struct request *q)
{
	const struct machine *m;
	struct buf b;
	struct jw w;

	buf_init(&b, 4096);
	jw_init(&w, &b);
	pthread_mutex_lock(&q->n->lock);
	m = (const struct machine *)htab_find(&q->n->ids, q->id);
	if (m != NULL)
		write_machine(&w, m);
	pthread_mutex_unlock(&q->n->lock);
	if (m == NULL)
		reply_error(q, 404, "unknown sandbox");
	else
		reply_json(q, 200, &b);
	buf_release(&b);
}

/* ---- info and pools ---- */

static void write_capabilities(struct node *n, struct jw *w)
{
	jw_key(w, "capabilities");
	jw_open(w, '{');
	jw_kbool(w, "userns", n->spawner.hello.userns);
	jw_kstr(w, "disk", n->disks.loop ? "loop" : "tmpfs");
	jw_kstr(w, "cgroup", cgroups_kind(&n->cg));
	jw_key(w, "limits");
	jw_open(w, '[');
	for (int i = 0; i < CG_CONTROLLERS; i++)
		if ((n->cg.has & 1U << i) != 0)
			jw_str(w, cg_names[i]);
	jw_close(w, ']');
	jw_kbool(w, "seccomp", true);
	jw_kbool(w, "host_image", n->base[0] != '\0');
	jw_kbool(w, "egress", n->lane.on);
	if (!n->lane.on)
		jw_kstr(w, "egress_error", n->lane.why);
	jw_kbool(w, "pause_memory", cgroups_freeze(&n->cg));
	jw_kbool(w, "pause_disk", n->disks.loop);
	jw_kbool(w, "checkpoint", n->disks.loop && cgroups_freeze(&n->cg));
	jw_close(w, '}');
}

static void write_pool(const struct node *n, struct jw *w, const struct pool *p)
{
	jw_open(w, '{');
	write_key(w, &p->shape, n->lane.on);
	jw_kstr(w, "template", p->shape.template);
	jw_kstr(w, "image", p->shape.image);
	jw_kint(w, "cpu_count", p->shape.cpu_count);
	jw_kint(w, "memory_mb", p->shape.memory_mb);
	jw_kint(w, "disk_mb", p->shape.disk_mb);
	jw_kint(w, "warm", p->nwarm);
	jw_kint(w, "target", p->shape.warm);
	jw_kint(w, "refilling", p->starting);
	if (p->error[0] != '\0')
		jw_kstr(w, "error", p->error);
	jw_close(w, '}');
}

static uint32_t count_claimed(const struct node *n)
{
	uint32_t count = 0;

	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct hnode *x = n->ids.bucket[i]; x != NULL; x = x->next)
			count += ((const struct machine *)x)->phase == PHASE_CLAIMED;
	return count;
}

static void write_info(struct node *n, struct buf *b)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kbool(&w, "local", true);
	jw_kstr(&w, "version", PACKAGE_VERSION);
	write_capabilities(n, &w);
	pthread_mutex_lock(&n->lock);
	jw_kint(&w, "claimed", count_claimed(n));
	jw_kint(&w, "machines", n->machines);
	jw_kint(&w, "checkpoints", n->ncheckpoints);
	jw_kint(&w, "max_sandboxes", n->conf->max_sandboxes);
	jw_kbool(&w, "at_capacity", n->machines >= (uint32_t)n->conf->max_sandboxes);
	jw_key(&w, "pools");
	jw_open(&w, '[');
	for (size_t i = 0; i < n->npools; i++)
		write_pool(n, &w, n->pool[i]);
	jw_close(&w, ']');
	pthread_mutex_unlock(&n->lock);
	jw_close(&w, '}');
}

static void info(struct request *q)
{
	struct buf b;

	buf_init(&b, LIST_MAX);
	write_info(q->n, &b);
	reply_json(q, 200, &b);
	buf_release(&b);
}

static void stats(struct request *q)
{
	struct buf b;

	buf_init(&b, LIST_MAX);
	node_write_use(q->n, &b);
	reply_json(q, 200, &b);
	buf_release(&b);
}

static void put_pools(struct request *q)
{
	const struct shape_limits lim = { (uint32_t)q->n->conf->warm, (uint32_t)q->n->conf->max_sandboxes };
	struct shape_list l = { NULL, 0 };
	struct buf body;
	struct err e;

	buf_init(&body, POOLS_BODY_MAX);
	if (h1_read_all(q->r, &body, &e) < 0)
		reply_error(q, 400, "invalid request body");
	else if (shapes_parse(buf_str(&body), body.len, &lim, &l, &e) < 0 || node_set_pools(q->n, &l, &e) < 0)
		fail(q, &e);
	else
		info(q);
	shapes_release(&l);
	buf_release(&body);
}

static void healthz(struct request *q)
{
	h1_reply(q->r, 200, "text/plain", NULL, "ok", 2);
}

/* ---- routes ---- */

static const struct row { const char *method, *path; void (*fn)(struct request *q); } routes[] = {
	{ "POST", "/v1/claim", claim },
	{ "GET", "/v1/sandboxes", list },
	{ "GET", "/v1/sandboxes/:id", get },
	{ "POST", "/v1/sandboxes/:id/release", release },
	{ "POST", "/v1/sandboxes/:id/hibernate", hibernate },
	{ "POST", "/v1/sandboxes/:id/wake", wake },
	{ "PUT", "/v1/sandboxes/:id/network", network },
	{ "POST", "/v1/sandboxes/:id/checkpoint", checkpoint },
	{ "GET", "/v1/checkpoints", checkpoints },
	{ "DELETE", "/v1/checkpoints/:id", checkpoint_drop },
	{ "POST", "/v1/checkpoints/:id/claim", checkpoint_claim },
	{ "PUT", "/v1/sandboxes/:id/ports/:port", open_port },
	{ "GET", "/v1/sandboxes/:id/journal", journal },
	{ "GET", "/v1/info", info },
	{ "GET", "/v1/stats", stats },
	{ "PUT", "/v1/pools", put_pools },
	{ "GET", "/healthz", healthz },
};

/* 1 to 65535 in at most five digits, else -1. */
static int port_of(struct uri_span s)
{
	int port = 0;

	for (size_t i = 0; i < s.n; i++) {
		if (s.n > 5 || s.p[i] < '0' || s.p[i] > '9')
			return -1;
		port = port * 10 + (s.p[i] - '0');
	}
	return port >= 1 && port <= 65535 ? port : -1;
}

/* Of an id that is too long to be one of ours nothing is kept: unknown. */
static void take_params(struct request *q, const struct uri_params *params)
{
	const struct uri_span id = params->n > 0 ? params->at[0] : (struct uri_span){ "", 0 };

	snprintf(q->id, sizeof q->id, "%.*s", id.n < sizeof q->id ? (int)id.n : 0, id.p);
	q->port = params->n > 1 ? port_of(params->at[1]) : -1;
}

static void route(struct request *q)
{
	const struct row *row;
	struct uri_params params;
	struct buf allow;

	buf_init(&allow, 64);
	row = h1_route(q->r->head, routes, sizeof routes / sizeof routes[0], sizeof routes[0], &params, &allow);
	if (row != NULL) {
		take_params(q, &params);
		row->fn(q);
	} else {
		reply_error(q, allow.len > 0 ? 405 : 404, allow.len > 0 ? "method not allowed" : "not found");
	}
	buf_release(&allow);
}

static void handle(void *ctx, struct h1_req *r)
{
	struct request q = { .n = ctx, .r = r, .port = -1 };

	pthread_mutex_lock(&q.n->lock);
	q.n->busy++;
	pthread_mutex_unlock(&q.n->lock);
	route(&q);
	pthread_mutex_lock(&q.n->lock);
	q.n->busy--;
	pthread_mutex_unlock(&q.n->lock);
}

int api_start(struct node *n, struct err *e)
{
	const struct h1_server_opts opts = { .max_connections = CONNECTIONS, .idle_timeout_s = 300, .head_timeout_s = 10,
					     .stack_size = 256 << 10 };

	n->listen_fd = h1_listen_stdin();        /* of systemd: who asks while the daemon is replaced waits in it */
	if (n->listen_fd < 0)
		n->listen_fd = h1_listen_unix(n->conf->node_socket, 0660, (int)n->gid, e);
	if (n->listen_fd < 0)
		return -1;
	return h1_server_start(n->listen_fd, &opts, handle, n, &n->server, e);
}
