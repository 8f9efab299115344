/*
 * files.h - inside of the agent's file service: names, paths, entries, tree walks, metadata, uploads.
 */
#ifndef HUTCH_AGENT_FILES_H
#define HUTCH_AGENT_FILES_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "agent.h"

/* ---- names.c: who is uid 1000? ---- */
struct name_row { unsigned id; const char *name; };
struct name_table {
	bool loaded;
	char *text;
	struct name_row *rows;       /* by id */
	size_t n;
};
/* Zeroed at first; each table is read once per request, when it is first asked. */
struct names { struct name_table users, groups; };
void names_user(struct names *c, uid_t uid, char *out, size_t max);
void names_group(struct names *c, gid_t gid, char *out, size_t max);
void names_release(struct names *c);
/* Text of a passwd-like file (the caller frees; NULL if it cannot be read), and its lines: see names.c. */
char *names_read(const char *path);
size_t names_line(char **text, char **fields, size_t max);
int names_id(const char *s, unsigned *id);

/* ---- paths.c ---- */
void path_clean(char *path);
/* Last component without trailing slashes ("/" for the root): pointer into path, length in *n. */
const char *path_base(const char *path, size_t *n);
/* Make the directory and its missing parents (0755, owned by uid:gid). 0, or -1 with errno; fine if it is there already. */
int make_dirs(const char *path, uid_t uid, gid_t gid);
/* As make_dirs for the directory that path lies in; 1 if it was not there. */
int make_parents(const char *path, uid_t uid, gid_t gid);

/* ---- reach.c: a path that path_resolve has given, reached so that no link leads out of the light profile's folder meanwhile. -1 with errno ---- */
int reach_open(struct agent *a, const char *path, int flags, mode_t mode);
int reach_stat(struct agent *a, const char *path, struct stat *st);
int reach_lstat(struct agent *a, const char *path, struct stat *st);
int reach_chown(struct agent *a, const char *path, uid_t uid, gid_t gid);
/* The directory that path lies in, for calls that take one, and the name in it. Done with it: reach_done, which keeps errno. */
int reach_dir(struct agent *a, const char *path, const char **name);
void reach_done(int dir);
/* As make_dirs and make_parents. */
int reach_make_dirs(struct agent *a, const char *path, uid_t uid, gid_t gid);
int reach_make_parents(struct agent *a, const char *path, uid_t uid, gid_t gid);

/* ---- entry.c: EntryInfo (guest.md 5.2) ---- */
/* The members of an EntryInfo object, which is open in w. st: lstat of the entry. path: as the client is to see it. */
void entry_members(struct jw *w, const char *path, const struct stat *st, struct names *c);

/* ---- walk.c: directory trees of any depth with few descriptors and little stack ---- */
struct walk_dir {
	int fd;                      /* -1: closed to save descriptors, opened again on the way back */
	dev_t dev;
	ino_t ino;
	char *names;                 /* NUL-terminated, one after the other: size bytes */
	size_t size;
	uint32_t *order;             /* offsets of the names, sorted bytewise */
	size_t n, next;
};
struct walk {
	struct walk_dir *dirs;       /* from the root of the walk to where it is */
	size_t depth, cap;
	size_t bytes;                /* of all names held; bounded */
	bool partial_ok;             /* in a directory with more names than can be held, take those that fit */
};
void walk_init(struct walk *w);
void walk_release(struct walk *w);
/* Enter the directory fd (taken over, also on failure): its names are read and sorted.
 * -1 with errno (E2BIG: too many names to hold). Its errors leave the walk where it was. */
int walk_enter(struct walk *w, int fd);
/* Next name in the current directory, or NULL. The name stays valid until the directory is left. */
const char *walk_next(struct walk *w);
/* The name given last in the current directory. */
const char *walk_name(const struct walk *w);
/* Descriptor of the current directory, or -1 with errno (ESTALE: it was moved away meanwhile). */
int walk_fd(struct walk *w);
void walk_leave(struct walk *w);

