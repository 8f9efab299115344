/* Claim, release, ports, journals: the calls of the API that act on machines. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/log.h"
#include "hutch/envd.h"
#include "hutch/when.h"
#include "node.h"

#define PORT_MS 5000
#define JOURNAL_MS 200              /* who reads logs waits no longer for a guest that does not answer */
#define CLAIM_TRIES 3

/* ---- who serves the claim (with the lock held) ---- */

/* Room for one more machine: a ready one of another template gives way. 1 there is room, 0 *victim must be ended first, -1 full. */
static int make_room(struct node *n, struct machine **victim)
{
	*victim = NULL;
	if (n->machines < (uint32_t)n->conf->max_sandboxes)
		return 1;
	for (size_t i = 0; i < n->npools; i++) {
		*victim = pool_pop(n->pool[i]);
		if (*victim != NULL) {
			(*victim)->refs++;
			return 0;
		}
	}
	return -1;
}

/* The machine of that ref, waited for while another call makes it. Referenced. NULL: there is none. */
static struct machine *find_ref(struct node *n, const char *ref)
{
	struct hnode *x;

	while ((x = htab_find(&n->refs, ref)) != NULL) {
		struct machine *m = (struct machine *)((char *)x - offsetof(struct machine, by_ref));

		m->refs++;
		if (m->phase == PHASE_CLAIMED)
			return m;
		while (m->phase == PHASE_STARTING || m->phase == PHASE_CLAIMING || m->phase == PHASE_CHANGING)
			pthread_cond_wait(&n->changed, &n->lock);
		machine_put(n, m);
	}
	return NULL;
}

/* What a claim asks for. */
struct want {
	const char *template, *ref, *init, *network;
	const struct shape *shape;   /* of the checkpoint; NULL: the template's */
	int image;                   /* of the checkpoint, or -1 */
};

/* A new machine, in the place of a ready one if need be. */
static struct machine *enter(struct node *n, const struct want *w, const struct shape *shape, struct err *e)
{
	struct machine *m, *victim;
	struct err ignored;
	int image = w->image >= 0 ? fcntl(w->image, F_DUPFD_CLOEXEC, 3) : -1, room;

	if (w->image >= 0 && image < 0) {
		err_sys(e, "image of a checkpoint");
		return NULL;
	}
	room = make_room(n, &victim);
	m = room >= 0 ? machine_new(n, shape, w->ref) : NULL;
	if (m != NULL) {
		m->image = image;
	} else {
		err_set(e, ERR_LIMIT, "node claim quota reached");
		if (image >= 0)
			close(image);
	}
	if (victim != NULL) {
		pthread_mutex_unlock(&n->lock);
		machine_end(n, victim, &ignored);
		machine_unref(n, victim);
		pthread_mutex_lock(&n->lock);
	}
	return m;
}

/* Take a ready machine or enter a new one; *cold tells which. */
static struct machine *take(struct node *n, const struct want *w, bool *cold, struct err *e)
{
	struct pool *p = w->shape == NULL ? pool_find(n, w->template) : NULL;
	struct machine *m = p != NULL ? pool_pop(p) : NULL;

	*cold = m == NULL;
	if (w->shape == NULL && p == NULL) {
		err_set(e, ERR_NOT_FOUND, "unknown template");
		return NULL;
	}
	if (m == NULL)
		return enter(n, w, w->shape != NULL ? w->shape : &p->shape, e);
	m->refs++;
	machine_set_ref(n, m, w->ref, wall_us());
	machine_phase(n, m, PHASE_CLAIMING);
	return m;
}

/* init.hostname is not taken over: the guest's host name is one that its /etc/hosts resolves, as sudo and many a library want.
 * Kept for a start on the same disk; only the first claim of a reference, which has the machine to itself, may set it. */
