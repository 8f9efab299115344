/*
 * journal.h - what the agent did, for the logs of its sandbox: the newest lines, in memory. The node asks for them over the control socket.
 *
 * Never in it: values of variables, tokens, what files hold, what commands write.
 */
#ifndef HUTCH_AGENT_JOURNAL_H
#define HUTCH_AGENT_JOURNAL_H

#include <pthread.h>
#include <stdint.h>

#include "hutch/json.h"

#define JOURNAL_LINES 256

struct journal {
	pthread_mutex_t lock;
	char *line[JOURNAL_LINES];           /* a ring of JSON objects */
	int64_t us[JOURNAL_LINES];           /* their times; each is later than the one before, so that it names its line */
	uint64_t n;                          /* lines ever */
	int64_t refused_us;                  /* when a refusal was last noted */
	unsigned refused;                    /* those since then that were not */
};

struct journal_field {
	const char *key, *value;             /* value NULL: left out */
};

void journal_init(struct journal *j);
void journal_release(struct journal *j);
/* level: "info", "warn" or "error". fields end in a row of NULLs. */
void journal_add(struct journal *j, const char *level, const char *message, const struct journal_field *fields);
/* A request without a right to what it asks for. Strangers can send any number: one a second is noted, the others are counted. */
void journal_refused(struct journal *j, const char *why, const char *path, size_t n);
/* "lines":[...] after after_us, oldest first, as many as fit into one answer. */
void journal_write(struct journal *j, int64_t after_us, struct jw *w);

#endif
