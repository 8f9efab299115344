#include "config.h"

#include "bash.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bash_shell.h"
#include "hutch/io.h"
#include "hutch/json.h"
#include "hutch/when.h"

#define LINE_FD 3
#define LINE_MAX_BYTES (16u << 20)
#define PIECE 16384                  /* read at once; three times as much as text when none of it is UTF-8 */
#define STATUS_INTERRUPTED 130
#define AGAIN_US (200 * US_PER_MS)   /* the shell can miss an interrupt just before it starts a program: it is asked how it stands, and interrupted, in turn */

struct side {                        /* standard output or error of the cells */
	const char *name;
	char held[4];                    /* the beginning of a character whose end has not come */
	size_t n;
};

struct kernel {
	struct shell shell;
	struct side out, err;
	struct buf in, done, line;
	char *id;                        /* of the cell that runs; NULL: idle */
	bool silent, started, interrupted;
	unsigned tries;                  /* since the interrupt */
	int64_t again_us;                /* when the next one is due */
	unsigned long number;            /* of the last cell */
	unsigned long count;             /* executions, silent ones not */
};

/* ---- messages ---- */

/* Begin a message about the cell; its content is an object left open. */
static struct jw begin(struct kernel *k, const char *type)
{
	struct jw w;

	buf_reset(&k->line);
	jw_init(&w, &k->line);
	jw_open(&w, '{');
	jw_kstr(&w, "type", type);
	if (k->id != NULL)
		jw_kstr(&w, "parent", k->id);
	jw_key(&w, "content");
	jw_open(&w, '{');
	return w;
}

static void send_line(struct kernel *k, struct jw *w)
{
	jw_close(w, '}');
	jw_close(w, '}');
	buf_addc(&k->line, '\n');
	if (buf_failed(&k->line) || write_all(LINE_FD, k->line.p, k->line.len) < 0) {
		shell_end(&k->shell);            /* nobody is left to tell */
		_exit(1);
	}
}

static void tell_state(struct kernel *k, const char *state)
{
	struct jw w = begin(k, "status");

	jw_kstr(&w, "execution_state", state);
	send_line(k, &w);
}

static void tell_error(struct kernel *k, const char *name, const char *value)
{
	struct jw w = begin(k, "error");

	jw_kstr(&w, "ename", name);
	jw_kstr(&w, "evalue", value);
	jw_key(&w, "traceback");
	jw_open(&w, '[');
	jw_close(&w, ']');
	send_line(k, &w);
}

static void tell_text(struct kernel *k, const char *stream, const char *p, size_t n)
{
	struct jw w = begin(k, "stream");

	jw_kstr(&w, "name", stream);
	jw_key(&w, "text");
	jw_strn(&w, p, n);
	send_line(k, &w);
}

/* ---- output ---- */

/* How many bytes at the end are the beginning of a character that needs more (RFC 3629). */
static size_t unfinished(const char *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)p[n - back];

		if (c >= 0xc0)
			return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? back : 0;
		if (c < 0x80)
			return 0;
	}
	return 0;
}

/* Take up to max bytes; what is not asked for (no cell runs) is dropped. False: nothing was there. A cell can close it for good (`exec >file`). */
static bool take_output(struct kernel *k, struct side *s, int *fd, size_t max)
{
	char p[sizeof s->held + PIECE];
	ssize_t got;
	size_t n, keep;

	memcpy(p, s->held, s->n);
	got = read(*fd, p + s->n, max < PIECE ? max : PIECE);
	if (got == 0) {
		close(*fd);
		*fd = -1;
	}
	if (got <= 0)
		return false;
	n = s->n + (size_t)got;
	keep = unfinished(p, n);
	s->n = 0;
	if (k->id == NULL)
		return true;
	if (n > keep)
		tell_text(k, s->name, p, n - keep);
	memcpy(s->held, p + n - keep, keep);
	s->n = keep;
	return true;
}

/* All that had been written when the cell ended; a writer in the background may go on for ever. */
static void drain(struct kernel *k, struct side *s, int *fd)
{
	int left = 0;

	ioctl(*fd, FIONREAD, &left);
	for (; left > 0 && take_output(k, s, fd, (size_t)left); left -= PIECE)
		;
	if (k->id != NULL && s->n > 0)
		tell_text(k, s->name, s->held, s->n);
	s->n = 0;
}

/* ---- cells ---- */

static void end_messages(struct kernel *k)
{
	tell_state(k, "idle");
	free(k->id);
	k->id = NULL;
	k->interrupted = k->started = false;
}

static void end_cell(struct kernel *k, int status, const char *lost)
{
	char value[16];

	if (k->interrupted)
		shell_sweep(&k->shell);
	drain(k, &k->out, &k->shell.out);
	drain(k, &k->err, &k->shell.err);
	snprintf(value, sizeof value, "%d", status);
	if (lost != NULL)
		tell_error(k, "ShellEnded", lost);
	else if (k->interrupted && status == STATUS_INTERRUPTED)
		tell_error(k, "KeyboardInterrupt", "");
	else if (status != 0)
		tell_error(k, "", value);
	end_messages(k);
}

static void refuse_cell(struct kernel *k, const struct err *e)
{
	tell_error(k, "ValueError", e->text);
	end_messages(k);
}

static int begin_cell(struct kernel *k, json_object *content, struct err *e)
{
	json_object *code = NULL;

	k->silent = false;
	if (json_get_bool(content, "silent", &k->silent, e) < 0)
		return -1;
	if (!json_object_object_get_ex(content, "code", &code) || !json_object_is_type(code, json_type_string))
		return err_set(e, ERR_INVALID, "code must be a string");
	if (!k->silent) {
		struct jw w = begin(k, "execute_input");

		jw_kint(&w, "execution_count", (int64_t)++k->count);
		send_line(k, &w);
	}
	if (memchr(json_object_get_string(code), '\0', (size_t)json_object_get_string_len(code)) != NULL)
		return err_set(e, ERR_INVALID, "Bash takes no NUL character");
	k->again_us = boot_us() + AGAIN_US;
	return shell_run(&k->shell, ++k->number, json_object_get_string(code), (size_t)json_object_get_string_len(code), e);
}

