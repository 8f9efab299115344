/* process.Process of the real agent: events, ends, input, terminals, followers. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "envd_client.h"
#include "hutch/crypto.h"
#include "hutch/json.h"
#include "hutch/sanitize.h"
#include "hutch/when.h"

static struct envd envd;
static struct stream st, st2;
static struct outcome out;

static int start_agent(void **state)
{
	(void)state;
	envd_start(&envd, false);
	return 0;
}

static int stop_agent(void **state)
{
	(void)state;
	envd_stop(&envd);
	return 0;
}

/* ---- helpers ---- */

static void expect_run(const char *script, const char *stdout_text, const char *end)
{
	run_script(&envd, script, &out);
	assert_string_equal(buf_str(&out.out), stdout_text);
	assert_string_equal(out.end, end);
	assert_string_equal(out.last, "{}");
	outcome_release(&out);
}

#define EXIT_0 "{\"exited\":true,\"status\":\"exit status 0\"}"
#define KILLED "{\"exitCode\":-1,\"status\":\"signal: killed\",\"error\":\"signal: killed\"}"

static void expect_unary(const char *method, const char *json, int status, const char *part)
{
	struct answer a;

	envd_unary(&envd, method, json, &a);
	if (a.status != status || strstr(buf_str(&a.body), part) == NULL)
		fail_msg("%s %s: %d %s", method, json, a.status, buf_str(&a.body));
	assert_true(answer_has(&a, "Content-Type: application/json"));
	answer_release(&a);
}

static void unary_pid(const char *method, pid_t pid, const char *more, int status, const char *part)
{
	char json[1024];

	snprintf(json, sizeof json, "{\"process\":{\"pid\":%d}%s}", (int)pid, more);
	expect_unary(method, json, status, part);
}

static void send_text(pid_t pid, const char *channel, const char *text)
{
	struct buf b;

	buf_init(&b, 1 << 24);
	buf_addf(&b, ",\"input\":{\"%s\":\"", channel);
	base64_add(&b, text, strlen(text));
	buf_adds(&b, "\"}");
	unary_pid("SendInput", pid, buf_str(&b), 200, "{}");
	buf_release(&b);
}

static void connect_pid(struct stream *s, pid_t pid)
{
	char json[64];

	snprintf(json, sizeof json, "{\"process\":{\"pid\":%d}}", (int)pid);
	stream_open(s, &envd, "Connect", "", json);
}

/* The number in the data event that came last. */
static pid_t told_pid(const struct stream *s)
{
	const char *at = strstr(buf_str(&s->message), "\"stdout\":\"");
	struct buf b;
	pid_t pid;

	assert_non_null(at);
	at += 10;
	buf_init(&b, 100);
	assert_int_equal(base64_decode(&b, at, strcspn(at, "\"")), 0);
	pid = atoi(buf_str(&b));
	buf_release(&b);
	assert_true(pid > 1);
	return pid;
}

/* A line of output, read from data events one at a time. */
static pid_t read_pid(struct stream *s)
{
	assert_non_null(stream_next_json(s));
	return told_pid(s);
}

/* Until no process has this number, not even a zombie. */
static void wait_gone(pid_t pid)
{
	int64_t until = boot_us() + 120 * US_PER_S;

	while (kill(pid, 0) == 0) {
		assert_true(boot_us() < until);
		sched_yield();
	}
	assert_int_equal(errno, ESRCH);
}

/* ---- output and ends ---- */

static void test_run(void **state)
{
	(void)state;
	run_script(&envd, "echo out; echo err >&2; exit 3", &out);
	assert_string_equal(buf_str(&out.out), "out\n");
	assert_string_equal(buf_str(&out.err), "err\n");
	assert_string_equal(out.end, "{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit status 3\"}");
	assert_string_equal(out.last, "{}");
	assert_true(kill(out.pid, 0) < 0 && errno == ESRCH);    /* reaped before the end was told */
	outcome_release(&out);
	expect_run("printf 'a\\377b'", "a\377b", EXIT_0);
	expect_run("kill -KILL $$", "", KILLED);
	expect_run("ulimit -c 0; kill -SEGV $$", "",
		   "{\"exitCode\":-1,\"status\":\"signal: segmentation fault\",\"error\":\"signal: segmentation fault\"}");
}

static void test_late_output(void **state)
{
	(void)state;
	/* the shell is gone long before; its pipe is not at its end */
	expect_run("echo early; (sleep 0.2; echo late) &", "early\nlate\n", EXIT_0);
}

