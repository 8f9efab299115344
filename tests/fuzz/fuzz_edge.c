/*
 * fuzz_edge.c - which sandbox a request names, and whether its path is a control route, on arbitrary bytes.
 * Input: host, id header, port header and target, separated by newlines.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)

static char *line_of(char **rest)
{
	return *rest != NULL ? strsep(rest, "\n") : NULL;
}

static void find(const struct edge_request *r)
{
	struct edge_answer a = { 0 };

	if (edge_place("example.com:8080", r, &a) < 0) {
		DEMAND(a.why != NULL);
		return;
	}
	DEMAND(a.port >= 1 && a.port <= 65535);
	DEMAND(a.sandbox_id[0] != '\0' && strlen(a.sandbox_id) < EDGE_ID_LEN);
	DEMAND(strspn(a.sandbox_id, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(a.sandbox_id));
	if (a.prefix[0] != '\0') {       /* the parts of the path are the path, and the rest of it is one */
		DEMAND(a.target[0] == '/' && strstr(r->raw_target, a.prefix) + strlen(a.prefix) == a.target);
	}
}

/* However a path is written, adding to it what cleaning takes away changes nothing. */
static void reserved(const char *target)
{
	size_t n = strlen(target);
	char *longer = malloc(n + 16), path[16], again[16];
	bool is = place_reserved(target, path);

	DEMAND(longer != NULL);
	if (target[0] == '/') {
		strcpy(longer, "/./x/%2e%2E/");
		strcat(longer, target + 1);
		DEMAND(place_reserved(longer, again) == is);
		DEMAND(!is || strcmp(path, again) == 0);
	}
	free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text;
	struct edge_request r = { .host = NULL };

	DEMAND(text != NULL);
	if (size != 0)
		memcpy(text, data, size);
	text[size] = '\0';
	r.host = line_of(&rest);
	r.sandbox_header = line_of(&rest);
	r.port_header = line_of(&rest);
	r.raw_target = line_of(&rest);
	find(&r);
	if (r.raw_target != NULL)
		reserved(r.raw_target);
	if (r.raw_target != NULL && place_admitted(ENVD_PORT, r.raw_target)) {
		char path[16];

		DEMAND(!place_reserved(r.raw_target, path));
	}
	place_connect(r.raw_target, r.host);
	free(text);
	return 0;
}
