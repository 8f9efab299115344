/* What agents noted: fetched from machines, kept as lines of their sandboxes. A guest can write anything there: it is checked and bounded. */
#include "domain_int.h"

#include <string.h>

#include "hutch/json.h"

#define LINES_KEPT 1000              /* of one sandbox */
#define LINES_AT_ONCE 256            /* of one answer */
#define MESSAGE_MAX 1024
#define FIELDS_MAX 16
#define FIELDS_BYTES 2048
#define AHEAD_US (3600 * US_PER_S)   /* by which an agent's time may be later than ours */
#define FULL_PERCENT 75              /* fullness of the records from which no lines are taken, and old ones go early */
#define FULL_KEEP_US (3600 * US_PER_S)

int64_t journal_keep_us(const struct domain *d, int percent)
{
	return percent >= FULL_PERCENT ? FULL_KEEP_US : d->conf->event_days * 86400 * US_PER_S;
}

/* An object of a few short strings, as text. NULL: it is not that. */
static const char *fields_text(json_object *o)
{
	json_object *fields = NULL;
	const char *text;
	struct err e;

	if (json_get_strmap(o, "fields", &fields, &e) < 0)
		return NULL;
	if (fields == NULL)
		return "{}";
	text = json_object_to_json_string_ext(fields, JSON_C_TO_STRING_PLAIN);
	return json_object_object_length(fields) <= FIELDS_MAX && text != NULL && strlen(text) <= FIELDS_BYTES ? text : NULL;
}

/* False: not a line. What r points to is the object's. */
static bool read_line(json_object *o, int64_t now_us, struct line_rec *r)
{
	const char *level = NULL, *message = NULL, *fields;
	struct err e;
	int found;

	if (!json_object_is_type(o, json_type_object) || json_get_int(o, "us", 1, now_us + AHEAD_US, &r->us, &e) != 1 ||
	    json_get_str(o, "level", 8, &level, &e) != 1 || json_get_str(o, "message", MESSAGE_MAX, &message, &e) != 1)
		return false;
	found = line_level_find(level);
	fields = fields_text(o);
	if (found < 0 || fields == NULL)
		return false;
	r->level = (uint8_t)found;
	r->message = (char *)(uintptr_t)message;
	r->fields = (char *)(uintptr_t)fields;
	return true;
}

/* *newest becomes the time of the latest that was put. */
static int put_lines(struct domain *d, struct txn *t, const char *team, const char *id, json_object *lines, int64_t *newest, struct err *e)
{
	int64_t now = domain_now(d), before = *newest;
	struct line_rec r;

	memcpy(r.team, team, sizeof r.team);
	for (size_t i = 0; i < json_object_array_length(lines) && i < LINES_AT_ONCE; i++) {
		if (!read_line(json_object_array_get_idx(lines, i), now, &r) || r.us <= before)
			continue;
		if (store_line_put(t, id, &r, e) < 0)
			return -1;
		*newest = r.us > *newest ? r.us : *newest;
	}
	return *newest > before ? store_lines_cap(t, id, LINES_KEPT, e) : 0;
}

static int put_now(struct domain *d, const char *team, const char *id, json_object *lines, int64_t *newest, struct err *e)
{
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, put_lines(d, t, team, id, lines, newest, e), e);
}

int journal_keep(struct domain *d, struct txn *t, const char *team, const char *id, struct json_object *lines, struct err *e)
{
	int64_t newest;
	int percent;

	if (store_line_newest(t, id, &newest, e) < 0 || store_fullness(t, &percent, e) < 0)
		return -1;
	return percent < FULL_PERCENT ? put_lines(d, t, team, id, lines, &newest, e) : 0;
}

/* Where it stands now: 1, or 0 when there is nobody to ask or no room for answers. */
static int ask_whom(struct domain *d, const char *team, const char *id, struct sandbox_rec *r, int64_t *newest, struct err *e)
{
	struct txn *t;
	int got, percent = 0;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_sandbox_get(t, id, r, e);
	if (got == 1 && (!sandbox_is_live(r, domain_now(d)) || r->machine[0] == '\0' || (team != NULL && strcmp(team, r->team) != 0))) {
		sandbox_rec_release(r);
		got = 0;
	}
	if (got == 1 && (store_line_newest(t, id, newest, e) < 0 || store_fullness(t, &percent, e) < 0)) {
		sandbox_rec_release(r);
		got = -1;
	}
	txn_abort(t);
	if (got == 1 && percent >= FULL_PERCENT) {
		sandbox_rec_release(r);
		got = 0;
	}
	return got;
}

int journal_collect(struct domain *d, const char *team, const char *id, struct err *e)
{
	int64_t until = boot_us() + JOURNAL_COLLECT_US, newest = 0, before = -1;
	struct sandbox_rec r;
	int status = ask_whom(d, team, id, &r, &newest, e);

	if (status < 1)
		return status;
	status = 0;
	/* an answer may be a part of it */
	while (status == 0 && newest > before && boot_us() < until) {
		json_object *lines = NULL;

		before = newest;
		status = pool_journal(pool_of(d, r.pool_kind), r.machine, before, &lines, e);
		if (status == 0 && lines != NULL && json_object_array_length(lines) > 0)
			status = put_now(d, r.team, id, lines, &newest, e);
		json_object_put(lines);
	}
	sandbox_rec_release(&r);
	return status;
}
