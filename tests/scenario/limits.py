"""Limits: what one sandbox does to itself leaves the others and the host working."""

import contextlib
import os
import threading
import time
import zlib

import wire
from envd import collect
from tap import Skip, Suite, check, equal, eventually, within
from world import error_body

suite = Suite()
scenario = suite.scenario


def group_files(w, s, *names):
    """Those files of its control groups that are there: version 1 and 2 have other names."""
    machine = next(m for m, i in w.stack.machines().items() if i == s.id)
    paths = [os.path.join(c, f) for c in w.stack.cgroups() if os.path.basename(c) == machine for f in names]
    return [p for p in paths if os.path.exists(p)]


def number(path):
    with open(path) as f:
        return int(f.read())


def works(s, text="others"):
    equal(s.out("echo %s; cat /etc/passwd | wc -l >/dev/null" % text).split()[0], text, "a neighbour's command")


AGENT_TASKS = 32         # of the agent, beside what a user's limit lets the bomb have


@scenario("a fork bomb stays in its sandbox, root's too", data=True)
def fork_bomb(w):
    for user in (None, "root"):
        bomb(w, user)


def bomb(w, user):
    with w.create() as good, w.create() as bad:
        works(good)
        (pids,) = group_files(w, bad, "pids.current")
        st = bad.envd.start("/bin/bash", ["-c", "b() { b | b & }; b; sleep 1000"], user=user)
        next(st.events())
        eventually(lambda: number(pids) > w.stack.pids_max // 2, 20, "the bomb went off")
        for _ in range(5):
            works(good)
        equal(w.api("GET", "/sandboxes/" + bad.id).status, 200, "the API")
        with w.create() as s:
            works(s)
        (most,) = group_files(w, bad, "pids.max")
        tasks = min(number(pids) for _ in range(100))        # the kernel counts a fork before it refuses it
        check(tasks <= number(most), "its tasks stay below its limit", tasks, number(most))
        check(tasks <= w.stack.pids_max + AGENT_TASKS, "the bomb itself below the limit of a user", tasks)
        st.close()
        equal(bad.kill(), 204, "kill the bomb")
        eventually(lambda: not os.path.exists(pids), 10, "its processes are gone, and their control group")
        works(good)


@scenario("a memory hog is killed within its limit; its sandbox and the others go on", data=True)
def memory_hog(w):
    w.template("small", cpuCount=1, memoryMB=128, diskSizeMB=256)
    with w.create(template="small") as bad, w.create() as good:
        files, most = group_files(w, bad, "memory.usage_in_bytes", "memory.current"), [0]
        check(files, "its control group says what it uses")
        done = threading.Event()

        def watch():
            while not done.is_set():
                most[0] = max(most[0], *map(number, files))
                time.sleep(0.01)
        t = threading.Thread(target=watch)
        t.start()
        try:
            for hog in ("x=$(head -c 1500M /dev/zero | tr '\\0' a); echo ${#x}", "head -c 1500M /dev/zero | tail >/dev/null; exit ${PIPESTATUS[1]}",
                        "python3 -c 'x = bytearray(1500 << 20); print(len(x))'"):
                r = bad.run(hog, login=False)
                check(r.exit_code != 0, "1500 MiB were had in a sandbox of 128", r)
                works(good)
                eventually(lambda: bad.envd.health() == 204, 5, "the agent survived")
                works(bad, "still")
            r = collect(bad.envd.start("python3", ["-c", "x = bytearray(1500 << 20); print(len(x))"]))
            equal((r.exit_code, r.error), (-1, "signal: killed"), "what the client is told")
            noted = "/v2/sandboxes/%s/logs?level=warn&search=signal" % bad.id
            eventually(lambda: [x for x in w.api.must(200, "GET", noted)["logs"] if x["message"].endswith("ended: signal: killed")], 10,
                       "a warning in the logs")
        finally:
            done.set()
            t.join()
        check(16 << 20 < most[0] <= 129 << 20, "it had %d MiB at most" % (most[0] >> 20))


@scenario("memory files count as memory", data=True)
def shm(w):
    w.template("small", cpuCount=1, memoryMB=128, diskSizeMB=256)
    with w.create(template="small") as bad, w.create() as good:
        for d in ("/dev/shm", "/run", "/dev"):
            bad.run("dd if=/dev/zero of=%s/hog bs=1M count=1000" % d, user="root", login=False)
            r = bad.run("stat -c %%s %s/hog 2>/dev/null || echo 0" % d, user="root", login=False)
            size = int(r.stdout.split()[0]) if r.stdout.split() else 0
            check(size < 300 << 20, "%s took %d MiB in a sandbox of 128 MiB" % (d, size >> 20))
            works(good)
            bad.run("rm -f %s/hog" % d, user="root", login=False)
        eventually(lambda: bad.envd.health() == 204, 5, "the agent survived")


@scenario("what is small on the wire and large in memory or on disk: refused, and the agent goes on", data=True)
def bombs(w):
    w.template("small", cpuCount=1, memoryMB=128, diskSizeMB=256)
    with w.create(template="small") as s:
        for body in (b'{"a":[' + b"{}," * 2000000 + b"0]}", b'{"a":[' + b"0," * 4000000 + b"0]}"):
            r = s.envd.call("POST", "/process.Process/List", body, [("Content-Type", "application/json")])
            equal((r.status, r.json()["code"]), (400, "invalid_argument"), "a list of millions")
        packed = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join([packed.compress(bytes(1 << 20)) for _ in range(400)] + [packed.flush()])
        check(len(bomb) < 1 << 20, "the bomb is small", len(bomb))
        r = s.envd.call("POST", s.envd.files_target("/home/user/bomb"), bomb, [("Content-Type", "application/octet-stream"), ("Content-Encoding", "gzip")])
        error_body(r, 507, "space")
        s.out("rm -f /home/user/bomb")
        works(s, "still")


@scenario("a disk filler gets 'no space', the files API 507; freed space is usable again", data=True)
def disk(w):
    w.template("thin", cpuCount=1, memoryMB=512, diskSizeMB=128)
    with w.create(template="thin") as bad, w.create() as good:
        for d in ("/home/user", "/tmp", "/var/tmp"):
            r = bad.run("dd if=/dev/zero of=%s/big bs=1M count=600 2>&1" % d, login=False)
            check(r.exit_code != 0 and b"No space" in r.stdout, "600 MiB in %s of a sandbox with 128 MiB" % d, r)
            size = int(bad.out("stat -c %%s %s/big" % d))
            check(size <= 140 << 20, "%d MiB were written" % (size >> 20))
            works(good)
            if d == "/home/user":
                check(size >= 90 << 20, "of 128 MiB only %d MiB could be used" % (size >> 20))
                r = bad.envd.write("/home/user/more", b"x" * (8 << 20))
                error_body(r, 507, "space")
                noted = "/v2/sandboxes/%s/logs?level=error" % bad.id
                eventually(lambda: [(x["level"], x["fields"]["path"]) for x in w.api.must(200, "GET", noted)["logs"]] == [("error", "/home/user/more")], 0,
                           "the agent noted it")
            bad.out("rm -f %s/big" % d)
        equal(bad.envd.write("/home/user/again", b"y" * (20 << 20)).status, 200, "after freeing")
        r = bad.envd.write("/home/user/huge", b"z" * (200 << 20))
        error_body(r, 507, "space")
        works(bad)
        df = [int(x) for x in bad.out("df -m / | tail -1 | awk '{print $2}'").split()]
        within(100, df[0], 160, "df in the sandbox shows its own disk")


@scenario("a million small files do not fill the host", data=True)
def inodes(w):
    w.template("thin", cpuCount=1, memoryMB=512, diskSizeMB=128)
    with w.create(template="thin") as bad, w.create() as good:
        r = bad.run("mkdir /tmp/many && cd /tmp/many && python3 -c \"\nfor i in range(1000000):\n open(str(i), 'w').close()\"", login=False, timeout_ms=600000)
        check(r.exit_code != 0 and (b"No space" in r.stderr or b"quota" in r.stderr or b"Killed" in r.stderr or r.exit_code == -1), "a million files", r)
        works(good)


@scenario("processors: three busy loops in a one-processor sandbox get about one", data=True)
def cpu(w):
    w.template("slow", cpuCount=1, memoryMB=256, diskSizeMB=256)
    if os.cpu_count() < 2:
        raise Skip("this machine has one processor: no more than one can be had anyway")
    with w.create(template="slow") as s:
        text = "import os,time\nt=time.time()\nfor i in range(3):\n if os.fork()==0:\n  while time.time()<t+2: pass\n  os._exit(0)\n" \
               "for i in range(3): os.wait()\nx=os.times()\nprint((x.children_user+x.children_system)/(time.time()-t))"
        s.envd.write("/tmp/burn.py", text.encode())
        most = 0
        for _ in range(5):      # others may need the processors just now
            before = throttled(w, s)
            used = float(s.out("python3 /tmp/burn.py"))
            check(used < 1.35, "used %.2f processors" % used)
            if used >= 0.85 and throttled(w, s) > before:
                return
            most = max(most, used)
        if most < 0.85:
            raise Skip("the machine is too busy to tell: the loops got %.2f processors" % most)
        check(False, "the kernel held the loops back (they got %.2f processors)" % most)


def throttled(w, s):
    """How often the kernel held the sandbox back, from its cgroup."""
    machine = next(m for m, i in w.stack.machines().items() if i == s.id)
    total = 0
    for d in w.stack.cgroups():
        if os.path.basename(d) == machine:
            with contextlib.suppress(OSError):
                with open(os.path.join(d, "cpu.stat")) as f:
                    total += sum(int(x.split()[1]) for x in f if x.startswith("nr_throttled"))
    return total


@scenario("open files and threads without end: a user's command cannot take the agent's share", data=True)
def exhausted(w):
    with w.create() as bad, w.create() as good:
        bad.envd.spawn("exec python3 -c \"\nimport os,time\ntry:\n while True: os.pipe()\nexcept OSError: time.sleep(1000)\" >/dev/null 2>&1")
        bad.envd.write("/tmp/threads.py", b"""
import os, threading, time
def one(): time.sleep(1000)
n = 0
fd = os.open('/tmp/threads-done', os.O_WRONLY | os.O_CREAT)
try:
    while True:
        threading.Thread(target=one, daemon=True).start()
        n += 1
except RuntimeError:
    os.write(fd, str(n).encode())
    time.sleep(1000)
""")
        bad.envd.spawn("exec python3 /tmp/threads.py >/dev/null 2>&1")

        def done():
            works(good)
            try:
                return bad.envd.content("/tmp/threads-done")
            except (OSError, wire.Cut):
                return None
        made = eventually(lambda: (done() or b"").isdigit() and done(), 30, "the threads reach their limit and the agent still tells")
        within(50, int(made), w.stack.pids_max, "threads that could be made")
        for _ in range(5):
            equal(bad.envd.health(), 204, "health of the exhausted sandbox")
            check(len(bad.envd.rpc("process.Process/List", {})["processes"]) == 2, "its processes are listed")
        for p in bad.envd.rpc("process.Process/List", {})["processes"]:
            bad.envd.rpc("process.Process/SendSignal", {"process": {"pid": p["pid"]}, "signal": "SIGNAL_SIGKILL"})
        eventually(lambda: bad.run("echo again", login=False).stdout == b"again\n", 10, "it works again once they are killed")


@scenario("endless output nobody reads costs nobody memory", data=True)
def endless(w):
    with w.create() as s, w.create() as good:
        st = s.envd.start("/bin/bash", ["-c", "yes"])
        next(st.events())
        before = w.stack.memory()
        for _ in range(20):
            works(good)
        grown = {k: v - before.get(k, 0) for k, v in w.stack.memory().items() if v - before.get(k, 0) > 64 << 20}
        equal(grown, {}, "programs that grew by more than 64 MiB")
        st.close()
        works(s)


@scenario("hundreds of open streams to one sandbox", data=True)
def streams(w):
    with w.create() as s:
        held = []
        try:
            for _ in range(200):
                st = s.envd.start("/bin/sleep", ["1000"])
                next(st.events())
                held.append(st)
            equal(s.out("echo still"), "still\n", "one more command")
            equal(len(s.envd.rpc("process.Process/List", {})["processes"]), 200, "listed")
        finally:
            for st in held:
                st.close()


@scenario("the team's limit of sandboxes is 429, the lease's longest 400", data=True)
def team_limit(w):
    api = w.fresh_team()
    made = []
    try:
        for _ in range(w.stack.team_sandboxes):
            made.append(w.create(api=api))
        error_body(api("POST", "/v2/sandboxes", {"templateID": "base"}), 429, "maximum number of concurrent")
        made.pop().kill()
        made.append(w.create(api=api))
    finally:
        for s in made:
            s.kill()
