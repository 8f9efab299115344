#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "files_client.h"

struct served *serve_start(void)
{
	struct served *s = calloc(1, sizeof *s);
	struct passwd *pw = getpwuid(getuid());
	struct err e = { 0 };

	assert_non_null(s);
	assert_non_null(pw);
	umask(022);
	strcpy(s->dir, "/tmp/hutch-files-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->socket, sizeof s->socket, "%s.sock", s->dir);
	assert_int_equal(agent_init(&s->agent, pw->pw_name, &e), 0);
	free(s->agent.default_workdir);
	s->agent.default_workdir = strdup(s->dir);
	watch_init(&s->agent);
	s->listen_fd = h1_listen_unix(s->socket, 0600, -1, &e);
	assert_true(s->listen_fd >= 0);
	assert_int_equal(h1_server_start(s->listen_fd, &(struct h1_server_opts){ 0 }, agent_handle, &s->agent, &s->server, &e), 0);
	return s;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* The agent itself stays: connections that end have no waiter. */
void serve_stop(struct served *s)
{
	h1_server_stop(s->server);
	close(s->listen_fd);
	unlink(s->socket);
	nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int dial(const struct served *s)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, s->socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return fd;
}

void put_all(int fd, const void *p, size_t n)
{
	while (n > 0) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k < 0)
			return;         /* answered early and closed: the answer tells */
		p = (const char *)p + k;
		n -= (size_t)k;
	}
}

void send_request(int fd, const char *method, const char *target, const char *fields, const void *body, size_t n)
{
	char length[64] = "";
	struct buf b;

	buf_init(&b, 1 << 20);
	if (body != NULL)
		snprintf(length, sizeof length, "Content-Length: %zu\r\n", n);
	buf_addf(&b, "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s%s\r\n", method, target, length, fields);
	put_all(fd, b.p, b.len);
	if (body != NULL)
		put_all(fd, body, n);
	buf_release(&b);
}

const char *answer_field(const struct answer *a, const char *name)
{
	static char value[4096];
	size_t n = strlen(name);

	for (const char *line = strstr(a->head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
			snprintf(value, sizeof value, "%.*s", (int)strcspn(line + n + 2, "\r"), line + n + 2);
			return value;
		}
	}
	return NULL;
}

static void dechunk(struct answer *a)
{
	char *p = a->body.p, *end = p + a->body.len;
	struct buf out;

	buf_init(&out, a->body.max);
	a->cut = true;
	while (p != NULL && p < end) {
		char *data = memmem(p, (size_t)(end - p), "\r\n", 2);
		size_t n = strtoul(p, NULL, 16);

		if (data == NULL || data + 2 + n + 2 > end)
			break;
		if (n == 0) {
			a->cut = false;
			break;
		}
		buf_add(&out, data + 2, n);
		p = data + 2 + n + 2;
	}
	buf_release(&a->body);
	a->body = out;
}

void read_answer(int fd, struct answer *a)
{
	char *room, *end = NULL;
	size_t head = 0;
	ssize_t n;

	memset(a, 0, sizeof *a);
	buf_init(&a->body, 512 << 20);
	while ((room = buf_room(&a->body, 65536)) != NULL && (n = recv(fd, room, 65536, 0)) > 0) {
		a->body.len += (size_t)n;
		a->body.p[a->body.len] = '\0';
	}
	close(fd);
	if (a->body.len != 0)
		end = memmem(a->body.p, a->body.len, "\r\n\r\n", 4);
	if (end != NULL) {
		head = (size_t)(end - a->body.p) + 4;
		assert_true(head < sizeof a->head);
		memcpy(a->head, a->body.p, head);
		assert_int_equal(sscanf(a->head, "HTTP/1.1 %d", &a->status), 1);
		buf_cut(&a->body, head);
	}
	if (answer_field(a, "Transfer-Encoding") != NULL)
		dechunk(a);
	else if (answer_field(a, "Content-Length") != NULL)
		a->cut = strtoul(answer_field(a, "Content-Length"), NULL, 10) != a->body.len;
}

void call(const struct served *s, struct answer *a, const char *method, const char *target, const char *fields,
	  const void *body, size_t n)
{
	int fd = dial(s);

	send_request(fd, method, target, fields, body, n);
	read_answer(fd, a);
}

int rpc(const struct served *s, const char *method, const char *json, json_object **out)
{
	struct answer *a = malloc(sizeof *a);
	char target[128];
	struct err e = { 0 };
	int status;

	snprintf(target, sizeof target, "/filesystem.Filesystem/%s", method);
	call(s, a, "POST", target, "Content-Type: application/json\r\n", json, strlen(json));
	status = a->status;
	assert_int_equal(json_read_object(buf_str(&a->body), a->body.len, out, &e), 0);
	answer_release(a);
	free(a);
	return status;
}

void answer_release(struct answer *a)
{
	buf_release(&a->body);
}

const char *at(json_object *o, const char *path)
{
	static char text[4][4096];
	static int turn;
	char key[256], *out = text[turn++ % 4];

	while (*path != '\0' && o != NULL) {
		size_t n = strcspn(path, ".");
		json_object *v = NULL;

		snprintf(key, sizeof key, "%.*s", (int)n, path);
		if (json_object_is_type(o, json_type_array))
			v = json_object_array_get_idx(o, (size_t)atoi(key));
		else if (!json_object_object_get_ex(o, key, &v))
			v = NULL;
		o = v;
		path += n + (path[n] == '.');
	}
	snprintf(out, sizeof text[0], "%s", o != NULL ? json_object_get_string(o) : "");
	return out;
}

const char *in_dir(const struct served *s, const char *name)
{
	static char text[4][PATH_MAX];
	static int turn;
	char *out = text[turn++ % 4];

	snprintf(out, sizeof text[0], "%s/%s", s->dir, name);
	return out;
}

void write_file(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	close(fd);
}

size_t read_file(const char *path, char *p, size_t max)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, p, max - 1);
	assert_true(n >= 0);
	p[n] = '\0';
	close(fd);
	return (size_t)n;
}
