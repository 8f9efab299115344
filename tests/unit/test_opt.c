/* Command lines, by rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <getopt.h>
#include <string.h>
#include <cmocka.h>

#include "hutch/opt.h"

struct got { bool flag; const char *text; int number, port; };

static int take(bool rest, const char *const *words, struct got *g)
{
	const struct opt_program program = { .name = "program", .synopsis = "[-f]", .rest = rest };
	const struct opt rows[] = {
		{ .letter = 'f', .name = "flag", .flag = &g->flag, .help = "a flag" },
		{ .letter = 't', .arg = "TEXT", .text = &g->text, .help = "a text" },
		{ .letter = 'n', .name = "number", .arg = "N", .number = &g->number, .min = 1, .max = 64 },
		{ .name = "port", .arg = "N", .number = &g->port, .max = 65535, .help = "a port" },
	};
	char *argv[8] = { (char *)(uintptr_t)"program" };
	int argc = 1;

	for (; words[argc - 1] != NULL; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	*g = (struct got){ .number = -1, .port = -1 };
	return opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
}

static void test_take(void **state)
{
	static const struct { const char *words[6]; int status; struct got got; } cases[] = {
		{ { NULL }, -1, { false, NULL, -1, -1 } },
		{ { "-f", "-t", "a b", "-n", "64" }, -1, { true, "a b", 64, -1 } },
		{ { "--flag", "--number=1", "--port", "0" }, -1, { true, NULL, 1, 0 } },
		{ { "-fn2", "-t-x" }, -1, { true, "-x", 2, -1 } },
		{ { "-h" }, 0, { .flag = false } }, { { "--help" }, 0, { .flag = false } }, { { "--version" }, 0, { .flag = false } },
		{ { "-n", "0" }, 2, { .flag = false } }, { { "-n", "65" }, 2, { .flag = false } }, { { "-n", "" }, 2, { .flag = false } },
		{ { "-n", " 1" }, 2, { .flag = false } }, { { "-n", "+1" }, 2, { .flag = false } }, { { "-n", "1x" }, 2, { .flag = false } },
		{ { "--port", "-1" }, 2, { .flag = false } }, { { "--port=99999999999999999999" }, 2, { .flag = false } },
		{ { "-n" }, 2, { .flag = false } }, { { "-x" }, 2, { .flag = false } }, { { "--nonsense" }, 2, { .flag = false } },
		{ { "--text", "a" }, 2, { .flag = false } }, { { "word" }, 2, { .flag = false } }, { { "-f", "--", "-f" }, 2, { .flag = false } },
	};
	struct got g;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct got *want = &cases[i].got;

		if (take(false, cases[i].words, &g) != cases[i].status)
			fail_msg("case %zu", i);
		if (cases[i].status != -1)
			continue;
		assert_true(g.flag == want->flag && g.number == want->number && g.port == want->port);
		assert_true(want->text == NULL ? g.text == NULL : strcmp(g.text, want->text) == 0);
	}
}

/* What comes behind the options is another program's, with options of its own. */
static void test_rest(void **state)
{
	static const char *const with[] = { "-f", "run", "-n", "100", NULL }, *const dashes[] = { "-f", "--", "-x", NULL },
			  *const without[] = { "-f", NULL };
	struct got g;

	(void)state;
	assert_int_equal(take(true, with, &g), -1);
	assert_int_equal(optind, 2);
	assert_int_equal(g.number, -1);
	assert_int_equal(take(true, dashes, &g), -1);
	assert_int_equal(optind, 3);
	assert_int_equal(take(true, without, &g), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_rest),
	};

	return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
