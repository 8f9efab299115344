/*
 * The body of a create (api.md 5.2, 5.3, 20). Wrong types and bounds are errors that name the field; unknown fields are
 * ignored. What only some pools can do is noted as a want: the domain refuses what the sandbox's pool cannot honour.
 */
#include "responder.h"

#include <string.h>

#define TIMEOUT_V1 15
#define TIMEOUT_V2 300

static int take_timeout(json_object *o, int64_t fallback, int64_t *out, struct err *e)
{
	*out = fallback;
	if (json_get_int(o, "timeout", 0, INT32_MAX, out, e) < 0)
		return -1;
	return *out == 0 ? err_set(e, ERR_INVALID, "Timeout must be greater than 0") : 0;
}

static int take_secure(json_object *o, bool v2, bool *out, struct err *e)
{
	*out = v2;
	if (json_get_bool(o, "secure", out, e) < 0)
		return -1;
	if (v2 && !*out)
		return err_set(e, ERR_INVALID, "secure cannot be false: sandboxes of this version are always secured");
	return 0;
}

static void want(struct sandbox_spec *s, enum pool_want w, bool asked)
{
	if (asked)
		s->wants |= WANT_BIT(w);
}

/* What happens at the end of the lease, and afterwards. */
static int take_lifecycle(json_object *o, struct sandbox_spec *s, struct err *e)
{
	json_object *resume = NULL;
	bool memory = true;

	if (json_get_bool(o, "autoPause", &s->auto_pause, e) < 0 || json_get_bool(o, "autoPauseMemory", &memory, e) < 0 ||
	    json_get_obj(o, "autoResume", &resume, e) < 0)
		return -1;
	s->auto_pause_disk = !memory;
	if (resume != NULL && json_need_bool(resume, "enabled", &s->auto_resume, e) < 0)
		return err_wrap(e, "autoResume");
	if (!memory && (!s->auto_pause || s->auto_resume))
		return err_set(e, ERR_INVALID, "autoPauseMemory can be false only with autoPause and without autoResume");
	want(s, WANT_AUTO_PAUSE, s->auto_pause);
	want(s, WANT_AUTO_PAUSE_DISK, !memory);
	want(s, WANT_AUTO_RESUME, s->auto_resume);
	return 0;
}

static int take_network(json_object *o, struct create_request *r, struct err *e)
{
	json_object *network = NULL;
	int got = json_get_obj(o, "network", &network, e);

	return got < 1 ? got : network_read(network, &r->spec, &r->allow, &r->deny, e);
}

static int take_extras(json_object *o, struct sandbox_spec *s, struct err *e)
{
	json_object *mcp = NULL, *iam = NULL, *tokens = NULL, *mounts = NULL;

	json_drop_null(o, "mcp");
	if (json_get_obj(o, "mcp", &mcp, e) < 0 ||      /* the client starts the gateway itself (api.md 5.4) */
	    json_get_obj(o, "iam", &iam, e) < 0 || json_get_arr(o, "volumeMounts", &mounts, e) < 0)
		return -1;
	if (iam != NULL && json_get_obj(iam, "tokens", &tokens, e) < 0)
		return err_wrap(e, "iam");
	want(s, WANT_TOKENS, tokens != NULL && json_object_object_length(tokens) > 0);
	want(s, WANT_VOLUMES, mounts != NULL && json_object_array_length(mounts) > 0);
	return 0;
}

/* A map of strings as compact JSON text; *out stays NULL when the field is absent. */
static int take_map(json_object *o, const char *key, struct buf *text, const char **out, struct err *e)
{
	json_object *map = NULL;
	struct jw w;
	int got = json_get_strmap(o, key, &map, e);

	if (got < 1)
		return got;
	jw_init(&w, text);
	jw_open(&w, '{');
	json_object_object_foreach(map, name, v) {
		const char *s = json_object_get_string(v);

		if (strlen(s) != (size_t)json_object_get_string_len(v))
			return err_set(e, ERR_INVALID, "%s: the value of \"%.64s\" holds a NUL character", key, name);
		jw_kstr(&w, name, s);
	}
	jw_close(&w, '}');
	if (buf_failed(text))
		return err_set(e, ERR_INVALID, "%s is larger than %zu bytes", key, text->max);
	*out = buf_str(text);
	return 0;
}

static int check_env_names(json_object *o, struct err *e)
{
	json_object *map = NULL;

	if (json_get_obj(o, "envVars", &map, e) < 1)
		return 0;
	json_object_object_foreach(map, name, v) {
		(void)v;
		if (name[0] == '\0' || strchr(name, '=') != NULL)
			return err_set(e, ERR_INVALID, "envVars: \"%.64s\" is no name of a variable", name);
	}
	return 0;
}

static int fill(struct create_request *r, bool v2, struct err *e)
{
	struct sandbox_spec *s = &r->spec;
	json_object *o = r->body;
	int internet;

	if (json_need_str(o, "templateID", 300, &s->template_ref, e) < 0 ||
	    take_timeout(o, v2 ? TIMEOUT_V2 : TIMEOUT_V1, &s->timeout_s, e) < 0 || take_secure(o, v2, &s->secure, e) < 0 ||
	    take_lifecycle(o, s, e) < 0 || take_network(o, r, e) < 0 || take_extras(o, s, e) < 0 ||
	    take_map(o, "metadata", &r->metadata, &s->metadata, e) < 0 ||
	    take_map(o, "envVars", &r->env, &s->env, e) < 0 || check_env_names(o, e) < 0)
		return -1;
	internet = json_get_bool(o, "allow_internet_access", &s->allow_internet, e);
	s->allow_internet_set = internet == 1;
	want(s, WANT_NO_INTERNET, internet == 1 && !s->allow_internet);
	want(s, WANT_INSECURE, !s->secure);
	want(s, WANT_ENV, s->env != NULL);
	return internet < 0 ? -1 : 0;
}

int create_read(const char *text, size_t n, bool v2, struct create_request *r, struct err *e)
{
	memset(r, 0, sizeof *r);
	buf_init(&r->metadata, METADATA_BYTES_MAX);
	buf_init(&r->env, METADATA_BYTES_MAX);
	buf_init(&r->allow, METADATA_BYTES_MAX);
	buf_init(&r->deny, METADATA_BYTES_MAX);
	if (json_read_body(text, n, &r->body, e) < 0)
		return -1;
	return fill(r, v2, e);
}

void create_release(struct create_request *r)
{
	json_object_put(r->body);
	buf_release(&r->metadata);
	buf_release(&r->env);
	buf_release(&r->allow);
	buf_release(&r->deny);
}
