/* Creating a sandbox: claim the machine and reserve the row, commit the start (api.md 5.2). */
#include "domain_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/log.h"

#define SECURE_SINCE "0.2.0"
#define RESUME_LEAST_S 300

/* x.y.z as one number; -1 when it is none. */
static int64_t version_number(const char *s)
{
	int64_t all = 0;

	for (int i = 0; i < 3; i++) {
		char *end;
		long n = strtol(s, &end, 10);

		if (end == s || n < 0 || n > 99999 || *end != (i < 2 ? '.' : '\0'))
			return -1;
		all = all * 100000 + n;
		s = end + 1;
	}
	return all;
}

bool version_before(const char *a, const char *b)
{
	return version_number(a) < version_number(b);
}

static int check_spec(struct domain *d, const struct team_rec *team, const struct sandbox_spec *s, const struct template_rec *t,
		      const struct pool_rec *p, struct err *e)
{
	struct pool_caps caps;

	if (s->timeout_s <= 0)
		return err_set(e, ERR_INVALID, "Timeout must be greater than 0");
	if (s->timeout_s > (int64_t)team->max_hours * 3600)
		return err_set(e, ERR_INVALID, "Timeout cannot be greater than %u hours", team->max_hours);
	if (s->auto_pause_disk && !s->auto_pause)
		return err_set(e, ERR_INVALID, "autoPauseMemory can be false only with autoPause");
	if (s->auto_pause_disk && s->auto_resume)
		return err_set(e, ERR_INVALID, "autoPauseMemory cannot be false with autoResume");
	if (s->closed_traffic && !s->secure)
		return err_set(e, ERR_INVALID, "network.allowPublicTraffic can be false only with secure");
	if (s->secure && version_before(t->envd_version, SECURE_SINCE))
		return err_set(e, ERR_INVALID, "secure needs an envd of " SECURE_SINCE " or newer in the template, not %s",
			       t->envd_version);
	if (pool_caps_for(d, p->kind, s->wants, &caps, e) < 0)
		return -1;
	return pool_admit(&caps, p->name, s->wants | WANT_BIT(WANT_CREATE), s->metadata, e);
}

/* The lease that traffic gives (api.md 6.6). */
static uint32_t resume_seconds(const struct team_rec *team, int64_t timeout_s)
{
	const int64_t max = (int64_t)team->max_hours * 3600, s = timeout_s > RESUME_LEAST_S ? timeout_s : RESUME_LEAST_S;

	return (uint32_t)(s < max ? s : max);
}

