/*
 * fuzz_connect.c - Connect framing and the JSON messages of the process service. The first byte says how the body comes (even: as it
 * is, odd: chunked), the rest is the body: envelopes, each with a message that is taken for one of every kind.
 * Build for libFuzzer with -fsanitize=fuzzer; `make check` replays the seeds through replay.c.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_request.h"
#include "process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) abort(); } while (0)

static struct agent agent;
static struct procs table = { .lock = PTHREAD_MUTEX_INITIALIZER };
static const struct user somebody = { .uid = 1000, .gid = 1000, .name = "user", .home = "/home/user", .shell = "/bin/sh" };

static void set_up(void)
{
	struct err e;
	struct proc *p;

	if (agent.env != NULL)
		return;
	DEMAND(agent_init(&agent, "user", &e) == 0);
	agent.procs = &table;
	p = proc_add(&table);
	DEMAND(p != NULL);
	p->pid = 7;
	p->started = true;
	p->in = open("/dev/null", O_WRONLY | O_CLOEXEC);
	DEMAND(p->in >= 0);
}

/* What is started, and what List then tells of it. */
static void as_start(json_object *in)
{
	struct launch *l = malloc(sizeof *l);
	struct err e = { 0 };
	struct buf config;
	json_object *again = NULL;

	DEMAND(l != NULL);
	if (launch_read(&agent, &somebody, in, l, &e) == 0) {
		DEMAND(l->spawn.cmd[0] != '\0' && l->spawn.argv[0] == l->spawn.cmd && l->cwd[0] == '/');
		buf_init(&config, 2 * RPC_BODY_MAX);
		launch_config(json_object_object_get(in, "process"), &config);
		DEMAND(!buf_failed(&config) && json_read_object(config.p, config.len, &again, &e) == 0);
		json_object_put(again);
		buf_release(&config);
	} else {
		DEMAND(e.kind != ERR_NONE && e.text[0] != '\0');
	}
	launch_release(l);
	free(l);
}

static void as_input(json_object *in)
{
	struct err e = { 0 };
	struct proc *p = proc_select(&table, in, true, &e);

	if (p == NULL) {
		DEMAND(e.kind != ERR_NONE && e.text[0] != '\0');
		return;
	}
	DEMAND(input_write(&table, p, in, -1, 0, &e) == 0 || e.text[0] != '\0');
	proc_unref(&table, p);
}

static void as_init(json_object *in)
{
	struct err e = { 0 };
	json_object *all;

	json_object_object_del(in, "profile");          /* it would make a directory */
	if (init_trusted(&agent, in, &e) < 0) {
		DEMAND(e.kind != ERR_NONE && e.text[0] != '\0');
		return;
	}
	all = env_all(&agent);
	DEMAND(all != NULL && json_object_object_get_ex(all, "E2B_SANDBOX", NULL));
	json_object_put(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory_request m;
	struct err e = { 0 };
	struct h1_req *r;
	json_object *in = NULL;
	int rc;

	if (size == 0)
		return 0;
	set_up();
	r = memory_request(&m, (const char *)data + 1, size - 1, data[0] & 1);
	while ((rc = stream_next(r, &in, &e)) == 1) {
		DEMAND(in != NULL);
		as_start(in);
		as_input(in);
		as_init(in);
		json_object_put(in);
		in = NULL;
	}
	DEMAND(rc == 0 || (e.kind != ERR_NONE && e.text[0] != '\0'));
	DEMAND(in == NULL);
	return 0;
}
