/* bash_shell.h - the one shell behind the Bash kernel: a /bin/bash that lives from cell to cell. */
#ifndef HUTCH_INTERPRETER_BASH_SHELL_H
#define HUTCH_INTERPRETER_BASH_SHELL_H

#include <stddef.h>
#include <sys/types.h>
#include "hutch/err.h"

struct shell {
	pid_t pid;                       /* leads a group that its children share; 0: there is none */
	int commands;                    /* its standard input: one short line each, written by us alone */
	int code;                        /* a file in memory with the cell's text */
	int out, err;                    /* what the cell and its children write; reading does not block */
	int done;                        /* lines "NUMBER start" and "NUMBER STATUS" of each cell; reading does not block */
};

/* Start it. On an error there is none. */
int shell_start(struct shell *s, struct err *e);
/* Kill it with its whole group, wait, close. */
void shell_end(struct shell *s);
/* Have it run n bytes without a NUL as cell `number`, which must be new. */
int shell_run(struct shell *s, unsigned long number, const char *code, size_t n, struct err *e);
/* SIGINT to the shell and what it runs; not before it told the start of the cell. */
void shell_interrupt(const struct shell *s);
/* SIGINT to all in its group but the shell: it can leave behind the program that it was just starting, and would wait for that.
 * What runs in the background ignores it. */
void shell_sweep(const struct shell *s);
/* The interrupt can hit the command that tells the end: have the end told, with status 130, as soon as it takes commands. */
void shell_ask(const struct shell *s, unsigned long number);

#endif
