/* The pool kind `node`: hutch-node's API (the sandboxd node API with the extensions of a local node). */
#include "hutch/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/json.h"
#include "hutch/when.h"
#include "nodehttp.h"

#define BODY_MAX (1 << 20)           /* what the node takes */
#define SHAPES_MAX (16 << 20)
#define CALL_MS 10000                /* longest call that copies or writes back no disk: a cold claim */
#define LONG_MS 60000                /* one that does, or that waits for a start command (option start_s) */

struct node_pool {
	struct pool base;
	struct nodehttp *http;
};

static struct nodehttp *http_of(struct pool *p)
{
	return ((struct node_pool *)p)->http;
}

/* The node's refusal in our kinds; its {"error":"text"} is the text. */
static int refused(const struct node_reply *r, struct err *e)
{
	const char *text = NULL;
	json_object *o = NULL;
	struct err why;
	enum err_kind kind;

	if (json_read(r->body, r->len, &o, &why) == 0 && json_object_is_type(o, json_type_object))
		json_get_str(o, "error", 400, &text, &why);
	switch (r->status) {
	case 400: kind = ERR_INVALID; break;
	case 404: kind = ERR_NOT_FOUND; break;
	case 409: kind = ERR_CONFLICT; break;
	case 413: kind = ERR_LIMIT; break;
	case 429: case 503: kind = ERR_UNAVAILABLE; break;
	default: kind = ERR_INTERNAL;
	}
	if (text != NULL)
		err_set(e, kind, "%s", text);
	else
		err_set(e, kind, "the machine pool answers %d", r->status);
	if (r->status == 429)
		e->code = "sandbox_capacity_unavailable";
	json_object_put(o);
	return -1;
}

/* One call with that body; the parsed object of its answer is the caller's to put, if asked for. */
static int exchange(struct pool *p, struct node_call *n, struct buf *body, json_object **out, bool *unsure, struct err *e)
{
	struct node_reply r;
	bool sent = false;

	if (body != NULL && buf_failed(body))
		return err_set(e, ERR_TOO_LARGE, "the request to the machine pool is too large");
	n->body = body != NULL ? buf_str(body) : NULL;
	n->len = body != NULL ? body->len : 0;
	if (nodehttp_call(http_of(p), n, &r, &sent, e) < 0) {
		if (unsure != NULL)
			*unsure = sent;
		return -1;
	}
	if (r.status < 200 || r.status > 299)
		return refused(&r, e);
	if (out == NULL)
		return 0;
	if (json_read_object(r.body, r.len, out, e) == 0)
		return 0;
	if (unsure != NULL)
		*unsure = true;
	e->kind = ERR_INTERNAL;
	return err_wrap(e, "answer of the machine pool");
}

static int call_within(struct pool *p, long ms, const char *method, const char *path, struct buf *body, json_object **out, bool *unsure,
		       struct err *e)
{
	struct node_call n = { .method = method, .path = path, .ms = ms };

	return exchange(p, &n, body, out, unsure, e);
}

static int call(struct pool *p, const char *method, const char *path, struct buf *body, json_object **out, bool *unsure,
		struct err *e)
{
	return call_within(p, 0, method, path, body, out, unsure, e);
}

static void write_shape(struct jw *w, const struct pool_shape *s)
{
	jw_kstr(w, "template", s->template_id);
	jw_kstr(w, "image", s->image);
	jw_kint(w, "cpu_count", s->cpu_count);
	jw_kint(w, "memory_mb", s->memory_mb);
	jw_kint(w, "disk_mb", s->disk_mb);
	jw_kint(w, "warm", s->warm);
	if (s->command != NULL) {
		jw_key(w, "command");
		jw_raw(w, s->command, strlen(s->command));
		if (s->ready_port != 0)
			jw_kint(w, "ready_port", s->ready_port);
	}
}

static void write_list(struct jw *w, const char *key, const char *list)
{
	if (list == NULL)
		return;
	jw_key(w, key);
	jw_raw(w, list, strlen(list));
}

static void write_network(struct jw *w, const struct pool_network *rules)
{
	jw_open(w, '{');
	write_list(w, "allow", rules->allow);
	write_list(w, "deny", rules->deny);
	jw_close(w, '}');
}