static void test_big_output(void **state)
{
	(void)state;
	run_script(&envd, "head -c 3000000 /dev/zero | tr '\\0' x; echo >&2", &out);
	assert_int_equal(out.out.len, 3000000);
	assert_string_equal(buf_str(&out.err), "\n");
	for (size_t i = 0; i < out.out.len; i++)
		assert_int_equal(out.out.p[i], 'x');
	outcome_release(&out);
}

static void test_missing_program(void **state)
{
	static const struct { const char *cmd, *text; int code; } rows[] = {
		{ "hutch-no-such-program", "exec: hutch-no-such-program: not found\n", 127 },
		{ "/nowhere/prog", "exec: /nowhere/prog: not found\n", 127 },
		{ "/etc/passwd", "exec: /etc/passwd: Permission denied\n", 126 },
		{ "/tmp", "exec: /tmp: Permission denied\n", 126 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char json[256], end[128];

		snprintf(json, sizeof json, "{\"process\":{\"cmd\":\"%s\"}}", rows[i].cmd);
		snprintf(end, sizeof end, "{\"exitCode\":%d,\"exited\":true,\"status\":\"exit status %d\",\"error\":\"exit status %d\"}",
			 rows[i].code, rows[i].code, rows[i].code);
		run_request(&envd, "", json, &out);
		assert_int_not_equal(out.pid, 0);
		assert_string_equal(buf_str(&out.err), rows[i].text);
		assert_string_equal(out.end, end);
		outcome_release(&out);
	}
}

static void write_script(const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof path, "%s/%s", envd.dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void test_search(void **state)
{
	char json[512], path[128];

	(void)state;
	write_script("hutch-script", "echo no-hash-bang $1 $PATH\n");
	snprintf(json, sizeof json, "{\"process\":{\"cmd\":\"hutch-script\",\"args\":[\"x y\"],\"envs\":{\"PATH\":\"/nowhere:%s\"}}}", envd.dir);
	run_request(&envd, "", json, &out);
	snprintf(path, sizeof path, "no-hash-bang x y /nowhere:%s\n", envd.dir);
	assert_string_equal(buf_str(&out.out), path);
	outcome_release(&out);
	snprintf(json, sizeof json, "{\"process\":{\"cmd\":\"./hutch-script\",\"cwd\":\"%s\",\"envs\":{\"PATH\":\"/bin\"}}}", envd.dir);
	run_request(&envd, "", json, &out);
	assert_string_equal(buf_str(&out.out), "no-hash-bang /bin\n");
	outcome_release(&out);
	snprintf(path, sizeof path, "%s/hutch-script", envd.dir);
	unlink(path);
}

static void expect_refused(const char *json, const char *last)
{
	run_request(&envd, "", json, &out);
	assert_int_equal(out.pid, 0);
	assert_string_equal(out.end, "");
	if (strstr(out.last, last) == NULL)
		fail_msg("%s: %s", json, out.last);
	outcome_release(&out);
}

static void test_refused(void **state)
{
	(void)state;
	expect_refused("{\"process\":{\"cmd\":\"ls\",\"cwd\":\"/nowhere/at/all\"}}",
		       "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/nowhere/at/all' does not exist\"}}");
	expect_refused("{\"process\":{\"cmd\":\"ls\",\"cwd\":\"/etc/passwd\"}}", "\"invalid_argument\",\"message\":\"cwd '/etc/passwd'");
	expect_refused("{\"process\":{\"cmd\":\"ls\",\"cwd\":\"~other/x\"}}", "\"invalid_argument\"");
	expect_refused("{}", "\"invalid_argument\",\"message\":\"process is required\"");
	expect_refused("{\"process\":{}}", "\"invalid_argument\",\"message\":\"process.cmd is required\"");
	expect_refused("{\"process\":{\"cmd\":\"a\\u0000b\"}}", "\"invalid_argument\"");
	expect_refused("{\"process\":{\"cmd\":\"ls\",\"args\":[1]}}", "process.args[0]");
	expect_refused("{\"process\":{\"cmd\":\"ls\",\"args\":\"x\"}}", "args must be an array");
	expect_refused("{\"process\":{\"cmd\":\"ls\",\"envs\":{\"A=B\":\"x\"}}}", "process.envs");
	expect_refused("{\"process\":{\"cmd\":\"ls\"},\"stdin\":1}", "stdin must be true or false");
	expect_refused("{\"process\":{\"cmd\":\"ls\"},\"pty\":{\"size\":{\"cols\":\"wide\"}}}", "cols");
	expect_refused("[]", "\"invalid_argument\"");
	expect_refused("{\"process\":", "\"invalid_argument\"");
}

/* ---- what the child finds ---- */

static void test_child(void **state)
{
	(void)state;
	expect_run("ls -1 /proc/$$/fd", "0\n1\n2\n", EXIT_0);
	expect_run("grep -E '^Sig(Blk|Ign)' /proc/self/status", "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", EXIT_0);
	expect_run("umask", "0022\n", EXIT_0);
	expect_run("cat; echo eof", "eof\n", EXIT_0);           /* stdin:false is an empty file */
	expect_run("test \"$PWD\" = \"$HOME\" && cd && test \"$PWD\" = \"$HOME\" && echo home", "home\n", EXIT_0);
}

static void test_env(void **state)
{
	(void)state;
	run_request(&envd, "", "{\"process\":{\"cmd\":\"env\",\"envs\":{\"HOME\":\"/x\",\"FOO\":\"b\xc3\xa4r\",\"EMPTY\":\"\"}}}", &out);
	assert_non_null(strstr(buf_str(&out.out), "HOME=/x\n"));
	assert_null(strstr(strstr(buf_str(&out.out), "HOME=") + 1, "\nHOME="));         /* later wins, no duplicates */
	assert_non_null(strstr(buf_str(&out.out), "FOO=b\xc3\xa4r\n"));
	assert_non_null(strstr(buf_str(&out.out), "EMPTY=\n"));
	assert_non_null(strstr(buf_str(&out.out), "E2B_SANDBOX=true\n"));
	assert_non_null(strstr(buf_str(&out.out), "USER="));
	assert_non_null(strstr(buf_str(&out.out), "PATH="));
	assert_null(strstr(buf_str(&out.out), "HUTCH_TEST_SECRET"));                    /* nothing of the agent's own */
	outcome_release(&out);
}

/* ---- signals and time ---- */

static void test_kill(void **state)
{
	pid_t pid, grandchild;
	int64_t asked;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"sleep 1000 & echo $!; wait\"]}}");
	pid = stream_started(&st);
	grandchild = read_pid(&st);
	asked = boot_us();
	unary_pid("SendSignal", pid, ",\"signal\":\"SIGNAL_SIGKILL\"", 200, "{}");
	if (boot_us() - asked >= 2 * US_PER_S)                  /* as long as an answer waits for the end: the machine is too busy */
		wait_gone(pid);
	assert_true(kill(pid, 0) < 0 && errno == ESRCH);        /* at once, not a moment later */
	unary_pid("SendSignal", pid, ",\"signal\":\"SIGNAL_SIGKILL\"", 404, "\"not_found\"");
	/* the grandchild holds the pipe: the end comes all the same */
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" KILLED "}}");
	assert_string_equal(stream_next_json(&st), "{}");
	assert_int_equal(st.flags, 2);
	assert_null(stream_next_json(&st));
	assert_true(st.ended);
	stream_close(&st);
	assert_int_equal(kill(grandchild, SIGKILL), 0);
	wait_gone(grandchild);          /* reaped by the agent, whose child it became */
}

