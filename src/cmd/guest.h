/* guest.h - a small client of API and guest agent, as an SDK speaks to them (guest.md 1): used by `hutchctl try`. */
#ifndef HUTCH_CMD_GUEST_H
#define HUTCH_CMD_GUEST_H

#include "hutch/buf.h"
#include "hutch/err.h"

struct guest {
	const char *api_url, *api_key;
	const char *sandbox_url;     /* or NULL: the host name PORT-ID.domain */
	char id[64], token[128], domain[256];
};

/* Create a sandbox; id, token and domain are set. */
int guest_create(struct guest *g, const char *template_ref, long timeout_s, struct err *e);
int guest_kill(const struct guest *g, struct err *e);
/* Run a shell command; its output goes to standard output and error as it comes. Its exit code, or -1 with *e. */
int guest_run(const struct guest *g, const char *command, struct err *e);

#endif
