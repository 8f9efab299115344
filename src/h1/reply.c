#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conn.h"
#include "hutch/json.h"

/* No Date field: a web server always stands in front and stamps the answer itself. */

#define TEXT(s) ((struct iovec){ (void *)(uintptr_t)(s), strlen(s) })

static int gone(struct conn *c)
{
	c->reply = REPLY_BROKEN;
	c->close_after = true;
	return -1;
}

/* Send all of iov (which is used up on the way). A client that takes nothing for SO_SNDTIMEO counts as gone. */
int conn_send(struct conn *c, struct iovec *iov, int n)
{
	while (n > 0) {
		struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)n };
		ssize_t sent = sendmsg(c->fd, &m, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return gone(c);
		while (n > 0 && (size_t)sent >= iov->iov_len) {
			sent -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + sent;
			iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

enum framing { BY_LENGTH, BY_CHUNKS, BY_CLOSE, NO_BODY };

/* The framing and connection lines, for status line and all up to `extra`. */
static int head_text(struct conn *c, char *out, size_t max, int status, enum framing framing, int64_t length)
{
	int n = snprintf(out, max, "HTTP/1.1 %d %s\r\n", status, h1_reason(status));

	if (framing == BY_LENGTH)
		n += snprintf(out + n, max - (size_t)n, "Content-Length: %lld\r\n", (long long)length);
	else if (framing == BY_CHUNKS)
		n += snprintf(out + n, max - (size_t)n, "Transfer-Encoding: chunked\r\n");
	if (c->close_after)
		n += snprintf(out + n, max - (size_t)n, "Connection: close\r\n");
	else if (c->head.minor == 0)
		n += snprintf(out + n, max - (size_t)n, "Connection: keep-alive\r\n");
	return n;
}

/* Send the head and, in the same call, the first n bytes of body. */
static int send_head(struct conn *c, int status, const char *type, const char *extra, enum framing framing, int64_t length,
		     const void *body, size_t n)
{
	char text[256], size[24];
	struct iovec iov[10];
	int k = 0, len;

	if (c->reply != REPLY_NONE)
		return -1;
	/* The body of a client that still waits for 100 Continue may come or not: nothing can follow on this connection. */
	if (!c->head.keep_alive || c->continue_due || c->body == BODY_BROKEN || framing == BY_CLOSE || atomic_load(&c->server->stopping))
		c->close_after = true;
	len = head_text(c, text, sizeof text, status, framing, length);
	iov[k++] = (struct iovec){ text, (size_t)len };
	if (type != NULL && *type != '\0') {
		iov[k++] = TEXT("Content-Type: ");
		iov[k++] = TEXT(type);
		iov[k++] = TEXT("\r\n");
	}
	if (extra != NULL)
		iov[k++] = TEXT(extra);
	if (c->req.common != NULL)
		iov[k++] = TEXT(c->req.common);
	iov[k++] = TEXT("\r\n");
	if (n != 0 && !c->head_only) {
		if (framing == BY_CHUNKS)
			iov[k++] = (struct iovec){ size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n) };
		iov[k++] = (struct iovec){ (void *)(uintptr_t)body, n };
		if (framing == BY_CHUNKS)
			iov[k++] = TEXT("\r\n");
	}
	c->reply = REPLY_STREAM;
	return conn_send(c, iov, k);
}

static bool bodiless(int status)
{
	return status == 204 || status == 304;
}

int h1_reply(struct h1_req *r, int status, const char *type, const char *extra, const void *body, size_t n)
{
	struct conn *c = r->conn;
	bool none = bodiless(status);

	conn_skip(c);
	if (send_head(c, status, none ? NULL : type, extra, none ? NO_BODY : BY_LENGTH, (int64_t)n, body, none ? 0 : n) < 0)
		return -1;
	c->reply = REPLY_DONE;
	return 0;
}

int h1_reply_error(struct h1_req *r, int status, const char *message)
{
	struct buf b;
	struct jw w;
	int rc;

	buf_init(&b, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "code", status);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
	rc = h1_reply(r, status, "application/json", NULL, buf_str(&b), buf_failed(&b) ? 0 : b.len);
	buf_release(&b);
	return rc;
}

int h1_begin_with(struct h1_req *r, int status, const char *type, const char *extra, const void *p, size_t n)
{
	struct conn *c = r->conn;
	enum framing framing = bodiless(status) ? NO_BODY : c->head.minor == 1 ? BY_CHUNKS : BY_CLOSE;

	if (framing == NO_BODY)
		c->head_only = true;
	c->chunk_reply = framing == BY_CHUNKS;
	return send_head(c, status, type, extra, framing, 0, p, n);
}

int h1_begin(struct h1_req *r, int status, const char *type, const char *extra)
{
	return h1_begin_with(r, status, type, extra, NULL, 0);
}

/* A chunk of n bytes (none if 0) and, if it is the last, the end; in one call. */
static int send_chunk(struct conn *c, const void *p, size_t n, bool last)
{
	struct iovec iov[4];
	char size[24];
	int k = 0;

	if (c->reply != REPLY_STREAM)
		return -1;
	if (c->head_only)
		return 0;
	if (n != 0) {                                 /* a chunk of size 0 would end the body */
		if (c->chunk_reply)
			iov[k++] = (struct iovec){ size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n) };
		iov[k++] = (struct iovec){ (void *)(uintptr_t)p, n };
		if (c->chunk_reply)
			iov[k++] = TEXT("\r\n");
	}
	if (last && c->chunk_reply)
		iov[k++] = TEXT("0\r\n\r\n");
	return conn_send(c, iov, k);
}

