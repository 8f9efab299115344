/* Requests to the API and to the guest agent (Connect protocol, JSON) with libcurl. */
#include "guest.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/json.h"
#include "hutch/envd.h"

#define ANSWER_MAX (1U << 20)
#define ENVELOPE_MAX (8U << 20)
#define ENVELOPE_HEAD 5              /* flags, length */
#define END_OF_STREAM 2

/* ---- API ---- */

static size_t take_answer(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;

	buf_add(b, p, size * n);
	return buf_failed(b) ? 0 : size * n;
}

static struct curl_slist *header(struct curl_slist *list, const char *name, const char *value)
{
	char line[512];

	snprintf(line, sizeof line, "%s: %s", name, value);
	return curl_slist_append(list, line);
}

/* Message of an error answer, or the bare status. */
static int refused(const char *what, long status, const struct buf *answer, struct err *e)
{
	const char *message = "no JSON answer";
	json_object *o = NULL;
	struct err why;

	if (json_read_object(buf_str(answer), answer->len, &o, &why) == 0)
		json_get_str(o, "message", 400, &message, &why);
	err_set(e, ERR_UNAVAILABLE, "%s: %ld: %s", what, status, message);
	json_object_put(o);
	return -1;
}

/* One API request; the answer's status must be want. body may be NULL. */
static int api(const struct guest *g, const char *method, const char *path, const char *body, long want, struct buf *answer,
	       struct err *e)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *h = header(header(NULL, "X-API-Key", g->api_key), "Content-Type", "application/json");
	char url[1024], why[CURL_ERROR_SIZE] = "";
	long status = 0;
	int failed = 0;

	snprintf(url, sizeof url, "%s%s", g->api_url, path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, h);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, 90L);
	if (body != NULL)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
	if (curl_easy_perform(curl) != CURLE_OK)
		failed = err_set(e, ERR_UNAVAILABLE, "%s %s: %s", method, url, why);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(h);
	curl_easy_cleanup(curl);
	return failed == 0 && status != want ? refused(path, status, answer, e) : failed;
}

static int take_text(json_object *o, const char *key, char *out, size_t max, struct err *e)
{
	const char *s = "";

	if (json_get_str(o, key, max - 1, &s, e) < 0)
		return -1;
	snprintf(out, max, "%s", s);
	return 0;
}

int guest_create(struct guest *g, const char *template_ref, long timeout_s, struct err *e)
{
	struct buf body, answer;
	json_object *o = NULL;
	struct jw w;
	int status;

	buf_init(&body, 4096);
	buf_init(&answer, ANSWER_MAX);
	jw_init(&w, &body);
	jw_open(&w, '{');
	jw_kstr(&w, "templateID", template_ref);
	jw_kint(&w, "timeout", timeout_s);
	jw_close(&w, '}');
	status = api(g, "POST", "/v2/sandboxes", buf_str(&body), 201, &answer, e);
	if (status == 0)
		status = json_read_object(buf_str(&answer), answer.len, &o, e);
	if (status == 0 && (take_text(o, "sandboxID", g->id, sizeof g->id, e) < 0 ||
			    take_text(o, "envdAccessToken", g->token, sizeof g->token, e) < 0 ||
			    take_text(o, "domain", g->domain, sizeof g->domain, e) < 0))
		status = -1;
	json_object_put(o);
	buf_release(&body);
	buf_release(&answer);
	return status;
}

int guest_kill(const struct guest *g, struct err *e)
{
	struct buf answer;
	char path[128];
	int status;

	buf_init(&answer, ANSWER_MAX);
	snprintf(path, sizeof path, "/sandboxes/%s", g->id);
	status = api(g, "DELETE", path, NULL, 204, &answer, e);
	buf_release(&answer);
	return status;
}

/* ---- commands ---- */

struct stream {
	struct buf in;               /* what is not yet a whole envelope; the whole answer when it is no stream */
	CURL *curl;
	bool started, ended, closed; /* start event, end event, end-stream envelope */
	int exit_code;
	struct err *e;
	bool failed;
};

static int print_bytes(json_object *data, const char *key, FILE *to, struct err *e)
{
	const char *text = NULL;
	struct buf raw;
	int got = json_get_str(data, key, ENVELOPE_MAX, &text, e);

	if (got < 1)
		return got;
	buf_init(&raw, ENVELOPE_MAX);
	if (base64_decode(&raw, text, strlen(text)) < 0)
		got = err_set(e, ERR_INTERNAL, "%s is no base64", key);
	else if (raw.len > 0 && fwrite(raw.p, 1, raw.len, to) != raw.len)
		got = err_sys(e, "output");
	fflush(to);
	buf_release(&raw);
	return got < 0 ? -1 : 0;
}

static int take_event(struct stream *s, json_object *o, struct err *e)
{
	json_object *event = NULL, *start = NULL, *data = NULL, *end = NULL;
	int64_t code = 0;

	if (json_get_obj(o, "event", &event, e) < 0)
		return -1;
	if (event == NULL)
		return err_set(e, ERR_INTERNAL, "an envelope without event");
	if (json_get_obj(event, "start", &start, e) < 0 || json_get_obj(event, "data", &data, e) < 0 ||
	    json_get_obj(event, "end", &end, e) < 0)
		return -1;
	s->started = s->started || start != NULL;
	if (!s->started)
		return err_set(e, ERR_INTERNAL, "the first event is no start event");
	if (data != NULL && (print_bytes(data, "stdout", stdout, e) < 0 || print_bytes(data, "stderr", stderr, e) < 0))
		return -1;
	if (end != NULL && json_get_int(end, "exitCode", INT32_MIN, INT32_MAX, &code, e) < 0)
		return -1;
	if (end != NULL) {
		s->ended = true;
		s->exit_code = (int)code;
	}
	return 0;
}

