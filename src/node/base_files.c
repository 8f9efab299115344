#include "config.h"

#include "base_files.h"

#include <stddef.h>

#include "base.h"

#define USER 1000
#define SHADOW 42
#define STAFF 50
#define MAIL 8

const struct base_dir base_dirs[] = {
	{ "dev", 0755, 0, 0 }, { "etc", 0755, 0, 0 }, { "home", 0755, 0, 0 }, { "home/user", 0755, USER, USER }, { "media", 0755, 0, 0 },
	{ "mnt", 0755, 0, 0 }, { "opt", 0755, 0, 0 }, { "proc", 0555, 0, 0 }, { "root", 0700, 0, 0 }, { "run", 0755, 0, 0 },
	{ "run/lock", 01777, 0, 0 }, { "srv", 0755, 0, 0 }, { "sys", 0555, 0, 0 }, { "tmp", 01777, 0, 0 }, { "usr", 0755, 0, 0 },
	{ "var", 0755, 0, 0 }, { "var/backups", 0755, 0, 0 }, { "var/cache", 0755, 0, 0 }, { "var/lib", 0755, 0, 0 },
	{ "var/lib/misc", 0755, 0, 0 }, { "var/local", 02775, 0, STAFF }, { "var/log", 0755, 0, 0 }, { "var/mail", 02775, 0, MAIL },
	{ "var/opt", 0755, 0, 0 }, { "var/spool", 0755, 0, 0 }, { "var/tmp", 01777, 0, 0 }, { "etc/sudoers.d", 0750, 0, 0 },
	{ "etc/pam.d", 0755, 0, 0 }, { "etc/opt", 0755, 0, 0 }, { NULL, 0, 0, 0 },
};

static const char passwd[] =
	"root:x:0:0:root:/root:/bin/bash\n"
	"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
	"bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
	"sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
	"sync:x:4:65534:sync:/bin:/bin/sync\n"
	"games:x:5:60:games:/usr/games:/usr/sbin/nologin\n"
	"man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
	"lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\n"
	"mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
	"news:x:9:9:news:/var/spool/news:/usr/sbin/nologin\n"
	"uucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin\n"
	"proxy:x:13:13:proxy:/bin:/usr/sbin/nologin\n"
	"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
	"backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n"
	"list:x:38:38:Mailing List Manager:/var/list:/usr/sbin/nologin\n"
	"irc:x:39:39:ircd:/run/ircd:/usr/sbin/nologin\n"
	"_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
	"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	"user:x:1000:1000::/home/user:/bin/bash\n";

static const char group[] =
	"root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\nnews:x:9:\nuucp:x:10:\n"
	"man:x:12:\nproxy:x:13:\nkmem:x:15:\ndialout:x:20:\nfax:x:21:\nvoice:x:22:\ncdrom:x:24:\nfloppy:x:25:\ntape:x:26:\n"
	"sudo:x:27:user\naudio:x:29:\ndip:x:30:\nwww-data:x:33:\nbackup:x:34:\noperator:x:37:\nlist:x:38:\nirc:x:39:\nsrc:x:40:\n"
	"shadow:x:42:\nutmp:x:43:\nvideo:x:44:\nsasl:x:45:\nplugdev:x:46:\nstaff:x:50:\ngames:x:60:\nusers:x:100:\nnogroup:x:65534:\n"
	"user:x:1000:\n";

/* No password opens anything: root is reached by sudo. */
static const char shadow[] = "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n";

static const char sudoers[] =
	"Defaults env_reset\n"
	"Defaults !lecture\n"
	"Defaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n"
	"root ALL=(ALL:ALL) ALL\n"
	"user ALL=(ALL:ALL) NOPASSWD: ALL\n"
	"@includedir /etc/sudoers.d\n";

/* The host's PAM stack may name directories and modules that mean nothing here. */
static const char pam_plain[] =
	"auth sufficient pam_rootok.so\n"
	"auth required pam_unix.so\n"
	"account required pam_unix.so\n"
	"password required pam_unix.so yescrypt\n"
	"session required pam_permit.so\n";
static const char pam_sudo[] =
	"auth required pam_unix.so\n"
	"account required pam_permit.so\n"
	"session required pam_permit.so\n";

