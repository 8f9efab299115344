/* Snapshots: taking them, listing them; and forks. */
#include "responder.h"

#define NAME_BYTES_MAX 128           /* spec: maxLength of a template's name */
#define FORK_S 15

static void json_snapshot(struct jw *w, const struct snapshot_info *s)
{
	jw_open(w, '{');
	jw_kstr(w, "snapshotID", s->id);
	jw_key(w, "names");
	jw_open(w, '[');
	if (s->name[0] != '\0')
		jw_str(w, s->name);
	jw_close(w, ']');
	jw_close(w, '}');
}

static int take(struct call *c, const char *id, json_object *o, struct err *e)
{
	struct snapshot_spec spec = { .name = NULL };
	struct snapshot_info s;
	struct jw w;

	if (json_get_str(o, "name", NAME_BYTES_MAX, &spec.name, e) < 0 || json_get_bool(o, "memory", &spec.memory, e) < 0 ||
	    sandbox_snapshot(c->d, &c->team, id, &spec, &s, e) < 0)
		return -1;
	c->status = 201;
	jw_init(&w, &c->out);
	json_snapshot(&w, &s);
	return 0;
}

int sandbox_snapshot_post(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	json_object *o;
	int status;

	if (take_sandbox_id(c, id, e) < 0)
		return -1;
	if (c->body.len == 0)
		return err_set(e, ERR_INVALID, "the body is required: {} or {\"name\": ...}");
	if (json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	status = take(c, id, o, e);
	json_object_put(o);
	return status;
}

static int add_row(void *ctx, const struct snapshot_info *s, struct err *e)
{
	struct jw *w = ctx;

	json_snapshot(w, s);
	return buf_failed(w->b) ? err_set(e, ERR_INTERNAL, "the list is too long for one answer") : 0;
}

/* The sandbox that is asked about; *out stays NULL when none is. */
static int take_sandbox(struct call *c, char id[SANDBOX_ID_LEN], const char **out, struct err *e)
{
	char text[64];
	struct err why;
	int got = call_query(c, "sandboxID", text, sizeof text, e);

	if (got < 1)
		return got;
	*out = id;
	if (sandbox_id_read(text, id, &why) == 0)
		return 0;
	if (why.kind != ERR_NOT_FOUND) {
		*e = why;
		return -1;
	}
	*out = "-";                          /* too long to be any: nothing was made of it */
	return 0;
}

int snapshots_list(struct call *c, struct err *e)
{
	char name[3 * NAME_MAX_LEN], id[SANDBOX_ID_LEN], next[PAGE_TOKEN_LEN];
	struct snapshot_query q = { .sandbox = NULL };
	struct page_request page;
	struct jw w;
	int got;

	if (take_page(c, &page, e) < 0)
		return -1;
	q.limit = page.limit;
	q.next_token = page.next_token;
	if (take_sandbox(c, id, &q.sandbox, e) < 0 || (got = call_query(c, "name", name, sizeof name, e)) < 0)
		return -1;
	q.name = got == 1 ? name : NULL;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (snapshot_list(c->d, &c->team, &q, add_row, &w, next, e) < 0)
		return -1;
	jw_close(&w, ']');
	if (next[0] != '\0')
		call_header(c, "X-Next-Token", next);
	return 0;
}

int sandbox_fork_post(struct call *c, struct err *e)
{
	int64_t count = 1, seconds = FORK_S;
	char id[SANDBOX_ID_LEN];
	json_object *o;
	int got;

	if (take_sandbox_id(c, id, e) < 0 || json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	got = json_get_int(o, "count", 1, 100, &count, e);
	if (got >= 0)
		got = json_get_int(o, "timeout", 0, INT32_MAX, &seconds, e);
	json_object_put(o);
	return got < 0 ? -1 : sandbox_fork(c->d, &c->team, id, count, seconds, e);
}
