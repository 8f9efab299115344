/*
 * hutch-envd - the agent inside a sandbox: serves the envd protocol and is the sandbox's PID 1.
 * Started by the node with its listening sockets as descriptors; see man/hutch-envd.8.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../agent/agent.h"
#include "hutch/envd.h"
#include "hutch/log.h"
#include "hutch/opt.h"

#define IDLE_S 640              /* longer than any proxy in front keeps its connection */
#define CONNECTIONS_MAX 2048
#define FD_MAX (1 << 20)
#define SPARE_THREADS 2         /* so that a sandbox whose commands use up all processes can still be asked and cleaned up */

struct opts {
	int listen_fd, ctl_fd;
	const char *default_user;
};

/* ---- options ---- */

static int socket_at(int fd, const char *what, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return err_set(e, ERR_INVALID, "%s: descriptor %d is no socket", what, fd);
	return fd;
}

/* Where clients are to be listened for: one of the three ways. */
struct place {
	int fd, port;
	const char *path;
};

static int listen_at(const struct place *at, struct err *e)
{
	if ((at->fd >= 0) + (at->port >= 0) + (at->path != NULL) != 1)
		return err_set(e, ERR_INVALID, "give one of --listen-fd, --listen-unix and --listen-port");
	if (at->port >= 0)
		return h1_listen_loopback(at->port, e);
	return at->path != NULL ? h1_listen_unix(at->path, 0600, -1, e) : socket_at(at->fd, "--listen-fd", e);
}

/* -1 go on, else the exit status. */
static int take_options(int argc, char **argv, struct opts *o)
{
	static const struct opt_program program = {
		.name = "hutch-envd", .serves = " (envd " ENVD_VERSION ")",
		.synopsis = "--listen-fd N [--ctl-fd N] | --listen-unix PATH | --listen-port PORT  [--default-user NAME]",
	};
	struct place at = { .fd = -1, .port = -1 };
	const struct opt rows[] = {
		{ .name = "listen-fd", .arg = "N", .number = &at.fd, .min = 3, .max = FD_MAX, .help = "serve on the listening socket at that descriptor" },
		{ .name = "listen-unix", .arg = "PATH", .text = &at.path, .help = "serve on a unix socket made there, with mode 0600" },
		{ .name = "listen-port", .arg = "PORT", .number = &at.port, .max = 65535, .help = "serve on 127.0.0.1" },
		{ .name = "ctl-fd", .arg = "N", .number = &o->ctl_fd, .min = 3, .max = FD_MAX, .help = "be controlled over the socket at that descriptor" },
		{ .name = "default-user", .arg = "NAME", .text = &o->default_user, .help = "user of requests that name none (default root)" },
	};
	struct err e;
	int rc;

	*o = (struct opts){ .listen_fd = -1, .ctl_fd = -1 };
	rc = opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
	if (rc >= 0)
		return rc;
	if ((o->listen_fd = listen_at(&at, &e)) >= 0 && (o->ctl_fd < 0 || socket_at(o->ctl_fd, "--ctl-fd", &e) >= 0))
		return -1;
	fprintf(stderr, "hutch-envd: %s\n", e.text);
	return 2;
}

/* ---- the process ---- */

/* Descriptors 0 to 2 must not turn out to be sockets of ours, even in a root without /dev. */
static void fill_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0 && syscall(SYS_memfd_create, "null", 0) < 0)
			return;
}

static void set_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);           /* fails for SIGKILL, SIGSTOP and libc's own: as it should */
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Little memory when idle: one arena, and what is freed goes back. */
static void set_memory(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 256 * 1024);
	mallopt(M_TRIM_THRESHOLD, 128 * 1024);
}

/* Every running command holds five descriptors here; the commands themselves get the limit that we were given. */
static void raise_files(struct agent *a)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &a->files) < 0)
		return;
	most = (struct rlimit){ a->files.rlim_max, a->files.rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &most) < 0)
		log_debug("descriptor limit: %s", strerror(errno));
}

static void set_process(void)
{
	fill_standard_fds();
	set_signals();
	set_memory();
	umask(022);
	syscall(SYS_close_range, 3U, ~0U, 4U);          /* CLOSE_RANGE_CLOEXEC */
	if (chdir("/") < 0)
		log_warn("chdir /: %s", strerror(errno));
	if (getpid() == 1)
		prctl(PR_SET_DUMPABLE, 0);              /* the token is in our memory */
	else
		prctl(PR_SET_CHILD_SUBREAPER, 1);       /* as PID 1 would */
}

static int run(struct agent *a, const struct opts *o, struct err *e)
{
	/* A body may pause, too: input that is streamed to a command pings every 50 s, an upload has what its maker has. Who sends one
	 * has shown the token by then. */
	struct h1_server_opts http = { .max_connections = CONNECTIONS_MAX, .idle_timeout_s = IDLE_S, .body_timeout_s = IDLE_S,
				       .spare_threads = SPARE_THREADS };
	struct h1_server *server;

	if (agent_init(a, o->default_user, e) < 0)
		return -1;
	a->guarded = o->ctl_fd >= 0;
	raise_files(a);
	if (process_init(a, e) < 0 || (a->guarded && forward_init(a, e) < 0))
		return -1;
	watch_init(a);
	if (h1_server_start(o->listen_fd, &http, agent_handle, a, &server, e) < 0)
		return -1;
	if (a->guarded)
		return ctl_serve(a, o->ctl_fd, e);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	static struct agent agent;
	struct opts opts;
	struct err e = { 0 };
	int status;

	log_init("hutch-envd");
	set_process();
	status = take_options(argc, argv, &opts);
	if (status >= 0)
		return status;
	if (run(&agent, &opts, &e) < 0)
		log_error("%s", e.text);
	return 1;
}
