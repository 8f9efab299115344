#include "config.h"

#include "shape.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CPU_MAX 1024
#define MEMORY_MIN_MB 32
#define MEMORY_MAX_MB (4 << 20)
#define DISK_MIN_ROW_MB 16
#define DISK_MAX_MB (16 << 20)
#define COMMAND_ARGS_MAX 256
#define COMMAND_LEN_MAX 65536

static const char *const members[] = { "template", "image", "cpu_count", "memory_mb", "disk_mb", "warm", "command", "ready_port" };

void shape_release(struct shape *s)
{
	free(s->command);
	s->command = NULL;
}

void shapes_release(struct shape_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		shape_release(&l->row[i]);
	free(l->row);
	l->row = NULL;
	l->n = 0;
}

void shape_copy(struct shape *to, const struct shape *from)
{
	*to = *from;
	to->command = from->command != NULL ? strdup(from->command) : NULL;
}

bool shape_same(const struct shape *a, const struct shape *b)
{
	return strcmp(a->template, b->template) == 0 && strcmp(a->image, b->image) == 0 && a->cpu_count == b->cpu_count &&
	       a->memory_mb == b->memory_mb && a->disk_mb == b->disk_mb && a->ready_port == b->ready_port &&
	       strcmp(a->command != NULL ? a->command : "", b->command != NULL ? b->command : "") == 0;
}

static int read_text(json_object *row, const char *key, char *out, size_t max, struct err *e)
{
	const char *s = NULL;

	if (json_need_str(row, key, max - 1, &s, e) < 0)
		return -1;
	if (s[0] == '\0')
		return err_set(e, ERR_INVALID, "%s is empty", key);
	snprintf(out, max, "%s", s);
	return 0;
}

