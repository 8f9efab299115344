/*
 * checkpoint.h - what is kept of sandboxes that run: copies of their disks, from which further sandboxes start.
 *
 * STATE/node/ck/ID.img is the copy, ID.json what it is of. The image is whole and on its disk before the .json is; an image without
 * one is of a try that did not come to its end, and goes at the next start.
 */
#ifndef HUTCH_NODE_CHECKPOINT_H
#define HUTCH_NODE_CHECKPOINT_H

#include <stdint.h>
#include "hutch/buf.h"
#include "shape.h"
#include "state.h"

#define CHECKPOINT_NAME_LEN 64

struct checkpoint_state {
	char id[MACHINE_LEN];        /* "ck_" + 20 of [a-z0-9] */
	char name[CHECKPOINT_NAME_LEN];      /* the client's */
	char sandbox[MACHINE_LEN];   /* that it is of */
	int64_t created_us;
	uint64_t bytes;              /* of disk that it takes */
	struct shape shape;          /* of that sandbox, and of those that start from it */
};

/* sandboxd's grammar of names. */
bool checkpoint_name_ok(const char *s);
/* Its members, into an open object. */
void checkpoint_write(struct jw *w, const struct checkpoint_state *c);
/* The text of a file; release with shape_release(&out->shape). */
int checkpoint_read(const char *text, size_t n, struct checkpoint_state *out, struct err *e);

#endif
