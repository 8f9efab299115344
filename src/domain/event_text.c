/*
 * Stored events as they are read back: lists, and the bodies of deliveries. An event is a text that event.c wrote, so nothing is
 * parsed but what stands at its end. What clients chose is only in eventData, between two marks: the first of its name, since
 * all before it is ours, and the last of the name that follows, since all after it is ours.
 */
#include "config.h"

#include "domain_int.h"

#include <string.h>

#define DATA_MARK ",\"eventData\":"
#define TAIL_MARK ",\"sandboxBuildId\":"
#define TAIL_MAX 512

static const struct {
	const char *name, *label;
} types[EVENT_TYPES] = {
	[EVENT_T_CREATED] = { EVENT_CREATED, "create" },
	[EVENT_T_KILLED] = { EVENT_KILLED, "kill" },
	[EVENT_T_PAUSED] = { "sandbox.lifecycle.paused", "pause" },
	[EVENT_T_RESUMED] = { "sandbox.lifecycle.resumed", "resume" },
	[EVENT_T_UPDATED] = { EVENT_UPDATED, "update" },
	[EVENT_T_CHECKPOINTED] = { EVENT_CHECKPOINTED, "checkpoint" },
};

const char *event_type_name(unsigned type)
{
	return type < EVENT_TYPES ? types[type].name : "?";
}

int event_type_find(const char *name)
{
	for (int i = 0; i < EVENT_TYPES; i++)
		if (strcmp(types[i].name, name) == 0)
			return i;
	return -1;
}

/* The string value of a key of ours that stands before eventData. */
static int head_text(const char *json, size_t n, const char *key, char *out, size_t max)
{
	const char *end = memmem(json, n, DATA_MARK, strlen(DATA_MARK)), *p, *q;

	if (end == NULL)
		return -1;
	p = memmem(json, (size_t)(end - json), key, strlen(key));
	if (p == NULL)
		return -1;
	p += strlen(key);
	q = memchr(p, '"', (size_t)(end + 1 - p));
	if (q == NULL || (size_t)(q - p) >= max)
		return -1;
	memcpy(out, p, (size_t)(q - p));
	out[q - p] = '\0';
	return 0;
}

int event_text_type(const char *json, size_t n)
{
	char name[64];

	return head_text(json, n, "\"type\":\"", name, sizeof name) < 0 ? -1 : event_type_find(name);
}

/* ---- lists ---- */

struct list {
	const struct event_query *q;
	int64_t skip;
	int left;
	store_event_fn *fn;
	void *ctx;
};

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	struct list *l = ctx;
	int type = l->q->types != 0 ? event_text_type(json, n) : 0;

	if (l->q->types != 0 && (type < 0 || (l->q->types & 1U << type) == 0))
		return 0;
	if (l->skip > 0) {
		l->skip--;
		return 0;
	}
	if (l->fn(l->ctx, us, json, n, e) < 0)
		return -1;
	return --l->left == 0;
}

int events_list(struct domain *d, const char *team, const struct event_query *q, store_event_fn *fn, void *ctx, struct err *e)
{
	struct list l = { .q = q, .skip = q->offset, .left = q->limit, .fn = fn, .ctx = ctx };
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_events_of(t, team, q->sandbox, q->oldest_first, on_event, &l, e);
	txn_abort(t);
	return status;
}

/* ---- bodies of deliveries ---- */

/* The last one in the text; it is searched from the end, in the few bytes that our own fields may take. */
static const char *last_mark(const char *json, size_t n)
{
	size_t mark = strlen(TAIL_MARK), i = n >= mark ? n - mark : 0;

	for (; i > 0 && n - i < TAIL_MAX; i--)
		if (memcmp(json + i, TAIL_MARK, mark) == 0)
			return json + i;
	return NULL;
}

/* Each field of the tail once more, under its older name. */
static int add_tail(struct jw *w, const char *tail, size_t n)
{
	static const char *const names[][2] = {
		{ "sandboxBuildId", "sandbox_build_id" }, { "sandboxExecutionId", "sandbox_execution_id" },
		{ "sandboxId", "sandbox_id" }, { "sandboxTeamId", "sandbox_team_id" }, { "sandboxTemplateId", "sandbox_template_id" },
	};
	json_object *o = NULL;
	struct buf text;
	struct err e;
	int status;

	buf_init(&text, TAIL_MAX + 2);
	buf_addc(&text, '{');
	buf_add(&text, tail + 1, n - 1);
	status = buf_failed(&text) ? -1 : json_read_object(buf_str(&text), text.len, &o, &e);
	for (size_t i = 0; status == 0 && i < sizeof names / sizeof names[0]; i++) {
		const char *value = "";

		status = json_need_str(o, names[i][0], 64, &value, &e);
		jw_kstr(w, names[i][1], value);
	}
	json_object_put(o);
	buf_release(&text);
	return status;
}

int webhook_body(const char *json, size_t n, struct buf *body, char id[UUID_LEN], struct err *e)
{
	const char *data = memmem(json, n, DATA_MARK, strlen(DATA_MARK)), *tail = last_mark(json, n);
	int type = event_text_type(json, n);
	struct jw w = { .b = body, .comma = true };

	if (data == NULL || tail == NULL || tail < data || type < 0 || json[n - 1] != '}' ||
	    head_text(json, n, "\"id\":\"", id, UUID_LEN) < 0)
		return err_set(e, ERR_INTERNAL, "a stored event is damaged");
	data += strlen(DATA_MARK);
	buf_add(body, json, n - 1);
	jw_key(&w, "event_data");
	jw_raw(&w, data, (size_t)(tail - data));
	jw_kstr(&w, "event_category", "lifecycle");
	jw_kstr(&w, "event_label", types[type].label);
	if (add_tail(&w, tail, (size_t)(json + n - tail)) < 0)
		return err_set(e, ERR_INTERNAL, "a stored event is damaged");
	jw_close(&w, '}');
	return buf_failed(body) ? err_set(e, ERR_INTERNAL, "out of memory") : 0;
}
