/* hutch-doors: the mirrored account (twin.md 9): its webhooks, their secret, and where its mirror is. */
#include "responder.h"

#include <string.h>

#include "hutch/upstream.h"

/* Needs no open doors: who posts here proves it by the signature. */
int door_ingest(struct call *c, struct err *e)
{
	static const char *const effects[] = { [INGEST_REMOVED] = "removed", [INGEST_REFRESH] = "refresh", [INGEST_REPEATED] = "repeated" };
	const struct ingest in = {
		.version = c->header(c, "HTTP_E2B_SIGNATURE_VERSION"), .signature = c->header(c, "HTTP_E2B_SIGNATURE"),
		.delivery = c->header(c, "HTTP_E2B_DELIVERY_ID"), .body = buf_str(&c->body), .n = c->body.len,
	};
	enum ingest_effect effect;
	struct jw w;

	if (ingest_take(c->d, &in, &effect, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "effect", effects[effect]);
	jw_close(&w, '}');
	return 0;
}

int door_ingest_secret(struct call *c, struct err *e)
{
	const char *secret = NULL;
	json_object *o;
	int status;

	if (door_open(c, e) < 0 || json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	status = json_need_str(o, "secret", INGEST_SECRET_MAX, &secret, e);
	if (status == 0)
		status = ingest_secret_set(c->d, secret, e);
	json_object_put(o);
	c->status = 204;
	return status;
}

int door_ingest_secret_remove(struct call *c, struct err *e)
{
	if (door_open(c, e) < 0 || ingest_secret_set(c->d, NULL, e) < 0)
		return -1;
	c->status = 204;
	return 0;
}

static void list_state(struct jw *w, const char *name, const struct upstream_state *s, enum vendor_list what)
{
	jw_key(w, name);
	jw_open(w, '{');
	jw_kint(w, "onPage", s->rows[what]);
	jw_kbool(w, "mayBeMore", s->full[what] != 0);
	jw_close(w, '}');
}

/* The form in which packs declare theirs. */
static void budget_state(struct jw *w, const struct budget *b)
{
	jw_key(w, "rateBudget");
	jw_open(w, '{');
	jw_key(w, "allowance");
	jw_open(w, '{');
	jw_kint(w, "perMinute", BUDGET_ALLOWANCE);
	jw_kstr(w, "source", "creation of sandboxes in the smallest plan: 1/s");
	jw_close(w, '}');
	jw_kint(w, "ceiling", b->ceiling);
	jw_kint(w, "windowMs", BUDGET_WINDOW_S * 1000);
	jw_kint(w, "maxRetryAfterSeconds", BUDGET_HOLD_MAX_S);
	jw_kint(w, "used", b->used);
	json_time(w, "resetsAt", b->resets_us);
	json_time(w, "heldUntil", b->held_until_us);
	jw_kint(w, "sent", b->taken);
	jw_kint(w, "refused", b->refused);
	jw_close(w, '}');
}

int door_upstream(struct call *c, struct err *e)
{
	const char *url = c->d->conf->upstream_url;
	struct upstream_state s;
	struct budget b;
	struct jw w;

	if (door_open(c, e) < 0 || upstream_state(c->d, &s, e) < 0 || budget_get(c->d, &b, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "url", url[0] != '\0' ? url : NULL);
	json_time(&w, "refreshAskedAt", s.due_us);
	json_time(&w, "triedAt", s.tried_us);
	json_time(&w, "refreshedAt", s.done_us);
	jw_kint(&w, "failures", s.failures);
	list_state(&w, "sandboxes", &s, VENDOR_SANDBOXES);
	list_state(&w, "templates", &s, VENDOR_TEMPLATES);
	budget_state(&w, &b);
	jw_close(&w, '}');
	return 0;
}
