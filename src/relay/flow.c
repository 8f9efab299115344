/*
 * Bytes from one socket to another through a pipe, without copying. A pipe is borrowed from the loop for as long as bytes are in it, so
 * an idle stream holds none and the thousands of them cost no pipe memory.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "relay_int.h"

static int take_pipe(struct loop *l, struct flow *f)
{
	if (l->npipes == 0)
		return pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK);
	l->npipes--;
	f->pipe[0] = l->pipes[l->npipes][0];
	f->pipe[1] = l->pipes[l->npipes][1];
	return 0;
}

void flow_release(struct loop *l, struct flow *f)
{
	if (f->pipe[0] < 0)
		return;
	if (f->in_pipe == 0 && l->npipes < PIPES_KEPT) {
		l->pipes[l->npipes][0] = f->pipe[0];
		l->pipes[l->npipes][1] = f->pipe[1];
		l->npipes++;
	} else {
		close(f->pipe[0]);
		close(f->pipe[1]);
	}
	f->pipe[0] = f->pipe[1] = -1;
	f->in_pipe = 0;
}

static ssize_t move(int from, int to, size_t n)
{
	ssize_t moved;

	do
		moved = splice(from, NULL, to, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (moved < 0 && errno == EINTR);
	return moved;
}

/* Empty the pipe into the socket. FLOW_DONE when it is empty. */
static enum flow_end flush(struct flow *f)
{
	while (f->in_pipe > 0) {
		ssize_t n = move(f->pipe[0], f->to, f->in_pipe);

		if (n <= 0)
			return n < 0 && errno == EAGAIN ? FLOW_BLOCKED : FLOW_TO_BROKEN;
		f->in_pipe -= (size_t)n;
	}
	return FLOW_DONE;
}

/* Fill the empty pipe. FLOW_DONE when there is something in it. */
static enum flow_end fill(struct loop *l, struct flow *f, size_t n)
{
	ssize_t got;

	if (f->pipe[0] < 0 && take_pipe(l, f) < 0)
		return FLOW_FROM_BROKEN;
	got = move(f->from, f->pipe[1], n);
	if (got > 0) {
		f->in_pipe = (size_t)got;
		return FLOW_DONE;
	}
	if (got == 0)
		return FLOW_EOF;
	return errno == EAGAIN ? FLOW_BLOCKED : FLOW_FROM_BROKEN;
}

enum flow_end flow_move(struct loop *l, struct flow *f, int64_t *left)
{
	size_t turn = TURN_BYTES;
	enum flow_end end;

	for (;;) {
		size_t n = PIPE_BYTES;

		end = flush(f);
		if (end != FLOW_DONE)
			return end;                   /* the pipe stays with the flow: bytes are in it */
		if (left != NULL && *left < (int64_t)n)
			n = (size_t)*left;
		if (n == 0)
			break;
		if (turn < n) {
			end = FLOW_TURN;
			break;
		}
		end = fill(l, f, n);
		if (end != FLOW_DONE)
			break;
		turn -= f->in_pipe;
		if (left != NULL)
			*left -= (int64_t)f->in_pipe;
	}
	flow_release(l, f);
	return end;
}
