/* host.h - what an init sets up in the sandbox's own files. root: "" but in tests, a path that all others are below. */
#ifndef HUTCH_AGENT_HOST_H
#define HUTCH_AGENT_HOST_H

#include <stdbool.h>
#include "hutch/err.h"

/* Have the system trust the certificates of this PEM text, instead of those of an earlier call. ERR_INVALID: it is none. */
int host_trust(const char *root, const char *pem, struct err *e);
bool host_is_address(const char *ip);
/* Have events.e2b.local mean this address. */
int host_events(const char *root, const char *ip, struct err *e);

#endif
