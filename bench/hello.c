/*
 * hello.c - the smallest FastCGI responder: what a request costs behind this web server when nothing is done.
 * The measure of `GET /sandboxes/{id}` is its rate against this one's, both under the same server with the same
 * number of processes and threads.
 *
 *   spawn-fcgi -s SOCKET -F PROCESSES -- hello THREADS BYTES     (BYTES: length of the body, 15 when not given)
 */
#include <fcgiapp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *body;

static void *serve(void *arg)
{
	FCGX_Request r;

	(void)arg;
	FCGX_InitRequest(&r, 0, 0);
	while (FCGX_Accept_r(&r) >= 0) {
		FCGX_FPrintF(r.out, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", (int)strlen(body), body);
		FCGX_Finish_r(&r);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 15;
	pthread_t t;

	if (threads < 1 || n < 15 || n > 10000000 || FCGX_Init() != 0)
		return 2;
	body = malloc(n + 1);
	if (body == NULL)
		return 1;
	memset(body, 'x', n);
	memcpy(body, "{\"hello\":\"", 10);
	memcpy(body + n - 2, "\"}", 3);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&t, NULL, serve, NULL) != 0)
			return 1;
	serve(NULL);
	return 0;
}
