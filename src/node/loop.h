/*
 * loop.h - loop devices (loop(4)) that clear themselves.
 */
#ifndef HUTCH_LOOP_H
#define HUTCH_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include "hutch/err.h"

/* The control device, or -1. Where /dev has none (a minimal container) a node is made in the private directory `nodes`. */
int loop_control_open(int nodes, struct err *e);
/* Bind image to a free device, with LO_FLAGS_AUTOCLEAR: keep the descriptor until the device is mounted. Path of its node in path. */
int loop_attach(int control, int nodes, const char *nodes_path, int image, char *path, size_t max, struct err *e);

/* Whether a loop device is bound to an image of that file name (without directories; the name is unique on this machine). */
bool loop_uses(const char *file);
/* That device, opened, and the path of its node; -1 when there is none. */
int loop_find(int nodes, const char *nodes_path, const char *file, char *path, size_t max);

#endif
