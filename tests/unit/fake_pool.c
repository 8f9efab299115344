#include "config.h"

#include "fake_pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hutch/json.h"
#include "hutch/when.h"

struct fake_state *fake_state_new(void)
{
	struct fake_state *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;

	if (s == MAP_FAILED)
		abort();
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->lock, &a);
	return s;
}

void fake_state_free(struct fake_state *s)
{
	munmap(s, sizeof *s);
}

/* The last one takes the place of the one that goes. Whoever is killed in the middle of it has said what is to be done. */
static void fill_gap(struct fake_state *s)
{
	const size_t last = s->gap_last;

	s->machine[s->gap - 1] = s->machine[last];
	s->n = last;
	s->gap = 0;
}

static void lock(struct fake_state *s)
{
	if (pthread_mutex_lock(&s->lock) == 0)
		return;
	pthread_mutex_consistent(&s->lock);          /* its holder was killed */
	if (s->gap != 0)
		fill_gap(s);
}

static void unlock(struct fake_state *s)
{
	pthread_mutex_unlock(&s->lock);
}

static struct fake_state *state_of(struct pool *p)
{
	return ((struct fake_pool *)p)->s;
}

static void maybe_die(int when, enum fake_call call)
{
	if (when == 1 + (int)call)
		kill(getpid(), SIGKILL);
}

/* Counts the call; -1 when the pool is away. */
static int enter(struct fake_state *s, enum fake_call call, struct err *e)
{
	maybe_die(s->kill_before, call);
	lock(s);
	s->calls[call]++;
	unlock(s);
	return s->down ? err_set(e, ERR_UNAVAILABLE, "the machine pool does not answer") : 0;
}

static size_t find(struct fake_state *s, const char *machine)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->machine[i].id, machine) != 0)
		i++;
	return i;
}

static size_t find_ref(struct fake_state *s, const char *ref)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->machine[i].claim_ref, ref) != 0)
		i++;
	return i;
}

static bool knows(struct fake_state *s, const char *template_id)
{
	for (size_t i = 0; i < s->templates; i++)
		if (strcmp(s->template_id[i], template_id) == 0)
			return true;
	return false;
}

/* One more is there only once it is whole: a process that works on the state may be killed at any instant. */
static void add(struct fake_state *s, const char *machine, const char *ref, int64_t claimed_us)
{
	struct pool_machine *m = &s->machine[s->n];

	snprintf(m->id, MACHINE_ID_LEN, "%s", machine);
	snprintf(m->claim_ref, SANDBOX_ID_LEN, "%s", ref);
	m->claimed_us = claimed_us;
	m->hibernated = false;
	s->n++;
}

static void take(struct fake_state *s, const char *ref, char machine[MACHINE_ID_LEN])
{
	char id[MACHINE_ID_LEN];
	size_t i;

	lock(s);
	i = find_ref(s, ref);
	if (i == s->n && s->n < FAKE_MACHINES) {
		snprintf(id, sizeof id, "sb_%020u", ++s->serial);
		add(s, id, ref, wall_us());
	}
	snprintf(machine, MACHINE_ID_LEN, "%s", s->machine[i].id);
	unlock(s);
}

static void note_rules(struct fake_state *s, const struct pool_network *n)
{
	snprintf(s->last_allow, sizeof s->last_allow, "%s", n->allow != NULL ? n->allow : "");
	snprintf(s->last_deny, sizeof s->last_deny, "%s", n->deny != NULL ? n->deny : "");
}

static int fake_network(struct pool *p, const char *machine, const struct pool_network *rules, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_NETWORK, e) < 0)
		return -1;
	if (s->refuse_network != ERR_NONE)
		return err_set(e, s->refuse_network, "refused");
	if (find(s, machine) == s->n)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	if (s->in_network != NULL)
		s->in_network(s->ctx);
	note_rules(s, rules);
	maybe_die(s->kill_after, FAKE_NETWORK);
	return s->lose_network ? err_set(e, ERR_TIMEOUT, "no answer") : 0;
}

