/* event.h - lines of /execute: one JSON object each, pure ASCII (guest.md 7.2). */
#ifndef HUTCH_INTERPRETER_EVENT_H
#define HUTCH_INTERPRETER_EVENT_H

#include "span.h"

void event_count(struct buf *b, struct span count);
/* name is "stdout" or "stderr"; date a JSON string, or not there: now. */
void event_stream(struct buf *b, const char *name, struct span text, struct span date);
/* data: object of MIME types. */
void event_result(struct buf *b, struct span data, bool main_result);
/* content of an `error` message. */
void event_error(struct buf *b, struct span content);
/* An error of our own. */
void event_error_text(struct buf *b, const char *name, const char *value);
/* A line that says what is missing, on stderr. */
void event_note(struct buf *b, const char *text);
void event_keepalive(struct buf *b);
void event_end(struct buf *b);

#endif