static void test_signal_after_exit(void **state)
{
	pid_t pid, grandchild;

	(void)state;
	/* the process is gone, a grandchild keeps its output open: a signal still ends the stream */
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"sleep 1000 & echo $!\"]}}");
	pid = stream_started(&st);
	grandchild = read_pid(&st);
	wait_gone(pid);
	unary_pid("SendSignal", pid, ",\"signal\":15", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
	assert_int_equal(kill(grandchild, SIGKILL), 0);
	wait_gone(grandchild);
}

static void test_term_trapped(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\","
		    "\"trap 'echo bye; exit 4' TERM; echo $$; while :; do read x || :; done\"]}}");
	pid = stream_started(&st);
	assert_int_equal(read_pid(&st), pid);
	unary_pid("SendSignal", pid, ",\"signal\":\"SIGNAL_SIGTERM\"", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"data\":{\"stdout\":\"YnllCg==\"}}}");
	assert_non_null(strstr(stream_next_json(&st), "\"exitCode\":4"));
	stream_close(&st);
}

static void test_signal_errors(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"cat\"}}");
	pid = stream_started(&st);
	unary_pid("SendSignal", pid, "", 501, "\"unimplemented\"");
	unary_pid("SendSignal", pid, ",\"signal\":\"SIGNAL_UNSPECIFIED\"", 501, "\"unimplemented\"");
	unary_pid("SendSignal", pid, ",\"signal\":2", 501, "\"unimplemented\"");
	unary_pid("SendSignal", pid, ",\"signal\":\"SIGHUP\"", 400, "\"invalid_argument\"");
	unary_pid("SendSignal", pid, ",\"signal\":{}", 400, "\"invalid_argument\"");
	expect_unary("SendSignal", "{\"process\":{\"pid\":1},\"signal\":9}", 404, "process with pid 1 not found");
	expect_unary("SendSignal", "{\"process\":{\"tag\":\"t\"},\"signal\":9}", 404, "process with tag t not found");
	expect_unary("SendSignal", "{\"process\":{},\"signal\":9}", 501, "\"unimplemented\"");
	expect_unary("SendSignal", "{\"signal\":9}", 501, "\"unimplemented\"");
	unary_pid("CloseStdin", pid, "", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
}

