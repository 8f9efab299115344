"""One program away, then back: who answers what meanwhile, and that nothing is lost."""

import contextlib
import os
import signal
import threading
import time

import wire
from addressing import BROWSER, ask, host, wheres
from stack import alive
from tap import Suite, check, equal, eventually, one_of
from world import error_body

suite = Suite()
scenario = suite.scenario


@contextlib.contextmanager
def without(w, name):
    w.stack.stop_part(name)
    try:
        yield
    finally:
        w.stack.start_part(name)


def works(s):
    equal(s.out("echo on"), "on\n", "a command in a sandbox")


@scenario("hutch-node away: create 503, lists and running sandboxes go on; back: the same sandboxes, same processes", data=True)
def node(w):
    with w.create(metadata={"is": "old"}) as s:
        pid = s.envd.spawn("exec sleep 1000")
        s.envd.write("/home/user/kept", b"kept")
        st = s.envd.start("/bin/bash", ["-c", "read x; echo got $x"], stdin=True)
        events = st.events()
        waiting = next(events)["start"]["pid"]
        machines = w.stack.machines()
        with without(w, "node"):
            for path in ("/sandboxes", "/v2/sandboxes"):
                error_body(w.api("POST", path, {"templateID": "base"}), 503)
            equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "GET")
            check(s.id in w.api.listed(), "list")
            equal(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 500}).status, 204, "timeout")
            works(s)
            equal(s.envd.health(), 204, "the data plane goes on")
        eventually(lambda: w.stack.machines() == machines, 10, "the node has its sandboxes again: %r" % machines)
        works(s)
        equal(s.run("kill -0 %d" % pid).exit_code, 0, "the process is the same")
        equal(s.envd.read("/home/user/kept").body, b"kept", "the file")
        s.envd.rpc("process.Process/SendInput", {"process": {"pid": waiting}, "input": {"stdin": "eAo="}})
        rest = list(events)
        check(any("stdout" in e.get("data", {}) for e in rest), "the stream outlived the node", rest)
        st.close()
        with w.create() as t:
            works(t)
        equal(s.kill(), 204, "kill after the node's return")
        equal(s.envd.health(), 502, "gone")
    eventually(lambda: w.stack.agrees(), 10, "rows and machines agree")


@scenario("hutch-node away: limits stay in force, ports opened before go on, a kill is kept and carried out later", data=True)
def node_kill(w):
    with w.create() as s, w.create() as t:
        t.envd.spawn("cd /tmp && exec python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1")
        web = lambda: wire.once(w.where, "GET", "/", host="8000-%s.%s" % (t.id, w.stack.domain)).status
        eventually(lambda: web() == 200, 10, "port 8000")
        with without(w, "node"):
            equal(web(), 200, "port 8000 meanwhile")
            equal(s.kill(), 204, "the kill is accepted")
            equal(w.api("GET", "/sandboxes/" + s.id).status, 404, "GET after it")
            equal(s.envd.health(), 502, "edge after it")
            check(s.id not in w.api.listed(), "not listed")
        eventually(lambda: s.id not in w.stack.machines().values(), 15, "the machine goes once the node is back")
        equal(web(), 200, "port 8000 afterwards")
        t.envd.spawn("cd /tmp && exec python3 -m http.server 8001 --bind 127.0.0.1 >/dev/null 2>&1")
        eventually(lambda: wire.once(w.where, "GET", "/", host="8001-%s.%s" % (t.id, w.stack.domain)).status == 200, 10, "a new port afterwards")
    eventually(lambda: w.stack.agrees(), 15, "rows and machines agree")


@scenario("a sandbox that died while hutch-node is away: 502 in the form of the call", data=True)
def died(w):
    with w.create() as s:
        pid = w.stack.agent_pid(s)
        with without(w, "node"):
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not alive(pid), 10, "its first process is dead")
            json_type = [("Content-Type", "application/json")]
            r = s.envd.call("GET", "/health")
            equal((r.status, r.json()), (502, {"sandboxId": s.id, "message": "The sandbox was not found", "code": 502}), "a request")
            for method, path, body, headers in (("POST", "/process.Process/List", b"{}", json_type),
                                                ("POST", "/filesystem.Filesystem/Stat", b'{"path":"/"}', json_type),
                                                ("POST", "/process.Process/Start", b"\0\0\0\0\2{}", [("Content-Type", "application/connect+json")])):
                r = s.envd.call(method, path, body, headers)
                equal((r.status, r.json()), (502, {"code": "unavailable", "message": "The sandbox was not found"}), "a Connect call: " + path)
            r = s.envd.call("GET", "/", None, [("User-Agent", "Mozilla/5.0"), ("Accept", "text/html")])
            equal((r.status, (r.header("content-type") or "").split(";")[0]), (502, "text/html"), "a browser")
        eventually(lambda: w.api("GET", "/sandboxes/" + s.id).status == 404, 30, "its row goes once the node is back")
    eventually(lambda: w.stack.agrees(), 15, "rows and machines agree")


