/* The one table from kinds of errors to statuses. */
#include "hutch/call.h"

static const int statuses[ERR_KINDS] = {
	[ERR_NONE] = 500,
	[ERR_INVALID] = 400,
	[ERR_UNAUTHENTICATED] = 401,
	[ERR_DENIED] = 403,
	[ERR_NOT_FOUND] = 404,
	[ERR_CONFLICT] = 409,
	[ERR_TOO_LARGE] = 413,
	[ERR_LIMIT] = 429,
	[ERR_UNAVAILABLE] = 503,
	[ERR_TIMEOUT] = 504,
	[ERR_INTERNAL] = 500,
};

int err_status(enum err_kind kind)
{
	return (unsigned)kind < ERR_KINDS ? statuses[kind] : 500;
}
