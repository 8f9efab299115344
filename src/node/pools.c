/* The rows of PUT /v1/pools: kept on disk, turned into pools. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "hutch/log.h"
#include "node.h"

#define FILE_NAME "pools.json"
#define FILE_MAX (16u << 20)

static struct pool *pool_make(struct shape *s)
{
	struct pool *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->shape = *s;                       /* takes command */
	s->command = NULL;
	return p;
}

/* Ready machines and starts under way go over to the new row of the same template; what does not fit goes to the graveyard. */
static void inherit(struct node *n, struct pool *old)
{
	struct pool *p = pool_find(n, old->shape.template);
	struct machine *m;

	if (p != NULL)
		p->starting = old->starting;
	while ((m = pool_pop(old)) != NULL)
		pool_push(n, m);
	shape_release(&old->shape);
	free(old);
}

static void replace(struct node *n, struct pool **pool, size_t count)
{
	struct pool **was = n->pool;
	size_t nwas = n->npools;

	pthread_mutex_lock(&n->lock);
	for (size_t i = 0; i < nwas; i++)
		htab_del(&n->pools, &was[i]->by_template);
	n->pool = pool;
	n->npools = count;
	for (size_t i = 0; i < count; i++)
		htab_add(&n->pools, &pool[i]->by_template, pool[i]->shape.template);
	for (size_t i = 0; i < nwas; i++)
		inherit(n, was[i]);
	pthread_cond_signal(&n->work);
	pthread_mutex_unlock(&n->lock);
	free(was);
}

static int install(struct node *n, struct shape_list *l, struct err *e)
{
	struct pool **pool = calloc(l->n + 1, sizeof(struct pool *));
	size_t made = 0;

	while (pool != NULL && made < l->n && (pool[made] = pool_make(&l->row[made])) != NULL)
		made++;
	if (pool != NULL && made == l->n) {
		replace(n, pool, made);
		return 0;
	}
	while (made > 0)
		free(pool[--made]);
	free(pool);
	return err_set(e, ERR_INTERNAL, "out of memory");
}

int node_set_pools(struct node *n, struct shape_list *l, struct err *e)
{
	struct buf b;
	int status;

	buf_init(&b, FILE_MAX);
	shapes_write(&b, l);
	status = buf_failed(&b) ? err_set(e, ERR_TOO_LARGE, "pools are too large") : file_replace(n->dir, FILE_NAME, b.p, b.len, e);
	buf_release(&b);
	return status < 0 ? -1 : install(n, l, e);
}

static int load(const char *text, size_t len, const struct node *n, struct shape_list *l, struct err *e)
{
	const struct shape_limits lim = { 0, (uint32_t)n->conf->max_sandboxes };

	return shapes_parse(text, len, &lim, l, e);
}

int node_load_pools(struct node *n, struct err *e)
{
	char *text = malloc(FILE_MAX);
	struct shape_list l = { NULL, 0 };
	struct err why;
	ssize_t len;
	int status = 0;

	if (text == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	len = file_read(n->dir, FILE_NAME, text, FILE_MAX);
	if (len < 0 && errno != ENOENT)
		status = err_sys(e, FILE_NAME);
	else if (len > 0 && load(text, (size_t)len, n, &l, &why) < 0)
		/* the control plane puts them anew at the first claim */
		log_warn(FILE_NAME ": %s; starting without templates", why.text);
	free(text);
	if (status == 0)
		status = install(n, &l, e);
	shapes_release(&l);
	return status;
}
