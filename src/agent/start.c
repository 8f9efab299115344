/*
 * The template's start command: a program that every sandbox of the template runs from before it is claimed. It is no process of
 * the process service: clients neither list nor signal it. What it writes goes to LOG, of which the newest part is kept.
 */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "forward.h"
#include "hutch/log.h"
#include "hutch/envd.h"

#define LOG "/run/e2b/start.log"
#define LOG_BYTES (256 << 10)           /* beyond, it starts anew */
#define CONNECTIONS 64
#define IDLE_S 640

struct starter {
	int ready_port;                 /* 0: not waited for */
	int log;                        /* -1: what the command writes is dropped */
	int out[2];                     /* its output, -1 at the end */
	struct h1_server *server;
};

/* ---- its output ---- */

static void log_bytes(const struct starter *s, const char *p, size_t n)
{
	struct stat st;

	if (s->log < 0)
		return;
	if (fstat(s->log, &st) == 0 && st.st_size + (off_t)n > LOG_BYTES && ftruncate(s->log, 0) < 0)
		return;
	if (write(s->log, p, n) < 0)
		log_debug(LOG ": %s", strerror(errno));
}

static void take_output(struct starter *s, int which)
{
	char part[4096];
	ssize_t n = read(s->out[which], part, sizeof part);

	if (n > 0) {
		log_bytes(s, part, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(s->out[which]);
		s->out[which] = -1;
	}
}

static void *output_run(void *arg)
{
	struct starter *s = arg;

	while (s->out[0] >= 0 || s->out[1] >= 0) {
		struct pollfd p[2] = { { .fd = s->out[0], .events = POLLIN }, { .fd = s->out[1], .events = POLLIN } };

		if (poll(p, 2, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (p[i].revents != 0)
				take_output(s, i);
	}
	if (s->log >= 0)
		close(s->log);
	s->log = -1;
	return NULL;
}

/* ---- start ---- */

/* The request as the process service would read it. NULL: no command, or out of memory. */
static json_object *request_of(json_object *words)
{
	json_object *request = json_object_new_object(), *process = json_object_new_object(), *args = json_object_new_array();

	for (size_t i = 1; i < json_object_array_length(words); i++)
		json_object_array_add(args, json_object_get(json_object_array_get_idx(words, i)));
	json_object_object_add(process, "cmd", json_object_get(json_object_array_get_idx(words, 0)));
	json_object_object_add(process, "args", args);
	json_object_object_add(process, "cwd", json_object_new_string("/"));
	json_object_object_add(request, "process", process);
	json_object_object_add(request, "stdin", json_object_new_boolean(false));
	return request;
}

/* Root, as the agent is, in images without accounts too. */
static void root_user(struct user *u)
{
	struct err ignored;

	if (user_lookup("root", u, &ignored) == 0 && u->uid == geteuid())
		return;
	*u = (struct user){ .uid = geteuid(), .gid = getegid(), .name = "root", .home = "/root" };
}

static int launch_it(struct agent *a, struct starter *s, json_object *words, struct err *e)
{
	struct launch *l = malloc(sizeof *l);
	json_object *request = request_of(words);
	struct proc p = { .in = -1 };
	struct user root;
	int rc;

	if (l == NULL) {
		json_object_put(request);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	root_user(&root);
	rc = launch_read(a, &root, request, l, e);
	if (rc == 0) {
		l->spawn.session = true;
		pthread_mutex_lock(&a->procs->lock);    /* so that it is not reaped before it is known */
		rc = spawn_run(&l->spawn, &p, e);
		a->procs->start_pid = rc == 0 ? p.pid : 0;
		pthread_mutex_unlock(&a->procs->lock);
	}
	launch_release(l);
	free(l);
	json_object_put(request);
	if (rc < 0)
		return -1;
	s->out[0] = p.out[0].fd;
	s->out[1] = p.out[1].fd;
	return agent_thread(output_run, s, e);
}

/* Programs of the sandbox find the agent where E2B's stands. */
static int serve_loopback(struct agent *a, struct starter *s, struct err *e)
{
	const struct h1_server_opts http = { .max_connections = CONNECTIONS, .idle_timeout_s = IDLE_S };
	int fd = h1_listen_loopback(ENVD_PORT, e);

	return fd < 0 ? -1 : h1_server_start(fd, &http, agent_handle, a, &s->server, e);
}

int start_run(struct agent *a, json_object *in, struct err *e)
{
	json_object *words = NULL;
	int64_t port = 0;
	struct starter *s;
	int got = json_get_arr(in, "command", &words, e);

	if (got < 0 || json_get_int(in, "readyPort", 0, 65535, &port, e) < 0)
		return -1;
	if (got == 0 || json_object_array_length(words) == 0)
		return err_set(e, ERR_INVALID, "command is required");
	if (a->starter != NULL)
		return err_set(e, ERR_CONFLICT, "the start command runs already");
	s = calloc(1, sizeof *s);
	if (s == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	*s = (struct starter){ .ready_port = (int)port, .log = -1, .out = { -1, -1 } };
	if (getpid() == 1) {                    /* not on a host where the agent is tried out */
		s->log = open(LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (serve_loopback(a, s, e) < 0)
			log_warn("%s", e->text);
	}
	a->starter = s;
	return launch_it(a, s, words, e);
}

/* ---- ready ---- */

int start_ready(struct agent *a, struct err *e)
{
	int port = a->starter != NULL ? a->starter->ready_port : 0, fd;

	if (port == 0)
		return 0;
	fd = dial_loopback(port);
	if (fd < 0)
		return err_set(e, ERR_UNAVAILABLE, "nothing answers at port %d yet", port);
	close(fd);
	return 0;
}
