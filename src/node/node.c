/* Start and stop of the daemon: see node.h. */
#include "config.h"

#include "node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "hutch/log.h"
#include "hutch/when.h"

#define SUN_PATH_MAX 107             /* of struct sockaddr_un, without the NUL */
#define LOCK_WAIT_US (5 * US_PER_S)
#define API_FILES 1200               /* connections of the API, and our own */
#define STOP_WAIT_US (5 * US_PER_S)

static int find_group(const struct config *conf, gid_t *gid, struct err *e)
{
	const struct group *g;

	*gid = 0;
	if (conf->socket_group[0] == '\0')
		return 0;
	g = getgrnam(conf->socket_group);
	if (g == NULL)
		return err_set(e, ERR_INVALID, "socket_group %s does not exist", conf->socket_group);
	*gid = g->gr_gid;
	return 0;
}

int node_check(const struct config *conf, gid_t *gid, struct err *e)
{
	const size_t longest = strlen(conf->run_dir) + strlen("/sb/") + MACHINE_LEN - 1 + strlen("/65535");

	if (longest > SUN_PATH_MAX)
		return err_set(e, ERR_INVALID, "run_dir %s is too long: socket paths below it would be over %d bytes", conf->run_dir, SUN_PATH_MAX);
	if (strlen(conf->node_socket) > SUN_PATH_MAX)
		return err_set(e, ERR_INVALID, "node_socket %s is longer than %d bytes", conf->node_socket, SUN_PATH_MAX);
	if (access(conf->agent_path, X_OK) < 0)
		return err_sys(e, "agent_path %s", conf->agent_path);
	if (conf->max_sandboxes > RANGES)
		return err_set(e, ERR_INVALID, "max_sandboxes is over %u", RANGES);
	return lane_check(conf, e) < 0 ? -1 : find_group(conf, gid, e);
}

static char *join(const char *a, const char *b)
{
	char *s = NULL;

	return asprintf(&s, "%s/%s", a, b) < 0 ? NULL : s;
}

/* A directory below another; its descriptor. */
static int sub_dir(const char *parent, const char *name, mode_t mode, gid_t gid, struct err *e)
{
	char *path = join(parent, name);
	int fd = path != NULL ? dir_make(path, mode, gid, e) : err_set(e, ERR_INTERNAL, "out of memory");

	free(path);
	return fd;
}

