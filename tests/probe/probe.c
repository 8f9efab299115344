/*
 * probe.c - stands where the agent stands, in tests of hutch-node: first process of a sandbox, started with the same arguments.
 *
 * It has the very rights that the agent's root has, so what it cannot do no guest can. On the control socket it answers as the agent
 * does (ok to everything, last init kept). On its HTTP socket `GET /QUESTION?ARGUMENT` is answered with plain text:
 * one question per thing that a sandbox must or must not be able to do. The answer to an attempt is "ok" or the name of the errno.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);
#define MS_BIND_FLAG 4096UL
#define MS_REMOUNT_FLAG 32UL

static char answer[1 << 20];
static char last_init[1 << 16];

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	size_t n = strlen(answer);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(answer + n, sizeof answer - n, fmt, ap);
	va_end(ap);
}

static void result(long r)
{
	say("%s", r >= 0 ? "ok" : strerrorname_np(errno));
}

/* ---- questions ---- */

static void q_ls(const char *arg)
{
	DIR *d = opendir(arg);
	struct dirent *e;

	if (d == NULL) {
		result(-1);
		return;
	}
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			say("%s\n", e->d_name);
	closedir(d);
}

static void q_cat(const char *arg)
{
	size_t n = 0;
	ssize_t got = 0;
	int fd = open(arg, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		result(-1);
		return;
	}
	while (n < sizeof answer - 1 && (got = read(fd, answer + n, sizeof answer - 1 - n)) > 0)
		n += (size_t)got;
	answer[n] = '\0';
	if (got < 0) {
		answer[0] = '\0';
		result(-1);
	}
	close(fd);
}

static void q_write(const char *arg)
{
	int fd = open(arg, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	result(fd < 0 ? -1 : write(fd, "x", 1));
	if (fd >= 0)
		close(fd);
}

static void q_unlink(const char *arg)
{
	result(unlink(arg));
}

static void q_stat(const char *arg)
{
	struct stat st;

	if (stat(arg, &st) < 0)
		result(-1);
	else
		say("%o %u %u", st.st_mode, st.st_uid, st.st_gid);
}

static void q_link(const char *arg)
{
	char to[4096];
	ssize_t n = readlink(arg, to, sizeof to - 1);

	if (n < 0)
		result(-1);
	else
		say("%.*s", (int)n, to);
}

static void q_mount(const char *arg) { result(mount("x", arg, "tmpfs", 0, NULL)); }
static void q_bind(const char *arg) { result(mount("/", arg, NULL, MS_BIND_FLAG, NULL)); }
static void q_remount(const char *arg) { result(mount(NULL, arg, NULL, MS_REMOUNT_FLAG | MS_BIND_FLAG, NULL)); }
static void q_umount(const char *arg) { result(umount2(arg, 2)); }
static void q_fsopen(const char *arg) { result(syscall(SYS_fsopen, arg, 0)); }
static void q_opentree(const char *arg) { result(syscall(SYS_open_tree, AT_FDCWD, arg, OPEN_TREE_CLONE)); }
static void q_pivot(const char *arg) { result(syscall(SYS_pivot_root, arg, arg)); }
static void q_kill(const char *arg) { result(kill(atoi(arg), SIGTERM)); }
static void q_chroot(const char *arg) { result(chroot(arg)); }
static void q_sethostname(const char *arg) { result(sethostname(arg, strlen(arg))); }
static void q_syslog(const char *arg) { char b[16]; (void)arg; result(klogctl(3, b, sizeof b)); }
static void q_swapoff(const char *arg) { result(swapoff(arg)); }
static void q_bpf(const char *arg) { char a[128] = { 0 }; (void)arg; result(syscall(SYS_bpf, 0, a, sizeof a)); }
static void q_perf(const char *arg) { char a[128] = { 0 }; (void)arg; result(syscall(SYS_perf_event_open, a, 0, -1, -1, 0)); }
static void q_uffd(const char *arg) { (void)arg; result(syscall(SYS_userfaultfd, 0)); }
static void q_uring(const char *arg) { char a[256] = { 0 }; (void)arg; result(syscall(SYS_io_uring_setup, 1, a)); }
static void q_keyctl(const char *arg) { (void)arg; result(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 0)); }
static void q_addkey(const char *arg) { result(syscall(SYS_add_key, "user", arg, "x", 1, -3)); }
static void q_kexec(const char *arg) { (void)arg; result(syscall(SYS_kexec_load, 0, 0, NULL, 0)); }
static void q_module(const char *arg) { (void)arg; result(syscall(SYS_init_module, "", 0, "")); }
static void q_clone3(const char *arg) { char a[88] = { 0 }; (void)arg; result(syscall(SYS_clone3, a, sizeof a)); }
static void q_reboot(const char *arg) { (void)arg; result(reboot(RB_DISABLE_CAD)); }

