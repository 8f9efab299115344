/* Rules of a sandbox: how they are read, and that the kernel takes all of them; the latter in network namespaces of the test's own. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lane.h"
#include "netlink.h"

static void test_read(void **state)
{
	static const struct { const char *text; int status; size_t allow, deny; bool closed; } rows[] = {
		{ NULL, 0, 0, 0, false }, { "", 0, 0, 0, false }, { "{}", 0, 0, 0, false },
		{ "{\"allow\":[],\"deny\":[\"0.0.0.0/0\"]}", 0, 0, 1, true },
		{ "{\"allow\":[\"1.2.3.4\"],\"deny\":[\"0.0.0.0/0\"]}", 0, 1, 1, false },
		{ "{\"deny\":[\"0.0.0.0/1\",\"128.0.0.0/1\"]}", 0, 0, 1, true },
		{ "{\"deny\":[\"10.0.0.0/8\",\"10.1.0.0/16\",\"::/0\"]}", 0, 0, 1, false },
		{ "{\"allow\":[\"::1\"]}", -1, 0, 0, false }, { "{\"allow\":[\"a.example\"]}", -1, 0, 0, false }, { "{\"allow\":[null]}", -1, 0, 0, false },
		{ "{\"deny\":\"0.0.0.0/0\"}", -1, 0, 0, false }, { "{\"deny\":[\"1.2.3.4; flush ruleset\"]}", -1, 0, 0, false }, { "[]", -1, 0, 0, false },
	};
	struct rules *r = malloc(sizeof *r);
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(rules_read(rows[i].text, r, &e), rows[i].status);
		if (rows[i].status < 0)
			continue;
		assert_true(r->nallow == rows[i].allow && r->ndeny == rows[i].deny);
		assert_int_equal(rules_closed(r), rows[i].closed);
	}
	free(r);
}

static void test_too_many(void **state)
{
	struct rules *r = malloc(sizeof *r);
	struct buf b;
	struct err e;

	(void)state;
	for (int n = NET_RULES_MAX; n <= NET_RULES_MAX + 1; n++) {
		buf_init(&b, 1 << 20);
		buf_adds(&b, "{\"deny\":[");
		for (int i = 0; i < n; i++)
			buf_addf(&b, "%s\"9.%d.%d.1\"", i > 0 ? "," : "", i / 256, i % 256);
		buf_adds(&b, "]}");
		assert_int_equal(rules_read(buf_str(&b), r, &e), n > NET_RULES_MAX ? -1 : 0);
		buf_release(&b);
	}
	free(r);
}

/* In a child: the largest and the smallest lists, replaced again and again, and a set that begins and ends with the last addresses. */
static int kernel_takes(void)
{
	struct lane_net n = { .table = "hutch-00000000", .prefix = "hu000000", .uplink = "lo", .bits = 15, .dns = { 1, 2, 3 }, .ndns = 3, .no_router = true };
	struct rules *r = calloc(1, sizeof *r);
	struct err e;
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		return 77;
	ip4_parse("198.18.0.0/15", &n.network);
	fd = nl_socket(NETLINK_NETFILTER, &e);
	for (int turn = 0; turn < 4; turn++) {
		r->nallow = r->ndeny = turn % 2 == 0 ? NET_RULES_MAX : 1;
		for (uint32_t i = 0; i < r->nallow; i++) {
			r->allow[i] = (struct ip4_range){ i * 1000, i * 1000 + 7 };
			r->deny[i] = (struct ip4_range){ UINT32_MAX - 1000 * (NET_RULES_MAX - i - 1), UINT32_MAX - 1000 * (NET_RULES_MAX - i - 1) };
		}
		if (turn == 3)
			r->deny[0] = (struct ip4_range){ 0, UINT32_MAX };
		if (rules_guest(fd, &n, 0xc6120005, r, turn == 0, &e) < 0 || rules_host(fd, &n, &e) < 0) {
			fprintf(stderr, "%s\n", e.text);
			return errno == EPROTONOSUPPORT || errno == EOPNOTSUPP ? 77 : 1;
		}
		n.private_too = turn % 2 == 0;
	}
	if (rules_host_remove(fd, &n, &e) < 0 || rules_host_remove(fd, &n, &e) < 0)
		return 2;
	return lane_probe(&e) < 0 ? 3 : 0;
}

static void test_kernel(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(kernel_takes());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_read), cmocka_unit_test(test_too_many), cmocka_unit_test(test_kernel) };

	return cmocka_run_group_tests_name("node rules", tests, NULL, NULL);
}
