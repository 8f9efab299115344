/* Workers of the reaper: they remove machines, and then the rows of those that are gone. */
#include "config.h"

#include "reaper.h"

#include <stdlib.h>

#include "hutch/log.h"

void reaper_push(struct reaper *r, const struct reap_work *w, size_t n)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < n; i++) {
		struct job *j = malloc(sizeof *j);

		if (j == NULL)
			break;               /* the row comes due again */
		*j = (struct job){ .w = w[i] };
		*r->last = j;
		r->last = &j->next;
	}
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
}

/* The next job, or NULL at the end. */
static struct job *pop(struct reaper *r)
{
	struct job *j;

	pthread_mutex_lock(&r->lock);
	while (r->first == NULL && !r->stop)
		pthread_cond_wait(&r->work, &r->lock);
	j = r->stop ? NULL : r->first;
	if (j != NULL) {
		r->first = j->next;
		if (r->first == NULL)
			r->last = &r->first;
	}
	pthread_mutex_unlock(&r->lock);
	return j;
}

void reaper_node_is(struct reaper *r, bool away, const char *why)
{
	bool changed;

	pthread_mutex_lock(&r->lock);
	changed = r->node_away != away;
	r->node_away = away;
	if (changed)
		pthread_cond_signal(&r->keep);
	pthread_mutex_unlock(&r->lock);
	if (changed && away)
		log_warn("the machine pool is away: %s", why);
	else if (changed)
		log_info("the machine pool is back");
}

static bool node_away(struct reaper *r)
{
	bool away;

	pthread_mutex_lock(&r->lock);
	away = r->node_away;
	pthread_mutex_unlock(&r->lock);
	return away;
}

bool reaper_pool_is_away(const struct err *e)
{
	return e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT;
}

/* Up to REAPER_BATCH of the rows whose machines are gone; 0 when another worker is at it or there is none. */
static size_t take_removed(struct reaper *r, struct reap_work work[REAPER_BATCH], bool mine)
{
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	if (mine || !r->deleting) {
		while (n < REAPER_BATCH && r->removed != NULL) {
			struct job *j = r->removed;

			work[n++] = j->w;
			r->removed = j->next;
			free(j);
		}
		r->deleting = n > 0;
	}
	pthread_mutex_unlock(&r->lock);
	return n;
}

/* One transaction for all rows that became ready while the one before was written. */
static void delete_removed(struct reaper *r)
{
	struct reap_work work[REAPER_BATCH];
	struct err e;
	size_t n = take_removed(r, work, false);

	for (; n > 0; n = take_removed(r, work, true))
		if (reap_forget(&r->d, work, n, &e) < 0)
			log_error("%zu rows stay until they come due again: %s", n, e.text);
}

void *reaper_worker(void *p)
{
	struct reaper *r = p;
	struct job *j;

	while ((j = pop(r)) != NULL) {
		struct err e;

		/* while the node is away the keeper asks for it, and then finishes what was left */
		if (node_away(r)) {
			free(j);
		} else if (reap_remove(&r->d, &j->w, &e) < 0) {
			if (reaper_pool_is_away(&e))
				reaper_node_is(r, true, e.text);
			else
				log_error("sandbox %s: %s", j->w.id, e.text);
			free(j);
		} else {
			pthread_mutex_lock(&r->lock);
			j->next = r->removed;
			r->removed = j;
			pthread_mutex_unlock(&r->lock);
			delete_removed(r);
		}
	}
	return NULL;
}

void reaper_drop(struct reaper *r)
{
	while (r->first != NULL) {           /* their rows come due again */
		struct job *j = r->first;

		r->first = j->next;
		free(j);
	}
}
