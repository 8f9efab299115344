/* main() of every responder. */
#include "front.h"

#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "hutch/log.h"
#include "hutch/opt.h"

struct options {
	const char *config;
	int threads;
	bool check;
};

static int take_options(int argc, char **argv, const char *name, struct options *o)
{
	const struct opt_program program = {
		.name = name, .synopsis = "[-c FILE] [-t THREADS] [-n]",
		.about = "Serves FastCGI on the listening socket that is standard input (spawn-fcgi, lighttpd, systemd), or one\n"
			 "request as a plain CGI program (options are not read then; HUTCH_CONFIG names the file).",
	};
	const struct opt rows[] = {
		OPT_CONFIG(&o->config),
		{ .letter = 't', .arg = "THREADS", .number = &o->threads, .min = 1, .max = 1024, .help = "requests served at once by this process (default 8)" },
		OPT_CHECK(&o->check),
	};

	return opt_take(argc, argv, &program, rows, sizeof rows / sizeof rows[0]);
}

static bool listening(int fd)
{
	int on = 0;
	socklen_t n = sizeof on;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0 && on != 0;
}

static int run(struct front *f, const struct options *o, bool fcgi, bool cgi)
{
	struct err e;
	int status;

	if (config_read(&f->conf, o->config, &e) < 0) {
		log_error("%s", e.text);
		return 1;
	}
	if ((o->check || fcgi) && start_check(&f->conf, &e) < 0) {
		log_error("does not start: %s", e.text);
		config_release(&f->conf);
		return 1;
	}
	if (o->check)
		status = 0;
	else if (fcgi)
		status = fcgi_run(f, o->threads);
	else if (cgi)
		status = cgi_run(f);
	else
		status = 2;
	if (status == 2)
		fprintf(stderr, "%s: standard input is no listening socket and this is no CGI environment; see -h\n", f->name);
	if (atomic_load(&f->open))
		domain_close(&f->domain);
	config_release(&f->conf);
	return status;
}

static int responder(struct front *f, int argc, char **argv)
{
	struct options o = { .threads = 8 };
	bool fcgi = listening(0), cgi = !fcgi && getenv("REQUEST_METHOD") != NULL;
	int status;

	log_init(f->name);
	/* A web server may turn a query without "=" into arguments (RFC 3875 section 4.4): they come from the client. */
	status = cgi ? -1 : take_options(argc, argv, f->name, &o);
	if (status >= 0)
		return status;
	pthread_mutex_init(&f->lock, NULL);
	status = run(f, &o, fcgi, cgi);
	pthread_mutex_destroy(&f->lock);
	return status;
}

int responder_main(int argc, char **argv, const char *name, const struct route *table, size_t n)
{
	struct front f = { .name = name, .table = table, .rows = n };

	return responder(&f, argc, argv);
}

int responder_main_raw(int argc, char **argv, const char *name, void (*fn)(struct call *c))
{
	struct front f = { .name = name, .raw = fn };

	return responder(&f, argc, argv);
}
