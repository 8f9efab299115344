#include "config.h"

#include "place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/log.h"

void edge_refuse(struct edge_answer *a, enum edge_verdict verdict)
{
	static const int status[] = {
		[EDGE_GO] = 0, [EDGE_BAD_HOST] = 400, [EDGE_NOT_FOUND] = 502, [EDGE_PORT_CLOSED] = 502,
		[EDGE_RESERVED] = 404, [EDGE_UNAVAILABLE] = 502, [EDGE_FULL] = 503, [EDGE_DENIED] = 403, [EDGE_BUSY] = 409, [EDGE_LIMIT] = 429,
		[EDGE_GAP] = 404, [EDGE_TRAFFIC_MISSING] = 403, [EDGE_TRAFFIC_WRONG] = 403, [EDGE_PREFLIGHT] = 204,
	};

	if (a->preflight && verdict != EDGE_GO)
		verdict = EDGE_PREFLIGHT;
	a->verdict = verdict;
	a->status = status[verdict];
	if (verdict != EDGE_GO)
		a->upstream[0] = '\0';
}

/* What needs no record. False when *a holds a refusal. conf may be NULL. */
static bool admit(const struct config *conf, const struct edge_request *r, struct edge_answer *a)
{
	memset(a, 0, sizeof *a);
	if (edge_place(conf != NULL ? conf->domain : "localhost", r, a) < 0)
		edge_refuse(a, EDGE_BAD_HOST);
	else if (a->port == ENVD_PORT && a->target != NULL && place_reserved(a->target, a->path))
		edge_refuse(a, EDGE_RESERVED);        /* before the look-up: nobody learns from it which sandboxes exist */
	else if (conf != NULL && config_twin(conf) && a->target != NULL && !place_admitted(a->port, a->target))
		edge_refuse(a, EDGE_GAP);
	else
		return true;
	return false;
}

/* Where the look-up leaves off. */
enum next {
	NEXT_DONE,                                    /* *a is the answer */
	NEXT_PORT,                                    /* the node has to make the port's socket */
	NEXT_WAKE,                                    /* the sandbox has to be resumed */
};

static enum next refuse(struct edge_answer *a, enum edge_verdict verdict)
{
	edge_refuse(a, verdict);
	return NEXT_DONE;
}

/* Ports but the agent's may ask for a token (api.md 6.10). */
static bool passes(struct domain *d, const struct edge_request *r, struct edge_answer *a, const struct sandbox_rec *rec)
{
	char token[TOKEN_LEN];

	if (!rec->closed_traffic || a->port == ENVD_PORT)
		return true;
	sandbox_traffic_token(d, rec->id, token);
	if (r->traffic_token == NULL || r->traffic_token[0] == '\0')
		edge_refuse(a, EDGE_TRAFFIC_MISSING);
	else if (!secret_equal(r->traffic_token, strlen(r->traffic_token), token, strlen(token)))
		edge_refuse(a, EDGE_TRAFFIC_WRONG);
	else
		return true;
	return false;
}

/* network.maskRequestHost with the port in its place. */
static void mask_host(struct edge_answer *a, const struct sandbox_rec *rec)
{
	static const char place[] = "${PORT}";
	const char *at = rec->mask_host != NULL ? strstr(rec->mask_host, place) : NULL;

	if (rec->mask_host == NULL || a->port == ENVD_PORT)
		return;
	if (at == NULL)
		snprintf(a->host, sizeof a->host, "%s", rec->mask_host);
	else
		snprintf(a->host, sizeof a->host, "%.*s%d%s", (int)(at - rec->mask_host), rec->mask_host, a->port, at + strlen(place));
}

/* A sandbox that does not run. The agent asks for its token by itself, but must not be woken to do so. */
static enum next paused(struct domain *d, const struct edge_request *r, struct edge_answer *a, const struct sandbox_rec *rec)
{
	char token[TOKEN_LEN];

	if (!rec->auto_resume || !rec->memory)
		return refuse(a, EDGE_NOT_FOUND);
	if (a->preflight)                             /* the request that it announces will, if it may */
		return refuse(a, EDGE_PREFLIGHT);
	if (rec->secure && a->port == ENVD_PORT) {
		sandbox_token(d, rec->id, token);
		if (r->access_token == NULL || !secret_equal(r->access_token, strlen(r->access_token), token, strlen(token)))
			return refuse(a, EDGE_DENIED);
	}
	return passes(d, r, a, rec) ? NEXT_WAKE : NEXT_DONE;
}

/* Path of the socket into *a, or a refusal. Whether it is there. */
static enum next upstream_of(struct domain *d, uint8_t kind, const char *machine, struct edge_answer *a)
{
	char text[POOL_UPSTREAM_LEN];
	struct err e;
	int n = -1;

