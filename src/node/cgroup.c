#include "config.h"

#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "hutch/crypto.h"
#include "hutch/log.h"
#include "hutch/when.h"
#include "mountinfo.h"

const char *const cg_names[CG_CONTROLLERS] = { "memory", "cpu", "pids", "freezer" };

static unsigned v1_bits(const char *super)
{
	unsigned bits = 0;

	for (int i = 0; i < CG_CONTROLLERS; i++)
		if (mountinfo_has(super, cg_names[i]))
			bits |= 1U << i;
	return bits;
}

void cgroups_scan(struct cgroups *g, FILE *mountinfo, unsigned (*v2_has)(const char *point))
{
	static const size_t max = sizeof g->h / sizeof g->h[0];
	struct mount_line *m = malloc(sizeof *m);
	char *line = NULL;
	size_t cap = 0;

	g->n = 0;
	g->has = 0;
	while (m != NULL && g->n < max && getline(&line, &cap, mountinfo) > 0) {
		struct cg_hierarchy *h = &g->h[g->n];
		unsigned bits;

		if (mountinfo_line(line, m) < 0 || strncmp(m->fstype, "cgroup", 6) != 0)
			continue;
		h->v2 = strcmp(m->fstype, "cgroup2") == 0;
		bits = (h->v2 ? v2_has(m->point) : v1_bits(m->super)) & ~g->has;
		if (bits == 0)               /* nothing for us, or the second mount of one hierarchy */
			continue;
		memcpy(h->point, m->point, sizeof h->point);
		h->has = bits;
		h->base_fd = -1;
		g->has |= bits;
		g->n++;
	}
	free(line);
	free(m);
}

/* Freezing is no controller in version 2: every group but the root can. */
static unsigned v2_system(const char *point)
{
	char path[PATH_MAX + 32], text[512];
	unsigned bits = 0;

	snprintf(path, sizeof path, "%s/cgroup.controllers", point);
	if (file_read(AT_FDCWD, path, text, sizeof text) < 0)
		return 0;
	for (char *p = text; *p != '\0'; p++)
		if (*p == ' ' || *p == '\n')
			*p = ',';
	bits = v1_bits(text);
	return bits != 0 ? bits | 1U << CG_FREEZER : 0;
}

/* Hand each controller of a version 2 hierarchy down to the children of dir; those that stay off lose their bit. */
static unsigned v2_enable(int dir, unsigned bits)
{
	for (int i = 0; i < CG_FREEZER; i++) {
		char word[16];

		snprintf(word, sizeof word, "+%s", cg_names[i]);
		if ((bits & 1U << i) != 0 && file_write(dir, "cgroup.subtree_control", word) < 0)
			bits &= ~(1U << i);
	}
	return bits;
}

static void hierarchy_open(struct cg_hierarchy *h, const char *base)
{
	int root = open(h->point, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0) {
		h->has = 0;
		return;
	}
	if (h->v2)
		h->has = v2_enable(root, h->has);
	if (mkdirat(root, base, 0755) == 0 || errno == EEXIST)
		h->base_fd = openat(root, base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h->base_fd < 0)
		h->has = 0;
	else if (h->v2)
		h->has = v2_enable(h->base_fd, h->has);
	close(root);
}

int cgroups_open(struct cgroups *g, const char *state_dir, struct err *e)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	uint8_t hash[SHA256_LEN];
	char hex[9];

	if (f == NULL)
		return err_sys(e, "/proc/self/mountinfo");
	cgroups_scan(g, f, v2_system);
	fclose(f);
	sha256(state_dir, strlen(state_dir), hash);
	hex_encode(hash, 4, hex);
	snprintf(g->base, sizeof g->base, "hutch-%s", hex);
	g->has = 0;
	for (size_t i = 0; i < g->n; i++) {
		hierarchy_open(&g->h[i], g->base);
		g->has |= g->h[i].has;
	}
	for (int i = 0; i < CG_CONTROLLERS; i++)
		if ((g->has & 1U << i) == 0)
			log_warn("no cgroup controller %s: sandboxes run without this limit", cg_names[i]);
	return 0;
}

void cgroups_close(struct cgroups *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->h[i].base_fd >= 0)
			close(g->h[i].base_fd);
	g->n = 0;
}

const char *cgroups_kind(const struct cgroups *g)
{
	bool v1 = false, v2 = false;

	for (size_t i = 0; i < g->n; i++)
		if (g->h[i].has != 0)
			*(g->h[i].v2 ? &v2 : &v1) = true;
	if (v1 && v2)
		return "hybrid";
	return v1 ? "v1" : v2 ? "v2" : "none";
}

