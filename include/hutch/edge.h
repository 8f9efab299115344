/*
 * edge.h - from a data-plane request to the place that serves it, and the edge's own answers
 * (api.md 6.10, guest.md 8). Used by hutch-edge (for nginx) and hutch-relay (for lighttpd and Apache), so that both say the same.
 *
 * How hutch-edge speaks with nginx (httpd-conf/nginx.conf). FastCGI parameter HUTCH_OP=resolve, REQUEST_URI raw, HTTP_* as usual:
 *   go      200, `X-Upstream: unix:/path`, `X-Hutch-Host: NAME` where the guest is to see another Host, and `X-Hutch-Prefix: /_sandbox/ID/PORT`
 *           where that is to be cut off the front of the target; and the refusal, as below, if nobody is there by then
 *   refuse  403, `X-Hutch-Status: 502`, `X-Hutch-Type: <content type>`, `X-Hutch-Body: <whole body, one line>`, the lines of edge_fields, no body.
 *           nginx answers the client from these headers; a second request for the body would make it read a whole upload first.
 * HUTCH_OP=error (servers that can ask for the body): the refusal itself, with its own status, type and body.
 */
#ifndef HUTCH_EDGE_H
#define HUTCH_EDGE_H

#include <stdbool.h>
#include "hutch/buf.h"
#include "hutch/domain.h"
#include "hutch/envd.h"

#define EDGE_PATH "/_sandbox/"  /* the path form: EDGE_PATH ID/PORT/..., of which the guest sees /... */
#define EDGE_ID_LEN 64           /* a sandbox id as a request names it (one DNS label), with its NUL */

#define EDGE_HOST_LEN 264        /* a host name and a port */

enum edge_verdict {
	EDGE_GO,                     /* upstream holds the unix socket's path */
	EDGE_BAD_HOST,               /* 400: neither a PORT-ID host, nor a path of that form, nor both headers, or one of them malformed */
	EDGE_NOT_FOUND,              /* 502: no such sandbox, or it is paused and traffic does not resume it */
	EDGE_PORT_CLOSED,            /* 502 */
	EDGE_RESERVED,               /* 404: control route of the guest */
	EDGE_FULL,                   /* 503: more connections at once than the relay serves */
	EDGE_UNAVAILABLE,            /* 502: records or node do not answer, or nothing in the sandbox's pool answers guests */
	EDGE_GAP,                    /* 404: not among what a twin, or a light pool, serves */
	EDGE_DENIED,                 /* 403: it is paused, and the request, or its blocked team, may not resume it */
	EDGE_TRAFFIC_MISSING,        /* 403: traffic for it takes a token, and the request has none ... */
	EDGE_TRAFFIC_WRONG,          /* ... or another */
	EDGE_BUSY,                   /* 409: pausing or resuming takes too long */
	EDGE_LIMIT,                  /* 429: its team runs as many as it may */
	EDGE_PREFLIGHT,              /* 204: a CORS preflight, in place of any of these refusals */
};

/* Every text may be NULL: the field is absent. */
struct edge_request {
	const char *method;
	const char *host;            /* Host field, may carry :port */
	const char *sandbox_header;  /* E2b-Sandbox-Id */
	const char *port_header;     /* E2b-Sandbox-Port */
	const char *raw_target;      /* request target as sent */
	const char *access_token;    /* X-Access-Token */
	const char *traffic_token;   /* e2b-traffic-access-token */
	/* CORS: Origin, Access-Control-Request-Method and -Headers */
	const char *origin, *asked_method, *asked_headers;
	/* for the body's form */
	const char *content_type, *user_agent, *accept, *sec_fetch_mode, *requested_with;
};

struct edge_answer {
	enum edge_verdict verdict;
	char upstream[108];          /* path of a unix socket */
	char host[EDGE_HOST_LEN];    /* the Host that the guest is to see, the client's then being its X-Forwarded-Host; "" = the client's */
	char sandbox_id[EDGE_ID_LEN];/* as far as the request could be read */
	int port;
	int status;                  /* 0 with EDGE_GO */
	char prefix[EDGE_ID_LEN + 24];/* what the path form has in front of the guest's target; "" = another form */
	const char *target;          /* the guest's target, in the request's raw_target */
	bool preflight;              /* the request is one: edge_refuse makes any refusal EDGE_PREFLIGHT */
	const char *why;             /* static: what is wrong, with EDGE_BAD_HOST */
	char path[ENVD_RESERVED_MAX];/* the control route, with EDGE_RESERVED */
};

/* Addressing: a host PORT-ID[-anything].DOMAIN, DOMAIN being conf->domain or localhost, wins; on any other host a path
 * /_sandbox/ID/PORT/... does, and then both headers. A sandbox that was paused with its memory and may be resumed by traffic is
 * (guest.md 8.4). d may be NULL (records not open): then what can be refused without them is, the rest is EDGE_UNAVAILABLE.
 * A CORS preflight goes on to what runs and is open to it. Any other is answered in the sandbox's place, all alike, and resumes nothing: browsers
 * give it no token, and without a 2xx the page can neither send its request, with its token, nor read what is said to that.
 * Thread-safe. May ask the node for a port's socket or to wake a machine, and then takes as long as the node does. */
void edge_resolve(struct domain *d, const struct edge_request *r, struct edge_answer *a);
/* The same without waiting for anybody, for event loops: false when the node has to be asked; then *a is not the
 * answer and edge_resolve() has to be called where waiting does no harm. */
bool edge_look_up(struct domain *d, const struct edge_request *r, struct edge_answer *a);
/* Only what needs no record: preflight, and from host, path or headers sandbox_id, port, prefix and target of *a. domain may carry :port.
 * 0, or -1 with a->why. */
int edge_place(const char *domain, const struct edge_request *r, struct edge_answer *a);
/* Make *a, by one of those above, the answer of that verdict: for who connects to upstream and finds nobody there (EDGE_NOT_FOUND), or
 * has no room (EDGE_UNAVAILABLE). */
void edge_refuse(struct edge_answer *a, enum edge_verdict verdict);
/* Content type and body of a refusal: JSON (for a Connect call in Connect's form), or HTML for a browser's navigation (guest.md 8.3). One
 * line, no line end. EDGE_PREFLIGHT has neither: NULL. */
const char *edge_body(const struct edge_request *r, const struct edge_answer *a, struct buf *b);
/* The refusal's other header lines, finished: what lets a browser's script read it, and when to try again after a 429. */
void edge_fields(const struct edge_request *r, const struct edge_answer *a, struct buf *b);

#endif
