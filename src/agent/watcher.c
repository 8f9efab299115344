/* inotify(7) on a directory or, kept up as it changes, on a tree. */
#include "config.h"

#include "watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define MASK (IN_CREATE | IN_MODIFY | IN_DELETE | IN_DELETE_SELF | IN_MOVED_TO | IN_MOVED_FROM | IN_MOVE_SELF | IN_ATTRIB)
#define DIRS_MAX 65536
#define EVENTS_MAX (8 << 20)         /* bytes of events nobody has fetched */
#define ANNOUNCED_MAX (4 << 20)

static int fail(struct watcher *w, const char *text)
{
	rpc_fail(&w->error, ERR_INTERNAL, "internal", "%s", text);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	return -1;
}

/* ---- paths ---- */

/* root/rel; -1 if that is longer than the kernel takes. */
static int full_path(const struct watcher *w, const char *rel, char out[PATH_MAX])
{
	const char *root = w->root[1] == '\0' ? "" : w->root;
	int n = *rel != '\0' && strcmp(rel, ".") != 0 ? snprintf(out, PATH_MAX, "%s/%s", root, rel)
						      : snprintf(out, PATH_MAX, "%s", w->root);

	return n < PATH_MAX ? 0 : -1;
}

static int child_path(const char *rel, const char *name, char out[PATH_MAX])
{
	int n = *rel != '\0' ? snprintf(out, PATH_MAX, "%s/%s", rel, name) : snprintf(out, PATH_MAX, "%s", name);

	return n < PATH_MAX ? 0 : -1;
}

/* ---- the table of directories ---- */

static size_t position(const struct watcher *w, int wd)
{
	size_t lo = 0, hi = w->ndirs;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->dirs[mid].wd < wd)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct watched_dir *dir_by_wd(const struct watcher *w, int wd)
{
	size_t i = position(w, wd);

	return i < w->ndirs && w->dirs[i].wd == wd ? &w->dirs[i] : NULL;
}

static struct watched_dir *dir_by_rel(const struct watcher *w, const char *rel)
{
	for (size_t i = 0; i < w->ndirs; i++)
		if (strcmp(w->dirs[i].rel, rel) == 0)
			return &w->dirs[i];
	return NULL;
}

static void dir_remove(struct watcher *w, struct watched_dir *d)
{
	size_t i = (size_t)(d - w->dirs);

	free(d->rel);
	memmove(d, d + 1, (w->ndirs - i - 1) * sizeof *d);
	w->ndirs--;
}

static int dir_insert(struct watcher *w, int wd, const char *rel)
{
	size_t i = position(w, wd);
	char *copy;

	if (w->ndirs == w->cap) {
		size_t cap = w->cap != 0 ? w->cap * 2 : 8;
		struct watched_dir *more = realloc(w->dirs, cap * sizeof *more);

		if (more == NULL)
			return -1;
		w->dirs = more;
		w->cap = cap;
	}
	copy = strdup(rel);
	if (copy == NULL)
		return -1;
	memmove(&w->dirs[i + 1], &w->dirs[i], (w->ndirs - i) * sizeof *w->dirs);
	w->dirs[i] = (struct watched_dir){ .wd = wd, .rel = copy };
	w->ndirs++;
	return 0;
}

/* Is rel the directory top, or below it? */
static bool is_below(const char *rel, const char *top)
{
	size_t n = strlen(top);

	return strncmp(rel, top, n) == 0 && (rel[n] == '\0' || rel[n] == '/');
}

/* A watched directory has a new name: it and all below it. */
static int dirs_rename(struct watcher *w, const char *from, const char *to)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < w->ndirs; i++) {
		struct watched_dir *d = &w->dirs[i];
		char *copy;

		if (!is_below(d->rel, from) || snprintf(path, sizeof path, "%s%s", to, d->rel + strlen(from)) >= PATH_MAX)
			continue;
		copy = strdup(path);
		if (copy == NULL)
			return -1;
		free(d->rel);
		d->rel = copy;
		d->moving = false;
	}
	return 0;
}

/* A directory left the tree. */
static void dirs_forget(struct watcher *w, const char *top)
{
	char *name = strdup(top);

	for (size_t i = w->ndirs; name != NULL && i-- > 0;) {
		if (is_below(w->dirs[i].rel, name)) {
			inotify_rm_watch(w->fd, w->dirs[i].wd);
			dir_remove(w, &w->dirs[i]);
		}
	}
	free(name);
}

/* ---- events ---- */

