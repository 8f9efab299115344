#include "config.h"

#include "hutch/opt.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/buf.h"

#define ROWS_MAX 16
#define LONG 256                     /* what getopt_long answers for the long form of the first row; the others follow */

static const struct opt common[] = {
	{ .letter = 'h', .name = "help", .help = "this text" },
	{ .name = "version", .help = "the program's version" },
};
#define LONG_VERSION (LONG + ROWS_MAX)

/* ---- help ---- */

/* "-c, --config FILE" */
static void form(struct buf *b, const struct opt *o)
{
	buf_reset(b);
	if (o->letter != 0)
		buf_addf(b, "-%c", o->letter);
	if (o->name != NULL)
		buf_addf(b, "%s--%s", o->letter != 0 ? ", " : "", o->name);
	if (o->arg != NULL)
		buf_addf(b, " %s", o->arg);
}

static void print_rows(FILE *to, const struct opt *rows, size_t n, struct buf *b, int width)
{
	for (size_t i = 0; i < n; i++) {
		form(b, &rows[i]);
		if (rows[i].help != NULL)
			fprintf(to, "  %-*s  %s\n", width, buf_str(b), rows[i].help);
	}
}

static void print_help(FILE *to, const struct opt_program *p, const struct opt *rows, size_t n)
{
	size_t width = strlen("-h, --help");
	struct buf b;

	buf_init(&b, 256);
	for (size_t i = 0; i < n; i++) {
		form(&b, &rows[i]);
		if (b.len > width && rows[i].help != NULL)
			width = b.len;
	}
	fprintf(to, "usage: %s %s\n\n", p->name, p->synopsis);
	if (p->about != NULL)
		fprintf(to, "%s\n\n", p->about);
	print_rows(to, rows, n, &b, (int)width);
	print_rows(to, common, sizeof common / sizeof common[0], &b, (int)width);
	buf_release(&b);
}

/* ---- taking ---- */

bool opt_number(const char *text, long min, long max, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && *out >= min && *out <= max;
}

static bool take_number(const struct opt_program *p, const struct opt *o, const char *arg)
{
	char what[48];
	long n;

	if (opt_number(arg, o->min, o->max, &n)) {
		*o->number = (int)n;
		return true;
	}
	if (o->name != NULL)
		snprintf(what, sizeof what, "--%s", o->name);
	else
		snprintf(what, sizeof what, "-%c", o->letter);
	fprintf(stderr, "%s: %s must be a number from %d to %d, not \"%s\"\n", p->name, what, o->min, o->max, arg);
	return false;
}

static bool take(const struct opt_program *p, const struct opt *o, char *arg)
{
	if (o->number != NULL)
		return take_number(p, o, arg);
	if (o->flag != NULL)
		*o->flag = true;
	else
		*o->text = arg;
	return true;
}

static const struct opt *find(const struct opt *rows, size_t n, int c)
{
	for (size_t i = 0; i < n; i++)
		if (c == LONG + (int)i || (c != 0 && c == rows[i].letter))
			return &rows[i];
	return NULL;
}

/* What getopt_long wants to know of the rows. */
static void describe(const struct opt *rows, size_t n, struct option *longs, char *letters)
{
	for (size_t i = 0; i < n; i++) {
		int takes = rows[i].flag != NULL ? no_argument : required_argument;

		if (rows[i].name != NULL)
			*longs++ = (struct option){ rows[i].name, takes, NULL, LONG + (int)i };
		if (rows[i].letter != 0)
			*letters++ = rows[i].letter;
		if (rows[i].letter != 0 && takes == required_argument)
			*letters++ = ':';
	}
	*longs++ = (struct option){ "help", no_argument, NULL, 'h' };
	*longs++ = (struct option){ "version", no_argument, NULL, LONG_VERSION };
	*longs = (struct option){ 0 };
	strcpy(letters, "h");
}

int opt_take(int argc, char **argv, const struct opt_program *p, const struct opt *rows, size_t n)
{
	struct option longs[ROWS_MAX + 3];
	char letters[2 * ROWS_MAX + 3] = "+";
	const struct opt *o;
	int c;

	describe(rows, n, longs, letters + (p->rest ? 1 : 0));
	optind = 0;                          /* start anew */
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		o = find(rows, n, c);
		if (c == LONG_VERSION)
			printf("%s " PACKAGE_VERSION "%s\n", p->name, p->serves != NULL ? p->serves : "");
		else if (c == 'h')
			print_help(stdout, p, rows, n);
		else if (o == NULL)
			print_help(stderr, p, rows, n);
		else if (take(p, o, optarg))
			continue;
		return c == LONG_VERSION || c == 'h' ? 0 : 2;
	}
	if (p->rest == (optind < argc))
		return -1;
	if (p->rest)
		fprintf(stderr, "%s: a program to run is missing\n", p->name);
	else
		fprintf(stderr, "%s: unexpected argument \"%s\"\n", p->name, argv[optind]);
	print_help(stderr, p, rows, n);
	return 2;
}
