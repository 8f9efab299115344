"""One hutch-node in a directory of its own, and an audit of what it holds of the system."""

import concurrent.futures
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import threading

import wire
from tap import Reporter, Skip, check, equal, eventually, selected

MACHINE = re.compile(r"^sb_[a-z0-9]{20}$")


def sandbox_id():
    return "i" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(20))


class Node:
    def __init__(self, program, agent):
        self.program, self.agent = program, agent
        # short: the paths of sockets have 107 bytes
        self.dir = tempfile.mkdtemp(prefix="hn", dir="/var/tmp")
        os.chmod(self.dir, 0o755)
        self.state, self.run = os.path.join(self.dir, "state"), os.path.join(self.dir, "run")
        self.conf, self.log = os.path.join(self.dir, "conf"), os.path.join(self.dir, "log")
        self.process = None
        self.configure()

    def configure(self, **more):
        options = {"state_dir": self.state, "run_dir": self.run, "agent_path": self.agent, "max_sandboxes": 40, "pids_max": 64, "warm": 0, "egress": "off",
                   **more}
        with open(self.conf, "w") as f:
            f.writelines("%s = %s\n" % i for i in options.items())

    # ---- process ----
    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([self.program, "-c", self.conf], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        eventually(self.answers, 20, "hutch-node answers; its log: " + self.tail())

    def answers(self):
        check(self.process.poll() is None, "hutch-node runs", self.tail())
        with contextlib.suppress(OSError, wire.Cut):
            return self.call("GET", "/v1/info").status == 200

    def stop(self, sig=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(sig)
        status = self.process.wait(120)
        self.process = None
        if sig == signal.SIGTERM:
            equal(status, 0, "exit status after SIGTERM")

    def purge(self):
        return subprocess.run([self.program, "-c", self.conf, "--purge"], stdin=subprocess.DEVNULL, capture_output=True, timeout=300)

    def end(self):
        self.stop(signal.SIGKILL)
        r = self.purge()
        shutil.rmtree(self.dir)
        equal(r.returncode, 0, "purge: %r" % r.stderr)

    def tail(self):
        with contextlib.suppress(OSError), open(self.log) as f:
            return "".join(f.readlines()[-15:])
        return ""

    # ---- API ----
    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        return wire.once(os.path.join(self.run, "node.sock"), method, path, [("Content-Type", "application/json")] if data else [], data)

    def must(self, status, method, path, body=None):
        r = self.call(method, path, body)
        equal(r.status, status, "%s %s: %r; log: %s" % (method, path, r.body[:300], self.tail()))
        return r.json() if r.body else None

    def pools(self, *rows):
        return self.must(200, "PUT", "/v1/pools", {"pools": [self.row(**r) for r in rows]})

    @staticmethod
    def row(template="base", image="host", cpu_count=1, memory_mb=128, disk_mb=64, warm=0, **more):
        return dict(template=template, image=image, cpu_count=cpu_count, memory_mb=memory_mb, disk_mb=disk_mb, warm=warm, **more)

    def info(self):
        return self.must(200, "GET", "/v1/info")

    def warm(self, template="base"):
        return next(p["warm"] for p in self.info()["pools"] if p["template"] == template)

    def claim(self, template="base", ref=None, **init):
        ref = ref or sandbox_id()
        body = {"template": template, "claim_ref": ref, "init": {"op": "init", "sandboxId": ref, "templateId": template, "envVars": {}, **init}}
        return Box(self, self.must(200, "POST", "/v1/claim", body)["id"], ref)

    def checkpoint(self, machine, name, **more):
        return self.must(200, "POST", "/v1/sandboxes/%s/checkpoint" % machine, {"name": name, **more})["checkpoint"]

    def claim_from(self, checkpoint, ref=None):
        ref = ref or sandbox_id()
        body = {"claim_ref": ref, "init": {"op": "init", "sandboxId": ref, "templateId": "base", "envVars": {}}}
        return Box(self, self.must(200, "POST", "/v1/checkpoints/%s/claim" % checkpoint, body)["id"], ref)

    def checkpoints(self):
        return [c["id"] for c in self.must(200, "GET", "/v1/checkpoints")["checkpoints"]]

    def release(self, machine):
        return self.call("POST", "/v1/sandboxes/%s/release" % machine).status

    def listed(self, query=""):
        return {s["id"]: s for s in self.must(200, "GET", "/v1/sandboxes" + query)["sandboxes"]}

    # ---- what the system holds ----
    def group(self):
        names = os.listdir(os.path.join(self.state, "node")) if os.path.isdir(self.state) else []
        return names

    def cgroups(self):
        """Our groups, base directories too: found by the machines' names or by the hash in the name of the base."""
        import hashlib
        base = "hutch-" + hashlib.sha256(self.state.encode()).hexdigest()[:8]
        out = []
        with open("/proc/self/mountinfo") as f:
            points = {line.split()[4] for line in f if " - cgroup" in line}
        for point in points:
            top = os.path.join(point, base)
            if os.path.isdir(top):
                out += [top] + [os.path.join(top, n) for n in os.listdir(top) if MACHINE.match(n)]
        return out

    def group_files(self, machine, name):
        """Contents of that file in the machine's groups: one for each hierarchy that has it."""
        out = []
        for group in self.cgroups():
            with contextlib.suppress(OSError):
                if os.path.basename(group) == machine:
                    with open(os.path.join(group, name)) as f:
                        out.append(f.read())
        return out

    def cpu_limit(self, machine):
        """Processors that the machine may use, as its control group says; None without a limit."""
        for text in self.group_files(machine, "cpu.max"):
            quota, period = text.split()
            return None if quota == "max" else int(quota) / int(period)
        for quota, period in zip(self.group_files(machine, "cpu.cfs_quota_us"), self.group_files(machine, "cpu.cfs_period_us")):
            return None if int(quota) < 0 else int(quota) / int(period)
        return None

    def cpu_periods(self, machine):
        """Periods in which its limit of processor time was counted: they pass only while its processes want a processor."""
        stats = [dict(line.split() for line in text.splitlines()) for text in self.group_files(machine, "cpu.stat")]
        return sum(int(x.get("nr_periods", 0)) for x in stats)

    def processes(self):
        """Every process in one of our groups: pid -> machine."""
        out = {}
        for group in self.cgroups():
            with contextlib.suppress(OSError), open(os.path.join(group, "cgroup.procs")) as f:
                for pid in f.read().split():
                    out[int(pid)] = os.path.basename(group)
        return out

    def mounts(self):
        """Mount points below our directory, and mounts of our disks in any process's view."""
        seen = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open("/proc/%s/mountinfo" % pid) as f:
                for line in f:
                    if self.dir in line:
                        seen.add(line.strip())
        return seen

    def loops(self):
        out = []
        for name in os.listdir("/sys/block"):
            with contextlib.suppress(OSError), open("/sys/block/%s/loop/backing_file" % name) as f:
                if f.read().startswith(self.dir):
                    out.append(name)
        return out

    def files(self, *parts):
        path = os.path.join(self.dir, *parts)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def leftovers(self):
        """What is left of sandboxes, in words; empty after a purge."""
        bad = ["cgroup " + g for g in self.cgroups()]
        bad += ["process %d of %s" % p for p in self.processes().items()]
        bad += ["mount " + m for m in self.mounts()]
        bad += ["loop device " + x for x in self.loops()]
        for parts in (("run", "sb"), ("run", "node", "ctl"), ("state", "node", "sb"), ("state", "node", "disk"), ("state", "node", "ck")):
            bad += ["/".join(parts) + "/" + f for f in self.files(*parts)]
        return bad

    def holds(self):
        """Machines by what there is of them."""
        return {
            "sockets": set(self.files("run", "sb")),
            "control": set(self.files("run", "node", "ctl")),
            "state": {f[:-5] for f in self.files("state", "node", "sb") if not f.startswith(".")},
            "cgroup": {os.path.basename(g) for g in self.cgroups() if MACHINE.match(os.path.basename(g))},
            "process": set(self.processes().values()),
        }

    def disks(self):
        """Machines that have an image; none where disks are in memory."""
        return {f[:-4] for f in self.files("state", "node", "disk") if f.endswith(".img") and MACHINE.match(f[:-4])}

    def agrees(self):
        """All kinds hold the very machines that the API lists, and no other has a disk."""
        want = set(self.listed("?all=true"))
        return all(have == want for have in self.holds().values()) and self.disks() <= want


class Box:
    """A claimed sandbox whose first process is the probe."""

    def __init__(self, node, machine, ref):
        self.node, self.id, self.ref = node, machine, ref

    @property
    def socket(self):
        return os.path.join(self.node.run, "sb", self.id, "49983")

    def ask(self, question, arg=""):
        r = wire.once(self.socket, "GET", "/%s?%s" % (question, str(arg).replace(" ", "+")))
        equal(r.status, 200, "the probe answers")
        return r.body.decode("utf-8", "replace")

    def release(self):
        return self.node.release(self.id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, wire.Cut):
            self.release()


def capable(n, what):
    if not n.info()["capabilities"].get(what):
        raise Skip("no %s here" % what)


def run(suite):
    """main() of a test of the node: the exit status."""
    build = os.environ.get("builddir", os.getcwd())
    only = [a for a in sys.argv[1:] if not a.startswith("-")]
    program, probe = os.path.join(build, "hutch-node"), os.path.join(build, "tests/probe/probe")
    if os.geteuid() != 0:
        print("1..0 # SKIP hutch-node needs root")
        return 77
    for path in (program, probe):
        if not os.access(path, os.X_OK):
            print("1..0 # SKIP no program %s" % path)
            return 77
    report = Reporter()
    node = Node(program, probe)
    try:
        node.start()
        print("# capabilities: %s" % json.dumps(node.info()["capabilities"]))
        for name, _, fn in suite.items:
            if not selected(name, only):
                continue
            if not report.run(name, fn, node, limit=900):          # a hang, not a busy machine
                report.note(node.tail())
            if node.process is None:
                node.start()
    finally:
        node.end()
    report.plan()
    return 1 if report.failed or not report.passed else 0


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pid, seconds=10):
    eventually(lambda: not alive(pid), seconds, "process %d is gone" % pid)


def at_once(n, work):
    """What work(0) to work(n - 1) say, each in a thread."""
    with concurrent.futures.ThreadPoolExecutor(n) as ex:
        return list(ex.map(work, range(n)))


def crash_under_load(node, count, work, under_way):
    """work(i) again and again in so many threads; once under_way() the daemon is killed, and then started again."""
    over = threading.Event()

    def go_on(i):
        with contextlib.suppress(Exception):
            while not over.is_set():
                work(i)
    with concurrent.futures.ThreadPoolExecutor(count) as ex:
        jobs = [ex.submit(go_on, i) for i in range(count)]
        eventually(under_way, 20, "load")
        node.stop(signal.SIGKILL)
        over.set()
        for j in jobs:
            j.result()
    node.start()
