/* GET /metrics. Where the node told the sandbox's limits, /proc's totals are the machine's, so the sandbox's own use is
 * summed up over its processes; otherwise the machine is the sandbox. */
#include "config.h"

#include "agent.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "hutch/when.h"

struct usage {
	int64_t cpu_count, cpu_us;      /* processor time used so far, of all processors together */
	int64_t mem_total, mem_used, mem_cache;      /* bytes */
};

/* The file's text, cut to max - 1 bytes; its length or -1. */
static ssize_t read_text(const char *path, char *out, size_t max)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got = -1;

	if (fd < 0)
		return -1;
	while (len + 1 < max && (got = read(fd, out + len, max - 1 - len)) > 0)
		len += (size_t)got;
	close(fd);
	out[len] = '\0';
	return got < 0 ? -1 : (ssize_t)len;
}

/* Fields 14 to 17 of stat: time of the process and of its waited-for children, in ticks. */
static int64_t process_ticks(const char *stat)
{
	const char *p = strrchr(stat, ')');     /* the name may hold anything */
	long long t[4];

	if (p == NULL || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld", &t[0], &t[1], &t[2], &t[3]) != 4)
		return 0;
	return t[0] + t[1] + t[2] + t[3];
}

static void sum_processes(struct usage *u)
{
	DIR *d = opendir("/proc");
	struct dirent *ent;
	int64_t ticks = 0, pages = 0;
	char path[300], text[1024];

	while (d != NULL && (ent = readdir(d)) != NULL) {
		long long size, resident, shared;

		if (!isdigit((unsigned char)ent->d_name[0]))
			continue;
		snprintf(path, sizeof path, "/proc/%s/stat", ent->d_name);
		if (read_text(path, text, sizeof text) > 0)
			ticks += process_ticks(text);
		snprintf(path, sizeof path, "/proc/%s/statm", ent->d_name);
		if (read_text(path, text, sizeof text) > 0 && sscanf(text, "%lld %lld %lld", &size, &resident, &shared) == 3)
			pages += resident - shared;
	}
	if (d != NULL)
		closedir(d);
	u->cpu_us = ticks * (US_PER_S / sysconf(_SC_CLK_TCK));
	u->mem_used = pages * sysconf(_SC_PAGESIZE);
}

static int64_t meminfo(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p != NULL ? strtoll(p + strlen(name), NULL, 10) * 1024 : 0;
}

static int machine_usage(struct usage *u)
{
	long long t[8] = { 0 };
	char text[4096];

	if (read_text("/proc/stat", text, sizeof text) < 0 || sscanf(text, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &t[0], &t[1],
		   &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) < 4)
		return -1;
	u->cpu_us = (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * (US_PER_S / sysconf(_SC_CLK_TCK));
	if (read_text("/proc/meminfo", text, sizeof text) < 0)
		return -1;
	u->mem_total = meminfo(text, "MemTotal:");
	u->mem_used = u->mem_total - meminfo(text, "MemAvailable:");
	u->mem_cache = meminfo(text, "\nCached:");
	return 0;
}

/* Percent of the processors in use since the call before; two decimals. */
static double cpu_percent(struct agent *a, const struct usage *u, int64_t now)
{
	double pct = 0;

	pthread_mutex_lock(&a->lock);
	if (a->cpu_seen_us != 0 && now > a->cpu_seen_us && u->cpu_us > a->cpu_used_us)
		pct = 100.0 * (double)(u->cpu_us - a->cpu_used_us) / (double)(now - a->cpu_seen_us) / (double)u->cpu_count;
	a->cpu_seen_us = now;
	a->cpu_used_us = u->cpu_us;
	pthread_mutex_unlock(&a->lock);
	if (pct > 100)
		pct = 100;
	return (double)(int64_t)(pct * 100 + 0.5) / 100;
}

static int collect(struct agent *a, struct usage *u, struct statvfs *disk)
{
	int64_t memory_mb;

	pthread_mutex_lock(&a->lock);
	*u = (struct usage){ .cpu_count = a->cpu_count };
	memory_mb = a->memory_mb;
	pthread_mutex_unlock(&a->lock);
	if (u->cpu_count > 0 && memory_mb > 0) {
		sum_processes(u);
		u->mem_total = memory_mb << 20;
	} else if (machine_usage(u) < 0) {
		return -1;
	} else {
		u->cpu_count = sysconf(_SC_NPROCESSORS_ONLN);
	}
	return statvfs("/", disk);
}

void metrics_get(struct agent *a, struct h1_req *r)
{
	struct statvfs disk;
	struct usage u;
	struct buf b;
	struct jw w;

	if (collect(a, &u, &disk) < 0) {
		rest_reply_error(r, 500, NULL, "the system's counters cannot be read");
		return;
	}
	buf_init(&b, 2048);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "ts", wall_us() / US_PER_S);
	jw_kint(&w, "cpu_count", u.cpu_count);
	jw_key(&w, "cpu_used_pct");
	jw_dbl(&w, cpu_percent(a, &u, boot_us()));
	jw_kint(&w, "mem_total", u.mem_total);
	jw_kint(&w, "mem_used", u.mem_used);
	jw_kint(&w, "mem_cache", u.mem_cache);
	jw_kint(&w, "mem_total_mib", u.mem_total >> 20);
	jw_kint(&w, "mem_used_mib", u.mem_used >> 20);
	jw_kint(&w, "disk_used", (int64_t)((disk.f_blocks - disk.f_bavail) * disk.f_frsize));
	jw_kint(&w, "disk_total", (int64_t)(disk.f_blocks * disk.f_frsize));
	jw_close(&w, '}');
	h1_reply(r, 200, "application/json", "Cache-Control: no-store\r\n", buf_str(&b), b.len);
	buf_release(&b);
}
