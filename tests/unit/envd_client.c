#include "config.h"

#include "envd_client.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/crypto.h"
#include "hutch/h1.h"
#include "hutch/json.h"

/* ---- the agent ---- */

static const char *path_in(const struct envd *v, const char *name)
{
	static _Thread_local char path[100];

	snprintf(path, sizeof path, "%s/%s", v->dir, name);
	return path;
}

static int listen_at(const struct envd *v, const char *name)
{
	struct err e = { 0 };
	int fd = h1_listen_unix(path_in(v, name), 0600, -1, &e);

	if (fd < 0)
		fail_msg("%s", e.text);
	return fd;
}

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = ENVD_PATIENCE_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return fd;
}

static void exec_agent(int listen_fd, int ctl_fd)
{
	const char *program = getenv("HUTCH_ENVD");
	struct passwd *pw = getpwuid(geteuid());
	char a[16], b[16];

	if (program == NULL)
		program = "./hutch-envd";
	fcntl(listen_fd, F_SETFD, 0);
	fcntl(ctl_fd, F_SETFD, 0);
	snprintf(a, sizeof a, "%d", listen_fd);
	snprintf(b, sizeof b, "%d", ctl_fd);
	execl(program, program, "--default-user", pw->pw_name, "--listen-fd", a, ctl_fd >= 0 ? "--ctl-fd" : NULL, b, NULL);
	fprintf(stderr, "%s: %s\n", program, strerror(errno));
	_exit(99);
}

void envd_start(struct envd *v, bool ctl)
{
	int listen_fd, ctl_fd;

	*v = (struct envd){ .ctl = -1 };
	strcpy(v->dir, "/tmp/hutch-envd-XXXXXX");
	assert_non_null(mkdtemp(v->dir));
	listen_fd = listen_at(v, "http");
	ctl_fd = ctl ? listen_at(v, "ctl") : -1;
	v->pid = fork();
	assert_true(v->pid >= 0);
	if (v->pid == 0)
		exec_agent(listen_fd, ctl_fd);
	close(listen_fd);
	if (ctl) {
		close(ctl_fd);
		v->ctl = dial(path_in(v, "ctl"));
	}
}

void envd_stop(struct envd *v)
{
	int status;

	if (v->ctl >= 0)
		close(v->ctl);
	kill(v->pid, SIGTERM);
	assert_int_equal(waitpid(v->pid, &status, 0), v->pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)        /* a crash or a sanitizer's report before */
		fail_msg("the agent ended with wait status %#x", status);
	unlink(path_in(v, "http"));
	unlink(path_in(v, "ctl"));
	rmdir(v->dir);
}

int envd_dial(const struct envd *v)
{
	return dial(path_in(v, "http"));
}

const char *envd_ctl(struct envd *v, const char *line, int fd)
{
	static char answer[4096];
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov[2] = { { (void *)(uintptr_t)line, strlen(line) }, { (void *)(uintptr_t)"\n", 1 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	size_t n = 0;

	if (fd >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		m.msg_control = control;
		m.msg_controllen = sizeof control;
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof fd);
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	assert_int_equal(sendmsg(v->ctl, &m, MSG_NOSIGNAL), (ssize_t)strlen(line) + 1);
	do {
		assert_int_equal(recv(v->ctl, answer + n, 1, 0), 1);
	} while (answer[n++] != '\n' && n < sizeof answer);
	answer[n - 1] = '\0';
	return answer;
}

/* ---- HTTP ---- */

static void put_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		assert_true(sent > 0);
		p += sent;
		n -= (size_t)sent;
	}
}

static void put_request(int fd, const char *method, const char *target, const char *fields, const void *body, size_t n)
{
	struct buf b;

	buf_init(&b, 1 << 26);
	buf_addf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", method, target, fields, n);
	buf_add(&b, body, n);
	assert_false(buf_failed(&b));
	put_all(fd, b.p, b.len);
	buf_release(&b);
}

