/* GET one sandbox and both lists. */
#include "responder.h"

#include <stdio.h>
#include <string.h>

int sandbox_id_read(const char *text, char id[SANDBOX_ID_LEN], struct err *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strspn(text, letters);
	const char *rest = text + n;

	if (n == 0 || (*rest != '\0' && *rest != '-') || (*rest == '-' && strchr(rest + 1, '-') != NULL))
		return err_set(e, ERR_INVALID, "Invalid sandbox ID");
	if (n >= SANDBOX_ID_LEN)
		return err_set(e, ERR_NOT_FOUND, "Sandbox \"%.*s\" doesn't exist or you don't have access to it", (int)n, text);
	memcpy(id, text, n);
	id[n] = '\0';
	return 0;
}

int take_sandbox_id(const struct call *c, char id[SANDBOX_ID_LEN], struct err *e)
{
	return sandbox_id_read(c->param[0], id, e);
}

int sandbox_show(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	struct sandbox_rec r;
	struct jw w;

	if (take_sandbox_id(c, id, e) < 0 || sandbox_get(c->d, c->team.id, id, &r, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	json_sandbox_detail(&w, c->d, &r);
	sandbox_rec_release(&r);
	return 0;
}

static int add_row(void *ctx, const char *id, const struct sandbox_glance *g, struct err *e)
{
	struct jw *w = ctx;

	json_sandbox_listed(w, id, g);
	return buf_failed(w->b) ? err_set(e, ERR_INTERNAL, "the list is too long for one answer") : 0;
}

/* The array of what q selects; next and total as sandbox_list. */
static int list(struct call *c, const struct sandbox_query *q, char next[PAGE_TOKEN_LEN], uint64_t *total, struct err *e)
{
	struct jw w;

	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (q != NULL && sandbox_list(c->d, c->team.id, q, add_row, &w, next, total, e) < 0)
		return -1;
	jw_close(&w, ']');
	return 0;
}

int sandboxes_list_v1(struct call *c, struct err *e)
{
	struct list_request r = { .q = { .want_running = true } };
	char next[PAGE_TOKEN_LEN];

	if (list_read_metadata(c, &r, e) < 0)
		return -1;
	return list(c, &r.q, next, NULL, e);
}

/* Put the template's id into the query: 1, 0 when the name is nobody's (the list is empty then), -1. */
static int take_template(struct call *c, struct list_request *r, char id[TEMPLATE_ID_LEN], struct err *e)
{
	struct template_rec t;
	struct err why;

	if (r->template_ref[0] == '\0')
		return 1;
	if (strchr(r->template_ref, ':') != NULL)
		return err_set(e, ERR_INVALID, "Invalid template: %.128s: a tag is not allowed here", r->template_ref);
	if (template_resolve(c->d, &c->team, r->template_ref, &t, &why) < 0) {
		if (why.kind == ERR_NOT_FOUND)
			return 0;
		*e = why;
		return why.kind == ERR_INVALID ? err_set(e, ERR_INVALID, "Invalid template: %.128s", r->template_ref) : -1;
	}
	snprintf(id, TEMPLATE_ID_LEN, "%s", t.id);
	r->q.template_id = id;
	template_rec_release(&t);
	return 1;
}

int sandboxes_list_v2(struct call *c, struct err *e)
{
	struct list_request r;
	char template_id[TEMPLATE_ID_LEN], next[PAGE_TOKEN_LEN] = "", text[24];
	uint64_t total = 0;
	int found;

	if (list_read(c, &r, e) < 0)
		return -1;
	found = take_template(c, &r, template_id, e);
	if (found < 0 || list(c, found ? &r.q : NULL, next, r.q.want_running ? &total : NULL, e) < 0)
		return -1;
	if (next[0] != '\0')
		call_header(c, "X-Next-Token", next);
	if (r.q.want_running) {
		snprintf(text, sizeof text, "%llu", (unsigned long long)total);
		call_header(c, "X-Total-Running", text);
	}
	return 0;
}
