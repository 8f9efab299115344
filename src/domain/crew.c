/* Removing many machines: a few at a time, since each waits for the death of its processes. */
#include "domain_int.h"

#include <pthread.h>

#define CREW 8

struct crew {
	struct domain *d;
	struct reap_work *work;
	size_t n;
	pthread_mutex_t lock;        /* over what follows */
	size_t next;
	size_t done;                 /* work[0..done) is removed; never beyond next */
	bool failed, stop;
	struct err *e;
};

static bool take(struct crew *c, struct reap_work *w)
{
	bool got;

	pthread_mutex_lock(&c->lock);
	got = !c->stop && c->next < c->n;
	if (got)
		*w = c->work[c->next++];
	pthread_mutex_unlock(&c->lock);
	return got;
}

static void report(struct crew *c, const struct reap_work *w, int status, const struct err *e)
{
	pthread_mutex_lock(&c->lock);
	if (status == 0) {
		c->work[c->done++] = *w;
	} else {
		if (!c->failed)
			*c->e = *e;
		c->failed = true;
		/* no use to try the others against a pool that is away */
		c->stop |= e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT;
	}
	pthread_mutex_unlock(&c->lock);
}

static void *member(void *p)
{
	struct crew *c = p;
	struct reap_work w;
	struct err e;

	while (take(c, &w))
		report(c, &w, reap_remove(c->d, &w, &e), &e);
	return NULL;
}

size_t crew_finish(struct domain *d, struct reap_work *work, size_t n, bool *failed, struct err *e)
{
	struct crew c = { .d = d, .work = work, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER, .e = e };
	pthread_t thread[CREW - 1];
	size_t started = 0;

	/* the caller is one of them; fewer threads than wanted is slower, no more */
	while (started < CREW - 1 && started + 1 < n && pthread_create(&thread[started], NULL, member, &c) == 0)
		started++;
	member(&c);
	while (started > 0)
		pthread_join(thread[--started], NULL);
	*failed = c.failed;
	if (c.done > 0 && reap_forget(d, work, c.done, e) < 0) {
		*failed = true;
		return 0;
	}
	return c.done;
}
