/* What sandboxes use: control groups tell processor time and memory, the file system of its disk the rest. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "files.h"
#include "hutch/when.h"
#include "node.h"

/* Text of MACHINE/file, "" when there is none. */
static const char *read_control(const struct cg_hierarchy *h, const char *machine, const char *file, char *text, size_t max)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", machine, file);
	if (h->base_fd < 0 || file_read(h->base_fd, path, text, max) < 0)
		text[0] = '\0';
	return text;
}

/* The number after "word " at the start of a line. */
static uint64_t number_after(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n'), p = p != NULL ? p + 1 : NULL)
		if (strncmp(p, word, n) == 0 && p[n] == ' ')
			return strtoull(p + n, NULL, 10);
	return 0;
}

static void memory_use(const struct cg_hierarchy *h, const char *machine, struct cg_use *out)
{
	char text[4096];
	uint64_t all;

	all = strtoull(read_control(h, machine, h->v2 ? "memory.current" : "memory.usage_in_bytes", text, sizeof text), NULL, 10);
	out->mem_cache = number_after(read_control(h, machine, "memory.stat", text, sizeof text), h->v2 ? "file" : "total_cache");
	out->mem_used = all > out->mem_cache ? all - out->mem_cache : 0;
}

/* Fields 14 to 17 of stat: time of the process and of its waited-for children, in ticks. */
static uint64_t process_ticks(long pid)
{
	char path[64], text[1024], *p;
	unsigned long long t[4];

	snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	if (file_read(AT_FDCWD, path, text, sizeof text) < 0 || (p = strrchr(text, ')')) == NULL ||
	    sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3]) != 4)
		return 0;
	return t[0] + t[1] + t[2] + t[3];
}

static uint64_t processes_us(const struct cg_hierarchy *h, const char *machine)
{
	uint64_t ticks = 0;
	char text[8192];
	const char *p = read_control(h, machine, "cgroup.procs", text, sizeof text);

	while (*p != '\0') {
		ticks += process_ticks(strtol(p, NULL, 10));
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return ticks * (uint64_t)(US_PER_S / sysconf(_SC_CLK_TCK));
}

/* Version 1 has the time in the controller cpuacct, which mostly shares the hierarchy of cpu. */
static uint64_t cpu_use(const struct cg_hierarchy *h, const char *machine)
{
	char text[1024];

	if (h->v2)
		return number_after(read_control(h, machine, "cpu.stat", text, sizeof text), "usage_usec");
	return strtoull(read_control(h, machine, "cpuacct.usage", text, sizeof text), NULL, 10) / 1000;
}

void cgroup_use(const struct cgroups *g, const char *machine, struct cg_use *out)
{
	*out = (struct cg_use){ 0 };
	for (size_t i = 0; i < g->n; i++) {
		if ((g->h[i].has & 1U << CG_MEMORY) != 0)
			memory_use(&g->h[i], machine, out);
		if ((g->h[i].has & 1U << CG_CPU) != 0)
			out->cpu_us = cpu_use(&g->h[i], machine);
	}
	for (size_t i = 0; i < g->n && out->cpu_us == 0; i++)
		if (g->h[i].has != 0)
			out->cpu_us = processes_us(&g->h[i], machine);
}

/* ---- the call ---- */

struct seen {
	char id[MACHINE_LEN], ref[REF_LEN];
	pid_t pid;
};

/* Claimed machines, copied: nothing slow is done under the lock. */
static struct seen *claimed(struct node *n, size_t *count)
{
	struct seen *all;

	*count = 0;
	pthread_mutex_lock(&n->lock);
	all = calloc((size_t)n->machines + 1, sizeof *all);
	for (size_t i = 0; all != NULL && i < BUCKETS; i++)
		for (const struct hnode *x = n->ids.bucket[i]; x != NULL; x = x->next) {
			const struct machine *m = (const struct machine *)x;

			if (m->phase != PHASE_CLAIMED || *count == n->machines)
				continue;
			snprintf(all[*count].id, sizeof all->id, "%s", m->st.id);
			snprintf(all[*count].ref, sizeof all->ref, "%s", m->st.claim_ref);
			all[(*count)++].pid = m->st.pid;
		}
	pthread_mutex_unlock(&n->lock);
	return all;
}

static void write_use(struct jw *w, const struct node *n, const struct seen *s)
{
	struct statvfs st = { 0 };
	struct cg_use use;
	char path[64];

	cgroup_use(&n->cg, s->id, &use);
	snprintf(path, sizeof path, "/proc/%d/root", (int)s->pid);
	if (s->pid <= 0 || statvfs(path, &st) < 0)
		memset(&st, 0, sizeof st);
	jw_open(w, '{');
	jw_kstr(w, "id", s->id);
	jw_kstr(w, "claim_ref", s->ref);
	jw_kint(w, "cpu_us", (int64_t)use.cpu_us);
	jw_kint(w, "mem_used_bytes", (int64_t)use.mem_used);
	jw_kint(w, "mem_cache_bytes", (int64_t)use.mem_cache);
	jw_kint(w, "disk_used_bytes", (int64_t)((st.f_blocks - st.f_bfree) * st.f_frsize));
	jw_kint(w, "disk_total_bytes", (int64_t)(st.f_blocks * st.f_frsize));
	jw_close(w, '}');
}

void node_write_use(struct node *n, struct buf *b)
{
	size_t count;
	struct seen *all = claimed(n, &count);
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_key(&w, "sandboxes");
	jw_open(&w, '[');
	for (size_t i = 0; i < count; i++)
		write_use(&w, n, &all[i]);
	jw_close(&w, ']');
	jw_close(&w, '}');
	free(all);
}