#define DEADLINE "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"context deadline exceeded\"}}"

/* A shell with a child of its own, and so many milliseconds for both. The stream; *child is 0 if the time was over before the shell could tell. */
static pid_t start_pair(int ms, pid_t *child)
{
	char field[48];
	pid_t pid;

	snprintf(field, sizeof field, "Connect-Timeout-Ms: %d\r\n", ms);
	stream_open(&st, &envd, "Start", field,
		    "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"sleep 300 & echo $!; exec sleep 300\"]}}");
	pid = stream_started(&st);
	*child = 0;
	assert_non_null(stream_next_json(&st));
	if (st.flags == 0) {
		*child = told_pid(&st);
		assert_non_null(stream_next_json(&st));
	}
	return pid;
}

static void test_timeout(void **state)
{
	pid_t pid, grandchild;
	int ms = 300;

	(void)state;
	/* on a busy machine the shell needs longer to begin */
	while (pid = start_pair(ms, &grandchild), grandchild == 0) {
		stream_close(&st);
		assert_true(ms < 100000);
		ms *= 4;
	}
	assert_string_equal(buf_str(&st.message), DEADLINE);
	assert_int_equal(st.flags, 2);
	assert_null(stream_next_json(&st));
	assert_true(st.ended);
	stream_close(&st);
	wait_gone(pid);
	assert_int_equal(kill(grandchild, SIGKILL), 0);         /* only the process itself was killed */
	wait_gone(grandchild);
}

/* A deadline that is over before the process is there. */
static void test_timeout_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		run_request(&envd, "Connect-Timeout-Ms: 0\r\n", "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"1000\"]}}", &out);
		assert_non_null(strstr(out.last, "deadline_exceeded"));
		assert_string_equal(out.end, "");
		wait_gone(out.pid);
		outcome_release(&out);
	}
}

static void test_timeout_without_client(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "Connect-Timeout-Ms: 300\r\n", "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"1000\"]}}");
	pid = stream_started(&st);
	stream_close(&st);
	connect_pid(&st, pid);
	stream_outcome(&st, &out);
	assert_int_equal(out.pid, pid);
	assert_string_equal(out.end, KILLED);                   /* other streams see how it ended */
	assert_string_equal(out.last, "{}");
	outcome_release(&out);
	wait_gone(pid);
}

static void test_connect_timeout(void **state)
{
	char json[64];
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"cat\"}}");
	pid = stream_started(&st);
	stream_open(&st2, &envd, "Connect", "Connect-Timeout-Ms: 50\r\n", "{\"process\":{\"pid\":\"0\"}}");
	stream_outcome(&st2, &out);
	assert_string_equal(out.last, "{\"error\":{\"code\":\"not_found\",\"message\":\"process with pid 0 not found\"}}");
	outcome_release(&out);
	snprintf(json, sizeof json, "{\"process\":{\"pid\":%d}}", (int)pid);
	stream_open(&st2, &envd, "Connect", "Connect-Timeout-Ms: 50\r\n", json);
	stream_outcome(&st2, &out);
	assert_int_equal(out.pid, pid);
	assert_non_null(strstr(out.last, "deadline_exceeded"));
	outcome_release(&out);
	unary_pid("CloseStdin", pid, "", 200, "{}");            /* it lives on */
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
}

#define KEEPALIVE "{\"event\":{\"keepalive\":{}}}"

static void test_keepalive(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "Keepalive-Ping-Interval: 1\r\n", "{\"process\":{\"cmd\":\"cat\"}}");
	pid = stream_started(&st);
	assert_string_equal(stream_next_json(&st), KEEPALIVE);
	unary_pid("CloseStdin", pid, "", 200, "{}");
	while (strcmp(stream_next_json(&st), KEEPALIVE) == 0)
		;                       /* one for each second that the call above took */
	assert_string_equal(buf_str(&st.message), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
}

/* ---- input ---- */

