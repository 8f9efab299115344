/*
 * copytree.h - bounded copies of directory trees, and a hash of one.
 */
#ifndef HUTCH_COPYTREE_H
#define HUTCH_COPYTREE_H

#include <stdint.h>
#include <sys/types.h>
#include "hutch/crypto.h"

struct copy_budget {
	int64_t bytes, entries;      /* what may still be copied; then EFBIG */
	uid_t uid;                   /* owner of the copies */
	gid_t gid;
};

/* Copy the entries of directory `from` whose name matches the glob pattern (of one component) into `to`, with what is below. Only what
 * everybody may read is copied (files o+r, directories o+rx); links are copied as links; devices and sockets are not. Setuid bits
 * are dropped. An entry that is there already stays. 0, or -1 with errno. */
int copy_matching(int from, int to, const char *pattern, struct copy_budget *b);
/* Hash over names, types, modes, owners, contents. Times do not count. 0, or -1 with errno. */
int tree_hash(int dir, uint8_t out[SHA256_LEN]);

#endif
