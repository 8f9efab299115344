/* The records on a real LMDB environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "scratch.h"
#include "store_int.h"

#define TEAM "11111111-1111-4111-8111-111111111111"
#define TEAM2 "22222222-2222-4222-8222-222222222222"

struct fixture {
	char dir[64], db[80];
	struct store *st;
	struct err e;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	scratch_make(f->dir);
	snprintf(f->db, sizeof f->db, "%s/a/db", f->dir);
	if (store_open(f->db, 64, &f->st, &f->e) < 0)
		fail_msg("%s", f->e.text);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	store_close(f->st);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

static struct txn *writing(struct fixture *f)
{
	struct txn *t;

	if (txn_write(f->st, &t, &f->e) < 0)
		fail_msg("%s", f->e.text);
	return t;
}

static struct txn *reading(struct fixture *f)
{
	struct txn *t;

	if (txn_read(f->st, &t, &f->e) < 0)
		fail_msg("%s", f->e.text);
	return t;
}

static void committed(struct fixture *f, struct txn *t)
{
	if (txn_commit(t, &f->e) < 0)
		fail_msg("%s", f->e.text);
}

static void print_problem(void *ctx, const char *text)
{
	(void)ctx;
	print_error("%s\n", text);
}

static int problems(struct fixture *f, store_problem_fn *fn)
{
	struct txn *t = reading(f);
	int n = store_check(t, fn, NULL, &f->e);

	txn_abort(t);
	return n;
}

static void sandbox(struct sandbox_rec *r, const char *team, int n, uint8_t state, int64_t started, int64_t due)
{
	memset(r, 0, sizeof *r);
	snprintf(r->id, sizeof r->id, "i%020d", n);
	snprintf(r->team, sizeof r->team, "%s", team);
	r->state = state;
	r->started_us = started;
	r->end_us = r->due_us = due;
	if (state != SB_STARTING)
		snprintf(r->machine, sizeof r->machine, "sb_%020d", n);
}

static void put(struct fixture *f, const struct sandbox_rec *before, const struct sandbox_rec *now)
{
	struct txn *t = writing(f);

	if (store_sandbox_put(t, before, now, &f->e) < 0)
		fail_msg("%s", f->e.text);
	committed(f, t);
}

static void teams_made(struct fixture *f)
{
	struct team_rec a = { .id = TEAM, .name = "A", .slug = "a", .max_sandboxes = 3 }, b = { .id = TEAM2, .name = "B", .slug = "b" };
	struct txn *t = writing(f);

	assert_int_equal(store_team_put(t, &a, &f->e), 0);
	assert_int_equal(store_team_put(t, &b, &f->e), 0);
	committed(f, t);
}

static void test_open(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	struct store *again;

	assert_int_equal(stat(f->db, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0750 & ~0022);
	store_close(f->st);
	f->st = NULL;
	assert_int_equal(store_open(f->db, 64, &again, &f->e), 0);
	f->st = again;
	assert_int_equal(problems(f, print_problem), 0);
}

/* Opened by root first, the records still belong to those whose directory they are in. */
static void test_owner(void **state)
{
	struct fixture *f = *state;
	char path[120];
	struct stat st;

	if (geteuid() != 0)
		skip();
	snprintf(path, sizeof path, "%s/theirs", f->dir);
	assert_int_equal(mkdir(path, 0755), 0);
	if (chown(path, 12345, 12346) < 0)           /* ids that the user namespace of this machine does not have */
		skip();
	strcat(path, "/state/db");
	store_close(f->st);
	f->st = NULL;
	assert_int_equal(store_open(path, 64, &f->st, &f->e), 0);
	strcat(path, "/lock.mdb");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 12346);
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_mode & 0777, 0750);
}

