#include "config.h"

#include "kernelspec.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hutch/buf.h"

#define SPEC_MAX 65536
#define WORD_MAX 4096
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* ---- lists of words ---- */

void argv_release(struct argv *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->word[i]);
	for (size_t i = 0; i < a->env_n; i++)
		free(a->env[i]);
	a->n = a->env_n = 0;
}

static int add(char *list[ARGV_MAX + 1], size_t *n, const char *s, const char *what, struct err *e)
{
	char *copy;

	if (*n == ARGV_MAX)
		return err_set(e, ERR_INVALID, "the kernel's %s are over %d", what, ARGV_MAX);
	copy = strdup(s);
	if (copy == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	list[(*n)++] = copy;
	list[*n] = NULL;
	return 0;
}

int argv_add(struct argv *a, const char *word, struct err *e)
{
	return add(a->word, &a->n, word, "words", e);
}

/* ---- kernel.json ---- */

static json_object *read_spec(const char *path)
{
	json_object *spec = NULL;
	struct err ignored;
	struct buf b;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return NULL;
	buf_init(&b, SPEC_MAX);
	n = buf_room(&b, SPEC_MAX - 1) != NULL ? read(fd, b.p, SPEC_MAX - 1) : -1;
	close(fd);
	if (n > 0 && json_read_object(b.p, (size_t)n, &spec, &ignored) < 0)
		spec = NULL;
	buf_release(&b);
	return spec;
}

json_object *kernelspec_find(const char *name, char dir[SPEC_DIR])
{
	static const char *const places[] = { "/root/.local/share/jupyter/kernels", "/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels" };
	json_object *spec = NULL;
	char path[SPEC_DIR + 16];

	if (name[0] == '\0' || name[0] == '.' || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._+-") != strlen(name))
		return NULL;
	for (size_t i = 0; spec == NULL && i < sizeof places / sizeof places[0]; i++) {
		snprintf(dir, SPEC_DIR, "%s/%s", places[i], name);
		snprintf(path, sizeof path, "%s/kernel.json", dir);
		spec = read_spec(path);
	}
	return spec;
}

/* A word with the two names that Jupyter fills in. */
static int add_filled(struct argv *out, const char *word, const char *dir, const char *file, struct err *e)
{
	static const char *const names[] = { "{connection_file}", "{resource_dir}" };
	const char *const values[] = { file, dir };
	struct buf b;
	int rc;

	buf_init(&b, WORD_MAX);
	while (*word != '\0') {
		size_t i = 0;

		while (i < 2 && strncmp(word, names[i], strlen(names[i])) != 0)
			i++;
		if (i < 2)
			buf_adds(&b, values[i]);
		else
			buf_addc(&b, *word);
		word += i < 2 ? strlen(names[i]) : 1;
	}
	rc = buf_failed(&b) ? err_set(e, ERR_INVALID, "a word of the kernel's command is over %d bytes", WORD_MAX) : argv_add(out, buf_str(&b), e);
	buf_release(&b);
	return rc;
}

int kernelspec_argv(json_object *words, const char *dir, const char *file, struct argv *out, struct err *e)
{
	for (size_t i = 0; i < json_object_array_length(words); i++) {
		const char *s = json_object_get_string(json_object_array_get_idx(words, i));

		if (add_filled(out, s != NULL ? s : "", dir, file, e) < 0)
			return -1;
	}
	return 0;
}

/* At a '$': append what it stands for. Characters that it takes. A name that is not set stays as it is written. */
static size_t expand(struct buf *b, const char *s)
{
	size_t brace = s[1] == '{', n = strspn(s + 1 + brace, NAME_CHARS), all = 1 + brace + n + brace;
	char name[128];
	const char *value = NULL;

	if (s[1] == '$') {
		buf_addc(b, '$');
		return 2;
	}
	if (n > 0 && n < sizeof name && (!brace || s[1 + brace + n] == '}')) {
		memcpy(name, s + 1 + brace, n);
		name[n] = '\0';
		value = getenv(name);
	}
	if (value == NULL) {
		buf_addc(b, '$');
		return 1;
	}
	buf_adds(b, value);
	return all;
}

static int add_variable(struct argv *out, const char *name, const char *value, struct err *e)
{
	struct buf b;
	int rc;

	buf_init(&b, SPEC_MAX);
	buf_addf(&b, "%s=", name);
	while (*value != '\0') {
		if (*value == '$') {
			value += expand(&b, value);
			continue;
		}
		buf_addc(&b, *value++);
	}
	rc = buf_failed(&b) ? err_set(e, ERR_INVALID, "the kernel's variable %s is over %d bytes", name, SPEC_MAX) :
			      add(out->env, &out->env_n, buf_str(&b), "variables", e);
	buf_release(&b);
	return rc;
}

int kernelspec_env(json_object *spec, struct argv *out, struct err *e)
{
	json_object *env = NULL;

	if (json_get_strmap(spec, "env", &env, e) < 0)
		return err_wrap(e, "kernel.json");
	if (env == NULL)
		return 0;
	json_object_object_foreach(env, name, value)
		if (*name != '\0' && strchr(name, '=') == NULL && add_variable(out, name, json_object_get_string(value), e) < 0)
			return -1;
	return 0;
}
