/* The network object of a create, and the body of PUT /sandboxes/:id/network (api.md 5.3, 5.16). */
#include "responder.h"

#include <string.h>

#include "hutch/netrules.h"

#define ALL "0.0.0.0/0"

struct entries {
	const char *field;
	json_object *list;           /* NULL: absent */
	bool domains, all;           /* holds a domain name; the block of all addresses */
};

static void want(struct sandbox_spec *s, enum pool_want w, bool asked)
{
	if (asked)
		s->wants |= WANT_BIT(w);
}

static int check_entry(struct entries *l, bool allow, const char *text, struct err *e)
{
	struct ip4_range r;

	if (ip4_parse(text, &r) == 0) {
		l->all = l->all || strcmp(text, ALL) == 0;
		if (strncmp(text, "0.0.0.0", 7) != 0 || strcmp(text, ALL) == 0)
			return 0;
	} else if (!allow && ip6_is(text)) {
		return 0;                    /* sandboxes have no IPv6: it is denied anyway */
	} else if (allow && ip6_is(text)) {
		return err_set(e, ERR_INVALID, "%s: %.64s: sandboxes have no IPv6", l->field, text);
	} else if (allow && domain_is(text)) {
		l->domains = true;
		return 0;
	}
	if (!allow)
		return err_set(e, ERR_INVALID, "%s: invalid denied CIDR %.64s: it must be an address or CIDR block", l->field, text);
	return err_set(e, ERR_INVALID, "%s: invalid allowed entry %.64s: it must be an address, CIDR block or domain name", l->field, text);
}

static int check_list(struct entries *l, bool allow, struct err *e)
{
	size_t n = l->list != NULL ? json_object_array_length(l->list) : 0;

	if (n > NET_RULES_MAX)
		return err_set(e, ERR_INVALID, "%s has more than %d entries", l->field, NET_RULES_MAX);
	for (size_t i = 0; i < n; i++) {
		json_object *v = json_object_array_get_idx(l->list, i);
		const char *text = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;

		if (text == NULL || strlen(text) != (size_t)json_object_get_string_len(v) || strlen(text) >= NET_ENTRY_MAX)
			return err_set(e, ERR_INVALID, "%s: entry %zu must be a string of up to %d bytes", l->field, i, NET_ENTRY_MAX - 1);
		if (check_entry(l, allow, text, e) < 0)
			return -1;
	}
	return 0;
}

/* The list as text; NULL for one that is absent. */
static int write_list(const struct entries *l, struct buf *b, const char **out, struct err *e)
{
	struct jw w;

	if (l->list == NULL)
		return 0;
	jw_init(&w, b);
	jw_open(&w, '[');
	for (size_t i = 0; i < json_object_array_length(l->list); i++)
		jw_str(&w, json_object_get_string(json_object_array_get_idx(l->list, i)));
	jw_close(&w, ']');
	if (buf_failed(b))
		return err_set(e, ERR_INVALID, "%s is larger than %zu bytes", l->field, b->max);
	*out = buf_str(b);
	return 0;
}

static int some(json_object *o, const char *key, struct sandbox_spec *s, enum pool_want w, struct err *e)
{
	json_object *v = NULL;

	if (json_get_obj(o, key, &v, e) < 0)
		return -1;
	want(s, w, v != NULL && json_object_object_length(v) > 0);
	return 0;
}

static int take_proxy(json_object *o, struct sandbox_spec *s, struct err *e)
{
	const char *address, *user, *password;
	json_object *proxy = NULL;

	int there;

	json_drop_null(o, "egressProxy");
	there = json_get_obj(o, "egressProxy", &proxy, e);
	if (there < 1)
		return there;
	if (json_need_str(proxy, "address", 300, &address, e) < 0 || json_get_str(proxy, "username", 255, &user, e) < 0 ||
	    json_get_str(proxy, "password", 255, &password, e) < 0)
		return err_wrap(e, "egressProxy");
	want(s, WANT_NET_PROXY, true);
	return 0;
}

/* The egress part of a network object, which is checked: lists into *s and the buffers that its texts are in, wants into s->wants.
 * where: what to put before names of fields, "network" or NULL. */
static int egress_read(json_object *o, const char *where, struct sandbox_spec *s, struct buf *allow, struct buf *deny, struct err *e)
{
	struct entries a = { .field = where != NULL ? "network.allowOut" : "allowOut" };
	struct entries d = { .field = where != NULL ? "network.denyOut" : "denyOut" };

	if (json_get_arr(o, "allowOut", &a.list, e) < 0 || json_get_arr(o, "denyOut", &d.list, e) < 0 ||
	    some(o, "rules", s, WANT_NET_HEADERS, e) < 0 || take_proxy(o, s, e) < 0)
		return where != NULL ? err_wrap(e, "%s", where) : -1;
	if (check_list(&a, true, e) < 0 || check_list(&d, false, e) < 0)
		return -1;
	if (a.domains && !d.all)
		return err_set(e, ERR_INVALID, "%s: with domain names in %s it must hold " ALL, d.field, a.field);
	want(s, WANT_ALLOW_DOMAIN, a.domains);
	want(s, WANT_ALLOW_OUT, a.list != NULL && json_object_array_length(a.list) > 0);
	want(s, WANT_DENY_OUT, d.list != NULL && json_object_array_length(d.list) > 0);
	return write_list(&a, allow, &s->allow_out, e) < 0 || write_list(&d, deny, &s->deny_out, e) < 0 ? -1 : 0;
}

int network_read(json_object *network, struct sandbox_spec *s, struct buf *allow, struct buf *deny, struct err *e)
{
	const char *host = "";
	bool open = true;

	if (json_get_bool(network, "allowPublicTraffic", &open, e) < 0 ||
	    json_get_str(network, "maskRequestHost", 300, &host, e) < 0)
		return err_wrap(e, "network");
	if (host[0] != '\0' && !mask_host_is(host))
		return err_set(e, ERR_INVALID, "network.maskRequestHost: mask request host is not valid: %.64s: it must be HOST or HOST:PORT, in ASCII", host);
	s->closed_traffic = !open;
	s->mask_host = host[0] != '\0' ? host : NULL;
	want(s, WANT_CLOSED_TRAFFIC, !open);
	want(s, WANT_MASK_HOST, host[0] != '\0');
	return egress_read(network, "network", s, allow, deny, e);
}

static int update_read(struct call *c, struct sandbox_spec *s, struct buf *allow, struct buf *deny, json_object **o, struct err *e)
{
	int internet;

	if (json_read_body(buf_str(&c->body), c->body.len, o, e) < 0 || egress_read(*o, NULL, s, allow, deny, e) < 0)
		return -1;
	internet = json_get_bool(*o, "allow_internet_access", &s->allow_internet, e);
	s->allow_internet_set = internet == 1;
	want(s, WANT_NO_INTERNET, internet == 1 && !s->allow_internet);
	return internet < 0 ? -1 : 0;
}

int sandbox_network(struct call *c, struct err *e)
{
	struct sandbox_spec s = { .timeout_s = 0 };
	char id[SANDBOX_ID_LEN];
	struct buf allow, deny;
	json_object *o = NULL;
	int status;

	buf_init(&allow, METADATA_BYTES_MAX);
	buf_init(&deny, METADATA_BYTES_MAX);
	status = take_sandbox_id(c, id, e);
	if (status == 0)
		status = update_read(c, &s, &allow, &deny, &o, e);
	if (status == 0)
		status = sandbox_set_network(c->d, &c->team, id, &s, e);
	json_object_put(o);
	buf_release(&allow);
	buf_release(&deny);
	c->status = 204;
	return status;
}
