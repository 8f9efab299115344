/* From a Start request to what spawn.c needs: program, arguments, environment, directory, terminal. */
#include "config.h"

#include "process.h"

#include <stdlib.h>
#include <string.h>

#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24

static int out_of_memory(struct err *e)
{
	return err_set(e, ERR_INTERNAL, "out of memory");
}

/* ---- arguments ---- */

static int read_args(json_object *process, struct launch *l, struct err *e)
{
	json_object *args = NULL;
	size_t n = 0;

	if (json_get_str(process, "cmd", RPC_BODY_MAX, &l->spawn.cmd, e) < 0 || json_get_arr(process, "args", &args, e) < 0)
		return -1;
	if (l->spawn.cmd == NULL || *l->spawn.cmd == '\0')
		return err_set(e, ERR_INVALID, "process.cmd is required");
	if (args != NULL)
		n = json_object_array_length(args);
	if (n > ARGS_MAX)
		return err_set(e, ERR_INVALID, "process.args holds more than %d", ARGS_MAX);
	l->argv_block = calloc(n + 4, sizeof *l->argv_block);
	if (l->argv_block == NULL)
		return out_of_memory(e);
	l->spawn.argv = l->argv_block + 2;
	l->spawn.argv[0] = (char *)(uintptr_t)l->spawn.cmd;
	for (size_t i = 0; i < n; i++) {
		json_object *v = json_object_array_get_idx(args, i);

		if (!json_object_is_type(v, json_type_string) ||
		    strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
			return err_set(e, ERR_INVALID, "process.args[%zu] must be a string without NUL", i);
		l->spawn.argv[i + 1] = (char *)(uintptr_t)json_object_get_string(v);
	}
	return 0;
}

/* ---- environment: built afresh, later wins ---- */

static void put(json_object *env, const char *name, const char *value)
{
	json_object_object_add(env, name, json_object_new_string(value));
}

static void merge(json_object *env, json_object *from)
{
	if (from == NULL)
		return;
	json_object_object_foreach(from, name, v)
		put(env, name, json_object_get_string(v));
}

static int flatten(struct launch *l, struct err *e)
{
	size_t bytes = 0, i = 0;
	char *to;

	json_object_object_foreach(l->env, name, v)
		bytes += strlen(name) + (size_t)json_object_get_string_len(v) + 2;
	l->env_block = calloc((size_t)json_object_object_length(l->env) + 1, sizeof *l->env_block);
	l->env_text = to = malloc(bytes + 1);
	if (l->env_block == NULL || to == NULL)
		return out_of_memory(e);
	json_object_object_foreach(l->env, key, value) {
		l->env_block[i++] = to;
		to = stpcpy(stpcpy(stpcpy(to, key), "="), json_object_get_string(value)) + 1;
		if (strcmp(key, "PATH") == 0)
			l->spawn.path = json_object_get_string(value);
	}
	l->spawn.env = l->env_block;
	return 0;
}

static int read_env(struct agent *a, const struct user *u, json_object *process, struct launch *l, struct err *e)
{
	json_object *own = NULL, *global;

	if (json_get_strmap(process, "envs", &own, e) < 0 || (own != NULL && env_check(own, "process.envs", e) < 0))
		return -1;
	l->env = json_object_new_object();
	global = env_all(a);
	if (l->env == NULL || global == NULL) {
		json_object_put(global);
		return out_of_memory(e);
	}
	put(l->env, "PATH", a->path);
	put(l->env, "HOME", u->home);
	put(l->env, "USER", u->name);
	put(l->env, "LOGNAME", u->name);
	merge(l->env, global);
	merge(l->env, own);
	json_object_put(global);
	return flatten(l, e);
}

/* ---- the rest ---- */

static int read_cwd(struct agent *a, const struct user *u, json_object *process, struct launch *l, struct err *e)
{
	const char *cwd = "";

	if (json_get_str(process, "cwd", PATH_MAX - 1, &cwd, e) < 0 || path_resolve(a, u, cwd, l->cwd, e) < 0)
		return -1;
	l->spawn.cwd = l->cwd;
	return 0;
}

static int read_pty(json_object *in, struct launch *l, struct err *e)
{
	json_object *pty = NULL, *size = NULL;
	uint32_t cols = COLS_DEFAULT, rows = ROWS_DEFAULT;

	if (json_get_obj(in, "pty", &pty, e) < 0)
		return -1;
	if (pty == NULL)
		return 0;
	if (json_get_obj(pty, "size", &size, e) < 0)
		return -1;
	if (size != NULL && (rpc_get_u32(size, "cols", &cols, e) < 0 || rpc_get_u32(size, "rows", &rows, e) < 0))
		return -1;
	l->spawn.pty = true;
	l->spawn.cols = cols < UINT16_MAX ? (unsigned short)cols : UINT16_MAX;
	l->spawn.rows = rows < UINT16_MAX ? (unsigned short)rows : UINT16_MAX;
	return 0;
}

int launch_read(struct agent *a, const struct user *u, json_object *in, struct launch *l, struct err *e)
{
	json_object *process = NULL;
	bool keep_stdin = true;

	memset(l, 0, offsetof(struct launch, cwd));
	l->env = NULL;
	l->argv_block = l->env_block = NULL;
	l->env_text = NULL;
	if (json_get_obj(in, "process", &process, e) < 0)
		return -1;
	if (process == NULL)
		return err_set(e, ERR_INVALID, "process is required");
	if (read_args(process, l, e) < 0 || read_env(a, u, process, l, e) < 0 || read_cwd(a, u, process, l, e) < 0 ||
	    read_pty(in, l, e) < 0 || json_get_bool(in, "stdin", &keep_stdin, e) < 0)
		return -1;
	l->spawn.user = u;
	l->spawn.files = a->files;
	l->spawn.no_stdin = !keep_stdin;
	return 0;
}

void launch_release(struct launch *l)
{
	json_object_put(l->env);
	free(l->argv_block);
	free(l->env_block);
	free(l->env_text);
}

void launch_config(json_object *process, struct buf *out)
{
	json_object *args = NULL, *envs = NULL;
	const char *cwd = NULL;
	struct err ignored;
	struct jw w;

	jw_init(&w, out);
	jw_open(&w, '{');
	jw_kstr(&w, "cmd", json_object_get_string(json_object_object_get(process, "cmd")));
	if (json_get_arr(process, "args", &args, &ignored) == 1 && json_object_array_length(args) > 0) {
		jw_key(&w, "args");
		jw_open(&w, '[');
		for (size_t i = 0; i < json_object_array_length(args); i++)
			jw_str(&w, json_object_get_string(json_object_array_get_idx(args, i)));
		jw_close(&w, ']');
	}
	if (json_get_obj(process, "envs", &envs, &ignored) == 1 && json_object_object_length(envs) > 0) {
		jw_key(&w, "envs");
		jw_open(&w, '{');
		json_object_object_foreach(envs, name, v)
			jw_kstr(&w, name, json_object_get_string(v));
		jw_close(&w, '}');
	}
	if (json_get_str(process, "cwd", PATH_MAX, &cwd, &ignored) == 1)
		jw_kstr(&w, "cwd", cwd);
	jw_close(&w, '}');
}
