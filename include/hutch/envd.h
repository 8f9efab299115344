/* envd.h - what clients and the programs outside know of the agent in every sandbox. */
#ifndef HUTCH_ENVD_H
#define HUTCH_ENVD_H

#include <stdbool.h>
#include <stddef.h>
#include "hutch/buf.h"

/* The envd version whose features hutch-envd really has (guest.md 6; api.md 16). What later ones add are routes for E2B's own host (collapse, fsfreeze,
 * upgrade), which are not served here; no client asks for more than 0.6.4. */
#define ENVD_VERSION "0.6.4"

#define ENVD_PORT 49983
#define INTERPRETER_PORT 49999

/* clientID of every sandbox object: a constant that generated clients require. */
#define CLIENT_ID "6532622b"

/* The control plane's paths, whoever serves them; never for what comes through a proxy (guest.md 8.3). */
#define ENVD_RESERVED_MAX 16         /* bytes of the longest, with its NUL */
#define ENVD_RESERVED_TEXT "This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL"
#define ENVD_TOKEN_TEXT "unauthorized access, please provide a valid access token or method signing if supported"
/* The one that a decoded and cleaned path is, or NULL. */
const char *envd_reserved(const char *path, size_t n);

/* The header lines of the agent's answer to a CORS preflight (guest.md 1.6): for itself, and for the edge where that answers in a sandbox's place.
 * asked: the n bytes of Access-Control-Request-Headers, NULL: the preflight has none. */
void envd_preflight(struct buf *b, const char *asked, size_t n);

/* What a guest in profile `twin`, and of a light pool in every profile, serves (docs/light-pool.md): a path exactly as it is written in
 * the table. All else gets the declared gap. */
bool twin_admits(int port, const char *path, size_t n);
#define TWIN_GAP_TEXT "the method is not implemented by this twin"

#endif
