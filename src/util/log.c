#include "hutch/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hutch/when.h"

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static const char *program = "hutch";
static enum log_level least = LOG_INFO;

void log_init(const char *name)
{
	const char *want = getenv("HUTCH_LOG");

	program = name;
	for (int i = 0; want != NULL && i <= LOG_DEBUG; i++)
		if (strcmp(want, level_names[i]) == 0)
			least = (enum log_level)i;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char line[1024], when[WHEN_LEN];
	va_list ap;
	int n, m;

	if (level > least)
		return;
	when_format(wall_us(), when);
	n = snprintf(line, sizeof line, "%s %s %s[%d]: ", when, level_names[level], program, (int)getpid());
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n += m < (int)sizeof line - n - 1 ? m : (int)sizeof line - n - 2;
	for (int i = 0; i < n; i++)          /* one event is one line, whatever a client put in */
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;                      /* nowhere left to say it */
}
