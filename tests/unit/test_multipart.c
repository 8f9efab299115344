/* The multipart parser: whole bodies from files of every size, and bodies that are wrong. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "files.h"

#define CAP 65536
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct input { const char *p; size_t n; };

static ssize_t take(void *ctx, void *p, size_t n)
{
	struct input *in = ctx;

	if (n > in->n)
		n = in->n;
	memcpy(p, in->p, n);
	in->p += n;
	in->n -= n;
	return (ssize_t)n;
}

/* All parts as "name|filename|data;" ("-" for no filename), then "." at a good end or "!" if it is malformed. */
static void parse(const char *body, size_t n, struct buf *out)
{
	struct input in = { body, n };
	struct multipart_part *part = malloc(sizeof *part);
	char *space = malloc(CAP);
	struct multipart m;
	struct err e = { 0 };
	int rc;

	buf_reset(out);
	multipart_init(&m, "XX", space, CAP, take, &in);
	while ((rc = multipart_next(&m, part, &e)) == 1) {
		const char *p;
		ssize_t got;

		buf_addf(out, "%s|%s|", part->name, part->has_filename ? part->filename : "-");
		while ((got = multipart_data(&m, &p, &e)) > 0)
			buf_add(out, p, (size_t)got);
		if (got < 0)
			rc = -1;
		if (rc < 0)
			break;
		buf_addc(out, ';');
	}
	if (rc < 0)
		assert_int_equal(e.kind, ERR_INVALID);
	buf_addc(out, rc == 0 ? '.' : '!');
	free(space);
	free(part);
}

#define PART "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n"

static void test_bodies(void **state)
{
	static const struct { const char *body, *want; } cases[] = {
		{ "--XX\r\n" PART "\r\nhello\r\n--XX--\r\n", "file|a|hello;." },
		{ "--XX\r\n" PART "\r\nhello\r\n--XX--", "file|a|hello;." },
		{ "\r\n--XX\r\n" PART "\r\nhello\r\n--XX--", "file|a|hello;." },
		{ "preamble\r\n--XX \t\r\n" PART "Content-Type: text/plain\r\n\r\nhello\r\n--XX--\r\nepilogue\r\n--XX\r\n", "file|a|hello;." },
		{ "--XX\r\n" PART "\r\n\r\n--XX--", "file|a|;." },
		{ "--XX\r\n" PART "\r\n--XX--", "file|a|;." },
		{ "--XX\r\n\r\nno headers\r\n--XX--", "|-|no headers;." },
		{ "--XX\r\n" PART "\r\na\r\n--XX\r\n" PART "\r\nb\r\n--XX--", "file|a|a;file|a|b;." },
		/* what only looks like a boundary */
		{ "--XX\r\n" PART "\r\n\r\n--XY\r\n--XXX\r\n-- XX\n--XX\r\r\n--X\r\n--XX--", "file|a|\r\n--XY\r\n--XXX\r\n-- XX\n--XX\r\r\n--X;." },
		{ "--XXX\r\n--XX\r\n" PART "\r\nb\r\n--XX--", "file|a|b;." },
		{ "--XX--", "." },
		/* dispositions */
		{ "--XX\r\ncontent-disposition:form-data;name=file;filename=b.txt\r\n\r\n1\r\n--XX--", "file|b.txt|1;." },
		{ "--XX\r\nContent-Disposition: form-data; filename=\"/tmp/dir/b c.txt\"; name=\"file\"\r\n\r\n1\r\n--XX--", "file|/tmp/dir/b c.txt|1;." },
		{ "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a%22q \\\"x\\\\\"\r\n\r\n1\r\n--XX--", "file|a%22q \"x\\|1;." },
		{ "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\dir\\f\"\r\n\r\n1\r\n--XX--", "file|C:\\dir\\f|1;." },
		{ "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"; filename*=utf-8''%e2%82%ac%20rates\r\n\r\n1\r\n--XX--",
		  "file|\xe2\x82\xac rates|1;." },
		{ "--XX\r\nContent-Disposition: form-data; filename*=UTF-8'en'abc; filename=\"x\"\r\n\r\n1\r\n--XX--", "|abc|1;." },
		{ "--XX\r\nContent-Disposition: attachment; name=\"file\"\r\n\r\n1\r\n--XX--", "|-|1;." },
		/* malformed */
		{ "", "!" },
		{ "--XX", "!" },
		{ "--XX\r\n", "!" },
		{ "--XX\r\n" PART, "!" },
		{ "--XX\r\n" PART "\r\nhello", "file|a|!" },
		{ "--XX\r\n" PART "\r\nhello\r\n--X", "file|a|!" },
		{ "--XX\r\nno colon\r\n\r\n1\r\n--XX--", "!" },
		{ "--XX\r\nContent-Disposition: form-data; name=\"file\r\n\r\n1\r\n--XX--", "!" },
		{ "--XX\r\nContent-Disposition: form-data; name\r\n\r\n1\r\n--XX--", "!" },
		{ "--XX\r\nContent-Disposition: form-data; filename*=latin1''x\r\n\r\n1\r\n--XX--", "!" },
		{ "--XX\r\nContent-Disposition: form-data; filename*=utf-8''%00\r\n\r\n1\r\n--XX--", "!" },
	};
	struct buf out;

	(void)state;
	buf_init(&out, 1 << 20);
	for (size_t i = 0; i < COUNT(cases); i++) {
		parse(cases[i].body, strlen(cases[i].body), &out);
		assert_string_equal(buf_str(&out), cases[i].want);
	}
	buf_release(&out);
}

