/* kernel_process.h - starting and ending a kernel's process. */
#ifndef HUTCH_INTERPRETER_KERNEL_PROCESS_H
#define HUTCH_INTERPRETER_KERNEL_PROCESS_H

#include <sys/types.h>
#include "kernelspec.h"

/* Run it in cwd, in a session of its own, with fd as descriptor 3, no input, and its output to our standard error.
 * ERR_NOT_FOUND: the program. */
int process_start(const struct argv *program, const char *cwd, int fd, pid_t *pid, int *pidfd, struct err *e);
/* Kill its group, wait for it. */
void process_end(pid_t pid, int pidfd);

#endif
