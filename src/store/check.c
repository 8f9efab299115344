/* The audit of rows against their index entries and counts. */
#include "store_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct team_count {
	char team[UUID_LEN];
	uint64_t live, running;
};

struct check {
	struct store_audit a;        /* first: it is the ctx of store_check_each */
	size_t listed, due, keys;
	struct team_count *teams;
	size_t nteams;
};

void store_say(struct store_audit *a, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	a->problems++;
	if (a->problem != NULL)
		a->problem(a->ctx, text);
}

static struct team_count *team_of(struct check *c, const char *team)
{
	struct team_count *more;

	for (size_t i = 0; i < c->nteams; i++)
		if (strcmp(c->teams[i].team, team) == 0)
			return &c->teams[i];
	more = realloc(c->teams, (c->nteams + 1) * sizeof *more);
	if (more == NULL)
		return NULL;
	c->teams = more;
	more = &c->teams[c->nteams++];
	*more = (struct team_count){ .live = 0 };
	snprintf(more->team, sizeof more->team, "%s", team);
	return more;
}

/* A row's entries in by_start and due. */
static int check_entries(struct check *c, const struct sandbox_rec *r, struct err *e)
{
	uint8_t start[KEY_START_LEN], due[KEY_DUE_LEN];
	MDB_val v;
	int got;

	key_start(start, r->team, r->started_us, r->id);
	got = table_get(c->a.t, T_BY_START, start, sizeof start, &v, e);
	if (got < 0)
		return -1;
	if (got != state_listed(r->state))
		store_say(&c->a, "sandbox %s: in state %d and %s entry in by_start", r->id, r->state, got ? "with an" : "without an");
	else if (got == 1 && (v.mv_size != 1 || *(const uint8_t *)v.mv_data != r->state))
		store_say(&c->a, "sandbox %s: by_start has another state", r->id);
	key_due(due, r->due_us, r->id);
	if (r->due_us > 0 && (got = table_get(c->a.t, T_DUE, due, sizeof due, &v, e)) < 0)
		return -1;
	if (r->due_us > 0 && got == 0)
		store_say(&c->a, "sandbox %s: no entry in due", r->id);
	return 0;
}

