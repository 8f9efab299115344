/* The texts are those that the SDKs and their tests know (guest.md 8.3). */
#include "config.h"

#include <string.h>

#include "place.h"
#include "hutch/json.h"

#define ECHO_MAX 8192

static bool has(const char *text, const char *part)
{
	return text != NULL && strcasestr(text, part) != NULL;
}

static bool is_browser(const char *user_agent)
{
	static const char *const names[] = { "mozilla", "chrome", "safari", "firefox", "edge", "opera", "msie" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (has(user_agent, names[i]))
			return true;
	return false;
}

/* A page that a person opened, not a call by a script in one. */
static bool wants_html(const struct edge_request *r)
{
	static const char *const script_modes[] = { "cors", "no-cors", "same-origin", "websocket" };
	const char *mode = r->sec_fetch_mode != NULL ? r->sec_fetch_mode : "";

	if (!is_browser(r->user_agent))
		return false;
	if (has(r->accept, "application/json") && !has(r->accept, "text/html"))
		return false;
	for (size_t i = 0; i < sizeof script_modes / sizeof script_modes[0]; i++)
		if (strcasecmp(mode, script_modes[i]) == 0)
			return false;
	return r->requested_with == NULL || strcasecmp(mode, "navigate") == 0;
}

static const char *message(const struct edge_answer *a)
{
	switch (a->verdict) {
	case EDGE_BAD_HOST:
		return a->why != NULL ? a->why : "the request names no sandbox";
	case EDGE_NOT_FOUND:
		return "The sandbox was not found";
	case EDGE_PORT_CLOSED:
		return "The sandbox is running but port is not open";
	case EDGE_RESERVED:
		return ENVD_RESERVED_TEXT;
	case EDGE_GAP:
		return TWIN_GAP_TEXT;
	case EDGE_FULL:
		return "Too many connections to sandboxes at once, try again";
	case EDGE_DENIED:
		return "The sandbox is paused and this request may not resume it: the access token is missing or invalid";
	case EDGE_TRAFFIC_MISSING:
		return "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing";
	case EDGE_TRAFFIC_WRONG:
		return "Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid";
	case EDGE_BUSY:
		return "The sandbox is in transition, try again";
	case EDGE_LIMIT:
		return "The sandbox is paused, and its team runs as many sandboxes as it may";
	default:
		return "The sandbox cannot be reached at the moment";
	}
}

static void json_body(const struct edge_answer *a, struct buf *b)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	if (a->verdict != EDGE_BAD_HOST && a->verdict != EDGE_RESERVED)
		jw_kstr(&w, "sandboxId", a->sandbox_id);
	jw_kstr(&w, "message", message(a));
	if (a->verdict == EDGE_PORT_CLOSED)
		jw_kint(&w, "port", a->port);
	if (a->verdict == EDGE_RESERVED)
		jw_kstr(&w, "path", a->path);
	jw_kint(&w, "code", a->status);
	jw_close(&w, '}');
}

/* As a Connect client reads it, whatever the call is: {"code": name, "message"}. */
static void connect_body(const struct edge_answer *a, struct buf *b)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "code", a->verdict == EDGE_GAP ? "unimplemented" : "unavailable");
	jw_kstr(&w, "message", message(a));
	jw_close(&w, '}');
}

/* Nothing of the client's goes in but an id of [a-z0-9] and a number. */
static void html_body(const struct edge_answer *a, struct buf *b)
{
	const char *title = a->verdict == EDGE_NOT_FOUND ? "Sandbox Not Found"
		: a->verdict == EDGE_PORT_CLOSED ? "Port Not Open"
		: a->verdict == EDGE_BAD_HOST ? "Bad Request" : a->verdict == EDGE_UNAVAILABLE ? "Sandbox Not Reachable"
		: a->verdict == EDGE_FULL ? "Too Many Connections"
		: a->verdict == EDGE_TRAFFIC_MISSING ? "Missing Traffic Access Token"
		: a->verdict == EDGE_TRAFFIC_WRONG ? "Invalid Traffic Access Token" : "Sandbox Not Resumed";

	buf_addf(b, "<html><head><meta charset=\"utf-8\"><title>%s</title></head><body><h1>%s</h1><p>", title, title);
	if (a->verdict == EDGE_PORT_CLOSED)
		buf_addf(b, "The sandbox <b>%s</b> is running, but there is no service running on port <b>%d</b>.", a->sandbox_id, a->port);
	else if (a->verdict == EDGE_NOT_FOUND)
		buf_addf(b, "The sandbox <b>%s</b> was not found: it has ended, or it never was.", a->sandbox_id);
	else if (a->verdict != EDGE_UNAVAILABLE)
		buf_addf(b, "%s.", message(a));
	else
		buf_addf(b, "The sandbox <b>%s</b> cannot be reached at the moment.", a->sandbox_id);
	buf_adds(b, "</p></body></html>");
}

const char *edge_body(const struct edge_request *r, const struct edge_answer *a, struct buf *b)
{
	bool connect = a->status >= 502 && place_connect(a->target, r->content_type);

	if (a->verdict == EDGE_PREFLIGHT)
		return NULL;
	if (a->verdict == EDGE_GAP || connect) {
		connect_body(a, b);
		return "application/json";
	}
	if (a->verdict != EDGE_RESERVED && wants_html(r)) {
		html_body(a, b);
		return "text/html; charset=utf-8";
	}
	json_body(a, b);
	return "application/json; charset=utf-8";
}

/* What is asked for is sent back only where it is a field's text that fits: behind nginx all this shares one buffer of 16 kB. */
static bool fits(const char *text)
{
	size_t n = 0;

	while ((unsigned char)text[n] >= ' ' && n <= ECHO_MAX)
		n++;
	return n <= ECHO_MAX && text[n] == '\0';
}

void edge_fields(const struct edge_request *r, const struct edge_answer *a, struct buf *b)
{
	const char *asked = r->asked_headers != NULL && fits(r->asked_headers) ? r->asked_headers : NULL;

	if (a->verdict == EDGE_PREFLIGHT)
		envd_preflight(b, asked, asked != NULL ? strlen(asked) : 0);
	else if (r->origin != NULL)
		buf_adds(b, "Access-Control-Allow-Origin: *\r\nVary: Origin\r\n");
	if (a->verdict == EDGE_LIMIT)
		buf_addf(b, "Retry-After: %d\r\n%s", LIMIT_RETRY_S, r->origin != NULL ? "Access-Control-Expose-Headers: Retry-After\r\n" : "");
}
