/*
 * replay.c - run a fuzz target over its seed files: SEEDS is their directory below the source tree. With LIBFUZZER defined it is empty: the
 * fuzzer's own main takes over (tests/fuzz/run).
 */
#ifndef LIBFUZZER
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
	static uint8_t bytes[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (f == NULL) {
		perror(path);
		return -1;
	}
	n = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	printf("%s: %zu bytes\n", path, n);
	fflush(stdout);                 /* names the seed if the target aborts */
	LLVMFuzzerTestOneInput(bytes, n);
	return 0;
}

int main(void)
{
	const char *srcdir = getenv("srcdir");
	char dir[4096], path[8192];
	struct dirent *d;
	int n = 0;
	DIR *dp;

	snprintf(dir, sizeof dir, "%s/%s", srcdir != NULL ? srcdir : ".", SEEDS);
	dp = opendir(dir);
	if (dp == NULL) {
		perror(dir);
		return 1;
	}
	while ((d = readdir(dp)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, d->d_name);
		if (replay(path) < 0)
			return 1;
		n++;
	}
	closedir(dp);
	return n == 0;                  /* no seeds: nothing was tested */
}
#endif