static void add_event(struct watcher *w, const char *type, const char *rel, bool with_entry)
{
	size_t was = w->events.len;
	char path[PATH_MAX];
	struct stat st;
	struct jw j;

	jw_init(&j, &w->events);
	jw_open(&j, '{');
	jw_kstr(&j, "name", rel);
	jw_kstr(&j, "type", type);
	if (with_entry && w->include_entry && full_path(w, rel, path) == 0 && lstat(path, &st) == 0) {
		jw_key(&j, "entry");
		jw_open(&j, '{');
		entry_members(&j, path, &st, &w->names);
		jw_close(&j, '}');
	}
	jw_close(&j, '}');
	buf_addc(&w->events, '\n');
	if (buf_failed(&w->events)) {
		w->events.len = was;
		fail(w, "too many events were not fetched; watch again");
	}
}

static void add_events(struct watcher *w, uint32_t mask, const char *rel)
{
	static const struct { uint32_t bits; const char *type; bool entry; } rows[] = {
		{ IN_CREATE | IN_MOVED_TO, "EVENT_TYPE_CREATE", true },
		{ IN_MOVED_FROM | IN_MOVE_SELF, "EVENT_TYPE_RENAME", false },
		{ IN_ATTRIB, "EVENT_TYPE_CHMOD", true },
		{ IN_MODIFY, "EVENT_TYPE_WRITE", true },
		{ IN_DELETE | IN_DELETE_SELF, "EVENT_TYPE_REMOVE", false },
	};

	if ((mask & IN_CREATE) && strset_has(&w->announced, rel))
		mask &= ~(uint32_t)IN_CREATE;
	if (mask & (IN_DELETE | IN_MOVED_FROM))
		strset_drop(&w->announced, rel);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (mask & rows[i].bits)
			add_event(w, rows[i].type, rel, rows[i].entry);
}

/* ---- trees ---- */

/* Watch one directory: 1 it is new, 0 it was watched (under this or another name, which is put right) or is gone, -1 errno. */
static int watch_one(struct watcher *w, const char *rel)
{
	char path[PATH_MAX];
	struct watched_dir *d;
	uint32_t mask = MASK | IN_ONLYDIR | (*rel != '\0' ? IN_DONT_FOLLOW : 0);
	int wd;

	if (full_path(w, rel, path) < 0)
		return 0;
	wd = inotify_add_watch(w->fd, path, mask);
	if (wd < 0)
		return *rel != '\0' && errno != ENOSPC && errno != ENOMEM ? 0 : -1;
	d = dir_by_wd(w, wd);
	if (d != NULL) {
		char *was = strcmp(d->rel, rel) != 0 ? strdup(d->rel) : NULL;
		int rc = was != NULL ? dirs_rename(w, was, rel) : 0;

		free(was);
		return rc;
	}
	if (w->ndirs >= DIRS_MAX) {
		inotify_rm_watch(w->fd, wd);
		errno = ENOSPC;
		return -1;
	}
	return dir_insert(w, wd, rel) < 0 ? -1 : 1;
}

/* Enter a directory that is watched by now, for its subdirectories. Nothing happens if it is gone. -1: errno. */
static int tree_enter(struct watcher *w, struct walk *walk, const char *rel)
{
	char path[PATH_MAX];
	int fd = full_path(w, rel, path) == 0
		 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (*rel != '\0' ? O_NOFOLLOW : 0)) : -1;

	return fd < 0 || walk_enter(walk, fd) == 0 || errno != E2BIG ? 0 : -1;
}

