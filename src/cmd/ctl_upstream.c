/* hutchctl upstream: where the mirror of another account is, and the secret of its webhooks. */
#include "ctl.h"

#include <stdio.h>
#include <string.h>

#include "hutch/upstream.h"
#include "hutch/when.h"

static void print_time(const char *name, int64_t us)
{
	char text[WHEN_LEN] = "-";

	if (us > 0)
		when_format(us, text);
	printf("%-15s %s\n", name, text);
}

static void print_list(const char *name, const struct upstream_state *s, enum vendor_list what)
{
	printf("%-15s %lld on the page%s\n", name, (long long)s->rows[what], s->full[what] != 0 ? ", there may be more" : "");
}

static int show(struct ctl *ctl, struct err *e)
{
	const char *url = ctl->conf.upstream_url;
	struct upstream_state s;
	struct budget b;

	if (upstream_state(&ctl->domain, &s, e) < 0 || budget_get(&ctl->domain, &b, e) < 0)
		return -1;
	printf("%-15s %s\n", "upstream_url", url[0] != '\0' ? url : "-");
	print_time("asked", s.due_us);
	print_time("tried", s.tried_us);
	print_time("refreshed", s.done_us);
	printf("%-15s %lld\n", "failures", (long long)s.failures);
	print_list("sandboxes", &s, VENDOR_SANDBOXES);
	print_list("templates", &s, VENDOR_TEMPLATES);
	printf("%-15s %lld of %lld (allowance %d) a minute\n", "requests", (long long)b.used, (long long)b.ceiling, BUDGET_ALLOWANCE);
	print_time("held until", b.held_until_us);
	printf("%-15s %lld, refused %lld\n", "sent in all", (long long)b.taken, (long long)b.refused);
	return 0;
}

/* The secret comes in on standard input, since arguments are seen by everybody. */
static int set_secret(struct ctl *ctl, struct err *e)
{
	char line[INGEST_SECRET_MAX + 2];
	int status;

	if (fgets(line, sizeof line, stdin) == NULL)
		return err_set(e, ERR_INVALID, "standard input holds no secret");
	line[strcspn(line, "\n")] = '\0';
	status = ingest_secret_set(&ctl->domain, line, e);
	explicit_bzero(line, sizeof line);
	return status;
}

int ctl_upstream(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	const char *word;
	struct err e;
	int status;

	if (ctl_option(ctl, argc, argv, longs, &status) == -2)
		return status;
	word = optind < argc ? argv[optind++] : "";
	if (optind != argc || (word[0] != '\0' && strcmp(word, "secret") != 0 && strcmp(word, "no-secret") != 0))
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	if (word[0] == '\0')
		status = show(ctl, &e);
	else
		status = strcmp(word, "secret") == 0 ? set_secret(ctl, &e) : ingest_secret_set(&ctl->domain, NULL, &e);
	return status < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}
