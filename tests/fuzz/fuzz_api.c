/*
 * fuzz_api.c - whole requests against the route tables, over real records and a pool in memory: matching, credentials, paths, queries, cursors,
 * bodies, signed webhooks. Input: one letter for the responder and one for the credentials, a line METHOD TARGET, and the body. Credentials `w`
 * sign the body as the mirrored account does, with `x` its first line is the signature. In the target, `@s` stands for a
 * sandbox that is there, `@t` for the team, `@a` for the team's namespace.
 *
 * Whatever comes, an answer is well-formed; nothing is an internal error; and what is refused changed nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "hutch/crypto.h"
#include "hutch/upstream.h"
#include "hutch/webhook.h"
#include "responder.h"
#include "store_int.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) { fprintf(stderr, "demanded: %s\n", #x); abort(); } } while (0)
#define RUNS 20000                   /* of one world: what requests make is bounded */
#define USE_NOTED_US (3600 * 1000000LL)  /* the use of a key is a commit of its own, this long after the last */
#define ADMIN "fuzz-admin-token"
#define SECRET "fuzz-secret"

static struct world *world;
static char sandbox[SANDBOX_ID_LEN], bearer[64];
static int64_t noted_us;
static unsigned runs;
static char credentials;

static void end(void)
{
	world_tear_down((void **)&world);
}

/* A new world, when there is none or the old one was used for long. */
static void world_ready(void)
{
	char token[KEY_LEN];
	struct key_rec r;

	if (world != NULL && runs++ < RUNS)
		return;
	if (world != NULL)
		end();
	else
		atexit(end);
	runs = 0;
	world_set_up((void **)&world);
	world->d.has_admin = true;
	sha256(ADMIN, strlen(ADMIN), world->d.admin_hash);
	sandbox[0] = '\0';
	noted_us = 0;
	DEMAND(key_new(&world->d, world->team.id, KEY_TOKEN, "fuzz", token, &r, &world->e) == 0);
	snprintf(bearer, sizeof bearer, "Bearer %s", token);
	DEMAND(ingest_secret_set(&world->d, SECRET, &world->e) == 0);
}

/* So that it is not the request that does; the clock may have been moved by one before. */
static void note_use(void)
{
	int64_t now = domain_now(&world->d);
	struct team_rec team;

	if (now - noted_us < USE_NOTED_US)
		return;
	noted_us = now;
	DEMAND(auth_team(&world->d, world->key, NULL, NULL, &team, &world->e) == 0);
	DEMAND(auth_user(&world->d, bearer, &team, &world->e) == 0);
}

static void sandbox_ready(void)
{
	struct sandbox_rec r;

	if (sandbox[0] != '\0' && world_state(world, sandbox) == SB_RUNNING)
		return;
	DEMAND(node_status_set(&world->d, NODE_READY, &world->e) == 0);
	world_create(world, 3600, &r);
	snprintf(sandbox, sizeof sandbox, "%s", r.id);
	sandbox_rec_release(&r);
}

/* As the mirrored account sends its webhooks. Each delivery is a new one, unless its body is a signature. */
static const char *webhook_header(const struct call *c, const char *name)
{
	static char signature[4096], delivery[32];

	if (strcmp(name, "HTTP_E2B_SIGNATURE_VERSION") == 0)
		return "v1";
	if (strcmp(name, "HTTP_E2B_DELIVERY_ID") == 0) {
		snprintf(delivery, sizeof delivery, "%u", credentials == 'w' ? runs : 1);
		return delivery;
	}
	if (strcmp(name, "HTTP_E2B_SIGNATURE") != 0)
		return NULL;
	if (credentials == 'w')
		webhook_sign(SECRET, buf_str(&c->body), c->body.len, signature);
	else
		snprintf(signature, sizeof signature, "%.*s", (int)strcspn(buf_str(&c->body), "\n"), buf_str(&c->body));
	return signature;
}

static const char *header(const struct call *c, const char *name)
{
	if (credentials == 'w' || credentials == 'x')
		return webhook_header(c, name);
	if (strcmp(name, "HTTP_X_API_KEY") == 0)
		return credentials == 'k' ? world->key : NULL;
	if (strcmp(name, "HTTP_X_ADMIN_TOKEN") == 0)
		return credentials == 'a' ? ADMIN : NULL;
	if (strcmp(name, "HTTP_X_TEAM_ID") == 0)
		return credentials == 'a' ? world->team.id : NULL;
	return strcmp(name, "HTTP_AUTHORIZATION") == 0 && credentials == 'u' ? bearer : NULL;
}

/* The target with what `@` stands for. */
static void fill(const char *target, struct buf *out)
{
	for (; *target != '\0'; target++) {
		char kind = target[0] == '@' ? target[1] : '\0';
		const char *text = kind == 's' ? sandbox : kind == 't' ? world->team.id : kind == 'a' ? world->team.slug : NULL;

		if (text == NULL) {
			buf_addc(out, *target);
		} else {
			buf_adds(out, text);
			target++;
		}
	}
}

static size_t last_commit(void)
{
	MDB_envinfo info;

	mdb_env_info(world->d.store->env, &info);
	return info.me_last_txnid;
}

static void judge(const struct call *c, size_t before)
{
	json_object *o = NULL, *v = NULL;
	struct err e;

	if (c->type == NULL && c->out.len > 0)
		DEMAND(json_read(buf_str(&c->out), c->out.len, &o, &e) == 0);
	DEMAND(c->status >= 200 && c->status < 600 && c->status != 500);
	if (c->status >= 400) {
		DEMAND(json_object_object_get_ex(o, "code", &v) && json_object_get_int(v) == c->status);
		DEMAND(json_object_object_get_ex(o, "message", &v) && json_object_get_string_len(v) > 0);
	}
	/* 429 and 503 come after a row was reserved */
	if (c->status >= 400 && c->status < 429)
		DEMAND(last_commit() == before);
	json_object_put(o);
}

static void serve(struct call *c, char table)
{
	switch (table) {
	case 't': route_call(teams_routes, teams_routes_count, c); break;
	case 'e': route_call(events_routes, events_routes_count, c); break;
	case 'p': route_call(templates_routes, templates_routes_count, c); break;
	case 'd': route_call(doors_routes, doors_routes_count, c); break;
	default: route_call(sandboxes_routes, sandboxes_routes_count, c);
	}
}

static void request(char *text, size_t n)
{
	char *target = memchr(text, ' ', n), *body = memchr(text, '\n', n), *q;
	struct buf room;
	size_t before;
	struct call c;

	if (target == NULL || body == NULL || body < target)
		return;
	*target++ = '\0';
	*body++ = '\0';
	buf_init(&room, 65536);
	fill(target, &room);
	if (buf_failed(&room))
		return;
	call_init(&c, 65536);
	call_reset(&c);
	c.d = &world->d;
	c.header = header;
	c.method = text;
	q = strchr(buf_str(&room), '?');
	if (q != NULL)
		*q++ = '\0';
	c.path = buf_str(&room);
	c.query = q != NULL ? q : "";
	buf_add(&c.body, body, n - (size_t)(body - text));
	buf_addc(&c.body, '\0');
	c.body.len--;
	before = last_commit();
	serve(&c, text[-2]);
	judge(&c, before);
	call_release(&c);
	buf_release(&room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 3)
		return 0;
	world_ready();
	sandbox_ready();
	note_use();
	text = malloc(size + 1);
	DEMAND(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	credentials = text[1];
	request(text + 2, size - 2);
	free(text);
	return 0;
}
