"""The contract of machine pools: every kind, every option, every lifecycle call. Prints pool, capability, result."""

import json
import urllib.parse

import envd
import fcgi
import wire
from tap import Skip, Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario

GAP = b'{"code":"unimplemented","message":"the method is not implemented by this twin"}'
FIXTURES = [
    {"method": "GET", "path": "/health", "status": 204},
    {"method": "POST", "path": "/process.Process/Start", "times": 1, "headers": {"Content-Type": "application/connect+json", "X-Fixture": "a b"},
     "bodyBase64": "AAAAAAJ7fQ=="},
    {"port": 3000, "method": "GET", "path": "/hello", "body": "h\u00e9llo", "headers": {"Content-Type": "text/plain"}},
    {"port": 3000, "method": "GET", "path": "/hello?x=1", "status": 503, "body": "never"},
]
POOLS = {"local": None, "rows": {"kind": "none"}, "replies": {"kind": "fake", "replies": FIXTURES}, "js": {"kind": "light"}}

# capability, what a create asks for (path, body), the option as the refusal names it
OPTIONS = (
    ("insecure", "/sandboxes", {"secure": False}, "secure = false"),
    ("env", "/v2/sandboxes", {"envVars": {"A": "b"}}, "envVars"),
    ("no-internet", "/v2/sandboxes", {"allow_internet_access": False}, "allow_internet_access = false"),
    ("auto-pause", "/v2/sandboxes", {"autoPause": True}, "autoPause"),
    ("pause-disk", "/v2/sandboxes", {"autoPause": True, "autoPauseMemory": False}, "autoPause"),
    ("auto-resume", "/v2/sandboxes", {"autoPause": True, "autoResume": {"enabled": True}}, "auto"),
    ("net-rules", "/v2/sandboxes", {"network": {"allowOut": ["192.0.2.1"]}}, "network.allowOut"),
    ("net-rules", "/v2/sandboxes", {"network": {"denyOut": ["0.0.0.0/0"]}}, "network.denyOut"),
    ("net-headers", "/v2/sandboxes", {"network": {"rules": {"example.com": [{}]}}}, "network.rules"),
    ("net-proxy", "/v2/sandboxes", {"network": {"egressProxy": {"address": "192.0.2.1:1"}}}, "network.egressProxy"),
    ("closed-traffic", "/v2/sandboxes", {"network": {"allowPublicTraffic": False}}, "network.allowPublicTraffic = false"),
    ("mask-host", "/v2/sandboxes", {"network": {"maskRequestHost": "example.com"}}, "network.maskRequestHost"),
    ("volumes", "/v2/sandboxes", {"volumeMounts": [{"name": "v", "path": "/v"}]}, "volumeMounts"),
    ("tokens", "/v2/sandboxes", {"iam": {"tokens": {"t": {}}}}, "iam"),
)


def capabilities(w):
    """{pool: set of words}, as hutchctl tells."""
    out = {}
    for line in w.stack.ctl("pool", "list").splitlines():
        f = line[2:].split()
        out[f[0]] = set(f[2:])
    return out


def enrol(w):
    for name, body in POOLS.items():
        if body is not None:
            r = w.stack.door("POST", "/_twin/machine-pool", {"name": name, **body})
            equal(r.status, 201, "enrol %s: %r" % (name, r.body))
            equal((r.json()["name"], r.json()["kind"]), (name, body["kind"]), "as stored")
        w.template("pool-" + name, pool=name)


def note(pool, what, result):
    print("# %-8s %-16s %s" % (pool, what, result), flush=True)


@scenario("every option in every pool: had, or refused by its name and the pool's")
def options(w):
    enrol(w)
    before = set(w.api.listed())
    caps = capabilities(w)
    for pool in POOLS:
        for cap, path, body, option in OPTIONS:
            r = w.api("POST", path, {"templateID": "pool-" + pool, "timeout": 60, **body})
            if cap in caps[pool]:
                equal(r.status, 201, "%s in pool %s: %r" % (option, pool, r.body))
                w.api("DELETE", "/sandboxes/" + r.json()["sandboxID"])
            else:
                error_body(r, 403 if cap == "net-proxy" else 400, "option " + option, "cannot be had in pool " + pool)
            note(pool, option, "had" if r.status == 201 else "refused")
    left = set(w.api.listed()) - before
    check(not left, "nothing is left of the refused ones", left)


