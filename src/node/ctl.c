#include "config.h"

#include "ctl.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hutch/json.h"
#include "hutch/when.h"

#define ANSWER_MAX 4096

int ctl_connect(int dir, const char *machine, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	/* by descriptor, so that a long state directory does not matter */
	snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", dir, machine);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "control socket");
	if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		err_sys(e, "control socket of %s", machine);
		close(fd);
		return -1;
	}
	return fd;
}

static int wait_for(int fd, short events, int64_t until_us, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = events };
	int64_t left = until_us - boot_us();
	int n = left > 0 ? poll(&p, 1, (int)(left / US_PER_MS) + 1) : 0;

	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "the sandbox's agent does not answer");
	if (n < 0 && errno != EINTR)
		return err_sys(e, "control socket");
	return 0;
}

static int send_all(int fd, struct iovec *v, int pass_fd, int64_t until_us, struct err *e)
{
	union { struct cmsghdr h; char b[CMSG_SPACE(sizeof(int))]; } control = { .b = { 0 } };
	size_t i = 0;

	while (i < 2) {
		struct msghdr m = { .msg_iov = &v[i], .msg_iovlen = 2 - i };
		ssize_t n;

		if (pass_fd >= 0) {
			m.msg_control = control.b;
			m.msg_controllen = CMSG_SPACE(sizeof(int));
			control.h.cmsg_level = SOL_SOCKET;
			control.h.cmsg_type = SCM_RIGHTS;
			control.h.cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(&control.h), &pass_fd, sizeof pass_fd);
		}
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, "control socket");
		if (n < 0 && wait_for(fd, POLLOUT, until_us, e) < 0)
			return -1;
		if (n >= 0)
			pass_fd = -1;
		for (; n > 0 && i < 2; i++) {
			size_t part = (size_t)n < v[i].iov_len ? (size_t)n : v[i].iov_len;

			v[i].iov_base = (char *)v[i].iov_base + part;
			v[i].iov_len -= part;
			n -= (ssize_t)part;
			if (v[i].iov_len > 0)
				break;
		}
	}
	return 0;
}

/* One line into buf, without its newline. */
static int recv_line(int fd, char *buf, size_t max, int64_t until_us, struct err *e)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = recv(fd, buf + have, max - have, 0);
		char *nl;

		if (n == 0)
			return err_set(e, ERR_UNAVAILABLE, "the sandbox's agent closed the control connection");
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, "control socket");
		if (n < 0 && wait_for(fd, POLLIN, until_us, e) < 0)
			return -1;
		if (n < 0)
			continue;
		nl = memchr(buf + have, '\n', (size_t)n);
		have += (size_t)n;
		if (nl != NULL)
			return (int)(nl - buf);
		if (have == max)
			return err_set(e, ERR_INTERNAL, "the sandbox's agent answers too much");
	}
}

/* One exchange by way of answer, max bytes. *out is set when the answer says ok. */
static int exchange(int fd, struct iovec v[2], int pass_fd, int timeout_ms, char *answer, size_t max, json_object **out, struct err *e)
{
	int64_t until = boot_us() + timeout_ms * US_PER_MS;
	const char *why = "no reason given";
	json_object *o = NULL;
	bool ok = false;
	int len, status = 0;
	struct err ignored;

	if (v[0].iov_len >= CTL_LINE_MAX)
		return err_set(e, ERR_TOO_LARGE, "the message to the agent is over %d bytes", CTL_LINE_MAX);
	if (send_all(fd, v, pass_fd, until, e) < 0)
		return -1;
	len = recv_line(fd, answer, max, until, e);
	if (len < 0)
		return -1;
	if (json_read_object(answer, (size_t)len, &o, &ignored) < 0 || json_get_bool(o, "ok", &ok, &ignored) < 0)
		status = err_set(e, ERR_INTERNAL, "the sandbox's agent answers nonsense");
	else if (!ok) {
		json_get_str(o, "message", 256, &why, &ignored);
		status = err_set(e, ERR_INTERNAL, "the sandbox's agent refuses: %.256s", why);
	}
	if (status == 0)
		*out = o;
	else
		json_object_put(o);
	return status;
}

int ctl_call(int fd, const char *line, size_t n, int pass_fd, int timeout_ms, struct err *e)
{
	struct iovec v[2] = { { (void *)(uintptr_t)line, n }, { (void *)(uintptr_t)"\n", 1 } };
	json_object *out = NULL;
	char answer[ANSWER_MAX];

	if (exchange(fd, v, pass_fd, timeout_ms, answer, sizeof answer, &out, e) < 0)
		return -1;
	json_object_put(out);
	return 0;
}

int ctl_ask(int fd, const char *line, size_t n, int pass_fd, int timeout_ms, json_object **out, struct err *e)
{
	struct iovec v[2] = { { (void *)(uintptr_t)line, n }, { (void *)(uintptr_t)"\n", 1 } };
	char *answer = malloc(CTL_ANSWER_MAX);
	int status;

	if (answer == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	status = exchange(fd, v, pass_fd, timeout_ms, answer, CTL_ANSWER_MAX, out, e);
	free(answer);
	return status;
}

int ctl_ping(int fd, int timeout_ms, struct err *e)
{
	static const char ping[] = "{\"op\":\"ping\"}";

	return ctl_call(fd, ping, sizeof ping - 1, -1, timeout_ms, e);
}
