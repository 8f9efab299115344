/*
 * Hibernate and wake: a sandbox stands still with its memory (frozen), or as its disk alone.
 *
 * What it is to be is written down before it is done, so that a daemon that dies in between finishes it at its next start. The
 * directory of sockets is closed first of all: nobody connects to what will not answer.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "hutch/log.h"
#include "hutch/when.h"
#include "node.h"
#include "sys.h"

#define CUT_MS 3000                  /* with FREEZE_MS less than a call of the pool may take */
#define FREEZE_MS 5000
#define DEATH_MS 20000
#define AWAIT_US (8 * US_PER_S)      /* for the start command; a wake that takes ten seconds is given up */

static void let_in(const struct node *n, const struct machine *m, bool in)
{
	if (fchmodat(n->run_sb, m->st.id, in ? 0710 : 0700, 0) < 0 && errno != ENOENT)
		log_error("sockets of %s: %s", m->st.id, strerror(errno));
}

static int save(struct node *n, struct machine *m, enum machine_sleep sleep, struct err *e)
{
	pthread_mutex_lock(&n->lock);
	m->st.sleep = sleep;
	pthread_mutex_unlock(&n->lock);
	return machine_save(n, m, e);
}

/* ---- frozen ---- */

static int thaw(struct node *n, struct machine *m, struct err *e)
{
	if (cgroup_freeze(&n->cg, m->st.id, false, FREEZE_MS, e) < 0)
		return -1;
	let_in(n, m, true);
	return save(n, m, SLEEP_NONE, e);
}

static int freeze(struct node *n, struct machine *m, struct err *e)
{
	static const char cut[] = "{\"op\":\"cut\"}";
	struct err why;

	if (!cgroups_freeze(&n->cg))
		return err_set(e, ERR_CONFLICT, "there is no cgroup freezer here");
	let_in(n, m, false);
	if (machine_ctl(n, m, cut, sizeof cut - 1, -1, CUT_MS, &why) < 0)
		log_warn("sandbox %s is paused with its connections: %s", m->st.id, why.text);
	if (save(n, m, SLEEP_MEMORY, e) == 0 && cgroup_freeze(&n->cg, m->st.id, true, FREEZE_MS, e) == 0)
		return 0;
	if (thaw(n, m, &why) < 0)
		log_error("sandbox %s: %s", m->st.id, why.text);
	return -1;
}

/* ---- the disk alone ---- */

static void drop_sockets(const struct node *n, const struct machine *m)
{
	unlinkat(n->run_ctl, m->st.id, 0);
	tree_remove(n->run_sb, m->st.id);
}

/* Kill all, wait, and let go of everything but the disk's image. */
static int end_processes(struct node *n, struct machine *m, struct err *e)
{
	struct pollfd p = { .fd = m->pidfd, .events = POLLIN };
	int got = 1;

	if (m->pidfd >= 0) {
		sys_pidfd_send_signal(m->pidfd, SIGKILL);
		cgroup_kill(&n->cg, m->st.id);       /* frozen ones too: they do not run once more */
		while ((got = poll(&p, 1, DEATH_MS)) < 0 && errno == EINTR)
			continue;
	}
	if (got <= 0)
		return err_set(e, ERR_TIMEOUT, "sandbox %s (pid %d) does not die", m->st.id, (int)m->st.pid);
	drop_sockets(n, m);
	pthread_mutex_lock(&m->ctl_lock);
	if (m->ctl >= 0)
		close(m->ctl);
	m->ctl = -1;
	m->nports = 0;
	pthread_mutex_unlock(&m->ctl_lock);
	pthread_mutex_lock(&n->lock);
	if (m->pidfd >= 0) {
		epoll_ctl(n->epoll, EPOLL_CTL_DEL, m->pidfd, NULL);
		close(m->pidfd);
	}
	m->pidfd = -1;
	pthread_mutex_unlock(&n->lock);
	cgroup_remove(&n->cg, m->st.id);             /* or later: a new start takes what is there */
	return disk_keep(&n->disks, &m->disk, m->st.id, e);
}

