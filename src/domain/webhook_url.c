/* Where a webhook may point. The address is judged by what it is parsed to, by the library that will use it. */
#include "domain_int.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "hutch/address.h"

/* One part of the URL, NULL when it has none; the caller curl_free()s it. */
static char *part(CURLU *u, CURLUPart what)
{
	char *text = NULL;

	return curl_url_get(u, what, &text, 0) == CURLUE_OK ? text : NULL;
}

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcasecmp(s + n - m, end) == 0;
}

/* The host by itself names this machine or a private address. Names that need a resolver are judged at each delivery. */
static bool host_is_private(char *host)
{
	size_t n = strlen(host);

	if (n > 0 && host[n - 1] == '.')
		host[--n] = '\0';
	if (n > 2 && host[0] == '[') {
		host[n - 1] = '\0';
		host[strcspn(host, "%")] = '\0';
		return address_text_public(host + 1) != 1;
	}
	if (strcasecmp(host, "localhost") == 0 || ends_in(host, ".localhost") || ends_in(host, ".internal") || ends_in(host, ".local"))
		return true;
	return address_text_public(host) == 0;
}

static int check_parts(CURLU *u, bool allow_private, struct err *e)
{
	char *scheme = part(u, CURLUPART_SCHEME), *host = part(u, CURLUPART_HOST), *user = part(u, CURLUPART_USER);
	int status = 0;

	if (scheme == NULL || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		status = err_set(e, ERR_INVALID, "url must begin with http:// or https://");
	else if (host == NULL || host[0] == '\0')
		status = err_set(e, ERR_INVALID, "url must name a host");
	else if (user != NULL)
		status = err_set(e, ERR_INVALID, "url must not hold a user name or password");
	else if (!allow_private && host_is_private(host))
		status = err_set(e, ERR_INVALID, "url must not point to this machine or into a private network");
	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	return status;
}

int webhook_url_check(const char *url, bool allow_private, struct err *e)
{
	size_t n = strlen(url);
	CURLU *u;
	int status;

	if (n > WEBHOOK_URL_MAX)
		return err_set(e, ERR_INVALID, "url is longer than %d bytes", WEBHOOK_URL_MAX);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)url[i] <= ' ' || (unsigned char)url[i] >= 0x7f)
			return err_set(e, ERR_INVALID, "url holds a character that must be percent-encoded");
	if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
		return err_set(e, ERR_INVALID, "url must begin with http:// or https://");
	u = curl_url();
	if (u == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK)
		status = err_set(e, ERR_INVALID, "url is malformed");
	else
		status = check_parts(u, allow_private, e);
	curl_url_cleanup(u);
	return status;
}
