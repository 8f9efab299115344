/*
 * err.h - how every fallible function reports a failure.
 *
 * A function that can fail takes `struct err *e` last, returns -1 and fills *e;
 * on success it leaves *e alone. Kinds are the domain's; only http/ turns a kind
 * into a status (one table, http/status.c).
 */
#ifndef HUTCH_ERR_H
#define HUTCH_ERR_H

enum err_kind {
	ERR_NONE = 0,
	ERR_INVALID,         /* the caller's input is wrong; the text names the field */
	ERR_UNAUTHENTICATED, /* no or unknown credential */
	ERR_DENIED,          /* known caller, not allowed */
	ERR_NOT_FOUND,
	ERR_CONFLICT,        /* not in this state */
	ERR_TOO_LARGE,       /* a body or field is over its bound */
	ERR_LIMIT,           /* a quota or rate of the caller is used up */
	ERR_UNAVAILABLE,     /* no capacity or a part is down; worth a retry */
	ERR_TIMEOUT,
	ERR_INTERNAL,
	ERR_KINDS
};

struct err {
	enum err_kind kind;
	const char *code;    /* optional static `error_code` of the REST API, or NULL */
	unsigned retry_s;    /* ERR_LIMIT: seconds until asking again may help; 0 = waiting alone does not lift it */
	char text[512];      /* always NUL-terminated, cut at the end if too long */
};

/* Set kind and text, without code and retry_s; always returns -1, so that callers can `return err_set(...)`. */
int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set with ERR_INTERNAL and ": strerror(errno)" appended. */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "what: " before the text; the kind stays. Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
