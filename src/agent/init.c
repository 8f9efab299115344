/* Identity of the sandbox: token, environment, defaults; set by POST /init or, trusted, over the control socket. */
#include "config.h"

#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "hutch/crypto.h"
#include "hutch/log.h"
#include "hutch/sanitize.h"
#include "hutch/envd.h"
#include "hutch/when.h"

#define INIT_BODY_MAX (1 << 20)
#define TOKEN_TEXT_MAX 1024
#define ID_MAX 128
#define AGENT_STACK (64 * 1024)
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* What an init asks for; strings are borrowed from the request. NULL: not given. */
struct identity {
	const char *profile, *folder, *program;
	const char *token, *user, *workdir, *sandbox_id, *template_id, *timestamp;
	const char *ca_bundle, *events_ip;
	json_object *env;
	int64_t cpu_count, memory_mb;
};

static void write_marks(const struct identity *id);

int agent_init(struct agent *a, const char *default_user, struct err *e)
{
	const char *path = getenv("PATH");

	*a = (struct agent){ .init_us = INT64_MIN };
	pthread_mutex_init(&a->lock, NULL);
	journal_init(&a->journal);
	a->env = json_object_new_object();
	a->default_user = strdup(default_user != NULL ? default_user : "root");
	a->default_workdir = strdup("");
	a->sandbox_id = strdup("");
	a->template_id = strdup("");
	a->path = strdup(path != NULL && *path != '\0' ? path : DEFAULT_PATH);
	a->events_ip = strdup("");
	if (a->env == NULL || !a->events_ip || !a->default_user || !a->default_workdir || !a->sandbox_id || !a->template_id || !a->path)
		return err_set(e, ERR_INTERNAL, "out of memory");
	if (getpid() == 1)
		write_marks(&(struct identity){ 0 });   /* the files made ahead: only their text is left to the init */
	return 0;
}

void agent_release(struct agent *a)
{
	json_object_put(a->env);
	free(a->token);
	free(a->token_hash);
	free(a->default_user);
	free(a->default_workdir);
	free(a->sandbox_id);
	free(a->template_id);
	free(a->events_ip);
	free(a->path);
	free(a->folder);
	free(a->program);
	journal_release(&a->journal);
	pthread_mutex_destroy(&a->lock);
}

int agent_thread(void *(*run)(void *), void *arg, struct err *e)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (!SANITIZED)
		pthread_attr_setstacksize(&attr, AGENT_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	errno = rc;
	return rc == 0 ? 0 : err_sys(e, "thread");
}

int env_check(json_object *map, const char *what, struct err *e)
{
	size_t bytes = 0;

	if (json_object_object_length(map) > ENV_NAMES_MAX)
		return err_set(e, ERR_INVALID, "%s holds more than %d variables", what, ENV_NAMES_MAX);
	json_object_object_foreach(map, name, v) {
		size_t n = (size_t)json_object_get_string_len(v);

		if (*name == '\0' || strchr(name, '=') != NULL)
			return err_set(e, ERR_INVALID, "%s: \"%.64s\" is no name of a variable", what, name);
		if (strlen(json_object_get_string(v)) != n)
			return err_set(e, ERR_INVALID, "%s: the value of \"%.64s\" holds a NUL character", what, name);
		bytes += strlen(name) + n + 2;
	}
	if (bytes > ENV_BYTES_MAX)
		return err_set(e, ERR_INVALID, "%s is larger than %d bytes", what, ENV_BYTES_MAX);
	return 0;
}

static int read_identity(json_object *in, struct identity *id, struct err *e)
{
	*id = (struct identity){ 0 };
	if (json_get_str(in, "accessToken", TOKEN_TEXT_MAX, &id->token, e) < 0 ||
	    json_get_str(in, "defaultUser", 255, &id->user, e) < 0 ||
	    json_get_str(in, "defaultWorkdir", PATH_MAX - 1, &id->workdir, e) < 0 ||
	    json_get_str(in, "sandboxId", ID_MAX, &id->sandbox_id, e) < 0 ||
	    json_get_str(in, "templateId", ID_MAX, &id->template_id, e) < 0 ||
	    json_get_str(in, "timestamp", 64, &id->timestamp, e) < 0 || json_get_str(in, "profile", 64, &id->profile, e) < 0 ||
	    json_get_str(in, "folder", PATH_MAX - 1, &id->folder, e) < 0 ||
	    json_get_str(in, "program", PATH_MAX - 1, &id->program, e) < 0 ||
	    json_get_int(in, "cpuCount", 0, 4096, &id->cpu_count, e) < 0 ||
	    json_get_int(in, "memoryMB", 0, 1 << 30, &id->memory_mb, e) < 0 ||
	    json_get_strmap(in, "envVars", &id->env, e) < 0)
		return -1;
	if (id->token != NULL && (*id->token == '\0' || strchr(id->token, '\\') != NULL))
		return err_set(e, ERR_INVALID, "accessToken must not be empty or hold a backslash");
	return id->env != NULL ? env_check(id->env, "envVars", e) : 0;
}

