/*
 * How the file service reaches a path. In the light profile a program of the guest may change links while a request is under way: what was
 * found to be in the folder is opened from the folder on, and a link that has come meanwhile is an error (openat2(2)). So nothing outside is
 * reached at any time. In other profiles these are the plain calls.
 */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ground {
	int home;                    /* the folder */
	char *real;                  /* the path without links; what is below the folder begins at rel */
	const char *rel;
};

static int open_how(int dir, const char *path, int flags, mode_t mode, unsigned resolve)
{
	struct open_how how = { .flags = (unsigned)flags | O_CLOEXEC, .mode = (flags & O_CREAT) != 0 ? mode : 0, .resolve = resolve };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

static void ground_release(struct ground *g)
{
	int saved = errno;

	if (g->home >= 0)
		close(g->home);
	free(g->real);
	errno = saved;
}

/* -1 with errno: the path is not, or no more, in the folder. Release in either case. */
static int ground_of(struct agent *a, const char *path, struct ground *g)
{
	char folder[PATH_MAX];

	*g = (struct ground){ .home = -1, .real = malloc(PATH_MAX) };
	if (g->real == NULL)
		return -1;
	if (!light_real(a, path, folder, g->real)) {
		errno = EACCES;
		return -1;
	}
	g->rel = g->real + strlen(folder);
	g->rel += strspn(g->rel, "/");
	g->home = open_how(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	return g->home < 0 ? -1 : 0;
}

static int open_below(int home, const char *rel, int flags, mode_t mode)
{
	return open_how(home, *rel != '\0' ? rel : ".", flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int reach_open(struct agent *a, const char *path, int flags, mode_t mode)
{
	struct ground g;
	int fd = -1;

	if (!light(a))
		return open(path, flags | O_CLOEXEC, mode);
	if (ground_of(a, path, &g) == 0)
		fd = open_below(g.home, g.rel, flags, mode);
	ground_release(&g);
	return fd;
}

int reach_stat(struct agent *a, const char *path, struct stat *st)
{
	int fd, rc, saved;

	if (!light(a))
		return stat(path, st);
	fd = reach_open(a, path, O_PATH, 0);
	rc = fd >= 0 ? fstat(fd, st) : -1;
	saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return rc;
}

int reach_chown(struct agent *a, const char *path, uid_t uid, gid_t gid)
{
	int fd, rc, saved;

	if (!light(a))
		return chown(path, uid, gid);
	fd = reach_open(a, path, O_PATH, 0);
	rc = fd >= 0 ? fchownat(fd, "", uid, gid, AT_EMPTY_PATH) : -1;
	saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return rc;
}

/* Where the path's last component begins, and the directory before it as a text of its own. */
static const char *split(const char *path, char parent[PATH_MAX])
{
	const char *base = strrchr(path, '/');

	if (base == NULL || strlen(path) >= PATH_MAX)
		return NULL;
	memcpy(parent, path, (size_t)(base - path) + 1);
	parent[base - path + 1] = '\0';
	return base + 1;
}

int reach_dir(struct agent *a, const char *path, const char **name)
{
	char *parent;
	int fd = -1;

	*name = path;
	if (!light(a))
		return AT_FDCWD;
	parent = malloc(PATH_MAX);
	*name = parent != NULL ? split(path, parent) : NULL;
	if (*name == NULL || **name == '\0' || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
		errno = EINVAL;
	else
		fd = reach_open(a, parent, O_PATH | O_DIRECTORY, 0);
	free(parent);
	return fd;
}

void reach_done(int dir)
{
	int saved = errno;

	if (dir >= 0)
		close(dir);
	errno = saved;
}

int reach_lstat(struct agent *a, const char *path, struct stat *st)
{
	const char *name;
	int dir, rc = -1;

	if (!light(a))
		return lstat(path, st);
	dir = reach_dir(a, path, &name);
	if (dir >= 0)
		rc = fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW);
	else if (errno == EINVAL)               /* the folder itself, or a path that ends in "/" */
		rc = reach_stat(a, path, st);
	reach_done(dir);
	return rc;
}

/* One directory further down, made if it is not there. dir is taken over. */
static int step(int dir, const char *name, uid_t uid, gid_t gid)
{
	int made = mkdirat(dir, name, 0755), fd = -1;

	if (made == 0)
		made = fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW);
	if (made == 0 || errno == EEXIST)
		fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	reach_done(dir);
	return fd;
}

static int make_below(struct ground *g, uid_t uid, gid_t gid)
{
	char *rest = g->real + (g->rel - g->real), *save = NULL;
	int dir = fcntl(g->home, F_DUPFD_CLOEXEC, 3);

	for (char *name = strtok_r(rest, "/", &save); dir >= 0 && name != NULL; name = strtok_r(NULL, "/", &save))
		dir = step(dir, name, uid, gid);
	reach_done(dir);
	return dir >= 0 ? 0 : -1;
}

int reach_make_dirs(struct agent *a, const char *path, uid_t uid, gid_t gid)
{
	struct ground g;
	int rc = -1;

	if (!light(a))
		return make_dirs(path, uid, gid);
	if (ground_of(a, path, &g) == 0)
		rc = make_below(&g, uid, gid);
	ground_release(&g);
	return rc;
}

int reach_make_parents(struct agent *a, const char *path, uid_t uid, gid_t gid)
{
	char *parent;
	struct stat st;
	int rc = -1;

	if (!light(a))
		return make_parents(path, uid, gid);
	parent = malloc(PATH_MAX);
	if (parent != NULL && split(path, parent) != NULL) {
		if (reach_stat(a, parent, &st) == 0 && S_ISDIR(st.st_mode))
			rc = 0;
		else
			rc = reach_make_dirs(a, parent, uid, gid) < 0 ? -1 : 1;
	}
	free(parent);
	return rc;
}
