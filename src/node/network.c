/* Ways out of sandboxes: a wire and rules for each. What holds is written down before it is done. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"
#include "node.h"

static uint32_t number_of(const struct machine *m)
{
	return m->st.ids / SPAWN_IDS - RANGE_FIRST;
}

/* Rules are 8 KiB: none of them on a connection's small stack. */
static struct rules *read_rules(const char *text, struct err *e)
{
	struct rules *r = malloc(sizeof *r);

	if (r == NULL) {
		err_set(e, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	if (rules_read(text, r, e) == 0)
		return r;
	free(r);
	return NULL;
}

int network_admit(const struct node *n, const char *text, struct err *e)
{
	struct rules *r = read_rules(text, e);
	bool kept;

	if (r == NULL)
		return -1;
	/* a sandbox without a way out reaches nothing, whatever is denied */
	kept = n->lane.on || rules_closed(r) || (r->nallow == 0 && r->ndeny == 0);
	free(r);
	return kept ? 0 : err_set(e, ERR_CONFLICT, "network rules cannot be kept here: %s", n->lane.why);
}

void machine_set_rules(struct node *n, struct machine *m, char *rules)
{
	char *old;

	pthread_mutex_lock(&n->lock);
	old = m->st.network;
	m->st.network = rules;
	pthread_mutex_unlock(&n->lock);
	free(old);
}

int machine_wire(struct node *n, struct machine *m, struct err *e)
{
	uint32_t address = 0;
	struct rules *r;
	int status;

	if (!n->lane.on)
		return 0;
	r = read_rules(m->st.network, e);
	if (r == NULL)
		return -1;
	status = lane_attach(&n->lane, m->st.pid, number_of(m), r, &address, e);
	free(r);
	if (status == 0) {
		pthread_mutex_lock(&n->lock);        /* lists show it */
		m->st.address = address;
		pthread_mutex_unlock(&n->lock);
	}
	return status;
}

int machine_rules(struct node *n, struct machine *m, struct err *e)
{
	struct rules *r;
	int status;

	if (!n->lane.on || m->st.address == 0)
		return 0;
	r = read_rules(m->st.network, e);
	if (r == NULL)
		return -1;
	status = lane_rules(&n->lane, m->st.pid, m->st.address, r, e);
	free(r);
	pthread_mutex_lock(&n->lock);
	n->unsettled = true;
	pthread_cond_signal(&n->dirt);
	pthread_mutex_unlock(&n->lock);
	return status;
}

void machine_rewire(struct node *n, struct machine *m)
{
	struct err e;

	if (m->st.address == 0 || m->st.sleep == SLEEP_DISK)
		return;
	err_set(&e, ERR_NOT_FOUND, "its interface is gone");
	if (n->lane.on && lane_wired(&n->lane, number_of(m)) && machine_rules(n, m, &e) == 0)
		return;
	if (n->lane.on)
		log_warn("sandbox %s has no way to the internet any more: %s", m->st.id, e.text);
	lane_detach(&n->lane, number_of(m));
	m->st.address = 0;
	if (machine_save(n, m, &e) < 0)
		log_error("sandbox %s: %s", m->st.id, e.text);
}

static char *copy_rules(json_object *network, struct err *e)
{
	const char *text = json_object_to_json_string_ext(network, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	char *copy = text != NULL ? strdup(text) : NULL;

	if (copy == NULL)
		err_set(e, ERR_INTERNAL, "out of memory");
	return copy;
}

/* Write down, then do. When it cannot be done the rules of before hold, and are what is written. */
static int change(struct node *n, struct machine *m, char *rules, struct err *e)
{
	char *was = m->st.network != NULL ? strdup(m->st.network) : NULL;
	struct err why;

	if (was == NULL && m->st.network != NULL) {
		free(rules);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	machine_set_rules(n, m, rules);
	if (machine_save(n, m, e) == 0 && (m->st.sleep == SLEEP_DISK || machine_rules(n, m, e) == 0)) {
		free(was);
		return 0;
	}
	machine_set_rules(n, m, was);
	if (machine_save(n, m, &why) < 0)
		log_error("sandbox %s: %s", m->st.id, why.text);
	return -1;
}

int node_network(struct node *n, const char *id, json_object *network, struct err *e)
{
	char *rules = copy_rules(network, e);
	struct machine *m = NULL;
	int status = -1;

	if (rules != NULL && network_admit(n, rules, e) == 0)
		m = machine_take(n, id, e);
	if (m == NULL) {
		free(rules);
		return -1;
	}
	status = change(n, m, rules, e);
	if (machine_give_back(n, m) < 0)
		return err_set(e, ERR_NOT_FOUND, "unknown sandbox");
	return status;
}
