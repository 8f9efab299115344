/* The reaper's datagram socket and its lock. */
#include "domain_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int nudge_address(const struct config *c, struct sockaddr_un *a, struct err *e)
{
	int n;

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(a->sun_path, sizeof a->sun_path, "%s/reaper.sock", c->run_dir);
	if (n < 0 || (size_t)n >= sizeof a->sun_path)
		return err_set(e, ERR_INVALID, "run_dir is too long for the path of a socket");
	return 0;
}

void reaper_nudge(const struct domain *d)
{
	struct sockaddr_un a;
	struct err e;

	if (nudge_address(d->conf, &a, &e) < 0)
		return;
	/* no reaper, or one with a full queue: it looks at the records anyway */
	if (sendto(d->nudge_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, sizeof a) < 0)
		return;
}

int reaper_bind(const struct config *c, struct err *e)
{
	struct sockaddr_un a;
	int fd;

	if (nudge_address(c, &a, e) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "socket");
	/* the caller holds the reaper's lock, so what is there is a dead one's */
	if ((unlink(a.sun_path) < 0 && errno != ENOENT) || bind(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		err_sys(e, "%s", a.sun_path);
		close(fd);
		return -1;
	}
	if (chmod(a.sun_path, 0660) < 0) {
		err_sys(e, "%s", a.sun_path);
		close(fd);
		return -1;
	}
	return fd;
}

int reaper_lock(const struct config *c, struct err *e)
{
	char path[4096];
	int fd;

	if (snprintf(path, sizeof path, "%s/reaper.lock", c->db_dir) >= (int)sizeof path)
		return err_set(e, ERR_INVALID, "db_dir is too long");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (fd < 0)
		return err_sys(e, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	if (errno == EWOULDBLOCK)
		err_set(e, ERR_CONFLICT, "another hutch-reaper works on the records in %s", c->db_dir);
	else
		err_sys(e, "%s", path);
	close(fd);
	return -1;
}
