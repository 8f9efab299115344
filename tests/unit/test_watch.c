/* Watchers, polled and streamed, through the agent's HTTP side. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
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
#include <unistd.h>
#include <cmocka.h>

#include "files_client.h"
#include "watcher.h"

static struct served *srv;

static int start(void **state)
{
	(void)state;
	alarm(900);             /* nothing here may hang; a busy machine may be slow */
	srv = serve_start();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	serve_stop(srv);
	return 0;
}

static void request(const char *dir, const char *more, char *json, size_t max)
{
	mkdir(in_dir(srv, dir), 0755);
	snprintf(json, max, "{\"path\":\"%s\"%s}", in_dir(srv, dir), more);
}

/* A watcher's id, made for a fresh directory. */
static void create(const char *dir, const char *more, char id[64])
{
	char json[2 * PATH_MAX];
	json_object *o;

	request(dir, more, json, sizeof json);
	assert_int_equal(rpc(srv, "CreateWatcher", json, &o), 200);
	snprintf(id, 64, "{\"watcherId\":\"%.32s\"}", at(o, "watcherId"));
	json_object_put(o);
}

/* The events as "CREATE name|WRITE name|". Static memory. */
static const char *events(const char *id)
{
	static char text[65536];
	json_object *o, *list;
	size_t n;

	assert_int_equal(rpc(srv, "GetWatcherEvents", id, &o), 200);
	list = json_object_object_get(o, "events");
	n = json_object_array_length(list);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		json_object *e = json_object_array_get_idx(list, i);
		const char *type = at(e, "type");

		assert_int_equal(strncmp(type, "EVENT_TYPE_", 11), 0);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s|", type + 11, at(e, "name"));
	}
	json_object_put(o);
	return text;
}

/* One event. */
static void append_to(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

static void upload(const char *name, const char *content)
{
	struct answer *a = malloc(sizeof *a);
	char target[2 * PATH_MAX];

	snprintf(target, sizeof target, "/files?path=%s", in_dir(srv, name));
	call(srv, a, "POST", target, "Content-Type: application/octet-stream\r\n", content, strlen(content));
	assert_int_equal(a->status, 200);
	answer_release(a);
	free(a);
}

/* Exactly three events for a small new file: clients count them. */
static void test_upload_events(void **state)
{
	char id[64], small[10000];
	const char *text;

	(void)state;
	create("up", "", id);
	memset(small, 's', sizeof small);
	small[sizeof small - 1] = '\0';
	upload("up/f", small);
	assert_string_equal(events(id), "CREATE f|CHMOD f|WRITE f|");
	assert_string_equal(events(id), "");
	upload("up/f", "again");
	/* cut and written: the kernel makes one of two equal events, unless the first was read already */
	text = events(id);
	if (strcmp(text, "CHMOD f|WRITE f|") != 0)
		assert_string_equal(text, "CHMOD f|WRITE f|WRITE f|");
	upload("up/empty", "");
	assert_string_equal(events(id), "CREATE empty|CHMOD empty|");
}

static void test_kinds(void **state)
{
	char id[64];

	(void)state;
	create("k", "", id);
	write_file(in_dir(srv, "k/a"), "x", 1);
	chmod(in_dir(srv, "k/a"), 0600);
	rename(in_dir(srv, "k/a"), in_dir(srv, "k/b"));
	unlink(in_dir(srv, "k/b"));
	assert_string_equal(events(id), "CREATE a|WRITE a|CHMOD a|RENAME a|CREATE b|REMOVE b|");
	mkdir(in_dir(srv, "k/sub"), 0755);
	write_file(in_dir(srv, "k/sub/unseen"), "", 0);
	assert_string_equal(events(id), "CREATE sub|");
	chmod(in_dir(srv, "k"), 0700);
	assert_string_equal(events(id), "CHMOD .|");
	unlink(in_dir(srv, "k/sub/unseen"));
	rmdir(in_dir(srv, "k/sub"));
	rmdir(in_dir(srv, "k"));
	assert_string_equal(events(id), "REMOVE sub|REMOVE .|");
	assert_string_equal(events(id), "");
}

static void test_recursive(void **state)
{
	char id[64];

	(void)state;
	mkdir(in_dir(srv, "r"), 0755);
	mkdir(in_dir(srv, "r/old"), 0755);
	mkdir(in_dir(srv, "r/old/er"), 0755);
	create("r", ",\"recursive\":true", id);
	write_file(in_dir(srv, "r/old/er/f"), "x", 1);
	assert_string_equal(events(id), "CREATE old/er/f|WRITE old/er/f|");
	chmod(in_dir(srv, "r/old"), 0700);       /* told once, though both directories know */
	assert_string_equal(events(id), "CHMOD old|");
	/* a tree that is there before anybody could watch it */
	mkdir(in_dir(srv, "n"), 0755);
	mkdir(in_dir(srv, "n/x"), 0755);
	write_file(in_dir(srv, "n/x/f"), "", 0);
	rename(in_dir(srv, "n"), in_dir(srv, "r/n"));
	assert_string_equal(events(id), "CREATE n|CREATE n/x|CREATE n/x/f|");
	append_to(in_dir(srv, "r/n/x/f"));
	assert_string_equal(events(id), "WRITE n/x/f|");
	/* renamed within: names follow */
	rename(in_dir(srv, "r/n"), in_dir(srv, "r/old/m"));
	append_to(in_dir(srv, "r/old/m/x/f"));
	assert_string_equal(events(id), "RENAME n|CREATE old/m|WRITE old/m/x/f|");
	/* moved out: nothing more */
	rename(in_dir(srv, "r/old/m"), in_dir(srv, "out"));
	write_file(in_dir(srv, "out/x/f"), "2", 1);
	write_file(in_dir(srv, "r/last"), "", 0);
	assert_string_equal(events(id), "RENAME old/m|CREATE last|");
	write_file(in_dir(srv, "out/x/f"), "3", 1);
	assert_string_equal(events(id), "");
	unlink(in_dir(srv, "r/old/er/f"));
	rmdir(in_dir(srv, "r/old/er"));
	assert_string_equal(events(id), "REMOVE old/er/f|REMOVE old/er|");
}

/* Every entry is told as created exactly once, however the walk and the queue meet. */
static void test_no_double(void **state)
{
	char id[64], name[64], want[32];
	const char *text;
	int n = 0;

	(void)state;
	create("nd", ",\"recursive\":true", id);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof name, "nd/d%d", i);
		mkdir(in_dir(srv, name), 0755);
		for (int k = 0; k < 5; k++) {
			snprintf(name, sizeof name, "nd/d%d/f%d", i, k);
			close(open(in_dir(srv, name), O_CREAT | O_WRONLY, 0644));
		}
	}
	text = events(id);
	for (const char *p = text; (p = strstr(p, "CREATE ")) != NULL; p++)
		n++;
	assert_int_equal(n, 300);
	for (int i = 0; i < 50; i++) {
		snprintf(want, sizeof want, "CREATE d%d/f4|", i);
		assert_non_null(strstr(text, want));
	}
}

