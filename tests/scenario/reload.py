"""Replacing and scaling the programs while requests run: none fails, no stream is cut."""

import contextlib
import os
import signal
import subprocess
import threading

import wire
from addressing import guest, host
from stack import alive, children_of
from tap import Suite, check, equal, eventually
from traffic import ws_frame, ws_open, ws_read

suite = Suite()
scenario = suite.scenario


class Load:
    """Clients that ask without pause until the end; what failed is kept."""

    def __init__(self, *kinds):
        self.over, self.bad, self.done = threading.Event(), [], {}
        self.threads = [threading.Thread(target=self.run, args=(i, fn)) for i, fn in enumerate(kinds)]

    def run(self, i, fn):
        self.done[i] = 0
        while not self.over.is_set():
            try:
                fn()
            except Exception as e:  # noqa: whatever it is, the request failed
                self.bad.append("%s: %s" % (type(e).__name__, str(e)[:300]))
            self.done[i] += 1

    def goes_on(self):
        """Every client has asked again, some times, since now."""
        before = dict(self.done)
        eventually(lambda: all(n > before[i] + 2 for i, n in self.done.items()), 60, "every client goes on")

    def __enter__(self):
        for t in self.threads:
            t.start()
        eventually(lambda: len(self.done) == len(self.threads) and all(self.done.values()), 30, "every client has asked")
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()

    def judge(self, text):
        equal(self.bad[:5], [], "%s: %d of %d requests failed" % (text, len(self.bad), sum(self.done.values())))


def getter(w, s):
    return lambda: equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "get")


def lister(w):
    return lambda: equal(w.api("GET", "/v2/sandboxes?limit=5").status, 200, "list")


def maker(w):
    def make():
        s = w.create()
        equal(s.kill(), 204, "kill")
    return make


def caller(w, s):
    return lambda: equal(wire.once(w.where, "GET", "/health", host=host(w, s, 49983)).status, 204, "a request to the sandbox")


def crews(w):
    """Parts that hutch-spawn keeps and that clients can reach."""
    return ["sandboxes", "templates", "teams", "events"] + w.stack.lookups()


def counts(w):
    return {f[0]: [int(x) for x in f[1:]] for f in (line.split("\t") for line in w.stack.ctl("responders").splitlines())}


@scenario("the number of processes of each program goes up and down while requests run: none fails", data=True)
def scaled(w):
    before = counts(w)
    equal(sorted(before), sorted(crews(w) + ["doors"]), "what can be scaled")
    with w.create(timeout=900) as s, Load(getter(w, s), lister(w), maker(w), caller(w, s), caller(w, s)) as load:
        for n in (4, 1, 3, 1, 2):
            for name in crews(w):
                f = w.stack.ctl("responders", name, str(n)).split()
                equal(f[:3], [name, str(n), str(n)], "answer")
                equal(len(counts(w)[name]) and counts(w)[name][:2], [n, n], "processes of %s" % name)
            load.goes_on()
        for name, n in before.items():
            w.stack.ctl("responders", name, str(n[0]))
    load.judge("scaling")
    eventually(lambda: all(x[2] == 0 for n, x in counts(w).items()), 20, "nobody is still ending")
    for args in (("sandboxes", "0"), ("sandboxes", "65"), ("sandboxes", "x"), ("nothing", "1"), ("../x", "1"), ("sandboxes",)):
        p = subprocess.run([w.stack.program("hutchctl"), "-c", w.stack.conf, "responders", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        check(p.returncode != 0 and p.stderr, "refused in words: %r" % (args,), p)


@scenario("programs are replaced while requests and streams run: no request fails, no stream is cut", data=True)
def renewed(w):
    with w.create(timeout=900) as s, contextlib.ExitStack() as stack:
        guest(s)
        ws = stack.enter_context(wire.Conn(w.where))
        ws_open(ws, w, s)
        st = s.envd.start("/bin/bash", ["-c", "while read x; do echo got $x; done"], stdin=True)
        stack.callback(st.close)
        events = st.events()
        pid = next(events)["start"]["pid"]

        def streams_go_on(after):
            ws.send(ws_frame(1, b"still"))
            equal(ws_read(ws), (1, b"still"), "WebSocket after " + after)
            s.envd.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "eAo="}})
            check("stdout" in next(events).get("data", {}), "stream of the agent after " + after)
        with Load(getter(w, s), lister(w), maker(w), caller(w, s), caller(w, s)) as load:
            for _ in range(3):
                for name in crews(w):
                    (keeper,) = w.stack.pids_of(name)
                    old = set(children_of([keeper]))
                    os.kill(keeper, signal.SIGHUP)
                    # Old ones without a stream go at once; those of the relay stay for theirs.
                    eventually(lambda: set(children_of([keeper])) - old and (name == "relay" or not set(children_of([keeper])) & old), 30,
                               "%s is renewed" % name)
                    load.goes_on()
                    streams_go_on("renewing " + name)
            w.stack.stop_part("reaper")
            w.stack.bring_up()
            load.goes_on()
            streams_go_on("the reaper's restart")
        load.judge("renewing")


