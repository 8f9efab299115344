#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/edge.h"
#include "place.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_place(void **state)
{
	static const struct { const char *host, *id_header, *port_header, *id; int port; } rows[] = {
		/* the host form */
		{ "49983-iabc.example.com", NULL, NULL, "iabc", 49983 },
		{ "49983-iabc.example.com:8080", NULL, NULL, "iabc", 49983 },
		{ "49983-IABC.Example.COM", NULL, NULL, "iabc", 49983 },
		{ "49983-iabc.example.com.", NULL, NULL, "iabc", 49983 },
		{ "3000-iabc-client-x.example.com", NULL, NULL, "iabc", 3000 },
		{ "1-0.localhost:9", NULL, NULL, "0", 1 },
		{ "65535-iabc.localhost", NULL, NULL, "iabc", 65535 },
		{ "3000-iabc.example.com", "iother", "1", "iabc", 3000 },          /* the host wins */
		/* malformed host form */
		{ "0-iabc.example.com", NULL, NULL, NULL, 0 },
		{ "65536-iabc.example.com", "iabc", "1", NULL, 0 },
		{ "049983-iabc.example.com", NULL, NULL, NULL, 0 },
		{ "49983-.example.com", NULL, NULL, NULL, 0 },
		{ "49983--x.example.com", NULL, NULL, NULL, 0 },
		{ "49983-i_bc.example.com", NULL, NULL, NULL, 0 },
		{ "1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com", NULL, NULL, NULL, 0 },
		/* any other host: the headers */
		{ "localhost:8080", "iabc", "49983", "iabc", 49983 },
		{ "127.0.0.1", "iabc", "1", "iabc", 1 },
		{ "[::1]:80", "iabc", "1", "iabc", 1 },
		{ "sandbox.example.com", "iabc", "1", "iabc", 1 },
		{ "example.com", "iabc", "1", "iabc", 1 },
		{ "api-1.example.com", "iabc", "1", "iabc", 1 },
		{ "49983-iabc.other.com", "iabd", "1", "iabd", 1 },
		{ "49983-iabc.sub.example.com", "iabd", "1", "iabd", 1 },
		{ "49983-iabc.xexample.com", "iabd", "1", "iabd", 1 },
		{ "49983-iabc", "iabd", "1", "iabd", 1 },
		{ "49983-iabc:80", "iabd", "1", "iabd", 1 },
		{ "", "iabc-client", "1", "iabc", 1 },
		{ NULL, "iabc", "1", "iabc", 1 },
		{ "49983-iabc.other.com", NULL, NULL, NULL, 0 },
		{ "49983-iabc.sub.example.com", NULL, NULL, NULL, 0 },
		{ "localhost", NULL, "1", NULL, 0 },
		{ "localhost", "iabc", NULL, NULL, 0 },
		{ "localhost", "", "", NULL, 0 },
		{ "localhost", "Iabc", "1", NULL, 0 },
		{ "localhost", "i/bc", "1", NULL, 0 },
		{ "localhost", "../x", "1", NULL, 0 },
		{ "localhost", "-iabc", "1", NULL, 0 },
		{ "localhost", "iabc", "0", NULL, 0 },
		{ "localhost", "iabc", "70000", NULL, 0 },
		{ "localhost", "iabc", "+1", NULL, 0 },
		{ "localhost", "iabc", "1x", NULL, 0 },
		{ "localhost", "iabc", " 1", NULL, 0 },
		{ NULL, NULL, NULL, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = { .host = rows[i].host, .sandbox_header = rows[i].id_header, .port_header = rows[i].port_header };
		struct edge_answer a = { 0 };
		int rc = edge_place("example.com:8080", &r, &a);

		if (rows[i].id == NULL) {
			if (rc != -1 || a.why == NULL)
				fail_msg("row %zu was taken as %d-%s", i, a.port, a.sandbox_id);
		} else if (rc != 0 || strcmp(a.sandbox_id, rows[i].id) != 0 || a.port != rows[i].port) {
			fail_msg("row %zu: %d, %d-%s (%s)", i, rc, a.port, a.sandbox_id, a.why != NULL ? a.why : "");
		}
	}
}

static void test_path_form(void **state)
{
	static const struct { const char *host, *id_header, *target, *id; int port; const char *prefix, *rest; } rows[] = {
		{ "localhost", NULL, "/_sandbox/iabc/3000/", "iabc", 3000, "/_sandbox/iabc/3000", "/" },
		{ NULL, NULL, "/_sandbox/iabc/3000/a%2Fb?q=/_sandbox/x/1/", "iabc", 3000, "/_sandbox/iabc/3000", "/a%2Fb?q=/_sandbox/x/1/" },
		{ "localhost", NULL, "http://localhost/_sandbox/iabc/1//x", "iabc", 1, "/_sandbox/iabc/1", "//x" },
		{ "localhost", "iother", "/_sandbox/iabc/65535/_sandbox/iabc/65535/", "iabc", 65535, "/_sandbox/iabc/65535", "/_sandbox/iabc/65535/" },
		/* the host wins, and another path is none of that form */
		{ "1-ihost.localhost", NULL, "/_sandbox/iabc/3000/", "ihost", 1, "", "/_sandbox/iabc/3000/" },
		{ "localhost", "iother", "/_sandbo/iabc/3000/", "iother", 1, "", "/_sandbo/iabc/3000/" },
		{ "localhost", "iother", "/%5fsandbox/iabc/3000/", "iother", 1, "", "/%5fsandbox/iabc/3000/" },
		{ "localhost", "iother", "//_sandbox/iabc/3000/", "iother", 1, "", "//_sandbox/iabc/3000/" },
		{ "localhost", "iother", "/x?/_sandbox/iabc/3000/", "iother", 1, "", "/x?/_sandbox/iabc/3000/" },
		/* malformed: refused, whatever the headers say */
		{ "localhost", "iother", "/_sandbox/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc/3000", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc/3000?x/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc?/3000/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/Iabc/3000/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox//3000/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc/0/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc/65536/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/iabc/0000000000001/", NULL, 0, NULL, NULL },
		{ "localhost", "iother", "/_sandbox/../3000/", NULL, 0, NULL, NULL },
		{ "localhost", NULL, "/_sandbox/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/1/", NULL, 0, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = { .host = rows[i].host, .sandbox_header = rows[i].id_header, .port_header = "1", .raw_target = rows[i].target };
		struct edge_answer a = { 0 };
		int rc = edge_place("example.com", &r, &a);

		if (rows[i].id == NULL) {
			if (rc != -1 || a.why == NULL)
				fail_msg("%s was taken as %d-%s", rows[i].target, a.port, a.sandbox_id);
		} else if (rc != 0 || strcmp(a.sandbox_id, rows[i].id) != 0 || a.port != rows[i].port || strcmp(a.prefix, rows[i].prefix) != 0 ||
			   strcmp(a.target, rows[i].rest) != 0) {
			fail_msg("%s: %d, %d-%s, %s and %s", rows[i].target, rc, a.port, a.sandbox_id, a.prefix, a.target);
		}
	}
}

static void test_reserved(void **state)
{
	static const char *const yes[] = { "/init", "/init?x", "/init/", "//init", "/./init", "/a/../init", "/../init", "/%69nit", "/%2Finit",
		"/a%2f..%2Finit", "/init/.", "/init/x/..", "/fsfreeze", "/fsthaw", "/upgrade", "/freeze", "/unfreeze", "/collapse",
		"http://h/init", "https://h/init?q", "/init#f", "init" };
	static const char *const no[] = { "/", "", "*", "/health", "/initx", "/Init", "/init/x", "/init;x", "/%2569nit", "/init%", "/init%2",
		"/init%00", "/files?path=/init", "/x/init", "http://init", "http://init/", "/init/..", "/..", "/.", "/%zz" };
	char path[16], *deep;

	(void)state;
	for (size_t i = 0; i < COUNT(yes); i++)
		if (!place_reserved(yes[i], path) || yes[i][0] == '\0')
			fail_msg("%s is not reserved", yes[i]);
	for (size_t i = 0; i < COUNT(no); i++)
		if (place_reserved(no[i], path))
			fail_msg("%s is reserved as %s", no[i], path);
	/* longer than any fixed buffer */
	deep = calloc(1, 30000);
	for (int i = 0; i < 3000; i++)
		strcpy(deep + 9 * i, "/abcde/..");
	strcat(deep, "/init");
	assert_true(place_reserved(deep, path));
	assert_string_equal(path, "/init");
	strcat(deep, "x");
	assert_false(place_reserved(deep, path));
	free(deep);
}

/* ---- with records ---- */

struct fixture {
	char dir[32];
	char machine_dir[80];
	struct config conf;
	struct domain d;
	struct pool pool;
};

static struct {
	int asked, port, woken;
	enum err_kind answer;
} node;

static int fake_open_port(struct pool *p, const char *machine, int port, struct err *e)
{
	(void)p;
	assert_true(strcmp(machine, "sb_running") == 0 || strcmp(machine, "sb_paused") == 0);
	node.asked++;
	node.port = port;
	return node.answer == ERR_NONE ? 0 : err_set(e, node.answer, "made to fail");
}

static int fake_wake(struct pool *p, const char *machine, struct err *e)
{
	(void)p;
	assert_string_equal(machine, "sb_paused");
	node.woken++;
	return node.answer == ERR_NONE ? 0 : err_set(e, node.answer, "made to fail");
}

static int fake_hibernate(struct pool *p, const char *machine, bool memory, struct err *e)
{
	(void)p;
	(void)machine;
	(void)memory;
	(void)e;
	return 0;
}

static const struct pool_ops fake_ops = { .open_port = fake_open_port, .wake = fake_wake, .hibernate = fake_hibernate };

static void put_row_in(struct store *st, const char *id, uint8_t state, const char *machine, int64_t end_us, uint8_t kind)
{
	struct sandbox_rec r = { .pool_kind = kind, .state = state, .created_us = 1, .started_us = 1, .end_us = end_us, .due_us = 2 };
	struct txn *t;
	struct err e;

	strcpy(r.id, id);
	strcpy(r.team, "11111111-1111-4111-8111-111111111111");
	strcpy(r.template_id, "tttttttttttttttttttt");
	strcpy(r.machine, machine);
	assert_int_equal(txn_write(st, &t, &e), 0);
	if (store_sandbox_put(t, NULL, &r, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(txn_commit(t, &e), 0);
}

static void put_row(struct store *st, const char *id, uint8_t state, const char *machine, int64_t end_us)
{
	put_row_in(st, id, state, machine, end_us, POOL_LOCAL);
}

static _Atomic int64_t real_time;

static int start(void **state)
{
	static struct fixture f = { .dir = "/tmp/hutch-edge-XXXXXX", .pool = { .ops = &fake_ops } };
	char path[128];
	struct err e;

	if (mkdtemp(f.dir) == NULL)
		return -1;
	snprintf(path, sizeof path, "%s/db", f.dir);
	if (store_open(path, 16, &f.d.store, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		return -1;
	}
	f.conf.run_dir = f.dir;
	f.d.clock = &real_time;
	f.conf.domain = (char *)(uintptr_t)"example.com:8080";
	f.conf.profile = (char *)(uintptr_t)"full";
	f.d.conf = &f.conf;
	if (pool_open_rows(false, &f.d.rows, &e) < 0 || pool_open_rows(true, &f.d.fake, &e) < 0)
		return -1;
	put_row_in(f.d.store, "inone0000000000000000", SB_RUNNING, "row_inone", INT64_MAX, POOL_NONE);
	put_row_in(f.d.store, "ifake0000000000000000", SB_RUNNING, "row_ifake", INT64_MAX, POOL_FAKE);
	put_row_in(f.d.store, "ilight000000000000000", SB_RUNNING, "sb_running", INT64_MAX, POOL_LIGHT);
	f.d.pool = &f.pool;
	put_row(f.d.store, "irunning0000000000000", SB_RUNNING, "sb_running", INT64_MAX);
	put_row(f.d.store, "iover0000000000000000", SB_RUNNING, "sb_over", 1);
	put_row(f.d.store, "istarting000000000000", SB_STARTING, "", INT64_MAX);
	put_row(f.d.store, "ikilling0000000000000", SB_KILLING, "sb_killing", INT64_MAX);
	put_row(f.d.store, "ipaused00000000000000", SB_PAUSED, "sb_paused", INT64_MAX);
	snprintf(path, sizeof path, "%s/sb", f.dir);
	mkdir(path, 0700);
	snprintf(f.machine_dir, sizeof f.machine_dir, "%s/sb/sb_running", f.dir);
	mkdir(f.machine_dir, 0700);
	*state = &f;
	return 0;
}

static int stop(void **state)
{
	struct fixture *f = *state;
	static const char *const leftovers[] = { "db/data.mdb", "db/lock.mdb", "db", "sb/sb_running/3000", "sb/sb_running", "sb", "" };
	char path[128];

	store_close(f->d.store);
	pool_close(f->d.rows);
	pool_close(f->d.fake);
	for (size_t i = 0; i < COUNT(leftovers); i++) {
		snprintf(path, sizeof path, "%s/%s", f->dir, leftovers[i]);
		remove(path);
	}
	return access(f->dir, F_OK) == 0 ? -1 : 0;
}

static struct edge_request to(const char *id, const char *port, const char *target)
{
	return (struct edge_request){ .host = "localhost", .sandbox_header = id, .port_header = port, .raw_target = target };
}

static void test_resolve(void **state)
{
	static const struct { const char *id, *port, *target; enum edge_verdict verdict; int status; } rows[] = {
		{ "irunning0000000000000", "49983", "/health", EDGE_GO, 0 },
		{ "irunning0000000000000", "49983", "/init", EDGE_RESERVED, 404 },
		{ "inever000000000000000", "49983", "/init", EDGE_RESERVED, 404 },
		{ "inever000000000000000", "49983", "/", EDGE_NOT_FOUND, 502 },
		{ "iover0000000000000000", "49983", "/", EDGE_NOT_FOUND, 502 },        /* its lease has ended, the reaper is late */
		{ "istarting000000000000", "49983", "/", EDGE_NOT_FOUND, 502 },
		{ "ikilling0000000000000", "49983", "/", EDGE_NOT_FOUND, 502 },
		{ "ipaused00000000000000", "49983", "/", EDGE_NOT_FOUND, 502 },
		{ "a", "49983", "/", EDGE_NOT_FOUND, 502 },
		{ "irunning00000000000000longer", "49983", "/", EDGE_NOT_FOUND, 502 },
		{ "irunning0000000000000", NULL, "/", EDGE_BAD_HOST, 400 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = to(rows[i].id, rows[i].port, rows[i].target);
		struct edge_answer a, b;

		edge_resolve(&f->d, &r, &a);
		if (a.verdict != rows[i].verdict || a.status != rows[i].status)
			fail_msg("row %zu: verdict %d, status %d", i, a.verdict, a.status);
		assert_true(edge_look_up(&f->d, &r, &b));
		assert_int_equal(b.verdict, a.verdict);
		assert_true((a.upstream[0] != '\0') == (a.verdict == EDGE_GO));
	}
	{
		struct edge_request r = to("irunning0000000000000", "49983", "/");
		struct edge_answer a;
		char want[108];

		edge_resolve(&f->d, &r, &a);
		snprintf(want, sizeof want, "%s/sb/sb_running/49983", f->dir);
		assert_string_equal(a.upstream, want);
		edge_resolve(NULL, &r, &a);
		assert_int_equal(a.verdict, EDGE_UNAVAILABLE);
		assert_int_equal(a.status, 502);
	}
	assert_int_equal(node.asked, 0);
}

static void test_ports(void **state)
{
	static const struct { enum err_kind answer; enum edge_verdict verdict; } rows[] = {
		{ ERR_NONE, EDGE_GO }, { ERR_NOT_FOUND, EDGE_NOT_FOUND }, { ERR_UNAVAILABLE, EDGE_UNAVAILABLE },
		{ ERR_TIMEOUT, EDGE_UNAVAILABLE }, { ERR_INTERNAL, EDGE_UNAVAILABLE },
	};
	struct fixture *f = *state;
	struct edge_request r = to("irunning0000000000000", "3000", "/init");      /* reserved on the agent's port only */
	struct edge_answer a;
	char path[108];
	FILE *s;

	for (size_t i = 0; i < COUNT(rows); i++) {
		node.asked = 0;
		node.answer = rows[i].answer;
		assert_false(edge_look_up(&f->d, &r, &a));
		assert_int_equal(node.asked, 0);                /* it may not wait */
		edge_resolve(&f->d, &r, &a);
		assert_int_equal(a.verdict, rows[i].verdict);
		assert_int_equal(node.asked, 1);
		assert_int_equal(node.port, 3000);
	}
	snprintf(path, sizeof path, "%s/3000", f->machine_dir);
	s = fopen(path, "w");
	assert_non_null(s);
	fclose(s);
	node.asked = 0;
	assert_true(edge_look_up(&f->d, &r, &a));
	assert_int_equal(a.verdict, EDGE_GO);
	assert_string_equal(a.upstream, path);
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_GO);
	assert_int_equal(node.asked, 0);
	r = to("ikilling0000000000000", "3000", "/");           /* nothing is made for what is going away */
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_NOT_FOUND);
	assert_int_equal(node.asked, 0);
}

/* Sandboxes of other pools; nobody is asked for a port. */
static void test_pools(void **state)
{
	struct fixture *f = *state;
	struct edge_request r = to("inone0000000000000000", "3000", "/");
	struct edge_answer a;
	char want[108];

	node.asked = 0;
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_UNAVAILABLE);
	assert_int_equal(a.status, 502);
	r = to("ifake0000000000000000", "3000", "/");
	snprintf(want, sizeof want, "%s/fake.sock", f->dir);
	assert_true(edge_look_up(&f->d, &r, &a));
	assert_int_equal(a.verdict, EDGE_GO);
	assert_string_equal(a.upstream, want);
	r = to("ilight000000000000000", "49983", "/files?path=x");
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_GO);
	r = to("ilight000000000000000", "49983", "/process.Process/List");
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_GAP);
	r = to("ilight000000000000000", "3000", "/");
	assert_true(edge_look_up(&f->d, &r, &a));
	assert_int_equal(a.verdict, EDGE_GAP);
	assert_int_equal(node.asked, 0);
}

/* What a twin lets through, whatever the pool. */
static void test_twin(void **state)
{
	static const struct { const char *port, *target; enum edge_verdict verdict; } rows[] = {
		{ "49983", "/process.Process/Start", EDGE_GO }, { "49983", "/files", EDGE_GO }, { "49983", "/files?path=%2Fa", EDGE_GO },
		{ "49983", "/filesystem.Filesystem/Stat", EDGE_GO }, { "49983", "/filesystem.Filesystem/ListDir", EDGE_GO },
		{ "49983", "/filesystem.Filesystem/MakeDir", EDGE_GO }, { "49983", "/filesystem.Filesystem/Remove", EDGE_GO },
		{ "49983", "/health", EDGE_GO }, { "49983", "http://x/files", EDGE_GO },
		{ "49983", "/process.Process/List", EDGE_GAP }, { "49983", "/process.Process/Connect", EDGE_GAP },
		{ "49983", "/process.Process/Update", EDGE_GAP }, { "49983", "/process.Process/StreamInput", EDGE_GAP },
		{ "49983", "/process.Process/SendInput", EDGE_GAP }, { "49983", "/process.Process/SendSignal", EDGE_GAP },
		{ "49983", "/process.Process/CloseStdin", EDGE_GAP }, { "49983", "/filesystem.Filesystem/Move", EDGE_GAP },
		{ "49983", "/filesystem.Filesystem/WatchDir", EDGE_GAP }, { "49983", "/filesystem.Filesystem/CreateWatcher", EDGE_GAP },
		{ "49983", "/filesystem.Filesystem/GetWatcherEvents", EDGE_GAP }, { "49983", "/filesystem.Filesystem/RemoveWatcher", EDGE_GAP },
		{ "49983", "/envs", EDGE_GAP }, { "49983", "/metrics", EDGE_GAP }, { "49983", "/files/compose", EDGE_GAP },
		{ "49983", "/process.Process/./Start", EDGE_GAP }, { "49983", "/process.Process/St%61rt", EDGE_GAP },
		{ "49983", "/init", EDGE_RESERVED }, { "49999", "/contexts", EDGE_GAP }, { "3000", "/", EDGE_GAP },
	};
	struct fixture *f = *state;

	f->conf.profile = (char *)(uintptr_t)"twin";
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = to("irunning0000000000000", rows[i].port, rows[i].target);
		struct edge_answer a;

		edge_resolve(&f->d, &r, &a);
		if (a.verdict != rows[i].verdict || a.status != (a.verdict == EDGE_GO ? 0 : 404))
			fail_msg("%s: verdict %d, status %d", rows[i].target, a.verdict, a.status);
	}
	f->conf.profile = (char *)(uintptr_t)"full";
}

/* ---- bodies ---- */

static void body_is(const struct edge_request *r, enum edge_verdict verdict, const char *want)
{
	struct edge_answer a = { .port = 3000, .path = "/init", .sandbox_id = "iabc", .why = "missing header" };
	const char *type;
	struct buf b;

	buf_init(&b, 4096);
	edge_refuse(&a, verdict);
	type = edge_body(r, &a, &b);
	assert_false(buf_failed(&b));
	assert_string_equal(type, "application/json; charset=utf-8");
	assert_string_equal(buf_str(&b), want);
	buf_release(&b);
}

static void test_json(void **state)
{
	struct edge_request r = { .user_agent = "e2b-js-sdk/2.51.0" };

	(void)state;
	body_is(&r, EDGE_NOT_FOUND, "{\"sandboxId\":\"iabc\",\"message\":\"The sandbox was not found\",\"code\":502}");
	body_is(&r, EDGE_PORT_CLOSED,
		"{\"sandboxId\":\"iabc\",\"message\":\"The sandbox is running but port is not open\",\"port\":3000,\"code\":502}");
	body_is(&r, EDGE_TRAFFIC_MISSING, "{\"sandboxId\":\"iabc\",\"message\":\"Sandbox is secured with traffic access token. Token header "
		"'e2b-traffic-access-token' is missing\",\"code\":403}");
	body_is(&r, EDGE_TRAFFIC_WRONG, "{\"sandboxId\":\"iabc\",\"message\":\"Sandbox is secured with traffic access token. Provided token in "
		"header 'e2b-traffic-access-token' is invalid\",\"code\":403}");
	body_is(&r, EDGE_BAD_HOST, "{\"message\":\"missing header\",\"code\":400}");
	body_is(&r, EDGE_RESERVED, "{\"message\":\"This endpoint is reserved for the E2B control plane and is not reachable through "
		"the sandbox URL\",\"path\":\"/init\",\"code\":404}");
	r.user_agent = "Mozilla/5.0";
	body_is(&r, EDGE_RESERVED, "{\"message\":\"This endpoint is reserved for the E2B control plane and is not reachable through "
		"the sandbox URL\",\"path\":\"/init\",\"code\":404}");
}

/* Connect calls get an error that their clients read; the declared gap is the same bytes for all. */
static void test_connect(void **state)
{
	static const struct { enum edge_verdict verdict; const char *target, *type, *want; } rows[] = {
		{ EDGE_NOT_FOUND, "/process.Process/Start", "application/connect+json",
		  "{\"code\":\"unavailable\",\"message\":\"The sandbox was not found\"}" },
		{ EDGE_UNAVAILABLE, "/x", "application/connect+proto",
		  "{\"code\":\"unavailable\",\"message\":\"The sandbox cannot be reached at the moment\"}" },
		{ EDGE_FULL, "/process.Process/Start", "application/connect+json",
		  "{\"code\":\"unavailable\",\"message\":\"Too many connections to sandboxes at once, try again\"}" },
		{ EDGE_UNAVAILABLE, "/filesystem.Filesystem/Stat", "application/json; charset=utf-8",
		  "{\"code\":\"unavailable\",\"message\":\"The sandbox cannot be reached at the moment\"}" },
		{ EDGE_GAP, "/process.Process/List", "application/json",
		  "{\"code\":\"unimplemented\",\"message\":\"the method is not implemented by this twin\"}" },
		{ EDGE_GAP, "/", NULL, "{\"code\":\"unimplemented\",\"message\":\"the method is not implemented by this twin\"}" },
	};
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = { .raw_target = rows[i].target, .content_type = rows[i].type, .user_agent = "Mozilla/5.0" };
		struct edge_answer a = { .sandbox_id = "iabc", .target = rows[i].target };

		buf_reset(&b);
		edge_refuse(&a, rows[i].verdict);
		assert_string_equal(edge_body(&r, &a, &b), "application/json");
		assert_string_equal(buf_str(&b), rows[i].want);
	}
	assert_false(place_connect("/api", "application/json"));
	assert_false(place_connect("/process.Process/List", "text/plain"));
	assert_false(place_connect(NULL, "application/json"));
	buf_release(&b);
}