@contextlib.contextmanager
def stopped(pid):
    """A process that stands still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@scenario("a sandbox that is still resuming, for hutch-node stands still: 409 in the form of the call by every way; served once it goes on", data=True)
def resuming(w):
    ways = [(scheme, where, form) for scheme, where in wheres(w) for form in ("host", "path", "headers")]
    with w.create(autoResume={"enabled": True}) as s:
        (node_pid,) = w.stack.pids_of("node")
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        token = [("X-Access-Token", s.token), ("Origin", "https://app.example")]
        got = {}

        def call(key, where, form, headers):
            target = "/_sandbox/%s/49983/health" % s.id if form == "path" else "/health"
            named = [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "49983")] if form == "headers" else []
            got[key] = ask(where, "GET", target, token + named + headers, None, host(w, s, 49983) if form == "host" else None)

        first = threading.Thread(target=call, args=("first", w.where, "host", []))
        w.stack.stop_part("reaper")             # it would take the resume back
        try:
            with stopped(node_pid):
                first.start()
                eventually(lambda: [r for r in w.stack.rows() if r[:2] == (s.id, "resuming")], 10, "it is being resumed")
                others = [threading.Thread(target=call, args=((scheme, form, bool(extra)), where, form, extra))
                          for scheme, where, form in ways for extra in ([], BROWSER)]
                for t in others:
                    t.start()
                for t in (first, *others):
                    t.join()
        finally:
            w.stack.start_part("reaper")
        equal(got.pop("first").status, 502, "the one that resumes it: the node has not answered")
        equal(len(got), 12, "answers")
        for key, r in got.items():
            equal((r.status, r.header("access-control-allow-origin")), (409, "*"), "%s: %r" % (key, r))
            if key[2]:
                check(r.text.startswith("<html") and "The sandbox is in transition, try again" in r.text, "HTML for %s" % (key,), r)
            else:
                equal(r.json(), {"sandboxId": s.id, "message": "The sandbox is in transition, try again", "code": 409}, "JSON for %s" % (key,))
        eventually(lambda: s.envd.health() == 204, 20, "traffic resumes it now")
        works(s)
    eventually(lambda: w.stack.agrees(), 15, "rows and machines agree")


@scenario("a lease that ends while hutch-node is away ends for clients on time, and its machine later", data=True)
def node_lease(w):
    with w.create(timeout=300) as s:
        with without(w, "node"):
            w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 1})
            eventually(lambda: s.envd.health() == 502, 5, "edge 502 at the lease's end")
            equal(w.api("GET", "/sandboxes/" + s.id).status, 404, "API 404")
        eventually(lambda: s.id not in w.stack.machines().values(), 15, "the machine goes once the node is back")


@scenario("hutch-sandboxes away: JSON 502 or 503, the data plane goes on; back: all as before", data=True)
def responder(w):
    with w.create() as s:
        with without(w, "sandboxes"):
            for method, path in (("GET", "/v2/sandboxes"), ("POST", "/v2/sandboxes"), ("GET", "/sandboxes/" + s.id), ("GET", "/health")):
                r = w.api(method, path, {"templateID": "base"} if method == "POST" else None)
                one_of(r.status, (502, 503, 504), "%s %s: %r" % (method, path, r))
                error_body(r, None)
            works(s)
            equal(s.envd.health(), 204, "health")
        eventually(lambda: w.api("GET", "/sandboxes/" + s.id).status == 200, 10, "back")
        works(s)


@scenario("the data plane's look-up away: JSON 502, the API goes on; back: sandboxes answer", data=True)
def look_up(w):
    with w.create() as s:
        for name in w.stack.lookups():
            with without(w, name):
                r = s.envd.call("GET", "/health")
                one_of(r.status, (502, 503), "health without %s: %r" % (name, r))
                error_body(r, None)
                equal(r.header("access-control-allow-origin"), "*", "a browser's script may read it")
                equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "the API without %s" % name)
            eventually(lambda: s.envd.health() == 204, 10, "back")
            works(s)


@scenario("hutch-reaper away: a lease that ended meanwhile ends at its return", data=True)
def reaper(w):
    with w.create(timeout=300) as s:
        with without(w, "reaper"):
            w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 1})
            t = time.monotonic()
            eventually(lambda: time.monotonic() > t + 1.5, 3, "the lease's end passes")
        eventually(lambda: s.envd.health() == 502, 3, "ended")
        eventually(lambda: w.stack.agrees(), 10, "the machine too")


@scenario("the web server restarted: sandboxes, leases and files are as before", data=True)
def web(w):
    with w.create() as s:
        s.envd.write("/tmp/a", b"a")
        with without(w, "web"):
            pass
        eventually(lambda: reachable(w), 10, "the server answers")
        equal(s.envd.read("/tmp/a").body, b"a", "file")
        works(s)


def reachable(w):
    try:
        return w.api("GET", "/v2/sandboxes").status == 200
    except (OSError, wire.Cut):
        return False


@scenario("everything but the sandboxes restarted: they are still there", data=True)
def all_parts(w):
    with w.create() as s:
        pid = s.envd.spawn("exec sleep 1000")
        w.stack.restart_all()
        eventually(lambda: reachable(w), 15, "the API answers")
        equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "the record")
        eventually(lambda: s.envd.health() == 204, 10, "the guest")
        equal(s.run("kill -0 %d" % pid).exit_code, 0, "its process")
        eventually(lambda: w.stack.agrees(), 10, "rows and machines agree")


@scenario("the agent of a sandbox killed from outside: the sandbox ends, its row too, others stay", data=True)
def agent(w):
    with w.create() as s, w.create() as t:
        st = s.envd.start("/bin/sleep", ["1000"])
        next(st.events())
        pid = w.stack.agent_pid(s)
        check(pid, "the agent's pid")
        os.kill(pid, signal.SIGKILL)
        try:
            item = st.next()
            check(False, "the stream goes on", item)
        except wire.Cut:
            pass
        one_of(s.envd.health(), (502,), "health")
        eventually(lambda: w.api("GET", "/sandboxes/" + s.id).status == 404, 20, "the row ends")
        works(t)
    eventually(lambda: w.stack.agrees(), 10, "rows and machines agree")