static void write_claim(struct buf *b, const struct pool_shape *shape, const char *ref, const struct pool_init *init)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	if (shape->checkpoint == NULL)
		jw_kstr(&w, "template", shape->template_id);
	jw_kstr(&w, "claim_ref", ref);
	if (init->network.allow != NULL || init->network.deny != NULL) {
		jw_key(&w, "network");
		write_network(&w, &init->network);
	}
	jw_key(&w, "init");
	jw_open(&w, '{');
	jw_kstr(&w, "op", "init");
	jw_kstr(&w, "sandboxId", init->sandbox_id);
	jw_kstr(&w, "templateId", init->template_id);
	if (init->token != NULL)
		jw_kstr(&w, "accessToken", init->token);
	jw_key(&w, "envVars");
	if (init->env != NULL)
		jw_raw(&w, init->env, strlen(init->env));
	else
		jw_raw(&w, "{}", 2);
	if (init->default_user != NULL)
		jw_kstr(&w, "defaultUser", init->default_user);
	if (init->default_workdir != NULL)
		jw_kstr(&w, "defaultWorkdir", init->default_workdir);
	if (init->profile != NULL) {
		jw_kstr(&w, "profile", init->profile);
		jw_kstr(&w, "folder", init->folder);
		jw_kstr(&w, "program", init->program);
	}
	jw_kstr(&w, "hostname", init->sandbox_id);
	jw_kint(&w, "cpuCount", shape->cpu_count);      /* from inside, the machine's own would show */
	jw_kint(&w, "memoryMB", shape->memory_mb);
	jw_close(&w, '}');
	jw_close(&w, '}');
}

/* A machine id becomes part of paths and keys: nothing but what the node may make. */
static bool machine_ok(const char *id)
{
	size_t n = strlen(id);

	return n > 0 && n < MACHINE_ID_LEN && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n;
}

static int node_claim(struct pool *p, const struct pool_shape *shape, const char *ref, const struct pool_init *init,
		      char machine[MACHINE_ID_LEN], bool *unsure, struct err *e)
{
	json_object *o = NULL;
	const char *id = NULL;
	char path[128] = "/v1/claim";
	struct node_call n = { .method = "POST", .path = path, .meanwhile = init->meanwhile, .ctx = init->ctx };
	struct buf b;
	int status;

	if (shape->checkpoint != NULL && !machine_ok(shape->checkpoint))
		return err_set(e, ERR_INTERNAL, "checkpoint id %.40s is not well-formed", shape->checkpoint);
	if (shape->checkpoint != NULL)
		snprintf(path, sizeof path, "/v1/checkpoints/%s/claim", shape->checkpoint);
	buf_init(&b, BODY_MAX);
	write_claim(&b, shape, ref, init);
	n.ms = shape->checkpoint != NULL || shape->ready_port != 0 ? LONG_MS : 0;
	status = exchange(p, &n, &b, &o, unsure, e);
	buf_release(&b);
	if (status < 0)
		return -1;
	if (json_need_str(o, "id", MACHINE_ID_LEN - 1, &id, e) < 0 || !machine_ok(id)) {
		*unsure = true;
		status = err_set(e, ERR_INTERNAL, "the machine pool answers a claim without a machine's id");
	} else {
		snprintf(machine, MACHINE_ID_LEN, "%s", id);
	}
	json_object_put(o);
	return status;
}

/* The "lines" of an answer, NULL for none; o is put. */
static int take_lines(json_object *o, json_object **lines, struct err *e)
{
	json_object *array = NULL;
	int got = json_get_arr(o, "lines", &array, e);

	*lines = got == 1 ? json_object_get(array) : NULL;
	json_object_put(o);
	return got < 0 ? -1 : 0;
}

static int node_release(struct pool *p, const char *machine, json_object **lines, struct err *e)
{
	json_object *o = NULL;
	struct err ignored;
	char path[128];

	if (!machine_ok(machine))
		return err_set(e, ERR_INTERNAL, "machine id %.40s is not well-formed", machine);
	snprintf(path, sizeof path, "/v1/sandboxes/%s/release%s", machine, lines != NULL ? "?journal=true" : "");
	if (call(p, "POST", path, NULL, lines != NULL ? &o : NULL, NULL, e) < 0 && e->kind != ERR_NOT_FOUND)
		return -1;
	if (o != NULL)
		take_lines(o, lines, &ignored);      /* it is gone, whatever it said */
	return 0;
}

