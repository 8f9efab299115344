#include "hutch/envd.h"

#include <string.h>

static const char reserved[][ENVD_RESERVED_MAX] = { "/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade" };

const char *envd_reserved(const char *path, size_t n)
{
	for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
		if (n == strlen(reserved[i]) && memcmp(path, reserved[i], n) == 0)
			return reserved[i];
	return NULL;
}

void envd_preflight(struct buf *b, const char *asked, size_t n)
{
	buf_adds(b, "Access-Control-Allow-Origin: *\r\nVary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n"
		 "Access-Control-Allow-Methods: HEAD, GET, POST, PUT, PATCH, DELETE\r\nAccess-Control-Max-Age: 7200\r\n");
	if (asked == NULL)
		return;
	buf_adds(b, "Access-Control-Allow-Headers: ");
	buf_add(b, asked, n);
	buf_adds(b, "\r\n");
}

static const struct { int port; const char *path; } admitted[] = {
	{ ENVD_PORT, "/process.Process/Start" }, { ENVD_PORT, "/files" },
	{ ENVD_PORT, "/filesystem.Filesystem/Stat" }, { ENVD_PORT, "/filesystem.Filesystem/ListDir" },
	{ ENVD_PORT, "/filesystem.Filesystem/MakeDir" }, { ENVD_PORT, "/filesystem.Filesystem/Remove" },
	{ ENVD_PORT, "/health" }, { INTERPRETER_PORT, "/execute" },
};

bool twin_admits(int port, const char *path, size_t n)
{
	for (size_t i = 0; i < sizeof admitted / sizeof admitted[0]; i++)
		if (admitted[i].port == port && n == strlen(admitted[i].path) && memcmp(path, admitted[i].path, n) == 0)
			return true;
	return false;
}
