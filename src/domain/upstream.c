/* The mirrored account: its settings, and where its refreshes are. */
#include "domain_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/upstream.h"

#define RECORD "upstream"
#define KEY_LINE_MAX 256

/* ---- settings ---- */

int upstream_key(const struct config *conf, char *key, size_t max, struct err *e)
{
	const char *path = conf->upstream_key_file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "upstream_key_file %s", path);
	n = read(fd, key, max - 1);
	if (fstat(fd, &st) < 0)
		n = -1;
	close(fd);
	if (n >= 0 && (st.st_mode & 077) != 0)
		return err_set(e, ERR_INVALID, "upstream_key_file %s may be read by others: chmod 600 it", path);
	key[n > 0 ? n : 0] = '\0';
	key[strcspn(key, "\n")] = '\0';
	if (strncmp(key, KEY_PREFIX, strlen(KEY_PREFIX)) != 0 || strspn(key + 4, "0123456789abcdefABCDEF") != strlen(key + 4) || key[4] == '\0')
		return err_set(e, ERR_INVALID, "upstream_key_file %s does not hold one line with a key, " KEY_PREFIX " and hex digits", path);
	return 0;
}

int upstream_check(const struct config *conf, struct err *e)
{
	const char *url = conf->upstream_url;
	char key[KEY_LINE_MAX];
	struct err why;

	if (url[0] == '\0')
		return 0;
	if (webhook_url_check(url, true, e) < 0)
		return err_wrap(e, "upstream_url");
	if (strncasecmp(url, "http://", 7) == 0 && webhook_url_check(url, false, &why) == 0)
		return err_set(e, ERR_INVALID, "upstream_url must be https: the key would be readable on the way to a public address");
	if (strpbrk(url, "?#") != NULL)
		return err_set(e, ERR_INVALID, "upstream_url must hold no query");
	if (name_check(conf->upstream_team, e) < 0)
		return err_wrap(e, "upstream_team");
	if (conf->upstream_key_file[0] == '\0')
		return err_set(e, ERR_INVALID, "upstream_url needs upstream_key_file");
	return upstream_key(conf, key, sizeof key, e);
}

/* ---- state ---- */

enum { DUE, REMOVALS, TRIED, DONE, FAILURES, ROWS, FULL = ROWS + VENDOR_LISTS, NUMBERS = FULL + VENDOR_LISTS };

static int read_state(struct txn *t, struct upstream_state *out, struct err *e)
{
	int64_t v[NUMBERS];

	if (store_numbers_get(t, RECORD, v, NUMBERS, e) < 0)
		return -1;
	*out = (struct upstream_state){ .due_us = v[DUE], .removals = v[REMOVALS], .tried_us = v[TRIED], .done_us = v[DONE], .failures = v[FAILURES] };
	memcpy(out->rows, v + ROWS, sizeof out->rows);
	memcpy(out->full, v + FULL, sizeof out->full);
	return 0;
}

static int write_state(struct txn *t, const struct upstream_state *s, struct err *e)
{
	int64_t v[NUMBERS] = { [DUE] = s->due_us, [REMOVALS] = s->removals, [TRIED] = s->tried_us, [DONE] = s->done_us, [FAILURES] = s->failures };

	memcpy(v + ROWS, s->rows, sizeof s->rows);
	memcpy(v + FULL, s->full, sizeof s->full);
	return store_numbers_put(t, RECORD, v, NUMBERS, e);
}

int upstream_state(struct domain *d, struct upstream_state *out, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_read(d->store, &t, e) < 0)
		return -1;
	status = read_state(t, out, e);
	txn_abort(t);
	return status;
}

int upstream_mark(struct txn *t, bool removed, int64_t now_us, struct err *e)
{
	struct upstream_state s;

	if (read_state(t, &s, e) < 0)
		return -1;
	if (removed)
		s.removals++;
	else
		s.due_us = now_us;
	return write_state(t, &s, e);
}

int upstream_begin(struct domain *d, struct upstream_state *begun, struct err *e)
{
	struct txn *t;
	int status;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	status = read_state(t, begun, e);
	if (status == 0) {
		begun->tried_us = domain_real_now(d);
		status = write_state(t, begun, e);
	}
	return txn_end(t, status, e);
}

int upstream_fresh(struct txn *t, const struct upstream_state *begun, int list, size_t rows, bool full, struct err *e)
{
	struct upstream_state s;

	if (read_state(t, &s, e) < 0)
		return -1;
	if (s.removals != begun->removals)
		return err_set(e, ERR_CONFLICT, "a webhook removed something meanwhile");
	s.rows[list] = (int64_t)rows;
	s.full[list] = full;
	return write_state(t, &s, e);
}

int upstream_end(struct domain *d, const struct upstream_state *begun, bool ok, struct err *e)
{
	struct upstream_state s;
	struct txn *t;
	int status;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	status = read_state(t, &s, e);
	if (status == 0) {
		s.failures = ok ? 0 : s.failures + 1;
		if (ok)
			s.done_us = begun->tried_us;
		if (ok && s.due_us <= begun->tried_us)
			s.due_us = 0;
		status = write_state(t, &s, e);
	}
	return txn_end(t, status, e);
}
