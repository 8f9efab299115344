/*
 * disk_int.h - shared by disk*.c only.
 */
#ifndef HUTCH_DISK_INT_H
#define HUTCH_DISK_INT_H

#include "disk.h"

/* ---- disk.c ---- */
/* The image of the disk of that name, with flags as for open(2). Descriptor, or -1 with errno. */
int disk_image_open(const struct disks *d, const char *name, int flags);
/* A mount of the image behind a loop device of its own; k->device becomes that. Descriptor of the detached mount, or -1. */
int disk_mount_image(struct disks *d, int image, struct disk *k, struct err *e);
/* A further mount of a device that is mounted already: of the same file system, and cheap. */
int disk_mount_device(const char *device, struct err *e);
/* The sandbox gets a mount of its own in the place of *mount, or loses the disk: -1. What we hold of it must not have its ids, since through
 * such a mount we could make nothing, and never empty the disk for the next one. */
int disk_mount_for_guest(struct disks *d, struct disk *k, const char *name, int *mount, struct err *e);
/* A disk of mb MiB, from the image of its size where there are loop devices. *mount is the caller's to close: its first mount. */
int disk_new(struct disks *d, uint32_t mb, const struct disk_size *s, const char *name, struct disk *out, int *mount, struct err *e);
/* Images are sparse: the sum of their sizes may be over what is free. Rather no further sandbox than a full host. ERR_UNAVAILABLE. */
int disks_have_room(struct disks *d, struct err *e);
/* Its free blocks and inodes. -1 with errno. */
int disk_count_free(const struct disk *k, uint64_t *blocks, uint64_t *inodes);
/* The directories that each disk has; what is there is left. -1 with errno. */
int disk_make_content(int dir);
/* Remove them and all that is in them. -1: something does not go. */
int disk_remove_content(int dir);

/* ---- disk_size.c ---- */
/* The row of a size, its image made at first use; with the lock held. Counts as a user of it: disk_size_put. */
struct disk_size *disk_size_get(struct disks *d, uint32_t mb, struct err *e);
void disk_size_put(struct disks *d, struct disk_size *s);       /* takes the lock */
void disk_size_free(struct disk_size *s);
/* A new image of that size, called name. Descriptor, or -1. */
int disk_image_new(struct disks *d, const struct disk_size *s, const char *name, struct err *e);

#endif
