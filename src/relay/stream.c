/* A resolved link: bytes towards the upstream, as many as the request may have, and bytes back until the upstream ends. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "relay_int.h"

/* The upstream reads no more. What it has to say, such as a refusal of an upload, still goes through. */
static void up_deaf(struct link *k)
{
	flow_release(k->loop, &k->to_up);
	free(k->out);
	k->out = NULL;
	k->up_deaf = true;
}

/* Send what waits in k->out. False when the way is blocked. */
static bool flush_out(struct link *k)
{
	while (k->out != NULL) {
		ssize_t n = send(k->up, k->out + k->out_at, k->out_len - k->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0) {
			up_deaf(k);
			return false;
		}
		k->out_at += (size_t)n;
		if (k->out_at == k->out_len) {
			free(k->out);
			k->out = NULL;
		}
	}
	return true;
}

/* Pass on n bytes, keeping those that do not fit. */
static int send_up(struct link *k, const char *p, size_t n)
{
	ssize_t sent = send(k->up, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		up_deaf(k);
		return 0;
	}
	if (sent < 0)
		sent = 0;
	if ((size_t)sent == n)
		return 0;
	k->out_len = n - (size_t)sent;
	k->out_at = 0;
	k->out = malloc(k->out_len);
	if (k->out == NULL)
		return -1;
	memcpy(k->out, p + sent, k->out_len);
	return 0;
}

/* A chunked body has to be looked at to see its end, so it is copied. */
static enum flow_end move_chunked(struct link *k)
{
	size_t turn = 0;

	while (turn < TURN_BYTES) {
		ssize_t got, used;

		if (!flush_out(k))
			return FLOW_BLOCKED;
		if (chunked_done(&k->chunked))
			return FLOW_DONE;
		got = recv(k->web, k->loop->scratch, SCRATCH_BYTES, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return FLOW_BLOCKED;
		if (got <= 0)
			return FLOW_FROM_BROKEN;
		used = chunked_scan(&k->chunked, k->loop->scratch, (size_t)got);
		if (used < 0 || send_up(k, k->loop->scratch, (size_t)used) < 0)
			return FLOW_FROM_BROKEN;
		turn += (size_t)got;
	}
	return FLOW_TURN;
}

static enum flow_end move_up(struct link *k)
{
	if (k->up_deaf || !flush_out(k) || k->mode == UP_NONE)
		return FLOW_BLOCKED;
	if (k->mode == UP_CHUNKED)
		return move_chunked(k);
	return flow_move(k->loop, &k->to_up, k->mode == UP_LENGTH ? &k->left : NULL);
}

/* Bytes towards the upstream. False when the link has ended. */
static bool go_up(struct link *k)
{
	enum flow_end end = move_up(k);

	k->try_up = false;
	if (end == FLOW_BLOCKED && (k->out != NULL || k->to_up.in_pipe > 0))
		loop_watch_room(k, true);
	if (end == FLOW_TURN) {
		k->try_up = true;
		loop_ready(k->loop, k);
	} else if (end == FLOW_DONE) {
		k->mode = UP_NONE;
	} else if (end == FLOW_TO_BROKEN) {
		up_deaf(k);
	} else if (end == FLOW_EOF && k->mode == UP_RAW) {
		shutdown(k->up, SHUT_WR);
		k->mode = UP_NONE;
	} else if (end != FLOW_BLOCKED) {
		link_drop(k);                         /* the body will never be whole: the upstream must see that */
		return false;
	}
	return true;
}

/* The upstream has ended. */
static void up_ended(struct link *k)
{
	if (!k->answered)
		link_refuse(k, EDGE_NOT_FOUND);       /* it went before it answered */
	else if (k->mode != UP_NONE || k->up_deaf)
		link_linger(k);
	else
		link_drop(k);
}

/* The first bytes are an answer's head, and often all of it: a copy costs less than a pipe. Few, and the first ones on the web server's
 * socket: they fit, or it is no longer there. */
static enum flow_end first_bytes(struct link *k)
{
	ssize_t n;

	do
		n = recv(k->up, k->loop->scratch, FIRST_BYTES, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? FLOW_BLOCKED : FLOW_FROM_BROKEN;
	if (n == 0)
		return FLOW_EOF;
	k->answered = true;
	k->req = (struct edge_request){ .host = NULL };
	free(k->in);
	k->in = NULL;
	if (send(k->web, k->loop->scratch, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
		return FLOW_TO_BROKEN;
	/* a short read took all there was: more makes an event, but the end may have been told already */
	return n < FIRST_BYTES && !k->up_over ? FLOW_BLOCKED : FLOW_DONE;
}

static void go_web(struct link *k)
{
	enum flow_end end = k->answered ? FLOW_DONE : first_bytes(k);

	if (end == FLOW_DONE)
		end = flow_move(k->loop, &k->to_web, NULL);
	k->try_web = false;
	if (end == FLOW_BLOCKED && k->to_web.in_pipe > 0)
		loop_watch_room(k, false);
	if (end == FLOW_TURN) {
		k->try_web = true;
		loop_ready(k->loop, k);
	} else if (end == FLOW_EOF || (end == FLOW_FROM_BROKEN && !k->answered)) {
		up_ended(k);
	} else if (end != FLOW_BLOCKED) {
		link_drop(k);
	}
}

void stream_go(struct link *k)
{
	if (k->try_up && !go_up(k))
		return;
	if (k->try_web)
		go_web(k);
}
