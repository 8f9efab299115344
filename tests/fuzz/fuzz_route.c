/* Fuzz target: METHOD SPACE PATH against the route table; whatever comes, a row or a refusal with a text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "responder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { .kind = ERR_NONE };
	char id[SANDBOX_ID_LEN], *text = malloc(size + 1), *path;
	const struct route *r;
	struct buf allow;
	struct call c;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	path = strchr(text, ' ');
	call_init(&c, 16);
	buf_init(&allow, 256);
	c.path = path != NULL ? path + 1 : "";
	c.method = text;
	if (path != NULL)
		*path = '\0';
	r = route_find(sandboxes_routes, sandboxes_routes_count, &c, &allow, &e);
	if ((r == NULL) == (e.kind == ERR_NONE) || (r == NULL && e.text[0] == '\0'))
		abort();
	if (r != NULL && take_sandbox_id(&c, id, &e) == 0 && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(id))
		abort();
	if (r == NULL) {
		call_fail(&c, &e);
		if (c.out.len == 0 || c.out.p[0] != '{')
			abort();
	}
	buf_release(&allow);
	call_release(&c);
	free(text);
	return 0;
}
