/* Accounts, paths, and the unary methods of filesystem.Filesystem through the agent's HTTP side. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "files.h"
#include "files_client.h"
#include "strset.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct served *srv;

static int start(void **state)
{
	(void)state;
	alarm(900);             /* nothing here may hang; a busy machine may be slow */
	srv = serve_start();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	serve_stop(srv);
	return 0;
}

/* A request for a path below the served directory, with more members. */
static int ask(const char *method, const char *name, const char *more, json_object **out)
{
	char json[3 * PATH_MAX];

	snprintf(json, sizeof json, "{\"path\":\"%s\"%s}", in_dir(srv, name), more);
	return rpc(srv, method, json, out);
}

static void test_paths(void **state)
{
	static const struct { const char *in, *clean, *base; } cases[] = {
		{ "/", "/", "/" }, { "//", "/", "/" }, { "/a", "/a", "a" }, { "/a/", "/a", "a" }, { "/a//b/./c", "/a/b/c", "c" },
		{ "/a/../b", "/b", "b" }, { "/../a", "/a", "a" }, { "/a/b/../..", "/", ".." }, { "a/../../b", "../b", "b" },
		{ "a/..", ".", ".." }, { "../..", "../..", ".." }, { "/a/...", "/a/...", "..." }, { "/..a/.b", "/..a/.b", ".b" },
		{ "./a", "a", "a" }, { "", ".", "" },
	};
	char path[64];
	size_t n;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *base = path_base(cases[i].in, &n);

		assert_int_equal(n, strlen(cases[i].base));
		assert_memory_equal(base, cases[i].base, n);
		strcpy(path, cases[i].in);
		path_clean(path);
		assert_string_equal(path, cases[i].clean);
	}
}

static void test_resolve(void **state)
{
	static const struct { const char *workdir, *in, *want; } cases[] = {
		{ "", "", "/home/u" }, { "/work", "", "/work" }, { "proj", "", "/home/u/proj" }, { "~/x", "", "/home/u/x" },
		{ "/work", "~", "/home/u" }, { "/work", "~/a/../b/", "/home/u/b" }, { "/work", "a/b", "/home/u/a/b" },
		{ "", "../x", "/home/x" }, { "", "/a/../b//c", "/a/../b//c" }, { "", "~root", NULL }, { "", "~root/x", NULL },
		{ "", "./~x", "/home/u/~x" },
	};
	struct user u = { .home = "/home/u" };
	struct agent a = { 0 };
	struct err e = { 0 };
	char out[PATH_MAX], longest[PATH_MAX + 10];

	(void)state;
	pthread_mutex_init(&a.lock, NULL);
	for (size_t i = 0; i < COUNT(cases); i++) {
		char workdir[64];

		strcpy(workdir, cases[i].workdir);
		a.default_workdir = workdir;
		assert_int_equal(path_resolve(&a, &u, cases[i].in, out, &e), cases[i].want != NULL ? 0 : -1);
		if (cases[i].want != NULL)
			assert_string_equal(out, cases[i].want);
		else
			assert_string_equal(rpc_code(&e), "invalid_argument");
	}
	memset(longest, 'x', sizeof longest);
	longest[PATH_MAX - 5] = '\0';
	assert_int_equal(path_resolve(&a, &u, longest, out, &e), -1);
}

static void test_accounts(void **state)
{
	struct passwd *pw = getpwuid(getuid());
	struct names names = { 0 };
	char name[300], why[] = "invalid username: 'no such user'";
	struct err e = { 0 };
	struct user u;

	(void)state;
	assert_int_equal(user_lookup(pw->pw_name, &u, &e), 0);
	assert_int_equal(u.uid, pw->pw_uid);
	assert_int_equal(u.gid, pw->pw_gid);
	assert_string_equal(u.home, pw->pw_dir);
	assert_string_equal(u.shell, pw->pw_shell);
	assert_true(u.ngroups >= 1);
	assert_int_equal(u.groups[0], pw->pw_gid);
	assert_int_equal(user_lookup("no such user", &u, &e), -1);
	assert_string_equal(e.text, why);
	assert_string_equal(rpc_code(&e), "unauthenticated");
	assert_int_equal(user_lookup("", &u, &e), -1);
	assert_int_equal(user_lookup("root:x", &u, &e), -1);
	names_user(&names, 0, name, sizeof name);
	assert_string_equal(name, "root");
	names_group(&names, 0, name, sizeof name);
	assert_string_equal(name, "root");
	names_user(&names, 4294967290U, name, sizeof name);
	assert_string_equal(name, "4294967290");
	names_release(&names);
}

