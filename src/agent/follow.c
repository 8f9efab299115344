/* A stream that follows a process: start, data as it comes, keepalives, end. */
#include "config.h"

#include "process.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hutch/when.h"

#define OUT_MAX (4 << 20)       /* all that QUEUE_MAX chunks make, and more */
#define OUT_KEEP 16384          /* a quiet stream does not hold a big buffer */

int follower_init(struct follower *f, struct err *e)
{
	*f = (struct follower){ .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	return f->wake_fd < 0 ? err_sys(e, "eventfd") : 0;
}

void follower_release(struct follower *f)
{
	close(f->wake_fd);
}

/* What a look at the process found. */
struct seen {
	bool ended, timed_out;
	int wait_status;
};

/* Put what is queued into b. */
static struct seen collect(struct procs *t, struct proc *p, struct follower *f, struct buf *b)
{
	struct chunk *chunks[QUEUE_MAX];
	struct seen s;
	size_t n;

	pthread_mutex_lock(&t->lock);
	n = proc_take(t, p, f, chunks);
	s = (struct seen){ .ended = p->ended, .timed_out = p->timed_out, .wait_status = p->wait_status };
	pthread_mutex_unlock(&t->lock);
	for (size_t i = 0; i < n; i++) {
		event_data(b, chunks[i]);
		chunk_unref(chunks[i]);
	}
	return s;
}

/* Until there is something to look at, or `until`. False: the client is gone. */
static bool wait_news(struct follower *f, int client_fd, int64_t until)
{
	struct pollfd fds[2] = { { .fd = f->wake_fd, .events = POLLIN }, { .fd = client_fd, .events = POLLRDHUP } };
	int64_t left = until - boot_us();
	eventfd_t count;

	if (poll(fds, 2, left > 0 ? (int)((left + US_PER_MS - 1) / US_PER_MS) : 0) < 0)
		return errno == EINTR;
	if (fds[1].revents != 0)
		return false;
	if (fds[0].revents != 0)
		eventfd_read(f->wake_fd, &count);
	return true;
}

/* Write b out as one chunk: the first in one send with the head, the last with the end. */
static int flush(struct h1_req *r, struct buf *b, bool last)
{
	int rc = -1;

	if (buf_failed(b))
		h1_abort(r);
	else if (h1_replied(r))
		rc = last ? h1_end_with(r, b->p, b->len) : h1_write(r, b->p, b->len);
	else if ((rc = h1_begin_with(r, 200, STREAM_TYPE, NULL, b->p, b->len)) == 0 && last)
		rc = h1_end(r);
	if (b->cap > OUT_KEEP)
		buf_release(b);
	else
		buf_reset(b);
	return rc;
}

static void end_stream(struct buf *b, const struct err *e)
{
	struct buf json;

	buf_init(&json, 8192);
	stream_end_json(&json, e);
	envelope_add(b, RPC_END, buf_str(&json), json.len);
	buf_release(&json);
}

/* Put the end into b if there is one: of the process, or of the time. */
static bool put_end(struct buf *b, const struct seen *s, bool late, bool own)
{
	struct err e;

	if (s->ended && !(own && s->timed_out)) {
		event_end(b, s->wait_status);
		end_stream(b, NULL);
		return true;
	}
	if (!late && !(own && s->timed_out))
		return false;
	err_set(&e, ERR_TIMEOUT, "context deadline exceeded");
	end_stream(b, &e);
	return true;
}

/* -1: the client is gone. */
static int follow_until_end(struct procs *t, struct rpc_stream_req *s, struct proc *p, struct follower *f, bool own, struct buf *b)
{
	int64_t quiet = s->keepalive_s * US_PER_S, ping = boot_us() + quiet;

	event_start(b, p->pid);
	for (;;) {
		int64_t now = boot_us();
		bool late = s->deadline_us != 0 && now >= s->deadline_us, last;
		struct seen seen;

		if (late && own) {
			pthread_mutex_lock(&t->lock);
			proc_time_out(t, p);
			pthread_mutex_unlock(&t->lock);
		}
		seen = collect(t, p, f, b);
		last = put_end(b, &seen, late, own);
		if (b->len == 0 && now >= ping)
			event_keepalive(b);
		if (b->len > 0)
			ping = now + quiet;
		if ((b->len > 0 && flush(s->r, b, last) < 0) || last)
			return last ? 0 : -1;
		if (!wait_news(f, s->r->fd, s->deadline_us != 0 && s->deadline_us < ping ? s->deadline_us : ping))
			return -1;
	}
}

void follow(struct procs *t, struct rpc_stream_req *s, struct proc *p, struct follower *f, bool own)
{
	struct buf b;

	buf_init(&b, OUT_MAX);
	/* The process goes on when its client has left. */
	if (follow_until_end(t, s, p, f, own, &b) < 0)
		h1_abort(s->r);
	buf_release(&b);
}
