/*
 * rules.h - what a sandbox may reach: nftables tables, each replaced as a whole in one transaction of the kernel.
 *
 * The guest's table is in the sandbox's network namespace and judges each packet that leaves it, whichever connection it is of: a new rule
 * holds for what is open, too. Nobody inside has the right to change it. The host's table is the same for all sandboxes and
 * static: it tells them by the names of their interfaces.
 */
#ifndef HUTCH_NODE_RULES_H
#define HUTCH_NODE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/err.h"
#include "hutch/netrules.h"

#define DNS_MAX 3                    /* as many as resolv.conf(5) takes */
#define RULES_NAME_LEN 32

#define HUTCH_LINKS "hu"             /* what the names of all daemons' interfaces begin with */

struct rules {
	struct ip4_range allow[NET_RULES_MAX], deny[NET_RULES_MAX];  /* allow beats deny; what is in neither may be reached */
	size_t nallow, ndeny;
};

/* What holds for all sandboxes of a daemon. */
struct lane_net {
	char table[RULES_NAME_LEN];  /* of the host's table */
	char prefix[12];             /* of the names of our interfaces */
	char uplink[16];             /* the interface that leads out */
	struct ip4_range network;    /* addresses of sandboxes */
	int bits;                    /* its prefix length */
	uint32_t dns[DNS_MAX];       /* name servers: reached wherever they are, by port 53 */
	size_t ndns;
	bool private_too;            /* private networks may be reached */
	bool no_router;              /* the uplink passes on packets for our sake only: all others are dropped, as before */
};

/* {"allow":[...],"deny":[...]}, both optional; IPv6 blocks to deny are passed over. NULL or "" is no rule. ERR_INVALID. */
int rules_read(const char *text, struct rules *out, struct err *e);
/* Nothing may be reached. */
bool rules_closed(const struct rules *r);
/* Make the guest's table through a netfilter socket of its namespace, in the place of the one that is there unless fresh says that there is none. */
int rules_guest(int fd, const struct lane_net *n, uint32_t address, const struct rules *r, bool fresh, struct err *e);
/* Replace the host's table, or remove it; one that is not there is fine. */
int rules_host(int fd, const struct lane_net *n, struct err *e);
int rules_host_remove(int fd, const struct lane_net *n, struct err *e);

#endif
