#include "hutch/netrules.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* Address and prefix length of "address[/n]", the address in network order. */
static int split(int family, const char *text, int bits, uint8_t *address, int *prefix)
{
	char copy[NET_ENTRY_MAX], *slash;
	size_t n;

	if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
		return -1;
	*prefix = bits;
	slash = strchr(copy, '/');
	if (slash != NULL) {
		*slash++ = '\0';
		n = strlen(slash);
		if (n == 0 || n > 3 || strspn(slash, DIGITS) != n || (slash[0] == '0' && n > 1) || (*prefix = atoi(slash)) > bits)
			return -1;
	}
	return inet_pton(family, copy, address) == 1 ? 0 : -1;
}

int ip4_parse(const char *text, struct ip4_range *out)
{
	uint8_t a[4];
	uint32_t host;
	int prefix;

	if (split(AF_INET, text, 32, a, &prefix) < 0)
		return -1;
	host = prefix == 0 ? UINT32_MAX : prefix == 32 ? 0 : UINT32_MAX >> prefix;
	out->first = ((uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3]) & ~host;
	out->last = out->first | host;
	return 0;
}

bool ip6_is(const char *text)
{
	uint8_t a[16];
	int prefix;

	return split(AF_INET6, text, 128, a, &prefix) == 0;
}

static int by_first(const void *a, const void *b)
{
	const struct ip4_range *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

size_t ip4_merge(struct ip4_range *r, size_t n)
{
	size_t out = 0;

	if (n == 0)
		return 0;
	qsort(r, n, sizeof *r, by_first);
	for (size_t i = 1; i < n; i++) {
		if (r[out].last == UINT32_MAX || r[i].first <= r[out].last + 1) {
			if (r[i].last > r[out].last)
				r[out].last = r[i].last;
		} else {
			r[++out] = r[i];
		}
	}
	return out + 1;
}

static bool labels(const char *s, size_t n)
{
	size_t label = 0;

	if (n == 0 || n > 253)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '.') {
			if (label == 0 || s[i - 1] == '-')
				return false;
			label = 0;
			continue;
		}
		if (strchr(LETTERS DIGITS "-_", s[i]) == NULL || s[i] == '\0' || (label == 0 && s[i] == '-') || ++label > 63)
			return false;
	}
	return label > 0 && s[n - 1] != '-';
}

bool domain_is(const char *text)
{
	if (strcmp(text, "*") == 0)
		return true;
	if (strncmp(text, "*.", 2) == 0)
		text += 2;
	return labels(text, strlen(text));
}

static bool port_is(const char *s)
{
	size_t n = strlen(s);

	if (strcmp(s, "${PORT}") == 0)
		return true;
	return n > 0 && n <= 5 && strspn(s, DIGITS) == n && atoi(s) >= 1 && atoi(s) <= 65535;
}

bool mask_host_is(const char *text)
{
	size_t host = strcspn(text, ":");

	return labels(text, host) && (text[host] == '\0' || port_is(text + host + 1));
}
