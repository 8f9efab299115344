/* EntryInfo as JSON (guest.md 5.2). */
#include "config.h"

#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Text of the mode in Go's os.FileMode form: letters of the kind, then the nine permission letters. */
static void permissions_text(mode_t m, char out[16])
{
	static const char rwx[] = "rwxrwxrwx";
	char *p = out;

	if (S_ISDIR(m))
		*p++ = 'd';
	if (S_ISLNK(m))
		*p++ = 'L';
	if (S_ISBLK(m) || S_ISCHR(m))
		*p++ = 'D';
	if (S_ISFIFO(m))
		*p++ = 'p';
	if (S_ISSOCK(m))
		*p++ = 'S';
	if (m & S_ISUID)
		*p++ = 'u';
	if (m & S_ISGID)
		*p++ = 'g';
	if (S_ISCHR(m))
		*p++ = 'c';
	if (m & S_ISVTX)
		*p++ = 't';
	if (p == out)
		*p++ = '-';
	for (int i = 0; i < 9; i++)
		*p++ = m & (0400 >> i) ? rwx[i] : '-';
	*p = '\0';
}

/* protobuf's JSON form of Timestamp: UTC, 0, 3, 6 or 9 fraction digits, years 1 to 9999. Others are left out. */
static void time_member(struct jw *w, const char *key, const struct timespec *ts)
{
	char text[48];
	struct tm tm;
	time_t s = ts->tv_sec;
	long ns = ts->tv_nsec;

	if (s < -62135596800LL || s > 253402300799LL || gmtime_r(&s, &tm) == NULL)
		return;
	int n = snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
			 tm.tm_hour, tm.tm_min, tm.tm_sec);

	if (ns % 1000000 == 0 && ns != 0)
		n += snprintf(text + n, sizeof text - (size_t)n, ".%03ld", ns / 1000000);
	else if (ns % 1000 == 0 && ns != 0)
		n += snprintf(text + n, sizeof text - (size_t)n, ".%06ld", ns / 1000);
	else if (ns != 0)
		n += snprintf(text + n, sizeof text - (size_t)n, ".%09ld", ns);
	snprintf(text + n, sizeof text - (size_t)n, "Z");
	jw_kstr(w, key, text);
}

static void link_target(struct jw *w, const char *path)
{
	char *target = realpath(path, NULL);

	jw_kstr(w, "symlinkTarget", target != NULL ? target : path);
	free(target);
}

void entry_members(struct jw *w, const char *path, const struct stat *st, struct names *c)
{
	bool link = S_ISLNK(st->st_mode);
	char text[256];
	struct stat target = *st;
	const char *base;
	size_t n;

	if (link && stat(path, &target) < 0)
		target.st_mode = 0;
	base = path_base(path, &n);
	jw_key(w, "name");
	jw_strn(w, base, n);
	if (S_ISREG(target.st_mode) || S_ISDIR(target.st_mode))
		jw_kstr(w, "type", S_ISREG(target.st_mode) ? "FILE_TYPE_FILE" : "FILE_TYPE_DIRECTORY");
	jw_kstr(w, "path", path);
	snprintf(text, sizeof text, "%lld", (long long)st->st_size);
	jw_kstr(w, "size", text);       /* int64 is a string in protobuf's JSON */
	jw_kint(w, "mode", target.st_mode & 0777);
	permissions_text(st->st_mode, text);
	jw_kstr(w, "permissions", text);
	names_user(c, st->st_uid, text, sizeof text);
	jw_kstr(w, "owner", text);
	names_group(c, st->st_gid, text, sizeof text);
	jw_kstr(w, "group", text);
	time_member(w, "modifiedTime", &st->st_mtim);
	if (link)
		link_target(w, path);
	if (S_ISREG(target.st_mode) || S_ISDIR(target.st_mode))
		metadata_member(w, path);       /* other kinds cannot have user.* attributes (xattr(7)) */
}
