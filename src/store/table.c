/* One table at a time: get, put, delete, cursors, and the small records of meta. */
#include "store_int.h"

#include <ctype.h>
#include <string.h>

int table_get(struct txn *t, enum table tb, const void *key, size_t n, MDB_val *out, struct err *e)
{
	MDB_val k = { n, (void *)(uintptr_t)key };
	int rc = n == 0 ? MDB_NOTFOUND : mdb_get(t->mdb, t->st->dbi[tb], &k, out);

	if (rc == MDB_NOTFOUND || rc == MDB_BAD_VALSIZE)     /* too long to be any key: not there */
		return 0;
	return rc != 0 ? store_fail(t->st, rc, table_names[tb], e) : 1;
}

int table_put(struct txn *t, enum table tb, const void *key, size_t n, const void *p, size_t size, struct err *e)
{
	MDB_val k = { n, (void *)(uintptr_t)key }, v = { size, (void *)(uintptr_t)p };
	int rc = mdb_put(t->mdb, t->st->dbi[tb], &k, &v, 0);

	return rc != 0 ? store_fail(t->st, rc, table_names[tb], e) : 0;
}

int table_delete(struct txn *t, enum table tb, const void *key, size_t n, struct err *e)
{
	MDB_val k = { n, (void *)(uintptr_t)key };
	int rc = n == 0 ? MDB_NOTFOUND : mdb_del(t->mdb, t->st->dbi[tb], &k, NULL);

	if (rc == MDB_NOTFOUND)
		return 0;
	return rc != 0 ? store_fail(t->st, rc, table_names[tb], e) : 1;
}

int cursor_open(struct txn *t, enum table tb, MDB_cursor **out, struct err *e)
{
	int rc = mdb_cursor_open(t->mdb, t->st->dbi[tb], out);

	return rc != 0 ? store_fail(t->st, rc, table_names[tb], e) : 0;
}

int cursor_step(struct txn *t, MDB_cursor *c, MDB_cursor_op op, MDB_val *k, MDB_val *v, struct err *e)
{
	int rc = mdb_cursor_get(c, k, v, op);

	if (rc == MDB_NOTFOUND)
		return 0;
	return rc != 0 ? store_fail(t->st, rc, "records", e) : 1;
}

#define KEY_MAX 128                  /* more than any key that begins with an id */

static int stretch_seek(struct txn *t, MDB_cursor *c, const struct stretch *s, MDB_val *k, MDB_val *v, struct err *e)
{
	uint8_t high[KEY_MAX];
	int got;

	*k = (MDB_val){ s->from_len, (void *)(uintptr_t)s->from };
	if (s->from_len == 0 && !s->back)
		*k = (MDB_val){ s->prefix_len, (void *)(uintptr_t)s->prefix };
	if (s->from_len == 0 && s->back) {
		memset(high, 0xff, sizeof high);
		if (s->prefix_len > 0)
			memcpy(high, s->prefix, s->prefix_len);
		*k = (MDB_val){ sizeof high, high };
	}
	got = cursor_step(t, c, k->mv_size > 0 ? MDB_SET_RANGE : MDB_FIRST, k, v, e);
	if (got >= 0 && s->back)
		return cursor_step(t, c, got == 1 ? MDB_PREV : MDB_LAST, k, v, e);
	if (got == 1 && s->past && k->mv_size == s->from_len && memcmp(k->mv_data, s->from, s->from_len) == 0)
		return cursor_step(t, c, MDB_NEXT, k, v, e);
	return got;
}

static bool stretch_has(const struct stretch *s, const MDB_val *k)
{
	return s->prefix_len == 0 || (k->mv_size >= s->prefix_len && memcmp(k->mv_data, s->prefix, s->prefix_len) == 0);
}

int table_walk(struct txn *t, const struct stretch *s, entry_fn *fn, void *ctx, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	int got, status = 0;

	if (cursor_open(t, s->tb, &c, e) < 0)
		return -1;
	got = stretch_seek(t, c, s, &k, &v, e);
	while (got == 1 && stretch_has(s, &k)) {
		status = fn(ctx, t, &k, &v, e);
		if (status != 0)
			break;
		got = cursor_step(t, c, s->back ? MDB_PREV : MDB_NEXT, &k, &v, e);
	}
	mdb_cursor_close(c);
	return got < 0 || status < 0 ? -1 : 0;
}

