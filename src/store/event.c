/* Lifecycle events, by team and time, and by sandbox. */
#include "store_int.h"

#include <string.h>

#define EVENT_MAX (16 << 20)

static void key_event(uint8_t out[KEY_EVENT_LEN], const char *team, int64_t us, uint32_t seq)
{
	memcpy(out, team, UUID_CHARS);
	be64_put(out + UUID_CHARS, (uint64_t)us);
	be32_put(out + UUID_CHARS + 8, seq);
}

/* at: the twelve bytes of time and sequence. */
static void key_event_of(uint8_t out[KEY_EVENT_OF_LEN], const void *sandbox, const uint8_t at[12])
{
	memcpy(out, sandbox, SANDBOX_ID_CHARS);
	memcpy(out + SANDBOX_ID_CHARS, at, 12);
}

/* The text of a record, and its sandbox's id (not ended; NULL when it has none). */
static int event_text(const MDB_val *v, const char **json, size_t *n, const char **sandbox, struct err *e)
{
	const char *p = v->mv_data;

	*sandbox = NULL;
	*json = p;
	*n = v->mv_size;
	if (v->mv_size == 0 || p[0] != LAYOUT_EVENT)
		return 0;
	if (v->mv_size < EVENT_TEXT_AT)
		return store_damaged("event", p, v->mv_size, e);
	*sandbox = p[1] != '\0' ? p + 1 : NULL;
	*json = p + EVENT_TEXT_AT;
	*n = v->mv_size - EVENT_TEXT_AT;
	return 0;
}

int store_event_add(struct txn *t, const char *team, const char *sandbox, int64_t us, const char *json, size_t n, uint32_t *seq,
		    struct err *e)
{
	uint8_t key[KEY_EVENT_LEN], of[KEY_EVENT_OF_LEN];
	char id[SANDBOX_ID_LEN] = "";
	uint32_t number;
	struct buf b;

	if (strlen(team) != UUID_CHARS || (sandbox != NULL && strlen(sandbox) != SANDBOX_ID_CHARS))
		return err_set(e, ERR_INTERNAL, "event: team or sandbox is not well-formed");
	key_event(key, team, us, 0);
	if (key_next(t, T_EVENTS, key, sizeof key, &number, e) < 0)
		return -1;
	if (sandbox != NULL) {
		memcpy(id, sandbox, SANDBOX_ID_CHARS);
		key_event_of(of, sandbox, key + UUID_CHARS);
		if (table_put(t, T_EVENTS_OF, of, sizeof of, "", 0, e) < 0)
			return -1;
	}
	buf_init(&b, EVENT_MAX);
	buf_addc(&b, LAYOUT_EVENT);
	buf_add(&b, id, SANDBOX_ID_CHARS);
	buf_add(&b, json, n);
	if (seq != NULL)
		*seq = number;
	return store_packed(t, T_EVENTS, key, sizeof key, &b, e);
}

int store_event_get(struct txn *t, const char *team, int64_t us, uint32_t seq, const char **json, size_t *n, struct err *e)
{
	uint8_t key[KEY_EVENT_LEN];
	const char *sandbox;
	MDB_val v;
	int got;

	if (strlen(team) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "event: team is not well-formed");
	key_event(key, team, us, seq);
	got = table_get(t, T_EVENTS, key, sizeof key, &v, e);
	return got == 1 && event_text(&v, json, n, &sandbox, e) < 0 ? -1 : got;
}

struct give {
	const char *team;
	size_t at;                   /* where time and sequence stand in a key: behind the team's or the sandbox's id */
	store_event_fn *fn;
	void *ctx;
};

static int give_at(const struct give *g, const void *key, const char *json, size_t n, struct err *e)
{
	return g->fn(g->ctx, (int64_t)be64_get((const uint8_t *)key + g->at), json, n, e);
}

static int give_event(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const char *json, *sandbox;
	size_t n;

	(void)t;
	if (k->mv_size != KEY_EVENT_LEN)
		return store_damaged("event", k->mv_data, k->mv_size, e);
	return event_text(v, &json, &n, &sandbox, e) < 0 ? -1 : give_at(ctx, k->mv_data, json, n, e);
}

