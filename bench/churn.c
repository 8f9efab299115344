/*
 * churn.c - load: threads that send requests over connections they keep, and say how long each took.
 *
 *   churn PORT KEY THREADS SECONDS create          create a sandbox, kill it, again; prints one line per pair:
 *                                                  microseconds of the create, microseconds of the kill
 *   churn PORT KEY THREADS SECONDS get TARGET [HEADER...]   GET it again and again; one line per request: microseconds
 *
 * Standard output is the samples; the last line is `rate N` (pairs or requests per second). A status that is not
 * 2xx ends the run with 1. Plain sockets and one read per answer: the load takes little from the two processors that
 * it shares with what it measures.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 4000000
#define REPLY_MAX (1 << 20)

static int port;
static const char *key;
static char *fixed;                  /* request of `get` */
static int64_t end_us;
static uint32_t *samples;            /* pairs for create */
static atomic_long used, failed;

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Is the answer in buf whole? Its status, 0 when more must come, -1 when it is none. *end: the connection ends with it. */
static int whole(char *buf, size_t n, bool *end)
{
	char *body, *field;
	int status = 0;

	buf[n] = '\0';
	body = strstr(buf, "\r\n\r\n");
	if (body == NULL)
		return 0;
	if (sscanf(buf, "HTTP/1.1 %d", &status) != 1)
		return -1;
	*body = '\0';
	*end = strcasestr(buf, "\r\nconnection: close") != NULL;
	field = strcasestr(buf, "\r\ncontent-length:");
	if (field != NULL) {
		size_t want = strtoul(field + 17, NULL, 10);

		*body = '\r';
		return n >= (size_t)(body + 4 - buf) + want ? status : 0;
	}
	if (strcasestr(buf, "\r\ntransfer-encoding: chunked") != NULL) {
		*body = '\r';
		return strstr(body, "\r\n0\r\n\r\n") != NULL ? status : 0;
	}
	*body = '\r';
	return status;
}

/* One request; the answer stays in buf. Status, or -1. */
static int call(int *fd, const char *request, size_t n, char *buf)
{
	bool end = false;

	for (int turn = 0; turn < 2; turn++) {
		size_t got = 0;
		int status = 0;

		if (*fd < 0 && (*fd = dial()) < 0)
			return -1;
		if (send(*fd, request, n, MSG_NOSIGNAL) == (ssize_t)n) {
			while (status == 0 && got < REPLY_MAX - 1) {
				ssize_t r = recv(*fd, buf + got, REPLY_MAX - 1 - got, 0);

				if (r <= 0)
					break;
				got += (size_t)r;
				status = whole(buf, got, &end);
			}
		}
		if (status <= 0 || end) {
			close(*fd);
			*fd = -1;
		}
		if (status > 0)
			return status;
		if (got > 0)                 /* only a kept connection that the server had closed is tried again */
			return -1;
	}
	return -1;
}

static void keep(uint32_t a, uint32_t b, int per)
{
	long at = atomic_fetch_add(&used, per);

	if (at + per > SAMPLES)
		return;
	samples[at] = a;
	if (per == 2)
		samples[at + 1] = b;
}

static int pair(int *fd, char *buf)
{
	static const char body[] = "{\"templateID\":\"base\",\"timeout\":300}";
	char text[1024], id[64];
	int64_t t0, t1, t2;
	char *at;
	int n, status;

	n = snprintf(text, sizeof text, "POST /v2/sandboxes HTTP/1.1\r\nHost: bench\r\nX-API-Key: %s\r\nContent-Type: application/json\r\n"
		     "Content-Length: %zu\r\n\r\n%s", key, sizeof body - 1, body);
	t0 = now_us();
	status = call(fd, text, (size_t)n, buf);
	t1 = now_us();
	at = status == 201 ? strstr(buf, "\"sandboxID\":\"") : NULL;
	if (at == NULL || sscanf(at + 13, "%63[a-z0-9]", id) != 1) {
		fprintf(stderr, "create: %d %.300s\n", status, status > 0 ? buf : "");
		return -1;
	}
	n = snprintf(text, sizeof text, "DELETE /sandboxes/%s HTTP/1.1\r\nHost: bench\r\nX-API-Key: %s\r\n\r\n", id, key);
	status = call(fd, text, (size_t)n, buf);
	t2 = now_us();
	if (status != 204) {
		fprintf(stderr, "kill: %d %.300s\n", status, status > 0 ? buf : "");
		return -1;
	}
	keep((uint32_t)(t1 - t0), (uint32_t)(t2 - t1), 2);
	return 0;
}

static int get(int *fd, char *buf)
{
	int64_t t0 = now_us();
	int status = call(fd, fixed, strlen(fixed), buf);

	if (status < 200 || status > 299) {
		fprintf(stderr, "get: %d %.300s\n", status, status > 0 ? buf : "");
		return -1;
	}
	keep((uint32_t)(now_us() - t0), 0, 1);
	return 0;
}

static void *work(void *arg)
{
	char *buf = malloc(REPLY_MAX);
	int fd = -1;

	(void)arg;
	while (buf != NULL && now_us() < end_us && atomic_load(&failed) == 0)
		if ((fixed != NULL ? get(&fd, buf) : pair(&fd, buf)) < 0)
			atomic_fetch_add(&failed, 1);
	free(buf);
	if (fd >= 0)
		close(fd);
	return NULL;
}

static char *get_request(int argc, char **argv)
{
	static char text[8192];
	size_t n = (size_t)snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nX-API-Key: %s\r\n", argv[6], key);
	bool host = false;

	for (int i = 7; i < argc && n < sizeof text; i++) {
		host = host || strncasecmp(argv[i], "host:", 5) == 0;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s\r\n", argv[i]);
	}
	if (n < sizeof text)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s\r\n", host ? "" : "Host: bench\r\n");
	return n < sizeof text ? text : NULL;
}

int main(int argc, char **argv)
{
	int threads, per;
	double seconds;
	int64_t start;
	pthread_t t[256];

	if (argc < 6 || (strcmp(argv[5], "get") == 0 ? argc < 7 : strcmp(argv[5], "create") != 0)) {
		fprintf(stderr, "usage: churn PORT KEY THREADS SECONDS create | get TARGET [HEADER...]\n");
		return 2;
	}
	port = atoi(argv[1]);
	key = argv[2];
	threads = atoi(argv[3]);
	seconds = atof(argv[4]);
	if (strcmp(argv[5], "get") == 0 && (fixed = get_request(argc, argv)) == NULL)
		return 2;
	per = fixed != NULL ? 1 : 2;
	samples = malloc(SAMPLES * sizeof *samples);
	if (threads < 1 || threads > 256 || samples == NULL)
		return 2;
	start = now_us();
	end_us = start + (int64_t)(seconds * 1e6);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, work, NULL) != 0)
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	for (long i = 0; i < used && i < SAMPLES; i += per)
		per == 2 ? printf("%u %u\n", samples[i], samples[i + 1]) : printf("%u\n", samples[i]);
	printf("rate %.2f\n", (double)(used / per) * 1e6 / (double)(now_us() - start));
	return atomic_load(&failed) != 0;
}
