/*
 * Checkpoints: a copy of a running sandbox's disk. All of the sandbox's processes stand still only while the image is copied: what can be
 * written out is so before, and the copy is checked and made safe after.
 */
#include "config.h"

#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "hutch/crypto.h"
#include "hutch/log.h"
#include "hutch/when.h"
#include "node.h"

#define FREEZE_MS 5000
#define FILE_MAX (1 << 20)

/* ---- the table (with the lock held) ---- */

static struct checkpoint *by_name(const struct node *n, const char *name)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct hnode *x = n->checkpoints.bucket[i]; x != NULL; x = x->next)
			if (strcmp(((struct checkpoint *)x)->st.name, name) == 0)
				return (struct checkpoint *)x;
	return NULL;
}

static void enter(struct node *n, struct checkpoint *c)
{
	htab_add(&n->checkpoints, &c->by_id, c->st.id);
	n->ncheckpoints++;
}

static void checkpoint_free(struct checkpoint *c)
{
	shape_release(&c->st.shape);
	free(c);
}

void checkpoints_free(struct node *n)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (n->checkpoints.bucket[i] != NULL) {
			struct checkpoint *c = (struct checkpoint *)n->checkpoints.bucket[i];

			htab_del(&n->checkpoints, &c->by_id);
			checkpoint_free(c);
		}
}

/* ---- taking one ---- */

/* The copy, with the sandbox at a stand. */
static int take_still(struct node *n, struct machine *m, int to, uint64_t max_bytes, int64_t *still_us, struct err *e)
{
	const int64_t from = boot_us();
	struct err why;
	int status;

	status = cgroup_freeze(&n->cg, m->st.id, true, FREEZE_MS, e);
	if (status == 0)
		status = disk_take(&n->disks, &m->disk, m->st.id, to, max_bytes, e);
	if (cgroup_freeze(&n->cg, m->st.id, false, FREEZE_MS, &why) < 0) {
		log_error("sandbox %s: %s", m->st.id, why.text);
		if (status == 0) {
			*e = why;
			status = -1;
		}
	}
	*still_us = boot_us() - from;
	return status;
}

static int settle(struct node *n, struct machine *m, struct err *e)
{
	struct disk k = m->disk;

	if (disk_settle(&n->disks, &k, m->st.id, e) < 0)
		return -1;
	pthread_mutex_lock(&n->lock);        /* it may have been opened just now */
	m->disk = k;
	pthread_mutex_unlock(&n->lock);
	return 0;
}

static int capture(struct node *n, const char *machine, const struct checkpoint_order *o, int to, struct checkpoint *c, struct err *e)
{
	struct machine *m = machine_take(n, machine, e);
	int status;

	if (m == NULL)
		return -1;
	if (m->st.sleep != SLEEP_NONE)
		status = err_set(e, ERR_CONFLICT, "the sandbox is hibernated");
	else if (!n->disks.loop || !cgroups_freeze(&n->cg))
		status = err_set(e, ERR_CONFLICT, "checkpoints need loop devices and a cgroup freezer, which are not here");
	else
		status = settle(n, m, e);
	if (status == 0)
		status = take_still(n, m, to, o->max_bytes, &c->still_us, e);
	shape_copy(&c->st.shape, &m->st.shape);
	if (machine_give_back(n, m) < 0 && status == 0)
		status = err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	return status;
}

/* Both are there after a power cut, too. */
static int make_durable(struct node *n, const char *file, struct err *e)
{
	int fd = openat(n->ck, file, O_RDONLY | O_CLOEXEC), status;

	status = fd >= 0 && fsync(fd) == 0 && fsync(n->ck) == 0 ? 0 : err_sys(e, "%s", file);
	if (fd >= 0)
		close(fd);
	return status;
}

