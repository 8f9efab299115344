/*
 * responder.h - the route tables (the API's tables of contents), and what their handlers share.
 * docs/api.md names every row; a test holds both against each other.
 */
#ifndef HUTCH_RESPONDER_H
#define HUTCH_RESPONDER_H

#include "hutch/call.h"

extern const struct route sandboxes_routes[];
extern const size_t sandboxes_routes_count;
extern const struct route templates_routes[];
extern const size_t templates_routes_count;
extern const struct route teams_routes[];
extern const size_t teams_routes_count;
extern const struct route events_routes[];
extern const size_t events_routes_count;
extern const struct route doors_routes[];
extern const size_t doors_routes_count;

/* ---- handlers ---- */
call_handler health_get;
call_handler sandbox_create_v1, sandbox_create_v2;
call_handler sandboxes_list_v1, sandboxes_list_v2;
call_handler sandbox_show, sandbox_delete;
call_handler sandbox_timeout, sandbox_refresh, sandbox_network;
call_handler sandbox_pause_post, sandbox_resume_post;
call_handler sandbox_connect_v1, sandbox_connect_v2;
call_handler sandbox_snapshot_post, sandbox_fork_post, snapshots_list;
call_handler templates_list_v1, templates_list_v2, template_show, template_alias_show, template_remove;
call_handler door_team, door_template, door_machine_pool, door_clock_get, door_clock_set;
call_handler door_upstream, door_ingest, door_ingest_secret, door_ingest_secret_remove;
/* ERR_DENIED while option `doors` closes them. */
int door_open(const struct call *c, struct err *e);
call_handler events_of_team, events_of_sandbox;
call_handler webhook_make, webhooks_show, webhook_show, webhook_change, webhook_remove;
call_handler sandbox_metrics, sandboxes_metrics, sandbox_logs_v1, sandbox_logs_v2;
call_handler prometheus;
call_handler teams_list, team_metrics, team_metrics_max;
call_handler api_keys_list, api_key_create, api_key_rename, api_key_delete;
call_handler access_token_create, access_token_delete;
call_handler nodes_list, node_show, node_change;
call_handler admin_running_counts, admin_kill, admin_key_create, admin_key_delete;

/* ---- request bodies ---- */

/* A create body, checked (api.md 5.2, 20). The strings of spec belong to it. */
struct create_request {
	struct sandbox_spec spec;
	json_object *body;
	struct buf metadata, env;    /* compact JSON text */
	struct buf allow, deny;
};
/* v2: always secure, timeout 300 by default. An option that the pool cannot honour is ERR_INVALID naming it.
 * Release also after a failure. */
int create_read(const char *text, size_t n, bool v2, struct create_request *r, struct err *e);
void create_release(struct create_request *r);

/* All of it, as in a create (api.md 5.3). */
int network_read(json_object *network, struct sandbox_spec *s, struct buf *allow, struct buf *deny, struct err *e);

/* Lease seconds of a body: required unless fallback >= 0. memory: what to resume from. */
int lease_read(const char *text, size_t n, int64_t fallback, int64_t *seconds, bool *memory, struct err *e);
/* The body of the old resume, which may be empty (api.md 5.11). */
int resume_read(const char *text, size_t n, struct resume_spec *s, struct err *e);

/* ---- queries ---- */

struct page_request {
	int limit;
	const char *next_token;      /* or NULL */
	char text[PAGE_TOKEN_LEN];
};
/* `limit` and `nextToken` of a paged list (api.md 4). */
int take_page(const struct call *c, struct page_request *r, struct err *e);

#define META_PAIRS_MAX 32
#define META_QUERY_MAX 8192

struct list_request {
	struct sandbox_query q;
	char text[META_QUERY_MAX];   /* decoded pairs that q.meta points into */
	const char *pairs[2 * META_PAIRS_MAX];
	char template_ref[300];
	struct page_request page;
};
/* The query of GET /v2/sandboxes (api.md 5.6); template_ref is not resolved. */
int list_read(const struct call *c, struct list_request *r, struct err *e);
/* Only its metadata (api.md 5.7). */
int list_read_metadata(const struct call *c, struct list_request *r, struct err *e);

/* `start` and `end` in unix seconds: [from, to); without them from the beginning, until now. 1 when there is a start, 0, or -1. */
int take_range(const struct call *c, int64_t *from_us, int64_t *to_us, struct err *e);

/* ---- answers ---- */
void json_sample_time(struct jw *w, int64_t us);
void json_time(struct jw *w, const char *key, int64_t us);    /* RFC 3339; 0 is null */
/* A template of the team with that slug. */
void json_template(struct jw *w, const struct template_rec *t, const char *slug);
/* Likewise with its builds. */
void json_template_builds(struct jw *w, const struct template_rec *t, const char *slug);
void json_sandbox(struct jw *w, const struct domain *d, const struct sandbox_rec *r);
void json_sandbox_detail(struct jw *w, const struct domain *d, const struct sandbox_rec *r);
void json_sandbox_listed(struct jw *w, const char *id, const struct sandbox_glance *g);

/* Sandbox id of path parameter 0 without its old client part (api.md 4). ERR_INVALID, or ERR_NOT_FOUND for one that is
 * too long to be any. */
int take_sandbox_id(const struct call *c, char id[SANDBOX_ID_LEN], struct err *e);
int sandbox_id_read(const char *text, char id[SANDBOX_ID_LEN], struct err *e);
/* Path parameter i as a UUID; ERR_INVALID naming what it is. */
int take_uuid(const struct call *c, int i, const char *what, char id[UUID_LEN], struct err *e);

#endif