/* Under the lock; value NULL leaves what is there. */
static void set_text(char **where, const char *value)
{
	char *copy = value != NULL ? strdup(value) : NULL;

	if (copy != NULL) {
		free(*where);
		*where = copy;
	}
}

/* Under the lock. A deep copy, since json-c counts references without atomics. */
static void set_env(struct agent *a, json_object *env)
{
	json_object *copy = NULL;

	if (env == NULL)
		copy = json_object_new_object();
	else if (json_object_deep_copy(env, &copy, NULL) < 0)
		copy = NULL;
	if (copy != NULL) {
		json_object_put(a->env);
		a->env = copy;
	}
}

/* Under the lock. NULL clears. */
static void set_token(struct agent *a, const char *token)
{
	if (a->token != NULL)
		explicit_bzero(a->token, strlen(a->token));
	free(a->token);
	a->token = token != NULL ? strdup(token) : NULL;
}

static const char *if_filled(const char *s)
{
	return s != NULL && *s != '\0' ? s : NULL;
}

/* ---- over the control socket ---- */

static void mark(const char *name, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/run/e2b/%s", name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		log_debug("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Programs tell a sandbox, and which one, by these files. */
static void write_marks(const struct identity *id)
{
	if (mkdir("/run/e2b", 0755) < 0 && errno != EEXIST)
		log_debug("/run/e2b: %s", strerror(errno));
	mark(".E2B_SANDBOX", "true");
	mark(".E2B_SANDBOX_ID", id->sandbox_id != NULL ? id->sandbox_id : "");
	mark(".E2B_TEMPLATE_ID", id->template_id != NULL ? id->template_id : "");
}

/* Before the identity: what is admitted must not be wider than what the node told, not for a moment. */
static int take_profile(struct agent *a, const struct identity *id, struct err *e)
{
	if (id->profile == NULL)
		return light_init(a, NULL, NULL, NULL, e);
	if (strcmp(id->profile, "light") != 0)
		return err_set(e, ERR_INVALID, "profile \"%s\" is unknown", id->profile);
	return light_init(a, id->folder != NULL ? id->folder : "", id->program, id->user != NULL && *id->user != '\0' ? id->user : "root", e);
}

int init_trusted(struct agent *a, json_object *in, struct err *e)
{
	struct identity id;

	if (read_identity(in, &id, e) < 0 || take_profile(a, &id, e) < 0)
		return -1;
	pthread_mutex_lock(&a->lock);
	set_token(a, id.token);
	set_env(a, id.env);
	set_text(&a->default_user, if_filled(id.user));
	set_text(&a->default_workdir, if_filled(id.workdir));
	set_text(&a->sandbox_id, id.sandbox_id);
	set_text(&a->template_id, id.template_id);
	a->cpu_count = id.cpu_count;
	a->memory_mb = id.memory_mb;
	pthread_mutex_unlock(&a->lock);
	if (getpid() == 1)
		write_marks(&id);       /* not on a host where the agent is tried out */
	return 0;
}

/* ---- POST /init ---- */

static bool hash_matches(const char *hash, const char *token)
{
	uint8_t sum[SHA512_LEN];
	char hex[2 * SHA512_LEN + 1];

	sha512(token, strlen(token), sum);
	hex_encode(sum, sizeof sum, hex);
	return secret_equal(hex, strlen(hex), hash, strlen(hash));
}

/* Under the lock. The rule of guest.md 2.2. */
static bool may_init(const struct agent *a, const char *token)
{
	if (a->token != NULL && token != NULL && secret_equal(token, strlen(token), a->token, strlen(a->token)))
		return true;
	if (a->token_hash != NULL && hash_matches(a->token_hash, token != NULL ? token : ""))
		return true;
	return a->token == NULL && a->token_hash == NULL;
}

/* What is there for E2B's own host. Its mounts need NFS, which is not had here: refused by name, never dropped. The clock is the machine's: a
 * timestamp only orders. */
static int read_setup(json_object *in, struct identity *id, struct err *e)
{
	json_object *mounts = NULL;

	if (json_get_str(in, "caBundle", INIT_BODY_MAX, &id->ca_bundle, e) < 0 || json_get_str(in, "hyperloopIP", 64, &id->events_ip, e) < 0 ||
	    json_get_arr(in, "volumeMounts", &mounts, e) < 0)
		return -1;
	if (mounts != NULL && json_object_array_length(mounts) > 0)
		return err_set(e, ERR_INVALID, "volumeMounts is not supported here");
	id->ca_bundle = if_filled(id->ca_bundle);
	id->events_ip = if_filled(id->events_ip);
	if (id->events_ip != NULL && !host_is_address(id->events_ip))
		return err_set(e, ERR_INVALID, "hyperloopIP must be an IP address");
	return 0;
}

static int set_up(const struct identity *id, struct err *e)
{
	if (id->ca_bundle != NULL && host_trust("", id->ca_bundle, e) < 0)
		return -1;
	return id->events_ip != NULL ? host_events("", id->events_ip, e) : 0;
}

/* May it, and is it news? */
static int judge(struct agent *a, const struct identity *id, int64_t us, bool *news, struct err *e)
{
	if (!may_init(a, id->token))
		return err_set(e, ERR_UNAUTHENTICATED, id->token == NULL ? "access token reset not authorized" :
			       "access token validation failed: mismatch");
	*news = id->timestamp == NULL || us > a->init_us;
	return 0;
}

/* Under the lock. */
static void take(struct agent *a, const struct identity *id, int64_t us)
{
	set_token(a, id->token);
	if (id->env != NULL)
		set_env(a, id->env);
	set_text(&a->default_user, if_filled(id->user));
	set_text(&a->default_workdir, if_filled(id->workdir));
	set_text(&a->events_ip, id->events_ip);
	if (id->timestamp != NULL)
		a->init_us = us;
}

/* Files are written without the lock; so who came between is judged anew. */
static int apply(struct agent *a, const struct identity *id, struct err *e)
{
	int64_t us = 0;
	bool news = false;
	int rc;

	if (id->timestamp != NULL && when_parse(id->timestamp, strlen(id->timestamp), &us) < 0)
		return err_set(e, ERR_INVALID, "timestamp must be RFC 3339");
	pthread_mutex_lock(&a->lock);
	rc = judge(a, id, us, &news, e);
	pthread_mutex_unlock(&a->lock);
	if (rc < 0 || (news && set_up(id, e) < 0))
		return -1;
	pthread_mutex_lock(&a->lock);
	rc = judge(a, id, us, &news, e);
	if (rc == 0 && news)
		take(a, id, us);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

void init_post(struct agent *a, struct h1_req *r)
{
	static const char lines[] = "Cache-Control: no-store\r\nX-Envd-Version: " ENVD_VERSION "\r\n";
	struct err e = { 0 };
	struct identity id;
	json_object *in = NULL;
	struct buf body;
	int rc;

	buf_init(&body, INIT_BODY_MAX);
	rc = h1_read_all(r, &body, &e);
	if (rc == 0)
		rc = json_read_object(buf_str(&body), body.len, &in, &e);
	if (rc == 0)
		rc = read_identity(in, &id, &e);
	if (rc == 0)
		rc = read_setup(in, &id, &e);
	if (rc == 0)
		rc = apply(a, &id, &e);
	if (rc == 0)
		h1_reply(r, 204, NULL, lines, NULL, 0);
	else
		h1_reply(r, e.kind == ERR_UNAUTHENTICATED ? 401 : 400, "text/plain; charset=utf-8", lines, e.text, strlen(e.text));
	json_object_put(in);
	buf_release(&body);
}

/* ---- GET /envs ---- */

json_object *env_all(struct agent *a)
{
	json_object *all = NULL;

	pthread_mutex_lock(&a->lock);
	if (json_object_deep_copy(a->env, &all, NULL) == 0) {
		json_object_object_add(all, "E2B_SANDBOX", json_object_new_string("true"));
		if (*a->sandbox_id != '\0')
			json_object_object_add(all, "E2B_SANDBOX_ID", json_object_new_string(a->sandbox_id));
		if (*a->template_id != '\0')
			json_object_object_add(all, "E2B_TEMPLATE_ID", json_object_new_string(a->template_id));
		if (*a->events_ip != '\0') {
			char url[80];

			snprintf(url, sizeof url, strchr(a->events_ip, ':') != NULL ? "http://[%s]" : "http://%s", a->events_ip);
			json_object_object_add(all, "E2B_EVENTS_ADDRESS", json_object_new_string(url));
		}
	}
	pthread_mutex_unlock(&a->lock);
	return all;
}

void envs_get(struct agent *a, struct h1_req *r)
{
	json_object *all = env_all(a);
	struct buf b;
	struct jw w;

	buf_init(&b, 8 * ENV_BYTES_MAX);
	jw_init(&w, &b);
	jw_open(&w, '{');
	if (all != NULL) {
		json_object_object_foreach(all, name, v)
			jw_kstr(&w, name, json_object_get_string(v));
	}
	jw_close(&w, '}');
	if (all != NULL && !buf_failed(&b))
		h1_reply(r, 200, "application/json", "Cache-Control: no-store\r\n", buf_str(&b), b.len);
	else
		rest_reply_error(r, 500, NULL, "out of memory");
	json_object_put(all);
	buf_release(&b);
}
