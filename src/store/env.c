/* The LMDB environment: opening, transactions, errors. */
#include "store_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READERS_MAX 1024

const char *const table_names[TABLES] = {
	[T_META] = "meta",
	[T_TEAMS] = "teams",
	[T_TEAM_NAMES] = "team_names",
	[T_TEAM_SLUGS] = "team_slugs",
	[T_KEYS] = "keys",
	[T_TEMPLATES] = "templates",
	[T_TEMPLATE_NAMES] = "template_names",
	[T_SANDBOXES] = "sandboxes",
	[T_BY_START] = "by_start",
	[T_DUE] = "due",
	[T_COUNTS] = "counts",
	[T_EVENTS] = "events",
	[T_POOLS] = "pools",
	[T_EVENTS_OF] = "events_of",
	[T_WEBHOOKS] = "webhooks",
	[T_OUTBOX] = "outbox",
	[T_DELIVERIES] = "deliveries",
	[T_TEAM_KEYS] = "team_keys",
	[T_SAMPLES] = "samples",
	[T_TEAM_SAMPLES] = "team_samples",
	[T_LINES] = "lines",
	[T_SEEN] = "seen",
	[T_SEEN_AT] = "seen_at",
	[T_SNAPSHOTS] = "snapshots",
	[T_SNAPSHOT_NAMES] = "snapshot_names",
	[T_SNAPSHOTS_OF] = "snapshots_of",
	[T_CAPTURES] = "captures",
	[T_MAKING] = "making",
};

int store_fail(const struct store *st, int rc, const char *what, struct err *e)
{
	switch (rc) {
	case MDB_MAP_FULL:
		return err_set(e, ERR_UNAVAILABLE, "the records are full: db_size_mb is %lld, raise it and restart all programs",
			       (long long)st->size_mb);
	case MDB_MAP_RESIZED:
		return err_set(e, ERR_UNAVAILABLE, "the records are larger than db_size_mb (%lld) of this program: "
			       "use one db_size_mb for all programs", (long long)st->size_mb);
	case MDB_READERS_FULL:
		return err_set(e, ERR_UNAVAILABLE, "more than %d threads read the records at once", READERS_MAX);
	default:
		return err_set(e, ERR_INTERNAL, "%s: %s", what, mdb_strerror(rc));
	}
}

/* A root tool that comes first must not lock the unprivileged programs out: what it makes belongs to the owner of the
 * directory that it is in. */
static int give_to_owner(const char *path, const struct stat *dir, struct err *e)
{
	if (geteuid() != 0 || lchown(path, dir->st_uid, dir->st_gid) == 0)
		return 0;
	return err_sys(e, "%s", path);
}

/* One directory below `parent` (0750), unless it is there. */
static int make_dir(const char *path, const struct stat *parent, struct err *e)
{
	if (mkdir(path, 0750) == 0)
		return give_to_owner(path, parent, e);
	return errno == EEXIST ? 0 : err_sys(e, "db_dir %s", path);
}

static int make_dirs(const char *dir, struct stat *st, struct err *e)
{
	char path[4096];
	int n = snprintf(path, sizeof path, "%s", dir);

	if (n < 0 || (size_t)n >= sizeof path)
		return err_set(e, ERR_INVALID, "db_dir is too long");
	if (stat("/", st) < 0)
		return err_sys(e, "/");
	for (char *p = path + 1; ; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (make_dir(path, st, e) < 0)
			return -1;
		if (stat(path, st) < 0)
			return err_sys(e, "db_dir %s", path);
		*p = c;
		if (c == '\0')
			return 0;
	}
}

static int give_files(const char *dir, const struct stat *st, struct err *e)
{
	static const char *const files[] = { "data.mdb", "lock.mdb" };
	char path[4096];

	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, files[i]);
		if (give_to_owner(path, st, e) < 0)
			return -1;
	}
	return 0;
}

static int open_tables(struct store *st, MDB_txn *mdb, unsigned flags)
{
	for (int i = 0; i < TABLES; i++) {
		int rc = mdb_dbi_open(mdb, table_names[i], flags, &st->dbi[i]);

		if (rc != 0)
			return rc;
	}
	return 0;
}

