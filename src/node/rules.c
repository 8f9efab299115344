#include "config.h"

#include "rules.h"

#include <netinet/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#include "hutch/json.h"
#include "nft.h"

#define GUEST_TABLE "hutch"
#define DNS_PORT 53

/* Never reached: nothing of it is the internet. */
static const char *const never[] = { "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3" };
/* Not unless egress_private is set. */
static const char *const private[] = { "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16" };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CLOSED_MAX (COUNT(never) + COUNT(private) + 1)

/* ---- reading ---- */

static int read_list(json_object *o, const char *key, struct ip4_range *out, size_t *n, struct err *e)
{
	json_object *list = NULL;

	*n = 0;
	if (json_get_arr(o, key, &list, e) < 0)
		return -1;
	for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
		const char *text = json_object_get_string(json_object_array_get_idx(list, i));

		if (text != NULL && key[0] == 'd' && ip6_is(text))
			continue;
		if (*n == NET_RULES_MAX || text == NULL || ip4_parse(text, &out[*n]) < 0)
			return err_set(e, ERR_INVALID, "network: %s: entry %zu is no IPv4 address or block, or there are more than %d", key, i, NET_RULES_MAX);
		++*n;
	}
	*n = ip4_merge(out, *n);
	return 0;
}

int rules_read(const char *text, struct rules *out, struct err *e)
{
	json_object *o = NULL;
	int status;

	out->nallow = out->ndeny = 0;
	if (text == NULL || text[0] == '\0')
		return 0;
	if (json_read_object(text, strlen(text), &o, e) < 0)
		return err_wrap(e, "network");
	status = read_list(o, "allow", out->allow, &out->nallow, e) < 0 || read_list(o, "deny", out->deny, &out->ndeny, e) < 0 ? -1 : 0;
	json_object_put(o);
	return status;
}

bool rules_closed(const struct rules *r)
{
	return r->nallow == 0 && r->ndeny == 1 && r->deny[0].first == 0 && r->deny[0].last == UINT32_MAX;
}

/* ---- the guest's table ---- */

static size_t closed_ranges(const struct lane_net *n, struct ip4_range out[CLOSED_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < COUNT(never); i++)
		ip4_parse(never[i], &out[count++]);
	for (size_t i = 0; i < COUNT(private) && !n->private_too; i++)
		ip4_parse(private[i], &out[count++]);
	out[count++] = n->network;
	return ip4_merge(out, count);
}

/* Name servers by port 53 pass to `chain` or are accepted. */
static void dns(struct nft *t, const struct lane_net *n, const char *chain, int32_t verdict, const char *to, const char *from)
{
	static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP };

	for (size_t i = 0; i < n->ndns; i++)
		for (size_t p = 0; p < COUNT(protocols); p++) {
			nft_rule(t, chain);
			if (from != NULL)
				nft_meta(t, NFT_META_IIFNAME, NFT_CMP_EQ, from, strlen(from));
			nft_ip4(t);
			nft_address(t, false, NFT_CMP_EQ, n->dns[i], 32);
			nft_dport(t, protocols[p], DNS_PORT);
			nft_verdict(t, verdict, to);
			nft_rule_end(t);
		}
}

static void always(struct nft *t, const char *chain, int32_t verdict, const char *to)
{
	nft_rule(t, chain);
	nft_verdict(t, verdict, to);
	nft_rule_end(t);
}

static void listed(struct nft *t, const char *chain, const struct ip4_range *r, size_t n, int32_t verdict, const char *to)
{
	uint32_t set;

	if (n == 0)
		return;
	set = nft_set(t, r, n);
	nft_rule(t, chain);
	nft_ip4(t);
	nft_in_set(t, set);
	nft_verdict(t, verdict, to);
	nft_rule_end(t);
}

/* So that a client is told at once, and does not wait for an answer that never comes. */
static void refusals(struct nft *t)
{
	const uint8_t tcp = IPPROTO_TCP;

	nft_rule(t, "no");
	nft_meta(t, NFT_META_L4PROTO, NFT_CMP_EQ, &tcp, 1);
	nft_reject(t, true);
	nft_rule_end(t);
	nft_rule(t, "no");
	nft_reject(t, false);
	nft_rule_end(t);
}

int rules_guest(int fd, const struct lane_net *n, uint32_t address, const struct rules *r, bool fresh, struct err *e)
{
	struct ip4_range closed[CLOSED_MAX];
	struct nft t;

	nft_begin(&t, GUEST_TABLE, fresh ? NFT_FRESH : NFT_REPLACE);
	nft_chain(&t, "no");
	nft_chain(&t, "asked");
	nft_base_chain(&t, "out", "filter", NF_INET_LOCAL_OUT, 0, true);
	nft_rule(&t, "out");
	nft_oif(&t, NFT_CMP_EQ, "lo");
	nft_verdict(&t, NF_ACCEPT, NULL);
	nft_rule_end(&t);
	nft_rule(&t, "out");                 /* its own address is the only one that it may send from */
	nft_ip4(&t);
	nft_address(&t, true, NFT_CMP_NEQ, address, 32);
	nft_verdict(&t, NF_DROP, NULL);
	nft_rule_end(&t);
	dns(&t, n, "out", NFT_GOTO, "asked", NULL);
	listed(&t, "out", closed, closed_ranges(n, closed), NFT_GOTO, "no");
	nft_rule(&t, "out");
	nft_ip4(&t);
	nft_verdict(&t, NFT_GOTO, "asked");
	nft_rule_end(&t);
	listed(&t, "asked", r->allow, r->nallow, NF_ACCEPT, NULL);
	listed(&t, "asked", r->deny, r->ndeny, NFT_GOTO, "no");
	always(&t, "asked", NF_ACCEPT, NULL);
	refusals(&t);
	return nft_commit(&t, fd, "rules of a sandbox", e);
}

