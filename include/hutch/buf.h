/*
 * buf.h - one growing byte buffer with a maximum.
 *
 * Failure (over the maximum, out of memory) is sticky: further adds do nothing and
 * buf_failed() tells at the end, so that writers need one check. The bytes are always
 * followed by a NUL that is not counted.
 */
#ifndef HUTCH_BUF_H
#define HUTCH_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *p;      /* NULL until the first add */
	size_t len;
	size_t cap;
	size_t max;
	bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);           /* frees the bytes; b can be used again (same maximum) */
void buf_reset(struct buf *b);             /* forgets bytes and failure, keeps the memory */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_addc_slow(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_cut(struct buf *b, size_t from);  /* drop the first `from` bytes */
char *buf_room(struct buf *b, size_t n);   /* n writable bytes after len, or NULL; add to len yourself */
static inline bool buf_has_room(const struct buf *b, size_t n)
{
	return !b->failed && b->len + n < b->cap && b->len + n <= b->max;
}
static inline void buf_addc(struct buf *b, char c)
{
	if (buf_has_room(b, 1)) {
		b->p[b->len++] = c;
		b->p[b->len] = '\0';
	} else {
		buf_addc_slow(b, c);
	}
}
bool buf_failed(const struct buf *b);
const char *buf_str(const struct buf *b);  /* never NULL */
char *buf_take(struct buf *b);             /* the caller frees; NULL when it failed, and then nothing is kept */

#endif
