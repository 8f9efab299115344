/* The spawner's own root: see stage.h. */
#include "config.h"

#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sys.h"

#define STAGE "/proc"                /* any directory that every system has; covered in our own mount namespace only */

static const struct { const char *name; unsigned major_no, minor_no; } devices[] = {
	{ "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct { const char *name, *to; } links[] = {
	{ "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
	{ "ptmx", "pts/ptmx" },
};

static int failed(struct step_error *why, const char *step)
{
	why->error = errno;
	snprintf(why->step, sizeof why->step, "%s", step);
	return -1;
}

static int make_devices(struct step_error *why)
{
	for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
		char path[64];

		snprintf(path, sizeof path, STAGE "/dev/%s", devices[i].name);
		if (mknod(path, S_IFCHR | 0666, makedev(devices[i].major_no, devices[i].minor_no)) < 0 || chmod(path, 0666) < 0)
			return failed(why, "device nodes");
	}
	for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
		char path[64];

		snprintf(path, sizeof path, STAGE "/dev/%s", links[i].name);
		if (symlink(links[i].to, path) < 0)
			return failed(why, "device links");
	}
	return 0;
}

static int make_dirs(struct step_error *why)
{
	static const char *const names[] = { "proc", "low", "usr", "disk", "new", "empty", "guest", "dev", "dev/pts", "dev/shm" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char path[64];

		snprintf(path, sizeof path, STAGE "/%s", names[i]);
		if (mkdir(path, 0755) < 0)
			return failed(why, "stage directories");
	}
	return 0;
}

/* A copy, so that no path of the host is behind /proc/1/exe and no guest can hold a file of the host. */
static int copy_program(int from, const char *to_path, const char *step, struct step_error *why)
{
	int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	ssize_t n = 1;

	while (to >= 0 && n > 0)
		n = sendfile(to, from, NULL, 1 << 20);
	if (to < 0 || n < 0 || fchmod(to, 0755) < 0)
		return failed(why, step);
	close(to);
	return 0;
}

/* The agent is started from a descriptor; what stands in guest/ is seen in sandboxes of templates with a start command. */
static int copy_programs(int agent, int interpreter, struct step_error *why)
{
	if (copy_program(agent, STAGE "/hutch-envd", "copy of the agent", why) < 0)
		return -1;
	if (interpreter >= 0 && copy_program(interpreter, STAGE "/guest/hutch-interpreter", "copy of the interpreter", why) < 0)
		return -1;
	close(agent);
	if (interpreter >= 0)
		close(interpreter);
	return 0;
}

static int enter(struct step_error *why)
{
	if (chdir(STAGE) < 0 || sys_pivot_root(".", ".") < 0)
		return failed(why, "pivot_root of the spawner");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return failed(why, "leaving the host's root");
	return 0;
}

int stage_build(struct stage *s, const char *agent, const char *interpreter, struct step_error *why)
{
	int from, more;

	if (unshare(CLONE_NEWNS) < 0)
		return failed(why, "unshare of mounts");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failed(why, "private mounts");
	/* they may stand anywhere, below STAGE too: opened before that is covered */
	from = open(agent, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return failed(why, "agent_path");
	more = open(interpreter, O_RDONLY | O_CLOEXEC);
	if (mount("stage", STAGE, "tmpfs", MS_NOSUID, "mode=0755,size=64m") < 0)
		return failed(why, "stage");
	if (make_dirs(why) < 0 || make_devices(why) < 0 || copy_programs(from, more, why) < 0)
		return -1;
	if (mount("proc", STAGE "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return failed(why, "proc");
	if (enter(why) < 0)
		return -1;
	s->agent = open("/hutch-envd", O_RDONLY | O_CLOEXEC);
	return s->agent >= 0 ? 0 : failed(why, "agent");
}
