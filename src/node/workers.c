/* The daemon's background threads. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "hutch/log.h"
#include "hutch/when.h"
#include "node.h"

#define REFILL_NICE 5
#define SPARE_DISKS 2
#define BACKLOG 4                    /* dead sandboxes to be cleaned up: beyond that it is urgent */
#define WARMING_MAX 2                /* slow starts at a time: they use up the processors that claims need */
#define SPARE_SIZES 8
#define POLITE_US (10 * US_PER_MS)
#define COMMIT_US (10 * US_PER_MS)   /* the rest of a create after its claim, as a rule */
#define BACKOFF_US (250 * US_PER_MS)
#define BACKOFF_MAX_US (30 * US_PER_S)
#define SWEEP_PAUSE_US (20 * US_PER_MS)
#define SWEEPS_LOUD 250              /* about five seconds of EBUSY */

void node_wait(struct node *n, pthread_cond_t *c, int64_t until_us)
{
	int64_t left = until_us - boot_us();
	struct timespec t;

	if (until_us == 0) {
		pthread_cond_wait(c, &n->lock);
		return;
	}
	if (left < 0)
		left = 0;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += left / US_PER_S;
	t.tv_nsec += left % US_PER_S * 1000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(c, &n->lock, &t);
}

/* ---- refill ---- */

/* A pool that lacks a machine and may try now. *next_us: when one that may not can, or 0. */
static struct pool *hungry(struct node *n, int64_t *next_us)
{
	const int64_t now = boot_us();

	*next_us = 0;
	if (n->machines >= (uint32_t)n->conf->max_sandboxes)
		return NULL;
	for (size_t i = 0; i < n->npools; i++) {
		struct pool *p = n->pool[i];

		if (p->nwarm + p->starting >= p->shape.warm || (p->shape.ready_port != 0 && n->nwarming >= WARMING_MAX))
			continue;
		if (p->retry_us <= now)
			return p;
		if (*next_us == 0 || p->retry_us < *next_us)
			*next_us = p->retry_us;
	}
	return NULL;
}

/* Failures are said once each, and tried ever more seldom. */
static void note_result(struct node *n, const char *template, const struct err *e)
{
	struct pool *p = pool_find(n, template);
	int64_t pause = BACKOFF_US;

	if (p == NULL)
		return;
	if (p->starting > 0)
		p->starting--;
	if (e == NULL) {
		p->failures = 0;
		p->error[0] = '\0';
		return;
	}
	for (int i = 0; i < p->failures && pause < BACKOFF_MAX_US; i++)
		pause *= 2;
	p->failures++;
	p->retry_us = boot_us() + (pause < BACKOFF_MAX_US ? pause : BACKOFF_MAX_US);
	if (strncmp(p->error, e->text, sizeof p->error - 1) != 0)
		log_error("template %s: %s", template, e->text);
	snprintf(p->error, sizeof p->error, "%.*s", (int)sizeof p->error - 1, e->text);
}

void warming_done(struct node *n, struct machine *m, const struct err *e)
{
	struct err ignored;

	note_result(n, m->st.shape.template, e);
	if (e == NULL) {
		pool_push(n, m);
	} else {
		pthread_mutex_unlock(&n->lock);
		if (machine_end(n, m, &ignored) < 0)
			log_error("%s", ignored.text);
		pthread_mutex_lock(&n->lock);
	}
	machine_put(n, m);
}

/* With the lock held, which is dropped meanwhile. */
static void add_one(struct node *n, struct pool *p)
{
	struct machine *m = machine_new(n, &p->shape, "");
	struct err e;
	int status;

	if (m == NULL) {
		p->retry_us = boot_us() + BACKOFF_MAX_US;
		return;
	}
	p->starting++;
	pthread_mutex_unlock(&n->lock);
	status = machine_create(n, m, true, &e);
	pthread_mutex_lock(&n->lock);
	if (status == 0 && m->st.shape.ready_port != 0)
		warming_add(n, m);
	else
		warming_done(n, m, status < 0 ? &e : NULL);
}

static size_t sizes_in_use(const struct node *n, uint32_t sizes[SPARE_SIZES])
{
	size_t count = 0;

	for (size_t i = 0; i < n->npools && count < SPARE_SIZES; i++) {
		bool known = false;

		for (size_t k = 0; k < count; k++)
			known = known || sizes[k] == n->pool[i]->shape.disk_mb;
		if (!known)
			sizes[count++] = n->pool[i]->shape.disk_mb;
	}
	return count;
}

