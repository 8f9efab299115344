/*
 * wire.h - messages of Jupyter's protocol 5.3 (https://jupyter-client.readthedocs.io/en/stable/messaging.html): signing and parsing.
 */
#ifndef HUTCH_INTERPRETER_WIRE_H
#define HUTCH_INTERPRETER_WIRE_H

#include "hutch/buf.h"
#include "hutch/err.h"
#include "span.h"
#include "zmtp.h"

#define ID_LEN 37                        /* a UUID and a NUL */
#define KEY_LEN 65

/* A message from a kernel. Spans point into the connection's buffer. */
struct kmsg {
	char type[32];                   /* "stream", "execute_result", ...; longer ones are cut: unknown anyway */
	struct span date;                /* a JSON string, or not there */
	struct span content;             /* an object */
	uint64_t lost;                   /* > 0: the content was over the bound, by its size; there is none */
};

/* Parse the frames. 1: *out is a message whose parent is `parent`; 0: another's; -1: not well formed, or not signed with the key. */
int wire_parse(const struct zmtp_msg *m, const char *key, const char *parent, struct kmsg *out, struct err *e);

/* The five frames of a request, in one buffer. */
struct wire_out {
	struct buf text;
	struct span frame[6];            /* delimiter, signature, header, parent header, metadata, content */
};
/* content is a finished JSON object. Release with buf_release(&out->text). */
int wire_build(const char *key, const char *session, const char *msg_id, const char *type, struct span content, struct wire_out *out,
	       struct err *e);

#endif