static int check_schema(struct store *st, MDB_txn *mdb, bool make, struct err *e)
{
	MDB_val key = { 6, (void *)(uintptr_t)"schema" }, v;
	uint8_t number[4] = { 0, 0, 0, STORE_SCHEMA };
	int rc = mdb_get(mdb, st->dbi[T_META], &key, &v);

	if (rc == MDB_NOTFOUND && make) {
		v = (MDB_val){ sizeof number, number };
		rc = mdb_put(mdb, st->dbi[T_META], &key, &v, 0);
	}
	if (rc != 0)
		return store_fail(st, rc, "records", e);
	if (v.mv_size != sizeof number || memcmp(v.mv_data, number, sizeof number) != 0)
		return err_set(e, ERR_INTERNAL, "the records have another schema than this program's (%d)", STORE_SCHEMA);
	return 0;
}

/* Tables that are all there are opened without the writer's lock: plain CGI does this for each request. */
static int prepare(struct store *st, struct err *e)
{
	MDB_txn *mdb;
	int rc = mdb_txn_begin(st->env, NULL, MDB_RDONLY, &mdb), status;

	if (rc == MDB_READERS_FULL && store_reader_check(st) > 0)
		rc = mdb_txn_begin(st->env, NULL, MDB_RDONLY, &mdb);
	if (rc != 0)
		return store_fail(st, rc, "records", e);
	rc = open_tables(st, mdb, 0);
	if (rc == 0) {
		status = check_schema(st, mdb, false, e);
		mdb_txn_commit(mdb);                 /* keeps the handles */
		return status;
	}
	mdb_txn_abort(mdb);
	if (rc != MDB_NOTFOUND)
		return store_fail(st, rc, "records", e);
	rc = mdb_txn_begin(st->env, NULL, 0, &mdb);
	if (rc != 0)
		return store_fail(st, rc, "records", e);
	rc = open_tables(st, mdb, MDB_CREATE);
	status = rc != 0 ? store_fail(st, rc, "records", e) : check_schema(st, mdb, true, e);
	if (status == 0)
		status = keys_index(&(struct txn){ .st = st, .mdb = mdb, .write = true }, e);
	if (status < 0) {
		mdb_txn_abort(mdb);
		return -1;
	}
	rc = mdb_txn_commit(mdb);
	return rc != 0 ? store_fail(st, rc, "records", e) : 0;
}

static int open_env(struct store *st, const char *dir, struct err *e)
{
	struct stat owner;
	int rc;

	if (make_dirs(dir, &owner, e) < 0)
		return -1;
	rc = mdb_env_create(&st->env);
	if (rc != 0)
		return store_fail(st, rc, "records", e);
	rc = mdb_env_set_maxdbs(st->env, TABLES + 8);
	if (rc == 0)
		rc = mdb_env_set_maxreaders(st->env, READERS_MAX);
	if (rc == 0)
		rc = mdb_env_set_mapsize(st->env, (size_t)st->size_mb << 20);
	if (rc == 0)
		rc = mdb_env_open(st->env, dir, MDB_NOTLS, 0640);
	if (rc != 0)
		return err_set(e, ERR_INTERNAL, "db_dir %s: %s", dir, mdb_strerror(rc));
	return give_files(dir, &owner, e);
}

/* Forget a parked read transaction; the thread ended or the store closes. */
static void slot_free(struct txn *t)
{
	mdb_txn_abort(t->mdb);
	free(t);
}

static void slot_thread_end(void *p)
{
	struct txn *t = p, **at;
	struct store *st = t->st;

	pthread_mutex_lock(&st->lock);
	for (at = &st->slots; *at != NULL && *at != t; at = &(*at)->next)
		;
	if (*at == t)
		*at = t->next;
	pthread_mutex_unlock(&st->lock);
	slot_free(t);
}

