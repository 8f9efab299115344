/* From a request's environment to the reply: path, preflight, body, records, then the route table. */
#include "front.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/log.h"
#include "hutch/when.h"

/* api.md 1: what browsers may read. */
#define EXPOSED "X-Next-Token, X-Total-Running, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After"
/* A preflight does not carry the header that names a sandbox, so those of calls to sandboxes come here too, and their headers are many.
 * The star is not for Authorization; the names are for browsers that do not know the star. */
#define ALLOWED "*, Authorization, Content-Type, X-API-Key, X-Admin-Token, X-Team-ID, X-Access-Token, Browser, Lang, Lang_version, Machine, Os, " \
	"Package_version, Processor, Publisher, Release, Sdk_runtime, System, E2b-Sandbox-Id, E2b-Sandbox-Port, " \
	"E2b-Traffic-Access-Token, Connect-Protocol-Version, Connect-Timeout-Ms, Keepalive-Ping-Interval"

/*
 * Path and query from REQUEST_URI, which is as the client sent it. HUTCH_PREFIX, set by the web server's
 * configuration, is cut off its front. A server without REQUEST_URI (it is no part of RFC 3875) gives PATH_INFO and QUERY_STRING.
 */
static int take_target(struct call *c, char *path, struct err *e)
{
	const char *uri = c->header(c, "REQUEST_URI"), *prefix = c->header(c, "HUTCH_PREFIX"), *q;
	size_t n;

	c->path = path;
	c->query = "";
	path[0] = '\0';
	if (uri == NULL) {
		uri = c->header(c, "PATH_INFO");
		c->query = c->header(c, "QUERY_STRING");
		if (c->query == NULL)
			c->query = "";
	}
	if (uri == NULL)
		return err_set(e, ERR_INVALID, "REQUEST_URI is missing");
	if (strncmp(uri, "http://", 7) == 0 || strncmp(uri, "https://", 8) == 0) {
		uri = strchr(uri, ':') + 3;
		uri += strcspn(uri, "/?");
	}
	n = prefix != NULL ? strlen(prefix) : 0;
	if (n > 0 && strncmp(uri, prefix, n) == 0)
		uri += n;
	q = strchr(uri, '?');
	if (q != NULL)
		c->query = q + 1;
	n = q != NULL ? (size_t)(q - uri) : strlen(uri);
	if (n >= URI_MAX)
		return err_set(e, ERR_INVALID, "the path is longer than %d bytes", URI_MAX - 1);
	memcpy(path, uri, n);
	path[n] = '\0';
	return 0;
}

/* Content-Length as a number; -1 when there is none. */
static int take_length(struct call *c, int64_t *out, struct err *e)
{
	const char *text = c->header(c, "CONTENT_LENGTH");
	char *end = NULL;

	*out = -1;
	if (text == NULL || text[0] == '\0')
		return 0;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0')
		return err_set(e, ERR_INVALID, "Content-Length is malformed");
	return 0;
}

/* Is there a body to read? Without a length it goes to the end of the stream; a CGI program's standard input need not have one. */
static bool body_expected(const struct front *f, const struct call *c, int64_t length)
{
	if (length >= 0)
		return length > 0;
	if (strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0 || strcmp(c->method, "OPTIONS") == 0)
		return false;
	return f->body_ends || c->header(c, "HTTP_TRANSFER_ENCODING") != NULL;
}

/* Up to want bytes more; as body_reader. */
static ssize_t more_body(struct call *c, body_reader *read_body, size_t want)
{
	char *to = buf_room(&c->body, want);
	ssize_t n = to != NULL ? read_body(c, to, want) : -1;

	if (n > 0) {
		c->body.len += (size_t)n;
		c->body.p[c->body.len] = '\0';
	}
	return n;
}

