/*
 * Logs of a sandbox (api.md 5.19): a line for each event of its life and for each thing that its agent noted. A line is itself a JSON
 * object, which the CLI parses (T10).
 */
#include "responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"
#include "hutch/when.h"

#define LINES_MAX 1000
#define KEEP_US (7 * 86400 * US_PER_S)
#define SEARCH_MAX 256
#define TYPE_PREFIX "sandbox.lifecycle."
#define LATEST_MS 253402300799999LL

struct entry {
	int64_t us;
	size_t age;                  /* place in its source, 0 the newest: for those of one instant */
	int level;                   /* enum line_level */
	const char *logger;
	char *message, *fields;      /* fields: a JSON object of strings */
};

/* Those of one source that are wanted, as the walk gives them: newest first. */
struct ring {
	struct entry *at;            /* limit of them */
	size_t n;                    /* told so far, more than the ring holds perhaps */
};

struct logs {
	const char *id, *team;
	int64_t from_us, to_us;      /* the first is in, the last is not */
	size_t limit;
	bool newest;                 /* of too many the newest are wanted, else the oldest */
	const char *search;          /* in the message; "" = all */
	int level;                   /* the least */
	struct ring events, lines;
	struct entry *all;           /* both together, oldest first; borrowed from the rings */
	size_t n;
};

/* ---- an event ---- */

/* "Sandbox killed (timeout)" */
static void message_of(json_object *o, const char *type, struct buf *b)
{
	const char *reason = NULL, *until = NULL;
	json_object *data = NULL;
	struct err e;

	if (json_get_obj(o, "eventData", &data, &e) == 1) {
		json_get_str(data, "kill_reason", 64, &reason, &e);
		json_get_str(data, "set_timeout", 64, &until, &e);
	}
	buf_addf(b, "Sandbox %s", strncmp(type, TYPE_PREFIX, strlen(TYPE_PREFIX)) == 0 ? type + strlen(TYPE_PREFIX) : type);
	if (reason != NULL)
		buf_addf(b, " (%s)", reason);
	if (until != NULL)
		buf_addf(b, ": timeout set to %s", until);
}

static void add_fields(struct jw *w, json_object *o)
{
	static const struct { const char *from, *to; } fields[] = {
		{ "type", "event" }, { "id", "eventID" }, { "sandboxTemplateId", "templateID" }, { "sandboxBuildId", "buildID" },
		{ "sandboxExecutionId", "executionID" },
	};
	const char *text;
	struct err e;

	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
		if (json_get_str(o, fields[i].from, 256, &text, &e) == 1)
			jw_kstr(w, fields[i].to, text);
}

static void entry_release(struct entry *x)
{
	free(x->message);
	free(x->fields);
	x->message = x->fields = NULL;
}

/* Of the event's JSON; the texts are the caller's to free. */
static int read_event(const char *text, size_t n, struct entry *x, struct err *e)
{
	json_object *o = NULL;
	struct buf message, fields;
	const char *type;
	struct jw w;

	if (json_read_object(text, n, &o, e) < 0 || json_need_str(o, "type", 128, &type, e) < 0) {
		json_object_put(o);
		return err_set(e, ERR_INTERNAL, "an event is damaged");
	}
	buf_init(&message, 1024);
	buf_init(&fields, 4096);
	message_of(o, type, &message);
	jw_init(&w, &fields);
	jw_open(&w, '{');
	add_fields(&w, o);
	jw_close(&w, '}');
	x->level = LINE_INFO;
	x->logger = "hutch";
	x->message = buf_take(&message);
	x->fields = buf_take(&fields);
	buf_release(&message);
	buf_release(&fields);
	json_object_put(o);
	if (x->message != NULL && x->fields != NULL)
		return 0;
	entry_release(x);
	return err_set(e, ERR_INTERNAL, "out of memory");
}

/* ---- finding them ---- */

