/* Webhooks and what is owed to them: fields, bounds, addresses, signature, bodies, the outbox, events as they are listed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "world.h"

#include "domain_int.h"
#include "hutch/address.h"
#include "hutch/webhook.h"

#define ALL ((1U << EVENT_TYPES) - 1)
#define NOBODY "00000000-0000-4000-8000-000000000000"

static struct webhook_spec spec(uint32_t events)
{
	return (struct webhook_spec){ .name = "w", .url = "https://example.com/x?a=b", .secret = "s3cr3t", .events = events };
}

static void make(struct world *w, uint32_t events, struct webhook_rec *out)
{
	struct webhook_spec s = spec(events);

	assert_done(w, webhook_create(&w->d, w->team.id, &s, out, &w->e));
}

static void assert_secret(struct world *w, const struct webhook_rec *r, const char *want)
{
	struct buf b;

	buf_init(&b, WEBHOOK_SECRET_MAX);
	assert_done(w, webhook_secret(&w->d, r, &b, &w->e));
	assert_string_equal(buf_str(&b), want);
	buf_release(&b);
}

/* ---- fields ---- */

static void test_life(void **state)
{
	struct world *w = *state;
	struct webhook_spec change = { .enabled_set = true };
	struct webhook_rec r, got;

	make(w, ALL, &r);
	assert_done(w, webhook_get(&w->d, w->team.id, r.id, &got, &w->e));
	assert_string_equal(got.url, "https://example.com/x?a=b");
	assert_null(strstr(got.secret, "s3cr3t"));
	assert_secret(w, &got, "s3cr3t");
	assert_true(got.enabled && got.events == ALL);
	webhook_rec_release(&got);
	assert_fails(w, webhook_get(&w->d, NOBODY, r.id, &got, &w->e), ERR_NOT_FOUND, r.id);
	assert_fails(w, webhook_delete(&w->d, NOBODY, r.id, &w->e), ERR_NOT_FOUND, r.id);
	assert_done(w, webhook_update(&w->d, w->team.id, r.id, &change, &got, &w->e));
	assert_true(!got.enabled && got.events == ALL);
	webhook_rec_release(&got);
	change = (struct webhook_spec){ .name = "n", .url = "http://example.org", .secret = "x", .events = 1 };
	assert_done(w, webhook_update(&w->d, w->team.id, r.id, &change, &got, &w->e));
	assert_true(!got.enabled && got.events == 1 && got.created_us == r.created_us);
	assert_secret(w, &got, "x");
	webhook_rec_release(&got);
	assert_done(w, webhook_delete(&w->d, w->team.id, r.id, &w->e));
	assert_fails(w, webhook_delete(&w->d, w->team.id, r.id, &w->e), ERR_NOT_FOUND, "Webhook");
	assert_fails(w, webhook_update(&w->d, w->team.id, r.id, &change, &got, &w->e), ERR_NOT_FOUND, "Webhook");
	webhook_rec_release(&r);
}

/* A record of before secrets were sealed serves as it is, and is sealed by the reaper's start; what is sealed serves no other webhook and
 * no other instance. */
