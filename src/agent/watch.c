/* WatchDir, CreateWatcher, GetWatcherEvents, RemoveWatcher (guest.md 5.4). */
#include "config.h"

#include "watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/when.h"

#define POLLED_MAX 256       /* they live until they are removed */
#define ID_LEN 16

struct watch {
	struct watch *next;
	struct watcher *w;
	char id[ID_LEN + 1];         /* "" for a stream */
	int wake;                    /* of a stream: eventfd, told when another thread has drained the watcher */
};

struct watches {
	pthread_mutex_t lock;        /* over all below and every watcher in the list */
	struct watch *list;
	size_t polled;
	int epoll;                   /* inotify descriptors of the polled ones; -1 until there is one */
};

void watch_init(struct agent *a)
{
	struct watches *ws = calloc(1, sizeof *ws);

	if (ws == NULL)
		abort();
	pthread_mutex_init(&ws->lock, NULL);
	ws->epoll = -1;
	a->watches = ws;
}

static void link_watch(struct watches *ws, struct watch *x)
{
	x->next = ws->list;
	ws->list = x;
}

static void unlink_watch(struct watches *ws, struct watch *x)
{
	struct watch **at = &ws->list;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
}

static void watch_free(struct watch *x)
{
	watcher_free(x->w);
	if (x->wake >= 0)
		close(x->wake);
	free(x);
}

/* With the lock held. */
static void drain(struct watch *x)
{
	size_t had = x->w->events.len;
	bool alive = x->w->fd >= 0;

	watcher_drain(x->w);
	if (x->wake >= 0 && (x->w->events.len != had || alive != (x->w->fd >= 0)))
		eventfd_write(x->wake, 1);
}

void watch_poke(struct agent *a)
{
	struct watches *ws = a->watches;

	pthread_mutex_lock(&ws->lock);
	for (struct watch *x = ws->list; x != NULL; x = x->next)
		drain(x);
	pthread_mutex_unlock(&ws->lock);
}

/* ---- the common request ---- */

static bool on_network(const char *path)
{
	static const unsigned long kinds[] = { 0x6969 /* NFS */, 0xff534d42 /* CIFS */, 0x517b /* SMB */, 0xfe534d42 /* SMB2 */,
					       0x65735546 /* FUSE */ };
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (((unsigned long)fs.f_type & 0xffffffffUL) == kinds[i])
			return true;
	return false;
}

static int get_flag(json_object *in, const char *json_name, const char *proto_name, bool *out, struct err *e)
{
	const char *name = json_object_object_get_ex(in, json_name, NULL) ? json_name : proto_name;

	return json_get_bool(in, name, out, e);
}

static struct watch *open_watch(struct agent *a, const struct user *u, json_object *in, struct err *e)
{
	bool recursive = false, include_entry = false, network = false;
	char path[PATH_MAX];
	struct watch *x;

