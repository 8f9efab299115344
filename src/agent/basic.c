/* The account that a request runs as: HTTP Basic's user (RFC 7617; the password says nothing), else the default user. */
#include "config.h"

#include "agent.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "hutch/crypto.h"

#define CREDENTIALS_MAX 1024

bool basic_given(struct h1_req *r)
{
	const struct h1_span *v = h1_field(r->head, "authorization");

	return v != NULL && v->n > 6 && strncasecmp(v->p, "basic ", 6) == 0;
}

/* The text before the first ':'. False: no usable credentials, which counts as none. */
static bool basic_user(struct h1_req *r, char *name, size_t max)
{
	const struct h1_span *v = h1_field(r->head, "authorization");
	struct buf text;
	bool ok = false;
	char *colon;

	if (!basic_given(r))
		return false;
	buf_init(&text, CREDENTIALS_MAX);
	if (base64_decode(&text, v->p + 6, v->n - 6) == 0 && text.len > 0 && (colon = memchr(text.p, ':', text.len)) != NULL) {
		*colon = '\0';
		ok = strlen(text.p) == (size_t)(colon - text.p);
		if (ok)
			snprintf(name, max, "%s", text.p);
	}
	buf_release(&text);
	return ok;
}

int request_user(struct agent *a, struct h1_req *r, struct user *out, struct err *e)
{
	char name[CREDENTIALS_MAX + 1];

	if (!basic_user(r, name, sizeof name)) {
		pthread_mutex_lock(&a->lock);
		snprintf(name, sizeof name, "%s", a->default_user);
		pthread_mutex_unlock(&a->lock);
		if (*name == '\0')
			return err_set(e, ERR_UNAUTHENTICATED, "no user given and no default user set");
	}
	return user_lookup(name, out, e);
}
