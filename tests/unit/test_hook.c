/*
 * The program hutch-reaper delivers to a receiver on loopback: every event, signed, at least once, whatever receivers do and
 * whenever the program is killed. Skipped when the program is not built.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "reaper_program.h"

#include "domain_int.h"
#include "hutch/h1.h"

#define SECRET "s3cr3t"
#define EACH_MAX 8192
/* The receiver is on loopback, and may need long to answer: an attempt that is given up would be one more than is counted on. */
#define PATIENT "webhook_private = true\nwebhook_timeout_s = 60\n"

/* ---- receiver: the path says how it behaves ---- */

struct got {
	char path[16], event[UUID_LEN], delivery[UUID_LEN], webhook[UUID_LEN];
};

static struct receiver {
	struct h1_server *server;
	int fd, port;
	pthread_mutex_t lock;
	struct got got[EACH_MAX];    /* requests whose signature was right */
	int n, wrong;
	atomic_int hanging, held;    /* held: hang while this is set */
	atomic_int delay_us;
} rx = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int header(const struct h1_req *r, const char *name, char *out, size_t max)
{
	const struct h1_span *s = h1_field(r->head, name);

	if (s == NULL || s->n >= max)
		return -1;
	memcpy(out, s->p, s->n);
	out[s->n] = '\0';
	return 0;
}

/* Note the request down; its number among those of its event on that path, or -1 when anything is wrong with it. */
static int note(struct h1_req *r, struct got *g)
{
	char signature[64], version[8], type[40], want[SIGNATURE_LEN];
	const char *id = "";
	json_object *o = NULL;
	struct buf body;
	struct err e;
	int times = 0;
	bool whole, good;

	buf_init(&body, 1 << 20);
	whole = h1_read_all(r, &body, &e) == 0;      /* else the program was killed while it sent this: as if it had sent nothing */
	good = whole && json_read_object(buf_str(&body), body.len, &o, &e) == 0 &&
	       json_need_str(o, "id", UUID_LEN - 1, &id, &e) == 0 && header(r, "e2b-signature", signature, sizeof signature) == 0 &&
	       header(r, "e2b-signature-version", version, sizeof version) == 0 && strcmp(version, "v1") == 0 &&
	       header(r, "e2b-delivery-id", g->delivery, UUID_LEN) == 0 && header(r, "e2b-webhook-id", g->webhook, UUID_LEN) == 0 &&
	       header(r, "content-type", type, sizeof type) == 0 && strcmp(type, "application/json") == 0;
	webhook_sign(SECRET, buf_str(&body), body.len, want);
	good = good && strcmp(want, signature) == 0;
	snprintf(g->event, sizeof g->event, "%s", id);
	snprintf(g->path, sizeof g->path, "%.*s", (int)r->head->path.n, r->head->path.p);
	pthread_mutex_lock(&rx.lock);
	for (int i = 0; i < rx.n; i++)
		times += strcmp(rx.got[i].event, g->event) == 0 && strcmp(rx.got[i].path, g->path) == 0;
	if (good && rx.n < EACH_MAX)
		rx.got[rx.n++] = *g;
	else if (whole)
		rx.wrong++;
	pthread_mutex_unlock(&rx.lock);
	json_object_put(o);
	buf_release(&body);
	return good ? times : -1;
}

static void receive(void *ctx, struct h1_req *r)
{
	static const char filler[4096];
	struct got g;
	int times = note(r, &g);

	(void)ctx;
	if (strcmp(g.path, "/hang") == 0) {
		atomic_fetch_add(&rx.hanging, 1);
		while (atomic_load(&rx.held))
			usleep(2000);
		atomic_fetch_sub(&rx.hanging, 1);
	}
	usleep((useconds_t)atomic_load(&rx.delay_us));
	if (times < 0 || strcmp(g.path, "/fail") == 0 || (strcmp(g.path, "/flaky") == 0 && times < 2)) {
		h1_reply(r, 500, "text/plain", NULL, "no\r\nno", 6);
	} else if (strcmp(g.path, "/moved") == 0) {
		h1_reply(r, 307, "text/plain", "Location: /ok\r\n", "", 0);
	} else if (strcmp(g.path, "/endless") == 0) {
		h1_begin(r, 200, "text/plain", NULL);
		while (h1_write(r, filler, sizeof filler) == 0)
			;
	} else {
		h1_reply(r, 204, NULL, NULL, NULL, 0);
	}
}