static void q_mknod(const char *arg)
{
	unsigned major_no = 0, minor_no = 0;
	char kind = 0;

	if (sscanf(arg, "%c%u:%u", &kind, &major_no, &minor_no) != 3) {
		say("bad argument");
		return;
	}
	unlink("/tmp/node");
	result(mknod("/tmp/node", (kind == 'b' ? S_IFBLK : S_IFCHR) | 0600, makedev(major_no, minor_no)));
}

static void q_handle(const char *arg)
{
	union { struct file_handle h; char b[sizeof(struct file_handle) + 128]; } u = { .h.handle_bytes = 128 };
	int id;

	result(syscall(SYS_name_to_handle_at, AT_FDCWD, arg, &u.h, &id, 0));
}

static void q_settime(const char *arg)
{
	struct timespec t;

	(void)arg;
	clock_gettime(CLOCK_REALTIME, &t);
	result(clock_settime(CLOCK_REALTIME, &t));
}

static void q_unshare(const char *arg)
{
	static const struct { const char *name; int flag; } kinds[] = {
		{ "user", CLONE_NEWUSER }, { "mnt", CLONE_NEWNS }, { "net", CLONE_NEWNET }, { "pid", CLONE_NEWPID },
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, arg) == 0) {
			result(unshare(kinds[i].flag));
			return;
		}
	say("bad argument");
}

static void q_cloneuser(const char *arg)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	(void)arg;
	if (pid == 0)
		_exit(0);
	result(pid);
}

static void q_socket(const char *arg)
{
	result(socket(atoi(arg), SOCK_DGRAM, 0) >= 0 || (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT) ? 0
		: socket(atoi(arg), SOCK_RAW, 0));
}

#ifdef __x86_64__
/* The 32-bit entry must not be a way around the filter: socketcall(SYS_SOCKET, {AF_VSOCK, SOCK_STREAM, 0}). */
static void q_int80(const char *arg)
{
	uint32_t *args = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	long r;

	if (args == MAP_FAILED) {
		result(-1);
		return;
	}
	args[0] = (uint32_t)atoi(arg);
	args[1] = SOCK_STREAM;
	args[2] = 0;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(102L), "b"(1L), "c"((long)(intptr_t)args) : "memory", "r8", "r9", "r10", "r11");
	errno = (int)-r;
	result(r < 0 ? -1 : 0);
}
#endif

static void q_connect(const char *arg)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t n = strlen(arg);

	if (n >= sizeof a.sun_path) {
		say("bad argument");
		return;
	}
	memcpy(a.sun_path, arg, n);
	if (arg[0] == '@')
		a.sun_path[0] = '\0';
	result(connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)));
	close(fd);
}

/* Name that the listening socket believes to have. */
static void q_sockname(const char *arg)
{
	struct sockaddr_un a;
	socklen_t n = sizeof a;

	memset(&a, 0, sizeof a);
	if (getsockname(atoi(arg), (struct sockaddr *)&a, &n) < 0)
		result(-1);
	else
		say("%.108s", a.sun_path);
}

static void q_fds(const char *arg)
{
	char path[300], to[4096];
	DIR *d = opendir("/proc/1/fd");
	struct dirent *e;

	(void)arg;
	while (d != NULL && (e = readdir(d)) != NULL) {
		ssize_t n;

		snprintf(path, sizeof path, "/proc/1/fd/%.200s", e->d_name);
		n = readlink(path, to, sizeof to - 1);
		if (n > 0)
			say("%s %.*s\n", e->d_name, (int)n, to);
	}
	if (d != NULL)
		closedir(d);
}

