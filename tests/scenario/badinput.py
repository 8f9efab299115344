"""Bad input: a clear answer in JSON, naming what is wrong; nothing lost, no program dies."""

import json
import socket

import wire
from tap import Suite, check, equal, eventually, one_of
from world import NOBODY, error_body

suite = Suite()
scenario = suite.scenario


def create(w, body):
    return w.api("POST", "/v2/sandboxes", body)


@scenario("bodies that are no JSON object are 400")
def malformed(w):
    for path in ("/sandboxes", "/v2/sandboxes"):
        for body in (b"", b"{", b"{]", b"nonsense", b'{"templateID":"base"', b'{"templateID":"base"} trailing', b'{"templateID":"base",}',
                     b"{'templateID':'base'}", b'{"templateID":"ba\xff\xfese"}', b'"base"', b"[]", b"null", b"5", b"\x00\x01\x02",
                     b'\xef\xbb\xbf{', b"[" * 100000, b'{"a":' * 50000):
            error_body(w.api("POST", path, body), 400)
    equal(w.api.listed("metadata=never%3Dset"), [], "still answering")


WRONG = (
    ({}, "templateID"), ({"templateID": None}, "templateID"), ({"templateID": 5}, "templateID"), ({"templateID": ["base"]}, "templateID"),
    ({"templateID": ""}, "template"), ({"templateID": "a/b/c"}, "Invalid template reference"), ({"templateID": "no such"}, "Invalid template reference"),
    ({"templateID": "/base"}, "Invalid template reference"), ({"templateID": "base:"}, "Invalid template reference"),
    ({"templateID": "x" * 129}, "template"), ({"templateID": "../etc"}, "Invalid template reference"),
    ({"timeout": "10"}, "timeout"), ({"timeout": 1.5}, "timeout"), ({"timeout": -1}, "timeout"),
    ({"timeout": True}, "timeout"), ({"timeout": 0}, "Timeout must be greater than 0"), ({"timeout": 86401}, "Timeout cannot be greater than 24 hours"),
    ({"timeout": 10 ** 30}, "timeout"), ({"timeout": [5]}, "timeout"),
    ({"metadata": []}, "metadata"), ({"metadata": "x"}, "metadata"), ({"metadata": {"a": 1}}, "metadata"), ({"metadata": {"a": None}}, "metadata"),
    ({"metadata": {"a": {"b": "c"}}}, "metadata"), ({"envVars": []}, "envVars"), ({"envVars": {"A": 1}}, "envVars"), ({"envVars": "A=1"}, "envVars"),
    ({"envVars": {"A=B": "x"}}, "envVars"), ({"envVars": {"": "x"}}, "envVars"), ({"envVars": {"A": "x\x00y"}}, "envVars"),
    ({"secure": "yes"}, "secure"), ({"autoPause": "yes"}, "autoPause"), ({"allow_internet_access": 1}, "allow_internet_access"),
    ({"autoPauseMemory": False}, "autoPauseMemory"), ({"autoResume": True}, "autoResume"), ({"network": []}, "network"),
    ({"volumeMounts": {}}, "volumeMounts"), ({"volumeMounts": [{"name": "v", "path": "/v"}]}, "volume"),
)


@scenario("create: wrong types and values are 400 and name the field")
def wrong_fields(w):
    before = w.api.listed()
    for path in ("/sandboxes", "/v2/sandboxes"):
        for change, text in WRONG:
            body = dict(change) if "templateID" in change or not change else {"templateID": "base", **change}
            r = w.api("POST", path, body)
            try:
                error_body(r, 400, text)
            except AssertionError as e:
                raise AssertionError("POST %s %s: %s" % (path, json.dumps(body)[:200], e)) from None
    equal(w.api.listed(), before, "nothing was made")


@scenario("create: what the pool cannot do is refused by name, never dropped")
def unsupported(w):
    for change, text in (({"network": {"denyOut": ["10.0.0.0/8"]}}, "network"), ({"network": {"allowPublicTraffic": False}}, "network"),
                         ({"iam": {"tokens": {"t": {"audience": "a", "tokenType": "JWT-SVID"}}}}, "iam")):
        r = create(w, {"templateID": "base", **change})
        if r.status == 201:
            made = r.json()
            d = w.api.must(200, "GET", "/sandboxes/" + made["sandboxID"])
            w.api("DELETE", "/sandboxes/" + made["sandboxID"])
            shown = json.dumps(d)
            kept = {"network": '"network"', "iam": "JWT-SVID"}[text]
            check(kept in shown, "%s was accepted and then dropped" % text, d)
        else:
            error_body(r, 400, text)