static int rx_start(void **state)
{
	struct h1_server_opts opts = { .max_connections = 512 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof a;
	struct err e;

	(void)state;
	rx.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (rx.fd < 0 || bind(rx.fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(rx.fd, 512) < 0 ||
	    getsockname(rx.fd, (struct sockaddr *)&a, &n) < 0)
		return -1;
	rx.port = ntohs(a.sin_port);
	return h1_server_start(rx.fd, &opts, receive, NULL, &rx.server, &e);
}

static int rx_stop(void **state)
{
	(void)state;
	h1_server_stop(rx.server);
	return close(rx.fd);
}

/* Requests to that path that were right, of one event or of all (NULL). */
static int received(const char *path, const char *event)
{
	int n = 0;

	pthread_mutex_lock(&rx.lock);
	for (int i = 0; i < rx.n; i++)
		n += strcmp(rx.got[i].path, path) == 0 && (event == NULL || strcmp(rx.got[i].event, event) == 0);
	pthread_mutex_unlock(&rx.lock);
	return n;
}

/* ---- program ---- */

static void options(struct world *w, const char *text)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof path, "%s/hutch.conf", w->dir);
	f = fopen(path, "a");
	fputs(text, f);
	fclose(f);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (world_set_up((void **)&f->w) < 0)
		return -1;
	double_start(&f->n, f->w->pool, f->w->conf.node_socket);
	f->w->conf.webhook_private = true;
	rx.n = rx.wrong = 0;
	atomic_store(&rx.held, 1);
	atomic_store(&rx.delay_us, 0);
	*state = f;
	return 0;
}

static void run(struct fixture *f)
{
	f->pid = reaper_run(f->w);
}

static void kill_hard(struct fixture *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	f->pid = 0;
}

/* Processor time of the program in microseconds. */
static int64_t end_program(struct fixture *f)
{
	struct rusage u = { 0 };
	int status = 0;

	kill(f->pid, SIGTERM);
	wait4(f->pid, &status, 0, &u);
	f->pid = 0;
	assert_int_equal(status, 0);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * US_PER_S + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	void *w = f->w;

	atomic_store(&rx.held, 0);
	if (f->pid > 0)
		end_program(f);
	wait_for(atomic_load(&rx.hanging) == 0);
	double_stop(&f->n);
	world_tear_down(&w);
	free(f);
	assert_int_equal(rx.wrong, 0);
	return 0;
}

/* ---- what the tests do ---- */

static void hook(struct fixture *f, const char *host, const char *path, struct webhook_rec *out)
{
	char url[80];
	struct webhook_spec s = { .name = "w", .url = url, .secret = SECRET, .events = 1U << EVENT_T_CREATED };

	snprintf(url, sizeof url, "http://%s:%d%s", host, rx.port, path);
	assert_done(f->w, webhook_create(&f->w->d, f->w->team.id, &s, out, &f->w->e));
}

/* n events, each in a transaction of its own or all in one. */
static void happen(struct fixture *f, int n, bool one_by_one)
{
	struct world *w = f->w;
	struct sandbox_rec r = { .id = "i00000000000000000000", .metadata = (char *)(uintptr_t)"{\"a\":\"\xc3\xa4\"}" };
	struct txn *t = NULL;

	memcpy(r.team, w->team.id, sizeof r.team);
	for (int i = 0; i < n; i++) {
		if (t == NULL)
			assert_done(w, txn_write(w->d.store, &t, &w->e));
		assert_done(w, event_write(t, &r, EVENT_CREATED, domain_now(&w->d), NULL, 0, &w->e));
		if (one_by_one || i == n - 1) {
			assert_done(w, txn_commit(t, &w->e));
			t = NULL;
		}
	}
}

