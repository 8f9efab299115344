#include "config.h"

#include "context.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/when.h"

struct turn {
	struct turn *next;
	int wake;                        /* eventfd */
	bool ours;
};

void contexts_init(struct contexts *t, const char *run_dir)
{
	memset(t, 0, sizeof *t);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->made, NULL);
	snprintf(t->run_dir, sizeof t->run_dir, "%s", run_dir);
}

/* ---- references (with the lock) ---- */

static void put(struct context *c)
{
	if (--c->refs > 0)
		return;
	json_object_put(c->globals);
	free(c);
}

void context_unref(struct contexts *t, struct context *c)
{
	pthread_mutex_lock(&t->lock);
	put(c);
	pthread_mutex_unlock(&t->lock);
}

/* Out of the list, with its reference. */
static void unlist(struct contexts *t, struct context *c)
{
	for (struct context **at = &t->list; *at != NULL; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			t->n--;
			c->gone = true;
			put(c);
			return;
		}
}

/* ---- turns ---- */

static void append(struct context *c, struct turn *me, bool first)
{
	struct turn **at = &c->waiting;

	while (!first && *at != NULL)
		at = &(*at)->next;
	me->next = *at;
	*at = me;
}

static void withdraw(struct context *c, struct turn *me)
{
	struct turn **at = &c->waiting;

	while (*at != NULL && *at != me)
		at = &(*at)->next;
	if (*at == me)
		*at = me->next;
}

static void pass_on(struct context *c)
{
	struct turn *next = c->waiting;

	c->busy = next != NULL;
	if (next == NULL)
		return;
	c->waiting = next->next;
	next->ours = true;
	eventfd_write(next->wake, 1);
}

void context_leave(struct contexts *t, struct context *c)
{
	pthread_mutex_lock(&t->lock);
	pass_on(c);
	pthread_mutex_unlock(&t->lock);
}

/* False: given up. */
static bool wait_turn(struct turn *me, int fd, int idle_s, bool (*idle)(void *ctx), void *ctx)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = me->wake, .events = POLLIN }, { .fd = fd, .events = POLLRDHUP } };
		int n = poll(p, 2, idle_s > 0 ? idle_s * 1000 : -1);

		if (p[0].revents != 0)
			return true;
		if (n > 0 && p[1].revents != 0)
			return false;
		if (n == 0 && !idle(ctx))
			return false;
	}
}

/* first: before all who wait, and of a deleted one too. */
static int enter(struct contexts *t, struct context *c, bool first, int fd, int idle_s, bool (*idle)(void *ctx), void *ctx)
{
	struct turn me = { .wake = eventfd(0, EFD_CLOEXEC) };
	bool kept = true;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	if (c->busy) {
		append(c, &me, first);
		pthread_mutex_unlock(&t->lock);
		kept = wait_turn(&me, fd, idle_s, idle, ctx);
		pthread_mutex_lock(&t->lock);
	} else {
		me.ours = c->busy = true;
	}
	if (!kept || (c->gone && !first)) {
		rc = kept ? -2 : -1;
		if (me.ours)
			pass_on(c);
		else
			withdraw(c, &me);
	}
	pthread_mutex_unlock(&t->lock);
	if (me.wake >= 0)
		close(me.wake);
	return rc;
}

int context_enter(struct contexts *t, struct context *c, int fd, int idle_s, bool (*idle)(void *ctx), void *ctx)
{
	return enter(t, c, false, fd, idle_s, idle, ctx);
}

/* ---- kernels ---- */

static void set_kernel(struct contexts *t, struct context *c, struct kernel *k)
{
	struct kernel *old;

	pthread_mutex_lock(&t->lock);
	old = c->kernel;
	c->kernel = k;
	pthread_mutex_unlock(&t->lock);
	kernel_end(old);
	json_object_put(c->globals);
	c->globals = NULL;
}

void context_drop_kernel(struct contexts *t, struct context *c)
{
	set_kernel(t, c, NULL);
}

/* A default one is to be had in images without that directory, too. */
static const char *home(void)
{
	struct stat st;

	return stat(HOME, &st) == 0 && S_ISDIR(st.st_mode) ? HOME : "/";
}

/* Where a context is to stand: as a kernel that stands at home takes what it is told to change to. False: too long. */
static bool place(const char *cwd, char out[PATH_MAX])
{
	int n;

	if (cwd[0] == '/')
		n = snprintf(out, PATH_MAX, "%s", cwd);
	else if (cwd[0] == '~' && (cwd[1] == '\0' || cwd[1] == '/'))
		n = snprintf(out, PATH_MAX, "%s%s", home(), cwd + 1);
	else
		n = snprintf(out, PATH_MAX, "%s/%s", home(), cwd);
	return n < PATH_MAX;
}

/* In its directory. A context that has been there before may outlive that. */
static int start(struct contexts *t, struct context *c, struct kernel **k, struct err *e)
{
	char dir[PATH_MAX];
	int rc;

	if (!place(c->cwd, dir))
		return err_set(e, ERR_NOT_FOUND, "Failed to set working directory: its path is too long");
	rc = kernel_start(c->lang, c->language, t->run_dir, dir, k, e);
	if (rc < 0 && e->kind == ERR_NOT_FOUND && c->ready)
		rc = kernel_start(c->lang, c->language, t->run_dir, home(), k, e);
	return rc;
}

