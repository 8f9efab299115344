/* Disks that outlive their processes, and copies of disks. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "disk_int.h"
#include "files.h"
#include "hutch/when.h"
#include "loop.h"
#include "tool.h"

#define UNMOUNT_WAIT_US (15 * US_PER_S)
#define TRIM_BYTES (4ULL << 20)      /* less is quicker copied than given back */

/* The mount has gone once no loop device uses the image: two mounts of one would destroy it. */
static int wait_unmounted(const char *name, struct err *e)
{
	const int64_t until = boot_us() + UNMOUNT_WAIT_US;
	const struct timespec pause = { 0, 2000000 };
	char file[DISK_NAME_LEN + 8];

	snprintf(file, sizeof file, "%s.img", name);
	while (loop_uses(file)) {
		if (boot_us() > until)
			return err_set(e, ERR_TIMEOUT, "disk of %s is still in use", name);
		nanosleep(&pause, NULL);
	}
	return 0;
}

int disk_keep(struct disks *d, struct disk *k, const char *name, struct err *e)
{
	int fd, status;

	if (k->dir >= 0) {
		syncfs(k->dir);
		close(k->dir);
	}
	k->dir = -1;
	if (wait_unmounted(name, e) < 0)
		return -1;
	fd = disk_image_open(d, name, O_RDONLY);
	status = fd >= 0 ? fdatasync(fd) : -1;
	if (status < 0)
		err_sys(e, "%s.img", name);
	if (fd >= 0)
		close(fd);
	return status;
}

/* An overlay that was mounted "volatile" is not taken again, lest its upper layer is half-written. This one was unmounted in order. */
static void clear_volatile(const struct disk *k)
{
	static const char *const dirs[] = { "work", "uwork" };

	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
		char mark[64];

		snprintf(mark, sizeof mark, "%s/%s/incompat", dirs[i], "work");
		tree_remove(k->dir, mark);
	}
}

int disk_reopen(struct disks *d, const char *name, struct disk *out, int *mount, struct err *e)
{
	int image;

	*out = (struct disk){ .dir = -1 };
	*mount = -1;
	if (disks_have_room(d, e) < 0 || wait_unmounted(name, e) < 0)
		return -1;
	image = disk_image_open(d, name, O_RDWR);
	if (image < 0)
		return err_set(e, ERR_NOT_FOUND, "the disk of %s is gone", name);
	*mount = disk_mount_image(d, image, out, e);
	close(image);
	if (*mount < 0)
		return -1;
	out->device[0] = '\0';               /* what it held when new is not known: never emptied for a second use */
	out->dir = openat(*mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->dir >= 0) {
		clear_volatile(out);
		return 0;
	}
	err_sys(e, "root of a kept disk");
	close(*mount);
	*mount = -1;
	return -1;
}

/* ---- copies ---- */

/* What is written of one file, to a new one: shared by the file system where it can do that, else copied without its holes. */
static int copy_file(int from, int to, struct err *e)
{
	off_t at = 0, size = lseek(from, 0, SEEK_END);

	if (size < 0 || ftruncate(to, size) < 0)
		return err_sys(e, "copy of a disk");
	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE), out = at;

		while (at < end) {
			ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);

			if (n <= 0)
				return err_sys(e, "copy of a disk");
		}
	}
	return errno == ENXIO ? 0 : err_sys(e, "copy of a disk");
}

/* After a restart of the daemon nothing of the disk is open: its device is mounted once more. */
static int disk_open(struct disks *d, struct disk *k, const char *name, struct err *e)
{
	char nodes[24], file[DISK_NAME_LEN + 8], device[sizeof k->device];
	int loop, mount;

	if (k->dir >= 0)
		return 0;
	snprintf(nodes, sizeof nodes, "/proc/self/fd/%d", d->nodes);
	snprintf(file, sizeof file, "%s.img", name);
	loop = loop_find(d->nodes, nodes, file, device, sizeof device);
	mount = loop >= 0 ? disk_mount_device(device, e) : err_set(e, ERR_INTERNAL, "the disk of %s is not mounted", name);
	if (loop >= 0)
		close(loop);
	if (mount < 0)
		return -1;
	k->dir = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(mount);
	return k->dir >= 0 ? 0 : err_sys(e, "root of the disk of %s", name);
}

/* Blocks of a file in bytes. */
static uint64_t bytes_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Blocks that held what was deleted need not be copied. Where they cannot be given back they are. */
static void trim(const struct disk *k, int image)
{
	struct fstrim_range all = { .len = UINT64_MAX };
	struct statfs st;

	if (fstatfs(k->dir, &st) == 0 && bytes_of(image) > (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize + TRIM_BYTES)
		ioctl(k->dir, FITRIM, &all);
}

int disk_settle(struct disks *d, struct disk *k, const char *name, struct err *e)
{
	int image;

	if (disk_open(d, k, name, e) < 0)
		return -1;
	image = disk_image_open(d, name, O_RDONLY);
	if (image >= 0) {
		trim(k, image);
		close(image);
	}
	return image < 0 || syncfs(k->dir) < 0 ? err_sys(e, "disk of %s", name) : 0;
}

int disk_take(struct disks *d, const struct disk *k, const char *name, int to, uint64_t max_bytes, struct err *e)
{
	int image = disk_image_open(d, name, O_RDONLY), status = -1;

	if (image < 0 || syncfs(k->dir) < 0)
		err_sys(e, "%s.img", name);
	else if (bytes_of(image) > max_bytes)
		err_set(e, ERR_TOO_LARGE, "the disk holds %llu bytes, more than the %llu allowed", (unsigned long long)bytes_of(image),
			(unsigned long long)max_bytes);
	else
		status = copy_file(image, to, e);
	if (image >= 0)
		close(image);
	return status;
}

int disk_check(int image, uint64_t *bytes, struct err *e)
{
	char path[64];
	const char *const argv[] = { "e2fsck", "-fy", path, NULL };
	int code;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), image);
	code = tool_run("e2fsck", argv, e);
	if (code < 0)
		return -1;
	if (code > 1)
		return err_set(e, ERR_INTERNAL, "the copy of a disk is no whole file system (e2fsck %d)", code);
	*bytes = bytes_of(image);
	return fdatasync(image) < 0 ? err_sys(e, "copy of a disk") : 0;
}

int disk_room(struct disks *d, uint64_t bytes, struct err *e)
{
	struct statvfs st;

	if (disks_have_room(d, e) < 0)
		return -1;
	if (fstatvfs(d->dir, &st) == 0 && st.f_bavail * st.f_frsize < bytes)
		return err_set(e, ERR_UNAVAILABLE, "the file system of the sandbox disks has no room for a copy of %llu bytes",
			       (unsigned long long)bytes);
	return 0;
}

int disk_clone(struct disks *d, int image, const char *name, struct disk *out, int *mount, struct err *e)
{
	int fd, status;

	*out = (struct disk){ .dir = -1 };
	*mount = -1;
	if (disk_room(d, bytes_of(image), e) < 0)
		return -1;
	fd = disk_image_open(d, name, O_RDWR | O_CREAT | O_TRUNC);
	status = fd >= 0 ? copy_file(image, fd, e) : err_sys(e, "%s.img", name);
	if (fd >= 0)
		close(fd);
	return status < 0 ? -1 : disk_reopen(d, name, out, mount, e);
}

bool disk_there(const struct disks *d, const char *name)
{
	char file[DISK_NAME_LEN + 8];

	snprintf(file, sizeof file, "%s.img", name);
	return d->loop && faccessat(d->dir, file, F_OK, 0) == 0;
}
