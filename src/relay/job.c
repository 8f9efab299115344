/*
 * What may wait: asking the node for a port's socket, and connecting to an upstream whose backlog is full. Each gets a short-lived thread,
 * so that the loop goes on; there are few, since a port is asked for once.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "hutch/log.h"
#include "relay_int.h"

#define JOB_STACK (256 * 1024)

struct job {
	struct link *link;
	bool ask;
	int up;                 /* connected and non-blocking, or -1 */
	struct job *next;
};

static int connect_waiting(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct timeval tv = { .tv_sec = CONNECT_TIMEOUT_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	strcpy(a.sun_path, path);
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) == 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
	    fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		return fd;
	close(fd);
	return -1;
}

static void *job_run(void *arg)
{
	struct job *j = arg;
	struct loop *l = j->link->loop;

	if (j->ask)
		edge_resolve(l->relay->domain, &j->link->req, &j->link->answer);
	if (j->link->answer.verdict == EDGE_GO)
		j->up = connect_waiting(j->link->answer.upstream);
	pthread_mutex_lock(&l->done_lock);
	j->next = l->done;
	l->done = j;
	loop_wake(l);                   /* under the lock: the loop cannot end before this thread is through with it */
	pthread_mutex_unlock(&l->done_lock);
	return NULL;
}

bool job_start(struct link *k, bool ask)
{
	struct relay *r = k->loop->relay;
	struct job *j = malloc(sizeof *j);
	pthread_attr_t attr;
	pthread_t t;
	int rc;

	if (j == NULL)
		return false;
	*j = (struct job){ .link = k, .ask = ask, .up = -1 };
	if (atomic_fetch_add(&r->jobs, 1) >= JOBS_MAX) {
		atomic_fetch_sub(&r->jobs, 1);
		free(j);
		return false;
	}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, JOB_STACK);
	rc = pthread_create(&t, &attr, job_run, j);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		log_error("relay: thread: %s", strerror(rc));
		atomic_fetch_sub(&r->jobs, 1);
		free(j);
	}
	return rc == 0;
}

static void job_done(struct job *j)
{
	struct link *k = j->link;

	atomic_fetch_sub(&k->loop->relay->jobs, 1);
	if (k->web_gone) {
		if (j->up >= 0)
			close(j->up);
		link_drop(k);
	} else if (k->answer.verdict != EDGE_GO) {
		link_refuse(k, k->answer.verdict);
	} else if (j->up < 0) {
		link_refuse(k, EDGE_NOT_FOUND);
	} else {
		link_connected(k, j->up);
	}
	free(j);
}

void jobs_collect(struct loop *l)
{
	struct job *j;

	pthread_mutex_lock(&l->done_lock);
	j = l->done;
	l->done = NULL;
	pthread_mutex_unlock(&l->done_lock);
	while (j != NULL) {
		struct job *next = j->next;

		job_done(j);
		j = next;
	}
}