int h1_write(struct h1_req *r, const void *p, size_t n)
{
	return send_chunk(r->conn, p, n, false);
}

int h1_end_with(struct h1_req *r, const void *p, size_t n)
{
	struct conn *c = r->conn;

	if (send_chunk(c, p, n, true) < 0)
		return -1;
	c->reply = REPLY_DONE;
	return 0;
}

int h1_end(struct h1_req *r)
{
	return h1_end_with(r, NULL, 0);
}

void h1_abort(struct h1_req *r)
{
	struct conn *c = r->conn;
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int domain = AF_UNIX;
	socklen_t n = sizeof domain;

	gone(c);
	c->body = BODY_BROKEN;
	getsockopt(c->fd, SOL_SOCKET, SO_DOMAIN, &domain, &n);
	if (domain == AF_UNIX)
		shutdown(c->fd, SHUT_RDWR);
	else    /* a shutdown would send FIN, a clean end to HTTP/1.0 clients; the close after the handler sends RST */
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

/* For files that sendfile(2) cannot take. */
static int copy_file(struct conn *c, int fd, int64_t offset, int64_t size)
{
	size_t cap = 65536;
	char *p = malloc(cap);
	int rc = p != NULL ? 0 : -1;

	while (size > 0 && rc == 0) {
		ssize_t got = pread(fd, p, size < (int64_t)cap ? (size_t)size : cap, offset);
		struct iovec iov = { p, got > 0 ? (size_t)got : 0 };

		if (got < 0 && errno == EINTR)
			continue;
		rc = got > 0 ? conn_send(c, &iov, 1) : -1;
		offset += got;
		size -= got;
	}
	free(p);
	return rc;
}

static int send_file(struct conn *c, int fd, int64_t offset, int64_t size)
{
	off_t at = offset;

	while (size > 0) {
		ssize_t sent = sendfile(c->fd, fd, &at, size < 1 << 30 ? (size_t)size : 1 << 30);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EINVAL || errno == ENOSYS) && at == offset)
			return copy_file(c, fd, offset, size);
		if (sent <= 0)                        /* 0: the file got shorter than promised */
			return -1;
		size -= sent;
	}
	return 0;
}

int h1_reply_file(struct h1_req *r, int status, const char *type, const char *extra, int fd, int64_t offset, int64_t size)
{
	struct conn *c = r->conn;

	conn_skip(c);
	if (send_head(c, status, type, extra, BY_LENGTH, size, NULL, 0) < 0)
		return -1;
	if (!c->head_only && send_file(c, fd, offset, size) < 0) {
		h1_abort(r);
		return -1;
	}
	c->reply = REPLY_DONE;
	return 0;
}

bool h1_replied(const struct h1_req *r)
{
	const struct conn *c = r->conn;

	return c->reply != REPLY_NONE;
}

/* A reply before or without a handler; the connection ends after it. */
int conn_error(struct conn *c, int status, const char *message)
{
	c->close_after = true;
	return h1_reply_error(&c->req, status, message);
}

const char *h1_reason(int status)
{
	static const struct { int status; const char *text; } table[] = {
		{ 100, "Continue" }, { 101, "Switching Protocols" }, { 200, "OK" }, { 201, "Created" }, { 202, "Accepted" },
		{ 204, "No Content" }, { 206, "Partial Content" }, { 301, "Moved Permanently" }, { 302, "Found" },
		{ 304, "Not Modified" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
		{ 404, "Not Found" }, { 405, "Method Not Allowed" }, { 406, "Not Acceptable" }, { 408, "Request Timeout" },
		{ 409, "Conflict" }, { 410, "Gone" }, { 411, "Length Required" }, { 412, "Precondition Failed" },
		{ 413, "Content Too Large" }, { 414, "URI Too Long" }, { 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" }, { 417, "Expectation Failed" }, { 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" }, { 499, "Client Closed Request" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 502, "Bad Gateway" },
		{ 503, "Service Unavailable" }, { 504, "Gateway Timeout" }, { 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].status == status)
			return table[i].text;
	return "Unknown";
}
