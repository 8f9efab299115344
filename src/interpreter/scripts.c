/* What runs beside the program, carried inside it: one file has to reach a sandbox, and nothing can be out of step. */
#include "config.h"

#include "interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define CARRY(name, file) \
	__asm__(".section .rodata\n.globl " #name "\n" #name ":\n.incbin \"" KERNELS_DIR "/" file "\"\n" \
		".globl " #name "_end\n" #name "_end:\n.byte 0\n.previous\n"); \
	extern const char name[], name##_end[]

CARRY(script_python, "python_kernel.py");
CARRY(script_extras, "hutch_extras.py");
CARRY(script_javascript, "javascript.mjs");

static const struct { const char *file, *from, *to; } scripts[] = {
	{ "python_kernel.py", script_python, script_python_end },
	{ "hutch_extras.py", script_extras, script_extras_end },
	{ "javascript.mjs", script_javascript, script_javascript_end },
};

static int write_one(const char *path, const char *from, size_t n, struct err *e)
{
	int fd, rc;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	rc = fd >= 0 && write(fd, from, n) == (ssize_t)n ? 0 : err_sys(e, "%s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

int scripts_write(const char *dir, struct err *e)
{
	for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
		char path[256];

		snprintf(path, sizeof path, "%.64s/%s", dir, scripts[i].file);
		if (write_one(path, scripts[i].from, (size_t)(scripts[i].to - scripts[i].from), e) < 0)
			return -1;
	}
	return 0;
}
