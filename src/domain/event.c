/* Lifecycle events (api.md 14.1). event_text.c reads them back: what follows eventData is nobody's but ours. */
#include "domain_int.h"

#include <string.h>

#include "hutch/crypto.h"

#define EVENT_MAX (3 * METADATA_BYTES_MAX + 4096)

static void write_execution(struct jw *w, const struct sandbox_rec *r, int64_t now_us)
{
	char text[WHEN_LEN];

	when_format(r->started_us, text);
	jw_key(w, "execution");
	jw_open(w, '{');
	jw_kstr(w, "started_at", text);
	jw_kint(w, "vcpu_count", r->cpu_count);
	jw_kint(w, "memory_mb", r->memory_mb);
	jw_kint(w, "execution_time", (now_us - r->started_us) / US_PER_MS);
	jw_close(w, '}');
}

static void write_list(struct jw *w, const char *key, const char *list)
{
	jw_key(w, key);
	jw_raw(w, list != NULL ? list : "[]", list != NULL ? strlen(list) : 2);
}

static void write_egress(struct jw *w, const struct sandbox_rec *r)
{
	jw_key(w, "network_egress");
	jw_open(w, '{');
	write_list(w, "allowed_cidrs", r->allow_out);
	write_list(w, "denied_cidrs", r->deny_out);
	write_list(w, "allowed_domains", NULL);
	jw_close(w, '}');
}

/* network: a change of its rules is what it is about. */
static void write_data(struct jw *w, bool network, const struct sandbox_rec *r, bool run_over, int64_t now_us, const char *reason, int64_t new_end_us)
{
	char text[WHEN_LEN];

	jw_key(w, "eventData");
	if (r->metadata == NULL && !run_over && new_end_us == 0 && !network) {
		jw_null(w);
		return;
	}
	jw_open(w, '{');
	if (r->metadata != NULL) {
		jw_key(w, "sandbox_metadata");
		jw_raw(w, r->metadata, strlen(r->metadata));
	}
	if (run_over)
		write_execution(w, r, now_us);
	if (network)
		write_egress(w, r);
	if (reason != NULL)
		jw_kstr(w, "kill_reason", reason);
	if (new_end_us != 0) {
		when_format(new_end_us, text);
		jw_kstr(w, "set_timeout", text);
	}
	jw_close(w, '}');
}

int event_write(struct txn *t, const struct sandbox_rec *r, const char *type, int64_t now_us, const char *reason,
		int64_t new_end_us, struct err *e)
{
	char id[UUID_LEN], text[WHEN_LEN];
	uint32_t seq;
	struct buf b;
	struct jw w;
	int status;

	if (r->pool_kind == POOL_VENDOR)     /* its account tells by webhooks of its own */
		return 0;
	random_uuid(id);
	when_format(now_us, text);
	buf_init(&b, EVENT_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "version", "v2");
	jw_kstr(&w, "id", id);
	jw_kstr(&w, "type", type);
	write_data(&w, strcmp(type, EVENT_UPDATED) == 0 && new_end_us == 0, r, reason != NULL || strcmp(type, EVENT_PAUSED) == 0, now_us, reason, new_end_us);
	jw_kstr(&w, "sandboxBuildId", r->build_id);
	jw_kstr(&w, "sandboxExecutionId", r->execution_id);
	jw_kstr(&w, "sandboxId", r->id);
	jw_kstr(&w, "sandboxTeamId", r->team);
	jw_kstr(&w, "sandboxTemplateId", r->template_id);
	jw_kstr(&w, "timestamp", text);
	jw_close(&w, '}');
	if (buf_failed(&b))
		status = err_set(e, ERR_INTERNAL, "event of %s: out of memory", r->id);
	else
		status = store_event_add(t, r->team, r->id, now_us, buf_str(&b), b.len, &seq, e);
	if (status == 0)
		status = outbox_put(t, r, type, now_us, seq, e);
	buf_release(&b);
	return status;
}