def pausing(w, s, pool):
    r = w.api("POST", "/sandboxes/%s/pause" % s.id, {})
    if r.status == 409 and pool in ("local", "js") and not w.stack.node("GET", "/v1/info").json()["capabilities"].get("pause"):
        note(pool, "pause", "not on this machine")
        return
    equal(r.status, 204, "pause in pool %s: %r" % (pool, r.body))
    equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["state"], "paused", "paused")
    check(s.id in w.api.listed("state=paused"), "listed as paused")
    w.api.must(201, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 200})
    equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["state"], "running", "resumed")
    note(pool, "pause", "served")


def snapshotting(w, s, pool, can):
    r = w.api("POST", "/sandboxes/%s/snapshots" % s.id, {"name": "of-" + pool})
    if not can:
        error_body(r, 400, "option snapshot cannot be had in pool " + pool)
        note(pool, "snapshot", "refused")
        return
    if r.status == 400 and pool in ("local", "js") and not w.stack.node("GET", "/v1/info").json()["capabilities"]["checkpoint"]:
        note(pool, "snapshot", "not on this machine")
        return
    equal(r.status, 201, "snapshot in pool %s: %r" % (pool, r.body))
    made = r.json()
    with w.create(template=made["snapshotID"], timeout=60) as t:
        got = w.api.must(200, "GET", "/sandboxes/" + t.id)
        equal((got["state"], got["alias"], got["templateID"]), ("running", "pool-" + pool, s.made["templateID"]), "started from it")
    check(made in w.api.must(200, "GET", "/snapshots?sandboxID=" + s.id), "listed")
    w.api.must(204, "DELETE", "/templates/" + urllib.parse.quote(made["snapshotID"], safe=""))
    error_body(w.api("POST", "/v2/sandboxes", {"templateID": made["snapshotID"]}), 404, "not found")
    note(pool, "snapshot", "served")


@scenario("the lifecycle is the same in every pool")
def lifecycle(w):
    enrol(w)
    caps = capabilities(w)
    for pool in POOLS:
        s = w.create(template="pool-" + pool, metadata={"pool": pool}, timeout=99)
        try:
            got = w.api.must(200, "GET", "/sandboxes/" + s.id)
            equal((got["state"], got["metadata"]), ("running", {"pool": pool}), "get")
            equal(w.api.listed("metadata=" + urllib.parse.quote("pool=" + pool)), [s.id], "list")
            w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 100})
            w.api.must(200, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 200})
            w.api.must(204, "POST", "/sandboxes/%s/refreshes" % s.id, {"duration": 300})
            if "pause" in caps[pool]:
                pausing(w, s, pool)
            snapshotting(w, s, pool, "snapshot" in caps[pool])
            error_body(w.api("POST", "/sandboxes/%s/fork" % s.id, {}), 400, "option fork cannot be had in pool " + pool)
            note(pool, "fork", "refused")
        finally:
            equal(s.kill(), 204, "kill in pool %s" % pool)
        equal(s.kill(), 404, "killed")
        t = w.create(template="pool-" + pool, timeout=1)
        eventually(lambda: w.api("GET", "/sandboxes/" + t.id).status == 404, 4, "its lease ends in pool %s" % pool)
        note(pool, "lifecycle", "served")


@scenario("pool none: guest traffic gets the refusal, in the form of the call", data=True)
def none(w):
    enrol(w)
    with w.create(template="pool-rows") as s:
        e = s.envd
        for port, method, target, kind in ((49983, "GET", "/health", None), (49983, "GET", "/files?path=x", None), (3000, "GET", "/", None),
                                           (49999, "POST", "/execute", "application/json"), (3000, "POST", "/x", "text/plain")):
            r = envd.Envd(w.where, s.id, s.token, port).call(method, target, b"{}" if method == "POST" else None,
                                                             [("Content-Type", kind)] if kind else [])
            equal(r.status, 502, "%s: %r" % (target, r))
            j = r.json()
            equal((j["sandboxId"], j["code"]), (s.id, 502), "body")
        for target, kind in (("/process.Process/Start", "application/connect+json"), ("/process.Process/List", "application/json")):
            r = e.call("POST", target, b"{}", [("Content-Type", kind)])
            equal((r.status, r.json()["code"], r.header("content-type")), (502, "unavailable", "application/json"), "a Connect call: %r" % r)
        equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "the row lives on")
    note("rows", "guest", "refused")


