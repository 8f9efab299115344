/* hutchctl: teams, keys, templates, sandboxes, and a client's environment. */
#include "ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hutch/json.h"
#include "hutch/log.h"
#include "hutch/when.h"

static const struct option no_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

/* Only --help; the operands start at optind. 0, or -1 with *status set. */
static int operands(struct ctl *ctl, int argc, char **argv, int min, int max, int *status)
{
	if (ctl_option(ctl, argc, argv, no_options, status) == -2)
		return -1;
	if (argc - optind < min || argc - optind > max) {
		*status = ctl_usage(ctl);
		return -1;
	}
	return 0;
}

enum { O_IMAGE = 1, O_CPU, O_MEMORY, O_DISK, O_COMMAND, O_READY, O_TEAM, O_PUBLIC, O_URL, O_TLS, O_SANDBOXES, O_HOURS, O_REASON };

/* A word and a team: what the team may do. */
static const struct { const char *word; enum team_state state; } standings[] = {
	{ "block", TEAM_BLOCKED }, { "ban", TEAM_BANNED }, { "unblock", TEAM_OPEN },
};

static int team_standing(struct ctl *ctl, enum team_state state, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "reason", required_argument, NULL, O_REASON }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	const char *reason = NULL, *name = argv[1];
	struct err e;
	int c, status;

	while ((c = ctl_option(ctl, argc - 1, argv + 1, longs, &status)) != -1) {
		if (c == -2)
			return status;
		reason = optarg;
	}
	if (optind != argc - 1 || (reason != NULL && state != TEAM_BLOCKED))
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	return team_state_set(&ctl->domain, name, state, reason, &e) < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}

int ctl_team(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "sandboxes", required_argument, NULL, O_SANDBOXES }, { "hours", required_argument, NULL, O_HOURS },
		{ "help", no_argument, NULL, 'h' }, { 0 }
	};
	const char *name = argc >= 2 && argv[1][0] != '-' ? argv[1] : NULL;
	long sandboxes = 0, hours = 0;
	struct team_rec team;
	struct err e;
	char key[45];
	int c, status;

	for (size_t i = 0; name != NULL && argc >= 3 && argv[2][0] != '-' && i < sizeof standings / sizeof standings[0]; i++)
		if (strcmp(name, standings[i].word) == 0)
			return team_standing(ctl, standings[i].state, argc - 1, argv + 1);
	if (name != NULL) {                          /* it may come before the options */
		argc--;
		argv++;
	}
	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (c == O_SANDBOXES ? ctl_number(ctl, "sandboxes", optarg, 1, 1000000, &sandboxes) < 0 :
				       ctl_number(ctl, "hours", optarg, 1, 8760, &hours) < 0)
			return 2;
	}
	if (name == NULL && optind < argc)
		name = argv[optind++];
	if (name == NULL || optind != argc)
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	if (team_make(&ctl->domain, name, &team, key, &e) < 0 ||
	    ((sandboxes != 0 || hours != 0) && team_limit(&ctl->domain, name, (uint32_t)sandboxes, (uint32_t)hours, &e) < 0))
		return ctl_failed(ctl, "%s", e.text);
	puts(key);
	return 0;
}

/* ---- keys ---- */

static int print_key(void *ctx, const struct key_rec *r, struct err *e)
{
	char made[WHEN_LEN], used[WHEN_LEN] = "-";

	(void)ctx;
	(void)e;
	when_format(r->created_us, made);
	if (r->used_us > 0)
		when_format(r->used_us, used);
	printf("%s  %-5s  %s  %s  %-27s  %s\n", r->id, r->kind == KEY_API ? "key" : "token", r->mask, made, used, r->name);
	return 0;
}

static int list_keys(struct ctl *ctl, const char *name, struct err *e)
{
	struct team_rec team;
	struct txn *t;
	int found;

	if (txn_read(ctl->domain.store, &t, e) < 0)
		return -1;
	found = store_team_by_name(t, name, &team, e);
	txn_abort(t);
	if (found != 1)
		return found < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "there is no team \"%s\"", name);
	if (key_each(&ctl->domain, team.id, KEY_API, print_key, NULL, e) < 0)
		return -1;
	return key_each(&ctl->domain, team.id, KEY_TOKEN, print_key, NULL, e);
}

static int new_key(struct ctl *ctl, const char *team, enum key_kind kind, struct err *e)
{
	char key[KEY_LEN];

	if (team_key_new(&ctl->domain, team, kind, key, e) < 0)
		return -1;
	puts(key);
	return 0;
}

