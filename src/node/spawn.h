/*
 * spawn.h - the spawner: a small single-threaded process that makes sandboxes for the threaded daemon.
 *
 * It is the daemon's own program run again (`hutch-node --spawner`), so it inherits neither threads nor memory, and it can be started
 * anew if it dies. It lives in a mount namespace of its own that holds nothing but what every sandbox needs, so that cloning it is
 * cheap and no mount of the host is ever in a sandbox's namespace, not even for a moment. It ends when the daemon's end of the
 * socket closes; it also holds the daemon's lock file, so that a new daemon starts only after the last half-made sandbox is done.
 *
 * One request, one answer, each one packet. Mounts come in as detached mounts, cgroups as descriptors of the ways in: the
 * spawner opens no path of the host.
 */
#ifndef HUTCH_SPAWN_H
#define HUTCH_SPAWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "hutch/err.h"

#define SPAWN_IDS 65536u             /* user ids of a sandbox */
#define SPAWN_FDS_MAX 16
#define SPAWN_STEP_LEN 64
#define GUEST_DIR "/run/hutch"           /* in a sandbox whose template has a start command: hutch-interpreter */
#define SPAWN_RESOLV_LEN 128

/* descriptors of a request, in this order; the ways into the cgroups follow: ntasks files of version 1, then the directory of version 2 */
enum spawn_fd { SPAWN_LISTEN, SPAWN_CTL, SPAWN_DISK, SPAWN_ROOT, SPAWN_USR, SPAWN_CGROUPS };

struct spawn_req {
	uint32_t base;               /* first host user and group id */
	uint32_t shm_mb;             /* size of /dev/shm */
	uint32_t nproc;              /* processes and threads that one of its users may have; 0: no limit of that kind */
	uint32_t ntasks;
	bool cgroup2;
	bool guest;                  /* programs for the guest are mounted at GUEST_DIR */
	bool host_image;             /* SPAWN_USR is the host's /usr; else it repeats SPAWN_ROOT and is not used */
	bool userns;                 /* false: no user namespace, files unmapped */
	bool background;             /* no one waits for it */
	char hostname[64];
	char resolv[SPAWN_RESOLV_LEN];       /* what /etc/resolv.conf is to say; "": it is left as it is */
};

struct spawn_rep {
	int32_t pid;                 /* of the sandbox's init in the daemon's pid namespace; 0: failed */
	int32_t error;               /* errno */
	uint64_t start;              /* its start time, /proc/PID/stat field 22 */
	char step[SPAWN_STEP_LEN];   /* what failed */
};

/* What the spawner finds out at its start. */
struct spawn_hello {
	bool userns;                 /* user namespaces and id-mapped mounts work for the given roots */
	bool ok;
	int32_t error;
	char step[SPAWN_STEP_LEN];
};

/* ---- the daemon's side ---- */

struct spawner {
	pthread_mutex_t lock;
	pthread_cond_t free;
	bool busy;
	int urgent;                  /* callers waiting that go before background ones */
	int sock;
	pid_t pid;
	int lock_fd;
	struct spawn_hello hello;
	const char *agent, *skeleton, *usr, *interpreter;    /* paths; the owner keeps them */
};

/* Starts the process and takes its hello. lock_fd is inherited by it. skeleton and usr are the roots of the host image: it is probed
 * whether they can be id-mapped. interpreter need not be there. */
int spawner_open(struct spawner *s, int lock_fd, const char *agent, const char *skeleton, const char *usr, const char *interpreter,
		 struct err *e);
void spawner_close(struct spawner *s);
/* One sandbox: its first process is there, in namespaces of its own. fds as enum spawn_fd, borrowed. 0 with *rep, *pidfd (the caller closes) and
 * *steps for spawner_await, or -1. */
int spawner_run(struct spawner *s, const struct spawn_req *req, const int *fds, size_t nfds, struct spawn_rep *rep, int *pidfd, int *steps,
		struct err *e);
/* Until that process has built its root and is the agent, or says why not. Closes steps. */
int spawner_await(int steps, struct err *e);

/* ---- the spawner's side ---- */

/* main() of `hutch-node --spawner AGENT SKELETON USR INTERPRETER`, socket on descriptor 3, lock on 4. */
int spawner_main(char **argv);

#endif