/* Records of another schema are left alone. */
static void test_schema(void **state)
{
	struct fixture *f = *state;
	const uint8_t other[4] = { 0, 0, 0, STORE_SCHEMA + 1 };
	struct store *again;
	struct txn *t = writing(f);

	assert_int_equal(store_meta_put(t, "schema", other, sizeof other, &f->e), 0);
	committed(f, t);
	store_close(f->st);
	f->st = NULL;
	assert_int_equal(store_open(f->db, 64, &again, &f->e), -1);
	assert_int_equal(f->e.kind, ERR_INTERNAL);
	assert_non_null(strstr(f->e.text, "schema"));
}

static void test_open_fails(void **state)
{
	struct fixture *f = *state;
	struct store *st;
	char path[120];
	FILE *file;

	snprintf(path, sizeof path, "%s/file", f->dir);
	file = fopen(path, "w");
	fclose(file);
	strcat(path, "/db");
	assert_int_equal(store_open(path, 64, &st, &f->e), -1);
	assert_non_null(strstr(f->e.text, path));
}

static void test_teams(void **state)
{
	struct fixture *f = *state;
	uint8_t hash[32] = { 7 };
	struct key_rec key = { .hash = { 7 }, .team = TEAM, .kind = KEY_TOKEN, .length = 40, .mask = "ab...cdef", .name = "mine", .created_us = 5 };
	struct team_rec r;
	struct txn *t;

	teams_made(f);
	t = writing(f);
	assert_int_equal(store_key_put(t, &key, &f->e), 0);
	committed(f, t);
	t = reading(f);
	assert_int_equal(store_team_by_name(t, "A", &r, &f->e), 1);
	assert_string_equal(r.id, TEAM);
	assert_int_equal(store_team_by_slug(t, "b", &r, &f->e), 1);
	assert_string_equal(r.id, TEAM2);
	assert_int_equal(store_team_by_name(t, "C", &r, &f->e), 0);
	assert_int_equal(store_team_by_name(t, "", &r, &f->e), 0);
	memset(&key, 0, sizeof key);
	assert_int_equal(store_key_get(t, hash, &key, &f->e), 1);
	assert_string_equal(key.team, TEAM);
	assert_string_equal(key.name, "mine");
	assert_string_equal(key.mask, "ab...cdef");
	assert_int_equal(key.kind, KEY_TOKEN);
	assert_int_equal(key.created_us, 5);
	txn_abort(t);
	t = writing(f);
	assert_int_equal(store_key_delete(t, hash, &f->e), 1);
	assert_int_equal(store_key_delete(t, hash, &f->e), 0);
	assert_int_equal(store_key_get(t, hash, &key, &f->e), 0);
	committed(f, t);
	assert_int_equal(problems(f, print_problem), 0);
}

static void test_templates(void **state)
{
	struct fixture *f = *state;
	struct template_rec r = { .id = "aaaaaaaaaaaaaaaaaaaa", .team = TEAM, .alias = "base" }, got;
	char image[] = "host", command[] = "[\"x\"]", far_too_long[600];
	struct txn *t;

	r.image = image;
	r.command = command;
	teams_made(f);
	t = writing(f);
	assert_int_equal(store_template_put(t, &r, &f->e), 0);
	assert_int_equal(store_template_name_put(t, TEAM, "base", r.id, &f->e), 0);
	assert_int_equal(store_template_name_put(t, "", "base", r.id, &f->e), 0);
	committed(f, t);
	t = reading(f);
	assert_int_equal(store_template_by_name(t, TEAM, "base", &got, &f->e), 1);
	assert_string_equal(got.command, "[\"x\"]");
	template_rec_release(&got);
	assert_int_equal(store_template_by_name(t, TEAM2, "base", &got, &f->e), 0);
	memset(far_too_long, 'x', sizeof far_too_long - 1);
	far_too_long[sizeof far_too_long - 1] = '\0';
	assert_int_equal(store_template_by_name(t, "", far_too_long, &got, &f->e), 0);
	assert_int_equal(store_template_get(t, far_too_long, &got, &f->e), 0);
	txn_abort(t);
	t = writing(f);
	assert_int_equal(store_template_name_delete(t, "", "base", &f->e), 0);
	assert_int_equal(store_template_by_name(t, "", "base", &got, &f->e), 0);
	committed(f, t);
	assert_int_equal(problems(f, print_problem), 0);
}

