/*
 * Starting a process. The child is made with CLONE_VM | CLONE_VFORK: no page tables are copied and the parent thread sleeps
 * until the exec, so the child may report a failure through shared memory. Rules for the child that follow from it: system
 * calls of its own only (glibc's setuid would signal the parent's threads), no locks, no allocation.
 */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hutch/sanitize.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

#define CHILD_STACK 24576
#if SANITIZED
/* The child leaves its frames by exec, which would leave their marks in the parent's shadow memory. */
#define CHILD_FUNCTION __attribute__((no_sanitize("address")))
#else
#define CHILD_FUNCTION
#endif

struct birth {
	const struct spawn *s;
	int std[3];                     /* the child's descriptors 0, 1, 2 */
	const char *failed_step;        /* set by the child: could not be set up */
	int failed_errno;
};

/* ---- the child ---- */

CHILD_FUNCTION static int step_failed(struct birth *b, const char *step)
{
	b->failed_errno = errno;
	b->failed_step = step;
	return -1;
}

/* The kernel's killer should choose a command before the agent. */
CHILD_FUNCTION static void offer_to_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "100", 3) == 3)
		close(fd);
}

CHILD_FUNCTION static int become(const struct user *u)
{
	if (syscall(SYS_geteuid) != 0 && syscall(SYS_geteuid) == (long)u->uid)
		return 0;               /* an agent without privilege serves its own user only */
	if (syscall(SYS_setgroups, u->ngroups, u->groups) < 0 || syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0)
		return -1;
	return (int)syscall(SYS_setresuid, u->uid, u->uid, u->uid);
}

CHILD_FUNCTION static int set_up(struct birth *b)
{
	const struct spawn *s = b->s;

	if (((s->pty || s->session) && setsid() < 0) || (s->pty && ioctl(b->std[0], TIOCSCTTY, 0) < 0))
		return step_failed(b, "terminal");
	for (int i = 0; i < 3; i++)
		if (dup2(b->std[i], i) < 0)
			return step_failed(b, "dup2");
	syscall(SYS_close_range, 3U, ~0U, 0U);  /* all are close-on-exec anyway */
	offer_to_oom_killer();
	umask(022);
	if (s->files.rlim_max != 0)
		syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &s->files, NULL);
	if (become(s->user) < 0)
		return step_failed(b, "user");
	if (chdir(s->cwd) < 0)
		return step_failed(b, "cwd");
	return 0;
}

/* As execvp, with the new environment's PATH; what the kernel cannot execute is given to the shell. */
CHILD_FUNCTION static void exec_file(const struct spawn *s, const char *file)
{
	execve(file, s->argv, s->env);
	if (errno != ENOEXEC)
		return;
	s->argv[-1] = (char *)(uintptr_t)"/bin/sh";
	s->argv[0] = (char *)(uintptr_t)file;
	execve("/bin/sh", s->argv - 1, s->env);
}

CHILD_FUNCTION static void exec_search(const struct spawn *s)
{
	const char *p = s->path;
	size_t n = strlen(s->cmd);
	char file[PATH_MAX];
	int worst = ENOENT;

	do {
		size_t dir = strcspn(p, ":");

		if (dir + n + 2 <= sizeof file) {
			memcpy(file, p, dir);
			file[dir] = '/';
			memcpy(file + dir + (dir != 0), s->cmd, n + 1);
			exec_file(s, file);
			if (errno == EACCES)
				worst = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return;
		}
		p += dir;
	} while (*p++ == ':');
	errno = worst;
}

/* As a shell tells it. */
CHILD_FUNCTION static int cannot_exec(const struct spawn *s)
{
	bool missing = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG;
	const char *why = missing ? "not found" : errno == EACCES ? "Permission denied" : errno == E2BIG ? "Argument list too long" :
		"cannot execute";
	struct iovec text[] = { { (void *)(uintptr_t)"exec: ", 6 }, { (void *)(uintptr_t)s->cmd, strlen(s->cmd) },
				{ (void *)(uintptr_t)": ", 2 }, { (void *)(uintptr_t)why, strlen(why) }, { (void *)(uintptr_t)"\n", 1 } };

	if (writev(2, text, 5) < 0)
		return 126;
	return missing ? 127 : 126;
}

/* The agent itself ignores SIGPIPE only; handlers end with the exec. The two signals that the C library keeps for itself are
 * ignored in whatever posix_spawn() of glibc started, down to its grandchildren, and sigaction() refuses to touch them. */
CHILD_FUNCTION static void reset_signals(void)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };
	unsigned long kernel_plain[4] = { 0 };   /* SIG_DFL, no flags, no restorer, empty mask */

	sigaction(SIGPIPE, &plain, NULL);
	for (int sig = 32; sig < 34; sig++)
		syscall(SYS_rt_sigaction, sig, kernel_plain, NULL, sizeof kernel_plain[3]);
}

