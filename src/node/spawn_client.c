/* The daemon's side of the spawner: see spawn.h. */
#include "config.h"

#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hutch/log.h"
#include "stage.h"
#include "sys.h"

#define HELLO_MS 20000
#define STEPS_MS 20000

extern char **environ;

static int launch(struct spawner *s, int sock, struct err *e)
{
	char *const argv[] = { (char *)"hutch-node", (char *)"--spawner", (char *)(uintptr_t)s->agent, (char *)(uintptr_t)s->skeleton,
			       (char *)(uintptr_t)s->usr, (char *)(uintptr_t)s->interpreter, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int status;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, sock, 3);
	posix_spawn_file_actions_adddup2(&files, s->lock_fd, 4);
	status = posix_spawn(&s->pid, "/proc/self/exe", &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return status == 0 ? 0 : err_set(e, ERR_INTERNAL, "spawner: %s", strerror(status));
}

static void reap(struct spawner *s)
{
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
	if (s->pid > 0)
		waitpid(s->pid, NULL, 0);
	s->pid = -1;
}

static int start(struct spawner *s, struct err *e)
{
	int pair[2], status;
	struct pollfd p;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	/* adddup2 onto itself would leave it close-on-exec */
	while (pair[1] >= 0 && pair[1] <= 4) {
		int up = fcntl(pair[1], F_DUPFD_CLOEXEC, 5);

		close(pair[1]);
		pair[1] = up;
	}
	s->sock = pair[0];
	status = launch(s, pair[1], e);
	close(pair[1]);
	if (status < 0) {
		reap(s);
		return -1;
	}
	p = (struct pollfd){ .fd = s->sock, .events = POLLIN };
	if (poll(&p, 1, HELLO_MS) <= 0 || recv(s->sock, &s->hello, sizeof s->hello, 0) != (ssize_t)sizeof s->hello) {
		kill(s->pid, SIGKILL);
		reap(s);
		return err_set(e, ERR_UNAVAILABLE, "the spawner does not start");
	}
	if (!s->hello.ok) {
		reap(s);
		return err_set(e, ERR_INTERNAL, "spawner: %s: %s", s->hello.step, strerror(s->hello.error));
	}
	return 0;
}

int spawner_open(struct spawner *s, int lock_fd, const char *agent, const char *skeleton, const char *usr, const char *interpreter,
		 struct err *e)
{
	*s = (struct spawner){ .sock = -1, .pid = -1, .lock_fd = lock_fd, .agent = agent, .skeleton = skeleton, .usr = usr,
			      .interpreter = interpreter };
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->free, NULL);
	return start(s, e);
}

void spawner_close(struct spawner *s)
{
	reap(s);
	pthread_cond_destroy(&s->free);
	pthread_mutex_destroy(&s->lock);
}

/* One at a time; those that someone waits for go first. */
static void acquire(struct spawner *s, bool background)
{
	pthread_mutex_lock(&s->lock);
	if (!background)
		s->urgent++;
	if (!background && s->busy && s->pid > 0)    /* what is in the way is urgent, too, but for its priority (see spawner.c) */
		setpriority(PRIO_PROCESS, (id_t)s->pid, 0);
	while (s->busy || (background && s->urgent > 0))
		pthread_cond_wait(&s->free, &s->lock);
	if (!background)
		s->urgent--;
	s->busy = true;
	pthread_mutex_unlock(&s->lock);
}

static void give_back(struct spawner *s)
{
	pthread_mutex_lock(&s->lock);
	s->busy = false;
	pthread_cond_broadcast(&s->free);
	pthread_mutex_unlock(&s->lock);
}

static int send_req(int sock, const struct spawn_req *req, const int *fds, size_t n)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(SPAWN_FDS_MAX * sizeof(int))]; } control = { .b = { 0 } };
	struct iovec v = { (void *)(uintptr_t)req, sizeof *req };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.b, .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

	control.h.cmsg_level = SOL_SOCKET;
	control.h.cmsg_type = SCM_RIGHTS;
	control.h.cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&control.h), fds, n * sizeof(int));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *req ? 0 : -1;
}

static int recv_rep(int sock, struct spawn_rep *rep, int fds[2])
{
	union { struct cmsghdr h; char b[CMSG_SPACE(2 * sizeof(int))]; } control;
	struct iovec v = { rep, sizeof *rep };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.b, .msg_controllen = sizeof control.b };
	struct cmsghdr *c;

	fds[0] = fds[1] = -1;
	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *rep)
		return -1;
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	return 0;
}

static void bury(struct spawner *s)
{
	log_error("the spawner died: %s", strerror(errno));
	kill(s->pid, SIGKILL);
	reap(s);
}

/* A request and its answer. A spawner that died before is started anew; one that dies over a request may have done half of it. */
static int exchange(struct spawner *s, const struct spawn_req *req, const int *fds, size_t n, struct spawn_rep *rep, int got[2],
		    struct err *e)
{
	bool sent = false;

	for (int i = 0; i < 2 && !sent; i++) {
		if (s->sock < 0 && start(s, e) < 0)
			return -1;
		sent = send_req(s->sock, req, fds, n) == 0;
		if (!sent)
			bury(s);
	}
	if (sent && recv_rep(s->sock, rep, got) == 0)
		return 0;
	if (sent)
		bury(s);
	return err_set(e, ERR_UNAVAILABLE, "the spawner died");
}

/* The pipe closes silently when the agent runs. */
int spawner_await(int steps, struct err *e)
{
	struct pollfd p = { .fd = steps, .events = POLLIN };
	struct step_error x;
	bool told = poll(&p, 1, STEPS_MS) > 0;
	ssize_t n = told ? read(steps, &x, sizeof x) : -1;

	close(steps);
	if (!told)
		return err_set(e, ERR_TIMEOUT, "a sandbox does not start");
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof x)
		return err_set(e, ERR_INTERNAL, "a sandbox does not start");
	x.step[sizeof x.step - 1] = '\0';
	return err_set(e, ERR_INTERNAL, "start of a sandbox: %s: %s", x.step, strerror(x.error));
}

int spawner_run(struct spawner *s, const struct spawn_req *req, const int *fds, size_t nfds, struct spawn_rep *rep, int *pidfd, int *steps,
		struct err *e)
{
	int got[2] = { -1, -1 }, status;

	acquire(s, req->background);
	status = exchange(s, req, fds, nfds, rep, got, e);
	give_back(s);
	if (status < 0)
		return -1;
	if (rep->pid <= 0 || got[0] < 0) {
		rep->step[sizeof rep->step - 1] = '\0';
		return err_set(e, ERR_INTERNAL, "start of a sandbox: %s: %s", rep->step, strerror(rep->error));
	}
	*pidfd = got[0];
	*steps = got[1];
	return 0;
}
