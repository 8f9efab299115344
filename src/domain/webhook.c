/* Webhooks of teams (api.md 14.2). */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/log.h"
#include "hutch/seal.h"

#define SEALED_AT_ONCE 1000          /* of the first layout, in one transaction */

static int missing(const char *id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "Webhook \"%.64s\" doesn't exist or you don't have access to it", id);
}

/* What is there must be right. */
static int check_spec(const struct domain *d, const struct webhook_spec *s, struct err *e)
{
	size_t n = s->name != NULL ? strlen(s->name) : 1, m = s->secret != NULL ? strlen(s->secret) : 1;

	if (n == 0 || n >= NAME_MAX_LEN)
		return err_set(e, ERR_INVALID, "name must be 1 to %d bytes", NAME_MAX_LEN - 1);
	if (m == 0 || m > WEBHOOK_SECRET_MAX)
		return err_set(e, ERR_INVALID, "signatureSecret must be 1 to %d bytes", WEBHOOK_SECRET_MAX);
	if (s->events >= 1U << EVENT_TYPES)
		return err_set(e, ERR_INVALID, "events holds an unknown type");
	return s->url != NULL ? webhook_url_check(s->url, d->conf->webhook_private, e) : 0;
}

static int replace(char **at, const char *value, struct err *e)
{
	char *copy;

	if (value == NULL)
		return 0;
	copy = strdup(value);
	if (copy == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	free(*at);
	*at = copy;
	return 0;
}

/* The record keeps the secret sealed; it is bound to the webhook's id. */
static int seal(const struct domain *d, struct webhook_rec *r, const char *secret, struct err *e)
{
	struct buf b;
	int status;

	if (secret == NULL)
		return 0;
	buf_init(&b, 2 * SEAL_TEXT_MAX);
	status = seal_text(d->secret, "webhook", r->id, secret, &b, e);
	if (status == 0)
		status = replace(&r->secret, buf_str(&b), e);
	buf_release(&b);
	if (status == 0)
		r->clear = false;
	return status;
}

int webhook_secret(const struct domain *d, const struct webhook_rec *r, struct buf *out, struct err *e)
{
	if (!r->clear)
		return seal_open(d->secret, "webhook", r->id, r->secret, out, e);
	buf_adds(out, r->secret);
	return buf_failed(out) ? err_set(e, ERR_INTERNAL, "out of memory") : 0;
}

static int apply(const struct domain *d, struct webhook_rec *r, const struct webhook_spec *s, struct err *e)
{
	if (s->name != NULL)
		memccpy(r->name, s->name, '\0', sizeof r->name);
	if (s->enabled_set)
		r->enabled = s->enabled;
	if (s->events != 0)
		r->events = s->events;
	return replace(&r->url, s->url, e) < 0 ? -1 : seal(d, r, s->secret, e);
}

static int count(void *ctx, const struct webhook_rec *r, struct err *e)
{
	(void)r;
	(void)e;
	++*(int64_t *)ctx;
	return 0;
}

static int insert(struct domain *d, struct txn *t, const struct webhook_rec *r, struct err *e)
{
	int64_t n = 0;

	if (store_walk_webhooks(t, r->team, count, &n, e) < 0)
		return -1;
	if (n >= d->conf->webhook_max)
		return err_set(e, ERR_LIMIT, "you have reached the maximum number of webhooks (%lld)", (long long)d->conf->webhook_max);
	return store_webhook_put(t, r, e);
}

int webhook_create(struct domain *d, const char *team, const struct webhook_spec *s, struct webhook_rec *out, struct err *e)
{
	struct txn *t;
	int status;

	*out = (struct webhook_rec){ .enabled = true, .created_us = domain_now(d) };
	if (s->name == NULL || s->url == NULL || s->secret == NULL || s->events == 0)
		return err_set(e, ERR_INVALID, "%s is required", s->name == NULL ? "name" : s->url == NULL ? "url" :
			       s->events == 0 ? "events" : "signatureSecret");
	if (check_spec(d, s, e) < 0)
		return -1;
	random_uuid(out->id);
	memccpy(out->team, team, '\0', sizeof out->team);
	status = apply(d, out, s, e);
	if (status == 0)
		status = txn_write(d->store, &t, e);
	if (status == 0)
		status = txn_end(t, insert(d, t, out, e), e);
	if (status < 0)
		webhook_rec_release(out);
	return status;
}

int webhook_get(struct domain *d, const char *team, const char *id, struct webhook_rec *out, struct err *e)
{
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_webhook_get(t, team, id, out, e);
	txn_abort(t);
	return got == 0 ? missing(id, e) : got < 0 ? -1 : 0;
}

static int change(struct domain *d, struct txn *t, const char *team, const char *id, const struct webhook_spec *s, struct webhook_rec *out, struct err *e)
{
	int got = store_webhook_get(t, team, id, out, e);

	if (got < 1)
		return got == 0 ? missing(id, e) : -1;
	if (apply(d, out, s, e) == 0 && store_webhook_put(t, out, e) == 0)
		return 0;
	webhook_rec_release(out);
	return -1;
}

int webhook_update(struct domain *d, const char *team, const char *id, const struct webhook_spec *s, struct webhook_rec *out,
		   struct err *e)
{
	struct txn *t;
	int status;

	if (check_spec(d, s, e) < 0 || txn_write(d->store, &t, e) < 0)
		return -1;
	status = change(d, t, team, id, s, out, e);
	if (txn_end(t, status, e) == 0)
		return 0;
	if (status == 0)
		webhook_rec_release(out);
	return -1;
}

int webhook_delete(struct domain *d, const char *team, const char *id, struct err *e)
{
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_webhook_delete(t, team, id, e);
	return txn_end(t, got == 0 ? missing(id, e) : got, e);
}

int webhook_list(struct domain *d, const char *team, store_webhook_fn *fn, void *ctx, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_webhooks(t, team, fn, ctx, e);
	txn_abort(t);
	return status;
}

/* ---- records of the first layout ---- */

struct clear {
	struct webhook_rec r[SEALED_AT_ONCE];
	size_t n;
};

/* Copies of what is to be sealed: a walk must not write. */
static int on_clear(void *ctx, const struct webhook_rec *r, struct err *e)
{
	struct clear *c = ctx;
	struct webhook_rec *to = &c->r[c->n];

	if (!r->clear)
		return 0;
	if (c->n == SEALED_AT_ONCE)
		return 1;
	*to = *r;
	to->url = strdup(r->url);
	to->secret = strdup(r->secret);
	c->n++;
	return to->url != NULL && to->secret != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int seal_clear(struct domain *d, struct txn *t, struct clear *c, struct err *e)
{
	if (store_walk_webhooks(t, NULL, on_clear, c, e) < 0)
		return -1;
	for (size_t i = 0; i < c->n; i++)
		if (seal(d, &c->r[i], c->r[i].secret, e) < 0 || store_webhook_put(t, &c->r[i], e) < 0)
			return -1;
	return 0;
}

int webhooks_seal(struct domain *d, struct err *e)
{
	struct clear *c = calloc(1, sizeof *c);
	size_t n = 0;
	int status = c != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");

	do {
		struct txn *t;

		if (status == 0)
			status = txn_write(d->store, &t, e);
		if (status == 0)
			status = txn_end(t, seal_clear(d, t, c, e), e);
		n = c != NULL ? c->n : 0;
		for (size_t i = 0; i < n; i++)
			webhook_rec_release(&c->r[i]);
		if (c != NULL)
			c->n = 0;
		if (status == 0 && n > 0)
			log_info("sealed the secrets of %zu webhooks", n);
	} while (status == 0 && n == SEALED_AT_ONCE);
	free(c);
	return status;
}
