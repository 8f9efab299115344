/* Last steps of a sandbox's first process: descriptors, limits, capabilities, filter, exec of the agent. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "stage.h"
#include "sys.h"

#define TRY(call, step) do { if ((call) < 0) step_die(p->out, step); } while (0)

#define FD_AGENT 5
#define FD_OUT 6
#define NOFILE_SOFT 65536

/* What remains to the sandbox's root, over its own user namespace: enough for package managers, sudo, servers on low ports, ping and
 * debuggers. Not among them: SYS_ADMIN (mounts), MKNOD, NET_ADMIN (rules for its own network), SYS_MODULE, SYS_TIME, SYS_RAWIO ... */
static const int kept[] = {
	CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_NET_BIND_SERVICE,
	CAP_NET_RAW, CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SETFCAP, CAP_AUDIT_WRITE,
};

static uint64_t kept_bits(void)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		bits |= 1ULL << kept[i];
	return bits;
}

static void arrange_descriptors(const struct sandbox_plan *p, int agent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	TRY(null, "/dev/null");
	for (int fd = 0; fd < 3; fd++)
		TRY(dup2(null, fd), "standard descriptors");
	TRY(dup2(p->fds[SPAWN_LISTEN], 3), "listening socket");
	TRY(dup2(p->fds[SPAWN_CTL], 4), "control socket");
	TRY(dup3(agent, FD_AGENT, O_CLOEXEC), "agent");
	TRY(dup3(p->out, FD_OUT, O_CLOEXEC), "report pipe");
	TRY(syscall(SYS_close_range, FD_OUT + 1, ~0U, 0), "close_range");
}

static void set_limits(const struct sandbox_plan *p)
{
	/* 1 and not 0: a limit of 0 does not keep the kernel from piping dumps to a program of the host (core(5)) */
	const struct rlimit core = { 1, 1 };
	struct rlimit files, processes;

	TRY(setrlimit(RLIMIT_CORE, &core), "core limit");
	TRY(getrlimit(RLIMIT_NOFILE, &files), "descriptor limit");
	files.rlim_cur = files.rlim_max < NOFILE_SOFT ? files.rlim_max : NOFILE_SOFT;
	TRY(setrlimit(RLIMIT_NOFILE, &files), "descriptor limit");
	TRY(getrlimit(RLIMIT_NPROC, &processes), "process limit");
	if (p->req->nproc > 0 && p->req->nproc < processes.rlim_max)
		processes.rlim_cur = processes.rlim_max = p->req->nproc;
	TRY(setrlimit(RLIMIT_NPROC, &processes), "process limit");
}

/* The others are at their defaults since the spawner's start. */
static void reset_signals(void)
{
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
}

/* The filter is loaded between the two halves: it needs SYS_ADMIN, unless new privileges are ruled out, and sudo is to work. */
static void drop_bounding(const struct sandbox_plan *p)
{
	const uint64_t keep = kept_bits();

	for (int cap = 0; cap < 64; cap++) {
		if ((keep & 1ULL << cap) != 0 || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)         /* beyond the last one of this kernel */
			return;
		step_die(p->out, "capabilities");
	}
}

static void drop_held(const struct sandbox_plan *p)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	const uint64_t keep = kept_bits();

	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted = (uint32_t)(keep >> (32 * i));
	TRY(syscall(SYS_capset, &head, data), "capset");
}

void sandbox_exec(const struct stage *s, const struct sandbox_plan *p)
{
	char *const argv[] = { (char *)"hutch-envd", (char *)"--listen-fd", (char *)"3", (char *)"--ctl-fd", (char *)"4", NULL };
	/* the tunable: after a busy time the agent keeps no more than two stacks of ended threads (16 KiB each), not 300 */
	char *const envp[] = { (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", (char *)"HOME=/root",
			       (char *)"GLIBC_TUNABLES=glibc.pthread.stack_cache_size=262144", NULL };
	const struct sock_fprog filter = s->filter;
	struct sandbox_plan moved = *p;

	arrange_descriptors(p, s->agent);
	moved.out = FD_OUT;
	p = &moved;
	TRY(setsid(), "session");
	set_limits(p);
	reset_signals();
	drop_bounding(p);
	TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), "system call filter");
	drop_held(p);
	syscall(SYS_execveat, FD_AGENT, "", argv, envp, AT_EMPTY_PATH);
	step_die(p->out, "exec of the agent");
}
