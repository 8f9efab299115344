/* hutch-events: lifecycle events of a team or of one sandbox (api.md 14.1). Stored JSON goes out as it is. */
#include "responder.h"

#include <string.h>

#include "hutch/webhook.h"

#define LIMIT 10
#define LIMIT_MAX 100

const struct route events_routes[] = {
	{ "GET",    "/health",               AUTH_OPEN, health_get, IN_BOTH },
	{ "GET",    "/events/sandboxes",     AUTH_TEAM, events_of_team, IN_FULL },
	{ "GET",    "/events/sandboxes/:id", AUTH_TEAM, events_of_sandbox, IN_FULL },
	{ "POST",   "/events/webhooks",      AUTH_TEAM, webhook_make, IN_FULL },
	{ "GET",    "/events/webhooks",      AUTH_TEAM, webhooks_show, IN_FULL },
	{ "GET",    "/events/webhooks/:id",  AUTH_TEAM, webhook_show, IN_FULL },
	{ "PATCH",  "/events/webhooks/:id",  AUTH_TEAM, webhook_change, IN_FULL },
	{ "DELETE", "/events/webhooks/:id",  AUTH_TEAM, webhook_remove, IN_FULL },
};
const size_t events_routes_count = sizeof events_routes / sizeof events_routes[0];

static int take_types(const struct call *c, uint32_t *types, struct err *e)
{
	const char *at = c->query;
	char name[64];
	int got;

	while ((got = call_query_next(&at, "types", name, sizeof name, e)) == 1) {
		int type = event_type_find(name);

		if (type < 0)
			return err_set(e, ERR_INVALID, "query parameter types: \"%s\" is no type of event", name);
		*types |= 1U << type;
	}
	return got;
}

static int take_order(const struct call *c, bool *oldest_first, struct err *e)
{
	char text[8] = "false";

	if (call_query(c, "orderAsc", text, sizeof text, e) < 0)
		return -1;
	*oldest_first = strcmp(text, "true") == 0;
	if (!*oldest_first && strcmp(text, "false") != 0)
		return err_set(e, ERR_INVALID, "query parameter orderAsc must be true or false");
	return 0;
}

static int add_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	struct jw *w = ctx;

	(void)us;
	jw_raw(w, json, n);
	return buf_failed(w->b) ? err_set(e, ERR_INTERNAL, "the list is too long for one answer") : 0;
}

static int list(struct call *c, const char *sandbox, struct err *e)
{
	struct event_query q = { .sandbox = sandbox };
	int64_t limit = LIMIT;
	struct jw w;

	if (call_query_int(c, "offset", 0, INT32_MAX, &q.offset, e) < 0 || call_query_int(c, "limit", 1, LIMIT_MAX, &limit, e) < 0 ||
	    take_order(c, &q.oldest_first, e) < 0 || take_types(c, &q.types, e) < 0)
		return -1;
	q.limit = (int)limit;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (events_list(c->d, c->team.id, &q, add_event, &w, e) < 0)
		return -1;
	jw_close(&w, ']');
	return 0;
}

int events_of_team(struct call *c, struct err *e)
{
	return list(c, NULL, e);
}

/* Events outlive their sandbox, so that an id which nobody has is one without events. */
int events_of_sandbox(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];

	return take_sandbox_id(c, id, e) < 0 ? -1 : list(c, id, e);
}