@scenario("unknown template, tag and namespace are 404 with their texts")
def unknown_template(w):
    for ref, text in (("nosuch", "template 'nosuch' not found"), ("a" * 20, "not found"), ("other-ns/base", "not found"),
                      ("base:nosuchtag", "tag 'nosuchtag' does not exist for template 'base'")):
        error_body(create(w, {"templateID": ref}), 404, text)


@scenario("timeout, connect and refreshes: wrong bodies are 400 and change nothing")
def wrong_timeouts(w):
    with w.create(timeout=200) as s:
        end = w.api.must(200, "GET", "/sandboxes/" + s.id)["endAt"]
        for body in ({}, {"timeout": "5"}, {"timeout": -1}, {"timeout": 1.5}, {"timeout": None}, {"timeout": 10 ** 30}):
            for path in ("/sandboxes/%s/timeout", "/sandboxes/%s/connect"):
                error_body(w.api("POST", path % s.id, body), 400, "timeout")
            if body:      # optional there
                error_body(w.api("POST", "/v2/sandboxes/%s/connect" % s.id, body), 400, "timeout")
        for body in (b"", b"{", b"[]", b"5"):
            error_body(w.api("POST", "/sandboxes/%s/timeout" % s.id, body), 400)
        for body in ({"duration": -1}, {"duration": "5"}, {"duration": 3601}):
            error_body(w.api("POST", "/sandboxes/%s/refreshes" % s.id, body), 400, "duration")
        equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["endAt"], end, "the lease end")


@scenario("bad sandbox ids are 400, unknown ones 404")
def bad_ids(w):
    for bad in ("UPPER", "i-a-b", "a-b-c", "%20", "i%00", "a%2Fb", "..%2F..%2Fteams", "%2e%2e", "x" * 300, "%C3%BC", "i_1", "-", "i--"):
        for method, path, body in (("GET", "/sandboxes/%s", None), ("DELETE", "/sandboxes/%s", None),
                                   ("POST", "/sandboxes/%s/timeout", {"timeout": 1}), ("POST", "/v2/sandboxes/%s/connect", {"timeout": 1})):
            r = w.api(method, path % bad, body)
            # A web server may refuse %00 and path escapes before anyone else sees them.
            error_body(r, None)
            one_of(r.status, (400, 404) if bad in ("i%00", "..%2F..%2Fteams", "%2e%2e") else (400,), "%s %s" % (method, path % bad))
    for unknown in (NOBODY, "abc", NOBODY + "-6532622b"):
        error_body(w.api("GET", "/sandboxes/" + unknown), 404)


@scenario("dots, slashes and odd escapes in paths never reach another route")
def odd_paths(w):
    with w.create() as s:
        for path in ("/sandboxes/../v2/sandboxes", "/./sandboxes", "//sandboxes", "/sandboxes/", "/sandboxes//", "/sandboxes/%s/" % s.id,
                     "/sandboxes%%2F%s" % s.id, "/%73andboxes", "/sandboxes/%s/.." % s.id, "/sandboxes/x/../%s" % s.id, "/SANDBOXES",
                     "/sandboxes;x", "/v2//sandboxes", "/v2/../v2/sandboxes", "/v1/sandboxes", "/..", "/%2e%2e/%2e%2e/etc/passwd",
                     "/sandboxes/%%2e%%2e/%s" % s.id, "/_twin/teams", "/v2/sandboxes/%s" % s.id + "%00"):
            r = w.api("GET", path)
            error_body(r, None)
            one_of(r.status, (400, 404), "GET %s: %r" % (path, r))
        for path in ("/_twin/teams", "/_twin/templates", "/%5ftwin/teams", "/sandboxes/../_twin/teams"):
            r = w.api("POST", path, {"name": "break-in"})
            error_body(r, None)
            one_of(r.status, (400, 404), "POST %s: %r" % (path, r))


@scenario("unknown routes are 404")
def unknown_routes(w):
    for method, path in (("GET", "/nowhere"), ("GET", "/"), ("POST", "/"), ("GET", "/sandboxes/%s/nowhere" % NOBODY), ("GET", "/v3/sandboxes"),
                         ("GET", "/instances"), ("GET", "/favicon.ico"), ("GET", "/.git/config"), ("DELETE", "/teams/x/y")):
        error_body(w.api(method, path), 404)
        error_body(w.api(method, path, key=None), None)


