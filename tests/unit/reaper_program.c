#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "reaper_program.h"

const char *reaper_program(void)
{
	const char *path = getenv("HUTCH_REAPER");

	return path != NULL ? path : "./hutch-reaper";
}

pid_t reaper_run(const struct world *w)
{
	char conf[80];
	pid_t pid;

	snprintf(conf, sizeof conf, "%s/hutch.conf", w->dir);
	pid = fork();
	if (pid == 0) {
		execl(reaper_program(), reaper_program(), "-c", conf, (char *)NULL);
		_exit(127);
	}
	return pid;
}