static void test_html(void **state)
{
	static const char mozilla[] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36";
	static const struct { const char *agent, *accept, *mode, *with; bool html; } rows[] = {
		{ mozilla, NULL, NULL, NULL, true },
		{ mozilla, "text/html,*/*", "navigate", NULL, true },
		{ "Opera/9.80", NULL, NULL, NULL, true },
		{ mozilla, "application/json", NULL, NULL, false },
		{ mozilla, "application/json, text/html", NULL, NULL, true },
		{ mozilla, "text/html", "cors", NULL, false },
		{ mozilla, "text/html", "no-cors", NULL, false },
		{ mozilla, "text/html", "same-origin", NULL, false },
		{ mozilla, "text/html", "websocket", NULL, false },
		{ mozilla, NULL, NULL, "XMLHttpRequest", false },
		{ mozilla, NULL, "navigate", "XMLHttpRequest", true },
		{ NULL, "text/html", "navigate", NULL, false },
		{ "e2b-python-sdk/2.45.1", NULL, NULL, NULL, false },
		{ "node", "*/*", NULL, NULL, false },
		{ "curl/7.88.1", "text/html", NULL, NULL, false },
	};
	static const struct { enum edge_verdict verdict; const char *text; } texts[] = {
		{ EDGE_NOT_FOUND, "Sandbox Not Found" }, { EDGE_NOT_FOUND, "iabc" }, { EDGE_PORT_CLOSED, "no service running on port" },
		{ EDGE_TRAFFIC_MISSING, "Missing Traffic Access Token" }, { EDGE_TRAFFIC_WRONG, "Invalid Traffic Access Token" },
		{ EDGE_PORT_CLOSED, "iabc" }, { EDGE_PORT_CLOSED, "3000" }, { EDGE_UNAVAILABLE, "iabc" }, { EDGE_BAD_HOST, "Bad Request" },
	};
	struct edge_answer a = { .port = 3000, .sandbox_id = "iabc" };
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = { .user_agent = rows[i].agent, .accept = rows[i].accept, .sec_fetch_mode = rows[i].mode,
			.requested_with = rows[i].with };

		buf_reset(&b);
		edge_refuse(&a, EDGE_NOT_FOUND);
		if ((strcmp(edge_body(&r, &a, &b), "text/html; charset=utf-8") == 0) != rows[i].html)
			fail_msg("row %zu is %s", i, rows[i].html ? "not HTML" : "HTML");
	}
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct edge_request r = { .user_agent = mozilla };
		const char *p;

		buf_reset(&b);
		edge_refuse(&a, texts[i].verdict);
		edge_body(&r, &a, &b);
		p = buf_str(&b);
		assert_int_equal(strncmp(p, "<html", 5), 0);
		assert_string_equal(p + b.len - 7, "</html>");
		assert_null(strpbrk(p, "\r\n"));
		if (strstr(p, texts[i].text) == NULL)
			fail_msg("%s is missing in %s", texts[i].text, p);
	}
	buf_release(&b);
}

