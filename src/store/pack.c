/* The packed form of records: a layout byte, integers, then strings with their lengths. */
#include "store_int.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUT_TEAM 2                /* 1 had no state */
#define LAYOUT_TEMPLATE 3            /* 1 had no pool, 2 no ready_port */
#define LAYOUT_SANDBOX_1 1           /* before sandboxes could be paused, and had pools */
#define LAYOUT_SANDBOX_2 2           /* before network rules */
#define LAYOUT_SANDBOX 3
#define LAYOUT_POOL 1
#define TEXT_NULL UINT32_MAX

void enc_u8(struct buf *b, uint8_t v)
{
	buf_add(b, &v, 1);
}

void enc_u32(struct buf *b, uint32_t v)
{
	uint8_t p[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

	buf_add(b, p, sizeof p);
}

void enc_u64(struct buf *b, uint64_t v)
{
	uint8_t p[8];

	be64_put(p, v);
	buf_add(b, p, sizeof p);
}

void enc_str(struct buf *b, const char *s)
{
	size_t n = strlen(s);

	if (n > 255) {
		b->failed = true;
		return;
	}
	enc_u8(b, (uint8_t)n);
	buf_add(b, s, n);
}

void enc_text(struct buf *b, const char *s)
{
	size_t n;

	if (s == NULL) {
		enc_u32(b, TEXT_NULL);
		return;
	}
	n = strlen(s);
	if (n > RECORD_MAX) {
		b->failed = true;
		return;
	}
	enc_u32(b, (uint32_t)n);
	buf_add(b, s, n);
}

/* The next n bytes, or NULL once anything was bad. */
static const uint8_t *take(struct dec *d, size_t n)
{
	const uint8_t *p = d->p;

	if (d->bad || n > d->n) {
		d->bad = true;
		return NULL;
	}
	d->p += n;
	d->n -= n;
	return p;
}

uint8_t dec_u8(struct dec *d)
{
	const uint8_t *p = take(d, 1);

	return p != NULL ? *p : 0;
}

bool dec_bool(struct dec *d)
{
	uint8_t v = dec_u8(d);

	d->bad |= v > 1;
	return v == 1;
}

uint32_t dec_u32(struct dec *d)
{
	const uint8_t *p = take(d, 4);

	return p != NULL ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3] : 0;
}

uint64_t dec_u64(struct dec *d)
{
	const uint8_t *p = take(d, 8);

	return p != NULL ? be64_get(p) : 0;
}

void dec_str(struct dec *d, char *out, size_t size)
{
	size_t n = dec_u8(d);
	const uint8_t *p = take(d, n);

	if (p == NULL || n >= size || memccpy(out, p, 0, n) != NULL) {
		d->bad = true;
		out[0] = '\0';
		return;
	}
	out[n] = '\0';
}

char *dec_text(struct dec *d)
{
	uint32_t n = dec_u32(d);
	const uint8_t *p;
	char *s;

	if (d->bad || n == TEXT_NULL)
		return NULL;
	p = take(d, n);
	if (p == NULL || memchr(p, 0, n) != NULL || (s = malloc((size_t)n + 1)) == NULL) {
		d->bad = true;
		return NULL;
	}
	memcpy(s, p, n);
	s[n] = '\0';
	return s;
}

bool dec_done(const struct dec *d)
{
	return !d->bad && d->n == 0;
}

void team_pack(struct buf *b, const struct team_rec *r)
{
	enc_u8(b, LAYOUT_TEAM);
	enc_u32(b, r->max_sandboxes);
	enc_u32(b, r->max_hours);
	enc_u64(b, (uint64_t)r->created_us);
	enc_str(b, r->id);
	enc_str(b, r->name);
	enc_str(b, r->slug);
	enc_u8(b, r->state);
	enc_str(b, r->reason);
}

