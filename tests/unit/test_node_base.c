#include <errno.h>
#include <fcntl.h>
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

#include "base.h"
#include "copytree.h"
#include "files.h"

static char top[] = "/tmp/test_node_base.XXXXXX";
static int dir = -1;

static int setup(void **state)
{
	(void)state;
	if (mkdtemp(top) == NULL)
		return -1;
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;

	(void)state;
	status = tree_remove(tmp, top + strlen("/tmp/"));
	close(tmp);
	close(dir);
	return status;
}

static void put(const char *path, mode_t mode, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int there(const char *path)
{
	return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_copy(void **state)
{
	struct copy_budget b = { .bytes = 1000, .entries = 100, .uid = getuid(), .gid = getgid() };
	int from, to;
	struct stat st;

	(void)state;
	assert_int_equal(mkdirat(dir, "from", 0755) | mkdirat(dir, "from/open", 0755) | mkdirat(dir, "from/closed", 0700) | mkdirat(dir, "to", 0755), 0);
	put("from/plain", 0644, "text");
	put("from/secret", 0640, "text");
	put("from/suid", 04755, "text");
	put("from/open/inner", 0644, "text");
	put("from/open/hidden", 0600, "text");
	put("from/closed/inner", 0644, "text");
	assert_int_equal(symlinkat("/etc/shadow", dir, "from/link") | mkfifoat(dir, "from/fifo", 0644), 0);
	from = openat(dir, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to = openat(dir, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(copy_matching(from, to, "*", &b), 0);
	assert_true(there("to/plain") && there("to/open/inner") && there("to/link") && there("to/suid"));
	assert_false(there("to/secret") || there("to/open/hidden") || there("to/closed") || there("to/fifo"));
	assert_int_equal(fstatat(dir, "to/suid", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(fstatat(dir, "to/link", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	b.bytes = 3;
	put("from/zz", 0644, "more than three");
	assert_int_equal(copy_matching(from, to, "zz", &b), -1);
	assert_int_equal(errno, EFBIG);
	close(from);
	close(to);
}

static void test_hash(void **state)
{
	uint8_t a[SHA256_LEN], b[SHA256_LEN];
	int fd;

	(void)state;
	assert_int_equal(mkdirat(dir, "h", 0755), 0);
	fd = openat(dir, "h", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put("h/x", 0644, "1");
	assert_int_equal(tree_hash(fd, a), 0);
	assert_int_equal(tree_hash(fd, b), 0);
	assert_memory_equal(a, b, sizeof a);
	put("h/x", 0644, "2");
	assert_int_equal(tree_hash(fd, b), 0);
	assert_memory_not_equal(a, b, sizeof a);
	put("h/x", 0600, "1");
	assert_int_equal(tree_hash(fd, b), 0);
	assert_memory_not_equal(a, b, sizeof a);
	close(fd);
}

/* A made-up host: only what is listed comes over, and the result does not depend on when it was made. */
static void test_base(void **state)
{
	char name[BASE_NAME_LEN], again[BASE_NAME_LEN], host[64], path[128];
	struct err e;

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(host, sizeof host, "%s/host", top);
	assert_int_equal(mkdirat(dir, "host", 0755) | mkdirat(dir, "host/usr", 0755) | mkdirat(dir, "host/etc", 0755) | mkdirat(dir, "host/etc/ssl", 0755) |
			 mkdirat(dir, "host/etc/ssl/private", 0710) | mkdirat(dir, "host/secret", 0755), 0);
	assert_int_equal(symlinkat("usr/bin", dir, "host/bin") | symlinkat("/usr/lib", dir, "host/lib"), 0);
	put("host/etc/passwd", 0644, "admin:x:0:0::/:/bin/sh\n");
	put("host/etc/services", 0644, "http 80/tcp\n");
	put("host/etc/ssl/openssl.cnf", 0644, "x");
	put("host/etc/ssl/private/key", 0644, "x");
	put("host/etc/hutch.conf", 0644, "x");
	if (base_make(dir, host, name, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(base_make(dir, host, again, &e), 0);
	assert_string_equal(name, again);
	for (const char *const *p = (const char *const[]){ "etc/services", "etc/ssl/openssl.cnf", "etc/sudoers", "home/user", "bin", "lib", "usr",
							   "proc", "var/tmp", NULL };
	     *p != NULL; p++) {
		snprintf(path, sizeof path, "%s/%s", name, *p);
		if (!there(path))
			fail_msg("%s is missing", *p);
	}
	for (const char *const *p = (const char *const[]){ "secret", "etc/hutch.conf", "etc/ssl/private", NULL }; *p != NULL; p++) {
		snprintf(path, sizeof path, "%s/%s", name, *p);
		if (there(path))
			fail_msg("%s was copied", *p);
	}
	put("host/etc/services", 0644, "http 81/tcp\n");
	assert_int_equal(base_make(dir, host, again, &e), 0);
	assert_string_not_equal(name, again);
	/* a host whose /bin is no link into /usr cannot be shown by its /usr */
	assert_int_equal(mkdirat(dir, "host/sbin", 0755), 0);
	assert_int_equal(base_make(dir, host, again, &e), -1);
	assert_non_null(strstr(e.text, "sbin"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_base),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
