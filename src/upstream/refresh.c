/*
 * The reaper's thread that mirrors an account: each interval, and soon after a webhook said that something changed, both lists are asked for
 * and taken over. An account that is slow, away or answers nonsense changes nothing, and is told of once.
 */
#include "config.h"

#include "fetch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"
#include "hutch/upstream.h"
#include "hutch/when.h"

#define STACK (256 << 10)
#define KEY_MAX 256
#define AGAIN_US (500 * US_PER_MS)   /* least time between two refreshes */
#define BACKOFF_MAX 8                /* failures that the pause still doubles for: to four minutes */
#define ROUNDS 3                     /* of a refresh that webhooks overtake */
#define LOOK_AGAIN_US (60 * US_PER_S)

struct upstream {
	struct domain *d;
	struct fetch f;
	pthread_t thread;
	atomic_bool stop;
	int64_t not_before_us;       /* the budget says so */
	bool pending;                /* one is to be made as soon as that is over */
	struct err said[VENDOR_LISTS];   /* the trouble that was told of last; "" = there is none */
};

/* ---- one refresh ---- */

static void trouble(struct upstream *u, int what, const char *text)
{
	char *said = u->said[what].text;

	if (text[0] == '\0' && said[0] != '\0')
		log_info("upstream: %s is read again", vendor_paths[what]);
	if (text[0] != '\0' && strcmp(said, text) != 0)
		log_warn("upstream: %s: %s", vendor_paths[what], text);
	snprintf(said, sizeof u->said[what].text, "%s", text);
}

/* An answer that is no page. */
static int refused(struct upstream *u, struct err *e)
{
	struct err why;

	if (u->f.status == 404)
		return err_set(e, ERR_NOT_FOUND, "is not served there");
	if ((u->f.status == 429 || u->f.status == 503) && u->f.retry_s > 0 && budget_hold(u->d, u->f.retry_s, &why) < 0)
		log_error("upstream: %s", why.text);
	return err_set(e, ERR_UNAVAILABLE, "answered %ld", u->f.status);
}

/* One list from the request to the records. ERR_LIMIT: the budget; ERR_CONFLICT: begin anew; ERR_NOT_FOUND: there is no such list. */
static int refresh_list(struct upstream *u, const struct upstream_state *begun, int what, const char *key, struct err *e)
{
	struct vendor_page p;
	int status;

	if (budget_take(u->d, &u->not_before_us, e) < 0 || fetch_get(&u->f, vendor_paths[what], key, e) < 0)
		return -1;
	if (u->f.status != 200)
		return refused(u, e);
	if (vendor_page_read(what, buf_str(&u->f.body), u->f.body.len, u->f.more, &p, e) < 0)
		return -1;
	status = upstream_apply(u->d, begun, what, &p, e);
	vendor_page_release(&p);
	return status;
}

/* 1 all lists are taken over, 0 one was not, -1 with ERR_CONFLICT or ERR_LIMIT. */
static int refresh_lists(struct upstream *u, const struct upstream_state *begun, struct err *e)
{
	char key[KEY_MAX];
	int ok = 1;

	for (int what = 0; what < VENDOR_LISTS && !atomic_load(&u->stop); what++) {
		int status = upstream_key(u->d->conf, key, sizeof key, e);

		if (status == 0)
			status = refresh_list(u, begun, what, key, e);
		if (status == 0 || e->kind != ERR_CONFLICT)
			trouble(u, what, status == 0 ? "" : e->kind == ERR_LIMIT ? "waiting: the budget of requests is used up" : e->text);
		if (status < 0 && (e->kind == ERR_LIMIT || e->kind == ERR_CONFLICT)) {
			ok = -1;
			break;
		}
		if (status < 0 && e->kind != ERR_NOT_FOUND)
			ok = 0;
	}
	explicit_bzero(key, sizeof key);
	return ok;
}

