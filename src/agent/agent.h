/*
 * agent.h - what the parts of hutch-envd share: identity, users, paths, Connect framing.
 *
 * The agent is PID 1 of its sandbox and runs as the sandbox's root. Sources of protocol facts: the envd protocol as E2B's
 * SDKs speak it (Connect over HTTP/1.1 with JSON, https://connectrpc.com/docs/protocol).
 */
#ifndef HUTCH_AGENT_H
#define HUTCH_AGENT_H

#include <limits.h>
#include <stdint.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "hutch/buf.h"
#include "hutch/err.h"
#include "hutch/h1.h"
#include "hutch/json.h"
#include "journal.h"

#define RPC_BODY_MAX (16 << 20)      /* bytes of one RPC request */
#define ENV_NAMES_MAX 4096           /* variables in one map */
#define ENV_BYTES_MAX (1 << 20)      /* names and values of one map together */

/* ---- identity (init.c) ---- */
struct agent {
	pthread_mutex_t lock;        /* over all down to the next comment */
	char *token;                 /* NULL: open */
	char *token_hash;            /* lower-case hex SHA-512 published by the node, or NULL */
	json_object *env;            /* string map from init; never NULL */
	char *default_user;
	char *default_workdir;       /* "" = home */
	char *sandbox_id, *template_id;      /* "" until known */
	char *events_ip;             /* of events.e2b.local, "" until an init tells it */
	char *folder, *program;      /* light profile (light.c); NULL in others */
	int64_t init_us;             /* newest applied init timestamp */
	int64_t cpu_count, memory_mb;        /* the sandbox's limits as the node told them; 0: not told */
	int64_t cpu_seen_us, cpu_used_us;    /* the last sample of /metrics */
	/* set before the first thread starts, constant after */
	bool guarded;                /* identity comes over the control socket: /init and its like are reserved (404) */
	char *path;                  /* PATH of every command */
	struct rlimit files;         /* descriptors that a command may have; 0: as the agent */
	struct procs *procs;         /* process.c */
	struct journal journal;      /* has a lock of its own */
	struct forward *forward;     /* forward.c; NULL without a control socket */
	struct watches *watches;     /* watch.c */
	struct starter *starter;     /* start.c; NULL until the node asks for a start command */
};
/* A detached thread with a small stack and all signals blocked. */
int agent_thread(void *(*run)(void *), void *arg, struct err *e);
/* default_user may be NULL ("root"). */
int agent_init(struct agent *a, const char *default_user, struct err *e);
void agent_release(struct agent *a);     /* of what agent_init and inits made; no thread uses it any more */
/* The node's init over the control socket: replaces identity, token and environment as a whole. */
int init_trusted(struct agent *a, json_object *in, struct err *e);
/* ---- light profile (light.c): what it does not admit gets the declared gap ---- */
/* folder NULL: any other profile. The folder is made, for the user `owner`, if it is not there. */
int light_init(struct agent *a, const char *folder, const char *program, const char *owner, struct err *e);
/* True: answered, the route is not admitted. */
bool light_refuses(struct agent *a, struct h1_req *r);
void light_gap(struct h1_req *r);
/* ERR_DENIED when a resolved path leaves the folder. */
int light_path(struct agent *a, const char *path, struct err *e);
/* Is this the light profile? */
bool light(struct agent *a);
/* The folder and the path as they really are, each PATH_MAX bytes. False: it leaves the folder, or this is another profile. */
bool light_real(struct agent *a, const char *path, char *folder, char *real);
void init_post(struct agent *a, struct h1_req *r);
void envs_get(struct agent *a, struct h1_req *r);
/* All variables of the sandbox (internal ones win over init's) as a new object; the caller puts it. */
json_object *env_all(struct agent *a);
/* Names without '=' and not empty, no NUL, ENV_* bounds. ERR_INVALID naming `what`. */
int env_check(json_object *map, const char *what, struct err *e);

/* ---- users (users.c): /etc/passwd and /etc/group read by us, since a static program has no NSS ---- */
struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[64];
	size_t ngroups;
	char name[256];
	char home[1024];
	char shell[256];
};
/* ERR_UNAUTHENTICATED "invalid username: 'x'". */
int user_lookup(const char *name, struct user *out, struct err *e);
/* guest.md 5.1: "" -> default workdir else home; ~ and ~/x; absolute kept; other -> home/x; cleaned. ERR_INVALID for ~name. */
int path_resolve(struct agent *a, const struct user *u, const char *in, char out[PATH_MAX], struct err *e);
/* Basic user, else the default user; ERR_UNAUTHENTICATED. */
int request_user(struct agent *a, struct h1_req *r, struct user *out, struct err *e);
bool basic_given(struct h1_req *r);

