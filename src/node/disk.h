/*
 * disk.h - the writable disks of sandboxes.
 *
 * Kernels without quota support (and most file systems) cannot bound a directory, so each sandbox gets a file system of its own:
 * an ext4 image in a sparse file behind a loop device. Image and loop device are bound together so that nothing needs undoing:
 * the mounts are detached (seen by no mount table of the host), the loop device clears itself with the last user, and unlinking
 * the image frees the blocks. One image per size is made by mke2fs; a new disk is a copy of its few written blocks (130 KiB for
 * 1 GiB).
 *
 * A new disk costs more than the rest of a start (the kernel syncs the image to the device when it binds it), and so does the end of one.
 * So a few per size are kept in reserve, and the disk of a dead sandbox that holds little is emptied and used again. It counts as empty
 * only if the file system then has exactly as many free blocks and inodes as when it was new. Under load the reserve grows to what comes
 * and goes at a time; what is not used again within some seconds is given back.
 *
 * Where no loop device can be had a disk is a tmpfs of that size, charged to the sandbox's memory.
 *
 * Content of a disk: up/ work/ (overlay of the root), uup/ uwork/ (overlay of /usr of the host image).
 */
#ifndef HUTCH_DISK_H
#define HUTCH_DISK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "hutch/err.h"

#define DISK_SIZES_MAX 64
#define DISK_SPARES_MAX 64           /* what a crowd that dies at once leaves to the crowd that comes next */
#define DISK_NAME_LEN 48
#define DISK_MIN_MB 16

struct disk {
	int dir;                     /* its root, opened for reading: this keeps the file system; -1 none */
	char device[48];             /* path of the loop device, "" for tmpfs */
	uint64_t blocks, inodes;     /* free ones of the new disk */
};

struct disk_extent { uint64_t at; size_t n; char *p; };

struct disk_spare {
	struct disk disk;
	char name[DISK_NAME_LEN];
	int64_t since_us;            /* boot_us() */
};

struct disk_size {
	uint32_t mb;                 /* 0 = free row */
	unsigned users;              /* threads that copy its extents right now */
	struct disk_extent *extents; /* what mke2fs wrote */
	size_t nextents;
	struct disk_spare *spare;    /* a stack: the first is the one that was longest of no use */
	size_t nspares;
};

struct disks {
	int dir;                     /* of the images */
	int nodes;                   /* private directory for loop device nodes */
	int control;                 /* loop-control */
	bool loop;                   /* else tmpfs */
	pthread_mutex_t lock;
	unsigned counter;            /* names of spares */
	struct disk_size size[DISK_SIZES_MAX];
};

/* dir: directory of images (made, 0700). Finds out whether loop devices work. */
int disks_open(struct disks *d, const char *dir, struct err *e);
void disks_close(struct disks *d);

/* A disk of mb MiB whose image is called name (".img" is added), and a detached mount of it for the sandbox.
 * ERR_UNAVAILABLE when the host's file system is nearly full. */
int disk_make(struct disks *d, uint32_t mb, const char *name, struct disk *out, int *mount, struct err *e);
/* Put one disk of that size in reserve. 1 made, 0 there were `want` already, -1. */
int disk_reserve(struct disks *d, uint32_t mb, size_t want, struct err *e);
/* Give back one disk in reserve of a size that keep() does not name, or one of the others that was of no use for a while and is more than
 * `most`. When to call again, boot_us(), or 0: nothing will be left to give back. */
int64_t disks_trim(struct disks *d, bool (*keep)(void *ctx, uint32_t mb), void *ctx, size_t most);
/* Write out the disk of a dead sandbox and let go of it; its image stays. Fields become -1. */
int disk_keep(struct disks *d, struct disk *k, const char *name, struct err *e);
/* The disk of an image that was kept, and a detached mount of it. ERR_NOT_FOUND: there is none. */
int disk_reopen(struct disks *d, const char *name, struct disk *out, int *mount, struct err *e);
/* ---- copies: of the disk of a sandbox that runs ---- */
/* Before it stands still: write out what can be, and give back the blocks of what was deleted. */
int disk_settle(struct disks *d, struct disk *k, const char *name, struct err *e);
/* While it does: copy its image to the file `to`. ERR_TOO_LARGE: it takes more than max_bytes. */
int disk_take(struct disks *d, const struct disk *k, const char *name, int to, uint64_t max_bytes, struct err *e);
/* After it: such a copy is checked (files that were deleted but open take no room in it), and safe on its disk. The bytes that it takes. */
int disk_check(int image, uint64_t *bytes, struct err *e);
/* Whether so many bytes more may be taken. ERR_UNAVAILABLE. */
int disk_room(struct disks *d, uint64_t bytes, struct err *e);
/* A disk that begins as a copy of an image, and a detached mount of it. */
int disk_clone(struct disks *d, int image, const char *name, struct disk *out, int *mount, struct err *e);
bool disk_there(const struct disks *d, const char *name);
/* The sandbox is dead: its disk goes into the reserve if it can be emptied, else disk_drop. */
void disk_retire(struct disks *d, struct disk *k, uint32_t mb, const char *name);
/* Let go of a disk and its image. Dirty pages are dropped, not written. */
void disk_drop(struct disks *d, struct disk *k, const char *name);
/* Drop what is not yet written: the death of the sandbox would otherwise wait for it. */
void disk_abandon(const struct disk *k);

#endif
