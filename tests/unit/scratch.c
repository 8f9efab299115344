#include "config.h"

#include "scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void scratch_make(char dir[64])
{
	const char *tmp = getenv("TMPDIR");

	if (tmp == NULL || strlen(tmp) > 40)
		tmp = "/tmp";
	snprintf(dir, 64, "%s/hutch-test-XXXXXX", tmp);
	if (mkdtemp(dir) == NULL) {
		perror(dir);
		exit(99);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

void scratch_remove(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* splitmix64 */
uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

/* n characters of [a-z0-9]; a text of any length up to n when `up_to`. */
static void random_name(struct rng *r, char *out, size_t n, int up_to)
{
	if (up_to)
		n = rng_below(r, n + 1);
	for (size_t i = 0; i < n; i++)
		out[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rng_below(r, 36)];
	out[n] = '\0';
}

char *random_text(struct rng *r, size_t max)
{
	size_t n = rng_below(r, max + 1);
	char *s;

	if (rng_below(r, 4) == 0)
		return NULL;
	s = malloc(n + 1);
	for (size_t i = 0; i < n; i++)
		s[i] = (char)(1 + rng_below(r, 255));
	s[n] = '\0';
	return s;
}

void random_team(struct rng *r, struct team_rec *out)
{
	memset(out, 0, sizeof *out);
	random_name(r, out->id, UUID_LEN - 1, 0);
	random_name(r, out->name, NAME_MAX_LEN - 1, 1);
	random_name(r, out->slug, NAME_MAX_LEN - 1, 1);
	out->max_sandboxes = (uint32_t)rng_next(r);
	out->max_hours = (uint32_t)rng_next(r);
	out->created_us = (int64_t)rng_next(r);
}

void random_template(struct rng *r, struct template_rec *out)
{
	memset(out, 0, sizeof *out);
	random_name(r, out->id, TEMPLATE_ID_LEN - 1, 0);
	random_name(r, out->team, UUID_LEN - 1, 0);
	random_name(r, out->alias, NAME_MAX_LEN - 1, 1);
	random_name(r, out->build_id, UUID_LEN - 1, 1);
	random_name(r, out->envd_version, 15, 1);
	out->image = random_text(r, 100);
	if (out->image == NULL)
		out->image = strdup("host");
	out->command = random_text(r, 100);
	out->cpu_count = (uint32_t)rng_next(r);
	out->memory_mb = (uint32_t)rng_next(r);
	out->disk_mb = (uint32_t)rng_next(r);
	out->ready_port = (uint32_t)rng_next(r);
	out->is_public = rng_below(r, 2) == 1;
	out->created_us = (int64_t)rng_next(r);
	out->updated_us = (int64_t)rng_next(r);
	out->spawned_us = (int64_t)rng_next(r);
	out->spawn_count = rng_next(r);
}

void random_sandbox(struct rng *r, struct sandbox_rec *out)
{
	memset(out, 0, sizeof *out);
	random_name(r, out->id, SANDBOX_ID_LEN - 1, 0);
	random_name(r, out->team, UUID_LEN - 1, 0);
	random_name(r, out->template_id, TEMPLATE_ID_LEN - 1, 1);
	random_name(r, out->alias, NAME_MAX_LEN - 1, 1);
	random_name(r, out->build_id, UUID_LEN - 1, 1);
	random_name(r, out->execution_id, UUID_LEN - 1, 1);
	random_name(r, out->machine, MACHINE_ID_LEN - 1, 1);
	random_name(r, out->envd_version, 15, 1);
	out->state = (uint8_t)(SB_STARTING + rng_below(r, SB_KILLING));
	out->handed = rng_below(r, 2) == 1;
	out->secure = rng_below(r, 2) == 1;
	out->auto_pause = rng_below(r, 2) == 1;
	out->auto_pause_memory = rng_below(r, 2) == 1;
	out->auto_resume = rng_below(r, 2) == 1;
	out->memory = rng_below(r, 2) == 1;
	out->resume_s = (uint32_t)rng_below(r, 100000);
	out->allow_internet = rng_below(r, 2) == 1;
	out->allow_internet_set = rng_below(r, 2) == 1;
	out->cpu_count = (uint32_t)rng_next(r);
	out->memory_mb = (uint32_t)rng_next(r);
	out->disk_mb = (uint32_t)rng_next(r);
	out->created_us = (int64_t)rng_next(r);
	out->started_us = (int64_t)(rng_next(r) >> 1);
	out->end_us = (int64_t)(rng_next(r) >> 1);
	out->due_us = (int64_t)(rng_next(r) >> 1);
	out->metadata = random_text(r, 200);
	out->closed_traffic = rng_below(r, 2) == 1;
	out->net_due_us = (int64_t)(rng_next(r) >> 1);
	out->mask_host = random_text(r, 50);
	out->allow_out = random_text(r, 100);
	out->deny_out = random_text(r, 100);
}
