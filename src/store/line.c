/* Lines that agents noted, by sandbox and time. A time names its line: the same one put again is the same entry. */
#include "store_int.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUT_LINE 1

static const char *const levels[LINE_LEVELS] = { "debug", "info", "warn", "error" };

const char *line_level_name(int level)
{
	return levels[level];
}

int line_level_find(const char *name)
{
	for (int i = 0; i < LINE_LEVELS; i++)
		if (strcmp(levels[i], name) == 0)
			return i;
	return -1;
}

int store_line_put(struct txn *t, const char *id, const struct line_rec *r, struct err *e)
{
	struct buf b;

	buf_init(&b, RECORD_MAX);
	enc_u8(&b, LAYOUT_LINE);
	enc_uuid(&b, r->team);
	enc_u8(&b, r->level);
	enc_text(&b, r->message);
	enc_text(&b, r->fields);
	return owned_put(t, T_LINES, id, r->us, &b, e);
}

static void release(struct line_rec *r)
{
	free(r->message);
	free(r->fields);
}

static int unpack(const MDB_val *k, const MDB_val *v, struct line_rec *r, struct err *e)
{
	struct dec d = { v->mv_data, v->mv_size, false };

	if (k->mv_size != SANDBOX_ID_CHARS + 8)
		return store_damaged("line", k->mv_data, k->mv_size, e);
	d.bad = dec_u8(&d) != LAYOUT_LINE;
	*r = (struct line_rec){ .us = owned_us(T_LINES, k) };
	dec_uuid(&d, r->team);
	r->level = dec_u8(&d);
	r->message = dec_text(&d);
	r->fields = dec_text(&d);
	if (dec_done(&d) && r->level < LINE_LEVELS && r->message != NULL && r->fields != NULL)
		return 0;
	release(r);
	return store_damaged("line", k->mv_data, k->mv_size, e);
}

struct give { store_line_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct line_rec r;
	int status;

	(void)t;
	if (unpack(k, v, &r, e) < 0)
		return -1;
	status = g->fn(g->ctx, &r, e);
	release(&r);
	return status;
}

int store_walk_lines(struct txn *t, const char *id, store_line_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	if (strlen(id) != SANDBOX_ID_CHARS)
		return 0;                    /* an id that no sandbox has */
	return table_walk(t, &(struct stretch){ .tb = T_LINES, .prefix = id, .prefix_len = SANDBOX_ID_CHARS, .back = true }, give, &g, e);
}

int store_line_newest(struct txn *t, const char *id, int64_t *us, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	int got = owned_seek_before(t, T_LINES, id, INT64_MAX, &c, &k, &v, e);

	if (got < 0)
		return -1;
	*us = got == 1 ? owned_us(T_LINES, &k) : 0;
	mdb_cursor_close(c);
	return 0;
}

int store_lines_cap(struct txn *t, const char *id, size_t keep, struct err *e)
{
	MDB_cursor *c;
	MDB_val k, v;
	int got = owned_seek_before(t, T_LINES, id, INT64_MAX, &c, &k, &v, e);

	if (got < 0)
		return -1;
	for (size_t i = 0; got == 1 && owned_is_of(T_LINES, &k, id); i++) {
		int rc = i >= keep ? mdb_cursor_del(c, 0) : 0;

		/* after a delete the cursor stands at the next one: back to before it */
		got = rc != 0 ? store_fail(t->st, rc, table_names[T_LINES], e) : cursor_step(t, c, MDB_PREV, &k, &v, e);
	}
	mdb_cursor_close(c);
	return got < 0 ? -1 : 0;
}

int store_lines_trim(struct txn *t, int64_t before_us, int max, char after[64], int *removed, struct err *e)
{
	return owned_trim(t, T_LINES, before_us, max, after, removed, e);
}

static int check_line(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct line_rec r;
	struct err why;

	(void)t;
	(void)e;
	if (unpack(k, v, &r, &why) < 0)
		store_say(ctx, "%s", why.text);
	else
		release(&r);
	return 0;
}

int store_check_lines(struct store_audit *a, struct err *e)
{
	return store_check_each(a, T_LINES, check_line, e);
}