static void test_sealing(void **state)
{
	struct world *w = *state;
	struct webhook_rec old, got;
	struct buf b;
	struct txn *t;

	make(w, ALL, &old);
	free(old.secret);
	old.secret = strdup("in the open");
	old.clear = true;
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_webhook_put(t, &old, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	assert_done(w, webhook_get(&w->d, w->team.id, old.id, &got, &w->e));
	assert_true(got.clear);
	assert_secret(w, &got, "in the open");
	webhook_rec_release(&got);
	for (int i = 0; i < 2; i++) {
		assert_done(w, webhooks_seal(&w->d, &w->e));
		assert_done(w, webhook_get(&w->d, w->team.id, old.id, &got, &w->e));
		assert_true(!got.clear && strstr(got.secret, "open") == NULL && got.events == ALL);
		assert_secret(w, &got, "in the open");
		if (i == 0)
			webhook_rec_release(&got);
	}
	buf_init(&b, WEBHOOK_SECRET_MAX);
	got.id[0] ^= 1;
	assert_fails(w, webhook_secret(&w->d, &got, &b, &w->e), ERR_INTERNAL, "cannot be read");
	got.id[0] ^= 1;
	w->d.secret[5] ^= 1;
	assert_fails(w, webhook_secret(&w->d, &got, &b, &w->e), ERR_INTERNAL, "cannot be read");
	w->d.secret[5] ^= 1;
	assert_int_equal(b.len, 0);
	buf_release(&b);
	webhook_rec_release(&got);
	webhook_rec_release(&old);
	world_agrees(w);
}

static void test_bound(void **state)
{
	struct world *w = *state;
	struct webhook_spec s = spec(ALL);
	struct webhook_rec r;

	w->conf.webhook_max = 2;
	for (int i = 0; i < 2; i++) {
		make(w, ALL, &r);
		webhook_rec_release(&r);
	}
	assert_fails(w, webhook_create(&w->d, w->team.id, &s, &r, &w->e), ERR_LIMIT, "webhooks (2)");
}

static void test_urls(void **state)
{
	static const struct { const char *url; int plain, allowed; } cases[] = {
		{ "https://example.com", 0, 0 }, { "http://example.com:8080/a%20b?c#d", 0, 0 }, { "HTTPS://Example.COM/", 0, 0 },
		{ "http://8.8.8.8/", 0, 0 }, { "http://[2606:4700::1111]/", 0, 0 },
		{ "", -1, -1 }, { "example.com", -1, -1 }, { "ftp://example.com", -1, -1 }, { "file:///etc/passwd", -1, -1 },
		{ "http://", -1, -1 }, { "https:example.com", -1, -1 }, { "http://a b/", -1, -1 }, { "http://\x01/", -1, -1 },
		{ "http://user@example.com/", -1, -1 }, { "http://user:word@example.com/", -1, -1 }, { "http://example.com:99999/", -1, -1 },
		{ "gopher://example.com/", -1, -1 }, { "http://ex\xc3\xa4mple.com/", -1, -1 },
		{ "http://localhost/", -1, 0 }, { "http://LOCALHOST./", -1, 0 }, { "http://a.localhost:1/", -1, 0 }, { "http://x.internal/", -1, 0 },
		{ "http://127.0.0.1/", -1, 0 }, { "http://127.1/", -1, 0 }, { "http://2130706433/", -1, 0 }, { "http://0x7f.1/", -1, 0 },
		{ "http://0177.0.0.1/", -1, 0 }, { "http://0/", -1, 0 }, { "http://10.1.2.3/", -1, 0 }, { "http://172.31.0.1/", -1, 0 },
		{ "http://192.168.1.1/", -1, 0 }, { "http://169.254.169.254/latest", -1, 0 }, { "http://100.64.0.1/", -1, 0 },
		{ "http://[::1]/", -1, 0 }, { "http://[::]/", -1, 0 }, { "http://[fe80::1]/", -1, 0 }, { "http://[fd00::1]/", -1, 0 },
		{ "http://[::ffff:127.0.0.1]/", -1, 0 }, { "http://[::127.0.0.1]/", -1, 0 }, { "http://[64:ff9b::10.0.0.1]/", -1, 0 },
		{ "http://[2002:7f00:1::]/", -1, 0 }, { "http://224.0.0.1/", -1, 0 }, { "http://255.255.255.255/", -1, 0 },
	};
	char url[WEBHOOK_URL_MAX + 2] = "http://example.com/";
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (webhook_url_check(cases[i].url, false, &e) != cases[i].plain)
			fail_msg("%s", cases[i].url);
		if (cases[i].plain < 0 && (e.kind != ERR_INVALID || strncmp(e.text, "url ", 4) != 0))
			fail_msg("%s: %s", cases[i].url, e.text);
		if (webhook_url_check(cases[i].url, true, &e) != cases[i].allowed)
			fail_msg("%s, where private ones are allowed", cases[i].url);
	}
	memset(url + strlen(url), 'a', WEBHOOK_URL_MAX + 1 - strlen(url));
	assert_int_equal(webhook_url_check(url, true, &e), -1);
	url[WEBHOOK_URL_MAX] = '\0';
	assert_int_equal(webhook_url_check(url, true, &e), 0);
}

