#include "hutch/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_release(struct buf *b)
{
	free(b->p);
	buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->p != NULL)
		b->p[0] = '\0';
}

char *buf_room(struct buf *b, size_t n)
{
	size_t need, cap;
	char *p;

	if (b->failed || n > b->max - b->len) {
		b->failed = true;
		return NULL;
	}
	need = b->len + n + 1;
	if (need > b->cap) {
		cap = b->cap != 0 ? b->cap : 256;
		while (cap < need)
			cap *= 2;
		p = realloc(b->p, cap);
		if (p == NULL) {
			b->failed = true;
			return NULL;
		}
		b->p = p;
		b->cap = cap;
	}
	return b->p + b->len;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	char *to = buf_room(b, n);

	if (to == NULL)
		return;
	if (n != 0)
		memcpy(to, p, n);
	b->len += n;
	b->p[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addc_slow(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	char *to;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	to = n < 0 ? NULL : buf_room(b, (size_t)n);
	if (to != NULL) {
		vsnprintf(to, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	} else {
		b->failed = true;
	}
	va_end(again);
}

void buf_cut(struct buf *b, size_t from)
{
	if (from >= b->len) {
		b->len = 0;
	} else {
		memmove(b->p, b->p + from, b->len - from);
		b->len -= from;
	}
	if (b->p != NULL)
		b->p[b->len] = '\0';
}

bool buf_failed(const struct buf *b)
{
	return b->failed;
}

const char *buf_str(const struct buf *b)
{
	return b->p != NULL ? b->p : "";
}

char *buf_take(struct buf *b)
{
	char *p;

	if (b->failed || buf_room(b, 0) == NULL) {
		buf_release(b);
		b->failed = true;
		return NULL;
	}
	b->p[b->len] = '\0';
	p = b->p;
	buf_init(b, b->max);
	return p;
}
