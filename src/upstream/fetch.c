#include "config.h"

#include "fetch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS 5000L
#define POLL_MS 1000
#define URL_MAX 4096

struct request {
	struct fetch *f;
	CURL *easy;
	struct curl_slist *headers;
};

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct fetch *f = ctx;

	buf_add(&f->body, p, size * n);
	return buf_failed(&f->body) ? 0 : size * n;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	static const char name[] = "x-next-token:";
	const size_t len = sizeof name - 1;
	struct fetch *f = ctx;

	n *= size;
	if (n > len && strncasecmp(p, name, len) == 0)
		for (size_t i = len; i < n; i++)
			f->more |= strchr(" \t\r\n", p[i]) == NULL;
	return n;
}

static int add_header(struct request *r, const char *text)
{
	struct curl_slist *more = curl_slist_append(r->headers, text);

	if (more == NULL)
		return -1;
	r->headers = more;
	return 0;
}

static int prepare(struct request *r, const char *path, const char *key)
{
	const char *base = r->f->conf->upstream_url;
	size_t n = strlen(base);
	char url[URL_MAX], header[512];
	CURL *c = r->easy;

	while (n > 0 && base[n - 1] == '/')
		n--;
	if (snprintf(url, sizeof url, "%.*s%s", (int)n, base, path) >= (int)sizeof url ||
	    snprintf(header, sizeof header, "X-API-Key: %s", key) >= (int)sizeof header || add_header(r, header) < 0 ||
	    add_header(r, "Accept: application/json") < 0)
		return -1;
	explicit_bzero(header, sizeof header);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);     /* the key goes nowhere else */
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)r->f->conf->upstream_timeout_s * 1000);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "hutch/" PACKAGE_VERSION);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, r->headers);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, r->f);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, r->f);
	return 0;
}

/* Until it has ended or the program is to end. */
static CURLcode perform(struct request *r)
{
	CURLM *m = r->f->multi;
	CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
	int running = 1, left;
	CURLMsg *msg;

	if (curl_multi_add_handle(m, r->easy) != CURLM_OK)
		return CURLE_OUT_OF_MEMORY;
	while (running > 0 && !atomic_load(r->f->stop)) {
		curl_multi_perform(m, &running);
		if (running > 0)
			curl_multi_poll(m, NULL, 0, POLL_MS, NULL);
	}
	while ((msg = curl_multi_info_read(m, &left)) != NULL)
		if (msg->msg == CURLMSG_DONE && msg->easy_handle == r->easy)
			rc = msg->data.result;
	curl_multi_remove_handle(m, r->easy);
	return rc;
}

static int finish(struct request *r, CURLcode rc, struct err *e)
{
	curl_off_t retry = 0;

	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->f->status);
	curl_easy_getinfo(r->easy, CURLINFO_RETRY_AFTER, &retry);
	r->f->retry_s = retry > 0 && retry < 86400 ? (long)retry : retry > 0 ? 86400 : 0;
	if (rc == CURLE_OK)
		return 0;
	if (buf_failed(&r->f->body))
		return err_set(e, ERR_UNAVAILABLE, "the answer is larger than %d bytes", FETCH_BODY_MAX);
	return err_set(e, ERR_UNAVAILABLE, "%s", curl_easy_strerror(rc));    /* a text that is the same each time */
}

int fetch_get(struct fetch *f, const char *path, const char *key, struct err *e)
{
	struct request r = { .f = f, .easy = curl_easy_init() };
	int status;

	buf_reset(&f->body);
	f->more = false;
	f->status = 0;
	if (r.easy == NULL || prepare(&r, path, key) < 0)
		status = err_set(e, ERR_INTERNAL, "the request could not be made");
	else
		status = finish(&r, perform(&r), e);
	curl_easy_cleanup(r.easy);
	curl_slist_free_all(r.headers);
	return status;
}
