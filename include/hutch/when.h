/*
 * when.h - clocks and RFC 3339 text. All times are microseconds since 1970 UTC, in int64_t.
 */
#ifndef HUTCH_WHEN_H
#define HUTCH_WHEN_H

#include <stddef.h>
#include <stdint.h>

#define US_PER_S 1000000LL
#define US_PER_MS 1000LL
#define WHEN_LEN 28          /* "2026-01-02T03:04:05.123456Z" and a NUL */

int64_t wall_us(void);       /* CLOCK_REALTIME: steps with the system clock */
int64_t boot_us(void);       /* CLOCK_BOOTTIME: never steps, counts suspend */

void when_format(int64_t us, char out[WHEN_LEN]);
/* RFC 3339 with any offset and 0..n fraction digits (cut to 6). 0, or -1 if malformed. */
int when_parse(const char *s, size_t n, int64_t *us);

#endif
