/* interpreter.h - what the parts of hutch-interpreter share (guest.md 7). */
#ifndef HUTCH_INTERPRETER_H
#define HUTCH_INTERPRETER_H

#include <stdbool.h>
#include "context.h"
#include "hutch/h1.h"

#define CODE_MAX (16u << 20)             /* bytes of one request's body */
#define TOKEN_MAX 1024

struct interpreter {
	struct contexts contexts;
	int agent_port;                  /* the sandbox's agent on loopback; 0: there is none */
};

/* h1_handler; ctx is struct interpreter. */
void interpreter_handle(void *ctx, struct h1_req *r);

/* POST /execute once its body is understood. c: the caller's reference. env: string map or NULL. token: of the agent, or "". */
void execute(struct interpreter *x, struct h1_req *r, struct context *c, struct span code, json_object *env, const char *token);

/* GET /envs of the agent: a string map, empty when there is none to be had. NULL: out of memory. */
json_object *globals_fetch(int port, const char *token);

/* Write what runs beside the program (python_kernel.py, ...) into dir. */
int scripts_write(const char *dir, struct err *e);

#endif
