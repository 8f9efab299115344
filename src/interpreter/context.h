/*
 * context.h - contexts: a kernel with an id, a language and a working directory. One cell at a time; others wait in their order.
 *
 * Who holds a context's turn owns its kernel. Restarting and deleting kill the kernel's process first, so that whoever holds the turn
 * sees it end, and then take the next turn.
 */
#ifndef HUTCH_INTERPRETER_CONTEXT_H
#define HUTCH_INTERPRETER_CONTEXT_H

#include <limits.h>
#include <pthread.h>
#include "hutch/json.h"
#include "kernel.h"
#include "language.h"

#define CONTEXTS_MAX 256
#define HOME "/home/user"

struct turn;

struct context {
	struct context *next;            /* in the order of their making */
	char id[ID_LEN];
	char language[LANGUAGE_LEN];
	const struct language *lang;
	char cwd[PATH_MAX];
	bool is_default;
	bool ready;                      /* its kernel was started, or comes with the first use */
	bool gone;                       /* deleted */
	int restarting;                  /* restarts asked for and not done */
	unsigned refs;
	bool busy;
	struct turn *waiting;
	struct kernel *kernel;           /* set and cleared under the lock, by who holds the turn; NULL: to be started */
	json_object *globals;            /* the sandbox's variables as they were set in the kernel; NULL: not yet. Of who holds the turn */
};

struct contexts {
	pthread_mutex_t lock;
	pthread_cond_t made;             /* a context became ready, or will not */
	struct context *list;
	size_t n;
	char run_dir[64];
};

void contexts_init(struct contexts *t, const char *run_dir);
/* A new one with its kernel. cwd NULL: HOME. *out has a reference. Errors of kernel_start; ERR_LIMIT. */
int context_make(struct contexts *t, const char *language, const char *cwd, struct context **out, struct err *e);
/* The default one of a language, made at its first use. */
int context_default(struct contexts *t, const char *language, struct context **out, struct err *e);
/* List the default one of a language; its kernel comes with its first use. */
int context_announce(struct contexts *t, const char *language, struct err *e);
/* NULL: there is none. */
struct context *context_get(struct contexts *t, const char *id);
void context_unref(struct contexts *t, struct context *c);
/* fn for each one that is ready, the lock held. */
void contexts_each(struct contexts *t, void (*fn)(void *ctx, const struct context *c), void *ctx);
/* A new kernel; what ran ends with an error. */
int context_restart(struct contexts *t, struct context *c, struct err *e);
void context_remove(struct contexts *t, struct context *c);

/* Wait for the turn. idle(ctx) is called about every idle_s seconds while waiting; when it answers false, or the peer of fd (unless -1)
 * hangs up, the place is given up. 0 it is ours, -1 given up, -2 the context was deleted. */
int context_enter(struct contexts *t, struct context *c, int fd, int idle_s, bool (*idle)(void *ctx), void *ctx);
void context_leave(struct contexts *t, struct context *c);
/* With the turn: see that there is a living kernel. */
int context_revive(struct contexts *t, struct context *c, struct err *e);
/* With the turn: end the kernel; the next revive starts another. */
void context_drop_kernel(struct contexts *t, struct context *c);

#endif
