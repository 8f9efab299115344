#include "config.h"

#include "zmtp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hutch/when.h"

#define MORE 1
#define LONG 2
#define COMMAND 4
#define GREETING 64
#define STEP 65536
#define STEPS 16                         /* taken at a time: what is there is handled first */
#define BIG (1u << 20)                   /* a buffer that grew beyond gives its memory back */

/* ---- frames ---- */

/* Head of the frame at p: its length or 0 (incomplete), *flags and *size. -1: reserved bits. */
static int frame_head(const unsigned char *p, size_t n, unsigned *flags, uint64_t *size)
{
	if (n < 2)
		return 0;
	*flags = p[0];
	if ((*flags & ~(unsigned)(MORE | LONG | COMMAND)) != 0)
		return -1;
	if ((*flags & LONG) == 0) {
		*size = p[1];
		return 2;
	}
	if (n < 9)
		return 0;
	*size = 0;
	for (int i = 1; i < 9; i++)
		*size = *size << 8 | p[i];
	return 9;
}

ssize_t zmtp_parse(const char *p, size_t n, struct zmtp_msg *m, uint64_t *want)
{
	size_t at = 0;
	unsigned flags = MORE;

	m->n = 0;
	m->lost = 0;
	while (flags & MORE) {
		uint64_t size = 0;
		int head = frame_head((const unsigned char *)p + at, n - at, &flags, &size);

		if (head < 0 || m->n == ZMTP_FRAMES_MAX || ((flags & COMMAND) && (m->n > 0 || (flags & MORE))))
			return -1;
		*want = (uint64_t)at + (head > 0 ? (unsigned)head : 9);
		if (head == 0)
			return 0;
		if (size > UINT64_MAX - *want)
			return -1;
		*want += size;
		if (size > n - at - (size_t)head)
			return 0;
		if ((flags & COMMAND) == 0)
			m->frame[m->n++] = (struct span){ p + at + head, (size_t)size };
		at += (size_t)head + (size_t)size;
	}
	return (ssize_t)at;
}

/* ---- bytes ---- */

static int wait_for(int fd, short events, int64_t until_us, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = events };
	int64_t left = until_us - boot_us();
	int n = left > 0 ? poll(&p, 1, (int)(left / US_PER_MS) + 1) : 0;

	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "the kernel does not answer");
	return n < 0 && errno != EINTR ? err_sys(e, "poll") : 0;
}

