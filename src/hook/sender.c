/* The thread that delivers: what is due from the outbox, all requests at once, and their outcomes back into the records. */
#include "hook_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"
#include "hutch/when.h"

#define LOOK_AGAIN_US (5 * US_PER_S) /* longest sleep */
#define ERROR_PAUSE_US US_PER_S
#define CONNECTIONS_KEPT 64L
#define SETTLE_MAX 256               /* outcomes in one transaction */
#define STACK (256 << 10)

/* ---- outcomes ---- */

static void push_done(struct hook_sender *s, struct attempt *a)
{
	a->done_next = NULL;
	*s->done_last = a;
	s->done_last = &a->done_next;
}

static void retire(struct hook_sender *s, struct attempt *a)
{
	struct lane *l = a->lane;

	if (a->s.rec.state != DELIVERY_DROPPED) {
		s->total--;
		l->failing = a->s.rec.state != DELIVERY_DONE;
	}
	if (a->s.rec.state == DELIVERY_DEAD)
		log_warn("webhook %s: event %s was not delivered in %u attempts: %s", a->s.rec.webhook, a->s.rec.event, a->s.rec.attempt,
			 a->s.rec.error != NULL ? a->s.rec.error : "");
	lane_remove(l, a);
	lane_put(s, l);
	attempt_free(a);
}

/* All outcomes, as many as fit into one transaction at a time. False while the records cannot be written. */
static bool settle(struct hook_sender *s)
{
	struct settlement *all[SETTLE_MAX];
	struct err e;
	size_t n;

	while (s->done != NULL) {
		n = 0;
		for (struct attempt *a = s->done; a != NULL && n < SETTLE_MAX; a = a->done_next)
			all[n++] = &a->s;
		if (outbox_settle(s->d, all, n, &e) < 0) {
			log_error("webhooks: %s", e.text);
			return false;
		}
		while (n-- > 0) {
			struct attempt *a = s->done;

			s->done = a->done_next;
			if (s->done == NULL)
				s->done_last = &s->done;
			retire(s, a);
		}
	}
	return true;
}

static bool collect(struct hook_sender *s)
{
	bool any = false;
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(s->multi, &left)) != NULL) {
		struct attempt *a = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&a);
		attempt_ended(a, m->data.result);
		curl_multi_remove_handle(s->multi, a->easy);
		push_done(s, a);
		any = true;
	}
	return any;
}

/* ---- what is due ---- */

struct pass {
	struct hook_sender *s;
	struct lane *lane;
	const struct webhook_rec *hook;  /* NULL: its entries are dropped */
	int64_t now, next;           /* next: when there is something to do again */
	int looked;
};

static void at_latest(struct pass *p, int64_t us)
{
	if (us < p->next)
		p->next = us;
}

