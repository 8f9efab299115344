/*
 * strset.h - a set of strings with a bound on their bytes.
 */
#ifndef HUTCH_AGENT_STRSET_H
#define HUTCH_AGENT_STRSET_H

#include <stdbool.h>
#include <stdint.h>
#include "hutch/buf.h"

struct strset {
	struct buf text;             /* the strings, each with its NUL */
	uint32_t *slots;             /* offset + 1 in text; 0: free */
	size_t size, n;
};

void strset_init(struct strset *s, size_t max);
void strset_release(struct strset *s);
/* 1 added, 0 it was there, -1 no room or no memory. str is not empty. */
int strset_add(struct strset *s, const char *str);
bool strset_has(const struct strset *s, const char *str);
void strset_drop(struct strset *s, const char *str);
void strset_clear(struct strset *s);

#endif