static int send_all(struct zmtp *z, const void *p, size_t n, int64_t until, struct err *e)
{
	const char *at = p;

	while (n > 0) {
		ssize_t done = send(z->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return err_set(e, ERR_UNAVAILABLE, "the kernel's connection is lost: %s", strerror(errno));
		if (done < 0 && wait_for(z->fd, POLLOUT, until, e) < 0)
			return -1;
		if (done > 0) {
			at += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

int zmtp_send_raw(struct zmtp *z, const void *p, size_t n, int timeout_ms, struct err *e)
{
	return send_all(z, p, n, boot_us() + timeout_ms * US_PER_MS, e);
}

static void drop_skipped(struct zmtp *z)
{
	size_t n = z->skip < z->in.len ? (size_t)z->skip : z->in.len;

	buf_cut(&z->in, n);
	z->skip -= n;
}

/* Room for what comes; spans of the last message end here. */
static void compact(struct zmtp *z)
{
	buf_cut(&z->in, z->at);
	z->at = 0;
	if (z->in.len == 0 && z->in.cap > BIG)
		buf_release(&z->in);
}

int zmtp_fill(struct zmtp *z)
{
	compact(z);
	for (int i = 0; i < STEPS; i++) {
		char *room;
		ssize_t n;

		if (z->skip > 0)
			drop_skipped(z);
		room = buf_room(&z->in, STEP);
		if (room == NULL)
			return z->in.len > 0 ? 0 : -1;      /* full: whole messages wait in it */
		n = recv(z->fd, room, STEP, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		if (n == 0)
			return -1;
		z->in.len += (size_t)n;
		if (n < STEP)
			return 0;
	}
	return 0;
}

/* ---- messages ---- */

/* In a message that is too long: go to its end. True when it is reached. */
static int pass_skipped(struct zmtp *z)
{
	while (z->skipping) {
		unsigned flags = 0;
		uint64_t size = 0;
		int head;

		drop_skipped(z);
		if (z->skip > 0)
			return 0;
		if (!z->skip_more) {
			z->skipping = false;
			break;
		}
		head = frame_head((const unsigned char *)buf_str(&z->in), z->in.len, &flags, &size);
		if (head <= 0)
			return head;
		buf_cut(&z->in, (size_t)head);
		z->skip = size;
		z->skip_more = (flags & MORE) != 0;
	}
	return 1;
}

/* The frames before the one that is too long are told now; the rest goes by. */
static int begin_skip(struct zmtp *z, struct zmtp_msg *m)
{
	const char *p = buf_str(&z->in);
	size_t at = m->n > 0 ? (size_t)(m->frame[m->n - 1].p + m->frame[m->n - 1].n - p) : 0;
	unsigned flags = 0;
	uint64_t size = 0;
	int head = frame_head((const unsigned char *)p + at, z->in.len - at, &flags, &size);

	if (head <= 0)
		return -1;
	z->at = at + (size_t)head;
	z->skip = size;
	z->skip_more = (flags & MORE) != 0;
	z->skipping = true;
	m->lost = size;
	return 1;
}

int zmtp_next(struct zmtp *z, struct zmtp_msg *m)
{
	for (;;) {
		uint64_t want = 0;
		ssize_t took;

		if (z->skipping) {
			int rc;

			compact(z);
			rc = pass_skipped(z);
			if (rc <= 0)
				return rc;
		}
		if (z->at == z->in.len)
			return 0;
		took = zmtp_parse(z->in.p + z->at, z->in.len - z->at, m, &want);
		if (took < 0)
			return -1;
		if (took == 0 && want > ZMTP_MESSAGE_MAX) {
			compact(z);
			zmtp_parse(z->in.p, z->in.len, m, &want);
			return begin_skip(z, m);
		}
		if (took == 0)
			return 0;
		z->at += (size_t)took;
		if (m->n > 0)
			return 1;                       /* else a command: none asks for an answer here */
	}
}

static void add_head(struct buf *b, unsigned flags, uint64_t size)
{
	if (size < 256) {
		buf_addc(b, (char)flags);
		buf_addc(b, (char)size);
		return;
	}
	buf_addc(b, (char)(flags | LONG));
	for (int shift = 56; shift >= 0; shift -= 8)
		buf_addc(b, (char)(size >> shift & 0xff));
}

int zmtp_send(struct zmtp *z, const struct span *frames, size_t n, int timeout_ms, struct err *e)
{
	struct buf b;
	int rc;

	buf_init(&b, 2 * (size_t)ZMTP_MESSAGE_MAX);
	for (size_t i = 0; i < n; i++) {
		add_head(&b, i + 1 < n ? MORE : 0, frames[i].n);
		buf_add(&b, frames[i].p, frames[i].n);
	}
	rc = buf_failed(&b) ? err_set(e, ERR_TOO_LARGE, "the message to the kernel is too large") :
			      zmtp_send_raw(z, b.p, b.len, timeout_ms, e);
	buf_release(&b);
	return rc;
}

/* ---- connecting ---- */

static void add_property(struct buf *b, const char *name, const char *value)
{
	size_t n = strlen(value);

	buf_addc(b, (char)strlen(name));
	buf_adds(b, name);
	for (int shift = 24; shift >= 0; shift -= 8)
		buf_addc(b, (char)(n >> shift & 0xff));
	buf_add(b, value, n);
}

/* Greeting and READY command. */
static void add_opening(struct buf *b, const char *type, const char *identity)
{
	static const char greeting[GREETING] = { '\xff', 0, 0, 0, 0, 0, 0, 0, 0, '\x7f', 3, 0, 'N', 'U', 'L', 'L' };
	struct buf body;

	buf_init(&body, 1024);
	buf_addc(&body, 5);
	buf_adds(&body, "READY");
	add_property(&body, "Socket-Type", type);
	if (identity[0] != '\0')
		add_property(&body, "Identity", identity);
	buf_add(b, greeting, sizeof greeting);
	add_head(b, COMMAND, body.len);
	buf_add(b, buf_str(&body), body.len);
	buf_release(&body);
}

/* The peer's greeting, then its READY command. */
static int read_opening(struct zmtp *z, int64_t until, struct err *e)
{
	struct zmtp_msg m;
	uint64_t want;
	const char *p;
	ssize_t took = 0;

	while (z->in.len < GREETING || (took = zmtp_parse(z->in.p + GREETING, z->in.len - GREETING, &m, &want)) == 0) {
		if (wait_for(z->fd, POLLIN, until, e) < 0)
			return -1;
		if (zmtp_fill(z) < 0)
			return err_set(e, ERR_UNAVAILABLE, "the kernel closed the connection");
	}
	p = buf_str(&z->in);
	if (took < 0 || (unsigned char)p[0] != 0xff || (p[9] & 1) == 0 || p[10] < 3 || memcmp(p + 12, "NULL", 5) != 0 || m.n != 0)
		return err_set(e, ERR_UNAVAILABLE, "the kernel does not speak ZMTP 3 without security");
	buf_cut(&z->in, GREETING + (size_t)took);
	return 0;
}

static int dial(const struct zmtp_place *at, struct err *e)
{
	const int on = 1;
	int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_sys(e, "socket");
	if (at->address.ss_family == AF_INET)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(fd, (const struct sockaddr *)&at->address, at->len) == 0)
		return fd;
	err_set(e, ERR_UNAVAILABLE, "the kernel's socket: %s", strerror(errno));
	close(fd);
	return -1;
}

int zmtp_connect(struct zmtp *z, const struct zmtp_place *at, const char *type, const char *identity, int timeout_ms, struct err *e)
{
	static const char subscribe[] = { 0, 1, 1 };     /* a message: "subscribe", to every topic */
	int64_t until = boot_us() + timeout_ms * US_PER_MS;
	struct buf opening;
	int rc;

	*z = (struct zmtp){ .fd = -1 };
	buf_init(&z->in, ZMTP_MESSAGE_MAX + 2 * STEP);
	z->fd = dial(at, e);
	if (z->fd < 0)
		return -1;
	buf_init(&opening, 4096);
	add_opening(&opening, type, identity);
	rc = send_all(z, opening.p, opening.len, until, e);
	buf_release(&opening);
	if (rc == 0)
		rc = read_opening(z, until, e);
	/* not earlier: libzmq closes the connection when it finds this in the packet of READY */
	if (rc == 0 && strcmp(type, "SUB") == 0)
		rc = send_all(z, subscribe, sizeof subscribe, until, e);
	if (rc < 0)
		zmtp_close(z);
	return rc;
}

void zmtp_close(struct zmtp *z)
{
	if (z->fd >= 0)
		close(z->fd);
	z->fd = -1;
	buf_release(&z->in);
}