static bool more(struct stream *s)
{
	ssize_t n;

	if (s->from == s->to)
		s->from = s->to = 0;
	assert_true(s->to < sizeof s->raw);
	n = recv(s->fd, s->raw + s->to, sizeof s->raw - s->to, 0);
	if (n < 0 && errno == EAGAIN)
		fail_msg("no answer within the time");
	if (n <= 0)
		return false;
	s->to += (size_t)n;
	return true;
}

/* A line with its end, which becomes a NUL; NULL: cut. */
static char *take_line(struct stream *s)
{
	for (;;) {
		char *end = memchr(s->raw + s->from, '\n', s->to - s->from), *line = s->raw + s->from;

		if (end != NULL) {
			s->from = (size_t)(end + 1 - s->raw);
			*end = '\0';
			return line;
		}
		if (!more(s))
			return NULL;
	}
}

static int take_head(struct stream *s, char *head, size_t max)
{
	size_t n = 0;
	char *line;

	while ((line = take_line(s)) != NULL && *line != '\r') {
		n += (size_t)snprintf(head + n, max - n, "%s\n", line);
		assert_true(n < max);
	}
	assert_non_null(line);
	assert_memory_equal(head, "HTTP/1.1 ", 9);
	return atoi(head + 9);
}

/* One byte of a chunked body; -1 at its end or when it is cut. */
static int take_byte(struct stream *s)
{
	if (s->ended || s->cut)
		return -1;
	if (s->chunk_left == 0) {
		char *line = take_line(s);

		s->chunk_left = line != NULL ? strtoul(line, NULL, 16) : 0;
		s->cut = line == NULL;
		if (s->chunk_left == 0) {
			s->ended = !s->cut && take_line(s) != NULL;
			return -1;
		}
	}
	if (s->from == s->to && !more(s)) {
		s->cut = true;
		return -1;
	}
	if (--s->chunk_left == 0) {
		int c = (unsigned char)s->raw[s->from++];

		s->cut = take_line(s) == NULL;
		return c;
	}
	return (unsigned char)s->raw[s->from++];
}

void envd_call_n(const struct envd *v, const char *method, const char *target, const char *fields, const void *body, size_t n,
		 struct answer *a)
{
	struct stream *s = calloc(1, sizeof *s);
	const char *length;

	assert_non_null(s);
	s->fd = envd_dial(v);
	buf_init(&a->body, 1 << 24);
	put_request(s->fd, method, target, fields, body, n);
	a->status = take_head(s, a->head, sizeof a->head);
	length = strstr(a->head, "Content-Length: ");
	if (strstr(a->head, "chunked") != NULL) {
		for (int c; (c = take_byte(s)) >= 0;)
			buf_addc(&a->body, (char)c);
		assert_true(s->ended);
	} else if (length != NULL) {
		for (long left = atol(length + 16); left > 0; left--) {
			if (s->from == s->to)
				assert_true(more(s));
			buf_addc(&a->body, s->raw[s->from++]);
		}
	}
	close(s->fd);
	free(s);
}

void envd_call(const struct envd *v, const char *method, const char *target, const char *fields, const char *body,
	       struct answer *a)
{
	envd_call_n(v, method, target, fields, body, strlen(body), a);
}

void envd_unary(const struct envd *v, const char *method, const char *json, struct answer *a)
{
	char target[128];

	snprintf(target, sizeof target, "/process.Process/%s", method);
	envd_call(v, "POST", target, "Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\n", json, a);
}

void answer_release(struct answer *a)
{
	buf_release(&a->body);
}

bool answer_has(const struct answer *a, const char *line)
{
	const char *at = strstr(a->head, line);

	return at != NULL && at[-1] == '\n' && at[strlen(line)] == '\r';
}

/* ---- streams ---- */