static void test_stdin(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"cat\"},\"stdin\":true}");
	pid = stream_started(&st);
	send_text(pid, "stdin", "one\n");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"data\":{\"stdout\":\"b25lCg==\"}}}");
	send_text(pid, "stdin", "");
	unary_pid("SendInput", pid, ",\"input\":{\"stdin\":\"dHdv\"}", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"data\":{\"stdout\":\"dHdv\"}}}");
	unary_pid("SendInput", pid, ",\"input\":{\"stdin\":\"!\"}", 400, "\"invalid_argument\"");
	unary_pid("SendInput", pid, ",\"input\":{}", 501, "\"unimplemented\"");
	unary_pid("SendInput", pid, "", 501, "\"unimplemented\"");
	unary_pid("SendInput", pid, ",\"input\":{\"pty\":\"dHdv\"}", 500, "\"internal\"");
	unary_pid("Update", pid, ",\"pty\":{\"size\":{\"cols\":1,\"rows\":1}}", 500, "\"internal\"");
	unary_pid("Update", pid, "", 200, "{}");
	unary_pid("CloseStdin", pid, "", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
	unary_pid("SendInput", pid, ",\"input\":{\"stdin\":\"dHdv\"}", 404, "\"not_found\"");
}

static void test_stdin_closed(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"1000\"]},\"stdin\":false}");
	pid = stream_started(&st);
	unary_pid("SendInput", pid, ",\"input\":{\"stdin\":\"dHdv\"}", 500, "\"internal\"");
	unary_pid("CloseStdin", pid, "", 200, "{}");
	unary_pid("SendSignal", pid, ",\"signal\":9", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" KILLED "}}");
	stream_close(&st);
}

struct sender {
	pid_t pid;
	size_t n;
	int status;
	char text[256];
};

static void *send_much(void *arg)
{
	struct sender *s = arg;
	struct answer a;
	struct buf b;
	char *zeros = calloc(1, s->n);

	buf_init(&b, 1 << 24);
	buf_addf(&b, "{\"process\":{\"pid\":%d},\"input\":{\"stdin\":\"", (int)s->pid);
	base64_add(&b, zeros, s->n);
	buf_adds(&b, "\"}}");
	free(zeros);
	envd_unary(&envd, "SendInput", buf_str(&b), &a);
	s->status = a.status;
	snprintf(s->text, sizeof s->text, "%s", buf_str(&a.body));
	answer_release(&a);
	buf_release(&b);
	return NULL;
}

/* A write that waits for a process that does not read holds up nothing else. */
static void test_blocked_stdin(void **state)
{
	struct sender sender = { .n = 1 << 20 };
	pthread_t t;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"1000\"]}}");
	sender.pid = stream_started(&st);
	assert_int_equal(pthread_create(&t, NULL, send_much, &sender), 0);
	expect_unary("List", "{}", 200, "\"1000\"");
	expect_run("echo fine", "fine\n", EXIT_0);
	unary_pid("SendSignal", sender.pid, ",\"signal\":9", 200, "{}");
	pthread_join(t, NULL);
	if (sender.status == 500)
		assert_non_null(strstr(sender.text, "\"internal\""));
	else
		assert_int_equal(sender.status, 404);           /* killed before the write began */
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" KILLED "}}");
	stream_close(&st);
}

/* What was sent before CloseStdin arrives before the end of file. */
static void test_close_behind_write(void **state)
{
	struct sender sender = { .n = 400000 };
	pthread_t t;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"head -c 1 | wc -c; wc -c\"]}}");
	sender.pid = stream_started(&st);
	assert_int_equal(pthread_create(&t, NULL, send_much, &sender), 0);
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"data\":{\"stdout\":\"MQo=\"}}}");      /* so the write is under way */
	unary_pid("CloseStdin", sender.pid, "", 200, "{}");
	pthread_join(t, NULL);
	assert_int_equal(sender.status, 200);
	assert_non_null(strstr(stream_next_json(&st), "stdout"));
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
}

/* ---- terminals ---- */

/* Read pty data until it contains the text. What came with the text is dropped too. */
static void read_until(struct stream *s, const char *text)
{
	static char seen[65536];
	size_t n = 0;

	while (n == 0 || strstr(seen, text) == NULL) {
		const char *json = stream_next_json(s), *at;
		struct buf b;

		assert_non_null(json);
		at = strstr(json, "\"pty\":\"");
		assert_non_null(at);
		buf_init(&b, 1 << 16);
		assert_int_equal(base64_decode(&b, at + 7, strcspn(at + 7, "\"")), 0);
		assert_true(n + b.len < sizeof seen);
		memcpy(seen + n, b.p, b.len + 1);
		n += b.len;
		buf_release(&b);
	}
}