struct size_set { uint32_t mb[SPARE_SIZES]; size_t n; };

static bool size_wanted(void *ctx, uint32_t mb)
{
	const struct size_set *s = ctx;

	for (size_t i = 0; i < s->n; i++)
		if (s->mb[i] == mb)
			return true;
	return false;
}

/* One disk into reserve, if any size lacks one; those too many go. *next_us: when to look for such again, or 0. The lock is dropped meanwhile. */
static bool add_disk(struct node *n, int64_t *next_us)
{
	struct size_set set;
	struct err e;
	int made = 0;

	set.n = sizes_in_use(n, set.mb);
	pthread_mutex_unlock(&n->lock);
	*next_us = disks_trim(&n->disks, size_wanted, &set, SPARE_DISKS);
	for (size_t i = 0; i < set.n && made == 0; i++)
		made = disk_reserve(&n->disks, set.mb[i], SPARE_DISKS, &e);
	if (made < 0 && strncmp(n->disk_error, e.text, sizeof n->disk_error - 1) != 0)
		log_warn("disk in reserve: %s", e.text);
	snprintf(n->disk_error, sizeof n->disk_error, "%.*s", (int)sizeof n->disk_error - 1, made < 0 ? e.text : "");
	pthread_mutex_lock(&n->lock);
	return made > 0;
}

static void bury(struct node *n)
{
	struct machine *m = n->graveyard;
	struct err e;

	n->graveyard = m->next_warm;
	m->next_warm = NULL;
	pthread_mutex_unlock(&n->lock);
	if (machine_end(n, m, &e) < 0)
		log_error("%s", e.text);
	pthread_mutex_lock(&n->lock);
	machine_put(n, m);
}

/* Of two times, 0 being never. */
static int64_t sooner(int64_t a, int64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

static bool half_empty(const struct node *n)
{
	for (size_t i = 0; i < n->npools; i++)
		if (2 * n->pool[i]->nwarm < n->pool[i]->shape.warm)
			return true;
	return false;
}

/* Claims go first, but not for ever; and the rest of the creates that they are of, unless many are missing: a start takes up both processors of
 * a small machine. */
static void let_go_first(struct node *n)
{
	if (n->claims > 0)
		node_wait(n, &n->work, boot_us() + POLITE_US);
	if (n->claims == 0 && n->claimed_us + COMMIT_US > boot_us() && !half_empty(n) && !n->stop)
		node_wait(n, &n->work, n->claimed_us + COMMIT_US);
}

static void *refill_main(void *arg)
{
	struct node *n = arg;
	struct pool *p;
	int64_t next_us, look_us, trim_us;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), REFILL_NICE);
	pthread_mutex_lock(&n->lock);
	while (!n->stop) {
		let_go_first(n);
		if (n->stop)
			break;
		look_us = warming_look(n);
		if (n->graveyard != NULL)
			bury(n);
		else if ((p = hungry(n, &next_us)) != NULL)
			add_one(n, p);
		else if (!add_disk(n, &trim_us) && !n->stop && n->graveyard == NULL && hungry(n, &next_us) == NULL)
			node_wait(n, &n->work, sooner(sooner(next_us, look_us), trim_us));
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* ---- cleaner ---- */

static void remove_files(struct node *n, const struct machine *m)
{
	machine_unsave(n, m);
	unlinkat(n->run_ctl, m->st.id, 0);
	tree_remove(n->run_sb, m->st.id);
}

/* True: nothing is left. */
static bool sweep(struct node *n, struct machine *m)
{
	if (m->sweeps++ == 0) {
		disk_retire(&n->disks, &m->disk, m->st.shape.disk_mb, m->st.id);     /* the next one may be waiting for it */
		remove_files(n, m);
	}
	if (cgroup_remove(&n->cg, m->st.id) == 0)
		return true;
	cgroup_kill(&n->cg, m->st.id);       /* a start that failed half way may have left a process */
	if (m->sweeps == SWEEPS_LOUD)
		log_error("cgroups of %s are still busy", m->st.id);
	return false;
}

static void free_range(struct node *n, const struct machine *m)
{
	uint32_t at = m->st.ids / SPAWN_IDS - RANGE_FIRST;

	if (at < RANGES && n->range[at] == m)
		n->range[at] = NULL;
}

/* Calls go first; but what dies faster than it is cleaned up makes each start dearer. */
static void hurry(bool on, int *nice)
{
	if (*nice != (on ? 0 : REFILL_NICE))
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), *nice = on ? 0 : REFILL_NICE);
}

