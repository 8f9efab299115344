/*
 * ctl.h - subcommands of hutchctl. Each returns the exit status: 0 done, 1 failed (the reason is on standard error),
 * 2 wrong usage. Results go to standard output, everything else to standard error.
 */
#ifndef HUTCH_CMD_CTL_H
#define HUTCH_CMD_CTL_H

#include <getopt.h>
#include "hutch/domain.h"

#define DEFAULT_TEAM "World team"

struct ctl {
	const char *config_path;     /* -c, or NULL */
	struct config conf;
	struct domain domain;
	bool have_conf, have_domain;
	const struct ctl_command *command;
};

struct ctl_command {
	const char *name, *arguments, *summary;
	const char *options;         /* help text of its options, or NULL */
	int (*run)(struct ctl *ctl, int argc, char **argv);
};

int ctl_check(struct ctl *ctl, int argc, char **argv);
int ctl_deliveries(struct ctl *ctl, int argc, char **argv);
int ctl_doctor(struct ctl *ctl, int argc, char **argv);
int ctl_env(struct ctl *ctl, int argc, char **argv);
int ctl_init(struct ctl *ctl, int argc, char **argv);
int ctl_key(struct ctl *ctl, int argc, char **argv);
int ctl_kill(struct ctl *ctl, int argc, char **argv);
int ctl_list(struct ctl *ctl, int argc, char **argv);
int ctl_pool(struct ctl *ctl, int argc, char **argv);
int ctl_responders(struct ctl *ctl, int argc, char **argv);
int ctl_team(struct ctl *ctl, int argc, char **argv);
int ctl_template(struct ctl *ctl, int argc, char **argv);
int ctl_tls(struct ctl *ctl, int argc, char **argv);
int ctl_upstream(struct ctl *ctl, int argc, char **argv);
int ctl_try(struct ctl *ctl, int argc, char **argv);

/* Read the configuration; also open the records. 0, or -1 when it was said on standard error. */
int ctl_conf(struct ctl *ctl);
int ctl_open(struct ctl *ctl);

/* Options of a subcommand: -1 at the end, -2 after --help or a wrong option, with *status set. Long options only, `h` is help. */
int ctl_option(struct ctl *ctl, int argc, char **argv, const struct option *longs, int *status);
/* How the subcommand is used, on standard error; 2. */
int ctl_usage(const struct ctl *ctl);
/* "hutchctl COMMAND: text" on standard error; 1. */
int ctl_failed(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A whole number from min to max; on -1 it was said. */
int ctl_number(const struct ctl *ctl, const char *option, const char *text, long min, long max, long *out);

#endif