static void test_pty(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\"},\"pty\":{\"size\":{\"cols\":93,\"rows\":31}}}");
	pid = stream_started(&st);
	send_text(pid, "pty", "stty size\n");
	read_until(&st, "31 93");
	send_text(pid, "pty", "test -t 0 && tty >/dev/null && echo 'ter''minal'\n");
	read_until(&st, "terminal");
	unary_pid("Update", pid, ",\"pty\":{\"size\":{\"cols\":101,\"rows\":41}}", 200, "{}");
	send_text(pid, "pty", "stty size\n");
	read_until(&st, "41 101");
	unary_pid("SendInput", pid, ",\"input\":{\"stdin\":\"dHdv\"}", 500, "\"internal\"");
	unary_pid("CloseStdin", pid, "", 500, "\"unknown\"");
	expect_unary("List", "{}", 200, "\"/bin/sh\"");
	send_text(pid, "pty", "exec echo over\n");
	for (;;) {
		const char *json = stream_next_json(&st);

		assert_non_null(json);
		if (strstr(json, "\"pty\"") != NULL)
			continue;
		assert_string_equal(json, "{\"event\":{\"end\":" EXIT_0 "}}");
		break;
	}
	stream_close(&st);
}

static void test_pty_kill(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"1000\"]},\"pty\":{}}");
	pid = stream_started(&st);
	unary_pid("SendSignal", pid, ",\"signal\":\"SIGNAL_SIGKILL\"", 200, "{}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" KILLED "}}");
	stream_close(&st);
	wait_gone(pid);
}

/* ---- followers ---- */

static void test_client_leaves(void **state)
{
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"read x; echo got $x\"]},\"tag\":\"leaver\"}");
	pid = stream_started(&st);
	stream_close(&st);
	stream_open(&st, &envd, "Connect", "", "{\"process\":{\"tag\":\"leaver\"}}");
	assert_int_equal(stream_started(&st), pid);
	connect_pid(&st2, pid);
	assert_int_equal(stream_started(&st2), pid);
	send_text(pid, "stdin", "it\n");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"data\":{\"stdout\":\"Z290IGl0Cg==\"}}}");
	assert_string_equal(stream_next_json(&st2), "{\"event\":{\"data\":{\"stdout\":\"Z290IGl0Cg==\"}}}");
	assert_string_equal(stream_next_json(&st), "{\"event\":{\"end\":" EXIT_0 "}}");
	assert_string_equal(stream_next_json(&st2), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
	stream_close(&st2);
	/* just after the end, it is still told */
	stream_open(&st, &envd, "Connect", "", "{\"process\":{\"tag\":\"leaver\"}}");
	stream_outcome(&st, &out);
	assert_int_equal(out.pid, pid);
	assert_string_equal(out.end, EXIT_0);
	outcome_release(&out);
}

static void test_tag_is_taken_over(void **state)
{
	pid_t pid;

	(void)state;
	run_request(&envd, "", "{\"process\":{\"cmd\":\"false\"},\"tag\":\"again\"}", &out);
	outcome_release(&out);
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"cat\"},\"tag\":\"again\"}");
	pid = stream_started(&st);
	stream_open(&st2, &envd, "Connect", "", "{\"process\":{\"tag\":\"again\"}}");
	assert_int_equal(stream_started(&st2), pid);
	unary_pid("CloseStdin", pid, "", 200, "{}");
	assert_string_equal(stream_next_json(&st2), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
	stream_close(&st2);
}

static void test_nobody_listens(void **state)
{
	pid_t pid;

	(void)state;
	/* far more than a pipe holds: it must not block when nobody reads */
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"read x; head -c 5000000 /dev/zero; read y\"]}}");
	pid = stream_started(&st);
	stream_close(&st);
	send_text(pid, "stdin", "go\n");
	connect_pid(&st, pid);
	assert_int_equal(stream_started(&st), pid);
	send_text(pid, "stdin", "end\n");
	while (strstr(stream_next_json(&st), "\"stdout\"") != NULL)
		;                       /* what came after we followed */
	assert_string_equal(buf_str(&st.message), "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
}

static void test_slow_reader(void **state)
{
	const size_t total = 20000000;
	char json[256];
	size_t n = 0;
	const char *msg;

	(void)state;
	snprintf(json, sizeof json, "{\"process\":{\"cmd\":\"head\",\"args\":[\"-c\",\"%zu\",\"/dev/zero\"]}}", total);
	stream_open(&st, &envd, "Start", "", json);
	stream_started(&st);
	/* it cannot end while we do not read, and holds up no one else */
	expect_run("echo fine", "fine\n", EXIT_0);
	expect_unary("List", "{}", 200, "\"20000000\"");
	while ((msg = stream_next_json(&st)) != NULL && strstr(msg, "\"stdout\":\"") != NULL) {
		const char *at = strstr(msg, "\"stdout\":\"") + 10;
		size_t len = strcspn(at, "\"");

		n += len / 4 * 3 - (at[len - 1] == '=') - (at[len - 2] == '=');
	}
	assert_int_equal(n, total);
	assert_string_equal(msg, "{\"event\":{\"end\":" EXIT_0 "}}");
	stream_close(&st);
}

