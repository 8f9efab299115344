/*
 * http_fake.h - what the tests of the HTTP layer put in place of domain and web server: one known key, and a request
 * made of a list of CGI variables.
 */
#ifndef HUTCH_HTTP_FAKE_H
#define HUTCH_HTTP_FAKE_H

#include <stdio.h>
#include <string.h>
#include "hutch/call.h"

#define GOOD_KEY "e2b_00112233445566778899aabbccddeeff00112233"

static int opened;
static bool records_broken;

int domain_open(struct domain *d, const struct config *conf, struct err *e)
{
	if (records_broken)
		return err_set(e, ERR_INTERNAL, "no records");
	memset(d, 0, sizeof *d);
	d->conf = conf;
	opened++;
	return 0;
}

void domain_close(struct domain *d)
{
	(void)d;
	opened--;
}

int shared_open(struct domain *d, struct err *e)
{
	(void)d;
	(void)e;
	return 0;
}

void count_request(const struct domain *d, const char *program, int status, int64_t us)
{
	(void)d;
	(void)program;
	(void)status;
	(void)us;
}

static bool fake_blocked;

int team_may(const struct team_rec *team, bool changes, struct err *e)
{
	(void)team;
	return fake_blocked && changes ? err_set(e, ERR_DENIED, "team is blocked") : 0;
}

static struct rate_answer fake_rate;
static enum rate_group fake_group;

void rate_take(struct domain *d, const char *team_id, enum rate_group group, struct rate_answer *out)
{
	(void)d;
	(void)team_id;
	fake_group = group;
	*out = fake_rate;
}

int start_check(const struct config *conf, struct err *e)
{
	(void)conf;
	(void)e;
	return 0;
}

/* Each scheme is told apart by the team it gives. */
int auth_team(struct domain *d, const char *key, const char *admin, const char *team_id, struct team_rec *out, struct err *e)
{
	(void)d;
	memset(out, 0, sizeof *out);
	if (key != NULL && strcmp(key, GOOD_KEY) == 0)
		snprintf(out->id, sizeof out->id, "team");
	else if (admin != NULL && team_id != NULL)
		snprintf(out->id, sizeof out->id, "%s", team_id);
	else
		return err_set(e, ERR_UNAUTHENTICATED, "Invalid API key");
	return 0;
}

int auth_user(struct domain *d, const char *authorization, struct team_rec *out, struct err *e)
{
	(void)d;
	if (authorization == NULL)
		return err_set(e, ERR_UNAUTHENTICATED, "authorization header is missing");
	memset(out, 0, sizeof *out);
	snprintf(out->id, sizeof out->id, "user");
	return 0;
}

int auth_manager(struct domain *d, const char *authorization, const char *admin, const char *team_id, struct team_rec *out,
		 struct err *e)
{
	return admin != NULL ? auth_team(d, NULL, admin, team_id, out, e) : auth_user(d, authorization, out, e);
}

int auth_admin(struct domain *d, const char *admin, struct err *e)
{
	(void)d;
	return admin != NULL ? 0 : err_set(e, ERR_UNAUTHENTICATED, "authorization header is missing");
}

/* name, value, name, value, ..., NULL */
static const char *const *fake_env;

static const char *fake_header(const struct call *c, const char *name)
{
	(void)c;
	for (const char *const *p = fake_env; p != NULL && *p != NULL; p += 2)
		if (strcmp(p[0], name) == 0)
			return p[1];
	return NULL;
}

#endif
