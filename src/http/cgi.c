/* Plain CGI (RFC 3875): the environment, standard input and standard output. */
#include "front.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "hutch/io.h"
#include "hutch/log.h"

static const char *cgi_header(const struct call *c, const char *cgi_name)
{
	(void)c;
	return getenv(cgi_name);
}

static ssize_t cgi_body(struct call *c, void *p, size_t n)
{
	ssize_t got;

	(void)c;
	do {
		got = read(STDIN_FILENO, p, n);
	} while (got < 0 && errno == EINTR);
	return got;
}

int cgi_run(struct front *f)
{
	struct call c;
	struct buf head;
	char *path = malloc(URI_MAX);
	int status = 1;

	if (path == NULL) {
		log_error("out of memory");
		return 1;
	}
	buf_init(&head, 32768);
	call_init(&c, (size_t)f->conf.body_max_kb << 10);
	c.header = cgi_header;
	front_serve(f, &c, path, cgi_body);
	front_head(&c, &head);
	if (write_all(STDOUT_FILENO, buf_str(&head), head.len) < 0 ||
	    (front_has_body(&c) && write_all(STDOUT_FILENO, buf_str(&c.out), c.out.len) < 0))
		log_warn("the web server left before the reply");
	else
		status = 0;
	call_release(&c);
	buf_release(&head);
	free(path);
	return status;
}