void stream_open(struct stream *s, const struct envd *v, const char *method, const char *fields, const char *json)
{
	char target[128], all[1024], head[4096];
	size_t n = strlen(json);
	unsigned char prefix[5] = { 0, (unsigned char)(n >> 24), (unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n };
	struct buf body;

	memset(s, 0, offsetof(struct stream, raw));
	s->from = s->to = s->chunk_left = 0;
	s->ended = s->cut = false;
	s->fd = envd_dial(v);
	buf_init(&s->message, 1 << 24);
	buf_init(&body, 1 << 25);
	buf_add(&body, prefix, sizeof prefix);
	buf_add(&body, json, n);
	snprintf(target, sizeof target, "/process.Process/%s", method);
	snprintf(all, sizeof all, "Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n%s", fields);
	put_request(s->fd, "POST", target, all, body.p, body.len);
	buf_release(&body);
	assert_int_equal(take_head(s, head, sizeof head), 200);
	assert_non_null(strstr(head, "Content-Type: application/connect+json\r\n"));
}

const char *stream_next_json(struct stream *s)
{
	unsigned char head[5];
	size_t n;

	for (int i = 0; i < 5; i++) {
		int c = take_byte(s);

		if (c < 0) {
			assert_int_equal(i, 0);
			return NULL;
		}
		head[i] = (unsigned char)c;
	}
	n = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
	s->flags = head[0];
	buf_reset(&s->message);
	for (size_t i = 0; i < n; i++) {
		int c = take_byte(s);

		assert_true(c >= 0);
		buf_addc(&s->message, (char)c);
	}
	return buf_str(&s->message);
}

void stream_close(struct stream *s)
{
	close(s->fd);
	buf_release(&s->message);
}

pid_t stream_started(struct stream *s)
{
	int pid = 0;
	const char *json = stream_next_json(s);

	assert_non_null(json);
	if (sscanf(json, "{\"event\":{\"start\":{\"pid\":%d}}}", &pid) != 1)
		fail_msg("expected a start event, not %s", json);
	return pid;
}

static void take_data(struct outcome *o, json_object *data)
{
	struct { const char *name; struct buf *to; } rows[] = { { "stdout", &o->out }, { "stderr", &o->err }, { "pty", &o->pty } };

	for (size_t i = 0; i < 3; i++) {
		json_object *v;

		if (json_object_object_get_ex(data, rows[i].name, &v))
			assert_int_equal(base64_decode(rows[i].to, json_object_get_string(v), strlen(json_object_get_string(v))), 0);
	}
}

void stream_outcome(struct stream *s, struct outcome *o)
{
	const char *json;

	memset(o, 0, sizeof *o);
	buf_init(&o->out, 1 << 24);
	buf_init(&o->err, 1 << 24);
	buf_init(&o->pty, 1 << 24);
	while ((json = stream_next_json(s)) != NULL) {
		json_object *msg = NULL, *event, *part;
		struct err e;

		assert_string_equal(o->last, "");               /* nothing after the end-stream envelope */
		if (s->flags == 2) {
			snprintf(o->last, sizeof o->last, "%s", json);
			continue;
		}
		assert_int_equal(s->flags, 0);
		assert_string_equal(o->end, "");
		assert_int_equal(json_read_object(json, strlen(json), &msg, &e), 0);
		event = json_object_object_get(msg, "event");
		assert_non_null(event);
		if (json_object_object_get_ex(event, "start", &part)) {
			assert_int_equal(o->pid, 0);
			o->pid = json_object_get_int(json_object_object_get(part, "pid"));
		} else if (json_object_object_get_ex(event, "data", &part)) {
			assert_int_not_equal(o->pid, 0);
			take_data(o, part);
		} else if (json_object_object_get_ex(event, "end", &part)) {
			snprintf(o->end, sizeof o->end, "%s", json_object_to_json_string_ext(part, JSON_C_TO_STRING_PLAIN));
		}
		json_object_put(msg);
	}
	assert_string_not_equal(o->last, "");
	assert_true(s->ended);
	stream_close(s);
}

void run_request(const struct envd *v, const char *fields, const char *json, struct outcome *o)
{
	static struct stream s;

	stream_open(&s, v, "Start", fields, json);
	stream_outcome(&s, o);
}

void run_script(const struct envd *v, const char *script, struct outcome *o)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 1 << 20);
	buf_adds(&b, "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",");
	jw_init(&w, &b);
	jw_str(&w, script);
	buf_adds(&b, "]},\"stdin\":false}");
	run_request(v, "", buf_str(&b), o);
	buf_release(&b);
}

void outcome_release(struct outcome *o)
{
	buf_release(&o->out);
	buf_release(&o->err);
	buf_release(&o->pty);
}
