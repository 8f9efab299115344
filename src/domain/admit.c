/* What a pool can have and what not: the one place where an option is refused because of the pool. */
#include "domain_int.h"

#include <string.h>

static const struct {
	const char *option;          /* as the client named it */
	uint32_t needs;              /* enum pool_cap bits, all of them */
	bool denied;                 /* E2B's answer is 403 for it, not 400 (api.md 5.2) */
} rows[POOL_WANTS] = {
	[WANT_AUTO_PAUSE] = { "autoPause", CAP_AUTO_PAUSE },
	[WANT_AUTO_PAUSE_DISK] = { "autoPauseMemory = false", CAP_AUTO_PAUSE | CAP_PAUSE_DISK },
	[WANT_AUTO_RESUME] = { "autoResume", CAP_AUTO_RESUME },
	[WANT_INSECURE] = { "secure = false", CAP_INSECURE },
	[WANT_NO_INTERNET] = { "allow_internet_access = false", CAP_NO_INTERNET },
	[WANT_CLOSED_TRAFFIC] = { "network.allowPublicTraffic = false", CAP_CLOSED_TRAFFIC },
	[WANT_MASK_HOST] = { "network.maskRequestHost", CAP_MASK_HOST },
	[WANT_ALLOW_OUT] = { "network.allowOut", CAP_NET_RULES },
	[WANT_ALLOW_DOMAIN] = { "network.allowOut with a domain name", CAP_NET_RULES | CAP_NET_DOMAINS },
	[WANT_DENY_OUT] = { "network.denyOut", CAP_NET_RULES },
	[WANT_NET_HEADERS] = { "network.rules", CAP_NET_HEADERS },
	[WANT_NET_PROXY] = { "network.egressProxy", CAP_NET_PROXY, true },
	[WANT_TOKENS] = { "iam", CAP_TOKENS },
	[WANT_VOLUMES] = { "volumeMounts", CAP_VOLUMES },
	[WANT_ENV] = { "envVars", CAP_ENV },
	[WANT_METADATA] = { "metadata", 0 },
	[WANT_SIZES] = { "cpuCount, memoryMB, diskSizeMB", CAP_SIZES },
	[WANT_COMMAND] = { "command", CAP_COMMAND },
	[WANT_CREATE] = { "create", CAP_CREATE },
	[WANT_PAUSE] = { "pause", CAP_PAUSE },
	[WANT_PAUSE_DISK] = { "memory = false", CAP_PAUSE | CAP_PAUSE_DISK },
	[WANT_FORK] = { "fork", CAP_FORK },
	[WANT_SNAPSHOT] = { "snapshot", CAP_SNAPSHOT },
	[WANT_SNAPSHOT_MEMORY] = { "memory = true", CAP_SNAPSHOT | CAP_SNAPSHOT_MEMORY },
	[WANT_BUILD] = { "build", CAP_BUILDS },
};

static int refuse(int want, const char *pool, struct err *e)
{
	return err_set(e, rows[want].denied ? ERR_DENIED : ERR_INVALID, "option %s cannot be had in pool %s", rows[want].option, pool);
}

/* A pool may keep metadata in bounds narrower than the API's. */
static int admit_metadata(const struct pool_caps *c, const char *pool, const char *text, struct err *e)
{
	json_object *o = NULL;
	size_t pairs = 0;
	bool good = true;

	if (text == NULL || (c->meta_pairs | c->meta_key | c->meta_value | c->meta_bytes) == 0)
		return 0;
	if (json_read_object(text, strlen(text), &o, e) < 0)
		return err_wrap(e, "metadata");
	json_object_object_foreach(o, key, v) {
		pairs++;
		good = good && (c->meta_key == 0 || strlen(key) <= c->meta_key) &&
		       (c->meta_value == 0 || (size_t)json_object_get_string_len(v) <= c->meta_value);
	}
	json_object_put(o);
	good = good && (c->meta_pairs == 0 || pairs <= c->meta_pairs) && (c->meta_bytes == 0 || strlen(text) <= c->meta_bytes);
	if (good)
		return 0;
	return err_set(e, ERR_INVALID, "option metadata cannot be had in pool %s like this: it takes %u pairs, %u bytes of a key, %u of a value, "
		       "%u in all (0: no bound)", pool, c->meta_pairs, c->meta_key, c->meta_value, c->meta_bytes);
}

int pool_admit(const struct pool_caps *caps, const char *pool, uint32_t wants, const char *metadata, struct err *e)
{
	for (int w = 0; w < POOL_WANTS; w++)
		if ((wants & WANT_BIT(w)) != 0 && (caps->can & rows[w].needs) != rows[w].needs)
			return refuse(w, pool, e);
	return admit_metadata(caps, pool, metadata, e);
}
