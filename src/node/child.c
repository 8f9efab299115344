/* First process of a sandbox: builds its file system from the mounts it was given. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "hutch/crypto.h"
#include "stage.h"
#include "sys.h"

#define ROOT "/new"

void step_die(int out, const char *step)
{
	struct step_error x = { .error = errno };

	snprintf(x.step, sizeof x.step, "%s", step);
	if (write(out, &x, sizeof x) < 0)
		_exit(2);
	_exit(1);
}

#define TRY(call, step) do { if ((call) < 0) step_die(p->out, step); } while (0)

/* What says something of the machine or its other guests, or takes orders for it. Most of it is out of reach of a mapped root anyway. */
static const char *const hidden_files[] = {
	"kcore", "keys", "key-users", "timer_list", "sysrq-trigger", "cmdline", "swaps", "partitions", "diskstats", "latency_stats",
};
static const char *const hidden_dirs[] = { "fs", "scsi", "acpi", "bus", "irq", "asound", "driver", "pressure" };

static void attach(const struct sandbox_plan *p, int mnt, const char *where)
{
	TRY(move_mount(mnt, "", AT_FDCWD, where, MOVE_MOUNT_F_EMPTY_PATH), where);
}

static void mount_overlay(const struct sandbox_plan *p, const char *where, const char *lower, const char *upper)
{
	char options[128];

	/* volatile: nothing outlives a crash of the machine, so fsync need not wait for a disk */
	snprintf(options, sizeof options, "lowerdir=%s,upperdir=disk/%sup,workdir=disk/%swork,volatile%s", lower, upper, upper,
		 p->req->userns ? ",userxattr" : "");
	TRY(mount("sandbox", where, "overlay", 0, options), where);
}

/* Places to mount on that an image may lack. */
static void make_places(const struct sandbox_plan *p)
{
	static const struct { const char *path; mode_t mode; } places[] = {
		{ ROOT "/proc", 0555 }, { ROOT "/dev", 0755 }, { ROOT "/sys", 0555 }, { ROOT "/tmp", 01777 }, { ROOT "/run", 0755 },
	};

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		if (mkdir(places[i].path, places[i].mode) == 0)
			TRY(chmod(places[i].path, places[i].mode), places[i].path);
		else if (errno != EEXIST)
			step_die(p->out, places[i].path);
	}
}

