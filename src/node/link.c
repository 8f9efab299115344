#include "config.h"

#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"
#include "netlink.h"

#define GUEST_NAME "eth0"
#define GATEWAY 0xa9fe0001u          /* 169.254.0.1: only ever a name for the other end, in no packet */
#define PROTOCOL 0x68                /* of our routes, see ip-route(8) */

/* Locally administered addresses, made from the sandbox's. */
static void mac_of(uint32_t address, bool guest, uint8_t mac[6])
{
	const uint32_t be = htonl(address);

	mac[0] = guest ? 0x02 : 0x06;
	mac[1] = 0x68;
	memcpy(mac + 2, &be, 4);
}

static void put_end(struct nl *m, const struct wire *w, bool guest)
{
	uint8_t mac[6];

	mac_of(w->address, guest, mac);
	nl_text(m, IFLA_IFNAME, guest ? GUEST_NAME : w->name);
	nl_put(m, IFLA_ADDRESS, mac, sizeof mac);
	nl_u32(m, IFLA_MTU, w->mtu);
	nl_u32(m, IFLA_NUM_TX_QUEUES, 1);    /* else one for each processor, and making and removing them is most of the cost of an interface */
	nl_u32(m, IFLA_NUM_RX_QUEUES, 1);
}

static int make_pair(int ours, int netns, const struct wire *w, struct err *e)
{
	const struct ifinfomsg any = { .ifi_family = AF_UNSPEC };
	size_t info, data, peer;
	struct nl m;
	int status;

	nl_init(&m);
	nl_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &any, sizeof any);
	put_end(&m, w, false);
	info = nl_open(&m, IFLA_LINKINFO);
	nl_text(&m, IFLA_INFO_KIND, "veth");
	data = nl_open(&m, IFLA_INFO_DATA);
	peer = nl_open(&m, VETH_INFO_PEER);
	buf_add(&m.b, &any, sizeof any);
	put_end(&m, w, true);
	nl_u32(&m, IFLA_NET_NS_FD, (uint32_t)netns);
	nl_close(&m, peer);
	nl_close(&m, data);
	nl_close(&m, info);
	nl_end(&m);
	status = nl_talk(ours, &m, "virtual interface", e);
	nl_release(&m);
	return status;
}

/* The flag is one interface's: the host as a whole need not be a router. */
static void put_forwarding(struct nl *m, bool on)
{
	size_t spec = nl_open(m, IFLA_AF_SPEC), four = nl_open(m, AF_INET), conf = nl_open(m, IFLA_INET_CONF);

	nl_u32(m, IPV4_DEVCONF_FORWARDING, on);
	nl_close(m, conf);
	nl_close(m, four);
	nl_close(m, spec);
}

