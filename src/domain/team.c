/* Teams. */
#include "domain_int.h"

#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"

int name_check(const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (n == 0 || n >= NAME_MAX_LEN)
		return err_set(e, ERR_INVALID, "name must be 1 to %d bytes", NAME_MAX_LEN - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return err_set(e, ERR_INVALID, "name holds a control character");
	return 0;
}

/* A slug that no team has: "name", "name-2", "name-3" ... */
static int free_slug(struct txn *t, const char *name, char out[NAME_MAX_LEN], struct err *e)
{
	char base[NAME_MAX_LEN];
	struct team_rec other;
	int got;

	team_slug(name, base);
	snprintf(out, NAME_MAX_LEN, "%s", base);
	for (unsigned i = 2; (got = store_team_by_slug(t, out, &other, e)) == 1; i++)
		if (snprintf(out, NAME_MAX_LEN, "%s-%u", base, i) >= NAME_MAX_LEN)
			return err_set(e, ERR_CONFLICT, "name: too many teams of this name");
	return got;
}

static int team_new(struct domain *d, struct txn *t, const char *name, struct team_rec *out, struct err *e)
{
	*out = (struct team_rec){
		.max_sandboxes = (uint32_t)d->conf->team_sandboxes,
		.max_hours = (uint32_t)d->conf->max_hours,
		.created_us = domain_now(d),
	};
	random_uuid(out->id);
	snprintf(out->name, sizeof out->name, "%s", name);
	return free_slug(t, name, out->slug, e) < 0 ? -1 : store_team_put(t, out, e);
}

int team_named(struct domain *d, struct txn *t, const char *name, struct team_rec *out, struct err *e)
{
	int got = store_team_by_name(t, name, out, e);

	if (got == 0)
		got = name_check(name, e) < 0 ? -1 : team_new(d, t, name, out, e);
	return got < 0 ? -1 : 0;
}

int team_make(struct domain *d, const char *name, struct team_rec *out, char key[45], struct err *e)
{
	struct txn *t;

	if (name == NULL)
		name = DEFAULT_TEAM;
	if (name_check(name, e) < 0 || txn_write(d->store, &t, e) < 0)
		return -1;
	if (team_named(d, t, name, out, e) < 0 || key_derive(d, t, "key", "door", out->id, key, e) < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

int team_get(struct domain *d, const char *id, struct team_rec *out, struct err *e)
{
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_team_get(t, id, out, e);
	txn_abort(t);
	return got == 0 ? err_set(e, ERR_NOT_FOUND, "Team %.36s does not exist", id) : got < 0 ? -1 : 0;
}

/* What is to become of the team of that name, in one transaction. */
typedef void change_fn(struct team_rec *team, const void *ctx);

static int change(struct domain *d, const char *name, change_fn *fn, const void *ctx, struct err *e)
{
	struct team_rec team;
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = store_team_by_name(t, name, &team, e);
	if (got == 0)
		got = err_set(e, ERR_NOT_FOUND, "team '%.128s' not found", name);
	if (got == 1) {
		fn(&team, ctx);
		got = store_team_put(t, &team, e);
	}
	return txn_end(t, got, e);
}

struct limits {
	uint32_t sandboxes, hours;
};

static void set_limits(struct team_rec *team, const void *ctx)
{
	const struct limits *l = ctx;

	team->max_sandboxes = l->sandboxes != 0 ? l->sandboxes : team->max_sandboxes;
	team->max_hours = l->hours != 0 ? l->hours : team->max_hours;
}

int team_limit(struct domain *d, const char *name, uint32_t sandboxes, uint32_t hours, struct err *e)
{
	return change(d, name, set_limits, &(struct limits){ sandboxes, hours }, e);
}

/* ---- blocked and banned ones (api.md 2) ---- */

struct standing {
	enum team_state state;
	const char *reason;
};

static void set_standing(struct team_rec *team, const void *ctx)
{
	const struct standing *s = ctx;

	team->state = (uint8_t)s->state;
	snprintf(team->reason, sizeof team->reason, "%s", s->reason);
}

int team_state_set(struct domain *d, const char *name, enum team_state state, const char *reason, struct err *e)
{
	if (reason == NULL)
		reason = "";
	if (strlen(reason) >= TEAM_REASON_LEN || !utf8_valid(reason, strlen(reason)))
		return err_set(e, ERR_INVALID, "reason must be UTF-8 of up to %d bytes", TEAM_REASON_LEN - 1);
	return change(d, name, set_standing, &(struct standing){ state, reason }, e);
}

int team_may(const struct team_rec *team, bool changes, struct err *e)
{
	if (team->state == TEAM_BANNED)
		return err_set(e, ERR_DENIED, "team is banned");
	if (team->state == TEAM_BLOCKED && changes)
		return err_set(e, ERR_DENIED, "team is blocked%s%s", team->reason[0] != '\0' ? ": " : "", team->reason);
	return 0;
}