/* The last envelope: {} or {"error": {"code", "message"}}. */
static int take_close(struct stream *s, json_object *o, struct err *e)
{
	const char *code = "unknown", *message = "";
	json_object *error = NULL;

	s->closed = true;
	if (json_get_obj(o, "error", &error, e) < 0)
		return -1;
	if (error == NULL)
		return 0;
	if (json_get_str(error, "code", 64, &code, e) < 0 || json_get_str(error, "message", 400, &message, e) < 0)
		return -1;
	return err_set(e, ERR_INTERNAL, "%s: %s", code, message);
}

static int take_envelope(struct stream *s, unsigned flags, const char *text, size_t n, struct err *e)
{
	json_object *o = NULL;
	int status = json_read_object(text, n, &o, e);

	if (status == 0 && s->closed)
		status = err_set(e, ERR_INTERNAL, "bytes after the end of the stream");
	if (status == 0)
		status = flags & END_OF_STREAM ? take_close(s, o, e) : take_event(s, o, e);
	json_object_put(o);
	return status;
}

/* Whole envelopes at the front of s->in. */
static int take_envelopes(struct stream *s)
{
	while (s->in.len >= ENVELOPE_HEAD) {
		const unsigned char *p = (const unsigned char *)s->in.p;
		size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

		if (n > ENVELOPE_MAX)
			return err_set(s->e, ERR_INTERNAL, "an envelope of %zu bytes", n);
		if (s->in.len < ENVELOPE_HEAD + n)
			return 0;
		if (take_envelope(s, p[0], s->in.p + ENVELOPE_HEAD, n, s->e) < 0)
			return -1;
		buf_cut(&s->in, ENVELOPE_HEAD + n);
	}
	return 0;
}

static size_t take_stream(char *p, size_t size, size_t n, void *ctx)
{
	struct stream *s = ctx;
	long status = 0;

	buf_add(&s->in, p, size * n);
	curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
	if (buf_failed(&s->in))
		err_set(s->e, ERR_INTERNAL, "the answer is too large");
	else if (status != 200 || take_envelopes(s) == 0)
		return size * n;
	s->failed = true;
	return 0;
}

/* One envelope with the start message. */
static void start_body(struct buf *b, const char *command)
{
	struct jw w;
	size_t n;

	buf_add(b, "\0\0\0\0\0", ENVELOPE_HEAD);
	jw_init(&w, b);
	jw_open(&w, '{');
	jw_key(&w, "process");
	jw_open(&w, '{');
	jw_kstr(&w, "cmd", "/bin/bash");
	jw_key(&w, "args");
	jw_open(&w, '[');
	jw_str(&w, "-l");
	jw_str(&w, "-c");
	jw_str(&w, command);
	jw_close(&w, ']');
	jw_close(&w, '}');
	jw_kbool(&w, "stdin", false);
	jw_close(&w, '}');
	if (buf_failed(b))
		return;
	n = b->len - ENVELOPE_HEAD;
	for (int i = 0; i < 4; i++)
		b->p[1 + i] = (char)(n >> (24 - 8 * i) & 0xff);
}

static struct curl_slist *guest_headers(const struct guest *g)
{
	char port[16];
	struct curl_slist *h = header(NULL, "Content-Type", "application/connect+json");

	snprintf(port, sizeof port, "%d", ENVD_PORT);
	h = header(h, "Connect-Protocol-Version", "1");
	h = header(h, "Keepalive-Ping-Interval", "50");
	h = header(h, "E2b-Sandbox-Id", g->id);
	h = header(h, "E2b-Sandbox-Port", port);
	if (g->token[0] != '\0')
		h = header(h, "X-Access-Token", g->token);
	return curl_slist_append(h, "Expect:");
}

static void guest_url(const struct guest *g, const char *path, char *out, size_t max)
{
	if (g->sandbox_url != NULL)
		snprintf(out, max, "%s%s", g->sandbox_url, path);
	else
		snprintf(out, max, "https://%d-%s.%s%s", ENVD_PORT, g->id, g->domain, path);
}

static int perform(const struct guest *g, struct stream *s, const struct buf *body, struct err *e)
{
	struct curl_slist *h = guest_headers(g);
	char url[1024], why[CURL_ERROR_SIZE] = "";
	long status = 0;
	CURLcode done;

	guest_url(g, "/process.Process/Start", url, sizeof url);
	curl_easy_setopt(s->curl, CURLOPT_URL, url);
	curl_easy_setopt(s->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, body->p);
	curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE, (long)body->len);
	curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, h);
	curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, take_stream);
	curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->curl, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(s->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(s->curl, CURLOPT_CONNECTTIMEOUT, 10L);
	done = curl_easy_perform(s->curl);
	curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(h);
	if (s->failed)
		return -1;
	if (done != CURLE_OK)
		return err_set(e, ERR_UNAVAILABLE, "%s: %s", url, why);
	if (status != 200)
		return refused(url, status, &s->in, e);
	return s->ended && s->closed ? 0 : err_set(e, ERR_INTERNAL, "the stream ended without its last envelope");
}

int guest_run(const struct guest *g, const char *command, struct err *e)
{
	struct stream s = { .curl = curl_easy_init(), .e = e };
	struct buf body;
	int status;

	buf_init(&body, 1U << 20);
	buf_init(&s.in, ENVELOPE_MAX + 65536);
	start_body(&body, command);
	if (s.curl == NULL || buf_failed(&body))
		status = err_set(e, ERR_INVALID, "the command is too long");
	else
		status = perform(g, &s, &body, e);
	curl_easy_cleanup(s.curl);
	buf_release(&s.in);
	buf_release(&body);
	return status < 0 ? -1 : s.exit_code & 0xff;
}
