#include "config.h"

#include "node_double.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hutch/json.h"
#include "hutch/when.h"

static void answer(struct h1_req *r, int status, const struct buf *b)
{
	h1_reply(r, status, "application/json", NULL, buf_str(b), b->len);
}

static void fail(struct h1_req *r, const struct err *e)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "error", e->text);
	jw_close(&w, '}');
	answer(r, e->kind == ERR_NOT_FOUND ? 404 : e->kind == ERR_UNAVAILABLE ? 429 : 500, &b);
	buf_release(&b);
}

static void claim(struct node_double *n, struct h1_req *r, json_object *o)
{
	const char *template_id = "", *ref = "", *token = NULL;
	json_object *init = NULL;
	struct pool_shape shape = { 0 };
	struct pool_init pi = { 0 };
	char machine[MACHINE_ID_LEN], text[80];
	bool unsure;
	struct err e;

	json_get_str(o, "template", 100, &template_id, &e);
	json_get_str(o, "claim_ref", 100, &ref, &e);
	if (json_get_obj(o, "init", &init, &e) == 1)
		json_get_str(init, "accessToken", 100, &token, &e);
	shape.template_id = template_id;
	pi.token = token;
	if (pool_claim(n->pool, &shape, ref, &pi, machine, &unsure, &e) < 0) {
		fail(r, &e);
		return;
	}
	snprintf(text, sizeof text, "{\"id\":\"%s\"}\n", machine);
	h1_reply(r, 200, "application/json", NULL, text, strlen(text));
}

static void list(struct node_double *n, struct h1_req *r, const char *ref)
{
	struct pool_machine *m = NULL;
	size_t count = 0;
	struct buf b;
	struct jw w;
	struct err e;

	if (pool_list(n->pool, &m, &count, &e) < 0) {
		fail(r, &e);
		return;
	}
	buf_init(&b, 16 << 20);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "sandboxes");
	jw_open(&w, '[');
	for (size_t i = 0; i < count; i++) {
		char at[WHEN_LEN];

		if (ref != NULL && strcmp(ref, m[i].claim_ref) != 0)
			continue;
		when_format(m[i].claimed_us, at);
		jw_open(&w, '{');
		jw_kstr(&w, "id", m[i].id);
		jw_kstr(&w, "claim_ref", m[i].claim_ref);
		jw_kstr(&w, "claimed_at", at);
		jw_kbool(&w, "hibernated", m[i].hibernated);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	answer(r, 200, &b);
	buf_release(&b);
	free(m);
}

static void info(struct node_double *n, struct h1_req *r)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 1 << 20);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "pools");
	jw_open(&w, '[');
	for (size_t i = 0; i < n->state->templates; i++) {
		jw_open(&w, '{');
		jw_key(&w, "key");
		jw_open(&w, '{');
		jw_kstr(&w, "template", n->state->template_id[i]);
		jw_close(&w, '}');
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	answer(r, 200, &b);
	buf_release(&b);
}

static void set_pools(struct node_double *n, struct h1_req *r, json_object *o)
{
	struct pool_shape shape[FAKE_TEMPLATES] = { { 0 } };
	json_object *rows = NULL;
	size_t count = 0;
	struct err e;

	if (json_get_arr(o, "pools", &rows, &e) == 1)
		count = json_object_array_length(rows);
	for (size_t i = 0; i < count && i < FAKE_TEMPLATES; i++)
		json_get_str(json_object_array_get_idx(rows, i), "template", 100, &shape[i].template_id, &e);
	if (pool_set_shapes(n->pool, shape, count, &e) < 0)
		fail(r, &e);
	else
		info(n, r);
}

static void release(struct node_double *n, struct h1_req *r, const char *machine)
{
	struct err e = { .kind = ERR_NOT_FOUND, .text = "unknown sandbox" };

	if (!fake_has(n->state, machine) || pool_release(n->pool, machine, NULL, &e) < 0)
		fail(r, &e);
	else
		h1_reply(r, 204, NULL, NULL, NULL, 0);
}

static void sleep_or_wake(struct node_double *n, struct h1_req *r, const char *machine, bool sleeps, json_object *o)
{
	struct err e;
	bool memory = true;

	json_get_bool(o, "memory", &memory, &e);
	if ((sleeps ? pool_hibernate(n->pool, machine, memory, &e) : pool_wake(n->pool, machine, &e)) < 0)
		fail(r, &e);
	else
		h1_reply(r, 204, NULL, NULL, NULL, 0);
}

