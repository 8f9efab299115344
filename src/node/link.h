/*
 * link.h - the wire of a sandbox: a pair of virtual interfaces, one in its network namespace, one in ours, with an address of its own.
 *
 * The host's end has no address, and no ARP is needed: each end knows the other for good, and a route of one address leads to
 * it. All of it goes with either namespace.
 */
#ifndef HUTCH_NODE_LINK_H
#define HUTCH_NODE_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include "hutch/err.h"

struct wire {
	char name[IFNAMSIZ];         /* of our end */
	uint32_t address;            /* of the sandbox, host byte order */
	uint32_t mtu;
};

/* Make it between the namespace of the netlink sockets `ours` and that of `guest`, whose descriptor is netns. guest_any is a socket of any
 * kind in the guest's. A leftover of that name goes first. errno EEXIST: the address is another's. */
int link_make(int ours, int guest, int guest_any, int netns, const struct wire *w, struct err *e);
/* Remove our end, and with it the other. One that is not there is fine. */
int link_remove(int ours, const char *name, struct err *e);
/* Whether an interface passes on what comes in by it. 1, 0, or -1. */
int link_forwards(const char *name);
int link_forward(int ours, const char *name, bool on, struct err *e);

#endif