static void test_addresses(void **state)
{
	static const char *const open[] = { "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0",
		"223.255.255.255", "2a00::1", "2001:200::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1" };
	static const char *const closed[] = { "0.0.0.0", "0.1.2.3", "10.255.255.255", "100.127.255.255", "127.255.255.255", "172.16.0.0",
		"192.0.2.1", "198.18.0.1", "198.19.255.255", "203.0.113.9", "239.1.2.3", "240.0.0.1", "::", "::1", "2001:db8::1", "2001::1",
		"2001:1ff::1", "fec0::1", "ff02::1", "fc00::1", "100::1", "4000::1", "::ffff:10.0.0.1", "64:ff9b:1::1", "2002:a00:1::1" };

	(void)state;
	for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
		if (address_text_public(open[i]) != 1)
			fail_msg("%s is public", open[i]);
	for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
		if (address_text_public(closed[i]) != 0)
			fail_msg("%s is not public", closed[i]);
	assert_int_equal(address_text_public("example.com"), -1);
}

/* ---- signature and body ---- */

static void test_signature(void **state)
{
	char out[SIGNATURE_LEN];

	(void)state;
	webhook_sign("s3cr3t", "{\"id\":\"1\"}", 10, out);   /* api.md 14.3 */
	assert_string_equal(out, "KnA1xzpAkPgSNFuXTMjwCm5MUs2FRXeEhL4Gfvdea/I");
}

static const char *text_of(json_object *o, const char *key)
{
	json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v))
		fail_msg("no %s", key);
	return v != NULL ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE) : "null";
}

static void check_body(const char *json, json_object *event, const struct sandbox_rec *r, const char *label)
{
	static const char *const pairs[][2] = {
		{ "sandboxId", "sandbox_id" }, { "sandboxBuildId", "sandbox_build_id" }, { "sandboxExecutionId", "sandbox_execution_id" },
		{ "sandboxTeamId", "sandbox_team_id" }, { "sandboxTemplateId", "sandbox_template_id" }, { "eventData", "event_data" },
	};
	char id[UUID_LEN], want[80];
	struct buf body;
	json_object *o;
	struct err e;

	buf_init(&body, 1 << 20);
	if (webhook_body(json, strlen(json), &body, id, &e) < 0 || json_read_object(buf_str(&body), body.len, &o, &e) < 0)
		fail_msg("%s: %s", e.text, json);
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		assert_string_equal(text_of(o, pairs[i][0]), text_of(event, pairs[i][0]));
		assert_string_equal(text_of(o, pairs[i][1]), text_of(event, pairs[i][0]));
	}
	snprintf(want, sizeof want, "\"%s\"", r->id);
	assert_string_equal(text_of(o, "sandbox_id"), want);
	snprintf(want, sizeof want, "\"%s\"", id);
	assert_string_equal(text_of(o, "id"), want);
	assert_string_equal(text_of(o, "event_label"), label);
	assert_string_equal(text_of(o, "event_category"), "\"lifecycle\"");
	json_object_put(o);
	buf_release(&body);
}

/* Metadata that looks like the marks between our own fields changes nothing. */
static void test_body(void **state)
{
	struct sandbox_spec s = { .template_ref = "base", .timeout_s = 60, .metadata = "{\"eventData\":\"x\",\"sandboxBuildId\":\"y\","
		"\"sandboxId\":\"i0\",\"type\":\"sandbox.lifecycle.killed\",\"a\":\",\\\"sandboxBuildId\\\":\\\"z\"}" };
	struct world *w = *state;
	struct sandbox_rec r;
	json_object *event;
	char last[4096], id[UUID_LEN];
	struct buf b;

	assert_done(w, sandbox_create(&w->d, &w->team, &s, &r, &w->e));
	assert_int_equal(world_events(w, r.id, "lifecycle.created", last, sizeof last), 1);
	assert_int_equal(event_text_type(last, strlen(last)), EVENT_T_CREATED);
	assert_done(w, json_read_object(last, strlen(last), &event, &w->e));
	check_body(last, event, &r, "\"create\"");
	json_object_put(event);
	buf_init(&b, 1 << 20);
	for (size_t n = strlen(last) - 1; n-- > 0;)          /* a cut text is no event */
		assert_int_equal(webhook_body(last, n, &b, id, &w->e), -1);
	buf_release(&b);
	sandbox_rec_release(&r);
}

/* ---- the outbox ---- */

struct seen {
	struct outbox_rec r[32];
	int n;
};

static int on_out(void *ctx, struct txn *t, const struct outbox_rec *r, struct err *e)
{
	struct seen *s = ctx;

	(void)t;
	(void)e;
	s->r[s->n++] = *r;
	return 0;
}

static int waiting(struct world *w, const char *webhook, struct seen *s)
{
	struct txn *t;
	int status;

	s->n = 0;
	assert_done(w, txn_read(w->d.store, &t, &w->e));
	status = store_walk_outbox(t, webhook, on_out, s, &w->e);
	txn_abort(t);
	assert_done(w, status);
	return s->n;
}