static int read_machines(json_object *o, struct pool_machine **out, size_t *n, struct err *e)
{
	json_object *rows = NULL;
	size_t count, got = 0;

	if (json_get_arr(o, "sandboxes", &rows, e) != 1)
		return err_set(e, ERR_INTERNAL, "the machine pool answers no list of sandboxes");
	count = json_object_array_length(rows);
	*out = calloc(count + 1, sizeof **out);
	if (*out == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < count; i++) {
		json_object *row = json_object_array_get_idx(rows, i);
		struct pool_machine *m = &(*out)[got];
		const char *id = NULL, *ref = NULL, *at = NULL;

		if (!json_object_is_type(row, json_type_object) || json_get_str(row, "id", MACHINE_ID_LEN - 1, &id, e) != 1 ||
		    !machine_ok(id)) {
			free(*out);
			return err_set(e, ERR_INTERNAL, "the machine pool lists a sandbox without an id");
		}
		snprintf(m->id, sizeof m->id, "%s", id);
		if (json_get_str(row, "claim_ref", SANDBOX_ID_LEN - 1, &ref, e) == 1)
			snprintf(m->claim_ref, sizeof m->claim_ref, "%s", ref);
		if (json_get_str(row, "claimed_at", 64, &at, e) == 1 && when_parse(at, strlen(at), &m->claimed_us) < 0)
			m->claimed_us = 0;
		json_get_bool(row, "hibernated", &m->hibernated, e);
		got++;
	}
	*n = got;
	return 0;
}

static int list_path(struct pool *p, const char *path, struct pool_machine **out, size_t *n, struct err *e)
{
	json_object *o = NULL;
	int status;

	if (call(p, "GET", path, NULL, &o, NULL, e) < 0)
		return -1;
	status = read_machines(o, out, n, e);
	json_object_put(o);
	return status;
}

static int node_list(struct pool *p, struct pool_machine **out, size_t *n, struct err *e)
{
	return list_path(p, "/v1/sandboxes", out, n, e);
}

