#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hutch/json.h"
#include "hutch/when.h"
#include "relay_int.h"

#define HEAD_FIRST 4096

/* ---- life ---- */

static void list_remove(struct list *list, struct link *k)
{
	*(k->prev != NULL ? &k->prev->next : &list->first) = k->next;
	*(k->next != NULL ? &k->next->prev : &list->last) = k->prev;
}

static void list_append(struct list *list, struct link *k)
{
	k->prev = list->last;
	k->next = NULL;
	*(list->last != NULL ? &list->last->next : &list->first) = k;
	list->last = k;
}

void link_state(struct link *k, enum link_state state)
{
	const struct relay_opts *o = &k->loop->relay->opts;

	list_remove(&k->loop->links[k->state], k);
	k->state = state;
	/* the wait is the same for all in a list, so each list is in order of its deadlines */
	k->deadline_us = boot_us() + (state == LINK_HEAD ? o->head_timeout_s : o->linger_timeout_s) * US_PER_S;
	list_append(&k->loop->links[state], k);
}

struct link *link_new(struct loop *l, int web)
{
	struct link *k = calloc(1, sizeof *k);

	if (k == NULL)
		return NULL;
	k->loop = l;
	k->web = web;
	k->up = -1;
	k->to_up.pipe[0] = k->to_up.pipe[1] = k->to_web.pipe[0] = k->to_web.pipe[1] = -1;
	list_append(&l->links[LINK_HEAD], k);
	link_state(k, LINK_HEAD);
	k->surplus = atomic_fetch_add(&l->relay->links, 1) >= l->relay->opts.max_links;
	return k;
}

void link_free(struct link *k)
{
	list_remove(&k->loop->links[k->state], k);
	atomic_fetch_sub(&k->loop->relay->links, 1);
	free(k->in);
	free(k->out);
	free(k);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_up(struct link *k)
{
	flow_release(k->loop, &k->to_up);
	flow_release(k->loop, &k->to_web);
	close_fd(&k->up);
}

/* The memory goes at the end of the round: events of this link may still be in hand. */
void link_drop(struct link *k)
{
	close_up(k);
	close_fd(&k->web);
	link_state(k, LINK_DEAD);
}

/* ---- answers of our own ---- */

/* Everything was sent. Let the web server read it before the connection goes: a close with its bytes unread would break its write. */
void link_linger(struct link *k)
{
	close_up(k);
	shutdown(k->web, SHUT_WR);
	link_state(k, LINK_LINGER);
	link_go(k);
}

/* Is more of the request's body to be waited for? See H1_SKIP_MAX. */
static bool body_to_skip(const struct link *k)
{
	if (k->expects || k->skipped > H1_SKIP_MAX)
		return false;
	if (k->mode == UP_LENGTH)
		return k->left > 0 && k->left <= H1_SKIP_MAX;
	return k->mode == UP_CHUNKED && !chunked_done(&k->chunked);
}

static void skipped(struct link *k, size_t n)
{
	k->skipped += n;
	if (k->mode == UP_LENGTH)
		k->left -= (int64_t)n;        /* below 0 when more came than belongs to it */
	else if (chunked_scan(&k->chunked, k->loop->scratch, n) < 0)
		k->mode = UP_NONE;
}

/* Small, and the first bytes on this socket: it fits, or the web server is no longer there. */
static void say(struct link *k)
{
	if (send(k->web, k->out, k->out_len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)k->out_len)
		link_linger(k);
	else
		link_drop(k);
}

static void go_skip(struct link *k)
{
	size_t turn = 0;

	while (body_to_skip(k) && turn < TURN_BYTES) {
		ssize_t n = recv(k->web, k->loop->scratch, SCRATCH_BYTES, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			link_drop(k);
			return;
		}
		skipped(k, (size_t)n);
		turn += (size_t)n;
	}
	if (body_to_skip(k))
		loop_ready(k->loop, k);
	else
		say(k);
}

/* type NULL: an answer without a body, 204. */
static void answer(struct link *k, int status, const char *type, const char *extra, const struct buf *body)
{
	struct buf b;

	buf_init(&b, 16384);
	buf_addf(&b, "HTTP/1.1 %d %s\r\n", status, h1_reason(status));
	if (type != NULL)
		buf_addf(&b, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, body->len);
	buf_adds(&b, extra);
	buf_adds(&b, "Connection: close\r\n\r\n");
	if (!k->head_only)
		buf_add(&b, body->p, body->len);
	close_up(k);
	free(k->out);
	k->out_len = b.len;
	k->out = buf_take(&b);
	if (k->out == NULL) {
		buf_release(&b);
		link_drop(k);
		return;
	}
	link_state(k, LINK_SKIP);
	link_go(k);
}

void link_refuse(struct link *k, enum edge_verdict verdict)
{
	struct buf b, fields;
	const char *type;

	buf_init(&b, 4096);
	buf_init(&fields, 12288);
	edge_refuse(&k->answer, verdict);
	type = edge_body(&k->req, &k->answer, &b);
	edge_fields(&k->req, &k->answer, &fields);
	answer(k, k->answer.status, type, buf_str(&fields), &b);
	buf_release(&b);
	buf_release(&fields);
}

static void bad_request(struct link *k, int status, const char *message)
{
	struct buf b;
	struct jw w;

	buf_init(&b, 4096);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "code", status);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
	answer(k, status, "application/json; charset=utf-8", "", &b);
	buf_release(&b);
}

