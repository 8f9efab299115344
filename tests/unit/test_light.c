/* The light profile on the real program: one program with a script of the folder, files of the folder, the declared gap for all else. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "envd_client.h"
#include "hutch/json.h"
#include "scratch.h"

#define GAP "{\"code\":\"unimplemented\",\"message\":\"the method is not implemented by this twin\"}"
#define JSON_TYPE "Content-Type: application/json\r\n"

static struct envd envd;
static char folder[128];

static void put_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", envd.dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void link_to(const char *target, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s/%s", envd.dir, name);
	assert_int_equal(symlink(target, path), 0);
}

/* The shell plays the part of node: it is everywhere. */
static int start(void **state)
{
	const struct passwd *pw = getpwuid(geteuid());
	char line[512], path[256];

	(void)state;
	envd_start(&envd, true);
	snprintf(folder, sizeof folder, "%s/guest", envd.dir);
	snprintf(line, sizeof line, "{\"op\":\"init\",\"sandboxId\":\"i\",\"profile\":\"light\",\"folder\":\"%s\",\"program\":\"sh\","
		 "\"defaultUser\":\"%s\",\"defaultWorkdir\":\"%s\"}", folder, pw->pw_name, folder);
	assert_string_equal(envd_ctl(&envd, line, -1), "{\"ok\":true}");
	put_file("guest/a.js", "echo \"ran $1\"\n");
	put_file("guest/b.mjs", "echo b\n");
	put_file("guest/c.cjs", "echo c\n");
	put_file("guest/script.sh", "echo no\n");
	put_file("out.js", "echo no\n");
	link_to("a.js", "guest/in.js");
	link_to("../out.js", "guest/away.js");
	link_to("script.sh", "guest/hidden.js");
	link_to("..", "guest/up");
	snprintf(path, sizeof path, "%s/dir.js", folder);
	assert_int_equal(mkdir(path, 0755), 0);
	return 0;
}

static int stop(void **state)
{
	static const char *const names[] = { "guest/dir.js", "guest/up", "guest/hidden.js", "guest/away.js", "guest/in.js", "out.js",
		"guest/script.sh", "guest/c.cjs", "guest/b.mjs", "guest/a.js", "guest/new", "guest/made", "guest" };
	char path[256];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", envd.dir, names[i]);
		remove(path);
	}
	envd_stop(&envd);
	return 0;
}

static void expect(const char *method, const char *target, const char *fields, const char *body, int status, const char *want)
{
	struct answer a;

	envd_call(&envd, method, target, fields, body, &a);
	if (a.status != status || (want != NULL && strcmp(buf_str(&a.body), want) != 0))
		fail_msg("%s %s: %d %s\n%s", method, target, a.status, a.head, buf_str(&a.body));
	if (want != NULL && strcmp(want, GAP) == 0)
		assert_true(answer_has(&a, "Content-Type: application/json"));
	answer_release(&a);
}

/* A Start that is refused: the gap in plain JSON, whatever the call's own form is. */
static void expect_gap(const char *process, const char *more)
{
	char json[1024], framed[1100];
	struct answer a;
	size_t n;

	n = (size_t)snprintf(json, sizeof json, "{\"process\":%s%s}", process, more);
	memset(framed, 0, 5);
	framed[3] = (char)(n >> 8);
	framed[4] = (char)n;
	memcpy(framed + 5, json, n);
	envd_call_n(&envd, "POST", "/process.Process/Start", "Content-Type: application/connect+json\r\n", framed, n + 5, &a);
	if (a.status != 404 || strcmp(buf_str(&a.body), GAP) != 0 || !answer_has(&a, "Content-Type: application/json"))
		fail_msg("%s: %d %s\n%s", process, a.status, a.head, buf_str(&a.body));
	answer_release(&a);
}

static void expect_run(const char *process, const char *want)
{
	static struct outcome out;
	char json[1024];

	snprintf(json, sizeof json, "{\"process\":%s}", process);
	run_request(&envd, "", json, &out);
	if (strcmp(buf_str(&out.out), want) != 0)
		fail_msg("%s: %s (%s)", process, buf_str(&out.out), out.end);
	outcome_release(&out);
}

static void test_admitted(void **state)
{
	char json[512];

	(void)state;
	expect_run("{\"cmd\":\"sh\",\"args\":[\"a.js\",\"x y\"]}", "ran x y\n");
	expect_run("{\"cmd\":\"sh\",\"args\":[\"./b.mjs\"]}", "b\n");
	expect_run("{\"cmd\":\"sh\",\"args\":[\"c.cjs\"],\"envs\":{\"NODE_ENV\":\"production\"}}", "c\n");
	expect_run("{\"cmd\":\"sh\",\"args\":[\"in.js\",\"-e\"]}", "ran -e\n");
	snprintf(json, sizeof json, "{\"cmd\":\"sh\",\"args\":[\"%s/dir.js/../a.js\",\"1\"]}", folder);
	expect_run(json, "ran 1\n");
	/* a PATH of the request's chooses no other program */
	snprintf(json, sizeof json, "{\"cmd\":\"sh\",\"args\":[\"a.js\",\"2\"],\"envs\":{\"PATH\":\"%s\"}}", folder);
	expect_run(json, "ran 2\n");
}

