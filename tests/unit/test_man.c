/* The options that each program's help names, against its page: both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/buf.h"

static const char *const programs[] = {
	"hutch-sandboxes", "hutch-templates", "hutch-teams", "hutch-events", "hutch-doors", "hutch-edge", "hutch-relay", "hutch-fake",
	"hutch-reaper", "hutch-node", "hutch-envd", "hutch-interpreter", "hutch-spawn",
};

static char *read_all(FILE *f)
{
	struct buf b;
	size_t n;

	assert_non_null(f);
	buf_init(&b, 1 << 20);
	while (buf_room(&b, 4096) != NULL && (n = fread(b.p + b.len, 1, 4096, f)) > 0) {
		b.len += n;
		b.p[b.len] = '\0';
	}
	return buf_take(&b);
}

static char *help_of(const char *program)
{
	char command[4096], *text;
	FILE *f;

	snprintf(command, sizeof command, "'%s/%s' --help", BUILDDIR, program);
	f = popen(command, "r");
	text = read_all(f);
	assert_int_equal(pclose(f), 0);
	return text;
}

/* The chapter on options, as it is read: without the escapes of roff. */
static char *page_of(const char *program)
{
	const char *srcdir = getenv("srcdir");
	char path[4096], *text, *from, *end, *to;
	FILE *f;

	snprintf(path, sizeof path, "%s/man/%s.8", srcdir != NULL ? srcdir : ".", program);
	f = fopen(path, "re");
	text = read_all(f);
	fclose(f);
	from = strstr(text, "\n.SH OPTIONS\n");
	if (from == NULL)
		fail_msg("%s.8 has no chapter on options", program);
	end = strstr(from + 1, "\n.SH ");
	if (end != NULL)
		*end = '\0';
	for (to = text; *from != '\0'; from++)
		if (*from != '\\')
			*to++ = *from;
	*to = '\0';
	return text;
}

/* Every word of the text's lines that begin with `head` that is an option must stand in the other text, whole. */
static size_t options_in(const char *text, const char *head, const char *other, const char *program)
{
	size_t found = 0;

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		const char *p = line + (*line == '\n'), *end = p + strcspn(p, "\n");

		line = end;
		if (strncmp(p, head, strlen(head)) != 0)
			continue;
		for (p += strcspn(p, " ") + strspn(p + strcspn(p, " "), " \""); *p == '-' && p < end; found++) {
			size_t n = strcspn(p, ", \"\n");
			char word[64];

			snprintf(word, sizeof word, "%.*s", (int)n, p);
			for (const char *at = strstr(other, word);; at = strstr(at + 1, word)) {
				if (at == NULL)
					fail_msg("%s: %s", program, word);
				if (strchr(", \"\n", at[n]) != NULL)
					break;
			}
			p += n + strspn(p + n, ", ");
		}
	}
	return found;
}

static void test_pages(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
		char *help = help_of(programs[i]), *page = page_of(programs[i]);
		size_t n = options_in(help, "  -", page, programs[i]);

		assert_true(n >= 3);
		assert_int_equal(options_in(page, ".BI ", help, programs[i]) + options_in(page, ".B ", help, programs[i]), n);
		free(help);
		free(page);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),
	};

	return cmocka_run_group_tests_name("man", tests, NULL, NULL);
}