/* Only what was asked for, and only by webhooks that are enabled; other teams' get nothing. */
static void test_which(void **state)
{
	struct webhook_spec off = spec(ALL);
	struct world *w = *state;
	struct webhook_rec all, kills, none;
	struct sandbox_rec r;
	struct seen s;

	make(w, ALL, &all);
	make(w, 1U << EVENT_T_KILLED, &kills);
	off.enabled_set = true;
	assert_done(w, webhook_create(&w->d, w->team.id, &off, &none, &w->e));
	world_create(w, 60, &r);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, r.id, 120, &w->e));
	assert_done(w, sandbox_kill(&w->d, w->team.id, r.id, "request", &w->e));
	assert_int_equal(waiting(w, all.id, &s), 3);
	assert_int_equal(s.r[0].type, EVENT_T_CREATED);
	assert_int_equal(s.r[1].type, EVENT_T_UPDATED);
	assert_int_equal(s.r[2].type, EVENT_T_KILLED);
	assert_int_equal(waiting(w, kills.id, &s), 1);
	assert_string_equal(s.r[0].sandbox, r.id);
	assert_int_equal(waiting(w, none.id, &s), 0);
	sandbox_rec_release(&r);
	webhook_rec_release(&all);
	webhook_rec_release(&kills);
	webhook_rec_release(&none);
}

/* First in, first out, also among those of one transaction and one instant. */
static void test_order(void **state)
{
	struct world *w = *state;
	struct sandbox_rec r[5];
	struct webhook_rec hook;
	struct seen s;
	int64_t next;

	make(w, 1U << EVENT_T_KILLED, &hook);
	for (int i = 0; i < 5; i++)
		world_create(w, 60 + i, &r[i]);
	world_advance(w, 100 * US_PER_S);
	assert_int_equal(reap_once(&w->d, &next, &w->e), 5);
	assert_int_equal(waiting(w, hook.id, &s), 5);
	for (int i = 0; i < 5; i++) {
		assert_string_equal(s.r[i].sandbox, r[i].id);
		assert_int_equal(s.r[i].seq, i);
		assert_true(s.r[i].next_us == s.r[0].next_us);
		sandbox_rec_release(&r[i]);
	}
	webhook_rec_release(&hook);
}

static int on_delivery(void *ctx, const struct delivery_rec *r, struct err *e)
{
	char *text = ctx;

	(void)e;
	sprintf(text + strlen(text), "%d/%u ", r->state, r->attempt);
	return 0;
}

static void deliveries_are(struct world *w, const char *want)
{
	char text[400] = "";
	struct txn *t;

	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_done(w, store_walk_deliveries(t, on_delivery, text, &w->e));
	txn_abort(t);
	assert_string_equal(text, want);
}

static void settle(struct world *w, const struct outbox_rec *out, uint8_t outcome)
{
	struct settlement s = { .out = *out, .rec = { .us = domain_now(&w->d), .state = outcome, .attempt = out->attempts + 1 } };
	struct settlement *const all[] = { &s };

	assert_done(w, outbox_settle(&w->d, all, 1, &w->e));
}

static void test_retry(void **state)
{
	struct world *w = *state;
	struct webhook_rec hook;
	struct sandbox_rec r;
	struct outbox_rec first;
	struct seen s;
	int64_t before;

	make(w, ALL, &hook);
	w->conf.webhook_retries = 2;
	world_create(w, 60, &r);
	assert_int_equal(waiting(w, hook.id, &s), 1);
	first = s.r[0];
	for (uint32_t i = 0; i < 2; i++) {
		before = domain_now(&w->d);
		settle(w, &s.r[0], DELIVERY_RETRY);
		assert_int_equal(waiting(w, hook.id, &s), 1);
		assert_int_equal(s.r[0].attempts, i + 1);
		assert_true(s.r[0].next_us >= before + 10 * US_PER_S);
	}
	settle(w, &first, DELIVERY_RETRY);                   /* a stale one is left alone */
	assert_int_equal(waiting(w, hook.id, &s), 1);
	settle(w, &s.r[0], DELIVERY_RETRY);
	assert_int_equal(waiting(w, hook.id, &s), 0);
	deliveries_are(w, "3/3 2/2 2/1 ");
	world_create(w, 60, &r);
	assert_int_equal(waiting(w, hook.id, &s), 1);
	settle(w, &s.r[0], DELIVERY_DONE);
	assert_int_equal(waiting(w, hook.id, &s), 0);
	deliveries_are(w, "1/1 3/3 2/2 2/1 ");
	world_advance(w, (w->conf.event_days + 1) * 86400 * US_PER_S);
	assert_done(w, deliveries_trim(&w->d, &w->e));
	deliveries_are(w, "");
	webhook_rec_release(&hook);
}

