/*
 * webhook.h - lifecycle events as they are read, webhooks, and what is delivered to them (api.md 14).
 */
#ifndef HUTCH_WEBHOOK_H
#define HUTCH_WEBHOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/buf.h"
#include "hutch/domain.h"
#include "hutch/err.h"
#include "hutch/store.h"

enum event_type { EVENT_T_CREATED, EVENT_T_KILLED, EVENT_T_PAUSED, EVENT_T_RESUMED, EVENT_T_UPDATED, EVENT_T_CHECKPOINTED, EVENT_TYPES };

/* "sandbox.lifecycle.created"; "?" for numbers that are none. */
const char *event_type_name(unsigned type);
/* -1 when there is none of that name. */
int event_type_find(const char *name);
/* Of a stored event; -1 when its text does not tell. */
int event_text_type(const char *json, size_t n);

struct event_query {
	const char *sandbox;         /* or NULL: of the whole team */
	uint32_t types;              /* set of 1 << enum event_type, 0 = all */
	bool oldest_first;
	int64_t offset;              /* so many of those that match are passed over */
	int limit;
};
/* fn (inside a read transaction) gets each event's JSON as it is. */
int events_list(struct domain *d, const char *team, const struct event_query *q, store_event_fn *fn, void *ctx, struct err *e);

/* ---- webhooks ---- */
#define WEBHOOK_URL_MAX 2048
#define WEBHOOK_SECRET_MAX 256

/* NULL and absent ones stay as they are in an update. All but enabled are needed to make one. */
struct webhook_spec {
	const char *name, *url, *secret;
	bool enabled, enabled_set;
	uint32_t events;             /* set of 1 << enum event_type; 0 = absent */
};
/* ERR_INVALID naming the field in the API's words, ERR_LIMIT (webhook_max), ERR_NOT_FOUND. *out is the caller's to release. */
int webhook_create(struct domain *d, const char *team, const struct webhook_spec *s, struct webhook_rec *out, struct err *e);
int webhook_get(struct domain *d, const char *team, const char *id, struct webhook_rec *out, struct err *e);
int webhook_update(struct domain *d, const char *team, const char *id, const struct webhook_spec *s, struct webhook_rec *out,
		   struct err *e);
/* What still waits for it is not delivered any more. */
int webhook_delete(struct domain *d, const char *team, const char *id, struct err *e);
/* In the order of their ids. fn is called inside a read transaction. */
int webhook_list(struct domain *d, const char *team, store_webhook_fn *fn, void *ctx, struct err *e);
/* Appends the signing secret, which the record keeps sealed. ERR_INTERNAL: the instance secret is another than the one it was sealed under. */
int webhook_secret(const struct domain *d, const struct webhook_rec *r, struct buf *out, struct err *e);
/* Seals what records of the first layout hold in clear. */
int webhooks_seal(struct domain *d, struct err *e);
/* http or https with a host, no user; with !allow_private no host that names this machine or a private address by itself. A name
 * is judged when it is resolved, at each delivery. */
int webhook_url_check(const char *url, bool allow_private, struct err *e);

/* ---- delivery ---- */
#define SIGNATURE_LEN 44             /* 43 characters and a NUL */

/* Version 1: standard base64 without padding of SHA-256(secret, body) (api.md 14.3). */
void webhook_sign(const char *secret, const void *body, size_t n, char out[SIGNATURE_LEN]);
/* The body of a delivery from a stored event: its text with the snake_case names added (api.md 19). id gets the event's. */
int webhook_body(const char *json, size_t n, struct buf *body, char id[UUID_LEN], struct err *e);
/* What an attempt came to: an entry of the outbox and its record, whose state is DELIVERY_DONE, DELIVERY_DROPPED, or anything else for a
 * failure. Then this sets it to DELIVERY_RETRY and puts the entry in anew, or to DELIVERY_DEAD when no attempt is left. */
struct settlement {
	struct outbox_rec out;
	struct delivery_rec rec;
};
/* All of them in one transaction; an entry that is no longer there is left alone. */
int outbox_settle(struct domain *d, struct settlement *const *s, size_t n, struct err *e);
/* Drop records of deliveries older than event_days, and the oldest beyond a bound. */
int deliveries_trim(struct domain *d, struct err *e);

#endif
