/* opt.h - a program's command line: one row per option, from which its help is written too. */
#ifndef HUTCH_OPT_H
#define HUTCH_OPT_H

#include <stdbool.h>
#include <stddef.h>

struct opt {
	char letter;                 /* 0: it has the long form only */
	const char *name;            /* long form, without its dashes; NULL: it has the letter only */
	const char *arg;             /* what the help calls its argument */
	const char *help;            /* NULL: of no use to an operator, so not in the help */
	/* where it goes: one of them. A flag takes no argument. */
	bool *flag;
	const char **text;
	int *number, min, max;
};

struct opt_program {
	const char *name, *synopsis;
	const char *about;           /* further lines of the help, or NULL */
	const char *serves;          /* what --version adds, or NULL */
	bool rest;                   /* options end at the first argument of another kind; optind tells which */
};

/* The options that all programs of the control plane have. */
#define OPT_CONFIG(to) { .letter = 'c', .name = "config", .arg = "FILE", .text = (to), \
			 .help = "configuration file (default: $HUTCH_CONFIG, else " HUTCH_SYSCONFDIR "/hutch.conf)" }
#define OPT_CHECK(to) { .letter = 'n', .name = "check", .flag = (to), .help = "check the configuration, say what is wrong, and end" }

/* -1: taken, go on. Else the exit status: 0 after -h, --help or --version, 2 after telling what is wrong. */
int opt_take(int argc, char **argv, const struct opt_program *p, const struct opt *rows, size_t n);
/* A whole number and nothing else. */
bool opt_number(const char *text, long min, long max, long *out);

#endif
