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

#include "shape.h"

static const struct shape_limits lim = { .warm_default = 2, .warm_max = 10 };

static void test_good(void **state)
{
	static const char text[] = "{\"pools\":[{\"template\":\"base\",\"image\":\"host\"},"
				   "{\"template\":\"t_2.x-Y\",\"image\":\"/srv/r\",\"cpu_count\":1,\"memory_mb\":64,"
				   "\"disk_mb\":32,\"warm\":0,\"command\":[\"a b\",\"\\\"\"],\"ready_port\":8080}]}";
	struct shape_list l, again;
	const struct shape *s;
	struct err e;
	struct buf b;

	(void)state;
	assert_int_equal(shapes_parse(text, strlen(text), &lim, &l, &e), 0);
	assert_int_equal(l.n, 2);
	s = &l.row[0];
	assert_string_equal(s->template, "base");
	assert_int_equal(s->warm, 2);
	assert_int_equal(s->cpu_count, 2);
	assert_int_equal(s->memory_mb, 1024);
	s = &l.row[1];
	assert_string_equal(s->template, "t_2.x-Y");
	assert_string_equal(s->command, "[\"a b\",\"\\\"\"]");
	/* what is written is read again */
	buf_init(&b, 1 << 20);
	shapes_write(&b, &l);
	assert_int_equal(shapes_parse(b.p, b.len, &lim, &again, &e), 0);
	assert_int_equal(again.n, 2);
	assert_true(shape_same(&again.row[1], s));
	assert_string_equal(again.row[1].command, s->command);
	buf_release(&b);
	shapes_release(&again);
	shapes_release(&l);
}

static void test_bad(void **state)
{
	static const struct { const char *text, *names; } bad[] = {
		{ "", "pools" }, { "[]", "" }, { "{}", "pools" }, { "{\"pools\":{}}", "pools" }, { "{\"pools\":[1]}", "pools[0]" },
		{ "{\"pools\":[{}]}", "template" },
		{ "{\"pools\":[{\"template\":\"\",\"image\":\"host\"}]}", "template" },
		{ "{\"pools\":[{\"template\":\"a/b\",\"image\":\"host\"}]}", "template" },
		{ "{\"pools\":[{\"template\":\"..\",\"image\":\"host\"}]}", "template" },
		{ "{\"pools\":[{\"template\":\"a\"}]}", "image" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"relative\"}]}", "image" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"cpu_count\":0}]}", "cpu_count" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"cpu_count\":1.5}]}", "cpu_count" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"memory_mb\":1}]}", "memory_mb" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"disk_mb\":99999999999}]}", "disk_mb" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"warm\":11}]}", "warm" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"warm\":6},{\"template\":\"b\",\"image\":\"host\",\"warm\":6}]}", "warm" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\"},{\"template\":\"a\",\"image\":\"host\"}]}", "twice" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"command\":[1]}]}", "command" },
		{ "{\"pools\":[{\"template\":\"a\",\"image\":\"host\",\"x\":1}]}", "unknown member x" },
	};
	struct shape_list l;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(shapes_parse(bad[i].text, strlen(bad[i].text), &lim, &l, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
		if (strstr(e.text, bad[i].names) == NULL)
			fail_msg("%s: %s", bad[i].text, e.text);
		assert_null(l.row);
	}
}

static void test_same(void **state)
{
	struct shape a = { .template = "a", .image = "host", .cpu_count = 1, .memory_mb = 64, .disk_mb = 64, .warm = 1 }, b = a;

	(void)state;
	b.warm = 5;
	assert_true(shape_same(&a, &b));
	b.memory_mb = 128;
	assert_false(shape_same(&a, &b));
	b = a;
	snprintf(b.image, sizeof b.image, "/x");
	assert_false(shape_same(&a, &b));
	b = a;
	b.command = (char *)"[\"sleep\",\"1\"]";
	assert_false(shape_same(&a, &b));
	assert_false(shape_same(&b, &a));
	assert_true(shape_same(&b, &b));
	b = a;
	b.ready_port = 80;
	assert_false(shape_same(&a, &b));
}

static void test_images(void **state)
{
	char dir[] = "/tmp/test_node_shape.XXXXXX", state_dir[64], inside[80], file[64], root[64], beside[80];
	const char *own[] = { state_dir, NULL };
	struct err e;

	(void)state;
	if (geteuid() != 0)
		skip();              /* only root's directories are allowed */
	assert_non_null(mkdtemp(dir));
	snprintf(state_dir, sizeof state_dir, "%s/state", dir);
	snprintf(inside, sizeof inside, "%s/disk", state_dir);
	snprintf(beside, sizeof beside, "%s2", state_dir);
	snprintf(file, sizeof file, "%s/file", dir);
	snprintf(root, sizeof root, "%s/root", dir);
	assert_int_equal(mkdir(state_dir, 0755) | mkdir(inside, 0755) | mkdir(root, 0755) | mkdir(beside, 0755) | symlink("/", file), 0);
	assert_int_equal(image_allowed(root, own, &e), 0);
	assert_int_equal(image_allowed(beside, own, &e), 0);     /* shares a prefix of letters only */
	assert_int_equal(image_allowed("/", own, &e), -1);
	assert_int_equal(image_allowed(file, own, &e), -1);      /* a link to / */
	assert_int_equal(image_allowed(dir, own, &e), -1);       /* holds the state directory */
	assert_int_equal(image_allowed(state_dir, own, &e), -1);
	assert_int_equal(image_allowed(inside, own, &e), -1);
	assert_int_equal(image_allowed("/nonexistent", own, &e), -1);
	assert_int_equal(chmod(root, 0777), 0);
	assert_int_equal(image_allowed(root, own, &e), -1);
	assert_int_equal(rmdir(inside) | rmdir(state_dir) | rmdir(root) | rmdir(beside) | unlink(file) | rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
