/*
 * Start commands: a template's program that its sandboxes run from before they are claimed, and the wait until it is up.
 *
 * A sandbox that is made for the reserve and whose template names a port to wait for is WARMING: it stays in phase STARTING and in
 * a list of its own, which refill looks through every few milliseconds, so that a slow program holds up no other template.
 */
#include "config.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/when.h"
#include "node.h"

#define START_MS 5000                /* for the agent to start it */
#define LOOK_MS 2000                 /* for the agent to tell whether it is up */
#define READY_US (60 * US_PER_S)     /* for the program to be up, when nobody waits for the sandbox */
#define STARTS_PER_CPU 4
#define LOOK_US (20 * US_PER_MS)     /* between two looks */

int machine_start(struct node *n, struct machine *m, struct err *e)
{
	const struct shape *s = &m->st.shape;
	struct buf b;
	struct jw w;
	int status;

	if (s->command == NULL)
		return 0;
	buf_init(&b, STATE_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "op", "start");
	jw_key(&w, "command");
	jw_raw(&w, s->command, strlen(s->command));
	jw_kint(&w, "readyPort", s->ready_port);
	jw_close(&w, '}');
	status = buf_failed(&b) ? err_set(e, ERR_INTERNAL, "out of memory") : machine_ctl(n, m, b.p, b.len, -1, START_MS, e);
	buf_release(&b);
	return status < 0 ? err_wrap(e, "start command") : 0;
}

int machine_ready(struct node *n, struct machine *m, struct err *e)
{
	static const char ready[] = "{\"op\":\"ready\"}";

	if (m->st.shape.ready_port == 0)
		return 0;
	return machine_ctl(n, m, ready, sizeof ready - 1, -1, LOOK_MS, e) < 0 ? err_wrap(e, "start command") : 0;
}

/* Nobody has asked for its end, or the daemon's, meanwhile. */
static bool wanted(struct node *n, const struct machine *m)
{
	bool yes;

	pthread_mutex_lock(&n->lock);
	yes = !m->doomed && !n->closing;
	pthread_mutex_unlock(&n->lock);
	return yes;
}

int machine_await(struct node *n, struct machine *m, int64_t until_us, struct err *e)
{
	const struct timespec pause = { 0, LOOK_US * 1000 };

	while (machine_ready(n, m, e) < 0) {
		if (!wanted(n, m) || !machine_alive(m))
			return err_set(e, ERR_CONFLICT, "the sandbox ended while it started");
		if (boot_us() >= until_us) {    /* it may be up in another try, on a machine that is less busy */
			e->kind = ERR_UNAVAILABLE;
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* ---- for claims ---- */

/* Programs that start all at once on a few processors are all up late, and none in time: so many go at a time. */
static int turns(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > 0 ? (int)cpus * STARTS_PER_CPU : STARTS_PER_CPU;
}

static int take_turn(struct node *n, const struct machine *m, int64_t until_us, struct err *e)
{
	const int most = turns();
	int status = 0;

	pthread_mutex_lock(&n->lock);
	while (n->slow_starts >= most && !m->doomed && !n->closing && boot_us() < until_us)
		node_wait(n, &n->changed, until_us);
	if (m->doomed)
		status = err_set(e, ERR_CONFLICT, "the sandbox ended before it started");
	else if (n->slow_starts >= most)
		status = err_set(e, ERR_UNAVAILABLE, "start command: too many others are being started");
	else
		n->slow_starts++;
	pthread_mutex_unlock(&n->lock);
	return status;
}

static void end_turn(struct node *n)
{
	pthread_mutex_lock(&n->lock);
	n->slow_starts--;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

int machine_create_claimed(struct node *n, struct machine *m, struct err *e)
{
	const int64_t until = boot_us() + n->conf->start_s * US_PER_S;
	int status;

	if (m->st.shape.ready_port == 0)
		return machine_create(n, m, false, e);
	if (take_turn(n, m, until, e) < 0)
		return -1;
	status = machine_create(n, m, false, e) < 0 ? -1 : machine_await(n, m, until, e);
	end_turn(n);
	return status;
}

/* ---- the list ---- */

void warming_add(struct node *n, struct machine *m)
{
	m->ready_until_us = boot_us() + READY_US;
	m->next_warm = n->warming;
	n->warming = m;
	n->nwarming++;
}

/* Its template is gone or another one by now. */
static bool outdated(struct node *n, const struct machine *m)
{
	const struct pool *p = pool_find(n, m->st.shape.template);

	return p == NULL || !shape_same(&p->shape, &m->st.shape);
}

/* With the lock held, which is dropped meanwhile. 1 it is up, or it does not matter any more; 0 not yet; -1 it will not be. */
static int look(struct node *n, struct machine *m, struct err *e)
{
	int status;

	if (outdated(n, m))
		return 1;
	if (m->doomed || !machine_alive(m))
		return err_set(e, ERR_CONFLICT, "the sandbox ended while it started");
	pthread_mutex_unlock(&n->lock);
	status = machine_ready(n, m, e) == 0;
	pthread_mutex_lock(&n->lock);
	return status == 0 && boot_us() >= m->ready_until_us ? -1 : status;
}

int64_t warming_look(struct node *n)
{
	struct machine *list = n->warming, *m;
	struct err e;

	n->warming = NULL;
	while ((m = list) != NULL) {
		int up = look(n, m, &e);

		list = m->next_warm;
		m->next_warm = NULL;
		if (up == 0) {
			m->next_warm = n->warming;
			n->warming = m;
			continue;
		}
		n->nwarming--;
		warming_done(n, m, up > 0 ? NULL : &e);
	}
	return n->warming != NULL ? boot_us() + LOOK_US : 0;
}
