#include "config.h"

#include "language.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hutch/json.h"
#include "kernelspec.h"

/* ---- variables ---- */

/* In double quotes, control characters in hexadecimal or, as Java alone has them, in octal digits: its \u000a is a line's end in the middle of the
 * text. Other characters stay: every language here takes UTF-8. */
static void quote(struct buf *b, const char *s, bool octal)
{
	buf_addc(b, '"');
	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\') {
			buf_addc(b, '\\');
			buf_addc(b, (char)c);
		} else if (c < 0x20 || c == 0x7f) {
			buf_addf(b, octal ? "\\%03o" : "\\x%02x", c);
		} else {
			buf_addc(b, (char)c);
		}
	}
	buf_addc(b, '"');
}

static void python_env(struct buf *b, const char *name, const char *value)
{
	buf_adds(b, "__import__('os').environ.");
	buf_adds(b, value != NULL ? "update({" : "pop(");
	quote(b, name, false);
	if (value != NULL) {
		buf_adds(b, ": ");
		quote(b, value, false);
	}
	buf_adds(b, value != NULL ? "})\n" : ", None)\n");
}

static void js_env(struct buf *b, const char *name, const char *value)
{
	buf_adds(b, value != NULL ? "process.env[" : "delete process.env[");
	quote(b, name, false);
	buf_addc(b, ']');
	if (value != NULL) {
		buf_adds(b, " = ");
		quote(b, value, false);
	}
	buf_adds(b, ";\n");
}

static void r_env(struct buf *b, const char *name, const char *value)
{
	buf_adds(b, value != NULL ? "invisible(Sys.setenv(" : "invisible(Sys.unsetenv(");
	quote(b, name, false);
	if (value != NULL) {
		buf_adds(b, " = ");
		quote(b, value, false);
	}
	buf_adds(b, "))\n");
}

static void java_env(struct buf *b, const char *name, const char *value)
{
	buf_adds(b, value != NULL ? "System.setProperty(" : "System.clearProperty(");
	quote(b, name, true);
	if (value != NULL) {
		buf_adds(b, ", ");
		quote(b, value, true);
	}
	buf_adds(b, ");\n");
}

/* A name that is none to the shell cannot be set there, nor could it be read. */
static bool shell_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	for (; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return false;
	return true;
}

static void bash_env(struct buf *b, const char *name, const char *value)
{
	if (!shell_name(name))
		return;
	buf_addf(b, "%s %s", value != NULL ? "export" : "unset", name);
	if (value != NULL) {
		buf_adds(b, "='");
		for (; *value != '\0'; value++)
			if (*value == '\'')
				buf_adds(b, "'\\''");
			else
				buf_addc(b, *value);
		buf_addc(b, '\'');
	}
	buf_addc(b, '\n');
}

/* ---- rows ---- */

/* The first three give the kernel a parser, import.meta.resolve and interrupts that end in the middle of a callback. */
static const char *const node[] = { "node", "--expose-internals", "--experimental-import-meta-resolve", "--no-force-async-hooks-checks", NULL };

static const struct language languages[] = {
	{ "python", "python3", WIRE_UNIX, "Debian package python3-ipykernel", NULL, python_env },
	{ "javascript", "javascript.mjs", WIRE_LINES, "Debian package nodejs", node, js_env },
	{ "typescript", "javascript.mjs", WIRE_LINES, "Debian package nodejs", node, js_env },
	{ "bash", "bash", WIRE_LINES, "Debian package bash", NULL, bash_env },
	{ "r", "ir", WIRE_UNIX, "Debian package r-cran-irkernel", NULL, r_env },
	{ "java", "java", WIRE_TCP, "Debian package default-jdk-headless, Python package jjava", NULL, java_env },
};
static const struct language other = { NULL, NULL, WIRE_TCP, NULL, NULL, NULL };

