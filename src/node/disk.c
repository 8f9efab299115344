#include "config.h"

#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "hutch/log.h"
#include "hutch/when.h"
#include "loop.h"
#include "sys.h"
#include "tool.h"

#define EXT4_SHUTDOWN _IOR('X', 125, uint32_t)   /* FS_IOC_SHUTDOWN: ext4, xfs, f2fs */
#define SHUTDOWN_NO_FLUSH 2U
#define ABANDON_BYTES (16U << 20)    /* less than this is quicker written than announced in the kernel's log */
#define UNMOUNT_WAIT_US (15 * US_PER_S)
#define REUSE_BLOCKS 1024u           /* 4 MiB, and its metadata */
#define REUSE_INODES 512u
#define LOW_WATER_BYTES (1ULL << 30)
#define SPARE_IDLE_US (10 * US_PER_S)
#define SPARE_BYTES (16ULL << 20)    /* of its image: what a guest wrote and deleted is still taken from the host */
#define TRIM_BYTES (4ULL << 20)      /* less is quicker copied than given back */

static const char *const content[] = { "up", "work", "uup", "uwork" };
#define CONTENT (sizeof content / sizeof content[0])

/* ---- the image of a size ---- */

static int run_mke2fs(const char *image, const char *from, struct err *e)
{
	/* No journal: a disk does not outlive its sandbox, or was unmounted in order. Features are spelt out, since defaults differ between releases. */
	const char *const argv[] = { "mke2fs", "-q", "-F", "-m", "0", "-I", "256", "-i", "16384", "-O",
		"none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,"
		"metadata_csum", "-E", "lazy_itable_init=1,nodiscard,packed_meta_blocks=1,root_owner=0:0", "-d", from, image, NULL };
	int code = tool_run("mke2fs", argv, e);

	return code > 0 ? err_set(e, ERR_INTERNAL, "mke2fs of %s failed (status %d)", image, code) : code;
}

static int make_content(int dir)
{
	for (size_t i = 0; i < CONTENT; i++)
		if (mkdirat(dir, content[i], 0755) < 0 && errno != EEXIST)
			return -1;
	return 0;
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
	if (dir < 0 || fchmod(dir, 0755) < 0 || make_content(dir) < 0)
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

static void size_free(struct disk_size *s)
{
	for (size_t i = 0; i < s->nextents; i++)
		free(s->extents[i].p);
	free(s->extents);
	free(s->spare);
	memset(s, 0, sizeof *s);
}

/* The row of a size, its image made at first use; with the lock held. Counts as a user of it: size_put. */
static struct disk_size *size_get(struct disks *d, uint32_t mb, struct err *e)
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
	size_free(unused);
	if (size_image(d, unused, mb, e) < 0) {
		size_free(unused);
		return NULL;
	}
	unused->users = 1;
	return unused;
}

static void size_put(struct disks *d, struct disk_size *s)
{
	pthread_mutex_lock(&d->lock);
	s->users--;
	pthread_mutex_unlock(&d->lock);
}

/* ---- one disk ---- */

static int image_make(struct disks *d, const struct disk_size *s, const char *file, struct err *e)
{
	int fd = openat(d->dir, file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "%s", file);
	if (ftruncate(fd, (off_t)s->mb << 20) < 0) {
		err_sys(e, "%s of %u MiB", file, s->mb);
		close(fd);
		return -1;
	}
	for (size_t i = 0; i < s->nextents; i++) {
		const struct disk_extent *x = &s->extents[i];

		if (pwrite(fd, x->p, x->n, (off_t)x->at) != (ssize_t)x->n) {
			err_sys(e, "%s", file);
			close(fd);
			return -1;
		}
	}
	return fd;
}

/* fsopen(2) ... fsmount(2) with options key, value, key, value ...; a NULL value is a flag. */
static int mount_new(const char *type, const char *const *options, struct err *e)
{
	int fs = fsopen(type, FSOPEN_CLOEXEC), fd;

	if (fs < 0)
		return err_sys(e, "file system %s", type);
	for (; *options != NULL; options += 2) {
		int status = options[1] != NULL ? fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0)
						: fsconfig(fs, FSCONFIG_SET_FLAG, options[0], NULL, 0);
		if (status < 0) {
			err_sys(e, "%s option %s", type, options[0]);
			close(fs);
			return -1;
		}
	}
	fd = fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	if (fd == 0)
		fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
	if (fd < 0)
		err_sys(e, "mount of %s", type);
	close(fs);
	return fd;
}