static int node_release_ref(struct pool *p, const char *ref, struct err *e)
{
	struct pool_machine *m = NULL;
	char path[128];
	size_t n = 0;
	int status = 0;

	if (strlen(ref) != SANDBOX_ID_LEN - 1 || strspn(ref, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(ref))
		return err_set(e, ERR_INTERNAL, "sandbox id %.40s is not well-formed", ref);
	snprintf(path, sizeof path, "/v1/sandboxes?claim_ref=%s", ref);
	if (list_path(p, path, &m, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n && status == 0; i++)
		if (strcmp(m[i].claim_ref, ref) == 0)
			status = node_release(p, m[i].id, NULL, e);
	free(m);
	return status;
}

static int node_set_shapes(struct pool *p, const struct pool_shape *shapes, size_t n, struct err *e)
{
	struct buf b;
	struct jw w;
	int status;

	buf_init(&b, SHAPES_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "pools");
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++) {
		jw_open(&w, '{');
		write_shape(&w, &shapes[i]);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	status = call(p, "PUT", "/v1/pools", &b, NULL, NULL, e);
	buf_release(&b);
	return status;
}

/* A row of info's pools names its template itself or in its key. */
static const char *pool_row_template(json_object *row)
{
	const char *id = NULL;
	json_object *key = NULL;
	struct err e;

	if (!json_object_is_type(row, json_type_object))
		return NULL;
	if (json_get_str(row, "template", TEMPLATE_ID_LEN - 1, &id, &e) == 1)
		return id;
	if (json_get_obj(row, "key", &key, &e) == 1)
		json_get_str(key, "template", TEMPLATE_ID_LEN - 1, &id, &e);
	return id;
}

static int node_templates(struct pool *p, char (**out)[TEMPLATE_ID_LEN], size_t *n, struct err *e)
{
	json_object *o = NULL, *rows = NULL;
	size_t count;

	if (call(p, "GET", "/v1/info", NULL, &o, NULL, e) < 0)
		return -1;
	count = json_get_arr(o, "pools", &rows, e) == 1 ? json_object_array_length(rows) : 0;
	*n = 0;
	*out = calloc(count + 1, sizeof **out);
	for (size_t i = 0; *out != NULL && i < count; i++) {
		const char *id = pool_row_template(json_object_array_get_idx(rows, i));

		if (id != NULL)
			snprintf((*out)[(*n)++], TEMPLATE_ID_LEN, "%s", id);
	}
	json_object_put(o);
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static uint64_t take_number(json_object *row, const char *key)
{
	int64_t n = 0;
	struct err e;

	return json_get_int(row, key, 0, INT64_MAX, &n, &e) == 1 ? (uint64_t)n : 0;
}

static int node_use(struct pool *p, struct pool_use **out, size_t *n, struct err *e)
{
	json_object *o = NULL, *rows = NULL;
	struct err why;
	size_t count;

	if (call(p, "GET", "/v1/stats", NULL, &o, NULL, e) < 0)
		return -1;
	count = json_get_arr(o, "sandboxes", &rows, e) == 1 ? json_object_array_length(rows) : 0;
	*n = 0;
	*out = calloc(count + 1, sizeof **out);
	for (size_t i = 0; *out != NULL && i < count; i++) {
		json_object *row = json_object_array_get_idx(rows, i);
		struct pool_use *u = &(*out)[*n];
		const char *ref = NULL;

		if (!json_object_is_type(row, json_type_object) || json_get_str(row, "claim_ref", SANDBOX_ID_LEN - 1, &ref, &why) != 1)
			continue;
		snprintf(u->claim_ref, sizeof u->claim_ref, "%s", ref);
		u->cpu_us = take_number(row, "cpu_us");
		u->mem_used = take_number(row, "mem_used_bytes");
		u->mem_cache = take_number(row, "mem_cache_bytes");
		u->disk_used = take_number(row, "disk_used_bytes");
		u->disk_total = take_number(row, "disk_total_bytes");
		++*n;
	}
	json_object_put(o);
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int node_journal(struct pool *p, const char *machine, int64_t after_us, json_object **lines, struct err *e)
{
	json_object *o = NULL;
	char path[128];

	if (!machine_ok(machine))
		return err_set(e, ERR_INTERNAL, "machine id %.40s is not well-formed", machine);
	snprintf(path, sizeof path, "/v1/sandboxes/%s/journal?after=%lld", machine, (long long)after_us);
	if (call_within(p, POOL_JOURNAL_MS, "GET", path, NULL, &o, NULL, e) < 0)
		return -1;
	return take_lines(o, lines, e);
}

static int node_open_port(struct pool *p, const char *machine, int port, struct err *e)
{
	char path[128];

	if (!machine_ok(machine) || port < 1 || port > 65535)
		return err_set(e, ERR_INVALID, "port %d of machine %.40s is not well-formed", port, machine);
	snprintf(path, sizeof path, "/v1/sandboxes/%s/ports/%d", machine, port);
	return call(p, "PUT", path, NULL, NULL, NULL, e);
}

/* POST of a verb of the machine, within ms (0: as usual); body may be NULL. */
static int verb(struct pool *p, long ms, const char *machine, const char *name, struct buf *body, struct err *e)
{
	char path[128];

	if (!machine_ok(machine))
		return err_set(e, ERR_INTERNAL, "machine id %.40s is not well-formed", machine);
	snprintf(path, sizeof path, "/v1/sandboxes/%s/%s", machine, name);
	return call_within(p, ms, "POST", path, body, NULL, NULL, e);
}

/* A disk alone is written back before it is let go: that takes as long as what the sandbox has written. */
static int node_hibernate(struct pool *p, const char *machine, bool memory, struct err *e)
{
	struct buf b;
	struct jw w;
	int status;

	buf_init(&b, 64);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kbool(&w, "memory", memory);
	jw_close(&w, '}');
	status = verb(p, memory ? 0 : LONG_MS, machine, "hibernate", &b, e);
	buf_release(&b);
	return status;
}

static int node_wake(struct pool *p, const char *machine, struct err *e)
{
	return verb(p, 0, machine, "wake", NULL, e);
}

/* ---- checkpoints ---- */

static int read_checkpoint(json_object *row, struct pool_checkpoint *c, struct err *e)
{
	const char *id = NULL, *name = NULL, *at = NULL;
	struct err why;

	*c = (struct pool_checkpoint){ .bytes = 0 };
	if (!json_object_is_type(row, json_type_object) || json_get_str(row, "id", MACHINE_ID_LEN - 1, &id, &why) != 1 || !machine_ok(id))
		return err_set(e, ERR_INTERNAL, "the machine pool tells of a checkpoint without an id");
	snprintf(c->id, sizeof c->id, "%s", id);
	if (json_get_str(row, "name", UUID_LEN - 1, &name, &why) == 1)
		snprintf(c->name, sizeof c->name, "%s", name);
	if (json_get_str(row, "created_at", 64, &at, &why) == 1 && when_parse(at, strlen(at), &c->created_us) < 0)
		c->created_us = 0;
	c->bytes = take_number(row, "bytes");
	return 0;
}

static int node_checkpoint(struct pool *p, const char *machine, const char *name, uint64_t max_bytes, struct pool_checkpoint *out,
			   bool *unsure, struct err *e)
{
	json_object *o = NULL, *row = NULL;
	char path[128];
	struct buf b;
	struct jw w;
	int status;

	if (!machine_ok(machine))
		return err_set(e, ERR_INTERNAL, "machine id %.40s is not well-formed", machine);
	snprintf(path, sizeof path, "/v1/sandboxes/%s/checkpoint", machine);
	buf_init(&b, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "name", name);
	jw_kint(&w, "max_bytes", max_bytes < INT64_MAX ? (int64_t)max_bytes : INT64_MAX);
	jw_close(&w, '}');
	status = call_within(p, LONG_MS, "POST", path, &b, &o, unsure, e);
	buf_release(&b);
	if (status == 0 && (json_get_obj(o, "checkpoint", &row, e) != 1 || read_checkpoint(row, out, e) < 0)) {
		*unsure = true;
		status = err_set(e, ERR_INTERNAL, "the machine pool answers no checkpoint");
	}
	json_object_put(o);
	return status;
}

static int node_checkpoints(struct pool *p, struct pool_checkpoint **out, size_t *n, struct err *e)
{
	json_object *o = NULL, *rows = NULL;
	size_t count;
	int status = 0;

	if (call(p, "GET", "/v1/checkpoints", NULL, &o, NULL, e) < 0)
		return -1;
	if (json_get_arr(o, "checkpoints", &rows, e) != 1) {
		json_object_put(o);
		return err_set(e, ERR_INTERNAL, "the machine pool answers no list of checkpoints");
	}
	count = json_object_array_length(rows);
	*out = calloc(count + 1, sizeof **out);
	if (*out == NULL)
		status = err_set(e, ERR_INTERNAL, "out of memory");
	for (*n = 0; status == 0 && *n < count; ++*n)
		if (read_checkpoint(json_object_array_get_idx(rows, *n), &(*out)[*n], e) < 0) {
			free(*out);
			status = -1;
			break;
		}
	json_object_put(o);
	return status;
}

static int node_checkpoint_drop(struct pool *p, const char *id, struct err *e)
{
	char path[128];

	if (!machine_ok(id))
		return err_set(e, ERR_INTERNAL, "checkpoint id %.40s is not well-formed", id);
	snprintf(path, sizeof path, "/v1/checkpoints/%s", id);
	if (call(p, "DELETE", path, NULL, NULL, NULL, e) == 0 || e->kind == ERR_NOT_FOUND)
		return 0;
	return -1;
}

static int node_network(struct pool *p, const char *machine, const struct pool_network *rules, struct err *e)
{
	char path[128];
	struct buf b;
	struct jw w;
	int status;

	if (!machine_ok(machine))
		return err_set(e, ERR_INTERNAL, "machine id %.40s is not well-formed", machine);
	snprintf(path, sizeof path, "/v1/sandboxes/%s/network", machine);
	buf_init(&b, BODY_MAX);
	jw_init(&w, &b);
	write_network(&w, rules);
	status = call(p, "PUT", path, &b, NULL, NULL, e);
	buf_release(&b);
	return status;
}

static int node_abilities(struct pool *p, uint32_t *can, struct err *e)
{
	json_object *o = NULL, *caps = NULL;
	bool egress = false;
	int status;

	if (call(p, "GET", "/v1/info", NULL, &o, NULL, e) < 0)
		return -1;
	status = json_get_obj(o, "capabilities", &caps, e);
	if (status == 1)
		status = json_get_bool(caps, "egress", &egress, e);
	json_object_put(o);
	if (egress)
		*can |= CAP_INTERNET | CAP_NET_RULES;
	return status < 0 ? -1 : 0;
}

static void node_close(struct pool *p)
{
	nodehttp_close(http_of(p));
	free(p);
}

static const struct pool_ops node_ops = {
	.close = node_close,
	.claim = node_claim,
	.release = node_release,
	.release_ref = node_release_ref,
	.list = node_list,
	.set_shapes = node_set_shapes,
	.templates = node_templates,
	.open_port = node_open_port,
	.use = node_use,
	.journal = node_journal,
	.hibernate = node_hibernate,
	.wake = node_wake,
	.network = node_network,
	.abilities = node_abilities,
	.checkpoint = node_checkpoint,
	.checkpoints = node_checkpoints,
	.checkpoint_drop = node_checkpoint_drop,
};

int pool_open(const char *node_socket, struct pool **out, struct err *e)
{
	struct node_pool *p = calloc(1, sizeof *p);

	if (p == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	p->base.ops = &node_ops;
	if (nodehttp_open(node_socket, CALL_MS, &p->http, e) < 0) {
		free(p);
		return -1;
	}
	*out = &p->base;
	return 0;
}
