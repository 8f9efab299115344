/* Packed records: random ones survive the round trip, damaged ones are refused and break nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "scratch.h"
#include "store_int.h"

#define ROUNDS 5000

static void same_text(const char *a, const char *b)
{
	assert_true((a == NULL) == (b == NULL));
	if (a != NULL)
		assert_string_equal(a, b);
}

static char *some_text(struct rng *r)
{
	char *s = random_text(r, 200);

	return s != NULL ? s : strdup("");
}

/* The three records of webhooks: what was packed comes out again, and packs to the same bytes. */
static void test_hooks(void **state)
{
	struct rng r = { 7 };

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct webhook_rec a = { .url = some_text(&r), .secret = some_text(&r) }, b;
		struct delivery_rec c = { .url = random_text(&r, 50), .error = random_text(&r, 50), .answer = random_text(&r, 50) }, d;
		struct outbox_rec o = { .type = 3 }, u;
		uint8_t key[KEY_WEBHOOK_LEN], stamp[KEY_DELIVERY_LEN], at[KEY_OUTBOX_LEN];
		struct sandbox_rec s;
		struct buf p, q;

		random_sandbox(&r, &s);
		memset(key, 'k', sizeof key);
		memset(at, 'k', sizeof at);
		a.enabled = s.secure;
		a.clear = i % 2 == 1;
		a.events = o.event_seq = o.attempts = c.status = c.duration_ms = s.cpu_count;
		a.created_us = o.event_us = s.started_us;
		snprintf(a.name, sizeof a.name, "%s", s.alias);
		memcpy(o.team, s.team, sizeof o.team);
		memcpy(o.sandbox, s.id, sizeof o.sandbox);
		memcpy(c.event, s.execution_id, sizeof c.event);
		memcpy(c.sandbox, s.id, sizeof c.sandbox);
		be64_put(stamp, (uint64_t)s.end_us);
		be32_put(stamp + 8, s.disk_mb);
		buf_init(&p, RECORD_MAX);
		buf_init(&q, RECORD_MAX);
		webhook_pack(&p, &a);
		assert_int_equal(webhook_unpack(key, sizeof key, p.p, p.len, &b), 0);
		webhook_pack(&q, &b);
		outbox_pack(&p, &o);
		assert_int_equal(outbox_unpack(at, sizeof at, p.p + q.len, p.len - q.len, &u), 0);
		outbox_pack(&q, &u);
		delivery_pack(&p, &c);
		assert_int_equal(delivery_unpack(stamp, sizeof stamp, p.p + q.len, p.len - q.len, &d), 0);
		delivery_pack(&q, &d);
		assert_int_equal(p.len, q.len);
		assert_memory_equal(p.p, q.p, p.len);
		assert_string_equal(a.name, b.name);
		assert_string_equal(o.team, u.team);
		assert_true(d.us == s.end_us && d.seq == s.disk_mb && a.created_us == b.created_us);
		webhook_rec_release(&b);
		assert_int_equal(webhook_unpack(key, sizeof key - 1, p.p, p.len, &b), -1);
		webhook_rec_release(&a);
		delivery_rec_release(&c);
		delivery_rec_release(&d);
		sandbox_rec_release(&s);
		buf_release(&p);
		buf_release(&q);
	}
}

static void text_is(struct glance_text got, const char *want)
{
	assert_int_equal(got.p != NULL, want != NULL);
	if (want != NULL)
		assert_true(got.n == strlen(want) && memcmp(got.p, want, got.n) == 0);
}

/* A glance tells the same, and nothing of a record that is cut off within what it looks at. */
static void glance_is(const struct buf *p, const struct sandbox_rec *r)
{
	struct sandbox_glance g, of;

	assert_int_equal(sandbox_glance(p->p, p->len, &g), 0);
	assert_true(g.state == r->state && g.auto_pause == r->auto_pause && g.started_us == r->started_us && g.end_us == r->end_us);
	assert_true(g.cpu_count == r->cpu_count && g.memory_mb == r->memory_mb && g.disk_mb == r->disk_mb);
	text_is(g.template_id, r->template_id);
	text_is(g.alias, r->alias);
	text_is(g.envd_version, r->envd_version);
	text_is(g.metadata, r->metadata);
	sandbox_glance_of(r, &of);
	assert_true(g.state == of.state && g.auto_pause == of.auto_pause && g.started_us == of.started_us && g.end_us == of.end_us);
	assert_true(g.cpu_count == of.cpu_count && g.memory_mb == of.memory_mb && g.disk_mb == of.disk_mb);
	text_is(of.template_id, r->template_id);
	text_is(of.alias, r->alias);
	text_is(of.envd_version, r->envd_version);
	text_is(of.metadata, r->metadata);
	for (size_t n = 0; n < 60; n++)
		assert_int_equal(sandbox_glance(p->p, n, &g), -1);
}

