/* The unary methods of filesystem.Filesystem (guest.md 5.3). */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REMOVE_PASSES 1000

int rpc_path(struct agent *a, const struct user *u, json_object *in, const char *key, char out[PATH_MAX], struct err *e)
{
	const char *path = "";

	if (json_get_str(in, key, PATH_MAX - 1, &path, e) < 0)
		return -1;
	return path_resolve(a, u, path, out, e);
}

static bool missing(int err)
{
	return err == ENOENT || err == ENOTDIR;
}

/* Uses errno. */
static int fail_errno(struct err *e, const char *what, const char *path)
{
	int err = errno;

	if (missing(err))
		return rpc_fail(e, ERR_NOT_FOUND, "not_found", "path '%.300s' does not exist", path);
	return rpc_fail(e, ERR_INTERNAL, "internal", "%s '%.300s': %s", what, path, strerror(err));
}

static int reply_entry(struct agent *a, struct jw *out, const char *path, struct err *e)
{
	struct names c = { 0 };
	struct stat st;

	if (reach_lstat(a, path, &st) < 0)
		return fail_errno(e, "cannot stat", path);
	jw_key(out, "entry");
	jw_open(out, '{');
	entry_members(out, path, &st, &c);
	jw_close(out, '}');
	names_release(&c);
	return 0;
}

static int fs_stat(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	char path[PATH_MAX];

	if (rpc_path(a, u, in, "path", path, e) < 0)
		return -1;
	return reply_entry(a, out, path, e);
}

static int fs_make_dir(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int rc;

	if (rpc_path(a, u, in, "path", path, e) < 0)
		return -1;
	if (reach_stat(a, path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return rpc_fail(e, ERR_CONFLICT, "already_exists", "directory '%.300s' already exists", path);
		return rpc_fail(e, ERR_INVALID, "invalid_argument", "path '%.300s' exists and is not a directory", path);
	}
	rc = reach_make_dirs(a, path, u->uid, u->gid);
	if (rc < 0)
		rpc_fail(e, ERR_INTERNAL, "internal", "cannot make directory '%.300s': %s", path, strerror(errno));
	watch_poke(a);
	return rc < 0 ? -1 : reply_entry(a, out, path, e);
}

static int fs_move(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	char from[PATH_MAX], to[PATH_MAX];
	struct stat st;

	if (rpc_path(a, u, in, "source", from, e) < 0 || rpc_path(a, u, in, "destination", to, e) < 0)
		return -1;
	if (lstat(from, &st) < 0)
		return fail_errno(e, "cannot stat", from);
	if (make_parents(to, u->uid, u->gid) < 0)
		return rpc_fail(e, ERR_INTERNAL, "internal", "cannot make the directories of '%.300s': %s", to, strerror(errno));
	if (rename(from, to) < 0) {
		int err = errno;

		if (err == ENOENT && lstat(from, &st) < 0)
			return fail_errno(e, "cannot stat", from);
		return rpc_fail(e, ERR_INTERNAL, "internal", "cannot move '%.200s' to '%.200s': %s", from, to, strerror(err));
	}
	watch_poke(a);
	return reply_entry(a, out, to, e);
}

/* ---- ListDir ---- */

struct listing {
	struct walk w;
	char path[PATH_MAX];         /* of the current directory in [0..len), as the client named the root; of an entry while it is written */
	size_t len;
	uint32_t depth;
	struct names names;
	struct jw *out;
};

static int list_full(struct err *e)
{
	return rpc_fail(e, ERR_LIMIT, "resource_exhausted", "the listing is too large: ask for less depth or for a smaller directory");
}

static void list_leave(struct listing *l)
{
	walk_leave(&l->w);
	while (l->len > 0 && l->path[--l->len] != '/')
		;
}

static int list_descend(struct listing *l, int dir, const char *name, struct err *e)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES || errno == EPERM))
		return 0;       /* vanished, became something else, or is closed to us */
	if (fd < 0)
		return fail_errno(e, "cannot read directory", l->path);
	if (walk_enter(&l->w, fd) < 0)
		return errno == E2BIG ? list_full(e) : errno == ENOENT ? 0 : fail_errno(e, "cannot read directory", l->path);
	l->len += strlen(name) + 1;
	return 0;
}

static int list_entry(struct listing *l, const char *name, struct err *e)
{
	int dir = walk_fd(&l->w);
	struct stat st;

	if (l->len + 1 + strlen(name) >= sizeof l->path)
		return 0;       /* no client could name it */
	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;       /* vanished */
	l->path[l->len] = '/';
	strcpy(l->path + l->len + 1, name);
	jw_open(l->out, '{');
	entry_members(l->out, l->path, &st, &l->names);
	jw_close(l->out, '}');
	if (buf_failed(l->out->b))
		return list_full(e);
	return S_ISDIR(st.st_mode) && l->w.depth < l->depth ? list_descend(l, dir, name, e) : 0;
}

