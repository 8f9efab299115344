/*
 * hook.h - delivers what the outbox holds (api.md 14.3), in a thread of its own. One per set of records: the reaper's.
 *
 * A receiver that is slow, silent or hostile delays nobody else's events: each webhook has a few attempts at once, one after a
 * failure, all of them are bounded in time, and what waits for one webhook is not looked at on the way to another's.
 * An entry leaves the outbox after its attempt was answered, so a program that dies in between delivers again.
 */
#ifndef HUTCH_HOOK_H
#define HUTCH_HOOK_H

#include "hutch/domain.h"
#include "hutch/err.h"

struct hook_sender;

int hook_start(struct domain *d, struct hook_sender **out, struct err *e);
/* There may be something new. Any thread; never waits. */
void hook_wake(struct hook_sender *s);
/* Attempts that are under way are given up: they will be made again. */
void hook_stop(struct hook_sender *s);

#endif