/* Whole-struct comparison but for the pointers, which are compared as text. */
static void test_sandbox(void **state)
{
	struct rng r = { 1 };

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct sandbox_rec a, b;
		struct buf p;

		random_sandbox(&r, &a);
		buf_init(&p, RECORD_MAX);
		sandbox_pack(&p, &a);
		assert_false(buf_failed(&p));
		assert_int_equal(sandbox_unpack(a.id, strlen(a.id), p.p, p.len, &b), 0);
		glance_is(&p, &a);
		same_text(a.metadata, b.metadata);
		same_text(a.mask_host, b.mask_host);
		same_text(a.allow_out, b.allow_out);
		same_text(a.deny_out, b.deny_out);
		assert_true(a.closed_traffic == b.closed_traffic && a.net_due_us == b.net_due_us);
		assert_string_equal(a.id, b.id);
		assert_string_equal(a.team, b.team);
		assert_string_equal(a.template_id, b.template_id);
		assert_string_equal(a.alias, b.alias);
		assert_string_equal(a.build_id, b.build_id);
		assert_string_equal(a.execution_id, b.execution_id);
		assert_string_equal(a.machine, b.machine);
		assert_string_equal(a.envd_version, b.envd_version);
		assert_int_equal(a.state, b.state);
		assert_int_equal(a.handed << 4 | a.secure << 3 | a.auto_pause << 2 | a.allow_internet << 1 | a.allow_internet_set,
				 b.handed << 4 | b.secure << 3 | b.auto_pause << 2 | b.allow_internet << 1 | b.allow_internet_set);
		assert_int_equal(a.auto_pause_memory << 2 | a.auto_resume << 1 | a.memory, b.auto_pause_memory << 2 | b.auto_resume << 1 | b.memory);
		assert_int_equal(a.resume_s, b.resume_s);
		assert_true(a.cpu_count == b.cpu_count && a.memory_mb == b.memory_mb && a.disk_mb == b.disk_mb);
		assert_true(a.created_us == b.created_us && a.started_us == b.started_us && a.end_us == b.end_us && a.due_us == b.due_us);
		sandbox_rec_release(&a);
		sandbox_rec_release(&b);
		buf_release(&p);
	}
}

static void test_template(void **state)
{
	struct rng r = { 2 };

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct template_rec a, b;
		struct buf p;

		random_template(&r, &a);
		buf_init(&p, RECORD_MAX);
		template_pack(&p, &a);
		assert_false(buf_failed(&p));
		assert_int_equal(template_unpack(a.id, strlen(a.id), p.p, p.len, &b), 0);
		assert_string_equal(a.id, b.id);
		assert_string_equal(a.team, b.team);
		assert_string_equal(a.alias, b.alias);
		assert_string_equal(a.build_id, b.build_id);
		assert_string_equal(a.envd_version, b.envd_version);
		assert_string_equal(a.image, b.image);
		same_text(a.command, b.command);
		assert_true(a.cpu_count == b.cpu_count && a.memory_mb == b.memory_mb && a.disk_mb == b.disk_mb);
		assert_true(a.ready_port == b.ready_port);
		assert_true(a.is_public == b.is_public && a.created_us == b.created_us && a.updated_us == b.updated_us);
		assert_true(a.spawned_us == b.spawned_us && a.spawn_count == b.spawn_count);
		template_rec_release(&a);
		template_rec_release(&b);
		buf_release(&p);
	}
}

