/*
 * seal.h - secrets at rest: AES-256-GCM under a key that is derived from the instance secret.
 *
 * A sealed text is base64 of nonce (12 bytes), ciphertext and tag (16). What it is for and what it belongs to are bound to it: moved to
 * another record it does not open.
 */
#ifndef HUTCH_SEAL_H
#define HUTCH_SEAL_H

#include "hutch/buf.h"
#include "hutch/err.h"
#include "hutch/secret.h"

#define SEAL_TEXT_MAX 65536

/* Appends the sealed text to out. purpose and name: up to 200 bytes together. */
int seal_text(const uint8_t secret[SECRET_LEN], const char *purpose, const char *name, const char *text, struct buf *out, struct err *e);
/* Appends the text to out. ERR_INTERNAL: damaged, or sealed under another secret, purpose or name. */
int seal_open(const uint8_t secret[SECRET_LEN], const char *purpose, const char *name, const char *sealed, struct buf *out, struct err *e);

#endif
