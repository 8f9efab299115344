"""Pause, resume, connect, the end of the lease that pauses, traffic that resumes; and all of them at once."""

import datetime
import json
import os
import random
import threading
import time

import wire
from tap import Skip, Suite, can, check, equal, eventually, one_of
from world import error_body

suite = Suite()
scenario = suite.scenario


def detail(w, s):
    return w.api.must(200, "GET", "/sandboxes/" + s.id)


def pause(w, s, **body):
    w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, body or None)


def connect(w, s, status=201, version=1, **body):
    return w.api.must(status, "POST", "%s/sandboxes/%s/connect" % ("/v2" if version == 2 else "", s.id), {"timeout": 300, **body})


def capable(w, what):
    if not w.stack.node("GET", "/v1/info").json()["capabilities"].get(what):
        raise Skip("the node has no %s here" % what)


def shorten(w, s, seconds):
    """The lease is to end so soon: said once all is ready, for which a slow machine takes its time."""
    w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": seconds})


def machine_of(w, s):
    return next(m for m, i in w.stack.machines().items() if i == s.id)


def hibernated(w, s):
    return w.stack.node("GET", "/v1/sandboxes/" + machine_of(w, s)).json()["hibernated"]


def events(api, s):
    """Types of a sandbox's events, oldest first; None where that route is not served."""
    r = api("GET", "/events/sandboxes/%s?orderAsc=true&limit=100" % s.id)
    return None if r.status == 404 and "not served" in r.text else [e["type"].rsplit(".", 1)[1] for e in r.json()]


