/* Fuzz target: the query of a list, filters decoded up to three times. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "responder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct list_request r;
	struct call c = { 0 };
	struct err e;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	c.query = text;
	if (list_read(&c, &r, &e) == 0) {
		if (r.q.limit < 1 || r.q.limit > 100 || r.q.nmeta > META_PAIRS_MAX || (!r.q.want_running && !r.q.want_paused))
			abort();
		for (size_t i = 0; i < 2 * r.q.nmeta; i++)
			if (r.q.meta[i] < r.text || r.q.meta[i] + strlen(r.q.meta[i]) >= r.text + sizeof r.text)
				abort();
	} else if (e.kind != ERR_INVALID || e.text[0] == '\0') {
		abort();
	}
	free(text);
	return 0;
}
