/* Query parameters of the lists. */
#include "responder.h"

#include <string.h>

#include "hutch/when.h"

/* Decode one part of a pair in place. */
static char *decode_part(char *s)
{
	return form_decode(s, strlen(s), s, strlen(s) + 1) < 0 ? NULL : s;
}

static bool has_key(const struct list_request *r, const char *key)
{
	for (size_t i = 0; i < r->q.nmeta; i++)
		if (strcmp(r->pairs[2 * i], key) == 0)
			return true;
	return false;
}

/* "k=v&k2=v2", each part still encoded once, into r->pairs. */
static int split_pairs(struct list_request *r, struct err *e)
{
	char *p = r->text;

	while (p != NULL) {
		char *end = strchr(p, '&'), *value;

		if (end != NULL)
			*end++ = '\0';
		value = strchr(p, '=');
		if (value == NULL || strchr(value + 1, '=') != NULL)
			return err_set(e, ERR_INVALID, "metadata must be key=value pairs");
		*value++ = '\0';
		if (r->q.nmeta == META_PAIRS_MAX)
			return err_set(e, ERR_INVALID, "metadata has more than %d pairs", META_PAIRS_MAX);
		r->pairs[2 * r->q.nmeta] = decode_part(p);
		r->pairs[2 * r->q.nmeta + 1] = decode_part(value);
		if (r->pairs[2 * r->q.nmeta] == NULL || r->pairs[2 * r->q.nmeta + 1] == NULL)
			return err_set(e, ERR_INVALID, "metadata has a malformed escape");
		if (*p == '\0' || has_key(r, p))     /* all pairs must match: of two for one key only one can be meant */
			return err_set(e, ERR_INVALID, "metadata has %s key", *p == '\0' ? "an empty" : "a repeated");
		r->q.nmeta++;
		p = end;
	}
	r->q.meta = r->pairs;
	return 0;
}

int list_read_metadata(const struct call *c, struct list_request *r, struct err *e)
{
	int got = call_query(c, "metadata", r->text, sizeof r->text, e);

	if (got < 1)
		return got;
	if (decode_part(r->text) == NULL)
		return err_set(e, ERR_INVALID, "metadata has a malformed escape");
	return split_pairs(r, e);
}

static int take_state(const struct call *c, struct sandbox_query *q, struct err *e)
{
	char text[64], *save = NULL;
	int got = call_query(c, "state", text, sizeof text, e);

	if (got < 0)
		return -1;
	q->want_running = q->want_paused = got == 0;
	for (char *s = got ? strtok_r(text, ",", &save) : NULL; s != NULL; s = strtok_r(NULL, ",", &save)) {
		bool running = strcmp(s, "running") == 0;

		if (!running && strcmp(s, "paused") != 0)
			return err_set(e, ERR_INVALID, "state must be running or paused");
		q->want_running = q->want_running || running;
		q->want_paused = q->want_paused || !running;
	}
	if (!q->want_running && !q->want_paused)
		return err_set(e, ERR_INVALID, "state must be running or paused");
	return 0;
}

static int take_order(const struct call *c, struct sandbox_query *q, struct err *e)
{
	char text[8] = "desc";

	if (call_query(c, "order", text, sizeof text, e) < 0)
		return -1;
	if (strcmp(text, "asc") != 0 && strcmp(text, "desc") != 0)
		return err_set(e, ERR_INVALID, "order must be asc or desc");
	q->oldest_first = text[0] == 'a';
	return 0;
}

static int take_started_after(const struct call *c, struct sandbox_query *q, struct err *e)
{
	char text[64];
	int got = call_query(c, "startedAfter", text, sizeof text, e);

	if (got < 1)
		return got;
	if (when_parse(text, strlen(text), &q->started_after_us) < 0)
		return err_set(e, ERR_INVALID, "startedAfter must be an RFC 3339 time");
	return 0;
}

int take_page(const struct call *c, struct page_request *r, struct err *e)
{
	int64_t limit = 100;
	int got;

	if (call_query_int(c, "limit", 1, 100, &limit, e) < 0 || (got = call_query(c, "nextToken", r->text, sizeof r->text, e)) < 0)
		return -1;
	r->limit = (int)limit;
	r->next_token = got == 1 && r->text[0] != '\0' ? r->text : NULL;
	return 0;
}

int list_read(const struct call *c, struct list_request *r, struct err *e)
{
	int got;

	memset(&r->q, 0, sizeof r->q);
	r->template_ref[0] = '\0';
	if (list_read_metadata(c, r, e) < 0 || take_state(c, &r->q, e) < 0 || take_order(c, &r->q, e) < 0 ||
	    take_started_after(c, &r->q, e) < 0 || take_page(c, &r->page, e) < 0)
		return -1;
	r->q.limit = r->page.limit;
	r->q.next_token = r->page.next_token;
	got = call_query(c, "template", r->template_ref, sizeof r->template_ref, e);
	if (got < 0 || (got == 1 && r->template_ref[0] == '\0'))
		return got < 0 ? -1 : err_set(e, ERR_INVALID, "template must not be empty");
	return 0;
}
