/*
 * crypto.h - hashes, random bytes and text encodings (OpenSSL libcrypto behind).
 */
#ifndef HUTCH_CRYPTO_H
#define HUTCH_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/buf.h"

#define SHA256_LEN 32
#define SHA512_LEN 64

/* These abort only if libcrypto itself is broken. */
void sha256(const void *p, size_t n, uint8_t out[SHA256_LEN]);
void sha512(const void *p, size_t n, uint8_t out[SHA512_LEN]);
void hmac_sha256(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[SHA256_LEN]);
/* SHA-256 over two texts, one after the other. */
void sha256_two(const void *a, size_t an, const void *b, size_t bn, uint8_t out[SHA256_LEN]);
void random_bytes(void *p, size_t n);               /* getrandom(2) */
/* n characters of [a-z0-9] and a NUL. */
void random_id(char *out, size_t n);
/* UUID version 4 in lower case, 36 characters and a NUL (RFC 9562). */
void random_uuid(char out[37]);
/* Equal in constant time for equal lengths. */
bool secret_equal(const void *a, size_t an, const void *b, size_t bn);

int hex_value(char c);                                   /* of a digit; -1 if none */
void hex_encode(const void *p, size_t n, char *out);     /* 2n characters and a NUL */
int hex_decode(const char *s, size_t n, uint8_t *out);   /* n/2 bytes; -1 if odd or not hex */

/* RFC 4648 section 4 (standard alphabet, padded). */
void base64_add(struct buf *b, const void *p, size_t n);
/* Standard or URL-safe alphabet, with or without padding; appends to b; -1 on any other byte. */
int base64_decode(struct buf *b, const char *s, size_t n);

#endif
