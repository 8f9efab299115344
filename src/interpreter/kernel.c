#include "config.h"

#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/json.h"
#include "hutch/log.h"
#include "hutch/when.h"
#include "kernel_process.h"
#include "language.h"

#define START_US (50 * US_PER_S)         /* from the start of the process to the first answer; clients wait 60 s for the head of theirs */
#define SEND_MS 10000
#define LOOK_NS 2000000                  /* between two looks for the kernel's sockets */
#define ASK_MS 200                       /* for an answer that may have been sent before we had subscribed */

/* ---- start and end ---- */

bool kernel_alive(const struct kernel *k)
{
	struct pollfd p = { .fd = k->pidfd, .events = POLLIN };

	return k->pidfd >= 0 && !k->broken && poll(&p, 1, 0) == 0;
}

void kernel_end(struct kernel *k)
{
	if (k == NULL)
		return;
	if (k->pid > 0)
		process_end(k->pid, k->pidfd);
	if (k->life >= 0)
		close(k->life);
	zmtp_close(&k->shell);
	zmtp_close(&k->iopub);
	zmtp_close(&k->control);
	buf_release(&k->in);
	kernel_place_remove(&k->place);
	free(k);
}

static struct kernel *fresh(const struct language *lang)
{
	struct kernel *k = calloc(1, sizeof *k);

	if (k == NULL)
		return NULL;
	k->lang = lang;
	kernel_place_init(&k->place);
	k->pidfd = k->life = k->shell.fd = k->iopub.fd = k->control.fd = -1;
	buf_init(&k->in, LINE_MAX_BYTES + 65536);
	random_uuid(k->session);
	return k;
}

static bool is_lines(const struct kernel *k)
{
	return k->lang->wire == WIRE_LINES;
}

/* A kernel that does not know of descriptor 3 is to end with us, too: the end of our side of it kills its group. */
static void tie(int fd, pid_t pid)
{
	if (fcntl(fd, F_SETOWN, -pid) < 0 || fcntl(fd, F_SETSIG, SIGKILL) < 0 || fcntl(fd, F_SETFL, O_ASYNC) < 0)
		log_warn("a kernel's life line: %s", strerror(errno));
}

static int start_process(struct kernel *k, const struct argv *argv, const char *cwd, struct err *e)
{
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	k->life = pair[0];
	rc = process_start(argv, cwd, pair[1], &k->pid, &k->pidfd, e);
	if (rc == 0 && !is_lines(k))
		tie(pair[1], k->pid);
	close(pair[1]);
	return rc;
}

static int launch(struct kernel *k, const char *name, const char *run_dir, const char *cwd, struct err *e)
{
	char file[KERNEL_FILE] = "";
	struct argv argv;
	int rc;

	if (!is_lines(k)) {
		uint8_t key[32];

		random_bytes(key, sizeof key);
		hex_encode(key, sizeof key, k->key);
		if (kernel_place_make(&k->place, k->lang->wire == WIRE_TCP, run_dir, k->session, k->key, file, e) < 0)
			return -1;
	}
	if (language_argv(k->lang, name, run_dir, file, &argv, e) < 0)
		return -1;
	k->by_message = argv.by_message;
	rc = start_process(k, &argv, cwd, e);
	argv_release(&argv);
	if (rc < 0 && e->kind == ERR_NOT_FOUND && k->lang->needs != NULL)
		err_set(e, ERR_UNAVAILABLE, "Failed to create context: the %s kernel is not installed in this sandbox (%s)", name, k->lang->needs);
	return rc;
}

/* Its end before it was ready tells why in its log, and by its status if it is one of our scripts. */
static int died(const struct kernel *k, const char *name, struct err *e)
{
	return k->lang->needs != NULL ?
		err_set(e, ERR_UNAVAILABLE, "Failed to create context: the %s kernel does not start in this sandbox (%s)", name, k->lang->needs) :
		err_set(e, ERR_UNAVAILABLE, "Failed to create context: the %s kernel does not start in this sandbox", name);
}