/* A further mount of a device that is mounted already is of the same file system, and cheap. */
static int mount_device(const char *device, struct err *e)
{
	/* nothing outlives a crash of the machine: no file need be written out because it replaces one */
	const char *options[] = { "source", device, "noinit_itable", NULL, "nobarrier", NULL, "noauto_da_alloc", NULL, NULL };

	return mount_new("ext4", options, e);
}

static int mount_image(struct disks *d, int image, struct disk *k, struct err *e)
{
	char nodes[24];
	int loop, fd;

	snprintf(nodes, sizeof nodes, "/proc/self/fd/%d", d->nodes);
	loop = loop_attach(d->control, d->nodes, nodes, image, k->device, sizeof k->device, e);
	if (loop < 0)
		return -1;
	fd = mount_device(k->device, e);
	close(loop);                         /* the mount holds the device now; without one it clears itself */
	return fd;
}

static int mount_tmpfs(uint32_t mb, struct err *e)
{
	char size[32];
	const char *options[] = { "source", "disk", "size", size, "mode", "0755", NULL };

	snprintf(size, sizeof size, "%um", mb);
	return mount_new("tmpfs", options, e);
}

static int count_free(const struct disk *k, uint64_t *blocks, uint64_t *inodes)
{
	struct statfs st;

	if (fstatfs(k->dir, &st) < 0)
		return -1;
	*blocks = st.f_bfree;
	*inodes = st.f_ffree;
	return 0;
}

/* *mount is the caller's to close: a first mount of the disk. */
static int disk_new(struct disks *d, uint32_t mb, const struct disk_size *s, const char *name, struct disk *out, int *mount, struct err *e)
{
	char file[DISK_NAME_LEN + 8];
	int image;

	*out = (struct disk){ .dir = -1 };
	*mount = -1;
	if (!d->loop) {
		*mount = mount_tmpfs(mb, e);
	} else {
		snprintf(file, sizeof file, "%s.img", name);
		image = image_make(d, s, file, e);
		if (image >= 0) {
			*mount = mount_image(d, image, out, e);
			close(image);
		}
	}
	if (*mount >= 0)
		out->dir = openat(*mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->dir >= 0 && (d->loop || make_content(out->dir) == 0) && count_free(out, &out->blocks, &out->inodes) == 0)
		return 0;
	if (*mount >= 0) {
		err_sys(e, "root of a new disk");
		close(*mount);
		*mount = -1;
	}
	disk_drop(d, out, name);
	return -1;
}

/* Images are sparse: the sum of their sizes may be over what is free. Rather no further sandbox than a full host. */
static int host_has_room(struct disks *d, struct err *e)
{
	struct statvfs st;
	uint64_t low = LOW_WATER_BYTES;

	if (!d->loop || fstatvfs(d->dir, &st) < 0)
		return 0;
	if (low > st.f_blocks * st.f_frsize / 20)
		low = st.f_blocks * st.f_frsize / 20;
	if (st.f_bavail * st.f_frsize < low)
		return err_set(e, ERR_UNAVAILABLE, "the file system of the sandbox disks is nearly full");
	return 0;
}

/* The sandbox gets a mount of its own: what we hold of it must not have its ids, since through such a mount we could make nothing, and
 * never empty the disk for the next one. */
static int mount_for_guest(struct disks *d, struct disk *k, const char *name, int *mount, struct err *e)
{
	if (*mount >= 0)
		close(*mount);
	*mount = mount_device(k->device, e);
	if (*mount >= 0)
		return 0;
	disk_drop(d, k, name);
	return -1;
}

static int image_rename(struct disks *d, const char *name, const char *to)
{
	char from_file[DISK_NAME_LEN + 8], to_file[DISK_NAME_LEN + 8];

	snprintf(from_file, sizeof from_file, "%s.img", name);
	snprintf(to_file, sizeof to_file, "%s.img", to);
	return renameat(d->dir, from_file, d->dir, to_file);
}

