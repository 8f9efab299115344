/*
 * The key file: a `key [namespace]` on each line, `#` comments. Reading it gives a list; the list goes into the records in one
 * transaction, so that a file with a mistake changes nothing.
 */
#include "domain_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hutch/crypto.h"
#include "hutch/io.h"

#define LINE_MAX_LEN 1024
#define LINES_MAX 100000

struct line {
	int number;
	struct key_rec key;
	char team[NAME_MAX_LEN];     /* name; "" = default_team */
};

struct key_list {
	struct line *line;
	size_t n, cap;
};

/* What the SDKs let through: lower-case digits only; and an even number, as they are bytes. */
static int take_key(const char *word, struct key_rec *out, struct err *e)
{
	size_t n = strlen(KEY_PREFIX);

	if (strncmp(word, KEY_PREFIX, n) != 0 || strspn(word + n, "0123456789abcdef") != strlen(word + n) || !key_parse(word, out))
		return err_set(e, ERR_INVALID, "a key must be " KEY_PREFIX " and an even number of lower-case hex digits, %d at most", KEY_HEX_MAX);
	return 0;
}

static int take_line(char *text, struct key_list *l, int number, struct err *e)
{
	char *word[3] = { NULL }, *save = NULL;
	struct line *more;
	size_t words = 0;

	for (char *w = strtok_r(text, " \t\r\n", &save); w != NULL && w[0] != '#'; w = strtok_r(NULL, " \t\r\n", &save)) {
		if (words == 2)
			return err_set(e, ERR_INVALID, "expected a key and at most a namespace, there is a third word");
		word[words++] = w;
	}
	if (words == 0)
		return 0;
	if (l->n == l->cap) {
		l->cap = l->cap != 0 ? 2 * l->cap : 64;
		more = realloc(l->line, l->cap * sizeof *more);
		if (more == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		l->line = more;
	}
	more = &l->line[l->n];
	*more = (struct line){ .number = number };
	if (take_key(word[0], &more->key, e) < 0)
		return -1;
	if (word[1] != NULL && name_check(word[1], e) < 0)
		return err_wrap(e, "namespace");
	snprintf(more->team, sizeof more->team, "%s", word[1] != NULL ? word[1] : "");
	l->n++;
	return 0;
}

static int by_hash(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int order = memcmp(x->key.hash, y->key.hash, sizeof x->key.hash);

	return order != 0 ? order : x->number - y->number;
}

/* One key, one namespace. */
static int check_twice(const char *path, struct key_list *l, struct err *e)
{
	if (l->n > 0)
		qsort(l->line, l->n, sizeof *l->line, by_hash);
	for (size_t i = 1; i < l->n; i++) {
		const struct line *a = &l->line[i - 1], *b = &l->line[i];

		if (memcmp(a->key.hash, b->key.hash, sizeof a->key.hash) == 0 && strcmp(a->team, b->team) != 0)
			return err_set(e, ERR_INVALID, "key_file %s:%d: the key of line %d again, with another namespace", path, b->number, a->number);
	}
	return 0;
}

static int read_lines(FILE *f, const char *path, struct key_list *l, struct err *e)
{
	char text[LINE_MAX_LEN];
	int number = 0, status = 0, got;

	while (status == 0 && (got = line_read(f, text, sizeof text, e)) != 0) {
		number++;
		if (got > 0 && number > LINES_MAX)
			got = err_set(e, ERR_INVALID, "more than %d lines", LINES_MAX);
		status = got < 0 ? -1 : take_line(text, l, number, e);
	}
	explicit_bzero(text, sizeof text);
	return status < 0 ? err_wrap(e, "key_file %s:%d", path, number) : check_twice(path, l, e);
}

static int read_file(const char *path, struct key_list *l, struct err *e)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	int status;

	*l = (struct key_list){ NULL, 0, 0 };
	if (f == NULL)
		return err_sys(e, "key_file %s", path);
	if (fstat(fileno(f), &st) < 0)
		status = err_sys(e, "key_file %s", path);
	else if ((st.st_mode & 07) != 0)
		status = err_set(e, ERR_INVALID, "key_file %s may be read by others: chmod 640 it", path);
	else
		status = read_lines(f, path, l, e);
	fclose(f);
	if (status < 0)
		free(l->line);
	return status;
}

int key_file_check(const char *path, struct err *e)
{
	struct key_list l;

	if (read_file(path, &l, e) < 0)
		return -1;
	free(l.line);
	return 0;
}

/* ---- into the records ---- */

static int import_line(struct domain *d, struct txn *t, struct line *l, int *added, struct err *e)
{
	struct team_rec team;
	struct key_rec was;
	int got = store_key_get(t, l->key.hash, &was, e);

	if (got < 0 || team_named(d, t, l->team[0] != '\0' ? l->team : d->conf->default_team, &team, e) < 0)
		return -1;
	if (got == 1 && strcmp(was.team, team.id) == 0 && was.kind == KEY_API)
		return 0;
	/* a key moves when its line says so: the file is the operator's word */
	l->key.from_file = true;
	l->key.created_us = domain_now(d);
	snprintf(l->key.team, sizeof l->key.team, "%s", team.id);
	snprintf(l->key.name, sizeof l->key.name, "key file");
	++*added;
	return store_key_put(t, &l->key, e);
}

struct leaving {
	const struct key_list *l;
	uint8_t (*hash)[32];
	size_t n, cap;
};

static int find_leaving(void *ctx, const struct key_rec *r, struct err *e)
{
	struct leaving *x = ctx;
	uint8_t (*more)[32];
	size_t lo = 0, hi = x->l->n;

	if (!r->from_file)
		return 0;
	while (lo < hi) {                    /* lines are in the order of hashes */
		size_t mid = lo + (hi - lo) / 2;
		int order = memcmp(x->l->line[mid].key.hash, r->hash, sizeof r->hash);

		if (order == 0)
			return 0;
		lo = order < 0 ? mid + 1 : lo;
		hi = order < 0 ? hi : mid;
	}
	if (x->n == x->cap) {
		x->cap = x->cap != 0 ? 2 * x->cap : 64;
		more = realloc(x->hash, x->cap * sizeof *more);
		if (more == NULL)
			return err_set(e, ERR_INTERNAL, "out of memory");
		x->hash = more;
	}
	memcpy(x->hash[x->n++], r->hash, 32);
	return 0;
}

static int end_missing(struct txn *t, const struct key_list *l, int *ended, struct err *e)
{
	struct leaving x = { .l = l };
	int status = store_walk_keys(t, NULL, find_leaving, &x, e);

	for (size_t i = 0; i < x.n && status == 0; i++)
		status = store_key_delete(t, x.hash[i], e) < 0 ? -1 : 0;
	*ended = (int)x.n;
	free(x.hash);
	return status;
}

static int import(struct domain *d, struct key_list *l, bool whole, int *added, int *ended, struct err *e)
{
	struct txn *t;
	int status = 0;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	for (size_t i = 0; i < l->n && status == 0; i++)
		status = import_line(d, t, &l->line[i], added, e);
	if (status == 0 && whole)
		status = end_missing(t, l, ended, e);
	if (status < 0 || *added + *ended == 0) {
		txn_abort(t);
		return status;
	}
	return txn_commit(t, e);
}

int key_file_import(struct domain *d, const char *path, bool whole, int *added, int *ended, struct err *e)
{
	struct key_list l;
	int status;

	*added = *ended = 0;
	if (read_file(path, &l, e) < 0)
		return -1;
	status = import(d, &l, whole, added, ended, e);
	free(l.line);
	return status;
}
