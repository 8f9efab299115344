#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "conn.h"
#include "hutch/when.h"

#define SKIP_STALL_S 2
#define SKIP_TOTAL_US (10 * US_PER_S)

void conn_body_start(struct conn *c)
{
	c->left = c->head.length > 0 ? c->head.length : 0;
	c->body = c->head.chunked ? BODY_CHUNKED : c->left > 0 ? BODY_LENGTH : BODY_DONE;
	chunked_init(&c->chunked);
	c->continue_due = c->head.expect_continue && c->body != BODY_DONE;
}

static ssize_t broken(struct conn *c)
{
	c->body = BODY_BROKEN;
	c->close_after = true;
	return -1;
}

static size_t take_rest(struct conn *c, void *p, size_t n)
{
	if (n > c->rest_n)
		n = c->rest_n;
	memcpy(p, c->rest, n);
	c->rest += n;
	c->rest_n -= n;
	return n;
}

/* Receive into p and, beyond its n bytes, into the read-ahead buffer. Bytes for p, or -1. */
static ssize_t receive(struct conn *c, void *p, size_t n, bool ahead)
{
	struct iovec iov[2] = { { p, n }, { c->frame, sizeof c->frame } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = ahead ? 2 : 1 };
	ssize_t got;

	do
		got = recvmsg(c->fd, &m, 0);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return -1;                            /* gone, or silent for longer than SO_RCVTIMEO */
	if ((size_t)got <= n)
		return got;
	c->rest = c->frame;
	c->rest_n = (size_t)got - n;
	return (ssize_t)n;
}

static ssize_t read_length(struct conn *c, void *p, size_t n)
{
	ssize_t got;

	if ((int64_t)n > c->left || n > INT64_MAX)
		n = (size_t)c->left;
	got = c->rest_n != 0 ? (ssize_t)take_rest(c, p, n) : receive(c, p, n, false);
	if (got < 0)
		return broken(c);
	c->left -= got;
	if (c->left == 0)
		c->body = BODY_DONE;
	return got;
}

/* Get past framing bytes: 1 payload follows, 0 end of the body, -1 broken. */
static int next_chunk(struct conn *c)
{
	while (chunked_payload(&c->chunked) == 0 && !chunked_done(&c->chunked)) {
		ssize_t used;

		if (c->rest_n == 0 && receive(c, NULL, 0, true) < 0)
			return -1;
		used = chunked_frame(&c->chunked, c->rest, c->rest_n);
		if (used < 0)
			return -1;
		c->rest += used;
		c->rest_n -= (size_t)used;
	}
	return !chunked_done(&c->chunked);
}

static ssize_t read_chunked(struct conn *c, void *p, size_t n)
{
	uint64_t payload;
	ssize_t got;
	int rc = next_chunk(c);

	if (rc < 0)
		return broken(c);
	if (rc == 0) {
		c->body = BODY_DONE;
		return 0;
	}
	payload = chunked_payload(&c->chunked);
	if (n > payload)
		n = (size_t)payload;
	if (c->rest_n != 0)
		got = (ssize_t)take_rest(c, p, n);
	else
		got = receive(c, p, n, n == payload);
	if (got < 0)
		return broken(c);
	chunked_took(&c->chunked, (uint64_t)got);
	return got;
}

static int send_continue(struct conn *c)
{
	static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct iovec iov = { (void *)(uintptr_t)line, sizeof line - 1 };

	c->continue_due = false;
	return c->reply == REPLY_NONE ? conn_send(c, &iov, 1) : 0;
}

ssize_t h1_read(struct h1_req *r, void *p, size_t n)
{
	struct conn *c = r->conn;

	if (c->body == BODY_DONE)
		return 0;
	if (c->body == BODY_BROKEN)
		return -1;
	if (n == 0)
		return 0;
	if (c->continue_due && send_continue(c) < 0)
		return broken(c);
	return c->body == BODY_LENGTH ? read_length(c, p, n) : read_chunked(c, p, n);
}

int h1_read_all(struct h1_req *r, struct buf *b, struct err *e)
{
	struct conn *c = r->conn;
	ssize_t got;

	if (c->body == BODY_LENGTH && (uint64_t)c->left > b->max - b->len)
		return err_set(e, ERR_TOO_LARGE, "body is over %zu bytes", b->max);
	do {
		/* one byte more than may come, so that a body of exactly the maximum is seen to end there */
		size_t room = b->max - b->len < 16384 ? b->max - b->len : 16384;
		char spill, *to = room != 0 ? buf_room(b, room) : &spill;

		if (to == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		got = h1_read(r, to, room != 0 ? room : 1);
		if (got > 0 && room == 0)
			return err_set(e, ERR_TOO_LARGE, "body is over %zu bytes", b->max);
		if (got > 0)
			b->len += (size_t)got;
	} while (got > 0);
	if (b->p != NULL)
		b->p[b->len] = '\0';
	return got < 0 ? err_set(e, ERR_INVALID, "request body is malformed or incomplete") : 0;
}

static void set_receive_timeout(const struct conn *c, int seconds)
{
	struct timeval tv = { .tv_sec = seconds };

	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
}

static bool reaches_end(struct conn *c)
{
	int64_t until = boot_us() + SKIP_TOTAL_US;
	char scrap[4096];
	size_t total = 0;
	ssize_t got = 1;

	while (total <= H1_SKIP_MAX && boot_us() < until && (got = h1_read(&c->req, scrap, sizeof scrap)) > 0)
		total += (size_t)got;
	return got == 0;
}

void conn_skip(struct conn *c)
{
	bool end;

	if (c->body == BODY_DONE || c->body == BODY_BROKEN)
		return;
	if (c->continue_due || (c->body == BODY_LENGTH && c->left > H1_SKIP_MAX)) {
		broken(c);
		return;
	}
	set_receive_timeout(c, SKIP_STALL_S);
	end = reaches_end(c);
	set_receive_timeout(c, c->server->opts.body_timeout_s);
	if (!end)
		broken(c);
}

void conn_linger(struct conn *c)
{
	int64_t until = boot_us() + SKIP_TOTAL_US;
	char scrap[4096];

	set_receive_timeout(c, SKIP_STALL_S);
	shutdown(c->fd, SHUT_WR);
	while (boot_us() < until && recv(c->fd, scrap, sizeof scrap, 0) > 0)
		;
}