	if (rpc_path(a, u, in, "path", path, e) < 0 || json_get_bool(in, "recursive", &recursive, e) < 0 ||
	    get_flag(in, "includeEntry", "include_entry", &include_entry, e) < 0 ||
	    get_flag(in, "allowNetworkMounts", "allow_network_mounts", &network, e) < 0)
		return NULL;
	if (!network && on_network(path)) {
		rpc_fail(e, ERR_INVALID, "invalid_argument", "cannot watch path '%.300s': it is on a network file system; "
			 "allowNetworkMounts permits that, but events may be missing", path);
		return NULL;
	}
	x = calloc(1, sizeof *x);
	if (x == NULL) {
		err_set(e, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	x->wake = -1;
	x->w = watcher_new(path, recursive, include_entry, e);
	if (x->w == NULL) {
		free(x);
		return NULL;
	}
	return x;
}

/* ---- WatchDir ---- */

/* Send the events of one drain as envelopes in one write. */
static int send_events(struct h1_req *r, struct buf *lines)
{
	static const char before[] = "{\"filesystem\":";
	struct buf out, one;
	int rc;

	buf_init(&out, SIZE_MAX / 2);
	buf_init(&one, SIZE_MAX / 2);
	for (const char *at = buf_str(lines), *end = at + lines->len, *nl; at < end; at = nl + 1) {
		nl = memchr(at, '\n', (size_t)(end - at));
		buf_reset(&one);
		buf_add(&one, before, sizeof before - 1);
		buf_add(&one, at, (size_t)(nl - at));
		buf_addc(&one, '}');
		envelope_add(&out, 0, buf_str(&one), one.len);
	}
	rc = buf_failed(&out) || buf_failed(&one) ? -1 : h1_write(r, out.p, out.len);
	buf_release(&out);
	buf_release(&one);
	return rc;
}

/* Take what there is. 1: events were sent, 0: none, -1: the stream is over (ended or cut). */
static int pump(struct watches *ws, struct watch *x, struct h1_req *r)
{
	struct err error;
	struct buf lines;
	bool failed;
	int rc = 0;

	pthread_mutex_lock(&ws->lock);
	failed = watcher_drain(x->w) < 0;
	error = x->w->error;
	lines = x->w->events;
	buf_init(&x->w->events, lines.max);
	pthread_mutex_unlock(&ws->lock);
	if (lines.len != 0)
		rc = send_events(r, &lines) < 0 ? -1 : 1;
	buf_release(&lines);
	if (rc < 0) {
		h1_abort(r);
		return -1;
	}
	if (failed) {
		stream_end(r, &error);
		return -1;
	}
	return rc;
}

/* Wait for events or until a time. False: the client is gone. */
static bool wait_for(struct watches *ws, struct watch *x, struct h1_req *r, int64_t until)
{
	int64_t left = until - boot_us();
	struct pollfd p[3] = { { .events = POLLIN }, { .fd = x->wake, .events = POLLIN }, { .fd = r->fd, .events = POLLRDHUP } };
	eventfd_t count;

	pthread_mutex_lock(&ws->lock);
	p[0].fd = x->w->fd;
	pthread_mutex_unlock(&ws->lock);
	poll(p, 3, left <= 0 ? 0 : left / US_PER_MS > 3600000 ? 3600000 : (int)(left / US_PER_MS) + 1);
	if (p[1].revents != 0)
		eventfd_read(x->wake, &count);
	return p[2].revents == 0;
}

static void pump_all(struct watches *ws, struct watch *x, struct rpc_stream_req *s)
{
	static const char ping[] = "{\"keepalive\":{}}";
	int64_t period = (s->keepalive_s > 0 ? s->keepalive_s : 90) * US_PER_S, quiet_until = boot_us() + period;

	for (;;) {
		int64_t until = s->deadline_us != 0 && s->deadline_us < quiet_until ? s->deadline_us : quiet_until;
		int got;

		if (!wait_for(ws, x, s->r, until)) {
			h1_abort(s->r);
			return;
		}
		got = pump(ws, x, s->r);
		if (got < 0)
			return;
		if (s->deadline_us != 0 && boot_us() >= s->deadline_us) {
			struct err e;

			rpc_fail(&e, ERR_TIMEOUT, "deadline_exceeded", "context deadline exceeded");
			stream_end(s->r, &e);
			return;
		}
		if (got == 0 && boot_us() >= quiet_until && stream_send(s->r, ping, sizeof ping - 1) < 0) {
			h1_abort(s->r);
			return;
		}
		if (got == 1 || boot_us() >= quiet_until)
			quiet_until = boot_us() + period;
	}
}

void watch_dir(struct agent *a, struct rpc_stream_req *s)
{
	static const char start[] = "{\"start\":{}}";
	struct watches *ws = a->watches;
	struct err e;
	struct watch *x = open_watch(a, s->user, s->in, &e);

	if (stream_begin(s->r) < 0) {
		if (x != NULL)
			watch_free(x);
		return;
	}
	if (x != NULL && (x->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) {
		rpc_fail(&e, ERR_LIMIT, "resource_exhausted", "cannot watch: %s", strerror(errno));
		watch_free(x);
		x = NULL;
	}
	if (x == NULL) {
		stream_end(s->r, &e);
		return;
	}
	pthread_mutex_lock(&ws->lock);
	link_watch(ws, x);
	pthread_mutex_unlock(&ws->lock);
	if (stream_send(s->r, start, sizeof start - 1) == 0)
		pump_all(ws, x, s);
	else
		h1_abort(s->r);
	pthread_mutex_lock(&ws->lock);
	unlink_watch(ws, x);
	pthread_mutex_unlock(&ws->lock);
	watch_free(x);
}

/* ---- polled watchers ---- */

/* Reads along, so that a new subdirectory is watched before much happens in it. */
static void *reader(void *arg)
{
	struct agent *a = arg;

	for (;;) {
		struct epoll_event ev[8];

		if (epoll_wait(a->watches->epoll, ev, 8, -1) > 0)
			watch_poke(a);
	}
	return NULL;
}

/* With the lock held. */
static int start_reader(struct agent *a, struct err *e)
{
	struct watches *ws = a->watches;

	if (ws->epoll >= 0)
		return 0;
	ws->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (ws->epoll < 0)
		return err_sys(e, "epoll_create1");
	if (agent_thread(reader, a, e) == 0)
		return 0;
	close(ws->epoll);
	ws->epoll = -1;
	return -1;
}

static int add_polled(struct agent *a, struct watch *x, struct err *e)
{
	struct watches *ws = a->watches;
	struct epoll_event ev = { .events = EPOLLIN };

	if (ws->polled >= POLLED_MAX)
		return rpc_fail(e, ERR_LIMIT, "resource_exhausted", "%d watchers are open; remove some", POLLED_MAX);
	if (start_reader(a, e) < 0)
		return -1;
	if (epoll_ctl(ws->epoll, EPOLL_CTL_ADD, x->w->fd, &ev) < 0)
		return err_sys(e, "epoll_ctl");
	random_id(x->id, ID_LEN);
	ws->polled++;
	link_watch(ws, x);
	return 0;
}

int watcher_create(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	struct watch *x = open_watch(a, u, in, e);
	int rc;

	if (x == NULL)
		return -1;
	pthread_mutex_lock(&a->watches->lock);
	rc = add_polled(a, x, e);
	if (rc == 0)
		jw_kstr(out, "watcherId", x->id);
	pthread_mutex_unlock(&a->watches->lock);
	if (rc < 0)
		watch_free(x);
	return rc;
}

/* With the lock held. */
static struct watch *find_polled(struct watches *ws, json_object *in, struct err *e)
{
	const char *key = json_object_object_get_ex(in, "watcherId", NULL) ? "watcherId" : "watcher_id", *id = "";
	struct watch *x = ws->list;

	if (json_get_str(in, key, 256, &id, e) < 0)
		return NULL;
	while (x != NULL && (x->id[0] == '\0' || strcmp(x->id, id) != 0))
		x = x->next;
	if (x == NULL)
		rpc_fail(e, ERR_NOT_FOUND, "not_found", "watcher with id '%.64s' not found", id);
	return x;
}

static void write_events(struct jw *out, struct buf *lines)
{
	jw_key(out, "events");
	jw_open(out, '[');
	for (const char *at = buf_str(lines), *end = at + lines->len, *nl; at < end; at = nl + 1) {
		nl = memchr(at, '\n', (size_t)(end - at));
		jw_raw(out, at, (size_t)(nl - at));
	}
	jw_close(out, ']');
}

int watcher_events(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	struct watch *x;
	int rc = -1;

	(void)u;
	pthread_mutex_lock(&a->watches->lock);
	x = find_polled(a->watches, in, e);
	if (x != NULL && watcher_drain(x->w) < 0) {
		*e = x->w->error;
	} else if (x != NULL) {
		write_events(out, &x->w->events);
		buf_release(&x->w->events);
		rc = 0;
	}
	pthread_mutex_unlock(&a->watches->lock);
	return rc;
}

int watcher_remove(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	struct watch *x;

	(void)u;
	(void)out;
	pthread_mutex_lock(&a->watches->lock);
	x = find_polled(a->watches, in, e);
	if (x != NULL) {
		unlink_watch(a->watches, x);
		a->watches->polled--;
	}
	pthread_mutex_unlock(&a->watches->lock);
	if (x == NULL)
		return -1;
	watch_free(x);
	return 0;
}
