/*
 * kernel_place.h - where a Jupyter kernel's five sockets are, and the connection file that tells it so.
 *
 * Unix sockets in a directory that only root may enter, or ports of a loopback address that nothing else uses: no port of the user's on
 * 127.0.0.1 is taken, and the agent, which forwards to 127.0.0.1 and ::1, leads nobody there from outside. The ports are held by sockets of
 * ours until the kernel has them, so that nothing else in the sandbox is given them meanwhile.
 */
#ifndef HUTCH_INTERPRETER_KERNEL_PLACE_H
#define HUTCH_INTERPRETER_KERNEL_PLACE_H

#include <stdbool.h>
#include "zmtp.h"

#define KERNEL_DIR 128
#define KERNEL_FILE (KERNEL_DIR + 32)
#define KERNEL_IP "127.249.99.1"

enum kernel_socket { KERNEL_SHELL, KERNEL_IOPUB, KERNEL_STDIN, KERNEL_CONTROL, KERNEL_HB, KERNEL_SOCKETS };

struct kernel_place {
	char dir[KERNEL_DIR];            /* of the connection file and unix sockets; "": there is none */
	bool tcp;
	int port[KERNEL_SOCKETS];
	int held[KERNEL_SOCKETS];        /* sockets that hold the ports, -1 none */
};

void kernel_place_init(struct kernel_place *p);
/* A directory below run_dir, and the connection file in it. */
int kernel_place_make(struct kernel_place *p, bool tcp, const char *run_dir, const char *id, const char *key, char file[KERNEL_FILE], struct err *e);
void kernel_place_of(const struct kernel_place *p, enum kernel_socket which, struct zmtp_place *out);
/* The kernel has its ports: let them go. */
void kernel_place_taken(struct kernel_place *p);
void kernel_place_remove(struct kernel_place *p);
/* Remove what kernels of an interpreter that was killed have left in run_dir. */
void kernels_sweep(const char *run_dir);

#endif