/* The agent's own operations: the watch on a new directory is there before the answer. */
static void test_in_time(void **state)
{
	char id[64], json[2 * PATH_MAX], name[64];
	json_object *o;

	(void)state;
	create("it", ",\"recursive\":true", id);
	for (int i = 0; i < 20; i++) {
		char want[128];

		snprintf(name, sizeof name, "it/d%d", i);
		snprintf(json, sizeof json, "{\"path\":\"%s\"}", in_dir(srv, name));
		assert_int_equal(rpc(srv, "MakeDir", json, &o), 200);
		json_object_put(o);
		snprintf(name, sizeof name, "it/d%d/f", i);
		upload(name, "x");
		snprintf(want, sizeof want, "CREATE d%d/f|CHMOD d%d/f|WRITE d%d/f|", i, i, i);
		assert_non_null(strstr(events(id), want));
	}
}

static void test_entries(void **state)
{
	char id[64];
	json_object *o;

	(void)state;
	create("en", ",\"include_entry\":true,\"recursive\":false", id);
	write_file(in_dir(srv, "en/f"), "12345", 5);
	assert_int_equal(rpc(srv, "GetWatcherEvents", id, &o), 200);
	assert_string_equal(at(o, "events.0.entry.name"), "f");
	assert_string_equal(at(o, "events.0.entry.path"), in_dir(srv, "en/f"));
	assert_string_equal(at(o, "events.1.entry.size"), "5");
	json_object_put(o);
	unlink(in_dir(srv, "en/f"));
	assert_int_equal(rpc(srv, "GetWatcherEvents", id, &o), 200);
	assert_string_equal(at(o, "events.0.type"), "EVENT_TYPE_REMOVE");
	assert_string_equal(at(o, "events.0.entry"), "");
	json_object_put(o);
}

static void test_life(void **state)
{
	char id[64];
	json_object *o;

	(void)state;
	create("li", "", id);
	assert_int_equal(rpc(srv, "RemoveWatcher", id, &o), 200);
	json_object_put(o);
	assert_int_equal(rpc(srv, "RemoveWatcher", id, &o), 404);
	assert_string_equal(at(o, "code"), "not_found");
	json_object_put(o);
	assert_int_equal(rpc(srv, "GetWatcherEvents", id, &o), 404);
	json_object_put(o);
	assert_int_equal(rpc(srv, "GetWatcherEvents", "{}", &o), 404);
	json_object_put(o);
}

