#include "config.h"

#include "kernel_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n + 1) == 0;
}

/* Ours with those that the program adds, which go before; free it alone. NULL: out of memory. */
static char **environment(const struct argv *program)
{
	size_t n = 0, have = 0;
	char **out;

	while (environ[n] != NULL)
		n++;
	out = calloc(n + program->env_n + 1, sizeof *out);
	for (size_t i = 0; out != NULL && i < n; i++) {
		size_t at = 0;

		while (at < program->env_n && !same_name(environ[i], program->env[at]))
			at++;
		if (at == program->env_n)
			out[have++] = environ[i];
	}
	for (size_t i = 0; out != NULL && i < program->env_n; i++)
		out[have++] = program->env[i];
	return out;
}

static int spawn(const struct argv *program, const char *cwd, int fd, pid_t *pid)
{
	char **env = environment(program);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, plain;
	int rc;

	sigemptyset(&none);
	sigemptyset(&plain);
	sigaddset(&plain, SIGPIPE);
	sigaddset(&plain, SIGINT);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &plain);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, 2, 1);
	posix_spawn_file_actions_adddup2(&files, fd, 3);
	posix_spawn_file_actions_addchdir_np(&files, cwd);
	rc = env != NULL ? posix_spawnp(pid, program->word[0], &files, &attr, program->word, env) : ENOMEM;
	free(env);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return rc;
}

int process_start(const struct argv *program, const char *cwd, int fd, pid_t *pid, int *pidfd, struct err *e)
{
	int rc, up = fd;

	if (fd == 3)                             /* dup2 onto itself would leave it close-on-exec */
		up = fcntl(fd, F_DUPFD_CLOEXEC, 4);
	rc = up >= 0 ? spawn(program, cwd, up, pid) : errno;
	if (up != fd && up >= 0)
		close(up);
	if (rc != 0)
		return err_set(e, rc == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, "%s: %s", program->word[0], strerror(rc));
	*pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
	if (*pidfd >= 0)
		return 0;
	err_sys(e, "pidfd_open");
	process_end(*pid, -1);
	return -1;
}

void process_end(pid_t pid, int pidfd)
{
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	kill(-pid, SIGKILL);                     /* who was born meanwhile */
	if (pidfd >= 0)
		close(pidfd);
}