static int count_out(void *ctx, struct txn *t, const struct outbox_rec *r, struct err *e)
{
	(void)t;
	(void)r;
	(void)e;
	++*(int *)ctx;
	return 0;
}

static int waiting(struct fixture *f, const struct webhook_rec *h)
{
	struct txn *t;
	int n = 0;

	assert_done(f->w, txn_read(f->w->d.store, &t, &f->w->e));
	assert_done(f->w, store_walk_outbox(t, h->id, count_out, &n, &f->w->e));
	txn_abort(t);
	return n;
}

struct tally {
	const char *webhook;
	int n[DELIVERY_DROPPED + 1];
	char error[200];             /* of the newest */
	char answer[200];
};

static int on_delivery(void *ctx, const struct delivery_rec *r, struct err *e)
{
	struct tally *t = ctx;

	(void)e;
	if (strcmp(r->webhook, t->webhook) != 0)
		return 0;
	if (t->n[0]++ == 0) {
		snprintf(t->error, sizeof t->error, "%s", r->error != NULL ? r->error : "");
		snprintf(t->answer, sizeof t->answer, "%s", r->answer != NULL ? r->answer : "");
	}
	t->n[r->state]++;
	return 0;
}

static struct tally tally(struct fixture *f, const struct webhook_rec *h)
{
	struct tally sum = { .webhook = h->id };
	struct txn *t;

	assert_done(f->w, txn_read(f->w->d.store, &t, &f->w->e));
	assert_done(f->w, store_walk_deliveries(t, on_delivery, &sum, &f->w->e));
	txn_abort(t);
	return sum;
}

/* Every event of the team came to that path at least once; how often they came in all. */
struct all {
	const char *path;
	int events, missing;
};

static int on_event(void *ctx, int64_t us, const char *json, size_t n, struct err *e)
{
	struct all *a = ctx;
	char id[UUID_LEN];
	struct buf b;

	(void)us;
	buf_init(&b, 1 << 20);
	if (webhook_body(json, n, &b, id, e) < 0)
		return -1;
	buf_release(&b);
	a->events++;
	a->missing += received(a->path, id) == 0;
	return 0;
}

static void all_came(struct fixture *f, const char *path, int events)
{
	struct all a = { .path = path };
	struct txn *t;

	assert_done(f->w, txn_read(f->w->d.store, &t, &f->w->e));
	assert_done(f->w, store_walk_events(t, f->w->team.id, on_event, &a, &f->w->e));
	txn_abort(t);
	assert_int_equal(a.events, events);
	assert_int_equal(a.missing, 0);
}

/* ---- tests ---- */

/* A create through the domain reaches the receiver at once. */
static void test_one(void **state)
{
	struct fixture *f = *state;
	struct webhook_rec h;
	struct sandbox_rec r;
	int64_t made;

	options(f->w, PATIENT);
	hook(f, "127.0.0.1", "/ok", &h);
	run(f);
	wait_for(f->w->pool->calls[FAKE_LIST] > 0);
	world_create(f->w, 60, &r);
	made = boot_us();
	wait_for(received("/ok", NULL) == 1);
	print_message("a new sandbox was told %lld us after its create\n", (long long)(boot_us() - made));
	assert_string_equal(rx.got[0].webhook, h.id);
	wait_for(waiting(f, &h) == 0);
	assert_int_equal(tally(f, &h).n[DELIVERY_DONE], 1);
	sandbox_rec_release(&r);
	webhook_rec_release(&h);
}

