#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cgroup.h"
#include "mountinfo.h"

static void test_lines(void **state)
{
	static const struct { const char *line, *root, *point, *type, *super; } good[] = {
		{ "22 27 0:21 / /proc rw,relatime - proc proc rw", "/", "/proc", "proc", "rw" },
		{ "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n", "/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory" },
		{ "40 30 0:9 /a\\040b /mnt/x\\011y\\134 rw shared:1 master:2 - ext4 /dev/sda1 rw,discard", "/a b", "/mnt/x\ty\\", "ext4", "rw,discard" },
	};
	static const char *const bad[] = { "", "\n", "22 27 0:21 / /proc rw", "22 27 0:21 / /proc rw -", "22 27 0:21 / /proc rw - proc proc",
					   "22 27 0:21 x y rw - proc proc rw", "22" };
	static struct mount_line m;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(mountinfo_line(good[i].line, &m), 0);
		assert_string_equal(m.root, good[i].root);
		assert_string_equal(m.point, good[i].point);
		assert_string_equal(m.fstype, good[i].type);
		assert_string_equal(m.super, good[i].super);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(mountinfo_line(bad[i], &m), -1);
}

static void test_words(void **state)
{
	(void)state;
	assert_true(mountinfo_has("rw,cpu,cpuacct", "cpu"));
	assert_true(mountinfo_has("cpuacct,cpu", "cpu"));
	assert_false(mountinfo_has("rw,cpuacct", "cpu"));
	assert_false(mountinfo_has("rw,cpuset,xcpu", "cpu"));
	assert_false(mountinfo_has("", "cpu"));
}

static unsigned v2_all(const char *point)
{
	assert_string_equal(point, "/sys/fs/cgroup");
	return (1U << CG_CONTROLLERS) - 1;
}

static unsigned v2_none(const char *point)
{
	(void)point;
	return 0;
}

static unsigned v2_pids(const char *point)
{
	(void)point;
	return 1U << CG_PIDS | 1U << CG_FREEZER;
}

static const char v1[] =
	"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
	"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	"36 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	"37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
	"40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
	"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	"39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n";
static const char v2[] = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

static void scan(struct cgroups *g, const char *text, unsigned (*has)(const char *))
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	assert_non_null(f);
	cgroups_scan(g, f, has);
	fclose(f);
}

static void test_controllers(void **state)
{
	static struct cgroups g;

	(void)state;
	scan(&g, v1, v2_none);
	assert_int_equal(g.has, (1U << CG_CONTROLLERS) - 1);
	assert_int_equal(g.n, 4);
	assert_string_equal(cgroups_kind(&g), "v1");
	assert_string_equal(g.h[0].point, "/sys/fs/cgroup/cpu,cpuacct");
	assert_int_equal(g.h[0].has, 1U << CG_CPU);
	scan(&g, v2, v2_all);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.has, (1U << CG_CONTROLLERS) - 1);
	assert_string_equal(cgroups_kind(&g), "v2");
	/* a controller is where it is: the first hierarchy that serves it, once */
	scan(&g, v1, v2_pids);
	assert_int_equal(g.n, 4);
	assert_string_equal(cgroups_kind(&g), "hybrid");
	assert_int_equal(g.h[3].has, 1U << CG_PIDS);
	assert_true(g.h[3].v2);
	scan(&g, "", v2_all);
	assert_int_equal(g.n, 0);
	assert_string_equal(cgroups_kind(&g), "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_controllers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
