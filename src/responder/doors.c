/*
 * hutch-doors: what no API of the vendor can do - making teams, enrolling images. On a socket of its own, which only
 * the operator can reach; option `doors` closes it.
 */
#include "responder.h"

#include <string.h>

#include "hutch/log.h"
#include "hutch/when.h"

#define COMMAND_MAX 65536
#define ADVANCE_MAX_S (10LL * 366 * 86400)

const struct route doors_routes[] = {
	{ "GET",  "/metrics",         AUTH_OPEN, prometheus, IN_BOTH },
	{ "GET",  "/health",          AUTH_OPEN, health_get, IN_BOTH },
	{ "POST", "/_twin/teams",     AUTH_OPEN, door_team, IN_BOTH },
	{ "POST", "/_twin/templates", AUTH_OPEN, door_template, IN_BOTH },
	{ "POST", "/_twin/machine-pool", AUTH_OPEN, door_machine_pool, IN_BOTH },
	{ "GET",  "/_twin/clock",     AUTH_OPEN, door_clock_get, IN_BOTH },
	{ "POST", "/_twin/clock",     AUTH_OPEN, door_clock_set, IN_BOTH },
	{ "GET",  "/_twin/upstream",  AUTH_OPEN, door_upstream, IN_BOTH },
	{ "POST", "/_twin/webhooks/e2b", AUTH_OPEN, door_ingest, IN_BOTH },
	{ "POST", "/_twin/webhooks/e2b/secret", AUTH_OPEN, door_ingest_secret, IN_BOTH },
	{ "DELETE", "/_twin/webhooks/e2b/secret", AUTH_OPEN, door_ingest_secret_remove, IN_BOTH },
};
const size_t doors_routes_count = sizeof doors_routes / sizeof doors_routes[0];

int door_open(const struct call *c, struct err *e)
{
	return c->d->conf->doors ? 0 : err_set(e, ERR_DENIED, "the set-up doors are closed (option doors)");
}

int door_team(struct call *c, struct err *e)
{
	const char *name = "World team";
	json_object *o;
	struct team_rec team;
	char key[45];
	struct jw w;
	int status;

	if (door_open(c, e) < 0 || json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	status = json_get_str(o, "name", NAME_MAX_LEN - 1, &name, e);
	if (status >= 0)
		status = name[0] == '\0' ? err_set(e, ERR_INVALID, "name must not be empty") : team_make(c->d, name, &team, key, e);
	json_object_put(o);
	if (status < 0)
		return -1;
	c->status = 201;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "teamID", team.id);
	jw_kstr(&w, "name", team.name);
	jw_kstr(&w, "apiKey", key);
	jw_close(&w, '}');
	return 0;
}

/* The optional command: an array of strings as JSON text. */
static int take_command(json_object *o, struct buf *text, const char **out, struct err *e)
{
	json_object *list = NULL;
	int got = json_get_arr(o, "command", &list, e);
	struct jw w;

	if (got < 1)
		return got;
	jw_init(&w, text);
	jw_open(&w, '[');
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *v = json_object_array_get_idx(list, i);
		const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;

		if (s == NULL || strlen(s) != (size_t)json_object_get_string_len(v))
			return err_set(e, ERR_INVALID, "command must be an array of strings");
		jw_str(&w, s);
	}
	jw_close(&w, ']');
	if (json_object_array_length(list) == 0 || buf_failed(text))
		return err_set(e, ERR_INVALID, "command must hold 1 or more strings, %zu bytes in all", text->max);
	*out = buf_str(text);
	return 0;
}

static int take_size(json_object *o, const char *key, int64_t min, int64_t max, uint32_t *out, struct err *e)
{
	int64_t n = 0;

	if (json_get_int(o, key, min, max, &n, e) < 0)
		return -1;
	*out = (uint32_t)n;
	return 0;
}

static int template_read(json_object *o, struct template_spec *s, struct buf *command, struct err *e)
{
	s->team = "World team";
	if (json_get_str(o, "team", NAME_MAX_LEN - 1, &s->team, e) < 0 ||
	    json_need_str(o, "alias", NAME_MAX_LEN - 1, &s->alias, e) < 0 || json_need_str(o, "image", 4095, &s->image, e) < 0 ||
	    json_get_str(o, "pool", POOL_NAME_LEN - 1, &s->pool, e) < 0 ||
	    take_command(o, command, &s->command, e) < 0 || take_size(o, "readyPort", 1, 65535, &s->ready_port, e) < 0 ||
	    json_get_str(o, "envdVersion", 15, &s->envd_version, e) < 0 ||
	    take_size(o, "cpuCount", 1, 32, &s->cpu_count, e) < 0 ||
	    take_size(o, "memoryMB", 128, 1 << 20, &s->memory_mb, e) < 0 ||
	    take_size(o, "diskSizeMB", 16, 1 << 24, &s->disk_mb, e) < 0 || json_get_bool(o, "public", &s->is_public, e) < 0)
		return -1;
	return 0;
}

