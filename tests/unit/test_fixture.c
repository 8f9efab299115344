/* Which reply of a fake pool answers a request, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fixture.h"

static const char config[] = "{\"replies\":["
	"{\"port\":49983,\"method\":\"GET\",\"path\":\"/a\",\"status\":200,\"times\":2,\"bodyBase64\":\"MQ==\"},"
	"{\"port\":49983,\"method\":\"GET\",\"path\":\"/a\",\"status\":201,\"bodyBase64\":\"\"},"
	"{\"port\":49983,\"method\":\"POST\",\"path\":\"/q?x=1\",\"status\":202,\"bodyBase64\":\"\"},"
	"{\"port\":3000,\"method\":\"GET\",\"path\":\"/a\",\"status\":203,\"bodyBase64\":\"\"}]}";

/* Status of the reply, 0 when there is none. */
static int ask(struct fixture_uses *u, const struct pool_rec *p, int port, const char *method, const char *target)
{
	json_object *o, *reply = NULL;
	int64_t status = 0;
	struct err e;

	assert_int_equal(json_read_object(config, strlen(config), &o, &e), 0);
	if (fixture_find(u, p, o, port, method, target, &reply, &e) == 1)
		json_get_int(reply, "status", 0, 999, &status, &e);
	json_object_put(o);
	return (int)status;
}

static void test_match(void **state)
{
	static struct fixture_uses u;
	struct pool_rec p = { .name = "p", .updated_us = 1 };

	(void)state;
	assert_int_equal(ask(&u, &p, 3000, "GET", "/a"), 203);
	assert_int_equal(ask(&u, &p, 3001, "GET", "/a"), 0);
	assert_int_equal(ask(&u, &p, 3000, "POST", "/a"), 0);
	assert_int_equal(ask(&u, &p, 3000, "GET", "/a/"), 0);
	assert_int_equal(ask(&u, &p, 3000, "GET", "/a?any=1"), 203);
	assert_int_equal(ask(&u, &p, 49983, "POST", "/q?x=1"), 202);
	assert_int_equal(ask(&u, &p, 49983, "POST", "/q?x=2"), 0);
	assert_int_equal(ask(&u, &p, 49983, "POST", "/q"), 0);
	fixture_release(&u);
}

static void test_times(void **state)
{
	static struct fixture_uses u;
	struct pool_rec p = { .name = "p", .updated_us = 1 }, q = { .name = "q", .updated_us = 1 };

	(void)state;
	assert_int_equal(ask(&u, &p, 49983, "GET", "/a"), 200);
	assert_int_equal(ask(&u, &q, 49983, "GET", "/a"), 200);      /* another pool counts for itself */
	assert_int_equal(ask(&u, &p, 49983, "GET", "/a"), 200);
	assert_int_equal(ask(&u, &p, 49983, "GET", "/a"), 201);
	assert_int_equal(ask(&u, &p, 49983, "GET", "/a"), 201);
	p.updated_us = 2;                                            /* enrolled anew */
	assert_int_equal(ask(&u, &p, 49983, "GET", "/a"), 200);
	fixture_release(&u);
}

/* More pools than are remembered: the one that was not asked for longest starts anew, the others go on. */
static void test_many(void **state)
{
	static struct fixture_uses u;
	struct pool_rec p = { .updated_us = 1 }, keep = { .name = "keep", .updated_us = 1 };

	(void)state;
	ask(&u, &keep, 49983, "GET", "/a");
	ask(&u, &keep, 49983, "GET", "/a");
	for (int i = 0; i < 3 * FIXTURE_POOLS; i++) {
		p.name[0] = 'a';
		p.name[1] = (char)('0' + i / 10);
		p.name[2] = (char)('0' + i % 10);
		assert_int_equal(ask(&u, &p, 49983, "GET", "/a"), 200);
		assert_int_equal(ask(&u, &keep, 49983, "GET", "/a"), 201);
	}
	fixture_release(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("fixture", tests, NULL, NULL);
}
