/*
 * hutch-spawn: keeps a number of processes of one program on one listening socket. The socket is theirs as standard input and stays when
 * they come and go, so that whoever connects in between waits instead of being refused.
 *
 * SIGHUP starts new ones and lets the old ones finish (SIGUSR1); SIGTERM ends all. Who dies is started again. The number is changed
 * through the control socket (spawn.h).
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hutch/h1.h"
#include "hutch/log.h"
#include "hutch/opt.h"
#include "hutch/when.h"
#include "spawn.h"

#define ENDING_MAX 256          /* of earlier turns that still have something in hand */
#define SOON_US (1 * US_PER_S)  /* who ends sooner than this after its start is not started again at once */
#define TALK_S 2                /* a client of the control socket may take so long */

struct child {
	pid_t pid;              /* 0: none at the moment */
	int64_t started_us;
	int64_t again_us;       /* not to be started before */
};

struct spawn {
	const char *socket, *ctl, *user;
	char **argv;
	int wanted, listen_fd, ctl_fd, signal_fd;
	struct child children[SPAWN_MAX];
	pid_t ending[ENDING_MAX];
	int nending;
	bool stopping;
	sigset_t before;        /* signals as the children are to have them */
};

static int take_options(int argc, char **argv, struct spawn *s)
{
	static const struct opt_program program = { .name = "hutch-spawn", .synopsis = "[-s SOCKET] [-c CONTROL] [-n N] [-u USER] -- PROGRAM [ARGUMENT...]",
						    .rest = true };
	const struct opt rows[] = {
		{ .letter = 's', .arg = "SOCKET", .text = &s->socket, .help = "listen there, with mode 0660 (default: the listening socket that is standard input)" },
		{ .letter = 'c', .arg = "CONTROL", .text = &s->ctl, .help = "control socket, for `hutchctl responders`" },
		{ .letter = 'n', .arg = "N", .number = &s->wanted, .min = 1, .max = SPAWN_MAX, .help = "processes, 1 to 64 (default 1)" },
		{ .letter = 'u', .arg = "USER", .text = &s->user, .help = "become that user, once the sockets are there" },
	};
	int rc = opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);

	s->argv = argv + optind;
	return rc;
}

/* ---- processes ---- */

static void become_program(const struct spawn *s, pid_t parent)
{
	sigprocmask(SIG_SETMASK, &s->before, NULL);
	/* without us nobody would end it */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || dup2(s->listen_fd, 0) < 0)
		_exit(127);
	execvp(s->argv[0], s->argv);
	log_error("%s: %s", s->argv[0], strerror(errno));
	_exit(127);
}

static void child_start(struct spawn *s, struct child *c)
{
	pid_t parent = getpid();

	c->started_us = boot_us();
	c->again_us = c->started_us + SOON_US;
	c->pid = fork();
	if (c->pid == 0)
		become_program(s, parent);
	if (c->pid < 0) {
		log_error("fork: %s", strerror(errno));
		c->pid = 0;
	}
}

/* Let it finish what it has in hand. When too many do so already it is ended. */
static void child_retire(struct spawn *s, struct child *c)
{
	if (c->pid == 0)
		return;
	if (s->nending < ENDING_MAX) {
		s->ending[s->nending++] = c->pid;
		kill(c->pid, SIGUSR1);
	} else {
		kill(c->pid, SIGTERM);
	}
	*c = (struct child){ .pid = 0 };
}

static int running(const struct spawn *s)
{
	int n = 0;

	for (int i = 0; i < SPAWN_MAX; i++)
		n += s->children[i].pid != 0;
	return n;
}

static void settle(struct spawn *s)
{
	int64_t now = boot_us();

	for (int i = 0; i < SPAWN_MAX; i++) {
		struct child *c = &s->children[i];

		if (i >= s->wanted || s->stopping)
			child_retire(s, c);
		else if (c->pid == 0 && c->again_us <= now)
			child_start(s, c);
	}
}

/* Milliseconds until one has to be started again, -1 for none. */
static int until_due(const struct spawn *s)
{
	int64_t due = INT64_MAX, now = boot_us();

	for (int i = 0; i < s->wanted && !s->stopping; i++)
		if (s->children[i].pid == 0 && s->children[i].again_us < due)
			due = s->children[i].again_us;
	if (due == INT64_MAX)
		return -1;
	return due <= now ? 0 : (int)((due - now) / US_PER_MS) + 1;
}

/* New ones first, so that at no instant nobody accepts. */
static void renew(struct spawn *s)
{
	for (int i = 0; i < s->wanted; i++) {
		struct child old = s->children[i];

		child_start(s, &s->children[i]);
		child_retire(s, &old);
	}
}

static void ended(struct spawn *s, pid_t pid, int status)
{
	for (int i = 0; i < s->nending; i++) {
		if (s->ending[i] == pid) {
			s->ending[i] = s->ending[--s->nending];
			return;
		}
	}
	for (int i = 0; i < SPAWN_MAX; i++) {
		if (s->children[i].pid != pid)
			continue;
		s->children[i].pid = 0;
		if (WIFSIGNALED(status))
			log_error("process %d: %s; it is started again", (int)pid, strsignal(WTERMSIG(status)));
		else
			log_error("process %d ended with %d; it is started again", (int)pid, WEXITSTATUS(status));
	}
}

