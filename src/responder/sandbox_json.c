/* Sandbox objects (api.md 5.1). Stored JSON goes out as it is: nothing is parsed on a read. */
#include "responder.h"

#include <string.h>

#include "hutch/envd.h"
#include "hutch/when.h"

static void identity(struct jw *w, const struct sandbox_rec *r)
{
	JW_KEY(w, "templateID");
	jw_str(w, r->template_id);
	JW_KEY(w, "sandboxID");
	jw_str(w, r->id);
	JW_KEY(w, "alias");
	jw_str(w, r->alias);
	JW_KEY(w, "clientID");
	jw_str(w, CLIENT_ID);
	JW_KEY(w, "envdVersion");
	jw_str(w, r->envd_version);
}

/* One that is being paused or resumed is paused for clients. */
static bool sandbox_paused(const struct sandbox_rec *r)
{
	return r->state == SB_PAUSED || r->state == SB_PAUSING || r->state == SB_RESUMING;
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
	jw_kstr(w, "domain", sandbox_paused(r) ? NULL : d->conf->domain);
}

static void time_value(struct jw *w, int64_t us)
{
	char text[WHEN_LEN];

	when_format(us, text);
	jw_strn(w, text, WHEN_LEN - 1);
}

static void state_fields(struct jw *w, const struct sandbox_rec *r)
{
	bool paused = sandbox_paused(r);

	JW_KEY(w, "startedAt");
	time_value(w, r->started_us);
	JW_KEY(w, "endAt");
	time_value(w, r->end_us);
	JW_KEY(w, "state");
	jw_str(w, paused ? "paused" : "running");
	JW_KEY(w, "cpuCount");
	jw_int(w, r->cpu_count);
	JW_KEY(w, "memoryMB");
	jw_int(w, r->memory_mb);
	JW_KEY(w, "diskSizeMB");
	jw_int(w, r->disk_mb);
	if (r->metadata != NULL) {
		JW_KEY(w, "metadata");
		jw_raw(w, r->metadata, strlen(r->metadata));
	}
	if (!paused) {
		JW_KEY(w, "volumeMounts");
		jw_raw(w, "[]", 2);
	}
}

void json_sandbox(struct jw *w, const struct domain *d, const struct sandbox_rec *r)
{
	jw_open(w, '{');
	identity(w, r);
	access_fields(w, d, r);
	traffic_token(w, d, r);
	jw_close(w, '}');
}

void json_sandbox_detail(struct jw *w, const struct domain *d, const struct sandbox_rec *r)
{
	jw_open(w, '{');
	identity(w, r);
	access_fields(w, d, r);
	state_fields(w, r);
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

void json_sandbox_listed(struct jw *w, const struct sandbox_rec *r)
{
	jw_open(w, '{');
	identity(w, r);
	state_fields(w, r);
	jw_close(w, '}');
}
