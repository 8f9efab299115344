/* The spawner process: see spawn.h. */
#include "config.h"

#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "filter.h"
#include "files.h"
#include "stage.h"
#include "state.h"
#include "sys.h"

#define FD_LOW 16                    /* below are places for the sandbox's first descriptors */
#define BACKGROUND_NICE 10

struct job {
	struct spawn_req req;
	int fds[SPAWN_FDS_MAX];
	size_t nfds;
	int dev;
	int pipe[2];                 /* [0] ours, [1] the child's */
	int go[2];                   /* [0] the child's */
	int pidfd;
	pid_t pid;
};

static int failed(struct step_error *why, const char *step)
{
	why->error = errno;
	snprintf(why->step, sizeof why->step, "%s", step);
	return -1;
}

/* cgroup: directory of the version 2 group to be born in, or -1. */
static pid_t do_clone(uint64_t flags, int cgroup, int *pidfd)
{
	struct clone_args a = { .flags = flags | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD };

	if (cgroup >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)cgroup;
	}
	return (pid_t)syscall(SYS_clone3, &a, sizeof a);
}

/* ---- user namespaces ---- */

static int write_map(pid_t pid, const char *file, uint32_t base)
{
	char path[64], text[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
	snprintf(text, sizeof text, "0 %u %u", base, SPAWN_IDS);
	return file_write(AT_FDCWD, path, text);
}

/* Maps, then the namespace's descriptor for mount_setattr(2). */
static int map_ids(pid_t pid, uint32_t base)
{
	char path[64];

	if (write_map(pid, "uid_map", base) < 0 || write_map(pid, "gid_map", base) < 0)
		return -1;
	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int idmap(int mnt, int userns, uint64_t attr)
{
	struct mount_attr a = { .attr_set = attr | (userns >= 0 ? MOUNT_ATTR_IDMAP : 0), .userns_fd = userns >= 0 ? (uint64_t)userns : 0 };

	return mount_setattr(mnt, "", AT_EMPTY_PATH, &a, sizeof a);
}

/* A process that only holds a user namespace until it is killed. */
static pid_t probe_child(int *pidfd)
{
	pid_t pid = do_clone(CLONE_NEWUSER, -1, pidfd);

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

/* Can these roots be shown with shifted ids here? */
static bool probe_userns(const char *const *paths, size_t n, struct step_error *why)
{
	int pidfd = -1, userns = -1;
	pid_t pid = probe_child(&pidfd);
	bool good = pid > 0;

	if (!good)
		failed(why, "user namespaces");
	else if ((userns = map_ids(pid, 1U << 28)) < 0)
		good = failed(why, "id maps") == 0;
	for (size_t i = 0; good && i < n; i++) {
		int fd = open_tree(AT_FDCWD, paths[i], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

		if (fd < 0 || idmap(fd, userns, 0) < 0)
			good = failed(why, paths[i]) == 0;
		if (fd >= 0)
			close(fd);
	}
	if (pid > 0)
		sys_pidfd_send_signal(pidfd, SIGKILL);
	if (pidfd >= 0)
		close(pidfd);
	if (userns >= 0)
		close(userns);
	return good;
}

/* ---- one sandbox ---- */

static int shift_mounts(const struct job *j, int userns, struct step_error *why)
{
	const uint64_t lower = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV;

	if (idmap(j->fds[SPAWN_ROOT], userns, lower) < 0)
		return failed(why, "id-mapped root of the image");
	if (j->req.host_image && idmap(j->fds[SPAWN_USR], userns, lower) < 0)
		return failed(why, "id-mapped /usr");
	if (idmap(j->fds[SPAWN_DISK], userns, MOUNT_ATTR_NODEV) < 0)
		return failed(why, "id-mapped disk");
	/* tmpfs can be mapped since Linux 6.3; before, /dev shows as nobody's, which does no harm */
	if (idmap(j->dev, userns, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) < 0 &&
	    idmap(j->dev, -1, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) < 0)
		return failed(why, "device directory");
	return 0;
}

/* The parent's half of the start, while the child waits. */
static int prepare(const struct job *j, struct step_error *why)
{
	int userns = -1, status;

	if (j->req.userns && (userns = map_ids(j->pid, j->req.base)) < 0)
		return failed(why, "id maps");
	status = shift_mounts(j, userns, why);
	if (userns >= 0)
		close(userns);
	if (status < 0)
		return -1;
	if (j->req.background)
		setpriority(PRIO_PROCESS, (id_t)j->pid, 0);
	return 0;
}

static void child_main(const struct stage *s, const struct job *j)
{
	struct sandbox_plan plan = { .req = &j->req, .fds = j->fds, .dev = j->dev, .out = j->pipe[1] };
	char go;

	close(j->go[1]);
	close(j->pipe[0]);
	if (read(j->go[0], &go, 1) != 1)     /* the spawner gave up or died */
		_exit(1);
	sandbox_init(s, &plan);
}

/* The sandbox's ids own its namespace, so that limits that count per owner (inotify instances, namespaces) are each sandbox's own. */
static pid_t clone_as(const struct job *j, int *pidfd)
{
	const uint64_t spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC;
	const int cgroup = j->req.cgroup2 ? j->fds[SPAWN_CGROUPS + j->req.ntasks] : -1;
	pid_t pid;
	int saved;

	if (!j->req.userns)
		return do_clone(spaces, cgroup, pidfd);
	if (syscall(SYS_setresgid, -1, j->req.base, -1) < 0 || syscall(SYS_setresuid, -1, j->req.base, -1) < 0)
		return -1;
	syscall(SYS_setfsuid, 0);            /* the group's files are root's; who owns the namespace is the effective id */
	pid = do_clone(spaces | CLONE_NEWUSER, cgroup, pidfd);
	if (pid == 0)
		return 0;
	saved = errno;
	if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0)
		abort();                     /* without root there is nothing left to do right */
	errno = saved;
	return pid;
}

static int start(const struct stage *s, struct job *j, struct step_error *why)
{
	j->dev = open_tree(AT_FDCWD, "/dev", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (j->dev < 0 || pipe2(j->pipe, O_CLOEXEC) < 0 || pipe2(j->go, O_CLOEXEC) < 0)
		return failed(why, "descriptors");
	j->pid = clone_as(j, &j->pidfd);
	if (j->pid < 0)
		return failed(why, "clone");
	if (j->pid == 0)
		child_main(s, j);
	if (prepare(j, why) < 0 || write(j->go[1], "g", 1) != 1) {
		sys_pidfd_send_signal(j->pidfd, SIGKILL);
		return -1;
	}
	return 0;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- the socket ---- */

static int answer(int sock, const struct spawn_rep *rep, const int *fds, size_t n)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(2 * sizeof(int))]; } control = { .b = { 0 } };
	struct iovec v = { (void *)(uintptr_t)rep, sizeof *rep };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (n > 0) {
		struct cmsghdr *c = &control.h;

		m.msg_control = control.b;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)sizeof *rep ? 0 : -1;
}

/* 1 a request, 0 end, -1 nonsense. */
static int receive(int sock, struct job *j)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(SPAWN_FDS_MAX * sizeof(int))]; } control;
	struct iovec v = { &j->req, sizeof j->req };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.b, .msg_controllen = sizeof control.b };
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

	if (n <= 0)
		return n < 0 && errno == EINTR ? -1 : 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		j->nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(j->fds, CMSG_DATA(c), j->nfds * sizeof(int));
	}
	j->req.hostname[sizeof j->req.hostname - 1] = '\0';
	j->req.resolv[sizeof j->req.resolv - 1] = '\0';
	return n == (ssize_t)sizeof j->req && j->nfds == SPAWN_CGROUPS + j->req.ntasks + j->req.cgroup2 ? 1 : -1;
}

