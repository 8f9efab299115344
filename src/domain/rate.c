/*
 * How often a team may ask, counted over all programs: a file in run_dir that they all map.
 *
 * A bucket is one number, the instant at which it will be full again (the generic cell rate algorithm): a request moves it on by the
 * time that one request is worth, and is refused when that would take it further than a whole bucket from now. So one
 * compare-and-swap is all, nothing is ever half-written, and a program that dies leaves nothing to repair. Instants are of the boot
 * clock; one that lies further ahead than a bucket is left from before a boot and counts as empty.
 */
#include "domain_int.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS 16384u                 /* a power of two: teams times groups at once */
#define PROBES 64u

struct slot {
	_Atomic uint64_t key;        /* of team and group; 0 = free */
	_Atomic int64_t full_us;
};

struct table {
	struct slot slot[SLOTS];
};

struct rates {
	struct table *table;
	int64_t per_minute[RATE_GROUPS];
	int64_t burst_s;
};

int rates_open(struct domain *d, struct err *e)
{
	const struct config *c = d->conf;
	struct rates *r;

	if (c->rate_create == 0 && c->rate_change == 0 && c->rate_read == 0)
		return 0;
	r = calloc(1, sizeof *r);
	if (r == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	r->burst_s = c->rate_burst_s;
	r->per_minute[RATE_CREATE] = c->rate_create;
	r->per_minute[RATE_CHANGE] = c->rate_change;
	r->per_minute[RATE_READ] = c->rate_read;
	r->table = shared_map(c, "rates", sizeof *r->table, e);
	if (r->table == NULL) {
		free(r);
		return -1;
	}
	d->rates = r;
	return 0;
}

void rates_close(struct rates *r)
{
	if (r == NULL)
		return;
	munmap(r->table, sizeof *r->table);
	free(r);
}

/* FNV-1a: team ids are random, nobody chooses them. */
static uint64_t key_of(const char *team_id, enum rate_group group)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ (uint64_t)group;

	for (; *team_id != '\0'; team_id++)
		h = (h ^ (unsigned char)*team_id) * 0x100000001b3ULL;
	return h != 0 ? h : 1;
}

/* The bucket of that key: its own, a free one, or one that has been full for a second and so holds nothing. */
static struct slot *find(struct table *t, uint64_t key, int64_t now_us)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct slot *s = &t->slot[(key + i) & (SLOTS - 1)];
		uint64_t was = atomic_load(&s->key);

		if (was == key || (was == 0 && atomic_compare_exchange_strong(&s->key, &was, key)) || was == key)
			return s;
	}
	for (uint32_t i = 0; i < PROBES; i++) {
		struct slot *s = &t->slot[(key + i) & (SLOTS - 1)];
		uint64_t was = atomic_load(&s->key);

		if (atomic_load(&s->full_us) < now_us - US_PER_S && atomic_compare_exchange_strong(&s->key, &was, key))
			return s;
	}
	return NULL;
}

static uint32_t seconds_up(int64_t us)
{
	return us <= 0 ? 0 : (uint32_t)((us + US_PER_S - 1) / US_PER_S);
}

void rate_take(struct domain *d, const char *team_id, enum rate_group group, struct rate_answer *out)
{
	const struct rates *r = d->rates;
	int64_t now = boot_us(), step, whole, full, next;
	struct slot *s;

	memset(out, 0, sizeof *out);
	if (r == NULL || r->per_minute[group] == 0 || (s = find(r->table, key_of(team_id, group), now)) == NULL)
		return;
	step = 60 * US_PER_S / r->per_minute[group];
	out->bounded = true;
	out->limit = (uint32_t)(r->per_minute[group] * r->burst_s / 60);
	if (out->limit == 0)
		out->limit = 1;
	whole = step * out->limit;
	full = atomic_load(&s->full_us);
	do {
		int64_t from = full < now || full > now + whole + step ? now : full;

		next = from + step;
		out->refused = next > now + whole;
		if (out->refused) {
			next = from;
			break;
		}
	} while (!atomic_compare_exchange_weak(&s->full_us, &full, next));
	out->remaining = (uint32_t)((now + whole - next) / step);
	out->reset_s = seconds_up(next - now);
	if (out->refused) {
		out->remaining = 0;
		out->retry_s = seconds_up(next + step - now - whole);
		if (out->retry_s == 0)
			out->retry_s = 1;
	}
}