static void test_list(void **state)
{
	struct answer a;
	pid_t pid;
	char want[512];

	(void)state;
	stream_open(&st, &envd, "Start", "",
		    "{\"process\":{\"cmd\":\"cat\",\"args\":[\"-\",\"\\\"q\"],\"envs\":{\"K\":\"v\"},\"cwd\":\"/\"},\"tag\":\"t1\",\"stdin\":true}");
	pid = stream_started(&st);
	envd_unary(&envd, "List", "{}", &a);
	assert_int_equal(a.status, 200);
	snprintf(want, sizeof want, "{\"processes\":[{\"config\":{\"cmd\":\"cat\",\"args\":[\"-\",\"\\\"q\"],\"envs\":{\"K\":\"v\"},"
		 "\"cwd\":\"/\"},\"pid\":%d,\"tag\":\"t1\"}]}", (int)pid);
	assert_string_equal(buf_str(&a.body), want);
	answer_release(&a);
	unary_pid("SendSignal", pid, ",\"signal\":9", 200, "{}");
	while (stream_next_json(&st) != NULL)
		;
	stream_close(&st);
	envd_unary(&envd, "List", "", &a);
	assert_string_equal(buf_str(&a.body), "{\"processes\":[]}");
	answer_release(&a);
}

/* All of them run at the same time. */
static void test_many(void **state)
{
	enum { N = 200 };
	static struct stream many[N];
	pid_t pid[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		stream_open(&many[i], &envd, "Start", "", "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"read x; echo $x\"]},\"stdin\":true}");
		pid[i] = stream_started(&many[i]);
	}
	for (int i = N - 1; i >= 0; i--) {
		char line[16], want[64];
		struct buf b;

		snprintf(line, sizeof line, "%d\n", i);
		send_text(pid[i], "stdin", line);
		buf_init(&b, 64);
		base64_add(&b, line, strlen(line));
		snprintf(want, sizeof want, "{\"event\":{\"data\":{\"stdout\":\"%s\"}}}", buf_str(&b));
		buf_release(&b);
		assert_string_equal(stream_next_json(&many[i]), want);
		assert_string_equal(stream_next_json(&many[i]), "{\"event\":{\"end\":" EXIT_0 "}}");
		assert_string_equal(stream_next_json(&many[i]), "{}");
		assert_int_equal(many[i].flags, 2);
		stream_close(&many[i]);
	}
}

/* Most memory that the agent ever had, in KiB. */
static long peak_kb(void)
{
	char path[64], line[256];
	long kb = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", (int)envd.pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (kb < 0 && fgets(line, sizeof line, f) != NULL)
		sscanf(line, "VmHWM: %ld", &kb);
	fclose(f);
	assert_true(kb > 0);
	return kb;
}

/* A gibibyte of output, and the agent grows by some buffers. */
static void test_gibibyte(void **state)
{
	const uint64_t total = SANITIZED ? 1 << 26 : 1 << 30;
	char json[256], tail[sizeof EXIT_0 + 256] = "";
	long before = peak_kb();
	uint64_t n = 0;
	ssize_t got;

	(void)state;
	snprintf(json, sizeof json, "{\"process\":{\"cmd\":\"head\",\"args\":[\"-c\",\"%llu\",\"/dev/zero\"]}}", (unsigned long long)total);
	stream_open(&st, &envd, "Start", "", json);
	stream_started(&st);
	n = st.to - st.from;
	while ((got = recv(st.fd, st.raw, sizeof st.raw, 0)) > 0) {
		size_t keep = (size_t)got < sizeof tail - 1 ? (size_t)got : sizeof tail - 1, old = strlen(tail);

		n += (uint64_t)got;
		if (old + keep > sizeof tail - 1) {
			memmove(tail, tail + old + keep - (sizeof tail - 1), sizeof tail - keep);
			old = sizeof tail - 1 - keep;
		}
		for (size_t i = 0; i < keep; i++)       /* text only: envelope heads hold NULs */
			tail[old + i] = st.raw[(size_t)got - keep + i] != '\0' ? st.raw[(size_t)got - keep + i] : ' ';
		tail[old + keep] = '\0';
		if (strstr(tail, "0\r\n\r\n") != NULL && strstr(tail, EXIT_0) != NULL)
			break;                          /* the connection is kept */
	}
	if (strstr(tail, EXIT_0) == NULL)
		fail_msg("%llu bytes, and then %s", (unsigned long long)n, tail);
	assert_true(n > total / 3 * 4);
	stream_close(&st);
	if (!SANITIZED)
		assert_in_range(peak_kb() - before, 0, 16 << 10);
}

