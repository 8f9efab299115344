/*
 * mountinfo.h - lines of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
 */
#ifndef HUTCH_MOUNTINFO_H
#define HUTCH_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>

struct mount_line {
	char root[PATH_MAX];         /* inside the file system */
	char point[PATH_MAX];
	char fstype[64];
	char super[1024];            /* options of the file system, cut if longer */
};

/* 0, or -1 when the line is malformed. Octal escapes are undone. */
int mountinfo_line(const char *line, struct mount_line *out);
/* `word` is one of the comma-separated options. */
bool mountinfo_has(const char *options, const char *word);

#endif