static void test_lines(void **state)
{
	char text[] = "a:b:c\n\n:x\nlast", *rest = text, *f[3];

	(void)state;
	assert_int_equal(names_line(&rest, f, 3), 3);
	assert_string_equal(f[2], "c");
	assert_int_equal(names_line(&rest, f, 3), 1);
	assert_int_equal(names_line(&rest, f, 3), 2);
	assert_string_equal(f[1], "x");
	assert_int_equal(names_line(&rest, f, 3), 1);
	assert_int_equal(names_line(&rest, f, 3), 0);
}

static void test_strset(void **state)
{
	struct strset s;
	char name[32];

	(void)state;
	strset_init(&s, 100000);
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		assert_int_equal(strset_add(&s, name), 1);
		assert_int_equal(strset_add(&s, name), 0);
	}
	for (int i = 0; i < 5000; i += 2) {
		snprintf(name, sizeof name, "n%d", i);
		strset_drop(&s, name);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		assert_int_equal(strset_has(&s, name), i % 2);
	}
	assert_int_equal(strset_add(&s, "n0"), 1);
	strset_clear(&s);
	assert_false(strset_has(&s, "n1"));
	strset_release(&s);
	strset_init(&s, 8);
	assert_int_equal(strset_add(&s, "12345678"), -1);
	strset_release(&s);
}

/* ---- Stat ---- */

static void test_stat(void **state)
{
	struct timespec when[2] = { { .tv_nsec = UTIME_OMIT }, { 1767323045, 123456000 } };
	struct passwd *pw = getpwuid(getuid());
	json_object *o;

	(void)state;
	write_file(in_dir(srv, "f"), "12345", 5);
	chmod(in_dir(srv, "f"), 04750);
	utimensat(AT_FDCWD, in_dir(srv, "f"), when, 0);
	assert_int_equal(ask("Stat", "f", "", &o), 200);
	assert_string_equal(at(o, "entry.name"), "f");
	assert_string_equal(at(o, "entry.type"), "FILE_TYPE_FILE");
	assert_string_equal(at(o, "entry.path"), in_dir(srv, "f"));
	assert_string_equal(at(o, "entry.size"), "5");
	assert_string_equal(at(o, "entry.mode"), "488");
	assert_string_equal(at(o, "entry.permissions"), "urwxr-x---");
	assert_string_equal(at(o, "entry.owner"), pw->pw_name);
	assert_string_equal(at(o, "entry.modifiedTime"), "2026-01-02T03:04:05.123456Z");
	assert_string_equal(at(o, "entry.symlinkTarget"), "");
	assert_string_equal(at(o, "entry.metadata"), "");
	json_object_put(o);

	when[1].tv_nsec = 0;
	utimensat(AT_FDCWD, in_dir(srv, "f"), when, 0);
	assert_int_equal(ask("Stat", "f", "", &o), 200);
	assert_string_equal(at(o, "entry.modifiedTime"), "2026-01-02T03:04:05Z");
	json_object_put(o);
	assert_int_equal(mkdir(in_dir(srv, "sticky"), 0700) | chmod(in_dir(srv, "sticky"), 01777), 0);
	assert_int_equal(ask("Stat", "sticky", "", &o), 200);
	assert_string_equal(at(o, "entry.type"), "FILE_TYPE_DIRECTORY");
	assert_string_equal(at(o, "entry.permissions"), "dtrwxrwxrwx");
	json_object_put(o);
	assert_int_equal(rpc(srv, "Stat", "{\"path\":\"/dev/null\"}", &o), 200);
	assert_string_equal(at(o, "entry.type"), "");
	assert_string_equal(at(o, "entry.permissions"), "Dcrw-rw-rw-");
	json_object_put(o);
	assert_int_equal(ask("Stat", "none", "", &o), 404);
	assert_string_equal(at(o, "code"), "not_found");
	json_object_put(o);
	assert_int_equal(ask("Stat", "f/below", "", &o), 404);
	json_object_put(o);
	assert_int_equal(rpc(srv, "Stat", "{\"path\":\"~root/x\"}", &o), 400);
	assert_string_equal(at(o, "code"), "invalid_argument");
	json_object_put(o);
	assert_int_equal(rpc(srv, "Stat", "{\"path\":5}", &o), 400);
	json_object_put(o);
	assert_int_equal(rpc(srv, "Stat", "{\"path\":\"a\\u0000b\"}", &o), 400);
	json_object_put(o);
}