static int fake_abilities(struct pool *p, uint32_t *can, struct err *e)
{
	struct fake_state *s = state_of(p);

	*can |= s->can;
	return s->down ? err_set(e, ERR_UNAVAILABLE, "the machine pool does not answer") : 0;
}

/* What the caller does while it waits: before or after the claim took effect. */
static void meanwhile(struct fake_state *s, const struct pool_init *init, bool late)
{
	if (init->meanwhile != NULL && s->late == late && !s->hasty)
		init->meanwhile(init->ctx);
}

static int fake_claim(struct pool *p, const struct pool_shape *shape, const char *ref, const struct pool_init *init,
		      char machine[MACHINE_ID_LEN], bool *unsure, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_CLAIM, e) < 0)
		return -1;
	meanwhile(s, init, false);
	if (!s->late)
		maybe_die(s->kill_midway, FAKE_CLAIM);
	if (s->refuse != ERR_NONE)
		return err_set(e, s->refuse, "refused");
	if (s->full) {
		err_set(e, ERR_UNAVAILABLE, "no capacity");
		e->code = "sandbox_capacity_unavailable";
		return -1;
	}
	snprintf(s->last_checkpoint, sizeof s->last_checkpoint, "%s", shape->checkpoint != NULL ? shape->checkpoint : "");
	if (shape->checkpoint != NULL ? !fake_has_checkpoint(s, shape->checkpoint) : !knows(s, shape->template_id))
		return err_set(e, ERR_NOT_FOUND, "unknown template");
	take(s, ref, machine);
	note_rules(s, &init->network);
	snprintf(s->last_token, sizeof s->last_token, "%s", init->token != NULL ? init->token : "-");
	snprintf(s->last_env, sizeof s->last_env, "%s", init->env != NULL ? init->env : "-");
	if (s->in_claim != NULL)
		s->in_claim(s->ctx, ref);
	if (s->late)
		maybe_die(s->kill_midway, FAKE_CLAIM);
	meanwhile(s, init, true);
	maybe_die(s->kill_after, FAKE_CLAIM);
	if (s->lose_answer) {
		*unsure = true;
		return err_set(e, ERR_TIMEOUT, "no answer");
	}
	return 0;
}

static void remove_at(struct fake_state *s, size_t i)
{
	if (i == s->n)
		return;
	s->gap_last = s->n - 1;
	s->gap = i + 1;
	fill_gap(s);
}

static int fake_release(struct pool *p, const char *machine, struct json_object **lines, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_RELEASE, e) < 0)
		return -1;
	if (s->delay_us > 0)
		usleep((useconds_t)s->delay_us);
	if (lines != NULL && s->journal[0] != '\0' && json_read(s->journal, strlen(s->journal), lines, e) < 0)
		return -1;
	fake_drop(s, machine);
	maybe_die(s->kill_after, FAKE_RELEASE);
	return 0;
}

static int fake_release_ref(struct pool *p, const char *ref, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_RELEASE_REF, e) < 0)
		return -1;
	lock(s);
	remove_at(s, find_ref(s, ref));
	unlock(s);
	maybe_die(s->kill_after, FAKE_RELEASE_REF);
	return 0;
}

static int fake_list(struct pool *p, struct pool_machine **out, size_t *n, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_LIST, e) < 0)
		return -1;
	lock(s);
	*n = s->n;
	*out = calloc(*n + 1, sizeof **out);
	memcpy(*out, s->machine, *n * sizeof **out);
	unlock(s);
	return 0;
}

static int fake_set_shapes(struct pool *p, const struct pool_shape *shapes, size_t n, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_SHAPES, e) < 0)
		return -1;
	if (s->forgets)
		return 0;
	lock(s);
	s->templates = n < FAKE_TEMPLATES ? n : FAKE_TEMPLATES;
	for (size_t i = 0; i < s->templates; i++)
		snprintf(s->template_id[i], TEMPLATE_ID_LEN, "%s", shapes[i].template_id);
	unlock(s);
	return 0;
}

