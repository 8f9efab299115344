/*
 * sink.c - the least that can stand behind a web server: it throws away what is sent to it and sends as many bytes as are asked for.
 * What transfers reach against it is what the web server itself lets through.
 *
 *   sink SOCKET          GET /N answers with N bytes; a request with a Content-Length is read to its end, 204
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "hutch/io.h"

#define PIECE (256 * 1024)

static bool give(int fd, char *buf, unsigned long long n)
{
	int len = snprintf(buf, PIECE, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n", n);

	if (write_all(fd, buf, (size_t)len) < 0)
		return false;
	memset(buf, 'x', PIECE);
	for (; n > PIECE; n -= PIECE)
		if (write_all(fd, buf, PIECE) < 0)
			return false;
	return write_all(fd, buf, (size_t)n) == 0;
}

static bool take(int fd, char *buf, unsigned long long n)
{
	static const char done[] = "HTTP/1.1 204 No Content\r\n\r\n";

	while (n > 0) {
		ssize_t got = recv(fd, buf, n < PIECE ? (size_t)n : PIECE, 0);

		if (got <= 0)
			return false;
		n -= (size_t)got;
	}
	return write_all(fd, done, sizeof done - 1) == 0;
}

/* One request. False when the connection is over. */
static bool serve(int fd, char *buf)
{
	unsigned long long length = 0, here;
	char *body = NULL, *field;
	size_t n = 0;
	bool last;

	while (body == NULL) {
		ssize_t got = n < PIECE - 1 ? recv(fd, buf + n, PIECE - 1 - n, 0) : 0;

		if (got <= 0)
			return false;
		n += (size_t)got;
		buf[n] = '\0';
		body = strstr(buf, "\r\n\r\n");
	}
	*body = '\0';
	here = (unsigned long long)(buf + n - (body + 4));
	last = strcasestr(buf, "\r\nconnection: close") != NULL;
	field = strcasestr(buf, "\r\ncontent-length:");
	if (field != NULL)
		length = strtoull(field + 17, NULL, 10);
	if (here > length)
		return false;
	if (strncmp(buf, "GET /", 5) == 0)
		return give(fd, buf, strtoull(buf + 5, NULL, 10)) && !last;
	return take(fd, buf, length - here) && !last;
}

static void *work(void *arg)
{
	int fd = *(int *)arg;
	char *buf = malloc(PIECE);

	free(arg);
	while (buf != NULL && serve(fd, buf))
		;
	free(buf);
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (argc != 2 || strlen(argv[1]) >= sizeof a.sun_path) {
		fprintf(stderr, "usage: sink SOCKET\n");
		return 2;
	}
	strcpy(a.sun_path, argv[1]);
	signal(SIGPIPE, SIG_IGN);            /* whoever leaves is only one connection */
	umask(0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 128) < 0) {
		perror(argv[1]);
		return 1;
	}
	for (;;) {
		int *one = malloc(sizeof *one);
		pthread_t t;

		if (one == NULL || (*one = accept(fd, NULL, NULL)) < 0)
			return 1;
		if (pthread_create(&t, NULL, work, one) != 0)
			return 1;
		pthread_detach(t);
	}
}
