/*
 * netrules.h - addresses and blocks of addresses of network rules (api.md 5.3), as numbers: what goes on to the kernel is never a
 * client's text. IPv4 only.
 */
#ifndef HUTCH_NETRULES_H
#define HUTCH_NETRULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_RULES_MAX 512            /* entries of one list */
#define NET_ENTRY_MAX 256            /* bytes of one entry: a domain name fits */

struct ip4_range { uint32_t first, last; };      /* both belong to it; host byte order */

/* "a.b.c.d" or "a.b.c.d/n". -1: it is neither. Bits behind the prefix do not matter. */
int ip4_parse(const char *text, struct ip4_range *out);
/* Sort and join what overlaps or touches, in place; how many are left. Together they hold the same addresses. */
size_t ip4_merge(struct ip4_range *r, size_t n);
/* An IPv6 address or block. */
bool ip6_is(const char *text);
/* A domain name of ASCII labels, perhaps with "*." before it, or "*". */
bool domain_is(const char *text);
/* host or host:port, host being a domain name without star or an IPv4 address, port a number or ${PORT} (api.md 5.3). */
bool mask_host_is(const char *text);

#endif
