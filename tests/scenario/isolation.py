"""What a sandbox can see and reach: nothing but its template and itself."""

import contextlib
import os
import re
import secrets
import socket
import subprocess
import threading

from tap import Skip, Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario

# Directories of the host where a stranger's file must not show.
PLACES = ("/", "/etc", "/root", "/home", "/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt", "/run", "/dev/shm", "/usr/local", "/boot")
TOP = {"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp",
       "usr", "var"}


@contextlib.contextmanager
def sentinels():
    """A file of a random name in each place of the host."""
    name = "hutch-sentinel-" + secrets.token_hex(8)
    made = []
    try:
        for place in PLACES:
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                with open(path, "w") as f:
                    f.write("secret of the host\n")
                made.append(path)
        yield name, made
    finally:
        for path in made:
            os.unlink(path)


@contextlib.contextmanager
def process(*argv):
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def root(s, text):
    return s.run(text, user="root", login=False)


@scenario("the root directory shows only a system's usual names", data=True)
def top(w):
    with w.create() as s:
        names = set(s.out("ls -A /").split())
        check(names <= TOP, "unusual names in /", sorted(names - TOP))
        for must in ("bin", "etc", "home", "proc", "tmp", "usr"):
            check(must in names, "/%s is there" % must, sorted(names))
        for d in ("/root", "/opt", "/srv", "/mnt", "/tmp", "/var/tmp"):
            hidden = set(s.out("ls -A %s" % d, user="root").split()) & set(os.listdir(d) if os.path.isdir(d) else ())
            check(hidden <= {".bashrc", ".profile"}, "files of the host's %s show" % d, sorted(hidden))


@scenario("no file of the host beyond its userland shows, to root neither, by any path", data=True)
def host_files(w):
    with sentinels() as (name, made), w.create() as s:
        check(len(made) >= 8, "sentinels were laid", made)
        # /usr is the template; everything laid elsewhere must be invisible.
        lines = root(s, "find / -name '%s*' 2>/dev/null" % name).stdout.decode().split()
        equal([x for x in lines if not x.startswith("/usr/")], [], "found")
        for path in made:
            if path.startswith("/usr/"):
                continue
            for form in (path, "/proc/1/root" + path, "/proc/self/cwd/../../.." + path, "/../../.." + path):
                check(root(s, "cat '%s'" % form).exit_code != 0, "the guest's root read %s" % form)
            error_body(s.envd.read(path, username="root"), 404)
        for d in ("/etc/shadow", "/etc/ssh", "/etc/hutch", "/root/.ssh", "/root/.bash_history", "/var/lib/dpkg/status", "/etc/nginx"):
            if os.path.exists(d):
                r = root(s, "cat '%s' 2>/dev/null || ls '%s'" % (d, d))
                if r.exit_code == 0 and os.path.isfile(d):
                    with open(d, "rb") as f:
                        check(r.stdout != f.read() or d == "/var/lib/dpkg/status", "the host's %s shows" % d)


@scenario("the host's own tree cannot be written: usr is read through a layer", data=True)
def usr_write(w):
    name = "hutch-written-" + secrets.token_hex(8)
    with w.create() as s, w.create() as t:
        root(s, "echo x > /usr/%s; echo x > /usr/bin/%s; rm -f /usr/bin/env; echo x > /etc/%s" % (name, name, name))
        for place in ("/usr", "/usr/bin", "/etc"):
            check(not os.path.exists(os.path.join(place, name)), "the guest wrote into the host's %s" % place)
        check(os.path.exists("/usr/bin/env"), "the host's env is still there")
        equal(t.out("ls /usr/bin/env").strip(), "/usr/bin/env", "another sandbox's too")
        check(t.run("ls /usr/bin/%s" % name).exit_code != 0, "another sandbox sees the change")


@scenario("records, secret, sockets and configuration of hutch are invisible", data=True)
def own_files(w):
    with w.create() as s:
        found = root(s, "find / -xdev \\( -name data.mdb -o -name lock.mdb -o -name 'hutch*' -o -name node.sock -o -name 49983 \\) 2>/dev/null").stdout.decode().split()
        equal([f for f in found if not f.startswith(("/proc/", "/sys/"))], [], "hutch's files")
        check(root(s, "ls '%s'" % w.dir).exit_code != 0, "the stack's directory shows")
        unix = root(s, "cat /proc/net/unix").stdout.decode()
        for line in unix.splitlines()[1:]:
            check(w.dir not in line and "/run/" not in line, "a host's socket shows", line)
        sockets = root(s, "find / -xdev -type s 2>/dev/null").stdout.decode().split()
        equal(sockets, [], "socket files")
        mounts = root(s, "cat /proc/self/mountinfo").stdout.decode()
        for line in mounts.splitlines():
            point = line.split()[4]
            check(not point.startswith(w.dir), "a mount point under the stack's directory", line)


