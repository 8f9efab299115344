#include "config.h"

#include "state.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "sys.h"

#define ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789"

static const char *const sleep_names[] = { [SLEEP_NONE] = "", [SLEEP_MEMORY] = "memory", [SLEEP_DISK] = "disk" };

bool state_id_ok(const char *s, const char *prefix)
{
	return strlen(s) == MACHINE_LEN - 1 && strncmp(s, prefix, 3) == 0 && strspn(s + 3, ID_CHARS) == MACHINE_LEN - 4;
}

bool machine_id_ok(const char *s)
{
	return state_id_ok(s, "sb_");
}

void state_write(struct buf *b, const struct machine_state *m)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "id", m->id);
	jw_kstr(&w, "claim_ref", m->claim_ref);
	jw_kint(&w, "claimed_us", m->claimed_us);
	jw_kint(&w, "pid", m->pid);
	jw_kint(&w, "start", (int64_t)m->start);
	jw_kstr(&w, "boot_id", m->boot_id);
	jw_kint(&w, "ids", m->ids);
	jw_kstr(&w, "base", m->base);
	if (m->sleep != SLEEP_NONE)
		jw_kstr(&w, "hibernated", sleep_names[m->sleep]);
	if (m->address != 0)
		jw_kint(&w, "address", m->address);
	if (m->network != NULL) {
		jw_key(&w, "network");
		jw_raw(&w, m->network, strlen(m->network));
	}
	if (m->init != NULL) {
		jw_key(&w, "init");
		jw_raw(&w, m->init, strlen(m->init));
	}
	jw_key(&w, "shape");
	jw_open(&w, '{');
	shape_write(&w, &m->shape);
	jw_close(&w, '}');
	jw_close(&w, '}');
	buf_addc(b, '\n');
}

int state_text(json_object *o, const char *key, char *out, size_t max, struct err *e)
{
	const char *s = NULL;

	if (json_need_str(o, key, max - 1, &s, e) < 0)
		return -1;
	snprintf(out, max, "%s", s);
	return 0;
}

int state_shape(json_object *o, struct shape *out, struct err *e)
{
	const struct shape_limits lim = { .warm_default = 0, .warm_max = UINT32_MAX };
	json_object *shape = NULL;

	if (json_get_obj(o, "shape", &shape, e) != 1)
		return err_set(e, ERR_INVALID, "shape is required");
	return shape_read(shape, &lim, out, e);
}

int state_parse(const char *text, size_t n, int (*members)(json_object *o, void *out, struct err *e), void *out, struct err *e)
{
	json_object *o = NULL;
	int status;

	if (json_read_object(text, n, &o, e) < 0)
		return -1;
	status = members(o, out, e);
	json_object_put(o);
	return status;
}

static int need_int(json_object *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e)
{
	int there = json_get_int(o, key, min, max, out, e);

	return there == 0 ? err_set(e, ERR_INVALID, "%s is required", key) : there < 0 ? -1 : 0;
}

/* An object as text, NULL when it is absent. */
static int read_object(json_object *o, const char *key, char **out, struct err *e)
{
	json_object *v = NULL;
	int got = json_get_obj(o, key, &v, e);

	if (got < 1)
		return got;
	*out = strdup(json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	return *out != NULL ? 0 : err_set(e, ERR_INTERNAL, "out of memory");
}

static int read_network(json_object *o, struct machine_state *m, struct err *e)
{
	int64_t address = 0;

	if (json_get_int(o, "address", 0, UINT32_MAX, &address, e) < 0)
		return -1;
	m->address = (uint32_t)address;
	return read_object(o, "network", &m->network, e);
}

static int read_sleep(json_object *o, struct machine_state *m, struct err *e)
{
	const char *name = "";

	if (json_get_str(o, "hibernated", 16, &name, e) < 0)
		return -1;
	while (m->sleep <= SLEEP_DISK && strcmp(sleep_names[m->sleep], name) != 0)
		m->sleep++;
	if (m->sleep > SLEEP_DISK)
		return err_set(e, ERR_INVALID, "hibernated is unknown");
	return read_object(o, "init", &m->init, e);
}

static int read_members(json_object *o, void *out, struct err *e)
{
	struct machine_state *m = out;
	int64_t pid, start, ids;

	if (state_text(o, "id", m->id, sizeof m->id, e) < 0 || state_text(o, "claim_ref", m->claim_ref, sizeof m->claim_ref, e) < 0 ||
	    state_text(o, "boot_id", m->boot_id, sizeof m->boot_id, e) < 0 || state_text(o, "base", m->base, sizeof m->base, e) < 0 ||
	    need_int(o, "claimed_us", 0, INT64_MAX, &m->claimed_us, e) < 0 || need_int(o, "pid", 2, INT32_MAX, &pid, e) < 0 ||
	    need_int(o, "start", 1, INT64_MAX, &start, e) < 0 || need_int(o, "ids", 0, UINT32_MAX, &ids, e) < 0)
		return -1;
	if (!machine_id_ok(m->id))
		return err_set(e, ERR_INVALID, "id is not well-formed");
	m->pid = (pid_t)pid;
	m->start = (uint64_t)start;
	m->ids = (uint32_t)ids;
	if (read_sleep(o, m, e) < 0 || read_network(o, m, e) < 0)
		return -1;
	return state_shape(o, &m->shape, e);
}

int state_read(const char *text, size_t n, struct machine_state *out, struct err *e)
{
	memset(out, 0, sizeof *out);
	return state_parse(text, n, read_members, out, e);
}

void state_release(struct machine_state *m)
{
	free(m->init);
	free(m->network);
	m->init = m->network = NULL;
	shape_release(&m->shape);
}

int boot_id(char out[BOOT_ID_LEN], struct err *e)
{
	if (file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, BOOT_ID_LEN) < 0)
		return err_sys(e, "boot_id");
	out[strcspn(out, "\n")] = '\0';
	return 0;
}

uint64_t process_start(pid_t pid)
{
	char path[64], text[1024], *p;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	/* the second field is the program's name in parentheses and may hold anything */
	if (file_read(AT_FDCWD, path, text, sizeof text) < 0 || (p = strrchr(text, ')')) == NULL)
		return 0;
	for (int field = 2; field < 22 && p != NULL; field++)
		p = strchr(p + 1, ' ');
	return p != NULL ? strtoull(p, NULL, 10) : 0;
}

int state_pidfd(const struct machine_state *m, const char *boot)
{
	struct pollfd p = { .events = POLLIN };

	if (strcmp(m->boot_id, boot) != 0)
		return -1;
	p.fd = sys_pidfd_open(m->pid);
	if (p.fd < 0)
		return -1;
	/* the descriptor first: from then on the number cannot come to mean another process */
	if (process_start(m->pid) == m->start && poll(&p, 1, 0) == 0)
		return p.fd;
	close(p.fd);
	return -1;
}
