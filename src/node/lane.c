#include "config.h"

#include "lane.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"
#include "hutch/log.h"
#include "link.h"
#include "netlink.h"

#define NOTE "uplink"                /* file: the interface whose forwarding we switched on */
#define TRIES 64                     /* addresses looked at for a free one */
#define NETWORK_BITS_MAX 24
#define MTU 1500

/* ---- options ---- */

static int read_network(const struct config *conf, struct lane_net *n, struct err *e)
{
	const char *slash = strchr(conf->egress_network, '/');

	n->bits = slash != NULL ? atoi(slash + 1) : 32;
	if (ip4_parse(conf->egress_network, &n->network) < 0 || n->bits < 8 || n->bits > NETWORK_BITS_MAX)
		return err_set(e, ERR_INVALID, "egress_network must be a block of IPv4 addresses, /8 to /%d", NETWORK_BITS_MAX);
	return 0;
}

static int add_dns(struct lane_net *n, const char *text)
{
	struct ip4_range r;

	if (ip4_parse(text, &r) < 0 || r.first != r.last)
		return -1;
	if (r.first >> 24 != 127 && n->ndns < DNS_MAX)
		n->dns[n->ndns++] = r.first;
	return 0;
}

static int read_dns(const struct config *conf, struct lane_net *n, struct err *e)
{
	char copy[256], *save = NULL;

	if (snprintf(copy, sizeof copy, "%s", conf->egress_dns) >= (int)sizeof copy)
		return err_set(e, ERR_INVALID, "egress_dns is too long");
	for (char *w = strtok_r(copy, " ,", &save); w != NULL; w = strtok_r(NULL, " ,", &save)) {
		const size_t before = n->ndns;

		if (add_dns(n, w) < 0 || n->ndns == before)
			return err_set(e, ERR_INVALID, "egress_dns: %.64s: it must be up to %d IPv4 addresses, none of them this machine's loopback", w, DNS_MAX);
	}
	return 0;
}

int lane_check(const struct config *conf, struct err *e)
{
	struct lane_net n = { .ndns = 0 };

	if (strlen(conf->egress_interface) >= IFNAMSIZ)
		return err_set(e, ERR_INVALID, "egress_interface is no name of an interface");
	return read_network(conf, &n, e) < 0 || read_dns(conf, &n, e) < 0 ? -1 : 0;
}

/* ---- what there is ---- */

/* Those of this machine. A resolver on loopback is out of a sandbox's reach; systemd's tells in a second file whom it asks. */
static void host_dns(struct lane_net *n)
{
	static const char *const files[] = { "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf" };
	char text[4096], word[64];

	for (size_t i = 0; i < sizeof files / sizeof files[0] && n->ndns == 0; i++) {
		if (file_read(AT_FDCWD, files[i], text, sizeof text) < 0)
			continue;
		for (const char *p = text; p != NULL; p = strchr(p, '\n'), p = p != NULL ? p + 1 : NULL)
			if (sscanf(p, "nameserver %63s", word) == 1)
				add_dns(n, word);
	}
}

/* The interface of the default route: /proc/net/route, of the calling thread's namespace. */
static int default_uplink(char out[16])
{
	char text[16384], name[16];
	unsigned long to, mask;

	if (file_read(AT_FDCWD, "/proc/thread-self/net/route", text, sizeof text) < 0)
		return -1;
	for (const char *p = strchr(text, '\n'); p != NULL; p = strchr(p + 1, '\n'))
		if (sscanf(p + 1, "%15s %lx %*x %*x %*d %*d %*d %lx", name, &to, &mask) == 3 && to == 0 && mask == 0) {
			snprintf(out, 16, "%s", name);
			return 0;
		}
	return -1;
}

