/* hutchctl: what became of deliveries to webhooks. */
#include "ctl.h"

#include <stdio.h>
#include <string.h>

#include "hutch/webhook.h"
#include "hutch/when.h"

enum { O_WEBHOOK = 1, O_FAILED, O_LAST };

struct listing {
	const char *webhook;         /* NULL = all */
	bool failed;
	long left;
	struct buf text;             /* printed after the transaction: standard output may be slow */
};

static const char *state_name(uint8_t state)
{
	static const char *const names[] = { "?", "done", "retry", "dead", "dropped" };

	return names[state < sizeof names / sizeof names[0] ? state : 0];
}

static int add_row(void *ctx, const struct delivery_rec *r, struct err *e)
{
	struct listing *l = ctx;
	char at[WHEN_LEN];

	if ((l->webhook != NULL && strcmp(l->webhook, r->webhook) != 0) || (l->failed && r->state == DELIVERY_DONE))
		return 0;
	when_format(r->us, at);
	buf_addf(&l->text, "%s  %-7s  %u  %3u  %5u  %s  %s  %s  %s  %s\n", at, state_name(r->state), r->attempt, r->status, r->duration_ms,
		 r->webhook, r->event[0] != '\0' ? r->event : "-", event_type_name(r->type), r->sandbox, r->error != NULL ? r->error : "");
	if (buf_failed(&l->text))
		return err_set(e, ERR_INTERNAL, "out of memory");
	return --l->left == 0;
}

static int print(struct ctl *ctl, struct listing *l)
{
	struct txn *t;
	struct err e;
	int status;

	if (ctl_open(ctl) < 0)
		return 1;
	if (txn_read(ctl->domain.store, &t, &e) < 0)
		return ctl_failed(ctl, "%s", e.text);
	buf_init(&l->text, 1U << 30);
	status = store_walk_deliveries(t, add_row, l, &e);
	txn_abort(t);
	fputs(buf_str(&l->text), stdout);
	buf_release(&l->text);
	return status < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}

int ctl_deliveries(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "webhook", required_argument, NULL, O_WEBHOOK }, { "failed", no_argument, NULL, O_FAILED },
		{ "last", required_argument, NULL, O_LAST }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct listing l = { .left = 100 };
	int c, status;

	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (c == O_WEBHOOK)
			l.webhook = optarg;
		else if (c == O_FAILED)
			l.failed = true;
		else if (ctl_number(ctl, "last", optarg, 1, 1000000, &l.left) < 0)
			return 2;
	}
	return optind != argc ? ctl_usage(ctl) : print(ctl, &l);
}
