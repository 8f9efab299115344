/* API keys and access tokens (api.md 2, 10): what is kept of them is the SHA-256 of the decoded bytes. */
#include "domain_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/log.h"

#define KEY_BYTES 20
#define USE_US (3600 * US_PER_S)     /* how exactly the last use is known: writing it down each time would cost a commit */

static const char *prefix_of(enum key_kind kind)
{
	return kind == KEY_API ? KEY_PREFIX : TOKEN_PREFIX;
}

bool key_parse(const char *text, struct key_rec *out)
{
	uint8_t raw[KEY_HEX_MAX / 2];
	const char *hex;
	size_t n;

	memset(out, 0, sizeof *out);
	out->kind = strncmp(text, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) == 0 ? KEY_TOKEN : KEY_API;
	if (out->kind == KEY_API && strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) != 0)
		return false;
	hex = text + strlen(prefix_of(out->kind));
	n = strlen(hex);
	if (n == 0 || n > KEY_HEX_MAX || hex_decode(hex, n, raw) < 0)
		return false;
	sha256(raw, n / 2, out->hash);
	explicit_bzero(raw, sizeof raw);
	out->length = (uint8_t)n;
	/* enough to tell keys apart; of a short one nothing */
	snprintf(out->mask, sizeof out->mask, "%.2s...%.4s", n >= 16 ? hex : "", n >= 16 ? hex + n - 4 : "");
	return true;
}

/* Note that it is in use; no request fails because this does. */
static void note_use(struct domain *d, const uint8_t hash[32], int64_t now_us)
{
	struct key_rec r;
	struct err e;
	struct txn *t;

	if (txn_write(d->store, &t, &e) < 0) {
		log_warn("use of a key: %s", e.text);
		return;
	}
	if (store_key_get(t, hash, &r, &e) == 1 && now_us - r.used_us >= USE_US) {
		r.used_us = now_us;
		if (store_key_put(t, &r, &e) == 0) {
			if (txn_commit(t, &e) < 0)
				log_warn("use of a key: %s", e.text);
			return;
		}
	}
	txn_abort(t);
}

int key_find(struct domain *d, const char *text, enum key_kind kind, struct team_rec *team, struct err *e)
{
	int64_t now = domain_now(d);
	struct key_rec want, r;
	struct txn *t;
	int got;

	if (!key_parse(text, &want) || want.kind != kind)
		return 0;
	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_key_get(t, want.hash, &r, e);
	if (got == 1 && r.kind != kind)
		got = 0;
	if (got == 1)
		got = store_team_get(t, r.team, team, e);
	txn_abort(t);
	if (got == 1 && now - r.used_us >= USE_US)
		note_use(d, r.hash, now);
	return got;
}

static int bad_key(const char *reason, struct err *e)
{
	return err_set(e, ERR_UNAUTHENTICATED, "Invalid API key, please check the key of your team (hutchctl key makes one).\n%s", reason);
}

int team_by_key(struct domain *d, const char *key, struct team_rec *out, struct err *e)
{
	struct key_rec r;
	int got;

	if (key == NULL || key[0] == '\0')
		return err_set(e, ERR_UNAUTHENTICATED, "authorization header is missing");
	if (strncmp(key, KEY_PREFIX, strlen(KEY_PREFIX)) != 0)
		return err_set(e, ERR_UNAUTHENTICATED, "authorization header is malformed");
	if (!key_parse(key, &r))
		return bad_key("the key is not hexadecimal", e);
	got = key_find(d, key, KEY_API, out, e);
	return got == 0 ? bad_key("the key is unknown", e) : got < 0 ? -1 : 0;
}

/* ---- making ---- */

int key_derive(struct domain *d, struct txn *t, const char *purpose, const char *name, const char *team_id, char key[45], struct err *e)
{
	struct key_rec r, was;
	char token[TOKEN_LEN];
	int got;

	secret_token(d->secret, purpose, team_id, token);
	snprintf(key, 45, KEY_PREFIX "%.40s", token);
	if (!key_parse(key, &r))
		return err_set(e, ERR_INTERNAL, "a new key is not well-formed");
	got = store_key_get(t, r.hash, &was, e);
	if (got != 0)
		return got < 0 ? -1 : 0;
	snprintf(r.team, sizeof r.team, "%s", team_id);
	snprintf(r.name, sizeof r.name, "%s", name);
	r.created_us = domain_now(d);
	return store_key_put(t, &r, e);
}

static int count_key(void *ctx, const struct key_rec *r, struct err *e)
{
	(void)r;
	(void)e;
	++*(int *)ctx;
	return 0;
}

static int key_put_new(struct domain *d, struct txn *t, const char *team_id, enum key_kind kind, const char *name, char key[KEY_LEN],
		       struct key_rec *out, struct err *e)
{
	uint8_t raw[KEY_BYTES];
	int n = 0;