int team_unpack(const void *p, size_t n, struct team_rec *r)
{
	struct dec d = { p, n, false };
	uint8_t layout = dec_u8(&d);

	memset(r, 0, sizeof *r);
	if (layout < 1 || layout > LAYOUT_TEAM)
		return -1;
	r->max_sandboxes = dec_u32(&d);
	r->max_hours = dec_u32(&d);
	r->created_us = (int64_t)dec_u64(&d);
	dec_str(&d, r->id, sizeof r->id);
	dec_str(&d, r->name, sizeof r->name);
	dec_str(&d, r->slug, sizeof r->slug);
	if (layout >= 2) {
		r->state = dec_u8(&d);
		d.bad |= r->state >= TEAM_STATES;
		dec_str(&d, r->reason, sizeof r->reason);
	}
	return dec_done(&d) ? 0 : -1;
}

void template_pack(struct buf *b, const struct template_rec *r)
{
	enc_u8(b, LAYOUT_TEMPLATE);
	enc_u8(b, r->is_public);
	enc_u32(b, r->cpu_count);
	enc_u32(b, r->memory_mb);
	enc_u32(b, r->disk_mb);
	enc_u64(b, (uint64_t)r->created_us);
	enc_u64(b, (uint64_t)r->updated_us);
	enc_u64(b, (uint64_t)r->spawned_us);
	enc_u64(b, r->spawn_count);
	enc_str(b, r->team);
	enc_str(b, r->alias);
	enc_str(b, r->build_id);
	enc_str(b, r->envd_version);
	enc_text(b, r->image);
	enc_text(b, r->command);
	enc_str(b, r->pool);
	enc_u32(b, r->ready_port);
}

/* The id is the record's key. */
static int unpack_id(char *out, size_t size, const char *id, size_t n)
{
	if (n >= size || memchr(id, 0, n) != NULL)
		return -1;
	memcpy(out, id, n);
	return 0;
}

int template_unpack(const char *id, size_t id_len, const void *p, size_t n, struct template_rec *r)
{
	struct dec d = { p, n, false };
	uint8_t layout;

	memset(r, 0, sizeof *r);
	layout = dec_u8(&d);
	if (unpack_id(r->id, sizeof r->id, id, id_len) < 0 || layout < 1 || layout > LAYOUT_TEMPLATE)
		return -1;
	r->is_public = dec_bool(&d);
	r->cpu_count = dec_u32(&d);
	r->memory_mb = dec_u32(&d);
	r->disk_mb = dec_u32(&d);
	r->created_us = (int64_t)dec_u64(&d);
	r->updated_us = (int64_t)dec_u64(&d);
	r->spawned_us = (int64_t)dec_u64(&d);
	r->spawn_count = dec_u64(&d);
	dec_str(&d, r->team, sizeof r->team);
	dec_str(&d, r->alias, sizeof r->alias);
	dec_str(&d, r->build_id, sizeof r->build_id);
	dec_str(&d, r->envd_version, sizeof r->envd_version);
	r->image = dec_text(&d);
	r->command = dec_text(&d);
	if (layout >= 2)
		dec_str(&d, r->pool, sizeof r->pool);
	if (layout >= 3)
		r->ready_port = dec_u32(&d);
	if (dec_done(&d) && r->image != NULL)
		return 0;
	template_rec_release(r);
	return -1;
}

void template_rec_release(struct template_rec *t)
{
	free(t->image);
	free(t->command);
	t->image = t->command = NULL;
}

void pool_pack(struct buf *b, const struct pool_rec *r)
{
	enc_u8(b, LAYOUT_POOL);
	enc_u8(b, r->kind);
	enc_u64(b, (uint64_t)r->created_us);
	enc_u64(b, (uint64_t)r->updated_us);
	enc_text(b, r->config);
}

