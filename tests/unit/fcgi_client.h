/*
 * fcgi_client.h - a web server's side of FastCGI (version 1.0), for tests: build the records of one request, send them whole
 * or in parts, collect what comes back.
 */
#ifndef HUTCH_FCGI_CLIENT_H
#define HUTCH_FCGI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "hutch/buf.h"

enum { FCGI_BEGIN = 1, FCGI_ABORT, FCGI_END, FCGI_PARAMS, FCGI_STDIN, FCGI_STDOUT };

static inline void fcgi_record(struct buf *b, int type, const void *p, size_t n)
{
	const unsigned char *from = p;

	do {
		size_t part = n > 65535 ? 65535 : n;
		unsigned char head[8] = { 1, (unsigned char)type, 0, 1, (unsigned char)(part >> 8), (unsigned char)part, 0, 0 };

		buf_add(b, head, sizeof head);
		buf_add(b, from, part);
		from += part;
		n -= part;
	} while (n > 0);
}

static inline void fcgi_length(struct buf *b, size_t n)
{
	unsigned char four[4] = { (unsigned char)(n >> 24 | 0x80), (unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n };

	if (n < 128)
		buf_addc(b, (char)n);
	else
		buf_add(b, four, 4);
}

/* Begin and parameters: env is name, value, ..., NULL. */
static inline void fcgi_begin(struct buf *b, const char *const *env, bool keep)
{
	unsigned char begin[8] = { 0, 1, keep, 0, 0, 0, 0, 0 };
	struct buf params;

	fcgi_record(b, FCGI_BEGIN, begin, sizeof begin);
	buf_init(&params, 1 << 20);
	for (; *env != NULL; env += 2) {
		fcgi_length(&params, strlen(env[0]));
		fcgi_length(&params, strlen(env[1]));
		buf_adds(&params, env[0]);
		buf_adds(&params, env[1]);
	}
	fcgi_record(b, FCGI_PARAMS, buf_str(&params), params.len);
	fcgi_record(b, FCGI_PARAMS, "", 0);
	buf_release(&params);
}

static inline int fcgi_connect(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(a.sun_path, path, sizeof a.sun_path - 1);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline bool fcgi_send(int fd, const struct buf *b)
{
	for (size_t at = 0; at < b->len;) {
		ssize_t n = send(fd, b->p + at, b->len - at, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* Connected, and the records sent; -1: it cannot be had. */
static inline int fcgi_open(const char *path, const struct buf *b)
{
	int fd = fcgi_connect(path);

	if (fd >= 0 && !fcgi_send(fd, b)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Everything until the other side closes; standard output of the program into out. true when the request was ended properly, and the connection not
 * reset. */
static inline bool fcgi_answer(int fd, struct buf *out)
{
	struct buf raw;
	bool ended = false;
	size_t at = 0;
	ssize_t n = -1;

	buf_init(&raw, 1 << 24);
	while (buf_room(&raw, 65536) != NULL && (n = read(fd, raw.p + raw.len, 65536)) > 0)
		raw.len += (size_t)n;
	while (at + 8 <= raw.len) {
		const unsigned char *h = (const unsigned char *)raw.p + at;
		size_t len = (size_t)h[4] << 8 | h[5];

		if (at + 8 + len + h[6] > raw.len)
			break;
		if (h[1] == FCGI_STDOUT)
			buf_add(out, h + 8, len);
		ended = ended || h[1] == FCGI_END;
		at += 8 + len + h[6];
	}
	buf_release(&raw);
	return ended && n == 0;
}

#endif
