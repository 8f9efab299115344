/*
 * h1.h - HTTP/1.1 on a stream socket (RFC 9110, RFC 9112): the parser and a small server,
 * one thread per connection. Used by the guest agent, the node daemon and the relay.
 *
 * Why our own: the agent is linked statically and must stream, hand files to the kernel,
 * see a vanished client at once and cost ~100 kB when idle (docs/architecture.md).
 */
#ifndef HUTCH_H1_H
#define HUTCH_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "hutch/buf.h"
#include "hutch/err.h"
#include "hutch/uri.h"

#define H1_HEAD_MAX 65536       /* bytes of a request head */
#define H1_FIELDS_MAX 128
/* Bytes of a request's body that are read over, so that a final answer follows its end. A web server that passes bodies on as they come
 * (nginx) has told its client that the connection stays, and closes it all the same when the answer was there before the body's end. */
#define H1_SKIP_MAX (16 << 20)

/* ---- parsing (no I/O) ---- */

struct h1_span { const char *p; size_t n; };
struct h1_field { struct h1_span name, value; };

struct h1_head {
	struct h1_span method, target;  /* target exactly as sent */
	struct h1_span path, query;     /* target split at the first '?'; query without it */
	int minor;                      /* HTTP/1.minor: 0 or 1 */
	struct h1_field fields[H1_FIELDS_MAX];
	size_t nfields;
	/* derived, and refused when contradictory (RFC 9112 section 6.3: no smuggling) */
	bool chunked;
	int64_t length;                 /* Content-Length, or -1 when there is none */
	bool keep_alive;
	bool expect_continue;
	bool upgrade;                   /* Connection: upgrade with an Upgrade field */
};

/* Parse a request head in buf[0..n). Returns its length in bytes (past the empty line), 0 if it is
 * not complete yet, -1 when malformed (ERR_INVALID) or over the bounds (ERR_TOO_LARGE). Spans point into buf.
 * Refused: obs-fold, white space before ':', bare CR or NUL, two different Content-Lengths, Content-Length
 * together with Transfer-Encoding, Transfer-Encoding other than "chunked", no or two Host fields in HTTP/1.1. */
ssize_t h1_parse_request(const char *buf, size_t n, struct h1_head *head, struct err *e);

/* First field of that name (case-insensitive), or NULL. */
const struct h1_span *h1_field(const struct h1_head *head, const char *name);
bool h1_span_is(struct h1_span s, const char *text);       /* exact */
bool h1_span_is_nocase(struct h1_span s, const char *text);

/* query_next and uri_route (hutch/uri.h) on a head. */
int h1_query_get(struct h1_span query, const char *name, char *out, size_t max);
const void *h1_route(const struct h1_head *head, const void *table, size_t rows, size_t size, struct uri_params *params, struct buf *allow);

/* ---- server ---- */

struct h1_req {
	const struct h1_head *head;
	int fd;                         /* the connection: poll it for POLLRDHUP while a stream is silent */
	void *conn;                     /* the server's own */
	const char *common;             /* NULL, or finished header lines that the handler wants in every reply to this
					 * request, h1_reply_error's included (CORS); NULL at first; must live until the handler returns */
};

typedef void h1_handler(void *ctx, struct h1_req *r);

struct h1_server_opts {
	int max_connections;            /* beyond: 503 and close */
	int idle_timeout_s;             /* between requests on a kept connection */
	int head_timeout_s;             /* from the first byte to the end of the head; then 408 */
	int body_timeout_s;             /* longest silence inside a request body; then h1_read fails */
	int send_timeout_s;             /* longest time a client takes no byte of a reply; then it counts as gone */
	size_t stack_size;              /* of a connection's thread */
	int spare_threads;              /* so many, and at least one, wait for more connections once there was one */
};                                      /* 0 = 256, 75, 15, 30, 600, 128 KiB, none */

/* Accept on listen_fd (stream socket, listening; stays the caller's to close after stop) in a thread of its own.
 * The handler runs in the connection's thread (all signals are blocked there: undo that before exec); it must send
 * a reply: 500 is sent if it did not, and a stream it did not end is cut as by h1_abort. */
struct h1_server;
int h1_server_start(int listen_fd, const struct h1_server_opts *opts, h1_handler *handler, void *ctx,
		    struct h1_server **out, struct err *e);
/* No new connections, idle ones end, a request under way gets its answer; waits for none, so ctx has to live on. s is gone for the caller. */
void h1_server_stop(struct h1_server *s);

/* Decoded body bytes (chunked or by length; sends 100 Continue on the first read when asked for).
 * > 0 bytes, 0 at the end of the body, -1 broken, too slow or client gone. */
ssize_t h1_read(struct h1_req *r, void *p, size_t n);
/* The whole body into b (its maximum bounds it). -1: ERR_TOO_LARGE or ERR_INVALID. */
int h1_read_all(struct h1_req *r, struct buf *b, struct err *e);

/* Replies. `extra` is NULL or finished header lines "Name: value\r\n...". All return 0, or -1 when the client is gone.
 * A whole reply (h1_reply, h1_reply_error, h1_reply_file) waits for the end of the request's body, a begun one's connection for it after
 * its end: up to H1_SKIP_MAX, 2 s of silence and 10 s in all; beyond, or when the client waits for 100 Continue, the connection closes.
 * HEAD gets no body. 204 and 304 get neither body nor length. */
int h1_reply(struct h1_req *r, int status, const char *type, const char *extra, const void *body, size_t n);
int h1_reply_error(struct h1_req *r, int status, const char *message); /* {"code":status,"message":"..."} */
int h1_begin(struct h1_req *r, int status, const char *type, const char *extra); /* chunked (close-delimited for 1.0); headers go out at once */
int h1_write(struct h1_req *r, const void *p, size_t n);                         /* one chunk, sent at once */
int h1_end(struct h1_req *r);                                                    /* the final chunk */
/* As h1_begin and h1_write, as h1_write and h1_end, but in one send: fewer wake-ups on the way. */
int h1_begin_with(struct h1_req *r, int status, const char *type, const char *extra, const void *p, size_t n);
int h1_end_with(struct h1_req *r, const void *p, size_t n);
void h1_abort(struct h1_req *r);                                                 /* close without the final chunk */
/* A reply with Content-Length size whose body is file bytes [offset, offset+size): sendfile(2). */
int h1_reply_file(struct h1_req *r, int status, const char *type, const char *extra, int fd, int64_t offset, int64_t size);
bool h1_replied(const struct h1_req *r);
const char *h1_reason(int status);              /* "Not Found"; "Unknown" for others */

/* Listening unix socket at path (an old one is replaced), mode and group as given (gid -1: left). fd or -1. */
int h1_listen_unix(const char *path, unsigned mode, int gid, struct err *e);
/* The listening socket that is standard input (systemd, hutch-spawn), which becomes /dev/null; -1 when it is none. */
int h1_listen_stdin(void);
/* The same at TCP port `port` of 127.0.0.1; 0: any. */
int h1_listen_loopback(int port, struct err *e);

#endif
