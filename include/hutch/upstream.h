/*
 * upstream.h - the mirrored account: an E2B account, or another hutch, whose sandboxes and templates are shown here (twin.md 9).
 *
 * Its state comes by lists alone, one page of up to 100 each; its signed webhooks remove what was killed and otherwise make a refresh due.
 * Mirrored rows are of pool `upstream`, kind vendor: nothing here starts, changes or reaches them, and no refresh touches another row.
 * Every request to it is taken from one budget, which all programs share through the records. Times are of the real clock.
 */
#ifndef HUTCH_UPSTREAM_H
#define HUTCH_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/domain.h"
#include "hutch/err.h"

/* ---- settings ---- */

/* The URL is https, or http to this machine or a private network, and the key file is well-formed. ERR_INVALID naming the option. */
int upstream_check(const struct config *conf, struct err *e);
/* The key from its file, at most max - 1 bytes. ERR_INVALID when others may read it or it is no key. */
int upstream_key(const struct config *conf, char *key, size_t max, struct err *e);

/* ---- webhooks from it (api.md 14.3) ---- */

#define INGEST_SECRET_MAX 256
/* The secret that they are signed with, kept sealed; NULL takes it away, and then none is taken. */
int ingest_secret_set(struct domain *d, const char *secret, struct err *e);

enum ingest_effect { INGEST_REMOVED, INGEST_REFRESH, INGEST_REPEATED };
struct ingest {
	const char *version, *signature, *delivery;  /* the headers; NULL = missing */
	const char *body;
	size_t n;
};
/* Verify and act. ERR_UNAUTHENTICATED: not signed with the secret; ERR_INVALID: no event, or no delivery id. A second one with the same
 * delivery id has no effect. */
int ingest_take(struct domain *d, const struct ingest *in, enum ingest_effect *out, struct err *e);
/* Forget delivery ids of before event_days. */
int ingest_trim(struct domain *d, struct err *e);

/* ---- the budget of requests to it ---- */

#define BUDGET_ALLOWANCE 60              /* per minute: creations of the smallest plan, 1/s */
#define BUDGET_WINDOW_S 60
#define BUDGET_HOLD_MAX_S 300

struct budget {
	int64_t ceiling, used;           /* of the present window */
	int64_t resets_us;               /* end of it */
	int64_t held_until_us;           /* it said Retry-After; 0 = it did not, or that is over */
	int64_t taken, refused;          /* since the records were made */
};
/* One request, or ERR_LIMIT and when to ask again; any failure is a refusal. */
int budget_take(struct domain *d, int64_t *again_us, struct err *e);
/* None for so many seconds (at most BUDGET_HOLD_MAX_S). */
int budget_hold(struct domain *d, int64_t seconds, struct err *e);
int budget_get(struct domain *d, struct budget *out, struct err *e);

/* ---- refreshing ---- */

enum vendor_list { VENDOR_SANDBOXES, VENDOR_TEMPLATES, VENDOR_LISTS };
extern const char *const vendor_paths[VENDOR_LISTS];     /* "/v2/sandboxes?limit=100" */
#define VENDOR_PAGE 100

struct upstream_state {
	int64_t due_us;                  /* a webhook asked for a refresh then; 0 = none since the last */
	int64_t removals;                /* webhooks that removed something, ever */
	int64_t tried_us, done_us;       /* begin of the last refresh; of the last that brought all lists */
	int64_t failures;                /* in a row */
	int64_t rows[VENDOR_LISTS];      /* on the last page */
	int64_t full[VENDOR_LISTS];      /* whether that page was full: there may be more, and nothing was removed */
};
int upstream_state(struct domain *d, struct upstream_state *out, struct err *e);

struct vendor_page {
	struct sandbox_rec *sandbox;     /* one of the two, n of them */
	struct template_rec *template;
	size_t n;
	bool full;                       /* or it says that there is a further one */
};
/* A whole list, or ERR_INVALID naming what is wrong with it. */
int vendor_page_read(enum vendor_list what, const char *json, size_t n, bool more, struct vendor_page *out, struct err *e);
void vendor_page_release(struct vendor_page *p);

/* Where a refresh begins: when, and what had been removed by then. */
int upstream_begin(struct domain *d, struct upstream_state *begun, struct err *e);
/* The list into the records, in one transaction. ERR_CONFLICT: a webhook removed something since `begun`, so that the page may be older than
 * that: begin anew. */
int upstream_apply(struct domain *d, const struct upstream_state *begun, enum vendor_list what, const struct vendor_page *p, struct err *e);
/* How a refresh ended: ok = all lists were applied. */
int upstream_end(struct domain *d, const struct upstream_state *begun, bool ok, struct err *e);
/* Every mirrored row goes: none is mirrored any more. */
int upstream_forget(struct domain *d, struct err *e);

/* ---- the reaper's thread for it ---- */
struct upstream;
/* NULL in *out when no upstream_url is set. */
int upstream_start(struct domain *d, struct upstream **out, struct err *e);
void upstream_wake(struct upstream *u);          /* something may be due; NULL is fine */
void upstream_stop(struct upstream *u);

#endif
