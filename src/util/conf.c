#include "hutch/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/buf.h"
#include "hutch/io.h"

#define VALUE_MAX 2048

#define TEXT(name, fallback, help) { #name, OPT_TEXT, fallback, 0, 0, help, offsetof(struct config, name), NULL }
#define PATH(name, fallback, help) { #name, OPT_PATH, fallback, 0, 0, help, offsetof(struct config, name), NULL }
#define INT(name, fallback, min, max, help) { #name, OPT_INT, fallback, min, max, help, offsetof(struct config, name), NULL }
#define BOOL(name, fallback, help) { #name, OPT_BOOL, fallback, 0, 1, help, offsetof(struct config, name), NULL }
#define CHOICE(name, fallback, choices, help) { #name, OPT_CHOICE, fallback, 0, 0, help, offsetof(struct config, name), choices }

/* A path's default may start with an option of an earlier row. */
const struct config_option config_options[] = {
	PATH(state_dir, HUTCH_LOCALSTATEDIR "/lib/hutch", "records, secret, disks of sandboxes"),
	PATH(run_dir, HUTCH_RUNDIR "/hutch", "sockets"),
	PATH(db_dir, "$state_dir/db", "the LMDB environment"),
	PATH(secret_file, "$state_dir/secret", "instance secret: 64 hex digits, mode 0600"),
	PATH(node_socket, "$run_dir/node.sock", "API socket of hutch-node"),
	PATH(agent_path, HUTCH_LIBEXECDIR "/hutch-envd", "the agent that runs inside every sandbox"),
	PATH(interpreter_path, HUTCH_LIBEXECDIR "/hutch-interpreter", "the code interpreter for templates that start it; need not be there"),
	PATH(base_root, "/", "host userland that image `host` shows, read-only, behind a mask"),
	TEXT(socket_group, "", "group that may open sandbox and node sockets: the web server's; empty = root's"),
	TEXT(domain, "localhost", "sandbox hosts are PORT-ID.domain; may end in :port"),
	INT(db_size_mb, "4096", 16, 1048576, "largest size of the records, in MiB (address space, not memory)"),
	INT(body_max_kb, "1024", 1, 16384, "largest JSON body of the API, in KiB; more is 413"),
	INT(max_hours, "24", 1, 8760, "longest lease of a new team, in hours"),
	INT(team_sandboxes, "1000", 1, 1000000, "sandboxes that a new team may run at once; more is 429"),
	INT(team_snapshots, "100", 0, 100000, "snapshots that a team may keep; more is 429"),
	INT(team_snapshot_mb, "10240", 1, 1073741824, "disk space that the snapshots of a team may take, in MiB; more is 429"),
	INT(event_days, "7", 1, 365, "days that lifecycle events and lines of agents are kept"),
	INT(warm, "2", 0, 1000, "sandboxes kept ready for each template"),
	INT(max_sandboxes, "1000", 1, 10000, "sandboxes of this machine, ready ones too; more is 503"),
	INT(pids_max, "512", 16, 30000, "processes and threads in one sandbox"),
	INT(start_s, "40", 1, 45, "seconds that a create waits for a template's start command to answer on its port; more is 503"),
	INT(repair_s, "60", 1, 3600, "age in seconds at which a half-made record is repaired"),
	INT(webhook_max, "20", 1, 1000, "webhooks of a team; more is 429"),
	INT(webhook_retries, "3", 0, 20, "further attempts to deliver an event to a webhook after the first that failed"),
	INT(webhook_retry_s, "10", 1, 3600, "seconds between two attempts"),
	INT(webhook_timeout_s, "10", 1, 60, "seconds that one attempt may take"),
	BOOL(webhook_private, "false", "webhooks may point to this machine and into private networks"),
	TEXT(upstream_url, "", "API of the account that is mirrored here, such as https://api.e2b.app; empty = none"),
	PATH(upstream_key_file, "", "API key for it, one line, mode 0600"),
	TEXT(upstream_team, "World team", "team that its sandboxes and templates are shown to"),
	INT(upstream_interval_s, "60", 2, 86400, "seconds between two refreshes when no webhook asks for one"),
	INT(upstream_timeout_s, "10", 1, 60, "seconds that one request to it may take"),
	INT(upstream_per_minute, "30", 1, 60, "requests to it per minute, of all programs together; its allowance is 60"),
	BOOL(doors, "true", "the set-up doors (own socket) answer"),
	CHOICE(profile, "full", "full|twin", "what is served: all there is, or only what a twin of E2B serves"),
	BOOL(verification, "false", "machine pools of the kind fake may be enrolled: for tests only"),
	TEXT(default_team, "default", "team of keys that the key file gives no namespace, and of anonymous callers"),
	PATH(key_file, "", "API keys to import: a `key [namespace]` on each line; empty = none"),
	PATH(admin_token_file, "", "token of the admin routes, mode 0600; empty = there are none"),
	BOOL(allow_anonymous, "false", "anyone may do anything as default_team: for development only"),
	INT(rate_create, "0", 0, 1000000, "sandboxes that a team may start per minute; more is 429; 0 = any number"),
	INT(rate_change, "0", 0, 1000000, "other changing requests of a team per minute; 0 = any number"),
	INT(rate_read, "0", 0, 1000000, "reading requests of a team per minute; 0 = any number"),
	INT(rate_burst_s, "10", 1, 3600, "requests of this many seconds may come at once"),
	CHOICE(egress, "on", "on|off", "sandboxes get a way to the internet, where this machine can give it"),
	TEXT(egress_interface, "", "interface that leads to the internet; empty = the one of the default route"),
	TEXT(egress_network, "198.18.0.0/15", "addresses that sandboxes get, one each; used nowhere else on the way"),
	TEXT(egress_dns, "", "name servers of sandboxes, up to 3 IPv4 addresses; empty = those of this machine"),
	BOOL(egress_private, "false", "sandboxes may also reach private networks, but never this machine or each other"),
	INT(metrics_hours, "24", 0, 8760, "hours that samples of what sandboxes use are kept; 0 = none are taken"),
};
const size_t config_options_count = sizeof config_options / sizeof config_options[0];

