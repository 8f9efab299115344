"""The data plane: addressing, refusals, reserved routes, user ports, CORS, cuts (guest.md 8)."""

import os
import socket
import threading

import envd
import wire
from tap import Suite, check, equal, eventually, one_of
from world import NOBODY, Api, error_body

suite = Suite()
scenario = suite.scenario

MOZILLA = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari/537.36")


def host(w, s, port=49983):
    return "%d-%s.%s" % (port, s.id if not isinstance(s, str) else s, w.stack.domain)


def get(w, target="/health", headers=(), host=None, method="GET", body=None):
    return wire.once(w.where, method, target, headers, body, host)


def not_found(r, sandbox):
    equal(r.status, 502, "status %r" % r)
    j = r.json()
    equal((j.get("sandboxId"), j.get("message"), j.get("code")), (sandbox, "The sandbox was not found", 502), "body")


@scenario("both spellings of an address work: PORT-ID host and the two headers", data=True)
def addressing(w):
    with w.create() as s:
        equal(get(w, host=host(w, s)).status, 204, "host")
        equal(get(w, host="49983-%s.localhost" % s.id).status, 204, "host under localhost")
        equal(get(w, host="49983-%s.%s" % (s.id.upper(), w.stack.domain.upper())).status, 204, "host names know no case")
        error_body(get(w, host="49983-%s.another.example" % s.id), 400)
        equal(get(w, headers=[("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "49983")]).status, 204, "headers")
        equal(get(w, headers=[("e2b-sandbox-id", s.id), ("e2b-sandbox-port", "49983")], host="sandbox.e2b.app").status, 204, "headers, shared gateway")
        equal(get(w, host="49983-%s-6532622b.%s" % (s.id, w.stack.domain)).status, 204, "host with a client's suffix")
        with w.create() as t:
            r = get(w, "/files?path=/etc/passwd", host=host(w, s), headers=[("E2b-Sandbox-Id", t.id), ("E2b-Sandbox-Port", "49983"),
                                                                               ("X-Access-Token", s.token)])
            equal(r.status, 200, "a PORT-ID host wins over headers: %r" % r)


@scenario("bad addresses are refused", data=True)
def bad_address(w):
    with w.create() as s:
        for headers in ([("E2b-Sandbox-Id", s.id)], [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "")], [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "0")],
                        [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "65536")], [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "abc")],
                        [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "-1")], [("E2b-Sandbox-Id", "../" + s.id), ("E2b-Sandbox-Port", "49983")],
                        [("E2b-Sandbox-Id", "UPPER"), ("E2b-Sandbox-Port", "49983")], [("E2b-Sandbox-Id", "a" * 500), ("E2b-Sandbox-Port", "49983")],
                        [("E2b-Sandbox-Id", "%2e%2e%2fx"), ("E2b-Sandbox-Port", "49983")], [("E2b-Sandbox-Id", s.id + "/../x"), ("E2b-Sandbox-Port", "49983")]):
            r = get(w, headers=headers)
            one_of(r.status, (400, 502), "with %r: %r" % (headers, r))
            error_body(r, None)
        for h in ("99999-%s.%s" % (s.id, w.stack.domain), "0-%s.%s" % (s.id, w.stack.domain)):
            r = get(w, host=h)
            one_of(r.status, (400, 404, 502), "host %s: %r" % (h, r))


@scenario("an unknown sandbox is 502 in JSON, in HTML for a browser", data=True)
def unknown(w):
    for kw in ({"host": host(w, NOBODY)}, {"headers": [("E2b-Sandbox-Id", NOBODY), ("E2b-Sandbox-Port", "49983")]}):
        r = get(w, **kw)
        not_found(r, NOBODY)
        equal(r.header("content-type"), "application/json; charset=utf-8", "content type")
        not_found(get(w, method="POST", body=b"{}", **kw), NOBODY)
    accept = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
    r = get(w, headers=[MOZILLA, accept], host=host(w, NOBODY, 3000))
    equal(r.status, 502, "browser")
    text = r.text
    check(text.startswith("<html") and text.endswith("</html>"), "HTML from <html to </html>", text)
    check("Sandbox Not Found" in text and NOBODY in text, "what was not found", text)
    check(r.header("content-type").startswith("text/html"), "content type", r.headers)
    for extra in ([("Accept", "application/json")], [accept, ("Sec-Fetch-Mode", "cors")], [accept, ("X-Requested-With", "XMLHttpRequest")]):
        not_found(get(w, headers=[MOZILLA] + extra, host=host(w, NOBODY, 3000)), NOBODY)
    for agent in ("e2b-js-sdk/2.51.0", "e2b-python-sdk/2.63.0", "node", "python-httpx/0.27"):
        not_found(get(w, headers=[("User-Agent", agent)], host=host(w, NOBODY)), NOBODY)


