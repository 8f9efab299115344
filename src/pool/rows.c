/* Pools without machines: the kinds `none` (nothing answers guests) and `fake` (hutch-fake answers for all of them). */
#include "hutch/pool.h"

#include <stdio.h>
#include <stdlib.h>

struct rows_pool {
	struct pool base;
	bool guest;
};

static void rows_close(struct pool *p)
{
	free(p);
}

static int rows_claim(struct pool *p, const struct pool_shape *shape, const char *ref, const struct pool_init *init,
		      char machine[MACHINE_ID_LEN], bool *unsure, struct err *e)
{
	(void)p;
	(void)shape;
	(void)init;
	(void)unsure;
	(void)e;
	/* one reference, one machine: its id is the sandbox's */
	snprintf(machine, MACHINE_ID_LEN, "row_%s", ref);
	return 0;
}

static int rows_done(struct pool *p, const char *machine, struct err *e)
{
	(void)p;
	(void)machine;
	(void)e;
	return 0;
}

static int rows_list(struct pool *p, struct pool_machine **out, size_t *n, struct err *e)
{
	(void)p;
	*n = 0;
	*out = calloc(1, sizeof **out);
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int rows_set_shapes(struct pool *p, const struct pool_shape *shapes, size_t n, struct err *e)
{
	(void)p;
	(void)shapes;
	(void)n;
	(void)e;
	return 0;
}

static int rows_templates(struct pool *p, char (**out)[TEMPLATE_ID_LEN], size_t *n, struct err *e)
{
	(void)p;
	*n = 0;
	*out = calloc(1, sizeof **out);
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int rows_open_port(struct pool *p, const char *machine, int port, struct err *e)
{
	(void)p;
	(void)port;
	return err_set(e, ERR_UNAVAILABLE, "machine %s has no ports", machine);
}

static int rows_upstream(struct pool *p, const char *run_dir, const char *machine, int port, char out[POOL_UPSTREAM_LEN], struct err *e)
{
	(void)port;
	if (!((struct rows_pool *)p)->guest)
		return err_set(e, ERR_UNAVAILABLE, "machine %s runs no process", machine);
	if (snprintf(out, POOL_UPSTREAM_LEN, "unix:%s/fake.sock", run_dir) >= POOL_UPSTREAM_LEN)
		return err_set(e, ERR_INTERNAL, "run_dir %s is too long for socket paths", run_dir);
	return 0;
}

/* Nothing is behind a row, so nothing is behind what is kept of it. */
static int rows_checkpoint(struct pool *p, const char *machine, const char *name, uint64_t max_bytes, struct pool_checkpoint *out, bool *unsure,
			   struct err *e)
{
	(void)p;
	(void)machine;
	(void)max_bytes;
	(void)unsure;
	(void)e;
	*out = (struct pool_checkpoint){ .id = "ck_row" };
	snprintf(out->name, sizeof out->name, "%s", name);
	return 0;
}

static int rows_checkpoints(struct pool *p, struct pool_checkpoint **out, size_t *n, struct err *e)
{
	(void)p;
	*n = 0;
	*out = calloc(1, sizeof **out);
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int rows_release(struct pool *p, const char *machine, struct json_object **lines, struct err *e)
{
	(void)lines;
	return rows_done(p, machine, e);
}

/* Nothing that could reach anything. */
static int rows_network(struct pool *p, const char *machine, const struct pool_network *rules, struct err *e)
{
	(void)rules;
	return rows_done(p, machine, e);
}

static int rows_hibernate(struct pool *p, const char *machine, bool memory, struct err *e)
{
	(void)memory;
	return rows_done(p, machine, e);
}

static const struct pool_ops rows_ops = {
	.close = rows_close,
	.claim = rows_claim,
	.release = rows_release,
	.release_ref = rows_done,
	.list = rows_list,
	.set_shapes = rows_set_shapes,
	.templates = rows_templates,
	.open_port = rows_open_port,
	.upstream = rows_upstream,
	.hibernate = rows_hibernate,
	.wake = rows_done,
	.network = rows_network,
	.checkpoint = rows_checkpoint,
	.checkpoints = rows_checkpoints,
	.checkpoint_drop = rows_done,
};

int pool_open_rows(bool guest, struct pool **out, struct err *e)
{
	struct rows_pool *p = calloc(1, sizeof *p);

	if (p == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	p->base.ops = &rows_ops;
	p->guest = guest;
	*out = &p->base;
	return 0;
}