static int drop(struct pass *p, const struct outbox_rec *r, const char *why, struct err *e)
{
	struct attempt *a = attempt_new(p->s, r, p->hook);

	if (a == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	attempt_drop(a, why);
	lane_add(p->lane, a);
	push_done(p->s, a);
	at_latest(p, p->now);
	return 0;
}

static int begin(struct pass *p, const struct outbox_rec *r, const char *json, size_t n, struct err *e)
{
	struct attempt *a = attempt_new(p->s, r, p->hook);

	if (a == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	if (attempt_body(a, json, n) < 0) {
		attempt_free(a);
		return drop(p, r, "the event's record is damaged", e);
	}
	if (attempt_sign(a, p->hook) < 0) {
		attempt_free(a);
		return drop(p, r, "its secret was kept under another instance secret: set signatureSecret anew", e);
	}
	if (attempt_begin(a, p->hook) < 0 || curl_multi_add_handle(p->s->multi, a->easy) != CURLM_OK) {
		attempt_free(a);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	lane_add(p->lane, a);
	p->s->total++;
	return 0;
}

/* One entry of the lane, in order of time. */
static int on_entry(void *ctx, struct txn *t, const struct outbox_rec *r, struct err *e)
{
	struct pass *p = ctx;
	const char *json;
	size_t n;
	int got;

	if (r->next_us > p->now) {
		at_latest(p, r->next_us);
		return 1;
	}
	if (lane_has(p->lane, r))
		return 0;
	if (p->looked++ == PASS_MAX) {
		at_latest(p, p->now);
		return 1;
	}
	if (p->hook == NULL)
		return drop(p, r, "the webhook is gone or disabled", e);
	got = store_event_get(t, r->team, r->event_us, r->event_seq, &json, &n, e);
	if (got == 0)
		return drop(p, r, "the event was dropped before it could be delivered", e);
	if (got < 0)
		return -1;
	if (lane_room(p->s, p->lane) <= 0)           /* looked at again when an attempt has ended */
		return 1;
	return begin(p, r, json, n, e);
}

/* The team that a webhook's entries belong to: stands in each of them. */
static int first_entry(void *ctx, struct txn *t, const struct outbox_rec *r, struct err *e)
{
	(void)t;
	(void)e;
	memcpy(ctx, r->team, UUID_LEN);
	return 1;
}

static int fill_lane(struct pass *p, struct txn *t, const char *webhook, struct err *e)
{
	char team[UUID_LEN] = "";
	struct webhook_rec hook;
	int got, status;

	if (store_walk_outbox(t, webhook, first_entry, team, e) < 0)
		return -1;
	got = store_webhook_get(t, team, webhook, &hook, e);
	if (got < 0)
		return -1;
	p->hook = got == 1 && hook.enabled ? &hook : NULL;
	p->looked = 0;
	p->lane = lane_get(p->s, webhook, team);
	status = p->lane != NULL ? store_walk_outbox(t, webhook, on_entry, p, e) : err_set(e, ERR_INTERNAL, "out of memory");
	if (p->lane != NULL && p->hook == NULL)
		p->lane->failing = false;
	if (p->lane != NULL)
		lane_put(p->s, p->lane);
	if (got == 1)
		webhook_rec_release(&hook);
	return status;
}

/* All webhooks that something waits for, beginning behind the one at which the last pass ran out of room. A failure at one is
 * reported and keeps none of the others. */
static void look(struct pass *p, struct txn *t)
{
	struct hook_sender *s = p->s;
	char id[UUID_LEN], after[UUID_LEN];
	bool again = s->last[0] == '\0';
	struct err e;
	int got;

	memcpy(after, s->last, sizeof after);
	for (;;) {
		got = store_outbox_webhook(t, after, id, &e);
		if (got == 0 && !again) {
			again = true;
			after[0] = '\0';
			continue;
		}
		if (got <= 0 || (again && s->last[0] != '\0' && strcmp(id, s->last) > 0))
			break;
		if (fill_lane(p, t, id, &e) < 0) {
			log_error("webhook %s: %s", id, e.text);
			at_latest(p, p->now + ERROR_PAUSE_US);
		}
		memcpy(after, id, sizeof after);
		if (s->total >= TOTAL_MAX)
			break;
	}
	if (got < 0) {
		log_error("webhooks: %s", e.text);
		at_latest(p, p->now + ERROR_PAUSE_US);
	}
	memcpy(s->last, s->total >= TOTAL_MAX ? after : "", s->total >= TOTAL_MAX ? sizeof after : 1);
}

/* Begin what is due; when there is something to do again. */
static int64_t begin_due(struct hook_sender *s)
{
	struct pass p = { .s = s, .now = domain_real_now(s->d) };
	struct txn *t;
	struct err e;

	p.next = p.now + LOOK_AGAIN_US;
	if (txn_read(s->d->store, &t, &e) < 0) {
		log_error("webhooks: %s", e.text);
		return p.now + ERROR_PAUSE_US;
	}
	look(&p, t);
	txn_abort(t);
	return p.next;
}

/* ---- thread ---- */

static void wait_until(struct hook_sender *s, int64_t us)
{
	int64_t wait = us - domain_real_now(s->d);

	if (wait > 0)
		curl_multi_poll(s->multi, NULL, 0, (int)((wait + US_PER_MS - 1) / US_PER_MS), NULL);
}

static void *sender(void *p)
{
	struct hook_sender *s = p;
	int64_t next = 0;

	while (!atomic_load(&s->stop)) {
		bool ended;
		int running;

		curl_multi_perform(s->multi, &running);
		ended = collect(s);
		if (!settle(s))
			next = domain_real_now(s->d) + ERROR_PAUSE_US;
		else if (atomic_exchange(&s->woken, false) || ended || domain_real_now(s->d) >= next)
			next = begin_due(s);
		if (!ended)                          /* else what begins now has to be set going first */
			wait_until(s, next);
	}
	return NULL;
}

static void free_all(struct hook_sender *s)
{
	for (int i = 0; i < LANE_BUCKETS; i++) {
		for (struct lane *l = s->lane[i]; l != NULL; l = l->next) {
			while (l->active != NULL) {
				struct attempt *a = l->active;

				lane_remove(l, a);
				if (a->easy != NULL)
					curl_multi_remove_handle(s->multi, a->easy);
				attempt_free(a);
			}
		}
	}
	lanes_free(s);
	curl_multi_cleanup(s->multi);
	curl_global_cleanup();
	free(s);
}

int hook_start(struct domain *d, struct hook_sender **out, struct err *e)
{
	struct hook_sender *s = calloc(1, sizeof *s);
	pthread_attr_t attr;
	int rc;

	if (s == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	s->d = d;
	s->done_last = &s->done;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
		free(s);
		return err_set(e, ERR_INTERNAL, "libcurl does not start");
	}
	s->multi = curl_multi_init();
	if (s->multi == NULL) {
		free_all(s);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	rc = pthread_create(&s->thread, &attr, sender, s);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		free_all(s);
		return err_set(e, ERR_INTERNAL, "thread: %s", strerror(rc));
	}
	*out = s;
	return 0;
}

void hook_wake(struct hook_sender *s)
{
	atomic_store(&s->woken, true);
	curl_multi_wakeup(s->multi);
}

void hook_stop(struct hook_sender *s)
{
	if (s == NULL)
		return;
	atomic_store(&s->stop, true);
	curl_multi_wakeup(s->multi);
	pthread_join(s->thread, NULL);
	free_all(s);
}
