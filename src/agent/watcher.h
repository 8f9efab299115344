/*
 * watcher.h - one watched directory or tree: inotify in, events as JSON out (guest.md 5.4).
 */
#ifndef HUTCH_AGENT_WATCHER_H
#define HUTCH_AGENT_WATCHER_H

#include "files.h"
#include "strset.h"

struct watched_dir {
	int wd;
	char *rel;                   /* relative to the root; "" is the root */
	bool moving;                 /* its parent said "moved from"; not known yet where to */
};

struct watcher {
	int fd;                      /* inotify; -1 once failed */
	char *root;                  /* as the client named it, resolved */
	bool recursive, include_entry;
	struct watched_dir *dirs;    /* by wd */
	size_t ndirs, cap;
	struct buf events;           /* FilesystemEvent objects, a line feed after each */
	struct strset announced;     /* created entries told from a walk, whose own event may still be in the queue */
	struct names names;
	struct err error;            /* why it failed */
};

/* Watch the directory path. NULL with e on failure (not_found, invalid_argument, resource_exhausted). */
struct watcher *watcher_new(const char *path, bool recursive, bool include_entry, struct err *e);
void watcher_free(struct watcher *w);
/* Turn all that the kernel has queued into events. -1 with w->error once the watcher has failed. */
int watcher_drain(struct watcher *w);

#endif