/* Before it goes up: no IPv6 address is made, so that neither end can be reached by one. */
static void put_up(struct nl *m, unsigned index, bool forward)
{
	const struct ifinfomsg as_is = { .ifi_family = AF_UNSPEC, .ifi_index = (int)index };
	const struct ifinfomsg up = { .ifi_family = AF_UNSPEC, .ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
	size_t spec, six;

	if (access("/proc/sys/net/ipv6", F_OK) == 0) {
		nl_begin(m, RTM_NEWLINK, NLM_F_ACK, &as_is, sizeof as_is);
		spec = nl_open(m, IFLA_AF_SPEC);
		six = nl_open(m, AF_INET6);
		nl_u8(m, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
		nl_close(m, six);
		nl_close(m, spec);
		nl_end(m);
	}
	nl_begin(m, RTM_NEWLINK, NLM_F_ACK, &up, sizeof up);
	if (forward)
		put_forwarding(m, true);
	nl_end(m);
}

static void put_neighbour(struct nl *m, unsigned index, uint32_t address, uint32_t of, bool guest)
{
	const struct ndmsg n = { .ndm_family = AF_INET, .ndm_ifindex = (int)index, .ndm_state = NUD_PERMANENT };
	uint8_t mac[6];

	mac_of(of, guest, mac);
	nl_begin(m, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &n, sizeof n);
	nl_be32(m, NDA_DST, address);
	nl_put(m, NDA_LLADDR, mac, sizeof mac);
	nl_end(m);
}

/* Exclusive: an address that another sandbox of this machine has, of whichever daemon, is seen here. */
static int host_end(int ours, unsigned index, const struct wire *w, struct err *e)
{
	const struct rtmsg r = { .rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_table = RT_TABLE_MAIN, .rtm_protocol = PROTOCOL,
				 .rtm_scope = RT_SCOPE_LINK, .rtm_type = RTN_UNICAST };
	struct nl m;
	int status;

	nl_init(&m);
	put_up(&m, index, true);
	nl_begin(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &r, sizeof r);
	nl_be32(&m, RTA_DST, w->address);
	nl_u32(&m, RTA_OIF, index);
	nl_end(&m);
	put_neighbour(&m, index, w->address, w->address, true);
	status = nl_talk(ours, &m, "route of a sandbox", e);
	nl_release(&m);
	return status;
}

static int guest_end(int guest, unsigned index, const struct wire *w, struct err *e)
{
	const struct ifaddrmsg a = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = index };
	const struct rtmsg r = { .rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_protocol = PROTOCOL, .rtm_scope = RT_SCOPE_UNIVERSE,
				 .rtm_type = RTN_UNICAST, .rtm_flags = RTNH_F_ONLINK };
	struct nl m;
	int status;

	nl_init(&m);
	put_up(&m, index, false);
	nl_begin(&m, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &a, sizeof a);
	nl_be32(&m, IFA_LOCAL, w->address);
	nl_be32(&m, IFA_ADDRESS, w->address);
	nl_end(&m);
	put_neighbour(&m, index, GATEWAY, w->address, false);
	nl_begin(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &r, sizeof r);
	nl_be32(&m, RTA_GATEWAY, GATEWAY);
	nl_u32(&m, RTA_OIF, index);
	nl_end(&m);
	status = nl_talk(guest, &m, "interface of a sandbox", e);
	nl_release(&m);
	return status;
}

/* In the namespace of the socket. 0: there is none of that name. */
static unsigned index_of(int any, const char *name)
{
	struct ifreq r = { .ifr_name = "" };

	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	return ioctl(any, SIOCGIFINDEX, &r) == 0 ? (unsigned)r.ifr_ifindex : 0;
}

int link_make(int ours, int guest, int guest_any, int netns, const struct wire *w, struct err *e)
{
	struct err ignored;
	unsigned host, other;
	int status = make_pair(ours, netns, w, e);

	if (status < 0 && errno == EEXIST && link_remove(ours, w->name, &ignored) == 0)
		status = make_pair(ours, netns, w, e);
	if (status < 0)
		return -1;
	host = if_nametoindex(w->name);
	other = index_of(guest_any, GUEST_NAME);
	if (host == 0 || other == 0)
		status = err_sys(e, "virtual interface");
	else if (host_end(ours, host, w, e) < 0 || guest_end(guest, other, w, e) < 0)
		status = -1;
	if (status < 0) {
		const int why = errno;

		link_remove(ours, w->name, &ignored);
		errno = why;
	}
	return status;
}

int link_remove(int ours, const char *name, struct err *e)
{
	const struct ifinfomsg any = { .ifi_family = AF_UNSPEC };
	struct nl m;
	int status;

	nl_init(&m);
	nl_begin(&m, RTM_DELLINK, NLM_F_ACK, &any, sizeof any);
	nl_text(&m, IFLA_IFNAME, name);
	nl_end(&m);
	status = nl_talk(ours, &m, name, e);
	nl_release(&m);
	return status < 0 && errno != ENODEV ? -1 : 0;
}

int link_forwards(const char *name)
{
	char path[96], text[8];

	snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/forwarding", name);
	return file_read(AT_FDCWD, path, text, sizeof text) > 0 ? text[0] == '1' : -1;
}

int link_forward(int ours, const char *name, bool on, struct err *e)
{
	const struct ifinfomsg one = { .ifi_family = AF_UNSPEC, .ifi_index = (int)if_nametoindex(name) };
	struct nl m;
	int status;

	if (one.ifi_index == 0)
		return err_sys(e, "interface %s", name);
	nl_init(&m);
	nl_begin(&m, RTM_NEWLINK, NLM_F_ACK, &one, sizeof one);
	put_forwarding(&m, on);
	nl_end(&m);
	status = nl_talk(ours, &m, "forwarding", e);
	nl_release(&m);
	return status;
}