/* Takes x over. 1: no older ones are wanted. */
static int keep(struct logs *l, struct ring *r, struct entry *x)
{
	struct entry *at;

	if (x->level < l->level || strstr(x->message, l->search) == NULL) {
		entry_release(x);
		return 0;
	}
	x->age = r->n;
	at = &r->at[r->n++ % l->limit];
	entry_release(at);
	*at = *x;
	return l->newest && r->n == l->limit;
}

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	struct logs *l = ctx;
	struct entry x = { .us = us };

	if (us < l->from_us)
		return 1;
	if (us >= l->to_us)
		return 0;
	return read_event(json, n, &x, e) < 0 ? -1 : keep(l, &l->events, &x);
}

static int on_line(void *ctx, const struct line_rec *r, struct err *e)
{
	struct logs *l = ctx;
	struct entry x = { .us = r->us, .level = r->level, .logger = "agent" };

	if (r->us < l->from_us)
		return 1;
	if (r->us >= l->to_us || strcmp(r->team, l->team) != 0)
		return 0;
	x.message = strdup(r->message);
	x.fields = strdup(r->fields);
	if (x.message != NULL && x.fields != NULL)
		return keep(l, &l->lines, &x);
	entry_release(&x);
	return err_set(e, ERR_INTERNAL, "out of memory");
}

static int by_time(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->us != y->us)
		return x->us > y->us ? 1 : -1;
	return (x->age < y->age) - (x->age > y->age);
}

/* Both sources in order of time, no more than the limit. */
static int merge(struct logs *l, struct err *e)
{
	const struct ring *const rings[] = { &l->events, &l->lines };

	l->all = calloc(2 * l->limit, sizeof *l->all);
	if (l->all == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < 2; i++) {
		size_t n = rings[i]->n < l->limit ? rings[i]->n : l->limit;

		memcpy(l->all + l->n, rings[i]->at, n * sizeof *l->all);
		l->n += n;
	}
	qsort(l->all, l->n, sizeof *l->all, by_time);
	if (l->n > l->limit && l->newest)
		memmove(l->all, l->all + l->n - l->limit, l->limit * sizeof *l->all);
	l->n = l->n < l->limit ? l->n : l->limit;
	return 0;
}

