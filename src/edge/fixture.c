#include "config.h"

#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fixture_release(struct fixture_uses *u)
{
	for (size_t i = 0; i < FIXTURE_POOLS; i++)
		free(u->pool[i].used);
	memset(u, 0, sizeof *u);
}

/* The counters of the pool as it is enrolled now. NULL: out of memory. */
static struct fixture_pool *counters(struct fixture_uses *u, const struct pool_rec *p, size_t n)
{
	struct fixture_pool *f = &u->pool[0];

	for (size_t i = 0; i < FIXTURE_POOLS; i++) {
		struct fixture_pool *x = &u->pool[i];

		if (strcmp(x->name, p->name) == 0) {
			f = x;
			break;
		}
		if (x->asked < f->asked)
			f = x;
	}
	if (strcmp(f->name, p->name) != 0 || f->updated_us != p->updated_us || f->n != n) {
		free(f->used);
		*f = (struct fixture_pool){ .updated_us = p->updated_us, .n = n, .used = calloc(n + 1, sizeof *f->used) };
		if (f->used == NULL)
			return NULL;
		snprintf(f->name, sizeof f->name, "%s", p->name);
	}
	f->asked = ++u->asked;
	return f;
}

static bool matches(json_object *reply, int port, const char *method, const char *target)
{
	const char *path = "", *want = "";
	int64_t of_port = 0;
	struct err e;
	size_t n;

	json_get_int(reply, "port", 1, 65535, &of_port, &e);
	json_get_str(reply, "method", 64, &want, &e);
	json_get_str(reply, "path", 8192, &path, &e);
	n = strchr(path, '?') != NULL ? strlen(target) : strcspn(target, "?");
	return of_port == port && strcmp(want, method) == 0 && strlen(path) == n && strncmp(path, target, n) == 0;
}

static bool used_up(json_object *reply, uint32_t used)
{
	int64_t times = 0;
	struct err e;

	return json_get_int(reply, "times", 1, INT32_MAX, &times, &e) == 1 && used >= (uint64_t)times;
}

int fixture_find(struct fixture_uses *u, const struct pool_rec *p, json_object *config, int port, const char *method,
		 const char *target, json_object **reply, struct err *e)
{
	json_object *list = NULL;
	struct fixture_pool *f;
	size_t n;

	if (json_get_arr(config, "replies", &list, e) != 1)
		return 0;
	n = json_object_array_length(list);
	f = counters(u, p, n);
	if (f == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < n; i++) {
		*reply = json_object_array_get_idx(list, i);
		if (!matches(*reply, port, method, target) || used_up(*reply, f->used[i]))
			continue;
		f->used[i] += f->used[i] < UINT32_MAX;
		return 1;
	}
	return 0;
}