static int put(int dir, const char *file, unsigned long long value)
{
	char text[32];

	snprintf(text, sizeof text, "%llu", value);
	return file_write(dir, file, text);
}

#define PERIOD_US 100000ULL
#define MEMORY_SPARED (256ULL << 20)

static int limit_memory(int dir, bool v2, const struct cg_limits *l)
{
	unsigned long long bytes = (unsigned long long)l->memory_mb << 20;

	if (put(dir, v2 ? "memory.max" : "memory.limit_in_bytes", bytes) < 0)
		return -1;
	/* without swap accounting in the kernel these files are missing */
	if (v2)
		file_write(dir, "memory.swap.max", "0");
	else
		put(dir, "memory.memsw.limit_in_bytes", bytes);
	return 0;
}

static unsigned long long number_in(const char *path, const char *word)
{
	char text[4096], *p;

	if (file_read(AT_FDCWD, path, text, sizeof text) < 0 || (p = strstr(text, word)) == NULL)
		return 0;
	return strtoull(p + strlen(word), NULL, 10);
}

void cgroups_bound(const struct cgroups *g)
{
	const unsigned long long memory = number_in("/proc/meminfo", "MemTotal:") << 10, pids = number_in("/proc/sys/kernel/pid_max", "");
	const unsigned long long spared = memory / 10 > MEMORY_SPARED ? memory / 10 : MEMORY_SPARED;

	for (size_t i = 0; i < g->n; i++) {
		const struct cg_hierarchy *h = &g->h[i];

		if ((h->has & 1U << CG_MEMORY) != 0 && memory > 2 * spared &&
		    put(h->base_fd, h->v2 ? "memory.max" : "memory.limit_in_bytes", memory - spared) < 0)
			log_warn("memory limit of all sandboxes: %s", strerror(errno));
		if ((h->has & 1U << CG_PIDS) != 0 && pids > 4096 && put(h->base_fd, "pids.max", pids - pids / 4) < 0)
			log_warn("process limit of all sandboxes: %s", strerror(errno));
	}
}

static int limit_cpu(int dir, bool v2, const struct cg_limits *l)
{
	unsigned long long quota = l->cpu_count * PERIOD_US;
	char both[64];

	if (v2) {
		snprintf(both, sizeof both, "%llu %llu", quota, PERIOD_US);
		return file_write(dir, "cpu.max", both);
	}
	if (put(dir, "cpu.cfs_period_us", PERIOD_US) < 0)
		return -1;
	return put(dir, "cpu.cfs_quota_us", quota);
}

static int limits(int dir, const struct cg_hierarchy *h, const struct cg_limits *l, struct err *e)
{
	if ((h->has & 1U << CG_MEMORY) != 0 && limit_memory(dir, h->v2, l) < 0)
		return err_sys(e, "memory limit of %u MiB", l->memory_mb);
	if ((h->has & 1U << CG_CPU) != 0 && limit_cpu(dir, h->v2, l) < 0)
		return err_sys(e, "limit of %u processors", l->cpu_count);
	if ((h->has & 1U << CG_PIDS) != 0 && put(dir, "pids.max", l->pids) < 0)
		return err_sys(e, "limit of %u processes", l->pids);
	return 0;
}