RESERVED = ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade")
DISGUISES = ("//init", "/./init", "/x/../init", "/%69nit", "/%2e/init", "/x/%2e%2e/init", "/init/", "/init?x=1", "/init/.", "/%2finit", "/x/..//init",
             "/ini%74", "/init#x", "/.//init", "/x/y/../../init", "/%2e%2e/init", "/init%2f", "/init/x/..", "/%252e/../init")


@scenario("control routes of the guest are 404 for everyone, in every disguise", data=True)
def reserved(w):
    with w.create(envVars={"KEPT": "yes"}) as s:
        head = [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "49983"), ("X-Access-Token", s.token), ("Content-Type", "application/json")]
        for path in RESERVED:
            for method in ("POST", "GET", "PUT"):
                r = get(w, path, head, method=method, body=b"{}" if method != "GET" else None)
                error_body(r, 404, "reserved for the E2B control plane")
                equal(r.json().get("path"), path, "path in the body")
            equal(get(w, path, [("X-Access-Token", s.token)], host=host(w, s), method="POST", body=b"{}").status, 404, "by host")
            equal(get(w, path, host=host(w, NOBODY), method="POST", body=b"{}").status, 404, "checked before the look-up")
        for path in DISGUISES:
            r = get(w, path, head, method="POST", body=b'{"envVars":{"KEPT":"no"}}')
            one_of(r.status, (400, 401, 404, 405), "POST %s: %r" % (path, r))
            equal(r.header("x-envd-version"), None, "the agent's init did not answer POST %s" % path)
        for line in (b"POST http://%s/init HTTP/1.1" % host(w, s).encode(), b"POST /x\\..\\init HTTP/1.1", b"POST init HTTP/1.1", b"POST /init HTTP/1.0"):
            r = wire.raw(w.where, line + b"\r\nHost: " + host(w, s).encode() + b"\r\nX-Access-Token: " + s.token.encode() +
                         b"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            check(r is None or (r.status in (400, 404, 405) and r.header("x-envd-version") is None), "%r: %r" % (line, r))
        equal(envd.Envd(w.where, s.id, "wrong").call("POST", "/process.Process/List", b"{}", [("Content-Type", "application/json")]).status, 401,
              "the token still stands")
        equal(s.out("echo $KEPT"), "yes\n", "the environment still stands")


@scenario("smuggled framing does not reach the guest's control routes", data=True)
def smuggled(w):
    with w.create() as s:
        inner = b"POST /init HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        head = b"POST /process.Process/List HTTP/1.1\r\nHost: " + host(w, s).encode() + b"\r\nContent-Type: application/json\r\nX-Access-Token: " \
            + s.token.encode() + b"\r\n"
        for t in (b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(inner)),
                  b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(inner),
                  b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
                  b"Transfer-Encoding:\tchunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n" % (5 + len(inner)),
                  b"Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n"):
            try:
                with wire.Conn(w.where) as c:
                    c.sock.settimeout(3)
                    c.send(head + t + inner)
                    for _ in range(3):
                        r = c.finish()
                        equal(r.header("x-envd-version"), None, "init answered after %r: %r" % (t[:50], r))
            except (wire.Cut, OSError, AssertionError) as e:
                if "init answered" in str(e):
                    raise
            equal(envd.Envd(w.where, s.id, "wrong").call("POST", "/process.Process/List", b"{}", [("Content-Type", "application/json")]).status, 401,
                  "the token stands after %r" % t[:50])


SERVER = r"""
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def any(self):
        n = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(n)
        out = json.dumps({'method': self.command, 'path': self.path, 'headers': [[k.lower(), v] for k, v in self.headers.items()],
                          'body': body.decode('latin-1')}).encode()
        self.send_response(int(self.headers.get('X-Answer') or 200))
        self.send_header('Content-Length', str(len(out)))
        self.send_header('X-From', 'guest')
        for h in ('X-Accel-Redirect', 'X-Sendfile', 'X-LIGHTTPD-send-file', 'X-Sendfile2', 'X-Accel-Buffering', 'X-Accel-Limit-Rate'):
            if self.headers.get('Want-' + h): self.send_header(h, self.headers['Want-' + h])
        self.end_headers()
        if self.command != 'HEAD': self.wfile.write(out)
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_PROPFIND = do_OPTIONS = do_HEAD = any
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('127.0.0.1', PORT), H).serve_forever()
"""

ECHO = r"""
import socket, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', PORT)); s.listen(8)
def one(c):
    data = b''
    while b'\r\n\r\n' not in data: data += c.recv(4096)
    assert b'pgrade: websocket' in data
    c.sendall(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello ')
    while True:
        d = c.recv(4096)
        if not d: return
        c.sendall(d.upper())
while True: threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
"""


