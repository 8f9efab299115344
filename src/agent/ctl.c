/*
 * The control socket: the node's channel, trusted. One JSON object per line each way; a descriptor may come with a line.
 *   {"op":"init",...}                identity, see init_trusted
 *   {"op":"listen","port":N} + fd    serve this listener by connections to loopback:N; -> {"ok":true,"closed":M}: port M, which was of
 *                                    the least use, is served no more, since there are too many
 *   {"op":"cut"}                     end the connections of all clients: the sandbox will be paused
 *   {"op":"start","command":[...],"readyPort":N}   run the template's start command, once
 *   {"op":"ready"}                   ok once the start command is up
 *   {"op":"journal","after":US}      -> {"ok":true,"lines":[...]}: what the agent did after that time (journal.h)
 *   {"op":"ping"}                    -> {"ok":true,"version":"x.y.z"}
 * Answers {"ok":true} or {"ok":false,"message":"..."}. The node connects anew after its own restart.
 */
#include "config.h"

#include "agent.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/envd.h"

#define LINE_BYTES_MAX (1 << 20)
#define PEERS 8
#define STEP 4096
#define ANSWER_MAX (128 << 10)

struct peer {
	int fd;                 /* -1: free */
	int passed;             /* a descriptor that came and is not used yet, or -1 */
	struct buf in;
};

/* ---- one request ---- */

static int do_listen(struct agent *a, json_object *in, int *fd, struct jw *w, struct err *e)
{
	int64_t port = 0;
	int closed = 0, got = json_get_int(in, "port", 1, 65535, &port, e), listener = *fd;

	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(e, ERR_INVALID, "port is required");
	if (listener < 0)
		return err_set(e, ERR_INVALID, "no listening socket came with the request");
	if (a->forward == NULL)
		return err_set(e, ERR_UNAVAILABLE, "ports are not forwarded");
	*fd = -1;
	if (forward_add(a, (int)port, listener, &closed, e) < 0)
		return -1;
	if (closed != 0)
		jw_kint(w, "closed", closed);
	return 0;
}

static int do_journal(struct agent *a, json_object *in, struct jw *w, struct err *e)
{
	int64_t after = 0;

	if (json_get_int(in, "after", 0, INT64_MAX, &after, e) < 0)
		return -1;
	journal_write(&a->journal, after, w);
	return 0;
}

static int run(struct agent *a, json_object *in, int *fd, struct jw *w, struct err *e)
{
	const char *op;

	if (json_need_str(in, "op", 32, &op, e) < 0)
		return -1;
	if (strcmp(op, "init") == 0)
		return init_trusted(a, in, e);
	if (strcmp(op, "listen") == 0)
		return do_listen(a, in, fd, w, e);
	if (strcmp(op, "cut") == 0)
		return cut_clients(e);
	if (strcmp(op, "start") == 0)
		return start_run(a, in, e);
	if (strcmp(op, "ready") == 0)
		return start_ready(a, e);
	if (strcmp(op, "journal") == 0)
		return do_journal(a, in, w, e);
	if (strcmp(op, "ping") == 0) {
		jw_kstr(w, "version", ENVD_VERSION);
		return 0;
	}
	return err_set(e, ERR_INVALID, "op \"%s\" is unknown", op);
}

void ctl_line(struct agent *a, const char *line, size_t n, int fd, struct buf *out)
{
	struct buf extra;
	struct err e = { 0 };
	json_object *in = NULL;
	struct jw w, more;
	int rc;

	buf_init(&extra, ANSWER_MAX);
	jw_init(&more, &extra);
	more.comma = true;              /* follows "ok" */
	rc = json_read_object(line, n, &in, &e);
	if (rc == 0)
		rc = run(a, in, &fd, &more, &e);
	json_object_put(in);
	if (fd >= 0)
		close(fd);
	jw_init(&w, out);
	jw_open(&w, '{');
	jw_kbool(&w, "ok", rc == 0);
	if (rc < 0)
		jw_kstr(&w, "message", e.text);
	else
		buf_add(out, buf_str(&extra), extra.len);
	jw_close(&w, '}');
	buf_addc(out, '\n');
	buf_release(&extra);
}

/* ---- connections ---- */

static void peer_close(struct peer *p)
{
	close(p->fd);
	if (p->passed >= 0)
		close(p->passed);
	buf_release(&p->in);
	p->fd = p->passed = -1;
}

static int answer(struct agent *a, struct peer *p, const char *line, size_t n)
{
	struct buf out;
	int fd = p->passed, rc;

	p->passed = -1;
	buf_init(&out, ANSWER_MAX);
	ctl_line(a, line, n, fd, &out);
	rc = send(p->fd, buf_str(&out), out.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)out.len ? 0 : -1;
	buf_release(&out);
	return rc;
}

/* Keep the first descriptor, close what is too many. */
static void keep_passed(struct peer *p, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (p->passed < 0)
				p->passed = fd;
			else
				close(fd);
		}
	}
}

/* -1: the peer is gone or broke the rules. */
static int receive(struct peer *p)
{
	char control[CMSG_SPACE(4 * sizeof(int))] __attribute__((aligned(8)));
	char *room = buf_room(&p->in, STEP);
	struct iovec iov = { room, STEP };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
	ssize_t n;

	if (room == NULL) {
		log_warn("control: a line is longer than %d bytes", LINE_BYTES_MAX);
		return -1;
	}
	n = recvmsg(p->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	keep_passed(p, &m);
	p->in.len += (size_t)n;
	return n > 0 ? 0 : -1;
}

static int serve_lines(struct agent *a, struct peer *p)
{
	char *end;

	while (p->in.len > 0 && (end = memchr(p->in.p, '\n', p->in.len)) != NULL) {
		size_t n = (size_t)(end - p->in.p);

		if (answer(a, p, p->in.p, n) < 0)
			return -1;
		buf_cut(&p->in, n + 1);
	}
	if (p->in.len == 0)
		buf_release(&p->in);
	return 0;
}

static void welcome(struct peer peers[PEERS], int fd)
{
	for (int i = 0; i < PEERS; i++) {
		if (peers[i].fd >= 0)
			continue;
		peers[i].fd = fd;
		buf_init(&peers[i].in, LINE_BYTES_MAX + STEP);
		return;
	}
	log_warn("control: more than %d connections", PEERS);
	close(fd);
}

int ctl_serve(struct agent *a, int listen_fd, struct err *e)
{
	struct peer peers[PEERS];
	struct pollfd fds[PEERS + 1];

	for (int i = 0; i < PEERS; i++)
		peers[i] = (struct peer){ .fd = -1, .passed = -1 };
	for (;;) {
		for (int i = 0; i < PEERS; i++)
			fds[i] = (struct pollfd){ .fd = peers[i].fd, .events = POLLIN };
		fds[PEERS] = (struct pollfd){ .fd = listen_fd, .events = POLLIN };
		if (poll(fds, PEERS + 1, -1) < 0 && errno != EINTR)
			return err_sys(e, "poll");
		for (int i = 0; i < PEERS; i++)
			if (fds[i].fd >= 0 && fds[i].revents != 0 && (receive(&peers[i]) < 0 || serve_lines(a, &peers[i]) < 0))
				peer_close(&peers[i]);
		if (fds[PEERS].revents != 0) {
			int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0)
				welcome(peers, fd);
			else if (errno == EINVAL || errno == EBADF || errno == ENOTSOCK)
				return err_sys(e, "control socket");
		}
	}
}
