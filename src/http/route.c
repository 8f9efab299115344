/*
 * A request's way through a route table. The raw path is matched (api.md T3); parameters are decoded after the match.
 */
#include "hutch/call.h"

#include <stdio.h>
#include <string.h>

#include "hutch/envd.h"

static int decode_params(struct call *c, const struct uri_params *params, struct err *e)
{
	for (size_t i = 0; i < params->n; i++)
		if (path_decode(params->at[i].p, params->at[i].n, c->param[i], CALL_PARAM_LEN) < 0)
			return err_set(e, ERR_INVALID, "path segment %zu is malformed or longer than %d bytes", i + 1,
				       CALL_PARAM_LEN - 1);
	return 0;
}

static int not_served(const struct call *c, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "%.16s %.200s is not served", c->method, c->path);
}

const struct route *route_find(const struct route *table, size_t n, struct call *c, struct buf *allow, struct err *e)
{
	const char *method = strcmp(c->method, "HEAD") == 0 ? "GET" : c->method;
	struct uri_params params;
	const struct route *r = uri_route(table, n, sizeof *table, (struct uri_span){ method, strlen(method) },
					  (struct uri_span){ c->path, strlen(c->path) }, &params, allow);

	if (r != NULL)
		return decode_params(c, &params, e) < 0 ? NULL : r;
	if (allow->len > 0)
		err_set(e, ERR_INVALID, "method %.32s is not allowed here", c->method);
	else
		not_served(c, e);
	return NULL;
}

static int authenticate(struct call *c, enum route_auth auth, struct err *e)
{
	const char *admin = auth != AUTH_OPEN && auth != AUTH_USER ? c->header(c, "HTTP_X_ADMIN_TOKEN") : NULL;
	const char *team = admin != NULL || auth == AUTH_MANAGER ? c->header(c, "HTTP_X_TEAM_ID") : NULL;

	switch (auth) {
	case AUTH_OPEN:
		return 0;
	case AUTH_TEAM:
	case AUTH_START:
		return auth_team(c->d, c->header(c, "HTTP_X_API_KEY"), admin, team, &c->team, e);
	case AUTH_EITHER:
		if (c->header(c, "HTTP_X_API_KEY") == NULL && admin == NULL && c->header(c, "HTTP_AUTHORIZATION") != NULL)
			return auth_user(c->d, c->header(c, "HTTP_AUTHORIZATION"), &c->team, e);
		return auth_team(c->d, c->header(c, "HTTP_X_API_KEY"), admin, team, &c->team, e);
	case AUTH_USER:
		return auth_user(c->d, c->header(c, "HTTP_AUTHORIZATION"), &c->team, e);
	case AUTH_MANAGER:
		return auth_manager(c->d, c->header(c, "HTTP_AUTHORIZATION"), admin, team, &c->team, e);
	case AUTH_ADMIN:
		return auth_admin(c->d, admin, e);
	}
	return err_set(e, ERR_INTERNAL, "a route without a rule who may call it");
}

/* A blocked team may look and remove. */
static int admit_team(const struct call *c, const struct route *r, struct err *e)
{
	bool changes = strcmp(r->method, "GET") != 0 && strcmp(r->method, "DELETE") != 0;

	return c->team.id[0] != '\0' ? team_may(&c->team, changes, e) : 0;
}

static void number_header(struct call *c, const char *name, uint32_t n)
{
	char text[16];

	snprintf(text, sizeof text, "%u", n);
	call_header(c, name, text);
}

/* Within the team's rate? (api.md 1) */
static int take_rate(struct call *c, const struct route *r, struct rate_answer *rate, struct err *e)
{
	enum rate_group group = strcmp(r->method, "GET") == 0 ? RATE_READ : RATE_CHANGE;

	if (c->team.id[0] == '\0')
		return 0;
	rate_take(c->d, c->team.id, r->auth == AUTH_START ? RATE_CREATE : group, rate);
	if (!rate->refused)
		return 0;
	err_set(e, ERR_LIMIT, "Rate limit exceeded");
	e->retry_s = rate->retry_s;
	return -1;
}

/* Clients that see Retry-After wait that long and ask again, some three times: it is there only where that may help. */
static void rate_headers(struct call *c, const struct rate_answer *rate, const struct err *e)
{
	if (rate->bounded) {
		number_header(c, "RateLimit-Limit", rate->limit);
		number_header(c, "RateLimit-Remaining", rate->remaining);
		number_header(c, "RateLimit-Reset", rate->reset_s);
	}
	if (c->status == 429 && e->retry_s > 0)
		number_header(c, "Retry-After", e->retry_s);
}

static int serve(struct call *c, const struct route *r, struct rate_answer *rate, struct err *e)
{
	if (authenticate(c, r->auth, e) < 0 || admit_team(c, r, e) < 0 || take_rate(c, r, rate, e) < 0 || r->handler(c, e) < 0)
		return -1;
	return buf_failed(&c->out) || buf_failed(&c->headers) ? err_set(e, ERR_INTERNAL, "the answer is too large") : 0;
}

int call_gap(struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, TWIN_GAP_TEXT);
}

/* Matched, but not served in this profile; or not matched, which in a twin is all the same. */
static bool is_gap(const struct call *c, const struct route *r)
{
	return c->d != NULL && config_twin(c->d->conf) && (r == NULL || r->profile == IN_FULL);
}

void route_call(const struct route *table, size_t n, struct call *c)
{
	struct rate_answer rate = { .bounded = false };
	struct err e = { .kind = ERR_NONE };
	const struct route *r;
	struct buf allow;

	buf_init(&allow, 256);
	r = route_find(table, n, c, &allow, &e);
	if (is_gap(c, r)) {
		call_gap(&e);
		call_fail(c, &e);
	} else if (r == NULL && allow.len > 0) {
		call_header(c, "Allow", buf_str(&allow));
		call_refuse(c, 405, e.text);
	} else if (r == NULL || (r->handler == NULL ? not_served(c, &e) : serve(c, r, &rate, &e)) < 0) {
		buf_reset(&c->headers);
		call_fail(c, &e);
	}
	rate_headers(c, &rate, &e);
	buf_release(&allow);
}

/* Can every path of b also be one of a? */
static bool covers(const char *a, const char *b)
{
	struct uri_params params;

	return uri_match(a, (struct uri_span){ b, strlen(b) }, &params);
}

int route_hidden(const struct route *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(table[j].method, table[i].method) == 0 && covers(table[j].path, table[i].path))
				return (int)i;
	return -1;
}
