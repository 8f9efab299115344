/*
 * call.h - one API request as a handler sees it, whatever front end it came through (FastCGI or plain CGI),
 * and the route table.
 *
 * A struct call belongs to one thread and is used again for the next request: its buffers keep their memory.
 */
#ifndef HUTCH_CALL_H
#define HUTCH_CALL_H

#include "hutch/buf.h"
#include "hutch/domain.h"
#include "hutch/json.h"
#include "hutch/uri.h"

#define CALL_PARAM_LEN 256
#define CALL_OUT_MAX (256U << 20)    /* an unpaged list of a very large team */

struct call {
	struct domain *d;            /* NULL in a raw program when the records cannot be opened */
	const char *method;
	const char *path;            /* raw: percent-encoded, from REQUEST_URI, without the query */
	const char *query;           /* raw, "" when none */
	/* a request header by its CGI name ("HTTP_X_API_KEY"), or NULL */
	const char *(*header)(const struct call *c, const char *cgi_name);
	void *front;                 /* the front end's own */
	struct buf body;             /* the whole body, bounded by body_max_kb */
	struct team_rec team;        /* set when the route asks for a team or a user */
	char param[URI_PARAMS_MAX][CALL_PARAM_LEN]; /* decoded path parameters in order */
	/* the reply */
	int status;
	const char *type;            /* media type of out; NULL is application/json */
	struct buf out;              /* body; empty: Content-Length: 0 (no length field with 204) */
	struct buf headers;          /* further lines "Name: value\r\n" */
};

/* Ready for a first request / for the next one / no longer needed. */
void call_init(struct call *c, size_t body_max);
void call_reset(struct call *c);
void call_release(struct call *c);

/* Which credentials do (api.md 2). All but AUTH_OPEN and AUTH_ADMIN set c->team, and count against its rates: AUTH_START against
 * that of starts, others by method. */
enum route_auth {
	AUTH_OPEN,
	AUTH_TEAM,                   /* API key | admin token and team */
	AUTH_START,                  /* as AUTH_TEAM: a route that starts sandboxes */
	AUTH_EITHER,                 /* as AUTH_TEAM, or access token */
	AUTH_USER,                   /* access token */
	AUTH_MANAGER,                /* access token | admin token and team; an API key cannot manage keys */
	AUTH_ADMIN,                  /* admin token */
};

/* In which profiles (option profile) a row is served; in the twin the other rows answer the declared gap. */
enum route_profile { IN_FULL, IN_BOTH };

/* Returns 0 (c->status and c->out are set) or -1 with *e (the front writes the error body). */
typedef int call_handler(struct call *c, struct err *e);

struct route {
	const char *method;
	const char *path;            /* "/sandboxes/:id/timeout" */
	enum route_auth auth;
	call_handler *handler;       /* NULL: not served; such a row keeps a later one from taking the path */
	enum route_profile profile;
};

/* Match, authenticate, call, and turn an error into its status and body. First match wins, literals first.
 * No row has the path: 404. Only other methods have it: 405 with Allow. HEAD is served by the GET row. In profile twin whatever is
 * not served there is the gap, 404.
 * Never fails: c holds the reply. */
void route_call(const struct route *table, size_t n, struct call *c);
/* The row that serves method and raw path, with its decoded parameters in c->param; NULL with *e otherwise
 * (405: `allow` gets the methods that the path has). */
const struct route *route_find(const struct route *table, size_t n, struct call *c, struct buf *allow, struct err *e);
/* Index of a row that an earlier one hides, so that it can never serve, or -1: for tests. */
int route_hidden(const struct route *table, size_t n);

/* Value of a query parameter, form-decoded into out; 1 there, 0 absent, -1 malformed or too long (ERR_INVALID naming it). */
int call_query(const struct call *c, const char *name, char *out, size_t max, struct err *e);
/* The next value of a parameter that may be repeated: *at is c->query at first. 1, 0 when there is no further one, -1. */
int call_query_next(const char **at, const char *name, char *out, size_t max, struct err *e);
int call_query_int(const struct call *c, const char *name, int64_t min, int64_t max, int64_t *out, struct err *e);

void call_header(struct call *c, const char *name, const char *value);
/* JSON {code, message[, error_code]} of e, with its status, as the reply. The text of an internal error goes to the
 * log, not to the client. */
void call_fail(struct call *c, const struct err *e);
/* The same with a status that no kind of error has. */
void call_refuse(struct call *c, int status, const char *message);
/* The declared gap of profile twin as an error: 404. Returns -1. */
int call_gap(struct err *e);
int err_status(enum err_kind kind);      /* the one table */

/* main() of a responder: options (-c FILE, -t THREADS, -n check only), then FastCGI on descriptor 0, or one request as plain CGI
 * when descriptor 0 is no listening socket. Returns the exit status. */
int responder_main(int argc, char **argv, const char *name, const struct route *table, size_t n);
/* As responder_main for a program that answers every request itself (hutch-edge): fn sets status, type, out and headers. It is
 * called with c->d == NULL when the records cannot be opened. */
int responder_main_raw(int argc, char **argv, const char *name, void (*fn)(struct call *c));

#endif