def serve(s, text, port):
    s.envd.write("/tmp/serve%d.py" % port, text.replace("PORT", str(port)).encode())
    s.envd.spawn("exec python3 /tmp/serve%d.py >/tmp/serve%d.log 2>&1 </dev/null" % (port, port))
    eventually(lambda: s.run("exec 3<>/dev/tcp/127.0.0.1/%d" % port, login=False).exit_code == 0, 10, "the server in the sandbox listens")


@scenario("a server in the sandbox is reached by host and by headers, any method, raw path, Host kept", data=True)
def user_port(w):
    with w.create() as s:
        serve(s, SERVER, 3000)
        for kw in ({"host": host(w, s, 3000)}, {"headers": [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "3000")]}):
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "OPTIONS"):
                h = list(kw.get("headers", [])) + [("X-Custom", "v"), ("Authorization", "Basic eDp5")]
                r = get(w, "/a%2Fb//c/../d?q=1%20%2B&r", h, kw.get("host"), method, b"body" if method in ("POST", "PUT", "PATCH") else None)
                equal(r.status, 200, "%s: %r" % (method, r))
                j = r.json()
                equal((j["method"], j["path"]), (method, "/a%2Fb//c/../d?q=1%20%2B&r"), "what the guest saw")
                seen = dict(j["headers"])
                equal((seen.get("x-custom"), seen.get("authorization")), ("v", "Basic eDp5"), "headers")
                if "host" in kw:
                    equal(seen.get("host"), kw["host"], "Host")
                equal(j["body"], "body" if method in ("POST", "PUT", "PATCH") else "", "body")
                equal(r.header("x-from"), "guest", "the guest's header")
        for status in (201, 302, 401, 403, 404, 500, 502, 503):
            r = get(w, "/", [("X-Answer", str(status))], host(w, s, 3000))
            equal((r.status, r.header("x-from")), (status, "guest"), "the guest's own status passes untouched")
        r = get(w, "/", host=host(w, s, 3000), method="HEAD")
        equal((r.status, r.body), (200, b""), "HEAD")
        equal(get(w, "/init", host=host(w, s, 3000), method="POST", body=b"{}").status, 200, "reserved words are reserved on 49983 only")


@scenario("what a sandbox answers is no order to the web server: files of the host stay there", data=True)
def no_orders(w):
    secret = w.path("tmp/secret")
    with open(secret, "w") as f:
        f.write("the host's secret")
    os.chmod(secret, 0o644)
    with w.create() as s:
        serve(s, SERVER, 3000)
        for name, value in (("X-Accel-Redirect", "/_hutch/error"), ("X-Accel-Redirect", secret), ("X-Accel-Redirect", "/v2/sandboxes"),
                            ("X-Sendfile", secret), ("X-LIGHTTPD-send-file", secret), ("X-Sendfile2", secret + " 0-"), ("X-Accel-Limit-Rate", "1")):
            r = get(w, "/p", [("Want-" + name, value)], host(w, s, 3000))
            equal(r.status, 200, "%s: %r" % (name, r))
            check(b"host's secret" not in r.body, "%s sent a file of the host" % name, r)
            equal(r.json()["path"], "/p", "the guest's own answer with %s" % name)


@scenario("a closed port is 502 with the port, in JSON and in HTML; it works once opened", data=True)
def closed_port(w):
    with w.create() as s:
        r = get(w, "/", host=host(w, s, 4567))
        equal(r.status, 502, "status %r" % r)
        j = r.json()
        equal((j.get("sandboxId"), j.get("message"), j.get("port"), j.get("code")),
              (s.id, "The sandbox is running but port is not open", 4567, 502), "body")
        r = get(w, "/", [MOZILLA, ("Accept", "text/html")], host(w, s, 4567))
        check(r.status == 502 and r.text.startswith("<html") and "no service running on port" in r.text and "4567" in r.text and s.id in r.text,
              "HTML", r)
        serve(s, SERVER, 4567)
        equal(get(w, "/", host=host(w, s, 4567)).status, 200, "opened")


