/*
 * The instance's clock: real time that no step of the wall clock moves, or a frozen instant for tests and worlds.
 *
 * The record `world_clock` says which (0: real, else the frozen time). Every process maps the file DB/clock, which holds the same
 * number, so that domain_now() costs no transaction. The page follows the record: it is written under the writer's lock only, together with the
 * record, and whoever opens the records puts right what a crash in between left.
 */
#include "domain_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/log.h"

#define RECORD "world_clock"
#define RUN_BUDGET_US (30 * US_PER_S)    /* of real time for the ends on the way; what is left then, the reaper ends */
#define SETTLE_US (10 * US_PER_S)
#define SETTLE_STEP_US 2000

int64_t domain_now(const struct domain *d)
{
	int64_t frozen = atomic_load_explicit(d->clock, memory_order_acquire);

	return frozen != 0 ? frozen : domain_real_now(d);
}

int64_t domain_real_now(const struct domain *d)
{
	return d->anchor_wall_us + (boot_us() - d->anchor_boot_us);
}

void clock_get(const struct domain *d, struct world_clock *out)
{
	out->frozen = atomic_load(d->clock) != 0;
	out->now_us = domain_now(d);
}

/* ---- record and page ---- */

static int record_get(struct txn *t, int64_t *frozen, struct err *e)
{
	return store_numbers_get(t, RECORD, frozen, 1, e);
}

/* Record and page to `frozen`; -1 leaves both as they were. */
static int publish(struct domain *d, int64_t frozen, struct err *e)
{
	int64_t before = atomic_load(d->clock);
	struct txn *t;

	if (frozen == before)
		return 0;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (store_numbers_put(t, RECORD, &frozen, 1, e) < 0) {
		txn_abort(t);
		return -1;
	}
	atomic_store(d->clock, frozen);
	if (txn_commit(t, e) == 0)
		return 0;
	atomic_store(d->clock, before);
	return -1;
}

static int map_page(struct domain *d, int fd, const char *path, struct err *e)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0 || (st.st_size < (off_t)sizeof *d->clock && ftruncate(fd, sizeof *d->clock) < 0))
		return err_sys(e, "%s", path);
	p = mmap(NULL, sizeof *d->clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, "%s", path);
	d->clock = p;
	return 0;
}

/* A root tool that comes first gives it to the owner of the records. */
static int open_page(const struct config *c, char path[4096], struct err *e)
{
	struct stat dir;
	int fd;

	if (snprintf(path, 4096, "%s/clock", c->db_dir) >= 4096)
		return err_set(e, ERR_INVALID, "db_dir is too long");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd >= 0 && geteuid() == 0 && (stat(c->db_dir, &dir) < 0 || fchown(fd, dir.st_uid, dir.st_gid) < 0)) {
		err_sys(e, "%s", path);
		close(fd);
		return -1;
	}
	return fd < 0 ? err_sys(e, "%s", path) : fd;
}

/* Whoever reads the record inside a write transaction sees the newest, and nobody publishes meanwhile. */
static int follow_record(struct domain *d, bool write, bool *differs, struct err *e)
{
	struct txn *t;
	int64_t frozen;
	int status;

	if ((write ? txn_write(d->store, &t, e) : txn_read(d->store, &t, e)) < 0)
		return -1;
	status = record_get(t, &frozen, e);
	*differs = status == 0 && frozen != atomic_load(d->clock);
	if (*differs && write)
		atomic_store(d->clock, frozen);
	txn_abort(t);
	return status;
}

int clock_open(struct domain *d, struct err *e)
{
	bool differs = false;
	char path[4096];
	int fd = open_page(d->conf, path, e), status;

	if (fd < 0)
		return -1;
	status = map_page(d, fd, path, e);
	close(fd);
	if (status == 0)
		status = follow_record(d, false, &differs, e);
	return status == 0 && differs ? follow_record(d, true, &differs, e) : status;
}

void clock_close(struct domain *d)
{
	if (d->clock != NULL)
		munmap(d->clock, sizeof *d->clock);
	d->clock = NULL;
}

/* ---- moving it ---- */

static int count_unsettled(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	(void)e;
	if (r->state == SB_PAUSING)
		++*(int *)ctx;
	return 0;
}

/* The reaper may have taken rows that came due before us: wait until it is through with those that clients still see. */
static int settle(struct domain *d, struct err *e)
{
	int64_t until = boot_us() + SETTLE_US;
	int n;

	do {
		struct txn *t;
		int status;

		n = 0;
		if (txn_read(d->store, &t, e) < 0)
			return -1;
		status = store_walk_sandboxes(t, "", count_unsettled, &n, e);
		txn_abort(t);
		if (status < 0)
			return -1;
		if (n > 0)
			usleep(SETTLE_STEP_US);
	} while (n > 0 && boot_us() < until);
	return 0;
}

/* From one due time to the next up to target, each with what is due at it. */
static int run_to(struct domain *d, int64_t target, struct err *e)
{
	int64_t until = boot_us() + RUN_BUDGET_US, now, next;

	for (;;) {
		if (reap_once(d, &next, e) < 0)
			return -1;
		now = domain_now(d);
		if (next < 0 || next > target || next <= now || boot_us() > until)
			break;
		if (publish(d, next, e) < 0)
			return -1;
	}
	if (publish(d, target, e) < 0 || reap_once(d, &next, e) < 0)
		return -1;
	return settle(d, e);
}

static int check(const struct domain *d, const struct clock_spec *s, struct err *e)
{
	bool frozen = s->mode != NULL ? strcmp(s->mode, "frozen") == 0 : atomic_load(d->clock) != 0;

	if (s->mode != NULL && !frozen && strcmp(s->mode, "real") != 0)
		return err_set(e, ERR_INVALID, "mode must be real or frozen");
	if (frozen && d->conf->upstream_url[0] != '\0')
		return err_set(e, ERR_CONFLICT, "the clock cannot be frozen while an account is mirrored (option upstream_url): its sandboxes end by "
			       "real time");
	if (!frozen && s->at_us != 0)
		return err_set(e, ERR_INVALID, "at needs mode frozen");
	if (!frozen && s->advance_us != 0)
		return err_set(e, ERR_INVALID, "advance needs a frozen clock");
	return frozen;
}

int clock_set(struct domain *d, const struct clock_spec *s, struct err *e)
{
	int frozen = check(d, s, e);
	int64_t now = domain_now(d), target;

	if (frozen < 0)
		return -1;
	target = (s->at_us != 0 ? s->at_us : now) + s->advance_us;
	if (!frozen && publish(d, 0, e) < 0)
		return -1;
	if (frozen && (publish(d, target < now ? target : now, e) < 0 || (target >= now && run_to(d, target, e) < 0)))
		return -1;
	reaper_nudge(d);
	return 0;
}
