/* Hex and base64 (RFC 4648). */
#include "hutch/crypto.h"

#include <string.h>

void hex_encode(const void *p, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *from = p;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[from[i] >> 4];
		out[2 * i + 1] = digits[from[i] & 15];
	}
	out[2 * n] = '\0';
}

int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int hex_decode(const char *s, size_t n, uint8_t *out)
{
	if (n % 2 != 0)
		return -1;
	for (size_t i = 0; i < n; i += 2) {
		int hi = hex_value(s[i]), lo = hex_value(s[i + 1]);

		if (hi < 0 || lo < 0)
			return -1;
		out[i / 2] = (uint8_t)(hi << 4 | lo);
	}
	return 0;
}

void base64_add(struct buf *b, const void *p, size_t n)
{
	static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *from = p;
	char *to;

	if (n > SIZE_MAX / 2 || (to = buf_room(b, (n + 2) / 3 * 4)) == NULL)
		return;
	for (; n >= 3; n -= 3, from += 3) {
		*to++ = abc[from[0] >> 2];
		*to++ = abc[(from[0] & 3) << 4 | from[1] >> 4];
		*to++ = abc[(from[1] & 15) << 2 | from[2] >> 6];
		*to++ = abc[from[2] & 63];
	}
	if (n > 0) {
		*to++ = abc[from[0] >> 2];
		*to++ = n == 1 ? abc[(from[0] & 3) << 4] : abc[(from[0] & 3) << 4 | from[1] >> 4];
		*to++ = n == 1 ? '=' : abc[(from[1] & 15) << 2];
		*to++ = '=';
	}
	*to = '\0';
	b->len = (size_t)(to - b->p);
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	if (c == '/' || c == '_')
		return 63;
	return -1;
}

int base64_decode(struct buf *b, const char *s, size_t n)
{
	unsigned acc = 0;
	int bits = 0;

	while (n > 0 && s[n - 1] == '=')
		n--;
	if (n % 4 == 1)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int v = base64_value(s[i]);

		if (v < 0)
			return -1;
		acc = acc << 6 | (unsigned)v;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			buf_addc(b, (char)(acc >> bits & 0xff));
		}
	}
	return buf_failed(b) ? -1 : 0;
}
