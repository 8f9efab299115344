/* The tokens of paged lists: which list, and the place of the last row given out, in URL-safe base64 (api.md 4). */
#include "domain_int.h"

#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"

#define PLACE_MAX (1 + 8 + SANDBOX_ID_LEN - 1)

void page_token_write(char list, const struct place *p, char out[PAGE_TOKEN_LEN])
{
	const size_t n = strlen(p->id);
	uint8_t raw[PLACE_MAX];
	struct buf b;

	raw[0] = (uint8_t)list;
	for (int i = 0; i < 8; i++)
		raw[1 + i] = (uint8_t)((uint64_t)p->us >> (56 - 8 * i));
	memcpy(raw + 9, p->id, n);
	buf_init(&b, PAGE_TOKEN_LEN - 1);
	base64_add(&b, raw, 9 + n);
	snprintf(out, PAGE_TOKEN_LEN, "%s", buf_str(&b));
	buf_release(&b);
	for (char *c = out; *c != '\0'; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
}

int page_token_read(const char *token, char list, size_t id_len, struct place *p, struct err *e)
{
	const uint8_t *raw;
	struct buf b;
	bool ok;

	buf_init(&b, PLACE_MAX);
	ok = strlen(token) < PAGE_TOKEN_LEN && base64_decode(&b, token, strlen(token)) == 0 && b.len == 9 + id_len;
	raw = (const uint8_t *)buf_str(&b);
	ok = ok && raw[0] == (uint8_t)list;
	p->us = 0;
	for (int i = 0; ok && i < 8; i++)
		p->us = (int64_t)((uint64_t)p->us << 8 | raw[1 + i]);
	if (ok) {
		memcpy(p->id, raw + 9, id_len);
		p->id[id_len] = '\0';
		ok = strspn(p->id, "abcdefghijklmnopqrstuvwxyz0123456789") == id_len;
	}
	buf_release(&b);
	return ok ? 0 : err_set(e, ERR_INVALID, "Invalid next token");
}
