/* Fuzz target: bodies of create (both versions), connect and timeout. What is taken over as JSON text must be JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "responder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_json(const char *text)
{
	json_object *o = NULL;
	struct err e;

	if (text != NULL && json_read_object(text, strlen(text), &o, &e) < 0)
		abort();
	json_object_put(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct create_request r;
	int64_t seconds = -1;
	struct resume_spec resume;
	bool memory;
	struct err e;

	for (int v2 = 0; v2 < 2; v2++) {
		if (create_read((const char *)data, size, v2, &r, &e) == 0) {
			if (r.spec.timeout_s < 1 || r.spec.template_ref == NULL || (v2 && !r.spec.secure))
				abort();
			must_be_json(r.spec.metadata);
			must_be_json(r.spec.env);
		} else if (e.kind != ERR_INVALID || e.text[0] == '\0') {
			abort();
		}
		create_release(&r);
	}
	if (lease_read((const char *)data, size, 300, &seconds, &memory, &e) == 0 && seconds < 0)
		abort();
	if (resume_read((const char *)data, size, &resume, &e) == 0 && resume.seconds < 1)
		abort();
	return 0;
}