static void counts(struct fixture *f, const char *team, uint64_t live, uint64_t running)
{
	struct txn *t = reading(f);
	uint64_t a, b;

	assert_int_equal(store_live_count(t, team, &a, &f->e), 0);
	assert_int_equal(store_running_count(t, team, &b, &f->e), 0);
	txn_abort(t);
	assert_int_equal(a, live);
	assert_int_equal(b, running);
}

/* A row's way through its states, with the entries and counts at each step. */
static void test_row_life(void **state)
{
	struct fixture *f = *state;
	struct sandbox_rec a, b, got;
	struct txn *t;

	teams_made(f);
	sandbox(&a, TEAM, 1, SB_STARTING, 100, 1000);
	put(f, NULL, &a);
	counts(f, TEAM, 1, 0);
	b = a;
	b.state = SB_RUNNING;
	b.started_us = 200;
	b.end_us = b.due_us = 5000;
	strcpy(b.machine, "sb_1");
	put(f, &a, &b);
	counts(f, TEAM, 1, 1);
	assert_int_equal(problems(f, print_problem), 0);
	a = b;
	a.state = SB_KILLING;
	a.due_us = 300;
	put(f, &b, &a);
	counts(f, TEAM, 0, 0);
	assert_int_equal(problems(f, print_problem), 0);
	t = writing(f);
	assert_int_equal(store_sandbox_delete(t, &a, &f->e), 0);
	assert_int_equal(store_sandbox_get(t, a.id, &got, &f->e), 0);
	committed(f, t);
	assert_int_equal(problems(f, print_problem), 0);
	counts(f, TEAM2, 0, 0);
}

/* A row written without its earlier form leaves traces that the audit must name. */
static void test_check_finds(void **state)
{
	struct fixture *f = *state;
	struct sandbox_rec a, b;

	teams_made(f);
	sandbox(&a, TEAM, 1, SB_RUNNING, 100, 1000);
	put(f, NULL, &a);
	assert_int_equal(problems(f, print_problem), 0);
	b = a;
	b.started_us = 101;
	b.due_us = b.end_us = 1001;
	put(f, NULL, &b);                            /* as if it were new */
	assert_int_equal(problems(f, NULL), 3);      /* by_start, due, counts */
	sandbox(&a, "33333333-3333-4333-8333-333333333333", 2, SB_RUNNING, 1, 1);
	put(f, NULL, &a);
	assert_int_equal(problems(f, NULL), 4);      /* a team that does not exist */
}

static void test_damaged(void **state)
{
	struct fixture *f = *state;
	struct sandbox_rec a, got;
	struct txn *t;

	teams_made(f);
	sandbox(&a, TEAM, 1, SB_RUNNING, 100, 1000);
	put(f, NULL, &a);
	t = writing(f);
	assert_int_equal(table_put(t, T_SANDBOXES, a.id, SANDBOX_ID_CHARS, "\x09junk", 5, &f->e), 0);
	committed(f, t);
	t = reading(f);
	assert_int_equal(store_sandbox_get(t, a.id, &got, &f->e), -1);
	assert_int_equal(f->e.kind, ERR_INTERNAL);
	assert_non_null(strstr(f->e.text, "i00000000000000000001"));
	txn_abort(t);
}

struct seen {
	int n[200];
	int count, stop_at;
};

static int on_start(void *ctx, struct txn *t, const char *id, int64_t started_us, uint8_t state, struct err *e)
{
	struct seen *s = ctx;

	(void)t;
	(void)started_us;
	(void)state;
	(void)e;
	s->n[s->count++] = atoi(id + 1);
	return s->stop_at != 0 && s->count == s->stop_at;
}

