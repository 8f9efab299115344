/*
 * state.h - what is remembered of a sandbox across restarts of the daemon: one small JSON file each, replaced by rename.
 *
 * A sandbox lives while its first process does: pid, start time and the machine's boot id name that process and no other.
 */
#ifndef HUTCH_NODE_STATE_H
#define HUTCH_NODE_STATE_H

#include <sys/types.h>
#include "shape.h"

#define MACHINE_LEN 24               /* "sb_" + 20 of [a-z0-9] and a NUL */
#define REF_LEN 129
#define BOOT_ID_LEN 37
#define STATE_MAX (2 << 20)          /* bytes of a file: what the agent is told is bounded by its line */

/* How a claimed sandbox stands still: frozen, or processes ended and the disk kept. */
enum machine_sleep { SLEEP_NONE, SLEEP_MEMORY, SLEEP_DISK };

struct machine_state {
	char id[MACHINE_LEN];
	char claim_ref[REF_LEN];     /* "" = ready, not claimed */
	int64_t claimed_us;
	pid_t pid;
	uint64_t start;              /* field 22 of /proc/PID/stat */
	char boot_id[BOOT_ID_LEN];
	uint32_t ids;                /* first host user id */
	char base[32];               /* mask directory it runs on, "" for other images */
	enum machine_sleep sleep;
	uint32_t address;            /* of its way to the internet, host byte order; 0: it has none */
	char *network;               /* its rules (rules_read), NULL: none */
	char *init;                  /* what its agent was told at the claim, JSON text; NULL: not claimed */
	struct shape shape;
};

/* prefix ("sb_", "ck_") and 20 of [a-z0-9]. */
bool state_id_ok(const char *s, const char *prefix);
bool machine_id_ok(const char *s);
/* What all state files share: one object of members that `members` reads into out, and the shape among them. */
int state_parse(const char *text, size_t n, int (*members)(json_object *o, void *out, struct err *e), void *out, struct err *e);
int state_text(json_object *o, const char *key, char *out, size_t max, struct err *e);
int state_shape(json_object *o, struct shape *out, struct err *e);
void state_write(struct buf *b, const struct machine_state *m);
/* The text of a file; shape.command, network and init are malloc'ed: state_release. */
int state_read(const char *text, size_t n, struct machine_state *out, struct err *e);

void state_release(struct machine_state *m);

int boot_id(char out[BOOT_ID_LEN], struct err *e);
/* Start time of a process, 0 when there is none. */
uint64_t process_start(pid_t pid);
/* The process of that state, if it lives: a pidfd. -1 otherwise. */
int state_pidfd(const struct machine_state *m, const char *boot);

#endif
