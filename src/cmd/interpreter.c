/*
 * hutch-interpreter - runs cells of code inside a sandbox: E2B's code interpreter on port 49999; see man/hutch-interpreter.8.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../interpreter/bash.h"
#include "../interpreter/interpreter.h"
#include "hutch/envd.h"
#include "hutch/log.h"
#include "hutch/opt.h"

#define DIR_LEN 48              /* of the directory, with its NUL: a socket's path has 107 characters */
#define CONNECTIONS_MAX 512
#define IDLE_S 640              /* longer than any proxy in front keeps its connection */
#define STACK (256 * 1024)

struct opts {
	int port, agent_port;
	const char *dir;
	const char *warm;       /* languages whose default contexts are made before anybody is let in */
};

/* The program runs itself for kernels that are part of it. */
static int run_kernel(const char *name)
{
	if (strcmp(name, "bash") == 0)
		return bash_kernel_main();
	fprintf(stderr, "hutch-interpreter: there is no kernel of that name\n");
	return 2;
}

/* -1 go on, else the exit status. */
static int take_options(int argc, char **argv, struct opts *o)
{
	static const struct opt_program program = { .name = "hutch-interpreter",
						    .synopsis = "[--port N] [--agent-port N] [--dir DIR] [--warm LANGUAGE,...]" };
	const char *kernel = NULL;
	const struct opt rows[] = {
		{ .name = "port", .arg = "N", .number = &o->port, .max = 65535, .help = "port on 127.0.0.1 (default 49999)" },
		{ .name = "agent-port", .arg = "N", .number = &o->agent_port, .max = 65535, .help = "port of hutch-envd (default 49983); 0: there is none" },
		{ .name = "dir", .arg = "DIR", .text = &o->dir, .help = "directory for kernels' sockets (default /run/hutch-interpreter)" },
		{ .name = "warm", .arg = "LANGUAGE,...", .text = &o->warm, .help = "languages whose default contexts are made at the start (default python)" },
		{ .name = "kernel", .arg = "NAME", .text = &kernel },
	};
	int rc;

	*o = (struct opts){ .port = INTERPRETER_PORT, .agent_port = ENVD_PORT, .dir = "/run/hutch-interpreter", .warm = "python" };
	rc = opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
	if (rc >= 0)
		return rc;
	if (kernel != NULL)
		return run_kernel(kernel);
	if (strlen(o->dir) < DIR_LEN)
		return -1;
	fprintf(stderr, "hutch-interpreter: --dir must be a path of at most %d characters: sockets are below it\n", DIR_LEN - 1);
	return 2;
}

/* ---- the process ---- */

/* Little memory when idle: one arena, and what is freed goes back. */
static void set_process(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_DFL);
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 256 * 1024);
	mallopt(M_TRIM_THRESHOLD, 128 * 1024);
	umask(022);
	if (getenv("LC_ALL") == NULL && getenv("LC_CTYPE") == NULL)
		setenv("LANG", "C.UTF-8", 0);    /* for kernels: R takes letters for bytes without it */
}

static int make_dir(const char *dir, struct err *e)
{
	struct stat st;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "%s", dir);
	if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, ERR_INVALID, "%s is no directory of ours", dir);
	return 0;
}

/* A language that is not there is no reason to serve none. */
static void warm_up(struct interpreter *x, const char *languages)
{
	char list[256], *save = NULL;

	snprintf(list, sizeof list, "%s", languages);
	for (char *name = strtok_r(list, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
		char language[LANGUAGE_LEN];
		struct context *c;
		struct err e;

		language_name(name, language);
		if (context_default(&x->contexts, language, &c, &e) < 0)
			log_error("%s: %s", language, e.text);
		else
			context_unref(&x->contexts, c);
	}
}

static int run(struct interpreter *x, const struct opts *o, struct err *e)
{
	const struct h1_server_opts http = { .max_connections = CONNECTIONS_MAX, .idle_timeout_s = IDLE_S, .stack_size = STACK };
	struct h1_server *server;
	int fd;

	if (make_dir(o->dir, e) < 0)
		return -1;
	kernels_sweep(o->dir);
	if (scripts_write(o->dir, e) < 0)
		return -1;
	contexts_init(&x->contexts, o->dir);
	x->agent_port = o->agent_port;
	if (language_installed(language_find("javascript")) && context_announce(&x->contexts, "javascript", e) < 0)
		return -1;
	warm_up(x, o->warm);            /* before the port answers: the first cell finds its kernel */
	fd = h1_listen_loopback(o->port, e);
	if (fd < 0 || h1_server_start(fd, &http, interpreter_handle, x, &server, e) < 0)
		return -1;
	for (;;)
		pause();
}

/* The work is done in a child, so that whoever kills it (a cell may) finds it back a moment later. Returns in the child, which ends
 * with its parent. */
static void supervise(void)
{
	const struct timespec pause_before = { 0, 200 * 1000000 };

	for (;;) {
		const pid_t parent = getpid();
		pid_t pid = fork();
		int status = 0;

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				exit(1);
			return;
		}
		while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		if (pid > 0 && WIFEXITED(status))
			exit(WEXITSTATUS(status));
		log_error("%s", pid < 0 ? strerror(errno) : strsignal(WTERMSIG(status)));
		nanosleep(&pause_before, NULL);
	}
}

int main(int argc, char **argv)
{
	static struct interpreter x;
	struct opts opts;
	struct err e = { 0 };
	int status;

	log_init("hutch-interpreter");
	status = take_options(argc, argv, &opts);
	if (status >= 0)
		return status;
	set_process();
	supervise();
	if (run(&x, &opts, &e) < 0)
		log_error("%s", e.text);
	return 1;
}
