/*
 * fuzz_zmtp.c - what a kernel sends: ZMTP frames of arbitrary bytes, the messages in them, and the lines that are made of these.
 * Build for libFuzzer with -fsanitize=fuzzer; `make check` replays the seeds through replay.c.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "wire.h"
#include "zmtp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)

/* Whatever comes in: one line of ASCII goes out. */
static void demand_line(struct buf *b)
{
	DEMAND(!buf_failed(b) && b->len > 0 && b->p[b->len - 1] == '\n');
	for (size_t i = 0; i + 1 < b->len; i++)
		DEMAND((unsigned char)b->p[i] >= 0x20 && (unsigned char)b->p[i] < 0x80);
	buf_reset(b);
}

static void try_content(struct span s)
{
	struct buf b;

	if (!span_check(s))
		return;
	buf_init(&b, 16 * s.n + 4096);
	event_result(&b, s, true);
	demand_line(&b);
	event_error(&b, s);
	demand_line(&b);
	event_stream(&b, "stdout", span_member(s, "text"), span_member(s, "date"));
	demand_line(&b);
	buf_release(&b);
}

static void try_message(const struct zmtp_msg *m, const char *from, size_t n)
{
	struct kmsg k;
	struct err e;

	for (size_t i = 0; i < m->n; i++) {
		DEMAND(m->frame[i].p >= from && m->frame[i].p + m->frame[i].n <= from + n);
		try_content(m->frame[i]);
	}
	if (wire_parse(m, "", "id", &k, &e) == 1)
		try_content(k.content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);           /* of the exact size, so that a sanitizer sees a read beyond */
	size_t at = 0;

	memcpy(copy, data, size);
	while (at < size) {
		struct zmtp_msg m;
		uint64_t want = 0;
		ssize_t took = zmtp_parse(copy + at, size - at, &m, &want);

		DEMAND(took <= (ssize_t)(size - at) && (took != 0 || want > size - at));
		if (took <= 0)
			break;
		try_message(&m, copy, size);
		at += (size_t)took;
	}
	free(copy);
	return 0;
}
