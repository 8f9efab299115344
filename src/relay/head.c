/* The request head as the upstream gets it: as it came, but for the fields that concern one connection only. */
#include "config.h"

#include <string.h>

#include "relay_int.h"

static void add_span(struct buf *b, struct h1_span s)
{
	buf_add(b, s.p, s.n);
}

static bool hop_by_hop(struct h1_span name)
{
	static const char *const names[] = { "Connection", "Keep-Alive", "Proxy-Connection", "Upgrade" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (h1_span_is_nocase(name, names[i]))
			return true;
	return false;
}

/* network.maskRequestHost: the guest sees that host, and where the request came to as X-Forwarded-Host. */
static void add_masked(struct buf *b, const struct h1_head *h, const char *host)
{
	const struct h1_span *asked = h1_field(h, "Host");

	buf_addf(b, "Host: %s\r\n", host);
	if (asked == NULL)
		return;
	buf_adds(b, "X-Forwarded-Host: ");
	add_span(b, *asked);
	buf_adds(b, "\r\n");
}

/* The path form: what was cut off, and the place as it is said in the other form. */
static void add_place(struct buf *b, const struct edge_answer *a)
{
	buf_addf(b, "X-Forwarded-Prefix: %s\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\n", a->prefix, a->sandbox_id, a->port);
}

/* Is the client's field not passed on, because it is said here, or not for the client to say? */
static bool replaced(struct h1_span name, const struct edge_answer *a)
{
	if (h1_span_is_nocase(name, "X-Forwarded-Prefix"))
		return true;
	if (a->host[0] != '\0' && (h1_span_is_nocase(name, "Host") || h1_span_is_nocase(name, "X-Forwarded-Host")))
		return true;
	return a->prefix[0] != '\0' && (h1_span_is_nocase(name, "E2b-Sandbox-Id") || h1_span_is_nocase(name, "E2b-Sandbox-Port"));
}

/* "Connection: close" makes the upstream end after its answer, and a half-way house for a second request is closed with it. */
static void add_head(struct buf *b, const struct h1_head *h, const struct edge_answer *a, bool upgrade)
{
	add_span(b, h->method);
	buf_addc(b, ' ');
	if (a->prefix[0] != '\0')
		buf_adds(b, a->target);
	else
		add_span(b, h->target);
	buf_addf(b, " HTTP/1.%d\r\n", h->minor);
	if (a->host[0] != '\0')
		add_masked(b, h, a->host);
	if (a->prefix[0] != '\0')
		add_place(b, a);
	for (size_t i = 0; i < h->nfields; i++) {
		if (hop_by_hop(h->fields[i].name) && !(upgrade && h1_span_is_nocase(h->fields[i].name, "Upgrade")))
			continue;
		if (replaced(h->fields[i].name, a))
			continue;
		add_span(b, h->fields[i].name);
		buf_adds(b, ": ");
		add_span(b, h->fields[i].value);
		buf_adds(b, "\r\n");
	}
	buf_adds(b, upgrade ? "Connection: Upgrade\r\n\r\n" : "Connection: close\r\n\r\n");
}

ssize_t head_body(struct link *k, const struct h1_head *h, size_t head_len)
{
	size_t n = k->in_len - head_len;
	ssize_t used;

	k->expects = h->expect_continue;
	if (h->chunked) {
		chunked_init(&k->chunked);
		used = chunked_scan(&k->chunked, k->in + head_len, n);
		k->mode = used >= 0 && !chunked_done(&k->chunked) ? UP_CHUNKED : UP_NONE;
		return used;
	}
	k->left = h->length > 0 ? h->length : 0;
	if ((int64_t)n > k->left)
		n = (size_t)k->left;
	k->left -= (int64_t)n;
	k->mode = k->left > 0 ? UP_LENGTH : UP_NONE;
	return (ssize_t)n;
}

int head_forward(struct link *k, const struct h1_head *h, size_t head_len, size_t body_n)
{
	/* The agent speaks no other protocol, so an upgrade to it would only open a way around the check of its control routes. */
	bool upgrade = h->upgrade && k->answer.port != ENVD_PORT;
	struct buf b;

	if (upgrade) {
		k->mode = UP_RAW;
		k->tunnel = true;
		body_n = k->in_len - head_len;
	}
	buf_init(&b, 4 * H1_HEAD_MAX);
	add_head(&b, h, &k->answer, upgrade);
	buf_add(&b, k->in + head_len, body_n);
	k->out_len = b.len;
	k->out = buf_take(&b);
	if (k->out == NULL)
		buf_release(&b);
	return k->out != NULL ? 0 : -1;
}