	if (store_walk_keys(t, team_id, count_key, &n, e) < 0)
		return -1;
	if (n >= KEYS_MAX)
		return err_set(e, ERR_LIMIT, "the team has %d keys, which is the most it may have", KEYS_MAX);
	random_bytes(raw, sizeof raw);
	strcpy(key, prefix_of(kind));
	hex_encode(raw, sizeof raw, key + strlen(key));
	explicit_bzero(raw, sizeof raw);
	if (!key_parse(key, out))
		return err_set(e, ERR_INTERNAL, "a new key is not well-formed");
	snprintf(out->team, sizeof out->team, "%s", team_id);
	snprintf(out->name, sizeof out->name, "%s", name);
	out->created_us = domain_now(d);
	store_key_id(out->hash, out->id);
	return store_key_put(t, out, e);
}

int key_new(struct domain *d, const char *team_id, enum key_kind kind, const char *name, char key[KEY_LEN], struct key_rec *out,
	    struct err *e)
{
	struct txn *t;

	if (name_check(name, e) < 0 || txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, key_put_new(d, t, team_id, kind, name, key, out, e), e);
}

int key_of_login(struct domain *d, const char *team_id, char key[45], struct err *e)
{
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, key_derive(d, t, "login", "CLI login/configure", team_id, key, e), e);
}

/* ---- a team's keys ---- */

struct keys {
	enum key_kind kind;
	struct key_rec *r;
	size_t n;
};

static int collect(void *ctx, const struct key_rec *r, struct err *e)
{
	struct keys *k = ctx;
	struct key_rec *more;

	if (r->kind != k->kind)
		return 0;
	more = realloc(k->r, (k->n + 1) * sizeof *more);
	if (more == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	k->r = more;
	k->r[k->n++] = *r;
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct key_rec *x = a, *y = b;

	return x->created_us != y->created_us ? (x->created_us > y->created_us) - (x->created_us < y->created_us) : strcmp(x->id, y->id);
}

int key_each(struct domain *d, const char *team_id, enum key_kind kind, store_key_fn *fn, void *ctx, struct err *e)
{
	struct keys k = { .kind = kind };
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = store_walk_keys(t, team_id, collect, &k, e);
	txn_abort(t);
	if (k.n > 0)
		qsort(k.r, k.n, sizeof *k.r, by_age);
	for (size_t i = 0; i < k.n && status == 0; i++)
		status = fn(ctx, &k.r[i], e);
	free(k.r);
	return status < 0 ? -1 : 0;
}

struct search {
	enum key_kind kind;
	const char *id;
	struct key_rec found;
	bool there;
};

static int by_id(void *ctx, const struct key_rec *r, struct err *e)
{
	struct search *s = ctx;

	(void)e;
	if (r->kind != s->kind || strcmp(r->id, s->id) != 0)
		return 0;
	s->found = *r;
	s->there = true;
	return 1;
}

static int find_by_id(struct txn *t, const char *team_id, enum key_kind kind, const char *id, struct key_rec *out, struct err *e)
{
	struct search s = { .kind = kind, .id = id };

	if (store_walk_keys(t, team_id, by_id, &s, e) < 0)
		return -1;
	*out = s.found;
	return s.there ? 0 : err_set(e, ERR_NOT_FOUND, "id not found");
}

int key_rename(struct domain *d, const char *team_id, const char *id, const char *name, struct err *e)
{
	struct key_rec r;
	struct txn *t;

	if (name_check(name, e) < 0 || txn_write(d->store, &t, e) < 0)
		return -1;
	if (find_by_id(t, team_id, KEY_API, id, &r, e) < 0) {
		txn_abort(t);
		return -1;
	}
	snprintf(r.name, sizeof r.name, "%s", name);
	return txn_end(t, store_key_put(t, &r, e), e);
}

int key_delete(struct domain *d, const char *team_id, enum key_kind kind, const char *id, struct err *e)
{
	struct key_rec r;
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, find_by_id(t, team_id, kind, id, &r, e) < 0 ? -1 : store_key_delete(t, r.hash, e), e);
}

/* ---- the operator's ---- */

int team_key_new(struct domain *d, const char *team_name, enum key_kind kind, char key[KEY_LEN], struct err *e)
{
	struct team_rec team;
	struct key_rec r;
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_team_by_name(t, team_name, &team, e);
	if (got == 0)
		got = err_set(e, ERR_NOT_FOUND, "team '%.128s' not found", team_name);
	return txn_end(t, got < 0 ? -1 : key_put_new(d, t, team.id, kind, "hutchctl", key, &r, e), e);
}

int team_key_revoke(struct domain *d, const char *key, struct err *e)
{
	struct key_rec r;
	struct txn *t;
	int got;

	if (!key_parse(key, &r))
		return err_set(e, ERR_INVALID, "key must be " KEY_PREFIX " or " TOKEN_PREFIX " and hexadecimal digits");
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_key_delete(t, r.hash, e);
	if (got != 1) {
		txn_abort(t);
		return got < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "the key is unknown");
	}
	return txn_commit(t, e);
}
