/* forward.h - inside of port forwarding. */
#ifndef HUTCH_AGENT_FORWARD_H
#define HUTCH_AGENT_FORWARD_H

#include "hutch/h1.h"

#define SANDBOX_ID_MAX 129

/* Read a request from a client whose port nobody serves and answer 502, 204 to a browser's preflight (refuse.c). fd stays the caller's. */
void refuse_client(int fd, const char *sandbox_id, int port);
/* A connection to that port of the sandbox itself, or -1: nobody listens. */
int dial_loopback(int port);
/* Would this request's sender show a page to a person? Program clients want JSON. */
bool wants_page(const struct h1_head *head);

#endif