static void collect(struct spawn *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		ended(s, pid, status);
}

/* The first time they finish what they have in hand, the second time they do not. */
static void stop_all(struct spawn *s)
{
	int sig = s->stopping ? SIGKILL : SIGTERM;

	s->stopping = true;
	settle(s);
	for (int i = 0; i < s->nending; i++)
		kill(s->ending[i], sig);
}

static void take_signals(struct spawn *s)
{
	struct signalfd_siginfo si;

	while (read(s->signal_fd, &si, sizeof si) == sizeof si) {
		if (si.ssi_signo == SIGCHLD)
			collect(s);
		else if (si.ssi_signo == SIGHUP && !s->stopping)
			renew(s);
		else if (si.ssi_signo != SIGHUP)
			stop_all(s);
	}
}

/* ---- control ---- */

static void talk(struct spawn *s, int fd)
{
	struct timeval limit = { .tv_sec = TALK_S };
	char line[32], *end;
	ssize_t n;
	long wanted;
	int len;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	n = recv(fd, line, sizeof line - 1, 0);
	if (n <= 0)
		return;
	line[n] = '\0';
	wanted = strtol(line, &end, 10);
	if (end != line && *end == '\n' && wanted >= 1 && wanted <= SPAWN_MAX) {
		log_info("%ld processes are wanted, there were %d", wanted, s->wanted);
		s->wanted = (int)wanted;
		settle(s);
	} else if (line[0] != '\n') {
		return;
	}
	len = snprintf(line, sizeof line, "%d %d %d\n", s->wanted, running(s), s->nending);
	if (send(fd, line, (size_t)len, MSG_NOSIGNAL) < 0)
		log_warn("control: %s", strerror(errno));
}

static void take_call(struct spawn *s)
{
	int fd = accept4(s->ctl_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	talk(s, fd);
	close(fd);
}

static void serve(struct spawn *s)
{
	while (!s->stopping || s->nending > 0) {
		struct pollfd p[2] = { { .fd = s->signal_fd, .events = POLLIN }, { .fd = s->ctl_fd, .events = POLLIN } };

		settle(s);
		if (poll(p, 2, until_due(s)) < 0)
			continue;
		if (p[0].revents != 0)
			take_signals(s);
		if (p[1].revents != 0)
			take_call(s);
	}
}

/* ---- start ---- */

/* The user's group may connect to the socket: it is the web server's. */
static int open_sockets(struct spawn *s, const struct passwd *user, struct err *e)
{
	int gid = user != NULL ? (int)user->pw_gid : -1;

	s->listen_fd = s->socket != NULL ? h1_listen_unix(s->socket, 0660, gid, e) : h1_listen_stdin();
	if (s->listen_fd < 0)
		return s->socket != NULL ? -1 : err_set(e, ERR_INVALID, "standard input is no listening socket: give one with -s");
	if (s->socket != NULL && user != NULL && lchown(s->socket, user->pw_uid, (gid_t)-1) < 0)
		return err_sys(e, "%s", s->socket);
	if (s->ctl == NULL)
		return 0;
	s->ctl_fd = h1_listen_unix(s->ctl, 0600, -1, e);
	if (s->ctl_fd < 0)
		return -1;
	return user != NULL && lchown(s->ctl, user->pw_uid, user->pw_gid) < 0 ? err_sys(e, "%s", s->ctl) : 0;
}

static int become(const struct passwd *user, struct err *e)
{
	if (user == NULL || (geteuid() == user->pw_uid && getegid() == user->pw_gid))
		return 0;
	if (initgroups(user->pw_name, user->pw_gid) < 0 || setgid(user->pw_gid) < 0 || setuid(user->pw_uid) < 0)
		return err_sys(e, "user %s", user->pw_name);
	return 0;
}

static int start(struct spawn *s, struct err *e)
{
	const struct passwd *user = NULL;
	sigset_t taken;

	if (s->user != NULL && (user = getpwnam(s->user)) == NULL)
		return err_set(e, ERR_NOT_FOUND, "there is no user %s", s->user);
	sigemptyset(&taken);
	sigaddset(&taken, SIGCHLD);
	sigaddset(&taken, SIGHUP);
	sigaddset(&taken, SIGTERM);
	sigaddset(&taken, SIGINT);
	sigprocmask(SIG_BLOCK, &taken, &s->before);
	s->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0)
		return err_sys(e, "signalfd");
	return open_sockets(s, user, e) < 0 || become(user, e) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct spawn s = { .wanted = 1, .listen_fd = -1, .ctl_fd = -1 };
	struct err e;
	int rc = take_options(argc, argv, &s);

	if (rc >= 0)
		return rc;
	log_init("hutch-spawn");
	if (start(&s, &e) < 0) {
		log_error("%s", e.text);
		return 1;
	}
	serve(&s);
	return 0;
}
