/* Opening and closing; the instance's clock. */
#include "domain_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BOOT_ID_LEN 36

/* As stored: boot id, then both clocks read at one instant, big-endian. */
#define ANCHOR_LEN (BOOT_ID_LEN + 16)

struct anchor {
	char boot_id[BOOT_ID_LEN];
	int64_t wall_us, boot_us;
};

static int read_boot_id(char out[BOOT_ID_LEN], struct err *e)
{
	static const char path[] = "/proc/sys/kernel/random/boot_id";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "%s", path);
	n = read(fd, out, BOOT_ID_LEN);
	close(fd);
	return n == BOOT_ID_LEN ? 0 : err_set(e, ERR_INTERNAL, "%s is too short", path);
}

static int64_t i64_get(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return (int64_t)v;
}

static void i64_put(uint8_t *p, int64_t n)
{
	uint64_t v = (uint64_t)n;

	for (int i = 7; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
}

/* 1 when the stored anchor is of this boot. */
static int anchor_get(struct txn *t, const char *boot_id, struct anchor *a, struct err *e)
{
	uint8_t raw[ANCHOR_LEN];
	int got = store_meta_get(t, "clock", raw, sizeof raw, e);

	if (got != 1)
		return got;
	memcpy(a->boot_id, raw, BOOT_ID_LEN);
	a->wall_us = i64_get(raw + BOOT_ID_LEN);
	a->boot_us = i64_get(raw + BOOT_ID_LEN + 8);
	return memcmp(a->boot_id, boot_id, BOOT_ID_LEN) == 0;
}

static int anchor_put(struct txn *t, const struct anchor *a, struct err *e)
{
	uint8_t raw[ANCHOR_LEN];

	memcpy(raw, a->boot_id, BOOT_ID_LEN);
	i64_put(raw + BOOT_ID_LEN, a->wall_us);
	i64_put(raw + BOOT_ID_LEN + 8, a->boot_us);
	return store_meta_put(t, "clock", raw, sizeof raw, e);
}

/* The first program after a boot writes the anchor; all others take it. */
static int anchor_make(struct domain *d, const char *boot_id, struct anchor *a, struct err *e)
{
	struct txn *t;
	int got;

	if (txn_write(d->store, &t, e) < 0)
		return -1;
	got = anchor_get(t, boot_id, a, e);
	if (got == 0) {
		memcpy(a->boot_id, boot_id, BOOT_ID_LEN);
		a->wall_us = wall_us();
		a->boot_us = boot_us();
		got = anchor_put(t, a, e);
	}
	if (got < 0) {
		txn_abort(t);
		return -1;
	}
	return txn_commit(t, e);
}

static int anchor_open(struct domain *d, struct err *e)
{
	char boot_id[BOOT_ID_LEN];
	struct anchor a;
	struct txn *t;
	int got;

	if (read_boot_id(boot_id, e) < 0 || txn_read(d->store, &t, e) < 0)
		return -1;
	got = anchor_get(t, boot_id, &a, e);
	txn_abort(t);
	if (got < 0 || (got == 0 && anchor_make(d, boot_id, &a, e) < 0))
		return -1;
	d->anchor_wall_us = a.wall_us;
	d->anchor_boot_us = a.boot_us;
	return 0;
}

/* The reaper delivers; it sleeps until it is told. */
static void tell_reaper(void *ctx)
{
	reaper_nudge(ctx);
}

static int admin_open(struct domain *d, struct err *e)
{
	d->has_admin = d->conf->admin_token_file[0] != '\0';
	return d->has_admin ? admin_token_read(d->conf->admin_token_file, d->admin_hash, e) : 0;
}

int domain_open_with(struct domain *d, const struct config *conf, struct pool *pool, struct err *e)
{
	*d = (struct domain){ .conf = conf, .pool = pool, .nudge_fd = -1 };
	if (pool_open_rows(false, &d->rows, e) < 0 || pool_open_rows(true, &d->fake, e) < 0 ||
	    secret_read(conf->secret_file, d->secret, e) < 0 || store_open(conf->db_dir, conf->db_size_mb, &d->store, e) < 0 ||
	    anchor_open(d, e) < 0 || clock_open(d, e) < 0 || admin_open(d, e) < 0) {
		domain_close(d);
		return -1;
	}
	d->nudge_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->nudge_fd < 0) {
		err_sys(e, "socket");
		domain_close(d);
		return -1;
	}
	store_on_outbox(d->store, tell_reaper, d);
	return 0;
}

int domain_open(struct domain *d, const struct config *conf, struct err *e)
{
	struct pool *pool;

	if (pool_open(conf->node_socket, &pool, e) < 0)
		return -1;
	return domain_open_with(d, conf, pool, e);
}

void domain_close(struct domain *d)
{
	if (d->nudge_fd >= 0)
		close(d->nudge_fd);
	store_close(d->store);
	clock_close(d);
	rates_close(d->rates);
	counts_close(d->counts);
	d->rates = NULL;
	d->counts = NULL;
	pool_close(d->pool);
	pool_close(d->rows);
	pool_close(d->fake);
	explicit_bzero(d->secret, sizeof d->secret);
	d->store = NULL;
	d->pool = d->rows = d->fake = NULL;
	d->nudge_fd = -1;
}
