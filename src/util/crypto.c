/*
 * Hashes by libcrypto's plain functions: EVP of OpenSSL 3 looks every algorithm up by its name under locks, which would be half of
 * what reading one sandbox costs (docs/performance.md). They are marked as deprecated from 3.0 on, so the API level is stated.
 */
#define OPENSSL_API_COMPAT 0x10101000L
#include "hutch/crypto.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SHA256_BLOCK 64

void sha256(const void *p, size_t n, uint8_t out[SHA256_LEN])
{
	SHA256_CTX c;

	if (SHA256_Init(&c) != 1 || SHA256_Update(&c, p, n) != 1 || SHA256_Final(out, &c) != 1)
		abort();
}

void sha256_two(const void *a, size_t an, const void *b, size_t bn, uint8_t out[SHA256_LEN])
{
	SHA256_CTX c;

	if (SHA256_Init(&c) != 1 || SHA256_Update(&c, a, an) != 1 || SHA256_Update(&c, b, bn) != 1 || SHA256_Final(out, &c) != 1)
		abort();
	OPENSSL_cleanse(&c, sizeof c);
}

void sha512(const void *p, size_t n, uint8_t out[SHA512_LEN])
{
	SHA512_CTX c;

	if (SHA512_Init(&c) != 1 || SHA512_Update(&c, p, n) != 1 || SHA512_Final(out, &c) != 1)
		abort();
}

/* SHA-256 over the key padded and masked, then the text. */
static void hmac_part(const uint8_t key[SHA256_BLOCK], uint8_t mask, const void *p, size_t n, uint8_t out[SHA256_LEN])
{
	uint8_t block[SHA256_BLOCK];
	SHA256_CTX c;

	for (int i = 0; i < SHA256_BLOCK; i++)
		block[i] = key[i] ^ mask;
	if (SHA256_Init(&c) != 1 || SHA256_Update(&c, block, sizeof block) != 1 || SHA256_Update(&c, p, n) != 1 ||
	    SHA256_Final(out, &c) != 1)
		abort();
	OPENSSL_cleanse(block, sizeof block);
	OPENSSL_cleanse(&c, sizeof c);
}

/* RFC 2104. */
void hmac_sha256(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[SHA256_LEN])
{
	uint8_t padded[SHA256_BLOCK] = { 0 }, inner[SHA256_LEN];

	if (key_len > sizeof padded)
		sha256(key, key_len, padded);
	else if (key_len > 0)
		memcpy(padded, key, key_len);
	hmac_part(padded, 0x36, p, n, inner);
	hmac_part(padded, 0x5c, inner, sizeof inner, out);
	OPENSSL_cleanse(padded, sizeof padded);
	OPENSSL_cleanse(inner, sizeof inner);
}

void random_bytes(void *p, size_t n)
{
	uint8_t *to = p;

	while (n > 0) {
		ssize_t got = getrandom(to, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			abort();
		to += got;
		n -= (size_t)got;
	}
}

void random_id(char *out, size_t n)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t done = 0;

	while (done < n) {
		uint8_t r[32];

		random_bytes(r, sizeof r);
		for (size_t i = 0; i < sizeof r && done < n; i++)
			if (r[i] < 252)              /* 7 * 36: no letter is likelier than another */
				out[done++] = letters[r[i] % 36];
	}
	out[n] = '\0';
}

void random_uuid(char out[37])
{
	uint8_t r[16];
	char hex[33];

	random_bytes(r, sizeof r);
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
	hex_encode(r, sizeof r, hex);
	for (int i = 0, o = 0; i < 32; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			out[o++] = '-';
		out[o++] = hex[i];
	}
	out[36] = '\0';
}

bool secret_equal(const void *a, size_t an, const void *b, size_t bn)
{
	return an == bn && CRYPTO_memcmp(a, b, an) == 0;
}
