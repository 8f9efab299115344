#include "config.h"

#include "filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Refused with EPERM. Names that the installed libseccomp or this machine does not know are left out. */
static const char *const refused[] = {
	/* code in the kernel */
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "bpf", "perf_event_open",
	"userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	/* what no namespace holds: keys, handles, clocks, swap, the kernel's log, accounting, quotas */
	"add_key", "request_key", "keyctl", "open_by_handle_at", "name_to_handle_at", "settimeofday", "clock_settime", "clock_settime64",
	"clock_adjtime", "clock_adjtime64", "adjtimex", "stime", "swapon", "swapoff", "reboot", "syslog", "acct", "quotactl",
	"quotactl_fd", "lookup_dcookie", "nfsservctl", "fanotify_init",
	/* hardware */
	"iopl", "ioperm", "vm86", "vm86old", "pciconfig_read", "pciconfig_write", "pciconfig_iobase",
	/* the view of files */
	"mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "setns",
	/* relics; socketcall(2) would be a way around the refused families */
	"socketcall", "uselib", "ustat", "sysfs", "_sysctl", "get_kernel_syms", "query_module",
};

/* Socket families of the sandbox's own network namespace. All others are refused: some are not confined by it (vsock reaches the
 * machine's own host), the rest is seldom used kernel code that a guest could make the kernel load. */
static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
#define FAMILY_LAST AF_NETLINK

static int refuse_names(scmp_filter_ctx f)
{
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		int nr = seccomp_syscall_resolve_name(refused[i]);

		if (nr != __NR_SCMP_ERROR && seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), nr, 0) < 0)
			return -1;
	}
	return 0;
}

/* libseccomp's own macros leave a field out, which is an error for clang. */
static struct scmp_arg_cmp arg(unsigned index, enum scmp_compare op, uint64_t a, uint64_t b)
{
	return (struct scmp_arg_cmp){ .arg = index, .op = op, .datum_a = a, .datum_b = b };
}

static int refuse_families(scmp_filter_ctx f)
{
	const uint32_t act = SCMP_ACT_ERRNO(EAFNOSUPPORT);

	for (int i = 0; i < FAMILY_LAST; i++) {
		int known = 0;

		for (size_t k = 0; k < sizeof families / sizeof families[0]; k++)
			known |= families[k] == i;
		if (!known && seccomp_rule_add(f, act, SCMP_SYS(socket), 1, arg(0, SCMP_CMP_EQ, (uint64_t)i, 0)) < 0)
			return -1;
	}
	return seccomp_rule_add(f, act, SCMP_SYS(socket), 1, arg(0, SCMP_CMP_GT, FAMILY_LAST, 0));
}

/* A user namespace of its own would give a guest all capabilities over it, and with them much more of the kernel. */
static int refuse_userns(scmp_filter_ctx f)
{
#if defined(__s390__) || defined(__CRIS__)
	const unsigned clone_flags = 1;
#else
	const unsigned clone_flags = 0;
#endif
	const uint32_t act = SCMP_ACT_ERRNO(EPERM);
	int nr = seccomp_syscall_resolve_name("clone3");

	if (seccomp_rule_add(f, act, SCMP_SYS(unshare), 1, arg(0, SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)) < 0 ||
	    seccomp_rule_add(f, act, SCMP_SYS(clone), 1, arg(clone_flags, SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)) < 0)
		return -1;
	/* its flags are behind a pointer; libc falls back to clone on ENOSYS */
	return nr == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), nr, 0);
}

static int build(scmp_filter_ctx f)
{
	if (seccomp_arch_native() == SCMP_ARCH_X86_64 && seccomp_arch_add(f, SCMP_ARCH_X86) < 0)
		return -1;
	if (seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0 ||
	    seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
		return -1;
	return refuse_names(f) < 0 || refuse_families(f) < 0 || refuse_userns(f) < 0 ? -1 : 0;
}

/* libseccomp 2.5 writes programs to descriptors only. */
static int export(scmp_filter_ctx f, struct sock_fprog *prog, struct err *e)
{
	int fd = memfd_create("filter", MFD_CLOEXEC);
	off_t size;
	int status = -1;

	if (fd < 0)
		return err_sys(e, "memfd");
	if (seccomp_export_bpf(f, fd) == 0 && (size = lseek(fd, 0, SEEK_END)) > 0) {
		prog->len = (unsigned short)((size_t)size / sizeof *prog->filter);
		prog->filter = malloc((size_t)size);
		if (prog->filter != NULL && pread(fd, prog->filter, (size_t)size, 0) == (ssize_t)size)
			status = 0;
		else
			free(prog->filter);
	}
	close(fd);
	return status == 0 ? 0 : err_set(e, ERR_INTERNAL, "the system call filter cannot be written out");
}

int filter_make(struct sock_fprog *prog, struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int status;

	if (f == NULL)
		return err_set(e, ERR_INTERNAL, "libseccomp: no filter");
	if (build(f) < 0)
		status = err_set(e, ERR_INTERNAL, "libseccomp: the filter cannot be built");
	else
		status = export(f, prog, e);
	seccomp_release(f);
	return status;
}
