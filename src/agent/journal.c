/* The journal: a ring of lines. */
#include "config.h"

#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hutch/when.h"

#define LINE_BYTES 2048
#define ANSWER_BYTES (100 << 10)      /* a send that does not wait must take it */
#define PATH_BYTES 200

void journal_init(struct journal *j)
{
	*j = (struct journal){ .n = 0 };
	pthread_mutex_init(&j->lock, NULL);
}

void journal_release(struct journal *j)
{
	for (size_t i = 0; i < JOURNAL_LINES; i++)
		free(j->line[i]);
	pthread_mutex_destroy(&j->lock);
}

static char *line_text(int64_t us, const char *level, const char *message, const struct journal_field *fields)
{
	struct buf b;
	struct jw w;
	char *text;

	buf_init(&b, LINE_BYTES);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "us", us);
	jw_kstr(&w, "level", level);
	jw_kstr(&w, "message", message);
	jw_key(&w, "fields");
	jw_open(&w, '{');
	for (; fields != NULL && fields->key != NULL; fields++)
		if (fields->value != NULL)
			jw_kstr(&w, fields->key, fields->value);
	jw_close(&w, '}');
	jw_close(&w, '}');
	text = buf_take(&b);
	buf_release(&b);
	return text;
}

void journal_add(struct journal *j, const char *level, const char *message, const struct journal_field *fields)
{
	int64_t us = wall_us();
	size_t at;
	char *text;

	pthread_mutex_lock(&j->lock);
	if (j->n > 0 && us <= j->us[(j->n - 1) % JOURNAL_LINES])
		us = j->us[(j->n - 1) % JOURNAL_LINES] + 1;
	text = line_text(us, level, message, fields);
	if (text != NULL) {
		at = j->n++ % JOURNAL_LINES;
		free(j->line[at]);
		j->line[at] = text;
		j->us[at] = us;
	}
	pthread_mutex_unlock(&j->lock);
}

void journal_refused(struct journal *j, const char *why, const char *path, size_t n)
{
	char text[PATH_BYTES + 1], more[16] = "";
	int64_t now = boot_us();
	bool note;
	struct buf b;

	pthread_mutex_lock(&j->lock);
	note = j->refused_us == 0 || now - j->refused_us >= US_PER_S;
	if (note && j->refused > 0)
		snprintf(more, sizeof more, "%u", j->refused);
	j->refused = note ? 0 : j->refused + 1;
	j->refused_us = note ? now : j->refused_us;
	pthread_mutex_unlock(&j->lock);
	if (!note)
		return;
	n = n < PATH_BYTES ? n : PATH_BYTES;
	snprintf(text, sizeof text, "%.*s", (int)n, n > 0 ? path : "");
	buf_init(&b, 256);
	buf_addf(&b, "Request refused: %s", why);
	journal_add(j, "warn", buf_str(&b), (const struct journal_field[]){ { "path", text }, { "before", more[0] != '\0' ? more : NULL }, { 0 } });
	buf_release(&b);
}

void journal_write(struct journal *j, int64_t after_us, struct jw *w)
{
	size_t bytes = 0;

	jw_key(w, "lines");
	jw_open(w, '[');
	pthread_mutex_lock(&j->lock);
	for (uint64_t i = j->n > JOURNAL_LINES ? j->n - JOURNAL_LINES : 0; i < j->n; i++) {
		const char *line = j->line[i % JOURNAL_LINES];

		if (j->us[i % JOURNAL_LINES] <= after_us)
			continue;
		bytes += strlen(line) + 1;
		if (bytes > ANSWER_BYTES)
			break;
		jw_raw(w, line, strlen(line));
	}
	pthread_mutex_unlock(&j->lock);
	jw_close(w, ']');
}
