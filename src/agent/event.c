/* Process events as envelopes (guest.md 4.4). Defaults are left out, as proto3 JSON does. */
#include "config.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* An envelope in b whose JSON is written in place: its length is put in at the end. */
static struct jw envelope_open(struct buf *b, size_t *at)
{
	struct jw w;

	*at = b->len;
	envelope_add(b, 0, "", 0);
	jw_init(&w, b);
	jw_open(&w, '{');
	jw_key(&w, "event");
	jw_open(&w, '{');
	return w;
}

static void envelope_close(struct jw *w, size_t at)
{
	size_t n;
	char *p;

	jw_close(w, '}');
	jw_close(w, '}');
	if (buf_failed(w->b))
		return;
	n = w->b->len - at - 5;
	p = w->b->p + at;
	p[1] = (char)(n >> 24);
	p[2] = (char)(n >> 16);
	p[3] = (char)(n >> 8);
	p[4] = (char)n;
}

void event_start(struct buf *b, pid_t pid)
{
	size_t at;
	struct jw w = envelope_open(b, &at);

	jw_key(&w, "start");
	jw_open(&w, '{');
	jw_kint(&w, "pid", pid);
	jw_close(&w, '}');
	envelope_close(&w, at);
}

void event_data(struct buf *b, const struct chunk *c)
{
	static const char *const names[] = { [CH_STDOUT] = "stdout", [CH_STDERR] = "stderr", [CH_PTY] = "pty" };
	size_t at;
	struct jw w = envelope_open(b, &at);

	jw_key(&w, "data");
	jw_open(&w, '{');
	jw_key(&w, names[c->channel]);
	jw_base64(&w, c->data, c->n);
	jw_close(&w, '}');
	envelope_close(&w, at);
}

void event_keepalive(struct buf *b)
{
	size_t at;
	struct jw w = envelope_open(b, &at);

	jw_key(&w, "keepalive");
	jw_open(&w, '{');
	jw_close(&w, '}');
	envelope_close(&w, at);
}

/* The words that clients know are Go's, not strsignal's. */
static const char *signal_word(int sig)
{
	static const char *const words[] = {
		[SIGHUP] = "hangup", [SIGINT] = "interrupt", [SIGQUIT] = "quit", [SIGILL] = "illegal instruction",
		[SIGTRAP] = "trace/breakpoint trap", [SIGABRT] = "aborted", [SIGBUS] = "bus error",
		[SIGFPE] = "floating point exception", [SIGKILL] = "killed", [SIGUSR1] = "user defined signal 1",
		[SIGSEGV] = "segmentation fault", [SIGUSR2] = "user defined signal 2", [SIGPIPE] = "broken pipe",
		[SIGALRM] = "alarm clock", [SIGTERM] = "terminated", [SIGSTKFLT] = "stack fault", [SIGXCPU] = "CPU time limit exceeded",
		[SIGXFSZ] = "file size limit exceeded", [SIGVTALRM] = "virtual timer expired", [SIGPROF] = "profiling timer expired",
		[SIGPOLL] = "I/O possible", [SIGPWR] = "power failure", [SIGSYS] = "bad system call",
	};

	return sig > 0 && (size_t)sig < sizeof words / sizeof words[0] ? words[sig] : NULL;
}

void wait_status_text(int st, char *out, size_t max)
{
	const char *word;

	if (WIFEXITED(st)) {
		snprintf(out, max, "exit status %d", WEXITSTATUS(st));
		return;
	}
	word = signal_word(WTERMSIG(st));
	if (word != NULL)
		snprintf(out, max, "signal: %s%s", word, WCOREDUMP(st) ? " (core dumped)" : "");
	else
		snprintf(out, max, "signal: signal %d%s", WTERMSIG(st), WCOREDUMP(st) ? " (core dumped)" : "");
}

void event_end(struct buf *b, int st)
{
	int code = WIFEXITED(st) ? WEXITSTATUS(st) : -1;
	char text[80];
	size_t at;
	struct jw w = envelope_open(b, &at);

	wait_status_text(st, text, sizeof text);
	jw_key(&w, "end");
	jw_open(&w, '{');
	if (code != 0)
		jw_kint(&w, "exitCode", code);
	if (WIFEXITED(st))
		jw_kbool(&w, "exited", true);
	jw_kstr(&w, "status", text);
	if (code != 0)
		jw_kstr(&w, "error", text);
	jw_close(&w, '}');
	envelope_close(&w, at);
}
