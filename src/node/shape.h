/*
 * shape.h - rows of PUT /v1/pools: which templates there are and how many sandboxes of each stand ready. Kept in pools.json.
 */
#ifndef HUTCH_SHAPE_H
#define HUTCH_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hutch/buf.h"
#include "hutch/err.h"
#include "hutch/json.h"

#define SHAPES_MAX 4096
#define TEMPLATE_LEN 64
#define IMAGE_LEN 1024

struct shape {
	char template[TEMPLATE_LEN];
	char image[IMAGE_LEN];       /* "host" or an absolute path */
	char *command;               /* start command: JSON array of strings, or NULL; the agent runs it */
	uint32_t ready_port;         /* TCP port that answers once it is up; 0: not waited for */
	uint32_t cpu_count, memory_mb, disk_mb;
	uint32_t warm;
};

struct shape_list {
	struct shape *row;
	size_t n;
};

struct shape_limits {
	uint32_t warm_default;
	uint32_t warm_max;           /* sum over all rows */
};

void shapes_release(struct shape_list *l);
/* {"pools":[...]}; unknown members are refused (an operator's body: a misspelt one must not pass). ERR_INVALID names row and field. */
int shapes_parse(const char *text, size_t n, const struct shape_limits *lim, struct shape_list *out, struct err *e);
/* The members of one row into an open object: pools.json, state files and /v1/info share the form. */
void shape_write(struct jw *w, const struct shape *s);
int shape_read(json_object *row, const struct shape_limits *lim, struct shape *out, struct err *e);
void shapes_write(struct buf *b, const struct shape_list *l);
/* A machine of a can stand for b: all alike but the number of ready ones. */
bool shape_same(const struct shape *a, const struct shape *b);
void shape_copy(struct shape *to, const struct shape *from);
void shape_release(struct shape *s);

/* Only directories that root alone can change, that are not the whole machine and hold none of the daemon's own: an image is readable
 * by whoever may use the template. `own` ends in NULL. ERR_INVALID. */
int image_allowed(const char *path, const char *const *own, struct err *e);

#endif