static void put_paused(struct store *st, const char *id, bool auto_resume, bool memory, bool secure)
{
	struct sandbox_rec was, now;
	struct txn *t;
	struct err e;

	put_row(st, id, SB_PAUSED, "sb_paused", 1);
	assert_int_equal(txn_write(st, &t, &e), 0);
	assert_int_equal(store_sandbox_get(t, id, &was, &e), 1);
	now = was;
	now.due_us = 0;
	now.auto_resume = auto_resume;
	now.memory = memory;
	now.secure = secure;
	now.resume_s = 300;
	assert_int_equal(store_sandbox_put(t, &was, &now, &e), 0);
	assert_int_equal(txn_commit(t, &e), 0);
	sandbox_rec_release(&was);
}

static void put_team(struct store *st, uint32_t max_sandboxes)
{
	struct team_rec team = { .id = "11111111-1111-4111-8111-111111111111", .name = "t", .slug = "t", .max_sandboxes = max_sandboxes,
				 .max_hours = 24 };
	struct txn *t;
	struct err e;

	assert_int_equal(txn_write(st, &t, &e), 0);
	assert_int_equal(store_team_put(t, &team, &e), 0);
	assert_int_equal(txn_commit(t, &e), 0);
}

/* Paused sandboxes: which requests resume them, and what becomes of the others. */
static void test_resume(void **state)
{
	static const struct { const char *id, *port; bool token; enum edge_verdict verdict; int status, woken; } rows[] = {
		{ "ip000000000000000noes", "49983", false, EDGE_NOT_FOUND, 502, 0 },   /* auto-resume is off */
		{ "ip000000000000000disk", "49983", true, EDGE_NOT_FOUND, 502, 0 },    /* no memory was kept */
		{ "ip0000000000000secure", "49983", false, EDGE_DENIED, 403, 0 },
		{ "ip0000000000000secure", "49983", true, EDGE_GO, 0, 1 },
		{ "ip0000000000000secure", "49983", false, EDGE_GO, 0, 0 },            /* runs: the agent asks */
		{ "ip00000000000000open1", "49983", false, EDGE_GO, 0, 1 },
		{ "ip0000000000000secur2", "3000", false, EDGE_GO, 0, 1 },
	};
	struct fixture *f = *state;
	struct edge_answer a;
	struct edge_request r;
	char token[TOKEN_LEN];

	node.answer = ERR_NONE;
	put_team(f->d.store, 100);
	put_paused(f->d.store, "ip000000000000000noes", false, true, false);
	put_paused(f->d.store, "ip000000000000000disk", true, false, false);
	put_paused(f->d.store, "ip0000000000000secure", true, true, true);
	put_paused(f->d.store, "ip0000000000000secur2", true, true, true);
	put_paused(f->d.store, "ip00000000000000open1", true, true, false);
	put_paused(f->d.store, "ip00000000000000open2", true, true, false);
	for (size_t i = 0; i < COUNT(rows); i++) {
		r = to(rows[i].id, rows[i].port, "/health");
		sandbox_token(&f->d, rows[i].id, token);
		r.access_token = rows[i].token ? token : i % 2 == 0 ? NULL : "wrong";
		node.woken = 0;
		assert_true(edge_look_up(&f->d, &r, &a) == (rows[i].woken == 0));   /* an event loop does not wait for a wake */
		assert_int_equal(node.woken, 0);
		edge_resolve(&f->d, &r, &a);
		if (a.verdict != rows[i].verdict || a.status != rows[i].status || node.woken != rows[i].woken)
			fail_msg("row %zu: verdict %d, status %d, woken %d", i, a.verdict, a.status, node.woken);
	}
	r = to("ip00000000000000open2", "49983", "/");
	put_team(f->d.store, 1);
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.status, 429);
	put_team(f->d.store, 100);
	node.answer = ERR_UNAVAILABLE;
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_UNAVAILABLE);
	assert_int_equal(a.status, 502);
	node.answer = ERR_NOT_FOUND;
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_NOT_FOUND);
	node.answer = ERR_NONE;
}

