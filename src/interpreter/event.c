#include "config.h"

#include "event.h"

#include <string.h>

#include "hutch/json.h"
#include "hutch/when.h"

static const struct { const char *mime, *key; } formats[] = {
	{ "text/plain", "text" }, { "text/html", "html" }, { "text/markdown", "markdown" }, { "image/svg+xml", "svg" }, { "image/png", "png" },
	{ "image/jpeg", "jpeg" }, { "application/pdf", "pdf" }, { "text/latex", "latex" }, { "application/json", "json" },
	{ "application/javascript", "javascript" }, { "e2b/data", "data" }, { "e2b/chart", "chart" },
};
#define FORMATS (sizeof formats / sizeof formats[0])

static void begin(struct buf *b, const char *type)
{
	buf_addf(b, "{\"type\":\"%s\"", type);
}

static void member(struct buf *b, const char *key, struct span value)
{
	buf_addf(b, ",\"%s\":", key);
	span_ascii(b, value);
}

static void end(struct buf *b)
{
	buf_adds(b, "}\n");
}

/* A JSON string, or "" for anything else: clients need the key. */
static void text_member(struct buf *b, const char *key, struct span value)
{
	member(b, key, span_is_string(value) ? value : (struct span){ "\"\"", 2 });
}

void event_count(struct buf *b, struct span count)
{
	begin(b, "number_of_executions");
	member(b, "execution_count", span_is_null(count) ? (struct span){ "0", 1 } : count);
	end(b);
}

static void time_member(struct buf *b, struct span date)
{
	char now[WHEN_LEN + 2];

	if (!span_is_string(date)) {
		now[0] = '"';
		when_format(wall_us(), now + 1);
		strcat(now, "\"");
		date = (struct span){ now, strlen(now) };
	}
	member(b, "timestamp", date);
}

void event_stream(struct buf *b, const char *name, struct span text, struct span date)
{
	begin(b, name);
	text_member(b, "text", text);
	time_member(b, date);
	end(b);
}

static bool is_format(struct span key)
{
	for (size_t i = 0; i < FORMATS; i++)
		if (span_is(key, formats[i].mime))
			return true;
	return false;
}

/* Everything else goes whole into `extra`, by its MIME name. */
static void extra_member(struct buf *b, struct span data)
{
	struct span key, value;
	bool comma = false;
	size_t at = 0;

	buf_adds(b, ",\"extra\":{");
	while (span_next(data, &at, &key, &value)) {
		if (is_format(key) || span_is_null(value))
			continue;
		if (comma)
			buf_addc(b, ',');
		span_ascii(b, key);
		buf_addc(b, ':');
		span_ascii(b, value);
		comma = true;
	}
	buf_addc(b, '}');
}

/* A text within one pair of the same quotes loses it. A " within the string is written \". */
static struct span without_quotes(struct span s)
{
	struct span in = span_inner(s);

	if (in.p != NULL && in.n >= 2 && in.p[0] == '\'' && in.p[in.n - 1] == '\'')
		return (struct span){ in.p + 1, in.n - 2 };
	if (in.p != NULL && in.n >= 4 && memcmp(in.p, "\\\"", 2) == 0 && in.p[in.n - 1] == '"')
		return (struct span){ in.p + 2, in.n - 4 };
	return (struct span){ NULL, 0 };
}

static void text_result(struct buf *b, struct span value)
{
	struct span bare = without_quotes(value);

	if (bare.p == NULL) {
		member(b, "text", value);
		return;
	}
	buf_adds(b, ",\"text\":\"");
	span_ascii(b, bare);
	buf_addc(b, '"');
}

void event_result(struct buf *b, struct span data, bool main_result)
{
	begin(b, "result");
	if (data.p == NULL || data.n == 0 || *data.p != '{')
		data = (struct span){ "{}", 2 };
	for (size_t i = 0; i < FORMATS; i++) {
		struct span v = span_member(data, formats[i].mime);

		if (span_is_null(v))
			continue;
		if (i == 0)
			text_result(b, v);
		else
			member(b, formats[i].key, v);
	}
	extra_member(b, data);
	buf_addf(b, ",\"is_main_result\":%s", main_result ? "true" : "false");
	end(b);
}

void event_error(struct buf *b, struct span content)
{
	struct span lines = span_member(content, "traceback"), key, line;
	size_t at = 0;

	begin(b, "error");
	text_member(b, "name", span_member(content, "ename"));
	text_member(b, "value", span_member(content, "evalue"));
	buf_adds(b, ",\"traceback\":\"");
	while (lines.p != NULL && *lines.p == '[' && span_next(lines, &at, &key, &line))
		if (span_is_string(line))
			span_ascii(b, span_inner(line));
	buf_addc(b, '"');
	end(b);
}

void event_error_text(struct buf *b, const char *name, const char *value)
{
	struct jw w;

	jw_init(&w, b);
	w.ascii = true;
	jw_open(&w, '{');
	jw_kstr(&w, "type", "error");
	jw_kstr(&w, "name", name);
	jw_kstr(&w, "value", value);
	jw_kstr(&w, "traceback", "");
	jw_close(&w, '}');
	buf_addc(b, '\n');
}

void event_note(struct buf *b, const char *text)
{
	char now[WHEN_LEN];
	struct jw w;

	when_format(wall_us(), now);
	jw_init(&w, b);
	w.ascii = true;
	jw_open(&w, '{');
	jw_kstr(&w, "type", "stderr");
	jw_kstr(&w, "text", text);
	jw_kstr(&w, "timestamp", now);
	jw_close(&w, '}');
	buf_addc(b, '\n');
}

void event_keepalive(struct buf *b)
{
	buf_adds(b, "{\"type\":\"keepalive\"}\n");
}

void event_end(struct buf *b)
{
	buf_adds(b, "{\"type\":\"end_of_execution\"}\n");
}
