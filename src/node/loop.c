#include "config.h"

#include "loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "files.h"

#define CONTROL_MAJOR 10             /* devices.txt: misc, 237 = loop-control */
#define CONTROL_MINOR 237
#define LOOP_MAJOR 7
#define TRIES 64

int loop_control_open(int nodes, struct err *e)
{
	int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (mknodat(nodes, "loop-control", S_IFCHR | 0600, makedev(CONTROL_MAJOR, CONTROL_MINOR)) < 0 && errno != EEXIST)
		return err_sys(e, "no /dev/loop-control, and making one");
	fd = openat(nodes, "loop-control", O_RDWR | O_CLOEXEC);
	return fd >= 0 ? fd : err_sys(e, "loop-control");
}

/* Partitions (max_part) spread the minor numbers, so sysfs is asked first. */
static dev_t device_of(int number)
{
	char path[64], text[32], *end;
	unsigned long major_no, minor_no;

	snprintf(path, sizeof path, "/sys/block/loop%d/dev", number);
	if (file_read(AT_FDCWD, path, text, sizeof text) > 0) {
		major_no = strtoul(text, &end, 10);
		if (*end == ':') {
			minor_no = strtoul(end + 1, NULL, 10);
			return makedev((unsigned)major_no, (unsigned)minor_no);
		}
	}
	return makedev(LOOP_MAJOR, (unsigned)number);
}

static int node_open(int nodes, const char *nodes_path, int number, char *path, size_t max)
{
	dev_t want = device_of(number);
	struct stat st;
	char name[24];
	int fd;

	snprintf(path, max, "/dev/loop%d", number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == want)
		return fd;
	if (fd >= 0)
		close(fd);
	snprintf(name, sizeof name, "loop%d", number);
	snprintf(path, max, "%s/%s", nodes_path, name);
	if (mknodat(nodes, name, S_IFBLK | 0600, want) < 0 && errno != EEXIST)
		return -1;
	return openat(nodes, name, O_RDWR | O_CLOEXEC);
}

int loop_attach(int control, int nodes, const char *nodes_path, int image, char *path, size_t max, struct err *e)
{
	struct loop_config config = { .fd = (uint32_t)image, .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };

	for (int i = 0; i < TRIES; i++) {    /* another program may take the same free number */
		int number = ioctl(control, LOOP_CTL_GET_FREE), fd;

		if (number < 0)
			return err_sys(e, "no free loop device");
		fd = node_open(nodes, nodes_path, number, path, max);
		if (fd < 0)
			return err_sys(e, "loop device %d", number);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return fd;
		if (errno != EBUSY) {
			err_sys(e, "loop device %d", number);
			close(fd);
			return -1;
		}
		close(fd);
	}
	return err_set(e, ERR_UNAVAILABLE, "no free loop device after %d tries", TRIES);
}

struct search {
	const char *file;
	int number;                  /* -1 = not found */
};

static void look(void *ctx, const char *device)
{
	struct search *s = ctx;
	char path[NAME_MAX + 64], text[PATH_MAX + 16], *name;

	snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", device);
	if (strncmp(device, "loop", 4) != 0 || file_read(AT_FDCWD, path, text, sizeof text) <= 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	name = strrchr(text, '/');
	if (name != NULL && strncmp(name + 1, s->file, strlen(s->file)) == 0)
		s->number = (int)strtol(device + 4, NULL, 10);
}

static int number_of(const char *file)
{
	struct search s = { .file = file, .number = -1 };
	int dir = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return -1;
	dir_each(dir, DT_LNK, look, &s);
	close(dir);
	return s.number;
}

bool loop_uses(const char *file)
{
	return number_of(file) >= 0;
}

int loop_find(int nodes, const char *nodes_path, const char *file, char *path, size_t max)
{
	int number = number_of(file);

	return number >= 0 ? node_open(nodes, nodes_path, number, path, max) : -1;
}
