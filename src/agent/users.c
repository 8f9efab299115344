/* Looking up the account that a request runs as (guest.md 2.1). */
#include "config.h"

#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passwd_find(const char *name, struct user *u)
{
	char *text = names_read("/etc/passwd"), *rest = text, *f[7] = { 0 };
	int rc = -1;
	size_t n;

	while (rc < 0 && (n = names_line(&rest, f, 7)) != 0) {
		unsigned uid, gid;

		if (n < 6 || strcmp(f[0], name) != 0 || names_id(f[2], &uid) < 0 || names_id(f[3], &gid) < 0)
			continue;
		if (n < 7)
			f[6] = f[5] + strlen(f[5]);     /* no shell */
		if (strlen(f[5]) >= sizeof u->home || strlen(f[6]) >= sizeof u->shell)
			continue;
		u->uid = uid;
		u->gid = gid;
		snprintf(u->name, sizeof u->name, "%s", name);
		snprintf(u->home, sizeof u->home, "%s", f[5][0] != '\0' ? f[5] : "/");
		snprintf(u->shell, sizeof u->shell, "%s", f[6]);
		rc = 0;
	}
	free(text);
	return rc;
}

static void group_add(struct user *u, gid_t gid)
{
	for (size_t i = 0; i < u->ngroups; i++)
		if (u->groups[i] == gid)
			return;
	if (u->ngroups < sizeof u->groups / sizeof u->groups[0])
		u->groups[u->ngroups++] = gid;
}

static bool member(char *list, const char *name)
{
	char *save = NULL;

	for (char *m = strtok_r(list, ",", &save); m != NULL; m = strtok_r(NULL, ",", &save))
		if (strcmp(m, name) == 0)
			return true;
	return false;
}

static void groups_find(struct user *u)
{
	char *text = names_read("/etc/group"), *rest = text, *f[4];
	size_t n;

	u->ngroups = 0;
	group_add(u, u->gid);
	while ((n = names_line(&rest, f, 4)) != 0) {
		unsigned gid;

		if (n == 4 && names_id(f[2], &gid) == 0 && member(f[3], u->name))
			group_add(u, gid);
	}
	free(text);
}

int user_lookup(const char *name, struct user *out, struct err *e)
{
	if (name[0] == '\0' || strlen(name) >= sizeof out->name || strpbrk(name, ":\n") != NULL || passwd_find(name, out) < 0) {
		err_set(e, ERR_UNAUTHENTICATED, "invalid username: '%.256s'", name);
		e->code = "unauthenticated";
		return -1;
	}
	groups_find(out);
	return 0;
}
