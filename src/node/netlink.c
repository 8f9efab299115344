#include "config.h"

#include "netlink.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAD(n) ((4 - ((n) & 3)) & 3)

void nl_init(struct nl *m)
{
	buf_init(&m->b, NETLINK_MAX);
	m->message = 0;
	m->seq = 0;
}

void nl_release(struct nl *m)
{
	buf_release(&m->b);
}

static void pad(struct nl *m)
{
	buf_add(&m->b, "\0\0\0", PAD(m->b.len));
}

void nl_begin(struct nl *m, uint16_t type, uint16_t flags, const void *fixed, size_t n)
{
	const struct nlmsghdr h = { .nlmsg_type = type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags), .nlmsg_seq = ++m->seq };

	m->message = m->b.len;
	buf_add(&m->b, &h, sizeof h);
	buf_add(&m->b, fixed, n);
	pad(m);
}

void nl_end(struct nl *m)
{
	const uint32_t n = (uint32_t)(m->b.len - m->message);

	if (!buf_failed(&m->b))
		memcpy(m->b.p + m->message, &n, sizeof n);
}

void nl_put(struct nl *m, uint16_t type, const void *p, size_t n)
{
	const struct nlattr a = { .nla_len = (uint16_t)(sizeof a + n), .nla_type = type };

	buf_add(&m->b, &a, sizeof a);
	buf_add(&m->b, p, n);
	pad(m);
}

void nl_text(struct nl *m, uint16_t type, const char *s)
{
	nl_put(m, type, s, strlen(s) + 1);
}

void nl_u8(struct nl *m, uint16_t type, uint8_t v)
{
	nl_put(m, type, &v, sizeof v);
}

void nl_u32(struct nl *m, uint16_t type, uint32_t v)
{
	nl_put(m, type, &v, sizeof v);
}

void nl_be32(struct nl *m, uint16_t type, uint32_t v)
{
	nl_u32(m, type, htonl(v));
}

size_t nl_open(struct nl *m, uint16_t type)
{
	const size_t at = m->b.len;

	nl_put(m, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void nl_close(struct nl *m, size_t at)
{
	const uint16_t n = (uint16_t)(m->b.len - at);

	if (m->b.len - at > UINT16_MAX)
		m->b.failed = true;
	else if (!buf_failed(&m->b))
		memcpy(m->b.p + at, &n, sizeof n);
}

int nl_socket(int protocol, struct err *e)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	return fd < 0 ? err_sys(e, "netlink socket") : fd;
}

/* The first error in n bytes of answers, 0 none. */
static int first_error(const char *p, size_t n)
{
	struct nlmsghdr h;
	int32_t code;

	for (; n >= sizeof h; p += h.nlmsg_len + PAD(h.nlmsg_len), n -= h.nlmsg_len + PAD(h.nlmsg_len)) {
		memcpy(&h, p, sizeof h);
		if (h.nlmsg_len < sizeof h || h.nlmsg_len > n)
			break;
		if (h.nlmsg_type == NLMSG_ERROR && h.nlmsg_len >= sizeof h + sizeof code) {
			memcpy(&code, p + sizeof h, sizeof code);
			if (code != 0)
				return -code;
		}
		if (h.nlmsg_len + PAD(h.nlmsg_len) > n)
			break;
	}
	return 0;
}

int nl_talk(int fd, struct nl *m, const char *what, struct err *e)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	char answer[16384];
	ssize_t n;
	int error = 0;

	if (buf_failed(&m->b))
		return err_set(e, ERR_INTERNAL, "%s: the request is too large", what);
	if (sendto(fd, m->b.p, m->b.len, 0, (const struct sockaddr *)&kernel, sizeof kernel) != (ssize_t)m->b.len)
		return err_sys(e, "%s", what);
	/* the kernel has done it all by now, and every answer waits */
	while ((n = recv(fd, answer, sizeof answer, MSG_DONTWAIT)) > 0 || (n < 0 && errno == EINTR))
		if (error == 0 && n > 0)
			error = first_error(answer, (size_t)n);
	if (error == 0)
		return 0;
	errno = error;
	return err_sys(e, "%s", what);
}
