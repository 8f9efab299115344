/*
 * fuzz_multipart.c - the multipart parser on arbitrary bytes: once with all of them in its buffer, once with a buffer that is
 * refilled all the time. The first line of the input is the media type, the rest the body.
 * Build for libFuzzer with -fsanitize=fuzzer; `make check` replays the seeds through replay.c.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)
#define SMALL 256

struct input { const char *p; size_t n; };

static ssize_t take(void *ctx, void *p, size_t n)
{
	struct input *in = ctx;

	if (n > in->n)
		n = in->n;
	if (n != 0)
		memcpy(p, in->p, n);
	in->p += n;
	in->n -= n;
	return (ssize_t)n;
}

/* What was found, as text that two runs can be compared by. 0 at a good end, -1 malformed. */
static int parse(const char *boundary, struct input in, size_t cap, struct buf *out)
{
	struct multipart_part *part = malloc(sizeof *part);
	char *space = malloc(cap);
	struct multipart m;
	struct err e;
	int rc;

	multipart_init(&m, boundary, space, cap, take, &in);
	while ((rc = multipart_next(&m, part, &e)) == 1) {
		const char *p;
		ssize_t n;

		buf_addf(out, "%s|%s|", part->name, part->has_filename ? part->filename : "");
		while ((n = multipart_data(&m, &p, &e)) > 0) {
			DEMAND(p >= space && p + n <= space + cap);
			buf_add(out, p, (size_t)n);
		}
		if (n < 0) {
			rc = -1;
			break;
		}
	}
	free(space);
	free(part);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *nl = size != 0 ? memchr(text, '\n', size) : NULL;
	char boundary[BOUNDARY_MAX + 1];
	struct buf big, small;
	struct input in;
	struct err e;
	int rc;

	if (nl == NULL)
		return 0;
	if (multipart_boundary((struct h1_span){ text, (size_t)(nl - text) }, boundary, &e) < 0)
		return 0;
	in = (struct input){ nl + 1, size - (size_t)(nl + 1 - text) };
	buf_init(&big, 4 * size + 65536);
	buf_init(&small, 4 * size + 65536);
	rc = parse(boundary, in, 65536 + size, &big);
	DEMAND(!buf_failed(&big));
	/* A small buffer refuses long headers earlier; what it takes must be the same. */
	if (parse(boundary, in, SMALL, &small) == 0)
		DEMAND(rc == 0 && big.len == small.len && (big.len == 0 || memcmp(big.p, small.p, big.len) == 0));
	buf_release(&big);
	buf_release(&small);
	return 0;
}
