/* The sandbox is about to stand still: clients must not wait for what will not come (docs/architecture.md, "Pausing"). */
#include "config.h"

#include "agent.h"

#include <ctype.h>
#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A connection that came in through one of the node's sockets, whose names are port numbers. Listeners and the control socket are not. */
static bool from_client(int fd)
{
	struct sockaddr_un a = { .sun_family = AF_UNSPEC };
	socklen_t n = sizeof a - 1, len = sizeof(int);
	int listens = 0;
	const char *name;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || listens != 0)
		return false;
	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0 || a.sun_family != AF_UNIX || n <= offsetof(struct sockaddr_un, sun_path))
		return false;
	name = strrchr(a.sun_path, '/');
	if (name == NULL || !isdigit((unsigned char)name[1]))
		return false;
	return name[1 + strspn(name + 1, "0123456789")] == '\0';
}

int cut_clients(struct err *e)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *x;

	if (d == NULL)
		return err_sys(e, "/proc/self/fd");
	while ((x = readdir(d)) != NULL) {
		int fd = atoi(x->d_name);

		if (fd > 2 && fd != dirfd(d) && from_client(fd))
			shutdown(fd, SHUT_RDWR);     /* its thread sees it and ends it */
	}
	closedir(d);
	return 0;
}
