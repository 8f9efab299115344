/* What the operator sees and does across teams (api.md 13). The local pool is one node: the machine that this runs on. */
#include "config.h"

#include "responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "hutch/envd.h"
#include "hutch/when.h"

#define NODE_ID "local"
#define NO_CLUSTER "00000000-0000-0000-0000-000000000000"

/* ---- sandboxes ---- */

static int add_count(void *ctx, const struct team_rec *team, uint64_t running, struct err *e)
{
	struct jw *w = ctx;

	(void)e;
	jw_kint(w, team->id, (int64_t)running);
	return 0;
}

int admin_running_counts(struct call *c, struct err *e)
{
	struct jw w;

	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	if (teams_running(c->d, add_count, &w, e) < 0)
		return -1;
	jw_close(&w, '}');
	return 0;
}

int admin_kill(struct call *c, struct err *e)
{
	struct team_rec team;
	char id[UUID_LEN];
	int killed = 0;
	struct jw w;

	if (take_uuid(c, 0, "the team's id", id, e) < 0 || team_get(c->d, id, &team, e) < 0 || team_kill(c->d, id, &killed, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kint(&w, "killedCount", killed);
	jw_kint(&w, "failedCount", 0);       /* all are marked or none is; the reaper sees to their machines */
	jw_close(&w, '}');
	return 0;
}

/* ---- nodes ---- */

/* Value of the line "name : value" in a file of /proc, "" when there is none. */
static void proc_line(const char *path, const char *name, char *out, size_t max)
{
	FILE *f = fopen(path, "re");
	char line[512];
	size_t n = strlen(name);
	bool found = false;

	out[0] = '\0';
	while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
		const char *p = line + n;

		if (strncmp(line, name, n) != 0)
			continue;
		p += strspn(p, " \t");
		found = *p == ':';
		p += strspn(p, ": \t");
		if (found)
			snprintf(out, max, "%.*s", (int)strcspn(p, "\n"), p);
	}
	if (f != NULL)
		fclose(f);
}

static int64_t meminfo(const char *name)
{
	char text[64];

	proc_line("/proc/meminfo", name, text, sizeof text);
	return strtoll(text, NULL, 10) * 1024;
}

/* Runnable tasks over the last minute, against processors: a share that one reading gives. */
static int64_t cpu_percent(long cpus)
{
	double load = 0;

	if (getloadavg(&load, 1) != 1 || cpus < 1)
		return 0;
	return load * 100 / (double)cpus > 100 ? 100 : (int64_t)(load * 100 / (double)cpus);
}

static void json_disks(struct jw *w, const char *path)
{
	struct statvfs st;

	jw_key(w, "disks");
	jw_open(w, '[');
	if (statvfs(path, &st) == 0) {
		jw_open(w, '{');
		jw_kstr(w, "mountPoint", path);
		jw_kstr(w, "device", "");
		jw_kstr(w, "filesystemType", "");
		jw_kint(w, "usedBytes", (int64_t)((st.f_blocks - st.f_bfree) * st.f_frsize));
		jw_kint(w, "totalBytes", (int64_t)(st.f_blocks * st.f_frsize));
		jw_close(w, '}');
	}
	jw_close(w, ']');
}

static void json_node_metrics(struct jw *w, const struct domain *d, const struct use *use)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t total = meminfo("MemTotal");

	jw_key(w, "metrics");
	jw_open(w, '{');
	jw_kint(w, "allocatedCPU", (int64_t)use->cpu_count);
	jw_kint(w, "cpuPercent", cpu_percent(cpus));
	jw_kint(w, "cpuCount", cpus);
	jw_kint(w, "allocatedMemoryBytes", (int64_t)use->memory_mb << 20);
	jw_kint(w, "memoryUsedBytes", total - meminfo("MemAvailable"));
	jw_kint(w, "memoryTotalBytes", total);
	jw_kint(w, "hugePagesTotal", 0);
	jw_kint(w, "hugePagesUsed", 0);
	jw_kint(w, "hugePagesReserved", 0);
	jw_kint(w, "hugePageSizeBytes", 0);
	json_disks(w, d->conf->state_dir);
	jw_close(w, '}');
}

static void json_machine(struct jw *w)
{
	char family[64], model[64], name[128];
	struct utsname u;

	proc_line("/proc/cpuinfo", "cpu family", family, sizeof family);
	proc_line("/proc/cpuinfo", "model", model, sizeof model);
	proc_line("/proc/cpuinfo", "model name", name, sizeof name);
	jw_key(w, "machineInfo");
	jw_open(w, '{');
	jw_kstr(w, "cpuFamily", family);
	jw_kstr(w, "cpuModel", model);
	jw_kstr(w, "cpuModelName", name);
	jw_kstr(w, "cpuArchitecture", uname(&u) == 0 ? u.machine : "");
	jw_close(w, '}');
}

