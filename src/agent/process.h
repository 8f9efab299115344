/*
 * process.h - inside of the process service (guest.md 4).
 *
 * One table under one lock. One thread, the pump, reads the output of every process and reaps; it hands chunks to the
 * queues of the streams that follow a process. A full queue stops the reading of that process only; without a follower
 * output is read and dropped. A stream's own thread takes from its queue and writes to its client.
 */
#ifndef HUTCH_AGENT_PROCESS_H
#define HUTCH_AGENT_PROCESS_H

#include <stdatomic.h>

#include "agent.h"

#define PIPE_CHUNK 32768
#define PTY_CHUNK 16384
#define QUEUE_MAX 64                    /* chunks that wait for one follower */
#define QUEUE_BYTES (512 << 10)         /* and their bytes */
#define PROCS_MAX 1024                  /* running */
#define KEPT_MAX 1024                   /* ended ones whose exit is still told */
#define KEEP_US (30 * 1000000LL)        /* for how long */
#define TAG_MAX 1024
#define ARGS_MAX 65536

enum channel { CH_STDOUT, CH_STDERR, CH_PTY };

struct chunk {
	atomic_int refs;
	enum channel channel;
	size_t n;
	char data[];
};

/* A stream that follows a process; lives on the stream's stack between proc_follow and proc_unfollow. */
struct follower {
	struct follower *next;          /* of the same process */
	struct follower *wake_next;     /* of those to wake after this round */
	bool wake_due;
	int wake_fd;                    /* eventfd */
	struct chunk *queue[QUEUE_MAX];
	size_t n, bytes;
};

struct output {                         /* what an epoll event points to */
	struct proc *proc;
	int fd;                         /* read end, or the PTY's master; -1 closed */
	enum channel channel;
};

struct proc {
	struct proc *next;
	unsigned refs;                  /* the table's, and one for each thread that works with it */
	pid_t pid;                      /* the kernel stores it before the child runs */
	bool pty;
	bool started;                   /* outputs are registered, the client may know of it */
	bool reaped;                    /* wait_status holds */
	bool ended;                     /* reaped and no more output */
	bool signalled;                 /* killed by us: don't wait for output once it is reaped */
	bool timed_out;
	bool held;                      /* outputs are out of the epoll set: a queue is full */
	bool listed;                    /* still in the table */
	int wait_status;
	struct output out[2];           /* stdout and stderr; a PTY has the first only */
	int in;                         /* write end of stdin or of the PTY; -1 none */
	bool in_busy;                   /* a writer is at it: it closes when in_closed */
	bool in_closed;
	int64_t deadline_us;            /* 0: none */
	int64_t ended_us;
	char *config;                   /* JSON for List */
	size_t config_n;
	char *tag;                      /* or NULL */
	struct follower *followers;
};

struct procs {
	pthread_mutex_t lock;
	pthread_cond_t ended;           /* some process has ended */
	int epoll_fd, signal_fd, timer_fd;
	int64_t armed_us;               /* when timer_fd fires; 0: not armed */
	struct proc *list;              /* newest first */
	struct proc *dead;              /* freed by the pump between rounds, when no event can point to them */
	unsigned live, kept;
	struct follower *wake;
	struct journal *journal;
	pid_t start_pid;                /* the start command (start.c); 0: none runs */
	char bounce[PIPE_CHUNK];
};