@scenario("a process that dies is started again by hutch-spawn; without hutch-spawn none stays", data=True)
def kept(w):
    (keeper,) = w.stack.pids_of("teams")
    (old,) = children_of([keeper])
    os.kill(old, signal.SIGKILL)
    eventually(lambda: [p for p in children_of([keeper]) if p != old and alive(p)], 20, "another one")
    check(w.api("GET", "/teams").status < 500, "it answers")
    new = children_of([keeper])
    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: not any(alive(p) for p in new), 20, "they end with it")
    w.stack.bring_up()
    check(w.api("GET", "/teams").status < 500, "it is back")


def patient_maker(w):
    """A create that the node was just at work on may fail with what says so: undone, or too late. The next one works."""
    def make():
        r = w.api("POST", "/v2/sandboxes", {"templateID": "base"})
        if r.status in (503, 504):
            r = w.api("POST", "/v2/sandboxes", {"templateID": "base"})
        equal(r.status, 201, "create: %r" % r)
        equal(w.api("DELETE", "/sandboxes/" + r.json()["sandboxID"]).status, 204, "kill")
    return make


@scenario("hutch-node is replaced on a socket that stays, as systemd does: who asks meanwhile waits; sandboxes go on", data=True)
def node(w):
    path = os.path.join(w.stack.run_dir, "node.sock")
    holder = os.path.join(w.dir, "holder.sock")
    w.stack.stop_part("node")
    with open(w.path("log/node-held.log"), "ab") as log:
        where = ["nsenter", "--net=" + w.stack.lab.path] if w.stack.lab else []
        listening = subprocess.Popen([*where, w.stack.program("hutch-spawn"), "-s", path, "-c", holder, "--", w.stack.program("hutch-node"), "-c",
                                      w.stack.conf],
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        eventually(lambda: os.path.exists(holder) and children_of([listening.pid]), 30, "it starts")
        os.chown(path, -1, os.stat(w.stack.run_dir).st_gid)
        equal(w.stack.node("GET", "/v1/info").status, 200, "it serves")
        with w.create(timeout=900) as s, Load(getter(w, s), lister(w), patient_maker(w), caller(w, s)) as load:
            for _ in range(3):
                old = children_of([listening.pid])[:1]
                listening.send_signal(signal.SIGHUP)
                eventually(lambda: not alive(old[0]), 40, "the old one ends")
                load.goes_on()
            equal(s.out("echo on"), "on\n", "the sandbox is there all the while")
        load.judge("replacing the node")
    finally:
        listening.terminate()
        listening.wait(120)
        w.stack.bring_up()
    eventually(w.stack.agrees, 30, "rows and machines agree (%s)" % w.stack.differences())