static const char *const status_names[] = { [NODE_READY] = "ready", [NODE_DRAINING] = "draining", [NODE_STANDBY] = "standby" };

static int json_node(struct call *c, struct jw *w, struct err *e)
{
	char (*templates)[TEMPLATE_ID_LEN] = NULL;
	struct use use;
	struct err why;
	size_t n;
	enum node_status status = NODE_READY;
	int64_t since = 0;
	bool up;

	if (sandboxes_use(c->d, &use, e) < 0 || node_status_get(c->d, &status, &since, e) < 0)
		return -1;
	up = pool_templates(c->d->pool, &templates, &n, &why) == 0;
	free(templates);
	jw_open(w, '{');
	jw_kstr(w, "id", NODE_ID);
	jw_kstr(w, "serviceInstanceID", NODE_ID);
	jw_kstr(w, "clusterID", NO_CLUSTER);
	jw_kstr(w, "version", PACKAGE_VERSION);
	jw_kstr(w, "commit", "");
	jw_kstr(w, "status", up ? status_names[status] : "unhealthy");
	json_time(w, "statusChangedAt", since);
	jw_kint(w, "sandboxCount", (int64_t)(use.state[SB_RUNNING] + use.state[SB_SNAPSHOTTING]));
	json_node_metrics(w, c->d, &use);
	json_machine(w);
	jw_kint(w, "createSuccesses", (int64_t)count_get(c->d, COUNT_CREATED));
	jw_kint(w, "createFails", (int64_t)count_get(c->d, COUNT_CREATE_FAILED));
	jw_kint(w, "sandboxStartingCount", (int64_t)use.state[SB_STARTING]);
	jw_close(w, '}');
	return 0;
}

/* Is that our cluster? 1, 0, or -1. The only one has the id of none. */
static int cluster_is(const char *text, struct err *e)
{
	char id[UUID_LEN];

	if (uuid_canonical(text, id) < 0)
		return err_set(e, ERR_INVALID, "clusterID must be a UUID");
	return strcmp(id, NO_CLUSTER) == 0;
}

/* The same for the query, which need not name one. */
static int query_cluster_is(const struct call *c, struct err *e)
{
	char text[64];
	int got = call_query(c, "clusterID", text, sizeof text, e);

	return got == 1 ? cluster_is(text, e) : got < 0 ? -1 : 1;
}

static int unknown_node(const struct call *c, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "node %.64s is not known", c->param[0]);
}

int nodes_list(struct call *c, struct err *e)
{
	int ours = query_cluster_is(c, e);
	struct jw w;

	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (ours < 0 || (ours == 1 && json_node(c, &w, e) < 0))
		return -1;
	jw_close(&w, ']');
	return 0;
}

static int take_status(const char *name, enum node_status *out, struct err *e)
{
	if (strcmp(name, "connecting") == 0 || strcmp(name, "unhealthy") == 0)
		return err_set(e, ERR_CONFLICT, "%s is what a node is found to be, it cannot be set", name);
	for (size_t i = 0; i < sizeof status_names / sizeof status_names[0]; i++) {
		if (strcmp(name, status_names[i]) == 0) {
			*out = (enum node_status)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "status must be ready, draining, standby, connecting or unhealthy");
}

int node_change(struct call *c, struct err *e)
{
	enum node_status status = NODE_READY;
	const char *name = NULL, *cluster = NO_CLUSTER;
	json_object *o;
	int ours = -1, done = -1;

	if (json_read_body(buf_str(&c->body), c->body.len, &o, e) < 0)
		return -1;
	if (json_get_str(o, "clusterID", 64, &cluster, e) >= 0 && (ours = cluster_is(cluster, e)) >= 0 &&
	    json_need_str(o, "status", 32, &name, e) == 0 && take_status(name, &status, e) == 0)
		done = ours == 1 && strcmp(c->param[0], NODE_ID) == 0 ? node_status_set(c->d, status, e) : unknown_node(c, e);
	json_object_put(o);
	c->status = 204;
	return done;
}

int node_show(struct call *c, struct err *e)
{
	int ours = query_cluster_is(c, e);
	struct jw w;

	if (ours < 0)
		return -1;
	if (ours == 0 || strcmp(c->param[0], NODE_ID) != 0)
		return unknown_node(c, e);
	c->status = 200;
	jw_init(&w, &c->out);
	return json_node(c, &w, e);
}