static void test_team(void **state)
{
	struct rng r = { 3 };

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct team_rec a, b;
		struct buf p;

		random_team(&r, &a);
		a.state = (uint8_t)(i % TEAM_STATES);
		snprintf(a.reason, sizeof a.reason, "%s", a.slug);
		buf_init(&p, RECORD_MAX);
		team_pack(&p, &a);
		assert_false(buf_failed(&p));
		assert_int_equal(team_unpack(p.p, p.len, &b), 0);
		assert_string_equal(a.id, b.id);
		assert_string_equal(a.name, b.name);
		assert_string_equal(a.slug, b.slug);
		assert_true(a.state == b.state && strcmp(a.reason, b.reason) == 0);
		p.p[0] = 1;                          /* the first layout ended here */
		assert_int_equal(team_unpack(p.p, p.len - 2 - strlen(a.reason), &b), 0);
		assert_true(b.state == TEAM_OPEN && b.reason[0] == '\0' && strcmp(a.slug, b.slug) == 0);
		assert_true(a.max_sandboxes == b.max_sandboxes && a.max_hours == b.max_hours && a.created_us == b.created_us);
		buf_release(&p);
	}
}

/* Any bytes: accepted or refused, and what is accepted can be packed and released. */
static void unpack_any(const void *p, size_t n)
{
	struct sandbox_rec s;
	struct template_rec t;
	struct team_rec team;
	struct buf b;

	buf_init(&b, RECORD_MAX);
	if (sandbox_unpack("iaaaaaaaaaaaaaaaaaaaa", 21, p, n, &s) == 0) {
		sandbox_pack(&b, &s);
		assert_true(b.p[0] != *(const uint8_t *)p || (b.len == n && memcmp(b.p, p, n) == 0));      /* one record, one form */
		sandbox_rec_release(&s);
	}
	buf_reset(&b);
	if (template_unpack("aaaaaaaaaaaaaaaaaaaa", 20, p, n, &t) == 0) {
		template_pack(&b, &t);
		assert_true(b.p[0] != *(const uint8_t *)p || b.len == n);
		template_rec_release(&t);
	}
	if (team_unpack(p, n, &team) == 0)
		assert_true(strlen(team.name) < NAME_MAX_LEN);
	buf_release(&b);
}

static void pack_random(struct rng *r, struct buf *b)
{
	struct sandbox_rec s;
	struct template_rec t;
	struct team_rec team;

	switch (rng_below(r, 3)) {
	case 0:
		random_sandbox(r, &s);
		sandbox_pack(b, &s);
		sandbox_rec_release(&s);
		break;
	case 1:
		random_template(r, &t);
		template_pack(b, &t);
		template_rec_release(&t);
		break;
	default:
		random_team(r, &team);
		team_pack(b, &team);
	}
}

static void test_pool(void **state)
{
	struct pool_rec a = { .name = "p", .kind = POOL_LIGHT, .created_us = 5, .updated_us = -7 }, b;
	struct buf p;

	(void)state;
	a.config = strdup("{\"folder\":\"/x\"}");
	buf_init(&p, RECORD_MAX);
	pool_pack(&p, &a);
	assert_int_equal(pool_unpack("p", 1, p.p, p.len, &b), 0);
	assert_string_equal(b.name, "p");
	assert_true(b.kind == POOL_LIGHT && b.created_us == 5 && b.updated_us == -7);
	assert_string_equal(b.config, a.config);
	pool_rec_release(&b);
	p.p[1] = POOL_KINDS;
	assert_int_equal(pool_unpack("p", 1, p.p, p.len, &b), -1);
	p.p[1] = POOL_NONE;
	assert_int_equal(pool_unpack("p", 1, p.p, p.len - 1, &b), -1);
	pool_rec_release(&a);
	buf_release(&p);
}

/* Templates of the first layout had no pool, of the second no ready_port. */
static void test_template_layouts(void **state)
{
	struct rng r = { 6 };
	struct template_rec t, old;
	struct buf b;

	(void)state;
	buf_init(&b, RECORD_MAX);
	random_template(&r, &t);
	t.pool[0] = '\0';
	template_pack(&b, &t);
	b.p[0] = 2;
	assert_int_equal(template_unpack(t.id, 20, b.p, b.len - 4, &old), 0);
	assert_int_equal(old.ready_port, 0);
	template_rec_release(&old);
	b.p[0] = 1;
	assert_int_equal(template_unpack(t.id, 20, b.p, b.len - 5, &old), 0);
	assert_string_equal(old.image, t.image);
	assert_string_equal(old.pool, "");
	template_rec_release(&old);
	template_rec_release(&t);
	buf_release(&b);
}

