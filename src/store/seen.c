/* Ids of deliveries that were taken, by their hash, and by time for forgetting them. */
#include "store_int.h"

#include <string.h>

#define HASH 32
#define KEY_AT_LEN (8 + HASH)

int store_seen_get(struct txn *t, const uint8_t hash[HASH], struct err *e)
{
	MDB_val v;

	return table_get(t, T_SEEN, hash, HASH, &v, e);
}

static int count(struct txn *t, size_t *n, struct err *e)
{
	MDB_stat s;
	int rc = mdb_stat(t->mdb, t->st->dbi[T_SEEN], &s);

	*n = s.ms_entries;
	return rc != 0 ? store_fail(t->st, rc, "seen", e) : 0;
}

/* The oldest one goes if it is from before before_us: 1, else 0. */
static int drop_oldest(struct txn *t, int64_t before_us, struct err *e)
{
	uint8_t key[KEY_AT_LEN];
	MDB_cursor *c;
	MDB_val k, v;
	int got;

	if (cursor_open(t, T_SEEN_AT, &c, e) < 0)
		return -1;
	got = cursor_step(t, c, MDB_FIRST, &k, &v, e);
	if (got == 1 && k.mv_size != sizeof key)
		got = store_damaged("seen_at", k.mv_data, k.mv_size, e);
	else if (got == 1)
		memcpy(key, k.mv_data, sizeof key);
	mdb_cursor_close(c);
	if (got != 1 || (int64_t)be64_get(key) >= before_us)
		return got < 0 ? -1 : 0;
	if (table_delete(t, T_SEEN_AT, key, sizeof key, e) < 0 || table_delete(t, T_SEEN, key + 8, HASH, e) < 0)
		return -1;
	return 1;
}

int store_seen_put(struct txn *t, const uint8_t hash[HASH], int64_t us, size_t max, struct err *e)
{
	uint8_t key[KEY_AT_LEN];
	size_t n;
	int got = store_seen_get(t, hash, e);

	if (got != 0)
		return got < 0 ? -1 : 0;
	be64_put(key, (uint64_t)us);
	memcpy(key + 8, hash, HASH);
	if (table_put(t, T_SEEN, hash, HASH, key, 8, e) < 0 || table_put(t, T_SEEN_AT, key, sizeof key, "", 0, e) < 0 || count(t, &n, e) < 0)
		return -1;
	return n > max && drop_oldest(t, INT64_MAX, e) < 0 ? -1 : 0;
}

int store_seen_trim(struct txn *t, int64_t before_us, int max, int *removed, struct err *e)
{
	int got;

	for (*removed = 0; *removed < max; ++*removed) {
		got = drop_oldest(t, before_us, e);
		if (got != 1)
			return got;
	}
	return 0;
}
