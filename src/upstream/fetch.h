/* fetch.h - one GET of a vendor's list: bounded in time and size, no redirects, no proxy of the environment. */
#ifndef HUTCH_UPSTREAM_FETCH_H
#define HUTCH_UPSTREAM_FETCH_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "hutch/buf.h"
#include "hutch/conf.h"
#include "hutch/err.h"

#define FETCH_BODY_MAX (16 << 20)

struct fetch {
	const struct config *conf;
	CURLM *multi;                /* the thread's: its wake-up ends a wait in here, too */
	const atomic_bool *stop;
	/* the answer of the last one */
	long status;
	struct buf body;
	bool more;                   /* it has X-Next-Token */
	long retry_s;                /* Retry-After, 0 = none */
};

/* 0 with an answer, whatever its status; -1: ERR_UNAVAILABLE, there was none. */
int fetch_get(struct fetch *f, const char *path, const char *key, struct err *e);

#endif
