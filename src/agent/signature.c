/* Who may use GET and POST /files: token, signed URL, account (guest.md 2.3). */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hutch/crypto.h"

int files_fail(struct h1_req *r, int status, const char *fmt, ...)
{
	struct err e = { .kind = ERR_INVALID };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.text, sizeof e.text, fmt, ap);
	va_end(ap);
	rest_fail(r, status, &e);
	return -1;
}

int files_fail_errno(struct h1_req *r, const char *what, const char *path)
{
	int err = errno;

	if (err == ENOSPC || err == EDQUOT)
		return files_fail(r, 507, "not enough disk space available: %s '%.300s'", what, path);
	return files_fail(r, 500, "%s '%.300s': %s", what, path, strerror(err));
}

static int integer(const char *s, int64_t *out)
{
	const char *digits = *s == '-' || *s == '+' ? s + 1 : s;
	char *end;

	if (*digits < '0' || *digits > '9')
		return -1;
	errno = 0;
	*out = strtoll(s, &end, 10);
	return *end != '\0' || errno != 0 ? -1 : 0;
}

static int bad_query(struct h1_req *r, const char *what)
{
	char text[128];
	int n = snprintf(text, sizeof text, "Invalid format for parameter %s\n", what);

	h1_reply(r, 400, "text/plain; charset=utf-8", "X-Content-Type-Options: nosniff\r\n", text, (size_t)n);
	return -1;
}

int files_query(struct h1_req *r, struct files_query *q)
{
	struct h1_span s = r->head->query;
	char number[32];
	int got;

	*q->path = *q->username = *q->signature = '\0';
	if ((got = h1_query_get(s, "path", q->path, sizeof q->path)) < 0)
		return bad_query(r, "path");
	q->has_path = got == 1;
	if ((got = h1_query_get(s, "username", q->username, sizeof q->username)) < 0)
		return bad_query(r, "username");
	q->has_username = got == 1;
	if ((got = h1_query_get(s, "signature", q->signature, sizeof q->signature)) < 0)
		*q->signature = '\0';   /* too long or malformed: there is one, and it is wrong */
	q->has_signature = got != 0;
	got = h1_query_get(s, "signature_expiration", number, sizeof number);
	if (got < 0 || (got == 1 && integer(number, &q->expiration) < 0))
		return bad_query(r, "signature_expiration");
	q->has_expiration = got == 1;
	return 0;
}

void files_sign(const char *path, const char *op, const char *username, const char *token, const int64_t *expiration,
		char out[64])
{
	uint8_t hash[SHA256_LEN];
	struct buf b;

	buf_init(&b, 3 * PATH_MAX);
	buf_addf(&b, "%s:%s:%s:%s", path, op, username, token);
	if (expiration != NULL)
		buf_addf(&b, ":%lld", (long long)*expiration);
	sha256(buf_str(&b), b.len, hash);
	buf_reset(&b);
	base64_add(&b, hash, sizeof hash);
	while (b.len > 0 && b.p[b.len - 1] == '=')
		b.p[--b.len] = '\0';
	snprintf(out, 64, "v1_%s", buf_str(&b));
	buf_release(&b);
}

/* NULL, or what is wrong. The order counts: a wrong signature with an old expiry is "invalid". */
static const char *signature_problem(const struct files_query *q, const char *op, const char *token)
{
	char want[64];

	if (!q->has_signature)
		return "missing signature query parameter";
	files_sign(q->path, op, q->username, token, q->has_expiration ? &q->expiration : NULL, want);
	if (!secret_equal(want, strlen(want), q->signature, strlen(q->signature)))
		return "invalid signature";
	if (q->has_expiration && q->expiration < (int64_t)time(NULL))
		return "signature is already expired";
	return NULL;
}

int files_authorize(struct agent *a, struct h1_req *r, const struct files_query *q, const char *op)
{
	const struct h1_span *header = h1_field(r->head, "X-Access-Token");
	const char *problem = NULL;
	char *token = token_copy(a);

	if (token == NULL)
		return 0;
	if (header != NULL && header->n != 0) {
		if (!secret_equal(header->p, header->n, token, strlen(token)))
			problem = "access token present in header but does not match";
	} else {
		problem = signature_problem(q, op, token);
	}
	free(token);
	if (problem != NULL)
		journal_refused(&a->journal, problem, r->head->path.p, r->head->path.n);
	return problem != NULL ? files_fail(r, 401, "%s", problem) : 0;
}

int files_user(struct agent *a, struct h1_req *r, const char *name, struct user *out)
{
	char def[sizeof out->name] = "";
	struct err e;

	if (name == NULL || *name == '\0') {
		pthread_mutex_lock(&a->lock);
		if (a->default_user != NULL)
			snprintf(def, sizeof def, "%s", a->default_user);
		pthread_mutex_unlock(&a->lock);
		name = def;
	}
	if (*name == '\0')
		return files_fail(r, 400, "no user specified: the request names none and the sandbox has no default user");
	if (user_lookup(name, out, &e) < 0)
		return files_fail(r, 401, "error looking up user '%.200s': unknown user", name);
	return 0;
}