static void test_errors(void **state)
{
	char json[2 * PATH_MAX];
	json_object *o;

	(void)state;
	snprintf(json, sizeof json, "{\"path\":\"%s\"}", in_dir(srv, "none"));
	assert_int_equal(rpc(srv, "CreateWatcher", json, &o), 404);
	json_object_put(o);
	write_file(in_dir(srv, "file"), "", 0);
	snprintf(json, sizeof json, "{\"path\":\"%s\"}", in_dir(srv, "file"));
	assert_int_equal(rpc(srv, "CreateWatcher", json, &o), 400);
	assert_string_equal(at(o, "code"), "invalid_argument");
	json_object_put(o);
	snprintf(json, sizeof json, "{\"path\":\"%s\",\"recursive\":1}", in_dir(srv, "."));
	assert_int_equal(rpc(srv, "CreateWatcher", json, &o), 400);
	json_object_put(o);
}

/* More than may be kept for a client who does not fetch: an error at the next call, not memory without end. */
static void test_overflow(void **state)
{
	struct err e = { 0 };
	struct watcher *w;
	char name[320];
	int fd;

	(void)state;
	mkdir(in_dir(srv, "of"), 0755);
	w = watcher_new(in_dir(srv, "of"), false, false, &e);
	assert_non_null(w);
	memset(name, 'n', 250);
	name[250] = '\0';
	fd = open(in_dir(srv, "of"), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 100000 && watcher_drain(w) == 0; i++) {
		close(openat(fd, name, O_CREAT | O_WRONLY, 0644));
		unlinkat(fd, name, 0);
	}
	assert_int_equal(watcher_drain(w), -1);
	assert_string_equal(rpc_code(&w->error), "internal");
	assert_true(w->events.len <= 8 << 20);
	close(fd);
	watcher_free(w);
}

/* ---- WatchDir ---- */

static int open_stream(const char *json, const char *fields)
{
	unsigned char head[5] = { 0, 0, 0, (unsigned char)(strlen(json) >> 8), (unsigned char)strlen(json) };
	char body[3 * PATH_MAX], lines[256];
	int fd = dial(srv);

	memcpy(body, head, 5);
	strcpy(body + 5, json);
	snprintf(lines, sizeof lines, "Content-Type: application/connect+json\r\n%s", fields);
	send_request(fd, "POST", "/filesystem.Filesystem/WatchDir", lines, body, strlen(json) + 5);
	return fd;
}

/* Receive until the text is there. */
static void wait_for(int fd, struct buf *b, const char *text)
{
	while (b->len == 0 || memmem(b->p, b->len, text, strlen(text)) == NULL) {
		struct pollfd p = { fd, POLLIN, 0 };
		char *room = buf_room(b, 4096);
		ssize_t n;

		assert_int_equal(poll(&p, 1, 180000), 1);
		n = recv(fd, room, 4096, 0);
		assert_true(n > 0);
		b->len += (size_t)n;
	}
}

static void test_stream(void **state)
{
	char json[2 * PATH_MAX];
	struct buf b;
	int fd;

	(void)state;
	buf_init(&b, 1 << 20);
	request("st", ",\"recursive\":true,\"includeEntry\":true", json, sizeof json);
	fd = open_stream(json, "Keepalive-Ping-Interval: 1\r\n");
	wait_for(fd, &b, "{\"start\":{}}");
	assert_non_null(memmem(b.p, b.len, "Content-Type: application/connect+json\r\n", 40));
	write_file(in_dir(srv, "st/f"), "x", 1);
	wait_for(fd, &b, "{\"filesystem\":{\"name\":\"f\",\"type\":\"EVENT_TYPE_WRITE\",\"entry\":{\"name\":\"f\"");
	upload("st/new/f", "x");
	wait_for(fd, &b, "{\"filesystem\":{\"name\":\"new/f\",\"type\":\"EVENT_TYPE_WRITE\"");
	wait_for(fd, &b, "{\"keepalive\":{}}");
	write_file(in_dir(srv, "st/g"), "x", 1);
	wait_for(fd, &b, "{\"filesystem\":{\"name\":\"g\"");
	close(fd);
	buf_release(&b);
}

static void stream_ends(const char *json, const char *fields, const char *want)
{
	struct answer *a = malloc(sizeof *a);

	read_answer(open_stream(json, fields), a);
	assert_int_equal(a->status, 200);
	assert_false(a->cut);
	assert_non_null(memmem(a->body.p, a->body.len, want, strlen(want)));
	answer_release(a);
	free(a);
}