static int read_u32(json_object *row, const char *key, int64_t min, int64_t max, uint32_t fallback, uint32_t *out, struct err *e)
{
	int64_t v = fallback;

	if (json_get_int(row, key, min, max, &v, e) < 0)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int read_command(json_object *row, struct shape *out, struct err *e)
{
	json_object *a = NULL;
	const char *text;
	int there = json_get_arr(row, "command", &a, e);

	if (there <= 0)
		return there;
	if (json_object_array_length(a) > COMMAND_ARGS_MAX)
		return err_set(e, ERR_INVALID, "command has over %d words", COMMAND_ARGS_MAX);
	for (size_t i = 0; i < json_object_array_length(a); i++)
		if (!json_object_is_type(json_object_array_get_idx(a, i), json_type_string))
			return err_set(e, ERR_INVALID, "command must be an array of strings");
	text = json_object_to_json_string_ext(a, JSON_C_TO_STRING_PLAIN);
	if (strlen(text) > COMMAND_LEN_MAX)
		return err_set(e, ERR_INVALID, "command is too long");
	out->command = strdup(text);
	return 0;
}

static bool template_ok(const char *s)
{
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(s) && s[0] != '.';
}

static int read_fields(json_object *row, const struct shape_limits *lim, struct shape *out, struct err *e)
{
	if (read_text(row, "template", out->template, sizeof out->template, e) < 0 ||
	    read_text(row, "image", out->image, sizeof out->image, e) < 0)
		return -1;
	if (!template_ok(out->template))
		return err_set(e, ERR_INVALID, "template may hold letters, digits, '.', '_' and '-' only");
	if (strcmp(out->image, "host") != 0 && out->image[0] != '/')
		return err_set(e, ERR_INVALID, "image must be `host` or an absolute path");
	if (read_u32(row, "cpu_count", 1, CPU_MAX, 2, &out->cpu_count, e) < 0 ||
	    read_u32(row, "memory_mb", MEMORY_MIN_MB, MEMORY_MAX_MB, 1024, &out->memory_mb, e) < 0 ||
	    read_u32(row, "disk_mb", DISK_MIN_ROW_MB, DISK_MAX_MB, 1024, &out->disk_mb, e) < 0 ||
	    read_u32(row, "warm", 0, lim->warm_max, lim->warm_default, &out->warm, e) < 0 ||
	    read_u32(row, "ready_port", 0, 65535, 0, &out->ready_port, e) < 0)
		return -1;
	return read_command(row, out, e);
}

int shape_read(json_object *row, const struct shape_limits *lim, struct shape *out, struct err *e)
{
	memset(out, 0, sizeof *out);
	if (read_fields(row, lim, out, e) == 0)
		return 0;
	shape_release(out);
	return -1;
}

static int known_members(json_object *row, struct err *e)
{
	json_object_object_foreach(row, key, value) {
		bool known = false;

		(void)value;
		for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
			known = known || strcmp(members[i], key) == 0;
		if (!known)
			return err_set(e, ERR_INVALID, "unknown member %.64s", key);
	}
	return 0;
}

static int check_list(const struct shape_list *l, const struct shape_limits *lim, struct err *e)
{
	const struct shape *last = l->n > 0 ? &l->row[l->n - 1] : NULL;
	uint64_t warm = 0;

	for (size_t i = 0; i < l->n; i++) {
		warm += l->row[i].warm;
		if (&l->row[i] != last && strcmp(l->row[i].template, last->template) == 0)
			return err_set(e, ERR_INVALID, "template %s is there twice", last->template);
	}
	if (warm > lim->warm_max)
		return err_set(e, ERR_INVALID, "warm adds up to %llu, over %u", (unsigned long long)warm, lim->warm_max);
	return 0;
}

static int parse_rows(json_object *rows, const struct shape_limits *lim, struct shape_list *out, struct err *e)
{
	size_t n = json_object_array_length(rows);

	if (n > SHAPES_MAX)
		return err_set(e, ERR_INVALID, "pools has over %d rows", SHAPES_MAX);
	out->row = calloc(n + 1, sizeof *out->row);
	if (out->row == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < n; i++) {
		json_object *row = json_object_array_get_idx(rows, i);

		if (!json_object_is_type(row, json_type_object))
			return err_set(e, ERR_INVALID, "pools[%zu] must be an object", i);
		if (known_members(row, e) < 0 || shape_read(row, lim, &out->row[i], e) < 0)
			return err_wrap(e, "pools[%zu]", i);
		out->n = i + 1;
		if (check_list(out, lim, e) < 0)
			return err_wrap(e, "pools[%zu]", i);
	}
	return 0;
}

int shapes_parse(const char *text, size_t n, const struct shape_limits *lim, struct shape_list *out, struct err *e)
{
	json_object *o = NULL, *rows = NULL;
	int status = -1;

	*out = (struct shape_list){ NULL, 0 };
	if (json_read_object(text, n, &o, e) < 0)
		return -1;
	status = json_get_arr(o, "pools", &rows, e);
	if (status == 0)
		status = err_set(e, ERR_INVALID, "pools is required");
	if (status > 0)
		status = parse_rows(rows, lim, out, e);
	json_object_put(o);
	if (status < 0)
		shapes_release(out);
	return status;
}

void shape_write(struct jw *w, const struct shape *s)
{
	jw_kstr(w, "template", s->template);
	jw_kstr(w, "image", s->image);
	jw_kint(w, "cpu_count", s->cpu_count);
	jw_kint(w, "memory_mb", s->memory_mb);
	jw_kint(w, "disk_mb", s->disk_mb);
	jw_kint(w, "warm", s->warm);
	if (s->command != NULL) {
		jw_key(w, "command");
		jw_raw(w, s->command, strlen(s->command));
	}
	if (s->ready_port != 0)
		jw_kint(w, "ready_port", s->ready_port);
}

void shapes_write(struct buf *b, const struct shape_list *l)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_key(&w, "pools");
	jw_open(&w, '[');
	for (size_t i = 0; i < l->n; i++) {
		jw_open(&w, '{');
		shape_write(&w, &l->row[i]);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	buf_addc(b, '\n');
}

/* outer is inner or one of the directories above it */
static bool contains(const char *outer, const char *inner)
{
	size_t n = strlen(outer);

	if (strncmp(outer, inner, n) != 0)
		return false;
	return inner[n] == '\0' || inner[n] == '/' || (n > 0 && outer[n - 1] == '/');
}

int image_allowed(const char *path, const char *const *own, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;

	if (realpath(path, real) == NULL || stat(real, &st) < 0)
		return err_set(e, ERR_INVALID, "image %.200s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "image %.200s is no directory", path);
	if (strcmp(real, "/") == 0)
		return err_set(e, ERR_INVALID, "image %.200s is the machine's own root", path);
	if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(e, ERR_INVALID, "image %.200s must be owned by root and writable by nobody else", path);
	for (; *own != NULL; own++)
		if (contains(real, *own) || contains(*own, real))
			return err_set(e, ERR_INVALID, "image %.200s holds or is inside %.100s", path, *own);
	return 0;
}
