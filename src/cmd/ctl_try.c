/* hutchctl try: what a client would do, through the web server. */
#include "ctl.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

enum { O_TEMPLATE = 1, O_TIMEOUT, O_KEEP, O_QUIET };

struct trial {
	const char *template_ref;
	long timeout;
	bool keep, quiet;
};

static int run_commands(struct ctl *ctl, const struct trial *t, const struct guest *g, char **commands, int n)
{
	static char *fallback[] = { (char *)(uintptr_t)"echo hello from $(uname -n), user $(id -un)" };
	struct err e;
	int worst = 0;

	if (n == 0) {
		commands = fallback;
		n = 1;
	}
	for (int i = 0; i < n; i++) {
		int code;

		if (!t->quiet)
			fprintf(stderr, "$ %s\n", commands[i]);
		code = guest_run(g, commands[i], &e);
		if (code < 0)
			return ctl_failed(ctl, "%s", e.text);
		if (code != 0)
			worst = ctl_failed(ctl, "`%s` ended with exit code %d", commands[i], code);
	}
	return worst;
}

static int try_sandbox(struct ctl *ctl, const struct trial *t, struct guest *g, char **commands, int n)
{
	struct err e;
	int status;

	if (guest_create(g, t->template_ref, t->timeout, &e) < 0)
		return ctl_failed(ctl, "%s", e.text);
	if (!t->quiet)
		fprintf(stderr, "sandbox %s\n", g->id);
	status = run_commands(ctl, t, g, commands, n);
	if (t->keep)
		puts(g->id);
	else if (guest_kill(g, &e) < 0)
		status = ctl_failed(ctl, "%s", e.text);
	return status;
}

static int try_option(const struct ctl *ctl, int c, struct trial *t)
{
	switch (c) {
	case O_TEMPLATE: t->template_ref = optarg; return 0;
	case O_TIMEOUT: return ctl_number(ctl, "timeout", optarg, 1, 86400 * 365, &t->timeout);
	case O_KEEP: t->keep = true; return 0;
	default: t->quiet = true; return 0;
	}
}

int ctl_try(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "template", required_argument, NULL, O_TEMPLATE }, { "timeout", required_argument, NULL, O_TIMEOUT },
		{ "keep", no_argument, NULL, O_KEEP }, { "quiet", no_argument, NULL, O_QUIET },
		{ "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct trial t = { .template_ref = "base", .timeout = 300 };
	struct guest g = { .api_url = getenv("E2B_API_URL"), .api_key = getenv("E2B_API_KEY"), .sandbox_url = getenv("E2B_SANDBOX_URL") };
	int c, status;

	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (try_option(ctl, c, &t) < 0)
			return 2;
	}
	if (g.api_url == NULL || g.api_key == NULL) {
		ctl_failed(ctl, "E2B_API_URL and E2B_API_KEY must be set (`hutchctl env` prints them)");
		return 2;
	}
	if (g.sandbox_url != NULL && g.sandbox_url[0] == '\0')
		g.sandbox_url = NULL;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	status = try_sandbox(ctl, &t, &g, argv + optind, argc - optind);
	curl_global_cleanup();
	return status;
}