void be64_put(uint8_t *p, uint64_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
}

uint64_t be64_get(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

void be32_put(uint8_t *p, uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
}

uint32_t be32_get(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int key_next(struct txn *t, enum table tb, uint8_t *key, size_t n, uint32_t *number, struct err *e)
{
	MDB_val k = { n, key }, v;
	MDB_cursor *c;
	int got;

	if (cursor_open(t, tb, &c, e) < 0)
		return -1;
	be32_put(key + n - 4, UINT32_MAX);
	*number = 0;
	got = cursor_step(t, c, MDB_SET_RANGE, &k, &v, e);
	if (got == 1 && k.mv_size == n && memcmp(k.mv_data, key, n) == 0)
		got = err_set(e, ERR_INTERNAL, "%s: no number is left", table_names[tb]);
	else if (got >= 0)
		got = cursor_step(t, c, got == 1 ? MDB_PREV : MDB_LAST, &k, &v, e);
	if (got == 1 && k.mv_size == n && memcmp(k.mv_data, key, n - 4) == 0)
		*number = be32_get((const uint8_t *)k.mv_data + n - 4) + 1;
	mdb_cursor_close(c);
	be32_put(key + n - 4, *number);
	return got < 0 ? -1 : 0;
}

int store_damaged(const char *what, const void *key, size_t n, struct err *e)
{
	const unsigned char *p = key;
	char text[65];
	size_t i;

	for (i = 0; i < n && i < sizeof text - 1; i++)
		text[i] = isprint(p[i]) ? (char)p[i] : '?';
	text[i] = '\0';
	return err_set(e, ERR_INTERNAL, "%s %s: unknown or damaged record", what, text);
}

int store_packed(struct txn *t, enum table tb, const void *key, size_t n, struct buf *b, struct err *e)
{
	int status;

	if (buf_failed(b))
		status = err_set(e, ERR_INTERNAL, "%s: a record is too large or memory is short", table_names[tb]);
	else
		status = table_put(t, tb, key, n, buf_str(b), b->len, e);
	buf_release(b);
	return status;
}

int store_meta_get(struct txn *t, const char *key, void *out, size_t size, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_META, key, strlen(key), &v, e);

	if (got != 1)
		return got;
	if (v.mv_size != size)
		return store_damaged("meta", key, strlen(key), e);
	memcpy(out, v.mv_data, size);
	return 1;
}

int store_meta_put(struct txn *t, const char *key, const void *p, size_t size, struct err *e)
{
	return table_put(t, T_META, key, strlen(key), p, size, e);
}

#define NUMBERS_MAX 16

int store_numbers_get(struct txn *t, const char *key, int64_t *v, size_t n, struct err *e)
{
	uint8_t raw[8 * NUMBERS_MAX] = { 0 };

	if (n > NUMBERS_MAX)
		return err_set(e, ERR_INTERNAL, "meta %s: too many numbers", key);
	if (store_meta_get(t, key, raw, 8 * n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		v[i] = (int64_t)be64_get(raw + 8 * i);
	return 0;
}

int store_numbers_put(struct txn *t, const char *key, const int64_t *v, size_t n, struct err *e)
{
	uint8_t raw[8 * NUMBERS_MAX];

	if (n > NUMBERS_MAX)
		return err_set(e, ERR_INTERNAL, "meta %s: too many numbers", key);
	for (size_t i = 0; i < n; i++)
		be64_put(raw + 8 * i, (uint64_t)v[i]);
	return store_meta_put(t, key, raw, 8 * n, e);
}

int store_text_get(struct txn *t, const char *key, struct buf *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_META, key, strlen(key), &v, e);

	if (got != 1)
		return got;
	buf_add(out, v.mv_data, v.mv_size);
	return buf_failed(out) ? err_set(e, ERR_INTERNAL, "meta %s: too long", key) : 1;
}

int store_text_put(struct txn *t, const char *key, const char *text, struct err *e)
{
	if (text != NULL)
		return store_meta_put(t, key, text, strlen(text), e);
	return table_delete(t, T_META, key, strlen(key), e) < 0 ? -1 : 0;
}
