"""What each web server can and cannot (docs/web-servers.md): its own errors, both directions at once, trailers, many streams, reloads."""

import concurrent.futures
import contextlib
import os
import re
import resource
import subprocess
import threading

import wire
from addressing import Head, guest, host
from edge import get
from envd import RpcError
from stack import SOURCE, USER
from tap import Skip, Suite, check, equal, eventually, one_of
from world import error_body

suite = Suite()
scenario = suite.scenario


@scenario("every row of the table in docs/web-servers.md names a scenario that there is", data=True)
def table(w):
    with open(os.path.join(SOURCE, "docs/web-servers.md")) as f:
        rows = re.findall(r"^\|.*\| `(\w+): ([^`]+)` \|$", f.read(), re.M)
    check(len(rows) > 20, "rows of the table", rows)
    missing = [r for r in rows if not any(name.startswith(r[1]) for name, _, _ in __import__(r[0]).suite.items)]
    equal(missing, [], "scenarios that are named but are not there")


# Each is refused by the web server itself, before a responder or a sandbox sees it.
OWN = {
    "no host": b"GET /v2/sandboxes HTTP/1.1\r\n\r\n",
    "length no number": b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n{}",
    "unknown coding": b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: nonsense\r\n\r\n{}",
    "body too large": b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (17 << 20),
    "target too long": b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "field too large": b"GET / HTTP/1.1\r\nHost: x\r\nX-Big: " + b"x" * 40000 + b"\r\n\r\n",
    "method refused": b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "unknown version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
}


@scenario("errors of the web server itself are JSON with CORS", data=True)
def own_errors(w):
    wrong = []
    for name, bytes_ in OWN.items():
        r = wire.raw(w.where, bytes_)
        check(r is not None, "%s: an answer" % name)
        want = w.server.errors[name]
        if r.status not in (want if isinstance(want, tuple) else (want,)):
            wrong.append("%s: %d, not %s" % (name, r.status, want))
        error_body(r, None)
        equal(r.header("access-control-allow-origin"), "*", "CORS of %s" % name)
    equal(wrong, [], "statuses")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


@scenario("a request and its answer flow at the same time, where the server can", data=True)
def duplex(w):
    with w.create() as s, wire.Conn(w.where) as c:
        guest(s)
        c.send(c.request_head("POST", "/duplex", [("Transfer-Encoding", "chunked")], host(w, s, 3000)) + chunk(b"one"))
        if w.server.duplex:
            r = c.head()
            pieces = c.chunks(r)
            equal(next(pieces), b"one", "the first piece comes before the request has ended")
            c.send(chunk(b"two"))
            equal(next(pieces), b"two", "the second")
            c.send(b"0\r\n\r\n")
            equal(b"".join(pieces), b"", "the end")
        else:
            check(not c.readable(0.5), "nothing comes before the request has ended")
            c.send(chunk(b"two") + b"0\r\n\r\n")
            equal(c.finish().body, b"onetwo", "all of it afterwards")


@scenario("trailers of an answer pass, where the server can", data=True)
def trailers(w):
    with w.create() as s:
        guest(s)
        r = get(w, "/trailers", [("TE", "trailers")], host(w, s, 3000))
        equal((r.status, r.body), (200, b"hello"), "answer")
        one_of(("x-sum", "5") in r.trailers, (True, False) if w.server.trailers is None else (w.server.trailers,), "the trailer (%r)" % r.trailers)


@scenario("header names with an underscore pass to a sandbox, where the server lets them", data=True)
def underscore(w):
    with w.create() as s:
        guest(s)
        h = Head(get(w, "/head", [("X_Under", "1"), ("X-Dash", "1")], host(w, s, 3000)))
        equal((h.one("x-dash"), h.one("x_under")), ("1", "1" if w.server.underscore else None), "as the guest sees them")


@scenario("500 open streams: the API, other sandboxes and new streams are served meanwhile; kills cut all", data=True)
def many_streams(w):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with w.create(timeout=900) as a, w.create(timeout=900) as b, w.create(timeout=900) as other:
        homes = [(s, s.envd.spawn("exec sleep 1000")) for s in (a, b)]
        streams = []
        try:
            for i in range(500):
                s, pid = homes[i % 2]
                streams.append(s.envd.stream("process.Process/Connect", {"process": {"pid": pid}}))
            for _ in range(20):
                equal(w.api("GET", "/sandboxes/" + a.id).status, 200, "the API")
                equal(other.out("echo on"), "on\n", "another sandbox")
            with w.create() as third:
                equal(third.out("echo new"), "new\n", "a new one")
            for s, _ in homes:
                equal(s.kill(), 204, "kill")
            for st in streams:
                try:
                    while st.next() is not None:
                        pass
                    check(False, "a stream of a killed sandbox ended cleanly")
                except wire.Cut:
                    pass
        finally:
            for st in streams:
                st.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@scenario("idle connections of clients outlive a crowd of streams", data=True)
