/* Template objects (api.md 8.8). Those that were enrolled have one build, which is ready. */
#include "responder.h"

#include <stdio.h>

static void array_of(struct jw *w, const char *key, const char *s)
{
	jw_key(w, key);
	jw_open(w, '[');
	if (s[0] != '\0')
		jw_str(w, s);
	jw_close(w, ']');
}

/* slug: of its team. */
static void names(struct jw *w, const struct template_rec *t, const char *slug)
{
	char name[2 * NAME_MAX_LEN] = "";

	if (t->alias[0] != '\0')             /* a mirrored one may have none */
		snprintf(name, sizeof name, "%s/%s", slug, t->alias);
	array_of(w, "aliases", t->alias);
	array_of(w, "names", name);
}

static void times(struct jw *w, const struct template_rec *t)
{
	json_time(w, "createdAt", t->created_us);
	json_time(w, "updatedAt", t->updated_us);
	json_time(w, "lastSpawnedAt", t->spawned_us);
	jw_kint(w, "spawnCount", (int64_t)t->spawn_count);
}

static void sizes(struct jw *w, const struct template_rec *t)
{
	jw_kstr(w, "buildID", t->build_id);
	jw_kint(w, "cpuCount", t->cpu_count);
	jw_kint(w, "memoryMB", t->memory_mb);
	jw_kint(w, "diskSizeMB", t->disk_mb);
	jw_kstr(w, "envdVersion", t->envd_version);
}

void json_template(struct jw *w, const struct template_rec *t, const char *slug)
{
	jw_open(w, '{');
	jw_kstr(w, "templateID", t->id);
	sizes(w, t);
	jw_kbool(w, "public", t->is_public);
	names(w, t, slug);
	times(w, t);
	jw_kstr(w, "createdBy", NULL);
	jw_kint(w, "buildCount", 1);
	jw_kstr(w, "buildStatus", "ready");
	jw_close(w, '}');
}

void json_template_builds(struct jw *w, const struct template_rec *t, const char *slug)
{
	jw_open(w, '{');
	jw_kstr(w, "templateID", t->id);
	jw_kbool(w, "public", t->is_public);
	names(w, t, slug);
	times(w, t);
	jw_key(w, "builds");
	jw_open(w, '[');
	jw_open(w, '{');
	sizes(w, t);
	jw_kstr(w, "status", "ready");
	json_time(w, "createdAt", t->updated_us);
	json_time(w, "updatedAt", t->updated_us);
	json_time(w, "finishedAt", t->updated_us);
	jw_close(w, '}');
	jw_close(w, ']');
	jw_close(w, '}');
}