static void test_links(void **state)
{
	json_object *o;
	char where[PATH_MAX];

	(void)state;
	mkdir(in_dir(srv, "real"), 0700);
	write_file(in_dir(srv, "real/file"), "x", 1);
	assert_int_equal(symlink("real", in_dir(srv, "dlink")), 0);
	assert_int_equal(symlink("dlink/file", in_dir(srv, "flink")), 0);
	assert_int_equal(symlink("nowhere", in_dir(srv, "broken")), 0);
	assert_int_equal(symlink("loop", in_dir(srv, "loop")), 0);
	assert_non_null(realpath(in_dir(srv, "real/file"), where));
	assert_int_equal(ask("Stat", "flink", "", &o), 200);
	assert_string_equal(at(o, "entry.type"), "FILE_TYPE_FILE");
	assert_string_equal(at(o, "entry.permissions"), "Lrwxrwxrwx");
	assert_string_equal(at(o, "entry.mode"), "420");
	assert_string_equal(at(o, "entry.size"), "10");
	assert_string_equal(at(o, "entry.symlinkTarget"), where);
	json_object_put(o);
	assert_int_equal(ask("Stat", "dlink", "", &o), 200);
	assert_string_equal(at(o, "entry.type"), "FILE_TYPE_DIRECTORY");
	json_object_put(o);
	for (int i = 0; i < 2; i++) {
		const char *name = i == 0 ? "broken" : "loop";

		assert_int_equal(ask("Stat", name, "", &o), 200);
		assert_string_equal(at(o, "entry.type"), "");
		assert_string_equal(at(o, "entry.mode"), "0");
		assert_string_equal(at(o, "entry.symlinkTarget"), in_dir(srv, name));
		json_object_put(o);
	}
}

/* ---- MakeDir, Move, Remove ---- */