/* ---- the head ---- */

/* A field's text. The byte after a value is white space or CR, which the parsed head no longer needs. */
static const char *text_of(const struct h1_head *h, const char *name)
{
	const struct h1_span *s = h1_field(h, name);

	if (s == NULL)
		return NULL;
	((char *)(uintptr_t)s->p)[s->n] = '\0';
	return s->p;
}

static void take_request(struct link *k, const struct h1_head *h)
{
	((char *)(uintptr_t)h->method.p)[h->method.n] = '\0';
	((char *)(uintptr_t)h->target.p)[h->target.n] = '\0';
	k->req = (struct edge_request){
		.method = h->method.p,
		.host = text_of(h, "Host"),
		.sandbox_header = text_of(h, "E2b-Sandbox-Id"),
		.port_header = text_of(h, "E2b-Sandbox-Port"),
		.raw_target = h->target.p,
		.content_type = text_of(h, "Content-Type"),
		.access_token = text_of(h, "X-Access-Token"),
		.traffic_token = text_of(h, "e2b-traffic-access-token"),
		.user_agent = text_of(h, "User-Agent"),
		.accept = text_of(h, "Accept"),
		.sec_fetch_mode = text_of(h, "Sec-Fetch-Mode"),
		.requested_with = text_of(h, "X-Requested-With"),
		.origin = text_of(h, "Origin"),
		.asked_method = text_of(h, "Access-Control-Request-Method"),
		.asked_headers = text_of(h, "Access-Control-Request-Headers"),
	};
	k->head_only = h1_span_is(h->method, "HEAD");
}

static void ask(struct link *k, bool resolve)
{
	link_state(k, LINK_ASKING);
	if (!job_start(k, resolve))
		link_refuse(k, EDGE_UNAVAILABLE);
}

/* Connect without waiting; only a full backlog needs a job. */
static void connect_up(struct link *k)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(a.sun_path, k->answer.upstream);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
		link_connected(k, fd);
		return;
	}
	if (fd < 0)
		link_refuse(k, EDGE_UNAVAILABLE);
	else if (errno == EAGAIN)
		ask(k, false);
	else
		link_refuse(k, EDGE_NOT_FOUND);       /* it ended in this moment */
	close_fd(&fd);
}

