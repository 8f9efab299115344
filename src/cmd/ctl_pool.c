/* hutchctl pool: machine pools and what they can do. */
#include "ctl.h"

#include <stdio.h>
#include <string.h>

struct pools {
	struct buf text;             /* printed after the transaction: standard output may be slow */
	bool have_default;
	const struct domain *d;
};

static int add_pool(void *ctx, const struct pool_rec *p, struct err *e)
{
	const struct pool_caps *caps = pool_kind_caps((enum pool_kind)p->kind);
	struct pools *l = ctx;
	uint32_t more = 0;
	struct err ignored;

	if (pool_abilities(pool_of(l->d, p->kind), &more, &ignored) < 0)
		more = 0;                    /* the node is away */
	l->have_default |= strcmp(p->name, POOL_DEFAULT_NAME) == 0;
	buf_addf(&l->text, "%s  %s ", p->name, pool_kind_name((enum pool_kind)p->kind));
	for (int i = 0; pool_cap_name(i) != NULL; i++)
		if (((caps->can | more) >> i & 1) != 0)
			buf_addf(&l->text, " %s", pool_cap_name(i));
	buf_addc(&l->text, '\n');
	return buf_failed(&l->text) ? err_set(e, ERR_INTERNAL, "out of memory") : 0;
}

/* Each line, with a mark at the pool of templates that name none. */
static void print(const struct pools *l)
{
	const char *chosen = l->have_default ? POOL_DEFAULT_NAME : POOL_LOCAL_NAME;

	for (const char *line = buf_str(&l->text), *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		bool marked = strncmp(line, chosen, strlen(chosen)) == 0 && line[strlen(chosen)] == ' ';

		printf("%c %.*s\n", marked ? '*' : ' ', (int)(end - line), line);
	}
}

int ctl_pool(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	struct pools l = { .d = &ctl->domain };
	struct err e;
	int status;

	if (ctl_option(ctl, argc, argv, longs, &status) == -2)
		return status;
	if (argc - optind != 1 || strcmp(argv[optind], "list") != 0)
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	buf_init(&l.text, 1U << 20);
	status = pool_walk(&ctl->domain, add_pool, &l, &e);
	if (status == 0)
		print(&l);
	buf_release(&l.text);
	return status < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}
