/* One attempt: the request, and what became of it. */
#include "config.h"

#include "hook_int.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hutch/address.h"
#include "hutch/crypto.h"
#include "hutch/when.h"

#define BODY_MAX (16 << 20)
#define CONNECT_MS 5000L

struct attempt *attempt_new(struct hook_sender *s, const struct outbox_rec *r, const struct webhook_rec *hook)
{
	struct attempt *a = calloc(1, sizeof *a);
	struct delivery_rec *rec;

	if (a == NULL)
		return NULL;
	a->sender = s;
	a->s.out = *r;
	a->began_us = boot_us();
	buf_init(&a->body, BODY_MAX);
	buf_init(&a->answer, ANSWER_KEEP);
	rec = &a->s.rec;
	random_uuid(rec->id);
	memcpy(rec->team, r->team, sizeof rec->team);
	memcpy(rec->webhook, r->webhook, sizeof rec->webhook);
	memcpy(rec->sandbox, r->sandbox, sizeof rec->sandbox);
	rec->type = r->type;
	rec->attempt = r->attempts + 1;
	rec->url = hook != NULL ? strdup(hook->url) : NULL;
	return a;
}

void attempt_free(struct attempt *a)
{
	curl_easy_cleanup(a->easy);
	curl_slist_free_all(a->headers);
	buf_release(&a->body);
	buf_release(&a->answer);
	delivery_rec_release(&a->s.rec);
	free(a);
}

/* The beginning of the answer is kept; what is more than anybody should answer is not read. */
static size_t on_answer(char *p, size_t size, size_t n, void *ctx)
{
	struct attempt *a = ctx;
	size_t room = ANSWER_KEEP - a->answer.len, take;

	n *= size;
	take = n < room ? n : room;
	for (size_t i = 0; i < take; i++)            /* one line of plain text, whatever it was */
		buf_addc(&a->answer, isprint((unsigned char)p[i]) ? p[i] : '.');
	a->answered += n;
	return a->answered > ANSWER_MAX ? 0 : n;
}

/* The address is judged here, after the name was resolved and as it will be used: a name that changes its mind gains nothing. */
static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct attempt *a = ctx;

	(void)purpose;
	if (!a->sender->d->conf->webhook_private && !address_public(&to->addr)) {
		a->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static int add_header(struct attempt *a, const char *name, const char *value)
{
	struct curl_slist *more;
	char line[256];

	snprintf(line, sizeof line, "%s: %s", name, value);
	more = curl_slist_append(a->headers, line);
	if (more == NULL)
		return -1;
	a->headers = more;
	return 0;
}

static int add_headers(struct attempt *a, const struct webhook_rec *hook)
{
	if (add_header(a, "Content-Type", "application/json") < 0 || add_header(a, "e2b-webhook-id", hook->id) < 0 ||
	    add_header(a, "e2b-delivery-id", a->s.rec.id) < 0 || add_header(a, "e2b-signature-version", "v1") < 0 ||
	    add_header(a, "e2b-signature", a->signature) < 0)
		return -1;
	a->headers = curl_slist_append(a->headers, "Expect:");       /* no 100-continue round trip */
	return a->headers != NULL ? 0 : -1;
}

static void set_options(struct attempt *a, const char *url)
{
	CURL *c = a->easy;

	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");              /* whatever the environment says */
	curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);         /* a resolver that hangs keeps nobody waiting */
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)a->sender->d->conf->webhook_timeout_s * 1000);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "hutch/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, a->headers);
	curl_easy_setopt(c, CURLOPT_POST, 1L);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)a->body.len);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, a->body.p);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, a);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->why);
	curl_easy_setopt(c, CURLOPT_PRIVATE, a);
}

int attempt_body(struct attempt *a, const char *json, size_t n)
{
	struct err e;

	return webhook_body(json, n, &a->body, a->s.rec.event, &e);
}

int attempt_sign(struct attempt *a, const struct webhook_rec *hook)
{
	struct buf secret;
	struct err e;
	int status;

	buf_init(&secret, WEBHOOK_SECRET_MAX);
	status = webhook_secret(a->sender->d, hook, &secret, &e);
	if (status == 0)
		webhook_sign(buf_str(&secret), buf_str(&a->body), a->body.len, a->signature);
	if (secret.p != NULL)
		explicit_bzero(secret.p, secret.len);
	buf_release(&secret);
	return status;
}

int attempt_begin(struct attempt *a, const struct webhook_rec *hook)
{
	a->easy = curl_easy_init();
	if (a->easy == NULL || add_headers(a, hook) < 0)
		return -1;
	set_options(a, hook->url);
	return 0;
}

static void end(struct attempt *a, uint8_t state, const char *why)
{
	struct delivery_rec *rec = &a->s.rec;

	rec->us = domain_real_now(a->sender->d);
	rec->duration_ms = (uint32_t)((boot_us() - a->began_us) / US_PER_MS);
	rec->state = state;
	rec->error = why != NULL ? strdup(why) : NULL;
	rec->answer = a->answer.len > 0 ? strdup(buf_str(&a->answer)) : NULL;
}

void attempt_drop(struct attempt *a, const char *why)
{
	end(a, DELIVERY_DROPPED, why);
}

/* A final status of 2xx is an acknowledgement, whatever happens to the rest of the answer. */
void attempt_ended(struct attempt *a, CURLcode rc)
{
	char text[64];
	long status = 0;

	curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
	a->s.rec.status = (uint32_t)status;
	if (status >= 200 && status < 300) {
		end(a, DELIVERY_DONE, NULL);
	} else if (a->refused) {
		end(a, DELIVERY_RETRY, "the address is private (option webhook_private)");
	} else if (status >= 200) {
		snprintf(text, sizeof text, "answered %ld", status);
		end(a, DELIVERY_RETRY, text);
	} else {
		end(a, DELIVERY_RETRY, a->why[0] != '\0' ? a->why : curl_easy_strerror(rc));
	}
}
