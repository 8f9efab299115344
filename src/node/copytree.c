#include "config.h"

#include "copytree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/buf.h"
#include "hutch/io.h"

#define DEPTH_MAX 16

static int copy_entry(int from, int to, const char *name, struct copy_budget *b, int depth);

/* Names in order, so that results do not depend on the file system. The caller frees all. */
static int names_of(int dir, struct dirent ***list)
{
	return scandirat(dir, ".", list, NULL, alphasort);
}

static int for_names(int from, int to, const char *pattern, struct copy_budget *b, int depth)
{
	struct dirent **list = NULL;
	int n = names_of(from, &list), status = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (status == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && fnmatch(pattern, name, 0) == 0)
			status = copy_entry(from, to, name, b, depth);
		free(list[i]);
	}
	free(list);
	return status;
}

static int copy_link(int from, int to, const char *name, const struct copy_budget *b)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(from, name, text, sizeof text - 1);

	if (n < 0)
		return -1;
	text[n] = '\0';
	if (symlinkat(text, to, name) < 0)
		return errno == EEXIST ? 0 : -1;
	return fchownat(to, name, b->uid, b->gid, AT_SYMLINK_NOFOLLOW);
}

static int copy_bytes(int in, int out, struct copy_budget *b)
{
	char block[16384];
	ssize_t n;

	while ((n = read(in, block, sizeof block)) > 0) {
		b->bytes -= n;
		if (b->bytes < 0) {
			errno = EFBIG;
			return -1;
		}
		if (write_all(out, block, (size_t)n) < 0)
			return -1;
	}
	return n < 0 ? -1 : 0;
}

static int copy_file(int from, int to, const char *name, const struct stat *st, struct copy_budget *b)
{
	int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), out, status = -1;

	if (in < 0)
		return -1;
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0 && errno == EEXIST)
		status = 0;
	else if (out >= 0 && copy_bytes(in, out, b) == 0 && fchown(out, b->uid, b->gid) == 0 && fchmod(out, st->st_mode & 0755) == 0)
		status = 0;
	if (out >= 0)
		close(out);
	close(in);
	return status;
}

static int copy_dir(int from, int to, const char *name, struct copy_budget *b, int depth)
{
	int in, out, status = -1;

	if (depth == DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}
	if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
		return -1;
	in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in >= 0 && out >= 0 && fchmod(out, 0755) == 0 && fchown(out, b->uid, b->gid) == 0)
		status = for_names(in, out, "*", b, depth + 1);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return status;
}

static int copy_entry(int from, int to, const char *name, struct copy_budget *b, int depth)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (b->entries-- <= 0) {
		errno = EFBIG;
		return -1;
	}
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, name, b);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) != 0)
		return copy_file(from, to, name, &st, b);
	if (S_ISDIR(st.st_mode) && (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH))
		return copy_dir(from, to, name, b, depth);
	return 0;
}

int copy_matching(int from, int to, const char *pattern, struct copy_budget *b)
{
	return for_names(from, to, pattern, b, 0);
}

/* ---- hash ---- */

/* Each entry folds into the running hash: h = SHA-256(h, its description). */
static void fold(uint8_t h[SHA256_LEN], const void *p, size_t n)
{
	uint8_t both[2 * SHA256_LEN];

	memcpy(both, h, SHA256_LEN);
	sha256(p, n, both + SHA256_LEN);
	sha256(both, sizeof both, h);
}

static int hash_content(int dir, const char *name, const struct stat *st, uint8_t h[SHA256_LEN])
{
	char block[16384];
	ssize_t n;
	int fd;

	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, name, block, sizeof block);
		if (n >= 0)
			fold(h, block, (size_t)n);
		return n < 0 ? -1 : 0;
	}
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while ((n = read(fd, block, sizeof block)) > 0)
		fold(h, block, (size_t)n);
	close(fd);
	return n < 0 ? -1 : 0;
}

static int hash_dir(int dir, uint8_t h[SHA256_LEN], int depth);

static int hash_entry(int dir, const char *name, uint8_t h[SHA256_LEN], int depth)
{
	char about[NAME_MAX + 64];
	struct stat st;
	int fd, status;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	snprintf(about, sizeof about, "%s %o %u %u", name, st.st_mode, st.st_uid, st.st_gid);
	fold(h, about, strlen(about));
	if (!S_ISDIR(st.st_mode))
		return hash_content(dir, name, &st, h);
	fd = depth < 2 * DEPTH_MAX ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd < 0)
		return -1;
	status = hash_dir(fd, h, depth + 1);
	close(fd);
	return status;
}

static int hash_dir(int dir, uint8_t h[SHA256_LEN], int depth)
{
	struct dirent **list = NULL;
	int n = names_of(dir, &list), status = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (status == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
			status = hash_entry(dir, name, h, depth);
		free(list[i]);
	}
	free(list);
	fold(h, "end", 3);
	return status;
}

int tree_hash(int dir, uint8_t out[SHA256_LEN])
{
	memset(out, 0, SHA256_LEN);
	return hash_dir(dir, out, 0);
}
