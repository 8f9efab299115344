/*
 * address.h - whether an address is one of the public internet.
 */
#ifndef HUTCH_ADDRESS_H
#define HUTCH_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* False for whatever is not globally reachable: this machine, private, shared, link-local, multicast, reserved and documentation
 * ranges (RFC 6890 and IANA's registries), IPv4 of that kind inside IPv6 (mapped, NAT64, 6to4), and families other than the two. */
bool address_public(const struct sockaddr *a);
/* The same of an address as text, without brackets: 1 public, 0 not, -1 when the text is no address. */
int address_text_public(const char *text);

#endif