void language_name(const char *given, char out[LANGUAGE_LEN])
{
	size_t n = 0;

	while (isspace((unsigned char)*given))
		given++;
	for (; *given != '\0' && n < LANGUAGE_LEN - 1; given++)
		out[n++] = (char)tolower((unsigned char)*given);
	while (n > 0 && isspace((unsigned char)out[n - 1]))
		n--;
	out[n] = '\0';
	if (strcmp(out, "js") == 0)
		strcpy(out, "javascript");
	else if (strcmp(out, "ts") == 0)
		strcpy(out, "typescript");
}

const struct language *language_find(const char *name)
{
	for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return &other;
}

/* ---- programs ---- */

static int missing(const struct language *l, const char *name, struct err *e)
{
	if (l->needs == NULL)
		return err_set(e, ERR_UNAVAILABLE, "Failed to create context: no kernel named %s is installed in this sandbox", name);
	return err_set(e, ERR_UNAVAILABLE, "Failed to create context: the %s kernel is not installed in this sandbox (%s)", name, l->needs);
}

/* Our launcher instead of the spec's module, with the Python that the spec names. */
static int python_argv(json_object *words, const char *run_dir, const char *file, struct argv *out, struct err *e)
{
	json_object *first = words != NULL ? json_object_array_get_idx(words, 0) : NULL;
	char path[256];

	snprintf(path, sizeof path, "%s/python_kernel.py", run_dir);
	if (argv_add(out, first != NULL ? json_object_get_string(first) : "python3", e) < 0 || argv_add(out, path, e) < 0)
		return -1;
	return argv_add(out, file, e);
}

static int jupyter_argv(const struct language *l, const char *name, const char *run_dir, const char *file, struct argv *out, struct err *e)
{
	char dir[SPEC_DIR];
	json_object *spec = kernelspec_find(l->kernel != NULL ? l->kernel : name, dir), *words = NULL;
	const char *mode = "";
	struct err ignored;
	bool python = l->name != NULL && strcmp(l->name, "python") == 0;
	int rc = -1;

	if (spec != NULL && json_get_arr(spec, "argv", &words, &ignored) != 1)
		words = NULL;
	if (words != NULL && json_object_array_length(words) == 0)
		words = NULL;
	if (words == NULL && !python)
		missing(l, name, e);
	else if (python)
		rc = python_argv(words, run_dir, file, out, e);
	else
		rc = kernelspec_argv(words, dir, file, out, e);
	if (rc == 0 && spec != NULL)
		rc = kernelspec_env(spec, out, e);
	if (spec != NULL && json_get_str(spec, "interrupt_mode", 32, &mode, &ignored) == 1)
		out->by_message = strcmp(mode, "message") == 0;
	json_object_put(spec);
	return rc;
}

static int lines_argv(const struct language *l, const char *run_dir, struct argv *out, struct err *e)
{
	char path[256];

	if (l->program == NULL)
		return argv_add(out, "/proc/self/exe", e) < 0 || argv_add(out, "--kernel", e) < 0 ? -1 : argv_add(out, l->kernel, e);
	for (size_t i = 0; l->program[i] != NULL; i++)
		if (argv_add(out, l->program[i], e) < 0)
			return -1;
	snprintf(path, sizeof path, "%s/%s", run_dir, l->kernel);
	return argv_add(out, path, e);
}

bool language_installed(const struct language *l)
{
	const char *dirs = getenv("PATH");
	char path[PATH_MAX];

	if (l->wire != WIRE_LINES || l->program == NULL || dirs == NULL)
		return false;
	for (; *dirs != '\0'; dirs += *dirs == ':') {
		int n = (int)strcspn(dirs, ":");

		if (snprintf(path, sizeof path, "%.*s/%s", n, dirs, l->program[0]) < (int)sizeof path && access(path, X_OK) == 0)
			return true;
		dirs += n;
	}
	return false;
}

int language_argv(const struct language *l, const char *name, const char *run_dir, const char *file, struct argv *out, struct err *e)
{
	int rc;

	memset(out, 0, sizeof *out);
	rc = l->wire == WIRE_LINES ? lines_argv(l, run_dir, out, e) : jupyter_argv(l, name, run_dir, file, out, e);
	if (rc < 0)
		argv_release(out);
	return rc;
}