@scenario("known paths with another method are 405 with Allow")
def methods(w):
    for method, path, allow in (("PUT", "/sandboxes", {"GET", "POST"}), ("DELETE", "/sandboxes", {"GET", "POST"}), ("PATCH", "/v2/sandboxes", {"GET", "POST"}),
                                ("POST", "/sandboxes/" + NOBODY, {"GET", "DELETE"}), ("GET", "/sandboxes/%s/timeout" % NOBODY, {"POST"}),
                                ("DELETE", "/sandboxes/%s/connect" % NOBODY, {"POST"}), ("PROPFIND", "/sandboxes", {"GET", "POST"})):
        r = w.api(method, path)
        error_body(r, 405)
        got = {a.strip() for a in (r.header("allow") or "").split(",")} - {"OPTIONS", "HEAD"}
        equal(got, allow, "Allow of %s %s" % (method, path))


@scenario("a body over the limit is 413, with a length and without one")
def big_body(w):
    big = b'{"templateID":"base","metadata":{"a":"' + b"x" * (2 << 20) + b'"}}'
    error_body(create(w, big), 413)
    fits = b'{"templateID":"nosuch","metadata":{"a":"' + b"x" * (600 << 10) + b'"}}'
    one_of(create(w, fits).status, (400, 404), "one within the limit is judged by its content")


@scenario("a chunked body over the limit is 413 too", data=True)
def big_chunked(w):
    def flood():
        """The answer; None when it was lost: a server waits for some time only that a client stops sending and reads."""
        with wire.Conn(w.where) as c:
            c.send(c.request_head("POST", "/v2/sandboxes", [("X-API-Key", w.api.key), ("Content-Type", "application/json"),
                                                            ("Transfer-Encoding", "chunked")]))
            piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            try:
                c.send(b"".join([b'1\r\n{\r\n'] + [piece] * 40) + b"0\r\n\r\n")
            except ConnectionError:
                pass
            try:
                return c.finish()
            except wire.Cut:
                return None
    r = eventually(flood, 0, "an answer")
    one_of(r.status, (413, 411), "status %r" % r)
    error_body(r, None)


@scenario("a chunked body within the limit is read", data=True)
def small_chunked(w):
    with wire.Conn(w.where) as c:
        c.send(c.request_head("POST", "/v2/sandboxes", [("X-API-Key", w.api.key), ("Content-Type", "application/json"),
                                                        ("Transfer-Encoding", "chunked")]))
        c.send(b'5\r\n{"tem\r\n12\r\nplateID":"nosuch"}\r\n0\r\n\r\n')
        error_body(c.finish(), 404, "nosuch")


@scenario("oversized and odd header fields get JSON and leave the server working", data=True)
def headers(w):
    for extra in ([("X-Big", "x" * 100000)], [("X-%d" % i, "y" * 200) for i in range(500)], [("Cookie", "c" * 60000)]):
        with wire.Conn(w.where) as c:
            try:
                c.start("GET", "/v2/sandboxes", [("X-API-Key", w.api.key)] + extra)
                r = c.finish()
            except (wire.Cut, ConnectionError):
                continue        # closing on a flood is an answer too; the next line shows that others are served
            one_of(r.status, (200, 400, 413, 414, 431), "status %r" % r)
            if r.status != 200:
                error_body(r, None)
    r = w.api("GET", "/v2/sandboxes?limit=1&junk=" + "q" * 100000)
    one_of(r.status, (400, 413, 414, 431), "a long query: %r" % r)
    error_body(r, None)
    equal(w.api("GET", "/v2/sandboxes").status, 200, "still answering")