static uint32_t mtu_of(const char *name)
{
	struct ifreq r = { .ifr_name = "" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), got;

	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	got = fd >= 0 ? ioctl(fd, SIOCGIFMTU, &r) : -1;
	if (fd >= 0)
		close(fd);
	return got == 0 && r.ifr_mtu >= 576 && r.ifr_mtu < 65536 ? (uint32_t)r.ifr_mtu : MTU;
}

static void name_things(struct lane_net *n, const char *hash)
{
	snprintf(n->table, sizeof n->table, "hutch-%.8s", hash);
	snprintf(n->prefix, sizeof n->prefix, HUTCH_LINKS "%.6s", hash);       /* and four digits of the sandbox's */
}

/* ---- the uplink ---- */

static bool host_routes(void)
{
	char text[8];

	return file_read(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", text, sizeof text) > 0 && text[0] == '1';
}

/* Sandboxes of another daemon of this machine go out, too. */
static bool others(const struct lane *l)
{
	struct if_nameindex *all = if_nameindex();
	bool found = false;

	for (struct if_nameindex *i = all; i != NULL && i->if_index != 0; i++)
		found |= strncmp(i->if_name, HUTCH_LINKS, strlen(HUTCH_LINKS)) == 0 && strlen(i->if_name) == strlen(l->net.prefix) + 4 &&
			 strncmp(i->if_name, l->net.prefix, strlen(l->net.prefix)) != 0;
	if (all != NULL)
		if_freenameindex(all);
	return found;
}

/* Off again, if it was us who switched it on and the host has not become a router since. The last daemon does it. */
static void restore_uplink(struct lane *l)
{
	char name[16];
	struct err e;

	if (file_read(l->dir, NOTE, name, sizeof name) <= 0)
		return;
	if (!host_routes() && !others(l) && link_forwards(name) == 1 && link_forward(l->route, name, false, &e) < 0)
		log_warn("%s", e.text);
	unlinkat(l->dir, NOTE, 0);
}

/* Answers come in by the uplink and have to be passed on. The note is there before the flag is: a crash in between forgets nothing. */
static int prepare_uplink(struct lane *l, struct err *e)
{
	char name[16];
	bool noted = file_read(l->dir, NOTE, name, sizeof name) > 0 && strcmp(name, l->net.uplink) == 0;
	int is;

	if (!noted)
		restore_uplink(l);
	is = link_forwards(l->net.uplink);
	if (is < 0)
		return err_sys(e, "interface %s", l->net.uplink);
	l->net.no_router = !host_routes() && (is == 0 || noted || others(l));
	if (l->net.no_router && !noted && file_replace(l->dir, NOTE, l->net.uplink, strlen(l->net.uplink), e) < 0)
		return -1;
	return 0;
}

/* ---- start and end ---- */

static int open_sockets(struct lane *l, struct err *e)
{
	l->space = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (l->space < 0)
		return err_sys(e, "network namespace");
	l->route = nl_socket(NETLINK_ROUTE, e);
	l->filter = l->route < 0 ? -1 : nl_socket(NETLINK_NETFILTER, e);
	return l->filter < 0 ? -1 : 0;
}

/* All interfaces of ours. */
static void remove_links(struct lane *l)
{
	struct if_nameindex *all = if_nameindex();
	struct err e;

	for (struct if_nameindex *i = all; i != NULL && i->if_index != 0; i++)
		if (strncmp(i->if_name, l->net.prefix, strlen(l->net.prefix)) == 0 && link_remove(l->route, i->if_name, &e) < 0)
			log_warn("interface %s: %s", i->if_name, e.text);
	if (all != NULL)
		if_freenameindex(all);
}

static int find(struct lane *l, const struct config *conf, struct err *e)
{
	if (strcmp(conf->egress, "on") != 0)
		return err_set(e, ERR_INVALID, "option egress is off");
	if (conf->egress_interface[0] != '\0')
		snprintf(l->net.uplink, sizeof l->net.uplink, "%s", conf->egress_interface);
	else if (default_uplink(l->net.uplink) < 0)
		return err_set(e, ERR_UNAVAILABLE, "this machine has no default route");
	if (read_network(conf, &l->net, e) < 0 || read_dns(conf, &l->net, e) < 0)
		return -1;
	if (l->net.ndns == 0)
		host_dns(&l->net);
	l->net.private_too = conf->egress_private;
	l->mtu = mtu_of(l->net.uplink);
	if (prepare_uplink(l, e) < 0 || rules_host(l->filter, &l->net, e) < 0)
		return -1;
	return link_forward(l->route, l->net.uplink, true, e);       /* the rules hold already */
}

static void start(struct lane *l, const char *hash, int dir)
{
	*l = (struct lane){ .space = -1, .route = -1, .filter = -1, .dir = dir };
	pthread_mutex_init(&l->lock, NULL);
	pthread_mutex_init(&l->later_lock, NULL);
	name_things(&l->net, hash);
}

int lane_open(struct lane *l, const struct config *conf, const char *hash, int dir, struct err *e)
{
	struct err why;

	start(l, hash, dir);
	l->next = (uint32_t)strtoul(hash, NULL, 16);
	if (open_sockets(l, e) < 0)
		return -1;
	l->on = find(l, conf, &why) == 0;
	if (!l->on) {
		snprintf(l->why, sizeof l->why, "%.*s", (int)sizeof l->why - 1, why.text);
		remove_links(l);             /* of sandboxes from before: never without the table */
		rules_host_remove(l->filter, &l->net, &why);
		restore_uplink(l);
	}
	return 0;
}

void lane_close(struct lane *l)
{
	lane_settle(l);
	if (l->space >= 0)
		close(l->space);
	if (l->route >= 0)
		close(l->route);
	if (l->filter >= 0)
		close(l->filter);
	l->space = l->route = l->filter = -1;
	l->on = false;
}

void lane_remove(struct lane *l, const char *hash, int dir)
{
	struct err e;

	start(l, hash, dir);
	if (open_sockets(l, &e) == 0) {
		remove_links(l);
		if (rules_host_remove(l->filter, &l->net, &e) < 0)
			log_warn("%s", e.text);
		restore_uplink(l);
	}
	lane_close(l);
}

/* ---- sockets that are slow to close (nft.h) ---- */

static void close_later(struct lane *l, int *fd)
{
	pthread_mutex_lock(&l->later_lock);
	if (l->nlater < LATER_MAX) {
		l->later[l->nlater++] = *fd;
		*fd = -1;
	}
	pthread_mutex_unlock(&l->later_lock);
}

void lane_settle(struct lane *l)
{
	int fds[LATER_MAX];
	size_t n;

	pthread_mutex_lock(&l->later_lock);
	n = l->nlater;
	memcpy(fds, l->later, n * sizeof fds[0]);
	l->nlater = 0;
	pthread_mutex_unlock(&l->later_lock);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* ---- a sandbox ---- */

struct guest {
	int space, route, filter, any;
};

static void leave(struct guest *g)
{
	const int fds[] = { g->space, g->route, g->filter, g->any };

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Sockets of the sandbox's namespace: this thread goes there to open them, and comes back. */
static int enter(struct lane *l, pid_t pid, struct guest *g, struct err *e)
{
	char path[64];
	int status;

	*g = (struct guest){ -1, -1, -1, -1 };
	snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
	g->space = open(path, O_RDONLY | O_CLOEXEC);
	if (g->space < 0 || setns(g->space, CLONE_NEWNET) < 0) {
		status = err_sys(e, "network namespace of a sandbox");
	} else {
		g->route = nl_socket(NETLINK_ROUTE, e);
		g->filter = nl_socket(NETLINK_NETFILTER, e);
		g->any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		status = g->route < 0 || g->filter < 0 ? -1 : g->any < 0 ? err_sys(e, "socket") : 0;
		if (setns(l->space, CLONE_NEWNET) < 0)
			abort();             /* a thread in a sandbox's network must do nothing else */
	}
	if (status < 0)
		leave(g);
	return status;
}

static void name_of(const struct lane *l, uint32_t number, char out[IFNAMSIZ])
{
	snprintf(out, IFNAMSIZ, "%.8s%04x", l->net.prefix, number & 0xffff);
}

static uint32_t next_address(struct lane *l)
{
	const uint32_t size = l->net.network.last - l->net.network.first + 1;
	uint32_t at;

	do
		at = l->next++ % size;
	while ((at & 0xff) == 0 || (at & 0xff) == 0xff);     /* some look at these askance */
	return l->net.network.first + at;
}

int lane_attach(struct lane *l, pid_t pid, uint32_t number, const struct rules *r, uint32_t *address, struct err *e)
{
	struct wire w = { .mtu = l->mtu };
	struct guest g;
	int status = -1;

	if (enter(l, pid, &g, e) < 0)
		return -1;
	name_of(l, number, w.name);
	pthread_mutex_lock(&l->lock);
	for (int i = 0; i < TRIES; i++) {
		w.address = next_address(l);
		status = rules_guest(g.filter, &l->net, w.address, r, i == 0, e);
		if (status == 0)
			status = link_make(l->route, g.route, g.any, g.space, &w, e);
		if (status == 0 || errno != EEXIST)
			break;
	}
	pthread_mutex_unlock(&l->lock);
	leave(&g);
	*address = w.address;
	return status;
}

int lane_rules(struct lane *l, pid_t pid, uint32_t address, const struct rules *r, struct err *e)
{
	struct guest g;
	int status;

	if (enter(l, pid, &g, e) < 0)
		return -1;
	status = rules_guest(g.filter, &l->net, address, r, false, e);
	close_later(l, &g.filter);
	leave(&g);
	return status;
}

bool lane_wired(const struct lane *l, uint32_t number)
{
	char name[IFNAMSIZ];

	name_of(l, number, name);
	return if_nametoindex(name) != 0;
}

void lane_detach(struct lane *l, uint32_t number)
{
	char name[IFNAMSIZ];
	struct err e;

	name_of(l, number, name);
	pthread_mutex_lock(&l->lock);
	if (link_remove(l->route, name, &e) < 0)
		log_warn("interface %s: %s", name, e.text);
	pthread_mutex_unlock(&l->lock);
}

void lane_resolv(const struct lane *l, char *out, size_t max)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; l->on && i < l->net.ndns; i++) {
		const struct in_addr a = { htonl(l->net.dns[i]) };
		char text[INET_ADDRSTRLEN];
		int n = snprintf(out + at, max - at, "nameserver %s\n", inet_ntop(AF_INET, &a, text, sizeof text));

		if (n < 0 || (size_t)n >= max - at)
			break;
		at += (size_t)n;
	}
}

/* ---- the question ---- */

int lane_probe(struct err *e)
{
	const struct rules none = { .nallow = 0 };
	struct wire w = { .name = "hutchprobe", .address = 0xc6120001, .mtu = MTU };
	struct lane l;
	struct guest g;
	int status = -1;

	start(&l, "00000000", -1);
	snprintf(l.net.uplink, sizeof l.net.uplink, "lo");
	ip4_parse("198.18.0.0/15", &l.net.network);
	l.net.bits = 15;
	if (open_sockets(&l, e) == 0 && rules_host(l.filter, &l.net, e) == 0) {
		if (unshare(CLONE_NEWNET) < 0)
			status = err_sys(e, "network namespace");
		else
			status = enter(&l, getpid(), &g, e);
	}
	if (status == 0 && setns(l.space, CLONE_NEWNET) == 0) {
		status = rules_guest(g.filter, &l.net, w.address, &none, true, e);
		if (status == 0)
			status = link_make(l.route, g.route, g.any, g.space, &w, e);
		leave(&g);
	}
	lane_close(&l);
	return status;
}
