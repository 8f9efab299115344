/* kernelspec.h - what Jupyter's kernel.json says of a kernel: its command, its variables. */
#ifndef HUTCH_INTERPRETER_KERNELSPEC_H
#define HUTCH_INTERPRETER_KERNELSPEC_H

#include <stdbool.h>
#include <stddef.h>
#include "hutch/err.h"
#include "hutch/json.h"

#define ARGV_MAX 64
#define SPEC_DIR 256

/* A kernel's program: strings are owned by it, both lists end with NULL. */
struct argv {
	char *word[ARGV_MAX + 1];
	size_t n;
	char *env[ARGV_MAX + 1];         /* "NAME=VALUE", besides those of this process */
	size_t env_n;
	bool by_message;                 /* it is interrupted by a message, not a signal */
};

int argv_add(struct argv *a, const char *word, struct err *e);
void argv_release(struct argv *a);

/* The kernelspec of that name, as Jupyter would find it, and its directory. The caller puts it. NULL: there is none. */
json_object *kernelspec_find(const char *name, char dir[SPEC_DIR]);
/* Its command, an array; the names that Jupyter fills in are filled in. file: the connection file. */
int kernelspec_argv(json_object *words, const char *dir, const char *file, struct argv *out, struct err *e);
/* Its variables; $NAME and ${NAME} in them are those of this process, as Jupyter has it. */
int kernelspec_env(json_object *spec, struct argv *out, struct err *e);

#endif
