/* /etc/passwd and /etc/group (passwd(5), group(5)) read by us: a static program has no NSS. */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MAX (4 << 20)  /* what follows in a longer file is not seen */

/* The file's text with a NUL after it, or NULL. The file is the sandbox's: it may be a fifo, or endless. */
char *names_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	struct buf b;

	if (fd < 0)
		return NULL;
	buf_init(&b, TABLE_MAX);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		char *room;
		ssize_t n = 0;

		while ((room = buf_room(&b, 4096)) != NULL && (n = read(fd, room, 4096)) > 0)
			b.len += (size_t)n;
		b.failed = false;       /* too long: what was read counts */
	}
	close(fd);
	return buf_take(&b);
}

/* Cut the next line off *text (the newline becomes a NUL) and split it at ':' into at most max fields. 0 at the end. */
size_t names_line(char **text, char **fields, size_t max)
{
	char *line = *text, *end;
	size_t n = 0;

	if (line == NULL || *line == '\0')
		return 0;
	end = strchr(line, '\n');
	*text = end != NULL ? end + 1 : line + strlen(line);
	if (end != NULL)
		*end = '\0';
	while (n < max) {
		fields[n++] = line;
		line = strchr(line, ':');
		if (line == NULL || n == max)
			break;
		*line++ = '\0';
	}
	return n;
}

/* A decimal id; -1 if it is anything else. */
int names_id(const char *s, unsigned *id)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return -1;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*end != '\0' || errno != 0 || v >= UINT32_MAX)
		return -1;
	*id = (unsigned)v;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct name_row *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;      /* the first line wins */
}

static void table_load(struct name_table *t, const char *path)
{
	char *rest, *f[4];
	size_t cap = 0, n;

	t->loaded = true;
	t->text = rest = names_read(path);
	while ((n = names_line(&rest, f, 4)) != 0) {
		struct name_row row = { .name = f[0] };

		if (n < 3 || f[0][0] == '\0' || names_id(f[2], &row.id) < 0)
			continue;
		if (t->n == cap) {
			struct name_row *more = realloc(t->rows, (cap * 2 + 64) * sizeof *more);

			if (more == NULL)
				break;
			t->rows = more;
			cap = cap * 2 + 64;
		}
		t->rows[t->n++] = row;
	}
	if (t->n != 0)
		qsort(t->rows, t->n, sizeof *t->rows, by_id);
}

static void table_get(struct name_table *t, const char *path, unsigned id, char *out, size_t max)
{
	size_t lo = 0, hi;

	if (!t->loaded)
		table_load(t, path);
	hi = t->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (t->rows[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < t->n && t->rows[lo].id == id)
		snprintf(out, max, "%s", t->rows[lo].name);
	else
		snprintf(out, max, "%u", id);
}

void names_user(struct names *c, uid_t uid, char *out, size_t max)
{
	table_get(&c->users, "/etc/passwd", uid, out, max);
}

void names_group(struct names *c, gid_t gid, char *out, size_t max)
{
	table_get(&c->groups, "/etc/group", gid, out, max);
}

void names_release(struct names *c)
{
	free(c->users.text);
	free(c->users.rows);
	free(c->groups.text);
	free(c->groups.rows);
	*c = (struct names){ 0 };
}