/* ---- framing ---- */

static void expect_stream_error(const char *target, const void *body, size_t n, const char *part)
{
	struct answer a;

	envd_call_n(&envd, "POST", target, "Content-Type: application/connect+json\r\n", body, n, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.body.len > 5);
	assert_int_equal(a.body.p[0], 2);
	if (strstr(a.body.p + 5, part) == NULL)
		fail_msg("%s, not %s", a.body.p + 5, part);
	answer_release(&a);
}

static void test_framing(void **state)
{
	(void)state;
	expect_stream_error("/process.Process/Start", "", 0, "\"unimplemented\"");
	expect_stream_error("/process.Process/Start", "\0\0\0", 3, "\"invalid_argument\"");
	expect_stream_error("/process.Process/Start", "\0\0\0\0\5{}", 7, "\"invalid_argument\"");
	expect_stream_error("/process.Process/Start", "\1\0\0\0\2{}", 7, "\"invalid_argument\"");
	expect_stream_error("/process.Process/Start", "\0\377\377\377\377{}", 7, "\"resource_exhausted\"");
	expect_stream_error("/process.Process/Connect", "\0\0\0\0\2{}\0\0\0\0\2{}", 14, "\"unimplemented\"");
}

static void add_message(struct buf *b, const char *json)
{
	buf_add(b, "\0\0\0\0", 4);
	buf_addc(b, (char)strlen(json));
	buf_adds(b, json);
}

static void test_stream_input(void **state)
{
	struct answer a;
	char json[128];
	struct buf b;
	pid_t pid;

	(void)state;
	stream_open(&st, &envd, "Start", "", "{\"process\":{\"cmd\":\"cat\"}}");
	pid = stream_started(&st);
	buf_init(&b, 4096);
	snprintf(json, sizeof json, "{\"start\":{\"process\":{\"pid\":%d}}}", (int)pid);
	add_message(&b, json);
	add_message(&b, "{\"data\":{\"input\":{\"stdin\":\"YQ==\"}}}");
	add_message(&b, "{\"keepalive\":{}}");
	add_message(&b, "{\"data\":{\"input\":{\"stdin\":\"Yg==\"}}}");
	envd_call_n(&envd, "POST", "/process.Process/StreamInput", "Content-Type: application/connect+json\r\n", b.p, b.len, &a);
	assert_int_equal(a.status, 200);
	assert_int_equal(a.body.len, 14);
	assert_memory_equal(a.body.p, "\0\0\0\0\2{}\2\0\0\0\2{}", 14);
	answer_release(&a);
	buf_release(&b);
	unary_pid("CloseStdin", pid, "", 200, "{}");
	stream_close(&st);
	connect_pid(&st, pid);
	stream_outcome(&st, &out);
	assert_string_equal(out.end, EXIT_0);
	outcome_release(&out);
	expect_stream_error("/process.Process/StreamInput", "\0\0\0\0\x0b{\"data\":{}}", 16, "\"unimplemented\"");
	/* a client that goes on beyond its own deadline */
	envd_call_n(&envd, "POST", "/process.Process/StreamInput", "Content-Type: application/connect+json\r\nConnect-Timeout-Ms: 0\r\n",
		    "\0\0\0\0\x10{\"keepalive\":{}}\0\0\0\0\x10{\"keepalive\":{}}", 42, &a);
	assert_non_null(strstr(a.body.p + 5, "\"deadline_exceeded\""));
	answer_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run),
		cmocka_unit_test(test_late_output),
		cmocka_unit_test(test_big_output),
		cmocka_unit_test(test_missing_program),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_signal_after_exit),
		cmocka_unit_test(test_term_trapped),
		cmocka_unit_test(test_signal_errors),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_timeout_at_once),
		cmocka_unit_test(test_timeout_without_client),
		cmocka_unit_test(test_connect_timeout),
		cmocka_unit_test(test_keepalive),
		cmocka_unit_test(test_stdin),
		cmocka_unit_test(test_stdin_closed),
		cmocka_unit_test(test_blocked_stdin),
		cmocka_unit_test(test_close_behind_write),
		cmocka_unit_test(test_pty),
		cmocka_unit_test(test_pty_kill),
		cmocka_unit_test(test_client_leaves),
		cmocka_unit_test(test_tag_is_taken_over),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_gibibyte),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_framing),
		cmocka_unit_test(test_stream_input),
	};

	setenv("HUTCH_TEST_SECRET", "1", 1);    /* must not reach any command */
	return cmocka_run_group_tests(tests, start_agent, stop_agent);
}
