/* Path rules of the file APIs (guest.md 5.1) and the making of missing parents. */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lexical: "//", "." and ".." go, also a trailing "/". The text only gets shorter. */
void path_clean(char *path)
{
	bool rooted = path[0] == '/';
	char *from = path, *to = path, *base;

	if (rooted)
		*to++ = *from++;
	base = to;              /* ".." does not climb over this */
	while (*from != '\0') {
		size_t n = strcspn(from, "/");

		if (n == 2 && from[0] == '.' && from[1] == '.') {
			if (to > base) {
				while (to > base && *--to != '/')
					;
			} else if (!rooted) {
				if (to != path)
					*to++ = '/';
				*to++ = '.';
				*to++ = '.';
				base = to;
			}
		} else if (n != 0 && !(n == 1 && from[0] == '.')) {
			if (to != path && to[-1] != '/')
				*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
		from += n;
		from += strspn(from, "/");
	}
	if (to == path)
		*to++ = '.';
	*to = '\0';
}

const char *path_base(const char *path, size_t *n)
{
	size_t end = strlen(path), from;

	while (end > 1 && path[end - 1] == '/')
		end--;
	from = end;
	while (from > 0 && path[from - 1] != '/')
		from--;
	if (from == end && end == 1)    /* "/" */
		from = 0;
	*n = end - from;
	return path + from;
}

int path_resolve(struct agent *a, const struct user *u, const char *in, char out[PATH_MAX], struct err *e)
{
	char workdir[PATH_MAX] = "";
	int n;

	if (in[0] == '\0') {
		pthread_mutex_lock(&a->lock);
		if (a->default_workdir != NULL && strlen(a->default_workdir) < sizeof workdir)
			strcpy(workdir, a->default_workdir);
		pthread_mutex_unlock(&a->lock);
		in = workdir[0] != '\0' ? workdir : "~";
	}
	if (in[0] == '~' && in[1] != '\0' && in[1] != '/') {
		err_set(e, ERR_INVALID, "path '%.256s': another user's home directory is not expanded; use '~' or an absolute path", in);
		e->code = "invalid_argument";
		return -1;
	}
	if (in[0] == '/')
		n = snprintf(out, PATH_MAX, "%s", in);
	else
		n = snprintf(out, PATH_MAX, "%s/%s", u->home, in[0] == '~' ? in + 1 : in);
	if (n < 0 || n >= PATH_MAX) {
		err_set(e, ERR_INVALID, "path is longer than %d bytes", PATH_MAX - 1);
		e->code = "invalid_argument";
		return -1;
	}
	if (in[0] != '/')
		path_clean(out);
	return light_path(a, out, e);
}

/* mkdir(2) for each missing component of path[0..end); what is made gets the owner. -1 with errno. */
static int make_missing(char *path, size_t end, uid_t uid, gid_t gid)
{
	size_t from = 0;

	while (from < end) {
		char was;
		int rc;

		while (from < end && path[from] == '/')
			from++;
		while (from < end && path[from] != '/')
			from++;
		was = path[from];
		path[from] = '\0';
		rc = mkdir(path, 0755);
		if (rc == 0)
			rc = lchown(path, uid, gid);
		else if (errno == EEXIST)
			rc = 0;         /* not a directory: the next step says so */
		path[from] = was;
		if (rc < 0)
			return -1;
	}
	return 0;
}

int make_dirs(const char *path, uid_t uid, gid_t gid)
{
	char copy[PATH_MAX];
	struct stat st;

	if (strlen(path) >= sizeof copy) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(copy, path);
	if (make_missing(copy, strlen(copy), uid, gid) < 0)
		return -1;
	if (stat(path, &st) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return -1;
	}
	return 0;
}

int make_parents(const char *path, uid_t uid, gid_t gid)
{
	char parent[PATH_MAX];
	struct stat st;
	size_t n;
	const char *base = path_base(path, &n);

	if (base == path)
		return 0;
	snprintf(parent, sizeof parent, "%.*s", (int)(base - path), path);
	if (stat(parent, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;       /* nearly always */
	return make_dirs(parent, uid, gid) < 0 ? -1 : 1;
}
