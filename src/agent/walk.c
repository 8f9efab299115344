/* Walking a directory tree: names sorted, no recursion, at most OPEN_MAX_DIRS descriptors, bounded memory. */
#include "config.h"

#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_MAX_DIRS 32
#define NAMES_MAX (64U << 20)
#define DENTS_SIZE 32768

void walk_init(struct walk *w)
{
	*w = (struct walk){ 0 };
}

static void dir_release(struct walk_dir *d)
{
	if (d->fd >= 0)
		close(d->fd);
	free(d->names);
	free(d->order);
}

void walk_release(struct walk *w)
{
	while (w->depth > 0)
		walk_leave(w);
	free(w->dirs);
	walk_init(w);
}

static int add_names(struct buf *names, size_t *n, const char *dents, size_t len)
{
	size_t at = 0;

	while (at < len) {
		const struct dirent64 *d = (const struct dirent64 *)(const void *)(dents + at);
		const char *s = d->d_name;

		at += d->d_reclen;
		if (s[0] == '.' && (s[1] == '\0' || (s[1] == '.' && s[2] == '\0')))
			continue;
		buf_add(names, s, strlen(s) + 1);
		if (buf_failed(names))
			return -1;
		*n += 1;
	}
	return 0;
}

/* All names of the directory, one after the other with a NUL each. -1 with errno. */
static int read_names(int fd, struct buf *names, size_t *n, bool partial_ok)
{
	char *dents = malloc(DENTS_SIZE);
	ssize_t got = 0;

	*n = 0;
	if (dents == NULL)
		return -1;
	while ((got = getdents64(fd, dents, DENTS_SIZE)) > 0) {
		if (add_names(names, n, dents, (size_t)got) < 0) {
			errno = E2BIG;
			got = partial_ok ? 0 : -1;
			break;
		}
	}
	free(dents);
	return got < 0 ? -1 : 0;
}

static int by_name(const void *a, const void *b, void *names)
{
	return strcmp((const char *)names + *(const uint32_t *)a, (const char *)names + *(const uint32_t *)b);
}

static int sort_names(struct walk_dir *d)
{
	size_t at = 0;

	if (d->n == 0)
		return 0;
	d->order = malloc(d->n * sizeof *d->order);
	if (d->order == NULL)
		return -1;
	for (size_t i = 0; i < d->n; i++) {
		d->order[i] = (uint32_t)at;
		at += strlen(d->names + at) + 1;
	}
	qsort_r(d->order, d->n, sizeof *d->order, by_name, d->names);
	return 0;
}

/* Room for one more level; the directory OPEN_MAX_DIRS above lets its descriptor go. */
static struct walk_dir *push(struct walk *w)
{
	if (w->depth == w->cap) {
		size_t cap = w->cap != 0 ? w->cap * 2 : 8;
		struct walk_dir *more = realloc(w->dirs, cap * sizeof *more);

		if (more == NULL)
			return NULL;
		w->dirs = more;
		w->cap = cap;
	}
	if (w->depth >= OPEN_MAX_DIRS) {
		struct walk_dir *old = &w->dirs[w->depth - OPEN_MAX_DIRS];

		if (old->fd >= 0)
			close(old->fd);
		old->fd = -1;
	}
	return &w->dirs[w->depth];
}

int walk_enter(struct walk *w, int fd)
{
	struct walk_dir *d = push(w);
	struct buf names;
	struct stat st;
	int saved;

	if (d == NULL || fstat(fd, &st) < 0) {
		close(fd);
		return -1;
	}
	*d = (struct walk_dir){ .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
	buf_init(&names, NAMES_MAX - w->bytes);
	if (read_names(fd, &names, &d->n, w->partial_ok) < 0 || (d->names = names.p, sort_names(d)) < 0) {
		saved = errno;
		d->names = names.p;
		dir_release(d);
		errno = saved;
		return -1;
	}
	d->size = names.len;
	w->bytes += d->size;
	w->depth++;
	return 0;
}

static struct walk_dir *top(const struct walk *w)
{
	return &w->dirs[w->depth - 1];
}

const char *walk_next(struct walk *w)
{
	struct walk_dir *d = top(w);

	return d->next < d->n ? d->names + d->order[d->next++] : NULL;
}

const char *walk_name(const struct walk *w)
{
	const struct walk_dir *d = top(w);

	return d->names + d->order[d->next - 1];
}

int walk_fd(struct walk *w)
{
	if (top(w)->fd < 0)
		errno = ESTALE;
	return top(w)->fd;
}

/* The directory above had let its descriptor go: find it again by "..", unless the tree was changed under us. */
static void reopen_parent(struct walk_dir *parent, const struct walk_dir *child)
{
	struct stat st;
	int fd;

	if (child->fd < 0)
		return;
	fd = openat(child->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &st) < 0 || st.st_dev != parent->dev || st.st_ino != parent->ino) {
		close(fd);
		return;
	}
	parent->fd = fd;
}

void walk_leave(struct walk *w)
{
	struct walk_dir *d = top(w);

	if (w->depth > 1 && d[-1].fd < 0)
		reopen_parent(d - 1, d);
	w->bytes -= d->size;
	dir_release(d);
	w->depth--;
}