static void interrupt(struct kernel *k)
{
	if (k->id == NULL)
		return;
	k->interrupted = true;
	k->tries = 0;
	k->again_us = boot_us() + AGAIN_US;
	if (k->started)
		shell_interrupt(&k->shell);
}

/* The cell does not begin, or its interrupt has not helped yet. */
static bool waits(const struct kernel *k)
{
	return k->id != NULL && (k->interrupted || !k->started);
}

static void try_again(struct kernel *k)
{
	if (!waits(k) || boot_us() < k->again_us)
		return;
	k->again_us = boot_us() + AGAIN_US;
	if (!k->started)
		shell_sweep(&k->shell);          /* what an interrupted cell left was not yet a program then */
	else if (k->tries++ % 2 == 0)
		shell_ask(&k->shell, k->number);
	else
		shell_interrupt(&k->shell);
}

static void take_request(struct kernel *k, const char *text, size_t n)
{
	json_object *o = NULL, *content = NULL;
	const char *type = "", *id = NULL;
	struct err e;
	int status = json_read_object(text, n, &o, &e);

	if (status == 0)
		json_get_str(o, "type", 64, &type, &e);
	if (strcmp(type, "interrupt_request") == 0) {
		interrupt(k);
	} else if (strcmp(type, "execute_request") == 0 && k->id == NULL && json_get_str(o, "id", 256, &id, &e) == 1 &&
		   json_get_obj(o, "content", &content, &e) == 1 && (k->id = strdup(id)) != NULL) {
		tell_state(k, "busy");
		if (begin_cell(k, content, &e) < 0)
			refuse_cell(k, &e);
	} else {
		fprintf(stderr, "bash kernel: a message that is no request was dropped\n");
	}
	json_object_put(o);
}

/* False: the interpreter has closed its end. */
static bool take_requests(struct kernel *k)
{
	char *p = buf_room(&k->in, 65536), *end;
	ssize_t got = p != NULL ? read(LINE_FD, p, 65536) : 0;

	if (got <= 0)
		return got < 0 && errno == EINTR;
	k->in.len += (size_t)got;
	while ((end = memchr(k->in.p, '\n', k->in.len)) != NULL) {
		take_request(k, k->in.p, (size_t)(end - k->in.p));
		buf_cut(&k->in, (size_t)(end - k->in.p) + 1);
	}
	return true;
}

static void take_word(struct kernel *k, const char *what)
{
	if (strcmp(what, "start") != 0) {
		end_cell(k, atoi(what), NULL);
		return;
	}
	k->started = true;
	if (k->interrupted)
		shell_interrupt(&k->shell);
}

static void take_done(struct kernel *k)
{
	char *p = buf_room(&k->done, 4096), *end;
	ssize_t got = p != NULL ? read(k->shell.done, p, 4096) : 0;
	struct err e;

	if (got < 0)
		return;
	if (got == 0) {
		if (k->id != NULL)
			end_cell(k, 1, "the shell has ended; a new one is started, without its variables");
		shell_end(&k->shell);
		buf_reset(&k->done);
		if (shell_start(&k->shell, &e) < 0) {
			fprintf(stderr, "bash kernel: %s\n", e.text);
			exit(1);
		}
		return;
	}
	k->done.len += (size_t)got;
	while ((end = memchr(k->done.p, '\n', k->done.len)) != NULL) {
		unsigned long number;
		char what[16];

		if (sscanf(k->done.p, "%lu %15s", &number, what) == 2 && number == k->number && k->id != NULL)
			take_word(k, what);
		buf_cut(&k->done, (size_t)(end - k->done.p) + 1);
	}
}

static void serve(struct kernel *k)
{
	for (;;) {
		struct pollfd p[] = { { .fd = LINE_FD, .events = POLLIN }, { .fd = k->shell.out, .events = POLLIN }, { .fd = k->shell.err, .events = POLLIN },
				      { .fd = k->shell.done, .events = POLLIN } };

		if (poll(p, sizeof p / sizeof p[0], waits(k) ? AGAIN_US / US_PER_MS : -1) < 0)
			continue;
		try_again(k);
		if (p[0].revents != 0 && !take_requests(k))
			return;
		if (p[1].revents != 0)
			take_output(k, &k->out, &k->shell.out, PIECE);
		if (p[2].revents != 0)
			take_output(k, &k->err, &k->shell.err, PIECE);
		if (p[3].revents != 0)
			take_done(k);
	}
}

int bash_kernel_main(void)
{
	static const char ready[] = "{\"type\":\"ready\"}\n";
	struct kernel k = { .out = { .name = "stdout" }, .err = { .name = "stderr" } };
	struct err e;

	signal(SIGPIPE, SIG_IGN);
	buf_init(&k.in, LINE_MAX_BYTES + 65536);
	buf_init(&k.done, 65536);
	buf_init(&k.line, LINE_MAX_BYTES);
	if (shell_start(&k.shell, &e) < 0) {
		fprintf(stderr, "bash kernel: %s\n", e.text);
		return 1;
	}
	if (write_all(LINE_FD, ready, sizeof ready - 1) == 0)
		serve(&k);
	shell_end(&k.shell);
	buf_release(&k.in);
	buf_release(&k.done);
	buf_release(&k.line);
	free(k.id);
	return 0;
}