static int write_down(struct node *n, const struct checkpoint *c, struct err *e)
{
	char file[MACHINE_LEN + 8];
	struct buf b;
	struct jw w;
	int status;

	buf_init(&b, FILE_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	checkpoint_write(&w, &c->st);
	jw_close(&w, '}');
	buf_addc(&b, '\n');
	snprintf(file, sizeof file, "%s.json", c->st.id);
	status = buf_failed(&b) ? err_set(e, ERR_INTERNAL, "out of memory") : file_replace(n->ck, file, b.p, b.len, e);
	if (status == 0)
		status = make_durable(n, file, e);
	buf_release(&b);
	return status;
}

static void remove_files(struct node *n, const char *id)
{
	char file[MACHINE_LEN + 8];

	snprintf(file, sizeof file, "%s.json", id);
	unlinkat(n->ck, file, 0);
	snprintf(file, sizeof file, "%s.img", id);
	unlinkat(n->ck, file, 0);
}

static int make(struct node *n, const char *machine, const struct checkpoint_order *o, struct checkpoint *c, struct err *e)
{
	char file[MACHINE_LEN + 8];
	int fd, status = -1;

	snprintf(file, sizeof file, "%s.img", c->st.id);
	fd = openat(n->ck, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "%s", file);
	if (capture(n, machine, o, fd, c, e) == 0 && disk_check(fd, &c->st.bytes, e) == 0)
		status = write_down(n, c, e);
	close(fd);
	if (status < 0)
		remove_files(n, c->st.id);
	return status;
}

static void tell(struct checkpoint_order *o, const struct checkpoint *c)
{
	memcpy(o->id, c->st.id, sizeof o->id);
	o->bytes = c->st.bytes;
	o->created_us = c->st.created_us;
	o->still_us = c->still_us;
}

/* One of that name, when it is of that sandbox: 1; 0 when there is none. */
static int find_made(struct node *n, const char *machine, struct checkpoint_order *o, struct err *e)
{
	const struct checkpoint *c;
	int status = 0;

	pthread_mutex_lock(&n->lock);
	c = by_name(n, o->name);
	if (c != NULL && strcmp(c->st.sandbox, machine) != 0) {
		status = err_set(e, ERR_CONFLICT, "there is a checkpoint of another sandbox with this name");
	} else if (c != NULL) {
		tell(o, c);
		status = 1;
	}
	pthread_mutex_unlock(&n->lock);
	return status;
}

int node_checkpoint(struct node *n, const char *machine, struct checkpoint_order *o, struct err *e)
{
	struct checkpoint *c;
	int status = find_made(n, machine, o, e);

	if (status != 0)
		return status < 0 ? -1 : 0;
	if (disk_room(&n->disks, 0, e) < 0)
		return -1;
	c = calloc(1, sizeof *c);
	if (c == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	memcpy(c->st.id, "ck_", 3);
	random_id(c->st.id + 3, MACHINE_LEN - 4);
	snprintf(c->st.name, sizeof c->st.name, "%s", o->name);
	snprintf(c->st.sandbox, sizeof c->st.sandbox, "%s", machine);
	c->st.created_us = wall_us();
	if (make(n, machine, o, c, e) < 0) {
		checkpoint_free(c);
		return -1;
	}
	tell(o, c);
	pthread_mutex_lock(&n->lock);
	enter(n, c);
	pthread_mutex_unlock(&n->lock);
	return 0;
}

/* ---- using and removing one ---- */

int node_checkpoint_open(struct node *n, const char *id, struct shape *shape, struct err *e)
{
	char file[MACHINE_LEN + 8];
	struct checkpoint *c;
	int fd;

	pthread_mutex_lock(&n->lock);
	c = (struct checkpoint *)htab_find(&n->checkpoints, id);
	if (c != NULL)
		shape_copy(shape, &c->st.shape);
	pthread_mutex_unlock(&n->lock);
	if (c == NULL)
		return err_set(e, ERR_NOT_FOUND, "unknown checkpoint");
	snprintf(file, sizeof file, "%s.img", id);
	fd = openat(n->ck, file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	shape_release(shape);
	return err_set(e, ERR_NOT_FOUND, "unknown checkpoint");
}

/* Sandboxes that are being started from it have its image open. */
int node_checkpoint_drop(struct node *n, const char *id, struct err *e)
{
	struct checkpoint *c;

	pthread_mutex_lock(&n->lock);
	c = (struct checkpoint *)htab_find(&n->checkpoints, id);
	if (c != NULL) {
		htab_del(&n->checkpoints, &c->by_id);
		n->ncheckpoints--;
	}
	pthread_mutex_unlock(&n->lock);
	if (c == NULL)
		return err_set(e, ERR_NOT_FOUND, "unknown checkpoint");
	remove_files(n, c->st.id);
	checkpoint_free(c);
	return 0;
}

/* ---- at the start ---- */

static void load(void *ctx, const char *file)
{
	struct node *n = ctx;
	struct checkpoint *c = calloc(1, sizeof *c);
	char *text = malloc(FILE_MAX), image[MACHINE_LEN + 8];
	const size_t end = strlen(file);
	ssize_t len = -1;
	struct err e;

	if (text != NULL && c != NULL && end > 5 && strcmp(file + end - 5, ".json") == 0)
		len = file_read(n->ck, file, text, FILE_MAX);
	if (len >= 0 && checkpoint_read(text, (size_t)len, &c->st, &e) == 0 && strncmp(file, c->st.id, MACHINE_LEN - 1) == 0) {
		snprintf(image, sizeof image, "%s.img", c->st.id);
		if (faccessat(n->ck, image, F_OK, 0) == 0) {
			enter(n, c);
			c = NULL;
		}
	}
	if (c != NULL)
		checkpoint_free(c);
	free(text);
}

static void drop_unknown(void *ctx, const char *file)
{
	struct node *n = ctx;
	char id[MACHINE_LEN] = "";

	if (strlen(file) >= MACHINE_LEN - 1)
		memcpy(id, file, MACHINE_LEN - 1);
	if (htab_find(&n->checkpoints, id) == NULL && unlinkat(n->ck, file, 0) == 0)
		log_warn("checkpoint file %s belongs to none: removed", file);
}

void checkpoints_load(struct node *n)
{
	pthread_mutex_lock(&n->lock);
	dir_each(n->ck, DT_REG, load, n);
	dir_each(n->ck, DT_REG, drop_unknown, n);
	pthread_mutex_unlock(&n->lock);
}
