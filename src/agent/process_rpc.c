/* The methods of process.Process (guest.md 4.1). */
#include "config.h"

#include "process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "hutch/when.h"

#define CONFIG_MAX (RPC_BODY_MAX * 2)

/* ---- Start ---- */

static int read_tag(json_object *in, struct proc *p, struct err *e)
{
	const char *tag = NULL;

	if (json_get_str(in, "tag", TAG_MAX, &tag, e) < 0)
		return -1;
	if (tag != NULL && (p->tag = strdup(tag)) == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	return 0;
}

static int describe(json_object *in, struct proc *p, struct err *e)
{
	struct buf config;

	buf_init(&config, CONFIG_MAX);
	launch_config(json_object_object_get(in, "process"), &config);
	p->config_n = config.len;
	p->config = buf_take(&config);
	buf_release(&config);
	if (p->config == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	return read_tag(in, p, e);
}

/* A row for the process and the process itself; f follows it. NULL with the error. */
static struct proc *launch(struct procs *t, struct rpc_stream_req *s, const struct spawn *spawn, struct follower *f, struct err *e)
{
	struct proc *p;
	int rc;

	pthread_mutex_lock(&t->lock);
	p = proc_add(t);
	pthread_mutex_unlock(&t->lock);
	if (p == NULL) {
		err_set(e, ERR_LIMIT, "there are %d processes already", PROCS_MAX);
		return NULL;
	}
	rc = describe(s->in, p, e);
	if (rc == 0)
		rc = spawn_run(spawn, p, e);
	pthread_mutex_lock(&t->lock);
	if (rc == 0) {
		note_started(t, p, spawn);      /* its end is noted later: it is not before it has started */
		proc_started(t, p, f, s->deadline_us);
	} else {
		proc_forget(t, p);
	}
	pthread_mutex_unlock(&t->lock);
	return rc == 0 ? p : NULL;
}

static void refuse_stream(struct h1_req *r, const struct err *e)
{
	if (stream_begin(r) == 0)
		stream_end(r, e);
}

/* Leave the process; it goes on. */
static void part(struct procs *t, struct proc *p, struct follower *f)
{
	pthread_mutex_lock(&t->lock);
	proc_unfollow(t, p, f);
	proc_unref(t, p);
	pthread_mutex_unlock(&t->lock);
}

static void start(struct agent *a, struct rpc_stream_req *s)
{
	struct err e = { 0 };
	struct follower f;
	struct launch *l = malloc(sizeof *l);
	struct proc *p = NULL;
	bool gap;
	int rc;

	if (l == NULL || follower_init(&f, &e) < 0) {
		err_set(&e, ERR_INTERNAL, "out of memory or descriptors");
		refuse_stream(s->r, &e);
		free(l);
		return;
	}
	rc = launch_read(a, s->user, s->in, l, &e);
	gap = rc == 0 && !light_admits(a, l);
	if (rc == 0 && !gap)
		p = launch(a->procs, s, &l->spawn, &f, &e);
	launch_release(l);
	free(l);
	json_object_put(s->in);         /* the command may run for hours, and its text be long */
	s->in = NULL;
	if (p != NULL) {
		follow(a->procs, s, p, &f, true);
		part(a->procs, p, &f);
	} else if (gap) {
		light_gap(s->r);
	} else {
		refuse_stream(s->r, &e);
	}
	follower_release(&f);
}

/* ---- Connect ---- */

static void connect_to(struct agent *a, struct rpc_stream_req *s)
{
	struct procs *t = a->procs;
	struct err e = { 0 };
	struct follower f;
	struct proc *p;

	if (follower_init(&f, &e) < 0) {
		refuse_stream(s->r, &e);
		return;
	}
	pthread_mutex_lock(&t->lock);
	p = proc_select(t, s->in, true, &e);
	if (p != NULL)
		proc_follow(p, &f);             /* before the start event: what comes after it must not be missed */
	pthread_mutex_unlock(&t->lock);
	if (p != NULL) {
		follow(t, s, p, &f, false);
		part(t, p, &f);
	} else {
		refuse_stream(s->r, &e);
	}
	follower_release(&f);
}

/* ---- unary ---- */

static int list(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	struct procs *t = a->procs;

	(void)u;
	(void)in;
	(void)e;
	jw_key(out, "processes");
	jw_open(out, '[');
	pthread_mutex_lock(&t->lock);
	for (const struct proc *p = t->list; p != NULL; p = p->next) {
		if (!p->started || p->ended)
			continue;
		jw_open(out, '{');
		jw_key(out, "config");
		jw_raw(out, p->config, p->config_n);
		jw_kint(out, "pid", p->pid);
		if (p->tag != NULL)
			jw_kstr(out, "tag", p->tag);
		jw_close(out, '}');
	}
	pthread_mutex_unlock(&t->lock);
	jw_close(out, ']');
	return 0;
}

static int send_input(struct agent *a, struct rpc_stream_req *s, struct jw *out, struct err *e)
{
	struct procs *t = a->procs;
	struct proc *p;
	int rc;

	(void)out;
	pthread_mutex_lock(&t->lock);
	p = proc_select(t, s->in, false, e);
	pthread_mutex_unlock(&t->lock);
	if (p == NULL)
		return -1;
	rc = input_write(t, p, s->in, s->r->fd, s->deadline_us, e);
	pthread_mutex_lock(&t->lock);
	proc_unref(t, p);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

/* Methods that need the process under the lock and nothing else. */
typedef int on_process(struct procs *t, struct proc *p, json_object *in, struct err *e);

static int with_process(struct agent *a, json_object *in, on_process *fn, struct err *e)
{
	struct procs *t = a->procs;
	struct proc *p;
	int rc = -1;

	pthread_mutex_lock(&t->lock);
	p = proc_select(t, in, false, e);
	if (p != NULL) {
		rc = fn(t, p, in, e);
		proc_unref(t, p);
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static int close_in(struct procs *t, struct proc *p, json_object *in, struct err *e)
{
	(void)t;
	(void)in;
	if (p->pty)
		return rpc_fail(e, ERR_INVALID, "unknown", "the stdin of a terminal cannot be closed: send Ctrl+D (0x04)");
	proc_close_in(p);
	return 0;
}

static int close_stdin(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	(void)u;
	(void)out;
	return with_process(a, in, close_in, e);
}

/* The number of the enum's value, by name or number. 0: unspecified. */
static int read_signal(json_object *in, int64_t *sig, struct err *e)
{
	json_object *v = NULL;
	const char *name;

	*sig = 0;
	if (!json_object_object_get_ex(in, "signal", &v) || !json_object_is_type(v, json_type_string))
		return json_get_int(in, "signal", INT32_MIN, INT32_MAX, sig, e) < 0 ? -1 : 0;
	name = json_object_get_string(v);
	if (strcmp(name, "SIGNAL_SIGKILL") == 0)
		*sig = SIGKILL;
	else if (strcmp(name, "SIGNAL_SIGTERM") == 0)
		*sig = SIGTERM;
	else if (strcmp(name, "SIGNAL_UNSPECIFIED") != 0)
		return err_set(e, ERR_INVALID, "signal has no value \"%.64s\"", name);
	return 0;
}

static int signal_it(struct procs *t, struct proc *p, json_object *in, struct err *e)
{
	int64_t sig;

	if (read_signal(in, &sig, e) < 0)
		return -1;
	if (sig != SIGKILL && sig != SIGTERM)
		return rpc_fail(e, ERR_INVALID, "unimplemented", "signal %lld is not supported", (long long)sig);
	if (proc_signal(t, p, (int)sig, e) < 0)
		return -1;
	if (sig == SIGKILL)
		proc_await_end(t, p);   /* so that it is gone for who asks next */
	return 0;
}

static int send_signal(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	(void)u;
	(void)out;
	return with_process(a, in, signal_it, e);
}

static int resize(struct procs *t, struct proc *p, json_object *in, struct err *e)
{
	json_object *pty = NULL, *size = NULL;
	uint32_t cols = 0, rows = 0;
	struct winsize ws = { 0 };

	(void)t;
	if (json_get_obj(in, "pty", &pty, e) < 0 || (pty != NULL && json_get_obj(pty, "size", &size, e) < 0))
		return -1;
	if (pty == NULL)
		return 0;
	if (size != NULL && (rpc_get_u32(size, "cols", &cols, e) < 0 || rpc_get_u32(size, "rows", &rows, e) < 0))
		return -1;
	ws.ws_col = cols < UINT16_MAX ? (unsigned short)cols : UINT16_MAX;
	ws.ws_row = rows < UINT16_MAX ? (unsigned short)rows : UINT16_MAX;
	if (!p->pty || p->out[0].fd < 0)
		return err_set(e, ERR_INTERNAL, "the process has no terminal");
	return ioctl(p->out[0].fd, TIOCSWINSZ, &ws) < 0 ? err_sys(e, "resize") : 0;
}

static int update(struct agent *a, const struct user *u, json_object *in, struct jw *out, struct err *e)
{
	(void)u;
	(void)out;
	return with_process(a, in, resize, e);
}

/* ---- StreamInput ---- */

/* Take messages until the end. *p: the process that the first one chose, referenced. */
static int take_input(struct procs *t, struct rpc_stream_req *s, struct proc **p, struct err *e)
{
	json_object *msg = NULL, *event = NULL;
	int rc;

	while ((rc = stream_next(s->r, &msg, e)) == 1) {
		if (json_get_obj(msg, "start", &event, e) == 1 && *p == NULL) {
			pthread_mutex_lock(&t->lock);
			*p = proc_select(t, event, false, e);
			pthread_mutex_unlock(&t->lock);
			rc = *p == NULL ? -1 : 0;
		} else if (json_get_obj(msg, "data", &event, e) == 1) {
			rc = *p != NULL ? input_write(t, *p, event, s->r->fd, s->deadline_us, e) :
				rpc_fail(e, ERR_INVALID, "unimplemented", "the first message must be start");
		} else {
			rc = 0;         /* keepalive */
		}
		json_object_put(msg);
		if (rc == 0 && s->deadline_us != 0 && boot_us() >= s->deadline_us)
			rc = err_set(e, ERR_TIMEOUT, "context deadline exceeded");
		if (rc < 0)
			return -1;
	}
	return rc;
}

static void stream_input(struct agent *a, struct rpc_stream_req *s)
{
	struct procs *t = a->procs;
	struct err e = { 0 };
	struct proc *p = NULL;
	int rc = take_input(t, s, &p, &e);

	if (p != NULL) {
		pthread_mutex_lock(&t->lock);
		proc_unref(t, p);
		pthread_mutex_unlock(&t->lock);
	}
	if (rc < 0)
		refuse_stream(s->r, &e);
	else if (stream_begin(s->r) == 0 && stream_send(s->r, "{}", 2) == 0)
		stream_end(s->r, NULL);
}

const struct rpc process_rpcs[] = {
	{ .path = "/process.Process/Start", .stream = start },
	{ .path = "/process.Process/Connect", .stream = connect_to },
	{ .path = "/process.Process/List", .unary = list },
	{ .path = "/process.Process/SendInput", .waiting = send_input },
	{ .path = "/process.Process/CloseStdin", .unary = close_stdin },
	{ .path = "/process.Process/SendSignal", .unary = send_signal },
	{ .path = "/process.Process/Update", .unary = update },
	{ .path = "/process.Process/StreamInput", .upload = stream_input },
	{ 0 },
};