@scenario("pool fake: fixtures in their order, the refusal where none fits", data=True)
def fake(w):
    enrol(w)
    with w.create(template="pool-replies") as s:
        e, p = s.envd, envd.Envd(w.where, s.id, None, 3000)
        equal(e.health(), 204, "status without a body")
        asks = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")]
        r = e.call("OPTIONS", "/process.Process/Start", None, asks, token="")
        equal((r.status, r.header("access-control-allow-origin")), (204, "*"), "a preflight, which no fixture answers: %r" % r)
        for token in ("", "wrong"):
            r = e.call("POST", "/process.Process/Start", b"{}", [("Content-Type", "application/connect+json")], token=token)
            equal((r.status, r.json()["code"]), (401, 401), "token %r" % token)
        r = e.call("POST", "/process.Process/Start", b"{}", [("Content-Type", "application/connect+json")])
        equal((r.status, r.body, r.header("x-fixture")), (200, b"\0\0\0\0\2{}", "a b"), "bytes and headers: %r" % r)
        equal(r.header("content-type"), "application/connect+json", "type")
        r = e.call("POST", "/process.Process/Start", b"{}", [("Content-Type", "application/connect+json")])
        equal((r.status, r.json()["code"]), (502, "unavailable"), "used up: %r" % r)
        r = p.call("GET", "/hello")
        equal((r.status, r.body, r.header("content-type")), (200, "h\u00e9llo".encode(), "text/plain"), "another port")
        equal(p.call("GET", "/hello?y=2").status, 200, "a query that the fixture does not ask about")
        for method, target in (("GET", "/"), ("POST", "/hello"), ("GET", "/hello/")):
            equal(p.call(method, target).status, 502, "%s %s" % (method, target))
        host = "3000-%s.%s" % (s.id, w.stack.domain)
        equal(wire.once(w.where, "GET", "/hello", [], None, host).status, 200, "by host")
    equal(envd.Envd(w.where, s.id, None, 3000).call("GET", "/hello").status, 502, "after the kill")
    # enrolled anew: other replies for what still runs
    with w.create(template="pool-replies") as s:
        w.stack.door("POST", "/_twin/machine-pool", {"name": "replies", "kind": "fake", "replies": [{"path": "/health", "status": 299}]})
        equal(s.envd.health(), 299, "the new reply")
    note("replies", "guest", "fixtures")


def has_node(w):
    with w.create() as s:
        if s.run("command -v node").exit_code != 0:
            raise Skip("there is no node in the base sandbox")


