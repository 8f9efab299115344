/* The vendor's lists as they come (api.md 5.6, 8): all of a page is right, or none of it counts. */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/upstream.h"

#define COUNT_MAX (1 << 24)          /* of processors, MiB */
#define IMAGE_ELSEWHERE "upstream"

const char *const vendor_paths[VENDOR_LISTS] = { "/v2/sandboxes?limit=100", "/v2/templates?limit=100" };

static int need(int got, const char *field, struct err *e)
{
	return got == 0 ? err_set(e, ERR_INVALID, "%s is required", field) : got;
}

static int take_count(json_object *o, const char *field, uint32_t *out, struct err *e)
{
	int64_t n = 0;

	if (need(json_get_int(o, field, 0, COUNT_MAX, &n, e), field, e) < 0)
		return -1;
	*out = (uint32_t)n;
	return 0;
}

static int take_sizes(json_object *o, uint32_t *cpu, uint32_t *memory, uint32_t *disk, struct err *e)
{
	return take_count(o, "cpuCount", cpu, e) < 0 || take_count(o, "memoryMB", memory, e) < 0 ? -1 : take_count(o, "diskSizeMB", disk, e);
}

static int take_time(json_object *o, const char *field, int64_t *us, struct err *e)
{
	const char *text;

	if (json_need_str(o, field, 64, &text, e) < 0)
		return -1;
	if (when_parse(text, strlen(text), us) < 0 || *us <= 0)
		return err_set(e, ERR_INVALID, "%s is no time", field);
	return 0;
}

