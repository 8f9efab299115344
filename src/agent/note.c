/* What processes do, as lines of the journal. */
#include "config.h"

#include "process.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define COMMAND_BYTES 200            /* of program and arguments */
#define TAG_BYTES 100
#define MESSAGE_BYTES 400

/* Program and arguments, cut. */
static void command_text(char *const *argv, char out[COMMAND_BYTES + 1])
{
	size_t n = 0;

	for (; *argv != NULL && n < COMMAND_BYTES; argv++) {
		int more = snprintf(out + n, COMMAND_BYTES + 1 - n, "%s%s", n > 0 ? " " : "", *argv);

		n = more > 0 ? n + (size_t)more : COMMAND_BYTES;
	}
}

/* A line about process p; signalled processes and such are warnings. */
static void note(struct procs *t, const char *level, const struct proc *p, const char *user, const char *message)
{
	char pid[16], tag[TAG_BYTES + 1];

	snprintf(pid, sizeof pid, "%d", (int)p->pid);
	snprintf(tag, sizeof tag, "%s", p->tag != NULL ? p->tag : "");
	journal_add(t->journal, level, message, (const struct journal_field[]){
		{ "pid", pid }, { "user", user }, { "tag", tag[0] != '\0' ? tag : NULL }, { 0 } });
}

void note_started(struct procs *t, const struct proc *p, const struct spawn *s)
{
	char command[COMMAND_BYTES + 1] = "", message[MESSAGE_BYTES];

	command_text(s->argv, command);
	snprintf(message, sizeof message, "Process %d started: %s", (int)p->pid, command);
	note(t, "info", p, s->user->name, message);
}

void note_ended(struct procs *t, const struct proc *p)
{
	char status[80], message[MESSAGE_BYTES];

	wait_status_text(p->wait_status, status, sizeof status);
	snprintf(message, sizeof message, "Process %d ended: %s%s", (int)p->pid, status, p->timed_out ? ", at its timeout" : "");
	note(t, WIFEXITED(p->wait_status) && !p->timed_out ? "info" : "warn", p, NULL, message);
}

void note_start_command(struct procs *t, int wait_status)
{
	char status[80], message[MESSAGE_BYTES];

	wait_status_text(wait_status, status, sizeof status);
	snprintf(message, sizeof message, "The start command ended: %s", status);
	journal_add(t->journal, "warn", message, NULL);
}