static void walked(struct fixture *f, const char *team, bool oldest, int64_t us, const char *id, const char *want)
{
	struct txn *t = reading(f);
	struct seen s = { .count = 0 };
	char text[300] = "";

	if (store_walk_started(t, team, oldest, us, id, on_start, &s, &f->e) < 0)
		fail_msg("%s", f->e.text);
	txn_abort(t);
	for (int i = 0; i < s.count; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", s.n[i]);
	assert_string_equal(text, want);
}

/* Newest first, then by id; oldest first is the exact reverse; a place need not exist any more. */
static void test_walk(void **state)
{
	static const struct { const char *team; int n; int64_t us; } rows[] = {
		{ TEAM, 1, 10 }, { TEAM, 2, 30 }, { TEAM, 3, 20 }, { TEAM, 4, 20 }, { TEAM2, 5, 20 },
	};
	struct fixture *f = *state;
	struct sandbox_rec r;

	walked(f, TEAM, false, 0, "", "");
	walked(f, TEAM, true, 0, "", "");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		sandbox(&r, rows[i].team, rows[i].n, SB_RUNNING, rows[i].us, 1000);
		put(f, NULL, &r);
	}
	walked(f, TEAM, false, 0, "", "2 3 4 1 ");
	walked(f, TEAM, true, 0, "", "1 4 3 2 ");
	walked(f, TEAM2, false, 0, "", "5 ");
	walked(f, TEAM2, true, 0, "", "5 ");
	walked(f, TEAM, false, 20, "i00000000000000000003", "4 1 ");
	walked(f, TEAM, true, 20, "i00000000000000000003", "2 ");
	walked(f, TEAM, false, 25, "i00000000000000000009", "3 4 1 ");
	walked(f, TEAM, true, 25, "i00000000000000000009", "2 ");
	walked(f, TEAM, false, 10, "i00000000000000000001", "");
	walked(f, TEAM, true, 30, "i00000000000000000002", "");
	walked(f, TEAM2, true, 1, "i00000000000000000001", "5 ");
}

static void test_due(void **state)
{
	static const int64_t due[] = { 50, 10, 30, 10, 0 };
	struct fixture *f = *state;
	struct sandbox_rec r;
	char id[SANDBOX_ID_LEN], text[100] = "";
	struct txn *t;
	int64_t us;
	int got;

	for (int i = 0; i < 5; i++) {
		sandbox(&r, TEAM, i + 1, due[i] == 0 ? SB_PAUSED : SB_RUNNING, 1, due[i]);
		put(f, NULL, &r);
	}
	t = reading(f);
	for (got = store_due_first(t, &us, id, &f->e); got == 1; got = store_due_next(t, &us, id, &f->e))
		snprintf(text + strlen(text), sizeof text - strlen(text), "%lld:%d ", (long long)us, atoi(id + 1));
	txn_abort(t);
	assert_int_equal(got, 0);
	assert_string_equal(text, "10:2 10:4 30:3 50:1 ");
}

static int on_row(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct seen *s = ctx;

	(void)e;
	s->n[s->count++] = atoi(r->id + 1);
	return 0;
}

static void test_walk_rows(void **state)
{
	struct fixture *f = *state;
	struct sandbox_rec r;
	struct seen s = { .count = 0 };
	struct txn *t;

	for (int i = 1; i <= 5; i++) {
		sandbox(&r, TEAM, i, SB_RUNNING, 1, 1);
		put(f, NULL, &r);
	}
	t = reading(f);
	assert_int_equal(store_walk_sandboxes(t, "i00000000000000000003", on_row, &s, &f->e), 0);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.n[0], 4);
	s.count = 0;
	assert_int_equal(store_walk_sandboxes(t, "", on_row, &s, &f->e), 0);
	assert_int_equal(s.count, 5);
	txn_abort(t);
}

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	char *text = ctx;

	(void)e;
	sprintf(text + strlen(text), "%lld%.*s ", (long long)us, (int)n, json);
	return 0;
}

