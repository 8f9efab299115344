/*
 * Webhooks of the mirrored account (api.md 14.3). The signature is a plain hash with the secret first, which whoever has one signed text can
 * continue; so the body must be one JSON document to its last byte, which no continuation is.
 */
#include "domain_int.h"

#include <string.h>

#include "hutch/crypto.h"
#include "hutch/seal.h"
#include "hutch/upstream.h"

#define RECORD "ingest_secret"
#define BOUND_TO "upstream"
#define DELIVERY_MAX 256
#define SEEN_MAX 100000              /* delivery ids that are remembered */

int ingest_secret_set(struct domain *d, const char *secret, struct err *e)
{
	struct txn *t;
	struct buf b;
	int status = 0;

	if (secret != NULL && (secret[0] == '\0' || strlen(secret) > INGEST_SECRET_MAX))
		return err_set(e, ERR_INVALID, "secret must be 1 to %d bytes", INGEST_SECRET_MAX);
	buf_init(&b, 2 * SEAL_TEXT_MAX);
	if (secret != NULL)
		status = seal_text(d->secret, RECORD, BOUND_TO, secret, &b, e);
	if (status == 0)
		status = txn_write(d->store, &t, e);
	if (status == 0)
		status = txn_end(t, store_text_put(t, RECORD, secret != NULL ? buf_str(&b) : NULL, e), e);
	buf_release(&b);
	return status;
}

/* 1 with the secret, 0 when none is set. */
static int secret_get(struct domain *d, struct buf *secret, struct err *e)
{
	struct txn *t;
	struct buf b;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	buf_init(&b, 2 * SEAL_TEXT_MAX);
	got = store_text_get(t, RECORD, &b, e);
	txn_abort(t);
	if (got == 1 && seal_open(d->secret, RECORD, BOUND_TO, buf_str(&b), secret, e) < 0)
		got = -1;
	buf_release(&b);
	return got;
}

/* In a time that tells nothing of the hash. */
static bool signature_fits(const struct buf *secret, const struct ingest *in)
{
	uint8_t want[SHA256_LEN];
	struct buf got;
	bool fits;

	if (in->signature == NULL || strlen(in->signature) > 128)
		return false;
	sha256_two(buf_str(secret), secret->len, in->body, in->n, want);
	buf_init(&got, 128);
	fits = base64_decode(&got, in->signature, strlen(in->signature)) == 0 && secret_equal(buf_str(&got), got.len, want, sizeof want);
	buf_release(&got);
	return fits;
}

static int verify(struct domain *d, const struct ingest *in, struct err *e)
{
	struct buf secret;
	bool fits;
	int got;

	if (in->version == NULL || strcmp(in->version, "v1") != 0)
		return err_set(e, ERR_UNAUTHENTICATED, "e2b-signature-version must be v1");
	buf_init(&secret, INGEST_SECRET_MAX);
	got = secret_get(d, &secret, e);
	fits = got == 1 && signature_fits(&secret, in);
	if (secret.p != NULL)
		explicit_bzero(secret.p, secret.len);
	buf_release(&secret);
	if (got < 0)
		return -1;
	return fits ? 0 : err_set(e, ERR_UNAUTHENTICATED, "e2b-signature does not fit the body");
}

/* ---- the event ---- */

struct told {
	bool killed;
	char sandbox[SANDBOX_ID_LEN];    /* of a kill */
	uint8_t delivery[SHA256_LEN];
};

/* The id under either of its names (api.md 19). */
static int take_sandbox(json_object *o, char out[SANDBOX_ID_LEN], struct err *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	const char *camel = NULL, *snake = NULL, *id;

	if (json_get_str(o, "sandboxId", 64, &camel, e) < 0 || json_get_str(o, "sandbox_id", 64, &snake, e) < 0)
		return -1;
	id = camel != NULL ? camel : snake;
	if (id == NULL)
		return err_set(e, ERR_INVALID, "sandboxId is required");
	if (camel != NULL && snake != NULL && strcmp(camel, snake) != 0)
		return err_set(e, ERR_INVALID, "sandboxId and sandbox_id are two");
	if (id[0] == '\0' || strlen(id) >= SANDBOX_ID_LEN || strspn(id, letters) != strlen(id))
		return err_set(e, ERR_INVALID, "sandboxId is no id of a sandbox");
	memcpy(out, id, strlen(id) + 1);
	return 0;
}

static int read_event(const struct ingest *in, struct told *out, struct err *e)
{
	const char *type = NULL;
	json_object *o;
	int status;

	if (in->n == 0)
		return err_set(e, ERR_INVALID, "the body is empty");
	if (json_read_object(in->body, in->n, &o, e) < 0)
		return -1;
	status = json_need_str(o, "type", 128, &type, e);
	if (status >= 0) {
		out->killed = strcmp(type, EVENT_KILLED) == 0;
		status = out->killed ? take_sandbox(o, out->sandbox, e) : 0;
	}
	json_object_put(o);
	if (status < 0)
		return -1;
	if (in->delivery == NULL || in->delivery[0] == '\0' || strlen(in->delivery) > DELIVERY_MAX)
		return err_set(e, ERR_INVALID, "e2b-delivery-id must be 1 to %d bytes", DELIVERY_MAX);
	sha256(in->delivery, strlen(in->delivery), out->delivery);
	return 0;
}

/* ---- what it does ---- */

/* 1 when it was taken before. What it changes is marked in one transaction: a kill before it is done, since a refresh that is under way
 * must not bring back what it has not seen end. */
static int mark(struct domain *d, const struct told *told, struct err *e)
{
	const int64_t now = domain_real_now(d);
	struct txn *t;
	int seen;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	seen = store_seen_get(t, told->delivery, e);
	if (seen != 0) {
		txn_abort(t);
		return seen;
	}
	if (upstream_mark(t, told->killed, now, e) < 0 ||
	    (!told->killed && store_seen_put(t, told->delivery, now, SEEN_MAX, e) < 0)) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

/* Its delivery is noted down after the kill: one that was cut off is done again. */
static int removal(struct domain *d, const struct told *told, struct err *e)
{
	struct txn *t;

	if (sandbox_kill(d, NULL, told->sandbox, "request", e) < 0 && e->kind != ERR_NOT_FOUND)
		return -1;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	return txn_end(t, store_seen_put(t, told->delivery, domain_real_now(d), SEEN_MAX, e), e);
}

int ingest_take(struct domain *d, const struct ingest *in, enum ingest_effect *out, struct err *e)
{
	struct told told = { .killed = false };
	int seen;

	if (verify(d, in, e) < 0 || read_event(in, &told, e) < 0)
		return -1;
	seen = mark(d, &told, e);
	if (seen < 0 || (seen == 0 && told.killed && removal(d, &told, e) < 0))
		return -1;
	*out = seen == 1 ? INGEST_REPEATED : told.killed ? INGEST_REMOVED : INGEST_REFRESH;
	if (*out == INGEST_REFRESH)
		reaper_nudge(d);
	return 0;
}

static int trim_seen(struct txn *t, const void *before_us, int *removed, struct err *e)
{
	return store_seen_trim(t, *(const int64_t *)before_us, TRIM_EACH, removed, e);
}

int ingest_trim(struct domain *d, struct err *e)
{
	const int64_t before = domain_real_now(d) - d->conf->event_days * 86400 * US_PER_S;
	int64_t total = 0;

	return trim_rounds(d, trim_seen, &before, &total, e);
}