/* Nanoseconds that the outbox adds to one event. */
static long cost(struct world *w)
{
	struct sandbox_rec r = { .id = "i00000000000000000000" };
	struct timespec a, b;
	struct txn *t;

	memcpy(r.team, w->team.id, sizeof r.team);
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 2000; i++)
		assert_done(w, outbox_put(t, &r, EVENT_CREATED, 1, 0, &w->e));
	clock_gettime(CLOCK_MONOTONIC, &b);
	txn_abort(t);
	return (long)((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec) / 2000;
}

static void test_cost(void **state)
{
	struct world *w = *state;
	struct webhook_rec r;
	long none = cost(w), one;

	make(w, ALL, &r);
	webhook_rec_release(&r);
	one = cost(w);
	for (int i = 1; i < w->conf.webhook_max; i++) {
		make(w, ALL, &r);
		webhook_rec_release(&r);
	}
	print_message("an event costs %ld ns without webhooks, %ld ns with one, %ld ns with %lld\n", none, one, cost(w),
		      (long long)w->conf.webhook_max);
}

/* ---- events as they are listed ---- */

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	char *text = ctx;

	(void)us;
	(void)e;
	sprintf(text + strlen(text), "%d", event_text_type(json, n));
	return 0;
}

static void listed(struct world *w, struct event_query q, const char *want)
{
	char text[400] = "";

	q.limit = q.limit != 0 ? q.limit : 100;
	assert_done(w, events_list(&w->d, w->team.id, &q, on_event, text, &w->e));
	assert_string_equal(text, want);
}

static void test_list(void **state)
{
	struct world *w = *state;
	struct sandbox_rec a, b;
	char text[40] = "";
	struct event_query other = { .limit = 10 };
	struct txn *t;

	world_create(w, 60, &a);
	assert_done(w, sandbox_set_timeout(&w->d, &w->team, a.id, 120, &w->e));
	world_create(w, 60, &b);
	assert_done(w, sandbox_kill(&w->d, w->team.id, a.id, "request", &w->e));
	listed(w, (struct event_query){ .oldest_first = true }, "0401");
	listed(w, (struct event_query){ .limit = 2 }, "10");
	listed(w, (struct event_query){ .limit = 2, .offset = 1 }, "04");
	listed(w, (struct event_query){ .offset = 9 }, "");
	listed(w, (struct event_query){ .types = 1U << EVENT_T_CREATED | 1U << EVENT_T_KILLED }, "100");
	listed(w, (struct event_query){ .types = 1U << EVENT_T_CREATED, .offset = 1 }, "0");
	listed(w, (struct event_query){ .sandbox = a.id }, "140");
	listed(w, (struct event_query){ .sandbox = a.id, .oldest_first = true, .limit = 2 }, "04");
	listed(w, (struct event_query){ .sandbox = b.id }, "0");
	listed(w, (struct event_query){ .sandbox = "i00000000000000000000" }, "");
	listed(w, (struct event_query){ .sandbox = "i1" }, "");
	other.sandbox = a.id;                                /* another team asks */
	assert_done(w, events_list(&w->d, NOBODY, &other, on_event, text, &w->e));
	assert_string_equal(text, "");
	world_advance(w, (w->conf.event_days + 1) * 86400 * US_PER_S);
	assert_done(w, events_trim(&w->d, &w->e));
	listed(w, (struct event_query){ .limit = 0 }, "");
	listed(w, (struct event_query){ .sandbox = a.id }, "");
	assert_done(w, txn_read(w->d.store, &t, &w->e));
	assert_int_equal(store_check(t, NULL, NULL, &w->e), 0);
	txn_abort(t);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_life), T(test_sealing), T(test_bound), cmocka_unit_test(test_urls), cmocka_unit_test(test_addresses), cmocka_unit_test(test_signature),
		T(test_body), T(test_which), T(test_order), T(test_retry), T(test_cost), T(test_list),
	};

	return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