static void have_head(struct link *k, const struct h1_head *h, size_t len)
{
	ssize_t body_n;
	bool sure;

	take_request(k, h);
	body_n = head_body(k, h, len);
	sure = edge_look_up(k->loop->relay->domain, &k->req, &k->answer);
	if (sure && k->answer.verdict != EDGE_GO)
		link_refuse(k, k->answer.verdict);
	else if (k->surplus)
		link_refuse(k, EDGE_FULL);
	else if (body_n < 0)
		bad_request(k, 400, "malformed request body");
	else if (head_forward(k, h, len, (size_t)body_n) < 0)
		link_drop(k);
	else if (sure)
		connect_up(k);
	else
		ask(k, true);
}

static int grow(struct link *k)
{
	size_t cap = k->in_cap != 0 ? k->in_cap * 2 : HEAD_FIRST;
	char *p = k->in_len < k->in_cap ? k->in : realloc(k->in, cap);

	if (p == NULL)
		return -1;
	if (k->in_len == k->in_cap)
		k->in_cap = cap;
	k->in = p;
	return 0;
}

/* Read and parse until the head is there. */
static void read_head(struct link *k)
{
	struct h1_head h;
	struct err e;
	ssize_t got, n = 0;

	do {
		if (grow(k) < 0) {
			link_drop(k);
			return;
		}
		got = recv(k->web, k->in + k->in_len, k->in_cap - k->in_len, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			link_drop(k);
			return;
		}
		k->in_len += (size_t)got;
		if (memchr(k->in + k->in_len - got, '\n', (size_t)got) != NULL || k->in_len >= H1_HEAD_MAX)
			n = h1_parse_request(k->in, k->in_len, &h, &e);
	} while (n == 0);
	if (n < 0)
		bad_request(k, e.kind == ERR_TOO_LARGE ? 431 : 400, e.text);
	else
		have_head(k, &h, (size_t)n);
}

void link_connected(struct link *k, int up)
{
	k->up = up;
	k->to_up.from = k->to_web.to = k->web;
	k->to_up.to = k->to_web.from = up;
	if (loop_watch(k->loop, up, k, true) < 0) {
		link_refuse(k, EDGE_UNAVAILABLE);
		return;
	}
	link_state(k, LINK_STREAM);
	k->try_up = true;                             /* an answer makes an event */
	link_go(k);
}

/* ---- events ---- */

static void go_linger(struct link *k)
{
	ssize_t n;

	for (size_t turn = 0; turn < TURN_BYTES; turn += (size_t)n) {
		n = recv(k->web, k->loop->scratch, SCRATCH_BYTES, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			link_drop(k);
			return;
		}
	}
	loop_ready(k->loop, k);
}

void link_go(struct link *k)
{
	if (k->state == LINK_HEAD)
		read_head(k);
	else if (k->state == LINK_STREAM)
		stream_go(k);
	else if (k->state == LINK_SKIP)
		go_skip(k);
	else if (k->state == LINK_LINGER)
		go_linger(k);
}

/* A web server that ends its half of a request has hung up: it never half-closes one. Only tunnels are different. */
static bool hung_up(const struct link *k, uint32_t events)
{
	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		return true;
	return (events & EPOLLRDHUP) != 0 && !(k->state == LINK_STREAM && k->tunnel);
}

/* Which way bytes may go after such events. */
static void note_ways(struct link *k, uint32_t events, bool up)
{
	bool ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;

	if (ended || (events & (up ? EPOLLIN : EPOLLOUT)) != 0)
		k->try_web = true;
	if (ended || (events & (up ? EPOLLOUT : EPOLLIN)) != 0)
		k->try_up = true;
	if (up && ended)
		k->up_over = true;
}

void link_event(struct link *k, uint32_t events, bool up)
{
	note_ways(k, events, up);
	if (up || !hung_up(k, events))
		link_go(k);
	else if (k->state == LINK_ASKING)
		k->web_gone = true;                   /* the job still uses it */
	else if (k->state != LINK_DEAD)
		link_drop(k);
}

void link_timeout(struct link *k)
{
	if (k->state == LINK_HEAD && k->in_len > 0)
		bad_request(k, 408, "request head did not arrive in time");
	else if (k->state == LINK_SKIP)
		say(k);
	else
		link_drop(k);
}
