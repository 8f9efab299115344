#include "config.h"

#include "kernel_place.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "hutch/json.h"
#include "wire.h"

static const char *const names[KERNEL_SOCKETS] = { "shell", "iopub", "stdin", "control", "hb" };

void kernel_place_init(struct kernel_place *p)
{
	*p = (struct kernel_place){ .tcp = false };
	for (int i = 0; i < KERNEL_SOCKETS; i++)
		p->held[i] = -1;
}

/* ---- addresses ---- */

/* A kernel that is told ip P and port N on transport ipc binds P-N. */
static void socket_path(const char *dir, int port, char out[KERNEL_FILE])
{
	snprintf(out, KERNEL_FILE, "%.127s/k-%d", dir, port);
}

void kernel_place_of(const struct kernel_place *p, enum kernel_socket which, struct zmtp_place *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&out->address;
	struct sockaddr_un *un = (struct sockaddr_un *)&out->address;
	char path[KERNEL_FILE];

	memset(out, 0, sizeof *out);
	if (p->tcp) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)p->port[which]);
		inet_pton(AF_INET, KERNEL_IP, &in->sin_addr);
		out->len = sizeof *in;
		return;
	}
	socket_path(p->dir, p->port[which], path);
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path, sizeof un->sun_path, "%.107s", path);
	out->len = sizeof *un;
}

/* A port that is free, held by a socket which does not listen: who sets SO_REUSEADDR, as every kernel's library does, can still bind it. */
static int hold_port(struct kernel_place *p, int which, struct err *e)
{
	const int on = 1;
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, KERNEL_IP, &a.sin_addr);
	p->held[which] = fd;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return err_sys(e, "a port of %s", KERNEL_IP);
	p->port[which] = ntohs(a.sin_port);
	return 0;
}

static int choose(struct kernel_place *p, struct err *e)
{
	for (int i = 0; i < KERNEL_SOCKETS; i++)
		if (!p->tcp)
			p->port[i] = i + 1;
		else if (hold_port(p, i, e) < 0)
			return -1;
	return 0;
}

void kernel_place_taken(struct kernel_place *p)
{
	for (int i = 0; i < KERNEL_SOCKETS; i++) {
		if (p->held[i] >= 0)
			close(p->held[i]);
		p->held[i] = -1;
	}
}

/* ---- files ---- */

static void connection(const struct kernel_place *p, const char *key, struct buf *b)
{
	char ip[KERNEL_FILE];
	struct jw w;

	snprintf(ip, sizeof ip, "%.127s/k", p->dir);
	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "transport", p->tcp ? "tcp" : "ipc");
	jw_kstr(&w, "ip", p->tcp ? KERNEL_IP : ip);
	for (int i = 0; i < KERNEL_SOCKETS; i++) {
		char name[16];

		snprintf(name, sizeof name, "%s_port", names[i]);
		jw_kint(&w, name, p->port[i]);
	}
	jw_kstr(&w, "key", key);
	jw_kstr(&w, "signature_scheme", "hmac-sha256");
	jw_kstr(&w, "kernel_name", "");
	jw_close(&w, '}');
}

static int write_file(const char *path, const struct buf *b, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc = fd >= 0 && write(fd, b->p, b->len) == (ssize_t)b->len ? 0 : err_sys(e, "%s", path);

	if (fd >= 0)
		close(fd);
	return rc;
}

int kernel_place_make(struct kernel_place *p, bool tcp, const char *run_dir, const char *id, const char *key, char file[KERNEL_FILE], struct err *e)
{
	struct buf b;
	int rc;

	p->tcp = tcp;
	if (choose(p, e) < 0)
		return -1;
	snprintf(p->dir, sizeof p->dir, "%.64s/%.36s", run_dir, id);
	snprintf(file, KERNEL_FILE, "%.127s/connection.json", p->dir);
	if (mkdir(p->dir, 0700) < 0)
		return err_sys(e, "%s", p->dir);
	buf_init(&b, 4096);
	connection(p, key, &b);
	rc = write_file(file, &b, e);
	buf_release(&b);
	return rc;
}

static void remove_files(const char *dir)
{
	char path[KERNEL_FILE];

	for (int i = 1; i <= KERNEL_SOCKETS; i++) {
		socket_path(dir, i, path);
		unlink(path);
	}
	snprintf(path, sizeof path, "%.127s/connection.json", dir);
	unlink(path);
	rmdir(dir);
}

void kernel_place_remove(struct kernel_place *p)
{
	kernel_place_taken(p);
	if (p->dir[0] != '\0')
		remove_files(p->dir);
	p->dir[0] = '\0';
}

void kernels_sweep(const char *run_dir)
{
	DIR *d = opendir(run_dir);
	struct dirent *x;

	while (d != NULL && (x = readdir(d)) != NULL) {
		char dir[KERNEL_DIR];

		if (strlen(x->d_name) != ID_LEN - 1)
			continue;
		snprintf(dir, sizeof dir, "%.64s/%.36s", run_dir, x->d_name);
		remove_files(dir);
	}
	if (d != NULL)
		closedir(d);
}
