/* Templates and their names. */
#include "store_int.h"

#include <stdio.h>
#include <string.h>

int store_template_get(struct txn *t, const char *id, struct template_rec *out, struct err *e)
{
	MDB_val v;
	int got = table_get(t, T_TEMPLATES, id, strlen(id), &v, e);

	if (got == 1 && template_unpack(id, strlen(id), v.mv_data, v.mv_size, out) < 0)
		return store_damaged("template", id, strlen(id), e);
	return got;
}

/* ns "/" alias; 0 when it is too long to be a name. */
static size_t key_name(char out[KEY_NAME_MAX], const char *ns, const char *alias)
{
	int n = snprintf(out, KEY_NAME_MAX, "%s/%s", ns, alias);

	return n > 0 && n < KEY_NAME_MAX ? (size_t)n : 0;
}

int store_template_by_name(struct txn *t, const char *ns, const char *alias, struct template_rec *out, struct err *e)
{
	char key[KEY_NAME_MAX], id[TEMPLATE_ID_LEN];
	size_t n = key_name(key, ns, alias);
	MDB_val v;
	int got = table_get(t, T_TEMPLATE_NAMES, key, n, &v, e);

	if (got != 1)
		return got;
	if (v.mv_size >= sizeof id)
		return store_damaged("template_names", key, n, e);
	memcpy(id, v.mv_data, v.mv_size);
	id[v.mv_size] = '\0';
	got = store_template_get(t, id, out, e);
	return got == 0 ? store_damaged("template_names", key, n, e) : got;
}

int store_template_put(struct txn *t, const struct template_rec *r, struct err *e)
{
	struct buf b;

	buf_init(&b, RECORD_MAX);
	template_pack(&b, r);
	return store_packed(t, T_TEMPLATES, r->id, strlen(r->id), &b, e);
}

int store_template_delete(struct txn *t, const char *id, struct err *e)
{
	return table_delete(t, T_TEMPLATES, id, strlen(id), e);
}

int store_template_name_put(struct txn *t, const char *ns, const char *alias, const char *id, struct err *e)
{
	char key[KEY_NAME_MAX];
	size_t n = key_name(key, ns, alias);

	if (n == 0)
		return err_set(e, ERR_INVALID, "alias is too long");
	return table_put(t, T_TEMPLATE_NAMES, key, n, id, strlen(id), e);
}

int store_template_name_delete(struct txn *t, const char *ns, const char *alias, struct err *e)
{
	char key[KEY_NAME_MAX];

	return table_delete(t, T_TEMPLATE_NAMES, key, key_name(key, ns, alias), e) < 0 ? -1 : 0;
}

struct give { store_template_fn *fn; void *ctx; };

static int give(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct give *g = ctx;
	struct template_rec r;
	int status;

	(void)t;
	if (template_unpack(k->mv_data, k->mv_size, v->mv_data, v->mv_size, &r) < 0)
		return store_damaged("template", k->mv_data, k->mv_size, e);
	status = g->fn(g->ctx, &r, e);
	template_rec_release(&r);
	return status;
}

int store_walk_templates(struct txn *t, store_template_fn *fn, void *ctx, struct err *e)
{
	struct give g = { fn, ctx };

	return table_walk(t, &(struct stretch){ .tb = T_TEMPLATES }, give, &g, e);
}
