#include "keywatch.h"

#include "hutch/log.h"

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void keywatch_look(struct keywatch *k, struct domain *d, bool in_any_case)
{
	const char *path = d->conf->key_file;
	struct stat st = { 0 };
	int added, ended;
	struct err e;

	if (path[0] == '\0')
		return;
	/* a file that is away for a moment, while an editor replaces it, ends no keys */
	if (stat(path, &st) < 0)
		st = (struct stat){ 0 };
	if (!in_any_case && same(&st, &k->was))
		return;
	k->was = st;
	if (key_file_import(d, path, true, &added, &ended, &e) < 0)
		log_error("keys stay as they are: %s", e.text);
	else
		log_info("key file: %d keys are new, %d ended", added, ended);
}
