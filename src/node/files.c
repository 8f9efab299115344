#include "config.h"

#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/io.h"

ssize_t file_read(int dir, const char *name, char *buf, size_t max)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got = 0;

	if (fd < 0)
		return -1;
	while (n < max - 1 && (got = read(fd, buf + n, max - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	if (got < 0)
		return -1;
	buf[n] = '\0';
	return (ssize_t)n;
}

int file_write(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	ssize_t done;
	int saved;

	if (fd < 0)
		return -1;
	done = write(fd, text, n);
	saved = errno;
	close(fd);
	errno = done < 0 ? saved : EIO;
	return done == (ssize_t)n ? 0 : -1;
}

int file_replace(int dir, const char *name, const void *p, size_t n, struct err *e)
{
	char part[NAME_MAX];
	int fd;

	snprintf(part, sizeof part, ".%s.new", name);
	fd = openat(dir, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "%s", part);
	if (write_all(fd, p, n) < 0) {
		err_sys(e, "%s", part);
		close(fd);
		unlinkat(dir, part, 0);
		return -1;
	}
	close(fd);
	if (renameat(dir, part, dir, name) < 0)
		return err_sys(e, "%s", name);
	return 0;
}

int dir_make(const char *path, mode_t mode, gid_t gid, struct err *e)
{
	char part[PATH_MAX];
	size_t n = strlen(path);
	int fd;

	if (path[0] != '/' || n >= sizeof part)
		return err_set(e, ERR_INVALID, "%.200s is no usable absolute path", path);
	memcpy(part, path, n + 1);
	for (char *p = part + 1; *p != '\0'; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "%s", part);
		*p = '/';
	}
	if (mkdir(part, mode) < 0 && errno != EEXIST)
		return err_sys(e, "%s", part);
	fd = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%s", part);
	if (fchmod(fd, mode) < 0 || (gid != (gid_t)-1 && fchown(fd, 0, gid) < 0)) {
		err_sys(e, "%s", part);
		close(fd);
		return -1;
	}
	return fd;
}

void dir_each(int dir, unsigned char type, void (*fn)(void *ctx, const char *name), void *ctx)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	char **names = NULL;
	size_t n = 0;
	struct dirent *ent;

	if (d == NULL && fd >= 0)
		close(fd);
	while (d != NULL && (ent = readdir(d)) != NULL) {
		char **more;

		if ((type != DIR_ALL && ent->d_type != type) || strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		more = realloc(names, (n + 1) * sizeof *names);
		if (more == NULL)
			break;
		names = more;
		names[n] = strdup(ent->d_name);
		if (names[n] != NULL)
			n++;
	}
	if (d != NULL)
		closedir(d);
	for (size_t i = 0; i < n; i++) {
		fn(ctx, names[i]);
		free(names[i]);
	}
	free(names);
}

struct removal {
	int dir;
	dev_t dev;
	int depth;
	int status;
};

static void remove_entry(void *ctx, const char *name)
{
	struct removal *r = ctx, below = { .dev = r->dev, .depth = r->depth + 1 };
	struct stat st;

	if (unlinkat(r->dir, name, 0) == 0)
		return;
	below.dir = r->depth < 64 ? openat(r->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (below.dir >= 0 && fstat(below.dir, &st) == 0 && st.st_dev == r->dev)
		dir_each(below.dir, DIR_ALL, remove_entry, &below);
	if (below.dir >= 0)
		close(below.dir);
	if (unlinkat(r->dir, name, AT_REMOVEDIR) < 0)
		r->status = -1;
}

int tree_remove(int dir, const char *name)
{
	struct removal r = { .dir = dir };
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	r.dev = st.st_dev;
	remove_entry(&r, name);
	return r.status;
}
