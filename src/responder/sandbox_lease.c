/* Kill, lease end, pause, resume, connect. */
#include "responder.h"

#define REFRESH_LEAST_S 15
#define RESUME_S 15

int sandbox_delete(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];

	if (take_sandbox_id(c, id, e) < 0 || sandbox_kill(c->d, c->team.id, id, "request", e) < 0)
		return -1;
	c->status = 204;
	return 0;
}

int lease_read(const char *text, size_t n, int64_t fallback, int64_t *seconds, bool *memory, struct err *e)
{
	json_object *o;
	int got;

	*memory = true;

	if (json_read_body(text, n, &o, e) < 0)
		return -1;
	got = json_get_int(o, "timeout", 0, INT32_MAX, seconds, e);
	if (got == 0 && fallback >= 0)
		*seconds = fallback;
	else if (got == 0)
		got = err_set(e, ERR_INVALID, "timeout is required");
	/* what a paused sandbox is to be resumed from; a running one has nothing to choose */
	if (got >= 0 && json_get_bool(o, "memory", memory, e) < 0)
		got = -1;
	json_object_put(o);
	return got < 0 ? -1 : 0;
}

int sandbox_timeout(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	int64_t seconds;
	bool ignored;

	if (take_sandbox_id(c, id, e) < 0 || lease_read(buf_str(&c->body), c->body.len, -1, &seconds, &ignored, e) < 0 ||
	    sandbox_set_timeout(c->d, &c->team, id, seconds, e) < 0)
		return -1;
	c->status = 204;
	return 0;
}

static int refresh_read(const char *text, size_t n, int64_t *seconds, struct err *e)
{
	json_object *o;
	int got;

	*seconds = REFRESH_LEAST_S;
	if (json_read_body(text, n, &o, e) < 0)
		return -1;
	got = json_get_int(o, "duration", 0, 3600, seconds, e);
	json_object_put(o);
	if (*seconds < REFRESH_LEAST_S)
		*seconds = REFRESH_LEAST_S;
	return got < 0 ? -1 : 0;
}

int sandbox_refresh(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	struct sandbox_rec r;
	int64_t seconds;

	if (take_sandbox_id(c, id, e) < 0 || refresh_read(buf_str(&c->body), c->body.len, &seconds, e) < 0 ||
	    sandbox_extend(c->d, &c->team, id, seconds, &r, e) < 0)
		return -1;
	sandbox_rec_release(&r);
	c->status = 204;
	return 0;
}

static int pause_read(const char *text, size_t n, bool *memory, struct err *e)
{
	json_object *o;
	int got;

	*memory = true;
	if (json_read_body(text, n, &o, e) < 0)
		return -1;
	got = json_get_bool(o, "memory", memory, e);
	json_object_put(o);
	return got < 0 ? -1 : 0;
}

int sandbox_pause_post(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	bool memory;

	if (take_sandbox_id(c, id, e) < 0 || pause_read(buf_str(&c->body), c->body.len, &memory, e) < 0 ||
	    sandbox_pause(c->d, c->team.id, id, memory, e) < 0)
		return -1;
	c->status = 204;
	return 0;
}

/* Resume and answer with the sandbox; status is the one for a sandbox that ran already. */
static int resume(struct call *c, const char *id, const struct resume_spec *s, int status, struct err *e)
{
	struct sandbox_rec r;
	bool resumed;
	struct jw w;

	if (sandbox_resume(c->d, &c->team, id, s, &r, &resumed, e) < 0)
		return -1;
	c->status = resumed ? 201 : status;
	jw_init(&w, &c->out);
	json_sandbox(&w, c->d, &r);
	sandbox_rec_release(&r);
	return 0;
}

int resume_read(const char *text, size_t n, struct resume_spec *s, struct err *e)
{
	bool memory = true, auto_pause = false;
	json_object *o;
	int got;

	*s = (struct resume_spec){ .seconds = RESUME_S, .only_paused = true, .auto_pause = -1 };
	if (json_read_body(text, n, &o, e) < 0)
		return -1;
	got = json_get_int(o, "timeout", 0, INT32_MAX, &s->seconds, e);
	if (got >= 0 && s->seconds == 0)
		got = err_set(e, ERR_INVALID, "Timeout must be greater than 0");
	if (got >= 0 && (got = json_get_bool(o, "autoPause", &auto_pause, e)) == 1)
		s->auto_pause = auto_pause;
	if (got >= 0)
		got = json_get_bool(o, "memory", &memory, e);
	s->reboot = !memory;
	json_object_put(o);
	return got < 0 ? -1 : 0;
}

int sandbox_resume_post(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	struct resume_spec s;

	if (take_sandbox_id(c, id, e) < 0 || resume_read(buf_str(&c->body), c->body.len, &s, e) < 0)
		return -1;
	return resume(c, id, &s, 201, e);
}

static int connect_sandbox(struct call *c, int64_t fallback, struct err *e)
{
	struct resume_spec s = { .auto_pause = -1 };
	char id[SANDBOX_ID_LEN];
	bool memory;

	if (take_sandbox_id(c, id, e) < 0 || lease_read(buf_str(&c->body), c->body.len, fallback, &s.seconds, &memory, e) < 0)
		return -1;
	s.reboot = !memory;
	if (s.reboot && config_twin(c->d->conf))     /* starting on the files alone is no part of a twin */
		return call_gap(e);
	return resume(c, id, &s, 200, e);
}

int sandbox_connect_v1(struct call *c, struct err *e)
{
	return connect_sandbox(c, -1, e);
}

int sandbox_connect_v2(struct call *c, struct err *e)
{
	return connect_sandbox(c, 300, e);
}