static void events_are(struct fixture *f, const char *team, const char *want)
{
	struct txn *t = reading(f);
	char text[400] = "";

	assert_int_equal(store_walk_events(t, team, on_event, text, &f->e), 0);
	txn_abort(t);
	assert_string_equal(text, want);
}

static void test_events(void **state)
{
	struct fixture *f = *state;
	struct txn *t = writing(f);
	int removed;

	assert_int_equal(store_event_add(t, TEAM, NULL, 10, "a", 1, NULL, &f->e), 0);
	assert_int_equal(store_event_add(t, TEAM, NULL, 10, "b", 1, NULL, &f->e), 0);
	assert_int_equal(store_event_add(t, TEAM, NULL, 20, "c", 1, NULL, &f->e), 0);
	assert_int_equal(store_event_add(t, TEAM2, NULL, 5, "d", 1, NULL, &f->e), 0);
	assert_int_equal(store_event_add(t, TEAM2, NULL, 15, "e", 1, NULL, &f->e), 0);
	committed(f, t);
	events_are(f, TEAM, "20c 10b 10a ");
	events_are(f, TEAM2, "15e 5d ");
	t = writing(f);
	assert_int_equal(store_events_trim(t, 15, 2, &removed, &f->e), 0);
	assert_int_equal(removed, 2);
	assert_int_equal(store_events_trim(t, 15, 100, &removed, &f->e), 0);
	assert_int_equal(removed, 1);
	committed(f, t);
	events_are(f, TEAM, "20c ");
	events_are(f, TEAM2, "15e ");
	t = writing(f);
	assert_int_equal(store_events_trim(t, 1000, 100, &removed, &f->e), 0);
	assert_int_equal(removed, 2);
	committed(f, t);
	events_are(f, TEAM, "");
}

/* Events of the first layout, text alone, are still read, listed in their team and dropped; what is wrong is found. */
static void test_event_layouts(void **state)
{
	struct fixture *f = *state;
	struct txn *t;
	uint8_t key[KEY_EVENT_LEN] = { 0 }, of[KEY_EVENT_OF_LEN];
	const char *json;
	char text[100] = "";
	int removed;
	size_t n;

	teams_made(f);
	memcpy(key, TEAM, UUID_CHARS);
	key[UUID_CHARS + 7] = 5;
	t = writing(f);
	assert_int_equal(table_put(t, T_EVENTS, key, sizeof key, "{}", 2, &f->e), 0);
	assert_int_equal(store_event_add(t, TEAM, "iaaaaaaaaaaaaaaaaaaaa", 6, "x", 1, NULL, &f->e), 0);
	committed(f, t);
	events_are(f, TEAM, "6x 5{} ");
	t = reading(f);
	assert_int_equal(store_event_get(t, TEAM, 5, 0, &json, &n, &f->e), 1);
	assert_int_equal(n, 2);
	assert_int_equal(store_event_get(t, TEAM, 5, 1, &json, &n, &f->e), 0);
	assert_int_equal(store_walk_events_of(t, TEAM, "iaaaaaaaaaaaaaaaaaaaa", true, on_event, text, &f->e), 0);
	assert_string_equal(text, "6x ");
	txn_abort(t);
	assert_int_equal(problems(f, print_problem), 0);
	memset(of, 'i', sizeof of);
	t = writing(f);
	assert_int_equal(table_put(t, T_EVENTS_OF, of, sizeof of, "", 0, &f->e), 0);
	assert_int_equal(table_put(t, T_OUTBOX, of, sizeof of, "", 0, &f->e), 0);
	assert_int_equal(table_put(t, T_WEBHOOKS, of, sizeof of, "", 0, &f->e), 0);
	assert_int_equal(table_put(t, T_DELIVERIES, of, sizeof of, "", 0, &f->e), 0);
	committed(f, t);
	assert_int_equal(problems(f, NULL), 4);
	t = writing(f);
	assert_int_equal(store_events_trim(t, 7, 100, &removed, &f->e), 0);
	assert_int_equal(removed, 2);
	committed(f, t);
	events_are(f, TEAM, "");
}