/* Text of at most size - 1 bytes; "" where it may be absent and is. */
static int take_text(json_object *o, const char *field, bool needed, char *out, size_t size, struct err *e)
{
	const char *text = "";

	if ((needed ? json_need_str(o, field, size - 1, &text, e) : json_get_str(o, field, size - 1, &text, e)) < 0)
		return -1;
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

static int take_id(json_object *o, const char *field, size_t least, char *out, size_t size, struct err *e)
{
	if (take_text(o, field, true, out, size, e) < 0)
		return -1;
	if (strlen(out) < least || strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(out))
		return err_set(e, ERR_INVALID, "%s is no id", field);
	return 0;
}

static int take_state(json_object *o, struct sandbox_rec *r, struct err *e)
{
	const char *state;

	if (json_need_str(o, "state", 16, &state, e) < 0)
		return -1;
	if (strcmp(state, "running") != 0 && strcmp(state, "paused") != 0)
		return err_set(e, ERR_INVALID, "state is neither running nor paused");
	r->state = strcmp(state, "running") == 0 ? SB_RUNNING : SB_PAUSED;
	r->memory = r->state == SB_PAUSED;
	r->due_us = r->state == SB_RUNNING ? r->end_us : 0;
	return 0;
}

static int take_metadata(json_object *o, struct sandbox_rec *r, struct err *e)
{
	json_object *map = NULL;
	int got = json_get_strmap(o, "metadata", &map, e);

	if (got < 1)
		return got;
	return map_canonical("metadata", json_object_to_json_string_ext(map, JSON_C_TO_STRING_PLAIN), &r->metadata, e);
}

static int read_sandbox(json_object *o, struct sandbox_rec *r, struct err *e)
{
	if (take_id(o, "sandboxID", SANDBOX_ID_LEN - 1, r->id, sizeof r->id, e) < 0 ||
	    take_id(o, "templateID", 1, r->template_id, sizeof r->template_id, e) < 0 ||
	    take_text(o, "alias", false, r->alias, sizeof r->alias, e) < 0 ||
	    take_text(o, "envdVersion", true, r->envd_version, sizeof r->envd_version, e) < 0 ||
	    take_sizes(o, &r->cpu_count, &r->memory_mb, &r->disk_mb, e) < 0 || take_time(o, "startedAt", &r->started_us, e) < 0 ||
	    take_time(o, "endAt", &r->end_us, e) < 0 || take_state(o, r, e) < 0 || take_metadata(o, r, e) < 0)
		return -1;
	r->created_us = r->started_us;
	r->pool_kind = POOL_VENDOR;
	memcpy(r->pool, POOL_UPSTREAM_NAME, sizeof POOL_UPSTREAM_NAME);
	memcpy(r->machine, "row_", 4);
	memcpy(r->machine + 4, r->id, sizeof r->id);
	return 0;
}

/* The first alias, whose form is that of ours; without one the template has its id alone. */
static int take_alias(json_object *o, struct template_rec *r, struct err *e)
{
	json_object *list = NULL, *first;
	int got = need(json_get_arr(o, "aliases", &list, e), "aliases", e);
	const char *s;

	if (got < 0 || json_object_array_length(list) == 0)
		return got < 0 ? -1 : 0;
	first = json_object_array_get_idx(list, 0);
	s = json_object_is_type(first, json_type_string) ? json_object_get_string(first) : "";
	if (!name_chars_ok(s, ".") || strlen(s) >= sizeof r->alias)
		return err_set(e, ERR_INVALID, "aliases holds no name");
	memcpy(r->alias, s, strlen(s) + 1);
	return 0;
}

static int read_template(json_object *o, struct template_rec *r, struct err *e)
{
	int64_t count = 0;

	if (take_id(o, "templateID", 1, r->id, sizeof r->id, e) < 0 || take_text(o, "buildID", true, r->build_id, sizeof r->build_id, e) < 0 ||
	    take_alias(o, r, e) < 0 || take_text(o, "envdVersion", true, r->envd_version, sizeof r->envd_version, e) < 0 ||
	    take_sizes(o, &r->cpu_count, &r->memory_mb, &r->disk_mb, e) < 0 || take_time(o, "createdAt", &r->created_us, e) < 0 ||
	    take_time(o, "updatedAt", &r->updated_us, e) < 0 || need(json_get_bool(o, "public", &r->is_public, e), "public", e) < 0 ||
	    json_get_int(o, "spawnCount", 0, INT64_MAX, &count, e) < 0)
		return -1;
	r->spawn_count = (uint64_t)count;
	memcpy(r->pool, POOL_UPSTREAM_NAME, sizeof POOL_UPSTREAM_NAME);
	r->image = strdup(IMAGE_ELSEWHERE);
	return r->image != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int read_all(enum vendor_list what, json_object *list, struct vendor_page *out, struct err *e)
{
	size_t n;

	if (!json_object_is_type(list, json_type_array))
		return err_set(e, ERR_INVALID, "the answer is no array");
	n = json_object_array_length(list);
	if (n > VENDOR_PAGE)
		return err_set(e, ERR_INVALID, "the answer has %zu entries where %d were asked for", n, VENDOR_PAGE);
	out->sandbox = what == VENDOR_SANDBOXES ? calloc(n + 1, sizeof *out->sandbox) : NULL;
	out->template = what == VENDOR_TEMPLATES ? calloc(n + 1, sizeof *out->template) : NULL;
	if (out->sandbox == NULL && out->template == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	for (out->n = 0; out->n < n; out->n++) {
		json_object *o = json_object_array_get_idx(list, out->n);
		size_t i = out->n;

		if (!json_object_is_type(o, json_type_object))
			return err_set(e, ERR_INVALID, "entry %zu is no object", i);
		if ((out->sandbox != NULL ? read_sandbox(o, &out->sandbox[i], e) : read_template(o, &out->template[i], e)) < 0) {
			out->n++;            /* it may hold something by now */
			return err_wrap(e, "entry %zu", i);
		}
	}
	return 0;
}

int vendor_page_read(enum vendor_list what, const char *json, size_t n, bool more, struct vendor_page *out, struct err *e)
{
	json_object *list = NULL;
	int status;

	*out = (struct vendor_page){ .n = 0 };
	if (n == 0)
		return err_set(e, ERR_INVALID, "the answer is empty");
	if (json_read(json, n, &list, e) < 0)
		return err_wrap(e, "the answer is no JSON");
	status = read_all(what, list, out, e);
	json_object_put(list);
	if (status < 0)
		vendor_page_release(out);
	else
		out->full = more || out->n == VENDOR_PAGE;
	return status;
}

void vendor_page_release(struct vendor_page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->sandbox != NULL)
			sandbox_rec_release(&p->sandbox[i]);
		if (p->template != NULL)
			template_rec_release(&p->template[i]);
	}
	free(p->sandbox);
	free(p->template);
	*p = (struct vendor_page){ .n = 0 };
}
