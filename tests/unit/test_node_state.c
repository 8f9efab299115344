#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "node.h"

static void fill(struct machine_state *m)
{
	memset(m, 0, sizeof *m);
	snprintf(m->id, sizeof m->id, "sb_0123456789abcdefghij");
	snprintf(m->claim_ref, sizeof m->claim_ref, "i\"\\\n");
	snprintf(m->boot_id, sizeof m->boot_id, "11111111-2222-3333-4444-555555555555");
	snprintf(m->base, sizeof m->base, "base-0123456789abcdef");
	m->claimed_us = 1767323045123456;
	m->pid = 4711;
	m->start = 99;
	m->ids = 1U << 28;
	m->address = 0xc6120304;
	m->shape = (struct shape){ .template = "t", .image = "host", .cpu_count = 1, .memory_mb = 64, .disk_mb = 64, .warm = 3 };
}

static void test_round(void **state)
{
	struct machine_state m, got;
	struct err e;
	struct buf b;

	(void)state;
	fill(&m);
	buf_init(&b, 1 << 20);
	state_write(&b, &m);
	assert_int_equal(state_read(b.p, b.len, &got, &e), 0);
	assert_memory_equal(&got, &m, sizeof m);
	/* a file cut anywhere is refused, not guessed at */
	for (size_t n = 0; n + 2 < b.len; n++) {
		assert_int_equal(state_read(b.p, n, &got, &e), -1);
		shape_release(&got.shape);
	}
	buf_release(&b);
}

/* What is kept as text comes out as it went in. */
static void test_network(void **state)
{
	static char rules[] = "{\"deny\":[\"0.0.0.0/0\"]}";
	struct machine_state m, got;
	struct err e;
	struct buf b;

	(void)state;
	fill(&m);
	m.network = rules;
	buf_init(&b, 1 << 20);
	state_write(&b, &m);
	assert_int_equal(state_read(b.p, b.len, &got, &e), 0);
	assert_string_equal(got.network, rules);
	assert_int_equal(got.address, m.address);
	state_release(&got);
	buf_release(&b);
}

static void test_bad(void **state)
{
	static const char *const bad[] = { "{}", "[]", "{\"id\":\"sb_x\",\"claim_ref\":\"\",\"boot_id\":\"\",\"base\":\"\"}" };
	struct machine_state m, got;
	struct err e;
	struct buf b;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(state_read(bad[i], strlen(bad[i]), &got, &e), -1);
	fill(&m);
	snprintf(m.id, sizeof m.id, "sb_../../etc/passwd----");  /* an id becomes part of paths */
	buf_init(&b, 1 << 20);
	state_write(&b, &m);
	assert_int_equal(state_read(b.p, b.len, &got, &e), -1);
	shape_release(&got.shape);
	buf_release(&b);
	assert_true(machine_id_ok("sb_0123456789abcdefghij"));
	assert_false(machine_id_ok("sb_0123456789abcdefghi"));
	assert_false(machine_id_ok("sb_0123456789ABCDEFGHIJ"));
	assert_false(machine_id_ok(""));
}

/* A process is the one that was meant only if number, start time and boot agree. */
static void test_process(void **state)
{
	struct machine_state m;
	siginfo_t ended;
	struct err e;
	char boot[BOOT_ID_LEN];
	int fd;

	(void)state;
	assert_int_equal(boot_id(boot, &e), 0);
	fill(&m);
	memcpy(m.boot_id, boot, sizeof boot);
	m.pid = fork();
	if (m.pid == 0) {
		prctl(PR_SET_NAME, ") R 1 (");       /* a name that looks like fields */
		pause();
		_exit(0);
	}
	m.start = process_start(m.pid);
	assert_true(m.start > 0);
	fd = state_pidfd(&m, boot);
	assert_true(fd >= 0);
	close(fd);
	m.start++;
	assert_int_equal(state_pidfd(&m, boot), -1);
	m.start--;
	assert_int_equal(state_pidfd(&m, "another boot"), -1);
	kill(m.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)m.pid, &ended, WNOWAIT | WEXITED), 0);
	assert_int_equal(state_pidfd(&m, boot), -1);         /* a zombie is dead */
	waitpid(m.pid, NULL, 0);
	assert_int_equal(state_pidfd(&m, boot), -1);
	assert_int_equal(process_start(m.pid), 0);
}

static void test_checkpoint(void **state)
{
	static const char *const names[] = { "a", "0-1._:/b" }, *const bad[] = { "", "-a", "a b", "a\n" };
	struct checkpoint_state c = { .id = "ck_0123456789abcdefghij", .name = "11111111-2222", .sandbox = "sb_0123456789abcdefghij",
				      .created_us = 1767323045123456, .bytes = 1ULL << 40,
				      .shape = { .template = "t", .image = "host", .cpu_count = 3, .memory_mb = 64, .disk_mb = 64 } }, got;
	char name[CHECKPOINT_NAME_LEN + 1];
	struct err e;
	struct buf b;
	struct jw w;

	(void)state;
	buf_init(&b, 10000);
	jw_init(&w, &b);
	jw_open(&w, '{');
	checkpoint_write(&w, &c);
	jw_close(&w, '}');
	assert_int_equal(checkpoint_read(b.p, b.len, &got, &e), 0);
	assert_string_equal(got.id, c.id);
	assert_string_equal(got.name, c.name);
	assert_string_equal(got.sandbox, c.sandbox);
	assert_true(got.created_us == c.created_us && got.bytes == c.bytes && got.shape.cpu_count == 3);
	shape_release(&got.shape);
	for (size_t i = 0; i < b.len; i++)           /* cut anywhere it is none */
		assert_int_equal(checkpoint_read(b.p, i, &got, &e), -1);
	buf_release(&b);
	for (size_t i = 0; i < 2; i++)
		assert_true(checkpoint_name_ok(names[i]));
	for (size_t i = 0; i < 4; i++)
		assert_false(checkpoint_name_ok(bad[i]));
	memset(name, 'x', CHECKPOINT_NAME_LEN);
	name[CHECKPOINT_NAME_LEN] = '\0';
	assert_false(checkpoint_name_ok(name));
	name[CHECKPOINT_NAME_LEN - 1] = '\0';
	assert_true(checkpoint_name_ok(name));
}

static void test_tables(void **state)
{
	static struct htab t;
	static struct hnode n[3000];
	static char keys[3000][8];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		snprintf(keys[i], sizeof keys[i], "k%d", i);
		htab_add(&t, &n[i], keys[i]);
	}
	for (int i = 0; i < 3000; i += 2)
		htab_del(&t, &n[i]);
	htab_del(&t, &n[0]);                 /* twice is harmless */
	for (int i = 0; i < 3000; i++)
		assert_ptr_equal(htab_find(&t, keys[i]), i % 2 == 1 ? &n[i] : NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_network), cmocka_unit_test(test_bad),
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_tables), cmocka_unit_test(test_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