/* What was put in first comes first, each webhook's by itself. */
static int on_out(void *ctx, struct txn *t, const struct outbox_rec *r, struct err *e)
{
	char *text = ctx;

	(void)t;
	(void)e;
	sprintf(text + strlen(text), "%lld.%u=%u ", (long long)r->next_us, r->seq, r->event_seq);
	return 0;
}

static void outbox_is(struct fixture *f, const char *webhook, const char *want)
{
	struct txn *t = reading(f);
	char text[400] = "";

	assert_int_equal(store_walk_outbox(t, webhook, on_out, text, &f->e), 0);
	txn_abort(t);
	assert_string_equal(text, want);
}

static void count_calls(void *ctx)
{
	++*(int *)ctx;
}

static void test_outbox(void **state)
{
	static const int64_t times[] = { 20, 10, 20, 20, 5 };
	struct outbox_rec r = { .team = TEAM, .sandbox = "iaaaaaaaaaaaaaaaaaaaa" }, first, later;
	struct fixture *f = *state;
	char webhook[UUID_LEN];
	int calls = 0;
	struct txn *t;

	store_on_outbox(f->st, count_calls, &calls);
	t = writing(f);
	for (uint32_t i = 0; i < 5; i++) {
		memcpy(r.webhook, i == 3 ? TEAM2 : TEAM, sizeof r.webhook);
		r.next_us = times[i];
		r.event_seq = i;
		assert_int_equal(store_outbox_add(t, &r, &f->e), 0);
		if (i == 0)
			first = r;
	}
	assert_int_equal(calls, 0);
	committed(f, t);
	assert_int_equal(calls, 1);
	outbox_is(f, TEAM, "5.0=4 10.0=1 20.0=0 20.1=2 ");
	outbox_is(f, TEAM2, "20.0=3 ");
	t = writing(f);
	assert_int_equal(store_outbox_webhook(t, "", webhook, &f->e), 1);
	assert_string_equal(webhook, TEAM);
	assert_int_equal(store_outbox_webhook(t, TEAM, webhook, &f->e), 1);
	assert_string_equal(webhook, TEAM2);
	assert_int_equal(store_outbox_webhook(t, TEAM2, webhook, &f->e), 0);
	later = first;
	later.next_us = 30;
	assert_int_equal(store_outbox_later(t, &first, &later, &f->e), 0);
	assert_int_equal(store_outbox_delete(t, &first, &f->e), 0);
	assert_int_equal(store_outbox_delete(t, &r, &f->e), 1);
	committed(f, t);
	assert_int_equal(calls, 1);                  /* nothing new */
	outbox_is(f, TEAM, "10.0=1 20.1=2 30.0=0 ");
}

/* Records of deliveries stay within their number and age. */
static void test_deliveries(void **state)
{
	struct fixture *f = *state;
	struct delivery_rec d = { .state = DELIVERY_DONE };
	struct txn *t = writing(f);
	int removed;

	for (int i = 0; i < 10; i++) {
		d.us = 100 + i / 2;
		assert_int_equal(store_delivery_add(t, &d, &f->e), 0);
		assert_int_equal(d.seq, i % 2);
	}
	d.us = 50;                                   /* a clock set back */
	assert_int_equal(store_delivery_add(t, &d, &f->e), 0);
	assert_true(d.us == 104 && d.seq == 2);
	assert_int_equal(store_deliveries_trim(t, 0, 8, 100, &removed, &f->e), 0);
	assert_int_equal(removed, 3);
	assert_int_equal(store_deliveries_trim(t, 103, 8, 100, &removed, &f->e), 0);
	assert_int_equal(removed, 3);
	assert_int_equal(store_deliveries_trim(t, 1000, 8, 2, &removed, &f->e), 0);
	assert_int_equal(removed, 2);
	committed(f, t);
}