static void *cleaner_main(void *arg)
{
	struct node *n = arg;
	struct machine *again = NULL;
	int nice = 0;

	pthread_mutex_lock(&n->lock);
	for (;;) {
		struct machine *m = n->dirty;

		if (m == NULL && n->unsettled) {
			n->unsettled = false;
			pthread_mutex_unlock(&n->lock);
			lane_settle(&n->lane);
			pthread_mutex_lock(&n->lock);
			continue;
		}
		if (m == NULL && n->stop)
			break;
		if (m == NULL) {
			node_wait(n, &n->dirt, again != NULL ? boot_us() + SWEEP_PAUSE_US : 0);
			for (; again != NULL; again = m) {
				m = again->next_dirty;
				again->next_dirty = n->dirty;
				n->dirty = again;
				n->ndirty++;
			}
			continue;
		}
		n->dirty = m->next_dirty;
		hurry(--n->ndirty > BACKLOG, &nice);
		pthread_mutex_unlock(&n->lock);
		if (sweep(n, m)) {
			pthread_mutex_lock(&n->lock);
			free_range(n, m);
			if (n->dirty == NULL)
				pthread_cond_signal(&n->work);       /* refill counts the disks in reserve */
			pthread_mutex_unlock(&n->lock);
			machine_unref(n, m);
		} else {
			m->next_dirty = again;
			again = m;
		}
		pthread_mutex_lock(&n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* ---- watcher ---- */

void watch(struct node *n, struct machine *m)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u32 = m->st.ids / SPAWN_IDS - RANGE_FIRST };

	if (epoll_ctl(n->epoll, EPOLL_CTL_ADD, m->pidfd, &ev) < 0)
		log_error("watch of %s: %s", m->st.id, strerror(errno));
}

/* An event is a hint: the range may have another owner by now. A machine that is being started or claimed is left to who does
 * that: they look whether it lives before they let go of it. */
static void look_at(struct node *n, uint32_t range)
{
	struct machine *m;

	pthread_mutex_lock(&n->lock);
	m = range < RANGES ? n->range[range] : NULL;
	if (m != NULL && (m->phase == PHASE_WARM || m->phase == PHASE_CLAIMED) && m->st.sleep != SLEEP_DISK && !machine_alive(m)) {
		if (m->phase == PHASE_CLAIMED && !m->doomed)
			log_info("sandbox %s ended (%s)", m->st.id, m->st.claim_ref);
		machine_retire(n, m);
	}
	pthread_mutex_unlock(&n->lock);
}

static void *watcher_main(void *arg)
{
	struct node *n = arg;
	struct epoll_event ev[64];

	for (;;) {
		int count = epoll_wait(n->epoll, ev, 64, -1);

		for (int i = 0; i < count; i++) {
			if (ev[i].data.u32 == RANGES)
				return NULL;
			look_at(n, ev[i].data.u32);
		}
	}
}

/* ---- start and stop ---- */

int workers_start(struct node *n, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = RANGES };
	sigset_t all, was;
	int status;

	if (epoll_ctl(n->epoll, EPOLL_CTL_ADD, n->wake, &ev) < 0)
		return err_sys(e, "epoll");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	status = pthread_create(&n->refill, NULL, refill_main, n);
	if (status == 0)
		status = pthread_create(&n->cleaner, NULL, cleaner_main, n);
	if (status == 0)
		status = pthread_create(&n->watcher, NULL, watcher_main, n);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	n->threads = status == 0;
	return status == 0 ? 0 : err_set(e, ERR_INTERNAL, "threads: %s", strerror(status));
}

void workers_stop(struct node *n)
{
	const uint64_t one = 1;

	if (!n->threads)
		return;
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_broadcast(&n->work);
	pthread_cond_broadcast(&n->dirt);
	pthread_mutex_unlock(&n->lock);
	if (write(n->wake, &one, sizeof one) < 0)
		log_error("wake: %s", strerror(errno));
	pthread_join(n->refill, NULL);
	pthread_join(n->cleaner, NULL);
	pthread_join(n->watcher, NULL);
	n->threads = false;
}