static void serve_one(const struct stage *s, int sock, struct job *j)
{
	struct step_error why = { 0 };
	struct spawn_rep rep = { 0 };
	int out[2];

	if (j->req.background)
		setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE);
	if (start(s, j, &why) == 0) {
		rep.pid = j->pid;
		rep.start = process_start(j->pid);
		out[0] = j->pidfd;
		out[1] = j->pipe[0];
		answer(sock, &rep, out, 2);
	} else {
		rep.error = why.error;
		memcpy(rep.step, why.step, sizeof rep.step);
		answer(sock, &rep, NULL, 0);
	}
	if (j->req.background)
		setpriority(PRIO_PROCESS, 0, 0);
}

static void serve(const struct stage *s, int sock)
{
	int status;

	do {
		struct job j = { .dev = -1, .pipe = { -1, -1 }, .go = { -1, -1 }, .pidfd = -1 };
		struct spawn_rep bad = { .error = EINVAL, .step = "request" };

		status = receive(sock, &j);
		if (status == 1)
			serve_one(s, sock, &j);
		else if (status < 0)
			answer(sock, &bad, NULL, 0);
		for (size_t i = 0; i < j.nfds; i++)
			close(j.fds[i]);
		shut(&j.dev);
		shut(&j.pipe[0]);
		shut(&j.pipe[1]);
		shut(&j.go[0]);
		shut(&j.go[1]);
		shut(&j.pidfd);
	} while (status != 0);
}

