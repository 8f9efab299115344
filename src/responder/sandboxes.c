/* The route table of hutch-sandboxes. */
#include "responder.h"

const struct route sandboxes_routes[] = {
	{ "GET",    "/health",                   AUTH_OPEN,  health_get, IN_BOTH },
	{ "POST",   "/sandboxes",                AUTH_START, sandbox_create_v1, IN_BOTH },
	{ "GET",    "/sandboxes",                AUTH_TEAM,  sandboxes_list_v1, IN_BOTH },
	{ "POST",   "/v2/sandboxes",             AUTH_START, sandbox_create_v2, IN_BOTH },
	{ "GET",    "/v2/sandboxes",             AUTH_TEAM,  sandboxes_list_v2, IN_BOTH },
	{ "GET",    "/sandboxes/metrics",        AUTH_TEAM,  sandboxes_metrics, IN_FULL },
	{ "GET",    "/sandboxes/:id",            AUTH_TEAM,  sandbox_show, IN_FULL },
	{ "DELETE", "/sandboxes/:id",            AUTH_TEAM,  sandbox_delete, IN_BOTH },
	{ "POST",   "/sandboxes/:id/timeout",    AUTH_TEAM,  sandbox_timeout, IN_BOTH },
	{ "POST",   "/sandboxes/:id/refreshes",  AUTH_TEAM,  sandbox_refresh, IN_FULL },
	{ "PUT",    "/sandboxes/:id/network",    AUTH_TEAM,  sandbox_network, IN_FULL },
	{ "POST",   "/sandboxes/:id/pause",      AUTH_TEAM,  sandbox_pause_post, IN_FULL },
	{ "POST",   "/sandboxes/:id/resume",     AUTH_START, sandbox_resume_post, IN_FULL },
	{ "POST",   "/sandboxes/:id/connect",    AUTH_TEAM,  sandbox_connect_v1, IN_BOTH },
	{ "POST",   "/v2/sandboxes/:id/connect", AUTH_TEAM,  sandbox_connect_v2, IN_BOTH },
	{ "POST",   "/sandboxes/:id/snapshots",  AUTH_TEAM,  sandbox_snapshot_post, IN_FULL },
	{ "POST",   "/sandboxes/:id/fork",       AUTH_START, sandbox_fork_post, IN_FULL },
	{ "GET",    "/sandboxes/:id/metrics",    AUTH_TEAM,  sandbox_metrics, IN_FULL },
	{ "GET",    "/sandboxes/:id/logs",       AUTH_TEAM,  sandbox_logs_v1, IN_FULL },
	{ "GET",    "/v2/sandboxes/:id/logs",    AUTH_TEAM,  sandbox_logs_v2, IN_FULL },
};
const size_t sandboxes_routes_count = sizeof sandboxes_routes / sizeof sandboxes_routes[0];
