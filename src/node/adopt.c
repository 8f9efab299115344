/* Sandboxes of an earlier daemon: adopted, or removed with all that is left of them. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "files.h"
#include "hutch/envd.h"
#include "hutch/log.h"
#include "node.h"
#include "sys.h"

#define PING_MS 2000
#define DEATH_MS 20000
#define GROUP_TRIES 500
#define GROUP_PAUSE_NS 10000000

struct adoption {
	struct node *n;
	bool purge;
	size_t claimed, warm, dropped;
};

static void kill_and_wait(struct node *n, struct machine *m)
{
	struct pollfd p = { .fd = m->pidfd, .events = POLLIN };

	sys_pidfd_send_signal(m->pidfd, SIGKILL);
	cgroup_kill(&n->cg, m->st.id);       /* it may be frozen */
	while (poll(&p, 1, DEATH_MS) < 0 && errno == EINTR)
		continue;
	close(m->pidfd);
	m->pidfd = -1;
}

/* Which guest ports have sockets. */
static void note_port(void *ctx, const char *name)
{
	struct machine *m = ctx;
	char *end;
	long port = strtol(name, &end, 10);

	if (*end == '\0' && port > 0 && port <= 65535 && port != ENVD_PORT && m->nports < PORTS_MAX)
		m->ports[m->nports++] = (uint16_t)port;
}

static void find_ports(const struct node *n, struct machine *m)
{
	int dir = openat(n->run_sb, m->st.id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	dir_each(dir, DT_SOCK, note_port, m);
	close(dir);
}

/* A claimed one is taken as it is; a ready one must answer. */
static bool fit(struct node *n, struct machine *m)
{
	struct err e;

	if (m->st.claim_ref[0] != '\0')
		return true;
	if (n->lane.on != (m->st.address != 0)) {
		log_info("ready sandbox %s: its way out is no longer what new ones get", m->st.id);
		return false;
	}
	m->ctl = ctl_connect(n->run_ctl, m->st.id, &e);
	if (m->ctl >= 0 && ctl_ping(m->ctl, PING_MS, &e) == 0 && machine_ready(n, m, &e) == 0)
		return true;
	log_warn("ready sandbox %s: %s", m->st.id, e.text);
	return false;
}

static void adopt(struct adoption *a, struct machine *m)
{
	struct node *n = a->n;

	pthread_mutex_lock(&n->lock);
	if (machine_enter(n, m) < 0) {
		pthread_mutex_unlock(&n->lock);
		log_error("sandbox %s uses ids of another one: ended", m->st.id);
		if (m->pidfd >= 0)
			kill_and_wait(n, m);
		state_release(&m->st);
		free(m);
		return;
	}
	machine_keep_asleep(n, m);
	find_ports(n, m);
	if (m->pidfd >= 0)
		watch(n, m);
	if (!fit(n, m)) {
		sys_pidfd_send_signal(m->pidfd, SIGKILL);
		machine_retire(n, m);
	} else if (m->st.claim_ref[0] != '\0') {
		machine_phase(n, m, PHASE_CLAIMED);
		a->claimed++;
	} else {
		pool_push(n, m);
		a->warm++;
	}
	pthread_mutex_unlock(&n->lock);
}

static struct machine *read_machine(const struct node *n, const char *file)
{
	struct machine *m = calloc(1, sizeof *m);
	char *text = malloc(STATE_MAX);
	ssize_t len = text != NULL && m != NULL ? file_read(n->states, file, text, STATE_MAX) : -1;
	struct err e;

	if (len >= 0 && state_read(text, (size_t)len, &m->st, &e) == 0 && strncmp(file, m->st.id, MACHINE_LEN - 1) == 0) {
		free(text);
		return m;
	}
	if (len >= 0)
		log_warn("state file %s is not usable", file);
	if (m != NULL)
		state_release(&m->st);
	free(text);
	free(m);
	return NULL;
}

static void visit_state(void *ctx, const char *file)
{
	struct adoption *a = ctx;
	struct machine *m = file[0] != '.' ? read_machine(a->n, file) : NULL;    /* .NAME: half-written, or of a dead one */

	if (m == NULL)
		return;
	m->pidfd = state_pidfd(&m->st, a->n->boot);
	if (!a->purge && m->st.sleep == SLEEP_DISK && disk_there(&a->n->disks, m->st.id)) {
		if (m->pidfd >= 0)           /* it was about to be ended */
			kill_and_wait(a->n, m);
		adopt(a, m);
		return;
	}
	if (m->pidfd >= 0 && !a->purge && m->st.sleep != SLEEP_DISK) {
		machine_rewire(a->n, m);
		adopt(a, m);
		return;
	}
	a->dropped++;
	if (m->pidfd >= 0)
		kill_and_wait(a->n, m);
	state_release(&m->st);
	free(m);
}

/* ---- what is left of those that are not adopted ---- */

static const struct machine *adopted(const struct node *n, const char *name)
{
	char id[MACHINE_LEN];

	if (strlen(name) < MACHINE_LEN - 1)
		return NULL;
	memcpy(id, name, MACHINE_LEN - 1);
	id[MACHINE_LEN - 1] = '\0';
	return (const struct machine *)htab_find(&n->ids, id);
}

/* One that is a disk alone has no processes; those of a wake that the earlier daemon did not finish would keep its disk from the next one. */
static void drop_group(void *ctx, const char *machine)
{
	const struct adoption *a = ctx;
	const struct timespec pause = { 0, GROUP_PAUSE_NS };
	const struct machine *m = adopted(a->n, machine);

	if (m != NULL && m->st.sleep != SLEEP_DISK)
		return;
	for (int i = 0; i < GROUP_TRIES && cgroup_remove(&a->n->cg, machine) < 0; i++) {
		cgroup_kill(&a->n->cg, machine);
		nanosleep(&pause, NULL);
	}
}

struct leftovers {
	const struct adoption *a;
	int dir;
};

static void drop_entry(void *ctx, const char *name)
{
	const struct leftovers *l = ctx;

	if (adopted(l->a->n, name) == NULL)
		tree_remove(l->dir, name);
}

static void drop_entries(const struct adoption *a, int dir, unsigned char type)
{
	struct leftovers l = { a, dir };

	if (dir >= 0)
		dir_each(dir, type, drop_entry, &l);
}

/* Masks that no sandbox runs on. */
static void drop_mask(void *ctx, const char *name)
{
	const struct adoption *a = ctx;

	if (strncmp(name, "base-", 5) != 0 || (!a->purge && strcmp(name, a->n->base) == 0))
		return;
	for (uint32_t i = 0; i < RANGES; i++)
		if (a->n->range[i] != NULL && strcmp(a->n->range[i]->st.base, name) == 0)
			return;
	tree_remove(a->n->dir, name);
}

int node_adopt(struct node *n, bool purge, struct err *e)
{
	struct adoption a = { .n = n, .purge = purge };

	(void)e;
	dir_each(n->states, DT_REG, visit_state, &a);
	cgroups_each(&n->cg, drop_group, &a);
	drop_entries(&a, n->run_sb, DT_DIR);
	drop_entries(&a, n->run_ctl, DT_SOCK);
	drop_entries(&a, n->disks.dir, DT_REG);
	drop_entries(&a, n->states, DT_REG);
	dir_each(n->dir, DT_DIR, drop_mask, &a);
	if (a.claimed + a.warm + a.dropped > 0)
		log_info("%zu running and %zu ready sandboxes %s, %zu gone ones removed", a.claimed, a.warm, purge ? "left" : "adopted",
			 a.dropped);
	return 0;
}
