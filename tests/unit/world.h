/*
 * world.h - a domain over real records in a directory of its own and a fake pool; a team and a template `base` are there.
 * Include after cmocka.h.
 */
#ifndef HUTCH_TEST_WORLD_H
#define HUTCH_TEST_WORLD_H

#include "fake_pool.h"
#include "hutch/domain.h"

struct world {
	char dir[64];
	struct config conf;
	struct domain d;
	struct fake_state *pool;
	struct team_rec team;
	char key[45];
	struct template_rec base;
	struct err e;
};

/* cmocka fixtures; *state is a struct world. */
int world_set_up(void **state);
int world_tear_down(void **state);

/* Move the instance's clock forward (or back). */
void world_advance(struct world *w, int64_t us);
/* From now on it stands still but for world_advance, until the records are opened anew: for what is exact to less than a busy machine keeps. */
void world_freeze(struct world *w);
/* Close and open again, as the next program has it. */
void world_reopen(struct world *w);

/* A sandbox of the team, or the test fails. */
void world_create(struct world *w, int64_t timeout_s, struct sandbox_rec *out);
/* The row as it is: state, or 0 when there is none. */
int world_state(struct world *w, const char *id);
void world_row(struct world *w, const char *id, struct sandbox_rec *out);
/* Rows, indexes, counts and machines agree; every machine has a row, every running row its machine. */
void world_agrees(struct world *w);
/* Number of events of that type about the sandbox; *last (may be NULL) gets the newest one's text. */
int world_events(struct world *w, const char *id, const char *type, char *last, size_t size);
int world_rows(struct world *w);

/* The call fails with this kind and a text that holds `text`. */
#define assert_fails(w, call, want_kind, want_text) do { \
	assert_int_equal((call), -1); \
	if ((w)->e.kind != (want_kind) || strstr((w)->e.text, (want_text)) == NULL) \
		fail_msg("kind %d: %s", (w)->e.kind, (w)->e.text); \
} while (0)
#define assert_done(w, call) do { \
	if ((call) < 0) \
		fail_msg("%s", (w)->e.text); \
} while (0)

#endif
