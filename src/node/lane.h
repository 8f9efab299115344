/*
 * lane.h - the way to the internet of the sandboxes of a daemon: found out at its start, or off with a reason.
 *
 * On the host it is one nftables table, one virtual interface and route per sandbox, and the forwarding flag of the uplink; the host's own
 * tables and its switch ip_forward are left alone. All threads may use it.
 */
#ifndef HUTCH_NODE_LANE_H
#define HUTCH_NODE_LANE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include "hutch/conf.h"
#include "rules.h"

#define LATER_MAX 64                 /* beyond that a change of rules waits for the kernel itself */

struct lane {
	bool on;
	char why[160];               /* it is off */
	struct lane_net net;
	uint32_t mtu;
	uint32_t next;               /* where to look for a free address */
	int space;                   /* our own network namespace */
	int route, filter;           /* netlink sockets in it */
	int dir;                     /* where it is noted that the uplink was changed */
	pthread_mutex_t lock;        /* over the sockets and next */
	pthread_mutex_t later_lock;  /* over later */
	int later[LATER_MAX];        /* sockets that lane_settle closes */
	size_t nlater;
};

/* Check the options (hutch-node -n). */
int lane_check(const struct config *conf, struct err *e);
/* Find out, and make the host's table. hash: 8 hex digits that no other daemon of this machine has; dir: STATE/node. That it cannot be had
 * is no failure. */
int lane_open(struct lane *l, const struct config *conf, const char *hash, int dir, struct err *e);
void lane_close(struct lane *l);
/* What is left on the host goes: table, interfaces, forwarding. Also of a daemon before. */
void lane_remove(struct lane *l, const char *hash, int dir);
/* Could it be had here? Asked in network namespaces of the caller's own, which it must have left its own for (hutchctl doctor). */
int lane_probe(struct err *e);

/* `number` makes the name of its interface. The rules come first, so there is no moment without. */
int lane_attach(struct lane *l, pid_t pid, uint32_t number, const struct rules *r, uint32_t *address, struct err *e);
int lane_rules(struct lane *l, pid_t pid, uint32_t address, const struct rules *r, struct err *e);
/* What lane_rules left for a thread that nobody waits for: it takes milliseconds. */
void lane_settle(struct lane *l);
/* Its interface is there. */
bool lane_wired(const struct lane *l, uint32_t number);
void lane_detach(struct lane *l, uint32_t number);
/* Text for /etc/resolv.conf, "" when there is nothing to say. */
void lane_resolv(const struct lane *l, char *out, size_t max);

#endif