/* Files whose ends fall on every place around the end of the buffer, full of almost-boundaries. */
static void test_sizes(void **state)
{
	static const char noise[] = "\r\n--X\r\n--\r\n-\r\r\n--XY\r\n";
	struct buf body, out, want;

	(void)state;
	buf_init(&body, 1 << 20);
	buf_init(&out, 1 << 20);
	buf_init(&want, 1 << 20);
	for (size_t size = CAP - 200; size < CAP + 60; size++) {
		buf_reset(&body);
		buf_reset(&want);
		buf_adds(&body, "--XX\r\n" PART "\r\n");
		buf_adds(&want, "file|a|");
		for (size_t i = 0; i < size; i++) {
			buf_addc(&body, noise[i % (sizeof noise - 1)]);
			buf_addc(&want, noise[i % (sizeof noise - 1)]);
		}
		buf_adds(&body, "\r\n--XX\r\n" PART "\r\nsecond\r\n--XX--\r\n");
		buf_adds(&want, ";file|a|second;.");
		parse(buf_str(&body), body.len, &out);
		assert_int_equal(out.len, want.len);
		assert_memory_equal(out.p, want.p, want.len);
	}
	buf_release(&body);
	buf_release(&out);
	buf_release(&want);
}

static void test_bounds(void **state)
{
	struct buf body, out;

	(void)state;
	buf_init(&body, 1 << 20);
	buf_init(&out, 1 << 20);
	buf_adds(&body, "--XX\r\n");
	for (int i = 0; i < 2000; i++)
		buf_adds(&body, "X-Header: 1234567890\r\n");
	buf_adds(&body, "\r\n1\r\n--XX--");
	parse(buf_str(&body), body.len, &out);
	assert_string_equal(buf_str(&out), "!");
	buf_reset(&body);
	buf_adds(&body, "--XX\r\nContent-Disposition: form-data; filename=\"");
	for (int i = 0; i < PATH_MAX; i++)
		buf_addc(&body, 'x');
	buf_adds(&body, "\"\r\n\r\n1\r\n--XX--");
	parse(buf_str(&body), body.len, &out);
	assert_string_equal(buf_str(&out), "!");
	buf_release(&body);
	buf_release(&out);
}

static void test_boundary(void **state)
{
	static const struct { const char *type, *want; } cases[] = {
		{ "multipart/form-data; boundary=abc", "abc" },
		{ "multipart/form-data; charset=utf-8; BOUNDARY=\"a b;c\"", "a b;c" },
		{ "multipart/form-data;boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", "----WebKitFormBoundary7MA4YWxkTrZu0gW" },
		{ "multipart/form-data", NULL },
		{ "multipart/form-data; boundary=", NULL },
		{ "multipart/form-data; boundary=\"\"", NULL },
		{ "multipart/form-data; boundary=\"abc", NULL },
		{ "multipart/form-data; boundary", NULL },
		{ "multipart/form-data; boundary=12345678901234567890123456789012345678901234567890123456789012345678901", NULL },
	};
	char out[BOUNDARY_MAX + 1];
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		int rc = multipart_boundary((struct h1_span){ cases[i].type, strlen(cases[i].type) }, out, &e);

		assert_int_equal(rc, cases[i].want != NULL ? 0 : -1);
		if (rc == 0)
			assert_string_equal(out, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies), cmocka_unit_test(test_sizes), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_boundary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
