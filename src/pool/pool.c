/* The calls of pool.h, passed to the kind of pool at hand. */
#include "hutch/pool.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pool_close(struct pool *p)
{
	if (p != NULL)
		p->ops->close(p);
}

int pool_claim(struct pool *p, const struct pool_shape *shape, const char *ref, const struct pool_init *init,
	       char machine[MACHINE_ID_LEN], bool *unsure, struct err *e)
{
	*unsure = false;
	return p->ops->claim(p, shape, ref, init, machine, unsure, e);
}

int pool_release(struct pool *p, const char *machine, struct json_object **lines, struct err *e)
{
	if (lines != NULL)
		*lines = NULL;
	return p->ops->release(p, machine, lines, e);
}

int pool_release_ref(struct pool *p, const char *ref, struct err *e)
{
	return p->ops->release_ref(p, ref, e);
}

int pool_list(struct pool *p, struct pool_machine **out, size_t *n, struct err *e)
{
	return p->ops->list(p, out, n, e);
}

int pool_set_shapes(struct pool *p, const struct pool_shape *shapes, size_t n, struct err *e)
{
	return p->ops->set_shapes(p, shapes, n, e);
}

int pool_templates(struct pool *p, char (**out)[TEMPLATE_ID_LEN], size_t *n, struct err *e)
{
	return p->ops->templates(p, out, n, e);
}

int pool_open_port(struct pool *p, const char *machine, int port, struct err *e)
{
	return p->ops->open_port(p, machine, port, e);
}

int pool_upstream(struct pool *p, const char *run_dir, const char *machine, int port, char out[POOL_UPSTREAM_LEN], struct err *e)
{
	int n;

	if (p->ops->upstream != NULL)
		return p->ops->upstream(p, run_dir, machine, port, out, e);
	n = snprintf(out, POOL_UPSTREAM_LEN, "unix:%s/sb/%s/%d", run_dir, machine, port);
	if (n < 0 || n >= POOL_UPSTREAM_LEN)
		return err_set(e, ERR_INTERNAL, "run_dir %s is too long for socket paths", run_dir);
	return 0;
}

int pool_hibernate(struct pool *p, const char *machine, bool memory, struct err *e)
{
	return p->ops->hibernate(p, machine, memory, e);
}

int pool_wake(struct pool *p, const char *machine, struct err *e)
{
	return p->ops->wake(p, machine, e);
}

int pool_checkpoint(struct pool *p, const char *machine, const char *name, uint64_t max_bytes, struct pool_checkpoint *out, bool *unsure,
		    struct err *e)
{
	*unsure = false;
	return p->ops->checkpoint(p, machine, name, max_bytes, out, unsure, e);
}

int pool_checkpoints(struct pool *p, struct pool_checkpoint **out, size_t *n, struct err *e)
{
	return p->ops->checkpoints(p, out, n, e);
}

int pool_checkpoint_drop(struct pool *p, const char *id, struct err *e)
{
	return p->ops->checkpoint_drop(p, id, e);
}

int pool_checkpoint_drop_named(struct pool *p, const char *name, struct err *e)
{
	struct pool_checkpoint *c = NULL;
	size_t n = 0;
	int status = 0;

	if (pool_checkpoints(p, &c, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n && status == 0; i++)
		if (strcmp(c[i].name, name) == 0)
			status = pool_checkpoint_drop(p, c[i].id, e);
	free(c);
	return status;
}

int pool_network(struct pool *p, const char *machine, const struct pool_network *rules, struct err *e)
{
	if (p->ops->network != NULL)
		return p->ops->network(p, machine, rules, e);
	return err_set(e, ERR_CONFLICT, "machine %s has no network", machine);
}

int pool_abilities(struct pool *p, uint32_t *can, struct err *e)
{
	*can = 0;
	return p->ops->abilities != NULL ? p->ops->abilities(p, can, e) : 0;
}

int pool_use(struct pool *p, struct pool_use **out, size_t *n, struct err *e)
{
	*out = NULL;
	*n = 0;
	return p->ops->use != NULL ? p->ops->use(p, out, n, e) : 0;
}

int pool_journal(struct pool *p, const char *machine, int64_t after_us, struct json_object **lines, struct err *e)
{
	*lines = NULL;
	return p->ops->journal != NULL ? p->ops->journal(p, machine, after_us, lines, e) : 0;
}
