#include "config.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_files.h"
#include "copytree.h"
#include "files.h"
#include "hutch/crypto.h"
#include "hutch/io.h"

/* Top-level names that a merged-/usr system has as links into usr. */
static const char *const usr_links[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

static int own_dirs(int dir, struct err *e)
{
	for (const struct base_dir *d = base_dirs; d->path != NULL; d++)
		if ((mkdirat(dir, d->path, 0755) < 0 && errno != EEXIST) || fchmodat(dir, d->path, d->mode, 0) < 0 ||
		    fchownat(dir, d->path, d->uid, d->gid, 0) < 0)
			return err_sys(e, "mask: %s", d->path);
	return 0;
}

static int own_files(int dir, struct err *e)
{
	for (const struct base_file *f = base_files; f->path != NULL; f++) {
		size_t n = strlen(f->text);
		int fd = openat(dir, f->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0 || write_all(fd, f->text, n) < 0 || fchmod(fd, f->mode) < 0 || fchown(fd, f->uid, f->gid) < 0) {
			err_sys(e, "mask: %s", f->path);
			if (fd >= 0)
				close(fd);
			return -1;
		}
		close(fd);
	}
	for (const struct base_link *l = base_links; l->path != NULL; l++)
		if (symlinkat(l->to, dir, l->path) < 0 && errno != EEXIST)
			return err_sys(e, "mask: %s", l->path);
	return 0;
}

/* /bin -> usr/bin and the like, as the host has them. A host without merged /usr is refused: its /bin is no part of /usr. */
static int host_links(int dir, int host, struct err *e)
{
	for (size_t i = 0; i < sizeof usr_links / sizeof usr_links[0]; i++) {
		char to[PATH_MAX];
		ssize_t n = readlinkat(host, usr_links[i], to, sizeof to - 1);
		const char *rest = to;

		if (n < 0 && errno == ENOENT)
			continue;
		if (n < 0)
			return err_set(e, ERR_INVALID, "base_root: /%s is no link into /usr (a system with merged /usr is needed)", usr_links[i]);
		to[n] = '\0';
		if (*rest == '/')
			rest++;
		if (strncmp(rest, "usr/", 4) != 0)
			return err_set(e, ERR_INVALID, "base_root: /%s points to %.100s, not into /usr", usr_links[i], to);
		if (symlinkat(to, dir, usr_links[i]) < 0)
			return err_sys(e, "mask: %s", usr_links[i]);
	}
	return 0;
}

/* Copy listed entries of the host's /etc; what is missing or not for everybody is left out. */
static int host_etc(int dir, int host, struct err *e)
{
	int from = openat(host, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), to = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct copy_budget budget = { .bytes = 32 << 20, .entries = 20000 };
	int status = 0;

	if (from < 0 || to < 0)
		status = err_sys(e, "base_root: etc");
	for (const char *const *name = base_etc; status == 0 && *name != NULL; name++) {
		status = copy_matching(from, to, *name, &budget);
		if (status < 0)
			err_sys(e, "mask: copy of /etc/%s", *name);
	}
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return status;
}

static int home_files(int dir, int host, struct err *e)
{
	int from = openat(host, "etc/skel", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int to = openat(dir, "home/user", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct copy_budget budget = { .bytes = 1 << 20, .entries = 100, .uid = 1000, .gid = 1000 };
	int status = 0;

	if (to < 0)
		status = err_sys(e, "mask: home/user");
	if (from >= 0 && status == 0 && copy_matching(from, to, "*", &budget) < 0)
		status = err_sys(e, "mask: copy of /etc/skel");
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return status;
}

static int fill(int dir, const char *base_root, struct err *e)
{
	int host = open(base_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status = -1;

	if (host < 0)
		return err_sys(e, "base_root %s", base_root);
	if (own_dirs(dir, e) == 0 && host_links(dir, host, e) == 0 && host_etc(dir, host, e) == 0 && home_files(dir, host, e) == 0 &&
	    own_files(dir, e) == 0)
		status = 0;
	close(host);
	return status;
}

int base_make(int parent, const char *base_root, char name[BASE_NAME_LEN], struct err *e)
{
	static const char part[] = "base.new";
	uint8_t hash[SHA256_LEN];
	char hex[17];
	int dir, status;

	tree_remove(parent, part);
	if (mkdirat(parent, part, 0755) < 0)
		return err_sys(e, "%s", part);
	dir = openat(parent, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0755) < 0)
		return err_sys(e, "%s", part);
	status = fill(dir, base_root, e);
	if (status == 0 && (status = tree_hash(dir, hash)) < 0)
		err_sys(e, "mask");
	close(dir);
	if (status < 0) {
		tree_remove(parent, part);
		return -1;
	}
	hex_encode(hash, 8, hex);
	snprintf(name, BASE_NAME_LEN, "base-%s", hex);
	if (faccessat(parent, name, F_OK, 0) == 0) {
		tree_remove(parent, part);
		return 0;
	}
	return renameat(parent, part, parent, name) == 0 ? 0 : err_sys(e, "%s", name);
}