int context_revive(struct contexts *t, struct context *c, struct err *e)
{
	struct kernel *k;

	if (c->kernel != NULL && kernel_alive(c->kernel))
		return 0;
	set_kernel(t, c, NULL);
	if (start(t, c, &k, e) < 0)
		return -1;
	set_kernel(t, c, k);
	return 0;
}

/* Whoever holds the turn sees it. With the lock. */
static void kill_kernel(const struct context *c)
{
	if (c->kernel != NULL && kernel_alive(c->kernel))
		kill(-c->kernel->pid, SIGKILL);
}

/* ---- making ---- */

static struct context *add(struct contexts *t, const char *language, const char *cwd, bool is_default, struct err *e)
{
	struct context *c = t->n < CONTEXTS_MAX ? calloc(1, sizeof *c) : NULL, **at = &t->list;

	if (c == NULL) {
		err_set(e, ERR_LIMIT, "Failed to create context: there are %d already", CONTEXTS_MAX);
		return NULL;
	}
	random_uuid(c->id);
	snprintf(c->language, sizeof c->language, "%s", language);
	snprintf(c->cwd, sizeof c->cwd, "%s", cwd);
	c->lang = language_find(language);
	c->is_default = is_default;
	c->refs = 2;                     /* the list's and the caller's */
	c->busy = true;                  /* its maker has the turn */
	while (*at != NULL)
		at = &(*at)->next;
	*at = c;
	t->n++;
	return c;
}

/* With the lock, which is dropped meanwhile: start the kernel of a context just added. */
static int bring_up(struct contexts *t, struct context *c, struct err *e)
{
	int rc;

	pthread_mutex_unlock(&t->lock);
	rc = context_revive(t, c, e);
	pthread_mutex_lock(&t->lock);
	if (rc < 0)
		unlist(t, c);
	c->ready = rc == 0;
	pass_on(c);
	pthread_cond_broadcast(&t->made);
	if (rc < 0)
		put(c);
	return rc;
}

int context_make(struct contexts *t, const char *language, const char *cwd, struct context **out, struct err *e)
{
	struct context *c;
	int rc = -1;

	pthread_mutex_lock(&t->lock);
	c = add(t, language, cwd != NULL ? cwd : home(), false, e);
	if (c != NULL)
		rc = bring_up(t, c, e);
	if (rc == 0)
		*out = c;
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static struct context *find_default(struct contexts *t, const char *language)
{
	struct context *c = t->list;

	while (c != NULL && (!c->is_default || strcmp(c->language, language) != 0))
		c = c->next;
	return c;
}

int context_default(struct contexts *t, const char *language, struct context **out, struct err *e)
{
	struct context *c;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while ((c = find_default(t, language)) != NULL && !c->ready)
		pthread_cond_wait(&t->made, &t->lock);
	if (c != NULL)
		c->refs++;
	else
		c = add(t, language, home(), true, e);
	/* a new one, or one that was only announced */
	if (c != NULL && !c->ready)
		rc = bring_up(t, c, e);
	else if (c != NULL && c->kernel == NULL && !c->busy) {
		c->busy = true;
		c->ready = false;
		rc = bring_up(t, c, e);
	}
	if (c == NULL)
		rc = -1;
	else if (rc == 0)
		*out = c;
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int context_announce(struct contexts *t, const char *language, struct err *e)
{
	struct context *c;

	pthread_mutex_lock(&t->lock);
	c = add(t, language, home(), true, e);
	if (c != NULL) {
		c->ready = true;
		pass_on(c);
		put(c);
	}
	pthread_mutex_unlock(&t->lock);
	return c != NULL ? 0 : -1;
}

struct context *context_get(struct contexts *t, const char *id)
{
	struct context *c;

	pthread_mutex_lock(&t->lock);
	c = t->list;
	while (c != NULL && (!c->ready || strcmp(c->id, id) != 0))
		c = c->next;
	if (c != NULL)
		c->refs++;
	pthread_mutex_unlock(&t->lock);
	return c;
}

void contexts_each(struct contexts *t, void (*fn)(void *ctx, const struct context *c), void *ctx)
{
	pthread_mutex_lock(&t->lock);
	for (const struct context *c = t->list; c != NULL; c = c->next)
		if (c->ready)
			fn(ctx, c);
	pthread_mutex_unlock(&t->lock);
}

/* ---- restarting and deleting ---- */

int context_restart(struct contexts *t, struct context *c, struct err *e)
{
	int rc;

	pthread_mutex_lock(&t->lock);
	c->restarting++;
	kill_kernel(c);
	pthread_mutex_unlock(&t->lock);
	enter(t, c, true, -1, 0, NULL, NULL);
	context_drop_kernel(t, c);
	rc = c->gone ? err_set(e, ERR_NOT_FOUND, "Context %s not found", c->id) : context_revive(t, c, e);
	context_leave(t, c);
	pthread_mutex_lock(&t->lock);
	c->restarting--;
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void context_remove(struct contexts *t, struct context *c)
{
	pthread_mutex_lock(&t->lock);
	c->refs++;
	unlist(t, c);
	kill_kernel(c);
	for (struct turn *w = c->waiting; w != NULL; w = w->next)
		eventfd_write(w->wake, 1);           /* they see that it is gone */
	pthread_mutex_unlock(&t->lock);
	enter(t, c, true, -1, 0, NULL, NULL);
	context_drop_kernel(t, c);
	context_leave(t, c);
	context_unref(t, c);
}