static int connect_one(struct kernel *k, const char *name, struct zmtp *z, enum kernel_socket which, const char *type, int64_t until, struct err *e)
{
	const struct timespec pause = { 0, LOOK_NS };
	struct zmtp_place at;

	kernel_place_of(&k->place, which, &at);
	while (zmtp_connect(z, &at, type, strcmp(type, "SUB") == 0 ? "" : k->session, 2000, e) < 0) {
		if (!kernel_alive(k))
			return died(k, name, e);
		if (boot_us() > until)
			return err_wrap(e, "Failed to create context");
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Any message of the iopub channel for `id` shows that our subscription holds. */
static bool heard(struct kernel *k, const char *id, int timeout_ms)
{
	int64_t until = boot_us() + timeout_ms * US_PER_MS;
	bool found = false;

	while (!found && kernel_alive(k) && boot_us() < until) {
		struct pollfd p[KERNEL_FDS];
		struct zmtp_msg m;
		struct kmsg msg;
		struct err ignored;

		kernel_pollfds(k, p);
		poll(p, KERNEL_FDS, (int)((until - boot_us()) / US_PER_MS) + 1);
		kernel_fill(k);
		while (zmtp_next(&k->shell, &m) > 0)
			continue;
		while (zmtp_next(&k->iopub, &m) > 0)
			found = wire_parse(&m, k->key, id, &msg, &ignored) == 1 || found;
	}
	return found;
}

static int send_message(struct kernel *k, struct zmtp *z, const char *type, struct span content, const char *msg_id, struct err *e)
{
	struct wire_out out;
	int rc;

	if (wire_build(k->key, k->session, msg_id, type, content, &out, e) < 0)
		return -1;
	rc = zmtp_send(z, out.frame, sizeof out.frame / sizeof out.frame[0], SEND_MS, e);
	buf_release(&out.text);
	return rc;
}

/* A first cell that nobody sees: what a kernel loads only then is loaded before somebody waits for it. It has all the time of the start:
 * one that is left running could not be hidden later, and kernels that count silent cells would count it. */
static void run_in(struct kernel *k, int64_t until)
{
	char id[ID_LEN];
	struct kmsg m;
	struct err ignored;
	bool done = kernel_execute(k, (struct span){ "1", 1 }, true, id, &ignored) < 0;

	while (!done && boot_us() < until && kernel_alive(k)) {
		struct pollfd p[KERNEL_FDS];

		kernel_pollfds(k, p);
		poll(p, KERNEL_FDS, (int)((until - boot_us()) / US_PER_MS) + 1);
		kernel_fill(k);
		while (!done && kernel_next(k, id, &m) > 0) {
			kernel_hide(k, &m);
			done = strcmp(m.type, "status") == 0 && span_is(span_member(m.content, "execution_state"), "idle");
		}
	}
}

static int await_jupyter(struct kernel *k, const char *name, struct err *e)
{
	int64_t until = boot_us() + START_US;
	char id[ID_LEN];                 /* of all requests: a slow kernel's answer to an earlier one shows it as well */

	random_uuid(id);
	if (connect_one(k, name, &k->iopub, KERNEL_IOPUB, "SUB", until, e) < 0 ||
	    connect_one(k, name, &k->shell, KERNEL_SHELL, "DEALER", until, e) < 0 ||
	    connect_one(k, name, &k->control, KERNEL_CONTROL, "DEALER", until, e) < 0)
		return -1;
	while (boot_us() < until) {
		if (!kernel_alive(k) || send_message(k, &k->shell, "kernel_info_request", (struct span){ "{}", 2 }, id, e) < 0)
			return died(k, name, e);
		if (heard(k, id, ASK_MS)) {
			kernel_place_taken(&k->place);
			run_in(k, until);
			return 0;
		}
	}
	return err_set(e, ERR_TIMEOUT, "Failed to create context: the %s kernel does not answer", name);
}

static int await_lines(struct kernel *k, const char *name, struct err *e)
{
	int64_t until = boot_us() + START_US;

	while (boot_us() < until) {
		struct pollfd p[KERNEL_FDS];
		struct kmsg msg;
		int got;

		kernel_pollfds(k, p);
		poll(p, KERNEL_FDS, 1000);
		kernel_fill(k);
		while ((got = kernel_next(k, NULL, &msg)) > 0)
			if (strcmp(msg.type, "ready") == 0)
				return 0;
		if (got < 0)
			return died(k, name, e);
	}
	return err_set(e, ERR_TIMEOUT, "Failed to create context: the %s kernel does not answer", name);
}

int kernel_start(const struct language *lang, const char *name, const char *run_dir, const char *cwd, struct kernel **out, struct err *e)
{
	struct kernel *k;
	struct stat st;

	if (stat(cwd, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_NOT_FOUND, "Failed to set working directory");
	k = fresh(lang);
	if (k == NULL)
		return err_set(e, ERR_INTERNAL, "out of memory");
	if (launch(k, name, run_dir, cwd, e) == 0 && (is_lines(k) ? await_lines : await_jupyter)(k, name, e) == 0) {
		*out = k;
		return 0;
	}
	kernel_end(k);
	return -1;
}

/* ---- cells ---- */

static void add_content(struct buf *b, const struct kernel *k, struct span code, bool silent)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_key(&w, "code");
	jw_strn(&w, code.p, code.n);
	jw_kbool(&w, "silent", silent);
	jw_kbool(&w, "store_history", !silent);
	jw_key(&w, "user_expressions");
	jw_raw(&w, "{}", 2);
	jw_kbool(&w, "stop_on_error", false);    /* nothing waits behind it; ipykernel would abort a next cell that comes at once */
	jw_kbool(&w, "allow_stdin", false);
	if (is_lines(k))
		jw_kstr(&w, "language", k->lang->name);
	jw_close(&w, '}');
}

static int send_line(struct kernel *k, struct span content, const char *msg_id, struct err *e)
{
	struct zmtp plain = { .fd = k->life };   /* its bytes go the same way */
	struct buf b;
	int rc;

	buf_init(&b, content.n + 4096);
	buf_addf(&b, "{\"type\":\"execute_request\",\"id\":\"%s\",\"content\":", msg_id);
	buf_add(&b, content.p, content.n);
	buf_adds(&b, "}\n");
	rc = buf_failed(&b) ? err_set(e, ERR_INTERNAL, "out of memory") : zmtp_send_raw(&plain, b.p, b.len, SEND_MS, e);
	buf_release(&b);
	return rc;
}

int kernel_execute(struct kernel *k, struct span code, bool silent, char msg_id[ID_LEN], struct err *e)
{
	struct buf content;
	struct span s;
	int rc;

	buf_init(&content, ZMTP_MESSAGE_MAX);
	add_content(&content, k, code, silent);
	random_uuid(msg_id);
	s = (struct span){ buf_str(&content), content.len };
	if (buf_failed(&content))
		rc = err_set(e, ERR_TOO_LARGE, "the code is too large");
	else
		rc = is_lines(k) ? send_line(k, s, msg_id, e) : send_message(k, &k->shell, "execute_request", s, msg_id, e);
	buf_release(&content);
	return rc;
}

void kernel_hide(struct kernel *k, const struct kmsg *m)
{
	if (strcmp(m->type, "execute_input") == 0)
		k->uncounted++;
}

void kernel_interrupt(struct kernel *k)
{
	static const char line[] = "{\"type\":\"interrupt_request\"}\n";
	char id[ID_LEN];
	struct err e;
	int rc;

	random_uuid(id);
	if (is_lines(k))
		rc = zmtp_send_raw(&(struct zmtp){ .fd = k->life }, line, sizeof line - 1, SEND_MS, &e);
	else if (k->by_message)
		rc = send_message(k, &k->control, "interrupt_request", (struct span){ "{}", 2 }, id, &e);
	else
		rc = kill(k->pid, SIGINT) < 0 ? err_sys(&e, "kernel") : 0;
	if (rc < 0)
		log_warn("interrupt: %s", e.text);
}

/* ---- messages ---- */

void kernel_pollfds(const struct kernel *k, struct pollfd p[KERNEL_FDS])
{
	p[0] = (struct pollfd){ .fd = k->pidfd, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = is_lines(k) ? k->life : k->iopub.fd, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = k->shell.fd, .events = POLLIN };
}

static void fill_line(struct kernel *k)
{
	char *room;
	ssize_t n;

	buf_cut(&k->in, k->at);
	k->at = 0;
	room = buf_room(&k->in, 65536);
	n = room != NULL ? recv(k->life, room, 65536, MSG_DONTWAIT) : 0;

	if (n > 0)
		k->in.len += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		k->broken = true;                /* closed, or a line without end */
}

void kernel_fill(struct kernel *k)
{
	if (is_lines(k))
		fill_line(k);
	else if (zmtp_fill(&k->iopub) < 0 || zmtp_fill(&k->shell) < 0)
		k->broken = true;
	if (!is_lines(k) && zmtp_fill(&k->control) == 0)
		buf_reset(&k->control.in);       /* answers to interrupts */
}

/* One line as a message; parent NULL takes any. 1, 0: another's, -1. */
static int parse_line(struct span line, const char *parent, struct kmsg *out)
{
	memset(out, 0, sizeof *out);
	if (!span_check(line))
		return -1;
	if (parent != NULL && !span_is(span_member(line, "parent"), parent))
		return 0;
	span_copy(span_member(line, "type"), out->type, sizeof out->type);
	out->content = span_member(line, "content");
	return 1;
}

static int next_line(struct kernel *k, const char *parent, struct kmsg *out)
{
	int got = 0;

	while (got == 0) {
		const char *from = buf_str(&k->in) + k->at, *end = memchr(from, '\n', k->in.len - k->at);

		if (end == NULL)
			return k->broken ? -1 : 0;
		k->at += (size_t)(end - from) + 1;
		got = parse_line((struct span){ from, (size_t)(end - from) }, parent, out);
	}
	return got;
}

/* From either channel: iopub first, so that what a cell shows is not overtaken by its reply. */
static int next_jupyter(struct kernel *k, const char *parent, struct kmsg *out)
{
	struct zmtp *const from[] = { &k->iopub, &k->shell };
	struct zmtp_msg m;
	struct err e;

	for (size_t i = 0; i < 2; i++) {
		int got;

		while ((got = zmtp_next(from[i], &m)) > 0) {
			int mine = wire_parse(&m, k->key, parent, out, &e);

			if (mine == 1)
				return 1;
			if (mine < 0)
				log_warn("%s", e.text);  /* and it is dropped */
		}
		if (got < 0)
			return -1;
	}
	return k->broken ? -1 : 0;
}

int kernel_next(struct kernel *k, const char *msg_id, struct kmsg *out)
{
	int got = is_lines(k) ? next_line(k, msg_id, out) : next_jupyter(k, msg_id, out);

	if (got < 0)
		k->broken = true;
	return got;
}