@scenario("an upgraded connection is full duplex and is cut with the sandbox", data=True)
def upgrade(w):
    with w.create() as s:
        serve(s, ECHO, 3001)
        c = wire.Conn(w.where)
        c.start("GET", "/ws", [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
                               ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")], host=host(w, s, 3001))
        r = c.head()
        equal(r.status, 101, "upgrade: %r" % r)
        equal(c.read_exact(6), b"hello ", "first bytes")
        for word in (b"one", b"two" * 1000):
            c.send(word)
            equal(c.read_exact(len(word)), word.upper(), "echo")
        s.kill()
        check(c.closed_by_peer(), "the connection is cut by the kill")
        c.close()


TRAFFIC = "e2b-traffic-access-token"


def private(r, s, word):
    equal(r.status, 403, "refused: %r" % r)
    j = r.json()
    equal((j.get("sandboxId"), j.get("code")), (s.id, 403), "body")
    equal(j.get("message"), "Sandbox is secured with traffic access token. " + word, "its text")


MISSING = "Token header 'e2b-traffic-access-token' is missing"
WRONG = "Provided token in header 'e2b-traffic-access-token' is invalid"


@scenario("allowPublicTraffic false: every port but the agent's takes the traffic token, WebSockets too", data=True)
def closed_traffic(w):
    with w.create(network={"allowPublicTraffic": False}) as s, w.create() as other:
        token = s.made.get("trafficAccessToken")
        check(isinstance(token, str) and len(token) >= 32 and token != s.token, "a token of its own", s.made)
        equal(other.made.get("trafficAccessToken", "absent"), None, "null for a public one")
        detail = w.api.must(200, "GET", "/sandboxes/" + s.id)
        check("trafficAccessToken" not in detail, "not in the detail", detail)
        equal(detail["network"], {"allowPublicTraffic": False}, "reported")
        check("network" not in w.api.must(200, "GET", "/sandboxes/" + other.id), "nothing was asked")
        serve(s, SERVER, 3000)
        serve(s, ECHO, 3001)
        for port in (3000, 49999):
            private(get(w, "/", host=host(w, s, port)), s, MISSING)
            private(get(w, "/", [(TRAFFIC, "")], host(w, s, port)), s, MISSING)
            for wrong in (s.token, token[:-1], token + "0", token.upper() + "x"):
                private(get(w, "/", [(TRAFFIC, wrong)], host(w, s, port)), s, WRONG)
        r = get(w, "/", [MOZILLA, ("Accept", "text/html")], host(w, s, 3000))
        check(r.status == 403 and "Missing Traffic Access Token" in r.text, "HTML for a browser", r)
        r = get(w, "/a?b", [(TRAFFIC, token)], host(w, s, 3000))
        equal(r.status, 200, "with the token: %r" % r)
        equal(dict(r.json()["headers"]).get(TRAFFIC), token, "E2B's headers reach the guest")
        equal(get(w, "/", [(TRAFFIC, token), ("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "3000")]).status, 200, "by headers")
        equal(s.envd.health(), 204, "the agent's port has its own token")
        up = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
        private(get(w, "/ws", up, host(w, s, 3001)), s, MISSING)
        with wire.Conn(w.where) as c:
            c.start("GET", "/ws", up + [(TRAFFIC, token)], host=host(w, s, 3001))
            equal(c.head().status, 101, "upgrade with the token")
        equal(w.api.must(200, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 60})["trafficAccessToken"], token, "the same at a connect")
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        not_found(get(w, "/", [(TRAFFIC, token)], host(w, s, 3000)), s.id)
        equal(w.api.must(201, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 60})["trafficAccessToken"], token, "the same after a resume")
        private(get(w, "/", host=host(w, s, 3000)), s, MISSING)
        equal(get(w, "/", [(TRAFFIC, token)], host(w, s, 3000)).status, 200, "and it opens")
    error_body(w.api("POST", "/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": False}}), 400, "allowPublicTraffic", "secure")


@scenario("traffic resumes a private sandbox only with its token", data=True)
def closed_resume(w):
    with w.create(network={"allowPublicTraffic": False}, autoPause=True, autoResume={"enabled": True}) as s:
        serve(s, SERVER, 3000)
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        private(get(w, "/", host=host(w, s, 3000)), s, MISSING)
        private(get(w, "/", [(TRAFFIC, "x")], host(w, s, 3000)), s, WRONG)
        equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["state"], "paused", "neither has resumed it")
        equal(get(w, "/", [(TRAFFIC, s.made["trafficAccessToken"])], host(w, s, 3000)).status, 200, "served")
        equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["state"], "running", "resumed")


@scenario("maskRequestHost: the guest's server sees that Host, and the client's as X-Forwarded-Host", data=True)
def masked(w):
    for mask, want in (("localhost:${PORT}", "localhost:3000"), ("app.example", "app.example"), ("app.example:8080", "app.example:8080")):
        with w.create(network={"maskRequestHost": mask}) as s:
            equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["network"], {"allowPublicTraffic": True, "maskRequestHost": mask}, "reported")
            serve(s, SERVER, 3000)
            for kw, came in (({"host": host(w, s, 3000)}, host(w, s, 3000)),
                             ({"headers": [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "3000"), ("X-Forwarded-Host", "forged")], "host": "any.example"},
                              "any.example")):
                r = get(w, "/", **kw)
                equal(r.status, 200, "answer: %r" % r)
                seen = r.json()["headers"]
                equal([v for k, v in seen if k == "host"], [want], "Host")
                equal([v for k, v in seen if k == "x-forwarded-host"], [came], "X-Forwarded-Host")
            equal(s.envd.health(), 204, "the agent's port is as it was")
    with w.create() as s:
        serve(s, SERVER, 3000)
        seen = get(w, "/", host=host(w, s, 3000)).json()["headers"]
        equal([v for k, v in seen if k == "host"], [host(w, s, 3000)], "without a mask it is kept")
    for bad in ("a b", "a\r\nX-Evil: 1", "\u00e4.example", "a:0", "a:b", "http://a", "*.a", 5, "x" * 400):
        error_body(w.api("POST", "/v2/sandboxes", {"templateID": "base", "network": {"maskRequestHost": bad}}), 400, "maskRequestHost")