static void put_network(struct store *st, const char *id, bool closed, const char *mask)
{
	struct sandbox_rec was, now;
	struct txn *t;
	struct err e;

	assert_int_equal(txn_write(st, &t, &e), 0);
	assert_int_equal(store_sandbox_get(t, id, &was, &e), 1);
	now = was;
	now.closed_traffic = closed;
	now.mask_host = (char *)(uintptr_t)mask;
	assert_int_equal(store_sandbox_put(t, &was, &now, &e), 0);
	assert_int_equal(txn_commit(t, &e), 0);
	sandbox_rec_release(&was);
}

/* network.allowPublicTraffic = false: every port but the agent's asks for the token, before anything is woken. */
static void test_traffic(void **state)
{
	static const struct { const char *id, *port; int token; enum edge_verdict verdict; int status, woken; } rows[] = {
		{ "it00000000000000000up", "3000", 0, EDGE_TRAFFIC_MISSING, 403, 0 }, { "it00000000000000000up", "3000", -1, EDGE_TRAFFIC_WRONG, 403, 0 },
		{ "it00000000000000000up", "49999", 0, EDGE_TRAFFIC_MISSING, 403, 0 }, { "it00000000000000000up", "49999", 1, EDGE_GO, 0, 0 },
		{ "it00000000000000000up", "3000", 1, EDGE_GO, 0, 0 }, { "it00000000000000000up", "49983", 0, EDGE_GO, 0, 0 },
		{ "it000000000000paused1", "3000", 0, EDGE_TRAFFIC_MISSING, 403, 0 }, { "it000000000000paused1", "3000", -1, EDGE_TRAFFIC_WRONG, 403, 0 },
		{ "it000000000000paused1", "3000", 1, EDGE_GO, 0, 1 }, { "it000000000000pausedn", "3000", 0, EDGE_NOT_FOUND, 502, 0 },
	};
	struct fixture *f = *state;

	node.answer = ERR_NONE;
	put_team(f->d.store, 100);
	put_row(f->d.store, "it00000000000000000up", SB_RUNNING, "sb_running", INT64_MAX);
	put_paused(f->d.store, "it000000000000paused1", true, true, true);
	put_paused(f->d.store, "it000000000000pausedn", false, true, true);
	for (size_t i = 0; i < COUNT(rows); i++)
		put_network(f->d.store, rows[i].id, true, NULL);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = to(rows[i].id, rows[i].port, "/");
		char token[TOKEN_LEN];
		struct edge_answer a;

		if (rows[i].token > 0)
			sandbox_traffic_token(&f->d, rows[i].id, token);
		else
			sandbox_token(&f->d, rows[i].id, token);    /* the agent's token is no traffic token */
		r.traffic_token = rows[i].token != 0 ? token : i % 2 == 0 ? NULL : "";
		node.woken = 0;
		edge_resolve(&f->d, &r, &a);
		if (a.verdict != rows[i].verdict || a.status != rows[i].status || node.woken != rows[i].woken)
			fail_msg("row %zu: verdict %d, status %d, woken %d", i, a.verdict, a.status, node.woken);
	}
}