/* An image's /etc/hosts may not know the name: sudo and others complain. Without an /etc nothing there will. */
static void name_in_hosts(const struct sandbox_plan *p)
{
	char text[4096], line[128];
	int fd = open(ROOT "/etc/hosts", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

	if (n >= 0) {
		text[n] = '\0';
		snprintf(line, sizeof line, "127.0.0.1\tlocalhost %s\n", p->req->hostname);
		if (strstr(text, p->req->hostname) == NULL)
			TRY(write(fd, line, strlen(line)), "/etc/hosts");
	}
	if (fd >= 0)
		close(fd);
}

/* The image's may be a link to where nothing is. */
static void name_servers(const struct sandbox_plan *p)
{
	const char *path = ROOT "/etc/resolv.conf", *text = p->req->resolv;
	int fd;

	if (text[0] == '\0' || (unlink(path) < 0 && errno != ENOENT))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return;                      /* an image without /etc */
	TRY(write(fd, text, strlen(text)), "/etc/resolv.conf");
	close(fd);
}

static void mount_root(const struct sandbox_plan *p)
{
	attach(p, p->fds[SPAWN_ROOT], "/low");
	attach(p, p->fds[SPAWN_DISK], "/disk");
	mount_overlay(p, ROOT, "low", "");
	if (p->req->host_image) {
		attach(p, p->fds[SPAWN_USR], "/usr");
		mount_overlay(p, ROOT "/usr", "usr", "u");
	} else {
		make_places(p);
		name_in_hosts(p);
	}
	name_servers(p);
}

static void mount_dev(const struct sandbox_plan *p)
{
	char options[64];

	attach(p, p->dev, ROOT "/dev");
	snprintf(options, sizeof options, "mode=1777,size=%um", p->req->shm_mb);
	TRY(mount("shm", ROOT "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options), "/dev/shm");
	TRY(mount("devpts", ROOT "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"), "/dev/pts");
}

static void hide(const struct sandbox_plan *p, const char *what, const char *name)
{
	char path[64];

	snprintf(path, sizeof path, ROOT "/proc/%s", name);
	if (mount(what, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT && errno != ENOTDIR)
		step_die(p->out, path);
}

static void mount_proc(const struct sandbox_plan *p)
{
	TRY(mount("proc", ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
	TRY(mount(ROOT "/proc/sys", ROOT "/proc/sys", NULL, MS_BIND, NULL), "/proc/sys");
	TRY(mount(NULL, ROOT "/proc/sys", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc/sys read-only");
	for (size_t i = 0; i < sizeof hidden_files / sizeof hidden_files[0]; i++)
		hide(p, ROOT "/dev/null", hidden_files[i]);
	for (size_t i = 0; i < sizeof hidden_dirs / sizeof hidden_dirs[0]; i++)
		hide(p, "/empty", hidden_dirs[i]);
}

/* Programs for the guest, from the stage: a mount of a file system of ours, so it names no path of the host. */
static void mount_guest(const struct sandbox_plan *p)
{
	if (mkdir(ROOT GUEST_DIR, 0755) < 0 && errno != EEXIST)
		step_die(p->out, GUEST_DIR);
	TRY(mount("/guest", ROOT GUEST_DIR, NULL, MS_BIND, NULL), GUEST_DIR);
	TRY(mount(NULL, ROOT GUEST_DIR, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL), GUEST_DIR " read-only");
}

static void enter_root(const struct sandbox_plan *p)
{
	TRY(chdir(ROOT), "root");
	TRY(sys_pivot_root(".", "."), "pivot_root");
	TRY(umount2(".", MNT_DETACH), "old root");
	TRY(chdir("/"), "root");
}

/*
 * Programs tell a boot from a resume by this id; the kernel's is the machine's. A mount of a file of the sandbox's own root, so that
 * nothing of it is elsewhere. Best effort: an image may have no place for it.
 */
static void own_boot_id(void)
{
	static const char path[] = "/run/e2b/.BOOT_ID", kernels[] = "/proc/sys/kernel/random/boot_id";
	char id[38];
	int fd;

	if (mkdir("/run/e2b", 0755) < 0 && errno != EEXIST)
		return;
	random_uuid(id);
	id[36] = '\n';
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0)
		return;
	if (write(fd, id, 37) == 37 && mount(path, kernels, NULL, MS_BIND, NULL) == 0)
		mount(NULL, kernels, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	close(fd);
}

static void loopback_up(const struct sandbox_plan *p)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	TRY(fd, "loopback interface");
	TRY(ioctl(fd, SIOCGIFFLAGS, &r), "loopback interface");
	r.ifr_flags |= IFF_UP;
	TRY(ioctl(fd, SIOCSIFFLAGS, &r), "loopback interface");
	close(fd);
}

static void become_root(const struct sandbox_plan *p)
{
	/* raw calls: glibc's set the ids of all threads by signals, and there are none */
	TRY(syscall(SYS_setgroups, 0, NULL), "setgroups");
	TRY(syscall(SYS_setresgid, 0, 0, 0), "setresgid");
	TRY(syscall(SYS_setresuid, 0, 0, 0), "setresuid");
}

static void enter_groups(const struct sandbox_plan *p)
{
	for (uint32_t i = 0; i < p->req->ntasks; i++)
		TRY(write(p->fds[SPAWN_CGROUPS + i], "0", 1), "cgroups");
}

void sandbox_init(const struct stage *s, const struct sandbox_plan *p)
{
	become_root(p);
	umask(022);
	enter_groups(p);
	TRY(unshare(CLONE_NEWCGROUP), "cgroup namespace");
	mount_root(p);
	mount_dev(p);
	mount_proc(p);
	if (p->req->guest)
		mount_guest(p);
	enter_root(p);
	own_boot_id();
	loopback_up(p);
	TRY(sethostname(p->req->hostname, strlen(p->req->hostname)), "host name");
	sandbox_exec(s, p);
}
