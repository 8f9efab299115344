/* hutchctl responders: how many processes of each program hutch-spawn keeps. */
#include "ctl.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "spawn.h"

#define WAIT_TURNS 600          /* of 50 ms: how long it may take until as many run as are wanted */

struct crew_count { int wanted, running, ending; };

/* One line there, one back. */
static int ask(const char *path, const char *line, struct crew_count *out, struct err *e)
{
	struct timeval limit = { .tv_sec = 5 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = -1;
	char answer[64];
	ssize_t n = -1;

	if (fd < 0 || strlen(path) >= sizeof a.sun_path) {
		err_set(e, ERR_INVALID, "%s: no socket can be there", path);
	} else {
		strcpy(a.sun_path, path);
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
		if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 && send(fd, line, strlen(line), MSG_NOSIGNAL) >= 0)
			n = recv(fd, answer, sizeof answer - 1, 0);
		if (n < 0)
			err_sys(e, "%s", path);
		answer[n > 0 ? n : 0] = '\0';
		if (n >= 0 && sscanf(answer, "%d %d %d", &out->wanted, &out->running, &out->ending) == 3)
			rc = 0;
		else if (n >= 0)
			err_set(e, ERR_INTERNAL, "%s: no answer", path);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static void print(const char *name, const struct crew_count *n)
{
	printf("%s\t%d\t%d\t%d\n", name, n->wanted, n->running, n->ending);
}

static bool is_ctl(const char *name, size_t *len)
{
	size_t n = strlen(name), end = strlen(SPAWN_SUFFIX);

	*len = n > end ? n - end : 0;
	return n > end && strcmp(name + n - end, SPAWN_SUFFIX) == 0;
}

static int list(const struct ctl *ctl)
{
	DIR *d = opendir(ctl->conf.run_dir);
	struct dirent *f;
	int status = 0;

	if (d == NULL)
		return ctl_failed(ctl, "%s: %s", ctl->conf.run_dir, strerror(errno));
	while ((f = readdir(d)) != NULL) {
		char path[4096], name[256];
		struct crew_count n;
		struct err e;
		size_t len;

		if (!is_ctl(f->d_name, &len))
			continue;
		snprintf(name, sizeof name, "%.*s", (int)len, f->d_name);
		snprintf(path, sizeof path, "%s/%s", ctl->conf.run_dir, f->d_name);
		if (ask(path, "\n", &n, &e) == 0)
			print(name, &n);
		else
			status = ctl_failed(ctl, "%s", e.text);
	}
	closedir(d);
	return status;
}

static int set(const struct ctl *ctl, const char *name, const char *number)
{
	const struct timespec turn = { .tv_nsec = 50000000 };
	char path[4096], line[32];
	struct crew_count n;
	struct err e;
	long wanted;
	int rc;

	if (ctl_number(ctl, "N", number, 1, SPAWN_MAX, &wanted) < 0)
		return 2;
	if (strchr(name, '/') != NULL)
		return ctl_failed(ctl, "%s is no program's name", name);
	snprintf(path, sizeof path, "%s/%s" SPAWN_SUFFIX, ctl->conf.run_dir, name);
	snprintf(line, sizeof line, "%ld\n", wanted);
	rc = ask(path, line, &n, &e);
	for (int i = 0; i < WAIT_TURNS && rc == 0 && n.running != wanted; i++) {
		nanosleep(&turn, NULL);
		rc = ask(path, "\n", &n, &e);
	}
	if (rc < 0)
		return ctl_failed(ctl, "%s", e.text);
	print(name, &n);
	return n.running == wanted ? 0 : ctl_failed(ctl, "%d of %ld run; see the log of %s", n.running, wanted, name);
}

int ctl_responders(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	int status;

	if (ctl_option(ctl, argc, argv, longs, &status) == -2)
		return status;
	if (argc - optind != 0 && argc - optind != 2)
		return ctl_usage(ctl);
	if (ctl_conf(ctl) < 0)
		return 1;
	return argc == optind ? list(ctl) : set(ctl, argv[optind], argv[optind + 1]);
}