/* One out of the reserve. */
static int disk_reuse(struct disks *d, const char *spare, const char *name, struct disk *out, int *mount, struct err *e)
{
	*mount = -1;
	if (image_rename(d, spare, name) == 0)
		return mount_for_guest(d, out, name, mount, e);
	err_sys(e, "%s.img", spare);
	disk_drop(d, out, spare);
	return -1;
}

int disk_make(struct disks *d, uint32_t mb, const char *name, struct disk *out, int *mount, struct err *e)
{
	char spare[DISK_NAME_LEN] = "";
	struct disk_size *s;
	int status;

	if (host_has_room(d, e) < 0)
		return -1;
	if (!d->loop)
		return disk_new(d, mb, NULL, name, out, mount, e);
	pthread_mutex_lock(&d->lock);
	s = size_get(d, mb, e);
	if (s != NULL && s->nspares > 0) {
		*out = s->spare[--s->nspares].disk;
		memcpy(spare, s->spare[s->nspares].name, sizeof spare);
	}
	pthread_mutex_unlock(&d->lock);
	if (s == NULL)
		return -1;
	status = spare[0] != '\0' ? disk_reuse(d, spare, name, out, mount, e) : disk_new(d, mb, s, name, out, mount, e);
	if (status == 0 && spare[0] == '\0')
		status = mount_for_guest(d, out, name, mount, e);
	size_put(d, s);
	return status;
}

/* Into the reserve, under that name. False: it is full. */
static bool spare_push(struct disk_size *s, const struct disk *k, const char *name)
{
	if (s->nspares == DISK_SPARES_MAX)
		return false;
	if (s->spare == NULL && (s->spare = calloc(DISK_SPARES_MAX, sizeof *s->spare)) == NULL)
		return false;
	s->spare[s->nspares] = (struct disk_spare){ .disk = *k, .since_us = boot_us() };
	snprintf(s->spare[s->nspares++].name, DISK_NAME_LEN, "%s", name);
	return true;
}

int disk_reserve(struct disks *d, uint32_t mb, size_t want, struct err *e)
{
	char name[DISK_NAME_LEN];
	struct disk_size *s;
	struct disk k;
	bool full;
	int status = -1, mount = -1;

	if (!d->loop)
		return 0;
	if (want > DISK_SPARES_MAX)
		want = DISK_SPARES_MAX;
	pthread_mutex_lock(&d->lock);
	s = size_get(d, mb, e);
	full = s != NULL && s->nspares >= want;
	snprintf(name, sizeof name, "spare-%u", d->counter++);
	pthread_mutex_unlock(&d->lock);
	if (s == NULL)
		return -1;
	if (full)
		status = 0;
	else if (host_has_room(d, e) == 0 && disk_new(d, mb, s, name, &k, &mount, e) == 0)
		status = 1;
	pthread_mutex_lock(&d->lock);
	s->users--;
	full = status == 1 && !spare_push(s, &k, name);
	pthread_mutex_unlock(&d->lock);
	if (mount >= 0)
		close(mount);
	if (full)
		disk_drop(d, &k, name);
	return status;
}

/* The spare to be given back next, if there is one by now. Else *next_us becomes when there will be, unless that is later. */
static bool spare_stale(struct disk_size *s, bool wanted, size_t most, int64_t now, struct disk_spare *out, int64_t *next_us)
{
	const size_t at = wanted ? most : 0;         /* those below are to stay, however long they are of no use */
	int64_t when;

	if (s->nspares <= at)
		return false;
	when = wanted ? s->spare[at].since_us + SPARE_IDLE_US : now;
	if (when > now) {
		*next_us = *next_us == 0 || when < *next_us ? when : *next_us;
		return false;
	}
	*out = s->spare[at];
	memmove(s->spare + at, s->spare + at + 1, (--s->nspares - at) * sizeof *s->spare);
	return true;
}

int64_t disks_trim(struct disks *d, bool (*keep)(void *ctx, uint32_t mb), void *ctx, size_t most)
{
	const int64_t now = boot_us();
	struct disk_spare old;
	int64_t next_us = 0;

	bool found = false;

	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < DISK_SIZES_MAX && !found; i++)
		found = spare_stale(&d->size[i], keep(ctx, d->size[i].mb), most, now, &old, &next_us);
	pthread_mutex_unlock(&d->lock);
	if (!found)
		return next_us;
	disk_drop(d, &old.disk, old.name);
	return now;
}

