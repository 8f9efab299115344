#include "config.h"

#include "hutch/chunked.h"

enum {
	SIZE, EXTENSION, SIZE_LF,
	DATA, DATA_CR, DATA_LF,
	LINE, TRAILER, TRAILER_LF, END_LF,
	DONE
};

void chunked_init(struct chunked *c)
{
	*c = (struct chunked){ .state = SIZE };
}

uint64_t chunked_payload(const struct chunked *c)
{
	return c->state == DATA ? c->left : 0;
}

void chunked_took(struct chunked *c, uint64_t n)
{
	c->left -= n;
	if (c->left == 0)
		c->state = DATA_CR;
}

bool chunked_done(const struct chunked *c)
{
	return c->state == DONE;
}

static int size_byte(struct chunked *c, unsigned char ch)
{
	int v = -1;

	if (ch >= '0' && ch <= '9')
		v = ch - '0';
	else if ((ch | 0x20) >= 'a' && (ch | 0x20) <= 'f')
		v = (ch | 0x20) - 'a' + 10;
	if (v >= 0) {
		if (++c->digits > 15)                 /* stays below 2^60: no overflow anywhere */
			return -1;
		c->left = c->left * 16 + (unsigned)v;
		return SIZE;
	}
	if (c->digits == 0)
		return -1;
	if (ch == ';')
		return EXTENSION;
	return ch == '\r' ? SIZE_LF : -1;
}

/* A byte of an extension or trailer: read over, but counted, and no stray control byte. */
static int extra_byte(struct chunked *c, unsigned char ch, int stay, int at_cr)
{
	if (ch == '\r')
		return at_cr;
	if ((ch < 0x20 && ch != '\t') || ch == 0x7f || c->extra++ == CHUNKED_EXTRA_MAX)
		return -1;
	return stay;
}

static int expect(unsigned char ch, char want, int next)
{
	return ch == (unsigned char)want ? next : -1;
}

static int step(struct chunked *c, unsigned char ch)
{
	switch (c->state) {
	case SIZE:
		return size_byte(c, ch);
	case EXTENSION:
		return extra_byte(c, ch, EXTENSION, SIZE_LF);
	case SIZE_LF:
		c->digits = 0;
		return expect(ch, '\n', c->left != 0 ? DATA : LINE);
	case DATA_CR:
		return expect(ch, '\r', DATA_LF);
	case DATA_LF:
		return expect(ch, '\n', SIZE);
	case LINE:
		return extra_byte(c, ch, TRAILER, END_LF);
	case TRAILER:
		return extra_byte(c, ch, TRAILER, TRAILER_LF);
	case TRAILER_LF:
		return expect(ch, '\n', LINE);
	case END_LF:
		return expect(ch, '\n', DONE);
	default:
		return -1;
	}
}

ssize_t chunked_frame(struct chunked *c, const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && c->state != DATA && c->state != DONE) {
		int next = step(c, (unsigned char)p[i++]);

		if (next < 0)
			return -1;
		c->state = (uint8_t)next;
	}
	return (ssize_t)i;
}

ssize_t chunked_scan(struct chunked *c, const char *p, size_t n)
{
	size_t at = 0;

	while (at < n && c->state != DONE) {
		ssize_t used;

		if (c->state == DATA) {
			uint64_t skip = c->left < n - at ? c->left : n - at;

			chunked_took(c, skip);
			at += (size_t)skip;
			continue;
		}
		used = chunked_frame(c, p + at, n - at);
		if (used < 0)
			return -1;
		at += (size_t)used;
	}
	return (ssize_t)at;
}