int pool_unpack(const char *name, size_t name_len, const void *p, size_t n, struct pool_rec *r)
{
	struct dec d = { p, n, false };

	memset(r, 0, sizeof *r);
	if (unpack_id(r->name, sizeof r->name, name, name_len) < 0 || dec_u8(&d) != LAYOUT_POOL)
		return -1;
	r->kind = dec_u8(&d);
	d.bad |= r->kind >= POOL_KINDS;
	r->created_us = (int64_t)dec_u64(&d);
	r->updated_us = (int64_t)dec_u64(&d);
	r->config = dec_text(&d);
	if (dec_done(&d) && r->config != NULL)
		return 0;
	pool_rec_release(r);
	return -1;
}

void pool_rec_release(struct pool_rec *p)
{
	free(p->config);
	p->config = NULL;
}

void sandbox_pack(struct buf *b, const struct sandbox_rec *r)
{
	enc_u8(b, LAYOUT_SANDBOX);
	enc_u8(b, r->state);
	enc_u8(b, r->handed);
	enc_u8(b, r->secure);
	enc_u8(b, r->auto_pause);
	enc_u8(b, r->auto_pause_memory);
	enc_u8(b, r->auto_resume);
	enc_u8(b, r->memory);
	enc_u8(b, r->allow_internet);
	enc_u8(b, r->allow_internet_set);
	enc_u32(b, r->cpu_count);
	enc_u32(b, r->memory_mb);
	enc_u32(b, r->disk_mb);
	enc_u32(b, r->resume_s);
	enc_u64(b, (uint64_t)r->created_us);
	enc_u64(b, (uint64_t)r->started_us);
	enc_u64(b, (uint64_t)r->end_us);
	enc_u64(b, (uint64_t)r->due_us);
	enc_str(b, r->team);
	enc_str(b, r->template_id);
	enc_str(b, r->alias);
	enc_str(b, r->build_id);
	enc_str(b, r->execution_id);
	enc_str(b, r->machine);
	enc_str(b, r->envd_version);
	enc_text(b, r->metadata);
	enc_str(b, r->pool);
	enc_u8(b, r->pool_kind);
	enc_u8(b, r->closed_traffic);
	enc_u64(b, (uint64_t)r->net_due_us);
	enc_text(b, r->mask_host);
	enc_text(b, r->allow_out);
	enc_text(b, r->deny_out);
}

static void sandbox_unpack_network(struct dec *d, struct sandbox_rec *r)
{
	r->closed_traffic = dec_bool(d);
	r->net_due_us = (int64_t)dec_u64(d);
	r->mask_host = dec_text(d);
	r->allow_out = dec_text(d);
	r->deny_out = dec_text(d);
}

static void sandbox_unpack_strings(struct dec *d, uint8_t layout, struct sandbox_rec *r)
{
	dec_str(d, r->team, sizeof r->team);
	dec_str(d, r->template_id, sizeof r->template_id);
	dec_str(d, r->alias, sizeof r->alias);
	dec_str(d, r->build_id, sizeof r->build_id);
	dec_str(d, r->execution_id, sizeof r->execution_id);
	dec_str(d, r->machine, sizeof r->machine);
	dec_str(d, r->envd_version, sizeof r->envd_version);
	r->metadata = dec_text(d);
	if (layout != LAYOUT_SANDBOX_1) {
		dec_str(d, r->pool, sizeof r->pool);
		r->pool_kind = dec_u8(d);
		d->bad |= r->pool_kind >= POOL_KINDS;
	}
	if (layout > LAYOUT_SANDBOX_2)
		sandbox_unpack_network(d, r);
}

