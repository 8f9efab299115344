/* Tables of machines and pools, and what is written down of a machine. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "hutch/crypto.h"
#include "hutch/when.h"
#include "node.h"

static unsigned hash_of(const char *key)
{
	uint32_t h = 2166136261u;            /* FNV-1a */

	for (; *key != '\0'; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return (h ^ h >> 16) % BUCKETS;
}

struct hnode *htab_find(const struct htab *t, const char *key)
{
	struct hnode *x = t->bucket[hash_of(key)];

	while (x != NULL && strcmp(x->key, key) != 0)
		x = x->next;
	return x;
}

void htab_add(struct htab *t, struct hnode *x, const char *key)
{
	struct hnode **head = &t->bucket[hash_of(key)];

	x->key = key;
	x->next = *head;
	*head = x;
}

void htab_del(struct htab *t, struct hnode *x)
{
	struct hnode **at;

	if (x->key == NULL)
		return;
	for (at = &t->bucket[hash_of(x->key)]; *at != NULL; at = &(*at)->next)
		if (*at == x) {
			*at = x->next;
			break;
		}
	x->key = NULL;
}

/* A free range, not one that was given back just now. */
static int range_take(struct node *n, struct machine *m)
{
	for (uint32_t i = 0; i < RANGES; i++) {
		uint32_t at = (n->range_next + i) % RANGES;

		if (n->range[at] == NULL) {
			n->range[at] = m;
			n->range_next = at + 1;
			m->st.ids = (RANGE_FIRST + at) * SPAWN_IDS;
			return 0;
		}
	}
	return -1;
}

static void fresh(struct machine *m)
{
	m->pidfd = m->ctl = m->disk.dir = m->image = -1;
	pthread_mutex_init(&m->port_lock, NULL);
	pthread_mutex_init(&m->ctl_lock, NULL);
}

struct machine *machine_new(struct node *n, const struct shape *s, const char *ref)
{
	struct machine *m = calloc(1, sizeof *m);

	if (m == NULL)
		return NULL;
	if (range_take(n, m) < 0) {
		free(m);
		return NULL;
	}
	fresh(m);
	memcpy(m->st.id, "sb_", 3);
	random_id(m->st.id + 3, MACHINE_LEN - 4);
	memcpy(m->st.boot_id, n->boot, sizeof n->boot);
	if (strcmp(s->image, "host") == 0)
		memcpy(m->st.base, n->base, sizeof n->base);
	shape_copy(&m->st.shape, s);
	snprintf(m->st.claim_ref, sizeof m->st.claim_ref, "%s", ref);
	m->phase = PHASE_STARTING;
	m->refs = 2;                         /* the tables' and the caller's */
	htab_add(&n->ids, &m->by_id, m->st.id);
	if (ref[0] != '\0') {
		m->st.claimed_us = wall_us();
		htab_add(&n->refs, &m->by_ref, m->st.claim_ref);
	}
	n->machines++;
	return m;
}

int machine_enter(struct node *n, struct machine *m)
{
	uint32_t at = m->st.ids / SPAWN_IDS - RANGE_FIRST;
	const int pidfd = m->pidfd;

	if (m->st.ids % SPAWN_IDS != 0 || at >= RANGES || n->range[at] != NULL || htab_find(&n->ids, m->st.id) != NULL)
		return -1;
	fresh(m);
	m->pidfd = pidfd;
	n->range[at] = m;
	m->refs = 1;
	htab_add(&n->ids, &m->by_id, m->st.id);
	if (m->st.claim_ref[0] != '\0')
		htab_add(&n->refs, &m->by_ref, m->st.claim_ref);
	n->machines++;
	return 0;
}

void machine_phase(struct node *n, struct machine *m, enum phase p)
{
	m->phase = p;
	pthread_cond_broadcast(&n->changed);
}

void machine_set_ref(struct node *n, struct machine *m, const char *ref, int64_t now_us)
{
	htab_del(&n->refs, &m->by_ref);
	snprintf(m->st.claim_ref, sizeof m->st.claim_ref, "%s", ref);
	m->st.claimed_us = now_us;
	if (ref[0] != '\0')
		htab_add(&n->refs, &m->by_ref, m->st.claim_ref);
}

void machine_retire(struct node *n, struct machine *m)
{
	struct pool *p;

	if (m->phase == PHASE_DEAD)
		return;
	p = pool_find(n, m->st.shape.template);
	if (p != NULL)
		pool_remove(p, m);
	htab_del(&n->ids, &m->by_id);
	htab_del(&n->refs, &m->by_ref);
	if (m->pidfd >= 0)
		epoll_ctl(n->epoll, EPOLL_CTL_DEL, m->pidfd, NULL);
	n->machines--;
	m->next_dirty = n->dirty;
	n->dirty = m;
	n->ndirty++;
	machine_phase(n, m, PHASE_DEAD);
	pthread_cond_signal(&n->dirt);
	pthread_cond_signal(&n->work);
}

void machine_put(struct node *n, struct machine *m)
{
	(void)n;
	if (--m->refs > 0)
		return;
	if (m->pidfd >= 0)
		close(m->pidfd);
	if (m->ctl >= 0)
		close(m->ctl);
	if (m->disk.dir >= 0)
		close(m->disk.dir);
	if (m->image >= 0)
		close(m->image);
	pthread_mutex_destroy(&m->ctl_lock);
	pthread_mutex_destroy(&m->port_lock);
	state_release(&m->st);
	free(m);
}

void machine_unref(struct node *n, struct machine *m)
{
	pthread_mutex_lock(&n->lock);
	machine_put(n, m);
	pthread_mutex_unlock(&n->lock);
}