static void test_failures(void **state)
{
	struct fixture *f = *state;
	struct webhook_rec flaky, fail, moved, refused, endless;
	int port = rx.port;

	options(f->w, PATIENT "webhook_retry_s = 1\nwebhook_retries = 2\n");
	hook(f, "127.0.0.1", "/flaky", &flaky);
	hook(f, "127.0.0.1", "/fail", &fail);
	hook(f, "127.0.0.1", "/moved", &moved);
	hook(f, "localhost", "/endless", &endless);
	rx.port = 1;                                         /* where nobody listens */
	hook(f, "127.0.0.1", "/ok", &refused);
	rx.port = port;
	happen(f, 1, true);
	run(f);
	wait_for(waiting(f, &flaky) + waiting(f, &fail) + waiting(f, &moved) + waiting(f, &refused) + waiting(f, &endless) == 0);
	assert_int_equal(received("/flaky", NULL), 3);
	assert_int_equal(tally(f, &flaky).n[DELIVERY_RETRY], 2);
	assert_int_equal(tally(f, &flaky).n[DELIVERY_DONE], 1);
	assert_string_not_equal(rx.got[0].delivery, rx.got[1].delivery);
	assert_int_equal(received("/fail", NULL), 3);
	assert_int_equal(tally(f, &fail).n[DELIVERY_DEAD], 1);
	assert_string_equal(tally(f, &fail).error, "answered 500");
	assert_string_equal(tally(f, &fail).answer, "no..no");
	assert_int_equal(tally(f, &moved).n[DELIVERY_DEAD], 1);
	assert_int_equal(tally(f, &refused).n[DELIVERY_DEAD], 1);
	assert_non_null(strstr(tally(f, &refused).error, "connect"));
	assert_int_equal(received("/ok", NULL), 0);
	assert_int_equal(received("/endless", NULL), 1);
	assert_int_equal(tally(f, &endless).n[DELIVERY_DONE], 1);
	webhook_rec_release(&flaky);
	webhook_rec_release(&fail);
	webhook_rec_release(&moved);
	webhook_rec_release(&refused);
	webhook_rec_release(&endless);
}

/* An address that is private is not connected to, also when a name leads there. */
static void test_private(void **state)
{
	struct fixture *f = *state;
	struct webhook_rec number, name;

	options(f->w, "webhook_retries = 0\n");
	hook(f, "127.0.0.1", "/ok", &number);
	hook(f, "localhost", "/ok", &name);
	happen(f, 1, true);
	run(f);
	wait_for(waiting(f, &number) + waiting(f, &name) == 0);
	assert_non_null(strstr(tally(f, &number).error, "webhook_private"));
	assert_non_null(strstr(tally(f, &name).error, "webhook_private"));
	assert_int_equal(rx.n, 0);
	webhook_rec_release(&number);
	webhook_rec_release(&name);
}

/* Receivers that never answer delay nobody else. */
static void test_slow(void **state)
{
	struct fixture *f = *state;
	struct webhook_rec slow[4], good;
	int64_t began;

	options(f->w, PATIENT);
	for (int i = 0; i < 4; i++)
		hook(f, "127.0.0.1", "/hang", &slow[i]);
	hook(f, "127.0.0.1", "/ok", &good);
	run(f);
	happen(f, 100, false);
	wait_for(atomic_load(&rx.hanging) == 32);            /* all that they may have */
	began = boot_us();
	happen(f, 100, false);
	wait_for(received("/ok", NULL) == 200);
	print_message("200 events beside receivers that hang: %lld ms\n", (long long)(boot_us() - began) / 1000);
	assert_int_equal(atomic_load(&rx.hanging), 32);
	all_came(f, "/ok", 200);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waiting(f, &slow[i]), 200);
		webhook_rec_release(&slow[i]);
	}
	webhook_rec_release(&good);
}