static const struct config_option *option_find(const char *name, size_t n)
{
	for (size_t i = 0; i < config_options_count; i++)
		if (strlen(config_options[i].name) == n && memcmp(config_options[i].name, name, n) == 0)
			return &config_options[i];
	return NULL;
}

static void *option_at(const struct config *c, const struct config_option *o)
{
	return (char *)(uintptr_t)c + o->offset;
}

static bool is_choice(const char *choices, const char *value)
{
	size_t n = strlen(value);

	for (const char *p = choices; ; p += strcspn(p, "|") + 1) {
		if (strcspn(p, "|") == n && strncmp(p, value, n) == 0)
			return true;
		if (p[strcspn(p, "|")] == '\0')
			return false;
	}
}

static int too_long(const struct config_option *o, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s is longer than %d bytes", o->name, VALUE_MAX);
}

/* A path: "" where that is the default, absolute, or beginning with the path that an option of an earlier row has by now: "$state_dir/db". The caller
 * frees *out. */
static int take_path(const struct config *c, const struct config_option *o, const char *value, char **out, struct err *e)
{
	const struct config_option *base = NULL;
	const char *rest = value;
	struct buf b;

	if (value[0] == '$') {
		rest += 1 + strcspn(value + 1, "/");
		base = option_find(value + 1, (size_t)(rest - value - 1));
		if (base == NULL || base >= o || base->type != OPT_PATH)
			return err_set(e, ERR_INVALID, "%s: %.64s is no path option that comes before it", o->name, value);
		value = *(char **)option_at(c, base);
	}
	if (value[0] != '/' && (value[0] != '\0' || o->fallback[0] != '\0' || base != NULL))
		return err_set(e, ERR_INVALID, "%s must be an absolute path", o->name);
	buf_init(&b, VALUE_MAX);
	buf_adds(&b, value);
	if (base != NULL)
		buf_adds(&b, rest);
	*out = buf_take(&b);
	return *out != NULL ? 0 : too_long(o, e);
}

