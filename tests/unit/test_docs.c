/* docs/api.md against the route tables, docs/configure.md against the table of options: both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "responder.h"

static char *read_doc(const char *name)
{
	const char *srcdir = getenv("srcdir");
	char path[4096];
	struct buf b;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "%s/docs/%s", srcdir != NULL ? srcdir : ".", name);
	f = fopen(path, "re");
	if (f == NULL)
		fail_msg("%s cannot be read", path);
	buf_init(&b, 1 << 20);
	while (buf_room(&b, 4096) != NULL && (n = fread(b.p + b.len, 1, 4096, f)) > 0) {
		b.len += n;
		b.p[b.len] = '\0';
	}
	fclose(f);
	return buf_take(&b);
}

/* ---- routes ---- */

static const struct {
	const char *program;
	const struct route *table;
	const size_t *count;
} programs[] = {
	{ "hutch-sandboxes", sandboxes_routes, &sandboxes_routes_count },
	{ "hutch-templates", templates_routes, &templates_routes_count },
	{ "hutch-teams", teams_routes, &teams_routes_count },
	{ "hutch-events", events_routes, &events_routes_count },
	{ "hutch-doors", doors_routes, &doors_routes_count },
};
#define PROGRAMS (sizeof programs / sizeof programs[0])

/* The chapter of a program: from its heading to the next of that level. */
static char *chapter(const char *doc, const char *program)
{
	char heading[64];
	const char *at, *end;

	snprintf(heading, sizeof heading, "\n## %s\n", program);
	at = strstr(doc, heading);
	if (at == NULL)
		fail_msg("docs/api.md has no chapter %s", program);
	at += strlen(heading);
	end = strstr(at, "\n## ");
	return strndup(at, end != NULL ? (size_t)(end - at) : strlen(at));
}

static bool in_table(size_t p, const char *method, const char *path, enum route_auth *auth)
{
	for (size_t i = 0; i < *programs[p].count; i++) {
		const struct route *r = &programs[p].table[i];

		*auth = r->auth;
		if (strcmp(r->method, method) == 0 && strcmp(r->path, path) == 0)
			return true;
	}
	return false;
}

/* Who may call a route; what stands for an open one is free text. */
static const char *const words[] = {
	[AUTH_OPEN] = "anyone", [AUTH_TEAM] = "team", [AUTH_START] = "team", [AUTH_EITHER] = "either", [AUTH_USER] = "user", [AUTH_MANAGER] = "manager",
	[AUTH_ADMIN] = "admin",
};

static bool is_credential(const char *who)
{
	for (size_t i = AUTH_TEAM; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(words[i], who) == 0)
			return true;
	return false;
}

/* A row is: | `METHOD /path` | who | ... */
static size_t check_rows(size_t p, char *text)
{
	char method[16], path[128], who[32], *save = NULL;
	size_t rows = 0;

	for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		enum route_auth auth = AUTH_OPEN;

		if (sscanf(line, "| `%15[A-Z] %127[^`]` | %31[a-z] |", method, path, who) != 3)
			continue;
		rows++;
		if (!in_table(p, method, path, &auth))
			fail_msg("docs/api.md: %s does not serve %s %s", programs[p].program, method, path);
		if (strcmp(words[auth], who) != 0 && (auth != AUTH_OPEN || is_credential(who)))
			fail_msg("docs/api.md: who may call %s %s", method, path);
	}
	return rows;
}

static void test_routes(void **state)
{
	char *doc = read_doc("api.md");

	(void)state;
	for (size_t p = 0; p < PROGRAMS; p++) {
		char *text = chapter(doc, programs[p].program);
		size_t served = 0;

		for (size_t i = 0; i < *programs[p].count; i++) {
			const struct route *r = &programs[p].table[i];
			char row[160];

			if (r->handler == NULL)
				continue;
			served++;
			snprintf(row, sizeof row, "| `%s %s` |", r->method, r->path);
			if (strstr(text, row) == NULL)
				fail_msg("docs/api.md, %s: no row for %s %s", programs[p].program, r->method, r->path);
		}
		assert_int_equal(check_rows(p, text), served);
		free(text);
	}
	free(doc);
}

