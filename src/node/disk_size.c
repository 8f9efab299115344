/* The image of a size: made once by mke2fs, then written anew for each disk from the few parts of it that are not empty. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk_int.h"
#include "files.h"
#include "tool.h"

static int run_mke2fs(const char *image, const char *from, struct err *e)
{
	/* No journal: a disk does not outlive its sandbox, or was unmounted in order. Features are spelt out, since defaults differ between releases. */
	const char *const argv[] = { "mke2fs", "-q", "-F", "-m", "0", "-I", "256", "-i", "16384", "-O",
		"none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,"
		"metadata_csum", "-E", "lazy_itable_init=1,nodiscard,packed_meta_blocks=1,root_owner=0:0", "-d", from, image, NULL };
	int code = tool_run("mke2fs", argv, e);

	return code > 0 ? err_set(e, ERR_INTERNAL, "mke2fs of %s failed (status %d)", image, code) : code;
}

/* Remember the written parts of an image. */
static int load_extents(int fd, struct disk_size *s, struct err *e)
{
	off_t at = 0, end;

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		struct disk_extent *more = realloc(s->extents, (s->nextents + 1) * sizeof *more), *x;

		end = lseek(fd, at, SEEK_HOLE);
		if (more == NULL || end < 0)
			return err_sys(e, "extents of the disk image");
		s->extents = more;
		x = &more[s->nextents];
		*x = (struct disk_extent){ .at = (uint64_t)at, .n = (size_t)(end - at), .p = malloc((size_t)(end - at)) };
		if (x->p == NULL || pread(fd, x->p, x->n, at) != (ssize_t)x->n)
			return err_sys(e, "reading the disk image");
		s->nextents++;
		at = end;
	}
	return 0;
}

static int size_image(struct disks *d, struct disk_size *s, uint32_t mb, struct err *e)
{
	char image[64], from[64];
	int fd, dir, status = -1;

	fd = openat(d->dir, "base.img", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)mb << 20) < 0) {
		err_sys(e, "base.img of %u MiB", mb);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (mkdirat(d->dir, "content", 0755) < 0 && errno != EEXIST)
		err_sys(e, "content");
	dir = openat(d->dir, "content", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(image, sizeof image, "/proc/%d/fd/%d", (int)getpid(), fd);
	snprintf(from, sizeof from, "/proc/%d/fd/%d", (int)getpid(), dir);
	if (dir < 0 || fchmod(dir, 0755) < 0 || disk_make_content(dir) < 0)
		err_sys(e, "content");
	else if (run_mke2fs(image, from, e) == 0)
		status = load_extents(fd, s, e);
	if (dir >= 0)
		close(dir);
	close(fd);
	tree_remove(d->dir, "content");
	unlinkat(d->dir, "base.img", 0);
	if (status == 0)
		s->mb = mb;
	return status;
}

void disk_size_free(struct disk_size *s)
{
	for (size_t i = 0; i < s->nextents; i++)
		free(s->extents[i].p);
	free(s->extents);
	free(s->spare);
	memset(s, 0, sizeof *s);
}

struct disk_size *disk_size_get(struct disks *d, uint32_t mb, struct err *e)
{
	struct disk_size *unused = NULL;

	for (size_t i = 0; i < DISK_SIZES_MAX; i++) {
		struct disk_size *s = &d->size[i];

		if (s->mb == mb) {
			s->users++;
			return s;
		}
		if (s->users == 0 && s->nspares == 0 && (unused == NULL || s->mb == 0))
			unused = s;
	}
	if (unused == NULL) {
		err_set(e, ERR_LIMIT, "over %d different disk sizes are in use", DISK_SIZES_MAX);
		return NULL;
	}
	disk_size_free(unused);
	if (size_image(d, unused, mb, e) < 0) {
		disk_size_free(unused);
		return NULL;
	}
	unused->users = 1;
	return unused;
}

void disk_size_put(struct disks *d, struct disk_size *s)
{
	pthread_mutex_lock(&d->lock);
	s->users--;
	pthread_mutex_unlock(&d->lock);
}

int disk_image_new(struct disks *d, const struct disk_size *s, const char *name, struct err *e)
{
	int fd = disk_image_open(d, name, O_RDWR | O_CREAT | O_TRUNC);

	if (fd < 0)
		return err_sys(e, "%s.img", name);
	if (ftruncate(fd, (off_t)s->mb << 20) < 0) {
		err_sys(e, "%s.img of %u MiB", name, s->mb);
		close(fd);
		return -1;
	}
	for (size_t i = 0; i < s->nextents; i++) {
		const struct disk_extent *x = &s->extents[i];

		if (pwrite(fd, x->p, x->n, (off_t)x->at) != (ssize_t)x->n) {
			err_sys(e, "%s.img", name);
			close(fd);
			return -1;
		}
	}
	return fd;
}