static int check_row(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct check *c = ctx;
	struct team_rec team;
	struct team_count *n;
	int got;

	if (strlen(r->id) != SANDBOX_ID_CHARS || strlen(r->team) != UUID_CHARS) {
		store_say(&c->a, "sandbox %s: id or team is not well-formed", r->id);
		return 0;
	}
	n = team_of(c, r->team);
	if (n == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	n->live += sandbox_live(r);
	n->running += sandbox_state_runs(r->state);
	c->listed += state_listed(r->state);
	c->due += r->due_us > 0;
	if (r->state == SB_RUNNING && (r->machine[0] == '\0' || r->due_us != running_due(r)))
		store_say(&c->a, "sandbox %s: running without a machine or a deadline", r->id);
	if (r->due_us <= 0 && r->state != SB_PAUSED)
		store_say(&c->a, "sandbox %s: in state %d and never due", r->id, r->state);
	got = store_team_get(c->a.t, r->team, &team, e);
	if (got == 0)
		store_say(&c->a, "sandbox %s: its team does not exist", r->id);
	return got < 0 ? -1 : check_entries(c, r, e);
}

/* Every row has its entries by now, so more entries than rows are entries without a row. */
int store_check_size(struct store_audit *a, enum table tb, size_t want, struct err *e)
{
	MDB_stat s;
	int rc = mdb_stat(a->t->mdb, a->t->st->dbi[tb], &s);

	if (rc != 0)
		return store_fail(a->t->st, rc, table_names[tb], e);
	if (s.ms_entries != want)
		store_say(a, "%s has %zu entries for %zu rows", table_names[tb], s.ms_entries, want);
	return 0;
}

int store_check_each(struct store_audit *a, enum table tb, entry_fn *fn, struct err *e)
{
	return table_walk(a->t, &(struct stretch){ .tb = tb }, fn, a, e);
}

static int counted_team(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct check *c = ctx;
	char team[UUID_LEN] = "";

	(void)t;
	memcpy(team, k->mv_data, k->mv_size < UUID_CHARS ? k->mv_size : UUID_CHARS);
	if (v->mv_size != 16 || k->mv_size != UUID_CHARS)
		store_say(&c->a, "team %s: damaged counts", team);
	else if (team_of(c, team) == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	return 0;
}

/* Teams that are counted without having a row are to be at zero. */
static int check_counts(struct check *c, struct err *e)
{
	if (store_check_each(&c->a, T_COUNTS, counted_team, e) < 0)
		return -1;
	for (size_t i = 0; i < c->nteams; i++) {
		const struct team_count *n = &c->teams[i];
		uint64_t live, running;

		if (store_live_count(c->a.t, n->team, &live, e) < 0 || store_running_count(c->a.t, n->team, &running, e) < 0)
			return -1;
		if (live != n->live || running != n->running)
			store_say(&c->a, "team %s: counts say %llu live, %llu running; rows say %llu, %llu", n->team, (unsigned long long)live,
			    (unsigned long long)running, (unsigned long long)n->live, (unsigned long long)n->running);
	}
	return 0;
}

/* A name, slug or key points to a record that is there. */
struct pointers {
	struct store_audit *a;
	enum table from, to;
};

static int check_pointer(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	const struct pointers *p = ctx;
	MDB_val found;
	int there = table_get(t, p->to, v->mv_data, v->mv_size, &found, e);

	if (there == 0)
		store_say(p->a, "%s: %.*s points to nothing", table_names[p->from], (int)(k->mv_size < 200 ? k->mv_size : 200),
			  (const char *)k->mv_data);
	return there < 0 ? -1 : 0;
}

static int check_pointers(struct check *c, enum table from, enum table to, struct err *e)
{
	struct pointers p = { &c->a, from, to };

	return table_walk(c->a.t, &(struct stretch){ .tb = from }, check_pointer, &p, e);
}

static int check_key(void *ctx, struct txn *t, const MDB_val *k, const MDB_val *v, struct err *e)
{
	struct check *c = ctx;
	struct key_rec key;
	struct team_rec r;
	struct err why;

	(void)v;
	(void)e;
	c->keys++;
	if (k->mv_size != 32 || store_key_get(t, k->mv_data, &key, &why) != 1)
		store_say(&c->a, "keys: damaged record");
	else if (store_team_get(t, key.team, &r, &why) != 1)
		store_say(&c->a, "keys: a key of team %s, which does not exist", key.team);
	return 0;
}

static int check_keys(struct check *c, struct err *e)
{
	return store_check_each(&c->a, T_KEYS, check_key, e) < 0 ? -1 : store_check_size(&c->a, T_TEAM_KEYS, c->keys, e);
}

int store_check(struct txn *t, store_problem_fn *problem, void *ctx, struct err *e)
{
	struct check c = { .a = { .t = t, .problem = problem, .ctx = ctx } };
	int status = 0, hooks, snapshots;

	if (store_walk_sandboxes(t, "", check_row, &c, e) < 0 || store_check_size(&c.a, T_BY_START, c.listed, e) < 0 ||
	    store_check_size(&c.a, T_DUE, c.due, e) < 0 || check_counts(&c, e) < 0 ||
	    check_pointers(&c, T_TEAM_NAMES, T_TEAMS, e) < 0 || check_pointers(&c, T_TEAM_SLUGS, T_TEAMS, e) < 0 ||
	    check_pointers(&c, T_TEMPLATE_NAMES, T_TEMPLATES, e) < 0 || check_keys(&c, e) < 0 || store_check_lines(&c.a, e) < 0)
		status = -1;
	free(c.teams);
	if (status < 0 || (hooks = store_check_hooks(t, problem, ctx, e)) < 0 || (snapshots = store_check_snapshots(t, problem, ctx, e)) < 0)
		return -1;
	return c.a.problems + hooks + snapshots;
}