static int keep_init(struct node *n, struct machine *m, const char *line, struct err *e)
{
	char *copy = strdup(line), *old;

	if (copy == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	pthread_mutex_lock(&n->lock);
	old = m->st.init;
	m->st.init = copy;
	pthread_mutex_unlock(&n->lock);
	free(old);
	return 0;
}

/* ---- claim ---- */

static int keep_rules(struct node *n, struct machine *m, const char *network, struct err *e)
{
	char *copy = network != NULL ? strdup(network) : NULL;

	if (network == NULL)
		return 0;
	if (copy == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	machine_set_rules(n, m, copy);
	return 0;
}

/* What the first claim of a reference does to the machine before its agent learns who it is. */
static int prepare(struct node *n, struct machine *m, const struct want *w, bool cold, struct err *e)
{
	if (keep_init(n, m, w->init, e) < 0 || keep_rules(n, m, w->network, e) < 0)
		return -1;
	if (cold)
		return machine_create_claimed(n, m, e);
	if (machine_save(n, m, e) < 0)
		return -1;
	return w->network != NULL ? machine_rules(n, m, e) : 0;
}

/* 0 done, 1 worth another try, -1. */
static int claim_once(struct node *n, const struct want *w, char id[MACHINE_LEN], struct err *e)
{
	struct machine *m;
	struct err ignored;
	bool cold = false, again, asleep, doomed;
	int status;

	pthread_mutex_lock(&n->lock);
	m = find_ref(n, w->ref);
	again = m != NULL;
	asleep = again && m->st.sleep != SLEEP_NONE;
	if (m == NULL)
		m = take(n, w, &cold, e);
	pthread_mutex_unlock(&n->lock);
	if (m == NULL)
		return -1;
	memcpy(id, m->st.id, MACHINE_LEN);
	/* written down before the guest learns who it is: after a crash in between it counts as claimed, and the claimant ends it */
	status = again ? 0 : prepare(n, m, w, cold, e);
	if (status == 0 && !asleep)
		status = machine_ctl(n, m, w->init, strlen(w->init), -1, INIT_MS, e);
	pthread_mutex_lock(&n->lock);
	doomed = m->doomed;
	if (status == 0 && !doomed && (asleep || machine_alive(m)))
		machine_phase(n, m, PHASE_CLAIMED);
	else if (status == 0)
		status = err_set(e, ERR_CONFLICT, "the sandbox ended while it started");
	pthread_mutex_unlock(&n->lock);
	if (status < 0 && !again)
		machine_end(n, m, &ignored);
	machine_unref(n, m);
	return status < 0 && !cold && !again && !doomed ? 1 : status;
}

static int claim(struct node *n, const struct want *w, char id[MACHINE_LEN], struct err *e)
{
	int status = 1;

	pthread_mutex_lock(&n->lock);
	n->claims++;
	pthread_mutex_unlock(&n->lock);
	for (int i = 0; status == 1 && i < CLAIM_TRIES; i++) {
		status = claim_once(n, w, id, e);
		if (status == 1)
			log_warn("ready sandbox %s was no good: %s", id, e->text);
	}
	pthread_mutex_lock(&n->lock);
	n->claimed_us = boot_us();
	if (--n->claims == 0)
		pthread_cond_signal(&n->work);
	pthread_mutex_unlock(&n->lock);
	return status == 0 ? 0 : -1;
}

int node_claim(struct node *n, const struct claim_order *o, char id[MACHINE_LEN], struct err *e)
{
	const int plain = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	struct want w = { .template = o->template, .ref = o->ref, .init = json_object_to_json_string_ext(o->init, plain), .image = -1 };
	struct shape shape;
	int status;

	w.network = o->network != NULL ? json_object_to_json_string_ext(o->network, plain) : NULL;
	if (w.init == NULL || (o->network != NULL && w.network == NULL))
		return err_set(e, ERR_INTERNAL, "out of memory");
	if (network_admit(n, w.network, e) < 0) {
		e->kind = ERR_INVALID;       /* of this node, whatever its state */
		return -1;
	}
	if (o->checkpoint == NULL)
		return claim(n, &w, id, e);
	w.image = node_checkpoint_open(n, o->checkpoint, &shape, e);
	if (w.image < 0)
		return -1;
	w.shape = &shape;
	status = claim(n, &w, id, e);
	close(w.image);
	shape_release(&shape);
	return status;
}

/* ---- release ---- */

/* What the agent noted; nothing when it does not answer. */
static void last_words(struct node *n, struct machine *m, json_object **said)
{
	static const char ask[] = "{\"op\":\"journal\"}";
	struct err ignored;

	if (machine_ask(n, m, ask, sizeof ask - 1, -1, JOURNAL_MS, said, &ignored) < 0)
		*said = NULL;
}

int node_release(struct node *n, const char *id, json_object **said, struct err *e)
{
	struct machine *m;
	struct pool *p;
	bool dead, talks;
	int status = 0;

	pthread_mutex_lock(&n->lock);
	m = machine_settled(n, id, true);
	if (m != NULL)
		m->doomed = true;            /* nobody hibernates or wakes it any more */
	p = m != NULL ? pool_find(n, m->st.shape.template) : NULL;
	if (p != NULL)
		pool_remove(p, m);           /* a ready one must not be claimed while it dies */
	dead = m != NULL && m->phase == PHASE_DEAD;
	talks = said != NULL && m != NULL && m->phase == PHASE_CLAIMED && m->st.sleep == SLEEP_NONE;
	pthread_mutex_unlock(&n->lock);
	if (m == NULL)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	if (talks)
		last_words(n, m, said);
	if (!dead)
		status = machine_end(n, m, e);
	machine_unref(n, m);
	return status;
}

/* ---- ports ---- */

/* Its place among the ports that are open, or nports. With ctl_lock held. */
static size_t port_at(const struct machine *m, int port)
{
	size_t i = 0;

	while (i < m->nports && m->ports[i] != port)
		i++;
	return i;
}

static bool port_is_open(struct machine *m, int port)
{
	bool open;

	pthread_mutex_lock(&m->ctl_lock);
	open = port_at(m, port) < m->nports;
	pthread_mutex_unlock(&m->ctl_lock);
	return open;
}

/* It is open now, in the place of another one if `closed` is one. -1: there is no room, and none was made. */
static int port_note(struct machine *m, int port, int closed, struct err *e)
{
	int status = 0;
	size_t at;

	pthread_mutex_lock(&m->ctl_lock);
	at = port_at(m, closed);
	if (at < PORTS_MAX) {
		m->nports += at == m->nports;
		m->ports[at] = (uint16_t)port;
	} else {
		status = err_set(e, ERR_LIMIT, "over %d ports of one sandbox", PORTS_MAX);
	}
	pthread_mutex_unlock(&m->ctl_lock);
	return status;
}

static void port_unlink(int dir, int port)
{
	char name[16];

	snprintf(name, sizeof name, "%d", port);
	unlinkat(dir, name, 0);
}

static int port_bind(struct node *n, int dir, int port, struct err *e)
{
	char name[16];

	port_unlink(dir, port);              /* of an earlier try */
	snprintf(name, sizeof name, "%d", port);
	return bind_at(dir, name, 0660, n->gid, e);
}

/* Have the agent serve the socket. The port that it gave up for this, which is the guest's word, or 0; -1. */
static int port_serve(struct node *n, struct machine *m, int port, int fd, struct err *e)
{
	json_object *o = NULL;
	int64_t closed = 0;
	char line[64];
	struct err why;

	snprintf(line, sizeof line, "{\"op\":\"listen\",\"port\":%d}", port);
	if (machine_ask(n, m, line, strlen(line), fd, PORT_MS, &o, e) < 0)
		return -1;
	if (json_get_int(o, "closed", 1, 65535, &closed, &why) < 0 || closed == port || !port_is_open(m, (int)closed))
		closed = 0;
	json_object_put(o);
	return (int)closed;
}

static int port_open_in(struct node *n, struct machine *m, int dir, int port, struct err *e)
{
	int fd = port_bind(n, dir, port, e), closed;

	if (fd < 0)
		return -1;
	closed = port_serve(n, m, port, fd, e);
	close(fd);
	if (closed > 0)
		port_unlink(dir, closed);
	if (closed >= 0 && port_note(m, port, closed, e) == 0)
		return 0;
	port_unlink(dir, port);
	return -1;
}

static int port_open(struct node *n, struct machine *m, int port, struct err *e)
{
	int dir, status;

	if (port_is_open(m, port))
		return 0;
	pthread_mutex_lock(&m->port_lock);
	dir = openat(n->run_sb, m->st.id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		status = err_sys(e, "directory of sockets");
	else
		status = port_is_open(m, port) ? 0 : port_open_in(n, m, dir, port, e);
	if (dir >= 0)
		close(dir);
	pthread_mutex_unlock(&m->port_lock);
	return status;
}

int node_open_port(struct node *n, const char *id, int port, struct err *e)
{
	struct machine *m;
	bool claimed;
	int status;

	pthread_mutex_lock(&n->lock);
	m = machine_settled(n, id, false);
	claimed = m != NULL && m->phase == PHASE_CLAIMED && m->st.sleep == SLEEP_NONE;
	pthread_mutex_unlock(&n->lock);
	if (!claimed)
		status = err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	else
		status = port == ENVD_PORT ? 0 : port_open(n, m, port, e);
	if (m != NULL)
		machine_unref(n, m);
	return status;
}

/* ---- journals ---- */

int node_journal(struct node *n, const char *id, int64_t after_us, json_object **out, struct err *e)
{
	struct machine *m;
	char line[64];
	int status;

	pthread_mutex_lock(&n->lock);
	m = (struct machine *)htab_find(&n->ids, id);
	if (m != NULL && (m->phase != PHASE_CLAIMED || m->st.sleep != SLEEP_NONE))
		m = NULL;                    /* one that changes is not waited for */
	if (m != NULL)
		m->refs++;
	pthread_mutex_unlock(&n->lock);
	if (m == NULL)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	snprintf(line, sizeof line, "{\"op\":\"journal\",\"after\":%lld}", (long long)after_us);
	status = machine_ask(n, m, line, strlen(line), -1, JOURNAL_MS, out, e);
	machine_unref(n, m);
	return status;
}
