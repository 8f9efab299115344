/*
 * kernel.h - a running kernel: its process and its connection.
 *
 * Two kinds of connection. Jupyter kernels (Python, R, Java): their own protocol over ZeroMQ, see kernel_place.h. Kernels of our
 * own (JavaScript, Bash): the same messages, one JSON object a line on a socket pair that nobody else holds, so there is nothing
 * to sign; see docs/interpreter.md.
 *
 * Nobody reads between executions: who runs a cell drives the connection.
 */
#ifndef HUTCH_INTERPRETER_KERNEL_H
#define HUTCH_INTERPRETER_KERNEL_H

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>
#include "kernel_place.h"
#include "wire.h"

#define LINE_MAX_BYTES (16u << 20)       /* one message of a kernel of our own */
#define KERNEL_FDS 3                     /* that kernel_pollfds gives */

struct language;                         /* language.h */

struct kernel {
	const struct language *lang;
	pid_t pid;
	int pidfd;
	int life;                        /* Jupyter: the kernel ends when this end closes. Lines: the connection */
	struct kernel_place place;       /* its sockets; none for lines */
	char key[KEY_LEN], session[ID_LEN];
	struct zmtp shell, iopub, control;
	struct buf in;                   /* lines */
	size_t at;                       /* bytes of it that are done with */
	bool by_message;                 /* interrupted by a message */
	long uncounted;                  /* silent cells that it counts all the same, as Java's kernel does */
	bool broken;                     /* broke the protocol: to be ended */
};

/* Start it in directory cwd and wait until it takes cells. ERR_NOT_FOUND: cwd; ERR_UNAVAILABLE: the kernel is not installed, or failed. */
int kernel_start(const struct language *lang, const char *name, const char *run_dir, const char *cwd, struct kernel **out, struct err *e);
/* Kill it with all processes of its group, wait, free. */
void kernel_end(struct kernel *k);
bool kernel_alive(const struct kernel *k);
/* Run a cell; msg_id gets the id that its messages name as parent. -1: the connection is lost. */
int kernel_execute(struct kernel *k, struct span code, bool silent, char msg_id[ID_LEN], struct err *e);
/* What to poll: descriptors of messages, and of the process's end. KERNEL_FDS of them. */
void kernel_pollfds(const struct kernel *k, struct pollfd p[KERNEL_FDS]);
/* Take what has arrived. */
void kernel_fill(struct kernel *k);
/* The next message for that cell: 1, 0 none for now, -1 the kernel is gone or broke the protocol. */
int kernel_next(struct kernel *k, const char *msg_id, struct kmsg *out);
/* A message of a silent cell: nobody is told, but what it means for the count of cells is kept. */
void kernel_hide(struct kernel *k, const struct kmsg *m);
void kernel_interrupt(struct kernel *k);

#endif
