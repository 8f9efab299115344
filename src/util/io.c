#include "hutch/io.h"

#include <errno.h>
#include <unistd.h>

int write_all(int fd, const void *p, size_t n)
{
	for (const char *at = p; n > 0;) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -1;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int line_read(FILE *f, char *line, size_t size, struct err *e)
{
	size_t n = 0;
	int c;

	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (c == '\0')
			return err_set(e, ERR_INVALID, "the line holds a NUL character");
		if (n == size - 1)
			return err_set(e, ERR_INVALID, "the line is longer than %zu bytes", size - 1);
		line[n++] = (char)c;
	}
	if (c == EOF && ferror(f))
		return err_set(e, ERR_INVALID, "cannot be read");
	line[n] = '\0';
	return n > 0 || c != EOF;
}
