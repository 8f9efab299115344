/* hutch-events: webhooks of a team (api.md 14.2). */
#include "responder.h"

#include <string.h>

#include "hutch/webhook.h"
#include "hutch/when.h"

static void json_webhook(struct jw *w, const struct webhook_rec *r)
{
	char made[WHEN_LEN];

	when_format(r->created_us, made);
	jw_open(w, '{');
	jw_kstr(w, "id", r->id);
	jw_kstr(w, "teamId", r->team);
	jw_kstr(w, "name", r->name);
	jw_kstr(w, "createdAt", made);
	jw_kbool(w, "enabled", r->enabled);
	jw_kstr(w, "url", r->url);
	jw_key(w, "events");
	jw_open(w, '[');
	for (unsigned i = 0; i < EVENT_TYPES; i++)
		if ((r->events & 1U << i) != 0)
			jw_str(w, event_type_name(i));
	jw_close(w, ']');
	jw_close(w, '}');
}

static void answer(struct call *c, int status, struct webhook_rec *r)
{
	struct jw w;

	c->status = status;
	jw_init(&w, &c->out);
	json_webhook(&w, r);
	webhook_rec_release(r);
}

/* Names of types as a set; it must name one at least. */
static int take_events(json_object *o, uint32_t *events, struct err *e)
{
	json_object *list = NULL;
	int got = json_get_arr(o, "events", &list, e);

	if (got < 1)
		return got;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *v = json_object_array_get_idx(list, i);
		int type;

		if (!json_object_is_type(v, json_type_string))
			return err_set(e, ERR_INVALID, "events must be an array of strings");
		type = event_type_find(json_object_get_string(v));
		if (type < 0)
			return err_set(e, ERR_INVALID, "events: \"%.64s\" is no type of event", json_object_get_string(v));
		*events |= 1U << type;
	}
	return *events == 0 ? err_set(e, ERR_INVALID, "events must name one type at least") : 0;
}

static int read_spec(json_object *o, struct webhook_spec *s, struct err *e)
{
	int enabled;

	if (json_get_str(o, "name", NAME_MAX_LEN - 1, &s->name, e) < 0 || json_get_str(o, "url", WEBHOOK_URL_MAX, &s->url, e) < 0)
		return -1;
	enabled = json_get_bool(o, "enabled", &s->enabled, e);
	s->enabled_set = enabled == 1;
	if (enabled < 0 || take_events(o, &s->events, e) < 0 ||
	    json_get_str(o, "signatureSecret", WEBHOOK_SECRET_MAX, &s->secret, e) < 0)
		return -1;
	return 0;
}

/* id NULL: a new one. */
static int put(struct call *c, const char *id, struct err *e)
{
	struct webhook_spec s = { 0 };
	struct webhook_rec r;
	json_object *o;
	int status;

	if (json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	status = read_spec(o, &s, e);
	if (status == 0 && id == NULL)
		status = webhook_create(c->d, c->team.id, &s, &r, e);
	else if (status == 0)
		status = webhook_update(c->d, c->team.id, id, &s, &r, e);
	json_object_put(o);
	if (status == 0)
		answer(c, id == NULL ? 201 : 200, &r);
	return status;
}

int webhook_make(struct call *c, struct err *e)
{
	return put(c, NULL, e);
}

int webhook_change(struct call *c, struct err *e)
{
	return put(c, c->param[0], e);
}

static int add_webhook(void *ctx, const struct webhook_rec *r, struct err *e)
{
	struct jw *w = ctx;

	json_webhook(w, r);
	return buf_failed(w->b) ? err_set(e, ERR_INTERNAL, "the list is too long for one answer") : 0;
}

int webhooks_show(struct call *c, struct err *e)
{
	struct jw w;

	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (webhook_list(c->d, c->team.id, add_webhook, &w, e) < 0)
		return -1;
	jw_close(&w, ']');
	return 0;
}

int webhook_show(struct call *c, struct err *e)
{
	struct webhook_rec r;

	if (webhook_get(c->d, c->team.id, c->param[0], &r, e) < 0)
		return -1;
	answer(c, 200, &r);
	return 0;
}

/* 200, not 204: what clients check for. */
int webhook_remove(struct call *c, struct err *e)
{
	if (webhook_delete(c->d, c->team.id, c->param[0], e) < 0)
		return -1;
	c->status = 200;
	buf_adds(&c->out, "{}");
	return 0;
}
