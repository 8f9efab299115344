#include "hutch/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hutch/crypto.h"
#include "hutch/io.h"

int secret_file_make(const char *option, const char *path, struct err *e)
{
	uint8_t raw[SECRET_LEN];
	char text[2 * SECRET_LEN + 2];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0)
		return err_sys(e, "%s %s", option, path);
	random_bytes(raw, sizeof raw);
	hex_encode(raw, sizeof raw, text);
	text[2 * SECRET_LEN] = '\n';
	if (write_all(fd, text, sizeof text - 1) < 0 || fsync(fd) < 0) {
		err_sys(e, "%s %s", option, path);
		close(fd);
		unlink(path);
		return -1;
	}
	close(fd);
	return 0;
}

int secret_make(const char *path, struct err *e)
{
	return secret_file_make("secret_file", path, e);
}

int secret_read(const char *path, uint8_t out[SECRET_LEN], struct err *e)
{
	char text[2 * SECRET_LEN + 2];
	struct stat st;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "secret_file %s", path);
	n = read(fd, text, sizeof text);
	if (fstat(fd, &st) < 0)
		n = -1;
	close(fd);
	if (n >= 0 && (st.st_mode & 077) != 0)
		return err_set(e, ERR_INVALID, "secret_file %s may be read by others: chmod 600 it", path);
	if (n > 0 && text[n - 1] == '\n')
		n--;
	if (n != 2 * SECRET_LEN || hex_decode(text, 2 * SECRET_LEN, out) < 0)
		return err_set(e, ERR_INVALID, "secret_file %s does not hold 64 hex digits", path);
	return 0;
}

void secret_token(const uint8_t secret[SECRET_LEN], const char *purpose, const char *name, char out[TOKEN_LEN])
{
	uint8_t mac[SHA256_LEN];
	char text[256];
	int n = snprintf(text, sizeof text, "%s:%s", purpose, name);

	hmac_sha256(secret, SECRET_LEN, text, (size_t)n, mac);
	hex_encode(mac, sizeof mac, out);
}
