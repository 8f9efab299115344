#include "config.h"

#include "wire.h"

#include <stdio.h>
#include <string.h>

#include "hutch/crypto.h"
#include "hutch/json.h"
#include "hutch/when.h"

#define DELIMITER "<IDS|MSG>"
#define SIGNED 4                         /* header, parent header, metadata, content */

/* Hex HMAC over the four frames, one after the other. */
static int sign(const char *key, const struct span *frames, char hex[KEY_LEN], struct err *e)
{
	uint8_t sum[SHA256_LEN];
	struct buf all;

	buf_init(&all, ZMTP_MESSAGE_MAX + 4096);
	for (int i = 0; i < SIGNED; i++)
		buf_add(&all, frames[i].p, frames[i].n);
	if (buf_failed(&all)) {
		buf_release(&all);
		return err_set(e, ERR_TOO_LARGE, "a message of the kernel is too large");
	}
	hmac_sha256(key, strlen(key), buf_str(&all), all.len, sum);
	buf_release(&all);
	hex_encode(sum, sizeof sum, hex);
	return 0;
}

/* Index of the frame after the delimiter, which topics or identities precede; 0: there is none. */
static size_t after_delimiter(const struct zmtp_msg *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->frame[i].n == strlen(DELIMITER) && memcmp(m->frame[i].p, DELIMITER, strlen(DELIMITER)) == 0)
			return i + 1;
	return 0;
}

static int check_signature(const struct span *f, const char *key, struct err *e)
{
	char want[KEY_LEN];

	if (sign(key, f + 1, want, e) < 0)
		return -1;
	if (!secret_equal(f[0].p, f[0].n, want, strlen(want)))
		return err_set(e, ERR_DENIED, "a message of the kernel is not signed with its key");
	return 0;
}

int wire_parse(const struct zmtp_msg *m, const char *key, const char *parent, struct kmsg *out, struct err *e)
{
	size_t at = after_delimiter(m), have = m->n - at;
	const struct span *f = m->frame + at;

	memset(out, 0, sizeof *out);
	out->lost = m->lost;
	/* of one that was too long there is the beginning: enough to tell whose it is */
	if (at == 0 || (m->lost == 0 && have < 1 + SIGNED) || (m->lost > 0 && have < SIGNED))
		return m->lost > 0 ? 0 : err_set(e, ERR_INVALID, "a message of the kernel has too few frames");
	if (!span_check(f[1]) || !span_check(f[2]))
		return err_set(e, ERR_INVALID, "a header of the kernel is no JSON object");
	if (!span_is(span_member(f[2], "msg_id"), parent))
		return 0;
	if (m->lost == 0 && check_signature(f, key, e) < 0)
		return -1;
	span_copy(span_member(f[1], "msg_type"), out->type, sizeof out->type);
	out->date = span_member(f[1], "date");
	if (m->lost > 0)
		return 1;
	if (!span_check(f[4]))
		return err_set(e, ERR_INVALID, "a %s of the kernel is no JSON object", out->type);
	out->content = f[4];
	return 1;
}

static void add_header(struct buf *b, const char *session, const char *msg_id, const char *type)
{
	char now[WHEN_LEN];
	struct jw w;

	when_format(wall_us(), now);
	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "msg_id", msg_id);
	jw_kstr(&w, "username", "e2b");
	jw_kstr(&w, "session", session);
	jw_kstr(&w, "msg_type", type);
	jw_kstr(&w, "version", "5.3");
	jw_kstr(&w, "date", now);
	jw_close(&w, '}');
}

int wire_build(const char *key, const char *session, const char *msg_id, const char *type, struct span content, struct wire_out *out,
	       struct err *e)
{
	char hex[KEY_LEN];

	buf_init(&out->text, 4096);
	add_header(&out->text, session, msg_id, type);
	out->frame[0] = (struct span){ DELIMITER, strlen(DELIMITER) };
	out->frame[2] = (struct span){ out->text.p, out->text.len };
	out->frame[3] = out->frame[4] = (struct span){ "{}", 2 };
	out->frame[5] = content;
	if (buf_failed(&out->text) || sign(key, out->frame + 2, hex, e) < 0) {
		buf_release(&out->text);
		return err_set(e, ERR_INTERNAL, "out of memory");
	}
	/* room was left: the header does not move */
	if (buf_room(&out->text, sizeof hex) == NULL || out->text.p != out->frame[2].p)
		out->frame[2].p = out->text.p;
	memcpy(out->text.p + out->text.len, hex, sizeof hex - 1);
	out->frame[1] = (struct span){ out->text.p + out->text.len, sizeof hex - 1 };
	return 0;
}
