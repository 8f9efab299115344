/*
 * fuzz_record.c - packed records, template references and string maps on arbitrary bytes; the first byte chooses.
 * Build for libFuzzer with -fsanitize=fuzzer; `make check` replays the seeds through replay.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "domain_int.h"
#include "hutch/netrules.h"
#include "hutch/upstream.h"
#include "store_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)

/* What is accepted is the one form of its record, unless it is of an earlier layout: that becomes one of today's. */
static void sandbox(const uint8_t *p, size_t n)
{
	struct sandbox_glance g;
	struct sandbox_rec r;
	struct buf b;

	sandbox_glance(p, n, &g);
	if (sandbox_unpack("iaaaaaaaaaaaaaaaaaaaa", SANDBOX_ID_CHARS, p, n, &r) < 0)
		return;
	DEMAND(sandbox_glance(p, n, &g) == 0 && g.state == r.state && g.started_us == r.started_us && g.end_us == r.end_us &&
	       g.auto_pause == r.auto_pause && g.cpu_count == r.cpu_count && g.memory_mb == r.memory_mb && g.disk_mb == r.disk_mb &&
	       strlen(r.template_id) == g.template_id.n && strlen(r.alias) == g.alias.n && strlen(r.envd_version) == g.envd_version.n &&
	       (r.metadata != NULL) == (g.metadata.p != NULL) && (r.metadata == NULL || strlen(r.metadata) == g.metadata.n));
	buf_init(&b, RECORD_MAX);
	sandbox_pack(&b, &r);
	sandbox_rec_release(&r);
	if (!buf_failed(&b) && p[0] == (uint8_t)b.p[0])
		DEMAND(b.len == n && memcmp(b.p, p, n) == 0);
	else if (!buf_failed(&b)) {
		DEMAND(sandbox_unpack("iaaaaaaaaaaaaaaaaaaaa", SANDBOX_ID_CHARS, b.p, b.len, &r) == 0);
		sandbox_rec_release(&r);
	}
	buf_release(&b);
}

static void template(const uint8_t *p, size_t n)
{
	struct template_rec r;
	struct buf b;

	if (template_unpack("aaaaaaaaaaaaaaaaaaaa", TEMPLATE_ID_LEN - 1, p, n, &r) < 0)
		return;
	buf_init(&b, RECORD_MAX);
	template_pack(&b, &r);
	/* an older layout is written anew in the present one */
	DEMAND(buf_failed(&b) || b.p[0] != p[0] || (b.len == n && memcmp(b.p, p, n) == 0));
	buf_release(&b);
	template_rec_release(&r);
}

/* A snapshot's or a capture's, told apart by the first byte. */
static void snapshots(const uint8_t *p, size_t n)
{
	static const char key[] = "aaaaaaaaaaaaaaaaaaaa" "00000000-0000-4000-8000-000000000000";
	struct snapshot_rec s;
	struct capture_rec c;
	struct buf b;

	if (n == 0)
		return;
	buf_init(&b, RECORD_MAX);
	if (p[0] == 's' && snapshot_unpack(key, TEMPLATE_ID_LEN - 1, p + 1, n - 1, &s) == 0)
		snapshot_pack(&b, &s);
	else if (p[0] != 's' && capture_unpack(key, KEY_CAPTURE_LEN, p + 1, n - 1, &c) == 0)
		capture_pack(&b, &c);
	DEMAND(b.len == 0 || (b.len == n - 1 && memcmp(b.p, p + 1, n - 1) == 0));
	buf_release(&b);
}

/* Webhooks and deliveries have one form; an entry of the outbox is bounded. The text begins with the key. */
static void hooks(const uint8_t *p, size_t n)
{
	struct webhook_rec w;
	struct delivery_rec d;
	struct outbox_rec o;
	struct buf b;

	buf_init(&b, RECORD_MAX);
	if (n >= KEY_WEBHOOK_LEN && webhook_unpack(p, KEY_WEBHOOK_LEN, p + KEY_WEBHOOK_LEN, n - KEY_WEBHOOK_LEN, &w) == 0) {
		webhook_pack(&b, &w);
		DEMAND(b.len == n - KEY_WEBHOOK_LEN && memcmp(b.p, p + KEY_WEBHOOK_LEN, b.len) == 0);
		webhook_rec_release(&w);
	}
	buf_reset(&b);
	if (n >= KEY_DELIVERY_LEN && delivery_unpack(p, KEY_DELIVERY_LEN, p + KEY_DELIVERY_LEN, n - KEY_DELIVERY_LEN, &d) == 0) {
		delivery_pack(&b, &d);
		DEMAND(b.len == n - KEY_DELIVERY_LEN && memcmp(b.p, p + KEY_DELIVERY_LEN, b.len) == 0);
		delivery_rec_release(&d);
	}
	if (n >= KEY_OUTBOX_LEN && outbox_unpack(p, KEY_OUTBOX_LEN, p + KEY_OUTBOX_LEN, n - KEY_OUTBOX_LEN, &o) == 0)
		DEMAND(strlen(o.team) < UUID_LEN && strlen(o.sandbox) < SANDBOX_ID_LEN);
	buf_release(&b);
}

/* Where a webhook may point, and what is made of an event's text. */
static void webhook_texts(const char *text)
{
	char id[UUID_LEN];
	struct buf b;
	struct err e;

	if (webhook_url_check(text, false, &e) == 0)
		DEMAND(webhook_url_check(text, true, &e) == 0);
	buf_init(&b, 1 << 20);
	if (webhook_body(text, strlen(text), &b, id, &e) == 0)
		DEMAND(strlen(id) < UUID_LEN && b.len > strlen(text));
	event_text_type(text, strlen(text));
	buf_release(&b);
}