static int to_disk(struct node *n, struct machine *m, struct err *e)
{
	const enum machine_sleep was = m->st.sleep;
	struct err why;

	if (!n->disks.loop)
		return err_set(e, ERR_CONFLICT, "disks are in memory here (no loop devices): they cannot be kept without it");
	if (save(n, m, SLEEP_DISK, e) < 0) {
		save(n, m, was, &why);
		return -1;
	}
	let_in(n, m, false);
	return end_processes(n, m, e);
}

static int boot(struct node *n, struct machine *m, struct err *e)
{
	struct err why;

	drop_sockets(n, m);                          /* of a try that failed */
	memcpy(m->st.boot_id, n->boot, sizeof n->boot);
	if (m->st.base[0] != '\0')
		memcpy(m->st.base, n->base, sizeof n->base);
	if (machine_boot(n, m, false, e) == 0 &&
	    (m->st.init == NULL || machine_ctl(n, m, m->st.init, strlen(m->st.init), -1, INIT_MS, e) == 0) && save(n, m, SLEEP_NONE, e) == 0) {
		watch(n, m);
		if (machine_await(n, m, boot_us() + AWAIT_US, &why) < 0)
			log_warn("sandbox %s: %s", m->st.id, why.text);
		return 0;
	}
	if (end_processes(n, m, &why) < 0 || save(n, m, SLEEP_DISK, &why) < 0)
		log_error("sandbox %s: %s", m->st.id, why.text);
	return -1;
}

/* ---- calls ---- */

struct machine *machine_take(struct node *n, const char *id, struct err *e)
{
	struct machine *m;

	pthread_mutex_lock(&n->lock);
	m = machine_settled(n, id, false);
	if (m != NULL && m->phase == PHASE_CLAIMED && !m->doomed) {
		machine_phase(n, m, PHASE_CHANGING);
	} else {
		if (m != NULL)
			machine_put(n, m);
		m = NULL;
		err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	}
	pthread_mutex_unlock(&n->lock);
	return m;
}

int machine_give_back(struct node *n, struct machine *m)
{
	bool there;

	pthread_mutex_lock(&n->lock);
	there = m->st.sleep == SLEEP_DISK || machine_alive(m);
	machine_phase(n, m, PHASE_CLAIMED);
	if (!there)
		machine_retire(n, m);
	machine_put(n, m);
	pthread_mutex_unlock(&n->lock);
	return there ? 0 : -1;
}

int node_hibernate(struct node *n, const char *id, bool memory, struct err *e)
{
	struct machine *m = machine_take(n, id, e);
	int status = 0;

	if (m == NULL)
		return -1;
	/* a disk without memory is all there is of it; a try to get there that failed is gone on with */
	if (m->st.sleep == SLEEP_DISK)
		status = m->pidfd >= 0 ? end_processes(n, m, e) : 0;
	else if (!memory)
		status = to_disk(n, m, e);
	else if (m->st.sleep == SLEEP_NONE)
		status = freeze(n, m, e);
	if (machine_give_back(n, m) < 0)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	return status;
}

int node_wake(struct node *n, const char *id, struct err *e)
{
	struct machine *m = machine_take(n, id, e);
	int status = 0;

	if (m == NULL)
		return -1;
	if (m->st.sleep == SLEEP_DISK)
		status = boot(n, m, e);
	else if (m->st.sleep == SLEEP_MEMORY)
		status = thaw(n, m, e);
	if (machine_give_back(n, m) < 0)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	return status;
}

void machine_keep_asleep(struct node *n, struct machine *m)
{
	struct err e;

	if (m->st.sleep == SLEEP_DISK) {
		drop_sockets(n, m);
	} else if (m->st.sleep == SLEEP_MEMORY) {
		let_in(n, m, false);
		if (cgroup_freeze(&n->cg, m->st.id, true, FREEZE_MS, &e) < 0)
			log_error("sandbox %s: %s", m->st.id, e.text);
	} else if (cgroups_freeze(&n->cg) && cgroup_freeze(&n->cg, m->st.id, false, FREEZE_MS, &e) < 0) {
		log_error("sandbox %s: %s", m->st.id, e.text);       /* a checkpoint of it was being taken */
	}
}
