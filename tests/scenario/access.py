"""Who may do what: keys, teams, tokens (api.md 2, guest.md 2)."""

import envd
from tap import Suite, check, equal, one_of
from world import NOBODY, error_body

suite = Suite()
scenario = suite.scenario

ROUTES = (("GET", "/v2/sandboxes", None), ("GET", "/sandboxes", None), ("POST", "/sandboxes", {"templateID": "base"}),
          ("POST", "/v2/sandboxes", {"templateID": "base"}), ("GET", "/sandboxes/" + NOBODY, None), ("DELETE", "/sandboxes/" + NOBODY, None),
          ("POST", "/sandboxes/%s/connect" % NOBODY, {"timeout": 1}), ("POST", "/v2/sandboxes/%s/connect" % NOBODY, {"timeout": 1}),
          ("POST", "/sandboxes/%s/timeout" % NOBODY, {"timeout": 1}), ("POST", "/sandboxes/%s/refreshes" % NOBODY, {}))


@scenario("no key is 401 on every route")
def no_key(w):
    for method, path, body in ROUTES:
        error_body(w.api(method, path, body, key=None), 401, "authorization header is missing")


@scenario("a malformed or unknown key is 401 on every route")
def wrong_key(w):
    for method, path, body in ROUTES:
        error_body(w.api(method, path, body, key="nonsense"), 401, "authorization header is malformed")
    for key in ("e2b_", "e2b_xyz", "e2b_123", "e2b_" + "0" * 40, "e2b_" + "f" * 5000, w.api.key + "00", w.api.key[:-2], "sk_" + w.api.key):
        error_body(w.api("GET", "/v2/sandboxes", key=key), 401)


@scenario("hex case of a key does not matter")
def key_case(w):
    equal(w.api("GET", "/v2/sandboxes", key="e2b_" + w.api.key[4:].upper()).status, 200, "upper case")


@scenario("another team's sandbox is 404 on every route, and stays")
def other_team(w):
    other = w.other()
    with w.create() as s:
        for method, path, body in ROUTES:
            if NOBODY in path:
                error_body(other(method, path.replace(NOBODY, s.id), body), 404, s.id)
        equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "its owner's")


@scenario("another team's template is 404 on create, with the text of an unknown one")
def other_template(w):
    w.template("mine", team="scenario")
    with w.create(template="mine"):
        pass
    other = w.other()
    for ref in ("mine", "nosuch"):
        error_body(other("POST", "/v2/sandboxes", {"templateID": ref}), 404, "template '%s' not found" % ref)


@scenario("secure: the guest demands its token, on every kind of request", data=True)
def token(w):
    with w.create() as s, w.create() as t:
        e = s.envd
        equal(e.health(), 204, "health is open")
        for bad in ("", "0" * 64, t.token, s.token[:-1], s.token.upper()):
            x = envd.Envd(w.where, s.id, bad)
            for method, target, body, kind in (("POST", "/process.Process/List", b"{}", "application/json"),
                                               ("POST", "/filesystem.Filesystem/Stat", b'{"path":"/"}', "application/json"),
                                               ("GET", "/files?path=/etc/passwd", None, None),
                                               ("POST", "/files?path=/tmp/x", b"x", "application/octet-stream"),
                                               ("GET", "/nowhere", None, None)):
                r = x.call(method, target, body, [("Content-Type", kind)] if kind else [])
                error_body(r, 401)
            try:
                x.run("true")
                check(False, "a command ran with the token %r" % bad)
            except envd.RpcError as err:
                one_of(err.status, (401,), "start with the token %r" % bad)
        equal(e.out("echo in"), "in\n", "with the token")
        equal(e.read("/tmp/x").status, 404, "nothing was written")


@scenario("not secure: the guest is open", data=True)
def no_token(w):
    with w.create(path="/sandboxes", timeout=60) as s:
        equal(s.out("echo open"), "open\n", "without a token")


@scenario("a token dies with its sandbox and does not open another", data=True)
def token_dead(w):
    s = w.create()
    equal(s.envd.health(), 204, "health")
    s.kill()
    r = s.envd.call("POST", "/process.Process/List", b"{}", [("Content-Type", "application/json")])
    equal(r.status, 502, "after the kill: %r" % r)