/* *fd is the way in. */
static int group_make(const struct cg_hierarchy *h, const char *machine, const struct cg_limits *l, int *fd, struct err *e)
{
	int dir, status;

	*fd = -1;
	if (mkdirat(h->base_fd, machine, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "cgroup %s/%s", h->point, machine);
	dir = openat(h->base_fd, machine, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "cgroup %s/%s", h->point, machine);
	status = limits(dir, h, l, e);
	if (status == 0)
		*fd = h->v2 ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : openat(dir, "tasks", O_WRONLY | O_CLOEXEC);
	if (status == 0 && *fd < 0)
		status = err_sys(e, "entry of cgroup %s/%s", h->point, machine);
	close(dir);
	return status;
}

int cgroup_make(const struct cgroups *g, const char *machine, const struct cg_limits *l, struct cg_entry *entry, struct err *e)
{
	*entry = (struct cg_entry){ .dir = -1 };
	for (size_t i = 0; i < g->n; i++) {
		const struct cg_hierarchy *h = &g->h[i];
		int fd;

		if (h->has == 0)
			continue;
		if (group_make(h, machine, l, &fd, e) < 0) {
			cgroup_entry_close(entry);
			cgroup_remove(g, machine);
			return -1;
		}
		if (h->v2)
			entry->dir = fd;
		else
			entry->tasks[entry->ntasks++] = fd;
	}
	return 0;
}

void cgroup_entry_close(struct cg_entry *entry)
{
	while (entry->ntasks > 0)
		close(entry->tasks[--entry->ntasks]);
	if (entry->dir >= 0)
		close(entry->dir);
	entry->dir = -1;
}

int cgroup_remove(const struct cgroups *g, const char *machine)
{
	int status = 0;

	for (size_t i = 0; i < g->n; i++)
		if (g->h[i].base_fd >= 0 && unlinkat(g->h[i].base_fd, machine, AT_REMOVEDIR) < 0 && errno != ENOENT)
			status = -1;
	return status;
}

static void group_kill(const struct cg_hierarchy *h, const char *machine)
{
	char path[128];
	int fd;
	FILE *f;
	long pid;

	snprintf(path, sizeof path, "%s/cgroup.procs", machine);
	fd = openat(h->base_fd, path, O_RDONLY | O_CLOEXEC);
	f = fd >= 0 ? fdopen(fd, "r") : NULL;
	while (f != NULL && fscanf(f, "%ld", &pid) == 1)
		if (pid > 1)
			kill((pid_t)pid, SIGKILL);
	if (f != NULL)
		fclose(f);
}

static const struct cg_hierarchy *freezer_of(const struct cgroups *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->h[i].base_fd >= 0 && (g->h[i].has & 1U << CG_FREEZER) != 0)
			return &g->h[i];
	return NULL;
}

bool cgroups_freeze(const struct cgroups *g)
{
	return freezer_of(g) != NULL;
}

static int freeze_write(const struct cg_hierarchy *h, const char *machine, bool freeze)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", machine, h->v2 ? "cgroup.freeze" : "freezer.state");
	return file_write(h->base_fd, path, h->v2 ? (freeze ? "1" : "0") : freeze ? "FROZEN" : "THAWED");
}

/* Whether the group has come to that state; version 1 goes on with it when asked. */
static bool freeze_done(const struct cg_hierarchy *h, const char *machine, bool freeze)
{
	char path[128], text[256];

	snprintf(path, sizeof path, "%s/%s", machine, h->v2 ? "cgroup.events" : "freezer.state");
	if (file_read(h->base_fd, path, text, sizeof text) < 0)
		return false;
	return strstr(text, h->v2 ? (freeze ? "frozen 1" : "frozen 0") : freeze ? "FROZEN" : "THAWED") != NULL;
}

int cgroup_freeze(const struct cgroups *g, const char *machine, bool freeze, int timeout_ms, struct err *e)
{
	const struct cg_hierarchy *h = freezer_of(g);
	const int64_t until = boot_us() + timeout_ms * US_PER_MS;
	struct timespec pause = { 0, 100000 };

	if (h == NULL)
		return err_set(e, ERR_CONFLICT, "there is no cgroup freezer here");
	if (freeze_write(h, machine, freeze) < 0)
		return err_sys(e, "freezer of %s", machine);
	while (!freeze_done(h, machine, freeze)) {
		if (boot_us() > until)
			return err_set(e, ERR_TIMEOUT, "processes of %s do not %s", machine, freeze ? "freeze" : "thaw");
		nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec < 10000000 ? 2 * pause.tv_nsec : pause.tv_nsec;
	}
	return 0;
}

void cgroup_kill(const struct cgroups *g, const char *machine)
{
	const struct cg_hierarchy *h = freezer_of(g);

	for (size_t i = 0; i < g->n; i++)
		if (g->h[i].base_fd >= 0)
			group_kill(&g->h[i], machine);
	/* in version 1 a frozen process does not even die */
	if (h != NULL && !h->v2)
		freeze_write(h, machine, false);
}

void cgroups_each(const struct cgroups *g, void (*fn)(void *ctx, const char *machine), void *ctx)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->h[i].base_fd >= 0)
			dir_each(g->h[i].base_fd, DT_DIR, fn, ctx);
}

void cgroups_remove_base(struct cgroups *g)
{
	for (size_t i = 0; i < g->n; i++) {
		char path[PATH_MAX + 32];

		snprintf(path, sizeof path, "%s/%s", g->h[i].point, g->base);
		if (rmdir(path) < 0 && errno != ENOENT)
			log_warn("cgroup %s stays: %s", path, strerror(errno));
	}
}