/* A full map is named by its option, and what was there stays. */
static void test_full(void **state)
{
	struct fixture *f = *state;
	char *big = malloc(64 << 10);
	struct txn *t;
	int status = 0, n = 0;

	teams_made(f);
	memset(big, 'x', 64 << 10);
	while (status == 0 && n++ < 2000) {
		t = writing(f);
		status = store_event_add(t, TEAM, NULL, n, big, 64 << 10, NULL, &f->e);
		if (status == 0)
			status = txn_commit(t, &f->e);
		else
			txn_abort(t);
	}
	free(big);
	assert_int_equal(status, -1);
	assert_int_equal(f->e.kind, ERR_UNAVAILABLE);
	assert_non_null(strstr(f->e.text, "db_size_mb is 64"));
	assert_int_equal(problems(f, print_problem), 0);
	t = writing(f);                              /* room can be made */
	assert_int_equal(store_events_trim(t, 500, 100, &n, &f->e), 0);
	assert_int_equal(n, 100);
	committed(f, t);
}

/* A step waits for the disk once less, and only a step does: LMDB heeds that flag for all that the process writes. */
static void test_step(void **state)
{
	struct fixture *f = *state;
	unsigned flags = 0;
	struct txn *t;

	teams_made(f);
	for (int i = 0; i < 4; i++) {
		bool step = i % 2 == 0;

		assert_int_equal(step ? txn_write_step(f->st, &t, &f->e) : txn_write(f->st, &t, &f->e), 0);
		assert_int_equal(store_event_add(t, TEAM, NULL, i, "{}", 2, NULL, &f->e), 0);
		committed(f, t);
		assert_int_equal(mdb_env_get_flags(f->st->env, &flags), 0);
		assert_int_equal((flags & MDB_NOMETASYNC) != 0, step);
	}
	assert_int_equal(problems(f, print_problem), 0);
}

/* A record is visible to a thread that holds a parked read transaction once it renews it. */
static void *reader(void *p)
{
	struct fixture *f = p;
	struct team_rec r;
	struct txn *t;
	intptr_t found = 0;
	struct err e;

	for (int i = 0; i < 100; i++) {
		if (txn_read(f->st, &t, &e) < 0)
			return NULL;
		found += store_team_get(t, TEAM, &r, &e) == 1;
		txn_abort(t);
	}
	return (void *)found;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	pthread_t thread[16];

	txn_abort(reading(f));
	teams_made(f);
	for (int i = 0; i < 16; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, f), 0);
	for (int i = 0; i < 16; i++) {
		void *found;

		pthread_join(thread[i], &found);
		assert_int_equal((intptr_t)found, 100);
	}
	assert_null(f->st->slots->next);             /* each took its slot along; this thread's is left */
	assert_int_equal((intptr_t)reader(f), 100);
}

struct rewriter {
	struct store *st;
	atomic_bool over;
	int rounds;
	bool bad;
};

/* Every commit moves all rows: a copy of two halves would show it. */
static void *rewrite(void *p)
{
	enum { ROWS = 200 };
	struct rewriter *w = p;
	struct err e;

	while (!w->over && !w->bad) {
		struct sandbox_rec was, now;
		struct txn *t;
		int status = txn_write(w->st, &t, &e);

		if (status < 0)
			break;
		for (int i = 0; status == 0 && i < ROWS; i++) {
			sandbox(&was, TEAM, i, w->rounds % 2 == 0 ? SB_PAUSED : SB_RUNNING, 100 + w->rounds, 1000 + w->rounds);
			sandbox(&now, TEAM, i, w->rounds % 2 == 0 ? SB_RUNNING : SB_PAUSED, 101 + w->rounds, 1001 + w->rounds);
			status = store_sandbox_put(t, w->rounds == 0 ? NULL : &was, &now, &e);
		}
		if (status < 0)
			txn_abort(t);
		w->bad = status < 0 || txn_commit(t, &e) < 0;
		w->rounds++;
	}
	return NULL;
}