/* The value of a text in all its kinds; the caller frees *out. */
static int take_text(const struct config *c, const struct config_option *o, const char *value, char **out, struct err *e)
{
	if (o->type == OPT_PATH)
		return take_path(c, o, value, out, e);
	if (o->type == OPT_CHOICE && !is_choice(o->choices, value))
		return err_set(e, ERR_INVALID, "%s must be one of %s", o->name, o->choices);
	if (strlen(value) > VALUE_MAX)
		return too_long(o, e);
	*out = strdup(value);
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int option_set(struct config *c, const struct config_option *o, const char *value, struct err *e)
{
	char *end = NULL;
	long long n;

	switch (o->type) {
	case OPT_TEXT:
	case OPT_PATH:
	case OPT_CHOICE:
		return take_text(c, o, value, option_at(c, o), e);
	case OPT_INT:
		errno = 0;
		n = strtoll(value, &end, 10);
		if (errno != 0 || end == value || *end != '\0' || n < o->min || n > o->max)
			return err_set(e, ERR_INVALID, "%s must be a whole number from %lld to %lld", o->name,
				       (long long)o->min, (long long)o->max);
		*(int64_t *)option_at(c, o) = n;
		return 0;
	case OPT_BOOL:
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
			return err_set(e, ERR_INVALID, "%s must be true or false", o->name);
		*(bool *)option_at(c, o) = value[0] == 't';
		return 0;
	}
	return err_set(e, ERR_INTERNAL, "%s has no type", o->name);
}

static char *trim(char *s)
{
	char *end = s + strlen(s);

	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

/* One line of the file into values[] (by row); -1 names what is wrong. */
static int read_line(char *line, char **values, struct err *e)
{
	const struct config_option *o;
	char *name = trim(line), *eq;

	if (*name == '\0' || *name == '#')
		return 0;
	eq = strchr(name, '=');
	if (eq == NULL)
		return err_set(e, ERR_INVALID, "expected `name = value`");
	*eq = '\0';
	name = trim(name);
	o = option_find(name, strlen(name));
	if (o == NULL)
		return err_set(e, ERR_INVALID, "unknown option %.64s", name);
	if (values[o - config_options] != NULL)
		return err_set(e, ERR_INVALID, "%s is given twice", o->name);
	values[o - config_options] = strdup(trim(eq + 1));
	return 0;
}

static int read_file(const char *path, bool may_miss, char **values, int *lines, struct err *e)
{
	FILE *f = fopen(path, "re");
	char line[4096];
	int status = 0, n = 0, got = 0;

	if (f == NULL && may_miss && errno == ENOENT)
		return 0;
	if (f == NULL)
		return err_sys(e, "%s", path);
	while (status == 0 && (got = line_read(f, line, sizeof line, e)) != 0) {
		n++;
		status = got < 0 ? -1 : read_line(line, values, e);
		for (size_t i = 0; i < config_options_count; i++)
			if (values[i] != NULL && lines[i] == 0)
				lines[i] = n;
	}
	fclose(f);
	return status < 0 ? err_wrap(e, "%s:%d", path, n) : 0;
}

int config_read(struct config *c, const char *path, struct err *e)
{
	char *values[sizeof config_options / sizeof config_options[0]] = { NULL };
	int lines[sizeof config_options / sizeof config_options[0]] = { 0 };
	bool may_miss = false;
	int status;

	memset(c, 0, sizeof *c);
	if (path == NULL)
		path = getenv("HUTCH_CONFIG");
	if (path == NULL) {
		path = HUTCH_SYSCONFDIR "/hutch.conf";
		may_miss = true;
	}
	status = read_file(path, may_miss, values, lines, e);
	for (size_t i = 0; i < config_options_count; i++) {
		const struct config_option *o = &config_options[i];

		if (status == 0 && option_set(c, o, values[i] != NULL ? values[i] : o->fallback, e) < 0)
			status = values[i] != NULL ? err_wrap(e, "%s:%d", path, lines[i]) : err_wrap(e, "%s", path);
		free(values[i]);
	}
	if (status < 0)
		config_release(c);
	return status;
}

void config_release(struct config *c)
{
	for (size_t i = 0; i < config_options_count; i++) {
		const struct config_option *o = &config_options[i];

		if (o->type == OPT_TEXT || o->type == OPT_PATH || o->type == OPT_CHOICE) {
			free(*(char **)option_at(c, o));
			*(char **)option_at(c, o) = NULL;
		}
	}
}

bool config_twin(const struct config *c)
{
	return strcmp(c->profile, "twin") == 0;
}

void config_print(const struct config *c, FILE *out)
{
	for (size_t i = 0; i < config_options_count; i++) {
		const struct config_option *o = &config_options[i];
		const void *v = option_at(c, o);

		if (o->type == OPT_INT)
			fprintf(out, "%s = %lld\n", o->name, (long long)*(const int64_t *)v);
		else if (o->type == OPT_BOOL)
			fprintf(out, "%s = %s\n", o->name, *(const bool *)v ? "true" : "false");
		else
			fprintf(out, "%s = %s\n", o->name, *(char *const *)v);
	}
}