/* ---- metadata.c: user.e2b.* extended attributes (guest.md 3.5) ---- */
struct meta_pair { char *key, *value; };
struct metadata {
	struct meta_pair pairs[H1_FIELDS_MAX];
	size_t n;
};
/* Collect the X-Metadata-* fields of a request. ERR_INVALID names what is wrong. Release in either case. */
int metadata_read(struct metadata *m, const struct h1_head *head, struct err *e);
void metadata_release(struct metadata *m);
/* Make the file's metadata exactly m; writes only differences. -1 with errno (never ENOTSUP: that is logged). */
int metadata_set(int fd, const struct metadata *m);
/* Write the key "metadata" and its object, if the file has any. Links are followed. */
void metadata_member(struct jw *w, const char *path);

/* ---- signature.c (guest.md 2.3) ---- */
struct files_query {
	char path[PATH_MAX];
	char username[256];
	bool has_path, has_username;
	char signature[128];
	bool has_signature;
	int64_t expiration;
	bool has_expiration;
};
/* Parse the query; on failure the 400 is sent already. */
int files_query(struct h1_req *r, struct files_query *q);
/* "v1_..." for these values (expiration NULL: none). */
void files_sign(const char *path, const char *op, const char *username, const char *token, const int64_t *expiration,
		char out[64]);
/* Token or signature; the 401 is sent on failure. op is "read" or "write". */
int files_authorize(struct agent *a, struct h1_req *r, const struct files_query *q, const char *op);
/* The user named, or the default one. Sends 400 (no user) or 401 (unknown) on failure. name NULL: not named. */
int files_user(struct agent *a, struct h1_req *r, const char *name, struct user *out);
/* rest_fail with a text. Returns -1. */
int files_fail(struct h1_req *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* 507 for a full disk or quota, else 500; "what 'path': reason". Uses errno. Returns -1. */
int files_fail_errno(struct h1_req *r, const char *what, const char *path);

/* ---- body.c: a request body, inflated if it was sent gzipped ---- */
struct body;
/* gzip: RFC 1952 members follow each other. NULL when out of memory. */
struct body *body_new(struct h1_req *r, bool gzip);
/* As h1_read, but fills p up unless the body ends. -1: broken (body_error says how). */
ssize_t body_fill(void *body, void *p, size_t n);
const char *body_error(const struct body *b);
void body_free(struct body *b);

/* ---- multipart.c: RFC 2046 section 5.1, RFC 7578; streaming, in the memory of one buffer ---- */
#define BOUNDARY_MAX 70
typedef ssize_t multipart_read(void *ctx, void *p, size_t n);   /* fills p up unless the input ends; -1 broken */
struct multipart {
	multipart_read *read;
	void *ctx;
	char *buf;
	size_t cap, from, to;        /* unread bytes are buf[from..to) */
	char delim[BOUNDARY_MAX + 5];        /* "\r\n--boundary" */
	size_t delim_len;
	bool eof, in_part, done;
	bool at_headers;             /* a delimiter was taken, its part's headers come next */
};
struct multipart_part {
	char name[64];               /* cut off if longer */
	char filename[PATH_MAX];
	bool has_filename;
};
/* Boundary of a multipart media type; ERR_INVALID if there is none. */
int multipart_boundary(struct h1_span type, char out[BOUNDARY_MAX + 1], struct err *e);
/* buf (at least 64 KiB) stays the caller's. */
void multipart_init(struct multipart *m, const char *boundary, char *buf, size_t cap, multipart_read *read, void *ctx);
/* Go to the next part (the rest of the current one is skipped). 1: part is filled, 0: no more, -1: malformed. */
int multipart_next(struct multipart *m, struct multipart_part *part, struct err *e);
/* Next bytes of the part, valid until the next call. Their number, 0 at the end of the part, -1 malformed. */
ssize_t multipart_data(struct multipart *m, const char **p, struct err *e);

/* ---- watch.c ---- */
/* Let every watcher see what has happened until now (a new directory gets its watch before the caller answers). */
void watch_poke(struct agent *a);
rpc_stream watch_dir;
rpc_unary watcher_create, watcher_events, watcher_remove;

/* ---- filesystem.c ---- */
/* Why path, which should be a directory, cannot be opened as one (err: the errno of open). Returns -1. */
int rpc_not_a_dir(const char *path, int err, struct err *e);
/* The path field, resolved for the user. */
int rpc_path(struct agent *a, const struct user *u, json_object *in, const char *key, char out[PATH_MAX], struct err *e);

#endif