@scenario("the guest's ports are its own: two sandboxes on one number", data=True)
def same_port(w):
    with w.create() as a, w.create() as b:
        a.envd.write("/home/user/www/index.html", b"I am a")
        b.envd.write("/home/user/www/index.html", b"I am b")
        for s in (a, b):
            s.envd.spawn("cd ~/www && exec python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1")
        for s, text in ((a, b"I am a"), (b, b"I am b")):
            eventually(lambda: get(w, "/", host=host(w, s, 8000)).status == 200, 10, "answers")
            equal(get(w, "/", host=host(w, s, 8000)).body, text, "content")


@scenario("streams come event by event, not at the end", data=True)
def streaming(w):
    with w.create() as s:
        st = s.envd.start("/bin/bash", ["-c", "for i in 1 2 3; do echo $i; read line || exit 9; done"], stdin=True)
        events = st.events()
        pid = next(events)["start"]["pid"]
        for i in (1, 2, 3):
            # The command waits for each line: an event that is held back would hang here.
            e = next(events)
            check("stdout" in e.get("data", {}), "an output event", e)
            s.envd.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "Cg=="}})
        rest = list(events)
        equal(rest[-1]["end"].get("exitCode", 0), 0, "end %r" % rest)
        st.close()


@scenario("killing a sandbox cuts its streams at once, abruptly; /health is 502 by then", data=True)
def cut(w):
    for _ in range(3):
        s = w.create()
        streams = [s.envd.start("/bin/bash", ["-c", "echo up; sleep 1000"]) for _ in range(3)]
        for st in streams:
            ev = st.events()
            next(ev), next(ev)
        equal(s.kill(), 204, "kill")
        for st in streams:
            st.conn.sock.settimeout(60)
            try:
                item = st.next()
                check(False, "a stream of a killed sandbox goes on or ends cleanly", item)
            except wire.Cut:
                pass
            equal(s.envd.health(), 502, "health once the cut is seen")
            st.close()


@scenario("a client that hangs up does not stop the command", data=True)
def client_gone(w):
    with w.create() as s:
        pid = s.envd.spawn("sleep 0.3; echo done > /tmp/done; sleep 1000")
        eventually(lambda: s.envd.read("/tmp/done").status == 200, 10, "the command went on")
        equal(s.run("kill -0 %d" % pid).exit_code, 0, "still there")


@scenario("long uploads and downloads stream both ways", data=True)
def bytes_through(w):
    with w.create() as s:
        data = bytes(range(256)) * 4096 * 8
        r = s.envd.write("/home/user/big", data)
        equal(r.status, 200, "upload %r" % r)
        equal(r.json()[0]["path"], "/home/user/big", "path")
        equal(s.envd.read("/home/user/big").body, data, "download")
        equal(s.out("stat -c %s /home/user/big").strip(), str(len(data)), "size")
        with wire.Conn(w.where) as c:
            c.send(c.request_head("POST", "/files?path=chunky",
                                  s.envd.headers(extra=[("Content-Type", "application/octet-stream"), ("Transfer-Encoding", "chunked")])))
            for i in range(20):
                c.send(b"4\r\n%04d\r\n" % i)
            c.send(b"0\r\n\r\n")
            equal(c.finish().status, 200, "a chunked upload")
        equal(s.envd.read("chunky").body, b"".join(b"%04d" % i for i in range(20)), "its content")


@scenario("an early answer: a refused upload does not hang; it is refused before its end where the server can", data=True)
def early(w):
    with w.create() as s:
        with wire.Conn(w.where) as c:
            pieces = 64
            c.sock.settimeout(15)       # who answers early need not read what comes then
            length = 1 << 30 if w.server.early else pieces << 16
            c.send(c.request_head("POST", "/files?path=/tmp/x", envd.Envd(w.where, s.id, "wrong").headers(extra=[
                ("Content-Type", "application/octet-stream"), ("Content-Length", str(length))])))
            try:
                for i in range(pieces):
                    if i == pieces - 1 and not w.server.early:
                        check(not c.readable(0.5), "nothing comes before the upload's end")
                    c.send(b"x" * 65536)
            except (ConnectionError, socket.timeout):
                pass
            c.sock.settimeout(wire.HANG)
            try:
                equal(c.finish().status, 401, "refused")
            except wire.Cut:
                pass    # closed with our bytes unread: also an end
        equal(s.envd.health(), 204, "still healthy")


