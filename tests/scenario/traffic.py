"""Every kind of traffic to a server in a sandbox, over http and https: event streams, uploads, gigabytes, WebSockets, silence, HTTP/2."""

import base64
import contextlib
import hashlib
import os
import struct
import subprocess
import threading

import wire
from addressing import ask, guest, host, wheres
from tap import Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario

MIB = 1 << 20
GROWTH = 48 * MIB       # what a program may grow by while a gigabyte passes through it


@contextlib.contextmanager
def opened(w, where, s, method, target, headers=(), name=None, timeout=wire.HANG):
    """A connection with the head of a request sent."""
    name = name or host(w, s, 3000)
    if isinstance(where, wire.Tls):
        where = where.named(name.split(":")[0])
    with wire.Conn(where, timeout) as c:
        c.send(c.request_head(method, target, headers, name))
        yield c


def push(w, s, text):
    r = wire.once(w.where, "GET", "/push/" + text, host=host(w, s, 3000))
    equal(r.status, 200, "push")
    return int(r.body)


@scenario("whoever asks for hundreds of ports that nobody serves costs those that are served nothing", data=True)
def many_ports(w):
    def ask_for(ports):
        for p in ports:
            r = wire.once(w.where, "GET", "/", host=host(w, s, p))
            if (r.status, r.json().get("port")) != (502, p):
                wrong.append((p, r))

    with w.create() as s:
        guest(s)
        wrong = []
        threads = [threading.Thread(target=ask_for, args=(range(5000 + i, 5300, 30),)) for i in range(30)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            push(w, s, "x")
        equal(wrong, [], "each one is told that its port is closed")
        push(w, s, "x")


@scenario("server-sent events and NDJSON come one by one; the guest sees at once that a client left", data=True)
def event_streams(w):
    with w.create() as s:
        guest(s)
        for scheme, where in wheres(w):
            for target, first, form in (("/events", b": hello\n\n", b"data: %s\n\n"), ("/events?ndjson", b"{}\n", b'{"text": "%s"}\n')):
                with opened(w, where, s, "GET", target) as c:
                    pieces = c.chunks(c.head())
                    equal(next(pieces), first, "%s %s: the first event at once" % (scheme, target))
                    for i in range(20):
                        # The next one is made only when this one was read: whatever holds an event back hangs here.
                        equal(push(w, s, "n%d" % i), 1, "open streams")
                        equal(next(pieces), form % (b"n%d" % i), "event %d" % i)
                    push(w, s, "end")
                    equal(b"".join(pieces), form % b"end", "the last one, and a proper end")
                with opened(w, where, s, "GET", target) as c:
                    next(c.chunks(c.head()))
                    equal(push(w, s, "x"), 1, "open")
                # A server that watches its clients ends the stream; one that notices at the next write, then.
                eventually(lambda: push(w, s, "y") == 0, 10, "%s: the guest's stream ends with its client" % scheme)


@scenario("uploads of known and unknown length come whole, and while they are sent where the server can", data=True)
def uploads(w):
    data = os.urandom(3 * MIB + 17)
    with w.create() as s:
        guest(s)
        for scheme, where in wheres(w):
            r = ask(where, "POST", "/count", [], data, host(w, s, 3000))
            equal((r.json()["n"], r.json()["sha256"]), (len(data), hashlib.sha256(data).hexdigest()), scheme + ": with a length")
            with opened(w, where, s, "POST", "/count", [("Transfer-Encoding", "chunked")]) as c:
                at, step = 0, 1
                while at < len(data):
                    c.send(b"%x\r\n%s\r\n" % (len(data[at:at + step]), data[at:at + step]))
                    at, step = at + step, step * 3 % 70001 + 1
                    if at > 40000 and step < 1000:
                        step = 65536
                    if w.server.early and 5000 < at < 30000:
                        eventually(lambda: int(wire.once(w.where, "GET", "/seen", host=host(w, s, 3000)).body) > 0, 10, "it comes while it is sent")
                c.send(b"0\r\n\r\n")
                r = c.finish()
            equal((r.json()["n"], r.json()["sha256"]), (len(data), hashlib.sha256(data).hexdigest()), scheme + ": in chunks")


def gigabyte(w, where, s, down):
    """1 GiB through; what each program of hutch and the server has in memory at most, less what it had."""
    before, most, end = w.stack.memory(), {}, threading.Event()

    def watch():
        while not end.wait(0.05):
            for k, v in w.stack.memory().items():
                most[k] = max(v, most.get(k, 0))
    t = threading.Thread(target=watch, daemon=True)
    t.start()
    try:
        if down:
            with opened(w, where, s, "GET", "/give/%d" % (1 << 30)) as c:
                n = sum(len(p) for p in c.chunks(c.head()))
        else:
            block = bytes(MIB)
            with opened(w, where, s, "POST", "/count", [("Content-Length", str(1 << 30))]) as c:
                for _ in range(1024):
                    c.send(block)
                n = c.finish().json()["n"]
    finally:
        end.set()
        t.join()
    equal(n, 1 << 30, "bytes that came")
    return {k: v - before.get(k, v) for k, v in most.items() if v - before.get(k, v) > GROWTH}


@scenario("1 GiB up and 1 GiB down: no program's memory shows it", data=True)
def large(w):
    with w.create() as s:
        guest(s)
        for scheme, where in wheres(w):
            for down in (False, True):
                equal(gigabyte(w, where, s, down), {}, "%s, %s: what grew" % (scheme, "down" if down else "up"))


# ---- WebSockets (RFC 6455) -----------------------------------------------------------------------------------------------

def ws_open(c, w, s, headers=(), target="/ws", name=None):
    key = base64.b64encode(os.urandom(16)).decode()
    c.start("GET", target, [("Upgrade", "websocket"), ("Connection", "keep-alive, Upgrade"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", key),
                            *headers], host=name or host(w, s, 3000))
    r = c.head()
    equal(r.status, 101, "upgrade: %r" % r)
    equal(r.header("sec-websocket-accept"), base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode(), "accept")
    return r


def ws_frame(kind, data):
    mask = os.urandom(4)
    n = len(data)
    size = struct.pack("!B", 0x80 | n) if n < 126 else struct.pack("!BH", 0xfe, n) if n < 65536 else struct.pack("!BQ", 0xff, n)
    key = (mask * (n // 4 + 1))[:n]
    return bytes([0x80 | kind]) + size + mask + (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")


def ws_read(c):
    first, n = c.read_exact(2)
    if n > 125:
        n = struct.unpack("!H" if n == 126 else "!Q", c.read_exact(2 if n == 126 else 8))[0]
    return first & 15, c.read_exact(n)


@scenario("WebSockets: text, binary of any size, ping, close; foreign Host and Origin; by host, path and headers", data=True)
def websocket(w):
    with w.create() as s:
        guest(s)
        headers = [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "3000")]
        for scheme, where in wheres(w):
            for form in ({}, {"headers": headers, "name": "vite.example"}, {"target": "/_sandbox/%s/3000/ws" % s.id, "name": "vite.example"},
                         {"headers": [("Origin", "https://evil.example")]}):
                with wire.Conn(where) as c:
                    r = ws_open(c, w, s, **form)
                    equal(r.header("x-host"), form.get("name", host(w, s, 3000)), "%s: the Host that the guest saw" % scheme)
                    for size in (0, 1, 125, 126, 65535, 65536, MIB):
                        data = os.urandom(size)
                        c.send(ws_frame(2, data))
                        equal(ws_read(c), (2, data), "echo of %d bytes" % size)
                    c.send(ws_frame(9, b"are you there"))
                    equal(ws_read(c), (10, b"are you there"), "pong")
                    c.send(ws_frame(8, struct.pack("!H", 1000)))
                    equal(ws_read(c), (8, struct.pack("!H", 1000)), "close")
                    check(c.closed_by_peer(), "and the end")


@scenario("chatter like a terminal's: thousands of small messages both ways at once, all of them, in order", data=True)
def chatter(w):
    with w.create() as s:
        guest(s)
        for scheme, where in wheres(w):
            with wire.Conn(where) as c:
                ws_open(c, w, s)
                sent = [b"%d %s" % (i, b"x" * (i * 7 % 90)) for i in range(3000)]

                def talk():
                    for data in sent:
                        c.send(ws_frame(1, data))
                t = threading.Thread(target=talk)
                if isinstance(where, wire.Tls):
                    talk()          # one thread at a time in a TLS connection of Python's
                else:
                    t.start()
                for i, data in enumerate(sent):
                    equal(ws_read(c), (1, data), "%s: message %d" % (scheme, i))
                if t.ident:
                    t.join()


@scenario("streams may be silent: longer than any usual timeout, then they go on", data=True)
def silence(w):
    with w.create(timeout=600) as s:
        guest(s)
        with contextlib.ExitStack() as stack:
            kept = []
            for scheme, where in wheres(w):
                c = stack.enter_context(opened(w, where, s, "GET", "/events", timeout=300))
                pieces = c.chunks(c.head())
                next(pieces)
                ws = stack.enter_context(wire.Conn(where, 300))
                ws_open(ws, w, s)
                up = stack.enter_context(opened(w, where, s, "POST", "/count", [("Transfer-Encoding", "chunked")], timeout=300))
                up.send(b"5\r\nhello\r\n")
                kept.append((scheme, pieces, ws, up))
            run = s.envd.start("/bin/bash", ["-c", "sleep 64; echo still here"], timeout_ms=600000)
            stack.callback(run.close)
            said = [e for e in run.events() if "data" in e or "end" in e]       # the guest's own clock ends the wait
            equal(base64.b64decode(said[0]["data"]["stdout"]), b"still here\n", "the agent's stream")
            push(w, s, "awake")
            for scheme, pieces, ws, up in kept:
                equal(next(pieces), b"data: awake\n\n", scheme + ": events")
                ws.send(ws_frame(1, b"awake"))
                equal(ws_read(ws), (1, b"awake"), scheme + ": WebSocket")
                up.send(b"0\r\n\r\n")
                equal(up.finish().json()["n"], 5, scheme + ": upload")


# ---- HTTP/2 --------------------------------------------------------------------------------------------------------------

def curl(w, url_path, *args, name="api", data=None):
    """curl over https, by the name NAME.DOMAIN; (version, status, body)."""
    at = "%s.%s" % (name, w.stack.domain.split(":")[0])
    port = w.stack.tls_port
    p = subprocess.run(["curl", "-sS", "--path-as-is", "--cacert", w.stack.tls_where.ca, "--resolve", "%s:%d:127.0.0.1" % (at, port), "--http2", "-m", "300",
                        "-w", "\n%{http_version} %{http_code}", *args, "https://%s:%d%s" % (at, port, url_path)], input=data, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=400)
    equal(p.returncode, 0, "curl %s: %s" % (url_path, p.stderr.decode()))
    body, _, tail = p.stdout.rpartition(b"\n")
    version, status = tail.decode().split()
    return version, int(status), body


@scenario("HTTP/2 where the server has it: API, agent, uploads and downloads, refusals", data=True)
def http2(w):
    want = "2" if w.server.h2 else "1.1"
    with w.create() as s:
        guest(s)
        key = "X-API-Key: " + w.api.key
        equal(curl(w, "/v2/sandboxes?limit=1", "-H", key)[:2], (want, 200), "list")
        equal(curl(w, "/v2/sandboxes", "-H", "X-API-Key: no")[:2], (want, 401), "no key")
        equal(curl(w, "/health", name="49983-" + s.id)[:2], (want, 204), "agent")
        equal(curl(w, "/a%2Fb?x=%20", name="3000-" + s.id)[2][:40].split(b" ")[1], b"/a%2Fb?x=%20", "raw path")
        data = os.urandom(5 * MIB)
        for extra in ([], ["-H", "Transfer-Encoding: chunked"]):
            v, status, body = curl(w, "/count", "--data-binary", "@-", *extra, name="3000-" + s.id, data=data)
            equal((v, status), (want, 200), "upload")
            check(hashlib.sha256(data).hexdigest().encode() in body, "all of it", body)
        v, status, body = curl(w, "/give/%d" % (8 * MIB), name="3000-" + s.id)
        equal((v, status, len(body)), (want, 200, 8 * MIB), "download")
        equal(curl(w, "/", name="4567-" + s.id)[:2], (want, 502), "a closed port")
        equal(curl(w, "/_sandbox/%s/49983/health" % s.id)[:2], (want, 204), "by path")
        equal(curl(w, "/init", "-d", "{}", name="49983-" + s.id)[:2], (want, 404), "a control route")
        equal(curl(w, "/health", "-H", "E2b-Sandbox-Id: " + s.id, "-H", "E2b-Sandbox-Port: 49983", name="sandbox")[:2], (want, 204), "by headers")
        r = wire.raw(w.stack.tls_where.address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        if r is not None:           # plain HTTP to the port of TLS: refused in words, or cut
            error_body(r, 400)
