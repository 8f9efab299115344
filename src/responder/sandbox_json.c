/* Sandbox objects (api.md 5.1). Stored JSON goes out as it is: nothing is parsed on a read. */
#include "responder.h"

#include <string.h>

#include "hutch/envd.h"
#include "hutch/when.h"

static void text(struct jw *w, struct glance_text s)
{
	jw_strn(w, s.p, s.n);
}

static void identity(struct jw *w, const char *id, const struct sandbox_glance *g)
{
	JW_KEY(w, "templateID");
	text(w, g->template_id);
	JW_KEY(w, "sandboxID");
	jw_strn(w, id, strlen(id));
	JW_KEY(w, "alias");
	text(w, g->alias);
	JW_KEY(w, "clientID");
	jw_strn(w, CLIENT_ID, sizeof CLIENT_ID - 1);
	JW_KEY(w, "envdVersion");
	text(w, g->envd_version);
}

/* One that is being paused or resumed is paused for clients. */
static bool shows_paused(uint8_t state)
{
	return state == SB_PAUSED || state == SB_PAUSING || state == SB_RESUMING;
}

/* Tokens are told to who starts or resumes it. */
static void traffic_token(struct jw *w, const struct domain *d, const struct sandbox_rec *r)
{
	char token[TOKEN_LEN];

	if (r->closed_traffic)
		sandbox_traffic_token(d, r->id, token);
	jw_kstr(w, "trafficAccessToken", r->closed_traffic ? token : NULL);
}

static void list_field(struct jw *w, const char *key, const char *list)
{
	if (list == NULL)
		return;
	jw_key(w, key);
	jw_raw(w, list, strlen(list));
}

/* What was asked; nothing when nothing was. */
static void network_field(struct jw *w, const struct sandbox_rec *r)
{
	if (!r->closed_traffic && r->mask_host == NULL && r->allow_out == NULL && r->deny_out == NULL)
		return;
	jw_key(w, "network");
	jw_open(w, '{');
	jw_kbool(w, "allowPublicTraffic", !r->closed_traffic);
	if (r->mask_host != NULL)
		jw_kstr(w, "maskRequestHost", r->mask_host);
	list_field(w, "allowOut", r->allow_out);
	list_field(w, "denyOut", r->deny_out);
	jw_close(w, '}');
}

static void access_fields(struct jw *w, const struct domain *d, const struct sandbox_rec *r)
{
	char token[TOKEN_LEN];

	if (r->secure) {
		sandbox_token(d, r->id, token);
		jw_kstr(w, "envdAccessToken", token);
	}
	jw_kstr(w, "domain", shows_paused(r->state) ? NULL : d->conf->domain);
}

static void time_value(struct jw *w, int64_t us)
{
	char quoted[WHEN_LEN + 2] = "\"";

	when_format(us, quoted + 1);
	quoted[WHEN_LEN] = '"';
	jw_raw(w, quoted, WHEN_LEN + 1);
}

static void state_fields(struct jw *w, const struct sandbox_glance *g)
{
	const bool paused = shows_paused(g->state);

	JW_KEY(w, "startedAt");
	time_value(w, g->started_us);
	JW_KEY(w, "endAt");
	time_value(w, g->end_us);
	JW_KEY(w, "state");
	jw_str(w, paused ? "paused" : "running");
	JW_KEY(w, "cpuCount");
	jw_int(w, g->cpu_count);
	JW_KEY(w, "memoryMB");
	jw_int(w, g->memory_mb);
	JW_KEY(w, "diskSizeMB");
	jw_int(w, g->disk_mb);
	if (g->metadata.p != NULL) {
		JW_KEY(w, "metadata");
		jw_raw(w, g->metadata.p, g->metadata.n);
	}
	if (!paused) {
		JW_KEY(w, "volumeMounts");
		jw_raw(w, "[]", 2);
	}
}

void json_sandbox(struct jw *w, const struct domain *d, const struct sandbox_rec *r)
{
	struct sandbox_glance g;

	sandbox_glance_of(r, &g);
	jw_open(w, '{');
	identity(w, r->id, &g);
	access_fields(w, d, r);
	traffic_token(w, d, r);
	jw_close(w, '}');
}

void json_sandbox_detail(struct jw *w, const struct domain *d, const struct sandbox_rec *r)
{
	struct sandbox_glance g;

	sandbox_glance_of(r, &g);
	jw_open(w, '{');
	identity(w, r->id, &g);
	access_fields(w, d, r);
	state_fields(w, &g);
	jw_key(w, "allowInternetAccess");
	if (r->allow_internet_set)
		jw_bool(w, r->allow_internet);
	else
		jw_null(w);
	network_field(w, r);
	jw_key(w, "lifecycle");
	jw_open(w, '{');
	jw_kbool(w, "autoResume", r->auto_resume);
	jw_kstr(w, "onTimeout", r->auto_pause ? "pause" : "kill");
	jw_close(w, '}');
	jw_close(w, '}');
}

void json_sandbox_listed(struct jw *w, const char *id, const struct sandbox_glance *g)
{
	jw_open(w, '{');
	identity(w, id, g);
	state_fields(w, g);
	jw_close(w, '}');
}
