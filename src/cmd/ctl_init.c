/*
 * hutchctl init: directories, secret and records of a new instance. state_dir stays the caller's (root's): hutch-node keeps disks
 * in it. Secret and records go to the user of the unprivileged programs. In run_dir both bind sockets, so it is sticky.
 */
#include "ctl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct owner {
	bool set;
	uid_t uid;
	gid_t gid;
};

/* Make path and what is missing above it. */
static int make_dirs(const char *path, mode_t mode, struct err *e)
{
	char part[4096];

	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return err_set(e, ERR_INVALID, "%.64s...: the path is too long", path);
	for (char *p = part + 1; *p != '\0'; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "%s", part);
		*p = '/';
	}
	return mkdir(part, mode) < 0 && errno != EEXIST ? err_sys(e, "%s", part) : 0;
}

static int give(const char *path, const struct owner *o, struct err *e)
{
	return o->set && lchown(path, o->uid, o->gid) < 0 ? err_sys(e, "%s", path) : 0;
}

static int give_files(const char *dir, const struct owner *o, struct err *e)
{
	DIR *d = opendir(dir);
	struct dirent *f;
	char path[4096];
	int status = d == NULL ? err_sys(e, "%s", dir) : give(dir, o, e);

	while (status == 0 && (f = readdir(d)) != NULL) {
		if (f->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
		status = give(path, o, e);
	}
	if (d != NULL)
		closedir(d);
	return status;
}

static int make_run_dir(const char *path, const struct owner *o, struct err *e)
{
	if (make_dirs(path, 0755, e) < 0)
		return -1;
	if (!o->set)
		return 0;
	return chown(path, (uid_t)-1, o->gid) < 0 || chmod(path, 01775) < 0 ? err_sys(e, "%s", path) : 0;
}

static int make_all(const struct config *c, const struct owner *o, struct err *e)
{
	const char *token = c->admin_token_file;
	struct domain d;
	int status;

	if (make_dirs(c->state_dir, 0755, e) < 0 || make_dirs(c->db_dir, 0700, e) < 0 || make_run_dir(c->run_dir, o, e) < 0 ||
	    secret_make(c->secret_file, e) < 0 || (token[0] != '\0' && admin_token_make(token, e) < 0) || domain_open(&d, c, e) < 0)
		return -1;
	status = start_init(&d, e);
	domain_close(&d);
	if (status < 0 || give(c->secret_file, o, e) < 0 || (token[0] != '\0' && give(token, o, e) < 0))
		return -1;
	return give_files(c->db_dir, o, e);
}

static int find_user(const char *name, struct owner *o, struct err *e)
{
	const struct passwd *p = getpwnam(name);

	if (p == NULL)
		return err_set(e, ERR_NOT_FOUND, "there is no user %.64s", name);
	*o = (struct owner){ .set = true, .uid = p->pw_uid, .gid = p->pw_gid };
	return 0;
}

int ctl_init(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "user", required_argument, NULL, 'u' }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct owner o = { 0 };
	struct err e;
	int c, status;

	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (find_user(optarg, &o, &e) < 0)
			return ctl_failed(ctl, "%s", e.text);
	}
	if (optind != argc)
		return ctl_usage(ctl);
	if (ctl_conf(ctl) < 0)
		return 1;
	return make_all(&ctl->conf, &o, &e) < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}
