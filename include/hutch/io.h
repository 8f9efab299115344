/* io.h - bytes to and from descriptors and files, whole. */
#ifndef HUTCH_IO_H
#define HUTCH_IO_H

#include <stddef.h>
#include <stdio.h>
#include "hutch/err.h"

/* All n bytes to fd, however many writes it takes; -1 with errno. For a descriptor that blocks. */
int write_all(int fd, const void *p, size_t n);

/* The next line of f without its end; 1, 0 at the end of the file, -1 when it is longer than size - 1 bytes, holds a NUL character or cannot be
 * read (ERR_INVALID in words; the line is not quoted). */
int line_read(FILE *f, char *line, size_t size, struct err *e);

#endif
