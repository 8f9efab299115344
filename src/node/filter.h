/*
 * filter.h - the system call filter of sandboxes (libseccomp). A list of what is refused, not of what is allowed: guests run anything,
 * and the rest of the confinement (namespaces, user mapping, capabilities, control groups) does not lean on this list.
 */
#ifndef HUTCH_FILTER_H
#define HUTCH_FILTER_H

#include <linux/filter.h>
#include "hutch/err.h"

/* The program for prctl(PR_SET_SECCOMP); prog->filter is malloc'ed. */
int filter_make(struct sock_fprog *prog, struct err *e);

#endif
