#include "config.h"

#include "nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>

#define SET_NAME "__set%d"
#define IPV4_ADDR 7                  /* nft's name of the kind of address; for who lists the rules */

/* ---- messages ---- */

static void begin(struct nft *t, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg g = { .nfgen_family = NFPROTO_INET };

	nl_begin(&t->m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &g, sizeof g);
}

static void edge(struct nft *t, uint16_t type)
{
	const struct nfgenmsg g = { .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	nl_begin(&t->m, type, 0, &g, sizeof g);
	nl_end(&t->m);
}

static void table(struct nft *t, uint16_t type, uint16_t flags)
{
	begin(t, type, flags);
	nl_text(&t->m, NFTA_TABLE_NAME, t->table);
	nl_end(&t->m);
}

void nft_begin(struct nft *t, const char *name, enum nft_how how)
{
	*t = (struct nft){ .table = name };
	nl_init(&t->m);
	edge(t, NFNL_MSG_BATCH_BEGIN);
	if (how != NFT_FRESH) {
		table(t, NFT_MSG_NEWTABLE, NLM_F_CREATE);    /* so that there is one to delete */
		table(t, NFT_MSG_DELTABLE, NLM_F_ACK);
	}
	if (how != NFT_REMOVE)
		table(t, NFT_MSG_NEWTABLE, NLM_F_CREATE);
}

int nft_commit(struct nft *t, int fd, const char *what, struct err *e)
{
	int status, why;

	edge(t, NFNL_MSG_BATCH_END);
	status = nl_talk(fd, &t->m, what, e);
	why = errno;
	nl_release(&t->m);
	errno = why;
	return status;
}

void nft_chain(struct nft *t, const char *name)
{
	begin(t, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	nl_text(&t->m, NFTA_CHAIN_TABLE, t->table);
	nl_text(&t->m, NFTA_CHAIN_NAME, name);
	nl_end(&t->m);
}

void nft_base_chain(struct nft *t, const char *name, const char *type, uint32_t hook, int32_t priority, bool drop)
{
	size_t at;

	begin(t, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	nl_text(&t->m, NFTA_CHAIN_TABLE, t->table);
	nl_text(&t->m, NFTA_CHAIN_NAME, name);
	at = nl_open(&t->m, NFTA_CHAIN_HOOK);
	nl_be32(&t->m, NFTA_HOOK_HOOKNUM, hook);
	nl_be32(&t->m, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	nl_close(&t->m, at);
	nl_be32(&t->m, NFTA_CHAIN_POLICY, drop ? NF_DROP : NF_ACCEPT);
	nl_text(&t->m, NFTA_CHAIN_TYPE, type);
	nl_end(&t->m);
}

/* ---- sets ---- */

static void element(struct nft *t, uint32_t key, bool end)
{
	size_t at = nl_open(&t->m, NFTA_LIST_ELEM), value;

	if (end)
		nl_be32(&t->m, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
	value = nl_open(&t->m, NFTA_SET_ELEM_KEY);
	nl_be32(&t->m, NFTA_DATA_VALUE, key);
	nl_close(&t->m, value);
	nl_close(&t->m, at);
}

/* In order, from an end at 0 on: each says where what it begins or ends does so. */
static void elements(struct nft *t, const struct ip4_range *r, size_t n)
{
	if (r[0].first > 0)
		element(t, 0, true);
	for (size_t i = 0; i < n; i++) {
		element(t, r[i].first, false);
		if (r[i].last < UINT32_MAX)
			element(t, r[i].last + 1, true);
	}
}

uint32_t nft_set(struct nft *t, const struct ip4_range *r, size_t n)
{
	const uint32_t id = ++t->sets;
	size_t at;

	begin(t, NFT_MSG_NEWSET, NLM_F_CREATE);
	nl_text(&t->m, NFTA_SET_TABLE, t->table);
	nl_text(&t->m, NFTA_SET_NAME, SET_NAME);
	nl_be32(&t->m, NFTA_SET_FLAGS, NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | NFT_SET_INTERVAL);
	nl_be32(&t->m, NFTA_SET_KEY_TYPE, IPV4_ADDR);
	nl_be32(&t->m, NFTA_SET_KEY_LEN, 4);
	nl_be32(&t->m, NFTA_SET_ID, id);
	nl_end(&t->m);
	begin(t, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
	nl_text(&t->m, NFTA_SET_ELEM_LIST_TABLE, t->table);
	nl_text(&t->m, NFTA_SET_ELEM_LIST_SET, SET_NAME);
	nl_be32(&t->m, NFTA_SET_ELEM_LIST_SET_ID, id);
	at = nl_open(&t->m, NFTA_SET_ELEM_LIST_ELEMENTS);
	elements(t, r, n);
	nl_close(&t->m, at);
	nl_end(&t->m);
	return id;
}

/* ---- rules ---- */

void nft_rule(struct nft *t, const char *chain)
{
	begin(t, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	nl_text(&t->m, NFTA_RULE_TABLE, t->table);
	nl_text(&t->m, NFTA_RULE_CHAIN, chain);
	t->list = nl_open(&t->m, NFTA_RULE_EXPRESSIONS);
}

void nft_rule_end(struct nft *t)
{
	nl_close(&t->m, t->list);
	nl_end(&t->m);
}

struct open { size_t element, data; };

static struct open open_expression(struct nft *t, const char *name)
{
	struct open o = { .element = nl_open(&t->m, NFTA_LIST_ELEM) };

	nl_text(&t->m, NFTA_EXPR_NAME, name);
	o.data = nl_open(&t->m, NFTA_EXPR_DATA);
	return o;
}

static void close_expression(struct nft *t, struct open o)
{
	nl_close(&t->m, o.data);
	nl_close(&t->m, o.element);
}

static void value(struct nft *t, uint16_t type, const void *p, size_t n)
{
	size_t at = nl_open(&t->m, type);

	nl_put(&t->m, NFTA_DATA_VALUE, p, n);
	nl_close(&t->m, at);
}

static void compare(struct nft *t, uint32_t op, const void *p, size_t n)
{
	struct open o = open_expression(t, "cmp");

	nl_be32(&t->m, NFTA_CMP_SREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_CMP_OP, op);
	value(t, NFTA_CMP_DATA, p, n);
	close_expression(t, o);
}

/* reg1 &= mask */
static void mask(struct nft *t, const void *bits, size_t n)
{
	static const uint8_t none[4];
	struct open o = open_expression(t, "bitwise");

	nl_be32(&t->m, NFTA_BITWISE_SREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_BITWISE_DREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_BITWISE_LEN, (uint32_t)n);
	value(t, NFTA_BITWISE_MASK, bits, n);
	value(t, NFTA_BITWISE_XOR, none, n);
	close_expression(t, o);
}

static void payload(struct nft *t, uint32_t base, uint32_t offset, uint32_t n)
{
	struct open o = open_expression(t, "payload");

	nl_be32(&t->m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_PAYLOAD_BASE, base);
	nl_be32(&t->m, NFTA_PAYLOAD_OFFSET, offset);
	nl_be32(&t->m, NFTA_PAYLOAD_LEN, n);
	close_expression(t, o);
}

void nft_meta(struct nft *t, uint32_t key, uint32_t op, const void *p, size_t n)
{
	struct open o = open_expression(t, "meta");

	nl_be32(&t->m, NFTA_META_DREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_META_KEY, key);
	close_expression(t, o);
	compare(t, op, p, n);
}

void nft_oif(struct nft *t, uint32_t op, const char *name)
{
	nft_meta(t, NFT_META_OIFNAME, op, name, strlen(name) + 1);
}

void nft_ip4(struct nft *t)
{
	const uint8_t four = NFPROTO_IPV4;

	nft_meta(t, NFT_META_NFPROTO, NFT_CMP_EQ, &four, 1);
}

#define IP4_SOURCE 12
#define IP4_DESTINATION 16

void nft_address(struct nft *t, bool source, uint32_t op, uint32_t address, int bits)
{
	const uint32_t be = htonl(address), of = htonl(bits == 32 ? UINT32_MAX : ~(UINT32_MAX >> bits));

	payload(t, NFT_PAYLOAD_NETWORK_HEADER, source ? IP4_SOURCE : IP4_DESTINATION, 4);
	if (bits < 32)
		mask(t, &of, sizeof of);
	compare(t, op, &be, sizeof be);
}

void nft_in_set(struct nft *t, uint32_t set)
{
	struct open o;

	payload(t, NFT_PAYLOAD_NETWORK_HEADER, IP4_DESTINATION, 4);
	o = open_expression(t, "lookup");
	nl_text(&t->m, NFTA_LOOKUP_SET, SET_NAME);
	nl_be32(&t->m, NFTA_LOOKUP_SREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_LOOKUP_SET_ID, set);
	close_expression(t, o);
}

void nft_dport(struct nft *t, uint8_t protocol, uint16_t port)
{
	const uint16_t be = htons(port);

	nft_meta(t, NFT_META_L4PROTO, NFT_CMP_EQ, &protocol, 1);
	payload(t, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
	compare(t, NFT_CMP_EQ, &be, sizeof be);
}

void nft_known(struct nft *t)
{
	const uint32_t states = 1 << 1 | 1 << 2, none = 0;     /* established, related: in the machine's byte order, as ct has it */
	struct open o = open_expression(t, "ct");

	nl_be32(&t->m, NFTA_CT_DREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_CT_KEY, NFT_CT_STATE);
	close_expression(t, o);
	mask(t, &states, sizeof states);
	compare(t, NFT_CMP_NEQ, &none, sizeof none);
}

void nft_unroutable(struct nft *t)
{
	const uint32_t none = 0;
	struct open o = open_expression(t, "fib");

	nl_be32(&t->m, NFTA_FIB_DREG, NFT_REG_1);
	nl_be32(&t->m, NFTA_FIB_RESULT, NFT_FIB_RESULT_OIF);
	nl_be32(&t->m, NFTA_FIB_FLAGS, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF);
	close_expression(t, o);
	compare(t, NFT_CMP_EQ, &none, sizeof none);
}

void nft_verdict(struct nft *t, int32_t code, const char *chain)
{
	struct open o = open_expression(t, "immediate");
	size_t data, verdict;

	nl_be32(&t->m, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nl_open(&t->m, NFTA_IMMEDIATE_DATA);
	verdict = nl_open(&t->m, NFTA_DATA_VERDICT);
	nl_be32(&t->m, NFTA_VERDICT_CODE, (uint32_t)code);
	if (chain != NULL)
		nl_text(&t->m, NFTA_VERDICT_CHAIN, chain);
	nl_close(&t->m, verdict);
	nl_close(&t->m, data);
	close_expression(t, o);
}

void nft_reject(struct nft *t, bool reset)
{
	struct open o = open_expression(t, "reject");

	nl_be32(&t->m, NFTA_REJECT_TYPE, reset ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMPX_UNREACH);
	nl_u8(&t->m, NFTA_REJECT_ICMP_CODE, reset ? 0 : NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	close_expression(t, o);
}

void nft_masquerade(struct nft *t)
{
	close_expression(t, open_expression(t, "masq"));
}
