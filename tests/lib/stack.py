"""A stack of its own for a test run: own directory, own port, own configuration; and what is left when it has ended.

It is started by tools/stack, as quickstart does. Every program is a `part` that can be stopped, killed and started
again by name; parts are ended by process id.
"""

import atexit
import contextlib
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import fcgi
import lab as labs
import wire
from servers import SERVERS
from tap import Failed, Skip, eventually

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USER = "www-data"
CREWS = ("web", "sandboxes", "templates", "teams", "events", "doors", "edge", "relay")       # parts whose noted process starts others that do the work


PORTS = range(20000, 32000)     # below those that the kernel gives to clients: no connection takes one while its server is away
taken = []                      # what holds ours


def free_port():
    """A port that nobody listens on, and that no other run takes as long as this one lasts: whose the name of the socket is, has it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        first, last = (int(x) for x in f.read().split())
    ports = [p for p in PORTS if not first <= p <= last] or list(PORTS)
    random.shuffle(ports)
    for port in ports:
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind("\0hutch-test-port-%d" % port)
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        taken.append(held)
        return port
    raise AssertionError("there is no free port")


def alive(pid):
    """Running: neither gone nor a zombie that nobody has waited for."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def started(pid):
    """Start time of a running process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            x = f.read().rsplit(")", 1)[1].split()
        return None if x[0] in "ZX" else int(x[19])
    except OSError:
        return None


def listens(port):
    try:
        wire.Conn(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


def which(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


class Stack:
    """tools/stack, as quickstart uses it, in a temporary directory."""

    def __init__(self, build, server, keep=False, domain_is=None, lab=None, **options):
        """server: one of SERVERS, with http and https, or None (no web server). options: lines of hutch.conf.
        lab: the network that hutch-node and its sandboxes are to be in (lab.py); without one they have no way out.
        domain_is: "https" makes the port of https part of domain, so that clients need nothing but it."""
        if os.geteuid() != 0:
            raise Skip("the local pool needs root")
        for program in ([SERVERS[server].program] if server else []) + ["spawn-fcgi", "curl", "setpriv"]:
            if which(program) is None:
                raise Skip("%s is not installed" % program)
        try:
            pwd.getpwnam(USER)
        except KeyError:
            raise Skip("there is no user %s" % USER) from None
        self.epoch = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self.lab = lab
        self.build, self.server, self.keep = os.path.abspath(build), server, keep
        self.dir = tempfile.mkdtemp(prefix="hutch-test-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        atexit.register(self.remove)
        self.port, self.tls_port = free_port(), free_port()
        self.domain = "hutch.localhost:%d" % (self.tls_port if domain_is == "https" else self.port)
        self.where = ("127.0.0.1", self.port)
        self.tls_where = wire.Tls("127.0.0.1", self.tls_port, self.path("tls/ca.pem"))
        self.url = "http://127.0.0.1:%d" % self.port
        self.run_dir = self.path("run")
        self.conf = self.path("hutch.conf")
        self.options = {"warm": 2, "repair_s": 10, "team_sandboxes": 24, "max_sandboxes": 400, "pids_max": 512, "db_size_mb": 256, "verification": "true",
                        "webhook_private": "true", "webhook_retry_s": 1,
                        "admin_token_file": self.path("state/admin-token"), **(labs.OPTIONS if lab else {"egress": "off"}), **options}
        self.pids_max = int(self.options["pids_max"])
        self.team_sandboxes = int(self.options["team_sandboxes"])
        self.repair_s = int(self.options["repair_s"])
        self.ever = set()           # every process of a part that was seen, with its start time: numbers are used again
        self.known = set()          # every machine of ours that was seen
        self.write_options()

    def write_options(self, **more):
        with open(self.path("more.conf"), "w") as f:
            f.writelines("%s = %s\n" % x for x in {**self.options, **more}.items())

    @contextlib.contextmanager
    def configured(self, *parts, **options):
        """Other options of hutch.conf for a while; the parts are started anew with them, and again afterwards."""
        def apply(**more):
            self.write_options(**more)
            for name in parts:
                self.stop_part(name)
            self.bring_up()

        apply(**options)
        try:
            yield
        finally:
            apply()

    def path(self, name):
        return os.path.join(self.dir, name)

    def program(self, name):
        for d in ("", "sbin", "libexec/hutch", "bin"):
            path = os.path.join(self.build, d, name)
            if os.access(path, os.X_OK):
                return path
        raise AssertionError("there is no program %s below %s" % (name, self.build))

    def spawn_user(self):
        return ["-u", USER, "-g", USER]

    # ---- start ----
    def tool(self, command, *more):
        p = subprocess.run([os.path.join(SOURCE, "tools/stack"), command, "--dir", self.dir] + list(more), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        if p.returncode != 0:
            raise AssertionError("tools/stack %s: exit %d\n%s" % (command, p.returncode, p.stdout.decode("utf-8", "replace")))
        self.ever.update((p, started(p)) for pids in self.pids().values() for p in pids)

    def start(self):
        try:
            self.bring_up()
            self.ctl("template", "base", "--image", "host", "--public")
        except BaseException:
            self.show_logs()
            self.stop()
            raise
        return self

    def bring_up(self):
        """Starts whatever of the parts does not run, and waits until each serves."""
        self.tool("start", "--bin", self.build, "--server", self.server or "none", "--port", str(self.port), "--domain", self.domain,
                  *(["--tls-port", str(self.tls_port)] if self.server else []),
                  "--user", USER, "--config", self.path("more.conf"), *(["--node-netns", self.lab.path] if self.lab else []))

    def now(self):
        """The instance's time, in seconds: it goes on from its start, whatever is done to the wall clock."""
        return self.epoch + time.clock_gettime(time.CLOCK_BOOTTIME)

    # ---- parts ----
    def parts(self):
        names = ["node", "reaper", "sandboxes", "templates", "teams", "events", "doors"]
        if self.options.get("verification") == "true":
            names.append("fake")
        return names + (SERVERS[self.server].lookups + ["web"] if self.server else [])

    def lookups(self):
        return [n for n in ("edge", "relay") if n in self.parts()]

    def fcgi_socket(self, name):
        return os.path.join(self.run_dir, "fcgi", name + ".sock")

    def pids_of(self, name):
        """As tools/stack noted them down: a line of process id and start time each."""
        out = []
        with contextlib.suppress(OSError):
            with open(self.path("pid/" + name)) as f:
                for line in f:
                    pid, start = line.split()
                    if started(int(pid)) == int(start):
                        out.append(int(pid))
        return out

    def pids(self):
        """Every process of each part that is ours to count: those that a crew's first one has started too."""
        own = {name: self.pids_of(name) for name in self.parts()}
        return {name: p + (children_of(p) if name in CREWS else []) for name, p in own.items()}

    def start_part(self, name):
        self.bring_up()
        if not self.pids_of(name):
            raise AssertionError("%s did not come up" % name)

    def end_part(self, name, sig, seconds):
        pids = self.pids_of(name)
        if name in CREWS and sig == signal.SIGKILL:
            pids += children_of(pids)       # who does the work, and holds the port
        for p in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, sig)
        eventually(lambda: not any(alive(p) for p in pids), seconds, "%s ends" % name)

    def stop_part(self, name):
        self.end_part(name, signal.SIGTERM, 20)

    def kill_part(self, name):
        self.end_part(name, signal.SIGKILL, 10)

    def reload_web(self):
        """The web server reads its files anew; over when its workers are new ones, or where it has none, when it has started again."""
        main = self.pids_of("web")
        old, before = set(children_of(main)), self.web_starts()
        os.kill(main[0], SERVERS[self.server].reload_by)
        if self.server == "lighttpd":
            eventually(lambda: self.web_starts() > before, 20, "lighttpd starts again")
        else:
            eventually(lambda: set(children_of(main)) - old, 20, "new workers")

    def web_starts(self):
        """How often lighttpd has started."""
        with contextlib.suppress(OSError):
            with open(self.path("log/lighttpd-error.log")) as f:
                return f.read().count("server started")
        return 0

    def render(self, name, **values):
        """A file of httpd-conf/, filled in."""
        values = {"USER": USER, "GROUP": USER, "RUN": self.run_dir, "MODULES": "/usr/lib/apache2/modules", **values}
        conf = os.path.join(SOURCE, "httpd-conf")
        return subprocess.run([os.path.join(conf, "render"), os.path.join(conf, name)] + ["%s=%s" % x for x in values.items()],
                              stdout=subprocess.PIPE, check=True).stdout.decode()

    @contextlib.contextmanager
    def further_web(self, port, files_in):
        """A further web server of the same kind: NAME-main.conf around files_in(ETC), {name: text}. It gets a session of its own, like
        the first: the kernel shares processors out among sessions."""
        d = tempfile.mkdtemp(prefix="web-", dir=self.path("tmp"))
        where = {"ETC": d + "/etc", "LOG": d + "/log", "TMP": d + "/tmp"}
        for x in where.values():
            os.mkdir(x)
            shutil.chown(x, USER)
        os.chmod(d, 0o755)
        main = self.render(self.server + "-main.conf", ADDRESS="127.0.0.1", PORT=port, LISTEN="127.0.0.1:%d" % port, **where)
        for name, text in {**files_in(where["ETC"]), "main.conf": main}.items():
            with open(os.path.join(where["ETC"], name), "w") as f:
                f.write(text)
        how = {"nginx": ["-g", "daemon off;", "-c"], "lighttpd": ["-D", "-f"], "apache": ["-DFOREGROUND", "-f"]}[self.server]
        with open(d + "/log/web.log", "w") as log:
            p = subprocess.Popen([which(SERVERS[self.server].program)] + how + [d + "/etc/main.conf"], cwd="/", start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            eventually(lambda: listens(port), 10, "the further server answers")
            yield
        finally:
            p.terminate()
            p.wait()

    def restart_all(self):
        for name in reversed(self.parts()):
            self.stop_part(name)
        self.bring_up()

    # ---- talk to the parts ----
    def ctl(self, *args):
        """hutchctl, as the web server's user: what it makes belongs to the responders."""
        p = subprocess.run([self.program("hutchctl"), "-c", self.conf] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=wire.HANG, cwd="/", user=USER, group=USER, extra_groups=[])
        if p.returncode != 0:
            raise AssertionError("hutchctl %s: exit %d\n%s%s" % (" ".join(args), p.returncode, p.stdout.decode(), p.stderr.decode()))
        return p.stdout.decode()

    def door(self, method, path, body=None, headers=()):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return fcgi.call(self.fcgi_socket("doors"), method, path, list(headers) + ([("Content-Type", "application/json")] if data else []), data)

    def node(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        return wire.once(os.path.join(self.run_dir, "node.sock"), method, path, [("Content-Type", "application/json")] if data else [], data)

    def machines(self):
        """{machine: sandbox} of the claimed ones; {} also while the node is starting."""
        try:
            r = self.node("GET", "/v1/sandboxes")
        except (OSError, wire.Cut):
            return {}
        return {x["id"]: x.get("claim_ref", "") for x in r.json()["sandboxes"] if x.get("claim_ref")} if r.status == 200 else {}

    def rows(self):
        """[(sandbox, state, machine)] of every team, as `hutchctl list` tells; those of pools without machines are left out."""
        out = []
        for line in self.ctl("list").splitlines():
            f = line.split("\t") if "\t" in line else line.split()
            if re.match(r"^i[a-z0-9]{20}$", f[0]):
                machine = [x for x in f if x.startswith("sb_")]
                if not f[-1].startswith("row_"):
                    out.append((f[0], f[1], machine[0] if machine else ""))
        return out

    # ---- agreement ----
    def differences(self):
        """What rows, machines, sockets, mounts, cgroups and processes say differently; "" when they agree."""
        try:
            rows, claimed = self.rows(), self.machines()
            info = self.node("GET", "/v1/info").json()
        except (OSError, wire.Cut, AssertionError, KeyError) as e:
            return "cannot be told: %s" % e
        bad = ["row %s is %s" % (i, s) for i, s, _ in rows if s != "running"]
        want = {m: i for i, s, m in rows if s == "running"}
        bad += ["machine %s of %s has no row" % (m, i) for m, i in claimed.items() if want.get(m) != i]
        bad += ["row %s names machine %s, which is not there" % (i, m) for m, i in want.items() if m not in claimed]
        warm = sum(p.get("warm", 0) for p in info.get("pools", []))
        there = self.held()
        for kind, names in there.items():
            missing = set(claimed) - names
            bad += ["%s of machine %s is missing" % (kind, m) for m in sorted(missing)]
            extra = names - set(claimed)
            if len(extra) > warm + self.refilling(info):
                bad.append("%s of %d machines that are neither claimed nor warm (%d warm): %s" % (kind, len(extra), warm, " ".join(sorted(extra))))
        return "; ".join(bad)

    def refilling(self, info):
        return sum(p.get("refilling", 0) for p in info.get("pools", []))

    def agrees(self):
        return self.differences() == ""

    def held(self):
        """Machines by what the system holds of them: {kind: set of machine ids}."""
        def inside(path):
            return os.listdir(path) if os.path.isdir(path) else []
        return {
            "socket directory": set(inside(os.path.join(self.run_dir, "sb"))),
            "process": set(self.agents()),
            "cgroup": {os.path.basename(c) for c in self.cgroups()},
            "disk": self.named(inside(self.path("state/node/disk"))),
            "loop device": self.named(self.loops()),
        }

    @staticmethod
    def named(paths):
        """The machine ids in file names."""
        return {m.group(0) for m in (re.search(r"sb_[a-z0-9]{20}", p) for p in paths) if m}

    def loops(self):
        """Backing files of loop devices that are below our directory."""
        out = []
        for loop in (x for x in os.listdir("/sys/block") if x.startswith("loop")):
            with contextlib.suppress(OSError):
                with open("/sys/block/%s/loop/backing_file" % loop) as f:
                    path = f.read().strip()
                if path.startswith(self.dir):
                    out.append(path)
        return out

    def agents(self):
        """{machine: pid of its first process, seen from the host}."""
        out = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open("/proc/%s/cgroup" % pid) as f:
                    m = re.search(r"(sb_[a-z0-9]{20})", f.read())
                if not m or not self.ours(m.group(1)):
                    continue
                with open("/proc/%s/status" % pid, errors="replace") as f:
                    status = f.read()
                ns = re.search(r"^NSpid:\s+(.*)$", status, re.M).group(1).split()
                if len(ns) > 1 and ns[-1] == "1" and "State:\tZ" not in status:
                    out[m.group(1)] = int(pid)
        return out

    def ours(self, machine):
        """Other stacks on this machine have machines too; ours have a directory here, or had one."""
        if os.path.isdir(os.path.join(self.run_dir, "sb", machine)):
            self.known.add(machine)
        return machine in self.known

    def agent_pid(self, sandbox):
        for m, i in self.machines().items():
            if i == sandbox.id:
                return self.agents().get(m)
        return None

    def cgroups(self):
        """Directories of our machines' control groups (one hierarchy stands for all)."""
        out = set()
        for top in cgroup_roots():
            for d, names, _ in os.walk(top):
                for n in list(names):
                    if re.match(r"^sb_[a-z0-9]{20}$", n):
                        names.remove(n)
                        if self.ours(n):
                            out.add(os.path.join(d, n))
        return out

    def memory(self):
        """Bytes of private memory of each part (sum over its processes) and each agent."""
        out = {}
        for name, pids in self.pids().items():
            out[name] = sum(private(p) for p in pids)
        for machine, pid in self.agents().items():
            out["agent " + machine] = private(pid)
        return out

    # ---- end ----
    def show_logs(self, names=None):
        """The last lines of each part's log, as comments."""
        for name in sorted(os.listdir(self.path("log"))) if os.path.isdir(self.path("log")) else []:
            part = re.split(r"[.-]", name)[0]
            if "access" in name or part not in (names or self.parts() + list(SERVERS)):
                continue
            with open(self.path("log/" + name), errors="replace") as f:
                for line in f.read().splitlines()[-15:]:
                    print("# %s: %s" % (name, line[:400]), flush=True)

    def stop(self):
        """Ends the sandboxes and every part. What is left afterwards is told by leftovers()."""
        try:
            self.tool("stop", "--purge")
        except Exception as e:
            print("# stop: %s" % e, flush=True)

    def leftovers(self):
        """What of this stack is still on the machine after stop()."""
        bad = ["process %d" % p for p, start in self.ever if start is not None and started(p) == start]
        bad += ["agent %d of %s" % (p, m) for m, p in self.agents().items()]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    if self.dir.encode() in f.read() and int(pid) != os.getpid() and alive(int(pid)):
                        bad.append("process %s names %s" % (pid, self.dir))
        with open("/proc/self/mountinfo") as f:
            bad += ["mount " + line.split()[4] for line in f if self.dir in line]
        bad += ["cgroup " + c for c in self.cgroups()]
        bad += ["loop device of " + path for path in self.loops()]
        with open("/proc/net/unix") as f:
            bad += ["socket " + line.split()[-1] for line in f if self.dir in line]
        if self.lab:
            bad += self.lab.left()
        return sorted(set(bad))

    def finish(self, report):
        """Ends all of it, and tells whether anything is left on the machine."""
        name = "audit: nothing is left on the machine"
        self.stop()
        try:
            eventually(lambda: not self.leftovers(), 5, "everything of the stack is gone")
            report.ok(name)
        except Failed as e:
            report.not_ok(name, "%s\n%s" % (e, "\n".join(self.leftovers())))
        if report.failed:
            self.show_logs()
        self.remove()
        if self.lab:
            self.lab.close()

    def remove(self):
        if not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)


def cgroup_roots():
    with open("/proc/self/mountinfo") as f:
        return sorted({line.split()[4] for line in f if re.search(r" - cgroup2? ", line)})


def children_of(pids):
    out = []
    for p in pids:
        with contextlib.suppress(OSError):
            for t in os.listdir("/proc/%d/task" % p):
                with open("/proc/%d/task/%s/children" % (p, t)) as f:
                    out += [int(x) for x in f.read().split()]
    return out + (children_of(out) if out else [])


def private(pid):
    """Anonymous and shared memory of a process in bytes; file pages do not count."""
    try:
        with open("/proc/%d/status" % pid) as f:
            return sum(int(x) for x in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", f.read(), re.M)) * 1024
    except OSError:
        return 0