/* One entry of the directory that the walk is in; path holds the entry's name relative to the root. */
static int tree_entry(struct watcher *w, struct walk *walk, const char *rel, const char *name, bool tell)
{
	int dir = walk_fd(walk), rc;
	struct stat st;

	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (tell) {
		strset_add(&w->announced, rel);         /* if there is no room, an entry may be told twice */
		add_event(w, "EVENT_TYPE_CREATE", rel, true);
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	rc = watch_one(w, rel);
	return rc == 1 ? tree_enter(w, walk, rel) : rc;
}

/* Watch rel and all below it; tell: entries found inside are told as created. -1 with errno. */
static int tree_add(struct watcher *w, const char *top, bool tell)
{
	char rel[PATH_MAX];
	struct walk walk;
	size_t len;
	int rc = watch_one(w, top);

	if (rc <= 0)
		return rc;
	walk_init(&walk);
	strcpy(rel, top);
	rc = tree_enter(w, &walk, rel);
	while (rc == 0 && walk.depth > 0) {
		size_t depth = walk.depth;
		const char *name = walk_next(&walk);

		len = strlen(rel);
		if (name == NULL) {
			char *slash = strrchr(rel, '/');

			walk_leave(&walk);
			*(slash != NULL ? slash : rel) = '\0';
			continue;
		}
		if (len + 1 + strlen(name) >= sizeof rel)
			continue;
		snprintf(rel + len, sizeof rel - len, "%s%s", len != 0 ? "/" : "", name);
		rc = tree_entry(w, &walk, rel, name, tell);
		if (walk.depth == depth)
			rel[len] = '\0';        /* not entered */
	}
	walk_release(&walk);
	return rc;
}

/* ---- reading ---- */

static void on_move_self(struct watcher *w, struct watched_dir *d)
{
	if (d->moving)
		dirs_forget(w, d->rel);
}

/* What an event means for the tree. */
static int follow(struct watcher *w, uint32_t mask, const char *rel)
{
	struct watched_dir *d;

	if (!w->recursive || !(mask & IN_ISDIR))
		return 0;
	if ((mask & IN_MOVED_FROM) && (d = dir_by_rel(w, rel)) != NULL)
		d->moving = true;
	if ((mask & (IN_CREATE | IN_MOVED_TO)) && tree_add(w, rel, true) < 0)
		return fail(w, errno == ENOSPC ? "too many directories to watch" : "cannot watch a new directory");
	return 0;
}

static int on_event(struct watcher *w, const struct inotify_event *ev)
{
	struct watched_dir *d;
	char rel[PATH_MAX];

	if (ev->mask & IN_Q_OVERFLOW)
		return fail(w, "events came faster than they could be read; watch again");
	d = dir_by_wd(w, ev->wd);
	if (d == NULL)
		return 0;
	if (ev->mask & IN_IGNORED) {
		dir_remove(w, d);
		return 0;
	}
	if (ev->len == 0) {
		/* The directory itself. Of one below the root, its parent has told already. */
		if (*d->rel == '\0')
			add_events(w, ev->mask, ".");
		else if (ev->mask & IN_MOVE_SELF)
			on_move_self(w, d);
	} else if (child_path(d->rel, ev->name, rel) == 0) {
		add_events(w, ev->mask, rel);
		if (w->fd >= 0 && follow(w, ev->mask, rel) < 0)
			return -1;
	}
	return w->fd >= 0 ? 0 : -1;
}

int watcher_drain(struct watcher *w)
{
	_Alignas(struct inotify_event) char buf[8192];
	ssize_t n;
	int rc = 0;

	if (w->fd < 0)
		return -1;
	while (rc == 0 && (n = read(w->fd, buf, sizeof buf)) > 0) {
		for (ssize_t at = 0; rc == 0 && at < n;) {
			const struct inotify_event *ev = (const void *)(buf + at);

			at += (ssize_t)(sizeof *ev + ev->len);
			rc = on_event(w, ev);
		}
	}
	if (rc == 0 && n < 0 && errno != EAGAIN && errno != EINTR)
		rc = fail(w, "inotify failed");
	strset_clear(&w->announced);    /* the queue was empty: what a walk had told before is not to come again */
	names_release(&w->names);
	return rc;
}

/* ---- */

static int fail_new(const char *path, int err, struct err *e)
{
	if (err == EMFILE || err == ENFILE || err == ENOSPC || err == ENOMEM || err == E2BIG)
		return rpc_fail(e, ERR_LIMIT, "resource_exhausted", "cannot watch '%.300s': %s", path,
				err == EMFILE ? "too many watchers" : "too many directories to watch");
	return rpc_not_a_dir(path, err, e);
}

struct watcher *watcher_new(const char *path, bool recursive, bool include_entry, struct err *e)
{
	struct watcher *w = calloc(1, sizeof *w);
	int rc = -1, err;

	if (w == NULL || (w->root = strdup(path)) == NULL) {
		free(w);
		err_set(e, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	path_clean(w->root);
	w->recursive = recursive;
	w->include_entry = include_entry;
	buf_init(&w->events, EVENTS_MAX);
	strset_init(&w->announced, ANNOUNCED_MAX);
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->fd >= 0)
		rc = recursive ? tree_add(w, "", false) : watch_one(w, "");
	err = errno;
	if (rc < 0) {
		fail_new(path, err, e);
		watcher_free(w);
		return NULL;
	}
	return w;
}

void watcher_free(struct watcher *w)
{
	if (w->fd >= 0)
		close(w->fd);
	for (size_t i = 0; i < w->ndirs; i++)
		free(w->dirs[i].rel);
	free(w->dirs);
	free(w->root);
	buf_release(&w->events);
	strset_release(&w->announced);
	names_release(&w->names);
	free(w);
}