@scenario("pool light: node with a script of the folder; the declared gap for all else; files go on", data=True)
def light(w):
    has_node(w)
    enrol(w)
    with w.create(template="pool-js") as s:
        e = s.envd
        equal(e.write("/home/user/main.js", b"console.log('sum', 1 + 2, process.argv.slice(2).join());").status, 200, "upload")
        st = e.start("node", ["main.js", "a", "b"])
        r = envd.collect(st)
        st.close()
        equal((r.exit_code, r.stdout), (0, b"sum 3 a,b\n"), "a script: %r" % r)
        e.write("/home/user/fail.mjs", b"import fs from 'fs'; console.error('bad'); process.exit(3);")
        st = e.start("node", ["/home/user/fail.mjs"])
        r = envd.collect(st)
        st.close()
        equal((r.exit_code, r.stderr), (3, b"bad\n"), "its exit: %r" % r)
        for cmd, args, kw in (("/bin/bash", ["-l", "-c", "true"], {}), ("node", ["-e", "1"], {}), ("node", [], {}), ("node", ["--version"], {}),
                              ("node", ["--eval", "main.js"], {}), ("node", ["missing.js"], {}), ("node", ["/etc/passwd"], {}),
                              ("/usr/bin/node", ["main.js"], {}), ("python3", ["main.js"], {}), ("node", ["main.js"], {"pty": (80, 24)}),
                              ("node", ["main.js"], {"envs": {"NODE_OPTIONS": "--require=/tmp/x.js"}})):
            try:
                e.start(cmd, args, **kw).close()
                check(False, "%s %s ran" % (cmd, args))
            except envd.RpcError as err:
                equal((err.status, err.code), (404, "unimplemented"), "%s %s" % (cmd, args))
        for method in ("process.Process/List", "process.Process/SendSignal", "process.Process/Update", "filesystem.Filesystem/Move",
                       "filesystem.Filesystem/CreateWatcher", "filesystem.Filesystem/WatchDir"):
            r = e.call("POST", "/" + method, b"{}", [("Content-Type", "application/json")])
            equal((r.status, r.body, r.header("content-type")), (404, GAP, "application/json"), method)
        equal(e.call("GET", "/envs").body, GAP, "another route")
        equal(envd.Envd(w.where, s.id, s.token, 3000).call("GET", "/").body, GAP, "another port")
        # files still are served, those of the folder
        equal(e.read("/home/user/main.js").status, 200, "download")
        equal(e.rpc("filesystem.Filesystem/Stat", {"path": "/home/user/main.js"})["entry"]["name"], "main.js", "Stat")
        e.rpc("filesystem.Filesystem/MakeDir", {"path": "/home/user/d"})
        equal({x["name"] for x in e.rpc("filesystem.Filesystem/ListDir", {"path": "/home/user", "depth": 1})["entries"]} >= {"d", "main.js"},
              True, "ListDir")
        e.rpc("filesystem.Filesystem/Remove", {"path": "/home/user/d"})
        equal(e.write("/usr/bin/node", b"x", username="root").status, 400, "a file outside of the folder")
        equal(e.read("/etc/passwd").status, 400, "reading there")
        # no start was left half done
        equal(envd.collect(e.start("node", ["main.js"])).exit_code, 0, "still admitted")
    note("js", "guest", "node FILE and files")


@scenario("the default pool is what templates without one get at a create")
def default(w):
    with w.create() as a:
        check(a.id in [i for i, _, _ in w.stack.rows()], "a machine of the local pool")
        try:
            equal(w.stack.door("POST", "/_twin/machine-pool", {"kind": "none"}).status, 201, "door")
            check("* default" in w.stack.ctl("pool", "list"), "the default is marked")
            with w.create() as b:
                check(b.id not in [i for i, _, _ in w.stack.rows()], "no machine")
                equal(w.api("GET", "/sandboxes/" + a.id).status, 200, "what ran goes on")
        finally:
            equal(w.stack.door("POST", "/_twin/machine-pool", {"kind": "local"}).status, 201, "door")
        with w.create() as c:
            check(c.id in [i for i, _, _ in w.stack.rows()], "a machine again")


@scenario("bad bodies of the pool door are 400 and name the field")
def bad(w):
    for body, names in (({}, "kind"), ({"kind": "docker"}, "kind"), ({"kind": 5}, "kind"), ({"kind": "none", "x": 1}, "x"),
                        ({"kind": "none", "name": "local"}, "local"), ({"kind": "none", "name": "a/b"}, "name"), ({"kind": "none", "name": 7}, "name"),
                        ({"kind": "light", "folder": "guest"}, "folder"), ({"kind": "fake", "replies": [{"path": 1}]}, "replies[0]"),
                        ({"kind": "fake", "replies": [{"path": "/", "port": 70000}]}, "port"), ([], "object")):
        error_body(w.stack.door("POST", "/_twin/machine-pool", body), 400, names)
    error_body(w.stack.door("POST", "/_twin/templates", {"team": "scenario", "alias": "x", "image": "host", "pool": "nowhere"}), 400, "nowhere")
    equal(fcgi.call(w.stack.fcgi_socket("doors"), "POST", "/_twin/machine-pool", [], b"{").status, 400, "malformed JSON")
    equal(json.loads(w.stack.door("GET", "/_twin/machine-pool").body)["code"], 405, "another method")
