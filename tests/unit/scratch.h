/* scratch.h - a directory of the test's own, and records filled at random. */
#ifndef HUTCH_TEST_SCRATCH_H
#define HUTCH_TEST_SCRATCH_H

#include <stdint.h>
#include "hutch/store.h"

/* A fresh directory below $TMPDIR or /tmp; removed with all in it by scratch_remove. */
void scratch_make(char dir[64]);
void scratch_remove(const char *dir);

/* A small deterministic generator: a failing case can be run again. */
struct rng { uint64_t s; };
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n);

void random_team(struct rng *r, struct team_rec *out);
void random_template(struct rng *r, struct template_rec *out);   /* release it */
void random_sandbox(struct rng *r, struct sandbox_rec *out);     /* release it */
/* Random text of up to max bytes without NUL; malloc'ed, or NULL now and then. */
char *random_text(struct rng *r, size_t max);

#endif
