/* The kinds of pools and what each can do. */
#include "hutch/pool.h"

#include <stddef.h>
#include <string.h>

/* hutch-node as it is now: frozen, or processes ended and the disk kept. A way to the internet and rules for it depend on the machine (pool_abilities). */
#define PAUSES (CAP_PAUSE | CAP_PAUSE_MEMORY | CAP_PAUSE_DISK | CAP_AUTO_PAUSE | CAP_AUTO_RESUME)
#define NODE_CAN (PAUSES | CAP_CREATE | CAP_SNAPSHOT | CAP_NO_INTERNET | CAP_CLOSED_TRAFFIC | CAP_MASK_HOST | CAP_SIZES | CAP_COMMAND | \
		  CAP_INSECURE | CAP_ENV | CAP_GUEST)
/* Rows pause, resume, become snapshots and take any setting: nothing is behind them that could fail to. */
#define ROWS_CAN (PAUSES | CAP_CREATE | CAP_SNAPSHOT | CAP_SNAPSHOT_MEMORY | CAP_NO_INTERNET | CAP_CLOSED_TRAFFIC | CAP_MASK_HOST | \
		  CAP_SIZES | CAP_COMMAND | CAP_INSECURE | CAP_ENV)

static const struct {
	const char *name;
	struct pool_caps caps;
} kinds[POOL_KINDS] = {
	[POOL_LOCAL] = { "local", { .can = NODE_CAN } },
	[POOL_NONE] = { "none", { .can = ROWS_CAN } },
	[POOL_FAKE] = { "fake", { .can = ROWS_CAN | CAP_GUEST } },
	[POOL_LIGHT] = { "light", { .can = NODE_CAN & ~(uint32_t)CAP_COMMAND } },
	[POOL_VENDOR] = { "vendor", { .can = CAP_OWN_LEASE } },
};

static const char *const cap_names[] = {
	"pause", "pause-memory", "pause-disk", "auto-pause", "auto-resume", "fork", "snapshot", "snapshot-memory", "internet",
	"no-internet", "net-rules", "net-headers", "net-proxy", "closed-traffic", "mask-host", "own-lease", "builds", "sizes", "command",
	"insecure", "env", "volumes", "tokens", "guest", "net-domains", "create",
};

const struct pool_caps *pool_kind_caps(enum pool_kind kind)
{
	return &kinds[kind].caps;
}

const char *pool_kind_name(enum pool_kind kind)
{
	return kinds[kind].name;
}

int pool_kind_find(const char *name)
{
	for (int i = 0; i < POOL_KINDS; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return i;
	return -1;
}

const char *pool_cap_name(int bit)
{
	return bit >= 0 && (size_t)bit < sizeof cap_names / sizeof cap_names[0] ? cap_names[bit] : NULL;
}
