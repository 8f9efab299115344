/* Names: template references, team slugs (api.md 4). */
#include "domain_int.h"

#include <ctype.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-_"

bool name_chars_ok(const char *s, const char *more)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++)
		if (strchr(NAME_CHARS, *s) == NULL && strchr(more, *s) == NULL)
			return false;
	return true;
}

/* s[0..n) trimmed and in lower case; false when too long or not of the characters allowed. */
static bool take_part(const char *s, size_t n, const char *more, char out[NAME_MAX_LEN])
{
	while (n > 0 && isspace((unsigned char)s[n - 1]))
		n--;
	while (n > 0 && isspace((unsigned char)*s)) {
		s++;
		n--;
	}
	if (n == 0 || n >= NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)tolower((unsigned char)s[i]);
	out[n] = '\0';
	return name_chars_ok(out, more);
}

int template_ref_parse(const char *text, struct template_ref *out, struct err *e)
{
	const char *colon = strchr(text, ':');
	size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
	const char *slash = memchr(text, '/', n), *alias = text;

	memset(out, 0, sizeof *out);
	if (slash != NULL) {
		if (!take_part(text, (size_t)(slash - text), "", out->ns))
			return err_set(e, ERR_INVALID, "Invalid template reference: the namespace of '%.128s' is not of a-z, 0-9, - and _", text);
		alias = slash + 1;
		n -= (size_t)(alias - text);
	}
	if (!take_part(alias, n, "", out->alias))
		return err_set(e, ERR_INVALID, "Invalid template reference: the name in '%.128s' is not of a-z, 0-9, - and _", text);
	if (colon == NULL)
		return 0;
	if (!take_part(colon + 1, strlen(colon + 1), ".", out->tag))
		return err_set(e, ERR_INVALID, "Invalid template reference: the tag of '%.128s' is not of a-z, 0-9, -, _ and .", text);
	if (strcmp(out->tag, "default") == 0)
		out->tag[0] = '\0';
	return 0;
}

void team_slug(const char *name, char out[NAME_MAX_LEN])
{
	size_t n = 0;

	/* room is left for a number that makes it unique */
	for (; *name != '\0' && n < NAME_MAX_LEN - 9; name++) {
		char c = (char)tolower((unsigned char)*name);

		if (strchr(NAME_CHARS, c) != NULL && c != '-')
			out[n++] = c;
		else if (n > 0 && out[n - 1] != '-')
			out[n++] = '-';
	}
	while (n > 0 && out[n - 1] == '-')
		n--;
	if (n == 0) {
		memcpy(out, "team", 4);
		n = 4;
	}
	out[n] = '\0';
}
