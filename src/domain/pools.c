/* Machine pools by name: enrolling, finding, and the driver of each kind. */
#include "domain_int.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/envd.h"

#define REPLIES_MAX 1000
#define REPLY_HEADERS_MAX 64
#define CONFIG_MAX (512 << 10)
#define FOLDER_DEFAULT "/home/user"
#define PROGRAM_DEFAULT "node"

struct pool *pool_of(const struct domain *d, uint8_t kind)
{
	return kind == POOL_NONE || kind == POOL_VENDOR ? d->rows : kind == POOL_FAKE ? d->fake : d->pool;
}

bool pool_on_node(uint8_t kind)
{
	return kind == POOL_LOCAL || kind == POOL_LIGHT;
}

/* ---- finding ---- */

/* The two that need no record. */
static int built_in(const char *name, uint8_t kind, struct pool_rec *out, struct err *e)
{
	*out = (struct pool_rec){ .kind = kind, .config = strdup("{}") };
	snprintf(out->name, sizeof out->name, "%s", name);
	return out->config != NULL ? 1 : err_set(e, ERR_INTERNAL, "out of memory");
}

int pool_resolve(struct txn *t, const char *name, struct pool_rec *out, struct err *e)
{
	bool any = name[0] == '\0';
	int got;

	if (strcmp(name, POOL_LOCAL_NAME) == 0)
		return built_in(name, POOL_LOCAL, out, e);
	if (strcmp(name, POOL_UPSTREAM_NAME) == 0)
		return built_in(name, POOL_VENDOR, out, e);
	got = store_pool_get(t, any ? POOL_DEFAULT_NAME : name, out, e);
	return got == 0 && any ? built_in(POOL_LOCAL_NAME, POOL_LOCAL, out, e) : got;
}

int pool_walk(struct domain *d, store_pool_fn *fn, void *ctx, struct err *e)
{
	const bool mirrors = d->conf->upstream_url[0] != '\0';
	struct pool_rec p;
	struct txn *t;
	int status;

	for (int i = 0; i < 1 + mirrors; i++) {
		if (built_in(i == 0 ? POOL_LOCAL_NAME : POOL_UPSTREAM_NAME, i == 0 ? POOL_LOCAL : POOL_VENDOR, &p, e) < 0)
			return -1;
		status = fn(ctx, &p, e);
		pool_rec_release(&p);
		if (status < 0)
			return -1;
	}
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_pools(t, fn, ctx, e);
	txn_abort(t);
	return status;
}

/* ---- settings of a kind, checked and with defaults filled in ---- */

/* Every member of o is one of the NULL-terminated names. */
static int only(json_object *o, const char *what, const char *const *names, struct err *e)
{
	json_object_object_foreach(o, key, v) {
		const char *const *n = names;

		(void)v;
		while (*n != NULL && strcmp(*n, key) != 0)
			n++;
		if (*n == NULL)
			return err_set(e, ERR_INVALID, "%s has no field \"%.64s\"", what, key);
	}
	return 0;
}

static bool token_ok(const char *s)
{
	if (*s == '\0' || strlen(s) > 128)
		return false;
	for (; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && strchr("!#$%&'*+-.^_`|~", *s) == NULL)
			return false;
	return true;
}

/* What the server itself says about the body must not be said twice. */
static bool header_ok(const char *name, const char *value)
{
	static const char *const own[] = { "content-length", "transfer-encoding", "connection" };

	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		if (strcasecmp(name, own[i]) == 0)
			return false;
	return token_ok(name) && strlen(value) <= 4096 && strpbrk(value, "\r\n") == NULL;
}

static int reply_headers(json_object *o, struct jw *w, struct err *e)
{
	json_object *map = NULL;

	if (json_get_strmap(o, "headers", &map, e) < 0)
		return -1;
	if (map == NULL)
		return 0;
	if (json_object_object_length(map) > REPLY_HEADERS_MAX)
		return err_set(e, ERR_INVALID, "headers are more than %d", REPLY_HEADERS_MAX);
	jw_key(w, "headers");
	jw_open(w, '{');
	json_object_object_foreach(map, name, v) {
		if (!header_ok(name, json_object_get_string(v)))
			return err_set(e, ERR_INVALID, "headers: \"%.64s\" cannot be sent", name);
		jw_kstr(w, name, json_object_get_string(v));
	}
	jw_close(w, '}');
	return 0;
}