@scenario("pause: what GET and the lists say; a second one is 409, timeout and refreshes are 404; connect is 201")
def states(w):
    with w.create(timeout=290) as s:
        before = detail(w, s)
        pause(w, s)
        d = detail(w, s)
        equal(d["state"], "paused", "state")
        equal(d["domain"], None, "domain")
        equal(d["startedAt"], before["startedAt"], "startedAt stays")
        check(d["endAt"] < before["endAt"], "endAt is the time of the pause", d, before)
        check("volumeMounts" not in d, "no volumeMounts", d)
        equal(d["envdAccessToken"], s.token, "token")
        check(s.id in w.api.listed("state=paused"), "listed as paused")
        check(s.id not in w.api.listed("state=running"), "not as running")
        check(s.id not in [x["sandboxID"] for x in w.api.must(200, "GET", "/sandboxes")], "not in the old list")
        equal([x["state"] for x in w.api.must(200, "GET", "/v2/sandboxes") if x["sandboxID"] == s.id], ["paused"], "in the list of both")
        error_body(w.api("POST", "/sandboxes/%s/pause" % s.id), 409, "already paused")
        error_body(w.api("POST", "/sandboxes/%s/pause" % s.id, {"memory": False}), 409, "already paused")
        error_body(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 5}), 404, s.id)
        error_body(w.api("POST", "/sandboxes/%s/refreshes" % s.id, {}), 404, s.id)
        for path in ("pause", "resume", "connect"):
            error_body(w.other()("POST", "/sandboxes/%s/%s" % (s.id, path), {"timeout": 5}), 404, s.id)
        error_body(w.api("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 90000}), 400, "Timeout cannot be greater")
        m = connect(w, s, timeout=200)
        equal((m["sandboxID"], m.get("envdAccessToken")), (s.id, s.token), "the same sandbox")
        d = detail(w, s)
        equal(d["state"], "running", "state after connect")
        check(d["startedAt"] > before["startedAt"], "startedAt is new", d, before)
        connect(w, s, 200, version=2)
        error_body(w.api("POST", "/sandboxes/%s/resume" % s.id), 409, "already running")
        pause(w, s)
        w.api.must(201, "POST", "/sandboxes/%s/resume" % s.id)
        pause(w, s)
        connect(w, s, version=2)
        types = events(w.api, s)
        if types is not None:
            equal(types, ["created"] + ["paused", "resumed", "updated"] + ["paused", "resumed"] * 2, "events")


BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@scenario("paused with memory: processes, files and variables go on where they were; streams are cut; nobody is let in", data=True)
def memory(w):
    capable(w, "pause_memory")
    with w.create(timeout=300, envVars={"COLOUR": "blue"}) as s:
        s.envd.spawn("i=0; while :; do i=$((i+1)); echo $i > /tmp/.c; mv /tmp/.c /tmp/count; sleep 0.05; done")
        s.envd.write("/home/user/kept", b"kept")
        eventually(lambda: int(s.envd.content("/tmp/count") or 0) > 9, 10, "it counts beyond 9")
        boot = s.out(BOOT_ID)
        st = s.envd.start("/bin/sleep", ["1000"])
        ev = st.events()
        pid = next(ev)["start"]["pid"]
        st.conn.sock.settimeout(60)
        pause(w, s)
        check(hibernated(w, s), "the node says so")
        try:
            item = st.next()
            check(False, "the stream ended cleanly or went on", item)
        except wire.Cut:
            pass
        equal(s.envd.health(), 502, "health while paused")
        for port in (49983, 3000):
            r = wire.once(w.where, "GET", "/x", [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", str(port))])
            equal((r.status, r.json()["message"]), (502, "The sandbox was not found"), "edge, port %d" % port)
        door = w.path("run/sb/" + machine_of(w, s))
        equal(os.stat(door).st_mode & 0o777, 0o700, "the web server cannot reach the socket")
        connect(w, s)
        equal(os.stat(door).st_mode & 0o777, 0o710, "and now it can")
        equal(s.envd.health(), 204, "health after it")
        a = int(s.out("cat /tmp/count"))
        eventually(lambda: int(s.out("cat /tmp/count")) > a, 5, "it counts on")
        check(a > 9, "and not from the start", a)
        equal(s.out("echo $COLOUR").strip(), "blue", "variable")
        equal(s.out(BOOT_ID), boot, "the boot's id: it was no boot")
        equal(s.envd.read("/home/user/kept").body, b"kept", "file")
        equal(s.run("kill -0 %d" % pid).exit_code, 0, "the process whose stream was cut lives")


@scenario("paused as a disk: files, token and variables are there, processes are not; memory false in connect drops memory", data=True)
def disk(w):
    capable(w, "pause_disk")
    with w.create(timeout=300, envVars={"COLOUR": "red"}) as s:
        s.envd.write("/home/user/kept", b"x" * 3000000)
        s.out("mkdir -p /opt/kept && echo deep > /opt/kept/file && echo usr > /usr/local/kept && rm /etc/hostname", user="root")
        pid = s.envd.spawn("exec sleep 54321")
        boots = {open("/proc/sys/kernel/random/boot_id").read(), s.out(BOOT_ID)}
        pause(w, s, memory=False)
        eventually(lambda: machine_of(w, s) not in w.stack.agents(), 5, "no process is left")
        equal(s.envd.health(), 502, "health while paused")
        connect(w, s)
        for again in (False, True):
            equal(s.envd.health(), 204, "health")
            equal(s.envd.call("GET", "/metrics", token="wrong").status, 401, "the token still guards")
            equal(s.envd.read("/home/user/kept").body, b"x" * 3000000, "file")
            equal(s.out("cat /opt/kept/file /usr/local/kept"), "deep\nusr\n", "files of root, and below /usr")
            check(s.run("test -e /etc/hostname").exit_code != 0, "what was removed stays so")
            equal(s.out("echo $COLOUR $E2B_SANDBOX_ID").split(), ["red", s.id], "variables")
            check(s.run("pgrep -f 'sleep 54321'").exit_code != 0 or pid == 0, "the process is gone")
            boots.add(s.out(BOOT_ID))
            equal(len(boots), 4 if again else 3, "each boot has an id of its own, and not the machine's: %s" % boots)
            if not again:                   # now with memory, which a connect drops
                pid = s.envd.spawn("exec sleep 54321")
                pause(w, s)
                connect(w, s, memory=False, version=2)


@scenario("a kept sandbox survives a restart of the node: frozen stays frozen, a disk stays a disk", data=True)
def restart(w):
    capable(w, "pause_memory")
    capable(w, "pause_disk")
    for kill in (False, True):
        with w.create(timeout=900) as s, w.create(timeout=300, envVars={"A": "b"}) as t, w.create(timeout=300) as gone:
            s.envd.spawn("while :; do date +%s%N > /tmp/.n; mv /tmp/.n /tmp/now; sleep 0.02; done")
            t.envd.write("/home/user/kept", b"kept")
            eventually(lambda: s.envd.content("/tmp/now"), 5, "it runs")
            pause(w, s)
            pause(w, t, memory=False)
            pause(w, gone)
            (w.stack.kill_part if kill else w.stack.stop_part)("node")
            w.stack.start_part("node")
            check(hibernated(w, s) and hibernated(w, t), "both are hibernated")
            equal(s.envd.health(), 502, "health")
            equal(gone.kill(), 204, "kill of a frozen one after the restart")
            connect(w, s)
            connect(w, t)
            a = s.out("cat /tmp/now")
            eventually(lambda: s.out("cat /tmp/now") != a, 5, "it goes on")
            equal(t.envd.read("/home/user/kept").body, b"kept", "file")
            equal(t.out("echo $A").strip(), "b", "variable")
    eventually(lambda: w.stack.agrees(), 10, "rows and machines agree")


@scenario("kill of a paused one: 204, then 404; nothing is left", data=True)
def kill(w):
    for body in ({}, {"memory": False}):
        if body:
            capable(w, "pause_disk")
        with w.create(timeout=900) as s:
            s.out("head -c 20000000 /dev/urandom > /tmp/big")
            pause(w, s, **body)
            equal(s.kill(), 204, "kill")
            equal(s.kill(), 404, "again")
            error_body(w.api("GET", "/sandboxes/" + s.id), 404, s.id)
            error_body(w.api("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 5}), 404, s.id)
    eventually(lambda: w.stack.agrees(), 10, "rows and machines agree: %r" % w.stack.differences())


@scenario("autoPause: the end of the lease pauses, after each resume again; lifecycle is reported")
def auto_pause(w):
    with w.create(timeout=300, autoPause=True) as s:
        equal(detail(w, s)["lifecycle"], {"autoResume": False, "onTimeout": "pause"}, "lifecycle")
        shorten(w, s, 1)
        eventually(lambda: detail(w, s)["state"] == "paused", 5, "paused")
        eventually(lambda: hibernated(w, s), 5, "really")
        connect(w, s)
        equal(detail(w, s)["state"], "running", "state")
        shorten(w, s, 1)
        eventually(lambda: detail(w, s)["state"] == "paused", 5, "paused again")
        w.api.must(201, "POST", "/sandboxes/%s/resume" % s.id, {"timeout": 300, "autoPause": False})
        equal(detail(w, s)["lifecycle"]["onTimeout"], "kill", "the old resume changes it")
        shorten(w, s, 1)
        eventually(lambda: w.api("GET", "/sandboxes/" + s.id).status == 404, 5, "ended")


@scenario("autoPause with the disk alone; which options go together", data=True)
def auto_pause_disk(w):
    for body in ({"autoPauseMemory": False}, {"autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}}):
        error_body(w.api("POST", "/v2/sandboxes", {"templateID": "base", **body}), 400, "autoPauseMemory")
    capable(w, "pause_disk")
    with w.create(timeout=300, autoPause=True, autoPauseMemory=False) as s:
        s.out("echo kept > /home/user/kept && sync /home/user/kept")
        shorten(w, s, 1)
        eventually(lambda: detail(w, s)["state"] == "paused" and hibernated(w, s), 8, "paused")
        eventually(lambda: machine_of(w, s) not in w.stack.agents(), 5, "no process is left")
        connect(w, s)
        equal(s.envd.read("/home/user/kept").body, b"kept\n", "file")


@scenario("autoResume: traffic resumes a paused one and is served; without the token 403; a disk alone stays; off is 502", data=True)
def auto_resume(w):
    capable(w, "pause_memory")
    with w.create(timeout=600, autoResume={"enabled": True}) as s, w.create(timeout=600) as off:
        equal(detail(w, s)["lifecycle"], {"autoResume": True, "onTimeout": "kill"}, "lifecycle")
        s.envd.spawn("cd /tmp && exec python3 -m http.server 3000")
        port = [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "3000")]
        eventually(lambda: wire.once(w.where, "GET", "/", port).status == 200, 10, "a server in it")
        pause(w, s)
        for token in ("", "wrong"):
            r = s.envd.call("GET", "/files?path=/etc/passwd", token=token or "0")
            equal(r.status, 403, "port 49983 without the token")
            equal((r.json()["code"], r.json()["sandboxId"]), (403, s.id), "its body")
        equal(detail(w, s)["state"], "paused", "it was not resumed by that")
        equal(s.envd.read("/etc/hostname").status, 200, "a request with the token is served")
        d = detail(w, s)
        equal(d["state"], "running", "state")
        pause(w, s)
        equal(wire.once(w.where, "GET", "/", port).status, 200, "a request to another port, which needs no token")
        pause(w, s)
        big = b"y" * 2000000
        equal(s.envd.write("/home/user/up", big).status, 200, "an upload resumes it and arrives")
        equal(s.envd.read("/home/user/up").body, big, "whole")
        if w.stack.node("GET", "/v1/info").json()["capabilities"].get("pause_disk"):
            pause(w, s, memory=False)
            equal(s.envd.health(), 502, "a disk alone is not resumed by traffic")
            connect(w, s)
        pause(w, off)
        equal(off.envd.health(), 502, "auto-resume is off")
        equal(detail(w, off)["state"], "paused", "and it stays paused")


@scenario("50 requests at the same time to a paused sandbox: one wake, all are served", data=True)
def many(w):
    capable(w, "pause_memory")
    with w.create(timeout=600, autoResume={"enabled": True}) as s:
        for _ in range(2):
            pause(w, s)
            status, took = [], []

            def one():
                t = time.monotonic()
                try:
                    status.append(s.envd.health())
                except Exception as e:  # noqa: whatever it is, it was no answer
                    status.append(repr(e))
                took.append(time.monotonic() - t)
            threads = [threading.Thread(target=one) for _ in range(50)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            equal(status, [204] * 50, "every answer")
            check(max(took) < 60, "the slowest took %.1f s" % max(took))
        types = events(w.api, s)
        if types is not None:
            equal(types.count("resumed"), 2, "one resume each time")


@scenario("concurrent connects share one resume; pauses join", data=True)
def shared(w):
    capable(w, "pause_memory")
    with w.create(timeout=600) as s:
        for _ in range(3):
            got = together([("POST", "/sandboxes/%s/pause" % s.id, {})] * 10, w.api)
            check(204 in got, "one paused it", got)
            check(set(got) <= {204, 409}, "the others joined or came late", got)
            got = together([("POST", "/v2/sandboxes/%s/connect" % s.id, {"timeout": 60 + 10 * i}) for i in range(10)], w.api)
            check(201 in got, "one resumed it", got)
            check(set(got) <= {200, 201}, "all are connected", got)
            d = detail(w, s)
            equal(d["state"], "running", "state")
            equal(s.envd.health(), 204, "health")


def together(requests, api):
    """Statuses of requests that are sent at the same time."""
    out = [None] * len(requests)
    gate = threading.Barrier(len(requests))

    def one(i):
        gate.wait(120)
        out[i] = api(*requests[i]).status
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(requests))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


@scenario("20 clients mix pause, connect, timeout, kill and the end of the lease: one outcome, no stuck state, bounded time", data=True)
def melee(w):
    capable(w, "pause_memory")
    rng = random.Random(7)
    for with_kill in (False, True, False, True):
        with w.create(timeout=2, autoPause=True) as s:
            paths = ["/sandboxes/%s/pause", "/v2/sandboxes/%s/connect", "/sandboxes/%s/connect", "/sandboxes/%s/timeout", "/sandboxes/%s/resume",
                     "/sandboxes/%s/refreshes"]
            bad, slow = [], []
            stop = time.monotonic() + 3

            def client(n):
                mine = random.Random(rng.random() + n)
                while time.monotonic() < stop:
                    path = mine.choice(paths) % s.id
                    t = time.monotonic()
                    r = w.api("POST", path, {"timeout": mine.choice((0, 1, 2))} if "timeout" in path or "connect" in path else {})
                    slow.append(time.monotonic() - t)
                    if r.status not in (200, 201, 204, 404, 409):
                        bad.append((path, r.status, r.body[:200]))
            threads = [threading.Thread(target=client, args=(i,)) for i in range(20)]
            for t in threads:
                t.start()
            killed = []
            if with_kill:
                eventually(lambda: time.monotonic() > stop - 1, 5, "two seconds")
                killed = together([("DELETE", "/sandboxes/" + s.id)] * 3, w.api)
            for t in threads:
                t.join()
            equal(bad, [], "answers")
            # who waits for another's step gives up after 20 s, a call to the node after 10 s
            check(max(slow) < 60, "the slowest answer took %.1f s" % max(slow))
            if with_kill:
                check(204 in killed and set(killed) <= {204, 404}, "kills", killed)
                error_body(w.api("GET", "/sandboxes/" + s.id), 404, s.id)
                eventually(lambda: s.id not in w.stack.machines().values(), 5, "its machine is gone")
            else:
                # it settles, as one or the other, and works
                connect_status = eventually(lambda: w.api("POST", "/v2/sandboxes/%s/connect" % s.id, {"timeout": 300}).status, 20, "connect")
                one_of(connect_status, (200, 201), "connect afterwards")
                equal(detail(w, s)["state"], "running", "state")
                eventually(lambda: s.envd.health() == 204, 5, "it serves")
    eventually(lambda: w.stack.agrees(), 15, "rows and machines agree: %s" % json.dumps(str(w.stack.differences()))[:300])


@scenario("20 clients extend one lease at once: all are told so, the largest wins")
def largest(w):
    for _ in range(3):
        with w.create(timeout=90) as s:
            before = w.now()
            got = together([("POST", "/v2/sandboxes/%s/connect" % s.id, {"timeout": 100 + 10 * i}) for i in range(8)] +
                           [("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 400 - 10 * i}) for i in range(6)] +
                           [("POST", "/sandboxes/%s/refreshes" % s.id, {"duration": 330 - 10 * i}) for i in range(6)], w.api)
            equal(sorted(set(got)), [200, 204], "answers")
            end = datetime.datetime.fromisoformat(detail(w, s)["endAt"].replace("Z", "+00:00")).timestamp()
            check(before + 400 - 1 <= end <= w.now() + 400 + 1, "the end is that of the largest", end - before)


@scenario("the node dies in the middle of pauses and resumes: the reaper finishes, nothing is stuck", data=True)
def node_dies(w):
    capable(w, "pause_memory")
    with w.create(timeout=600) as s, w.create(timeout=600) as t:
        pause(w, t)
        w.stack.kill_part("node")
        r = w.api("POST", "/sandboxes/%s/pause" % s.id, {})
        one_of(r.status, (503, 504), "pause without a node")
        r = w.api("POST", "/sandboxes/%s/connect" % t.id, {"timeout": 60})
        one_of(r.status, (503, 504), "connect without a node")
        equal(s.envd.health(), 502, "one that is being paused is not there")
        w.stack.start_part("node")
        eventually(lambda: hibernated(w, s), 30, "the pause is finished")
        eventually(lambda: w.api("POST", "/sandboxes/%s/connect" % t.id, {"timeout": 300}).status in (200, 201), 30, "the other comes back")
        connect(w, s)
        equal((s.envd.health(), t.envd.health()), (204, 204), "both serve")


@scenario("a pause and a resume take no longer than some starts", data=True)
def speed(w):
    capable(w, "pause_memory")

    def medians():
        took = {"create": [], "pause": [], "connect": []}

        def timed(name, call):
            t = time.monotonic()
            made = call()
            took[name].append(time.monotonic() - t)
            return made
        with w.create(timeout=600) as s:
            for _ in range(10):
                timed("create", lambda: w.create(timeout=300)).kill()
                timed("pause", lambda: pause(w, s))
                timed("connect", lambda: connect(w, s))
        median = {name: sorted(x)[5] for name, x in took.items()}
        return "" if max(median.values()) <= 0.05 + 10 * median["create"] else "medians: %r" % median
    can(medians, "pause and resume")
