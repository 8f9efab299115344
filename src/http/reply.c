/* What every reply has in common: the life of a call, headers, error bodies. */
#include "hutch/call.h"

#include <string.h>

#include "hutch/log.h"

/* A buffer that served one huge answer does not stay huge. */
#define KEEP_MAX (256U << 10)

void call_init(struct call *c, size_t body_max)
{
	memset(c, 0, sizeof *c);
	buf_init(&c->body, body_max + 1);   /* one more byte tells "too large" */
	buf_init(&c->out, CALL_OUT_MAX);
	buf_init(&c->headers, 16384);
	c->query = "";
}

static void reset_buf(struct buf *b)
{
	if (b->cap > KEEP_MAX)
		buf_release(b);
	else
		buf_reset(b);
}

void call_reset(struct call *c)
{
	reset_buf(&c->body);
	reset_buf(&c->out);
	reset_buf(&c->headers);
	c->status = 0;
	c->type = NULL;
	c->team.id[0] = '\0';
}

void call_release(struct call *c)
{
	buf_release(&c->body);
	buf_release(&c->out);
	buf_release(&c->headers);
}

void call_header(struct call *c, const char *name, const char *value)
{
	buf_adds(&c->headers, name);
	buf_adds(&c->headers, ": ");
	for (; *value != '\0'; value++)          /* a value can never start another line */
		buf_addc(&c->headers, (unsigned char)*value < 0x20 ? ' ' : *value);
	buf_adds(&c->headers, "\r\n");
}

static void error_body(struct call *c, int status, const char *message, const char *error_code)
{
	struct jw w;

	c->status = status;
	c->type = NULL;
	buf_reset(&c->out);
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kint(&w, "code", status);
	jw_kstr(&w, "message", message);
	if (error_code != NULL)
		jw_kstr(&w, "error_code", error_code);
	jw_close(&w, '}');
}

void call_refuse(struct call *c, int status, const char *message)
{
	error_body(c, status, message, NULL);
}

void call_fail(struct call *c, const struct err *e)
{
	int status = err_status(e->kind);

	if (status != 500) {
		error_body(c, status, e->text, e->code);
		return;
	}
	log_error("%s %s: %s", c->method, c->path, e->text);
	error_body(c, status, "internal server error", e->code != NULL ? e->code : "internal_server_error");
}