def refused_requests(w, s):
    """(what, status, request line and fields) of refusals by the guest agent, the edge and the API."""
    wrong = envd.Envd(w.where, s.id, "wrong").headers
    raw = ("Content-Type", "application/octet-stream")
    return (
        ("a file with a wrong token", 401, "/files?path=/tmp/x", wrong(extra=[raw])),
        ("a call with a wrong token", 401, "/process.Process/SendSignal", wrong(extra=[("Content-Type", "application/json")])),
        ("a file that cannot be", 400, "/files?path=/tmp", s.envd.headers(extra=[raw])),
        ("an unknown route of the agent", 404, "/nowhere", s.envd.headers()),
        ("a reserved route", 404, "/init", s.envd.headers()),
        ("a closed port", 502, "/", [("Host", host(w, s, 4567))]),
        ("an unknown sandbox", 502, "/", [("Host", host(w, NOBODY, 3000))]),
        ("the API without a key", 401, "/v2/sandboxes", []),
        ("an unknown route of the API", 404, "/nowhere", [("X-API-Key", w.api.key)]),
    )


@scenario("a refusal does not cost the connection, however late the request's body comes", data=True)
def refused_late(w):
    forms = (([("Content-Length", "200000")], [b"x" * 100000] * 2),
             ([("Transfer-Encoding", "chunked")], [b"4\r\nhalf\r\n", b"0\r\n\r\n"]))
    with w.create() as s:
        for what, status, target, headers in refused_requests(w, s):
            for framing, pieces in forms:
                with wire.Conn(w.where) as c:
                    c.send(c.request_head("POST", target, list(headers) + framing))
                    for piece in pieces:
                        c.readable(0.05)        # time for an answer that comes too early
                        c.send(piece)
                    r = c.finish()
                    equal(r.status, status, "%s, %s: %r" % (what, framing[0][0], r))
                    if (r.header("connection") or "").lower() == "close":
                        continue
                    equal(c.request("GET", "/health", s.envd.headers()).status, 204, "the next request after %s, %s" % (what, framing[0][0]))


@scenario("CORS: the API answers any origin, errors and preflight too", data=True)
def cors_api(w):
    origin = ("Origin", "https://app.example")
    r = wire.once(w.where, "OPTIONS", "/v2/sandboxes", [origin, ("Access-Control-Request-Method", "POST"),
                                                        ("Access-Control-Request-Headers", "x-api-key,content-type,lang,publisher")])
    one_of(r.status, (200, 204), "preflight %r" % r)
    equal(r.header("access-control-allow-origin"), "*", "origin")
    allowed = (r.header("access-control-allow-headers") or "").lower()
    for h in ("x-api-key", "content-type", "authorization", "x-team-id", "lang", "publisher", "sdk_runtime"):
        check(h in allowed or allowed == "*", "header %s is allowed" % h, allowed)
    for h in ("e2b-sandbox-id", "e2b-sandbox-port", "x-access-token", "connect-protocol-version", "keepalive-ping-interval"):
        check(h in allowed and "*" in allowed, "a preflight of a call to a sandbox, which it cannot name: %s" % h, allowed)
    check("DELETE" in (r.header("access-control-allow-methods") or ""), "methods", r.headers)
    for key, status in ((w.api.key, 200), (None, 401)):
        r = w.api("GET", "/v2/sandboxes", headers=[origin], key=key)
        equal((r.status, r.header("access-control-allow-origin")), (status, "*"), "answer")
        check("x-next-token" in (r.header("access-control-expose-headers") or "").lower(), "X-Next-Token is exposed", r.headers)


