/*
 * cgroup.h - limits of sandboxes by control groups, version 1, version 2 or a mixture, found out per controller from
 * /proc/self/mountinfo; no service manager is assumed.
 *
 * Groups are HIERARCHY/hutch-XXXXXXXX/MACHINE, X being from the hash of the state directory. They hang below the root of
 * each hierarchy and not below the daemon's own group, so that a supervisor that ends the daemon's group does not end the
 * sandboxes (they outlive a restart of the daemon).
 */
#ifndef HUTCH_CGROUP_H
#define HUTCH_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "hutch/err.h"

enum cg_controller { CG_MEMORY, CG_CPU, CG_PIDS, CG_FREEZER, CG_CONTROLLERS };
extern const char *const cg_names[CG_CONTROLLERS];

struct cg_hierarchy {
	char point[PATH_MAX];        /* mount point */
	bool v2;
	unsigned has;                /* bits of enum cg_controller that it serves us */
	int base_fd;                 /* directory of this daemon's groups, -1 before cgroups_open */
};

struct cgroups {
	struct cg_hierarchy h[CG_CONTROLLERS + 1];
	size_t n;
	unsigned has;                /* union of all */
	char base[24];               /* "hutch-XXXXXXXX" */
};

struct cg_limits {
	uint32_t cpu_count, memory_mb, pids;
};

/* Fill g from the lines of mountinfo. `v2_has` tells the controllers of a version 2 mount point (bits): it is asked for
 * each one, since their list stands in a file there. */
void cgroups_scan(struct cgroups *g, FILE *mountinfo, unsigned (*v2_has)(const char *point));
/* Scan this system's, make the base directories, turn controllers on. Absent controllers are no error: see g->has. */
int cgroups_open(struct cgroups *g, const char *state_dir, struct err *e);
void cgroups_close(struct cgroups *g);
/* Bound all sandboxes together below what the machine has, so that many at their limits leave room for everything else. */
void cgroups_bound(const struct cgroups *g);
const char *cgroups_kind(const struct cgroups *g);       /* "none", "v1", "v2", "hybrid" */

/* Ways into the groups of a machine. Neither takes the lock over all processes of the system that moving a process by its number
 * takes, and with it a wait for every processor (10 ms and more on a busy machine). */
struct cg_entry {
	int tasks[CG_CONTROLLERS];   /* version 1: files that the process itself writes "0" to */
	size_t ntasks;
	int dir;                     /* version 2: directory for CLONE_INTO_CGROUP, or -1 */
};

/* Make the groups of a machine with its limits. The descriptors are the caller's to close. */
int cgroup_make(const struct cgroups *g, const char *machine, const struct cg_limits *l, struct cg_entry *entry, struct err *e);
void cgroup_entry_close(struct cg_entry *entry);
/* 0 all gone, -1 something is left (processes still dying): ask again. */
int cgroup_remove(const struct cgroups *g, const char *machine);
/* What a machine's groups count. What no controller tells is 0, processor time then is the sum over its processes. */
struct cg_use {
	uint64_t cpu_us, mem_used, mem_cache;    /* mem_used: without the cache */
};
void cgroup_use(const struct cgroups *g, const char *machine, struct cg_use *out);
/* SIGKILL to every process in the machine's groups, frozen or not. */
void cgroup_kill(const struct cgroups *g, const char *machine);
/* Whether sandboxes can be frozen here. */
bool cgroups_freeze(const struct cgroups *g);
/* All processes of the machine stand still, or go on. Twice is harmless. -1 when that takes longer. */
int cgroup_freeze(const struct cgroups *g, const char *machine, bool freeze, int timeout_ms, struct err *e);
/* fn for each machine that has a group, in no order; a machine may come once per hierarchy. */
void cgroups_each(const struct cgroups *g, void (*fn)(void *ctx, const char *machine), void *ctx);
/* Remove the (empty) base directories too. */
void cgroups_remove_base(struct cgroups *g);

#endif
