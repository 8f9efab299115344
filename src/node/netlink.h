/*
 * netlink.h - requests to the kernel's network by netlink(7): messages are built in one buffer, sent at once, and every answer is read.
 * Nothing of it is text: addresses, names and rules go as numbers and attributes.
 */
#ifndef HUTCH_NODE_NETLINK_H
#define HUTCH_NODE_NETLINK_H

#include <stdint.h>
#include "hutch/buf.h"
#include "hutch/err.h"

#define NETLINK_MAX (256 << 10)      /* bytes of one request */

struct nl {
	struct buf b;
	size_t message;              /* where the open one begins */
	uint32_t seq;
};

void nl_init(struct nl *m);
void nl_release(struct nl *m);
/* A message of that type with its fixed part (n bytes); attributes follow. flags beside NLM_F_REQUEST. */
void nl_begin(struct nl *m, uint16_t type, uint16_t flags, const void *fixed, size_t n);
void nl_end(struct nl *m);
void nl_put(struct nl *m, uint16_t type, const void *p, size_t n);
void nl_text(struct nl *m, uint16_t type, const char *s);      /* with its NUL */
void nl_u8(struct nl *m, uint16_t type, uint8_t v);
void nl_u32(struct nl *m, uint16_t type, uint32_t v);
void nl_be32(struct nl *m, uint16_t type, uint32_t v);         /* in network order, as nftables has its numbers */
/* An attribute that holds others; nl_close takes what this gave. */
size_t nl_open(struct nl *m, uint16_t type);
void nl_close(struct nl *m, size_t at);

/* A socket of the calling thread's network namespace. */
int nl_socket(int protocol, struct err *e);
/* Send all messages and read the answers: 0, or -1 with the first error (errno is set to it) and `what`. At least one message must
 * carry NLM_F_ACK. */
int nl_talk(int fd, struct nl *m, const char *what, struct err *e);

#endif
