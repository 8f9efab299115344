/* Start and end of a machine. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl.h"
#include "files.h"
#include "hutch/log.h"
#include "hutch/envd.h"
#include "hutch/when.h"
#include "node.h"
#include "sys.h"

#define BACKLOG 512
#define AGENT_START_MS 10000
#define DEATH_MS 20000

int bind_at(int dir, const char *name, mode_t mode, gid_t gid, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_sys(e, "socket");
	/* through the descriptor: getsockname(2) tells a guest this name and no path of the host */
	snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", dir, name);
	if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && fchmodat(dir, name, mode, 0) == 0 && fchownat(dir, name, 0, gid, 0) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	err_sys(e, "socket %s", name);
	close(fd);
	return -1;
}

struct start {
	int fds[SPAWN_FDS_MAX];
	size_t n;
	struct spawn_req req;
};

static void start_release(struct start *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->fds[i] >= 0)
			close(s->fds[i]);
}

/* The directory becomes passable for the web server only once the socket in it has its mode. */
static int make_sockets(struct node *n, const struct machine *m, struct start *s, struct err *e)
{
	char port[8];
	int dir;

	if (mkdirat(n->run_sb, m->st.id, 0700) < 0)
		return err_sys(e, "directory of sockets");
	dir = openat(n->run_sb, m->st.id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "directory of sockets");
	snprintf(port, sizeof port, "%d", ENVD_PORT);
	s->fds[SPAWN_LISTEN] = bind_at(dir, port, 0660, n->gid, e);
	if (s->fds[SPAWN_LISTEN] >= 0 && (fchown(dir, 0, n->gid) < 0 || fchmod(dir, 0710) < 0)) {
		err_sys(e, "directory of sockets");
		close(s->fds[SPAWN_LISTEN]);
		s->fds[SPAWN_LISTEN] = -1;
	}
	close(dir);
	if (s->fds[SPAWN_LISTEN] < 0)
		return -1;
	s->fds[SPAWN_CTL] = bind_at(n->run_ctl, m->st.id, 0600, (gid_t)-1, e);
	return s->fds[SPAWN_CTL] < 0 ? -1 : 0;
}

static int tree_of(const char *path, int *out, struct err *e)
{
	*out = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return *out < 0 ? err_sys(e, "image %s", path) : 0;
}

static int open_image(struct node *n, const struct machine *m, struct start *s, struct err *e)
{
	const char *const own[] = { n->conf->state_dir, n->conf->run_dir, NULL };
	const char *image = m->st.shape.image;

	s->req.host_image = strcmp(image, "host") == 0;
	if (s->req.host_image && n->base[0] == '\0')
		return err_set(e, ERR_INVALID, "image host: %s", n->base_error);
	if (s->req.host_image)
		return tree_of(n->base_path, &s->fds[SPAWN_ROOT], e) < 0 || tree_of(n->usr_path, &s->fds[SPAWN_USR], e) < 0 ? -1 : 0;
	if (image_allowed(image, own, e) < 0 || tree_of(image, &s->fds[SPAWN_ROOT], e) < 0)
		return -1;
	s->fds[SPAWN_USR] = fcntl(s->fds[SPAWN_ROOT], F_DUPFD_CLOEXEC, 3);
	return s->fds[SPAWN_USR] < 0 ? err_sys(e, "image %s", image) : 0;
}

/* Tasks beyond pids_max that are left to the agent: a user's fork bomb must not keep it from answering. Without a user namespace the
 * sandboxes' users are one to the kernel, and a limit for each of them would hold for all together. */
#define AGENT_TASKS 256

static int open_disk(struct node *n, struct machine *m, int *mount, struct err *e)
{
	if (m->st.sleep == SLEEP_DISK)
		return disk_reopen(&n->disks, m->st.id, &m->disk, mount, e);
	if (m->image >= 0)
		return disk_clone(&n->disks, m->image, m->st.id, &m->disk, mount, e);
	return disk_make(&n->disks, m->st.shape.disk_mb, m->st.id, &m->disk, mount, e);
}

static int gather(struct node *n, struct machine *m, struct start *s, struct err *e)
{
	const struct shape *shape = &m->st.shape;
	const bool userns = n->spawner.hello.userns;
	const uint32_t pids = (uint32_t)n->conf->pids_max;
	const struct cg_limits limits = { shape->cpu_count, shape->memory_mb, userns ? pids + AGENT_TASKS : pids };
	struct cg_entry entry;

	if (make_sockets(n, m, s, e) < 0 || open_image(n, m, s, e) < 0)
		return -1;
	if (open_disk(n, m, &s->fds[SPAWN_DISK], e) < 0)
		return -1;
	if (cgroup_make(&n->cg, m->st.id, &limits, &entry, e) < 0)
		return -1;
	for (size_t i = 0; i < entry.ntasks; i++)
		s->fds[s->n++] = entry.tasks[i];
	s->req.cgroup2 = entry.dir >= 0;
	if (s->req.cgroup2)
		s->fds[s->n++] = entry.dir;
	s->req.base = m->st.ids;
	s->req.shm_mb = shape->memory_mb / 2 > 0 ? shape->memory_mb / 2 : 1;
	s->req.ntasks = (uint32_t)entry.ntasks;
	s->req.userns = userns;
	s->req.guest = shape->command != NULL;
	s->req.nproc = userns ? pids : 0;
	snprintf(s->req.hostname, sizeof s->req.hostname, "%s", SANDBOX_HOSTNAME);
	memcpy(s->req.resolv, n->resolv, sizeof s->req.resolv);
	return 0;
}

