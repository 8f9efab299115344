/*
 * Taking a snapshot of a sandbox that runs (api.md 7): reserve (the row is SB_SNAPSHOTTING, the capture CAPTURE_MAKING), let the pool
 * act, commit. What is left half-made is undone by the reaper: the row when it comes due, the capture by captures_audit.
 */
#include "domain_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/log.h"

#define SNAPSHOT_SINCE "0.5.0"

struct taking {
	struct domain *d;
	const struct team_rec *team;
	const char *id;
	bool memory;
	struct template_ref ref;     /* of the name; alias "" = it gets none */
	struct snapshot_rec s;
	struct capture_rec c;
	char machine[MACHINE_ID_LEN];
	uint64_t room;               /* bytes that it may take */
	struct captures old;         /* what it replaces */
};

/* ---- what there is of a team ---- */

struct tally {
	uint64_t count, bytes;
};

static int on_capture(void *ctx, const struct capture_rec *r, struct err *e)
{
	struct tally *n = ctx;

	(void)e;
	n->count++;
	n->bytes += r->bytes;
	return 0;
}

static int on_snapshot(void *ctx, struct txn *t, const struct snapshot_rec *r, struct err *e)
{
	return store_walk_captures(t, r->id, on_capture, ctx, e);
}

static int check_room(struct taking *m, struct txn *t, struct err *e)
{
	const struct config *conf = m->d->conf;
	const uint64_t most = (uint64_t)conf->team_snapshot_mb << 20;
	struct tally n = { 0, 0 };

	if (store_walk_snapshots(t, m->team->id, 0, "", on_snapshot, &n, e) < 0)
		return -1;
	if (n.count >= (uint64_t)conf->team_snapshots)
		return err_set(e, ERR_LIMIT, "you have reached the maximum number of snapshots (%lld). Delete one, or ask the operator of this "
			       "server for more", (long long)conf->team_snapshots);
	if (n.bytes >= most)
		return err_set(e, ERR_LIMIT, "your snapshots take all the space that they may (%lld MiB). Delete one, or ask the operator of "
			       "this server for more", (long long)conf->team_snapshot_mb);
	m->room = most - n.bytes;
	return 0;
}

/* ---- reserve ---- */

static int check_state(const struct sandbox_rec *r, int64_t now_us, struct err *e)
{
	if (r->state == SB_PAUSING || r->state == SB_RESUMING || r->state == SB_SNAPSHOTTING)
		return err_set(e, ERR_CONFLICT, "Sandbox %s is in transition", r->id);
	return sandbox_is_live(r, now_us) ? 0 : sandbox_missing(r->id, e);
}

/* The snapshot of the name, or a new one. */
static int take_snapshot(struct taking *m, struct txn *t, struct err *e)
{
	struct template_rec other;
	int got = 0;

	if (m->ref.alias[0] != '\0') {
		got = store_template_by_name(t, m->team->id, m->ref.alias, &other, e);
		if (got == 1) {
			template_rec_release(&other);
			return err_set(e, ERR_CONFLICT, "name '%s' is that of a template, which a snapshot does not replace", m->ref.alias);
		}
		if (got == 0)
			got = store_snapshot_by_name(t, m->team->id, m->ref.alias, &m->s, e);
	}
	if (got != 0)
		return got < 0 ? -1 : 0;
	m->s = (struct snapshot_rec){ .created_us = domain_now(m->d) };
	random_id(m->s.id, TEMPLATE_ID_LEN - 1);
	memcpy(m->s.team, m->team->id, sizeof m->s.team);
	memcpy(m->s.alias, m->ref.alias, sizeof m->s.alias);
	return store_snapshot_add(t, &m->s, e);
}