int sandbox_unpack(const char *id, size_t id_len, const void *p, size_t n, struct sandbox_rec *r)
{
	struct dec d = { p, n, false };
	uint8_t layout;

	memset(r, 0, sizeof *r);
	if (unpack_id(r->id, sizeof r->id, id, id_len) < 0)
		return -1;
	layout = dec_u8(&d);
	if (layout < LAYOUT_SANDBOX_1 || layout > LAYOUT_SANDBOX)
		return -1;
	r->state = dec_u8(&d);
	d.bad |= r->state < SB_STARTING || r->state > SB_KILLING;
	r->handed = dec_bool(&d);
	r->secure = dec_bool(&d);
	r->auto_pause = dec_bool(&d);
	r->auto_pause_memory = layout == LAYOUT_SANDBOX_1 || dec_bool(&d);
	r->auto_resume = layout != LAYOUT_SANDBOX_1 && dec_bool(&d);
	r->memory = layout != LAYOUT_SANDBOX_1 && dec_bool(&d);
	r->allow_internet = dec_bool(&d);
	r->allow_internet_set = dec_bool(&d);
	r->cpu_count = dec_u32(&d);
	r->memory_mb = dec_u32(&d);
	r->disk_mb = dec_u32(&d);
	r->resume_s = layout != LAYOUT_SANDBOX_1 ? dec_u32(&d) : 0;
	r->created_us = (int64_t)dec_u64(&d);
	r->started_us = (int64_t)dec_u64(&d);
	r->end_us = (int64_t)dec_u64(&d);
	r->due_us = (int64_t)dec_u64(&d);
	sandbox_unpack_strings(&d, layout, r);
	if (dec_done(&d))
		return 0;
	sandbox_rec_release(r);
	return -1;
}

/* A string where it lies. */
static struct glance_text glance_str(struct dec *d)
{
	struct glance_text s = { .n = dec_u8(d) };

	s.p = (const char *)take(d, s.n);
	return s;
}

static struct glance_text glance_long(struct dec *d)
{
	uint32_t n = dec_u32(d);

	return n != TEXT_NULL ? (struct glance_text){ (const char *)take(d, n), n } : (struct glance_text){ NULL, 0 };
}

int sandbox_glance(const void *p, size_t n, struct sandbox_glance *g)
{
	struct dec d = { p, n, false };
	const uint8_t layout = dec_u8(&d);
	const bool first = layout == LAYOUT_SANDBOX_1;

	if (layout < LAYOUT_SANDBOX_1 || layout > LAYOUT_SANDBOX)
		return -1;
	g->state = dec_u8(&d);
	take(&d, 2);                         /* handed, secure */
	g->auto_pause = dec_bool(&d);
	take(&d, first ? 2 : 5);             /* further flags */
	g->cpu_count = dec_u32(&d);
	g->memory_mb = dec_u32(&d);
	g->disk_mb = dec_u32(&d);
	take(&d, first ? 8 : 4 + 8);         /* time to resume, created */
	g->started_us = (int64_t)dec_u64(&d);
	g->end_us = (int64_t)dec_u64(&d);
	take(&d, 8);                         /* due */
	glance_str(&d);                      /* team */
	g->template_id = glance_str(&d);
	g->alias = glance_str(&d);
	for (int i = 0; i < 3; i++)          /* build, execution, machine */
		glance_str(&d);
	g->envd_version = glance_str(&d);
	g->metadata = glance_long(&d);
	return d.bad ? -1 : 0;
}

static struct glance_text glance_text_of(const char *s)
{
	return (struct glance_text){ s, s != NULL ? strlen(s) : 0 };
}

void sandbox_glance_of(const struct sandbox_rec *r, struct sandbox_glance *out)
{
	*out = (struct sandbox_glance){
		.state = r->state, .auto_pause = r->auto_pause, .cpu_count = r->cpu_count, .memory_mb = r->memory_mb, .disk_mb = r->disk_mb,
		.started_us = r->started_us, .end_us = r->end_us, .template_id = glance_text_of(r->template_id), .alias = glance_text_of(r->alias),
		.envd_version = glance_text_of(r->envd_version), .metadata = glance_text_of(r->metadata),
	};
}

void sandbox_rec_release(struct sandbox_rec *s)
{
	free(s->metadata);
	free(s->mask_host);
	free(s->allow_out);
	free(s->deny_out);
	s->metadata = s->mask_host = s->allow_out = s->deny_out = NULL;
}