/* ---- start ---- */

/* Descriptors below FD_LOW are taken, so that whatever comes later is above. */
static int move_up(int fd)
{
	int up = fcntl(fd, F_DUPFD_CLOEXEC, FD_LOW), null;

	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (up < 0 || null < 0)
		return -1;
	for (int i = 3; i < FD_LOW; i++)
		if (i != null && dup3(null, i, O_CLOEXEC) < 0)
			return -1;
	return up;
}

static void settle(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	const struct sched_param ordinary = { 0 };
	sigset_t none;
	char text[16];

	sched_setscheduler(0, SCHED_OTHER, &ordinary);       /* a real-time process may not enter a cpu group */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);        /* sandboxes inherit what is ignored */
	sigaction(SIGCHLD, &ignore, NULL);   /* the dead are reaped by the kernel */
	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();                            /* a ^C at the daemon's terminal is not for us */
	setpriority(PRIO_PROCESS, 0, 0);     /* the thread that started us may be a low one */
	prctl(PR_SET_NAME, "hutch-spawner");
	/* a sandbox must not inherit protection from the OOM killer */
	if (file_read(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof text) > 0 && text[0] == '-')
		file_write(AT_FDCWD, "/proc/self/oom_score_adj", "0");
}

int spawner_main(char **argv)
{
	const char *roots[] = { argv[1], argv[2] };
	struct spawn_hello hello = { 0 };
	struct step_error why = { 0 };
	struct stage stage = { .agent = -1 };
	struct err e;
	int lock, sock;

	settle();
	syscall(SYS_close_range, 5, ~0U, 0);
	lock = fcntl(4, F_DUPFD_CLOEXEC, FD_LOW);
	sock = move_up(3);
	if (sock < 0 || lock < 0)
		return 1;
	hello.userns = probe_userns(roots, 2, &why);
	hello.error = why.error;
	memcpy(hello.step, why.step, sizeof hello.step);
	hello.ok = stage_build(&stage, argv[0], argv[3], &why) == 0;
	if (hello.ok && filter_make(&stage.filter, &e) < 0) {
		hello.ok = false;
		snprintf(why.step, sizeof why.step, "%.60s", e.text);
	}
	if (!hello.ok) {
		hello.error = why.error;
		memcpy(hello.step, why.step, sizeof hello.step);
	}
	if (send(sock, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello || !hello.ok)
		return 1;
	serve(&stage, sock);
	free(stage.filter.filter);
	return 0;
}