/* The one that an entry of a sandbox's list names. */
static int give_event_of(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	const uint8_t *at = (const uint8_t *)k->mv_data + g->at;
	const char *json;
	size_t n;
	int got;

	(void)v;
	if (k->mv_size != KEY_EVENT_OF_LEN)
		return store_damaged("event", k->mv_data, k->mv_size, e);
	got = store_event_get(t, g->team, (int64_t)be64_get(at), be32_get(at + 8), &json, &n, e);
	return got == 1 ? give_at(g, k->mv_data, json, n, e) : got;     /* not there: the sandbox is another team's */
}

int store_walk_events_of(struct txn *t, const char *team, const char *sandbox, bool oldest_first, store_event_fn *fn, void *ctx,
			 struct err *e)
{
	struct stretch s = { .tb = T_EVENTS, .prefix = team, .prefix_len = UUID_CHARS, .back = !oldest_first };
	struct give g = { team, UUID_CHARS, fn, ctx };

	if (strlen(team) != UUID_CHARS)
		return err_set(e, ERR_INTERNAL, "event: team is not well-formed");
	if (sandbox == NULL)
		return table_walk(t, &s, give_event, &g, e);
	if (strlen(sandbox) != SANDBOX_ID_CHARS)
		return 0;                    /* an id that no sandbox has */
	s.tb = T_EVENTS_OF;
	s.prefix = sandbox;
	s.prefix_len = g.at = SANDBOX_ID_CHARS;
	return table_walk(t, &s, give_event_of, &g, e);
}

int store_walk_events(struct txn *t, const char *team, store_event_fn *fn, void *ctx, struct err *e)
{
	return store_walk_events_of(t, team, NULL, false, fn, ctx, e);
}

/* Jump behind the team that key k belongs to. */
static int next_team(struct txn *t, MDB_cursor *c, MDB_val *k, MDB_val *v, struct err *e)
{
	uint8_t key[KEY_EVENT_LEN];

	memcpy(key, k->mv_data, UUID_CHARS);
	memset(key + UUID_CHARS, 0xff, sizeof key - UUID_CHARS);
	*k = (MDB_val){ sizeof key, key };
	return cursor_step(t, c, MDB_SET_RANGE, k, v, e);
}

/* The event under the cursor, with its entry in the sandbox's list. */
static int drop(struct txn *t, MDB_cursor *c, const MDB_val *k, const MDB_val *v, struct err *e)
{
	uint8_t of[KEY_EVENT_OF_LEN];
	const char *json, *sandbox;
	size_t n;
	int rc;

	if (event_text(v, &json, &n, &sandbox, e) < 0)
		return -1;
	if (sandbox != NULL) {
		key_event_of(of, sandbox, (const uint8_t *)k->mv_data + UUID_CHARS);
		if (table_delete(t, T_EVENTS_OF, of, sizeof of, e) < 0)
			return -1;
	}
	rc = mdb_cursor_del(c, 0);
	return rc != 0 ? store_fail(t->st, rc, "events", e) : 0;
}

int store_events_trim(struct txn *t, int64_t before_us, int max, int *removed, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	int got;

	*removed = 0;
	if (cursor_open(t, T_EVENTS, &c, e) < 0)
		return -1;
	got = cursor_step(t, c, MDB_FIRST, &k, &v, e);
	while (got == 1 && *removed < max) {
		if (k.mv_size != KEY_EVENT_LEN) {
			got = store_damaged("event", k.mv_data, k.mv_size, e);
		} else if ((int64_t)be64_get((const uint8_t *)k.mv_data + UUID_CHARS) >= before_us) {
			got = next_team(t, c, &k, &v, e);
		} else if (drop(t, c, &k, &v, e) < 0) {
			got = -1;
		} else {
			++*removed;
			got = cursor_step(t, c, MDB_NEXT, &k, &v, e);
		}
	}
	mdb_cursor_close(c);
	return got < 0 ? -1 : 0;
}
