/*
 * relay.h - a small proxy for web servers that are not told a back end per request (lighttpd, Apache).
 *
 * It reads a request's head, resolves it as hutch-edge does, connects to the unix socket that was named, passes the head on and
 * then moves bytes both ways with splice(2). One request a connection: what follows the request's body is never passed on,
 * so nothing can get past the resolver. A few event loops carry all streams; an idle one costs two descriptors and half
 * a kilobyte here.
 */
#ifndef HUTCH_RELAY_H
#define HUTCH_RELAY_H

#include "hutch/domain.h"

struct relay_opts {
	int loops;              /* threads; 0 = one per processor, at most 4 */
	int max_links;          /* connections of the web server served at once; beyond: 503. 0 = what the descriptor limit allows */
	int head_timeout_s;     /* from accept to the end of the head; 0 = 10 */
	int linger_timeout_s;   /* how long a reply of ours waits for the rest of the request, and then for the web server to read it; 0 = 5 */
};

struct relay;

/* Serve listen_fd (a listening stream socket, made non-blocking; stays the caller's) in threads of its own. d outlives it. */
int relay_start(struct domain *d, int listen_fd, const struct relay_opts *opts, struct relay **out, struct err *e);
/* No new connections; streams may go on for grace_s seconds, then they are cut. Frees r. */
void relay_stop(struct relay *r, int grace_s);
/* Connections at this moment. */
int relay_links(const struct relay *r);

#endif