@scenario("CORS: the guest answers preflight without a token; refusals carry the origin too", data=True)
def cors_guest(w):
    origin = ("Origin", "https://app.example")
    with w.create() as s:
        asked = "x-access-token,content-type,connect-protocol-version,e2b-sandbox-id,e2b-sandbox-port"
        r = get(w, "/process.Process/Start", [origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", asked)],
                host(w, s), "OPTIONS")
        equal(r.status, 204, "preflight by host")
        equal(r.header("access-control-allow-origin"), "*", "origin")
        check("x-access-token" in (r.header("access-control-allow-headers") or "").lower(), "allow-headers echo what was asked", r.headers)
        r = get(w, "/health", [origin], host(w, s))
        equal((r.status, r.header("access-control-allow-origin")), (204, "*"), "health")
        equal(len(r.all("access-control-allow-origin")), 1, "said once")
        r = envd.Envd(w.where, s.id, "wrong").call("POST", "/process.Process/List", b"{}", [origin, ("Content-Type", "application/json")])
        equal((r.status, r.header("access-control-allow-origin")), (401, "*"), "a refusal by the guest")
    r = get(w, "/health", [origin], host(w, NOBODY))
    equal((r.status, r.header("access-control-allow-origin")), (502, "*"), "a refusal by the edge")


ORIGIN = ("Origin", "https://app.example")
ASKED = "x-access-token,content-type,connect-protocol-version,e2b-traffic-access-token"


def forms(w, s, port=49983, path="/health"):
    """The three ways to name it: target and keywords of get."""
    sid = s if isinstance(s, str) else s.id
    return ((path, {"host": host(w, s, port)}), ("/_sandbox/%s/%d%s" % (sid, port, path), {}),
            (path, {"headers": [("E2b-Sandbox-Id", sid), ("E2b-Sandbox-Port", str(port))]}))


def ask(w, target, headers=(), host=None, asked=(("Access-Control-Request-Headers", ASKED),)):
    return get(w, target, [ORIGIN, ("Access-Control-Request-Method", "POST"), *asked, *headers], host, "OPTIONS")


def cors_of(r):
    # Apache writes the list of Vary anew, without spaces.
    return sorted((k, v if k != "vary" else ", ".join(v.replace(" ", "").split(","))) for k, v in r.headers
                  if k.startswith("access-control-") or k == "vary")


def may_ask(w, s, what, port=49983, path="/health"):
    """A preflight for it is answered by the edge, however it is named, and says what a guest agent's answer does."""
    want = sorted((("access-control-allow-origin", "*"), ("access-control-max-age", "7200"), ("access-control-allow-headers", ASKED),
                   ("access-control-allow-methods", "HEAD, GET, POST, PUT, PATCH, DELETE"),
                   ("vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")))
    for target, kw in forms(w, s, port, path):
        r = ask(w, target, **kw)
        equal((r.status, r.body, r.header("content-type")), (204, b"", None), "preflight, %s, at %s: %r" % (what, target, r))
        equal(cors_of(r), want, "its fields, %s, at %s" % (what, target))
        r = ask(w, target, asked=(), **kw)
        equal((r.status, r.header("access-control-allow-headers")), (204, None), "preflight without headers, %s: %r" % (what, r))


def readable(r, status, what):
    equal((r.status, r.all("access-control-allow-origin")), (status, ["*"]), "the request itself, %s: %r" % (what, r))
    equal(r.json()["code"], status, "its body, %s" % what)


@scenario("CORS: a preflight of what would be refused is answered by the edge, and the refusal can be read", data=True)
def cors_edge(w):
    for port in (49983, 49999, 3000):
        may_ask(w, NOBODY, "an unknown sandbox", port)
        for target, kw in forms(w, NOBODY, port):
            kw["headers"] = [ORIGIN] + kw.get("headers", [])
            readable(get(w, target, **kw), 502, "an unknown sandbox")
    may_ask(w, NOBODY, "a control route", path="/init")
    wrong = host(w, NOBODY, 99999)
    equal(ask(w, "/", host=wrong).status, 204, "preflight to a port that cannot be")
    readable(get(w, "/", [ORIGIN], wrong), 400, "a port that cannot be")
    for missing in ("Origin", "Access-Control-Request-Method"):
        left = [h for h in (ORIGIN, ("Access-Control-Request-Method", "POST")) if h[0] != missing]
        equal(get(w, "/health", left, host(w, NOBODY), "OPTIONS").status, 502, "no preflight without %s" % missing)
    r = ask(w, "/health", host=host(w, NOBODY), asked=[("Access-Control-Request-Headers", "x-" + "a" * 12000)])
    equal((r.status, r.header("access-control-allow-headers")), (204, None), "more than is sent back: %r" % r)
    s = w.create()
    s.kill()
    may_ask(w, s, "killed")
    readable(get(w, "/health", [ORIGIN], host(w, s)), 502, "killed")


@scenario("CORS: a preflight goes on to a sandbox that runs, whose server decides", data=True)
def cors_running(w):
    with w.create() as s:
        may_ask(w, s, "by the agent")
        may_ask(w, s, "a control route", path="/init")
        serve(s, SERVER, 3000)
        for target, kw in forms(w, s, 3000, "/x"):
            r = ask(w, target, **kw)
            equal((r.status, r.header("x-from"), cors_of(r)), (200, "guest", []), "a server's own answer: %r" % r)
            equal((r.json()["method"], r.json()["path"]), ("OPTIONS", "/x"), "what it saw")
        r = ask(w, "/", [("X-Answer", "403")], host(w, s, 3000))
        equal((r.status, r.header("x-from")), (403, "guest"), "its refusal")
        may_ask(w, s, "a port where nobody listens", 4567)
        readable(get(w, "/", [ORIGIN], host(w, s, 4567)), 502, "a port where nobody listens")


@scenario("CORS: nobody at the socket that the edge has named: the refusal and the preflight's answer are the same", data=True)
def cors_gone(w):
    with w.create() as s:
        machine = next(m for m, i in w.stack.machines().items() if i == s.id)
        at = w.path("run/sb/%s/49983" % machine)
        os.rename(at, at + ".away")
        try:
            for target, kw in forms(w, s):
                kw["headers"] = [ORIGIN] + kw.get("headers", [])
                r = get(w, target, **kw)
                readable(r, 502, "gone")
                not_found(r, s.id)
                equal(r.all("content-type"), ["application/json; charset=utf-8"], "content type")
            may_ask(w, s, "gone")
        finally:
            os.rename(at + ".away", at)
        equal(s.envd.health(), 204, "back")


@scenario("CORS: a preflight resumes nothing; the request behind it does", data=True)
def cors_paused(w):
    def state(s):
        return w.api.must(200, "GET", "/sandboxes/" + s.id)["state"]
    with w.create(autoResume={"enabled": True}) as s, w.create() as off:
        serve(s, SERVER, 3000)
        for each in (s, off):
            w.api.must(204, "POST", "/sandboxes/%s/pause" % each.id, {})
            for port in (49983, 3000):
                may_ask(w, each, "paused", port)
            equal(state(each), "paused", "nobody was woken")
        readable(get(w, "/health", [ORIGIN], host(w, off)), 502, "paused")
        readable(get(w, "/health", [ORIGIN, ("X-Access-Token", "wrong")], host(w, s)), 403, "paused, with a wrong token")
        equal(get(w, "/health", [ORIGIN], host(w, s), "OPTIONS").status, 403, "OPTIONS without a question is a request like any")
        equal(state(s), "paused", "nobody was woken")
        equal(get(w, "/health", [ORIGIN, ("X-Access-Token", s.token)], host(w, s)).status, 204, "the request is served")
        equal(state(s), "running", "it woke the sandbox")
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        equal(get(w, "/", host=host(w, s, 3000), method="OPTIONS").header("x-from"), "guest", "OPTIONS to a port without a token wakes it too")


@scenario("CORS: a page may send its traffic token: the preflight, which has none, is not let in", data=True)
def cors_private(w):
    with w.create(network={"allowPublicTraffic": False}, autoResume={"enabled": True}) as s:
        token = s.made["trafficAccessToken"]
        serve(s, SERVER, 3000)
        for _ in range(2):
            for port in (3000, 49999, 4567):
                may_ask(w, s, "private", port)
            for wrong in ((), [(TRAFFIC, "wrong")]):
                readable(get(w, "/", [ORIGIN, *wrong], host(w, s, 3000)), 403, "private")
            equal(get(w, "/", [ORIGIN, (TRAFFIC, token)], host(w, s, 3000)).header("x-from"), "guest", "with the token")
            w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        may_ask(w, s, "private and paused", 3000)
        equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["state"], "paused", "nobody was woken")