/* What waits for a webhook that is deleted or disabled is given up, and nothing else. */
static void test_gone(void **state)
{
	struct webhook_spec off = { .enabled_set = true };
	struct fixture *f = *state;
	struct webhook_rec gone, disabled, good, now;

	options(f->w, PATIENT);
	hook(f, "127.0.0.1", "/no", &gone);
	hook(f, "127.0.0.1", "/no", &disabled);
	hook(f, "127.0.0.1", "/ok", &good);
	happen(f, 300, false);
	assert_done(f->w, webhook_delete(&f->w->d, f->w->team.id, gone.id, &f->w->e));
	assert_done(f->w, webhook_update(&f->w->d, f->w->team.id, disabled.id, &off, &now, &f->w->e));
	run(f);
	wait_for(waiting(f, &gone) + waiting(f, &disabled) + waiting(f, &good) == 0);
	assert_int_equal(received("/no", NULL), 0);
	assert_int_equal(tally(f, &gone).n[DELIVERY_DROPPED], 300);
	assert_int_equal(tally(f, &disabled).n[DELIVERY_DROPPED], 300);
	all_came(f, "/ok", 300);
	webhook_rec_release(&gone);
	webhook_rec_release(&disabled);
	webhook_rec_release(&good);
	webhook_rec_release(&now);
}

/* Killed again and again while it delivers: none is missing. */
static void test_kill_9(void **state)
{
	struct fixture *f = *state;
	struct webhook_rec ok, flaky;
	int kills = 0, events = 100;

	options(f->w, PATIENT "webhook_retry_s = 1\n");
	hook(f, "127.0.0.1", "/ok", &ok);
	hook(f, "127.0.0.1", "/flaky", &flaky);
	atomic_store(&rx.delay_us, 3000);
	happen(f, events, false);
	for (; kills < 12; kills++) {
		int before = received("/ok", NULL), wanted = 20 + 3 * kills;

		/* as many new ones as are waited for: all that there were may have been delivered by now */
		run(f);
		happen(f, wanted, false);
		happen(f, 10, true);
		events += wanted + 10;
		wait_for(received("/ok", NULL) >= before + wanted);
		kill_hard(f);
	}
	run(f);
	wait_for(waiting(f, &ok) + waiting(f, &flaky) == 0);
	all_came(f, "/ok", events);
	all_came(f, "/flaky", events);
	print_message("%d events, the program killed %d times: %d requests\n", events, kills, received("/ok", NULL));
	webhook_rec_release(&ok);
	webhook_rec_release(&flaky);
}

/* The world's clock may stand still, years away: deliveries and further attempts go by the real one. */
static void test_frozen(void **state)
{
	struct fixture *f = *state;
	struct clock_spec past = { .mode = "frozen", .at_us = US_PER_S }, future = { .mode = "frozen", .at_us = 4000000000 * US_PER_S };
	struct webhook_rec h;

	options(f->w, PATIENT "webhook_retry_s = 1\n");
	hook(f, "127.0.0.1", "/flaky", &h);
	run(f);
	assert_done(f->w, clock_set(&f->w->d, &past, &f->w->e));
	happen(f, 1, true);
	wait_for(received("/flaky", NULL) == 3);
	assert_done(f->w, clock_set(&f->w->d, &future, &f->w->e));
	happen(f, 1, true);
	wait_for(received("/flaky", NULL) == 6);
	webhook_rec_release(&h);
}

static void test_speed(void **state)
{
	struct fixture *f = *state;
	struct webhook_rec h;
	int64_t began, us, cpu;

	options(f->w, PATIENT);
	hook(f, "127.0.0.1", "/ok", &h);
	happen(f, 4000, false);
	began = boot_us();
	run(f);
	wait_for(waiting(f, &h) == 0);
	us = boot_us() - began;
	cpu = end_program(f);
	print_message("4000 deliveries: %lld/s, the program used %lld ms of a processor (%lld/s)\n", 4000 * US_PER_S / (long long)us,
		      (long long)cpu / 1000, 4000 * US_PER_S / (long long)cpu);
	assert_int_equal(received("/ok", NULL), 4000);
	webhook_rec_release(&h);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_one), T(test_failures), T(test_private), T(test_slow), T(test_gone), T(test_kill_9), T(test_frozen), T(test_speed),
	};

	if (access(reaper_program(), X_OK) != 0) {
		fprintf(stderr, "%s is not there\n", reaper_program());
		return 77;
	}
	return cmocka_run_group_tests_name("hook", tests, rx_start, rx_stop);
}
