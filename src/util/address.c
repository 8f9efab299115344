#include "hutch/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct range {
	uint8_t prefix[16];
	int bits;
};

static const struct range closed4[] = {
	{ { 0 }, 8 },                /* this network */
	{ { 10 }, 8 }, { { 172, 16 }, 12 }, { { 192, 168 }, 16 },       /* private */
	{ { 100, 64 }, 10 },         /* shared by carriers */
	{ { 127 }, 8 },              /* this machine */
	{ { 169, 254 }, 16 },        /* link-local: metadata services of clouds */
	{ { 192, 0, 0 }, 24 },       /* protocol assignments */
	{ { 192, 0, 2 }, 24 }, { { 198, 51, 100 }, 24 }, { { 203, 0, 113 }, 24 },  /* documentation */
	{ { 192, 88, 99 }, 24 },     /* 6to4 relays */
	{ { 198, 18 }, 15 },         /* benchmarks */
	{ { 224 }, 4 }, { { 240 }, 4 },      /* multicast, reserved, broadcast */
};

static const struct range global6 = { { 0x20 }, 3 };
static const struct range closed6[] = {
	{ { 0x20, 0x01, 0x00 }, 23 },        /* protocol assignments, Teredo among them */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 }, { { 0x3f, 0xff, 0x00 }, 20 },  /* documentation */
};
static const struct range mapped = { { [10] = 0xff, [11] = 0xff }, 96 };
static const struct range nat64 = { { 0x00, 0x64, 0xff, 0x9b }, 96 };
static const struct range six_to_four = { { 0x20, 0x02 }, 16 };

static bool in(const uint8_t *p, const struct range *r)
{
	int bytes = r->bits / 8, rest = r->bits % 8;

	if (memcmp(p, r->prefix, (size_t)bytes) != 0)
		return false;
	return rest == 0 || ((p[bytes] ^ r->prefix[bytes]) >> (8 - rest)) == 0;
}

static bool public4(const uint8_t *p)
{
	for (size_t i = 0; i < sizeof closed4 / sizeof closed4[0]; i++)
		if (in(p, &closed4[i]))
			return false;
	return true;
}

static bool public6(const uint8_t *p)
{
	if (in(p, &mapped) || in(p, &nat64))
		return public4(p + 12);
	if (in(p, &six_to_four))
		return public4(p + 2);
	for (size_t i = 0; i < sizeof closed6 / sizeof closed6[0]; i++)
		if (in(p, &closed6[i]))
			return false;
	return in(p, &global6);
}

bool address_public(const struct sockaddr *a)
{
	uint8_t p[16];

	if (a->sa_family == AF_INET) {
		memcpy(p, (const char *)a + offsetof(struct sockaddr_in, sin_addr), 4);
		return public4(p);
	}
	if (a->sa_family == AF_INET6) {
		memcpy(p, (const char *)a + offsetof(struct sockaddr_in6, sin6_addr), 16);
		return public6(p);
	}
	return false;
}

int address_text_public(const char *text)
{
	uint8_t p[16];

	if (inet_pton(AF_INET, text, p) == 1)
		return public4(p);
	if (inet_pton(AF_INET6, text, p) == 1)
		return public6(p);
	return -1;
}
