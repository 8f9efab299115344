#include "config.h"

#include "bash_shell.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hutch/io.h"

/* Descriptors of the shell that a cell hardly names itself; it does not inherit them either. */
#define CODE_FD 198
#define DONE_FD 199

#define READY_MS 10000

/* Interactive: only such a shell returns to its next command when it is interrupted. Without job control, history and prompts. */
static const char setup[] = "PS1= PS2=; set +o history +H; unset HISTFILE PS1 PS2; echo ready >&199\n";

enum { IN, OUT, ERR, DONE, PIPES };

static _Noreturn void become(int pipes[PIPES][2], int code)
{
	static char *const words[] = { (char *)"/bin/bash", (char *)"--norc", (char *)"--noprofile", (char *)"--noediting", (char *)"-i", NULL };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	setenv("PS1", "", 1);
	if (dup2(pipes[IN][0], 0) == 0 && dup2(pipes[OUT][1], 1) == 1 && dup2(pipes[ERR][1], 2) == 2 && dup2(code, CODE_FD) == CODE_FD &&
	    dup2(pipes[DONE][1], DONE_FD) == DONE_FD)
		execv(words[0], words);
	_exit(127);
}

static int open_pipes(int pipes[PIPES][2])
{
	memset(pipes, -1, PIPES * sizeof pipes[0]);
	for (int i = 0; i < PIPES; i++)
		if (pipe2(pipes[i], O_CLOEXEC) < 0)
			return -1;
	for (int i = OUT; i < PIPES; i++)
		if (fcntl(pipes[i][0], F_SETFL, O_NONBLOCK) < 0)
			return -1;
	return 0;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Wait until it takes commands, and forget what it said about having no terminal. */
static int wait_ready(struct shell *s, struct err *e)
{
	struct pollfd p = { .fd = s->done, .events = POLLIN };
	char noise[4096];

	write_all(s->commands, setup, sizeof setup - 1);
	if (poll(&p, 1, READY_MS) != 1 || read(s->done, noise, sizeof noise) < 1) {
		shell_end(s);
		return err_set(e, ERR_UNAVAILABLE, "/bin/bash did not start");
	}
	while (read(s->out, noise, sizeof noise) > 0 || read(s->err, noise, sizeof noise) > 0)
		;
	return 0;
}

int shell_start(struct shell *s, struct err *e)
{
	int pipes[PIPES][2], code = memfd_create("cell", MFD_CLOEXEC), status;

	status = open_pipes(pipes);
	s->pid = status == 0 && code >= 0 ? fork() : -1;
	if (s->pid == 0)
		become(pipes, code);
	if (s->pid > 0)
		setpgid(s->pid, s->pid);
	status = s->pid < 0 ? err_set(e, ERR_UNAVAILABLE, "bash could not be started: %s", strerror(errno)) : 0;
	for (int i = 0; i < PIPES; i++) {
		close_one(&pipes[i][i == IN ? 0 : 1]);
		if (status < 0)
			close_one(&pipes[i][i == IN ? 1 : 0]);
	}
	if (status < 0)
		close_one(&code);
	*s = (struct shell){ .pid = status < 0 ? 0 : s->pid, .commands = pipes[IN][1], .code = code, .out = pipes[OUT][0], .err = pipes[ERR][0],
			     .done = pipes[DONE][0] };
	return status == 0 ? wait_ready(s, e) : -1;
}

void shell_end(struct shell *s)
{
	if (s->pid > 0) {
		kill(-s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close_one(&s->commands);
	close_one(&s->code);
	close_one(&s->out);
	close_one(&s->err);
	close_one(&s->done);
	s->pid = 0;
}

/* No quotes: an interrupt can cut the line, and an open one would swallow all that follows. */
static void tell_done(const struct shell *s, unsigned long number, const char *status)
{
	char line[96];
	int n = snprintf(line, sizeof line, "\\builtin echo %lu %s >&%d\n", number, status, DONE_FD);

	write_all(s->commands, line, (size_t)n);
}

/* The text is put where the shell reads it at once; its commands never hold a byte of it. */
int shell_run(struct shell *s, unsigned long number, const char *code, size_t n, struct err *e)
{
	char line[224];
	int len = snprintf(line, sizeof line,
			   "IFS= read -r -d '' -u %d __hutch_cell; \\builtin echo %lu start >&%d; eval \"$__hutch_cell\" </dev/null %d<&- %d>&-\n",
			   CODE_FD, number, DONE_FD, CODE_FD, DONE_FD);

	if (ftruncate(s->code, 0) < 0 || lseek(s->code, 0, SEEK_SET) < 0 || write_all(s->code, code, n) < 0 || lseek(s->code, 0, SEEK_SET) < 0)
		return err_set(e, ERR_INTERNAL, "the cell could not be handed to bash: %s", strerror(errno));
	write_all(s->commands, line, (size_t)len);
	tell_done(s, number, "$?");
	return 0;
}

void shell_interrupt(const struct shell *s)
{
	kill(-s->pid, SIGINT);
}

/* "PID (NAME) STATE PARENT GROUP ..." of /proc/PID/stat; -1 when it is gone. */
static pid_t group_of(pid_t pid)
{
	char path[64], text[512], *at;
	int fd, group = -1;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	return at != NULL && sscanf(at + 1, " %*c %*d %d", &group) == 1 ? group : -1;
}

void shell_sweep(const struct shell *s)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;

	while (d != NULL && (entry = readdir(d)) != NULL) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && pid != s->pid && group_of(pid) == s->pid)
			kill(pid, SIGINT);
	}
	if (d != NULL)
		closedir(d);
}

void shell_ask(const struct shell *s, unsigned long number)
{
	tell_done(s, number, "130");
}
