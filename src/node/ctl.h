/*
 * ctl.h - the control connection to a sandbox's agent: one JSON object a line each way.
 *
 * The other end may have been taken over by the guest: answers are bounded in size and time and say nothing but yes or no (whoever reads
 * more in ctl_ask's must not trust it either), and descriptors that come along are not taken.
 */
#ifndef HUTCH_CTL_H
#define HUTCH_CTL_H

#include <stddef.h>
#include "hutch/err.h"
#include "hutch/json.h"

#define CTL_LINE_MAX (1 << 20)
#define CTL_ANSWER_MAX (128 << 10)

/* dir is the directory of control sockets. A connected descriptor or -1. */
int ctl_connect(int dir, const char *machine, struct err *e);
/* Send line (n bytes, no newline in it; one is added) with pass_fd (or -1), wait for the answer. 0 when it says ok. */
int ctl_call(int fd, const char *line, size_t n, int pass_fd, int timeout_ms, struct err *e);
/* The same for an answer that says more, in no more than CTL_ANSWER_MAX bytes; the caller puts *out. */
int ctl_ask(int fd, const char *line, size_t n, int pass_fd, int timeout_ms, json_object **out, struct err *e);
int ctl_ping(int fd, int timeout_ms, struct err *e);

#endif
