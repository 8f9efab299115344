"""Every way to name a sandbox, over http and https: host, path, headers; which wins; who is said to have asked."""

import json
import os

import wire
from tap import Suite, check, equal, eventually, one_of
from world import NOBODY, error_body

suite = Suite()
scenario = suite.scenario

BROWSER = [("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/120"), ("Accept", "text/html,*/*")]


def wheres(w):
    """(scheme, address) of both, the certificate held against the name by which each is called."""
    return ("http", w.where), ("https", w.stack.tls_where)


def ask(where, method, target, headers=(), body=None, host=None):
    if isinstance(where, wire.Tls) and host:
        where = where.named(host.split(":")[0])
    return wire.once(where, method, target, headers, body, host)


def host(w, s, port):
    return "%d-%s.%s" % (port, s if isinstance(s, str) else s.id, w.stack.domain)


def guest(s, port=3000, name="guest_server.py"):
    """A server of tests/lib in the sandbox, once it listens."""
    with open(os.path.join(os.path.dirname(wire.__file__), name), "rb") as f:
        s.envd.write("/tmp/" + name, f.read())
    s.envd.spawn("exec python3 /tmp/%s %d >/tmp/%s.log 2>&1 </dev/null" % (name, port, name))
    eventually(lambda: s.run("exec 3<>/dev/tcp/127.0.0.1/%d" % port, login=False).exit_code == 0, 10, "%s listens in the sandbox" % name)


class Head:
    """The head that the guest saw, as /head tells."""

    def __init__(self, r):
        equal(r.status, 200, "the guest answers: %r" % r)
        j = r.json()
        self.line, self.pairs, self.body = j[0], [tuple(p) for p in j[1:-1]], j[-1][1]

    @property
    def target(self):
        return self.line.split(" ")[1]

    def all(self, name):
        return [v for k, v in self.pairs if k == name]

    def one(self, name):
        got = self.all(name)
        check(len(got) <= 1, "%s is there once" % name, self.pairs)
        return got[0] if got else None


@scenario("path form: /_sandbox/ID/PORT/ is cut off, the rest goes on as sent, with any method and body", data=True)
def path_form(w):
    with w.create() as s:
        guest(s)
        prefix = "/_sandbox/%s/3000" % s.id
        for scheme, where in wheres(w):
            for rest in ("/", "/a%2Fb//c/../d?q=1%20%2B&r", "/?x", "/a:b/unix:/x", "/_sandbox/%s/49983/" % s.id, "/v2/sandboxes", "/a?/../b", "/;p"):
                for method in ("GET", "POST"):
                    h = Head(ask(where, method, prefix + rest, [("X-Mine", "1")], b"body" if method == "POST" else None))
                    equal(h.line, "%s %s HTTP/1.%s" % (method, rest, h.line[-1]), "%s %s %s" % (scheme, method, rest))
                    equal(h.body, "body" if method == "POST" else "", "its body")
                    equal((h.one("x-forwarded-prefix"), h.one("e2b-sandbox-id"), h.one("e2b-sandbox-port"), h.one("x-mine")), (prefix, s.id, "3000", "1"),
                          "the place is told")
            equal(ask(where, "HEAD", prefix + "/").status, 200, "HEAD")
            r = ask(where, "GET", "/_sandbox/%s/49983/health" % s.id)
            equal(r.status, 204, "the agent's health")
            r = ask(where, "GET", "/_sandbox/%s/49983/files?path=/etc/hostname" % s.id, [("X-Access-Token", s.token)])
            equal(r.status, 200, "a file of the agent: %r" % r)