static int copy_records(const char *from, const char *to)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execlp("mdb_copy", "mdb_copy", from, to, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What docs/install.md says about backing up: LMDB's own program copies the records of one instant while they are written. */
static void test_copy(void **state)
{
	struct fixture *f = *state, copy;
	struct rewriter w = { .st = f->st };
	pthread_t thread;
	int got = 0, found = 0;

	teams_made(f);
	assert_int_equal(pthread_create(&thread, NULL, rewrite, &w), 0);
	for (int i = 0; i < 3 && got == 0 && found == 0; i++) {
		snprintf(copy.db, sizeof copy.db, "%s/%d", f->dir, i);
		assert_int_equal(mkdir(copy.db, 0700), 0);
		got = copy_records(f->db, copy.db);
		if (got == 0) {
			assert_int_equal(store_open(copy.db, 64, &copy.st, &copy.e), 0);
			found = problems(&copy, print_problem);
			store_close(copy.st);
		}
	}
	w.over = true;
	pthread_join(thread, NULL);
	if (got == 127) {
		print_message("there is no mdb_copy\n");
		skip();
	}
	assert_int_equal(got, 0);
	assert_int_equal(found, 0);
	assert_false(w.bad);
	assert_int_equal(problems(f, print_problem), 0);
}

static pthread_barrier_t all_there;

static void *hold_slot(void *p)
{
	struct txn *t;
	struct err e;

	if (txn_read(p, &t, &e) < 0)
		_exit(3);
	pthread_barrier_wait(&all_there);
	pause();
	return NULL;
}

/* A program that dies with all the reader slots: the next reader clears them. */
static void test_readers_full(void **state)
{
	struct fixture *f = *state;
	enum { MANY = 1024, NO_THREADS = 4 };
	int up[2], status;
	pid_t pid;
	char c;

	assert_int_equal(pipe(up), 0);
	pid = fork();
	if (pid == 0) {
		pthread_attr_t attr;
		pthread_t thread;

		/* an environment of its own; the inherited one is not touched */
		if (store_open(f->db, 64, &f->st, &f->e) < 0)
			_exit(2);
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 64 << 10);
		pthread_barrier_init(&all_there, NULL, MANY + 1);
		for (int i = 0; i < MANY; i++)
			if (pthread_create(&thread, &attr, hold_slot, f->st) != 0)
				_exit(NO_THREADS);
		pthread_barrier_wait(&all_there);
		if (write(up[1], "x", 1) != 1)
			_exit(5);
		pause();
	}
	close(up[1]);
	if (read(up[0], &c, 1) != 1) {
		waitpid(pid, &status, 0);
		close(up[0]);
		if (WIFEXITED(status) && WEXITSTATUS(status) == NO_THREADS) {
			print_message("fewer than %d threads may run here\n", MANY);
			skip();
		}
		fail_msg("the holder of slots failed: %#x", status);
	}
	close(up[0]);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_int_equal(problems(f, print_problem), 0);
	assert_int_equal(store_reader_check(f->st), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_open), T(test_owner), T(test_schema), T(test_open_fails), T(test_teams), T(test_templates), T(test_row_life),
		T(test_check_finds), T(test_damaged), T(test_walk), T(test_due), T(test_walk_rows), T(test_events), T(test_event_layouts), T(test_outbox), T(test_deliveries),
		T(test_full),
		T(test_step),
		T(test_threads), T(test_copy), T(test_readers_full),
	};

	umask(022);                                  /* modes are looked at */
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