static void refresh(struct upstream *u)
{
	struct upstream_state begun;
	struct err e;
	int ok = -1;

	e.kind = ERR_CONFLICT;
	for (int i = 0; i < ROUNDS && ok < 0 && e.kind == ERR_CONFLICT; i++) {
		if (upstream_begin(u->d, &begun, &e) < 0) {
			log_error("upstream: %s", e.text);
			u->not_before_us = domain_real_now(u->d) + LOOK_AGAIN_US;
			return;
		}
		ok = refresh_lists(u, &begun, &e);
	}
	u->pending = ok < 0 && e.kind == ERR_LIMIT;
	if (ok < 0 && e.kind == ERR_CONFLICT)    /* overtaken each time: soon again */
		ok = 0;
	if (ok >= 0 && !atomic_load(&u->stop) && upstream_end(u->d, &begun, ok == 1, &e) < 0)
		log_error("upstream: %s", e.text);
}

/* ---- when ---- */

/* Half a budget may go at once; the rest is spread over the minute. */
static int64_t least_pause(struct upstream *u)
{
	struct budget b;
	struct err e;

	if (budget_get(u->d, &b, &e) < 0 || b.used * 2 <= b.ceiling)
		return AGAIN_US;
	return BUDGET_WINDOW_S * US_PER_S * VENDOR_LISTS / b.ceiling;
}

static int64_t next_time(struct upstream *u, int64_t now_us)
{
	const int64_t interval = u->d->conf->upstream_interval_s * US_PER_S;
	struct upstream_state s;
	struct err e;
	int64_t pause, next;

	if (u->pending)
		return u->not_before_us;
	if (upstream_state(u->d, &s, &e) < 0) {
		log_error("upstream: %s", e.text);
		return now_us + interval;
	}
	pause = s.due_us != 0 ? least_pause(u) : interval;
	if (s.failures > 0)
		pause = (s.failures < BACKOFF_MAX ? 1 << s.failures : 1 << BACKOFF_MAX) * US_PER_S;
	next = s.tried_us + (pause < interval ? pause : interval);
	if (next > now_us + interval)        /* the clock was set back */
		next = now_us + interval;
	return next > u->not_before_us ? next : u->not_before_us;
}

static void *run(void *p)
{
	struct upstream *u = p;

	u->pending = true;           /* what is there may be old */
	while (!atomic_load(&u->stop)) {
		int64_t now = domain_real_now(u->d), wait = next_time(u, now) - now;

		if (wait <= 0) {
			u->not_before_us = 0;
			refresh(u);
			continue;
		}
		if (wait > LOOK_AGAIN_US)
			wait = LOOK_AGAIN_US;
		curl_multi_poll(u->f.multi, NULL, 0, (int)((wait + US_PER_MS - 1) / US_PER_MS), NULL);
	}
	return NULL;
}

static void free_all(struct upstream *u)
{
	if (u->f.multi != NULL)
		curl_multi_cleanup(u->f.multi);
	buf_release(&u->f.body);
	curl_global_cleanup();
	free(u);
}

static int begin(struct upstream *u, struct err *e)
{
	pthread_attr_t attr;
	int rc;

	u->f.multi = curl_multi_init();
	if (u->f.multi == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	rc = pthread_create(&u->thread, &attr, run, u);
	pthread_attr_destroy(&attr);
	return rc != 0 ? err_set(e, ERR_INTERNAL, "thread: %s", strerror(rc)) : 0;
}

int upstream_start(struct domain *d, struct upstream **out, struct err *e)
{
	struct world_clock clock;
	struct upstream *u;

	*out = NULL;
	if (d->conf->upstream_url[0] == '\0')
		return upstream_forget(d, e);
	clock_get(d, &clock);
	if (clock.frozen)
		return err_set(e, ERR_CONFLICT, "the clock is frozen, and an account is mirrored (upstream_url), whose sandboxes end by real time: "
			       "set the clock to real first");
	u = calloc(1, sizeof *u);
	if (u == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
		free(u);
		return err_set(e, ERR_INTERNAL, "libcurl does not start");
	}
	u->d = d;
	u->f.conf = d->conf;
	u->f.stop = &u->stop;
	buf_init(&u->f.body, FETCH_BODY_MAX);
	if (begin(u, e) < 0) {
		free_all(u);
		return -1;
	}
	*out = u;
	return 0;
}

void upstream_wake(struct upstream *u)
{
	if (u != NULL)
		curl_multi_wakeup(u->f.multi);
}

void upstream_stop(struct upstream *u)
{
	if (u == NULL)
		return;
	atomic_store(&u->stop, true);
	curl_multi_wakeup(u->f.multi);
	pthread_join(u->thread, NULL);
	free_all(u);
}