@scenario("path form: malformed ones are 400, refusals are the edge's own, control routes stay closed", data=True)
def path_refused(w):
    with w.create() as s:
        for _, where in wheres(w):
            for bad in ("/_sandbox/", "/_sandbox/x", "/_sandbox/%s" % s.id, "/_sandbox/%s/" % s.id, "/_sandbox/%s/3000" % s.id, "/_sandbox/%s/3000?x" % s.id,
                        "/_sandbox/%s/0/" % s.id, "/_sandbox/%s/65536/" % s.id, "/_sandbox/%s/x/" % s.id, "/_sandbox/%s//" % s.id, "/_sandbox//3000/",
                        "/_sandbox/%s/3000" % s.id.upper() + "/", "/_sandbox/../3000/", "/_sandbox/%2e/3000/", "/_sandbox/" + "a" * 500 + "/1/"):
                r = ask(where, "GET", bad)
                check(r.status in (400, 404), "%s: %r" % (bad, r))
                error_body(r, None)
            for other in ("/_sandbox", "/_sandboxes/%s/3000/" % s.id, "/x/_sandbox/%s/3000/" % s.id):
                error_body(ask(where, "GET", other), 404)
            for other in ("//_sandbox/%s/3000/" % s.id, "/./_sandbox/%s/3000/" % s.id, "/%%5fsandbox/%s/3000/" % s.id):
                r = ask(where, "GET", other)
                one_of(r.status, (400, 404), "the form is exact: %s: %r" % (other, r))
                error_body(r, None)
            j = ask(where, "GET", "/_sandbox/%s/3000/" % NOBODY)
            equal((j.status, j.json()), (502, {"sandboxId": NOBODY, "message": "The sandbox was not found", "code": 502}), "not found")
            j = ask(where, "GET", "/_sandbox/%s/4567/" % s.id)
            equal((j.status, j.json().get("port"), j.json().get("message")), (502, 4567, "The sandbox is running but port is not open"), "closed")
            r = ask(where, "GET", "/_sandbox/%s/4567/" % s.id, BROWSER)
            check(r.status == 502 and r.text.startswith("<html") and "4567" in r.text, "HTML", r)
            for path in ("/init", "//init", "/./init", "/x/../init", "/%69nit", "/%2e/init", "/init/", "/init?x=1", "/../init", "/%2e%2e/init"):
                r = ask(where, "POST", "/_sandbox/%s/49983%s" % (s.id, path), [("X-Access-Token", s.token), ("Content-Type", "application/json")], b"{}")
                one_of(r.status, (400, 404), "POST %s: %r" % (path, r))
                equal(r.header("x-envd-version"), None, "the agent did not answer %s" % path)
        equal(s.envd.health(), 204, "still well")


@scenario("which form wins: host, then path, then headers; the place that was not asked for hears nothing", data=True)
def precedence(w):
    with w.create() as a, w.create() as b:
        for s in (a, b):
            s.envd.write("/tmp/me", s.id.encode())
        to_b = [("E2b-Sandbox-Id", b.id), ("E2b-Sandbox-Port", "49983"), ("X-Access-Token", b.token)]
        token = [("X-Access-Token", a.token)]
        for scheme, where in wheres(w):
            r = ask(where, "GET", "/files?path=/tmp/me", to_b[:2] + token, host=host(w, a, 49983))
            equal((r.status, r.text), (200, a.id), scheme + ": host over headers")
            r = ask(where, "GET", "/_sandbox/%s/49983/files?path=/tmp/me" % a.id, to_b[:2] + token)
            equal((r.status, r.text), (200, a.id), scheme + ": path over headers")
            r = ask(where, "GET", "/_sandbox/%s/49983/files?path=/tmp/me" % b.id, token, host=host(w, a, 49983))
            equal(r.status, 404, scheme + ": host over path, which stays whole: %r" % r)
            r = ask(where, "GET", "/files?path=/tmp/me", to_b, host="sandbox." + w.stack.domain)
            equal((r.status, r.text), (200, b.id), scheme + ": headers on the shared host")
            equal(ask(where, "GET", "/v2/sandboxes", [("X-API-Key", w.api.key)], host="api." + w.stack.domain).status, 200, scheme + ": api.DOMAIN")


@scenario("the guest is told who asked and how, never what the client says of it", data=True)
def forwarded(w):
    lies = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "gopher"), ("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Prefix", "/evil"),
            ("X-Real-IP", "6.6.6.6"), ("Forwarded", "for=6.6.6.6")]
    with w.create() as s:
        guest(s)
        for scheme, where in wheres(w):
            for form in ("host", "path", "headers"):
                name = host(w, s, 3000) if form == "host" else w.stack.domain
                target = "/_sandbox/%s/3000/head" % s.id if form == "path" else "/head"
                more = [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "3000")] if form == "headers" else []
                for said in ([], lies):
                    h = Head(ask(where, "GET", target, more + said, host=name))
                    where_from = (h.one("x-forwarded-for"), h.one("x-forwarded-proto"), h.one("x-forwarded-host"), h.one("host"))
                    equal(where_from, ("127.0.0.1", scheme, name, name), "%s by %s" % (scheme, form))
                    equal(h.one("x-forwarded-prefix"), "/_sandbox/%s/3000" % s.id if form == "path" else None, "prefix")
                    check("6.6.6.6" not in json.dumps(h.pairs) and "evil" not in json.dumps(h.pairs), "nothing of it", h.pairs)


@scenario("https: the certificate is for every name of the domain and no other", data=True)
def certificate(w):
    import ssl
    with w.create() as s:
        for name in ("hutch.localhost", "api.hutch.localhost", "sandbox.hutch.localhost", "3000-%s.hutch.localhost" % s.id):
            wire.Conn(w.stack.tls_where.named(name)).close()
        for name in ("localhost", "a.b.hutch.localhost", "example.com"):
            try:
                wire.Conn(w.stack.tls_where.named(name)).close()
                check(False, "%s is taken" % name)
            except ssl.SSLCertVerificationError:
                pass
        for old in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            try:
                wire.Conn(w.stack.tls_where.at_most(old)).close()
                check(False, "%s is spoken" % old)
            except (ssl.SSLError, ConnectionError, ValueError):
                pass
