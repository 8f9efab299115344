/* HTTP to hutch-node with libcurl: one handle and one kept connection per thread. */
#include "nodehttp.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 1000L
#define POLL_MS 1000                 /* libcurl wakes earlier for its own times */
#define REPLY_MAX (32 << 20)         /* a full list of 10,000 machines is about 4 MiB */
#define REPLY_KEEP (64 << 10)        /* a larger buffer is given back after the call */

struct conn {
	struct nodehttp *h;
	CURL *easy;
	CURLM *multi;                /* drives it, so that a call can do something while it waits */
	struct buf reply;
	struct conn *next;
};

struct nodehttp {
	char *socket;
	long call_ms;
	struct curl_slist *headers;
	pthread_key_t key;
	pthread_mutex_t lock;        /* over conns */
	struct conn *conns;
};

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;

	buf_add(b, p, size * n);
	return buf_failed(b) ? 0 : size * n;
}

static void conn_free(struct conn *c)
{
	curl_easy_cleanup(c->easy);
	curl_multi_cleanup(c->multi);
	buf_release(&c->reply);
	free(c);
}

static void conn_thread_end(void *p)
{
	struct conn *c = p, **at;
	struct nodehttp *h = c->h;

	pthread_mutex_lock(&h->lock);
	for (at = &h->conns; *at != NULL && *at != c; at = &(*at)->next)
		;
	if (*at == c)
		*at = c->next;
	pthread_mutex_unlock(&h->lock);
	conn_free(c);
}

int nodehttp_open(const char *socket_path, long call_ms, struct nodehttp **out, struct err *e)
{
	struct nodehttp *h;

	if (curl_global_init(CURL_GLOBAL_NOTHING) != 0)
		return err_set(e, ERR_INTERNAL, "libcurl does not start");
	h = calloc(1, sizeof *h);
	if (h == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	h->call_ms = call_ms;
	h->socket = strdup(socket_path);
	h->headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (h->headers != NULL)
		curl_slist_append(h->headers, "Expect:");    /* no 100-continue round trip */
	if (h->socket == NULL || h->headers == NULL || pthread_key_create(&h->key, conn_thread_end) != 0) {
		curl_slist_free_all(h->headers);
		free(h->socket);
		free(h);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	pthread_mutex_init(&h->lock, NULL);
	*out = h;
	return 0;
}

void nodehttp_close(struct nodehttp *h)
{
	if (h == NULL)
		return;
	pthread_key_delete(h->key);
	while (h->conns != NULL) {
		struct conn *c = h->conns;

		h->conns = c->next;
		conn_free(c);
	}
	pthread_mutex_destroy(&h->lock);
	curl_slist_free_all(h->headers);
	free(h->socket);
	free(h);
	curl_global_cleanup();
}

static void set_up(struct conn *c)
{
	curl_easy_setopt(c->easy, CURLOPT_UNIX_SOCKET_PATH, c->h->socket);
	curl_easy_setopt(c->easy, CURLOPT_PROXY, "");        /* whatever the environment says */
	curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->h->headers);
	curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, &c->reply);
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 1L);
}

/* This thread's handle. */
static struct conn *conn_get(struct nodehttp *h, struct err *e)
{
	struct conn *c = pthread_getspecific(h->key);

	if (c != NULL)
		return c;
	c = calloc(1, sizeof *c);
	if (c != NULL) {
		c->h = h;
		buf_init(&c->reply, REPLY_MAX);
		c->easy = curl_easy_init();
		c->multi = curl_multi_init();
	}
	if (c == NULL || c->easy == NULL || c->multi == NULL || pthread_setspecific(h->key, c) != 0) {
		if (c != NULL)
			conn_free(c);
		err_set(e, ERR_INTERNAL, "out of memory");
		return NULL;
	}
	set_up(c);
	pthread_mutex_lock(&h->lock);
	c->next = h->conns;
	h->conns = c;
	pthread_mutex_unlock(&h->lock);
	return c;
}

/* The request went out only if bytes of its head did. */
static bool went_out(struct conn *c)
{
	curl_off_t up = 0;

	return curl_easy_getinfo(c->easy, CURLINFO_PRETRANSFER_TIME_T, &up) == CURLE_OK && up > 0;
}

static int failed(struct conn *c, CURLcode rc, long call_ms, bool *sent, struct err *e)
{
	*sent = rc != CURLE_COULDNT_CONNECT && went_out(c);
	if (rc == CURLE_OPERATION_TIMEDOUT && *sent)
		return err_set(e, ERR_TIMEOUT, "the machine pool did not answer within %ld ms", call_ms);
	if (!*sent)
		return err_set(e, ERR_UNAVAILABLE, "the machine pool does not answer");
	return err_set(e, ERR_UNAVAILABLE, "the machine pool broke off: %s", curl_easy_strerror(rc));
}

static CURLcode outcome(struct conn *c)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(c->multi, &left)) != NULL)
		if (m->msg == CURLMSG_DONE && m->easy_handle == c->easy)
			return m->data.result;
	return CURLE_OUT_OF_MEMORY;
}

/* curl_easy_perform, with a pause for what is to be done meanwhile. */
static CURLcode perform(struct conn *c, void (*meanwhile)(void *ctx), void *ctx)
{
	CURLMcode rc = curl_multi_add_handle(c->multi, c->easy);
	CURLcode result;
	int running = 1;

	while (rc == CURLM_OK) {
		rc = curl_multi_perform(c->multi, &running);
		if (rc != CURLM_OK || running == 0)
			break;
		if (meanwhile != NULL && went_out(c)) {
			meanwhile(ctx);
			meanwhile = NULL;
		} else {
			rc = curl_multi_poll(c->multi, NULL, 0, POLL_MS, NULL);
		}
	}
	result = rc == CURLM_OK ? outcome(c) : CURLE_OUT_OF_MEMORY;
	curl_multi_remove_handle(c->multi, c->easy);
	return result;
}

static void set_request(struct conn *c, const struct node_call *n)
{
	if (strcmp(n->method, "GET") == 0) {
		curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
		curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, NULL);
		return;
	}
	curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
	curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n->len);
	curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, n->body != NULL ? n->body : "");
	curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, strcmp(n->method, "POST") == 0 ? NULL : n->method);
}

int nodehttp_call(struct nodehttp *h, const struct node_call *n, struct node_reply *r, bool *sent, struct err *e)
{
	const long ms = n->ms > 0 ? n->ms : h->call_ms;
	struct conn *c = conn_get(h, e);
	char url[256];
	long status = 0;
	CURLcode rc;

	*sent = false;
	if (c == NULL)
		return -1;
	if (snprintf(url, sizeof url, "http://localhost%s", n->path) >= (int)sizeof url)
		return err_set(e, ERR_INVALID, "the machine's id is too long");
	if (c->reply.cap > REPLY_KEEP)
		buf_release(&c->reply);
	buf_reset(&c->reply);
	curl_easy_setopt(c->easy, CURLOPT_URL, url);
	curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, ms);
	set_request(c, n);
	rc = perform(c, n->meanwhile, n->ctx);
	if (rc != CURLE_OK)
		return failed(c, rc, ms, sent, e);
	*sent = true;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	*r = (struct node_reply){ (int)status, buf_str(&c->reply), c->reply.len };
	return 0;
}
