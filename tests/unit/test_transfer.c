/* GET and POST /files and /files/compose through the agent's HTTP side. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <zlib.h>

#include "files.h"
#include "files_client.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define RAW "Content-Type: application/octet-stream\r\n"
#define FORM "Content-Type: multipart/form-data; boundary=XX\r\n"

static struct served *srv;
static struct answer ans;

static bool own_mounts;

static int start(void **state)
{
	(void)state;
	alarm(900);             /* nothing here may hang; a busy machine may be slow */
	/* before there are threads; needs privileges */
	own_mounts = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	srv = serve_start();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	answer_release(&ans);
	serve_stop(srv);
	return 0;
}

static void request(const char *method, const char *target, const char *fields, const void *body, size_t n)
{
	answer_release(&ans);
	call(srv, &ans, method, target, fields, body, n);
}

/* "/files?path=DIR/name" and more of the query. Static memory. */
static const char *target(const char *name, const char *more)
{
	static char text[PATH_MAX + 512];

	snprintf(text, sizeof text, "/files?path=%s%s", in_dir(srv, name), more);
	return text;
}

static int put(const char *name, const char *fields, const void *body, size_t n)
{
	request("POST", target(name, ""), fields, body, n);
	return ans.status;
}

static int get(const char *name, const char *fields)
{
	request("GET", target(name, ""), fields, NULL, 0);
	return ans.status;
}

/* The answer is an error object with this status and text in its message. */
static void assert_error(int status, const char *text)
{
	json_object *o;
	struct err e = { 0 };

	assert_int_equal(ans.status, status);
	assert_int_equal(json_read_object(buf_str(&ans.body), ans.body.len, &o, &e), 0);
	assert_int_equal(atoi(at(o, "code")), status);
	assert_non_null(strstr(at(o, "message"), text));
	assert_string_equal(answer_field(&ans, "X-Content-Type-Options"), "nosniff");
	json_object_put(o);
}

static json_object *array(void)
{
	json_object *o;
	struct err e = { 0 };

	assert_int_equal(ans.status, 200);
	assert_int_equal(json_read(buf_str(&ans.body), ans.body.len, &o, &e), 0);
	assert_true(json_object_is_type(o, json_type_array));
	return o;
}

static char text[1 << 20];

static void compose_json(const char *body)
{
	request("POST", "/files/compose", "Content-Type: application/json\r\n", body, strlen(body));
}

static void compose(const char *form_a, const char *form_b, const char *dest)
{
	char body[4 * PATH_MAX];

	snprintf(body, sizeof body, "{\"source_paths\":[\"%s\",\"%s\"],\"destination\":\"%s\"}", in_dir(srv, form_a), in_dir(srv, form_b),
		 in_dir(srv, dest));
	compose_json(body);
}

/* ---- uploads ---- */

