/* String maps as JSON text: metadata and environment. */
#include "domain_int.h"

#include <stdlib.h>
#include <string.h>

static int write_pair(struct jw *w, const char *field, const char *key, json_object *v, struct err *e)
{
	const char *s;

	if (strlen(key) > METADATA_KEY_MAX)
		return err_set(e, ERR_INVALID, "%s: a key is longer than %d bytes", field, METADATA_KEY_MAX);
	if (!json_object_is_type(v, json_type_string))
		return err_set(e, ERR_INVALID, "%s: the value of \"%.64s\" must be a string", field, key);
	s = json_object_get_string(v);
	if (strlen(s) != (size_t)json_object_get_string_len(v))
		return err_set(e, ERR_INVALID, "%s: the value of \"%.64s\" holds a NUL character", field, key);
	jw_kstr(w, key, s);
	return 0;
}

static int write_map(const char *field, json_object *o, struct buf *b, struct err *e)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	json_object_object_foreach(o, key, v) {
		if (write_pair(&w, field, key, v, e) < 0)
			return -1;
	}
	jw_close(&w, '}');
	return buf_failed(b) ? err_set(e, ERR_INVALID, "%s is larger than %d bytes", field, METADATA_BYTES_MAX) : 0;
}

int map_canonical(const char *field, const char *text, char **out, struct err *e)
{
	json_object *o = NULL;
	struct buf b;
	int status;

	*out = NULL;
	if (text == NULL)
		return 0;
	/* escapes may make the text up to six times as long as what it means */
	if (strlen(text) > 6 * METADATA_BYTES_MAX)
		return err_set(e, ERR_INVALID, "%s is larger than %d bytes", field, METADATA_BYTES_MAX);
	if (json_read_object(text, strlen(text), &o, e) < 0)
		return err_wrap(e, "%s", field);
	buf_init(&b, METADATA_BYTES_MAX);
	status = write_map(field, o, &b, e);
	json_object_put(o);
	if (status == 0 && (*out = buf_take(&b)) == NULL)
		status = err_set(e, ERR_INTERNAL, "out of memory");
	buf_release(&b);
	return status;
}

/* Behind the JSON string that starts at p (on its quote), or NULL. */
static const char *string_end(const char *p, const char *end)
{
	if (p == end || *p != '"')
		return NULL;
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && ++p == end)
			return NULL;
	return p < end ? p + 1 : NULL;
}

/* Whether the canonical map holds `pair`, itself canonical text: "key":"value". */
static bool has_pair(const char *map, const char *end, const char *pair, size_t n)
{
	for (const char *p = map + 1; p < end && *p != '}';) {
		const char *key_end = string_end(p, end), *behind;

		if (key_end == NULL || key_end == end || *key_end != ':' || (behind = string_end(key_end + 1, end)) == NULL)
			return false;
		if ((size_t)(behind - p) == n && memcmp(p, pair, n) == 0)
			return true;
		p = behind < end && *behind == ',' ? behind + 1 : behind;
	}
	return false;
}

int map_pairs_init(struct map_pairs *m, const char *const *pairs, size_t npairs, struct err *e)
{
	struct jw w;

	m->n = 0;
	buf_init(&m->text, METADATA_BYTES_MAX);
	if (npairs > MAP_PAIRS_MAX)
		return err_set(e, ERR_INVALID, "metadata holds more than %d pairs", MAP_PAIRS_MAX);
	for (size_t i = 0; i < npairs; i++) {
		jw_init(&w, &m->text);
		jw_kstr(&w, pairs[2 * i], pairs[2 * i + 1]);
		m->end[m->n++] = m->text.len;
	}
	if (!buf_failed(&m->text))
		return 0;
	map_pairs_release(m);
	return err_set(e, ERR_INVALID, "metadata is larger than %d bytes", METADATA_BYTES_MAX);
}

void map_pairs_release(struct map_pairs *m)
{
	buf_release(&m->text);
	m->n = 0;
}

bool map_has(const char *map, size_t n, const struct map_pairs *m)
{
	size_t at = 0;

	if (n == 0)
		return m->n == 0;
	for (size_t i = 0; i < m->n; at = m->end[i++])
		if (!has_pair(map, map + n, m->text.p + at, m->end[i] - at))
			return false;
	return true;
}
