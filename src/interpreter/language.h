/* language.h - the languages: one row each. */
#ifndef HUTCH_INTERPRETER_LANGUAGE_H
#define HUTCH_INTERPRETER_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>
#include "hutch/buf.h"
#include "hutch/err.h"
#include "kernelspec.h"

#define LANGUAGE_LEN 64

/* Lines: kernels of our own. The others speak Jupyter's protocol: over unix sockets where the kernel is known to have them, else over TCP,
 * which every kernel has. */
enum kernel_wire { WIRE_LINES, WIRE_UNIX, WIRE_TCP };

struct language {
	const char *name;                /* as clients say it, lower case */
	const char *kernel;              /* kernelspec, or the name of our own kernel's program file */
	enum kernel_wire wire;
	const char *needs;               /* what to install when it is missing; NULL: we do not know */
	const char *const *program;      /* of our own kernels: what runs the file, looked up in PATH, and its options; NULL: this program itself */
	/* Append code that sets a variable (value not NULL) or unsets it, on lines of its own. */
	void (*env)(struct buf *b, const char *name, const char *value);
};

/* Is the program that runs its kernel installed? Of our own kernels only; others: false. */
bool language_installed(const struct language *l);
/* Lower case, trimmed; js and ts are long for nothing. */
void language_name(const char *given, char out[LANGUAGE_LEN]);
/* Its row. Any name without one is taken for a kernelspec's: there is a row for these, which has no name. */
const struct language *language_find(const char *name);

/* ERR_UNAVAILABLE naming what is not installed. name: for the row without one. file: the connection file. */
int language_argv(const struct language *l, const char *name, const char *run_dir, const char *file, struct argv *out, struct err *e);

#endif