static void test_raw(void **state)
{
	struct passwd *pw = getpwuid(getuid());
	struct stat st;
	json_object *o;

	(void)state;
	assert_int_equal(put("new/dir/f.txt", RAW, "hello", 5), 200);
	o = array();
	assert_int_equal(json_object_array_length(o), 1);
	assert_string_equal(at(o, "0.path"), in_dir(srv, "new/dir/f.txt"));
	assert_string_equal(at(o, "0.name"), "f.txt");
	assert_string_equal(at(o, "0.type"), "file");
	assert_int_equal(json_object_object_length(json_object_array_get_idx(o, 0)), 3);
	json_object_put(o);
	read_file(in_dir(srv, "new/dir/f.txt"), text, sizeof text);
	assert_string_equal(text, "hello");
	assert_int_equal(stat(in_dir(srv, "new/dir/f.txt"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_uid, pw->pw_uid);
	assert_int_equal(st.st_gid, pw->pw_gid);
	assert_int_equal(stat(in_dir(srv, "new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	/* overwritten by less, and in place */
	chmod(in_dir(srv, "new/dir/f.txt"), 0600);
	assert_int_equal(put("new/dir/f.txt", RAW "Content-Encoding: identity\r\n", "hi", 2), 200);
	assert_int_equal(read_file(in_dir(srv, "new/dir/f.txt"), text, sizeof text), 2);
	stat(in_dir(srv, "new/dir/f.txt"), &st);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(put("new/empty", RAW, "", 0), 200);
	assert_int_equal(read_file(in_dir(srv, "new/empty"), text, sizeof text), 0);
}

static void test_raw_errors(void **state)
{
	(void)state;
	mkdir(in_dir(srv, "adir"), 0755);
	mkfifo(in_dir(srv, "fifo"), 0644);
	put("adir", RAW, "x", 1);
	assert_error(400, "directory");
	put("fifo", RAW, "x", 1);
	assert_error(400, "regular");
	write_file(in_dir(srv, "afile"), "old", 3);
	put("afile/x", RAW, "x", 1);
	assert_error(500, "afile");
	request("POST", "/files", RAW, "x", 1);
	assert_error(400, "path");
	request("POST", "/files?path=~root/x", RAW, "x", 1);
	assert_error(400, "home");
	put("t", "Content-Type: text/plain\r\n", "x", 1);
	assert_error(400, "unsupported content type");
	put("t", "", "x", 1);
	assert_error(400, "unsupported content type");
	put("t", RAW "Content-Encoding: br\r\n", "x", 1);
	assert_error(400, "encoding");
	request("POST", target("t", "&username=no+such+user"), RAW, "x", 1);
	assert_error(401, "no such user");
	request("POST", target("t", "&signature_expiration=soon"), RAW, "x", 1);
	assert_int_equal(ans.status, 400);
	assert_non_null(strstr(answer_field(&ans, "Content-Type"), "text/plain"));
	request("POST", "/files?path=%00", RAW, "x", 1);
	assert_int_equal(ans.status, 400);
	assert_int_equal(access(in_dir(srv, "t"), F_OK), -1);
	read_file(in_dir(srv, "afile"), text, sizeof text);
	assert_string_equal(text, "old");
}

/* Query values are form-encoded: '+' is a space (a client writes it so), %2B is '+'. */
static void test_names(void **state)
{
	(void)state;
	request("POST", target("a+b%2Bc%20d", ""), RAW, "x", 1);
	assert_int_equal(ans.status, 200);
	assert_int_equal(access(in_dir(srv, "a b+c d"), F_OK), 0);
}

#define PART(filename) "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" filename "\"\r\n" \
	"Content-Type: application/octet-stream\r\n\r\n"

static void test_form(void **state)
{
	struct buf b;
	json_object *o;

	(void)state;
	buf_init(&b, 1 << 20);
	buf_addf(&b, "--XX\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nnot a file\r\n");
	for (int i = 0; i < 200; i++)
		buf_addf(&b, PART("%s/form/%d/x") "file %d\r\n", srv->dir, i, i);
	buf_adds(&b, "--XX--\r\n");
	request("POST", "/files", FORM, b.p, b.len);
	o = array();
	assert_int_equal(json_object_array_length(o), 200);
	assert_string_equal(at(o, "199.path"), in_dir(srv, "form/199/x"));
	assert_string_equal(at(o, "199.name"), "x");
	json_object_put(o);
	read_file(in_dir(srv, "form/150/x"), text, sizeof text);
	assert_string_equal(text, "file 150");

	/* the query's path wins over the file name */
	buf_reset(&b);
	buf_adds(&b, PART("ignored") "by path\r\n--XX--\r\n");
	request("POST", target("form/bypath", ""), FORM, b.p, b.len);
	o = array();
	json_object_put(o);
	read_file(in_dir(srv, "form/bypath"), text, sizeof text);
	assert_string_equal(text, "by path");

	/* the same target twice: the first stays */
	buf_reset(&b);
	buf_addf(&b, PART("%s/form/twice") "first\r\n" PART("%s/form/twice") "second\r\n--XX--\r\n", srv->dir, srv->dir);
	request("POST", "/files", FORM, b.p, b.len);
	assert_error(400, "same path");
	read_file(in_dir(srv, "form/twice"), text, sizeof text);
	assert_string_equal(text, "first");

	/* broken off inside a file */
	buf_reset(&b);
	buf_addf(&b, PART("%s/form/cut") "half a fi", srv->dir);
	request("POST", "/files", FORM, b.p, b.len);
	assert_error(400, "ends before");
	request("POST", "/files", "Content-Type: multipart/form-data\r\n", b.p, b.len);
	assert_error(400, "boundary");
	request("POST", "/files", FORM, "--XX--", 6);
	o = array();
	assert_int_equal(json_object_array_length(o), 0);
	json_object_put(o);
	buf_release(&b);
}

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525 + 1013904223;
	return *x;
}

/* Bigger than every buffer, chunked at odd places. */
static void test_big(void **state)
{
	size_t n = 3 << 20, done = 0;
	char *data = malloc(n), *back = malloc(n + 1), head[2 * PATH_MAX];
	uint32_t seed = 7;
	int fd = dial(srv);

	(void)state;
	for (size_t i = 0; i < n; i++)
		data[i] = (char)(next_random(&seed) >> 24);
	snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" FORM "Transfer-Encoding: chunked\r\n\r\n",
		 target("big", ""));
	put_all(fd, head, strlen(head));
	snprintf(head, sizeof head, "%zx\r\n" PART("x") "\r\n", strlen(PART("x")));
	put_all(fd, head, strlen(head));
	while (done < n) {
		size_t k = next_random(&seed) % 100000 + 1;

		if (k > n - done)
			k = n - done;
		snprintf(head, sizeof head, "%zx\r\n", k);
		put_all(fd, head, strlen(head));
		put_all(fd, data + done, k);
		put_all(fd, "\r\n", 2);
		done += k;
	}
	put_all(fd, "a\r\n\r\n--XX--\r\n\r\n0\r\n\r\n", 20);
	answer_release(&ans);
	read_answer(fd, &ans);
	assert_int_equal(ans.status, 200);
	assert_int_equal(read_file(in_dir(srv, "big"), back, n + 1), n);
	assert_memory_equal(data, back, n);
	assert_int_equal(get("big", ""), 200);
	assert_int_equal(ans.body.len, n);
	assert_memory_equal(data, ans.body.p, n);
	assert_string_equal(answer_field(&ans, "Content-Type"), "application/octet-stream");
	free(data);
	free(back);
}

/* The client goes away in the middle: what had come is there, and the server lives. */
static void test_hangup(void **state)
{
	char head[2 * PATH_MAX];
	int fd = dial(srv);

	(void)state;
	snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\n" RAW "Content-Length: 1000\r\n\r\nonly this", target("hung", ""));
	put_all(fd, head, strlen(head));
	shutdown(fd, SHUT_WR);
	answer_release(&ans);
	read_answer(fd, &ans);
	assert_error(400, "broke off");
	assert_int_equal(put("hung", RAW, "again", 5), 200);
}

static void test_disk_full(void **state)
{
	size_t n = 4 << 20;
	struct buf b;
	char *zeros;

	(void)state;
	mkdir(in_dir(srv, "small"), 0755);
	if (!own_mounts || mount("none", in_dir(srv, "small"), "tmpfs", 0, "size=1m,nr_inodes=6") < 0)
		skip();
	zeros = calloc(1, n);
	put("small/f", RAW, zeros, n);
	assert_error(507, "not enough disk space");
	buf_init(&b, n + 1000);
	buf_addf(&b, PART("%s/small/f"), srv->dir);
	buf_add(&b, zeros, n);
	buf_adds(&b, "\r\n--XX--");
	request("POST", "/files", FORM, b.p, b.len);
	assert_error(507, "not enough disk space");
	assert_int_equal(put("small/f", RAW, "fits", 4), 200);
	put("small/1/2/3/4/5/6/7", RAW, "", 0);         /* no inode for a directory */
	assert_error(507, "not enough disk space");
	put("small/none", RAW, "", 0);                  /* nor for a file */
	assert_error(507, "not enough disk space");
	write_file(in_dir(srv, "whole"), zeros, 2 << 20);
	unlink(in_dir(srv, "small/f"));
	compose("whole", "whole", "small/f");
	assert_error(507, "not enough disk space");
	assert_int_equal(access(in_dir(srv, "whole"), F_OK), 0);
	assert_int_equal(umount2(in_dir(srv, "small"), MNT_DETACH), 0);
	buf_release(&b);
	free(zeros);
}

/* ---- gzip ---- */

static size_t zip(const void *p, size_t n, unsigned char *out, size_t max)
{
	z_stream z = { .next_in = (void *)(uintptr_t)p, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)max };

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	n = max - z.avail_out;
	deflateEnd(&z);
	return n;
}

static size_t unzip(const void *p, size_t n, char *out, size_t max)
{
	z_stream z = { .next_in = (void *)(uintptr_t)p, .avail_in = (uInt)n, .next_out = (unsigned char *)out, .avail_out = (uInt)max };

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	n = max - z.avail_out;
	inflateEnd(&z);
	return n;
}

static void test_gzip(void **state)
{
	static unsigned char zipped[65536];
	static char zeros[900000];
	size_t n = zip("hello, ", 7, zipped, sizeof zipped);

	(void)state;
	n += zip("gzip", 4, zipped + n, sizeof zipped - n);     /* members follow each other */
	assert_int_equal(put("z", RAW "Content-Encoding: GZIP\r\n", zipped, n), 200);
	read_file(in_dir(srv, "z"), text, sizeof text);
	assert_string_equal(text, "hello, gzip");
	put("z", RAW "Content-Encoding: gzip\r\n", zipped, n - 3);
	assert_error(400, "gzip data is cut off");
	zipped[15] ^= 0xff;
	put("z", RAW "Content-Encoding: gzip\r\n", zipped, n);
	assert_error(400, "gzip data is broken");
	put("z", RAW "Content-Encoding: gzip\r\n", "plain", 5);
	assert_error(400, "gzip data is broken");
	n = zip(zeros, sizeof zeros, zipped, sizeof zipped);
	assert_int_equal(put("z", RAW "Content-Encoding: gzip\r\n", zipped, n), 200);
	assert_int_equal(read_file(in_dir(srv, "z"), text, sizeof text), sizeof zeros);

	assert_int_equal(get("z", "Accept-Encoding: gzip, deflate\r\n"), 200);  /* identity will do */
	assert_null(answer_field(&ans, "Content-Encoding"));
	assert_int_equal(ans.body.len, sizeof zeros);
	assert_int_equal(get("z", "Accept-Encoding: gzip, identity;q=0\r\n"), 200);
	assert_string_equal(answer_field(&ans, "Content-Encoding"), "gzip");
	assert_null(answer_field(&ans, "Content-Length"));
	assert_false(ans.cut);
	assert_int_equal(unzip(ans.body.p, ans.body.len, text, sizeof text), sizeof zeros);
	assert_memory_equal(text, zeros, sizeof zeros);
	assert_int_equal(put("z", RAW, "small", 5), 200);
	assert_int_equal(get("z", "Accept-Encoding: gzip, *;q=0\r\n"), 200);
	assert_int_equal(unzip(ans.body.p, ans.body.len, text, sizeof text), 5);
}

static void test_accept(void **state)
{
	static const struct { const char *field; int status; const char *encoding; } cases[] = {
		{ "Accept-Encoding: \r\n", 200, NULL }, { "Accept-Encoding: identity\r\n", 200, NULL },
		{ "Accept-Encoding: br\r\n", 200, NULL }, { "Accept-Encoding: identity;q=0\r\n", 406, NULL },
		{ "Accept-Encoding: *;q=0\r\n", 406, NULL }, { "Accept-Encoding: *;q=0, identity;q=0.5\r\n", 200, NULL },
		{ "Accept-Encoding: br, identity ; q=0.000\r\n", 406, NULL }, { "Accept-Encoding: identity;q=0, *\r\n", 200, "gzip" },
		{ "Accept-Encoding: gzip;q=0, identity;q=0, *\r\n", 406, NULL },
		{ "Accept-Encoding: gzip, identity;q=0\r\nRange: bytes=0-1\r\n", 406, NULL },
	};

	(void)state;
	write_file(in_dir(srv, "acc"), "text", 4);
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(get("acc", cases[i].field), cases[i].status);
		if (cases[i].encoding != NULL)
			assert_string_equal(answer_field(&ans, "Content-Encoding"), cases[i].encoding);
		else
			assert_null(answer_field(&ans, "Content-Encoding"));
	}
}

/* ---- downloads ---- */

static void test_headers(void **state)
{
	static const struct { const char *name, *content, *type, *disposition; } cases[] = {
		{ "a.json", "{}", "application/json", "inline; filename=a.json" },
		{ "b.PNG", "x", "image/png", "inline; filename=b.PNG" },
		{ "plain", "some text\n", "text/plain; charset=utf-8", "inline; filename=plain" },
		{ "binary", "\x01\x02", "application/octet-stream", "inline; filename=binary" },
		{ "two words", "", "text/plain; charset=utf-8", "inline; filename=\"two words\"" },
		{ "q\"uote", "", "text/plain; charset=utf-8", "inline; filename=\"q\\\"uote\"" },
		{ "\xc3\xa9.txt", "", "text/plain; charset=utf-8", "inline; filename*=utf-8''%C3%A9.txt" },
		{ "new\nline", "", "text/plain; charset=utf-8", "inline; filename*=utf-8''new%0Aline" },
	};
	struct timespec when[2] = { { .tv_nsec = UTIME_OMIT }, { 784111777, 999 } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char encoded[256] = "";

		for (const char *p = cases[i].name; *p != '\0'; p++)
			snprintf(encoded + strlen(encoded), sizeof encoded - strlen(encoded), "%%%02x", (unsigned char)*p);
		write_file(in_dir(srv, cases[i].name), cases[i].content, strlen(cases[i].content));
		utimensat(AT_FDCWD, in_dir(srv, cases[i].name), when, 0);
		assert_int_equal(get(encoded, ""), 200);
		assert_string_equal(answer_field(&ans, "Content-Type"), cases[i].type);
		assert_string_equal(answer_field(&ans, "Content-Disposition"), cases[i].disposition);
		assert_string_equal(answer_field(&ans, "Last-Modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
		assert_string_equal(answer_field(&ans, "Accept-Ranges"), "bytes");
		assert_string_equal(answer_field(&ans, "Vary"), "Accept-Encoding");
		assert_int_equal(ans.body.len, strlen(cases[i].content));
	}
}

static void test_get_errors(void **state)
{
	(void)state;
	mkdir(in_dir(srv, "d"), 0755);
	get("none", "");
	assert_error(404, "none' does not exist");
	get("d", "");
	assert_error(400, "is a directory");
	request("GET", "/files", "", NULL, 0);
	assert_error(400, "is a directory");    /* the default one */
	request("GET", "/files?path=~root/x", "", NULL, 0);
	assert_error(400, "home");
	request("GET", "/files?path=/dev/zero", "", NULL, 0);
	assert_error(400, "regular");
	mkfifo(in_dir(srv, "pipe"), 0644);
	get("pipe", "");
	assert_error(400, "regular");
	request("GET", target("none", "&username=no.such"), "", NULL, 0);
	assert_error(401, "no.such");
	request("GET", target("none", "&signature_expiration=12x"), "", NULL, 0);
	assert_int_equal(ans.status, 400);
	request("PUT", target("none", ""), "", "", 0);
	assert_error(405, "");
}

static void test_special(void **state)
{
	(void)state;
	request("GET", "/files?path=/proc/self/status", "", NULL, 0);
	assert_int_equal(ans.status, 200);
	assert_non_null(strstr(buf_str(&ans.body), "Pid:"));
	if (access("/proc/kallsyms", R_OK) == 0) {                     /* not every kernel has it */
		request("GET", "/files?path=/proc/kallsyms", "", NULL, 0);     /* longer than what is read at once */
		assert_int_equal(ans.status, 200);
		assert_false(ans.cut);
		if (ans.body.len != 0)
			assert_true(ans.body.len > 65536);
	}
	request("GET", "/files?path=/sys/kernel/mm/transparent_hugepage/enabled", "", NULL, 0);
	if (ans.status == 200) {        /* the file system tells 4096 bytes */
		assert_false(ans.cut);
		assert_true(ans.body.len < 4096);
	}
}

static void test_ranges(void **state)
{
	static const struct { const char *field; int status; const char *body, *range; } cases[] = {
		{ "Range: bytes=0-3\r\n", 206, "0123", "bytes 0-3/10" }, { "Range: bytes=7-\r\n", 206, "789", "bytes 7-9/10" },
		{ "Range: bytes=-2\r\n", 206, "89", "bytes 8-9/10" }, { "Range: bytes=-20\r\n", 206, "0123456789", "bytes 0-9/10" },
		{ "Range: bytes=5-500\r\n", 206, "56789", "bytes 5-9/10" }, { "Range: bytes=10-\r\n", 416, NULL, "bytes */10" },
		{ "Range: bytes=-0\r\n", 416, NULL, "bytes */10" }, { "Range: bytes=4-3\r\n", 200, "0123456789", NULL },
		{ "Range: bytes=0-1,4-5\r\n", 200, "0123456789", NULL }, { "Range: lines=0-1\r\n", 200, "0123456789", NULL },
		{ "Range: bytes=x\r\n", 200, "0123456789", NULL }, { "Range: bytes=99999999999999999999-\r\n", 416, NULL, "bytes */10" },
		{ "Range: bytes=0-3\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 206, "0123", "bytes 0-3/10" },
		{ "Range: bytes=0-3\r\nIf-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n", 200, "0123456789", NULL },
		{ "Range: bytes=0-3\r\nIf-Range: \"tag\"\r\n", 200, "0123456789", NULL },
		{ "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304, "", NULL },
		{ "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 200, "0123456789", NULL },
		{ "If-Modified-Since: yesterday\r\n", 200, "0123456789", NULL },
		{ "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", 412, NULL, NULL },
		{ "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 200, "0123456789", NULL },
		{ "If-Match: \"a\"\r\n", 412, NULL, NULL }, { "If-Match: *\r\n", 200, "0123456789", NULL },
		{ "If-None-Match: *\r\n", 304, "", NULL }, { "If-None-Match: \"a\"\r\n", 200, "0123456789", NULL },
	};
	struct timespec when[2] = { { .tv_nsec = UTIME_OMIT }, { 784111777, 0 } };

	(void)state;
	write_file(in_dir(srv, "r"), "0123456789", 10);
	utimensat(AT_FDCWD, in_dir(srv, "r"), when, 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(get("r", cases[i].field), cases[i].status);
		if (cases[i].body != NULL)
			assert_string_equal(buf_str(&ans.body), cases[i].body);
		if (cases[i].range != NULL)
			assert_string_equal(answer_field(&ans, "Content-Range"), cases[i].range);
		else
			assert_null(answer_field(&ans, "Content-Range"));
	}
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)('a' + i % 26);
	write_file(in_dir(srv, "r"), text, 200000);     /* by sendfile */
	assert_int_equal(get("r", "Range: bytes=100000-100025\r\n"), 206);
	assert_int_equal(ans.body.len, 26);
	assert_memory_equal(ans.body.p, text + 100000, 26);
	assert_int_equal(get("r", "Range: bytes=-199000\r\n"), 206);
	assert_int_equal(ans.body.len, 199000);
	assert_memory_equal(ans.body.p, text + 1000, 199000);
}

/* ---- metadata ---- */

static bool have_xattrs(void)
{
	write_file(in_dir(srv, "probe"), "", 0);
	return setxattr(in_dir(srv, "probe"), "user.e2b.probe", "1", 1, 0) == 0;
}

static void test_metadata(void **state)
{
	char value[64], field[8192];
	json_object *o;

	(void)state;
	if (!have_xattrs())
		skip();
	assert_int_equal(put("m", RAW "x-metadata-Author: me\r\nX-METADATA-empty:\r\nX-Metadata-author: you\r\n", "1", 1), 200);
	o = array();
	assert_string_equal(at(o, "0.metadata.author"), "me");
	assert_int_equal(json_object_object_length(json_object_object_get(json_object_array_get_idx(o, 0), "metadata")), 2);
	json_object_put(o);
	assert_int_equal(getxattr(in_dir(srv, "m"), "user.e2b.author", value, sizeof value), 2);
	assert_int_equal(setxattr(in_dir(srv, "m"), "user.other", "x", 1, 0), 0);
	/* replaced as a whole; foreign attributes stay */
	assert_int_equal(put("m", RAW "X-Metadata-key: v\r\n", "2", 1), 200);
	o = array();
	assert_string_equal(at(o, "0.metadata"), "{ \"key\": \"v\" }");
	json_object_put(o);
	assert_int_equal(getxattr(in_dir(srv, "m"), "user.other", value, sizeof value), 1);
	snprintf(field, sizeof field, "{\"path\":\"%s\"}", in_dir(srv, "m"));
	assert_int_equal(rpc(srv, "Stat", field, &o), 200);
	assert_string_equal(at(o, "entry.metadata.key"), "v");
	json_object_put(o);
	setxattr(in_dir(srv, "m"), "user.e2b.bad", "\xff", 1, 0);
	assert_int_equal(rpc(srv, "Stat", field, &o), 200);
	assert_string_equal(at(o, "entry.metadata"), "{ \"key\": \"v\" }");
	json_object_put(o);
	assert_int_equal(put("m", RAW, "3", 1), 200);
	assert_int_equal(rpc(srv, "Stat", field, &o), 200);
	assert_string_equal(at(o, "entry.metadata"), "");
	json_object_put(o);
}

static void test_metadata_bounds(void **state)
{
	char key[248], value[4100], fields[16384];

	(void)state;
	memset(key, 'k', sizeof key);
	memset(value, 'v', sizeof value);
	snprintf(fields, sizeof fields, RAW "X-Metadata-%.247s: v\r\n", key);
	put("mb", fields, "1", 1);
	assert_error(400, "longer than 246");
	snprintf(fields, sizeof fields, RAW "X-Metadata-k: %.4087s\r\n", value);
	put("mb", fields, "1", 1);
	assert_error(400, "4097");
	put("mb", RAW "X-Metadata-k: caf\xc3\xa9\r\n", "1", 1);
	assert_error(400, "printable");
	put("mb", RAW "X-Metadata-: x\r\n", "1", 1);
	assert_error(400, "empty");
	assert_int_equal(access(in_dir(srv, "mb"), F_OK), -1);
	if (!have_xattrs())
		skip();
	snprintf(fields, sizeof fields, RAW "X-Metadata-%.246s: v\r\n", key);
	assert_int_equal(put("mb", fields, "1", 1), 200);
}

/* ---- signatures ---- */

static void test_vectors(void **state)
{
	int64_t expiration = 1790000000;
	char out[64];

	(void)state;
	files_sign("hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", NULL, out);
	assert_string_equal(out, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
	files_sign("a.txt", "write", "", "tok123", &expiration, out);
	assert_string_equal(out, "v1_slL1h1kEcSrWQCGmvMEoNyYybFK3D6ny6udPT212hkg");
}

static void set_token(const char *token)
{
	pthread_mutex_lock(&srv->agent.lock);
	free(srv->agent.token);
	srv->agent.token = token != NULL ? strdup(token) : NULL;
	pthread_mutex_unlock(&srv->agent.lock);
}

/* A target with its signature, form-encoded. */
static void signed_target(char *out, size_t max, const char *name, const char *op, const int64_t *expiration)
{
	char sig[64], encoded[256] = "";

	files_sign(in_dir(srv, name), op, "", "secret", expiration, sig);
	for (const char *p = sig; *p != '\0'; p++)
		snprintf(encoded + strlen(encoded), sizeof encoded - strlen(encoded), *p == '/' || *p == '+' ? "%%%02X" : "%c", *p);
	snprintf(out, max, "/files?signature=%s&path=%s", encoded, in_dir(srv, name));
	if (expiration != NULL)
		snprintf(out + strlen(out), max - strlen(out), "&signature_expiration=%lld", (long long)*expiration);
}

static void test_signed(void **state)
{
	int64_t later = time(NULL) + 3600, earlier = time(NULL) - 60;
	char url[PATH_MAX];

	(void)state;
	write_file(in_dir(srv, "s"), "signed", 6);
	set_token("secret");
	get("s", "");
	assert_error(401, "missing signature query parameter");
	get("s", "X-Access-Token: wrong\r\n");
	assert_error(401, "access token present in header but does not match");
	assert_int_equal(get("s", "X-Access-Token: secret\r\n"), 200);
	signed_target(url, sizeof url, "s", "read", NULL);
	request("GET", url, "", NULL, 0);
	assert_int_equal(ans.status, 200);
	request("GET", url, "X-Access-Token: wrong\r\n", NULL, 0);
	assert_error(401, "access token present in header but does not match");
	request("POST", url, RAW, "x", 1);
	assert_error(401, "invalid signature");
	signed_target(url, sizeof url, "s", "write", &later);
	request("POST", url, RAW, "x", 1);
	assert_int_equal(ans.status, 200);
	signed_target(url, sizeof url, "s", "read", &earlier);
	request("GET", url, "", NULL, 0);
	assert_error(401, "signature is already expired");
	strcat(url, "9");       /* another expiration than what was signed */
	request("GET", url, "", NULL, 0);
	assert_error(401, "invalid signature");
	request("GET", target("s", "&signature="), "", NULL, 0);
	assert_error(401, "invalid signature");
	memset(url, 'x', sizeof url);
	snprintf(url, 300, "&signature=v1_");
	url[14] = 'x';
	url[300] = '\0';
	request("GET", target("s", url), "", NULL, 0);
	assert_error(401, "invalid signature");
	request("POST", "/files/compose", "", "{}", 2);
	assert_int_equal(ans.status, 401);
	set_token(NULL);
}

/* ---- compose ---- */

static void test_compose(void **state)
{
	json_object *o;
	struct err e = { 0 };

	(void)state;
	mkdir(in_dir(srv, "c"), 0755);
	write_file(in_dir(srv, "c/1"), "one", 3);
	write_file(in_dir(srv, "c/2"), "two", 3);
	write_file(in_dir(srv, "c/dest"), "old", 3);
	compose("c/1", "c/none", "c/dest");
	assert_error(404, "none");
	compose("c/1", "c/dest", "c/dest");
	assert_error(400, "same as destination");
	assert_int_equal(symlink("c", in_dir(srv, "other")), 0);
	compose("c/1", "c/../c/./dest", "c/dest");
	assert_error(400, "same as destination");
	compose("c/1", "other/dest", "c/dest");         /* the same, however it is written: else it would be removed as its own source */
	assert_error(400, "same as destination");
	unlink(in_dir(srv, "other"));
	compose("c/1", "c", "c/dest");
	assert_error(400, "regular");
	compose_json("{");
	assert_error(400, "JSON");
	compose_json("{\"source_paths\":[]}");
	assert_error(400, "source_paths");
	compose_json("{\"source_paths\":[null],\"destination\":\"/tmp/x\"}");
	assert_error(400, "source_paths");
	compose_json("{\"source_paths\":[\"/etc/passwd\"]}");
	assert_error(400, "destination");
	compose_json("{\"source_paths\":[\"a\"],\"destination\":\"b\",\"username\":\"no.such\"}");
	assert_error(401, "no.such");
	read_file(in_dir(srv, "c/dest"), text, sizeof text);
	assert_string_equal(text, "old");
	compose("c/1", "c/2", "c/dest");
	assert_int_equal(ans.status, 200);
	assert_int_equal(json_read_object(buf_str(&ans.body), ans.body.len, &o, &e), 0);
	assert_string_equal(at(o, "path"), in_dir(srv, "c/dest"));
	assert_string_equal(at(o, "type"), "file");
	json_object_put(o);
	read_file(in_dir(srv, "c/dest"), text, sizeof text);
	assert_string_equal(text, "onetwo");
	assert_int_equal(access(in_dir(srv, "c/1"), F_OK), -1);
	assert_int_equal(rmdir(in_dir(srv, "c")), -1);
	unlink(in_dir(srv, "c/dest"));
	assert_int_equal(rmdir(in_dir(srv, "c")), 0);   /* no temporary file was left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raw), cmocka_unit_test(test_raw_errors), cmocka_unit_test(test_names), cmocka_unit_test(test_form),
		cmocka_unit_test(test_big), cmocka_unit_test(test_hangup), cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_gzip), cmocka_unit_test(test_accept),
		cmocka_unit_test(test_headers), cmocka_unit_test(test_get_errors), cmocka_unit_test(test_special),
		cmocka_unit_test(test_ranges), cmocka_unit_test(test_metadata), cmocka_unit_test(test_metadata_bounds),
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_signed), cmocka_unit_test(test_compose),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