@scenario("descriptors of the agent lead nowhere outside", data=True)
def descriptors(w):
    with w.create() as s:
        # Root in the sandbox is the strongest caller there; a directory or file descriptor of the host would be a way out.
        links = root(s, "for p in /proc/[0-9]*; do for f in $p/fd/*; do echo \"$f $(readlink $f)\"; done; done 2>/dev/null").stdout.decode()
        for line in links.splitlines():
            f, _, to = line.partition(" ")
            if not to or to.startswith(("socket:", "pipe:", "anon_inode:", "/dev/null", "/proc/", "/dev/pts", "/dev/ptmx", "mnt:", "net:")):
                continue
            check(not to.startswith(w.dir) and "(unreachable)" not in to, "descriptor %s leads to %s" % (f, to))
            check(not os.path.isdir(to) or to in ("/", "/home/user", "/root", "/tmp"), "descriptor %s is the directory %s" % (f, to))
        for n in range(3, 12):
            check(root(s, "ls /proc/1/fd/%d/../../../../../../%s 2>/dev/null" % (n, w.dir)).exit_code != 0, "through descriptor %d" % n)


@scenario("processes: only its own; host's and neighbours' are neither seen nor signalled", data=True)
def processes(w):
    mark = "31%07d" % secrets.randbelow(10 ** 7)
    with process("sleep", mark) as p, w.create() as a, w.create() as b:
        b.envd.spawn("exec sleep 4%s" % mark)
        seen = root(a, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ps -ef 2>/dev/null").stdout.decode()
        check(mark not in seen, "a strange process shows", seen)
        for word in ("nginx", "lighttpd", "hutch-node", "hutch-reaper", "hutch-sandboxes"):
            check(word not in seen, "%s shows" % word, seen)
        pids = [int(x) for x in root(a, "ls /proc").stdout.split() if x.isdigit()]
        check(1 in pids and len(pids) < 12, "few processes, own numbering", pids)
        root(a, "kill -9 %d; kill -9 -1" % p.pid)
        equal(p.poll(), None, "the host's process lives after the guest's root killed all it can")
        equal(b.run("pgrep -f 'sleep 4%s' >/dev/null || grep -l 4%s /proc/[0-9]*/cmdline" % (mark, mark)).exit_code, 0, "the neighbour's lives too")
        eventually(lambda: a.envd.health() == 204, 5, "the agent survived kill -1 by its own root")


@scenario("root in a sandbox is nobody outside", data=True)
def userns(w):
    mark = "32%07d" % secrets.randbelow(10 ** 7)
    with w.create() as s:
        if root(s, "cat /proc/self/uid_map").stdout.split()[:3] == [b"0", b"0", b"4294967295"]:
            raise Skip("no user namespace here: the node says so in its capabilities")
        st = s.envd.start("/bin/sleep", [mark], user="root")
        next(st.events())

        def seen():
            uids = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    with open("/proc/%s/cmdline" % pid, errors="replace") as f:
                        if mark in f.read():
                            with open("/proc/%s/status" % pid, errors="replace") as f2:
                                uids += re.findall(r"^Uid:\s+(\d+)", f2.read(), re.M)
            return uids
        uids = eventually(seen, 0, "the guest's process is seen from the host")
        check(all(int(u) >= 65536 for u in uids), "its uid on the host", uids)
        st.close()


@scenario("what root may not do inside: mounts, devices, kernel knobs, namespaces' outside", data=True)
def privileges(w):
    with w.create() as s:
        # Each would harm nobody if it were allowed: files of the kernel are only opened, the clock is set to what it says.
        opened = ["exec 3>%s" % f for f in ("/proc/sys/kernel/panic", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches",
                                            "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run")]
        for text in opened + ["mount -t tmpfs none /mnt", "mount -t proc none /mnt", "mount --bind / /mnt", "mount -o remount,rw /sys", "umount /proc",
                              "mknod /tmp/disk b 7 0 && head -c1 /tmp/disk", "mknod /tmp/mem c 1 1 && head -c1 /tmp/mem", "head -c1 /proc/kcore",
                              "head -c1 /dev/mem", "head -c1 /dev/kmsg", "exec 3</proc/kmsg", "dmesg", "insmod /dev/null", "date -s \"$(date)\"",
                              "mkdir /sys/fs/cgroup/x", "mkdir /sys/fs/cgroup/memory/x", "ip link add type veth", "unshare -m true", "unshare -U true",
                              "ls /dev | grep -E '^(sd|vd|nvme|loop|dm-|mem|kmem|kvm|fuse)'"]:
            r = root(s, text)
            check(r.exit_code != 0, "root managed: %s" % text, r)
        equal(s.run("id -u").stdout, s.run("id -u user").stdout, "the default user is user")
        if s.run("command -v sudo").exit_code == 0:
            r = s.run("sudo -n id -u")
            check(r.exit_code != 0 or r.stdout.strip() == b"0", "sudo gives root or refuses", r)


@scenario("the network is its own: the host's loopback, abstract sockets and addresses are out of reach", data=True)
def network(w):
    stop = []

    def accept(sock):
        while not stop:
            with contextlib.suppress(OSError):
                c, _ = sock.accept()
                stop.append("reached")
                c.close()
    listener = socket.socket()
    listener.bind(("0.0.0.0", 0))
    abstract = socket.socket(socket.AF_UNIX)
    name = "hutch-test-" + secrets.token_hex(6)
    abstract.bind("\0" + name)
    for sock in (listener, abstract):
        sock.listen(4)
        threading.Thread(target=accept, args=(sock,), daemon=True).start()
    port = listener.getsockname()[1]
    try:
        with w.create() as a, w.create() as b:
            links = [x.split(":")[0].strip() for x in a.out("cat /proc/net/dev").splitlines()[2:]]
            check(set(links) <= {"lo", "eth0", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}, "interfaces", links)
            for host in ("127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254"):
                r = a.run("timeout 2 bash -c 'exec 3<>/dev/tcp/%s/%d'" % (host, port), login=False)
                check(r.exit_code != 0, "the guest reached a host's listener at %s" % host)
            r = a.run("timeout 2 bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'" % w.where[1], login=False)
            check(r.exit_code != 0, "the guest reached the web server")
            r = a.run("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0%s')\"" % name)
            check(r.exit_code != 0 and b"refused" in r.stderr, "an abstract socket of the host", r)
            b.envd.spawn("exec python3 -m http.server 9000 --bind 127.0.0.1 >/dev/null 2>&1")
            eventually(lambda: b.run("exec 3<>/dev/tcp/127.0.0.1/9000", login=False).exit_code == 0, 10, "b listens")
            check(a.run("exec 3<>/dev/tcp/127.0.0.1/9000", login=False).exit_code != 0, "a reached b's port")
        equal(stop, [], "a listener of the host was reached")
    finally:
        stop.append("end")
        listener.close()
        abstract.close()


@scenario("ten sandboxes at once: own files, names, users' homes, environment, processes", data=True)
def ten(w):
    boxes = [w.create(envVars={"WHO": "box%d" % i}, metadata={"i": str(i)}) for i in range(10)]
    try:
        for i, s in enumerate(boxes):
            for d in ("/home/user", "/tmp", "/var/tmp"):
                equal(s.envd.write("%s/of%d" % (d, i), b"box%d" % i).status, 200, "write")
            s.envd.spawn("exec sleep 777%d" % i)
        names = set()
        for i, s in enumerate(boxes):
            out = s.out("cat /home/user/of* /tmp/of* /var/tmp/of*; echo; echo $WHO; echo $E2B_SANDBOX_ID; whoami; pwd; cat /proc/sys/kernel/hostname")
            lines = out.split("\n")
            equal(lines[:5], ["box%d" % i * 3, "box%d" % i, s.id, "user", "/home/user"], "what box %d sees" % i)
            names.add(lines[5])
            running = root(s, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout.decode()
            equal(re.findall(r"sleep 777(\d)", running), [str(i)], "processes of box %d" % i)
        check(len(names) >= 1 and socket.gethostname() not in names, "host names", names)
        boxes[0].kill()
        for i, s in enumerate(boxes[1:], 1):
            equal(s.out("cat /tmp/of%d" % i), "box%d" % i, "box %d after the kill of box 0" % i)
    finally:
        for s in boxes:
            s.kill()


@scenario("a new sandbox has nothing of an earlier one", data=True)
def fresh(w):
    mark = secrets.token_hex(8)
    for _ in range(4):
        with w.create(envVars={"LEFT": mark}) as s:
            s.out("echo %s > /tmp/left; echo %s > ~/left; (sleep 9%s >/dev/null 2>&1 &) ; true" % (mark, mark, mark[:4].translate(str.maketrans("abcdef", "123456"))))
    for _ in range(4):
        with w.create() as s:
            r = s.run("cat /tmp/left ~/left; env | grep LEFT; grep -r %s /tmp /home 2>/dev/null" % mark)
            check(mark.encode() not in r.stdout, "something was left", r)
