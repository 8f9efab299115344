/* Counts that all serving programs add to: a file in run_dir that they map. Adding is one atomic instruction. */
#include "domain_int.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRAMS 8

const int64_t count_bounds_us[COUNT_BUCKETS] = {
	250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 500000, 2500000, 10000000,
};

struct counts {
	_Atomic uint64_t count[16];
	struct {
		_Atomic uint64_t status[6], bucket[COUNT_BUCKETS + 1], sum_us;
	} program[PROGRAMS];
};
_Static_assert(COUNTS <= 16, "room for all counts");

/* A program's place in the file is its place here: append only. */
static const char *const programs[] = {
	"hutch-sandboxes", "hutch-teams", "hutch-doors", "hutch-templates", "hutch-volumes", "hutch-events", "other",
};
#define PROGRAM_NAMES (sizeof programs / sizeof programs[0])
_Static_assert(PROGRAM_NAMES <= PROGRAMS, "room for all programs");

void *shared_map(const struct config *c, const char *name, size_t size, struct err *e)
{
	struct stat owner;
	char path[4096];
	void *p;
	int fd;

	if (snprintf(path, sizeof path, "%s/%s", c->run_dir, name) >= (int)sizeof path) {
		err_set(e, ERR_INVALID, "run_dir is too long");
		return NULL;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		err_sys(e, "%s", path);
		return NULL;
	}
	/* root that comes first must not lock out those who serve: they own the records */
	if (geteuid() == 0 && stat(c->db_dir, &owner) == 0 && fchown(fd, owner.st_uid, owner.st_gid) < 0) {
		err_sys(e, "%s", path);
		close(fd);
		return NULL;
	}
	p = ftruncate(fd, (off_t)size) == 0 ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (p == MAP_FAILED)
		err_sys(e, "%s", path);
	close(fd);
	return p != MAP_FAILED ? p : NULL;
}

int shared_open(struct domain *d, struct err *e)
{
	d->counts = shared_map(d->conf, "counts", sizeof *d->counts, e);
	return d->counts == NULL ? -1 : rates_open(d, e);
}

void counts_close(struct counts *c)
{
	if (c != NULL)
		munmap(c, sizeof *c);
}

void count_add(const struct domain *d, enum count c, uint64_t n)
{
	if (d->counts != NULL)
		atomic_fetch_add_explicit(&d->counts->count[c], n, memory_order_relaxed);
}

uint64_t count_get(const struct domain *d, enum count c)
{
	return d->counts != NULL ? atomic_load_explicit(&d->counts->count[c], memory_order_relaxed) : 0;
}

static size_t program_index(const char *name)
{
	size_t i = 0;

	while (i + 1 < PROGRAM_NAMES && strcmp(programs[i], name) != 0)
		i++;
	return i;
}

void count_request(const struct domain *d, const char *program, int status, int64_t us)
{
	size_t i = program_index(program), b = 0;

	if (d->counts == NULL || status < 100 || status > 599)
		return;
	while (b < COUNT_BUCKETS && us > count_bounds_us[b])
		b++;
	atomic_fetch_add_explicit(&d->counts->program[i].status[status / 100], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->counts->program[i].bucket[b], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->counts->program[i].sum_us, (uint64_t)us, memory_order_relaxed);
}

bool count_requests(const struct domain *d, size_t i, struct request_counts *out)
{
	if (i >= PROGRAM_NAMES || d->counts == NULL)
		return false;
	snprintf(out->program, sizeof out->program, "%s", programs[i]);
	for (size_t s = 0; s < 6; s++)
		out->status[s] = atomic_load(&d->counts->program[i].status[s]);
	for (size_t b = 0; b <= COUNT_BUCKETS; b++)
		out->bucket[b] = atomic_load(&d->counts->program[i].bucket[b]);
	out->sum_us = atomic_load(&d->counts->program[i].sum_us);
	return true;
}