static int import_keys(struct ctl *ctl, const char *path, struct err *e)
{
	int added, ended;

	if (key_file_import(&ctl->domain, path, false, &added, &ended, e) < 0)
		return -1;
	printf("%d\n", added);
	return 0;
}

int ctl_key(struct ctl *ctl, int argc, char **argv)
{
	static const char *const words[] = { "new", "token", "list", "revoke", "import" };
	const char *word, *what;
	struct err e;
	size_t i = 0;
	int status;

	if (operands(ctl, argc, argv, 2, 2, &status) < 0)
		return status;
	word = argv[optind];
	what = argv[optind + 1];
	while (i < 5 && strcmp(word, words[i]) != 0)
		i++;
	if (i == 5)
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	switch (i) {
	case 0: status = new_key(ctl, what, KEY_API, &e); break;
	case 1: status = new_key(ctl, what, KEY_TOKEN, &e); break;
	case 2: status = list_keys(ctl, what, &e); break;
	case 3: status = team_key_revoke(&ctl->domain, what, &e); break;
	default: status = import_keys(ctl, what, &e);
	}
	return status < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}

/* ---- template ---- */

static int template_number(const struct ctl *ctl, const char *name, long min, long max, uint32_t *out)
{
	long n;

	if (ctl_number(ctl, name, optarg, min, max, &n) < 0)
		return -1;
	*out = (uint32_t)n;
	return 0;
}

static int template_option(const struct ctl *ctl, int c, struct template_spec *s)
{
	switch (c) {
	case O_IMAGE: s->image = optarg; return 0;
	case O_CPU: return template_number(ctl, "cpu", 1, 32, &s->cpu_count);
	case O_MEMORY: return template_number(ctl, "memory", 128, 1 << 20, &s->memory_mb);
	case O_DISK: return template_number(ctl, "disk", 16, 1 << 24, &s->disk_mb);
	case O_COMMAND: s->command = optarg; return 0;
	case O_READY: return template_number(ctl, "ready-port", 1, 65535, &s->ready_port);
	case O_TEAM: s->team = optarg; return 0;
	default: s->is_public = true; return 0;
	}
}

/* The start command must be a JSON array of strings before it becomes a record. */
static int check_command(const struct ctl *ctl, const char *text)
{
	json_object *o = NULL;
	struct err e;
	bool good = json_read(text, strlen(text), &o, &e) == 0 && json_object_is_type(o, json_type_array) &&
		    json_object_array_length(o) > 0;

	for (size_t i = 0; good && i < json_object_array_length(o); i++)
		good = json_object_is_type(json_object_array_get_idx(o, i), json_type_string);
	json_object_put(o);
	return good ? 0 : ctl_failed(ctl, "--command must be a JSON array of strings");
}

static int template_apply(struct ctl *ctl, const struct template_spec *s)
{
	struct template_rec t;
	struct err e;

	if (ctl_open(ctl) < 0)
		return 1;
	if (template_enrol(&ctl->domain, s, &t, &e) < 0)
		return ctl_failed(ctl, "%s", e.text);
	puts(t.id);
	template_rec_release(&t);
	if (template_push_shapes(&ctl->domain, &e) < 0)
		log_warn("the node was not told, it learns the template at the first create: %s", e.text);
	return 0;
}

int ctl_template(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "image", required_argument, NULL, O_IMAGE }, { "cpu", required_argument, NULL, O_CPU },
		{ "memory", required_argument, NULL, O_MEMORY }, { "disk", required_argument, NULL, O_DISK },
		{ "command", required_argument, NULL, O_COMMAND }, { "ready-port", required_argument, NULL, O_READY },
		{ "team", required_argument, NULL, O_TEAM },
		{ "public", no_argument, NULL, O_PUBLIC }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct template_spec s = { .team = DEFAULT_TEAM };
	int c, status;

	if (argc >= 2 && argv[1][0] != '-') {        /* the name may come before the options */
		s.alias = argv[1];
		argc--;
		argv++;
	}
	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (template_option(ctl, c, &s) < 0)
			return 2;
	}
	if (s.alias == NULL && optind < argc)
		s.alias = argv[optind++];
	if (s.alias == NULL || s.image == NULL || optind != argc)
		return ctl_usage(ctl);
	if (s.command != NULL && check_command(ctl, s.command) != 0)
		return 2;
	return template_apply(ctl, &s);
}

/* ---- sandboxes ---- */

