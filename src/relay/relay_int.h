/*
 * relay_int.h - loops and links; shared by the files of this directory only.
 *
 * A link is one connection of the web server and, once resolved, the connection to its upstream. It belongs to one loop, and only that
 * loop's thread touches it, but for an asking link's request and answer, which are the job's until the job is done.
 */
#ifndef HUTCH_RELAY_INT_H
#define HUTCH_RELAY_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hutch/chunked.h"
#include "hutch/edge.h"
#include "hutch/h1.h"
#include "hutch/relay.h"

#define PIPE_BYTES 65536        /* moved at once; the default size of a pipe */
#define PIPES_KEPT 16
#define FIRST_BYTES 8192        /* read of an answer to begin with */
#define SCRATCH_BYTES 65536
#define TURN_BYTES (1 << 20)    /* a link moves so much, then others have their turn */
#define JOBS_MAX 64             /* links that wait for the node or a full backlog, in all loops */
#define SURPLUS 64              /* links beyond max_links whose request is read, so that the web server sees the refusal */
#define CONNECT_TIMEOUT_S 5

enum link_state {
	LINK_HEAD,              /* reading the request's head */
	LINK_ASKING,            /* a job resolves or connects */
	LINK_STREAM,
	LINK_SKIP,              /* an answer of our own is ready; it follows the end of the request's body */
	LINK_LINGER,            /* all is said; waiting for the web server to hang up */
	LINK_DEAD,              /* freed at the end of the round */
	LINK_STATES
};

/* What may still be passed on of the request's body. */
enum up_mode { UP_NONE, UP_LENGTH, UP_CHUNKED, UP_RAW };

struct flow {
	int from, to;
	int pipe[2];            /* held only while bytes are in it; else -1 */
	size_t in_pipe;
};

struct link {
	struct loop *loop;
	struct link *prev, *next;       /* in the loop's list of its state */
	struct link *ready_next;
	bool ready;
	enum link_state state;
	int64_t deadline_us;            /* LINK_HEAD, LINK_SKIP, LINK_LINGER */
	int web, up;

	char *in;                       /* the head as received; kept until the upstream says something, for refusals */
	size_t in_len, in_cap;
	struct edge_request req;        /* points into `in` */
	struct edge_answer answer;
	bool head_only;                 /* HEAD */
	bool surplus;                   /* beyond what is served at once: to be refused */
	bool web_gone;                  /* while asking */
	bool tunnel;                    /* an upgraded connection: either side may end its half alone */

	char *out;                      /* bytes for the upstream that did not fit yet: first the head; LINK_SKIP: the answer */
	size_t out_len, out_at;
	enum up_mode mode;
	int64_t left;                   /* UP_LENGTH */
	struct chunked chunked;
	bool expects;                   /* the web server waits for 100 Continue */
	size_t skipped;                 /* LINK_SKIP */
	bool up_deaf;                   /* the upstream takes no more; it may still answer */
	bool up_over;                   /* the upstream has ended; what it said before may still be unread */
	bool answered;                  /* a byte came from the upstream */
	bool try_up, try_web;           /* LINK_STREAM: bytes may go that way */
	bool room_up, room_web;         /* watched for room to write, which is so once it was missing */
	struct flow to_up, to_web;
};

struct list {
	struct link *first, *last;
};

struct job;

struct loop {
	struct relay *relay;
	pthread_t thread;
	int epoll_fd;
	int wake_fd;                    /* eventfd: a job is done, or the relay stops */
	struct list links[LINK_STATES];
	struct link *ready;             /* had to give up their turn */
	int pipes[PIPES_KEPT][2];
	int npipes;
	char *scratch;
	bool stopping;
	int64_t accept_again_us;        /* not 0: out of descriptors, accepting pauses until then */
	pthread_mutex_t done_lock;
	struct job *done;
};

struct relay {
	struct domain *domain;
	struct relay_opts opts;
	int listen_fd;
	atomic_int links, jobs;
	atomic_bool stop;
	atomic_llong stop_us;           /* when streams are cut */
	int nloops;
	struct loop *loops;
};

/* loop.c */
void *loop_run(void *arg);
int loop_init(struct loop *l, struct relay *r, struct err *e);
void loop_release(struct loop *l);
void loop_wake(struct loop *l);
int loop_watch(struct loop *l, int fd, struct link *k, bool up);
void loop_watch_room(struct link *k, bool up);  /* from now on also for room to write; at once if there is some */
void loop_ready(struct loop *l, struct link *k);

/* link.c */
struct link *link_new(struct loop *l, int web);
void link_free(struct link *k);
void link_state(struct link *k, enum link_state state);
void link_event(struct link *k, uint32_t events, bool up);
void link_go(struct link *k);                   /* as far as it goes now */
void link_timeout(struct link *k);
void link_drop(struct link *k);                 /* end it at once, seen as abrupt by both sides */
void link_refuse(struct link *k, enum edge_verdict verdict);
void link_connected(struct link *k, int up);     /* up: non-blocking, the link's from now on */
void link_linger(struct link *k);               /* everything was sent: wait for the web server to read it and hang up */

/* stream.c */
void stream_go(struct link *k);

/* head.c */
/* What may still come of the request's body. The bytes of it after the head, or -1 malformed. */
ssize_t head_body(struct link *k, const struct h1_head *h, size_t head_len);
/* The request as it is passed on, into k->out, with those bytes. -1 out of memory. */
int head_forward(struct link *k, const struct h1_head *h, size_t head_len, size_t body_n);

/* flow.c */
enum flow_end { FLOW_BLOCKED, FLOW_DONE, FLOW_EOF, FLOW_TURN, FLOW_FROM_BROKEN, FLOW_TO_BROKEN };
/* Move bytes until something is in the way; *left (if given) bounds and counts them. */
enum flow_end flow_move(struct loop *l, struct flow *f, int64_t *left);
void flow_release(struct loop *l, struct flow *f);

/* job.c: resolve (when ask) and connect in a thread that may wait. False when there are too many already. */
bool job_start(struct link *k, bool ask);
void jobs_collect(struct loop *l);

#endif