static int logs_find(struct call *c, struct logs *l, struct err *e)
{
	struct txn *t;
	struct err why;
	int status;

	if (l->limit == 0)
		return 0;
	if (journal_collect(c->d, c->team.id, l->id, &why) < 0)      /* what is known without it is an answer too */
		log_debug("journal of sandbox %s: %s", l->id, why.text);
	l->team = c->team.id;
	l->events.at = calloc(l->limit, sizeof *l->events.at);
	l->lines.at = calloc(l->limit, sizeof *l->lines.at);
	if (l->events.at == NULL || l->lines.at == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	if (txn_read(c->d->store, &t, e) < 0)
		return -1;
	status = store_walk_events_of(t, l->team, l->id, false, on_event, l, e);
	if (status == 0)
		status = store_walk_lines(t, l->id, on_line, l, e);
	txn_abort(t);
	return status < 0 ? -1 : merge(l, e);
}

static void ring_release(struct ring *r, size_t limit)
{
	for (size_t i = 0; r->at != NULL && i < limit; i++)
		entry_release(&r->at[i]);
	free(r->at);
}

static void logs_release(struct logs *l)
{
	ring_release(&l->events, l->limit);
	ring_release(&l->lines, l->limit);
	free(l->all);
}

/* ---- writing them ---- */

static void add_entry(struct jw *w, const struct entry *x)
{
	jw_open(w, '{');
	json_time(w, "timestamp", x->us);
	jw_kstr(w, "level", line_level_name(x->level));
	jw_kstr(w, "message", x->message);
	jw_key(w, "fields");
	jw_raw(w, x->fields, strlen(x->fields));
	jw_close(w, '}');
}

static void add_raw(struct jw *w, const char *id, const struct entry *x)
{
	size_t n = strlen(x->fields);
	struct buf line;
	struct jw l;

	buf_init(&line, 16384);
	jw_init(&l, &line);
	jw_open(&l, '{');
	json_time(&l, "timestamp", x->us);
	jw_kstr(&l, "level", line_level_name(x->level));
	jw_kstr(&l, "logger", x->logger);
	jw_kstr(&l, "message", x->message);
	jw_kstr(&l, "sandboxID", id);
	if (n > 2)
		jw_raw(&l, x->fields + 1, n - 2);    /* its members, without the braces */
	jw_close(&l, '}');
	jw_open(w, '{');
	json_time(w, "timestamp", x->us);
	jw_kstr(w, "line", buf_str(&line));
	jw_close(w, '}');
	buf_release(&line);
}

/* All that were found: raw lines or entries, oldest or newest first. */
static void logs_array(const struct logs *l, struct jw *w, const char *key, bool raw, bool oldest_first)
{
	jw_key(w, key);
	jw_open(w, '[');
	for (size_t i = 0; i < l->n; i++) {
		const struct entry *x = &l->all[oldest_first ? i : l->n - 1 - i];

		if (raw)
			add_raw(w, l->id, x);
		else
			add_entry(w, x);
	}
	jw_close(w, ']');
}

/* ---- routes ---- */

int sandbox_logs_v1(struct call *c, struct err *e)
{
	int64_t now = domain_now(c->d), start = 0, limit = LINES_MAX;
	struct logs l = { .search = "" };
	char id[SANDBOX_ID_LEN];
	struct jw w;
	int status;

	if (take_sandbox_id(c, id, e) < 0 || call_query_int(c, "start", 0, LATEST_MS, &start, e) < 0 ||
	    call_query_int(c, "limit", 0, INT32_MAX, &limit, e) < 0)
		return -1;
	l.id = id;
	l.from_us = start * US_PER_MS > now - KEEP_US ? start * US_PER_MS : now - KEEP_US;
	l.to_us = INT64_MAX;
	l.limit = limit < LINES_MAX ? (size_t)limit : LINES_MAX;     /* unlike version 2 it names no most */
	status = logs_find(c, &l, e);
	if (status == 0) {
		c->status = 200;
		jw_init(&w, &c->out);
		jw_open(&w, '{');
		logs_array(&l, &w, "logs", true, true);
		logs_array(&l, &w, "logEntries", false, true);
		jw_close(&w, '}');
	}
	logs_release(&l);
	return status;
}

static int take_level(const struct call *c, struct logs *l, struct err *e)
{
	char level[16];
	int got = call_query(c, "level", level, sizeof level, e);

	if (got < 1)
		return got;
	l->level = line_level_find(level);
	return l->level >= 0 ? 0 : err_set(e, ERR_INVALID, "level must be debug, info, warn or error");
}

static int take_direction(const struct call *c, struct logs *l, struct err *e)
{
	char word[16] = "backward";

	if (call_query(c, "direction", word, sizeof word, e) < 0)
		return -1;
	l->newest = strcmp(word, "backward") == 0;
	return l->newest || strcmp(word, "forward") == 0 ? 0 : err_set(e, ERR_INVALID, "direction must be forward or backward");
}

static int take_window(const struct call *c, struct logs *l, struct err *e)
{
	int64_t now = domain_now(c->d), cursor = 0;
	int got = call_query_int(c, "cursor", 0, LATEST_MS, &cursor, e);

	if (got < 0)
		return -1;
	l->from_us = now - KEEP_US;
	l->to_us = INT64_MAX;
	if (got == 1 && l->newest)
		l->to_us = (cursor + 1) * US_PER_MS;
	else if (got == 1 && cursor * US_PER_MS > l->from_us)
		l->from_us = cursor * US_PER_MS;
	return 0;
}

int sandbox_logs_v2(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN], search[SEARCH_MAX + 1] = "";
	struct logs l = { .search = search };
	int64_t limit = LINES_MAX;
	struct jw w;
	int status;

	if (take_sandbox_id(c, id, e) < 0 || take_direction(c, &l, e) < 0 || take_window(c, &l, e) < 0 || take_level(c, &l, e) < 0 ||
	    call_query_int(c, "limit", 0, LINES_MAX, &limit, e) < 0 || call_query(c, "search", search, sizeof search, e) < 0)
		return -1;
	l.id = id;
	l.limit = (size_t)limit;
	status = logs_find(c, &l, e);
	if (status == 0) {
		c->status = 200;
		jw_init(&w, &c->out);
		jw_open(&w, '{');
		logs_array(&l, &w, "logs", false, !l.newest);
		jw_close(&w, '}');
	}
	logs_release(&l);
	return status;
}