/* The body, in base64. */
static int reply_body(json_object *o, struct jw *w, struct err *e)
{
	const char *text = NULL, *coded = NULL;
	struct buf raw;
	int status = 0;

	if (json_get_str(o, "body", CONFIG_MAX, &text, e) < 0 || json_get_str(o, "bodyBase64", CONFIG_MAX, &coded, e) < 0)
		return -1;
	if (text != NULL && coded != NULL)
		return err_set(e, ERR_INVALID, "body and bodyBase64 exclude each other");
	jw_key(w, "bodyBase64");
	if (coded == NULL) {
		jw_base64(w, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
		return 0;
	}
	buf_init(&raw, CONFIG_MAX);
	if (base64_decode(&raw, coded, strlen(coded)) < 0)
		status = err_set(e, ERR_INVALID, "bodyBase64 is not base64");
	else
		jw_base64(w, buf_str(&raw), raw.len);
	buf_release(&raw);
	return status;
}

static int reply_read(json_object *o, struct jw *w, struct err *e)
{
	static const char *const names[] = { "port", "method", "path", "status", "headers", "body", "bodyBase64", "times", NULL };
	const char *method = "GET", *path = NULL;
	int64_t port = ENVD_PORT, code = 200, times = 0;

	if (only(o, "a reply", names, e) < 0 || json_get_int(o, "port", 1, 65535, &port, e) < 0 ||
	    json_get_str(o, "method", 32, &method, e) < 0 || json_need_str(o, "path", 8192, &path, e) < 0 ||
	    json_get_int(o, "status", 200, 599, &code, e) < 0 || json_get_int(o, "times", 1, INT32_MAX, &times, e) < 0)
		return -1;
	if (!token_ok(method))
		return err_set(e, ERR_INVALID, "method is no method");
	if (path[0] != '/')
		return err_set(e, ERR_INVALID, "path must begin with /");
	jw_open(w, '{');
	jw_kint(w, "port", port);
	jw_kstr(w, "method", method);
	jw_kstr(w, "path", path);
	jw_kint(w, "status", code);
	if (times > 0)
		jw_kint(w, "times", times);
	if (reply_headers(o, w, e) < 0 || reply_body(o, w, e) < 0)
		return -1;
	jw_close(w, '}');
	return 0;
}

static int fake_config(json_object *o, struct jw *w, struct err *e)
{
	static const char *const names[] = { "kind", "name", "replies", NULL };
	json_object *list = NULL;
	size_t n;

	if (only(o, "a fake pool", names, e) < 0 || json_get_arr(o, "replies", &list, e) < 0)
		return -1;
	n = list != NULL ? json_object_array_length(list) : 0;
	if (n > REPLIES_MAX)
		return err_set(e, ERR_INVALID, "replies are more than %d", REPLIES_MAX);
	jw_key(w, "replies");
	jw_open(w, '[');
	for (size_t i = 0; i < n; i++) {
		json_object *reply = json_object_array_get_idx(list, i);
		int status = json_object_is_type(reply, json_type_object) ? reply_read(reply, w, e)
			: err_set(e, ERR_INVALID, "a reply must be an object");

		if (status < 0)
			return err_wrap(e, "replies[%zu]", i);
	}
	jw_close(w, ']');
	return 0;
}

static int light_config(json_object *o, struct jw *w, struct err *e)
{
	static const char *const names[] = { "kind", "name", "folder", "node", NULL };
	const char *folder = FOLDER_DEFAULT, *program = PROGRAM_DEFAULT;

	if (only(o, "a light pool", names, e) < 0 || json_get_str(o, "folder", 1024, &folder, e) < 0 ||
	    json_get_str(o, "node", 1024, &program, e) < 0)
		return -1;
	if (folder[0] != '/')
		return err_set(e, ERR_INVALID, "folder must be an absolute path in the sandbox");
	if (program[0] == '\0' || (program[0] != '/' && strchr(program, '/') != NULL))
		return err_set(e, ERR_INVALID, "node must be a program's name or absolute path");
	jw_kstr(w, "folder", folder);
	jw_kstr(w, "node", program);
	return 0;
}

static int plain_config(json_object *o, struct jw *w, struct err *e)
{
	static const char *const names[] = { "kind", "name", NULL };

	(void)w;
	return only(o, "a pool of this kind", names, e);
}

static int config_text(json_object *o, uint8_t kind, char **out, struct err *e)
{
	struct buf b;
	struct jw w;
	int status;

	buf_init(&b, CONFIG_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	status = kind == POOL_FAKE ? fake_config(o, &w, e) : kind == POOL_LIGHT ? light_config(o, &w, e) : plain_config(o, &w, e);
	jw_close(&w, '}');
	if (status == 0 && buf_failed(&b))
		status = err_set(e, ERR_INVALID, "the pool's settings are larger than %d bytes", CONFIG_MAX);
	if (status == 0)
		*out = buf_take(&b);
	buf_release(&b);
	return status;
}

/* ---- enrolling ---- */

static int spec_read(const struct domain *d, json_object *o, struct pool_rec *r, struct err *e)
{
	const char *kind = NULL, *name = POOL_DEFAULT_NAME;
	int k;

	if (json_need_str(o, "kind", 32, &kind, e) < 0 || json_get_str(o, "name", POOL_NAME_LEN - 1, &name, e) < 0)
		return -1;
	k = pool_kind_find(kind);
	if (k < 0 || (pool_kind_caps((enum pool_kind)k)->can & CAP_CREATE) == 0)
		return err_set(e, ERR_INVALID, "kind must be local, none, fake or light");
	if (!name_chars_ok(name, ""))
		return err_set(e, ERR_INVALID, "name must be of a-z, 0-9, - and _");
	if (strcmp(name, POOL_LOCAL_NAME) == 0)
		return err_set(e, ERR_INVALID, "name local is the local pool's");
	if (strcmp(name, POOL_UPSTREAM_NAME) == 0)
		return err_set(e, ERR_INVALID, "name upstream is that of the upstream account's rows");
	if (k == POOL_FAKE && !d->conf->verification)
		return err_set(e, ERR_DENIED, "kind fake is only for verification (option verification)");
	snprintf(r->name, sizeof r->name, "%s", name);
	r->kind = (uint8_t)k;
	return config_text(o, r->kind, &r->config, e);
}

/* A replaced pool keeps its birth. */
static int put(struct domain *d, struct txn *t, struct pool_rec *r, struct err *e)
{
	struct pool_rec old;
	int got = store_pool_get(t, r->name, &old, e);

	if (got < 0)
		return -1;
	r->created_us = r->updated_us = domain_now(d);
	if (got == 1) {
		r->created_us = old.created_us;
		if (r->updated_us <= old.updated_us)
			r->updated_us = old.updated_us + 1;      /* who keeps something of it must see the change */
		pool_rec_release(&old);
	}
	return store_pool_put(t, r, e);
}

int pool_enrol(struct domain *d, const char *body, size_t n, struct pool_rec *out, struct err *e)
{
	json_object *o;
	struct txn *t;
	int status;

	memset(out, 0, sizeof *out);
	if (json_read_body(body, n, &o, e) < 0)
		return -1;
	status = spec_read(d, o, out, e);
	json_object_put(o);
	if (status == 0)
		status = txn_write(d->store, &t, e);
	if (status == 0 && put(d, t, out, e) < 0) {
		txn_abort(t);
		status = -1;
	} else if (status == 0) {
		status = txn_commit(t, e);
	}
	if (status < 0)
		pool_rec_release(out);
	return status;
}