static int copy_text(const char *text, char **out, struct err *e)
{
	if (text != NULL && (*out = strdup(text)) == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	return 0;
}

/* When a row that is still SB_STARTING was left so by a program that died. */
static int64_t start_due(const struct domain *d, const struct origin *o, int64_t now_us)
{
	const bool slow = o->checkpoint[0] != '\0' || o->t.ready_port != 0;

	return now_us + d->conf->repair_s * US_PER_S + (slow ? LONG_US : 0);
}

static int fill(struct domain *d, const struct team_rec *team, const struct sandbox_spec *s, const struct origin *o,
		struct sandbox_rec *r, struct err *e)
{
	const struct template_rec *t = &o->t;
	const struct pool_rec *p = &o->p;
	int64_t now = domain_now(d);

	*r = (struct sandbox_rec){
		.state = SB_STARTING,
		.secure = s->secure,
		.auto_pause = s->auto_pause,
		.auto_pause_memory = !s->auto_pause_disk,
		.auto_resume = s->auto_resume,
		.resume_s = resume_seconds(team, s->timeout_s),
		.allow_internet = s->allow_internet,
		.allow_internet_set = s->allow_internet_set,
		.closed_traffic = s->closed_traffic,
		.cpu_count = t->cpu_count,
		.memory_mb = t->memory_mb,
		.disk_mb = t->disk_mb,
		.created_us = now,
		.started_us = now,
		.due_us = start_due(d, o, now),
	};
	r->id[0] = 'i';
	random_id(r->id + 1, SANDBOX_ID_LEN - 2);
	random_uuid(r->execution_id);
	memcpy(r->team, team->id, sizeof r->team);
	memcpy(r->template_id, t->id, sizeof r->template_id);
	memcpy(r->alias, t->alias, sizeof r->alias);
	memcpy(r->build_id, t->build_id, sizeof r->build_id);
	memcpy(r->envd_version, t->envd_version, sizeof r->envd_version);
	memcpy(r->pool, p->name, sizeof r->pool);
	r->pool_kind = p->kind;
	if (copy_text(s->mask_host, &r->mask_host, e) < 0 || copy_text(s->allow_out, &r->allow_out, e) < 0 ||
	    copy_text(s->allow_internet_set && !s->allow_internet ? ALL_ADDRESSES : s->deny_out, &r->deny_out, e) < 0)
		return -1;
	return map_canonical("metadata", s->metadata, &r->metadata, e);
}

/* Claim; a pool that does not know the template yet is told. */
static int claim(struct domain *d, struct pool *pool, const struct origin *o, const struct pool_init *init, char machine[MACHINE_ID_LEN],
		 bool *unsure, struct err *e)
{
	const struct template_rec *t = &o->t;
	struct pool_shape shape = {
		.template_id = t->id, .image = t->image, .command = t->command, .ready_port = t->ready_port,
		.cpu_count = t->cpu_count, .memory_mb = t->memory_mb, .disk_mb = t->disk_mb, .warm = (uint32_t)d->conf->warm,
		.checkpoint = o->checkpoint[0] != '\0' ? o->checkpoint : NULL,
	};

	if (pool_claim(pool, &shape, init->sandbox_id, init, machine, unsure, e) == 0)
		return 0;
	if (e->kind != ERR_NOT_FOUND || shape.checkpoint != NULL)
		return -1;
	if (template_push_shapes(d, e) < 0)
		return -1;
	return pool_claim(pool, &shape, init->sandbox_id, init, machine, unsure, e);
}

int place_failed(struct err *e)
{
	switch (e->kind) {
	case ERR_UNAVAILABLE:
		break;
	case ERR_CONFLICT:                            /* the machine ended meanwhile: another may do */
		e->kind = ERR_UNAVAILABLE;
		break;
	case ERR_TIMEOUT:
		e->code = "sandbox_placement_timeout";
		break;
	case ERR_INVALID:
		e->kind = ERR_UNAVAILABLE;
		e->code = "sandbox_no_compatible_node";
		break;
	default:
		e->kind = ERR_INTERNAL;
		e->code = "sandbox_create_failed";
	}
	return err_wrap(e, "Failed to place sandbox");
}

/* Take the reservation back. With a machine perhaps there, the row stays until the reaper has removed it. */
static void abandon(struct domain *d, const struct sandbox_rec *r, bool unsure)
{
	struct sandbox_rec now;
	struct err e = { .kind = ERR_NONE };
	struct txn *t;
	int status;

	if (txn_write(d->store, &t, &e) < 0)
		goto failed;
	status = store_sandbox_get(t, r->id, &now, &e);
	if (status == 1) {
		int64_t us = domain_now(d);

		status = 0;
		if (unsure)
			status = killing_put(t, &now, NULL, us, us, true, &e);
		else if (now.state == SB_STARTING)
			status = store_sandbox_delete(t, &now, &e);
		sandbox_rec_release(&now);
	}
	if (status < 0)
		txn_abort(t);
	else
		status = txn_commit(t, &e);
	if (status == 0) {
		if (unsure)
			reaper_nudge(d);
		return;
	}
failed:
	log_warn("sandbox %s: its reservation stays until it is repaired: %s", r->id, e.text);
}

static int count_spawn(struct txn *t, const char *template_id, int64_t now_us, struct err *e)
{
	struct template_rec r;
	int got = store_template_get(t, template_id, &r, e);

	if (got != 1)
		return got;
	r.spawn_count++;
	r.spawned_us = now_us;
	got = store_template_put(t, &r, e);
	template_rec_release(&r);
	return got;
}

/* The row runs from now on, unless it is no longer ours: then *lost. */
static int start_row(struct domain *d, struct txn *t, struct sandbox_rec *r, int64_t timeout_s, bool *lost, bool *first, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	struct sandbox_rec before;
	int64_t due;
	int got = store_sandbox_get(t, r->id, &before, e);

	*lost = got == 0 || (got == 1 && before.state != SB_STARTING);
	if (got == 1 && !*lost) {
		r->state = SB_RUNNING;
		r->started_us = domain_now(d);
		r->end_us = r->due_us = r->started_us + timeout_s * US_PER_S;
		if (store_sandbox_put(t, &before, r, e) < 0 ||
		    event_write(t, r, EVENT_CREATED, r->started_us, NULL, 0, e) < 0 ||
		    count_spawn(t, r->template_id, r->started_us, e) < 0 || store_due_first(t, &due, id, e) < 0)
			got = -1;
		else
			*first = strcmp(id, r->id) == 0;
	}
	if (got == 1)
		sandbox_rec_release(&before);
	return got < 0 ? -1 : 0;
}

static int commit(struct domain *d, struct sandbox_rec *r, int64_t timeout_s, bool *lost, struct err *e)
{
	bool first = false;
	struct txn *t;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (start_row(d, t, r, timeout_s, lost, &first, e) < 0 || *lost) {
		txn_abort(t);
		return *lost ? 0 : -1;
	}
	if (txn_commit(t, e) < 0)
		return -1;
	if (first)                           /* earlier than anything the reaper waits for */
		reaper_nudge(d);
	return 0;
}

/* What the guest of a light pool is told; *o holds the texts and is the caller's to put. */
static int light_init(const struct pool_rec *p, struct pool_init *init, json_object **o, struct err *e)
{
	*o = NULL;
	if (p->kind != POOL_LIGHT)
		return 0;
	init->profile = pool_kind_name(POOL_LIGHT);
	if (json_read_object(p->config, strlen(p->config), o, e) < 0 || json_need_str(*o, "folder", 4096, &init->folder, e) < 0 ||
	    json_need_str(*o, "node", 4096, &init->program, e) < 0)
		return err_wrap(e, "settings of the pool");
	init->default_workdir = init->folder;
	return 0;
}

/* A machine without a row. The audit would find it, too, when it is old enough. */
static void return_machine(struct domain *d, const struct sandbox_rec *r, const char *machine)
{
	struct pool *p = pool_of(d, r->pool_kind);
	struct err why;
	int status = machine[0] != '\0' ? pool_release(p, machine, NULL, &why) : pool_release_ref(p, r->id, &why);

	if (status < 0)
		log_warn("sandbox %s: machine %s is left to the audit: %s", r->id, machine, why.text);
}

/* Claim, and reserve while the node is at it: each waits for something else. */
static int place(struct domain *d, const struct team_rec *team, const struct origin *o, struct pool_init *init, struct sandbox_rec *r,
		 struct err *e)
{
	struct reserving v = { .d = d, .team = team, .r = r };
	char machine[MACHINE_ID_LEN] = "";
	bool unsure = false;
	int status;

	init->meanwhile = reserve_row;
	init->ctx = &v;
	status = claim(d, pool_of(d, r->pool_kind), o, init, machine, &unsure, e);
	if (status == 0)
		reserve_row(&v);                          /* there was nothing to wait for */
	if ((!v.done || v.status < 0) && (status == 0 || unsure))
		return_machine(d, r, machine);
	if (v.done && v.status < 0) {
		*e = v.e;
		return -1;
	}
	if (status < 0) {
		if (v.done)
			abandon(d, r, unsure);
		return place_failed(e);
	}
	memcpy(r->machine, machine, sizeof r->machine);
	return 0;
}

static int start(struct domain *d, const struct team_rec *team, const struct origin *o, const struct sandbox_spec *s, const char *env,
		 struct sandbox_rec *r, struct err *e)
{
	struct pool_init init = {
		.sandbox_id = r->id, .template_id = o->t.id, .env = env, .default_user = "user", .default_workdir = "/home/user",
	};
	json_object *settings = NULL;
	char token[TOKEN_LEN];
	bool lost = false;
	int status;

	init.network = (struct pool_network){ r->allow_out, r->deny_out };
	if (s->secure) {
		sandbox_token(d, r->id, token);
		init.token = token;
	}
	status = light_init(&o->p, &init, &settings, e) < 0 ? place_failed(e) : place(d, team, o, &init, r, e);
	json_object_put(settings);
	if (status < 0)
		return -1;
	if (commit(d, r, s->timeout_s, &lost, e) == 0 && !lost)
		return 0;
	/* killed while it started, or the records failed: the machine must go */
	return_machine(d, r, r->machine);
	if (!lost) {
		abandon(d, r, false);
		return -1;
	}
	return err_set(e, ERR_UNAVAILABLE, "Failed to place sandbox: it was ended while it started");
}

int sandbox_create(struct domain *d, const struct team_rec *team, const struct sandbox_spec *s, struct sandbox_rec *out, struct err *e)
{
	struct origin o;
	char *env = NULL;
	int status;

	memset(out, 0, sizeof *out);
	if (origin_resolve(d, team, s->template_ref, &o, e) < 0)
		return -1;
	status = check_spec(d, team, s, &o.t, &o.p, e);
	if (status == 0)
		status = map_canonical("envVars", s->env, &env, e);
	if (status == 0)
		status = fill(d, team, s, &o, out, e);
	if (status == 0)
		status = reserve_check(d, team, out->pool_kind, e);
	if (status == 0) {
		status = start(d, team, &o, s, env, out, e);
		if (status == 0 || e->kind != ERR_LIMIT)
			count_add(d, status == 0 ? COUNT_CREATED : COUNT_CREATE_FAILED, 1);
	}
	free(env);
	origin_release(&o);
	if (status < 0)
		sandbox_rec_release(out);
	return status;
}

void sandbox_token(const struct domain *d, const char *id, char out[TOKEN_LEN])
{
	secret_token(d->secret, "envd", id, out);
}

void sandbox_traffic_token(const struct domain *d, const char *id, char out[TOKEN_LEN])
{
	secret_token(d->secret, "traffic", id, out);
}
