#include "config.h"

#include "checkpoint.h"

#include <ctype.h>
#include <string.h>

bool checkpoint_name_ok(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n >= CHECKPOINT_NAME_LEN || !isalnum((unsigned char)s[0]))
		return false;
	for (; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && strchr("._:/-", *s) == NULL)
			return false;
	return true;
}

void checkpoint_write(struct jw *w, const struct checkpoint_state *c)
{
	jw_kstr(w, "id", c->id);
	jw_kstr(w, "name", c->name);
	jw_kstr(w, "sandbox_id", c->sandbox);
	jw_kint(w, "created_us", c->created_us);
	jw_kint(w, "bytes", (int64_t)c->bytes);
	jw_key(w, "shape");
	jw_open(w, '{');
	shape_write(w, &c->shape);
	jw_close(w, '}');
}

static int read_members(json_object *o, void *out, struct err *e)
{
	struct checkpoint_state *c = out;
	int64_t bytes = 0;

	if (state_text(o, "id", c->id, sizeof c->id, e) < 0 || state_text(o, "name", c->name, sizeof c->name, e) < 0 ||
	    state_text(o, "sandbox_id", c->sandbox, sizeof c->sandbox, e) < 0 ||
	    json_get_int(o, "created_us", 0, INT64_MAX, &c->created_us, e) < 0 || json_get_int(o, "bytes", 0, INT64_MAX, &bytes, e) < 0)
		return -1;
	if (!state_id_ok(c->id, "ck_") || !machine_id_ok(c->sandbox) || !checkpoint_name_ok(c->name))
		return err_set(e, ERR_INVALID, "id, name or sandbox_id is not well-formed");
	c->bytes = (uint64_t)bytes;
	return state_shape(o, &c->shape, e);
}

int checkpoint_read(const char *text, size_t n, struct checkpoint_state *out, struct err *e)
{
	memset(out, 0, sizeof *out);
	return state_parse(text, n, read_members, out, e);
}