/* Slug of a template's team. */
static int slug_of(struct domain *d, const struct template_rec *t, char slug[NAME_MAX_LEN], struct err *e)
{
	struct team_rec team;

	if (team_get(d, t->team, &team, e) < 0)
		return err_wrap(e, "template %s", t->id);
	memcpy(slug, team.slug, NAME_MAX_LEN);
	return 0;
}

/* Enrol and let the node know. A node that is away learns it at the first create. */
static int enrol(struct call *c, const struct template_spec *s, struct err *e)
{
	struct template_rec t;
	char slug[NAME_MAX_LEN];
	struct err why;
	struct jw w;
	int status;

	if (template_enrol(c->d, s, &t, e) < 0)
		return -1;
	if (template_push_shapes(c->d, &why) < 0)
		log_warn("template %s: the node was not told: %s", t.id, why.text);
	status = slug_of(c->d, &t, slug, e);
	if (status == 0) {
		c->status = 201;
		jw_init(&w, &c->out);
		json_template(&w, &t, slug);
	}
	template_rec_release(&t);
	return status;
}

int door_template(struct call *c, struct err *e)
{
	struct template_spec s = { 0 };
	json_object *o;
	struct buf command;
	int status;

	if (door_open(c, e) < 0 || json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	buf_init(&command, COMMAND_MAX);
	status = template_read(o, &s, &command, e);
	if (status == 0)
		status = enrol(c, &s, e);
	buf_release(&command);
	json_object_put(o);
	return status;
}

/* The pool as stored: its settings with their defaults. */
static void json_pool(struct jw *w, const struct pool_rec *p)
{
	size_t n = strlen(p->config);

	jw_open(w, '{');
	jw_kstr(w, "name", p->name);
	jw_kstr(w, "kind", pool_kind_name((enum pool_kind)p->kind));
	if (n > 2) {                         /* the members of the stored object */
		buf_addc(w->b, ',');
		buf_add(w->b, p->config + 1, n - 2);
	}
	jw_close(w, '}');
}

int door_machine_pool(struct call *c, struct err *e)
{
	struct pool_rec p;
	struct err why;
	struct jw w;

	if (door_open(c, e) < 0 || pool_enrol(c->d, buf_str(&c->body), c->body.len, &p, e) < 0)
		return -1;
	if (template_push_shapes(c->d, &why) < 0)
		log_warn("pool %s: the node was not told: %s", p.name, why.text);
	c->status = 201;
	jw_init(&w, &c->out);
	json_pool(&w, &p);
	pool_rec_release(&p);
	return 0;
}

/* ---- the clock ---- */

int door_clock_get(struct call *c, struct err *e)
{
	struct world_clock now;
	char text[WHEN_LEN];
	struct jw w;

	if (door_open(c, e) < 0)
		return -1;
	clock_get(c->d, &now);
	when_format(now.now_us, text);
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "mode", now.frozen ? "frozen" : "real");
	jw_kstr(&w, "now", text);
	jw_close(&w, '}');
	return 0;
}

static int clock_read(json_object *o, struct clock_spec *s, struct err *e)
{
	const char *at = NULL;
	int64_t seconds = 0;

	if (json_get_str(o, "mode", 16, &s->mode, e) < 0 || json_get_str(o, "at", 64, &at, e) < 0 ||
	    json_get_int(o, "advance", 0, ADVANCE_MAX_S, &seconds, e) < 0)
		return -1;
	if (at != NULL && (when_parse(at, strlen(at), &s->at_us) < 0 || s->at_us <= 0))
		return err_set(e, ERR_INVALID, "at must be a time in RFC 3339, after 1970");
	s->advance_us = seconds * US_PER_S;
	return 0;
}

int door_clock_set(struct call *c, struct err *e)
{
	struct clock_spec s = { .mode = NULL };
	json_object *o;
	int status;

	if (door_open(c, e) < 0 || json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	status = clock_read(o, &s, e);
	if (status == 0)
		status = clock_set(c->d, &s, e);
	json_object_put(o);
	return status == 0 ? door_clock_get(c, e) : -1;
}
