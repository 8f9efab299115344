/*
 * secret.h - the instance secret and what is derived from it.
 *
 * The file holds 64 hex digits; it must not be readable by others. Tokens are never stored:
 * they are derived anew (api.md 6.7).
 */
#ifndef HUTCH_SECRET_H
#define HUTCH_SECRET_H

#include <stdint.h>
#include "hutch/err.h"

#define SECRET_LEN 32
#define TOKEN_LEN 65         /* 64 hex digits and a NUL */

/* Make the file with a fresh secret unless it is there. 0 or -1. */
int secret_make(const char *path, struct err *e);
/* A file of 64 random hex digits and a newline, 0600, unless it is there; `option` names it in errors. */
int secret_file_make(const char *option, const char *path, struct err *e);
int secret_read(const char *path, uint8_t out[SECRET_LEN], struct err *e);
/* hex HMAC-SHA256(secret, purpose ":" name). */
void secret_token(const uint8_t secret[SECRET_LEN], const char *purpose, const char *name, char out[TOKEN_LEN]);

#endif
