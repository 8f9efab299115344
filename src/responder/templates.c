/* hutch-templates: its route table, and templates. Builds are not served yet. */
#include "responder.h"

#include <string.h>

const struct route templates_routes[] = {
	{ "GET",    "/health",                   AUTH_OPEN,   health_get, IN_BOTH },
	{ "GET",    "/templates",                AUTH_EITHER, templates_list_v1, IN_BOTH },
	{ "GET",    "/v2/templates",             AUTH_EITHER, templates_list_v2, IN_BOTH },
	{ "GET",    "/templates/aliases/:alias", AUTH_TEAM,   template_alias_show, IN_FULL },
	/* or it would be the deletion of a template of that name */
	{ "DELETE", "/templates/tags",           AUTH_OPEN,   NULL, IN_FULL },
	{ "GET",    "/templates/:id",            AUTH_TEAM,   template_show, IN_FULL },
	{ "DELETE", "/templates/:id",            AUTH_EITHER, template_remove, IN_FULL },
	{ "GET",    "/snapshots",                AUTH_TEAM,   snapshots_list, IN_FULL },
};
const size_t templates_routes_count = sizeof templates_routes / sizeof templates_routes[0];

/* The team that is asked about can only be the caller's. */
static int check_team(const struct call *c, struct err *e)
{
	char text[64], id[UUID_LEN];
	int got = call_query(c, "teamID", text, sizeof text, e);

	if (got < 1 || text[0] == '\0')
		return got < 0 ? -1 : 0;
	if (uuid_canonical(text, id) == 0 && strcmp(id, c->team.id) == 0)
		return 0;
	return err_set(e, ERR_INVALID, "teamID is not the team of the credentials");
}

struct listing { struct jw w; const char *slug; };

static int add_row(void *ctx, const struct template_rec *r, struct err *e)
{
	struct listing *l = ctx;

	json_template(&l->w, r, l->slug);
	return buf_failed(l->w.b) ? err_set(e, ERR_INTERNAL, "the list is too long for one answer") : 0;
}

static int list(struct call *c, int limit, const char *next_token, struct err *e)
{
	struct listing l = { .slug = c->team.slug };
	char next[PAGE_TOKEN_LEN];

	c->status = 200;
	jw_init(&l.w, &c->out);
	jw_open(&l.w, '[');
	if (template_list(c->d, &c->team, limit, next_token, add_row, &l, next, e) < 0)
		return -1;
	jw_close(&l.w, ']');
	if (next[0] != '\0')
		call_header(c, "X-Next-Token", next);
	return 0;
}

int templates_list_v1(struct call *c, struct err *e)
{
	return check_team(c, e) < 0 ? -1 : list(c, 0, NULL, e);
}

int templates_list_v2(struct call *c, struct err *e)
{
	struct page_request r;

	if (check_team(c, e) < 0 || take_page(c, &r, e) < 0)
		return -1;
	return list(c, r.limit, r.next_token, e);
}

int template_show(struct call *c, struct err *e)
{
	struct template_rec t;
	struct page_request r;
	struct jw w;

	if (take_page(c, &r, e) < 0)
		return -1;
	if (r.next_token != NULL)            /* its one build is on the first page, which names no other */
		return err_set(e, ERR_INVALID, "Invalid next token");
	if (template_get(c->d, &c->team, c->param[0], &t, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	json_template_builds(&w, &t, c->team.slug);
	template_rec_release(&t);
	return 0;
}

int template_alias_show(struct call *c, struct err *e)
{
	struct template_alias a;
	struct jw w;

	if (template_alias(c->d, &c->team, c->param[0], &a, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "templateID", a.id);
	jw_kbool(&w, "public", a.is_public);
	jw_close(&w, '}');
	return 0;
}

int template_remove(struct call *c, struct err *e)
{
	if (template_delete(c->d, &c->team, c->param[0], e) < 0)
		return -1;
	c->status = 204;
	return 0;
}
