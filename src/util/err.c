#include "hutch/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
{
	va_list ap;

	e->kind = kind;
	e->code = NULL;
	e->retry_s = 0;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	size_t n;
	va_list ap;

	e->kind = ERR_INTERNAL;
	e->code = NULL;
	e->retry_s = 0;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(saved));
	errno = saved;
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char was[sizeof e->text];
	size_t n;
	va_list ap;

	memcpy(was, e->text, sizeof was);
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	snprintf(e->text + n, sizeof e->text - n, ": %s", was);
	return -1;
}