static void test_make_dir(void **state)
{
	struct stat st;
	json_object *o;

	(void)state;
	assert_int_equal(ask("MakeDir", "m/a//b/", "", &o), 200);
	assert_string_equal(at(o, "entry.name"), "b");
	assert_string_equal(at(o, "entry.type"), "FILE_TYPE_DIRECTORY");
	json_object_put(o);
	assert_int_equal(stat(in_dir(srv, "m/a/b"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(ask("MakeDir", "m/a", "", &o), 409);
	assert_string_equal(at(o, "code"), "already_exists");
	json_object_put(o);
	write_file(in_dir(srv, "m/file"), "", 0);
	assert_int_equal(ask("MakeDir", "m/file", "", &o), 400);
	assert_string_equal(at(o, "code"), "invalid_argument");
	json_object_put(o);
	assert_int_equal(ask("MakeDir", "m/file/x", "", &o), 500);
	assert_string_equal(at(o, "code"), "internal");
	json_object_put(o);
}

static void test_move(void **state)
{
	char json[3 * PATH_MAX];
	json_object *o;

	(void)state;
	write_file(in_dir(srv, "from"), "moved", 5);
	snprintf(json, sizeof json, "{\"source\":\"%s\",\"destination\":\"%s\"}", in_dir(srv, "from"), in_dir(srv, "new/dir/to"));
	assert_int_equal(rpc(srv, "Move", json, &o), 200);
	assert_string_equal(at(o, "entry.path"), in_dir(srv, "new/dir/to"));
	assert_string_equal(at(o, "entry.size"), "5");
	json_object_put(o);
	assert_int_equal(access(in_dir(srv, "from"), F_OK), -1);
	assert_int_equal(rpc(srv, "Move", json, &o), 404);
	assert_string_equal(at(o, "code"), "not_found");
	json_object_put(o);
	snprintf(json, sizeof json, "{\"source\":\"%s\",\"destination\":\"%s\"}", in_dir(srv, "new"), in_dir(srv, "new/dir/x"));
	assert_int_equal(rpc(srv, "Move", json, &o), 500);
	assert_string_equal(at(o, "code"), "internal");
	json_object_put(o);
}

static void test_remove(void **state)
{
	char path[PATH_MAX];
	json_object *o;
	int dir, next;

	(void)state;
	assert_int_equal(ask("Remove", "not/there", "", &o), 200);
	json_object_put(o);
	/* deeper than any path the kernel takes, with links that must not be followed */
	snprintf(path, sizeof path, "%s", in_dir(srv, "deep"));
	mkdir(path, 0755);
	mkdir(in_dir(srv, "kept"), 0755);
	write_file(in_dir(srv, "kept/file"), "x", 1);
	dir = open(path, O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(mkdirat(dir, "directory", 0755), 0);
		close(openat(dir, "a", O_CREAT | O_WRONLY, 0644));
		close(openat(dir, "z", O_CREAT | O_WRONLY, 0644));
		symlinkat(in_dir(srv, "kept"), dir, "link");
		next = openat(dir, "directory", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		close(dir);
		dir = next;
	}
	close(dir);
	assert_int_equal(ask("ListDir", "deep", ",\"depth\":4000", &o), 200);
	assert_true(json_object_array_length(json_object_object_get(o, "entries")) > 1500);
	json_object_put(o);
	assert_int_equal(ask("Remove", "deep/", "", &o), 200);
	assert_int_equal(json_object_object_length(o), 0);
	json_object_put(o);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(in_dir(srv, "kept/file"), F_OK), 0);
	/* a link goes, not what it points to, even with a slash */
	assert_int_equal(symlink("kept", in_dir(srv, "klink")), 0);
	assert_int_equal(ask("Remove", "klink/", "", &o), 200);
	json_object_put(o);
	assert_int_equal(access(in_dir(srv, "kept/file"), F_OK), 0);
	assert_int_equal(access(in_dir(srv, "klink"), F_OK), -1);
	assert_int_equal(rpc(srv, "Remove", "{\"path\":\"//\"}", &o), 400);
	json_object_put(o);
}

/* ---- ListDir ---- */

static void test_list(void **state)
{
	static const char *const want[] = { "B", "a", "a/x", "a/x/deep", "a-b", "bad\xef\xbf\xbdname", "link", "z" };
	json_object *o, *entries;

	(void)state;
	mkdir(in_dir(srv, "l"), 0755);
	mkdir(in_dir(srv, "l/a"), 0755);
	mkdir(in_dir(srv, "l/a/x"), 0755);
	mkdir(in_dir(srv, "l/a/x/deep"), 0755);
	write_file(in_dir(srv, "l/a/x/deep/er"), "", 0);
	write_file(in_dir(srv, "l/B"), "", 0);
	write_file(in_dir(srv, "l/a-b"), "", 0);
	write_file(in_dir(srv, "l/bad\xffname"), "", 0);
	write_file(in_dir(srv, "l/z"), "", 0);
	assert_int_equal(symlink("a", in_dir(srv, "l/link")), 0);
	assert_int_equal(symlink("l", in_dir(srv, "llink")), 0);
	for (int i = 0; i < 2; i++) {
		const char *root = i == 0 ? "l" : "llink";
		size_t n = 0;

		assert_int_equal(ask("ListDir", i == 0 ? "l/./" : "llink/./", ",\"depth\":3", &o), 200);
		entries = json_object_object_get(o, "entries");
		assert_int_equal(json_object_array_length(entries), COUNT(want));
		for (n = 0; n < COUNT(want); n++) {
			char rel[64];

			snprintf(rel, sizeof rel, "%s/%s", root, want[n]);
			assert_string_equal(at(json_object_array_get_idx(entries, n), "path"), in_dir(srv, rel));
		}
		json_object_put(o);
	}
	assert_int_equal(ask("ListDir", "l", "", &o), 200);
	assert_int_equal(json_object_array_length(json_object_object_get(o, "entries")), 6);
	assert_string_equal(at(o, "entries.4.type"), "FILE_TYPE_DIRECTORY");
	assert_string_equal(at(o, "entries.4.permissions"), "Lrwxrwxrwx");
	json_object_put(o);
	assert_int_equal(ask("ListDir", "l/a", ",\"depth\":\"2\"", &o), 200);
	assert_int_equal(json_object_array_length(json_object_object_get(o, "entries")), 2);
	json_object_put(o);
	mkdir(in_dir(srv, "l/empty"), 0755);
	assert_int_equal(ask("ListDir", "l/empty", "", &o), 200);
	assert_int_equal(json_object_array_length(json_object_object_get(o, "entries")), 0);
	json_object_put(o);
}

static void test_list_errors(void **state)
{
	json_object *o;

	(void)state;
	assert_int_equal(ask("ListDir", "none", "", &o), 404);
	json_object_put(o);
	write_file(in_dir(srv, "plain"), "", 0);
	assert_int_equal(ask("ListDir", "plain", "", &o), 400);
	assert_string_equal(at(o, "code"), "invalid_argument");
	json_object_put(o);
	assert_int_equal(symlink("loop2", in_dir(srv, "loop2")), 0);
	assert_int_equal(ask("ListDir", "loop2", "", &o), 400);
	assert_string_equal(at(o, "code"), "failed_precondition");
	json_object_put(o);
	assert_int_equal(ask("ListDir", "plain", ",\"depth\":-1", &o), 400);
	json_object_put(o);
	assert_int_equal(rpc(srv, "ListDir", "{\"path\":\"/\"}", &o), 200);
	assert_int_equal(at(o, "entries.0.path")[0], '/');
	assert_int_not_equal(at(o, "entries.0.path")[1], '/');
	json_object_put(o);
}

/* Names that come while the walk holds more directories than descriptors, and directories that vanish on the way. */
static void test_walk(void **state)
{
	struct walk w;
	char name[16];
	int dir, next, n = 0, lost = 0;
	bool cut = false;

	(void)state;
	mkdir(in_dir(srv, "w"), 0755);
	dir = open(in_dir(srv, "w"), O_RDONLY | O_DIRECTORY);
	walk_init(&w);
	assert_int_equal(walk_enter(&w, dup(dir)), 0);
	for (int i = 0; i < 100; i++) {
		mkdirat(dir, "d", 0755);
		mkdirat(dir, "e", 0755);
		next = openat(dir, "d", O_RDONLY | O_DIRECTORY);
		close(dir);
		dir = next;
	}
	close(dir);
	walk_leave(&w);
	assert_int_equal(walk_enter(&w, open(in_dir(srv, "w"), O_RDONLY | O_DIRECTORY)), 0);
	while (w.depth > 0) {
		const char *s = walk_next(&w);

		if (s == NULL) {
			walk_leave(&w);
			continue;
		}
		n++;
		snprintf(name, sizeof name, "%s", s);
		dir = walk_fd(&w);
		if (dir < 0) {
			assert_int_equal(errno, ESTALE);
			lost++;
			continue;
		}
		assert_int_equal(faccessat(dir, name, F_OK, 0), 0);
		next = openat(dir, name, O_RDONLY | O_DIRECTORY);
		assert_int_equal(walk_enter(&w, next), 0);
		if (w.depth == 60 && !cut) {    /* the way up is cut: what is above cannot be found by ".." */
			cut = true;
			assert_int_equal(rename(in_dir(srv, "w/d/d/d"), in_dir(srv, "gone")), 0);
		}
	}
	assert_int_equal(n, 200);
	assert_int_equal(lost, 3);
	walk_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths), cmocka_unit_test(test_resolve), cmocka_unit_test(test_accounts),
		cmocka_unit_test(test_lines), cmocka_unit_test(test_strset), cmocka_unit_test(test_stat), cmocka_unit_test(test_links),
		cmocka_unit_test(test_make_dir), cmocka_unit_test(test_move), cmocka_unit_test(test_remove),
		cmocka_unit_test(test_list), cmocka_unit_test(test_list_errors), cmocka_unit_test(test_walk),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