void disk_abandon(const struct disk *k)
{
	uint32_t how = SHUTDOWN_NO_FLUSH;
	struct statfs st;

	if (k->dir < 0 || fstatfs(k->dir, &st) < 0)
		return;
	if ((st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize > ABANDON_BYTES)
		ioctl(k->dir, EXT4_SHUTDOWN, &how); /* a tmpfs says ENOTTY, and has nothing to write */
}

void disk_drop(struct disks *d, struct disk *k, const char *name)
{
	char file[DISK_NAME_LEN + 8];

	disk_abandon(k);
	if (k->dir >= 0)
		close(k->dir);
	k->dir = -1;
	snprintf(file, sizeof file, "%s.img", name);
	unlinkat(d->dir, file, 0);
}

/* ---- disks that outlive their processes ---- */

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
	char file[DISK_NAME_LEN + 8];
	int fd, status;

	if (k->dir >= 0) {
		syncfs(k->dir);
		close(k->dir);
	}
	k->dir = -1;
	if (wait_unmounted(name, e) < 0)
		return -1;
	snprintf(file, sizeof file, "%s.img", name);
	fd = openat(d->dir, file, O_RDONLY | O_CLOEXEC);
	status = fd >= 0 ? fdatasync(fd) : -1;
	if (status < 0)
		err_sys(e, "%s", file);
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
	char file[DISK_NAME_LEN + 8];
	int image;

	*out = (struct disk){ .dir = -1 };
	*mount = -1;
	snprintf(file, sizeof file, "%s.img", name);
	if (host_has_room(d, e) < 0 || wait_unmounted(name, e) < 0)
		return -1;
	image = openat(d->dir, file, O_RDWR | O_CLOEXEC);
	if (image < 0)
		return err_set(e, ERR_NOT_FOUND, "the disk of %s is gone", name);
	*mount = mount_image(d, image, out, e);
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
	mount = loop >= 0 ? mount_device(device, e) : err_set(e, ERR_INTERNAL, "the disk of %s is not mounted", name);
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
	char file[DISK_NAME_LEN + 8];
	int image;

	if (disk_open(d, k, name, e) < 0)
		return -1;
	snprintf(file, sizeof file, "%s.img", name);
	image = openat(d->dir, file, O_RDONLY | O_CLOEXEC);
	if (image >= 0) {
		trim(k, image);
		close(image);
	}
	return image < 0 || syncfs(k->dir) < 0 ? err_sys(e, "disk of %s", name) : 0;
}

int disk_take(struct disks *d, const struct disk *k, const char *name, int to, uint64_t max_bytes, struct err *e)
{
	char file[DISK_NAME_LEN + 8];
	int image, status = -1;

	snprintf(file, sizeof file, "%s.img", name);
	image = openat(d->dir, file, O_RDONLY | O_CLOEXEC);
	if (image < 0 || syncfs(k->dir) < 0)
		err_sys(e, "%s", file);
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

	if (host_has_room(d, e) < 0)
		return -1;
	if (fstatvfs(d->dir, &st) == 0 && st.f_bavail * st.f_frsize < bytes)
		return err_set(e, ERR_UNAVAILABLE, "the file system of the sandbox disks has no room for a copy of %llu bytes",
			       (unsigned long long)bytes);
	return 0;
}

