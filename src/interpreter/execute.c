/*
 * One execution: wait for the context's turn, run the cell, and turn its messages into lines while they come (guest.md 7.2, 7.3, 7.5).
 *
 * A client that hangs up is noticed at once: the kernel is interrupted, and the context is free again when the cell has ended.
 */
#include "config.h"

#include "interpreter.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "hutch/log.h"
#include "hutch/when.h"

#define KEEPALIVE_S 5
#define OUT_BYTES (256u << 10)           /* lines gathered for one write */
#define INTERRUPTS 6                     /* the second comes after one second, then always later */

struct run {
	struct interpreter *x;
	struct h1_req *r;
	struct context *c;
	struct buf out;
	int64_t sent_us;                 /* the last write to the client */
	bool left;                       /* the client hung up */
	bool over;                       /* it has its answer: that it hangs up now is no wish to end anything */
	int interrupts;
	int64_t interrupt_us;            /* when the next one is due */
	bool errored;                    /* the client was told of an error */
	struct buf reply_error;          /* an error that only the reply tells so far */
};

/* What a cell has told of itself. */
struct cell {
	char id[ID_LEN];
	bool silent, accepted, done;
};

/* ---- the client ---- */

static void flush(struct run *u)
{
	if (u->out.len > 0 && !u->left && h1_write(u->r, u->out.p, u->out.len) < 0)
		u->left = true;
	if (u->out.len > 0)
		u->sent_us = boot_us();
	if (u->out.cap > 2 * OUT_BYTES)
		buf_release(&u->out);
	else
		buf_reset(&u->out);
}

static bool keep_alive(void *ctx)
{
	struct run *u = ctx;

	event_keepalive(&u->out);
	flush(u);
	return !u->left;
}

/* ---- messages ---- */

static void lost_note(struct run *u, const struct kmsg *m)
{
	char text[160];

	snprintf(text, sizeof text, "[%s of %llu bytes left out: over %u MiB in one piece]\n", m->type, (unsigned long long)m->lost,
		 ZMTP_MESSAGE_MAX >> 20);
	event_note(&u->out, text);
}

static void take_status(struct cell *cell, struct span content)
{
	struct span state = span_member(content, "execution_state");

	/* a silent cell is not announced by execute_input */
	if (cell->silent && span_is(state, "busy"))
		cell->accepted = true;
	if (span_is(state, "idle") && cell->accepted)
		cell->done = true;
}

static void take_reply(struct run *u, struct cell *cell, struct span content)
{
	struct span status = span_member(content, "status");

	if (span_is(status, "aborted") || span_is(status, "abort")) {
		if (!u->errored)
			event_error_text(&u->out, "ExecutionAborted", "Execution was aborted");
		u->errored = true;
		cell->done = !cell->accepted;    /* of one that ran comes idle, too; R refuses what it is sent before that */
	} else if (span_is(status, "error") && !u->errored) {
		buf_reset(&u->reply_error);      /* told at the end, unless the other channel tells it */
		buf_add(&u->reply_error, content.p, content.n);
	}
}

static void tell_count(struct run *u, struct span count)
{
	char text[24];

	if (u->c->kernel->uncounted > 0) {
		snprintf(text, sizeof text, "%.*s", (int)count.n, span_is_null(count) ? "" : count.p);
		snprintf(text, sizeof text, "%ld", strtol(text, NULL, 10) - u->c->kernel->uncounted);
		count = (struct span){ text, strlen(text) };
	}
	event_count(&u->out, count);
}

static void take_output(struct run *u, struct cell *cell, const struct kmsg *m)
{
	if (strcmp(m->type, "stream") == 0) {
		struct span name = span_member(m->content, "name");

		if (span_is(name, "stdout") || span_is(name, "stderr"))
			event_stream(&u->out, span_is(name, "stdout") ? "stdout" : "stderr", span_member(m->content, "text"), m->date);
	} else if (strcmp(m->type, "display_data") == 0 || strcmp(m->type, "execute_result") == 0) {
		event_result(&u->out, span_member(m->content, "data"), m->type[0] == 'e');
	} else if (strcmp(m->type, "error") == 0 && !u->errored) {
		event_error(&u->out, m->content);
		u->errored = true;
	} else if (strcmp(m->type, "execute_input") == 0) {
		tell_count(u, span_member(m->content, "execution_count"));
		cell->accepted = true;
	}
}

static void take(struct run *u, struct cell *cell, const struct kmsg *m)
{
	if (strcmp(m->type, "status") == 0)
		take_status(cell, m->content);
	else if (cell->silent)
		kernel_hide(u->c->kernel, m);
	else if (m->lost > 0)
		lost_note(u, m);
	else if (strcmp(m->type, "execute_reply") == 0)
		take_reply(u, cell, m->content);
	else
		take_output(u, cell, m);
}

/* Everything that has arrived. -1: the kernel is gone. */
static int take_all(struct run *u, struct cell *cell)
{
	struct kmsg m;
	int got = 0;

	while (!cell->done && (got = kernel_next(u->c->kernel, cell->id, &m)) > 0) {
		take(u, cell, &m);
		if (u->left)
			buf_reset(&u->out);
		else if (u->out.len >= OUT_BYTES)
			flush(u);
	}
	return cell->done ? 0 : got;
}

/* ---- a cell ---- */

static void interrupt(struct run *u)
{
	int64_t now = boot_us();

	if (u->interrupts == INTERRUPTS || now < u->interrupt_us)
		return;
	kernel_interrupt(u->c->kernel);
	u->interrupt_us = now + (US_PER_S << u->interrupts);
	u->interrupts++;
}

