/* The reserve: new disks that wait for a sandbox, and those of dead ones that were emptied. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk_int.h"
#include "hutch/when.h"

#define REUSE_BLOCKS 1024u           /* 4 MiB, and its metadata */
#define REUSE_INODES 512u
#define SPARE_IDLE_US (10 * US_PER_S)
#define SPARE_BYTES (16ULL << 20)    /* of its image: what a guest wrote and deleted is still taken from the host */

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
		return disk_mount_for_guest(d, out, name, mount, e);
	err_sys(e, "%s.img", spare);
	disk_drop(d, out, spare);
	return -1;
}

int disk_make(struct disks *d, uint32_t mb, const char *name, struct disk *out, int *mount, struct err *e)
{
	char spare[DISK_NAME_LEN] = "";
	struct disk_size *s;
	int status;

	if (disks_have_room(d, e) < 0)
		return -1;
	if (!d->loop)
		return disk_new(d, mb, NULL, name, out, mount, e);
	pthread_mutex_lock(&d->lock);
	s = disk_size_get(d, mb, e);
	if (s != NULL && s->nspares > 0) {
		*out = s->spare[--s->nspares].disk;
		memcpy(spare, s->spare[s->nspares].name, sizeof spare);
	}
	pthread_mutex_unlock(&d->lock);
	if (s == NULL)
		return -1;
	status = spare[0] != '\0' ? disk_reuse(d, spare, name, out, mount, e) : disk_new(d, mb, s, name, out, mount, e);
	if (status == 0 && spare[0] == '\0')
		status = disk_mount_for_guest(d, out, name, mount, e);
	disk_size_put(d, s);
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
	s = disk_size_get(d, mb, e);
	full = s != NULL && s->nspares >= want;
	snprintf(name, sizeof name, "spare-%u", d->counter++);
	pthread_mutex_unlock(&d->lock);
	if (s == NULL)
		return -1;
	if (full)
		status = 0;
	else if (disks_have_room(d, e) == 0 && disk_new(d, mb, s, name, &k, &mount, e) == 0)
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
	return k->device[0] != '\0' && k->dir >= 0 && disks_have_room(d, &full) == 0 && disk_count_free(k, &blocks, &inodes) == 0 &&
	       blocks + REUSE_BLOCKS >= k->blocks &&
	       inodes + REUSE_INODES >= k->inodes && image_bytes(d, name) <= SPARE_BYTES;
}

/* What a guest may have left cannot hide: an entry that does not go, or a count that is not the first one, and the disk is not used again. */
static bool empty_disk(const struct disk *k)
{
	uint64_t blocks, inodes;

	return disk_remove_content(k->dir) == 0 && disk_make_content(k->dir) == 0 && disk_count_free(k, &blocks, &inodes) == 0 &&
	       blocks == k->blocks && inodes == k->inodes;
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
