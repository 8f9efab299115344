/* The route table of hutch-teams: teams, their keys, their metrics, and what the operator does across teams. */
#include "responder.h"

const struct route teams_routes[] = {
	{ "GET",    "/health",                         AUTH_OPEN,    health_get, IN_BOTH },
	{ "GET",    "/teams",                          AUTH_USER,    teams_list, IN_FULL },
	{ "GET",    "/teams/:id/metrics",              AUTH_TEAM,    team_metrics, IN_FULL },
	{ "GET",    "/teams/:id/metrics/max",          AUTH_TEAM,    team_metrics_max, IN_FULL },
	{ "GET",    "/api-keys",                       AUTH_MANAGER, api_keys_list, IN_FULL },
	{ "POST",   "/api-keys",                       AUTH_MANAGER, api_key_create, IN_FULL },
	{ "PATCH",  "/api-keys/:id",                   AUTH_MANAGER, api_key_rename, IN_FULL },
	{ "DELETE", "/api-keys/:id",                   AUTH_MANAGER, api_key_delete, IN_FULL },
	{ "POST",   "/access-tokens",                  AUTH_USER,    access_token_create, IN_FULL },
	{ "DELETE", "/access-tokens/:id",              AUTH_USER,    access_token_delete, IN_FULL },
	{ "GET",    "/nodes",                          AUTH_ADMIN,   nodes_list, IN_FULL },
	{ "GET",    "/nodes/:id",                      AUTH_ADMIN,   node_show, IN_FULL },
	{ "POST",   "/nodes/:id",                      AUTH_ADMIN,   node_change, IN_FULL },
	{ "GET",    "/admin/sandboxes/running-counts", AUTH_ADMIN,   admin_running_counts, IN_FULL },
	{ "POST",   "/admin/teams/:id/sandboxes/kill", AUTH_ADMIN,   admin_kill, IN_FULL },
	{ "POST",   "/admin/teams/:id/api-keys",       AUTH_ADMIN,   admin_key_create, IN_FULL },
	{ "DELETE", "/admin/teams/:id/api-keys/:key",  AUTH_ADMIN,   admin_key_delete, IN_FULL },
};
const size_t teams_routes_count = sizeof teams_routes / sizeof teams_routes[0];
