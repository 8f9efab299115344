/*
 * base.h - the mask: root directory of image `host`, to which a sandbox sees /usr of the host added.
 *
 * It is made by allow-list: an own /etc for accounts and names, copies of listed files of the host's /etc (only such that everybody may
 * read), empty var, home, root, ... Nothing else of the host's root is ever under a sandbox, so a directory that appears there later
 * cannot leak. The directory is named after its content: a daemon that starts again finds the same one, and sandboxes that run on
 * an older one keep it.
 */
#ifndef HUTCH_BASE_H
#define HUTCH_BASE_H

#include "hutch/err.h"

#define BASE_NAME_LEN 32             /* "base-" + 16 hex */
#define SANDBOX_HOSTNAME "sandbox"

/* Make it below parent (a directory descriptor) from the host root base_root; name gets its name there. */
int base_make(int parent, const char *base_root, char name[BASE_NAME_LEN], struct err *e);

#endif
