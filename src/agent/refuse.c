/*
 * "The sandbox is running but port is not open": 502 as JSON, or as a page for browsers (guest.md 8.3). A browser's preflight gets the answer
 * that the edge gives to one whose request it would refuse, so that scripts may send the request and read the 502.
 */
#include "config.h"

#include "agent.h"
#include "forward.h"

#include <ctype.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hutch/chunked.h"
#include "hutch/envd.h"
#include "hutch/json.h"
#include "hutch/when.h"

#define PATIENCE_MS 10000       /* for the head */
#define SKIP_MS 10000           /* for the rest of the body, in all */
#define SILENCE_MS 2000         /* within it */
#define LINGER_MS 1000          /* for the client to stop sending and see the answer */

/* Does the field's value contain word? Case aside. */
static bool says(const struct h1_head *head, const char *field, const char *word)
{
	const struct h1_span *v = h1_field(head, field);
	size_t n = strlen(word);

	for (size_t i = 0; v != NULL && i + n <= v->n; i++)
		if (strncasecmp(v->p + i, word, n) == 0)
			return true;
	return false;
}

bool wants_page(const struct h1_head *head)
{
	static const char *const browsers[] = { "mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie" };
	static const char *const fetches[] = { "cors", "no-cors", "same-origin", "websocket" };
	const struct h1_span *mode = h1_field(head, "sec-fetch-mode");
	bool browser = false;

	for (size_t i = 0; i < sizeof browsers / sizeof browsers[0]; i++)
		browser = browser || says(head, "user-agent", browsers[i]);
	if (!browser || (says(head, "accept", "application/json") && !says(head, "accept", "text/html")))
		return false;
	for (size_t i = 0; mode != NULL && i < sizeof fetches / sizeof fetches[0]; i++)
		if (h1_span_is_nocase(*mode, fetches[i]))
			return false;
	return h1_field(head, "x-requested-with") == NULL || (mode != NULL && h1_span_is_nocase(*mode, "navigate"));
}

static void json_text(struct buf *b, const char *sandbox_id, int port)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "sandboxId", sandbox_id);
	jw_kstr(&w, "message", "The sandbox is running but port is not open");
	jw_kint(&w, "port", port);
	jw_kint(&w, "code", 502);
	jw_close(&w, '}');
}

/* The id goes into the page only if it is made of letters and digits, as ids are. */
static void page_text(struct buf *b, const char *sandbox_id, int port)
{
	size_t plain = 0;

	while (isalnum((unsigned char)sandbox_id[plain]))
		plain++;
	buf_addf(b, "<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Closed port</title></head>"
		 "<body><h1>Closed port</h1><p>Sandbox <code>%s</code> is running, but there is no service running on port "
		 "<code>%d</code>.</p></body></html>", sandbox_id[plain] == '\0' ? sandbox_id : "", port);
}

static bool send_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		p += sent;
		n -= (size_t)sent;
	}
	return true;
}

static void refusal(struct buf *all, const struct h1_head *head, const char *sandbox_id, int port)
{
	bool page = wants_page(head);
	struct buf body;

	buf_init(&body, 4096);
	if (page)
		page_text(&body, sandbox_id, port);
	else
		json_text(&body, sandbox_id, port);
	buf_addf(all, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
		 page ? "text/html; charset=utf-8" : "application/json; charset=utf-8", body.len,
		 h1_field(head, "origin") != NULL ? "Access-Control-Allow-Origin: *\r\nVary: Origin\r\n" : "");
	if (!h1_span_is(head->method, "HEAD"))
		buf_add(all, buf_str(&body), body.len);
	buf_release(&body);
}

static bool reply(int fd, const struct h1_head *head, const char *sandbox_id, int port)
{
	struct buf all;
	bool ok;

	buf_init(&all, 2 * H1_HEAD_MAX);
	if (is_preflight(head)) {
		const struct h1_span *asked = h1_field(head, "access-control-request-headers");

		buf_adds(&all, "HTTP/1.1 204 No Content\r\n");
		envd_preflight(&all, asked != NULL ? asked->p : NULL, asked != NULL ? asked->n : 0);
		buf_adds(&all, "Connection: close\r\n\r\n");
	} else {
		refusal(&all, head, sandbox_id, port);
	}
	ok = send_all(fd, buf_str(&all), all.len);
	buf_release(&all);
	return ok;
}

/* Some bytes within the time; 0 at the end of it or of the stream. */
static size_t receive(int fd, char *p, size_t n, int64_t until)
{
	struct pollfd w = { .fd = fd, .events = POLLIN };
	int64_t left = (until - boot_us()) / US_PER_MS;
	ssize_t got;

	if (left <= 0 || poll(&w, 1, (int)left) <= 0)
		return 0;
	got = recv(fd, p, n, MSG_DONTWAIT);
	return got > 0 ? (size_t)got : 0;
}

/* Read over the request's body, as h1.h says of its own replies; p[0..n) came with the head. */
static void skip_body(int fd, const struct h1_head *head, const char *p, size_t n)
{
	int64_t until = boot_us() + SKIP_MS * US_PER_MS, left = head->length;
	struct chunked c;
	char scrap[4096];

	chunked_init(&c);
	for (size_t total = 0; total < H1_SKIP_MAX; total += n) {
		if (head->chunked ? chunked_scan(&c, p, n) < 0 || chunked_done(&c) : (left -= (int64_t)n) <= 0)
			return;
		const int64_t silent = boot_us() + SILENCE_MS * US_PER_MS;

		n = receive(fd, scrap, sizeof scrap, silent < until ? silent : until);
		if (n == 0)
			return;
		p = scrap;
	}
}

/* A body that is still coming would make the close a reset, and the answer could be lost. */
static void linger(int fd)
{
	int64_t until = boot_us() + LINGER_MS * US_PER_MS;
	char scrap[4096];

	shutdown(fd, SHUT_WR);
	while (receive(fd, scrap, sizeof scrap, until) > 0)
		;
}

void refuse_client(int fd, const char *sandbox_id, int port)
{
	int64_t until = boot_us() + PATIENCE_MS * US_PER_MS;
	struct h1_head *head = malloc(sizeof *head);
	struct buf in;
	struct err e;
	ssize_t n = 0;

	buf_init(&in, H1_HEAD_MAX);
	while (head != NULL && n == 0) {
		char *room = buf_room(&in, 4096);
		size_t got = room != NULL ? receive(fd, room, 4096, until) : 0;

		if (got == 0)
			break;
		in.len += got;
		n = h1_parse_request(in.p, in.len, head, &e);
	}
	if (n > 0 && !head->expect_continue && head->length <= H1_SKIP_MAX)
		skip_body(fd, head, in.p + n, in.len - (size_t)n);
	if (n > 0 && reply(fd, head, sandbox_id, port))
		linger(fd);
	free(head);
	buf_release(&in);
}
