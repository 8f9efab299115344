/*
 * nft.h - sentences of nftables' netlink protocol: a batch of messages, and the expressions that rules are made of.
 */
#ifndef HUTCH_NODE_NFT_H
#define HUTCH_NODE_NFT_H

#include <stdbool.h>
#include <stdint.h>
#include "hutch/netrules.h"
#include "netlink.h"

struct nft {
	struct nl m;
	const char *table;
	uint32_t sets;               /* made so far */
	size_t list;                 /* the open rule's expressions */
};

enum nft_how {
	NFT_FRESH,                   /* there is no such table yet */
	NFT_REPLACE,                 /* whatever is there goes */
	NFT_REMOVE,                  /* the same, and none comes */
};
/* A transaction that begins with an empty table (of family inet), or only removes it. A table that goes is freed by the kernel only when nobody
 * can look at it any more, and closing a netfilter socket of that namespace waits for this: milliseconds. */
void nft_begin(struct nft *t, const char *table, enum nft_how how);
/* Send it. Nothing of it holds unless all does. */
int nft_commit(struct nft *t, int fd, const char *what, struct err *e);

void nft_chain(struct nft *t, const char *name);               /* to jump to */
/* type "filter" or "nat"; hook NF_INET_...; drop: its policy, else accept */
void nft_base_chain(struct nft *t, const char *name, const char *type, uint32_t hook, int32_t priority, bool drop);
/* A set of these ranges (merged, at least one) for nft_in_set. */
uint32_t nft_set(struct nft *t, const struct ip4_range *r, size_t n);

/* Rules: between the two of these, expressions; a packet goes on to the next as long as it matches. */
void nft_rule(struct nft *t, const char *chain);
void nft_rule_end(struct nft *t);
void nft_meta(struct nft *t, uint32_t key, uint32_t op, const void *p, size_t n);      /* NFT_META_..., NFT_CMP_... */
void nft_oif(struct nft *t, uint32_t op, const char *name);
void nft_ip4(struct nft *t);                                   /* it is IPv4 */
void nft_address(struct nft *t, bool source, uint32_t op, uint32_t address, int bits);
void nft_in_set(struct nft *t, uint32_t set);                  /* its destination is */
void nft_dport(struct nft *t, uint8_t protocol, uint16_t port);
void nft_known(struct nft *t);                                 /* of a connection that is there */
void nft_unroutable(struct nft *t);                            /* its source is not what leads to where it came from */
void nft_verdict(struct nft *t, int32_t code, const char *chain);      /* NF_ACCEPT, NF_DROP, NFT_GOTO ... */
void nft_reject(struct nft *t, bool reset);
void nft_masquerade(struct nft *t);

#endif
