/* Who is asking: keys, tokens, the key file, the admin token, rates, and what must hold before a program starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "world.h"

#include "domain_int.h"
#include "hutch/crypto.h"
#include "hutch/when.h"

#define ADMIN "0123456789abcdef0123456789abcdef"
#define KEY_A "e2b_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define KEY_B "e2b_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define NOBODY "11111111-1111-4111-8111-111111111111"

static char *write_file(struct world *w, const char *name, const char *text, mode_t mode)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", w->dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
	return strdup(path);
}

static void set_text(char **option, char *value)
{
	free(*option);
	*option = value;
}

/* ---- keys ---- */

struct listing {
	struct key_rec key[8];
	int n;
};

static int add_key(void *ctx, const struct key_rec *r, struct err *e)
{
	struct listing *l = ctx;

	(void)e;
	if (l->n < 8)
		l->key[l->n] = *r;
	l->n++;
	return 0;
}

static struct listing keys_of(struct world *w, const char *team, enum key_kind kind)
{
	struct listing l = { .n = 0 };

	assert_done(w, key_each(&w->d, team, kind, add_key, &l, &w->e));
	return l;
}

static void test_manage(void **state)
{
	struct world *w = *state;
	struct listing l = keys_of(w, w->team.id, KEY_API);
	char key[KEY_LEN], other_key[45], id[UUID_LEN], name[NAME_MAX_LEN + 1];
	struct team_rec t, other;
	struct key_rec r;

	assert_int_equal(l.n, 1);                    /* the door's */
	assert_string_equal(l.key[0].name, "door");
	assert_int_equal(l.key[0].used_us, 0);
	assert_done(w, key_new(&w->d, w->team.id, KEY_API, "mine", key, &r, &w->e));
	assert_int_equal(strlen(key), 44);
	assert_done(w, team_by_key(&w->d, key, &t, &w->e));
	assert_string_equal(t.id, w->team.id);
	l = keys_of(w, w->team.id, KEY_API);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.key[1].id, r.id);
	assert_string_equal(l.key[1].name, "mine");
	assert_int_equal(l.key[1].length, 40);
	assert_memory_equal(l.key[1].mask, key + 4, 2);
	assert_string_equal(l.key[1].mask + 5, key + 40);
	assert_true(l.key[1].used_us > 0);           /* by the look-up above */
	assert_int_equal(uuid_canonical(r.id, id), 0);

	assert_done(w, team_make(&w->d, "other", &other, other_key, &w->e));
	assert_fails(w, key_rename(&w->d, other.id, r.id, "x", &w->e), ERR_NOT_FOUND, "id not found");
	assert_fails(w, key_delete(&w->d, other.id, KEY_API, r.id, &w->e), ERR_NOT_FOUND, "id not found");
	assert_fails(w, key_delete(&w->d, w->team.id, KEY_TOKEN, r.id, &w->e), ERR_NOT_FOUND, "id not found");
	assert_fails(w, key_rename(&w->d, w->team.id, NOBODY, "x", &w->e), ERR_NOT_FOUND, "id not found");
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	assert_fails(w, key_rename(&w->d, w->team.id, r.id, name, &w->e), ERR_INVALID, "name");
	assert_fails(w, key_new(&w->d, w->team.id, KEY_API, "", key, &r, &w->e), ERR_INVALID, "name");
	r = l.key[1];
	assert_done(w, key_rename(&w->d, w->team.id, r.id, "yours", &w->e));
	assert_string_equal(keys_of(w, w->team.id, KEY_API).key[1].name, "yours");
	assert_done(w, key_delete(&w->d, w->team.id, KEY_API, r.id, &w->e));
	assert_int_equal(keys_of(w, w->team.id, KEY_API).n, 1);
	world_agrees(w);
}

/* The use of a key is written down once an hour, not at each request. */
static void test_use(void **state)
{
	struct world *w = *state;
	struct team_rec t;
	int64_t first;

	assert_done(w, team_by_key(&w->d, w->key, &t, &w->e));
	first = keys_of(w, w->team.id, KEY_API).key[0].used_us;
	assert_true(first > 0);
	world_advance(w, 59 * 60 * US_PER_S);
	assert_done(w, team_by_key(&w->d, w->key, &t, &w->e));
	assert_int_equal(keys_of(w, w->team.id, KEY_API).key[0].used_us, first);
	world_advance(w, 60 * US_PER_S);
	assert_done(w, team_by_key(&w->d, w->key, &t, &w->e));
	assert_true(keys_of(w, w->team.id, KEY_API).key[0].used_us > first);
}

