/* base_files.h - the tables of the mask: see base.h. Each ends in a row of NULLs. */
#ifndef HUTCH_BASE_FILES_H
#define HUTCH_BASE_FILES_H

#include <sys/types.h>

struct base_dir { const char *path; mode_t mode; uid_t uid; gid_t gid; };
struct base_file { const char *path; mode_t mode; uid_t uid; gid_t gid; const char *text; };
struct base_link { const char *path, *to; };

extern const struct base_dir base_dirs[];        /* parents first */
extern const struct base_file base_files[];      /* written over what was copied from the host */
extern const struct base_link base_links[];
extern const char *const base_etc[];             /* glob patterns of entries of the host's /etc that are copied */

#endif