static int spawn_it(struct node *n, struct machine *m, bool background, int *steps, struct err *e)
{
	struct start s = { .n = SPAWN_CGROUPS };
	struct spawn_rep rep;
	int status;

	for (size_t i = 0; i < SPAWN_FDS_MAX; i++)
		s.fds[i] = -1;
	s.req.background = background;
	status = gather(n, m, &s, e);
	if (status == 0)
		status = spawner_run(&n->spawner, &s.req, s.fds, s.n, &rep, &m->pidfd, steps, e);
	start_release(&s);
	if (status < 0)
		return -1;
	pthread_mutex_lock(&n->lock);        /* lists show them */
	m->st.pid = rep.pid;
	m->st.start = rep.start;
	pthread_mutex_unlock(&n->lock);
	return 0;
}

static int greet(struct node *n, struct machine *m, struct err *e)
{
	m->ctl = ctl_connect(n->run_ctl, m->st.id, e);
	return m->ctl < 0 ? -1 : ctl_ping(m->ctl, AGENT_START_MS, e);
}

int machine_boot(struct node *n, struct machine *m, bool background, struct err *e)
{
	struct err why;
	int steps, wired;

	if (spawn_it(n, m, background, &steps, e) < 0)
		return -1;
	wired = machine_wire(n, m, &why);    /* while its root is built and the agent starts */
	if (spawner_await(steps, e) < 0)
		return -1;
	if (wired < 0) {
		*e = why;
		return -1;
	}
	return greet(n, m, e) == 0 && machine_start(n, m, e) == 0 ? 0 : -1;
}

int machine_create(struct node *n, struct machine *m, bool background, struct err *e)
{
	struct err why;

	if (machine_boot(n, m, background, e) == 0 && machine_save(n, m, e) == 0) {
		watch(n, m);
		return 0;
	}
	if (machine_end(n, m, &why) < 0)
		log_error("%s", why.text);
	return -1;
}

/* Its end is no news from here on. The disk is the cleaner's, perhaps another sandbox's, once the machine is DEAD: hence the lock. */
static void doom(struct node *n, struct machine *m)
{
	pthread_mutex_lock(&n->lock);
	m->doomed = true;
	if (m->phase != PHASE_DEAD)
		disk_abandon(&m->disk);
	pthread_mutex_unlock(&n->lock);
}

int machine_end(struct node *n, struct machine *m, struct err *e)
{
	struct pollfd p = { .fd = m->pidfd, .events = POLLIN };
	int got = 1;

	doom(n, m);
	if (m->pidfd >= 0) {
		sys_pidfd_send_signal(m->pidfd, SIGKILL);
		if (m->st.sleep != SLEEP_NONE)
			cgroup_kill(&n->cg, m->st.id);
		while ((got = poll(&p, 1, DEATH_MS)) < 0 && errno == EINTR)
			continue;
	}
	if (got <= 0)
		return err_set(e, ERR_TIMEOUT, "release failed: sandbox %s (pid %d) does not die", m->st.id, (int)m->st.pid);
	pthread_mutex_lock(&n->lock);
	machine_retire(n, m);
	pthread_mutex_unlock(&n->lock);
	return 0;
}

/* With ctl_lock held. out NULL: nothing but ok is asked for. */
static int ctl_locked(struct node *n, struct machine *m, const char *line, size_t len, int pass_fd, int timeout_ms, json_object **out,
		      struct err *e)
{
	int status;

	if (m->ctl < 0)
		m->ctl = ctl_connect(n->run_ctl, m->st.id, e);
	if (m->ctl < 0)
		return -1;
	status = out != NULL ? ctl_ask(m->ctl, line, len, pass_fd, timeout_ms, out, e) : ctl_call(m->ctl, line, len, pass_fd, timeout_ms, e);
	if (status < 0) {                    /* what it may still answer belongs to no later call */
		close(m->ctl);
		m->ctl = -1;
	}
	return status;
}

int machine_ctl(struct node *n, struct machine *m, const char *line, size_t len, int pass_fd, int timeout_ms, struct err *e)
{
	int status;

	pthread_mutex_lock(&m->ctl_lock);
	status = ctl_locked(n, m, line, len, pass_fd, timeout_ms, NULL, e);
	pthread_mutex_unlock(&m->ctl_lock);
	return status;
}

int machine_ask(struct node *n, struct machine *m, const char *line, size_t len, int pass_fd, int timeout_ms, json_object **out, struct err *e)
{
	int64_t end = boot_us() + timeout_ms * US_PER_MS, left;
	struct timespec until;
	int status;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += timeout_ms * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	if (pthread_mutex_timedlock(&m->ctl_lock, &until) != 0)
		return err_set(e, ERR_TIMEOUT, "the sandbox's agent is busy");
	left = (end - boot_us()) / US_PER_MS;
	status = ctl_locked(n, m, line, len, pass_fd, left > 0 ? (int)left : 0, out, e);
	pthread_mutex_unlock(&m->ctl_lock);
	return status;
}
