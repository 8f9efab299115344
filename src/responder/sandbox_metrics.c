/* What sandboxes used, over time (api.md 5.17, 5.18). */
#include "responder.h"

#include <string.h>

#include "hutch/when.h"

#define IDS_MAX 100

static void sample_fields(struct jw *w, const struct sample *s)
{
	json_sample_time(w, s->us);
	jw_kint(w, "cpuCount", s->cpu_count);
	jw_key(w, "cpuUsedPct");
	jw_dbl(w, s->cpu_hundredths / 100.0);
	jw_kint(w, "memUsed", (int64_t)s->mem_used);
	jw_kint(w, "memTotal", (int64_t)s->mem_total);
	jw_kint(w, "memCache", (int64_t)s->mem_cache);
	jw_kint(w, "diskUsed", (int64_t)s->disk_used);
	jw_kint(w, "diskTotal", (int64_t)s->disk_total);
}

static int add_sample(void *ctx, const struct sample *s, struct err *e)
{
	struct jw *w = ctx;

	(void)e;
	jw_open(w, '{');
	sample_fields(w, s);
	jw_close(w, '}');
	return 0;
}

int sandbox_metrics(struct call *c, struct err *e)
{
	char id[SANDBOX_ID_LEN];
	int64_t from, to;
	struct jw w;

	if (take_sandbox_id(c, id, e) < 0 || take_range(c, &from, &to, e) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '[');
	if (sample_each(c->d, c->team.id, id, from, to, add_sample, &w, e) < 0)
		return -1;
	jw_close(&w, ']');
	return 0;
}

/* Words of a comma list, each once; their number, or -1. */
static int take_ids(char *text, char *id[IDS_MAX], struct err *e)
{
	char *save = NULL;
	int n = 0;

	for (char *s = strtok_r(text, ",", &save); s != NULL; s = strtok_r(NULL, ",", &save)) {
		if (n == IDS_MAX)
			return err_set(e, ERR_INVALID, "sandbox_ids may hold %d ids", IDS_MAX);
		for (int i = 0; i < n; i++)
			if (strcmp(id[i], s) == 0)
				return err_set(e, ERR_INVALID, "sandbox_ids holds %.40s twice", s);
		id[n++] = s;
	}
	return n > 0 ? n : err_set(e, ERR_INVALID, "sandbox_ids must hold an id");
}

int sandboxes_metrics(struct call *c, struct err *e)
{
	char text[8192], *id[IDS_MAX];
	int got = call_query(c, "sandbox_ids", text, sizeof text, e), n;
	struct jw w;

	if (got == 0)
		return err_set(e, ERR_INVALID, "query parameter sandbox_ids is required");
	if (got < 0 || (n = take_ids(text, id, e)) < 0)
		return -1;
	c->status = 200;
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_key(&w, "sandboxes");
	jw_open(&w, '{');
	for (int i = 0; i < n; i++) {
		struct sample s;

		got = sample_newest(c->d, c->team.id, id[i], &s, e);
		if (got < 0)
			return -1;
		if (got == 0)
			continue;
		jw_key(&w, id[i]);
		jw_open(&w, '{');
		sample_fields(&w, &s);
		jw_close(&w, '}');
	}
	jw_close(&w, '}');
	jw_close(&w, '}');
	return 0;
}