bool machine_alive(const struct machine *m)
{
	struct pollfd p = { .fd = m->pidfd, .events = POLLIN };

	return m->phase != PHASE_DEAD && m->pidfd >= 0 && poll(&p, 1, 0) == 0;
}

/* Written over in one go, padded to what was there: a kill of this process cannot come between, and after a crash of the machine
 * itself there is no sandbox to remember. */
static int save_over(const struct node *n, const char *name, struct buf *b, size_t had)
{
	int fd = openat(n->states, name, O_WRONLY | O_CLOEXEC), status;

	if (fd < 0)
		return -1;
	while (b->len < had && !buf_failed(b))
		buf_addc(b, '\n');
	status = !buf_failed(b) && pwrite(fd, buf_str(b), b->len, 0) == (ssize_t)b->len ? 0 : -1;
	close(fd);
	return status;
}

static void blank_name(char name[24], unsigned number)
{
	snprintf(name, 24, ".blank-%u", number);
}

/* The first state file of a machine, in an empty one: on some file systems files that come and go cost far more than what is in them. It gets its
 * name when it is whole. */
static int save_blank(struct node *n, const char *name, struct buf *b)
{
	char blank[24];
	struct stat st;
	bool found;

	pthread_mutex_lock(&n->lock);
	found = n->nblanks > 0;
	if (found)
		blank_name(blank, n->blank[--n->nblanks]);
	pthread_mutex_unlock(&n->lock);
	if (!found || fstatat(n->states, blank, &st, 0) < 0 || save_over(n, blank, b, (size_t)st.st_size) < 0)
		return -1;
	return renameat(n->states, blank, n->states, name);
}

/* Overwritten: there are secrets in it. Not cut to nothing: file systems write a file that was at once (auto_da_alloc, ext4(5)). */
static int make_blank(const struct node *n, const char *name, const char *blank)
{
	struct stat st;
	struct buf b;
	int status;

	if (renameat(n->states, name, n->states, blank) < 0 || fstatat(n->states, blank, &st, 0) < 0)
		return -1;
	buf_init(&b, STATE_MAX);
	status = save_over(n, blank, &b, (size_t)st.st_size);
	buf_release(&b);
	return status;
}

void machine_unsave(struct node *n, const struct machine *m)
{
	char name[MACHINE_LEN + 8], blank[24];
	unsigned number;
	bool room;

	snprintf(name, sizeof name, "%s.json", m->st.id);
	pthread_mutex_lock(&n->lock);
	room = n->nblanks < BLANKS_MAX;
	number = n->blank_next++;
	pthread_mutex_unlock(&n->lock);
	blank_name(blank, number);
	if (room && make_blank(n, name, blank) == 0) {
		pthread_mutex_lock(&n->lock);
		n->blank[n->nblanks++] = number;     /* nobody else adds any: only the cleaner comes here */
		pthread_mutex_unlock(&n->lock);
	} else {
		unlinkat(n->states, name, 0);
		unlinkat(n->states, blank, 0);
	}
}

int machine_save(struct node *n, struct machine *m, struct err *e)
{
	char name[MACHINE_LEN + 8];
	struct buf b;
	int status = 0;

	buf_init(&b, STATE_MAX);
	pthread_mutex_lock(&n->lock);
	state_write(&b, &m->st);
	pthread_mutex_unlock(&n->lock);
	snprintf(name, sizeof name, "%s.json", m->st.id);
	if (buf_failed(&b))
		status = err_set(e, ERR_INTERNAL, "out of memory");
	else if (m->saved == 0 ? save_blank(n, name, &b) < 0 : save_over(n, name, &b, m->saved) < 0)
		status = file_replace(n->states, name, b.p, b.len, e);
	if (status == 0)
		m->saved = b.len;
	buf_release(&b);
	return status;
}

struct machine *machine_settled(struct node *n, const char *id, bool doom)
{
	struct hnode *x = htab_find(&n->ids, id);
	struct machine *m = (struct machine *)x;

	if (m == NULL)
		return NULL;
	m->refs++;
	while (m->phase == PHASE_STARTING || m->phase == PHASE_CLAIMING || m->phase == PHASE_CHANGING) {
		if (doom && !m->doomed) {
			m->doomed = true;
			pthread_cond_broadcast(&n->changed);         /* who waits for its turn to start it */
		}
		pthread_cond_wait(&n->changed, &n->lock);
	}
	return m;
}

struct pool *pool_find(struct node *n, const char *template)
{
	return (struct pool *)htab_find(&n->pools, template);
}

struct machine *pool_pop(struct pool *p)
{
	struct machine *m = p->warm;

	if (m != NULL) {
		p->warm = m->next_warm;
		m->next_warm = NULL;
		p->nwarm--;
	}
	return m;
}

void pool_remove(struct pool *p, struct machine *m)
{
	for (struct machine **at = &p->warm; *at != NULL; at = &(*at)->next_warm)
		if (*at == m) {
			*at = m->next_warm;
			m->next_warm = NULL;
			p->nwarm--;
			return;
		}
}

void pool_push(struct node *n, struct machine *m)
{
	struct pool *p = pool_find(n, m->st.shape.template);
	bool current = m->st.base[0] == '\0' || strcmp(m->st.base, n->base) == 0;
	struct machine **to;

	if (p != NULL && current && !m->doomed && machine_alive(m) && shape_same(&p->shape, &m->st.shape) && p->nwarm < p->shape.warm) {
		to = &p->warm;
		p->nwarm++;
	} else {
		to = &n->graveyard;
		m->refs++;
		pthread_cond_signal(&n->work);
	}
	m->next_warm = *to;
	*to = m;
	machine_phase(n, m, PHASE_WARM);
}