static void test_stream_ends(void **state)
{
	char json[2 * PATH_MAX];

	(void)state;
	snprintf(json, sizeof json, "{\"path\":\"%s\"}", in_dir(srv, "none"));
	stream_ends(json, "", "{\"error\":{\"code\":\"not_found\"");
	request("se", "", json, sizeof json);
	stream_ends(json, "Connect-Timeout-Ms: 50\r\n", "{\"error\":{\"code\":\"deadline_exceeded\"");
}

/* ---- a network file system: FUSE is one, and can be had anywhere ---- */

static bool own_mounts;                  /* nobody else sees what is mounted */

static size_t fuse_answer(const struct fuse_in_header *in, const void *arg, void *out)
{
	const struct fuse_init_in *ask = arg;

	switch (in->opcode) {
	case FUSE_INIT:
		*(struct fuse_init_out *)out = (struct fuse_init_out){ .major = FUSE_KERNEL_VERSION, .minor = ask->minor < 31 ? ask->minor : 31,
			.max_readahead = ask->max_readahead, .max_write = 4096 };
		return sizeof(struct fuse_init_out);
	case FUSE_GETATTR:
		*(struct fuse_attr_out *)out = (struct fuse_attr_out){ .attr = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 } };
		return sizeof(struct fuse_attr_out);
	case FUSE_STATFS:
		*(struct fuse_statfs_out *)out = (struct fuse_statfs_out){ .st = { .bsize = 4096, .namelen = 255 } };
		return sizeof(struct fuse_statfs_out);
	case FUSE_OPENDIR:
		*(struct fuse_open_out *)out = (struct fuse_open_out){ .fh = 1 };
		return sizeof(struct fuse_open_out);
	default:
		return 0;
	}
}

/* One empty directory, until it is unmounted. */
static void *fuse_serve(void *arg)
{
	static union { struct fuse_in_header head; char bytes[1 << 16]; } in;
	int fd = *(int *)arg;

	while (read(fd, &in, sizeof in) > 0) {
		struct { struct fuse_out_header head; char body[256]; } out = { .head = { .unique = in.head.unique } };
		bool empty = in.head.opcode == FUSE_READDIR || in.head.opcode == FUSE_RELEASEDIR;
		size_t n = fuse_answer(&in.head, in.bytes + sizeof in.head, out.body);

		if (in.head.opcode == FUSE_FORGET || in.head.opcode == FUSE_BATCH_FORGET)
			continue;
		out.head.error = n == 0 && !empty ? -ENOSYS : 0;
		out.head.len = (uint32_t)(sizeof out.head + n);
		if (write(fd, &out, out.head.len) < 0 && errno != ENOENT)
			break;
	}
	return NULL;
}

static void test_network(void **state)
{
	char options[80], json[2 * PATH_MAX];
	int fd = own_mounts ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : -1;
	pthread_t thread;
	json_object *o;

	(void)state;
	if (fd < 0)
		skip();
	mkdir(in_dir(srv, "net"), 0755);
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (mount("test", in_dir(srv, "net"), "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		print_message("no FUSE here: %s\n", strerror(errno));
		close(fd);
		skip();
	}
	assert_int_equal(pthread_create(&thread, NULL, fuse_serve, &fd), 0);
	request("net", "", json, sizeof json);
	assert_int_equal(rpc(srv, "CreateWatcher", json, &o), 400);
	assert_string_equal(at(o, "code"), "invalid_argument");
	assert_non_null(strstr(at(o, "message"), "network"));
	json_object_put(o);
	stream_ends(json, "", "{\"error\":{\"code\":\"invalid_argument\"");
	request("net", ",\"allowNetworkMounts\":true", json, sizeof json);
	assert_int_equal(rpc(srv, "CreateWatcher", json, &o), 200);
	snprintf(json, sizeof json, "{\"watcherId\":\"%s\"}", at(o, "watcherId"));
	json_object_put(o);
	assert_int_equal(rpc(srv, "RemoveWatcher", json, &o), 200);
	json_object_put(o);
	assert_int_equal(umount2(in_dir(srv, "net"), MNT_DETACH), 0);
	pthread_join(thread, NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_upload_events), cmocka_unit_test(test_kinds), cmocka_unit_test(test_recursive),
		cmocka_unit_test(test_no_double), cmocka_unit_test(test_in_time), cmocka_unit_test(test_entries),
		cmocka_unit_test(test_life), cmocka_unit_test(test_errors), cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_stream), cmocka_unit_test(test_stream_ends),
		cmocka_unit_test(test_network),
	};

	own_mounts = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	return cmocka_run_group_tests(tests, start, stop);
}