def kept(w):
    with w.create(timeout=900) as s, contextlib.ExitStack() as stack:
        message = {"process": {"pid": s.envd.spawn("exec sleep 1000")}}
        conns = [stack.enter_context(wire.Conn(w.where)) for _ in range(320)]
        ask = ("GET", "/sandboxes/" + s.id, [("X-API-Key", w.api.key)])
        for c in conns:
            equal(c.request(*ask).status, 200, "the first request of each")
        idle, busy = conns[:20], conns[20:]
        with concurrent.futures.ThreadPoolExecutor(150) as crowd:
            list(crowd.map(lambda c: s.envd.stream("process.Process/Connect", message, conn=c), busy))
        for c in idle:
            equal(c.request(*ask).status, 200, "the second, on the same connection")


@contextlib.contextmanager
def small_relay(w, links):
    """hutch-relay of the stack replaced by one that serves only so many connections at once."""
    w.stack.stop_part("relay")
    p = subprocess.Popen([w.stack.program("hutch-relay"), "-c", w.stack.conf, "-m", str(links), "-g", "0"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         cwd="/", user=USER, group=USER, extra_groups=[])
    try:
        yield
    finally:
        p.terminate()
        p.wait()
        w.stack.start_part("relay")


@scenario("streams beyond what the relay takes are refused with 503 in JSON; the API goes on, and streams again once some have ended", data=True)
def too_many(w):
    if "relay" not in w.server.lookups:
        raise Skip("%s needs no relay" % w.kind)
    with w.create() as s, w.create() as t, contextlib.ExitStack() as streams:
        homes = [(x, x.envd.spawn("exec sleep 1000")) for x in (s, s, t)]
        with small_relay(w, 3):
            eventually(lambda: s.envd.health() == 204, 20, "the small relay serves")
            # The relay may not have let go of the last health yet.
            for home, pid in homes:
                streams.callback(eventually(lambda: connected(home, pid), 20, "a stream").close)
            for _ in range(3):
                error_body(s.envd.call("GET", "/health"), 503)
                equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "the API")
            equal(t.kill(), 204, "kill of the one with the third stream")
            eventually(lambda: s.envd.health() == 204, 20, "room again")


def connected(s, pid):
    """A stream of the process's output, or None where there is no room."""
    try:
        return s.envd.stream("process.Process/Connect", {"process": {"pid": pid}})
    except RpcError as e:
        equal(e.status, 503, "why not")
        return None


def served_certificate(w):
    with wire.Conn(w.stack.tls_where) as c:
        return c.sock.getpeercert(binary_form=True)


def renew_certificate(w):
    subprocess.run([w.stack.program("hutchctl"), "-c", w.stack.conf, "tls", "--dir", w.path("tls"), "--renew"], stdout=subprocess.DEVNULL, check=True, timeout=120)


@scenario("a reload of the web server loses no request, over http and https, cuts no stream and takes a new certificate", data=True)
def reloaded(w):
    with w.create(timeout=900) as s:
        st = s.envd.start("/bin/bash", ["-c", "while read x; do echo got $x; done"], stdin=True)
        events = st.events()
        pid = next(events)["start"]["pid"]
        bad, done, over = [], [0, 0, 0, 0], threading.Event()

        def ask(i, where):
            while not over.is_set():
                try:
                    r = wire.once(where, "GET", "/sandboxes/" + s.id, [("X-API-Key", w.api.key)], host=w.stack.domain)
                    if r.status != 200:
                        bad.append(r)
                except (OSError, wire.Cut) as e:
                    bad.append(e)
                done[i] += 1
        threads = [threading.Thread(target=ask, args=(i, where)) for i, where in enumerate((w.where, w.stack.tls_where) * 2)]
        for t in threads:
            t.start()
        try:
            for _ in range(3):
                old = served_certificate(w)
                renew_certificate(w)
                w.stack.reload_web()
                at = list(done)
                eventually(lambda: all(n > at[i] + 10 for i, n in enumerate(done)), 30, "requests go on")
                eventually(lambda: served_certificate(w) != old, 10, "the new certificate")
        finally:
            over.set()
            for t in threads:
                t.join()
        equal(bad, [], "requests that failed, of %d" % sum(done))
        s.envd.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "eAo="}})
        check("stdout" in next(events).get("data", {}), "the stream goes on")
        st.close()