/* The whole body or an error: nothing is done on half of one. */
static int take_body(const struct front *f, struct call *c, body_reader *read_body, struct err *e)
{
	size_t limit = c->body.max - 1;
	int64_t length;
	ssize_t n = 1;

	if (take_length(c, &length, e) < 0)
		return -1;
	if (!body_expected(f, c, length))
		return 0;
	while (n > 0 && length <= (int64_t)limit && c->body.len <= limit && (int64_t)c->body.len != length)
		n = more_body(c, read_body, length >= 0 ? (size_t)length - c->body.len : limit + 1 - c->body.len);
	if (length > (int64_t)limit || c->body.len > limit)
		return err_set(e, ERR_TOO_LARGE, "the body is larger than %zu bytes", limit);
	if (n < 0 || (length >= 0 && (int64_t)c->body.len != length))
		return err_set(e, ERR_INVALID, "the body ended early");
	return 0;
}

/* The records, opened by whoever comes first: a web server starts responders before anything else may be up. */
static int take_domain(struct front *f, struct call *c, struct err *e)
{
	int status = 0;

	if (!atomic_load_explicit(&f->open, memory_order_acquire)) {
		pthread_mutex_lock(&f->lock);
		if (!atomic_load(&f->open)) {
			status = domain_open(&f->domain, &f->conf, e);
			if (status == 0 && f->table != NULL && shared_open(&f->domain, e) < 0) {
				domain_close(&f->domain);
				status = -1;
			}
			if (status == 0)
				atomic_store_explicit(&f->open, true, memory_order_release);
			else
				log_error("cannot open the records: %s", e->text);
		}
		pthread_mutex_unlock(&f->lock);
	}
	c->d = status == 0 ? &f->domain : NULL;
	return status < 0 ? err_set(e, ERR_UNAVAILABLE, "the records are not available") : 0;
}

static bool preflight(struct call *c)
{
	if (strcmp(c->method, "OPTIONS") != 0 || c->header(c, "HTTP_ORIGIN") == NULL ||
	    c->header(c, "HTTP_ACCESS_CONTROL_REQUEST_METHOD") == NULL)
		return false;
	c->status = 204;
	call_header(c, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
	call_header(c, "Access-Control-Allow-Headers", ALLOWED);
	call_header(c, "Access-Control-Max-Age", "7200");
	return true;
}

static void serve_table(struct front *f, struct call *c, body_reader *read_body)
{
	struct err e = { .kind = ERR_NONE };
	int64_t began = boot_us();

	if (!preflight(c)) {
		if (take_body(f, c, read_body, &e) < 0 || take_domain(f, c, &e) < 0)
			call_fail(c, &e);
		else
			route_call(f->table, f->rows, c);
		if (c->d != NULL)
			count_request(c->d, f->name, c->status, boot_us() - began);
	}
	if (c->header(c, "HTTP_ORIGIN") != NULL) {
		call_header(c, "Access-Control-Allow-Origin", "*");
		call_header(c, "Access-Control-Expose-Headers", EXPOSED);
	}
}

void front_serve(struct front *f, struct call *c, char *path, body_reader *read_body)
{
	struct err e = { .kind = ERR_NONE };

	call_reset(c);
	c->method = c->header(c, "REQUEST_METHOD");
	if (c->method == NULL)
		c->method = "";
	if (take_target(c, path, &e) < 0) {
		call_fail(c, &e);
	} else if (f->table != NULL) {
		serve_table(f, c, read_body);
	} else {
		take_domain(f, c, &e);
		f->raw(c);
	}
}

bool front_has_body(const struct call *c)
{
	return c->out.len > 0 && c->status != 204 && strcmp(c->method, "HEAD") != 0;
}

/* buf_addf would cost more than all the rest of a head. */
static void add_number(struct buf *b, size_t n)
{
	char text[24], *p = text + sizeof text;

	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	buf_add(b, p, (size_t)(text + sizeof text - p));
}

void front_head(const struct call *c, struct buf *head)
{
	buf_reset(head);
	buf_adds(head, "Status: ");
	add_number(head, (size_t)c->status);
	if (c->out.len > 0 && c->status != 204) {
		buf_adds(head, "\r\nContent-Type: ");
		buf_adds(head, c->type != NULL ? c->type : "application/json");
	}
	if (c->status != 204) {
		buf_adds(head, "\r\nContent-Length: ");
		add_number(head, c->out.len);
	}
	buf_adds(head, "\r\n");
	buf_add(head, buf_str(&c->headers), c->headers.len);
	buf_adds(head, "\r\n");
}
