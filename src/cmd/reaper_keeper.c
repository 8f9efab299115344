/* What the reaper does from time to time: the keeper's rounds, and samples of what sandboxes use. */
#include "config.h"

#include "reaper.h"

#include <errno.h>
#include <time.h>

#include "hutch/log.h"
#include "hutch/webhook.h"
#include "keywatch.h"

#define KEEP_S 10                    /* period of the keeper */
#define NODE_POLL_S 1                /* while the node does not answer */

/* Push the shapes if they changed since the last push, or the node lost them. */
static int keep_shapes(struct reaper *r, uint64_t *pushed, struct err *e)
{
	uint64_t state;
	bool known;

	if (template_shapes_state(&r->d, &state, &known, e) < 0)
		return -1;
	if (known && state == *pushed)
		return 0;
	if (template_push_shapes(&r->d, e) < 0)
		return -1;
	*pushed = state;
	return 0;
}

static bool take_reload(struct reaper *r)
{
	bool reload;

	pthread_mutex_lock(&r->lock);
	reload = r->reload;
	r->reload = false;
	pthread_mutex_unlock(&r->lock);
	return reload;
}

static void keep(struct reaper *r, struct keywatch *keys, uint64_t *pushed)
{
	struct err e;
	int dead = store_reader_check(r->d.store);

	if (dead > 0)
		log_info("freed %d reader slots of dead programs", dead);
	keywatch_look(keys, &r->d, take_reload(r));
	if (events_trim(&r->d, &e) < 0)
		log_error("events: %s", e.text);
	if (deliveries_trim(&r->d, &e) < 0)
		log_error("deliveries: %s", e.text);
	if (ingest_trim(&r->d, &e) < 0)
		log_error("delivery ids: %s", e.text);
	if (keep_shapes(r, pushed, &e) < 0 || audit_once(&r->d, &e) < 0) {
		if (reaper_pool_is_away(&e)) {
			*pushed = 0;
			reaper_node_is(r, true, e.text);
		} else {
			log_error("audit: %s", e.text);
		}
		return;
	}
	reaper_node_is(r, false, "");
}

/* Sleep until the next round, which comes sooner once the node is away; false at the end. */
static bool keep_wait(struct reaper *r)
{
	struct timespec from;
	bool go;

	clock_gettime(CLOCK_MONOTONIC, &from);
	pthread_mutex_lock(&r->lock);
	while (!r->stop && !r->reload) {
		struct timespec until = { from.tv_sec + (r->node_away ? NODE_POLL_S : KEEP_S), from.tv_nsec };

		if (pthread_cond_timedwait(&r->keep, &r->lock, &until) == ETIMEDOUT)
			break;
	}
	go = !r->stop;
	pthread_mutex_unlock(&r->lock);
	return go;
}

void *reaper_keeper(void *p)
{
	struct reaper *r = p;
	struct keywatch keys = { 0 };
	uint64_t pushed = 0;

	do
		keep(r, &keys, &pushed);
	while (keep_wait(r));
	return NULL;
}

/* ---- sampler ---- */

static bool sample_wait(struct reaper *r, const struct timespec *until)
{
	bool go;

	pthread_mutex_lock(&r->lock);
	while (!r->stop && pthread_cond_timedwait(&r->sample, &r->lock, until) != ETIMEDOUT)
		;
	go = !r->stop;
	pthread_mutex_unlock(&r->lock);
	return go;
}

/* What goes wrong is said when it begins to. */
void *reaper_sampler(void *p)
{
	struct reaper *r = p;
	struct sampler *s = sampler_new();
	bool failing = false;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	while (s != NULL) {
		struct err e;
		bool failed = sample_once(&r->d, s, &e) < 0;

		if (failed && !failing)
			log_warn("no samples of sandboxes: %s", e.text);
		failing = failed;
		next.tv_sec += SAMPLE_S;
		if (!sample_wait(r, &next))
			break;
	}
	sampler_free(s);
	return NULL;
}
