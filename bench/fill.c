/*
 * fill.c - adds many sandbox records to a team, to measure what reading and writing costs among them.
 * Only records: no machine stands behind them, so the reaper must not run meanwhile (it would end them).
 *
 *   fill CONFIG TEAM NUMBER
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/domain.h"

#define BATCH 1000

static int fail(const char *what, const struct err *e)
{
	fprintf(stderr, "fill: %s: %s\n", what, e->text);
	return 1;
}

static void digits(char *to, const char *prefix, size_t width, unsigned long n)
{
	char text[40];

	snprintf(text, sizeof text, "%s%0*lu", prefix, (int)width, n);
	memcpy(to, text, strlen(text) + 1);
}

static void record(struct sandbox_rec *r, const struct team_rec *team, const struct template_rec *t, int64_t now, unsigned long n)
{
	memset(r, 0, sizeof *r);
	digits(r->id, "ifill", 16, n);
	digits(r->machine, "sb_fill", 16, n);
	memcpy(r->team, team->id, sizeof r->team);
	memcpy(r->template_id, t->id, sizeof r->template_id);
	memcpy(r->alias, t->alias, sizeof r->alias);
	memcpy(r->build_id, t->build_id, sizeof r->build_id);
	memcpy(r->execution_id, t->build_id, sizeof r->execution_id);
	memcpy(r->envd_version, t->envd_version, sizeof r->envd_version);
	r->state = SB_RUNNING;
	r->secure = true;
	r->cpu_count = t->cpu_count;
	r->memory_mb = t->memory_mb;
	r->disk_mb = t->disk_mb;
	r->created_us = now - INT64_C(3600000000) + (int64_t)n * 1000;
	r->started_us = r->created_us + 1500;
	r->end_us = r->due_us = now + INT64_C(36000000000);
	r->metadata = (char *)(uintptr_t)"{\"app\":\"bench\",\"user\":\"somebody\"}";
}

static int add(struct domain *d, const struct team_rec *team, const struct template_rec *t, unsigned long from, unsigned long to, struct err *e)
{
	struct sandbox_rec r;
	struct txn *txn;

	if (txn_write(d->store, &txn, e) < 0)
		return -1;
	for (unsigned long n = from; n < to; n++) {
		record(&r, team, t, domain_now(d), n);
		if (store_sandbox_put(txn, NULL, &r, e) < 0) {
			txn_abort(txn);
			return -1;
		}
	}
	return txn_commit(txn, e);
}

/* First number that is not taken. */
static unsigned long first_free(struct domain *d, struct err *e)
{
	struct sandbox_rec r;
	struct txn *txn;
	unsigned long n = 0;
	int got = 1;

	if (txn_read(d->store, &txn, e) < 0)
		return 0;
	while (got == 1) {
		char id[SANDBOX_ID_LEN];

		digits(id, "ifill", 16, n);
		got = store_sandbox_get(txn, id, &r, e);
		if (got == 1) {
			sandbox_rec_release(&r);
			n++;
		}
	}
	txn_abort(txn);
	return n;
}

int main(int argc, char **argv)
{
	struct template_rec t;
	struct config conf;
	struct team_rec team;
	struct domain d;
	struct err e;
	unsigned long n, start;
	char key[45];

	if (argc != 4) {
		fprintf(stderr, "usage: fill CONFIG TEAM NUMBER\n");
		return 2;
	}
	n = strtoul(argv[3], NULL, 10);
	if (config_read(&conf, argv[1], &e) < 0)
		return fail("configuration", &e);
	if (domain_open(&d, &conf, &e) < 0)
		return fail("records", &e);
	if (team_make(&d, argv[2], &team, key, &e) < 0 || template_resolve(&d, &team, "base", &t, &e) < 0)
		return fail("team and template", &e);
	start = first_free(&d, &e);
	for (unsigned long at = 0; at < n; at += BATCH)
		if (add(&d, &team, &t, start + at, start + (at + BATCH < n ? at + BATCH : n), &e) < 0)
			return fail("records", &e);
	template_rec_release(&t);
	domain_close(&d);
	config_release(&conf);
	return 0;
}