CHILD_FUNCTION static int child(void *arg)
{
	struct birth *b = arg;
	sigset_t none;

	reset_signals();
	if (set_up(b) < 0)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (strchr(b->s->cmd, '/') != NULL)
		exec_file(b->s, b->s->cmd);
	else
		exec_search(b->s);
	_exit(cannot_exec(b->s));
}

/* ---- the parent ---- */

/* The child's descriptors 0, 1, 2 and our ends of them; -1: none. */
struct ends {
	int child[3], parent[3];
};

static int make_pipe(struct ends *x, int which, int child_end)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -1;
	x->child[which] = fd[child_end];
	x->parent[which] = fd[!child_end];
	return fcntl(fd[!child_end], F_SETFL, O_NONBLOCK);      /* of our end only: each end of a pipe has its own flags */
}

/* Reading gives end of file at once. */
static int no_stdin(struct ends *x)
{
	int fd[2];

	x->child[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (x->child[0] >= 0)
		return 0;
	if (pipe2(fd, O_CLOEXEC) < 0)           /* a root without /dev */
		return -1;
	close(fd[1]);
	x->child[0] = fd[0];
	return 0;
}

static int open_pipes(const struct spawn *s, struct ends *x)
{
	if ((s->no_stdin ? no_stdin(x) : make_pipe(x, 0, 0)) < 0)
		return -1;
	return make_pipe(x, 1, 1) < 0 || make_pipe(x, 2, 1) < 0 ? -1 : 0;
}

static int open_pty(const struct spawn *s, struct ends *x)
{
	struct winsize size = { .ws_col = s->cols, .ws_row = s->rows };
	int flags = O_RDWR | O_NOCTTY | O_CLOEXEC, unlocked = 0;

	x->parent[1] = open("/dev/ptmx", flags | O_NONBLOCK);
	if (x->parent[1] < 0)
		x->parent[1] = open("/dev/pts/ptmx", flags | O_NONBLOCK);
	if (x->parent[1] < 0 || ioctl(x->parent[1], TIOCSPTLCK, &unlocked) < 0 || ioctl(x->parent[1], TIOCSWINSZ, &size) < 0)
		return -1;
	x->child[0] = ioctl(x->parent[1], TIOCGPTPEER, flags);
	if (x->child[0] < 0)
		return -1;
	/* as login does, so that the user's programs can open their terminal by name; best effort */
	if (fchown(x->child[0], s->user->uid, (gid_t)-1) < 0)
		errno = 0;
	x->parent[0] = fcntl(x->parent[1], F_DUPFD_CLOEXEC, 0);
	x->child[1] = fcntl(x->child[0], F_DUPFD_CLOEXEC, 0);
	x->child[2] = fcntl(x->child[0], F_DUPFD_CLOEXEC, 0);
	return x->parent[0] < 0 || x->child[1] < 0 || x->child[2] < 0 ? -1 : 0;
}

static void close_ends(int fd[3])
{
	for (int i = 0; i < 3; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

static int birth_failed(const struct birth *b, struct err *e)
{
	const char *step = b->failed_step;

	errno = b->failed_errno;
	if (strcmp(step, "cwd") == 0)
		return errno == ENOENT ? err_set(e, ERR_INVALID, "cwd '%.400s' does not exist", b->s->cwd) :
			err_set(e, ERR_INVALID, "cwd '%.400s': %s", b->s->cwd, strerror(errno));
	err_sys(e, "%s", step);
	e->kind = ERR_INVALID;
	return -1;
}

/* Make the child; returns once it has executed its program, or has ended. */
static int bear(struct birth *b, pid_t *pid)
{
	char stack[CHILD_STACK] __attribute__((aligned(16)));
	char *const name = b->s->argv[0];
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);    /* no handler may run in the child */
	rc = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD, b, pid);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	b->s->argv[0] = name;                           /* for a shell the child put a path there that it had on its stack, which is this one */
	return rc < 0 ? -1 : 0;
}

int spawn_run(const struct spawn *s, struct proc *p, struct err *e)
{
	struct ends x = { { -1, -1, -1 }, { -1, -1, -1 } };
	struct birth b = { .s = s };
	int rc = s->pty ? open_pty(s, &x) : open_pipes(s, &x);

	if (rc < 0) {
		err_sys(e, s->pty ? "terminal" : "pipe");
	} else {
		memcpy(b.std, x.child, sizeof b.std);
		rc = bear(&b, &p->pid);
		if (rc < 0)
			err_sys(e, "clone");
	}
	if (rc < 0)
		e->kind = ERR_INVALID;
	else if (b.failed_step != NULL)
		rc = birth_failed(&b, e);
	close_ends(x.child);
	if (rc < 0) {
		close_ends(x.parent);
		return -1;
	}
	p->pty = s->pty;
	p->in = x.parent[0];
	p->out[0].fd = x.parent[1];
	p->out[0].channel = s->pty ? CH_PTY : CH_STDOUT;
	p->out[1].fd = x.parent[2];
	p->out[1].channel = CH_STDERR;
	return 0;
}
