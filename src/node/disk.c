/* One disk, and all of them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "disk_int.h"
#include "files.h"
#include "hutch/log.h"
#include "loop.h"
#include "sys.h"

#define EXT4_SHUTDOWN _IOR('X', 125, uint32_t)   /* FS_IOC_SHUTDOWN: ext4, xfs, f2fs */
#define SHUTDOWN_NO_FLUSH 2U
#define ABANDON_BYTES (16U << 20)    /* less than this is quicker written than announced in the kernel's log */
#define LOW_WATER_BYTES (1ULL << 30)

static const char *const content[] = { "up", "work", "uup", "uwork" };
#define CONTENT (sizeof content / sizeof content[0])

/* ---- one disk ---- */

int disk_image_open(const struct disks *d, const char *name, int flags)
{
	char file[DISK_NAME_LEN + 8];

	snprintf(file, sizeof file, "%s.img", name);
	return openat(d->dir, file, flags | O_CLOEXEC, 0600);
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

int disk_mount_device(const char *device, struct err *e)
{
	/* nothing outlives a crash of the machine: no file need be written out because it replaces one */
	const char *options[] = { "source", device, "noinit_itable", NULL, "nobarrier", NULL, "noauto_da_alloc", NULL, NULL };

	return mount_new("ext4", options, e);
}

int disk_mount_image(struct disks *d, int image, struct disk *k, struct err *e)
{
	char nodes[24];
	int loop, fd;

	snprintf(nodes, sizeof nodes, "/proc/self/fd/%d", d->nodes);
	loop = loop_attach(d->control, d->nodes, nodes, image, k->device, sizeof k->device, e);
	if (loop < 0)
		return -1;
	fd = disk_mount_device(k->device, e);
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

int disk_make_content(int dir)
{
	for (size_t i = 0; i < CONTENT; i++)
		if (mkdirat(dir, content[i], 0755) < 0 && errno != EEXIST)
			return -1;
	return 0;
}

int disk_remove_content(int dir)
{
	for (size_t i = 0; i < CONTENT; i++)
		if (tree_remove(dir, content[i]) < 0)
			return -1;
	return 0;
}

int disk_count_free(const struct disk *k, uint64_t *blocks, uint64_t *inodes)
{
	struct statfs st;

	if (fstatfs(k->dir, &st) < 0)
		return -1;
	*blocks = st.f_bfree;
	*inodes = st.f_ffree;
	return 0;
}

int disk_new(struct disks *d, uint32_t mb, const struct disk_size *s, const char *name, struct disk *out, int *mount, struct err *e)
{
	int image;

	*out = (struct disk){ .dir = -1 };
	*mount = -1;
	if (!d->loop) {
		*mount = mount_tmpfs(mb, e);
	} else {
		image = disk_image_new(d, s, name, e);
		if (image >= 0) {
			*mount = disk_mount_image(d, image, out, e);
			close(image);
		}
	}
	if (*mount >= 0)
		out->dir = openat(*mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->dir >= 0 && (d->loop || disk_make_content(out->dir) == 0) && disk_count_free(out, &out->blocks, &out->inodes) == 0)
		return 0;
	if (*mount >= 0) {
		err_sys(e, "root of a new disk");
		close(*mount);
		*mount = -1;
	}
	disk_drop(d, out, name);
	return -1;
}

int disks_have_room(struct disks *d, struct err *e)
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

int disk_mount_for_guest(struct disks *d, struct disk *k, const char *name, int *mount, struct err *e)
{
	if (*mount >= 0)
		close(*mount);
	*mount = disk_mount_device(k->device, e);
	if (*mount >= 0)
		return 0;
	disk_drop(d, k, name);
	return -1;
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

/* ---- all of them ---- */

static int probe_loop(struct disks *d, struct err *e)
{
	struct disk_size *s;
	struct disk k;
	int mount;

	d->control = loop_control_open(d->nodes, e);
	if (d->control < 0)
		return -1;
	s = disk_size_get(d, DISK_MIN_MB, e);
	if (s == NULL || disk_new(d, DISK_MIN_MB, s, "probe", &k, &mount, e) < 0)
		return -1;
	close(mount);
	disk_drop(d, &k, "probe");
	disk_size_free(s);
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
		disk_size_free(&d->size[i]);
	if (d->control >= 0)
		close(d->control);
	if (d->nodes >= 0)
		close(d->nodes);
	if (d->dir >= 0)
		close(d->dir);
	pthread_mutex_destroy(&d->lock);
}