/* A browser's question before a request: never refused, never let in where the request would have to show a token, and nobody is woken for it. */
static void test_preflight(void **state)
{
	static const struct { const char *id, *port, *target; enum edge_verdict verdict; } rows[] = {
		{ "irunning0000000000000", "49983", "/process.Process/Start", EDGE_GO }, { "it00000000000000000up", "49983", "/health", EDGE_GO },
		{ "irunning0000000000000", "49983", "/init", EDGE_PREFLIGHT }, { "inever000000000000000", "49983", "/init", EDGE_PREFLIGHT },
		{ "inever000000000000000", "49983", "/", EDGE_PREFLIGHT }, { "inever000000000000000", "3000", "/", EDGE_PREFLIGHT },
		{ "ikilling0000000000000", "49983", "/", EDGE_PREFLIGHT }, { "iover0000000000000000", "3000", "/", EDGE_PREFLIGHT },
		{ "inone0000000000000000", "3000", "/", EDGE_PREFLIGHT }, { "ilight000000000000000", "3000", "/", EDGE_PREFLIGHT },
		{ "irunning0000000000000", NULL, "/", EDGE_PREFLIGHT }, { "irunning0000000000000", "0", "/", EDGE_PREFLIGHT },
		{ "it00000000000000000up", "3000", "/", EDGE_PREFLIGHT }, { "it00000000000000000up", "49999", "/contexts", EDGE_PREFLIGHT },
		{ "ib000000000000000noes", "49983", "/", EDGE_PREFLIGHT }, { "ib0000000000000secure", "49983", "/", EDGE_PREFLIGHT },
		{ "ib0000000000000secure", "3000", "/", EDGE_PREFLIGHT }, { "ib00000000000000open1", "49983", "/", EDGE_PREFLIGHT },
		{ "ib00000000000000open1", "3000", "/", EDGE_PREFLIGHT }, { "ib000000000000private", "3000", "/", EDGE_PREFLIGHT },
	};
	struct fixture *f = *state;
	struct edge_answer a, b;
	struct edge_request r;

	put_team(f->d.store, 100);
	put_paused(f->d.store, "ib000000000000000noes", false, true, true);
	put_paused(f->d.store, "ib0000000000000secure", true, true, true);
	put_paused(f->d.store, "ib00000000000000open1", true, true, false);
	put_paused(f->d.store, "ib000000000000private", true, true, true);
	put_network(f->d.store, "ib000000000000private", true, NULL);
	node.asked = node.woken = 0;
	for (size_t i = 0; i < COUNT(rows); i++) {
		r = to(rows[i].id, rows[i].port, rows[i].target);
		r.method = "OPTIONS";
		r.origin = "https://app.example";
		r.asked_method = "POST";
		assert_true(edge_look_up(&f->d, &r, &a));
		edge_resolve(&f->d, &r, &b);
		if (a.verdict != rows[i].verdict || b.verdict != rows[i].verdict || b.status != (rows[i].verdict == EDGE_GO ? 0 : 204))
			fail_msg("row %zu: verdicts %d and %d, status %d", i, a.verdict, b.verdict, b.status);
		assert_true((b.upstream[0] != '\0') == (rows[i].verdict == EDGE_GO));
	}
	assert_int_equal(node.asked + node.woken, 0);
	r = to("irunning0000000000000", "49983", "/");
	r.method = "OPTIONS";
	r.origin = "https://app.example";
	r.asked_method = "GET";
	edge_resolve(NULL, &r, &a);
	assert_int_equal(a.verdict, EDGE_PREFLIGHT);
	edge_resolve(&f->d, &r, &a);
	edge_refuse(&a, EDGE_NOT_FOUND);                        /* it ended before it was reached */
	assert_int_equal(a.verdict, EDGE_PREFLIGHT);
	assert_string_equal(a.upstream, "");
	r = to("it00000000000000000up", "3000", "/");           /* no preflight: one part of it is missing */
	for (int i = 0; i < 3; i++) {
		r.method = i == 0 ? "options" : "OPTIONS";
		r.origin = i == 1 ? NULL : "https://app.example";
		r.asked_method = i == 2 ? NULL : "POST";
		edge_resolve(&f->d, &r, &a);
		assert_int_equal(a.verdict, EDGE_TRAFFIC_MISSING);
	}
}