/* One daemon per state directory; the old one's spawner may hold the lock for a moment longer. */
static int take_lock(struct node *n, struct err *e)
{
	const struct timespec pause = { 0, 20000000 };
	const int64_t until = boot_us() + LOCK_WAIT_US;

	n->lock_fd = openat(n->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (n->lock_fd < 0)
		return err_sys(e, "%s/lock", n->dir_path);
	while (flock(n->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "%s/lock", n->dir_path);
		if (boot_us() > until)
			return err_set(e, ERR_CONFLICT, "another hutch-node works in %s", n->conf->state_dir);
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int open_dirs(struct node *n, struct err *e)
{
	int run;

	n->dir_path = join(n->conf->state_dir, "node");
	if (n->dir_path == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	n->dir = dir_make(n->dir_path, 0700, (gid_t)-1, e);
	if (n->dir < 0 || take_lock(n, e) < 0)
		return -1;
	n->states = sub_dir(n->dir_path, "sb", 0700, (gid_t)-1, e);
	if (n->states < 0)
		return -1;
	n->ck = sub_dir(n->dir_path, "ck", 0700, (gid_t)-1, e);
	if (n->ck < 0)
		return -1;
	n->run_sb = sub_dir(n->conf->run_dir, "sb", 0710, n->gid, e);
	run = n->run_sb < 0 ? -1 : sub_dir(n->conf->run_dir, "node", 0700, (gid_t)-1, e);
	if (run < 0)
		return -1;
	close(run);
	n->run_ctl = sub_dir(n->conf->run_dir, "node/ctl", 0700, (gid_t)-1, e);
	return n->run_ctl < 0 ? -1 : 0;
}

/* A sandbox takes three descriptors: control socket, process, disk. */
static void raise_files(const struct config *conf)
{
	const rlim_t want = 3 * (rlim_t)conf->max_sandboxes + API_FILES;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if (r.rlim_cur < want)
		log_warn("max_sandboxes = %lld needs %llu open files, the hard limit is %llu", (long long)conf->max_sandboxes,
			 (unsigned long long)want, (unsigned long long)r.rlim_cur);
}

static void init_locks(struct node *n)
{
	pthread_condattr_t a;

	pthread_mutex_init(&n->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&n->changed, &a);
	pthread_cond_init(&n->work, &a);
	pthread_cond_init(&n->dirt, &a);
	pthread_condattr_destroy(&a);
}

int node_open(struct node *n, const struct config *conf, struct err *e)
{
	memset(n, 0, sizeof *n);
	n->conf = conf;
	n->lock_fd = n->dir = n->states = n->ck = n->run_sb = n->run_ctl = n->epoll = n->wake = n->listen_fd = -1;
	n->spawner.sock = -1;
	n->lane.space = n->lane.route = n->lane.filter = -1;
	n->disks.dir = n->disks.nodes = n->disks.control = -1;
	init_locks(n);
	if (geteuid() != 0)
		return err_set(e, ERR_DENIED, "hutch-node must be started by root");
	if (node_check(conf, &n->gid, e) < 0)
		return -1;
	umask(022);
	raise_files(conf);
	if (open_dirs(n, e) < 0 || boot_id(n->boot, e) < 0 || cgroups_open(&n->cg, conf->state_dir, e) < 0)
		return -1;
	n->epoll = epoll_create1(EPOLL_CLOEXEC);
	n->wake = eventfd(0, EFD_CLOEXEC);
	return n->epoll < 0 || n->wake < 0 ? err_sys(e, "descriptors") : 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void free_machines(struct node *n)
{
	for (uint32_t i = 0; i < RANGES; i++) {
		struct machine *m = n->range[i];

		if (m == NULL)
			continue;
		m->refs = 1;
		machine_put(n, m);
		n->range[i] = NULL;
	}
}

void node_close(struct node *n)
{
	node_stop(n);
	free_machines(n);
	checkpoints_free(n);
	for (size_t i = 0; i < n->npools; i++) {
		shape_release(&n->pool[i]->shape);
		free(n->pool[i]);
	}
	free(n->pool);
	if (n->spawner.sock >= 0)
		spawner_close(&n->spawner);
	if (n->disks.dir >= 0)
		disks_close(&n->disks);
	cgroups_close(&n->cg);
	lane_close(&n->lane);
	close_fd(&n->listen_fd);
	close_fd(&n->epoll);
	close_fd(&n->wake);
	close_fd(&n->run_ctl);
	close_fd(&n->run_sb);
	close_fd(&n->ck);
	close_fd(&n->states);
	close_fd(&n->dir);
	close_fd(&n->lock_fd);
	free(n->base_path);
	free(n->usr_path);
	free(n->dir_path);
}

/* The mask. A host that cannot serve as image `host` may still run others. */
static int make_base(struct node *n, struct err *e)
{
	struct err why;

	n->usr_path = join(strcmp(n->conf->base_root, "/") == 0 ? "" : n->conf->base_root, "usr");
	if (base_make(n->dir, n->conf->base_root, n->base, &why) < 0) {
		n->base[0] = '\0';
		snprintf(n->base_error, sizeof n->base_error, "%.*s", (int)sizeof n->base_error - 1, why.text);
		log_error("image host cannot be had: %s", why.text);
	}
	n->base_path = join(n->dir_path, n->base);
	return n->usr_path == NULL || n->base_path == NULL ? err_set(e, ERR_INTERNAL, "out of memory") : 0;
}

static int open_disks(struct node *n, struct err *e)
{
	char *path = join(n->dir_path, "disk");
	int status = path != NULL ? disks_open(&n->disks, path, e) : err_set(e, ERR_INTERNAL, "out of memory");

	free(path);
	return status;
}

/* Hex digits of the state directory's hash: no two daemons of a machine have the same. */
static const char *hash_of(const struct node *n)
{
	return n->cg.base + strlen("hutch-");
}

/* Ranges of host ids begin where the hash of the state directory says. */
static void seed_ranges(struct node *n)
{
	n->range_next = (uint32_t)strtoul(hash_of(n), NULL, 16) % RANGES;
}

static int open_lane(struct node *n, struct err *e)
{
	if (lane_open(&n->lane, n->conf, hash_of(n), n->dir, e) < 0)
		return -1;
	lane_resolv(&n->lane, n->resolv, sizeof n->resolv);
	if (n->lane.on)
		log_info("sandboxes reach the internet by %s%s", n->lane.net.uplink, n->resolv[0] == '\0' ? ", without a name server: see egress_dns" : "");
	else if (strcmp(n->conf->egress, "on") == 0)
		log_warn("sandboxes have no way to the internet: %s", n->lane.why);
	return 0;
}

int node_start(struct node *n, struct err *e)
{
	const struct spawn_hello *h = &n->spawner.hello;

	cgroups_bound(&n->cg);
	seed_ranges(n);
	if (make_base(n, e) < 0 || open_disks(n, e) < 0 || open_lane(n, e) < 0)
		return -1;
	if (spawner_open(&n->spawner, n->lock_fd, n->conf->agent_path, n->base_path, n->usr_path, n->conf->interpreter_path, e) < 0)
		return -1;
	if (!h->userns)
		log_warn("no user namespaces with id-mapped mounts (%s: %s): root of a sandbox is the host's, with few capabilities", h->step,
			 strerror(h->error));
	checkpoints_load(n);
	if (node_load_pools(n, e) < 0 || node_adopt(n, false, e) < 0)
		return -1;
	return workers_start(n, e) < 0 || api_start(n, e) < 0 ? -1 : 0;
}

/* Calls under way get their time; then the process ends whatever they do. */
static void wait_calls(struct node *n)
{
	const struct timespec pause = { 0, 5000000 };
	const int64_t until = boot_us() + STOP_WAIT_US;
	int busy;

	do {
		pthread_mutex_lock(&n->lock);
		busy = n->busy;
		pthread_mutex_unlock(&n->lock);
		if (busy > 0)
			nanosleep(&pause, NULL);
	} while (busy > 0 && boot_us() < until);
}

void node_stop(struct node *n)
{
	pthread_mutex_lock(&n->lock);
	n->closing = true;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->lock);
	if (n->server != NULL) {
		h1_server_stop(n->server);
		n->server = NULL;
		wait_calls(n);
	}
	workers_stop(n);
	if (n->lane.on && n->machines == 0)
		lane_remove(&n->lane, hash_of(n), n->dir);
}

int node_purge(struct node *n, struct err *e)
{
	int run;

	if (open_disks(n, e) < 0 || node_adopt(n, true, e) < 0)
		return -1;
	cgroups_remove_base(&n->cg);
	lane_remove(&n->lane, hash_of(n), n->dir);
	run = open(n->conf->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run >= 0) {
		tree_remove(run, "sb");
		tree_remove(run, "node");
		close(run);
	}
	unlink(n->conf->node_socket);
	tree_remove(n->dir, "disk");
	tree_remove(n->dir, "ck");
	return 0;
}
