/*
 * chunked.h - the framing of a chunked body (RFC 9112 section 7.1), without any I/O.
 *
 * The reader feeds framing bytes to chunked_frame() until chunked_payload() says that payload follows, takes
 * the payload itself (straight into its own buffer), reports it with chunked_took(), and so on until chunked_done().
 */
#ifndef HUTCH_CHUNKED_H
#define HUTCH_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHUNKED_EXTRA_MAX 8192  /* bytes of chunk extensions and trailers in one body, all together */

struct chunked {
	uint8_t state;
	uint8_t digits;      /* of the size being read */
	uint16_t extra;      /* extension and trailer bytes so far */
	uint64_t left;       /* payload bytes of this chunk still to come */
};

void chunked_init(struct chunked *c);
/* Bytes used of p[0..n): all of them unless payload or the end was reached. -1 when malformed. */
ssize_t chunked_frame(struct chunked *c, const char *p, size_t n);
uint64_t chunked_payload(const struct chunked *c);
void chunked_took(struct chunked *c, uint64_t n);
bool chunked_done(const struct chunked *c);
/* For who passes a body on as it is: go over p[0..n), payload and all. Bytes that belong to the body, or -1 when malformed. */
ssize_t chunked_scan(struct chunked *c, const char *p, size_t n);

#endif