static int fake_templates(struct pool *p, char (**out)[TEMPLATE_ID_LEN], size_t *n, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (s->down)
		return err_set(e, ERR_UNAVAILABLE, "the machine pool does not answer");
	*n = s->templates;
	*out = calloc(*n + 1, sizeof **out);
	memcpy(*out, s->template_id, *n * sizeof **out);
	return 0;
}

static int fake_open_port(struct pool *p, const char *machine, int port, struct err *e)
{
	(void)port;
	return fake_has(state_of(p), machine) ? 0 : err_set(e, ERR_NOT_FOUND, "unknown sandbox");
}

static int set_sleep(struct fake_state *s, const char *machine, bool sleeps, struct err *e)
{
	size_t i;

	if (s->pause_us > 0)
		usleep((useconds_t)s->pause_us);
	lock(s);
	i = find(s, machine);
	if (i < s->n)
		s->machine[i].hibernated = sleeps;
	unlock(s);
	return i < s->n ? 0 : err_set(e, ERR_NOT_FOUND, "unknown sandbox");
}

static int fake_hibernate(struct pool *p, const char *machine, bool memory, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_HIBERNATE, e) < 0)
		return -1;
	if (s->refuse_pause != ERR_NONE)
		return err_set(e, s->refuse_pause, "refused");
	s->last_memory = memory;
	if (set_sleep(s, machine, true, e) < 0)
		return -1;
	maybe_die(s->kill_after, FAKE_HIBERNATE);
	return s->lose_pause ? err_set(e, ERR_TIMEOUT, "no answer") : 0;
}

static int fake_wake(struct pool *p, const char *machine, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_WAKE, e) < 0)
		return -1;
	if (s->refuse_wake != ERR_NONE)
		return err_set(e, s->refuse_wake, "refused");
	if (set_sleep(s, machine, false, e) < 0)
		return -1;
	maybe_die(s->kill_after, FAKE_WAKE);
	return s->lose_wake ? err_set(e, ERR_TIMEOUT, "no answer") : 0;
}

static size_t find_checkpoint(struct fake_state *s, const char *id)
{
	size_t i = 0;

	while (i < s->checkpoints && strcmp(s->checkpoint[i].id, id) != 0)
		i++;
	return i;
}

bool fake_has_checkpoint(struct fake_state *s, const char *id)
{
	bool has;

	lock(s);
	has = find_checkpoint(s, id) < s->checkpoints;
	unlock(s);
	return has;
}

static int fake_checkpoint(struct pool *p, const char *machine, const char *name, uint64_t max_bytes, struct pool_checkpoint *out,
			   bool *unsure, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_CHECKPOINT, e) < 0)
		return -1;
	if (s->refuse_checkpoint != ERR_NONE)
		return err_set(e, s->refuse_checkpoint, "refused");
	if (!fake_has(s, machine))
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	if (s->checkpoint_bytes > max_bytes)
		return err_set(e, ERR_LIMIT, "the disk holds too much");
	if (s->in_checkpoint != NULL)
		s->in_checkpoint(s->ctx);
	lock(s);
	*out = (struct pool_checkpoint){ .created_us = wall_us(), .bytes = s->checkpoint_bytes };
	snprintf(out->id, sizeof out->id, "ck_%020u", ++s->serial);
	snprintf(out->name, sizeof out->name, "%s", name);
	if (s->checkpoints < FAKE_CHECKPOINTS_MAX)
		s->checkpoint[s->checkpoints++] = *out;
	unlock(s);
	maybe_die(s->kill_after, FAKE_CHECKPOINT);
	*unsure = s->lose_checkpoint;
	return s->lose_checkpoint ? err_set(e, ERR_TIMEOUT, "no answer") : 0;
}

