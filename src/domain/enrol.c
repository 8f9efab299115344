/* Enrolling a prebuilt image as a template. */
#include "domain_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hutch/crypto.h"
#include "hutch/envd.h"

#define CPU_MAX 32
#define MEMORY_MIN_MB 128
#define MEMORY_MAX_MB (1 << 20)
#define DISK_MIN_MB 16
#define DISK_MAX_MB (1 << 24)
#define COMMAND_MAX 65536
#define COMMAND_WORDS 256

static int check_image(const char *image, uint8_t pool_kind, struct err *e)
{
	struct stat st;

	if (!pool_on_node(pool_kind) && image[0] != '\0' && strlen(image) < 4096)    /* a name that means nothing here */
		return 0;
	if (strcmp(image, "host") == 0)
		return 0;
	if (image[0] != '/' || strlen(image) >= 4096)
		return err_set(e, ERR_INVALID, "image must be \"host\" or the absolute path of a root directory");
	if (stat(image, &st) < 0)
		return err_set(e, ERR_INVALID, "image %.256s: %s", image, strerror(errno));
	return S_ISDIR(st.st_mode) ? 0 : err_set(e, ERR_INVALID, "image %.256s is not a directory", image);
}

static int check_command(const char *command, struct err *e)
{
	json_object *o = NULL;
	size_t n;
	int status = 0;

	if (command == NULL)
		return 0;
	if (strlen(command) > COMMAND_MAX)
		return err_set(e, ERR_INVALID, "command is longer than %d bytes", COMMAND_MAX);
	if (json_read(command, strlen(command), &o, e) < 0)
		return err_wrap(e, "command");
	n = json_object_is_type(o, json_type_array) ? json_object_array_length(o) : 0;
	if (n == 0 || n > COMMAND_WORDS)
		status = err_set(e, ERR_INVALID, "command must be an array of 1 to %d strings", COMMAND_WORDS);
	for (size_t i = 0; i < n && status == 0; i++) {
		json_object *v = json_object_array_get_idx(o, i);

		if (!json_object_is_type(v, json_type_string) ||
		    strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
			status = err_set(e, ERR_INVALID, "command must be an array of strings");
	}
	json_object_put(o);
	return status;
}

/* x.y.z in digits: what both SDKs can compare (api.md 16). */
static bool version_ok(const char *s)
{
	int dots = 0;

	if (strlen(s) > 15 || strspn(s, "0123456789.") != strlen(s))
		return false;
	for (const char *p = s; *p != '\0'; p++) {
		if (*p != '.')
			continue;
		dots++;
		if (p == s || p[1] == '.' || p[1] == '\0')
			return false;
	}
	return dots == 2;
}

static int check_size(const char *field, uint32_t v, uint32_t min, uint32_t max, struct err *e)
{
	if (v >= min && v <= max)
		return 0;
	return err_set(e, ERR_INVALID, "%s must be from %u to %u", field, min, max);
}

static uint32_t wants(const struct template_spec *s)
{
	bool sizes = s->cpu_count != 0 || s->memory_mb != 0 || s->disk_mb != 0;

	return WANT_BIT(WANT_CREATE) | (sizes ? WANT_BIT(WANT_SIZES) : 0) | (s->command != NULL ? WANT_BIT(WANT_COMMAND) : 0);
}

/* The record as asked, without what an earlier one keeps. */
static int fill(const struct template_spec *s, const struct pool_rec *pool, const char *team, int64_t now_us, struct template_rec *r,
		struct err *e)
{
	struct template_ref ref;

	if (s->alias == NULL || s->image == NULL)
		return err_set(e, ERR_INVALID, "%s is required", s->alias == NULL ? "alias" : "image");
	if (template_ref_parse(s->alias, &ref, e) < 0 || ref.ns[0] != '\0' || ref.tag[0] != '\0')
		return err_set(e, ERR_INVALID, "alias must be of a-z, 0-9, - and _, without namespace and tag");
	r->cpu_count = s->cpu_count != 0 ? s->cpu_count : 2;
	r->memory_mb = s->memory_mb != 0 ? s->memory_mb : 1024;
	r->disk_mb = s->disk_mb != 0 ? s->disk_mb : 1024;
	r->ready_port = s->ready_port;
	if (s->ready_port > 65535 || (s->ready_port != 0 && s->command == NULL))
		return err_set(e, ERR_INVALID, "readyPort must be a port of the start command, and there must be one");
	if (check_image(s->image, pool->kind, e) < 0 || check_command(s->command, e) < 0 ||
	    check_size("cpuCount", r->cpu_count, 1, CPU_MAX, e) < 0 ||
	    check_size("memoryMB", r->memory_mb, MEMORY_MIN_MB, MEMORY_MAX_MB, e) < 0 ||
	    check_size("diskSizeMB", r->disk_mb, DISK_MIN_MB, DISK_MAX_MB, e) < 0)
		return -1;
	if (s->envd_version != NULL && !version_ok(s->envd_version))
		return err_set(e, ERR_INVALID, "envdVersion must be three numbers with dots");
	snprintf(r->envd_version, sizeof r->envd_version, "%s", s->envd_version != NULL ? s->envd_version : ENVD_VERSION);
	if (pool_admit(pool_kind_caps(pool->kind), pool->name, wants(s), NULL, e) < 0)
		return -1;
	snprintf(r->alias, sizeof r->alias, "%s", ref.alias);
	snprintf(r->pool, sizeof r->pool, "%s", s->pool != NULL ? s->pool : "");
	snprintf(r->team, sizeof r->team, "%s", team);
	random_id(r->id, TEMPLATE_ID_LEN - 1);
	random_uuid(r->build_id);
	r->is_public = s->is_public;
	r->created_us = r->updated_us = now_us;
	r->image = strdup(s->image);
	r->command = s->command != NULL ? strdup(s->command) : NULL;
	return r->image != NULL && (r->command != NULL || s->command == NULL) ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

/* What an enrolment of the same name keeps. */
static int keep_old(struct txn *t, struct template_rec *r, struct err *e)
{
	struct template_rec old;
	int got = store_template_by_name(t, r->team, r->alias, &old, e);

	if (got != 1)
		return got;
	memcpy(r->id, old.id, sizeof r->id);
	r->created_us = old.created_us;
	r->spawned_us = old.spawned_us;
	r->spawn_count = old.spawn_count;
	template_rec_release(&old);
	return 0;
}

/* A snapshot of the team keeps its name. */
static int free_of_snapshots(struct txn *t, const struct template_rec *r, struct err *e)
{
	struct snapshot_rec s;
	int got = store_snapshot_by_name(t, r->team, r->alias, &s, e);

	return got == 1 ? err_set(e, ERR_CONFLICT, "alias '%s' is the name of a snapshot of the team", r->alias) : got;
}

/* The name without namespace follows is_public. */
static int public_name(struct txn *t, const struct template_rec *r, struct err *e)
{
	struct template_rec other;
	bool ours = false;
	int got = store_template_by_name(t, "", r->alias, &other, e);

	if (got < 0)
		return -1;
	if (got == 1) {
		ours = strcmp(other.id, r->id) == 0;
		template_rec_release(&other);
	}
	if (r->is_public)
		return got == 1 && !ours ? err_set(e, ERR_CONFLICT, "alias '%s' is the public name of another template", r->alias)
					 : store_template_name_put(t, "", r->alias, r->id, e);
	return ours ? store_template_name_delete(t, "", r->alias, e) : 0;
}

static int enrol(struct domain *d, struct txn *t, const struct template_spec *s, struct template_rec *r, struct err *e)
{
	const char *name = s->team != NULL ? s->team : DEFAULT_TEAM;
	struct pool_rec pool;
	struct team_rec team;
	int got = store_team_by_name(t, name, &team, e), status;

	if (got != 1)
		return got < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "team '%.128s' not found", name);
	got = pool_resolve(t, s->pool != NULL ? s->pool : "", &pool, e);
	if (got != 1)
		return got < 0 ? -1 : err_set(e, ERR_INVALID, "pool '%.64s' is not enrolled", s->pool);
	status = fill(s, &pool, team.id, domain_now(d), r, e);
	pool_rec_release(&pool);
	if (status < 0 || free_of_snapshots(t, r, e) < 0 || keep_old(t, r, e) < 0 || public_name(t, r, e) < 0 ||
	    store_template_put(t, r, e) < 0)
		return -1;
	return store_template_name_put(t, r->team, r->alias, r->id, e);
}

/* The default team comes into being with its first use. */
static int default_team(struct domain *d, const struct template_spec *s, struct err *e)
{
	struct team_rec team;
	char key[45];

	if (s->team != NULL && strcmp(s->team, DEFAULT_TEAM) != 0)
		return 0;
	return team_make(d, DEFAULT_TEAM, &team, key, e);
}

int template_enrol(struct domain *d, const struct template_spec *s, struct template_rec *out, struct err *e)
{
	struct txn *t;

	memset(out, 0, sizeof *out);
	if (default_team(d, s, e) < 0)
		return -1;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (enrol(d, t, s, out, e) < 0)
		txn_abort(t);
	else if (txn_commit(t, e) == 0)
		return 0;
	template_rec_release(out);
	return -1;
}
