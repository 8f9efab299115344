/* Reading JSON requests with json-c; errors name the field. */
#include "hutch/json.h"

#include <stdint.h>
#include <string.h>

#include "jsongrammar.h"

#define DEPTH_MAX 32

bool json_well_formed(const char *text, size_t n, int depth)
{
	return json_grammar(text, n, depth) == NULL;
}

int json_read(const char *text, size_t n, json_object **out, struct err *e)
{
	struct json_tokener *t;
	enum json_tokener_error why;
	const char *wrong;
	json_object *o;

	if (n > INT32_MAX)
		return err_set(e, ERR_TOO_LARGE, "JSON text is too long");
	wrong = utf8_valid(text, n) ? json_grammar(text, n, DEPTH_MAX) : "invalid UTF-8";
	if (wrong != NULL)
		return err_set(e, ERR_INVALID, "malformed JSON: %s", wrong);
	t = json_tokener_new_ex(DEPTH_MAX + 1);
	if (t == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	/* no flags: the grammar is checked, and a number that is too large becomes the largest there is */
	o = json_tokener_parse_ex(t, text, (int)n);
	why = json_tokener_get_error(t);
	if (why == json_tokener_continue) {
		/* a number at the very end is complete only once something follows it */
		o = json_tokener_parse_ex(t, "", 1);
		why = json_tokener_get_error(t);
	}
	json_tokener_free(t);
	if (why != json_tokener_success) {
		json_object_put(o);
		return err_set(e, ERR_INVALID, "malformed JSON: %s", json_tokener_error_desc(why));
	}
	*out = o;
	return 0;
}

int json_read_object(const char *text, size_t n, json_object **out, struct err *e)
{
	json_object *o = NULL;

	if (n == 0) {
		*out = json_object_new_object();
		return 0;
	}
	if (json_read(text, n, &o, e) < 0)
		return -1;
	if (!json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		return err_set(e, ERR_INVALID, "the body must be a JSON object");
	}
	*out = o;
	return 0;
}

/* Marks the objects of a request of the API, where null is not the same as absent. */
static const char strict;

static void mark(json_object *o)
{
	if (json_object_is_type(o, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(o); i++)
			mark(json_object_array_get_idx(o, i));
	} else if (json_object_is_type(o, json_type_object)) {
		json_object_set_userdata(o, (void *)(uintptr_t)&strict, NULL);
		json_object_object_foreach(o, key, v) {
			(void)key;
			mark(v);
		}
	}
}

int json_read_body(const char *text, size_t n, json_object **out, struct err *e)
{
	if (json_read_object(text, n, out, e) < 0)
		return -1;
	mark(*out);
	return 0;
}

void json_drop_null(json_object *o, const char *key)
{
	json_object *v = NULL;

	if (json_object_object_get_ex(o, key, &v) && v == NULL)
		json_object_object_del(o, key);
}

/* 1 and the value, 0 when it is absent, -1 when it is null and must not be. */
static int field(json_object *o, const char *key, json_object **v, struct err *e)
{
	if (!json_object_object_get_ex(o, key, v))
		return 0;
	if (*v == NULL && json_object_get_userdata(o) == &strict)
		return err_set(e, ERR_INVALID, "%s must not be null", key);
	return *v != NULL;
}

int json_get_str(json_object *o, const char *key, size_t max, const char **out, struct err *e)
{
	json_object *v;
	int there = field(o, key, &v, e);

	if (there < 1)
		return there;
	if (!json_object_is_type(v, json_type_string))
		return err_set(e, ERR_INVALID, "%s must be a string", key);
	if ((size_t)json_object_get_string_len(v) > max)
		return err_set(e, ERR_INVALID, "%s is longer than %zu bytes", key, max);
	if (strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
		return err_set(e, ERR_INVALID, "%s holds a NUL character", key);
	*out = json_object_get_string(v);
	return 1;
}

int json_get_int(json_object *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e)
{
	json_object *v;
	int64_t n;
	int there = field(o, key, &v, e);

	if (there < 1)
		return there;
	if (!json_object_is_type(v, json_type_int))
		return err_set(e, ERR_INVALID, "%s must be an integer", key);
	n = json_object_get_int64(v);
	if (n < min || n > max)
		return err_set(e, ERR_INVALID, "%s must be from %lld to %lld", key, (long long)min, (long long)max);
	*out = n;
	return 1;
}

int json_get_bool(json_object *o, const char *key, bool *out, struct err *e)
{
	json_object *v;
	int there = field(o, key, &v, e);

	if (there < 1)
		return there;
	if (!json_object_is_type(v, json_type_boolean))
		return err_set(e, ERR_INVALID, "%s must be true or false", key);
	*out = json_object_get_boolean(v);
	return 1;
}

static int get_typed(json_object *o, const char *key, enum json_type type, const char *what, json_object **out, struct err *e)
{
	json_object *v;
	int there = field(o, key, &v, e);

	if (there < 1)
		return there;
	if (!json_object_is_type(v, type))
		return err_set(e, ERR_INVALID, "%s must be %s", key, what);
	*out = v;
	return 1;
}

int json_get_obj(json_object *o, const char *key, json_object **out, struct err *e)
{
	return get_typed(o, key, json_type_object, "an object", out, e);
}

int json_get_arr(json_object *o, const char *key, json_object **out, struct err *e)
{
	return get_typed(o, key, json_type_array, "an array", out, e);
}

int json_get_strmap(json_object *o, const char *key, json_object **out, struct err *e)
{
	int got = json_get_obj(o, key, out, e);

	if (got != 1)
		return got;
	json_object_object_foreach(*out, name, v) {
		if (!json_object_is_type(v, json_type_string))
			return err_set(e, ERR_INVALID, "%s: the value of \"%.64s\" must be a string", key, name);
	}
	return 1;
}

int json_need_str(json_object *o, const char *key, size_t max, const char **out, struct err *e)
{
	int got = json_get_str(o, key, max, out, e);

	if (got == 0)
		return err_set(e, ERR_INVALID, "%s is required", key);
	return got < 0 ? -1 : 0;
}

int json_need_bool(json_object *o, const char *key, bool *out, struct err *e)
{
	int got = json_get_bool(o, key, out, e);

	if (got == 0)
		return err_set(e, ERR_INVALID, "%s is required", key);
	return got < 0 ? -1 : 0;
}