static const char *state_name(uint8_t state)
{
	static const char *const names[] = { "?", "starting", "running", "pausing", "paused", "resuming", "snapshotting", "killing" };

	return names[state < sizeof names / sizeof names[0] ? state : 0];
}

struct listing {
	char team[UUID_LEN];         /* "" = all */
	struct buf text;             /* printed after the transaction: standard output may be slow */
};

static int add_row(void *ctx, const struct sandbox_rec *r, struct err *e)
{
	struct listing *l = ctx;
	char started[WHEN_LEN] = "-", end[WHEN_LEN] = "-";

	if (l->team[0] != '\0' && strcmp(l->team, r->team) != 0)
		return 0;
	if (r->started_us > 0)
		when_format(r->started_us, started);
	if (r->end_us > 0)
		when_format(r->end_us, end);
	buf_addf(&l->text, "%s  %-12s  %-27s  %-27s  %s  %s\n", r->id, state_name(r->state), started, end,
	       r->alias[0] != '\0' ? r->alias : r->template_id, r->machine[0] != '\0' ? r->machine : "-");
	return buf_failed(&l->text) ? err_set(e, ERR_INTERNAL, "out of memory") : 0;
}

/* Id of the team of that name into id ("" for NULL). */
static int team_id(struct txn *t, const char *name, char id[UUID_LEN], struct err *e)
{
	struct team_rec team;
	int found;

	id[0] = '\0';
	if (name == NULL)
		return 0;
	found = store_team_by_name(t, name, &team, e);
	if (found == 1)
		memcpy(id, team.id, UUID_LEN);
	return found == 0 ? err_set(e, ERR_NOT_FOUND, "there is no team \"%s\"", name) : found < 0 ? -1 : 0;
}

int ctl_list(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "team", required_argument, NULL, O_TEAM }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct listing l = { 0 };
	const char *team = NULL;
	struct txn *t;
	struct err e;
	int c, status;

	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		team = optarg;
	}
	if (optind != argc)
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	if (txn_read(ctl->domain.store, &t, &e) < 0)
		return ctl_failed(ctl, "%s", e.text);
	buf_init(&l.text, 1U << 30);
	status = team_id(t, team, l.team, &e);
	if (status == 0)
		status = store_walk_sandboxes(t, "", add_row, &l, &e);
	txn_abort(t);
	fputs(buf_str(&l.text), stdout);
	buf_release(&l.text);
	return status < 0 ? ctl_failed(ctl, "%s", e.text) : 0;
}

int ctl_kill(struct ctl *ctl, int argc, char **argv)
{
	struct err e;
	int status = 0;

	if (operands(ctl, argc, argv, 1, argc, &status) < 0)
		return status;
	if (ctl_open(ctl) < 0)
		return 1;
	for (int i = optind; i < argc; i++)
		if (sandbox_kill(&ctl->domain, NULL, argv[i], "admin", &e) < 0)
			status = ctl_failed(ctl, "%s", e.text);
	return status;
}

/* ---- env ---- */

/* text in single quotes, as a shell reads it */
static void print_export(const char *name, const char *text)
{
	printf("export %s='", name);
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
	puts("'");
}

int ctl_env(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "team", required_argument, NULL, O_TEAM }, { "url", required_argument, NULL, O_URL },
		{ "tls", no_argument, NULL, O_TLS }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	const char *team = DEFAULT_TEAM, *url = NULL;
	bool tls = false;
	char made[512], key[45];
	struct team_rec rec;
	struct err e;
	int c, status;

	while ((c = ctl_option(ctl, argc, argv, longs, &status)) != -1) {
		if (c == -2)
			return status;
		if (c == O_TEAM)
			team = optarg;
		else if (c == O_TLS)
			tls = true;
		else
			url = optarg;
	}
	if (optind != argc || (tls && url != NULL))
		return ctl_usage(ctl);
	if (ctl_open(ctl) < 0)
		return 1;
	if (team_make(&ctl->domain, team, &rec, key, &e) < 0)
		return ctl_failed(ctl, "%s", e.text);
	snprintf(made, sizeof made, tls ? "https://api.%s" : "http://%s", ctl->conf.domain);
	if (url == NULL)
		url = made;
	if (!tls) {                          /* else clients make them of the domain */
		print_export("E2B_API_URL", url);
		print_export("E2B_SANDBOX_URL", url);
	}
	print_export("E2B_TWIN_URL", url);
	print_export("E2B_API_KEY", key);
	print_export("E2B_DOMAIN", ctl->conf.domain);
	return 0;
}