int store_open(const char *dir, int64_t size_mb, struct store **out, struct err *e)
{
	struct store *st = calloc(1, sizeof *st);

	if (st == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	st->size_mb = size_mb;
	if (open_env(st, dir, e) < 0 || prepare(st, e) < 0) {
		if (st->env != NULL)
			mdb_env_close(st->env);
		free(st);
		return -1;
	}
	if (pthread_key_create(&st->slot, slot_thread_end) != 0) {
		mdb_env_close(st->env);
		free(st);
		return err_set(e, ERR_INTERNAL, "no thread key left");
	}
	pthread_mutex_init(&st->lock, NULL);
	*out = st;
	return 0;
}

void store_close(struct store *st)
{
	if (st == NULL)
		return;
	pthread_key_delete(st->slot);
	while (st->slots != NULL) {
		struct txn *t = st->slots;

		st->slots = t->next;
		slot_free(t);
	}
	mdb_env_close(st->env);
	pthread_mutex_destroy(&st->lock);
	free(st);
}

void store_on_outbox(struct store *st, void (*fn)(void *ctx), void *ctx)
{
	st->on_outbox = fn;
	st->outbox_ctx = ctx;
}

int store_reader_check(struct store *st)
{
	int dead = 0;

	mdb_reader_check(st->env, &dead);
	return dead;
}

static int begin(struct store *st, unsigned flags, MDB_txn **out, struct err *e)
{
	int rc = mdb_txn_begin(st->env, NULL, flags, out);

	if (rc == MDB_READERS_FULL && store_reader_check(st) > 0)
		rc = mdb_txn_begin(st->env, NULL, flags, out);
	return rc != 0 ? store_fail(st, rc, "records", e) : 0;
}

/* The first read of a thread; later ones renew what is parked. */
static int new_slot(struct store *st, struct txn **out, struct err *e)
{
	struct txn *t = calloc(1, sizeof *t);

	if (t == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	t->st = st;
	if (begin(st, MDB_RDONLY, &t->mdb, e) < 0) {
		free(t);
		return -1;
	}
	if (pthread_setspecific(st->slot, t) != 0) {
		slot_free(t);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	pthread_mutex_lock(&st->lock);
	t->next = st->slots;
	st->slots = t;
	pthread_mutex_unlock(&st->lock);
	*out = t;
	return 0;
}

int txn_read(struct store *st, struct txn **out, struct err *e)
{
	struct txn *t = pthread_getspecific(st->slot);
	int rc;

	if (t == NULL)
		return new_slot(st, out, e);
	rc = mdb_txn_renew(t->mdb);
	if (rc != 0)
		return store_fail(st, rc, "records", e);
	*out = t;
	return 0;
}

static int begin_write(struct store *st, bool step, struct txn **out, struct err *e)
{
	struct txn *t = calloc(1, sizeof *t);

	if (t == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	t->st = st;
	t->write = true;
	if (begin(st, 0, &t->mdb, e) < 0) {
		free(t);
		return -1;
	}
	/* LMDB heeds it for the whole environment only, but here nobody else of this process writes: the transaction has begun */
	mdb_env_set_flags(st->env, MDB_NOMETASYNC, step);
	*out = t;
	return 0;
}

int txn_write(struct store *st, struct txn **out, struct err *e)
{
	return begin_write(st, false, out, e);
}

int txn_write_step(struct store *st, struct txn **out, struct err *e)
{
	return begin_write(st, true, out, e);
}

int txn_commit(struct txn *t, struct err *e)
{
	struct store *st = t->st;
	bool announce = t->announce;
	int rc;

	if (!t->write) {
		mdb_txn_reset(t->mdb);
		return 0;
	}
	rc = mdb_txn_commit(t->mdb);
	free(t);
	if (rc == 0 && announce && st->on_outbox != NULL)
		st->on_outbox(st->outbox_ctx);
	return rc != 0 ? store_fail(st, rc, "commit", e) : 0;
}

void txn_abort(struct txn *t)
{
	if (t == NULL)
		return;
	if (!t->write) {
		mdb_txn_reset(t->mdb);
		return;
	}
	mdb_txn_abort(t->mdb);
	free(t);
}

int txn_end(struct txn *t, int status, struct err *e)
{
	if (status >= 0)
		return txn_commit(t, e);
	txn_abort(t);
	return -1;
}