static void test_refused(void **state)
{
	static const char *const processes[] = {
		"{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"true\"]}", "{\"cmd\":\"/bin/sh\",\"args\":[\"a.js\"]}", "{\"cmd\":\"sh\"}",
		"{\"cmd\":\"sh\",\"args\":[]}", "{\"cmd\":\"sh\",\"args\":[\"\"]}", "{\"cmd\":\"sh\",\"args\":[\"-e\",\"a.js\"]}",
		"{\"cmd\":\"sh\",\"args\":[\"--\",\"a.js\"]}", "{\"cmd\":\"sh\",\"args\":[\"-\"]}", "{\"cmd\":\"sh\",\"args\":[\"script.sh\"]}",
		"{\"cmd\":\"sh\",\"args\":[\"missing.js\"]}", "{\"cmd\":\"sh\",\"args\":[\"away.js\"]}", "{\"cmd\":\"sh\",\"args\":[\"hidden.js\"]}",
		"{\"cmd\":\"sh\",\"args\":[\"up/out.js\"]}", "{\"cmd\":\"sh\",\"args\":[\"../out.js\"]}", "{\"cmd\":\"sh\",\"args\":[\"dir.js\"]}",
		"{\"cmd\":\"sh\",\"args\":[\"dir.js/../../out.js\"]}", "{\"cmd\":\"sh\",\"args\":[\"/dev/null\"]}",
		"{\"cmd\":\"sh\",\"args\":[\"a.js\"],\"envs\":{\"NODE_OPTIONS\":\"--require=/x.js\"}}",
		"{\"cmd\":\"sh\",\"args\":[\"a.js\"],\"envs\":{\"NODE_PATH\":\"/x\"}}",
		"{\"cmd\":\"sh\",\"args\":[\"a.js\"],\"envs\":{\"LD_PRELOAD\":\"/x.so\"}}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof processes / sizeof processes[0]; i++)
		expect_gap(processes[i], "");
	expect_gap("{\"cmd\":\"sh\",\"args\":[\"a.js\"]}", ",\"pty\":{\"size\":{\"cols\":80,\"rows\":24}}");
}

static void test_methods(void **state)
{
	static const char *const gaps[] = {
		"/process.Process/List", "/process.Process/Connect", "/process.Process/Update", "/process.Process/StreamInput",
		"/process.Process/SendInput", "/process.Process/SendSignal", "/process.Process/CloseStdin", "/filesystem.Filesystem/Move",
		"/filesystem.Filesystem/WatchDir", "/filesystem.Filesystem/CreateWatcher", "/filesystem.Filesystem/GetWatcherEvents",
		"/filesystem.Filesystem/RemoveWatcher", "/files/compose", "/nowhere",
	};

	(void)state;
	for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++)
		expect("POST", gaps[i], JSON_TYPE, "{}", 404, GAP);
	expect("GET", "/metrics", "", "", 404, GAP);
	expect("GET", "/envs", "", "", 404, GAP);
	expect("GET", "/health", "", "", 204, NULL);
}

/* %s in text is the folder. */
static const char *filled(const char *text)
{
	static char out[512];
	const char *at = strstr(text, "%s");

	if (at == NULL)
		return text;
	snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, folder, at + 2);
	return out;
}

static void expect_file(const char *method, const char *path, int status, const char *want)
{
	char target[600];

	snprintf(target, sizeof target, "/files?path=%s", filled(path));
	expect(method, target, method[0] == 'P' ? "Content-Type: application/octet-stream\r\n" : "", method[0] == 'P' ? "text" : "", status, want);
}

static void expect_call(const char *method, const char *path, int status)
{
	char target[80], json[600];

	snprintf(target, sizeof target, "/filesystem.Filesystem/%s", method);
	snprintf(json, sizeof json, "{\"path\":\"%s\"}", filled(path));
	expect("POST", target, JSON_TYPE, json, status, NULL);
}

/* Files of the folder are served, after any number of gaps; others are not, by whatever way. */
static void test_files(void **state)
{
	(void)state;
	expect_gap("{\"cmd\":\"sh\",\"args\":[\"-c\",\"true\"]}", "");
	expect_file("POST", "%s/new", 200, NULL);
	expect_file("GET", "%s/new", 200, "text");
	expect_call("Stat", "%s/new", 200);
	expect_call("MakeDir", "%s/made", 200);
	expect_call("ListDir", "", 200);
	expect_call("Remove", "%s/made", 200);
	expect_file("GET", "/etc/passwd", 400, NULL);
	expect_file("GET", "%s/up/out.js", 400, NULL);
	expect_file("GET", "%s/away.js", 400, NULL);
	expect_file("POST", "%s/up/new", 400, NULL);
	expect_file("POST", "%s/nothing/../../new", 400, NULL);
	expect_call("Stat", "/", 403);
	expect_call("ListDir", "%s/up", 403);
	expect_call("MakeDir", "%s2/x", 403);
	expect_call("Remove", "%s/up/out.js", 403);
}

