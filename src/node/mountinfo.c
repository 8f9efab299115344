#include "config.h"

#include "mountinfo.h"

#include <string.h>

static bool octal(char c)
{
	return c >= '0' && c <= '7';
}

/* One field up to a space into out, "\040" undone. The place behind it, or NULL. */
static const char *field(const char *p, char *out, size_t max)
{
	size_t n = 0;

	if (*p == '\0' || *p == '\n')
		return NULL;
	while (*p != '\0' && *p != ' ' && *p != '\n') {
		char c = *p++;

		if (c == '\\' && octal(p[0]) && octal(p[1]) && octal(p[2])) {
			c = (char)((p[0] - '0') * 64 + (p[1] - '0') * 8 + (p[2] - '0'));
			p += 3;
		}
		if (n + 1 < max)
			out[n++] = c;
	}
	out[n] = '\0';
	return *p == ' ' ? p + 1 : p;
}

int mountinfo_line(const char *line, struct mount_line *out)
{
	char skip[PATH_MAX];
	const char *p = line;

	for (int i = 0; i < 3; i++)          /* mount id, parent id, device */
		if ((p = field(p, skip, sizeof skip)) == NULL)
			return -1;
	p = field(p, out->root, sizeof out->root);
	if (p == NULL || (p = field(p, out->point, sizeof out->point)) == NULL)
		return -1;
	do {                                 /* mount options, then any number of tags up to "-" */
		p = field(p, skip, sizeof skip);
	} while (p != NULL && strcmp(skip, "-") != 0);
	if (p == NULL || (p = field(p, out->fstype, sizeof out->fstype)) == NULL)
		return -1;
	p = field(p, skip, sizeof skip);
	if (p == NULL || field(p, out->super, sizeof out->super) == NULL)
		return -1;
	return out->root[0] == '/' && out->point[0] == '/' ? 0 : -1;
}

bool mountinfo_has(const char *options, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = options; *p != '\0';) {
		size_t len = strcspn(p, ",");

		if (len == n && memcmp(p, word, n) == 0)
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}
