/*
 * reaper_program.h - the built hutch-reaper ($HUTCH_REAPER names another) over a world and a double of the node.
 */
#ifndef HUTCH_TEST_REAPER_PROGRAM_H
#define HUTCH_TEST_REAPER_PROGRAM_H

#include <sys/types.h>
#include <unistd.h>

#include "hutch/when.h"
#include "node_double.h"
#include "world.h"

#define PATIENCE_US (180 * US_PER_S)  /* far beyond any of the times in the tests: a wait that gets there has failed */

struct fixture {
	struct world *w;
	struct node_double n;
	pid_t pid;                   /* of the program; 0: it does not run */
};

#define wait_for(condition) do { \
	int64_t until = boot_us() + PATIENCE_US; \
	while (!(condition)) { \
		if (boot_us() > until) \
			fail_msg("waited in vain for %s", #condition); \
		usleep(500); \
	} \
} while (0)

const char *reaper_program(void);
/* On the world's configuration. */
pid_t reaper_run(const struct world *w);

#endif
