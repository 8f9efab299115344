/*
 * The light profile: a guest that runs `node FILE` with a JavaScript file of its folder, serves the files of that folder, and answers
 * all else with the declared gap (docs/light-pool.md). The node tells it in its init; there is no way back but another init.
 */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "hutch/envd.h"

#define GAP "{\"code\":\"unimplemented\",\"message\":\"" TWIN_GAP_TEXT "\"}"

/* Variables that would change which code node runs. */
static const char *const forbidden[] = { "NODE_OPTIONS=", "NODE_PATH=", "NODE_REPL_EXTERNAL_MODULE=", "LD_" };

void light_gap(struct h1_req *r)
{
	h1_reply(r, 404, "application/json", NULL, GAP, strlen(GAP));
}

/* Copies of folder and program into text of PATH_MAX bytes each; false in other profiles. Either may be NULL. */
static bool settings(struct agent *a, char *folder, char *program)
{
	bool light;

	pthread_mutex_lock(&a->lock);
	light = a->folder != NULL && a->program != NULL;
	if (light && folder != NULL)
		strcpy(folder, a->folder);
	if (light && program != NULL)
		strcpy(program, a->program);
	pthread_mutex_unlock(&a->lock);
	return light;
}

bool light_refuses(struct agent *a, struct h1_req *r)
{
	if (!settings(a, NULL, NULL) || twin_admits(ENVD_PORT, r->head->path.p, r->head->path.n))
		return false;
	light_gap(r);
	return true;
}

/* ---- paths ---- */

/* The real path of what is there of `path`, with the rest as it is; false when the rest climbs. out is of PATH_MAX. */
static bool real_path(const char *path, char *out)
{
	char head[PATH_MAX];
	size_t n = strlen(path), len;
	const char *rest;

	strcpy(head, path);
	while (realpath(head, out) == NULL) {
		if (errno != ENOENT && errno != ENOTDIR)
			return false;
		while (n > 0 && head[n - 1] == '/')
			n--;
		while (n > 0 && head[n - 1] != '/')
			n--;
		head[n] = '\0';
		if (n == 0)
			return false;
	}
	rest = path + n;
	for (const char *p = rest; *p != '\0'; p += strspn(p, "/")) {
		size_t part = strcspn(p, "/");

		if (part == 2 && p[0] == '.' && p[1] == '.')
			return false;
		p += part;
	}
	len = strlen(out);
	if (*rest != '\0' && len + strlen(rest) + 2 > PATH_MAX)
		return false;
	if (*rest != '\0' && out[len - 1] != '/')
		strcat(out, "/");
	strcat(out, rest);
	return true;
}

static bool is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	while (n > 1 && folder[n - 1] == '/')
		n--;
	return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/' || folder[n - 1] == '/');
}

/* The real path of one that is in the folder, whose own path has no links: one that takes its place is not followed. */
static bool in_folder(const char *folder, const char *path, char *real)
{
	return real_path(path, real) && is_below(real, folder);
}

bool light(struct agent *a)
{
	return settings(a, NULL, NULL);
}

bool light_real(struct agent *a, const char *path, char *folder, char *real)
{
	return settings(a, folder, NULL) && in_folder(folder, path, real);
}

int light_path(struct agent *a, const char *path, struct err *e)
{
	char folder[PATH_MAX], real[PATH_MAX];

	if (!settings(a, folder, NULL) || in_folder(folder, path, real))
		return 0;
	return err_set(e, ERR_DENIED, "path '%.256s' is outside of the guest's folder %.256s", path, folder);
}

/* ---- Start ---- */

static bool is_script(const char *path)
{
	static const char *const ends[] = { ".js", ".mjs", ".cjs" };
	size_t n = strlen(path);
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (n > strlen(ends[i]) && strcmp(path + n - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

static bool env_ok(char *const *env)
{
	for (; *env != NULL; env++)
		for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
			if (strncmp(*env, forbidden[i], strlen(forbidden[i])) == 0)
				return false;
	return true;
}

bool light_admits(struct agent *a, struct launch *l)
{
	char folder[PATH_MAX], program[PATH_MAX], path[PATH_MAX];
	const char *arg = l->spawn.argv[1];
	size_t n;

	if (!settings(a, folder, program))
		return true;
	if (l->spawn.pty || strcmp(l->spawn.cmd, program) != 0 || !env_ok(l->spawn.env))
		return false;
	if (arg == NULL || arg[0] == '\0' || arg[0] == '-')
		return false;
	n = arg[0] == '/' ? 0 : strlen(l->cwd) + 1;
	if (n + strlen(arg) >= sizeof path)
		return false;
	if (n > 0)
		stpcpy(stpcpy(path, l->cwd), "/");
	strcpy(path + n, arg);
	if (!in_folder(folder, path, l->entry) || !is_script(l->entry))
		return false;
	l->spawn.argv[1] = l->entry;         /* what was looked at is what runs */
	l->spawn.path = a->path;             /* and it is our node that runs it, whatever PATH it is given */
	return true;
}

/* ---- init ---- */

int light_init(struct agent *a, const char *folder, const char *program, const char *owner, struct err *e)
{
	char *copy[2] = { NULL, NULL };
	struct user u;

	if (folder != NULL) {
		if (folder[0] != '/' || strlen(folder) >= PATH_MAX || program == NULL || program[0] == '\0' || strlen(program) >= PATH_MAX)
			return err_set(e, ERR_INVALID, "folder must be an absolute path, and program must not be empty");
		if (user_lookup(owner, &u, e) < 0)
			return -1;
		if (make_dirs(folder, u.uid, u.gid) < 0)
			return err_sys(e, "%s", folder);
		copy[0] = realpath(folder, NULL);
		copy[1] = strdup(program);
		if (copy[0] == NULL || copy[1] == NULL) {
			free(copy[0]);
			free(copy[1]);
			return err_set(e, ERR_INTERNAL, "out of memory");
		}
	}
	pthread_mutex_lock(&a->lock);
	free(a->folder);
	free(a->program);
	a->folder = copy[0];
	a->program = copy[1];
	pthread_mutex_unlock(&a->lock);
	return 0;
}