static void q_ptrace(const char *arg)
{
	pid_t pid = fork();

	(void)arg;
	if (pid == 0) {
		pause();
		_exit(0);
	}
	result(ptrace(PTRACE_SEIZE, pid, 0, 0));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* How many processes can be had at once. */
static void q_forks(const char *arg)
{
	int most = atoi(arg), n = 0;
	pid_t *pids = calloc((size_t)most, sizeof *pids);

	while (n < most && (pids[n] = fork()) >= 0) {
		if (pids[n] == 0) {
			pause();
			_exit(0);
		}
		n++;
	}
	say("%d %s", n, n < most ? strerrorname_np(errno) : "");
	for (int i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < n; i++)
		waitpid(pids[i], NULL, 0);
	free(pids);
}

/* Touch that many MiB in a child; how it ended. */
static void q_memory(const char *arg)
{
	size_t n = (size_t)atoi(arg) << 20;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

		if (fd >= 0 && write(fd, "100", 3) < 0)
			_exit(3);
		if (p == MAP_FAILED)
			_exit(2);
		for (size_t i = 0; i < n; i += 4096)
			p[i] = 1;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		say("signal %d", WTERMSIG(status));
	else
		say("exit %d", WEXITSTATUS(status));
}

/* "PATH MIB": fill a file; how much went in. */
static void q_fill(const char *arg)
{
	static char block[1 << 20];
	char path[256];
	long long done = 0;
	ssize_t got = 0;
	int mib = 0, fd;

	if (sscanf(arg, "%255s %d", path, &mib) != 2 || (fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0) {
		result(-1);
		return;
	}
	memset(block, 'x', sizeof block);
	while (done < (long long)mib << 20 && (got = write(fd, block, sizeof block)) > 0)
		done += got;
	say("%lld %s", done >> 20, got < 0 ? strerrorname_np(errno) : "");
	close(fd);
}

/* Spin in that many children for a second; processor time they got, in ms. */
static void q_spin(const char *arg)
{
	int n = atoi(arg);
	struct rusage before, after;
	struct timespec from, now;

	getrusage(RUSAGE_CHILDREN, &before);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < n; i++)
		if (fork() == 0)
			do
				clock_gettime(CLOCK_MONOTONIC, &now);
			while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 1000 || (_exit(0), 0));
	while (wait(NULL) > 0)
		continue;
	getrusage(RUSAGE_CHILDREN, &after);
	say("%ld", (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000 +
	    (after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1000);
}

static void q_inotify(const char *arg)
{
	int n = 0, most = atoi(arg), fds[4096];

	while (n < most && n < 4096 && (fds[n] = inotify_init1(IN_CLOEXEC)) >= 0)
		n++;
	say("%d", n);              /* kept open: the count must not be shared with other sandboxes */
}

static void q_uname(const char *arg) { struct utsname u; (void)arg; uname(&u); say("%s", u.nodename); }
static void q_init(const char *arg) { (void)arg; say("%s", last_init); }
static void q_pid(const char *arg) { (void)arg; say("%d %d %d", getpid(), getuid(), getgid()); }
static void q_exit(const char *arg) { _exit(atoi(arg)); }

static const struct { const char *name; void (*fn)(const char *arg); } questions[] = {
	{ "ls", q_ls }, { "cat", q_cat }, { "write", q_write }, { "unlink", q_unlink }, { "stat", q_stat }, { "link", q_link },
	{ "mount", q_mount }, { "bind", q_bind },
	{ "remount", q_remount }, { "umount", q_umount }, { "fsopen", q_fsopen }, { "opentree", q_opentree }, { "pivot", q_pivot },
	{ "kill", q_kill }, { "chroot", q_chroot }, { "sethostname", q_sethostname }, { "syslog", q_syslog }, { "swapoff", q_swapoff },
	{ "bpf", q_bpf }, { "perf", q_perf }, { "uffd", q_uffd }, { "uring", q_uring }, { "keyctl", q_keyctl }, { "addkey", q_addkey },
	{ "kexec", q_kexec }, { "module", q_module }, { "clone3", q_clone3 }, { "reboot", q_reboot }, { "mknod", q_mknod },
	{ "handle", q_handle }, { "settime", q_settime }, { "unshare", q_unshare }, { "cloneuser", q_cloneuser }, { "socket", q_socket },
#ifdef __x86_64__
	{ "int80", q_int80 },
#endif
	{ "connect", q_connect }, { "sockname", q_sockname }, { "fds", q_fds }, { "ptrace", q_ptrace }, { "forks", q_forks },
	{ "memory", q_memory }, { "fill", q_fill }, { "spin", q_spin }, { "inotify", q_inotify }, { "uname", q_uname }, { "init", q_init },
	{ "pid", q_pid }, { "exit", q_exit },
};

/* ---- the two sockets ---- */

static void ask(char *target)
{
	char *arg = strchr(target, '?');

	answer[0] = '\0';
	if (arg != NULL)
		*arg++ = '\0';
	for (char *p = arg; p != NULL && *p != '\0'; p++)
		if (*p == '+')
			*p = ' ';
	for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
		if (target[0] == '/' && strcmp(target + 1, questions[i].name) == 0) {
			questions[i].fn(arg != NULL ? arg : "");
			return;
		}
	say("unknown question");
}

static void serve_http(int listener)
{
	char head[8192], target[4096], lines[128];
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	if (fd < 0)
		return;
	while (n < sizeof head - 1 && (got = read(fd, head + n, sizeof head - 1 - n)) > 0) {
		n += (size_t)got;
		head[n] = '\0';
		if (strstr(head, "\r\n\r\n") != NULL)
			break;
	}
	if (n > 0 && sscanf(head, "%*s %4095s", target) == 1) {
		ask(target);
		snprintf(lines, sizeof lines, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", strlen(answer));
		if (write(fd, lines, strlen(lines)) < 0 || write(fd, answer, strlen(answer)) < 0)
			answer[0] = '\0';
	}
	close(fd);
}

/* A listener of a port stays open; of more than the agent has, the first one is given up: its port, or 0. */
static int keep_listener(int port, int fd)
{
	static struct { int port, fd; } kept[128];
	static size_t n;
	int closed = 0;

	if (n == sizeof kept / sizeof kept[0]) {
		closed = kept[0].port;
		close(kept[0].fd);
		memmove(kept, kept + 1, --n * sizeof kept[0]);
	}
	kept[n].port = port;
	kept[n++].fd = fd;
	return closed;
}

static int passed(struct msghdr *m, int before)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = before;

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

/* A line of the control socket. */
static bool serve_ctl(int fd)
{
	static char line[1 << 20];
	char ok[128];
	union { struct cmsghdr h; char b[256]; } control;
	int port, listener = -1, closed = 0;
	size_t n = 0;

	while (n < sizeof line - 1) {
		struct iovec v = { line + n, sizeof line - 1 - n };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.b, .msg_controllen = sizeof control.b };
		ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);

		if (got <= 0)
			return false;
		n += (size_t)got;
		listener = passed(&m, listener);
		if (line[n - 1] == '\n')
			break;
	}
	line[n] = '\0';
	if (strstr(line, "\"op\":\"init\"") != NULL || strstr(line, "\"op\": \"init\"") != NULL)
		snprintf(last_init, sizeof last_init, "%.*s", (int)strcspn(line, "\n"), line);
	if (sscanf(line, "{\"op\":\"listen\",\"port\":%d", &port) == 1)
		closed = keep_listener(port, listener);
	n = (size_t)snprintf(ok, sizeof ok, "{\"ok\":true,\"version\":\"probe\"");
	if (closed != 0)
		n += (size_t)snprintf(ok + n, sizeof ok - n, ",\"closed\":%d", closed);
	n += (size_t)snprintf(ok + n, sizeof ok - n, "}\n");
	return write(fd, ok, n) > 0;
}

int main(int argc, char **argv)
{
	struct pollfd p[3] = { { .fd = 3, .events = POLLIN }, { .fd = 4, .events = POLLIN }, { .fd = -1, .events = POLLIN } };

	if (argc != 5 || strcmp(argv[1], "--listen-fd") != 0 || strcmp(argv[3], "--ctl-fd") != 0)
		return 2;
	p[0].fd = atoi(argv[2]);
	p[1].fd = atoi(argv[4]);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		poll(p, 3, -1);
		if ((p[0].revents & POLLIN) != 0)
			serve_http(p[0].fd);
		if ((p[1].revents & POLLIN) != 0) {
			if (p[2].fd >= 0)
				close(p[2].fd);
			p[2].fd = accept4(p[1].fd, NULL, NULL, SOCK_CLOEXEC);
		}
		if (p[2].fd >= 0 && (p[2].revents & (POLLIN | POLLHUP)) != 0 && !serve_ctl(p[2].fd)) {
			close(p[2].fd);
			p[2].fd = -1;
		}
	}
}
