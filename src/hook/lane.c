/* Lanes: what is under way to each webhook. */
#include "hook_int.h"

#include <stdlib.h>
#include <string.h>

static struct lane **bucket(struct hook_sender *s, const char *webhook)
{
	unsigned h = 5381;

	for (; *webhook != '\0'; webhook++)
		h = h * 33 + (unsigned char)*webhook;
	return &s->lane[h % LANE_BUCKETS];
}

static struct lane *lane_find(struct hook_sender *s, const char *webhook)
{
	struct lane *l = *bucket(s, webhook);

	while (l != NULL && strcmp(l->webhook, webhook) != 0)
		l = l->next;
	return l;
}

struct lane *lane_get(struct hook_sender *s, const char *webhook, const char *team)
{
	struct lane *l = lane_find(s, webhook), **at = bucket(s, webhook);

	if (l != NULL)
		return l;
	l = calloc(1, sizeof *l);
	if (l == NULL)
		return NULL;
	memcpy(l->webhook, webhook, sizeof l->webhook);
	memcpy(l->team, team, sizeof l->team);
	l->next = *at;
	*at = l;
	return l;
}

bool lane_has(const struct lane *l, const struct outbox_rec *r)
{
	for (const struct attempt *a = l != NULL ? l->active : NULL; a != NULL; a = a->next)
		if (a->s.out.next_us == r->next_us && a->s.out.seq == r->seq)
			return true;
	return false;
}

void lane_add(struct lane *l, struct attempt *a)
{
	a->lane = l;
	a->next = l->active;
	l->active = a;
	l->count++;
}

void lane_remove(struct lane *l, struct attempt *a)
{
	struct attempt **at = &l->active;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	l->count--;
}

static int team_count(const struct hook_sender *s, const char *team)
{
	int n = 0;

	for (int i = 0; i < LANE_BUCKETS; i++)
		for (const struct lane *l = s->lane[i]; l != NULL; l = l->next)
			if (l->count > 0 && strcmp(l->team, team) == 0)
				n += l->count;
	return n;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

int lane_room(const struct hook_sender *s, const struct lane *l)
{
	int room = least((l->failing ? LANE_FAILING : LANE_MAX) - l->count, TOTAL_MAX - s->total);

	return room > 0 ? least(room, TEAM_MAX - team_count(s, l->team)) : room;
}

void lane_put(struct hook_sender *s, struct lane *l)
{
	struct lane **at = bucket(s, l->webhook);

	if (l->count > 0 || l->failing)
		return;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	free(l);
}

void lanes_free(struct hook_sender *s)
{
	for (int i = 0; i < LANE_BUCKETS; i++) {
		while (s->lane[i] != NULL) {
			struct lane *l = s->lane[i];

			s->lane[i] = l->next;
			free(l);
		}
	}
}