int disk_clone(struct disks *d, int image, const char *name, struct disk *out, int *mount, struct err *e)
{
	char file[DISK_NAME_LEN + 8];
	int fd, status;

	*out = (struct disk){ .dir = -1 };
	*mount = -1;
	if (disk_room(d, bytes_of(image), e) < 0)
		return -1;
	snprintf(file, sizeof file, "%s.img", name);
	fd = openat(d->dir, file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	status = fd >= 0 ? copy_file(image, fd, e) : err_sys(e, "%s", file);
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

/* ---- second use ---- */

static uint64_t image_bytes(const struct disks *d, const char *name)
{
	char file[DISK_NAME_LEN + 8];
	struct stat st;

	snprintf(file, sizeof file, "%s.img", name);
	return fstatat(d->dir, file, &st, 0) == 0 ? (uint64_t)st.st_blocks * 512 : UINT64_MAX;
}

/* Little enough that emptying it is cheaper than a new disk. */
static bool worth_emptying(struct disks *d, const struct disk *k, const char *name)
{
	uint64_t blocks, inodes;
	struct err full;

	/* an image on a full file system may have lost writes */
	return k->device[0] != '\0' && k->dir >= 0 && host_has_room(d, &full) == 0 && count_free(k, &blocks, &inodes) == 0 && blocks + REUSE_BLOCKS >= k->blocks &&
	       inodes + REUSE_INODES >= k->inodes && image_bytes(d, name) <= SPARE_BYTES;
}

/* What a guest may have left cannot hide: an entry that does not go, or a count that is not the first one, and the disk is not used again. */
static bool empty_disk(const struct disk *k)
{
	uint64_t blocks, inodes;

	for (size_t i = 0; i < CONTENT; i++)
		if (tree_remove(k->dir, content[i]) < 0)
			return false;
	return make_content(k->dir) == 0 && count_free(k, &blocks, &inodes) == 0 && blocks == k->blocks && inodes == k->inodes;
}

static struct disk_size *size_find(struct disks *d, uint32_t mb)
{
	for (size_t i = 0; i < DISK_SIZES_MAX; i++)
		if (d->size[i].mb == mb && d->size[i].nspares < DISK_SPARES_MAX)
			return &d->size[i];
	return NULL;
}

void disk_retire(struct disks *d, struct disk *k, uint32_t mb, const char *name)
{
	char spare[DISK_NAME_LEN];
	struct disk_size *s;
	bool renamed, kept;

	pthread_mutex_lock(&d->lock);
	s = size_find(d, mb);
	if (s != NULL)
		s->users++;
	snprintf(spare, sizeof spare, "spare-%u", d->counter++);
	pthread_mutex_unlock(&d->lock);
	renamed = s != NULL && worth_emptying(d, k, name) && empty_disk(k) && image_rename(d, name, spare) == 0;
	pthread_mutex_lock(&d->lock);
	if (s != NULL)
		s->users--;
	kept = renamed && spare_push(s, k, spare);
	pthread_mutex_unlock(&d->lock);
	if (kept)
		k->dir = -1;
	else
		disk_drop(d, k, renamed ? spare : name);
}

/* ---- all of them ---- */

static int probe_loop(struct disks *d, struct err *e)
{
	struct disk_size *s;
	struct disk k;
	int mount;

	d->control = loop_control_open(d->nodes, e);
	if (d->control < 0)
		return -1;
	s = size_get(d, DISK_MIN_MB, e);
	if (s == NULL || disk_new(d, DISK_MIN_MB, s, "probe", &k, &mount, e) < 0)
		return -1;
	close(mount);
	disk_drop(d, &k, "probe");
	size_free(s);
	return 0;
}

int disks_open(struct disks *d, const char *dir, struct err *e)
{
	char nodes[PATH_MAX];
	struct err why;

	memset(d, 0, sizeof *d);
	d->control = d->nodes = -1;
	pthread_mutex_init(&d->lock, NULL);
	d->dir = dir_make(dir, 0700, (gid_t)-1, e);
	if (d->dir < 0)
		return -1;
	if (snprintf(nodes, sizeof nodes, "%s/dev", dir) >= (int)sizeof nodes)
		return err_set(e, ERR_INVALID, "%.200s is too long", dir);
	d->nodes = dir_make(nodes, 0700, (gid_t)-1, e);
	if (d->nodes < 0)
		return -1;
	d->loop = true;
	if (probe_loop(d, &why) < 0) {
		d->loop = false;
		log_warn("no loop devices (%s): disks of sandboxes are in memory (tmpfs)", why.text);
	}
	return 0;
}

static bool no_size(void *ctx, uint32_t mb)
{
	(void)ctx;
	(void)mb;
	return false;
}

void disks_close(struct disks *d)
{
	while (disks_trim(d, no_size, NULL, 0) != 0)
		continue;
	for (size_t i = 0; i < DISK_SIZES_MAX; i++)
		size_free(&d->size[i]);
	if (d->control >= 0)
		close(d->control);
	if (d->nodes >= 0)
		close(d->nodes);
	if (d->dir >= 0)
		close(d->dir);
	pthread_mutex_destroy(&d->lock);
}