	if (pool_upstream(pool_of(d, kind), d->conf->run_dir, machine, a->port, text, &e) < 0) {
		if (e.kind != ERR_UNAVAILABLE)
			log_error("edge: %s", e.text);
	} else if (strncmp(text, "unix:", 5) == 0) {
		n = snprintf(a->upstream, sizeof a->upstream, "%s", text + 5);
		if (n >= (int)sizeof a->upstream)
			log_error("edge: run_dir %s is too long for socket paths", d->conf->run_dir);
	}
	if (n < 0 || n >= (int)sizeof a->upstream)
		return refuse(a, EDGE_UNAVAILABLE);
	edge_refuse(a, EDGE_GO);
	return !pool_on_node(kind) || a->port == ENVD_PORT || access(a->upstream, F_OK) == 0 ? NEXT_DONE : NEXT_PORT;
}

/* Where the sandbox serves the request, now that it runs. */
static enum next serve(struct domain *d, struct edge_answer *a, const struct sandbox_rec *rec)
{
	if (rec->machine[0] == '\0')
		return refuse(a, EDGE_NOT_FOUND);
	return upstream_of(d, rec->pool_kind, rec->machine, a);
}

/* The sandbox, whoever's it is: the agent asks for tokens, not the edge. */
static enum next find(struct domain *d, const struct edge_request *r, struct edge_answer *a, char machine[MACHINE_ID_LEN])
{
	struct sandbox_rec rec;
	enum next next;
	struct err e;

	if (strlen(a->sandbox_id) >= SANDBOX_ID_LEN)
		return refuse(a, EDGE_NOT_FOUND);
	if (sandbox_get(d, NULL, a->sandbox_id, &rec, &e) < 0) {
		if (e.kind == ERR_NOT_FOUND)
			return refuse(a, EDGE_NOT_FOUND);
		log_error("edge: sandbox %s: %s", a->sandbox_id, e.text);
		return refuse(a, EDGE_UNAVAILABLE);
	}
	memcpy(machine, rec.machine, MACHINE_ID_LEN);
	mask_host(a, &rec);
	if (rec.pool_kind == POOL_LIGHT && a->target != NULL && !place_admitted(a->port, a->target))
		next = refuse(a, EDGE_GAP);
	else if (sandbox_state_runs(rec.state))
		next = passes(d, r, a, &rec) ? serve(d, a, &rec) : NEXT_DONE;
	else
		next = paused(d, r, a, &rec);
	sandbox_rec_release(&rec);
	return next;
}

static void open_port(struct domain *d, struct edge_answer *a, const char *machine)
{
	struct err e;

	if (pool_open_port(d->pool, machine, a->port, &e) == 0)
		return;
	if (e.kind == ERR_NOT_FOUND) {                /* the machine went away just now */
		edge_refuse(a, EDGE_NOT_FOUND);
		return;
	}
	log_warn("edge: port %d of %s: %s", a->port, a->sandbox_id, e.text);
	edge_refuse(a, EDGE_UNAVAILABLE);
}

static enum next wake(struct domain *d, struct edge_answer *a, char machine[MACHINE_ID_LEN])
{
	struct sandbox_rec rec;
	struct err e;

	if (sandbox_wake(d, a->sandbox_id, &rec, &e) == 0) {
		enum next next = serve(d, a, &rec);

		memcpy(machine, rec.machine, MACHINE_ID_LEN);
		sandbox_rec_release(&rec);
		return next;
	}
	switch (e.kind) {
	case ERR_NOT_FOUND:
		return refuse(a, EDGE_NOT_FOUND);
	case ERR_CONFLICT:
		return refuse(a, EDGE_BUSY);
	case ERR_LIMIT:
		return refuse(a, EDGE_LIMIT);
	case ERR_DENIED:
		return refuse(a, EDGE_DENIED);
	default:
		log_warn("edge: %s is not resumed: %s", a->sandbox_id, e.text);
		return refuse(a, EDGE_UNAVAILABLE);
	}
}

static enum next look_up(struct domain *d, const struct edge_request *r, struct edge_answer *a, char machine[MACHINE_ID_LEN])
{
	if (!admit(d != NULL ? d->conf : NULL, r, a))
		return NEXT_DONE;
	return d != NULL ? find(d, r, a, machine) : refuse(a, EDGE_UNAVAILABLE);
}

bool edge_look_up(struct domain *d, const struct edge_request *r, struct edge_answer *a)
{
	char machine[MACHINE_ID_LEN];

	return look_up(d, r, a, machine) == NEXT_DONE;
}

void edge_resolve(struct domain *d, const struct edge_request *r, struct edge_answer *a)
{
	char machine[MACHINE_ID_LEN];
	enum next next = look_up(d, r, a, machine);

	if (next == NEXT_WAKE)
		next = wake(d, a, machine);
	if (next == NEXT_PORT)
		open_port(d, a, machine);
}