/* ---- table (process.c); all under the lock ---- */
/* A new row with one reference for the caller; NULL when the table is full or memory is out. */
struct proc *proc_add(struct procs *t);
/* The spawn failed: forget it. */
void proc_forget(struct procs *t, struct proc *p);
/* The spawn worked: register its outputs and its deadline (0: none), evict what was kept under its pid or tag. */
void proc_started(struct procs *t, struct proc *p, struct follower *f, int64_t deadline_us);
void proc_unref(struct procs *t, struct proc *p);
/* By selector {"pid":n} or {"tag":s}: with ended ones if asked. Adds a reference. NULL with the error. */
struct proc *proc_select(struct procs *t, json_object *request, bool ended_too, struct err *e);
void proc_follow(struct proc *p, struct follower *f);
void proc_unfollow(struct procs *t, struct proc *p, struct follower *f);
/* Move what is queued to out (QUEUE_MAX places; the caller unrefs each); lets reading go on. */
size_t proc_take(struct procs *t, struct proc *p, struct follower *f, struct chunk **out);
void chunk_unref(struct chunk *c);
/* SIGKILL or SIGTERM; -1 with the error. */
int proc_signal(struct procs *t, struct proc *p, int sig, struct err *e);
/* Wait, the lock released meanwhile, until p has ended; no longer than two seconds. */
void proc_await_end(struct procs *t, struct proc *p);
/* The deadline has come: kill, mark. Safe to repeat. */
void proc_time_out(struct procs *t, struct proc *p);
void proc_close_in(struct proc *p);
/* If reaped and without open output (or cut short by a signal): ended. */
void proc_settle(struct procs *t, struct proc *p);
/* Let f look once this round is over; proc_wake_all ends the round. */
void proc_wake(struct procs *t, struct follower *f);
void proc_wake_all(struct procs *t);
/* A follower takes no more. */
bool proc_full(const struct proc *p);
/* Take it out of the table. */
void proc_drop(struct procs *t, struct proc *p);
void output_close(struct procs *t, struct output *o);

/* ---- pump (pump.c) ---- */
/* Make the timer fire at `us` or earlier. Under the lock. */
void pump_arm(struct procs *t, int64_t us);

/* ---- spawn (spawn.c) ---- */
struct spawn {
	const struct user *user;
	const char *cmd;
	char **argv;                    /* two free places before argv[0] = cmd, NULL at the end */
	char **env;
	const char *cwd;
	const char *path;               /* PATH of env */
	bool pty, no_stdin;
	bool session;                   /* in a session and process group of its own (a PTY always is) */
	unsigned short cols, rows;
	struct rlimit files;            /* 0: leave */
};
/* Start it and fill p's pid, outputs and input. A program that cannot be executed is no failure: it is told on stderr and
 * by exit code 127 or 126, as a shell would. -1 ERR_INVALID. */
int spawn_run(const struct spawn *s, struct proc *p, struct err *e);

/* ---- launch.c: from a Start request to struct spawn ---- */
struct launch {
	struct spawn spawn;
	char cwd[PATH_MAX];
	char entry[PATH_MAX];           /* light profile: real path of the script, argv[1] then */
	json_object *env;               /* owns what spawn.env points to */
	char **argv_block, **env_block;
	char *env_text;
};
int launch_read(struct agent *a, const struct user *u, json_object *in, struct launch *l, struct err *e);
void launch_release(struct launch *l);
/* May it run in this profile? Always, but in the light one, which also fixes what is run (light.c). */
bool light_admits(struct agent *a, struct launch *l);
/* The request's ProcessConfig as JSON text. */
void launch_config(json_object *process, struct buf *out);

/* ---- input (input.c) ---- */
/* "input" of a request into the process: waits while the pipe is full, until the client is gone or the deadline. */
int input_write(struct procs *t, struct proc *p, json_object *request, int client_fd, int64_t deadline_us, struct err *e);

/* ---- events (event.c): envelopes into b ---- */
void event_start(struct buf *b, pid_t pid);
void event_data(struct buf *b, const struct chunk *c);
void event_keepalive(struct buf *b);
void event_end(struct buf *b, int wait_status);
/* "exit status 3", "signal: killed" */
void wait_status_text(int wait_status, char *out, size_t max);

/* ---- note.c: lines of the journal ---- */
void note_started(struct procs *t, const struct proc *p, const struct spawn *s);
void note_ended(struct procs *t, const struct proc *p);
void note_start_command(struct procs *t, int wait_status);

/* ---- follow.c: the streams of Start and Connect ---- */
/* Send start, data and end of p to the client of s, as f (already following). `own`: Start's stream, whose deadline is the process's. */
void follow(struct procs *t, struct rpc_stream_req *s, struct proc *p, struct follower *f, bool own);
int follower_init(struct follower *f, struct err *e);
void follower_release(struct follower *f);

#endif
