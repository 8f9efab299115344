/* Request bodies: as they come, or inflated (gzip, RFC 1952). */
#include "config.h"

#include "files.h"

#include <stdlib.h>
#include <zlib.h>

#define INPUT_SIZE 65536

struct body {
	struct h1_req *r;
	const char *error;
	bool gzip, eof;              /* eof: of the request */
	bool member;                 /* inside a gzip member */
	z_stream z;
	unsigned char *input;
};

struct body *body_new(struct h1_req *r, bool gzip)
{
	struct body *b = calloc(1, sizeof *b);

	if (b == NULL)
		return NULL;
	b->r = r;
	if (!gzip)
		return b;
	b->input = malloc(INPUT_SIZE);
	if (b->input == NULL || inflateInit2(&b->z, 15 + 16) != Z_OK) {
		free(b->input);
		free(b);
		return NULL;
	}
	b->gzip = b->member = true;
	return b;
}

void body_free(struct body *b)
{
	if (b->gzip) {
		inflateEnd(&b->z);
		free(b->input);
	}
	free(b);
}

const char *body_error(const struct body *b)
{
	return b->error;
}

static ssize_t broken(struct body *b, const char *why)
{
	b->error = why;
	return -1;
}

/* More input for the inflater: 1, 0 at the end of the request, -1. */
static int feed(struct body *b)
{
	ssize_t n;

	if (b->z.avail_in != 0)
		return 1;
	n = b->eof ? 0 : h1_read(b->r, b->input, INPUT_SIZE);
	if (n < 0)
		return (int)broken(b, "the request body broke off");
	b->eof = n == 0;
	b->z.next_in = b->input;
	b->z.avail_in = (uInt)n;
	return n > 0;
}

static ssize_t fill_inflated(struct body *b, unsigned char *p, size_t n)
{
	b->z.next_out = p;
	b->z.avail_out = (uInt)n;
	while (b->z.avail_out != 0) {
		int rc = feed(b);

		if (rc < 0)
			return -1;
		if (rc == 0) {
			if (b->member)
				return broken(b, "the gzip data is cut off");
			break;
		}
		if (!b->member && inflateReset(&b->z) != Z_OK)
			return broken(b, "the gzip data is broken");
		b->member = true;
		rc = inflate(&b->z, Z_NO_FLUSH);
		if (rc == Z_STREAM_END)
			b->member = false;
		else if (rc == Z_MEM_ERROR)
			return broken(b, "out of memory");
		else if (rc != Z_OK && rc != Z_BUF_ERROR)
			return broken(b, "the gzip data is broken");
	}
	return (ssize_t)(n - b->z.avail_out);
}

ssize_t body_fill(void *body, void *p, size_t n)
{
	struct body *b = body;
	size_t done = 0;

	if (b->error != NULL)
		return -1;
	if (b->gzip)
		return fill_inflated(b, p, n);
	while (done < n && !b->eof) {
		ssize_t got = h1_read(b->r, (char *)p + done, n - done);

		if (got < 0)
			return broken(b, "the request body broke off");
		b->eof = got == 0;
		done += (size_t)got;
	}
	return (ssize_t)done;
}
