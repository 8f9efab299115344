#include "hutch/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"

#define NONCE 12
#define TAG 16
#define BOUND_MAX 256                /* of purpose and name */
#define RAW_MAX (NONCE + SEAL_TEXT_MAX + TAG)

/* A context with key, nonce and what is bound, ready for the text. NULL: out of memory. */
static EVP_CIPHER_CTX *begin(const uint8_t secret[SECRET_LEN], const char *bound, const uint8_t *nonce, int encrypt)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	uint8_t key[SHA256_LEN];
	int n;

	hmac_sha256(secret, SECRET_LEN, "seal", 4, key);
	if (c != NULL && (EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce, encrypt) != 1 ||
			  EVP_CipherUpdate(c, NULL, &n, (const uint8_t *)bound, (int)strlen(bound)) != 1)) {
		EVP_CIPHER_CTX_free(c);
		c = NULL;
	}
	OPENSSL_cleanse(key, sizeof key);
	return c;
}

static int bind_to(const char *purpose, const char *name, char bound[BOUND_MAX], struct err *e)
{
	if (snprintf(bound, BOUND_MAX, "%s:%s", purpose, name) >= BOUND_MAX)
		return err_set(e, ERR_INTERNAL, "seal: %s has too long a name", purpose);
	return 0;
}

int seal_text(const uint8_t secret[SECRET_LEN], const char *purpose, const char *name, const char *text, struct buf *out, struct err *e)
{
	size_t len = strlen(text);
	char bound[BOUND_MAX];
	EVP_CIPHER_CTX *c;
	struct buf raw;
	uint8_t *p;
	int n = 0, done = 0;

	if (len > SEAL_TEXT_MAX)
		return err_set(e, ERR_INTERNAL, "seal: %s is longer than %d bytes", purpose, SEAL_TEXT_MAX);
	if (bind_to(purpose, name, bound, e) < 0)
		return -1;
	buf_init(&raw, RAW_MAX);
	p = (uint8_t *)buf_room(&raw, NONCE + len + TAG);
	if (p != NULL) {
		random_bytes(p, NONCE);
		c = begin(secret, bound, p, 1);
		done = c != NULL && EVP_CipherUpdate(c, p + NONCE, &n, (const uint8_t *)text, (int)len) == 1 &&
		       EVP_CipherFinal_ex(c, p + NONCE + n, &n) == 1 &&
		       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, p + NONCE + len) == 1;
		EVP_CIPHER_CTX_free(c);
	}
	if (done)
		base64_add(out, p, NONCE + len + TAG);
	buf_release(&raw);
	return done && !buf_failed(out) ? 0 : err_set(e, ERR_INTERNAL, "seal: out of memory");
}

int seal_open(const uint8_t secret[SECRET_LEN], const char *purpose, const char *name, const char *sealed, struct buf *out, struct err *e)
{
	char bound[BOUND_MAX];
	EVP_CIPHER_CTX *c;
	struct buf raw;
	bool done = false;
	uint8_t *p;
	char *to;
	int n = 0, len;

	if (bind_to(purpose, name, bound, e) < 0)
		return -1;
	buf_init(&raw, RAW_MAX);
	if (base64_decode(&raw, sealed, strlen(sealed)) == 0 && raw.len >= NONCE + TAG) {
		p = (uint8_t *)buf_str(&raw);
		len = (int)raw.len - NONCE - TAG;
		to = buf_room(out, (size_t)len);
		c = to != NULL ? begin(secret, bound, p, 0) : NULL;
		done = c != NULL && EVP_CipherUpdate(c, (uint8_t *)to, &n, p + NONCE, len) == 1 &&
		       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, p + NONCE + len) == 1 &&
		       EVP_CipherFinal_ex(c, (uint8_t *)to + n, &n) == 1;
		EVP_CIPHER_CTX_free(c);
		if (to != NULL)
			to[done ? len : 0] = '\0';
		if (done)
			out->len += (size_t)len;
	}
	buf_release(&raw);
	return done ? 0 : err_set(e, ERR_INTERNAL, "%s of %s cannot be read with this instance's secret", purpose, name);
}