static int fake_checkpoints(struct pool *p, struct pool_checkpoint **out, size_t *n, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (enter(s, FAKE_CHECKPOINTS, e) < 0)
		return -1;
	lock(s);
	*n = s->checkpoints;
	*out = calloc(*n + 1, sizeof **out);
	memcpy(*out, s->checkpoint, *n * sizeof **out);
	unlock(s);
	return 0;
}

static int fake_checkpoint_drop(struct pool *p, const char *id, struct err *e)
{
	struct fake_state *s = state_of(p);
	size_t i;

	if (enter(s, FAKE_CHECKPOINT_DROP, e) < 0)
		return -1;
	lock(s);
	i = find_checkpoint(s, id);
	if (i < s->checkpoints)
		s->checkpoint[i] = s->checkpoint[--s->checkpoints];
	unlock(s);
	maybe_die(s->kill_after, FAKE_CHECKPOINT_DROP);
	return 0;
}

static int fake_use(struct pool *p, struct pool_use **out, size_t *n, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (s->down)
		return err_set(e, ERR_UNAVAILABLE, "the machine pool does not answer");
	lock(s);
	*n = s->n;
	*out = calloc(*n + 1, sizeof **out);
	for (size_t i = 0; i < *n; i++) {
		(*out)[i] = s->use;
		memcpy((*out)[i].claim_ref, s->machine[i].claim_ref, SANDBOX_ID_LEN);
	}
	unlock(s);
	return 0;
}

static int fake_journal(struct pool *p, const char *machine, int64_t after_us, struct json_object **lines, struct err *e)
{
	struct fake_state *s = state_of(p);

	if (s->down)
		return err_set(e, ERR_UNAVAILABLE, "the machine pool does not answer");
	if (find(s, machine) == s->n)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	s->journal_after_us = after_us;
	return s->journal[0] != '\0' ? json_read(s->journal, strlen(s->journal), lines, e) : 0;
}

static void fake_close(struct pool *p)
{
	free(p);
}

static const struct pool_ops fake_ops = {
	.close = fake_close,
	.claim = fake_claim,
	.release = fake_release,
	.release_ref = fake_release_ref,
	.list = fake_list,
	.set_shapes = fake_set_shapes,
	.templates = fake_templates,
	.open_port = fake_open_port,
	.use = fake_use,
	.journal = fake_journal,
	.hibernate = fake_hibernate,
	.wake = fake_wake,
	.network = fake_network,
	.abilities = fake_abilities,
	.checkpoint = fake_checkpoint,
	.checkpoints = fake_checkpoints,
	.checkpoint_drop = fake_checkpoint_drop,
};

struct pool *fake_pool_new(struct fake_state *s)
{
	struct fake_pool *p = calloc(1, sizeof *p);

	p->base.ops = &fake_ops;
	p->s = s;
	return &p->base;
}

bool fake_has(struct fake_state *s, const char *machine)
{
	bool has;

	lock(s);
	has = find(s, machine) < s->n;
	unlock(s);
	return has;
}

bool fake_has_ref(struct fake_state *s, const char *ref)
{
	bool has;

	lock(s);
	has = find_ref(s, ref) < s->n;
	unlock(s);
	return has;
}

bool fake_sleeps(struct fake_state *s, const char *machine)
{
	bool sleeps;
	size_t i;

	lock(s);
	i = find(s, machine);
	sleeps = i < s->n && s->machine[i].hibernated;
	unlock(s);
	return sleeps;
}

void fake_add(struct fake_state *s, const char *machine, const char *ref, int64_t claimed_us)
{
	lock(s);
	add(s, machine, ref, claimed_us);
	unlock(s);
}

void fake_drop(struct fake_state *s, const char *machine)
{
	lock(s);
	remove_at(s, find(s, machine));
	unlock(s);
}