/* A port that the node has to be asked for is the guest's to answer at, so a preflight has it opened, as any request does. */
static void test_preflight_port(void **state)
{
	struct fixture *f = *state;
	struct edge_request r = to("irunning0000000000000", "3999", "/");
	struct edge_answer a;

	r.method = "OPTIONS";
	r.origin = "https://app.example";
	r.asked_method = "POST";
	node.asked = 0;
	node.answer = ERR_NONE;
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_GO);
	assert_int_equal(node.asked, 1);
	node.answer = ERR_UNAVAILABLE;
	edge_resolve(&f->d, &r, &a);
	assert_int_equal(a.verdict, EDGE_PREFLIGHT);
	node.answer = ERR_NONE;
}

#define PREFLIGHT "Access-Control-Allow-Origin: *\r\nVary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n" \
	"Access-Control-Allow-Methods: HEAD, GET, POST, PUT, PATCH, DELETE\r\nAccess-Control-Max-Age: 7200\r\n"

static void test_fields(void **state)
{
	static char most[8193], more[8194];
	const struct { bool preflight; const char *origin, *asked; enum edge_verdict verdict; const char *want; } rows[] = {
		{ false, NULL, NULL, EDGE_NOT_FOUND, "" },
		{ false, "https://a", "x", EDGE_NOT_FOUND, "Access-Control-Allow-Origin: *\r\nVary: Origin\r\n" },
		{ false, NULL, NULL, EDGE_LIMIT, "Retry-After: 1\r\n" },
		{ false, "https://a", NULL, EDGE_LIMIT, "Access-Control-Allow-Origin: *\r\nVary: Origin\r\nRetry-After: 1\r\n"
		  "Access-Control-Expose-Headers: Retry-After\r\n" },
		{ true, "https://a", NULL, EDGE_NOT_FOUND, PREFLIGHT },
		{ true, "https://a", NULL, EDGE_LIMIT, PREFLIGHT },
		{ true, "https://a", "x-access-token,content-type", EDGE_DENIED, PREFLIGHT "Access-Control-Allow-Headers: x-access-token,content-type\r\n" },
		{ true, "https://a", "x\r\nSet-Cookie: y", EDGE_NOT_FOUND, PREFLIGHT },
		{ true, "https://a", more, EDGE_NOT_FOUND, PREFLIGHT },
	};
	struct edge_request r = { .origin = "https://a", .asked_headers = most };
	struct edge_answer a = { .preflight = true };
	struct buf b;

	(void)state;
	memset(most, 'x', sizeof most - 1);
	memset(more, 'x', sizeof more - 1);
	buf_init(&b, 12288);
	edge_refuse(&a, EDGE_FULL);
	edge_fields(&r, &a, &b);
	assert_non_null(strstr(buf_str(&b), most));
	for (size_t i = 0; i < COUNT(rows); i++) {
		r = (struct edge_request){ .origin = rows[i].origin, .asked_headers = rows[i].asked, .user_agent = "Mozilla/5.0" };
		a = (struct edge_answer){ .preflight = rows[i].preflight };
		edge_refuse(&a, rows[i].verdict);
		buf_reset(&b);
		assert_true((edge_body(&r, &a, &b) == NULL) == rows[i].preflight);
		assert_true((b.len == 0) == rows[i].preflight);
		buf_reset(&b);
		edge_fields(&r, &a, &b);
		assert_string_equal(buf_str(&b), rows[i].want);
	}
	buf_release(&b);
}

static void test_mask(void **state)
{
	static const struct { const char *mask, *port, *want; } rows[] = {
		{ "localhost:${PORT}", "3000", "localhost:3000" }, { "app.example", "3000", "app.example" }, { "app.example:80", "49999", "app.example:80" },
		{ "app.example", "49983", "" }, { NULL, "3000", "" },
	};
	struct fixture *f = *state;

	put_row(f->d.store, "im0000000000000000000", SB_RUNNING, "sb_running", INT64_MAX);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct edge_request r = to("im0000000000000000000", rows[i].port, "/");
		struct edge_answer a;

		put_network(f->d.store, "im0000000000000000000", false, rows[i].mask);
		edge_resolve(&f->d, &r, &a);
		assert_int_equal(a.verdict, EDGE_GO);
		assert_string_equal(a.host, rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_path_form),
		cmocka_unit_test(test_reserved),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_twin),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_traffic),
		cmocka_unit_test(test_preflight),
		cmocka_unit_test(test_preflight_port),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_mask),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_html),
	};

	return cmocka_run_group_tests_name("edge", tests, start, stop);
}
