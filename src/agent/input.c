/* Writing to a process's standard input or terminal. */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/when.h"

#define LOOK_MS 200             /* how often a waiting writer looks whether the process has ended */

struct writer {
	struct procs *t;
	struct proc *p;
	int client_fd;
	int64_t deadline_us;
};

static int canceled(struct err *e)
{
	return rpc_fail(e, ERR_TIMEOUT, "canceled", "the client is gone");
}

/* Sleep until fd (-1: nothing) takes data; -1 if there is no point any more. */
static int wait_turn(const struct writer *w, int fd, int ms, struct err *e)
{
	struct pollfd fds[2] = { { .fd = w->client_fd, .events = POLLRDHUP }, { .fd = fd, .events = POLLOUT } };

	if (w->deadline_us != 0 && boot_us() >= w->deadline_us)
		return err_set(e, ERR_TIMEOUT, "context deadline exceeded");
	if (poll(fds, 2, ms) > 0 && fds[0].revents != 0)
		return canceled(e);
	return 0;
}

static int no_input(struct err *e)
{
	return err_set(e, ERR_INTERNAL, "stdin is not enabled or is closed");
}

/* One writer at a time, others wait their turn; the lock itself is never held over a wait. */
static int enter(const struct writer *w, struct err *e)
{
	for (;;) {
		int rc = 0;
		bool mine = false;

		pthread_mutex_lock(&w->t->lock);
		if (w->p->in < 0 || w->p->in_closed)
			rc = no_input(e);
		else if (!w->p->in_busy)
			mine = w->p->in_busy = true;
		pthread_mutex_unlock(&w->t->lock);
		if (rc < 0 || mine)
			return rc;
		if (wait_turn(w, -1, 10, e) < 0)
			return -1;
	}
}

static void leave(const struct writer *w)
{
	pthread_mutex_lock(&w->t->lock);
	w->p->in_busy = false;
	if (w->p->in_closed)
		proc_close_in(w->p);
	pthread_mutex_unlock(&w->t->lock);
}

static bool over(const struct writer *w)
{
	bool ended;

	pthread_mutex_lock(&w->t->lock);
	ended = w->p->ended;
	pthread_mutex_unlock(&w->t->lock);
	return ended;
}

static int write_all(const struct writer *w, const char *data, size_t n, struct err *e)
{
	while (n > 0) {
		ssize_t done = write(w->p->in, data, n);

		if (done >= 0) {
			data += done;
			n -= (size_t)done;
		} else if (errno == EAGAIN) {
			if (over(w))
				return no_input(e);
			if (wait_turn(w, w->p->in, LOOK_MS, e) < 0)
				return -1;
		} else if (errno != EINTR) {
			return err_sys(e, "writing the input of pid %d", (int)w->p->pid);
		}
	}
	return 0;
}

/* The bytes field of a ProcessInput; 1 with the data, 0 absent, -1. */
static int decode(json_object *input, const char *key, struct buf *out, struct err *e)
{
	json_object *v = NULL;

	if (!json_object_object_get_ex(input, key, &v) || v == NULL)
		return 0;
	if (!json_object_is_type(v, json_type_string) ||
	    base64_decode(out, json_object_get_string(v), (size_t)json_object_get_string_len(v)) < 0)
		return err_set(e, ERR_INVALID, "input.%s must be a base64 string", key);
	return 1;
}

int input_write(struct procs *t, struct proc *p, json_object *request, int client_fd, int64_t deadline_us, struct err *e)
{
	struct writer w = { .t = t, .p = p, .client_fd = client_fd, .deadline_us = deadline_us };
	json_object *input = NULL;
	struct buf data;
	int is_stdin, is_pty = 0, rc;

	if (json_get_obj(request, "input", &input, e) < 0)
		return -1;
	buf_init(&data, RPC_BODY_MAX);
	is_stdin = input != NULL ? decode(input, "stdin", &data, e) : 0;
	if (is_stdin == 0 && input != NULL)
		is_pty = decode(input, "pty", &data, e);
	if (is_stdin < 0 || is_pty < 0)
		rc = -1;
	else if (!is_stdin && !is_pty)
		rc = rpc_fail(e, ERR_INVALID, "unimplemented", "input is neither stdin nor pty");
	else if (is_stdin && p->pty)
		rc = err_set(e, ERR_INTERNAL, "the process has a terminal: input goes to the pty, not to stdin");
	else if (is_pty && !p->pty)
		rc = err_set(e, ERR_INTERNAL, "the process has no terminal");
	else
		rc = enter(&w, e);
	if (rc == 0) {
		rc = write_all(&w, buf_str(&data), data.len, e);
		leave(&w);
	}
	buf_release(&data);
	return rc;
}
