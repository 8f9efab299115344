/* Who is asking (api.md 2). */
#include "domain_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/crypto.h"

#define ADMIN_MIN 16
#define ADMIN_MAX 1024

/* ---- the admin token ---- */

int admin_token_read(const char *path, uint8_t hash[32], struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[ADMIN_MAX + 2];
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "admin_token_file %s", path);
	n = read(fd, text, sizeof text);
	if (fstat(fd, &st) < 0)
		n = -1;
	close(fd);
	if (n >= 0 && (st.st_mode & 077) != 0)
		return err_set(e, ERR_INVALID, "admin_token_file %s may be read by others: chmod 600 it", path);
	if (n > 0 && text[n - 1] == '\n')
		n--;
	if (n < ADMIN_MIN || n > ADMIN_MAX || memchr(text, '\n', (size_t)n) != NULL || memchr(text, '\0', (size_t)n) != NULL)
		return err_set(e, ERR_INVALID, "admin_token_file %s does not hold one line of %d to %d characters", path, ADMIN_MIN, ADMIN_MAX);
	sha256(text, (size_t)n, hash);
	explicit_bzero(text, sizeof text);
	return 0;
}

int admin_token_make(const char *path, struct err *e)
{
	return secret_file_make("admin_token_file", path, e);
}

static bool given(const char *header)
{
	return header != NULL && header[0] != '\0';
}

static int missing(struct err *e)
{
	return err_set(e, ERR_UNAUTHENTICATED, "authorization header is missing");
}

int auth_admin(struct domain *d, const char *admin, struct err *e)
{
	uint8_t hash[SHA256_LEN];

	if (!given(admin))
		return missing(e);
	sha256(admin, strlen(admin), hash);      /* of one length, whatever was sent */
	if (d->has_admin && secret_equal(hash, sizeof hash, d->admin_hash, sizeof d->admin_hash))
		return 0;
	return err_set(e, ERR_UNAUTHENTICATED, "Invalid Access token.");
}

/* Eight, four, four, four and twelve hex digits. */
static bool is_uuid(const char *s)
{
	for (size_t i = 0; i < UUID_LEN - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : s[i] == '\0' || strchr("0123456789abcdefABCDEF", s[i]) == NULL)
			return false;
	}
	return s[UUID_LEN - 1] == '\0';
}

int uuid_canonical(const char *text, char out[UUID_LEN])
{
	if (!is_uuid(text))
		return -1;
	for (size_t i = 0; i < UUID_LEN; i++)
		out[i] = (char)(text[i] >= 'A' && text[i] <= 'F' ? text[i] | 0x20 : text[i]);
	return 0;
}

/* The team that the operator acts as. */
static int admin_team(struct domain *d, const char *admin, const char *team_id, struct team_rec *out, struct err *e)
{
	char id[UUID_LEN];

	if (auth_admin(d, admin, e) < 0)
		return -1;
	if (!given(team_id))
		return err_set(e, ERR_UNAUTHENTICATED, "X-Team-ID is missing");
	if (uuid_canonical(team_id, id) < 0)
		return err_set(e, ERR_INVALID, "Invalid team ID");
	return team_get(d, id, out, e);
}

/* ---- teams ---- */

static int anonymous(struct domain *d, struct team_rec *out, struct err *e)
{
	const char *name = d->conf->default_team;
	struct txn *t;
	int got;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	got = store_team_by_name(t, name, out, e);
	txn_abort(t);
	if (got != 0)
		return got < 0 ? -1 : 0;
	if (txn_write(d->store, &t, e) < 0)
		return -1;
	if (team_named(d, t, name, out, e) < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

int auth_team(struct domain *d, const char *key, const char *admin, const char *team_id, struct team_rec *out, struct err *e)
{
	struct key_rec any;
	struct err why;

	if (given(key) && team_by_key(d, key, out, e) == 0)
		return 0;
	if (given(key) && e->kind != ERR_UNAUTHENTICATED)
		return -1;
	if (given(admin)) {
		if (admin_team(d, admin, team_id, out, &why) == 0)
			return 0;
		if (!given(key) || why.kind != ERR_UNAUTHENTICATED)
			*e = why;
		return -1;
	}
	if (d->conf->allow_anonymous && (!given(key) || (key_parse(key, &any) && any.kind == KEY_API)))
		return anonymous(d, out, e);
	return given(key) ? -1 : missing(e);
}

int auth_user(struct domain *d, const char *authorization, struct team_rec *out, struct err *e)
{
	int got;

	if (!given(authorization))
		return missing(e);
	if (strncasecmp(authorization, "Bearer ", 7) != 0)
		return err_set(e, ERR_UNAUTHENTICATED, "authorization header is malformed");
	if (strncmp(authorization + 7, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) != 0)
		return err_set(e, ERR_UNAUTHENTICATED, "Backend authentication failed");
	got = key_find(d, authorization + 7, KEY_TOKEN, out, e);
	return got == 0 ? err_set(e, ERR_UNAUTHENTICATED, "Invalid Access token.") : got < 0 ? -1 : 0;
}

int auth_manager(struct domain *d, const char *authorization, const char *admin, const char *team_id, struct team_rec *out,
		 struct err *e)
{
	char id[UUID_LEN];

	if (!given(authorization) && given(admin))
		return admin_team(d, admin, team_id, out, e);
	if (auth_user(d, authorization, out, e) < 0)
		return -1;
	if (!given(team_id))
		return 0;
	if (uuid_canonical(team_id, id) < 0)
		return err_set(e, ERR_INVALID, "Invalid team ID");
	return strcmp(id, out->id) == 0 ? 0 : err_set(e, ERR_DENIED, "You are not a member of this team");
}
