/*
 * fuzz_files.c - files that the operator writes: the configuration (first byte c), the key file (k), the admin token's file (a), the secret's (s).
 */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "domain_int.h"
#include "hutch/secret.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(x) do { if (!(x)) { fprintf(stderr, "demanded: %s\n", #x); abort(); } } while (0)

/* The error says what is wrong where. */
static void judge_error(const struct err *e, const char *place)
{
	DEMAND(e->kind == ERR_INVALID && strstr(e->text, place) != NULL);
}

/* A configuration that is taken says itself again. */
static void configuration(const char *path, const char *text, size_t size)
{
	char *once = NULL, *twice = NULL;
	size_t n, m;
	struct config c;
	struct err e;
	FILE *f;
	int fd;
	char again[64];

	if (config_read(&c, path, &e) < 0) {
		judge_error(&e, path);
		return;
	}
	f = open_memstream(&once, &n);
	config_print(&c, f);
	fclose(f);
	config_release(&c);
	DEMAND(memchr(text, '\0', size) == NULL);
	fd = memfd_create("again", MFD_CLOEXEC);
	DEMAND(fd >= 0 && write(fd, once, n) == (ssize_t)n);
	snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
	if (config_read(&c, again, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		abort();
	}
	f = open_memstream(&twice, &m);
	config_print(&c, f);
	fclose(f);
	DEMAND(strcmp(once, twice) == 0);
	config_release(&c);
	close(fd);
	free(once);
	free(twice);
}

/* An error of a file of secrets quotes none of it. */
static void quotes_nothing(const struct err *e, const char *text, size_t n)
{
	for (size_t i = 0; i + 24 <= n; i++) {
		char part[25];

		memcpy(part, text + i, 24);
		part[24] = '\0';
		DEMAND(strlen(part) < 24 || strspn(part, "0123456789abcdefABCDEF_") < 24 || strstr(e->text, part) == NULL);
	}
}

static void keys(const char *path, const char *text, size_t n)
{
	struct err e;

	if (key_file_check(path, &e) < 0) {
		judge_error(&e, path);
		quotes_nothing(&e, text, n);
		return;
	}
	DEMAND(memchr(text, '\0', n) == NULL);
}

static void admin(const char *path, const char *text, size_t n)
{
	uint8_t hash[32];
	struct err e;

	if (admin_token_read(path, hash, &e) < 0) {
		judge_error(&e, path);
		quotes_nothing(&e, text, n);
	}
}

static void secret(const char *path, const char *text, size_t n)
{
	uint8_t key[SECRET_LEN];
	struct err e;

	if (secret_read(path, key, &e) < 0) {
		DEMAND(strstr(e.text, path) != NULL);
		quotes_nothing(&e, text, n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	char path[64];
	int fd;

	if (size == 0)
		return 0;
	fd = memfd_create("input", MFD_CLOEXEC);
	DEMAND(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text, size - 1) == (ssize_t)size - 1);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	switch (data[0]) {
	case 'k': keys(path, text, size - 1); break;
	case 'a': admin(path, text, size - 1); break;
	case 's': secret(path, text, size - 1); break;
	default: configuration(path, text, size - 1);
	}
	close(fd);
	return 0;
}
