/*
 * fixture.h - the reply fixtures of a fake pool: which of them answers a request. No sockets, no records here.
 */
#ifndef HUTCH_EDGE_FIXTURE_H
#define HUTCH_EDGE_FIXTURE_H

#include <stdint.h>
#include "hutch/json.h"
#include "hutch/store.h"

#define FIXTURE_POOLS 32             /* whose uses are counted at once; the one that was not asked for longest is forgotten */

/* How often each reply of a pool was given, for those that may be given only so often. One thread at a time. */
struct fixture_uses {
	struct fixture_pool {
		char name[POOL_NAME_LEN];
		int64_t updated_us;          /* another enrolment counts anew */
		int64_t asked;
		uint32_t *used;
		size_t n;
	} pool[FIXTURE_POOLS];
	int64_t asked;
};

void fixture_release(struct fixture_uses *u);

/* The first reply in config (as pool_enrol stored it) for the request that is not used up; it counts as used. target as sent: a
 * reply whose path has a query asks for the same query. 1 with *reply (config's), 0 there is none, -1 out of memory. */
int fixture_find(struct fixture_uses *u, const struct pool_rec *p, json_object *config, int port, const char *method,
		 const char *target, json_object **reply, struct err *e);

#endif