static int64_t next_look(const struct run *u)
{
	if (u->over)
		return 0;
	if (u->left)
		return u->interrupts < INTERRUPTS ? u->interrupt_us : 0;
	return u->sent_us + KEEPALIVE_S * US_PER_S;
}

/* Until something happens. */
static void wait_for_news(struct run *u)
{
	struct pollfd p[KERNEL_FDS + 1];
	int64_t until = next_look(u), left = (until - boot_us()) / US_PER_MS + 1;

	kernel_pollfds(u->c->kernel, p);
	p[KERNEL_FDS] = (struct pollfd){ .fd = u->left || u->over ? -1 : u->r->fd, .events = POLLRDHUP };
	poll(p, KERNEL_FDS + 1, until == 0 ? -1 : left > 0 ? (int)left : 0);
	if (p[KERNEL_FDS].revents != 0)
		u->left = true;
	if (p[0].revents != 0 && p[1].revents == 0 && p[2].revents == 0)
		u->c->kernel->broken = true;             /* it ended, and all that it said is read */
	kernel_fill(u->c->kernel);
}

/* What the client is owed, or its absence means. */
static void attend(struct run *u)
{
	flush(u);
	if (u->over)
		return;
	if (u->left)
		interrupt(u);
	else if (boot_us() - u->sent_us >= KEEPALIVE_S * US_PER_S)
		keep_alive(u);
}

/* Run code to its end. 0, or -1: the kernel is gone. */
static int run_cell(struct run *u, struct span code, bool silent)
{
	struct cell cell = { .silent = silent };
	struct err e;

	if (kernel_execute(u->c->kernel, code, silent, cell.id, &e) < 0) {
		log_warn("%s", e.text);
		return -1;
	}
	for (;;) {
		if (take_all(u, &cell) < 0)
			return -1;
		if (cell.done)
			break;
		attend(u);
		wait_for_news(u);
	}
	if (!silent && !u->errored && u->reply_error.len > 0)
		event_error(&u->out, (struct span){ u->reply_error.p, u->reply_error.len });
	return 0;
}

/* ---- variables ---- */

/* Set what is in env; with `back`, set it to what is in globals, or unset it. */
static int set_variables(struct run *u, json_object *env, bool back)
{
	struct buf code;
	int rc = 0;

	if (env == NULL || u->c->lang->env == NULL || json_object_object_length(env) == 0)
		return 0;
	buf_init(&code, CODE_MAX);
	json_object_object_foreach(env, name, value) {
		json_object *global = NULL;

		if (back)
			json_object_object_get_ex(u->c->globals, name, &global);
		u->c->lang->env(&code, name, back ? json_object_get_string(global) : json_object_get_string(value));
	}
	if (!buf_failed(&code) && code.len > 0)
		rc = run_cell(u, (struct span){ code.p, code.len }, true);
	buf_release(&code);
	return rc;
}

/* The first cell of a kernel brings the sandbox's variables into it. */
static int set_globals(struct run *u, const char *token)
{
	if (u->c->globals != NULL)
		return 0;
	u->c->globals = globals_fetch(u->x->agent_port, token);
	return set_variables(u, u->c->globals, false);
}

/* ---- the whole ---- */

/* The kernel went away under the cell. One error is all that a client takes. */
static void tell_loss(struct run *u)
{
	if (u->errored)
		return;
	if (u->c->gone)
		event_error_text(&u->out, "UnexpectedEndOfExecution",
				 "Connection to the execution was closed before the execution was finished");
	else
		event_error_text(&u->out, "ContextRestarting", "Context was restarted");
}

static void tell_end(struct run *u)
{
	event_end(&u->out);
	flush(u);
	if (!u->left)
		h1_end(u->r);
	u->over = true;
}

/* With the turn. */
static void run(struct run *u, struct span code, json_object *env, const char *token)
{
	struct contexts *t = &u->x->contexts;
	struct err e;
	int rc;

	if (context_revive(t, u->c, &e) < 0) {
		event_error_text(&u->out, "WebSocketError", e.text);
		tell_end(u);
		return;
	}
	rc = set_globals(u, token);
	if (rc == 0)
		rc = set_variables(u, env, false);
	if (rc == 0)
		rc = run_cell(u, code, false);
	if (rc < 0)
		tell_loss(u);
	tell_end(u);
	if (rc == 0)
		rc = set_variables(u, env, true);        /* the next one waits for that */
	if (rc < 0 && !u->c->gone && u->c->restarting == 0) {
		context_drop_kernel(t, u->c);
		if (context_revive(t, u->c, &e) < 0)
			log_error("%s", e.text);
	}
}

void execute(struct interpreter *x, struct h1_req *r, struct context *c, struct span code, json_object *env, const char *token)
{
	struct run u = { .x = x, .r = r, .c = c, .sent_us = boot_us() };
	int rc;

	buf_init(&u.out, 4 * (size_t)ZMTP_MESSAGE_MAX);
	buf_init(&u.reply_error, ZMTP_MESSAGE_MAX);
	if (h1_begin(r, 200, "application/x-ndjson", NULL) < 0)
		u.left = true;
	rc = u.left ? -1 : context_enter(&x->contexts, c, r->fd, KEEPALIVE_S, keep_alive, &u);
	if (rc == 0) {
		run(&u, code, env, token);
		context_leave(&x->contexts, c);
	} else if (rc == -2) {
		tell_loss(&u);
		tell_end(&u);
	}
	if (u.left)
		h1_abort(r);
	buf_release(&u.out);
	buf_release(&u.reply_error);
}