/* Entries of network rules: what is a block holds its own ends; a name holds nothing that ends a header field. */
static void network(const char *text)
{
	struct ip4_range r[2];

	if (ip4_parse(text, &r[0]) == 0) {
		DEMAND(r[0].first <= r[0].last && ((r[0].last - r[0].first) & (r[0].last - r[0].first + 1)) == 0 && !ip6_is(text));
		r[1] = r[0];
		DEMAND(ip4_merge(r, 2) == 1);
	}
	if (mask_host_is(text) || domain_is(text))
		DEMAND(strpbrk(text, " \r\n\t\"\\/@") == NULL && strlen(text) < 300);
}

/* Pages of a mirrored account: what is taken over fits into records, and an odd entry refuses the page. */
static void lists(const char *text, size_t n)
{
	for (int what = 0; what < VENDOR_LISTS; what++) {
		struct vendor_page p;
		struct err e;

		if (vendor_page_read(what, text, n, false, &p, &e) < 0) {
			DEMAND(e.kind == ERR_INVALID && e.text[0] != '\0' && p.n == 0);
			continue;
		}
		DEMAND(p.n <= VENDOR_PAGE && p.full == (p.n == VENDOR_PAGE));
		for (size_t i = 0; i < p.n && p.sandbox != NULL; i++)
			DEMAND(strlen(p.sandbox[i].id) == SANDBOX_ID_CHARS && p.sandbox[i].pool_kind == POOL_VENDOR && p.sandbox[i].end_us > 0);
		vendor_page_release(&p);
	}
}

static void team(const uint8_t *p, size_t n)
{
	struct team_rec r;

	if (team_unpack(p, n, &r) == 0)
		DEMAND(strlen(r.id) < UUID_LEN && strlen(r.name) < NAME_MAX_LEN && strlen(r.slug) < NAME_MAX_LEN);
}

/* A slug is a namespace, whatever the name; and it is its own slug. */
static void slug(const char *name)
{
	char once[NAME_MAX_LEN], twice[NAME_MAX_LEN];

	team_slug(name, once);
	team_slug(once, twice);
	DEMAND(name_chars_ok(once, "") && strlen(once) < NAME_MAX_LEN - 8 && strcmp(once, twice) == 0);
}

/* Secret, newline, body: what is signed is one after the other, with nothing in between. */
static void signature(char *text, size_t n)
{
	char *body = memchr(text, '\n', n), once[SIGNATURE_LEN], joined[SIGNATURE_LEN];
	size_t secret = strlen(text);

	if (body == NULL || body > text + secret)
		return;
	secret = (size_t)(body - text);
	*body++ = '\0';
	webhook_sign(text, body, n - secret - 1, once);
	memmove(text + secret, body, n - secret - 1);
	DEMAND(strlen(once) == SIGNATURE_LEN - 1 && strspn(once, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") == SIGNATURE_LEN - 1);
	webhook_sign("", text, n - 1, joined);
	DEMAND(strcmp(once, joined) == 0);
}

/* Parts of an accepted reference make the same reference again. */
static void reference(const char *text)
{
	struct template_ref a, b;
	char again[3 * NAME_MAX_LEN];
	struct err e;

	if (template_ref_parse(text, &a, &e) < 0)
		return;
	DEMAND(name_chars_ok(a.alias, "") && (a.ns[0] == '\0' || name_chars_ok(a.ns, "")));
	snprintf(again, sizeof again, "%s%s%s%s%s", a.ns, a.ns[0] != '\0' ? "/" : "", a.alias, a.tag[0] != '\0' ? ":" : "", a.tag);
	DEMAND(template_ref_parse(again, &b, &e) == 0);
	DEMAND(strcmp(a.ns, b.ns) == 0 && strcmp(a.alias, b.alias) == 0 && strcmp(a.tag, b.tag) == 0);
}

/* An accepted map is its own canonical form and holds each of its pairs. */
static void map(const char *text)
{
	const char *const pair[2] = { "key", "value" };
	struct map_pairs m;
	char *once, *twice;
	json_object *o;
	struct err e;

	DEMAND(map_pairs_init(&m, pair, text[0] == '{', &e) == 0);
	map_has(text, strlen(text), &m);
	map_pairs_release(&m);
	if (map_canonical("metadata", text, &once, &e) < 0)
		return;
	DEMAND(map_canonical("metadata", once, &twice, &e) == 0 && strcmp(once, twice) == 0);
	DEMAND(json_read(once, strlen(once), &o, &e) == 0);
	json_object_object_foreach(o, key, v) {
		const char *const own[2] = { key, json_object_get_string(v) };

		if (map_pairs_init(&m, own, 1, &e) < 0)
			continue;                    /* escapes made it too long to be asked for */
		DEMAND(map_has(once, strlen(once), &m));
		map_pairs_release(&m);
	}
	json_object_put(o);
	free(once);
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0]) {
	case 's': sandbox((const uint8_t *)text, size - 1); break;
	case 't': template((const uint8_t *)text, size - 1); break;
	case 'm': team((const uint8_t *)text, size - 1); break;
	case 'h': hooks((const uint8_t *)text, size - 1); break;
	case 'w': webhook_texts(text); break;
	case 'r': reference(text); break;
	case 'n': slug(text); break;
	case 'g': signature(text, size - 1); break;
	case 'a': network(text); break;
	case 'l': lists(text, size - 1); break;
	case 'p': snapshots((const uint8_t *)text, size - 1); break;
	default: map(text);
	}
	free(text);
	return 0;
}
