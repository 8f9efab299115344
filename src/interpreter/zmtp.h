/*
 * zmtp.h - the client side of ZeroMQ's wire protocol (ZMTP 3.0, https://rfc.zeromq.org/spec/23/) over unix and TCP sockets: as much of it as
 * Jupyter kernels need (DEALER and SUB sockets, mechanism NULL).
 *
 * Why not libzmq: it would be a second C++ library with threads in every sandbox, it bounds its queues by messages and not by bytes, and
 * it ends the process when an assertion of its own fails. Here what a kernel sends is bounded, and a kernel that breaks the protocol
 * loses its connection and nothing else.
 */
#ifndef HUTCH_INTERPRETER_ZMTP_H
#define HUTCH_INTERPRETER_ZMTP_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "hutch/buf.h"
#include "hutch/err.h"
#include "span.h"

#define ZMTP_FRAMES_MAX 32
#define ZMTP_MESSAGE_MAX (48u << 20)     /* bytes of one message; what is longer is dropped and told */

struct zmtp_msg {
	struct span frame[ZMTP_FRAMES_MAX];  /* into the buffer that was parsed */
	size_t n;
	uint64_t lost;                       /* > 0: the message was too long; frames up to there, and how long the one after them is */
};

struct zmtp {
	int fd;                              /* -1: not connected */
	struct buf in;
	size_t at;                           /* bytes of in that are done with, the last message included */
	uint64_t skip;                       /* bytes still to drop, of a frame that is too long */
	bool skipping, skip_more;            /* a message is being dropped; more frames of it follow */
};

/* Parse the message at p (n bytes). Bytes that it takes; 0: it is not complete, and *want bytes are needed at least; -1: no ZMTP.
 * A command of the protocol is taken and gives no frames. */
ssize_t zmtp_parse(const char *p, size_t n, struct zmtp_msg *m, uint64_t *want);

/* Where a kernel's socket is. */
struct zmtp_place {
	struct sockaddr_storage address;
	socklen_t len;
};
/* Connect to the socket there as socket type "DEALER" or "SUB" (which subscribes to all). identity may be "".
 * ERR_UNAVAILABLE: nobody listens there (yet). */
int zmtp_connect(struct zmtp *z, const struct zmtp_place *at, const char *type, const char *identity, int timeout_ms, struct err *e);
void zmtp_close(struct zmtp *z);
/* One message of n frames. */
int zmtp_send(struct zmtp *z, const struct span *frames, size_t n, int timeout_ms, struct err *e);
/* Bytes as they are. */
int zmtp_send_raw(struct zmtp *z, const void *p, size_t n, int timeout_ms, struct err *e);
/* Take what has arrived, without waiting. 0, -1: closed by the peer. */
int zmtp_fill(struct zmtp *z);
/* The next whole message of what was taken: 1, 0 there is none, -1 the peer broke the protocol. Valid up to the next call of any. */
int zmtp_next(struct zmtp *z, struct zmtp_msg *m);

#endif
