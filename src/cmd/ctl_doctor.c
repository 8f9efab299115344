/*
 * hutchctl doctor: what the kernel and this process's rights offer to the local pool. Each question is asked by doing
 * the thing in a child, not by reading version numbers.
 */
#define _GNU_SOURCE
#include "ctl.h"
#include "node/lane.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct option no_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

/* ---- questions: 0 yes; else an errno ---- */

static int ask_root(void)
{
	return geteuid() == 0 ? 0 : EPERM;
}

static int ask_namespaces(void)
{
	return unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP) == 0 ? 0 : errno;
}

static int ask_user_namespace(void)
{
	return unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

/* A system call that exists fails with anything but ENOSYS on arguments that it must refuse. */
static int ask_call(long number, long a, long b, long c, long d, long e)
{
	return syscall(number, a, b, c, d, e) >= 0 || errno != ENOSYS ? 0 : ENOSYS;
}

static int ask_clone3(void)
{
	return ask_call(SYS_clone3, 0, 0, 0, 0, 0);
}

static int ask_pidfd(void)
{
	long fd = syscall(SYS_pidfd_open, (long)getpid(), 0L);

	return fd >= 0 ? 0 : errno;
}

static int ask_idmap(void)
{
	return ask_call(SYS_mount_setattr, -1, 0, 0, 0, 0);
}

static int ask_seccomp(void)
{
	unsigned action = SECCOMP_RET_ERRNO;

	return syscall(SYS_seccomp, (long)SECCOMP_GET_ACTION_AVAIL, 0L, &action) == 0 ? 0 : errno;
}

/* An overlay on a tmpfs of its own, in a mount namespace of its own. */
static int ask_overlay(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/tmp", "tmpfs", 0, "mode=700") < 0 || mkdir("/tmp/l", 0700) < 0 || mkdir("/tmp/u", 0700) < 0 ||
	    mkdir("/tmp/w", 0700) < 0 || mkdir("/tmp/m", 0700) < 0)
		return errno;
	return mount("none", "/tmp/m", "overlay", 0, "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w") == 0 ? 0 : errno;
}

/* Is the controller mounted (version 1), or offered at the root (version 2)? */
static int ask_controller(const char *name)
{
	char line[4096], word[64], *at;
	FILE *f = fopen("/proc/self/mounts", "re");
	int found = ENOENT;

	while (f != NULL && found != 0 && fgets(line, sizeof line, f) != NULL) {
		char *type = strstr(line, " cgroup");

		snprintf(word, sizeof word, ",%s", name);
		at = type != NULL && strncmp(type, " cgroup2 ", 9) != 0 ? strstr(type, word) : NULL;
		if (at != NULL && strchr(", \n", at[strlen(word)]) != NULL)
			found = 0;
	}
	if (f != NULL)
		fclose(f);
	f = found != 0 ? fopen("/sys/fs/cgroup/cgroup.controllers", "re") : NULL;
	if (f == NULL)
		return found;
	for (char *save = NULL, *w = fgets(line, sizeof line, f) != NULL ? strtok_r(line, " \n", &save) : NULL; w != NULL;
	     w = strtok_r(NULL, " \n", &save))
		if (strcmp(w, name) == 0)
			found = 0;
	fclose(f);
	return found;
}

static int ask_memory(void) { return ask_controller("memory"); }
static int ask_cpu(void) { return ask_controller("cpu"); }
static int ask_pids(void) { return ask_controller("pids"); }

/* In version 2 every group can be frozen. */
static int ask_freezer(void)
{
	return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? 0 : ask_controller("freezer");
}

static int ask_lane(void)
{
	struct err e;

	if (unshare(CLONE_NEWNET) < 0)
		return errno;
	errno = 0;
	return lane_probe(&e) == 0 ? 0 : errno != 0 ? errno : EINVAL;
}

static const struct question {
	const char *what, *without;
	bool needed;
	int (*ask)(void);
} questions[] = {
	{ "root", "hutch-node must be started as root", true, ask_root },
	{ "namespaces", "no sandbox can be made", true, ask_namespaces },
	{ "overlay file system", "no sandbox can be made", true, ask_overlay },
	{ "clone3", "no sandbox can be made (Linux 5.3)", true, ask_clone3 },
	{ "pidfd", "no sandbox can be made (Linux 5.3)", true, ask_pidfd },
	{ "seccomp filters", "no sandbox can be made", true, ask_seccomp },
	{ "user namespaces", "root in a sandbox is root of the host, held by the other walls only", false, ask_user_namespace },
	{ "idmapped mounts", "sandboxes go without a user namespace (Linux 5.12)", false, ask_idmap },
	{ "cgroup memory", "memoryMB limits nothing", false, ask_memory },
	{ "cgroup cpu", "cpuCount limits nothing", false, ask_cpu },
	{ "cgroup pids", "a fork bomb is held by rlimits only", false, ask_pids },
	{ "nftables and virtual interfaces", "sandboxes have no way to the internet, and network rules are refused", false, ask_lane },
	{ "cgroup freezer", "sandboxes cannot be paused", false, ask_freezer },
};

/* The answer of a child, which may do to itself what it likes. */
static int ask(const struct question *q)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(q->ask());
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

int ctl_doctor(struct ctl *ctl, int argc, char **argv)
{
	int status, missing = 0;

	if (ctl_option(ctl, argc, argv, no_options, &status) == -2)
		return status;
	if (optind != argc)
		return ctl_usage(ctl);
	fflush(stdout);
	for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
		const struct question *q = &questions[i];
		int why = ask(q);

		if (why == 0)
			printf("yes      %s\n", q->what);
		else
			printf("%s  %s (%s): %s\n", q->needed ? "MISSING" : "no     ", q->what, strerror(why), q->without);
		fflush(stdout);
		missing += why != 0 && q->needed;
	}
	return missing > 0 ? 1 : 0;
}
