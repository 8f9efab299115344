/*
 * envd_client.h - the real hutch-envd as a child process, and a client that takes its streams apart.
 * Any failure of the plumbing fails the test; a read that takes ENVD_PATIENCE_S does, too: far more than a busy machine needs.
 */
#ifndef HUTCH_TESTS_ENVD_CLIENT_H
#define HUTCH_TESTS_ENVD_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "hutch/buf.h"

#define ENVD_PATIENCE_S 180

struct envd {
	pid_t pid;
	char dir[64];
	int ctl;                     /* a connection to the control socket, or -1 */
};

/* Start it in a directory of its own, with the test's user as default user; `ctl`: with a control socket. */
void envd_start(struct envd *v, bool ctl);
void envd_stop(struct envd *v);
int envd_dial(const struct envd *v);
/* One line over the control socket, with a descriptor unless -1; the answer line is static. */
const char *envd_ctl(struct envd *v, const char *line, int fd);

struct answer {
	int status;
	char head[8192];
	struct buf body;             /* chunks taken apart; followed by a NUL */
};
/* fields: finished header lines or "". Release the answer. May be called from several threads. */
void envd_call(const struct envd *v, const char *method, const char *target, const char *fields, const char *body,
	       struct answer *a);
void envd_call_n(const struct envd *v, const char *method, const char *target, const char *fields, const void *body, size_t n,
		 struct answer *a);
/* A unary process method with this JSON; status and body as in the answer. */
void envd_unary(const struct envd *v, const char *method, const char *json, struct answer *a);
void answer_release(struct answer *a);
/* Does the head hold this line? */
bool answer_has(const struct answer *a, const char *line);

struct stream {
	int fd;
	char raw[65536];
	size_t from, to;
	size_t chunk_left;
	bool ended;                  /* the final chunk was seen */
	bool cut;                    /* the connection ended before it */
	int flags;                   /* of the last message */
	struct buf message;
};
/* Send a request with one message and read the head; the status must be 200. */
void stream_open(struct stream *s, const struct envd *v, const char *method, const char *fields, const char *json);
/* Next message's JSON, or NULL at the end. */
const char *stream_next_json(struct stream *s);
void stream_close(struct stream *s);

/* A whole stream of Start or Connect: checks that start comes first, end last, the end-stream envelope after it and nothing more. */
struct outcome {
	pid_t pid;
	struct buf out, err, pty;
	char end[512];               /* the end event's JSON, "" if there was none */
	char last[1024];             /* the end-stream's JSON */
};
void stream_outcome(struct stream *s, struct outcome *o);
/* Start this request and wait for the outcome. */
void run_request(const struct envd *v, const char *fields, const char *json, struct outcome *o);
/* /bin/sh -c script, without stdin. */
void run_script(const struct envd *v, const char *script, struct outcome *o);
void outcome_release(struct outcome *o);
/* Read a start event; its pid. */
pid_t stream_started(struct stream *s);

#endif
