/*
 * fuzz_front.c - from the environment of a CGI program or the parameters of FastCGI to the bytes of the reply. Input: lines NAME=VALUE, an
 * empty line, the body. The first byte says whether the body ends by itself.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) { fprintf(stderr, "demanded: %s\n", #x); abort(); } } while (0)
#define BODY_KB 1
#define VARIABLES 64

static struct { const char *name[VARIABLES], *value[VARIABLES]; size_t n; } env;
static struct { const char *p; size_t n; } input;

static const char *variable(const struct call *c, const char *name)
{
	(void)c;
	for (size_t i = 0; i < env.n; i++)
		if (strcmp(env.name[i], name) == 0)
			return env.value[i];
	return NULL;
}

static ssize_t read_body(struct call *c, void *p, size_t n)
{
	size_t some = n < input.n ? n : input.n;

	(void)c;
	some = some > 7 ? some / 2 : some;
	if (some > 0)
		memcpy(p, input.p, some);
	input.p += some;
	input.n -= some;
	return (ssize_t)some;
}

/* Everything that a handler may look at, said again. */
static int echo(struct call *c, struct err *e)
{
	char value[64];
	int64_t number = 0;
	struct jw w;

	if (call_query(c, "q", value, sizeof value, e) < 0 || call_query_int(c, "n", -5, 5, &number, e) < 0)
		return -1;
	DEMAND(number >= -5 && number <= 5 && c->body.len <= BODY_KB << 10 && strlen(c->param[0]) < CALL_PARAM_LEN);
	c->status = 200;
	call_header(c, "X-Next-Token", c->param[0]);
	jw_init(&w, &c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "id", c->param[0]);
	jw_kint(&w, "body", (int64_t)c->body.len);
	jw_close(&w, '}');
	return 0;
}

static const struct route table[] = {
	{ "GET",    "/things/:id",      AUTH_OPEN, echo, IN_BOTH },
	{ "POST",   "/things/:id/part", AUTH_OPEN, echo, IN_BOTH },
	{ "DELETE", "/things",          AUTH_OPEN, echo, IN_FULL },
};

/* A status line, fields of one line each, an empty line; and a length that is right. */
static void judge_head(const struct call *c, struct buf *head)
{
	size_t fields = 0, length = 0;
	const char *p = buf_str(head), *end;

	DEMAND(!buf_failed(head) && strlen(p) == head->len && strncmp(p, "Status: ", 8) == 0);
	for (; (end = strstr(p, "\r\n")) != NULL && end != p; p = end + 2) {
		const char *colon = memchr(p, ':', (size_t)(end - p));

		DEMAND(colon != NULL && colon[1] == ' ' && (size_t)(colon - p) == strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"));
		for (const char *v = colon; v < end; v++)
			DEMAND((unsigned char)*v >= 0x20);
		if (strncmp(p, "Content-Length: ", 16) == 0)
			length = strtoul(p + 16, NULL, 10) + 1;
		fields++;
	}
	DEMAND(end == p && strcmp(p, "\r\n") == 0 && fields >= 1);
	DEMAND(c->status == 204 || length == c->out.len + 1);
}

static void judge(const struct call *c)
{
	json_object *o = NULL;
	struct err e;

	DEMAND(c->status >= 200 && c->status <= 503 && c->status != 500);
	if (c->out.len > 0)
		DEMAND(json_read(buf_str(&c->out), c->out.len, &o, &e) == 0);
	json_object_put(o);
}

static void take_environment(char *text, size_t n)
{
	char *p = text, *line;

	env.n = 0;
	while ((line = strsep(&p, "\n")) != NULL && line[0] != '\0') {
		char *eq = strchr(line, '=');

		if (eq == NULL || env.n == VARIABLES)
			continue;
		*eq = '\0';
		env.name[env.n] = line;
		env.value[env.n++] = eq + 1;
	}
	input.p = p != NULL ? p : text + n;
	input.n = (size_t)(text + n - input.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char path[URI_MAX];
	struct config conf = { .body_max_kb = BODY_KB, .profile = (char[]){ "full" } };
	struct front f = { .name = "fuzz", .table = table, .rows = sizeof table / sizeof table[0], .open = true, .domain.conf = &conf };
	struct buf head;
	struct call c;
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size);
	DEMAND(text != NULL);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	f.body_ends = data[0] % 2 == 0;
	take_environment(text, size - 1);
	buf_init(&head, 32768);
	call_init(&c, BODY_KB << 10);
	c.header = variable;
	front_serve(&f, &c, path, read_body);
	front_head(&c, &head);
	judge_head(&c, &head);
	judge(&c);
	DEMAND(!front_has_body(&c) || c.out.len > 0);
	call_release(&c);
	buf_release(&head);
	free(text);
	return 0;
}
