/*
 * stage.h - what the spawner holds ready, and the steps of a sandbox's first process up to the agent. Inside the spawner only.
 *
 * Stage: the spawner's root, a tmpfs with /proc, the agent, the device nodes and empty places to mount on. Its names are what a guest
 * sees of the mounts below its overlay: "lowerdir=low,upperdir=disk/up".
 */
#ifndef HUTCH_STAGE_H
#define HUTCH_STAGE_H

#include <linux/filter.h>
#include <stdint.h>
#include "spawn.h"

struct stage {
	int agent;                   /* the agent's program */
	struct sock_fprog filter;
};

/* A failure on its way through a pipe. */
struct step_error {
	int32_t error;
	char step[SPAWN_STEP_LEN];
};

/* Enter a mount namespace of our own, build the stage, make it the root. 0, or -1 with *why. interpreter need not be there. */
int stage_build(struct stage *s, const char *agent, const char *interpreter, struct step_error *why);

/* First process of a sandbox, from the moment its ids are mapped. fds as enum spawn_fd, all above 15; dev is a detached mount of /dev,
 * out takes a struct step_error and closes when the agent runs. Does not return. */
struct sandbox_plan {
	const struct spawn_req *req;
	const int *fds;
	int dev, out;
};
void sandbox_init(const struct stage *s, const struct sandbox_plan *p) __attribute__((noreturn));
/* Second half, in confine.c: limits, capabilities, filter, exec. */
void sandbox_exec(const struct stage *s, const struct sandbox_plan *p) __attribute__((noreturn));
/* Write errno and the step to out, and end. */
void step_die(int out, const char *step) __attribute__((noreturn));

#endif
