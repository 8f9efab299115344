/*
 * files.h - small file helpers of the daemon; paths are relative to a directory descriptor.
 */
#ifndef HUTCH_NODE_FILES_H
#define HUTCH_NODE_FILES_H

#include <stddef.h>
#include <sys/types.h>
#include "hutch/err.h"

/* Whole text into buf with a NUL, cut at max-1. Bytes, or -1 (errno). */
ssize_t file_read(int dir, const char *name, char *buf, size_t max);
/* Write text to an existing file in one write(2) (control files). 0 or -1 (errno). */
int file_write(int dir, const char *name, const char *text);
/* Make or replace a file: written beside it, then renamed over it, so that readers see the old or the new text. */
int file_replace(int dir, const char *name, const void *p, size_t n, struct err *e);
/* mkdir -p of one absolute path; the last component gets mode and group (gid -1: left), made or not. Its descriptor, or -1. */
int dir_make(const char *path, mode_t mode, gid_t gid, struct err *e);
#define DIR_ALL 255u                 /* every d_type */
/* fn for each entry of dir of that d_type (but "." and ".."). The entries are collected first: fn may remove them. */
void dir_each(int dir, unsigned char type, void (*fn)(void *ctx, const char *name), void *ctx);
/* rm -rf of dir/name; never follows links, never leaves the file system. */
int tree_remove(int dir, const char *name);

#endif