/* The chapter on profile twin lists the rows that are served in it, and no others. */
static void test_profile(void **state)
{
	char *doc = read_doc("api.md"), *text = chapter(doc, "Profile twin");
	size_t listed = 0, both = 0;

	(void)state;
	for (size_t p = 0; p < PROGRAMS; p++) {
		for (size_t i = 0; i < *programs[p].count; i++) {
			const struct route *r = &programs[p].table[i];
			char row[160];

			snprintf(row, sizeof row, "\n- `%s %s`", r->method, r->path);
			if (programs[p].table == doors_routes || strcmp(r->path, "/health") == 0) {
				if (r->profile != IN_BOTH)
					fail_msg("%s %s must be served in both profiles", r->method, r->path);
				continue;
			}
			both += r->profile == IN_BOTH;
			if ((strstr(text, row) != NULL) != (r->profile == IN_BOTH))
				fail_msg("docs/api.md, profile twin: %s %s is %slisted", r->method, r->path,
					 r->profile == IN_BOTH ? "not " : "");
		}
	}
	for (const char *at = text; (at = strstr(at, "\n- `")) != NULL; at++)
		listed++;
	assert_int_equal(listed, both);
	free(text);
	free(doc);
}

static void test_tables(void **state)
{
	(void)state;
	for (size_t p = 0; p < PROGRAMS; p++)
		if (route_hidden(programs[p].table, *programs[p].count) >= 0)
			fail_msg("%s: row %d can never serve", programs[p].program,
				 route_hidden(programs[p].table, *programs[p].count));
}

/* ---- options ---- */

/* A default as the document writes it: directories of configure by their names. */
static void written_default(const struct config_option *o, char out[300])
{
	static const struct { const char *dir, *name; } dirs[] = {
		{ HUTCH_LIBEXECDIR, "LIBEXECDIR/hutch" }, { HUTCH_LOCALSTATEDIR, "LOCALSTATEDIR" }, { HUTCH_RUNDIR, "RUNDIR" },
	};

	snprintf(out, 300, "%s", o->fallback);
	for (size_t i = 0; o->type == OPT_PATH && i < 3; i++) {
		size_t n = strlen(dirs[i].dir);

		/* run_dir may lie below state_dir's parent, so the option tells which is meant */
		if ((strcmp(o->name, "run_dir") == 0) != (i == 2) || strncmp(o->fallback, dirs[i].dir, n) != 0)
			continue;
		snprintf(out, 300, "%s%s", dirs[i].name, o->fallback + n);
		return;
	}
}

static void written_kind(const struct config_option *o, char out[64])
{
	static const char *const kinds[] = { "text", "path", "", "true or false", "" };

	if (o->type == OPT_INT)
		snprintf(out, 64, "%lld to %lld", (long long)o->min, (long long)o->max);
	else if (o->type == OPT_CHOICE)
		snprintf(out, 64, "%.*s or %s", (int)strcspn(o->choices, "|"), o->choices, strrchr(o->choices, '|') + 1);
	else
		snprintf(out, 64, "%s", kinds[o->type]);
}

static void test_options(void **state)
{
	char *doc = read_doc("configure.md"), *table, *end, *save = NULL;
	size_t rows = 0;

	(void)state;
	table = strstr(doc, "| option | default |");
	assert_non_null(table);
	end = strstr(table, "\n\n");
	assert_non_null(end);
	*end = '\0';
	for (size_t i = 0; i < config_options_count; i++) {
		const struct config_option *o = &config_options[i];
		char row[1024], fallback[300], kind[64];

		written_default(o, fallback);
		written_kind(o, kind);
		if (fallback[0] != '\0')
			snprintf(row, sizeof row, "| `%s` | `%s` | %s | %s |", o->name, fallback, kind, o->help);
		else
			snprintf(row, sizeof row, "| `%s` | | %s | %s |", o->name, kind, o->help);
		if (strstr(table, row) == NULL)
			fail_msg("docs/configure.md lacks the row\n%s", row);
	}
	for (char *line = strtok_r(table, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		rows += strncmp(line, "| `", 3) == 0;
	assert_int_equal(rows, config_options_count);
	free(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests_name("docs", tests, NULL, NULL);
}
