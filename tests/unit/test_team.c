/* Teams and keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#include "hutch/when.h"

static void test_make(void **state)
{
	struct world *w = *state;
	struct team_rec again, other;
	char key[45], key2[45];

	assert_string_equal(w->team.name, "World team");
	assert_string_equal(w->team.slug, "world-team");
	assert_int_equal(w->team.max_sandboxes, 2000);
	assert_int_equal(w->team.max_hours, 24);
	assert_int_equal(strlen(w->key), 44);
	assert_int_equal(strspn(w->key + 4, "0123456789abcdef"), 40);
	assert_done(w, team_make(&w->d, "World team", &again, key, &w->e));
	assert_string_equal(again.id, w->team.id);
	assert_string_equal(key, w->key);
	assert_done(w, team_make(&w->d, "World-Team!", &other, key2, &w->e));
	assert_string_not_equal(other.id, w->team.id);
	assert_string_equal(other.slug, "world-team-2");
	assert_string_not_equal(key2, key);
	assert_done(w, team_make(&w->d, "\xe2\x82\xac", &other, key2, &w->e));
	assert_string_equal(other.slug, "team");
	world_agrees(w);
}

static void test_bad_names(void **state)
{
	struct world *w = *state;
	char name[NAME_MAX_LEN + 1], key[45];
	struct team_rec t;

	assert_fails(w, team_make(&w->d, "", &t, key, &w->e), ERR_INVALID, "name");
	assert_fails(w, team_make(&w->d, "a\nb", &t, key, &w->e), ERR_INVALID, "name");
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	assert_fails(w, team_make(&w->d, name, &t, key, &w->e), ERR_INVALID, "name");
	name[NAME_MAX_LEN - 1] = '\0';
	assert_done(w, team_make(&w->d, name, &t, key, &w->e));
	name[NAME_MAX_LEN - 2] = 'y';                /* the slug is cut to the same text */
	assert_done(w, team_make(&w->d, name, &t, key, &w->e));
	assert_non_null(strstr(t.slug, "-2"));
}

static void test_keys(void **state)
{
	static const struct { const char *key, *text; } bad[] = {
		{ NULL, "authorization header is missing" }, { "", "authorization header is missing" },
		{ "x", "authorization header is malformed" }, { "sk_e2b_00", "authorization header is malformed" },
		{ "e2b_", "Invalid API key" }, { "e2b_abc", "Invalid API key" }, { "e2b_zz", "Invalid API key" },
		{ "e2b_0123456789012345678901234567890123456789", "Invalid API key" },
	};
	struct world *w = *state;
	char long_key[5000], upper[45], fresh[KEY_LEN];
	struct team_rec t;

	assert_done(w, team_by_key(&w->d, w->key, &t, &w->e));
	assert_string_equal(t.id, w->team.id);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_fails(w, team_by_key(&w->d, bad[i].key, &t, &w->e), ERR_UNAUTHENTICATED, bad[i].text);
	snprintf(long_key, sizeof long_key, "e2b_%04995d", 0);
	assert_fails(w, team_by_key(&w->d, long_key, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid API key");
	for (int i = 0; i < 45; i++)
		upper[i] = (char)(i < 4 ? w->key[i] : toupper((unsigned char)w->key[i]));
	assert_done(w, team_by_key(&w->d, upper, &t, &w->e));
	assert_done(w, team_key_new(&w->d, "World team", KEY_API, fresh, &w->e));
	assert_done(w, team_by_key(&w->d, fresh, &t, &w->e));
	assert_done(w, team_key_revoke(&w->d, fresh, &w->e));
	assert_fails(w, team_by_key(&w->d, fresh, &t, &w->e), ERR_UNAUTHENTICATED, "unknown");
	assert_fails(w, team_key_revoke(&w->d, fresh, &w->e), ERR_NOT_FOUND, "unknown");
	assert_fails(w, team_key_revoke(&w->d, "e2b_x", &w->e), ERR_INVALID, "key");
	assert_fails(w, team_key_new(&w->d, "nobody", KEY_API, fresh, &w->e), ERR_NOT_FOUND, "team 'nobody'");
	assert_done(w, team_by_key(&w->d, w->key, &t, &w->e));
}

/* A blocked team looks and removes; a banned one does nothing; both end. */
static void test_standing(void **state)
{
	struct world *w = *state;
	struct team_rec t;
	char reason[300];

	assert_done(w, team_state_set(&w->d, "World team", TEAM_BLOCKED, "unpaid", &w->e));
	assert_done(w, team_by_key(&w->d, w->key, &t, &w->e));
	assert_done(w, team_may(&t, false, &w->e));
	assert_fails(w, team_may(&t, true, &w->e), ERR_DENIED, "team is blocked: unpaid");
	assert_done(w, team_limit(&w->d, "World team", 7, 0, &w->e));
	assert_done(w, team_get(&w->d, t.id, &t, &w->e));
	assert_true(t.state == TEAM_BLOCKED && t.max_sandboxes == 7);
	assert_done(w, team_state_set(&w->d, "World team", TEAM_BLOCKED, NULL, &w->e));
	assert_done(w, team_get(&w->d, t.id, &t, &w->e));
	assert_fails(w, team_may(&t, true, &w->e), ERR_DENIED, "team is blocked");
	assert_null(strchr(w->e.text, ':'));
	assert_done(w, team_state_set(&w->d, "World team", TEAM_BANNED, NULL, &w->e));
	assert_done(w, team_get(&w->d, t.id, &t, &w->e));
	assert_fails(w, team_may(&t, false, &w->e), ERR_DENIED, "team is banned");
	memset(reason, 'x', sizeof reason);
	reason[TEAM_REASON_LEN] = '\0';
	assert_fails(w, team_state_set(&w->d, "World team", TEAM_BLOCKED, reason, &w->e), ERR_INVALID, "reason");
	assert_fails(w, team_state_set(&w->d, "World team", TEAM_BLOCKED, "\xff", &w->e), ERR_INVALID, "reason");
	assert_fails(w, team_state_set(&w->d, "nobody", TEAM_OPEN, NULL, &w->e), ERR_NOT_FOUND, "nobody");
	assert_done(w, team_state_set(&w->d, "World team", TEAM_OPEN, NULL, &w->e));
	assert_done(w, team_get(&w->d, t.id, &t, &w->e));
	assert_done(w, team_may(&t, true, &w->e));
}

/* All programs of one boot have one clock, whatever the wall clock says when they start; a new boot has a new one. */
static void test_clock(void **state)
{
	struct world *w = *state;
	int64_t wall = w->d.anchor_wall_us, boot = w->d.anchor_boot_us, before = wall_us(), now = domain_now(&w->d);
	struct txn *t;
	uint8_t clock[52];

	assert_in_range(now, before - US_PER_S, wall_us() + US_PER_S);
	world_reopen(w);
	assert_int_equal(w->d.anchor_wall_us, wall);
	assert_int_equal(w->d.anchor_boot_us, boot);
	assert_in_range(domain_now(&w->d) - now, 0, 60 * US_PER_S);
	/* an anchor of another boot is replaced */
	memset(clock, 'x', sizeof clock);
	assert_done(w, txn_write(w->d.store, &t, &w->e));
	assert_done(w, store_meta_put(t, "clock", clock, sizeof clock, &w->e));
	assert_done(w, txn_commit(t, &w->e));
	world_reopen(w);
	assert_true(w->d.anchor_boot_us > boot);
	assert_in_range(domain_now(&w->d) - now, 0, 60 * US_PER_S);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = { T(test_make), T(test_bad_names), T(test_keys), T(test_standing), T(test_clock) };

	return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