/* Every command of a client is a login shell: bash knows EUID without starting a program, which would double the command's time. */
static const char profile[] =
	"if [ \"${EUID:-$(id -u)}\" -eq 0 ]; then\n"
	"  PATH=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n"
	"else\n"
	"  PATH=\"/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\"\n"
	"fi\n"
	"export PATH\n"
	"if [ \"${PS1-}\" ] && [ \"${BASH-}\" ] && [ \"$BASH\" != /bin/sh ] && [ -f /etc/bash.bashrc ]; then\n"
	"  . /etc/bash.bashrc\n"
	"fi\n";

static const char bashrc[] =
	"[ -z \"${PS1-}\" ] && return\n"
	"shopt -s checkwinsize\n"
	"PS1='\\u@\\h:\\w\\$ '\n";

static const char hosts[] =
	"127.0.0.1\tlocalhost " SANDBOX_HOSTNAME "\n"
	"::1\tlocalhost ip6-localhost ip6-loopback\n";

static const char nsswitch[] =
	"passwd: files\ngroup: files\nshadow: files\ngshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
	"ethers: files\nrpc: files\nnetgroup: files\n";

static const char resolv[] = "options timeout:1 attempts:1\n";

static const char root_profile[] = "[ -n \"${BASH-}\" ] && [ -f ~/.bashrc ] && . ~/.bashrc\n";

const struct base_file base_files[] = {
	{ "etc/passwd", 0644, 0, 0, passwd },
	{ "etc/group", 0644, 0, 0, group },
	{ "etc/shadow", 0640, 0, SHADOW, shadow },
	{ "etc/gshadow", 0640, 0, SHADOW, "" },
	{ "etc/subuid", 0644, 0, 0, "" },
	{ "etc/subgid", 0644, 0, 0, "" },
	{ "etc/sudoers", 0440, 0, 0, sudoers },
	{ "etc/pam.d/other", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/su", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/su-l", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/runuser", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/runuser-l", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/passwd", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/chsh", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/chfn", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/useradd", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/chpasswd", 0644, 0, 0, pam_plain },
	{ "etc/pam.d/sudo", 0644, 0, 0, pam_sudo },
	{ "etc/pam.d/sudo-i", 0644, 0, 0, pam_sudo },
	{ "etc/hosts", 0644, 0, 0, hosts },
	{ "etc/hostname", 0644, 0, 0, SANDBOX_HOSTNAME "\n" },
	{ "etc/resolv.conf", 0644, 0, 0, resolv },
	{ "etc/nsswitch.conf", 0644, 0, 0, nsswitch },
	{ "etc/profile", 0644, 0, 0, profile },
	{ "etc/bash.bashrc", 0644, 0, 0, bashrc },
	{ "etc/environment", 0644, 0, 0, "" },
	{ "etc/fstab", 0644, 0, 0, "" },
	{ "etc/machine-id", 0444, 0, 0, "" },
	{ "etc/motd", 0644, 0, 0, "" },
	{ "root/.profile", 0644, 0, 0, root_profile },
	{ "root/.bashrc", 0644, 0, 0, bashrc },
	{ NULL, 0, 0, 0, NULL },
};

const struct base_link base_links[] = {
	{ "etc/mtab", "/proc/self/mounts" },
	{ "var/run", "/run" },
	{ "var/lock", "/run/lock" },
	{ NULL, NULL },
};

/* Nothing here names users, machines, networks or secrets of the host. ssl is copied without its private directory: that one is not
 * readable by everybody. */
const char *const base_etc[] = {
	"alternatives", "bash_completion", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "debian_version", "deluser.conf",
	"adduser.conf", "dpkg", "fonts", "gai.conf", "groff", "host.conf", "ImageMagick-*", "inputrc", "issue", "java-*", "jvm-*",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "libaudit.conf", "locale.alias", "locale.conf", "localtime", "login.defs", "lsb-release",
	"magic", "magic.mime", "mailcap", "mailcap.order", "manpath.config", "matplotlibrc", "mime.types", "mke2fs.conf", "nanorc", "netconfig",
	"os-release", "perl", "protocols", "python*", "R", "rpc", "ruby", "security", "services", "sgml", "shells", "skel", "ssl",
	"terminfo", "timezone", "vim", "xattr.conf", "xml", NULL,
};
