/*
 * conf.h - the one configuration file.
 *
 * Every option is a row of the table in util/conf.c: name, type, default, bounds, help.
 * File: `name = value` a line, `#` starts a comment line. An unknown name, a bad value, a
 * name given twice are errors with the line's number. docs/configure.md is held against the table.
 */
#ifndef HUTCH_CONF_H
#define HUTCH_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "hutch/err.h"

struct config {
	char *state_dir;          /* records and disks */
	char *run_dir;            /* sockets */
	char *db_dir;             /* LMDB environment */
	char *secret_file;        /* instance secret, 32 bytes of hex */
	char *node_socket;        /* hutch-node's API */
	char *socket_group;       /* group that may open sandbox and node sockets: the web server's */
	char *domain;             /* sandbox hosts are PORT-ID.domain; may carry :port */
	char *agent_path;         /* hutch-envd */
	char *interpreter_path;   /* hutch-interpreter */
	char *base_root;          /* root of the host userland that `base` shows */
	int64_t db_size_mb;
	int64_t body_max_kb;      /* largest JSON body of the API */
	int64_t max_hours;        /* longest lease of a new team */
	int64_t team_sandboxes;   /* concurrent sandboxes of a new team */
	int64_t team_snapshots;   /* kept ones of a team */
	int64_t team_snapshot_mb; /* their disk space */
	int64_t event_days;       /* how long events are kept */
	int64_t warm;             /* warm sandboxes per template */
	int64_t max_sandboxes;    /* machines of the local pool, warm ones too */
	int64_t pids_max;         /* processes and threads in one sandbox */
	int64_t start_s;          /* a claim waits for a start command */
	int64_t repair_s;         /* age at which a half-made row is repaired */
	int64_t webhook_max;      /* webhooks of a team */
	int64_t webhook_retries;  /* attempts after the first that failed */
	int64_t webhook_retry_s;  /* between two attempts */
	int64_t webhook_timeout_s;/* of one attempt in all */
	bool webhook_private;     /* webhooks may point into private networks */
	char *upstream_url;       /* the account that is mirrored; "" = none */
	char *upstream_key_file, *upstream_team;
	int64_t upstream_interval_s, upstream_timeout_s, upstream_per_minute;
	bool doors;               /* set-up doors are enabled */
	char *profile;            /* "full" or "twin" */
	bool verification;        /* fake pools may be enrolled */
	char *default_team;       /* of keys without a namespace, and of anonymous callers */
	char *key_file;           /* "" = none */
	char *admin_token_file;   /* "" = no admin routes */
	bool allow_anonymous;
	int64_t rate_create, rate_change, rate_read;  /* requests a minute of one team; 0 = any number */
	int64_t rate_burst_s;     /* what so many seconds allow may come at once */
	char *egress;             /* "on" or "off" */
	char *egress_interface, *egress_network, *egress_dns;
	bool egress_private;
	int64_t metrics_hours;    /* how long samples are kept; 0 = none are taken */
};

enum option_type { OPT_TEXT, OPT_PATH, OPT_INT, OPT_BOOL, OPT_CHOICE };

struct config_option {
	const char *name;
	enum option_type type;
	const char *fallback;     /* default as text; paths may start with another option: "$state_dir/db" */
	int64_t min, max;         /* of OPT_INT */
	const char *help;
	size_t offset;            /* into struct config */
	const char *choices;      /* of OPT_CHOICE: "this|that" */
};

extern const struct config_option config_options[];
extern const size_t config_options_count;

/* Read path; NULL means $HUTCH_CONFIG, else SYSCONFDIR/hutch.conf (which may be missing: all defaults).
 * 0, or -1 with "file:line: ...". Release with config_release. */
int config_read(struct config *c, const char *path, struct err *e);
void config_release(struct config *c);
bool config_twin(const struct config *c);   /* profile = twin */
/* `name = value` of every option, as `hutchctl check` prints it. */
void config_print(const struct config *c, FILE *out);

#endif
