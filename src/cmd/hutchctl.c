/* hutchctl - the operator's tool. */
#include "ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"
#include "hutch/opt.h"

static const struct ctl_command commands[] = {
	{ "check", "", "check configuration, secret, records and node", NULL, ctl_check },
	{ "deliveries", "", "list what was sent to webhooks, newest first: time, state, attempt, answer, ms, webhook, event, type, sandbox",
	  "  --webhook ID     only to that webhook\n"
	  "  --failed         only what failed\n"
	  "  --last N         at most so many (default 100)\n", ctl_deliveries },
	{ "doctor", "", "show what this kernel offers to sandboxes", NULL, ctl_doctor },
	{ "env", "", "print the export lines of a client",
	  "  --team NAME      team whose key is printed; made if it is not there (default: " DEFAULT_TEAM ")\n"
	  "  --url URL        where the web server answers (default: http://DOMAIN)\n"
	  "  --tls            https with wildcard names: clients need only key and domain\n", ctl_env },
	{ "init", "", "make directories, secret and records of a new instance (what is there stays)",
	  "  --user NAME      whose programs use them: the web server's user (default: who runs this)\n", ctl_init },
	{ "key", "new TEAM | token TEAM | list TEAM | revoke KEY | import FILE", "make, show or end keys of a team",
	  "  new TEAM         a further API key\n"
	  "  token TEAM       an access token, with which the team manages its keys\n"
	  "  list TEAM        id, kind, beginning and end, when made, last use, name\n"
	  "  revoke KEY       end an API key or an access token\n"
	  "  import FILE      add the keys of a file: `key [namespace]` lines\n"
	  "`keys` is the same command.\n", ctl_key },
	{ "kill", "ID...", "end sandboxes, whatever team they are of", NULL, ctl_kill },
	{ "list", "", "list sandboxes: id, state, start, lease end, template, machine",
	  "  --team NAME      only those of that team\n", ctl_list },
	{ "pool", "list", "list machine pools: name, kind, what each can do; * marks the default", NULL, ctl_pool },
	{ "responders", "[NAME N]", "list what hutch-spawn keeps (name, wanted, running, ending), or let there be N processes of NAME", NULL, ctl_responders },
	{ "team", "NAME | block NAME | ban NAME | unblock NAME", "make a team (if it is not there) and print its key; or say what it may do",
	  "  --sandboxes N    how many it may run at once\n"
	  "  --hours N        how long its leases may be\n"
	  "  block NAME       it may look and remove, and start and change nothing\n"
	  "  --reason TEXT    why, as its requests are told\n"
	  "  ban NAME         it may do nothing\n"
	  "  unblock NAME     it may do everything again\n", ctl_team },
	{ "template", "NAME --image IMAGE", "enrol an image, or change what is enrolled under the name",
	  "  --image IMAGE    `host` (the host's own programs) or the absolute path of a root directory\n"
	  "  --cpu N          processors of a sandbox (default 2)\n"
	  "  --memory MB      its memory (default 1024)\n"
	  "  --disk MB        its disk (default 1024)\n"
	  "  --command JSON   start command, as a JSON array of strings\n"
	  "  --ready-port N   a sandbox is ready once this TCP port answers in it\n"
	  "  --team NAME      owner (default: " DEFAULT_TEAM ")\n"
	  "  --public         other teams may use it too\n", ctl_template },
	{ "tls", "", "make an authority and a wildcard certificate of your own, for tests and labs; prints the files",
	  "  --dir DIR        where they go: cert.pem, key.pem, ca.pem, ca.key (default: state_dir/tls)\n"
	  "  --domain NAME    certificate for NAME and *.NAME (default: domain of the configuration)\n"
	  "  --days N         how long it holds (default 365)\n"
	  "  --renew          replace key.pem and cert.pem, by the authority that is there\n", ctl_tls },
	{ "try", "[--] [COMMAND...]", "create a sandbox through the web server and run commands in it",
	  "  --template NAME  what to start (default: base)\n"
	  "  --timeout S      lease in seconds (default 300)\n"
	  "  --keep           leave the sandbox running; its id is the last line of standard output\n"
	  "  --quiet          print only what the commands print\n"
	  "E2B_API_URL and E2B_API_KEY say where and who; E2B_SANDBOX_URL is used when set.\n", ctl_try },
	{ "upstream", "[secret | no-secret]", "show where the mirror of another account is: refreshes, budget of requests",
	  "  secret           set the secret of its webhooks, read from standard input\n"
	  "  no-secret        take none of its webhooks any more\n", ctl_upstream },
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static void overview(FILE *to)
{
	fputs("usage: hutchctl [-c FILE] COMMAND [ARGUMENTS]\n\n", to);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fputs("\n  -c FILE   configuration file (default: $HUTCH_CONFIG, else " HUTCH_SYSCONFDIR "/hutch.conf)\n"
	      "\n`hutchctl COMMAND --help` tells more. Exit status: 0 done, 1 failed, 2 wrong usage.\n", to);
}

static void help(const struct ctl_command *cmd, FILE *to)
{
	fprintf(to, "usage: hutchctl %s%s%s%s\n\n%s%s%s", cmd->name, cmd->options != NULL && strncmp(cmd->options, "  --", 4) == 0 ? " [OPTIONS]" : "",
		cmd->arguments[0] != '\0' ? " " : "", cmd->arguments, cmd->summary, cmd->options != NULL ? "\n\n" : "\n",
		cmd->options != NULL ? cmd->options : "");
}

int ctl_usage(const struct ctl *ctl)
{
	help(ctl->command, stderr);
	return 2;
}

int ctl_failed(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "hutchctl %s: ", ctl->command->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

int ctl_number(const struct ctl *ctl, const char *option, const char *text, long min, long max, long *out)
{
	if (opt_number(text, min, max, out))
		return 0;
	ctl_failed(ctl, "--%s must be a whole number from %ld to %ld", option, min, max);
	return -1;
}

int ctl_option(struct ctl *ctl, int argc, char **argv, const struct option *longs, int *status)
{
	int c = getopt_long(argc, argv, "+h", longs, NULL);

	if (c == 'h') {
		help(ctl->command, stdout);
		*status = 0;
		return -2;
	}
	if (c == '?') {
		*status = ctl_usage(ctl);
		return -2;
	}
	return c;
}

int ctl_conf(struct ctl *ctl)
{
	struct err e;

	if (config_read(&ctl->conf, ctl->config_path, &e) < 0) {
		ctl_failed(ctl, "%s", e.text);
		return -1;
	}
	ctl->have_conf = true;
	return 0;
}

int ctl_open(struct ctl *ctl)
{
	struct err e;

	if (ctl_conf(ctl) < 0)
		return -1;
	if (domain_open(&ctl->domain, &ctl->conf, &e) < 0) {
		ctl_failed(ctl, "%s", e.text);
		return -1;
	}
	ctl->have_domain = true;
	return 0;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	int status;

	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(strcmp(argv[0], "keys") == 0 ? "key" : argv[0], commands[i].name) == 0)
			ctl->command = &commands[i];
	if (ctl->command == NULL) {
		fprintf(stderr, "hutchctl: unknown command %s\n", argv[0]);
		overview(stderr);
		return 2;
	}
	optind = 0;                          /* getopt starts anew, after the command's name */
	status = ctl->command->run(ctl, argc, argv);
	if (ctl->have_domain)
		domain_close(&ctl->domain);
	if (ctl->have_conf)
		config_release(&ctl->conf);
	if (fflush(stdout) != 0 && status == 0)
		status = ctl_failed(ctl, "standard output: %s", strerror(errno));
	return status;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct ctl ctl = { 0 };
	int c;

	log_init("hutchctl");
	while ((c = getopt_long(argc, argv, "+c:h", longs, NULL)) != -1) {
		switch (c) {
		case 'c':
			ctl.config_path = optarg;
			break;
		case 'h':
			overview(stdout);
			return 0;
		default:
			overview(stderr);
			return 2;
		}
	}
	if (optind == argc) {
		overview(stderr);
		return 2;
	}
	return run(&ctl, argc - optind, argv + optind);
}