static void route(struct node_double *n, struct h1_req *r, const char *target, json_object *o)
{
	char machine[MACHINE_ID_LEN] = "";
	struct err e = { .kind = ERR_NOT_FOUND, .text = "no such route" };

	if (strcmp(target, "/v1/claim") == 0)
		claim(n, r, o);
	else if (strcmp(target, "/v1/sandboxes") == 0)
		list(n, r, NULL);
	else if (strncmp(target, "/v1/sandboxes?claim_ref=", 24) == 0)
		list(n, r, target + 24);
	else if (strcmp(target, "/v1/checkpoints") == 0)
		h1_reply(r, 200, "application/json", NULL, "{\"checkpoints\":[]}\n", 19);
	else if (strcmp(target, "/v1/info") == 0)
		info(n, r);
	else if (strcmp(target, "/v1/pools") == 0)
		set_pools(n, r, o);
	else if (sscanf(target, "/v1/sandboxes/%31[a-z0-9_]/release", machine) == 1 && strstr(target, "/release") != NULL)
		release(n, r, machine);
	else if (sscanf(target, "/v1/sandboxes/%31[a-z0-9_]/hibernate", machine) == 1 && strstr(target, "/hibernate") != NULL)
		sleep_or_wake(n, r, machine, true, o);
	else if (sscanf(target, "/v1/sandboxes/%31[a-z0-9_]/wake", machine) == 1 && strstr(target, "/wake") != NULL)
		sleep_or_wake(n, r, machine, false, o);
	else if (sscanf(target, "/v1/sandboxes/%31[a-z0-9_]/ports/", machine) == 1 && fake_has(n->state, machine))
		h1_reply(r, 204, NULL, NULL, NULL, 0);
	else
		fail(r, &e);
}

static void remember(struct node_double *n, struct h1_req *r, const char *target, const struct buf *b)
{
	const struct h1_head *h = r->head;

	pthread_mutex_lock(&n->lock);
	if (r->conn != n->last_conn)
		atomic_fetch_add(&n->connections, 1);
	n->last_conn = r->conn;
	snprintf(n->method, sizeof n->method, "%.*s", (int)h->method.n, h->method.p);
	snprintf(n->target, sizeof n->target, "%s", target);
	snprintf(n->body, sizeof n->body, "%s", buf_str(b));
	pthread_mutex_unlock(&n->lock);
	atomic_fetch_add(&n->requests, 1);
}

static void keep_silent(struct node_double *n, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	bool left = false;

	while (atomic_load(&n->silent)) {
		if (!left && poll(&p, 1, 1) > 0) {
			left = true;
			atomic_fetch_add(&n->given_up, 1);
		} else if (left) {
			usleep(1000);
		}
	}
}

static void serve(struct node_double *n, struct h1_req *r)
{
	json_object *o = NULL;
	char target[200];
	struct buf b;
	struct err e;

	buf_init(&b, 1 << 20);
	if (h1_read_all(r, &b, &e) < 0 || json_read_object(buf_str(&b), b.len, &o, &e) < 0) {
		h1_reply_error(r, 400, e.text);
		buf_release(&b);
		return;
	}
	snprintf(target, sizeof target, "%.*s", (int)r->head->target.n, r->head->target.p);
	remember(n, r, target, &b);
	keep_silent(n, r->fd);
	if (atomic_load(&n->cut)) {
		h1_begin_with(r, 200, "application/json", NULL, "{\"id", 4);
		h1_abort(r);
	} else if (atomic_load(&n->status) != 0) {
		h1_reply(r, atomic_load(&n->status), "application/json", NULL, n->reply, strlen(n->reply));
	} else {
		route(n, r, target, o);
	}
	json_object_put(o);
	buf_release(&b);
}

static void handle(void *ctx, struct h1_req *r)
{
	struct node_double *n = ctx;

	atomic_fetch_add(&n->busy, 1);
	serve(n, r);
	atomic_fetch_sub(&n->busy, 1);
}

/* Sockets of the path that are left, accepted ones too. */
static bool path_in_use(const char *path)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	bool found = false;

	while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
		found = strstr(line, path) != NULL;
	if (f != NULL)
		fclose(f);
	return found;
}

void double_start(struct node_double *n, struct fake_state *state, const char *path)
{
	const struct h1_server_opts opts = { .max_connections = 64 };
	struct err e;

	memset(n, 0, sizeof *n);
	pthread_mutex_init(&n->lock, NULL);
	n->state = state;
	n->pool = fake_pool_new(state);
	snprintf(n->path, sizeof n->path, "%s", path);
	n->fd = h1_listen_unix(path, 0600, -1, &e);
	if (n->fd < 0 || h1_server_start(n->fd, &opts, handle, n, &n->server, &e) < 0) {
		fprintf(stderr, "node double: %s\n", e.text);
		exit(99);
	}
}

void double_stop(struct node_double *n)
{
	h1_server_stop(n->server);                   /* waits for no connection, but a node that is gone has none */
	close(n->fd);
	while (path_in_use(n->path) || atomic_load(&n->busy) != 0)
		usleep(1000);
	unlink(n->path);
	pool_close(n->pool);
}
