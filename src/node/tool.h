/*
 * tool.h - the programs of e2fsprogs that the daemon runs.
 */
#ifndef HUTCH_NODE_TOOL_H
#define HUTCH_NODE_TOOL_H

#include "hutch/err.h"

/* Run NAME of /usr/sbin or /sbin to its end, without input and output. argv ends in NULL. Its exit status (128 + N: signal N), or -1. */
int tool_run(const char *name, const char *const *argv, struct err *e);

#endif