/* ---- RPC (connect.c). An error's Connect code is err.code when set, else comes from err.kind. ---- */
/* Set kind, code ("already_exists") and text; returns -1. */
int rpc_fail(struct err *e, enum err_kind kind, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Unary: `in` is the request object; write the members of the reply into out (its object is already open). 0 or -1. */
typedef int rpc_unary(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e);
/* Stream: must call stream_begin first (headers), then send, then exactly one stream_end, or h1_abort.
 * deadline_us: boot_us() time at which the stream ends with deadline_exceeded, or 0. keepalive_s: 0 = default 90. */
struct rpc_stream_req {
	struct h1_req *r;
	const struct user *user;
	json_object *in;
	int64_t deadline_us;
	int keepalive_s;
};
typedef void rpc_stream(struct agent *a, struct rpc_stream_req *s);
/* Unary that may have to wait: it watches s->r->fd and s->deadline_us itself. */
typedef int rpc_waiting(struct agent *a, struct rpc_stream_req *s, struct jw *out, struct err *e);

struct rpc {
	const char *path;            /* "/process.Process/Start" */
	rpc_unary *unary;
	rpc_stream *stream;          /* one of the four */
	rpc_waiting *waiting;
	rpc_stream *upload;          /* client stream: reads its own messages by stream_next; s->in is NULL */
};
extern const struct rpc process_rpcs[], filesystem_rpcs[];      /* each ends in a row of NULLs */

#define STREAM_TYPE "application/connect+json"  /* Python's client compares it unstripped: no parameter */
int stream_begin(struct h1_req *r);
int stream_send(struct h1_req *r, const char *json, size_t n);  /* one envelope; -1: the client is gone */
int stream_end(struct h1_req *r, const struct err *e);          /* e NULL: good end */
/* Put an envelope (RPC_END: the last one) into b, for several in one write. */
enum { RPC_COMPRESSED = 1, RPC_END = 2 };
void envelope_add(struct buf *b, unsigned flags, const char *json, size_t n);
/* The payload of the end-stream envelope. */
void stream_end_json(struct buf *b, const struct err *e);
/* Next message of the request; 1, 0 at its end, -1. The caller puts *out. */
int stream_next(struct h1_req *r, json_object **out, struct err *e);
/* Connect's name of an error ("not_found") and the HTTP status of a name. */
const char *rpc_code(const struct err *e);
int rpc_status(const char *code);
/* Serve one RPC (connect.c). */
void rpc_serve(struct agent *a, struct h1_req *r, const struct rpc *row);
/* uint32 field, as number or decimal string: 1, 0 absent, -1. */
int rpc_get_u32(json_object *o, const char *key, uint32_t *out, struct err *e);

/* ---- plain HTTP (rest.c names them in its table) ---- */
/* h1_handler of the agent; ctx is struct agent. CORS, reserved routes, token, Basic user, then the route. */
void agent_handle(void *ctx, struct h1_req *r);
bool is_preflight(const struct h1_head *head);
void metrics_get(struct agent *a, struct h1_req *r);
void files_get(struct agent *a, struct h1_req *r);
void files_post(struct agent *a, struct h1_req *r);
void files_compose(struct agent *a, struct h1_req *r);
/* {"code":status,"message":text} with the status that the kind (or status, when not 0) asks for. */
void rest_fail(struct h1_req *r, int status, const struct err *e);
/* As rest_fail with a text of one's own and NULL or more header lines. */
void rest_reply_error(struct h1_req *r, int status, const char *extra, const char *text);
/* X-Access-Token equals the token, or no token is set. */
bool token_ok(struct agent *a, struct h1_req *r);
/* A copy of the token for signature checks; NULL when open; the caller frees. */
char *token_copy(struct agent *a);

/* ---- processes (process.c) ---- */
/* Take over SIGCHLD (blocked in the caller and so in all threads started later) and start the thread that reads output and
 * reaps every child, orphans included. */
int process_init(struct agent *a, struct err *e);
/* ---- watches (watch.c) ---- */
void watch_init(struct agent *a);
/* ---- control socket (ctl.c): the node's lines, in the calling thread, for ever ---- */
int ctl_serve(struct agent *a, int listen_fd, struct err *e);
/* One request line (fd -1, or a descriptor that came with it and is now the callee's); writes the reply line into out. */
void ctl_line(struct agent *a, const char *line, size_t n, int fd, struct buf *out);
/* End the connections of all clients (cut.c). */
int cut_clients(struct err *e);

/* ---- start command (start.c) ---- */
/* Run the template's start command ("command", an array of strings, and "readyPort"), once. From then on the agent also serves
 * 127.0.0.1:49983, where programs of the sandbox look for it. In the control thread. */
int start_run(struct agent *a, json_object *in, struct err *e);
/* 0 when there is no start command, or its port answers or is not waited for; ERR_UNAVAILABLE. In the control thread. */
int start_ready(struct agent *a, struct err *e);

/* ---- user ports (forward.c) ---- */
/* Start the thread that accepts and copies. */
int forward_init(struct agent *a, struct err *e);
/* Serve listen_fd (now the callee's) by connections to loopback:port; a listener of the same port is replaced. *closed: the port that is served
 * no more in its place, since there are as many as there may be; 0 none. Connections to it go on. */
int forward_add(struct agent *a, int port, int listen_fd, int *closed, struct err *e);

#endif