@scenario("requests that are no HTTP are refused", data=True)
def garbage(w):
    host = b"Host: localhost\r\n"
    key = b"X-API-Key: " + w.api.key.encode() + b"\r\n"
    for bad in (b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET /v2/sandboxes\x01 HTTP/1.1\r\n" + host + b"\r\n",
                b"GET /v2/sandboxes HTTP/9.9\r\n" + host + b"\r\n", b"GET /v2/sandboxes HTTP/1.1\r\n" + key + b"\r\n",
                b"POST /v2/sandboxes HTTP/1.1\r\n" + host + key + b"Content-Length: abc\r\n\r\n{}",
                b"POST /v2/sandboxes HTTP/1.1\r\n" + host + key + b"Content-Length: -5\r\n\r\n{}",
                b"POST /v2/sandboxes HTTP/1.1\r\n" + host + key + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
                b"POST /v2/sandboxes HTTP/1.1\r\n" + host + key + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"POST /v2/sandboxes HTTP/1.1\r\n" + host + key + b"Transfer-Encoding: nonsense\r\nContent-Length: 2\r\n\r\n{}",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100 + b"\r\n\r\n"):
        r = wire.raw(w.where, bad, timeout=5)
        if r is not None:
            check(r.status in (400, 404, 405, 408, 411, 413, 421, 431, 501, 505), "refused: %r -> %r" % (bad[:60], r))
    equal(w.api("GET", "/v2/sandboxes").status, 200, "still answering")


@scenario("half-sent requests are dropped; nobody waits for them, nothing dies", data=True)
def half_sent(w):
    pids = w.stack.pids()
    key = b"X-API-Key: " + w.api.key.encode() + b"\r\n"
    head = b"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\n" + key
    before = w.api.listed()
    halves = (b"GET /v2/sandbo", b"GET /v2/sandboxes HTTP/1.1\r\nHost: loc", head + b"Content-Length: 500\r\n\r\n" + b'{"templateID":',
              head + b"Transfer-Encoding: chunked\r\n\r\n40\r\n{\"templ", head + b"Content-Length: 22\r\nExpect: 100-continue\r\n\r\n")
    held = []
    for half in halves * 12:
        c = wire.Conn(w.where)
        c.send(half)
        held.append(c)
    equal(w.api("GET", "/v2/sandboxes").status, 200, "answered while %d halves are held" % len(held))
    with w.create() as s:
        equal(s.out("echo alive"), "alive\n", "the data plane works meanwhile")
    for c in held:
        c.close()
    equal(w.api.listed(), before, "no half request made anything")
    now = w.stack.pids()
    for name in pids:                      # a web server may start more of its own
        check(set(pids[name]) <= set(now[name]), "each process of %s is still there" % name, pids, now)


@scenario("a create whose client hangs up leaves no half-made record", data=True)
def hang_up(w):
    api = w.fresh_team()
    for _ in range(10):
        c = wire.Conn(w.where)
        c.start("POST", "/v2/sandboxes", [("X-API-Key", api.key), ("Content-Type", "application/json")], b'{"templateID":"base","timeout":600}')
        c.close()
    # Each of them either happened whole or not at all, now or when the server comes to it; all can be killed, and then nothing is left.
    def none_left():
        for i in api.listed():
            equal(api("DELETE", "/sandboxes/" + i).status, 204, "kill")
        return api.listed() == [] and w.stack.agrees()
    try:
        eventually(lambda: w.stack.agrees(), 20, "rows and machines agree")
    finally:
        eventually(none_left, 20, "nothing left")


@scenario("one request's framing never starts another (smuggling)", data=True)
def smuggling(w):
    with w.create() as s:
        kill = b"DELETE /sandboxes/" + s.id.encode() + b" HTTP/1.1\r\nHost: x\r\nX-API-Key: " + w.api.key.encode() + b"\r\n\r\n"
        head = b"POST /sandboxes/" + s.id.encode() + b"/timeout HTTP/1.1\r\nHost: x\r\nX-API-Key: " + w.api.key.encode() + b"\r\n"
        tries = (
            b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(kill)),
            b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(kill),
            b"Content-Length: %d\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" % (5 + len(kill)),
            b"Content-Length: %d\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" % (5 + len(kill)),
            b"Content-Length: %d\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" % (5 + len(kill)),
            b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(kill),
            b"Content-Length: +%d\r\n\r\n" % len(kill),
        )
        for t in tries:
            with wire.Conn(w.where) as c:
                answers = []
                try:
                    c.send(head + t)
                    # The kill is sent as body only: it may never be taken as a request. After 400 the server must close.
                    c.send(kill)
                except ConnectionError:
                    pass        # it has closed already
                c.sock.settimeout(3)
                try:
                    while len(answers) < 2:
                        answers.append(c.finish())
                except (wire.Cut, socket.timeout, AssertionError):
                    pass
            statuses = [a.status for a in answers]
            check(204 not in statuses[1:], "smuggled: %r -> %r" % (t[:60], answers))
            equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "the sandbox after %r (answers %r)" % (t[:60], statuses))
