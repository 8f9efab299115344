#include "config.h"

#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int start(const char *name, const char *const *argv, pid_t *pid)
{
	char *const envp[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"MKE2FS_CONFIG=/dev/null",
			       (char *)"E2FSCK_CONFIG=/dev/null", NULL };
	static const char *const where[] = { "/usr/sbin", "/sbin" };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int status = ENOENT;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, 0, 1);
	posix_spawn_file_actions_adddup2(&files, 0, 2);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (size_t i = 0; status != 0 && i < sizeof where / sizeof where[0]; i++) {
		char path[64];

		snprintf(path, sizeof path, "%s/%s", where[i], name);
		status = posix_spawn(pid, path, &files, &attr, (char *const *)(uintptr_t)argv, envp);
	}
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return status;
}

int tool_run(const char *name, const char *const *argv, struct err *e)
{
	int code = 0, status;
	pid_t pid = -1;

	status = start(name, argv, &pid);
	if (status != 0)
		return err_set(e, ERR_INTERNAL, "%s (Debian: e2fsprogs): %s", name, strerror(status));
	while (waitpid(pid, &code, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}