/* Bytes changed, cut off or added, on a heap block of the exact size so that a sanitizer sees a read beyond. */
static void test_damage(void **state)
{
	struct rng r = { 4 };

	(void)state;
	for (int i = 0; i < 4 * ROUNDS; i++) {
		struct buf b;
		size_t n, flips = rng_below(&r, 4);
		uint8_t *p;

		buf_init(&b, RECORD_MAX);
		pack_random(&r, &b);
		n = rng_below(&r, 3) == 0 ? rng_below(&r, b.len + 1) : b.len;
		p = malloc(n + 8);
		memcpy(p, b.p, n);
		if (rng_below(&r, 4) == 0)
			for (size_t more = rng_below(&r, 8); more > 0; more--)
				p[n++] = (uint8_t)rng_next(&r);
		for (size_t k = 0; k < flips && n > 0; k++)
			p[rng_below(&r, n)] = (uint8_t)rng_next(&r);
		p = realloc(p, n > 0 ? n : 1);
		unpack_any(p, n);
		free(p);
		buf_release(&b);
	}
}

static void test_refused(void **state)
{
	struct rng r = { 5 };
	struct sandbox_rec s, out;
	struct buf b;

	(void)state;
	random_sandbox(&r, &s);
	buf_init(&b, RECORD_MAX);
	sandbox_pack(&b, &s);
	b.p[0]++;                                    /* a layout to come */
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len, &out), -1);
	b.p[0]--;
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len - 1, &out), -1);
	b.p[1] = 0;                                  /* no such state */
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len, &out), -1);
	b.p[1] = SB_KILLING + 1;
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len, &out), -1);
	b.p[1] = SB_RUNNING;
	assert_int_equal(sandbox_unpack("0123456789012345678901", 22, b.p, b.len, &out), -1);
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, 0, &out), -1);
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len, &out), 0);
	sandbox_rec_release(&out);
	sandbox_rec_release(&s);
	buf_release(&b);
}

#define NETWORK_BYTES 21             /* of a row without network rules: a flag, a time, three texts that are not there */

static void no_network(struct sandbox_rec *s)
{
	free(s->mask_host);
	free(s->allow_out);
	free(s->deny_out);
	s->mask_host = s->allow_out = s->deny_out = NULL;
}

/* Rows of before network rules: the same up to them. */
static void test_layout_2(void **state)
{
	struct rng r = { 8 };
	struct sandbox_rec s, out;
	struct buf b;

	(void)state;
	random_sandbox(&r, &s);
	no_network(&s);
	buf_init(&b, RECORD_MAX);
	sandbox_pack(&b, &s);
	b.p[0] = 2;
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len, &out), -1);
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len - NETWORK_BYTES, &out), 0);
	assert_true(!out.closed_traffic && out.net_due_us == 0 && out.mask_host == NULL && out.allow_out == NULL && out.deny_out == NULL);
	assert_int_equal(out.pool_kind, s.pool_kind);
	sandbox_rec_release(&out);
	sandbox_rec_release(&s);
	buf_release(&b);
}

/* Rows of before sandboxes could be paused: the same without three flags and a number. */
static void test_layout_1(void **state)
{
	struct rng r = { 6 };
	struct sandbox_rec s, out;
	struct buf b;

	(void)state;
	random_sandbox(&r, &s);
	s.pool[0] = '\0';
	s.pool_kind = POOL_LOCAL;
	no_network(&s);
	s.auto_resume = s.memory = true;
	s.auto_pause_memory = false;
	buf_init(&b, RECORD_MAX);
	sandbox_pack(&b, &s);
	b.p[0] = 1;
	memmove(b.p + 22, b.p + 26, b.len - 26);     /* resume_s, after the flags and three sizes */
	memmove(b.p + 5, b.p + 8, b.len - 4 - 8);
	assert_int_equal(sandbox_unpack(s.id, 21, b.p, b.len - 7 - 2 - NETWORK_BYTES, &out), 0);
	assert_true(out.auto_pause_memory && !out.auto_resume && !out.memory);
	assert_int_equal(out.resume_s, 0);
	assert_int_equal(out.auto_pause, s.auto_pause);
	assert_int_equal(out.disk_mb, s.disk_mb);
	assert_int_equal(out.end_us, s.end_us);
	assert_string_equal(out.envd_version, s.envd_version);
	sandbox_rec_release(&out);
	sandbox_rec_release(&s);
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hooks), cmocka_unit_test(test_sandbox),
		cmocka_unit_test(test_template),
		cmocka_unit_test(test_team),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_template_layouts),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_layout_1), cmocka_unit_test(test_layout_2),
	};

	return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
