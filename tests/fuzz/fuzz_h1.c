/*
 * fuzz_h1.c - the head parser, the chunked decoder and the query decoder on arbitrary bytes.
 * Build for libFuzzer with -fsanitize=fuzzer; `make check` replays the seeds through replay.c.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/chunked.h"
#include "hutch/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)

/* Decode in pieces of `step`; a sum over the payload and what was used tell whether two runs agree. */
static uint64_t dechunk(const char *p, size_t n, size_t step)
{
	struct chunked c;
	uint64_t sum = 1;
	size_t at = 0;

	chunked_init(&c);
	while (at < n && !chunked_done(&c)) {
		size_t piece = n - at < step ? n - at : step;
		uint64_t payload = chunked_payload(&c);
		ssize_t used = payload != 0 ? (ssize_t)(payload < piece ? payload : piece) : chunked_frame(&c, p + at, piece);

		if (used < 0)
			return 0;
		DEMAND(used > 0);
		for (ssize_t i = 0; payload != 0 && i < used; i++)
			sum = sum * 31 + (unsigned char)p[at + (size_t)i];
		if (payload != 0)
			chunked_took(&c, (uint64_t)used);
		at += (size_t)used;
	}
	return sum * 31 + at + (chunked_done(&c) ? 7 : 0);
}

static void inside(struct h1_span s, const char *p, size_t n)
{
	DEMAND(s.n == 0 || (s.p >= p && s.p + s.n <= p + n) || h1_span_is(s, "/"));
}

static size_t head(const char *p, size_t n)
{
	struct h1_head h;
	struct err e = { 0 };
	ssize_t len = h1_parse_request(p, n, &h, &e);
	char out[64];

	if (len < 0)
		DEMAND(e.kind == ERR_INVALID || e.kind == ERR_TOO_LARGE);
	if (len <= 0)
		return 0;
	DEMAND((size_t)len <= n && !(h.chunked && h.length != -1));
	DEMAND(h1_parse_request(p, (size_t)len - 1, &h, &e) == 0);     /* not a byte earlier */
	DEMAND(h1_parse_request(p, (size_t)len, &h, &e) == len);
	inside(h.method, p, n);
	inside(h.target, p, n);
	inside(h.path, p, n);
	inside(h.query, p, n);
	for (size_t i = 0; i < h.nfields; i++) {
		inside(h.fields[i].name, p, n);
		inside(h.fields[i].value, p, n);
	}
	h1_query_get(h.query, "path", out, sizeof out);
	path_decode(h.path.p, h.path.n, out, sizeof out);
	return (size_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *p = malloc(size != 0 ? size : 1);  /* exact, so that a sanitizer sees a read beyond it */
	size_t used;

	DEMAND(p != NULL);
	if (size != 0)
		memcpy(p, data, size);
	used = head(p, size);
	DEMAND(dechunk(p + used, size - used, 1) == dechunk(p + used, size - used, size + 1));
	free(p);
	return 0;
}