static void fill_capture(struct taking *m, const struct sandbox_rec *r)
{
	m->c = (struct capture_rec){
		.state = CAPTURE_MAKING, .pool_kind = r->pool_kind, .cpu_count = r->cpu_count, .memory_mb = r->memory_mb, .disk_mb = r->disk_mb,
		.created_us = domain_now(m->d),
	};
	memcpy(m->c.snapshot, m->s.id, sizeof m->c.snapshot);
	random_uuid(m->c.id);
	memcpy(m->c.tag, m->ref.tag, sizeof m->c.tag);
	memcpy(m->c.sandbox, r->id, sizeof m->c.sandbox);
	memcpy(m->c.template_id, r->template_id, sizeof m->c.template_id);
	memcpy(m->c.alias, r->alias, sizeof m->c.alias);
	memcpy(m->c.envd_version, r->envd_version, sizeof m->c.envd_version);
	memcpy(m->c.pool, r->pool, sizeof m->c.pool);
	memcpy(m->machine, r->machine, sizeof m->machine);
}

static int mark(struct taking *m, struct txn *t, struct sandbox_rec *r, struct err *e)
{
	struct sandbox_rec before = *r;

	if (row_is_ours(r, e) < 0 || check_state(r, domain_now(m->d), e) < 0 ||
	    pool_admit(pool_kind_caps(r->pool_kind), r->pool, WANT_BIT(WANT_SNAPSHOT) | (m->memory ? WANT_BIT(WANT_SNAPSHOT_MEMORY) : 0),
		       NULL, e) < 0)
		return -1;
	if (version_before(r->envd_version, SNAPSHOT_SINCE))
		return err_set(e, ERR_INVALID, "a snapshot needs an envd of " SNAPSHOT_SINCE " or newer in the sandbox, not %s", r->envd_version);
	if (check_room(m, t, e) < 0 || take_snapshot(m, t, e) < 0)
		return -1;
	fill_capture(m, r);
	r->state = SB_SNAPSHOTTING;
	r->handed = false;
	r->due_us = domain_now(m->d) + m->d->conf->repair_s * US_PER_S + LONG_US;
	if (store_capture_put(t, &m->c, e) < 0 || store_making_put(t, &m->c, e) < 0)
		return -1;
	return store_sandbox_put(t, &before, r, e);
}

