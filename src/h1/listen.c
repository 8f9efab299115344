#include "config.h"

#include "hutch/h1.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Only a socket is ever removed: a path given by mistake must not cost a file. */
static int remove_old(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "%s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_INVALID, "%s exists and is no socket", path);
	return unlink(path) < 0 && errno != ENOENT ? err_sys(e, "%s", path) : 0;
}

/* The socket is born for its owner alone and opened up at the end, so that no one gets in between. */
static int bind_path(int fd, const struct sockaddr_un *a, unsigned mode, int gid, struct err *e)
{
	if (fchmod(fd, mode & 0700) < 0 || bind(fd, (const struct sockaddr *)a, sizeof *a) < 0)
		return err_sys(e, "bind %s", a->sun_path);
	if (gid != -1 && lchown(a->sun_path, (uid_t)-1, (gid_t)gid) < 0)
		return err_sys(e, "group of %s", a->sun_path);
	if (chmod(a->sun_path, mode) < 0)
		return err_sys(e, "mode of %s", a->sun_path);
	return listen(fd, 4096) < 0 ? err_sys(e, "listen %s", a->sun_path) : 0;
}

int h1_listen_unix(const char *path, unsigned mode, int gid, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof a.sun_path)
		return err_set(e, ERR_INVALID, "socket path %s is over %zu bytes", path, sizeof a.sun_path - 1);
	strcpy(a.sun_path, path);
	if (remove_old(path, e) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "socket");
	if (bind_path(fd, &a, mode, gid, e) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int h1_listen_loopback(int port, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return err_sys(e, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4096) == 0)
		return fd;
	err_sys(e, "port %d", port);
	close(fd);
	return -1;
}

int h1_listen_stdin(void)
{
	int on = 0, fd, null;
	socklen_t n = sizeof on;

	if (getsockopt(0, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) < 0 || on == 0)
		return -1;
	fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* whom we start is not to have it */
	if (null >= 0) {
		dup2(null, 0);
		close(null);
	}
	return fd;
}