@scenario("traffic for a paused sandbox of a team that runs as many as it may: 429 with Retry-After", data=True)
def resume_limit(w):
    api = Api(w.front, w.team("full"))
    w.stack.ctl("team", "full", "--sandboxes", "1")
    with w.create(api=api, autoResume={"enabled": True}) as s:
        api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        with w.create(api=api) as other:
            r = get(w, "/health", [ORIGIN, ("X-Access-Token", s.token)], host(w, s))
            readable(r, 429, "over the limit")
            check(int(r.header("retry-after")) >= 1, "Retry-After", r.headers)
            equal(r.header("access-control-expose-headers"), "Retry-After", "a script may read it")
            may_ask(w, s, "over the limit")
            other.kill()
        equal(get(w, "/health", [("X-Access-Token", s.token)], host(w, s)).status, 204, "and once there is room it is resumed")


@scenario("requests to many sandboxes at once each find their own", data=True)
def many(w):
    boxes = [w.create(metadata={"n": str(i)}) for i in range(8)]
    try:
        wrong = []

        def work(s):
            for _ in range(12):
                try:
                    got = s.run("echo $E2B_SANDBOX_ID", login=False).stdout.decode().strip()
                except Exception as e:  # noqa: whatever it is, it was no answer
                    got = repr(e)
                if got != s.id:
                    wrong.append((s.id, got))
        threads = [threading.Thread(target=work, args=(s,)) for s in boxes]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(wrong, [], "answers from the wrong sandbox")
    finally:
        for s in boxes:
            s.kill()
