/*
 * fuzz_signature.c - the query of /files and who is let in by it. The input is the query. A query that is understood is signed and
 * written again: that one must be understood as the same, and be let in for reading, but not for writing.
 * Build for libFuzzer with -fsanitize=fuzzer; `make check` replays the seeds through replay.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "memory_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)
#define TOKEN "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"

static struct agent agent = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int ask(const char *query, size_t n, const char *op, struct files_query *q)
{
	struct memory_request m;
	struct h1_req *r = memory_request(&m, "", 0, false);

	m.conn.head.query = (struct h1_span){ query, n };
	return files_query(r, q) < 0 ? -1 : op != NULL && files_authorize(&agent, r, q, op) < 0;
}

static void add_param(struct buf *b, const char *name, const char *value)
{
	buf_addf(b, "%s%s=", b->len != 0 ? "&" : "", name);
	for (; *value != '\0'; value++)
		buf_addf(b, "%%%02x", (unsigned char)*value);
}

static void sign_again(const struct files_query *was)
{
	struct files_query *now = malloc(sizeof *now);
	char signature[64];
	struct buf b;

	DEMAND(now != NULL);
	buf_init(&b, 1 << 20);
	files_sign(was->path, "read", was->username, TOKEN, was->has_expiration ? &was->expiration : NULL, signature);
	add_param(&b, "path", was->path);
	add_param(&b, "username", was->username);
	add_param(&b, "signature", signature);
	if (was->has_expiration)
		buf_addf(&b, "&signature_expiration=%lld", (long long)was->expiration);
	DEMAND(!buf_failed(&b));
	DEMAND(ask(b.p, b.len, "read", now) == (was->has_expiration && was->expiration < 4102444800));
	DEMAND(strcmp(now->path, was->path) == 0 && strcmp(now->username, was->username) == 0);
	DEMAND(now->has_expiration == was->has_expiration && (!was->has_expiration || now->expiration == was->expiration));
	DEMAND(ask(b.p, b.len, "write", now) == 1);
	buf_release(&b);
	free(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct files_query *q = malloc(sizeof *q);
	char *query = malloc(size != 0 ? size : 1);     /* exact, so that a sanitizer sees a read beyond it */

	DEMAND(q != NULL && query != NULL);
	if (agent.token == NULL)
		agent.token = strdup(TOKEN);
	memcpy(query, data, size);
	DEMAND(query != NULL);
	/* the time is what it is: expiries between the past and the far future are left out */
	if (ask(query, size, NULL, q) == 0 && !(q->has_expiration && q->expiration > 1000000000 && q->expiration < 4102444800))
		sign_again(q);
	free(query);
	free(q);
	return 0;
}
