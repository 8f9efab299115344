/* hutch-edge: tells nginx which unix socket serves a request of the data plane, and words the refusals. */
#include <stdio.h>
#include <string.h>

#include "hutch/call.h"
#include "hutch/edge.h"

static void take_request(const struct call *c, struct edge_request *r)
{
	const char *type = c->header(c, "CONTENT_TYPE");

	*r = (struct edge_request){
		.method = c->method,
		.host = c->header(c, "HTTP_HOST"),
		.sandbox_header = c->header(c, "HTTP_E2B_SANDBOX_ID"),
		.port_header = c->header(c, "HTTP_E2B_SANDBOX_PORT"),
		.raw_target = c->header(c, "REQUEST_URI"),
		.content_type = type != NULL ? type : c->header(c, "HTTP_CONTENT_TYPE"),
		.access_token = c->header(c, "HTTP_X_ACCESS_TOKEN"),
		.traffic_token = c->header(c, "HTTP_E2B_TRAFFIC_ACCESS_TOKEN"),
		.user_agent = c->header(c, "HTTP_USER_AGENT"),
		.accept = c->header(c, "HTTP_ACCEPT"),
		.sec_fetch_mode = c->header(c, "HTTP_SEC_FETCH_MODE"),
		.requested_with = c->header(c, "HTTP_X_REQUESTED_WITH"),
		.origin = c->header(c, "HTTP_ORIGIN"),
		.asked_method = c->header(c, "HTTP_ACCESS_CONTROL_REQUEST_METHOD"),
		.asked_headers = c->header(c, "HTTP_ACCESS_CONTROL_REQUEST_HEADERS"),
	};
}

static void add_refusal(struct call *c, const struct edge_request *r, const struct edge_answer *a)
{
	char status[16];
	const char *type;
	struct buf body;

	snprintf(status, sizeof status, "%d", a->status);
	call_header(c, "X-Hutch-Status", status);
	buf_init(&body, 4096);
	type = edge_body(r, a, &body);
	if (type != NULL) {
		call_header(c, "X-Hutch-Type", type);
		call_header(c, "X-Hutch-Body", buf_str(&body));
	}
	buf_release(&body);
	edge_fields(r, a, &c->headers);
}

/* nginx's auth_request takes 200 and 403 only. A refusal's status, type and body travel in header fields, so that nginx can
 * answer by itself without passing the request's body to anybody; the body is one line for that reason. */
static void answer_resolve(struct call *c, const struct edge_request *r, const struct edge_answer *a)
{
	char text[sizeof a->upstream + 8];
	struct edge_answer gone;

	if (a->verdict == EDGE_GO) {
		snprintf(text, sizeof text, "unix:%s", a->upstream);
		c->status = 200;
		call_header(c, "X-Upstream", text);
		if (a->host[0] != '\0')
			call_header(c, "X-Hutch-Host", a->host);
		if (a->prefix[0] != '\0')
			call_header(c, "X-Hutch-Prefix", a->prefix);
		gone = *a;                   /* what to answer if nobody is there by then */
		edge_refuse(&gone, EDGE_NOT_FOUND);
		add_refusal(c, r, &gone);
		return;
	}
	c->status = 403;
	add_refusal(c, r, a);
}

static void answer_error(struct call *c, const struct edge_request *r, struct edge_answer *a)
{
	if (a->verdict == EDGE_GO)                    /* asked to word an error all the same: nobody was there */
		edge_refuse(a, EDGE_NOT_FOUND);
	c->status = a->status;
	c->type = edge_body(r, a, &c->out);
	edge_fields(r, a, &c->headers);
}

static void serve(struct call *c)
{
	const char *op = c->header(c, "HUTCH_OP");
	struct edge_request r;
	struct edge_answer a;

	if (op == NULL || (strcmp(op, "resolve") != 0 && strcmp(op, "error") != 0)) {
		call_refuse(c, 500, "the web server has to pass HUTCH_OP, resolve or error");
		return;
	}
	take_request(c, &r);
	edge_resolve(c->d, &r, &a);
	if (strcmp(op, "resolve") == 0)
		answer_resolve(c, &r, &a);
	else
		answer_error(c, &r, &a);
}

int main(int argc, char **argv)
{
	return responder_main_raw(argc, argv, "hutch-edge", serve);
}
