/* Open addressing over one buffer. A dropped string leaves an empty one behind, which nothing matches. */
#include "config.h"

#include "strset.h"

#include <stdlib.h>
#include <string.h>

void strset_init(struct strset *s, size_t max)
{
	*s = (struct strset){ 0 };
	buf_init(&s->text, max < UINT32_MAX ? max : UINT32_MAX - 1);
}

void strset_clear(struct strset *s)
{
	if (s->n == 0)
		return;
	memset(s->slots, 0, s->size * sizeof *s->slots);
	s->n = 0;
	buf_reset(&s->text);
}

void strset_release(struct strset *s)
{
	free(s->slots);
	buf_release(&s->text);
	strset_init(s, s->text.max);
}

static size_t hash(const char *str)
{
	uint32_t h = 2166136261U;       /* FNV-1a */

	while (*str != '\0')
		h = (h ^ (unsigned char)*str++) * 16777619U;
	return h;
}

/* Where the string is or would be. */
static uint32_t *slot(const struct strset *s, const char *str)
{
	size_t i = hash(str);

	while (s->slots[i &= s->size - 1] != 0 && strcmp(s->text.p + s->slots[i] - 1, str) != 0)
		i++;
	return &s->slots[i];
}

static int grow(struct strset *s)
{
	struct strset old = *s;

	s->size = old.size != 0 ? old.size * 2 : 64;
	s->slots = calloc(s->size, sizeof *s->slots);
	if (s->slots == NULL) {
		*s = old;
		return -1;
	}
	s->n = 0;
	for (size_t i = 0; i < old.size; i++) {
		const char *str = old.slots[i] != 0 ? s->text.p + old.slots[i] - 1 : "";

		if (*str != '\0') {
			*slot(s, str) = old.slots[i];
			s->n++;
		}
	}
	free(old.slots);
	return 0;
}

int strset_add(struct strset *s, const char *str)
{
	uint32_t at = (uint32_t)s->text.len + 1, *to;

	if (s->n * 2 >= s->size && grow(s) < 0)
		return -1;
	to = slot(s, str);
	if (*to != 0)
		return 0;
	buf_add(&s->text, str, strlen(str) + 1);
	if (buf_failed(&s->text))
		return -1;
	*to = at;
	s->n++;
	return 1;
}

bool strset_has(const struct strset *s, const char *str)
{
	return s->n != 0 && *slot(s, str) != 0;
}

void strset_drop(struct strset *s, const char *str)
{
	uint32_t *at = s->n != 0 ? slot(s, str) : NULL;

	if (at != NULL && *at != 0)
		s->text.p[*at - 1] = '\0';
}