static void test_login_key(void **state)
{
	struct world *w = *state;
	char one[45], two[45];
	struct team_rec t;

	assert_done(w, key_of_login(&w->d, w->team.id, one, &w->e));
	assert_done(w, key_of_login(&w->d, w->team.id, two, &w->e));
	assert_string_equal(one, two);
	assert_string_not_equal(one, w->key);
	assert_done(w, team_by_key(&w->d, one, &t, &w->e));
	assert_done(w, team_key_revoke(&w->d, one, &w->e));
	assert_fails(w, team_by_key(&w->d, one, &t, &w->e), ERR_UNAUTHENTICATED, "unknown");
	assert_done(w, key_of_login(&w->d, w->team.id, one, &w->e));
	assert_done(w, team_by_key(&w->d, one, &t, &w->e));
}

/* ---- who ---- */

static void with_admin(struct world *w)
{
	set_text(&w->conf.admin_token_file, write_file(w, "admin", ADMIN "\n", 0600));
	world_reopen(w);
}

static void test_auth_team(void **state)
{
	struct world *w = *state;
	char upper[UUID_LEN];
	struct team_rec t;

	assert_fails(w, auth_team(&w->d, NULL, ADMIN, w->team.id, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid Access token.");
	with_admin(w);
	assert_done(w, auth_team(&w->d, w->key, NULL, NULL, &t, &w->e));
	assert_done(w, auth_team(&w->d, NULL, ADMIN, w->team.id, &t, &w->e));
	assert_string_equal(t.id, w->team.id);
	for (int i = 0; i < UUID_LEN; i++)
		upper[i] = (char)(w->team.id[i] >= 'a' && w->team.id[i] <= 'f' ? w->team.id[i] - 32 : w->team.id[i]);
	assert_done(w, auth_team(&w->d, NULL, ADMIN, upper, &t, &w->e));
	assert_fails(w, auth_team(&w->d, NULL, NULL, w->team.id, &t, &w->e), ERR_UNAUTHENTICATED, "authorization header is missing");
	assert_fails(w, auth_team(&w->d, "", "", "", &t, &w->e), ERR_UNAUTHENTICATED, "authorization header is missing");
	assert_fails(w, auth_team(&w->d, NULL, ADMIN "0", w->team.id, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid Access token.");
	assert_fails(w, auth_team(&w->d, NULL, "x", w->team.id, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid Access token.");
	assert_fails(w, auth_team(&w->d, NULL, ADMIN, "x", &t, &w->e), ERR_INVALID, "Invalid team ID");
	assert_fails(w, auth_team(&w->d, NULL, ADMIN, NULL, &t, &w->e), ERR_UNAUTHENTICATED, "X-Team-ID");
	assert_fails(w, auth_team(&w->d, NULL, ADMIN, NOBODY, &t, &w->e), ERR_NOT_FOUND, NOBODY);
	/* the first scheme that passes wins, and of two that fail the first one's words count */
	assert_done(w, auth_team(&w->d, KEY_A, ADMIN, w->team.id, &t, &w->e));
	assert_fails(w, auth_team(&w->d, KEY_A, "x", w->team.id, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid API key");
	assert_done(w, auth_admin(&w->d, ADMIN, &w->e));
	assert_fails(w, auth_admin(&w->d, NULL, &w->e), ERR_UNAUTHENTICATED, "missing");
	assert_fails(w, auth_admin(&w->d, "", &w->e), ERR_UNAUTHENTICATED, "missing");
}

static void test_auth_user(void **state)
{
	struct world *w = *state;
	char token[KEY_LEN], header[KEY_LEN + 16], other_key[45];
	struct team_rec t, other;
	struct key_rec r;

	assert_done(w, key_new(&w->d, w->team.id, KEY_TOKEN, "me", token, &r, &w->e));
	assert_int_equal(strlen(token), 47);
	snprintf(header, sizeof header, "Bearer %s", token);
	assert_done(w, auth_user(&w->d, header, &t, &w->e));
	assert_string_equal(t.id, w->team.id);
	memcpy(header, "bEARER", 6);
	assert_done(w, auth_user(&w->d, header, &t, &w->e));
	assert_fails(w, auth_user(&w->d, NULL, &t, &w->e), ERR_UNAUTHENTICATED, "authorization header is missing");
	assert_fails(w, auth_user(&w->d, token, &t, &w->e), ERR_UNAUTHENTICATED, "authorization header is malformed");
	assert_fails(w, auth_user(&w->d, "Bearer a.b.c", &t, &w->e), ERR_UNAUTHENTICATED, "Backend authentication failed");
	assert_fails(w, auth_user(&w->d, "Bearer sk_e2b_00", &t, &w->e), ERR_UNAUTHENTICATED, "Invalid Access token.");
	/* the digits of one kind are nothing in the other's */
	snprintf(header, sizeof header, "Bearer sk_%s", w->key);
	assert_fails(w, auth_user(&w->d, header, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid Access token.");
	assert_fails(w, team_by_key(&w->d, token + 3, &t, &w->e), ERR_UNAUTHENTICATED, "unknown");

	snprintf(header, sizeof header, "Bearer %s", token);
	assert_done(w, team_make(&w->d, "other", &other, other_key, &w->e));
	assert_done(w, auth_manager(&w->d, header, NULL, NULL, &t, &w->e));
	assert_done(w, auth_manager(&w->d, header, NULL, w->team.id, &t, &w->e));
	assert_fails(w, auth_manager(&w->d, header, NULL, other.id, &t, &w->e), ERR_DENIED, "member");
	assert_fails(w, auth_manager(&w->d, header, NULL, "x", &t, &w->e), ERR_INVALID, "Invalid team ID");
	with_admin(w);
	assert_done(w, auth_manager(&w->d, NULL, ADMIN, other.id, &t, &w->e));
	assert_string_equal(t.id, other.id);
	assert_done(w, key_delete(&w->d, w->team.id, KEY_TOKEN, r.id, &w->e));
	assert_fails(w, auth_user(&w->d, header, &t, &w->e), ERR_UNAUTHENTICATED, "Invalid Access token.");
}

static void test_anonymous(void **state)
{
	struct world *w = *state;
	struct team_rec t, again;

	w->conf.allow_anonymous = true;
	assert_done(w, auth_team(&w->d, NULL, NULL, NULL, &t, &w->e));
	assert_string_equal(t.name, "default");
	assert_done(w, auth_team(&w->d, KEY_A, NULL, NULL, &again, &w->e));
	assert_string_equal(again.id, t.id);
	assert_done(w, auth_team(&w->d, w->key, NULL, NULL, &t, &w->e));
	assert_string_equal(t.id, w->team.id);       /* who has a key is who it says */
	assert_fails(w, auth_team(&w->d, "nonsense", NULL, NULL, &t, &w->e), ERR_UNAUTHENTICATED, "malformed");
	assert_fails(w, auth_admin(&w->d, NULL, &w->e), ERR_UNAUTHENTICATED, "missing");
	assert_fails(w, auth_user(&w->d, NULL, &t, &w->e), ERR_UNAUTHENTICATED, "missing");
}

/* ---- key file ---- */

static void import(struct world *w, const char *text, bool whole, int want_added, int want_ended)
{
	char *path = write_file(w, "keys", text, 0640);
	int added, ended;

	assert_done(w, key_file_check(path, &w->e));
	assert_done(w, key_file_import(&w->d, path, whole, &added, &ended, &w->e));
	assert_int_equal(added, want_added);
	assert_int_equal(ended, want_ended);
	free(path);
}

static void team_is(struct world *w, const char *key, const char *name)
{
	struct team_rec t;

	assert_done(w, team_by_key(&w->d, key, &t, &w->e));
	assert_string_equal(t.name, name);
}

static void test_key_file(void **state)
{
	struct world *w = *state;
	struct team_rec t;

	import(w, "# ours\n\n" KEY_A "\n  " KEY_B "\talpha   # of the alphas\r\n" KEY_B " alpha\n", true, 2, 0);
	team_is(w, KEY_A, "default");
	team_is(w, KEY_B, "alpha");
	import(w, KEY_A " default\n" KEY_B " alpha", true, 0, 0);
	import(w, KEY_A " beta\n", false, 1, 0);     /* moved; what is not in it stays */
	team_is(w, KEY_A, "beta");
	team_is(w, KEY_B, "alpha");
	import(w, KEY_A " beta\n", true, 0, 1);
	assert_fails(w, team_by_key(&w->d, KEY_B, &t, &w->e), ERR_UNAUTHENTICATED, "unknown");
	team_is(w, w->key, "World team");            /* keys that never were in a file are none of its business */
	import(w, "", true, 0, 1);
	assert_fails(w, team_by_key(&w->d, KEY_A, &t, &w->e), ERR_UNAUTHENTICATED, "unknown");
	import(w, "e2b_" "00" "\n", true, 1, 0);
	team_is(w, "e2b_00", "default");
	world_agrees(w);
}

static void test_bad_key_file(void **state)
{
	static const struct { const char *text; mode_t mode; const char *why; } bad[] = {
		{ KEY_A " one two\n", 0600, "keys:1: expected a key and at most a namespace, there is a third word" },
		{ "#\n\n" KEY_A "\n" KEY_B " b b\n", 0600, "keys:4:" },
		{ "e2b_\n", 0600, "keys:1: a key must be" },
		{ "e2b_ABCD\n", 0600, "keys:1: a key must be" },
		{ "e2b_abc\n", 0600, "even number" },
		{ "e2b_xy\n", 0600, "keys:1: a key must be" },
		{ "sk_e2b_00\n", 0600, "keys:1: a key must be" },
		{ "e2b_aa\n" KEY_A " b\n" KEY_A "\n", 0600, "keys:3: the key of line 2 again" },
		{ KEY_A " a\x01" "b\n", 0600, "keys:1: namespace" },
		{ KEY_A "\n", 0604, "may be read by others" },
	};
	struct world *w = *state;
	char many[5000], *path;
	int added, ended;
	struct team_rec t;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		path = write_file(w, "keys", bad[i].text, bad[i].mode);
		assert_fails(w, key_file_check(path, &w->e), ERR_INVALID, bad[i].why);
		assert_fails(w, key_file_import(&w->d, path, true, &added, &ended, &w->e), ERR_INVALID, bad[i].why);
		assert_int_equal(added + ended, 0);
		free(path);
	}
	memset(many, 'a', sizeof many);
	many[sizeof many - 1] = '\0';
	path = write_file(w, "keys", many, 0600);
	assert_fails(w, key_file_check(path, &w->e), ERR_INVALID, "keys:1: the line is longer");
	free(path);
	/* nothing of a file with a mistake */
	assert_fails(w, team_by_key(&w->d, KEY_A, &t, &w->e), ERR_UNAUTHENTICATED, "unknown");
	assert_int_equal(key_file_check("/nonexistent/keys", &w->e), -1);
}

/* ---- before a start ---- */

static void test_start(void **state)
{
	static const char *const bad[] = { "", ".x", "x.", "a b", "a:", "a:x", "a:1:2", ":80", "a/b" };
	static const char *const good[] = { "localhost", "localhost:8080", "a.b-c.example", "10.0.0.1:80" };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		set_text(&w->conf.domain, strdup(bad[i]));
		assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "domain");
	}
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		set_text(&w->conf.domain, strdup(good[i]));
		assert_done(w, start_check(&w->conf, &w->e));
	}
	set_text(&w->conf.admin_token_file, strdup("/nonexistent/admin"));
	assert_int_equal(start_check(&w->conf, &w->e), -1);
	set_text(&w->conf.admin_token_file, write_file(w, "admin", ADMIN, 0640));
	assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "chmod 600");
	set_text(&w->conf.admin_token_file, write_file(w, "admin", "short\n", 0600));
	assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "16 to 1024");
	set_text(&w->conf.admin_token_file, write_file(w, "admin", ADMIN "\n" ADMIN "\n", 0600));
	assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "one line");
	set_text(&w->conf.admin_token_file, write_file(w, "admin", ADMIN, 0600));
	assert_done(w, start_check(&w->conf, &w->e));
	set_text(&w->conf.key_file, write_file(w, "keys", "e2b_x\n", 0600));
	assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "keys:1:");
	set_text(&w->conf.key_file, strdup(""));
	set_text(&w->conf.default_team, strdup(""));
	assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "default_team");
	set_text(&w->conf.default_team, strdup("default"));
	set_text(&w->conf.secret_file, strdup("/nonexistent/secret"));
	assert_int_equal(start_check(&w->conf, &w->e), -1);
	assert_non_null(strstr(w->e.text, "secret_file"));
}

/* With closed doors, no key file and no anonymous callers there must be a team. */
static void test_start_somebody(void **state)
{
	struct world *w = *state;
	char dir[128];

	w->conf.doors = false;
	domain_close(&w->d);
	assert_done(w, start_check(&w->conf, &w->e));        /* the world has one */
	snprintf(dir, sizeof dir, "%s/empty", w->dir);
	set_text(&w->conf.db_dir, strdup(dir));
	assert_fails(w, start_check(&w->conf, &w->e), ERR_INVALID, "nobody could use this instance");
	w->conf.allow_anonymous = true;
	assert_done(w, start_check(&w->conf, &w->e));
	w->conf.allow_anonymous = false;
	set_text(&w->conf.key_file, write_file(w, "keys", KEY_A "\n", 0600));
	assert_done(w, start_check(&w->conf, &w->e));
	set_text(&w->conf.key_file, strdup(""));
	w->conf.doors = true;
	assert_done(w, start_check(&w->conf, &w->e));
	assert_done(w, domain_open_with(&w->d, &w->conf, fake_pool_new(w->pool), &w->e));
}

static void test_admin_token(void **state)
{
	struct world *w = *state;
	uint8_t one[32], two[32];
	char path[128];
	struct stat st;

	snprintf(path, sizeof path, "%s/made", w->dir);
	assert_done(w, admin_token_make(path, &w->e));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_done(w, admin_token_read(path, one, &w->e));
	assert_done(w, admin_token_make(path, &w->e));
	assert_done(w, admin_token_read(path, two, &w->e));
	assert_memory_equal(one, two, 32);           /* what is there stays */
}

/* ---- limits ---- */

static void test_limits(void **state)
{
	struct world *w = *state;
	struct team_rec t;

	assert_done(w, team_limit(&w->d, "World team", 3, 0, &w->e));
	assert_done(w, team_get(&w->d, w->team.id, &t, &w->e));
	assert_int_equal(t.max_sandboxes, 3);
	assert_int_equal(t.max_hours, 24);
	assert_done(w, team_limit(&w->d, "World team", 0, 7, &w->e));
	assert_done(w, team_get(&w->d, w->team.id, &t, &w->e));
	assert_int_equal(t.max_sandboxes, 3);
	assert_int_equal(t.max_hours, 7);
	assert_fails(w, team_limit(&w->d, "nobody", 1, 1, &w->e), ERR_NOT_FOUND, "nobody");
	assert_fails(w, team_get(&w->d, NOBODY, &t, &w->e), ERR_NOT_FOUND, NOBODY);
}

/* One a minute, five minutes' worth at once: a burst of five, shared by all programs that have the counters open. */
static void test_rate(void **state)
{
	struct world *w = *state;
	struct domain second;
	struct rate_answer r;

	rate_take(&w->d, w->team.id, RATE_READ, &r);
	assert_false(r.bounded);
	w->conf.rate_create = 1;
	w->conf.rate_burst_s = 300;
	assert_done(w, shared_open(&w->d, &w->e));
	assert_done(w, domain_open_with(&second, &w->conf, fake_pool_new(w->pool), &w->e));
	assert_done(w, shared_open(&second, &w->e));
	for (uint32_t i = 0; i < 5; i++) {
		rate_take(i % 2 ? &second : &w->d, w->team.id, RATE_CREATE, &r);
		assert_true(r.bounded);
		assert_false(r.refused);
		assert_int_equal(r.limit, 5);
		assert_int_equal(r.remaining, 4 - i);
		assert_in_range(r.reset_s, 60 * i, 60 * i + 60);
	}
	rate_take(&second, w->team.id, RATE_CREATE, &r);
	assert_true(r.refused);
	assert_int_equal(r.remaining, 0);
	assert_in_range(r.retry_s, 1, 60);
	assert_in_range(r.reset_s, 241, 300);
	rate_take(&w->d, w->team.id, RATE_READ, &r);         /* a group without a bound */
	assert_false(r.bounded);
	rate_take(&w->d, NOBODY, RATE_CREATE, &r);           /* another team's bucket is its own */
	assert_false(r.refused);
	assert_int_equal(r.remaining, 4);
	domain_close(&second);
}

/* More teams than there are buckets in reach: some are not counted, none is refused for another's sake. */
static void test_rate_many(void **state)
{
	struct world *w = *state;
	struct rate_answer r;
	char id[UUID_LEN];

	w->conf.rate_read = 1;
	w->conf.rate_burst_s = 1;
	assert_done(w, shared_open(&w->d, &w->e));
	for (int i = 0; i < 40000; i++) {
		random_uuid(id);
		rate_take(&w->d, id, RATE_READ, &r);
		assert_false(r.refused);
	}
}

static void test_counts(void **state)
{
	struct world *w = *state;
	struct request_counts r;
	struct sandbox_rec s;

	count_add(&w->d, COUNT_CREATED, 1);                  /* nothing is open: nothing happens */
	assert_int_equal(count_get(&w->d, COUNT_CREATED), 0);
	assert_done(w, shared_open(&w->d, &w->e));
	world_create(w, 60, &s);
	assert_int_equal(count_get(&w->d, COUNT_CREATED), 1);
	assert_done(w, sandbox_kill(&w->d, w->team.id, s.id, "request", &w->e));
	assert_int_equal(count_get(&w->d, COUNT_KILLED_REQUEST), 1);
	sandbox_rec_release(&s);
	count_request(&w->d, "hutch-teams", 404, 300);
	count_request(&w->d, "hutch-teams", 200, INT64_MAX);
	assert_true(count_requests(&w->d, 1, &r));
	assert_string_equal(r.program, "hutch-teams");
	assert_int_equal(r.status[4], 1);
	assert_int_equal(r.status[2], 1);
	assert_int_equal(r.bucket[1], 1);
	assert_int_equal(r.bucket[COUNT_BUCKETS], 1);
	assert_false(count_requests(&w->d, 99, &r));
}

/* ---- across teams ---- */

static int on_team(void *ctx, const struct team_rec *team, uint64_t running, struct err *e)
{
	(void)e;
	(void)team;
	*(uint64_t *)ctx += running;
	return 0;
}

static void test_across(void **state)
{
	struct world *w = *state;
	struct sandbox_rec s, gone;
	uint64_t running = 0;
	struct use u;
	int killed;

	for (int i = 0; i < 300; i++) {
		world_create(w, 3600, &s);
		sandbox_rec_release(&s);
	}
	assert_done(w, teams_running(&w->d, on_team, &running, &w->e));
	assert_int_equal(running, 300);
	assert_done(w, sandboxes_use(&w->d, &u, &w->e));
	assert_int_equal(u.state[SB_RUNNING], 300);
	assert_int_equal(u.cpu_count, 600);
	assert_done(w, team_kill(&w->d, w->team.id, &killed, &w->e));
	assert_int_equal(killed, 300);
	assert_fails(w, sandbox_get(&w->d, w->team.id, s.id, &gone, &w->e), ERR_NOT_FOUND, s.id);
	assert_int_equal(world_events(w, "", "\"kill_reason\":\"admin\"", NULL, 0), 300);
	assert_done(w, team_kill(&w->d, w->team.id, &killed, &w->e));
	assert_int_equal(killed, 0);
	while (world_rows(w) > 0) {
		int64_t next;

		assert_true(reap_once(&w->d, &next, &w->e) > 0);
	}
	assert_int_equal(w->pool->n, 0);
	world_agrees(w);
}

/* The status and since when: a change to what it is already is none, and both outlive the program. */
static void test_node(void **state)
{
	struct world *w = *state;
	enum node_status status;
	int64_t since, changed;

	world_freeze(w);
	assert_done(w, node_status_get(&w->d, &status, &since, &w->e));
	assert_int_equal(status, NODE_READY);
	assert_int_equal(since, w->d.anchor_wall_us);
	world_advance(w, 5 * US_PER_S);
	changed = domain_now(&w->d);
	for (int i = 0; i < 2; i++) {
		assert_done(w, node_status_set(&w->d, NODE_DRAINING, &w->e));
		world_advance(w, 5 * US_PER_S);
	}
	world_reopen(w);
	assert_done(w, node_status_get(&w->d, &status, &since, &w->e));
	assert_int_equal(status, NODE_DRAINING);
	assert_int_equal(since, changed);
	changed = domain_now(&w->d);                 /* the time goes on, from what it is now */
	assert_done(w, node_status_set(&w->d, NODE_READY, &w->e));
	assert_done(w, node_status_get(&w->d, &status, &since, &w->e));
	assert_int_equal(status, NODE_READY);
	assert_true(since >= changed && since <= domain_now(&w->d));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		T(test_manage), T(test_use), T(test_login_key), T(test_auth_team), T(test_auth_user), T(test_anonymous), T(test_key_file),
		T(test_bad_key_file), T(test_start), T(test_start_somebody), T(test_admin_token), T(test_limits), T(test_rate),
		T(test_rate_many), T(test_counts), T(test_across), T(test_node),
	};

	return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
