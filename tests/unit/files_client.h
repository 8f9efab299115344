/*
 * files_client.h - the agent's HTTP side on a unix socket in a directory of its own, and a client for it.
 */
#ifndef HUTCH_TESTS_FILES_CLIENT_H
#define HUTCH_TESTS_FILES_CLIENT_H

#include "agent.h"

struct served {
	char dir[64];                /* empty at first; removed at the end with all in it */
	char socket[128];
	int listen_fd;
	struct h1_server *server;
	struct agent agent;
};

struct answer {
	int status;
	char head[65536];            /* status line and fields */
	struct buf body;             /* chunks taken apart */
	bool cut;                    /* the connection ended before the body did */
};

/* Fails the test run if it cannot start. The default user is the one the test runs as, the default directory dir. */
struct served *serve_start(void);
void serve_stop(struct served *s);

int dial(const struct served *s);
void put_all(int fd, const void *p, size_t n);
/* Send the request head (fields: finished lines or "") and a body by length. */
void send_request(int fd, const char *method, const char *target, const char *fields, const void *body, size_t n);
/* Read one answer and close fd. */
void read_answer(int fd, struct answer *a);
/* All in one. */
void call(const struct served *s, struct answer *a, const char *method, const char *target, const char *fields,
	  const void *body, size_t n);
/* A unary call of filesystem.Filesystem with this JSON. The answer's body as object in *out (the caller puts it). Status. */
int rpc(const struct served *s, const char *method, const char *json, json_object **out);
/* Value of a field of the answer, or NULL; static memory. */
const char *answer_field(const struct answer *a, const char *name);
void answer_release(struct answer *a);

/* Text of a path like "entry.name" or "entries.2.path"; "" if there is nothing. Static memory. */
const char *at(json_object *o, const char *path);

/* A file below the served directory. */
const char *in_dir(const struct served *s, const char *name);   /* static memory, four in turn */
void write_file(const char *path, const void *p, size_t n);
size_t read_file(const char *path, char *p, size_t max);        /* fails the test if it is not there */

#endif