/* ---- the host's table ---- */

static void of_ours(struct nft *t, const char *chain, const struct lane_net *n, uint32_t key, const char *to)
{
	nft_rule(t, chain);
	nft_meta(t, key, NFT_CMP_EQ, n->prefix, strlen(n->prefix));
	nft_verdict(t, to != NULL ? NFT_GOTO : NF_DROP, to);
	nft_rule_end(t);
}

/* From a sandbox: out by the uplink, to the internet. */
static void forward_from(struct nft *t, const struct lane_net *n)
{
	struct ip4_range closed[CLOSED_MAX];
	const uint8_t six = NFPROTO_IPV6;

	nft_rule(t, "from");
	nft_meta(t, NFT_META_NFPROTO, NFT_CMP_EQ, &six, 1);
	nft_verdict(t, NF_DROP, NULL);
	nft_rule_end(t);
	nft_rule(t, "from");
	nft_address(t, true, NFT_CMP_NEQ, n->network.first, n->bits);
	nft_verdict(t, NF_DROP, NULL);
	nft_rule_end(t);
	nft_rule(t, "from");
	nft_oif(t, NFT_CMP_NEQ, n->uplink);
	nft_verdict(t, NF_DROP, NULL);
	nft_rule_end(t);
	dns(t, n, "from", NF_ACCEPT, NULL, NULL);
	listed(t, "from", closed, closed_ranges(n, closed), NF_DROP, NULL);
	always(t, "from", NF_ACCEPT, NULL);
}

/* To a sandbox: answers only. */
static void forward_to(struct nft *t)
{
	nft_rule(t, "to");
	nft_known(t);
	nft_verdict(t, NF_ACCEPT, NULL);
	nft_rule_end(t);
	always(t, "to", NF_DROP, NULL);
}

static void forward(struct nft *t, const struct lane_net *n)
{
	nft_base_chain(t, "forward", "filter", NF_INET_FORWARD, 0, false);
	of_ours(t, "forward", n, NFT_META_IIFNAME, "from");
	of_ours(t, "forward", n, NFT_META_OIFNAME, "to");
	if (!n->no_router)
		return;
	nft_rule(t, "forward");
	nft_meta(t, NFT_META_IIFNAME, NFT_CMP_EQ, n->uplink, strlen(n->uplink) + 1);
	nft_meta(t, NFT_META_OIFNAME, NFT_CMP_NEQ, HUTCH_LINKS, strlen(HUTCH_LINKS));    /* those of another daemon are judged by its table */
	nft_verdict(t, NF_DROP, NULL);
	nft_rule_end(t);
}

/* To this machine itself: nothing but a name server that it may be. */
static void input(struct nft *t, const struct lane_net *n)
{
	nft_base_chain(t, "input", "filter", NF_INET_LOCAL_IN, 0, false);
	dns(t, n, "input", NF_ACCEPT, NULL, n->prefix);
	of_ours(t, "input", n, NFT_META_IIFNAME, NULL);
}

static void sources(struct nft *t, const struct lane_net *n)
{
	nft_base_chain(t, "sources", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW, false);
	nft_rule(t, "sources");
	nft_meta(t, NFT_META_IIFNAME, NFT_CMP_EQ, n->prefix, strlen(n->prefix));
	nft_unroutable(t);
	nft_verdict(t, NF_DROP, NULL);
	nft_rule_end(t);
}

static void masquerade(struct nft *t, const struct lane_net *n)
{
	nft_base_chain(t, "nat", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC, false);
	nft_rule(t, "nat");
	nft_ip4(t);
	nft_address(t, true, NFT_CMP_EQ, n->network.first, n->bits);
	nft_oif(t, NFT_CMP_EQ, n->uplink);
	nft_masquerade(t);
	nft_rule_end(t);
}

int rules_host(int fd, const struct lane_net *n, struct err *e)
{
	struct nft t;

	nft_begin(&t, n->table, NFT_REPLACE);
	nft_chain(&t, "from");
	nft_chain(&t, "to");
	forward_from(&t, n);
	forward_to(&t);
	forward(&t, n);
	input(&t, n);
	sources(&t, n);
	masquerade(&t, n);
	return nft_commit(&t, fd, "the table of sandboxes", e);
}

int rules_host_remove(int fd, const struct lane_net *n, struct err *e)
{
	struct nft t;

	nft_begin(&t, n->table, NFT_REMOVE);
	return nft_commit(&t, fd, "the table of sandboxes", e);
}