static int reserve(struct taking *m, struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int status;

	if (txn_write(m->d->store, &t, e) < 0)
		return -1;
	status = get_own(t, m->team->id, m->id, &r, e);
	if (status == 0) {
		status = mark(m, t, &r, e);
		sandbox_rec_release(&r);
	}
	if (status < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

/* ---- the end of it ---- */

/* The row of the capture's sandbox runs on, if it is still that capture which is being made of it. */
static int run_on(struct domain *d, struct txn *t, const struct capture_rec *c, bool tell, bool *nudge, struct err *e)
{
	char snapshot[TEMPLATE_ID_LEN], id[UUID_LEN];
	struct sandbox_rec before, now;
	int got = store_making_get(t, c->sandbox, snapshot, id, e);

	if (got != 1 || strcmp(id, c->id) != 0)
		return got < 0 ? -1 : 0;
	if (store_making_delete(t, c->sandbox, e) < 0)
		return -1;
	got = store_sandbox_get(t, c->sandbox, &before, e);
	if (got != 1)
		return got;
	got = tell ? event_write(t, &before, EVENT_CHECKPOINTED, domain_now(d), NULL, 0, e) : 0;
	if (got == 0 && before.state == SB_SNAPSHOTTING) {
		now = before;
		now.state = SB_RUNNING;
		now.due_us = running_due(&now);
		*nudge = true;
		got = store_sandbox_put(t, &before, &now, e);
	}
	sandbox_rec_release(&before);
	return got;
}

static int on_living(void *ctx, const struct capture_rec *r, struct err *e)
{
	(void)e;
	*(bool *)ctx = r->state != CAPTURE_REMOVING;
	return *(bool *)ctx;
}

int capture_undo(struct domain *d, struct txn *t, struct capture_rec *c, bool unsure, struct err *e)
{
	struct snapshot_rec s;
	bool living = false, ignored;
	int got;

	if (run_on(d, t, c, false, &ignored, e) < 0)
		return -1;
	c->state = CAPTURE_REMOVING;
	if ((unsure ? store_capture_put(t, c, e) : store_capture_delete(t, c->snapshot, c->id, e)) < 0 ||
	    store_walk_captures(t, c->snapshot, on_living, &living, e) < 0)
		return -1;
	got = living ? 0 : store_snapshot_get(t, c->snapshot, &s, e);
	return got == 1 ? store_snapshot_delete(t, &s, e) : got;
}

int snapshotting_undo(struct domain *d, struct txn *t, const struct sandbox_rec *r, struct err *e)
{
	char snapshot[TEMPLATE_ID_LEN], id[UUID_LEN];
	struct sandbox_rec now = *r;         /* borrows the metadata */
	struct capture_rec c;
	int got = store_making_get(t, r->id, snapshot, id, e);

	if (got == 1)
		got = store_capture_get(t, snapshot, id, &c, e);
	if (got == 1)
		return capture_undo(d, t, &c, true, e);
	if (got < 0 || store_making_delete(t, r->id, e) < 0)
		return -1;
	now.state = SB_RUNNING;              /* its snapshot was deleted while it was taken */
	now.due_us = running_due(&now);
	return store_sandbox_put(t, r, &now, e);
}

/* Others under the same tag give way. */
static int replace(struct taking *m, struct txn *t, struct err *e)
{
	if (captures_of(t, m->c.snapshot, &m->old, e) < 0)
		return -1;
	for (size_t i = 0; i < m->old.n; i++) {
		struct capture_rec *c = &m->old.c[i];

		if (c->state == CAPTURE_READY && strcmp(c->tag, m->c.tag) == 0 && strcmp(c->id, m->c.id) != 0) {
			c->state = CAPTURE_REMOVING;
			if (store_capture_put(t, c, e) < 0)
				return -1;
		} else {
			m->old.c[i--] = m->old.c[--m->old.n];
		}
	}
	return 0;
}

/* 1, or 0: the snapshot was deleted, or given up by the reaper, while it was made. */
static int finish(struct taking *m, struct txn *t, const struct pool_checkpoint *p, bool *nudge, struct err *e)
{
	struct capture_rec now;
	int got = store_capture_get(t, m->c.snapshot, m->c.id, &now, e);

	if (got != 1 || now.state != CAPTURE_MAKING) {
		if (got >= 0 && run_on(m->d, t, &m->c, false, nudge, e) < 0)
			return -1;
		return got < 0 ? -1 : 0;
	}
	m->c.state = CAPTURE_READY;
	m->c.bytes = p->bytes;
	memcpy(m->c.checkpoint, p->id, sizeof m->c.checkpoint);
	if (store_capture_put(t, &m->c, e) < 0 || run_on(m->d, t, &m->c, true, nudge, e) < 0 || replace(m, t, e) < 0)
		return -1;
	return 1;
}

static int commit(struct taking *m, const struct pool_checkpoint *p, struct err *e)
{
	bool nudge = false;
	struct txn *t;
	int got;

	if (txn_write(m->d->store, &t, e) < 0)
		return -1;
	got = finish(m, t, p, &nudge, e);
	if (got < 0) {
		txn_abort(t);
		return -1;
	}
	if (txn_commit(t, e) < 0)
		return -1;
	if (nudge)                           /* the end of its lease may have come meanwhile */
		reaper_nudge(m->d);
	return got;
}

static void undo(struct taking *m, bool unsure)
{
	struct err e;
	struct txn *t;
	int got;

	if (txn_write(m->d->store, &t, &e) < 0)
		goto failed;
	got = store_capture_get(t, m->c.snapshot, m->c.id, &m->c, &e);
	if (got == 1 && m->c.state == CAPTURE_MAKING)
		got = capture_undo(m->d, t, &m->c, unsure, &e);
	if (got < 0) {
		txn_abort(t);
		goto failed;
	}
	if (txn_commit(t, &e) == 0) {
		reaper_nudge(m->d);
		return;
	}
failed:
	log_warn("sandbox %s: the snapshot of it stays until it is repaired: %s", m->id, e.text);
}

static int act(struct taking *m, struct err *e)
{
	struct pool *pool = pool_of(m->d, m->c.pool_kind);
	struct pool_checkpoint p;
	bool unsure = false;
	struct err why;
	int got;

	if (pool_checkpoint(pool, m->machine, m->c.id, m->room, &p, &unsure, e) < 0) {
		undo(m, unsure);
		if (e->kind == ERR_NOT_FOUND)        /* the audit ends the row */
			return sandbox_missing(m->id, e);
		if (e->kind == ERR_CONFLICT)
			e->kind = ERR_INVALID;
		return err_wrap(e, e->kind == ERR_LIMIT ? "Your snapshots may take no more space" : "Failed to snapshot sandbox");
	}
	got = commit(m, &p, e);
	if (got == 1) {
		captures_remove(m->d, &m->old);
		return 0;
	}
	if (pool_checkpoint_drop(pool, p.id, &why) < 0)
		log_warn("checkpoint %s is left to the audit: %s", p.id, why.text);
	if (got < 0)
		undo(m, false);
	return got < 0 ? -1 : err_set(e, ERR_CONFLICT, "Sandbox %s: the snapshot was deleted while it was taken", m->id);
}

/* ---- the call ---- */

static int check_name(struct taking *m, const char *name, struct err *e)
{
	char uuid[UUID_LEN];

	memset(&m->ref, 0, sizeof m->ref);
	if (name == NULL)
		return 0;
	if (template_ref_parse(name, &m->ref, e) < 0)
		return err_wrap(e, "name");
	if (m->ref.ns[0] != '\0' && strcmp(m->ref.ns, m->team->slug) != 0)
		return err_set(e, ERR_INVALID, "name: namespace '%s' must match your team '%s'", m->ref.ns, m->team->slug);
	if (uuid_canonical(m->ref.tag, uuid) == 0)
		return err_set(e, ERR_INVALID, "name: a tag must not be a UUID");
	return 0;
}

/* Ids of nothing do not cost the writer's lock. */
static int peek(struct taking *m, struct err *e)
{
	struct sandbox_rec r;
	struct txn *t;
	int status;

	if (txn_read(m->d->store, &t, e) < 0)
		return -1;
	status = get_own(t, m->team->id, m->id, &r, e);
	txn_abort(t);
	if (status < 0)
		return -1;
	status = check_state(&r, domain_now(m->d), e);
	sandbox_rec_release(&r);
	return status;
}

void snapshot_describe(const struct team_rec *team, const struct snapshot_rec *s, const char *tag, struct snapshot_info *out)
{
	if (tag[0] == '\0')
		tag = "default";
	out->name[0] = '\0';
	if (s->alias[0] != '\0')
		snprintf(out->name, sizeof out->name, "%s/%s", team->slug, s->alias);
	snprintf(out->id, sizeof out->id, "%s:%s", s->alias[0] != '\0' ? out->name : s->id, tag);
}

int sandbox_snapshot(struct domain *d, const struct team_rec *team, const char *id, const struct snapshot_spec *s, struct snapshot_info *out,
		     struct err *e)
{
	struct taking m = { .d = d, .team = team, .id = id, .memory = s->memory };
	int status;

	if (check_name(&m, s->name, e) < 0 || peek(&m, e) < 0 || reserve(&m, e) < 0)
		return -1;
	status = act(&m, e);
	free(m.old.c);
	if (status == 0)
		snapshot_describe(team, &m.s, m.c.tag, out);
	return status;
}
