/* POST /sandboxes and POST /v2/sandboxes. */
#include "responder.h"

static int create(struct call *c, bool v2, struct err *e)
{
	struct create_request r;
	struct sandbox_rec made;
	struct jw w;
	int status = create_read(buf_str(&c->body), c->body.len, v2, &r, e);

	if (status == 0 && (r.spec.wants & WANT_BIT(WANT_AUTO_PAUSE_DISK)) != 0 && config_twin(c->d->conf))
		status = call_gap(e);                /* snapshots of files alone are no part of a twin */
	if (status == 0)
		status = sandbox_create(c->d, &c->team, &r.spec, &made, e);
	create_release(&r);
	if (status < 0)
		return -1;
	c->status = 201;
	jw_init(&w, &c->out);
	json_sandbox(&w, c->d, &made);
	sandbox_rec_release(&made);
	return 0;
}

int sandbox_create_v1(struct call *c, struct err *e)
{
	return create(c, false, e);
}

int sandbox_create_v2(struct call *c, struct err *e)
{
	return create(c, true, e);
}