static int list_walk(struct listing *l, int fd, struct err *e)
{
	if (walk_enter(&l->w, fd) < 0)
		return errno == E2BIG ? list_full(e) : fail_errno(e, "cannot read directory", l->path);
	while (l->w.depth > 0) {
		const char *name = walk_next(&l->w);

		if (name == NULL)
			list_leave(l);
		else if (list_entry(l, name, e) < 0)
			return -1;
	}
	return 0;
}

int rpc_not_a_dir(const char *path, int err, struct err *e)
{
	struct stat st;

	if (err == ELOOP)
		return rpc_fail(e, ERR_CONFLICT, "failed_precondition", "path '%.300s' is a loop of symbolic links", path);
	if (err == ENOTDIR && stat(path, &st) == 0)
		return rpc_fail(e, ERR_INVALID, "invalid_argument", "path '%.300s' is not a directory", path);
	errno = err;
	return fail_errno(e, "cannot open directory", path);
}

static int fs_list(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	struct listing l = { .depth = 1, .out = out };
	int fd, rc;

	if (rpc_path(a, u, in, "path", l.path, e) < 0 || rpc_get_u32(in, "depth", &l.depth, e) < 0)
		return -1;
	if (l.depth == 0)
		l.depth = 1;
	fd = reach_open(a, l.path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return rpc_not_a_dir(l.path, errno, e);
	path_clean(l.path);
	l.len = l.path[1] == '\0' ? 0 : strlen(l.path);
	jw_key(out, "entries");
	jw_open(out, '[');
	walk_init(&l.w);
	rc = list_walk(&l, fd, e);
	jw_close(out, ']');
	walk_release(&l.w);
	names_release(&l.names);
	return rc;
}

/* ---- Remove ---- */

/* One pass over a directory's tree, itself left out. Counts what went. -1 with errno. */
static int remove_below(int fd, size_t *removed)
{
	struct walk w;
	int rc = 0, saved;

	walk_init(&w);
	w.partial_ok = true;
	rc = walk_enter(&w, fd);
	while (rc == 0 && w.depth > 0) {
		const char *name = walk_next(&w);
		int flags = 0;

		if (name == NULL) {
			walk_leave(&w);
			if (w.depth == 0)
				break;
			name = walk_name(&w);
			flags = AT_REMOVEDIR;
		}
		fd = walk_fd(&w);
		if (fd >= 0 && unlinkat(fd, name, flags) == 0) {
			*removed += 1;
		} else if (fd >= 0 && errno == EISDIR && flags == 0) {
			fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			rc = fd >= 0 ? walk_enter(&w, fd) : errno == ENOENT ? 0 : -1;
		} else if (errno != ENOENT) {
			rc = -1;
		}
	}
	saved = errno;
	walk_release(&w);
	errno = saved;
	return rc;
}

/* 0 also if there is nothing. -1 with errno. */
static int remove_name(int dir, const char *name)
{
	for (int pass = 0; pass < REMOVE_PASSES; pass++) {
		size_t removed = 0;
		int fd;

		if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
			return 0;
		if (errno != EISDIR)
			return -1;
		if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -1;
		fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -1;
		/* Not empty again: somebody adds files meanwhile, or there were more than one pass can hold. */
		if (remove_below(fd, &removed) < 0 && errno != ENOTEMPTY && errno != EEXIST)
			return -1;
		if (removed == 0 && pass > 0)
			break;
	}
	errno = ENOTEMPTY;
	return -1;
}

static int fs_remove(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	char path[PATH_MAX];
	const char *name;
	int dir, rc;
	size_t n;

	(void)out;
	if (rpc_path(a, u, in, "path", path, e) < 0)
		return -1;
	n = strlen(path);
	while (n > 1 && path[n - 1] == '/')     /* "link/" would mean what the link points to */
		path[--n] = '\0';
	if (n == 1)
		return rpc_fail(e, ERR_INVALID, "invalid_argument", "the root directory cannot be removed");
	dir = reach_dir(a, path, &name);
	rc = dir != -1 ? remove_name(dir, name) : errno == ENOENT ? 0 : -1;
	reach_done(dir);
	if (rc < 0)
		return rpc_fail(e, ERR_INTERNAL, "internal", "cannot remove '%.300s': %s", path, strerror(errno));
	return 0;
}

const struct rpc filesystem_rpcs[] = {
	{ .path = "/filesystem.Filesystem/Stat", .unary = fs_stat },
	{ .path = "/filesystem.Filesystem/MakeDir", .unary = fs_make_dir },
	{ .path = "/filesystem.Filesystem/Move", .unary = fs_move },
	{ .path = "/filesystem.Filesystem/ListDir", .unary = fs_list },
	{ .path = "/filesystem.Filesystem/Remove", .unary = fs_remove },
	{ .path = "/filesystem.Filesystem/WatchDir", .stream = watch_dir },
	{ .path = "/filesystem.Filesystem/CreateWatcher", .unary = watcher_create },
	{ .path = "/filesystem.Filesystem/GetWatcherEvents", .unary = watcher_events },
	{ .path = "/filesystem.Filesystem/RemoveWatcher", .unary = watcher_remove },
	{ 0 }
};