static const char *in_dir(const char *name)
{
	static char path[2][256];
	static int which;

	which = !which;
	snprintf(path[which], sizeof path[which], "%s/%s", envd.dir, name);
	return path[which];
}

/* Links to what is not there: nothing is made where they point to. And the folder itself, replaced by a link. */
static void test_links(void **state)
{
	(void)state;
	link_to("../made-outside", "guest/dangling");
	expect_file("POST", "%s/dangling", 500, NULL);
	expect_file("POST", "%s/dangling/x", 500, NULL);
	expect_call("MakeDir", "%s/dangling", 500);
	expect_call("MakeDir", "%s/dangling/x", 500);
	assert_int_equal(access(in_dir("made-outside"), F_OK), -1);
	assert_int_equal(unlink(in_dir("guest/dangling")), 0);
	assert_int_equal(rename(folder, in_dir("away")), 0);
	link_to(".", "guest");
	expect_file("GET", "%s/out.js", 400, NULL);
	expect_file("POST", "%s/made-outside", 400, NULL);
	expect_call("Stat", "%s/out.js", 403);
	expect_call("Remove", "%s/out.js", 403);
	assert_int_equal(access(in_dir("made-outside"), F_OK), -1);
	assert_int_equal(access(in_dir("out.js"), F_OK), 0);
	assert_int_equal(unlink(folder), 0);
	assert_int_equal(rename(in_dir("away"), folder), 0);
	expect_file("GET", "%s/a.js", 200, "echo \"ran $1\"\n");
}

static atomic_bool racing;

/* guest/flip and guest/flop change places: a directory of the folder, and a link out of it. */
static void *flip(void *arg)
{
	static char one[256], other[256];

	snprintf(one, sizeof one, "%s/flip", folder);
	snprintf(other, sizeof other, "%s/flop", folder);
	while (atomic_load(&racing))
		if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) < 0)
			return arg;
	return NULL;
}

static void demand_inside(const char *method, const char *target, const char *body)
{
	struct answer a;

	envd_call(&envd, method, target, method[0] == 'G' ? "" : target[1] == 'f' && target[6] == '?' ? "Content-Type: application/octet-stream\r\n" : JSON_TYPE, body, &a);
	if (strstr(buf_str(&a.body), "secret") != NULL)
		fail_msg("%s %s: %d %s", method, target, a.status, buf_str(&a.body));
	answer_release(&a);
}

static void test_race(void **state)
{
	static const char *const calls[] = { "Stat", "ListDir", "MakeDir", "Remove" }, *const names[] = { "out", "", "made", "out" };
	char json[300], target[300];
	pthread_t thread;
	void *failed;

	assert_int_equal(mkdir(in_dir("beyond"), 0755), 0);
	put_file("beyond/out", "a secret");
	put_file("beyond/name-secret", "");
	assert_int_equal(mkdir(in_dir("guest/flip"), 0755), 0);
	link_to("../beyond", "guest/flop");
	atomic_store(&racing, true);
	assert_int_equal(pthread_create(&thread, NULL, flip, state), 0);
	for (int i = 0; i < 1500; i++) {
		snprintf(target, sizeof target, "/files?path=%s/flip/out", folder);
		demand_inside("GET", target, "");
		snprintf(target, sizeof target, "/files?path=%s/flip/%s", folder, i % 2 ? "new" : "deep/new");
		demand_inside("POST", target, "x");
		for (size_t k = 0; k < 4; k++) {
			snprintf(target, sizeof target, "/filesystem.Filesystem/%s", calls[k]);
			snprintf(json, sizeof json, "{\"path\":\"%s/flip/%s\"}", folder, names[k]);
			demand_inside("POST", target, json);
		}
		if (access(in_dir("beyond/out"), F_OK) < 0 || access(in_dir("beyond/new"), F_OK) == 0 || access(in_dir("beyond/deep"), F_OK) == 0 ||
		    access(in_dir("beyond/made"), F_OK) == 0)
			fail_msg("something was done outside, in round %d", i);
	}
	atomic_store(&racing, false);
	pthread_join(thread, &failed);
	assert_null(failed);
	scratch_remove(in_dir("guest/flip"));
	scratch_remove(in_dir("guest/flop"));
	scratch_remove(in_dir("beyond"));
}

static void test_init(void **state)
{
	(void)state;
	assert_string_equal(envd_ctl(&envd, "{\"op\":\"init\",\"profile\":\"dark\"}", -1),
			    "{\"ok\":false,\"message\":\"profile \\\"dark\\\" is unknown\"}");
	assert_non_null(strstr(envd_ctl(&envd, "{\"op\":\"init\",\"profile\":\"light\"}", -1), "\"ok\":false"));
	expect("POST", "/process.Process/List", JSON_TYPE, "{}", 404, GAP);      /* a failed init changes nothing */
	assert_string_equal(envd_ctl(&envd, "{\"op\":\"init\",\"sandboxId\":\"i\"}", -1), "{\"ok\":true}");
	expect("POST", "/process.Process/List", JSON_TYPE, "{}", 200, "{\"processes\":[]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_admitted),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_init),
	};

	return cmocka_run_group_tests_name("light", tests, start, stop);
}
