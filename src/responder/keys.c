/* Teams of a user, API keys, access tokens (api.md 10). A key's text is shown once, when it is made. */
#include "responder.h"

#include <string.h>

#include "hutch/when.h"

void json_time(struct jw *w, const char *key, int64_t us)
{
	char text[WHEN_LEN];

	if (us > 0)
		when_format(us, text);
	jw_kstr(w, key, us > 0 ? text : NULL);
}

int take_uuid(const struct call *c, int i, const char *what, char id[UUID_LEN], struct err *e)
{
	return uuid_canonical(c->param[i], id) < 0 ? err_set(e, ERR_INVALID, "%s must be a UUID", what) : 0;
}

/* What can be told of a key: how it begins and ends. */
static void json_mask(struct jw *w, const struct key_rec *r)
{
	const char *dots = strstr(r->mask, "...");

	jw_key(w, "mask");
	jw_open(w, '{');
	jw_kstr(w, "prefix", r->kind == KEY_API ? "e2b_" : "sk_e2b_");
	jw_kint(w, "valueLength", r->length);
	jw_key(w, "maskedValuePrefix");
	jw_strn(w, r->mask, dots != NULL ? (size_t)(dots - r->mask) : 0);
	jw_kstr(w, "maskedValueSuffix", dots != NULL ? dots + 3 : "");
	jw_close(w, '}');
}

static void key_fields(struct jw *w, const struct key_rec *r)
{
	jw_kstr(w, "id", r->id);
	jw_kstr(w, "name", r->name);
	json_mask(w, r);
	json_time(w, "createdAt", r->created_us);
}

static void api_key_fields(struct jw *w, const struct key_rec *r)
{
	key_fields(w, r);
	jw_kstr(w, "createdBy", NULL);
	json_time(w, "lastUsed", r->used_us);
}

/* One team: the one that the access token is of. The CLI's login takes the key from here. */
int teams_list(struct call *c, struct err *e)
{
	char key[45];
	struct jw w;

	if (key_of_login(c->d, c->team.id, key, e) < 0)
		return -1;
	c->status = 200;
	call_header(c, "Cache-Control", "no-store");
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "teamID", c->team.id);
	jw_kstr(&w, "name", c->team.name);
	jw_kstr(&w, "apiKey", key);
	jw_kbool(&w, "isDefault", true);
	jw_close(&w, '}');
	jw_close(&w, ']');
	return 0;
}

static int add_key(void *ctx, const struct key_rec *r, struct err *e)
{
	struct jw *w = ctx;

	(void)e;
	jw_open(w, '{');
	api_key_fields(w, r);
	jw_close(w, '}');
	return 0;
}

int api_keys_list(struct call *c, struct err *e)
{
	struct jw w;

	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (key_each(c->d, c->team.id, KEY_API, add_key, &w, e) < 0)
		return -1;
	jw_close(&w, ']');
	return 0;
}

/* The name in a body; *o is the caller's to put, also after a failure. */
static int take_name(const struct call *c, json_object **o, const char **name, struct err *e)
{
	*o = NULL;
	if (json_read_body(buf_str(&c->body), c->body.len, o, e) < 0)
		return -1;
	return json_need_str(*o, "name", NAME_MAX_LEN - 1, name, e);
}

/* Make a key of that kind and answer it. */
static int create(struct call *c, const char *team, enum key_kind kind, struct err *e)
{
	const char *name = NULL;
	char key[KEY_LEN];
	struct key_rec r;
	json_object *o;
	struct jw w;
	int status = take_name(c, &o, &name, e);

	if (status == 0)
		status = key_new(c->d, team, kind, name, key, &r, e);
	json_object_put(o);
	if (status < 0)
		return -1;
	c->status = 201;
	call_header(c, "Cache-Control", "no-store");
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	if (kind == KEY_API)
		api_key_fields(&w, &r);
	else
		key_fields(&w, &r);
	jw_kstr(&w, kind == KEY_API ? "key" : "token", key);
	jw_close(&w, '}');
	explicit_bzero(key, sizeof key);
	return 0;
}

static int delete(struct call *c, const char *team, enum key_kind kind, int param, struct err *e)
{
	char id[UUID_LEN];

	if (take_uuid(c, param, "the id", id, e) < 0 || key_delete(c->d, team, kind, id, e) < 0)
		return -1;
	c->status = 204;
	return 0;
}

int api_key_create(struct call *c, struct err *e)
{
	return create(c, c->team.id, KEY_API, e);
}

int api_key_rename(struct call *c, struct err *e)
{
	const char *name = NULL;
	char id[UUID_LEN];
	json_object *o = NULL;
	int status = take_uuid(c, 0, "the id", id, e);

	if (status == 0)
		status = take_name(c, &o, &name, e);
	if (status == 0)
		status = key_rename(c->d, c->team.id, id, name, e);
	json_object_put(o);
	c->status = 200;
	return status;
}

int api_key_delete(struct call *c, struct err *e)
{
	return delete(c, c->team.id, KEY_API, 0, e);
}

int access_token_create(struct call *c, struct err *e)
{
	return create(c, c->team.id, KEY_TOKEN, e);
}

int access_token_delete(struct call *c, struct err *e)
{
	return delete(c, c->team.id, KEY_TOKEN, 0, e);
}

/* ---- the operator's ---- */

static int take_team(const struct call *c, struct team_rec *team, struct err *e)
{
	char id[UUID_LEN];

	return take_uuid(c, 0, "the team's id", id, e) < 0 ? -1 : team_get(c->d, id, team, e);
}

int admin_key_create(struct call *c, struct err *e)
{
	struct team_rec team;

	return take_team(c, &team, e) < 0 || team_may(&team, true, e) < 0 ? -1 : create(c, team.id, KEY_API, e);
}

int admin_key_delete(struct call *c, struct err *e)
{
	struct team_rec team;

	return take_team(c, &team, e) < 0 ? -1 : delete(c, team.id, KEY_API, 1, e);
}
