/*
 * place.h - what a data-plane request names: sandbox, port, and whether its path is a control route. No records here.
 */
#ifndef HUTCH_EDGE_PLACE_H
#define HUTCH_EDGE_PLACE_H

#include "hutch/edge.h"

/* Is the target one of the agent's control routes, decoded and cleaned as the agent might read it? Its name into path. */
bool place_reserved(const char *raw_target, char path[ENVD_RESERVED_MAX]);

/* Is it among the requests that profile `twin`, and a light pool in every profile, let through to a guest? */
bool place_admitted(int port, const char *raw_target);
/* Is it a call of the Connect protocol? content_type may be NULL. */
bool place_connect(const char *raw_target, const char *content_type);

#endif
