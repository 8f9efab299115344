#include "config.h"

#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hutch/crypto.h"
#include "hutch/h1.h"

/* Path of a target, which may be in absolute form. */
static struct h1_span path_of(const char *target)
{
	if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
		target = strstr(target, "//") + 2;
		target += strcspn(target, "/?");
	}
	return (struct h1_span){ target, strcspn(target, "?#") };
}

/* Length of a host without its :port and without the dot that may end it. */
static size_t bare_len(const char *host)
{
	size_t n = strcspn(host, ":");

	return n > 0 && host[n - 1] == '.' ? n - 1 : n;
}

static bool same_host(const char *a, size_t n, const char *b)
{
	return n == bare_len(b) && strncasecmp(a, b, n) == 0;
}

/* 1 to 65535 in at most five digits; its length, or 0. */
static size_t take_port(const char *s, int *port)
{
	size_t n = 0;

	*port = 0;
	for (; s[n] >= '0' && s[n] <= '9'; n++)
		if (n == 5)
			return 0;
		else
			*port = *port * 10 + (s[n] - '0');
	return *port >= 1 && *port <= 65535 ? n : 0;
}

/* An id of [a-z0-9] up to one of `ends`. Upper case passes in hosts, which know no case. */
static int take_id(const char *s, const char *ends, bool fold, char out[EDGE_ID_LEN])
{
	size_t n = strcspn(s, ends);

	if (n == 0 || n >= EDGE_ID_LEN)
		return -1;
	for (size_t i = 0; i < n; i++) {
		char ch = fold && s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] + ('a' - 'A')) : s[i];

		if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9'))
			return -1;
		out[i] = ch;
	}
	out[n] = '\0';
	return 0;
}

/* PORT-ID[-anything].DOMAIN: 1 it is, 0 it is another host, -1 it is meant to be but is malformed. */
static int from_host(const char *domain, const char *host, struct edge_answer *a)
{
	size_t label = strcspn(host, ".:"), digits = strspn(host, "0123456789");
	const char *rest = host + label + 1;
	char id[EDGE_ID_LEN];
	int port;

	if (host[label] != '.' || digits == 0 || host[digits] != '-')
		return 0;
	if (!same_host(rest, bare_len(rest), domain) && !same_host(rest, bare_len(rest), "localhost"))
		return 0;
	if (take_port(host, &port) != digits) {
		a->why = "the port in the host name is not a number from 1 to 65535";
		return -1;
	}
	if (take_id(host + digits + 1, "-.", true, id) < 0) {
		a->why = "the sandbox id in the host name is malformed";
		return -1;
	}
	strcpy(a->sandbox_id, id);
	a->port = port;
	return 1;
}

/* /_sandbox/ID/PORT/...: 1 it is, 0 it is another path, -1 it is meant to be but is malformed. */
static int from_path(struct edge_answer *a)
{
	size_t n = strlen(EDGE_PATH), digits;

	if (a->target == NULL || strncmp(a->target, EDGE_PATH, n) != 0)
		return 0;
	a->why = "the path is not /_sandbox/ID/PORT/...";
	if (take_id(a->target + n, "/", false, a->sandbox_id) < 0)
		return -1;
	n += strlen(a->sandbox_id) + 1;
	if (a->target[n - 1] != '/')
		return -1;
	digits = take_port(a->target + n, &a->port);
	n += digits;
	if (digits == 0 || a->target[n] != '/')
		return -1;
	snprintf(a->prefix, sizeof a->prefix, "%.*s", (int)n, a->target);
	a->target += n;
	return 1;
}

static int from_headers(const struct edge_request *r, struct edge_answer *a)
{
	const char *id = r->sandbox_header, *port = r->port_header;

	if (id == NULL || *id == '\0')
		a->why = port == NULL ? "the host is no PORT-ID.DOMAIN and the headers E2b-Sandbox-Id and E2b-Sandbox-Port are missing"
				      : "missing header: E2b-Sandbox-Id";
	else if (take_id(id, "-", false, a->sandbox_id) < 0)
		a->why = "E2b-Sandbox-Id is malformed";
	else if (port == NULL || *port == '\0')
		a->why = "missing header: E2b-Sandbox-Port";
	else if (take_port(port, &a->port) != strlen(port))
		a->why = "E2b-Sandbox-Port is not a number from 1 to 65535";
	else
		return 0;
	return -1;
}

/* As the agent tells one (src/agent/rest.c). Any other OPTIONS is a request like all. */
static bool is_preflight(const struct edge_request *r)
{
	return r->method != NULL && strcmp(r->method, "OPTIONS") == 0 && r->origin != NULL && r->asked_method != NULL;
}

int edge_place(const char *domain, const struct edge_request *r, struct edge_answer *a)
{
	int rc = r->host != NULL ? from_host(domain, r->host, a) : 0;

	a->preflight = is_preflight(r);
	a->target = r->raw_target != NULL ? path_of(r->raw_target).p : NULL;
	if (rc == 0)
		rc = from_path(a);
	return rc != 0 ? (rc > 0 ? 0 : -1) : from_headers(r, a);
}

/* ---- control routes ---- */

/* Decode what can be decoded; a broken escape stays as it is, for some reader may take it so. */
static size_t decode(struct h1_span s, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		int hi = -1, lo = -1;

		if (s.p[i] == '%' && s.n - i > 2) {
			hi = hex_value(s.p[i + 1]);
			lo = hex_value(s.p[i + 2]);
		}
		if (hi >= 0 && lo >= 0) {
			out[n++] = (char)(hi * 16 + lo);
			i += 2;
		} else {
			out[n++] = s.p[i];
		}
	}
	return n;
}

/* In place (p[0] is a slash, so it never grows): no empty, "." or ".." segments and no slash at the end, as the reader behind may clean it. */
static size_t clean(char *p, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n;) {
		size_t from = i, len;

		while (i < n && p[i] != '/')
			i++;
		len = i - from;
		i++;
		if (len == 0 || (len == 1 && p[from] == '.'))
			continue;
		if (len == 2 && p[from] == '.' && p[from + 1] == '.') {
			while (out > 0 && p[--out] != '/')
				;
			continue;
		}
		p[out++] = '/';
		memmove(p + out, p + from, len);
		out += len;
	}
	return out;
}

bool place_reserved(const char *raw_target, char path[ENVD_RESERVED_MAX])
{
	struct h1_span raw = path_of(raw_target);
	char small[512], *p = raw.n < sizeof small ? small : malloc(raw.n + 1);
	const char *found;

	strcpy(path, "");
	if (p == NULL)
		return true;                          /* out of memory: refuse rather than let through */
	p[0] = '/';
	found = envd_reserved(p, clean(p, decode(raw, p + 1) + 1));
	if (found != NULL)
		strcpy(path, found);
	if (p != small)
		free(p);
	return found != NULL;
}

bool place_admitted(int port, const char *raw_target)
{
	struct h1_span path = path_of(raw_target);

	return twin_admits(port, path.p, path.n);
}

static bool begins(const char *s, const char *with)
{
	return strncasecmp(s, with, strlen(with)) == 0;
}

bool place_connect(const char *raw_target, const char *content_type)
{
	struct h1_span path;

	if (content_type == NULL)
		return false;
	if (begins(content_type, "application/connect+") || begins(content_type, "application/proto"))
		return true;
	if (raw_target == NULL || !begins(content_type, "application/json"))
		return false;
	path = path_of(raw_target);          /* a unary call looks like any JSON: its path tells */
	return path.n > 1 && (begins(path.p, "/process.Process/") || begins(path.p, "/filesystem.Filesystem/"));
}
