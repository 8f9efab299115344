"""Profile twin: what is served, and the declared gap for all else; the clock that worlds and tests set."""

import datetime

import envd
from tap import Suite, check, equal, eventually
from world import NOBODY, error_body

suite = Suite()
scenario = suite.scenario

REST_GAP = b'{"code":404,"message":"the method is not implemented by this twin"}'
GAP = b'{"code":"unimplemented","message":"the method is not implemented by this twin"}'


@scenario("profile twin: served operations work, all others are the gap, byte for byte, with and without a key")
def profile(w):
    parts = [p for p in w.stack.parts() if p in ("sandboxes", "templates", "teams", "events", "doors", "edge", "relay")]
    with w.stack.configured(*parts, profile="twin"):
        equal(w.api("GET", "/health").status, 200, "health")
        with w.create(timeout=900) as s:
            check(s.id in w.api.listed(), "list")
            equal(w.api("GET", "/sandboxes").status, 200, "the older list")
            w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 1000})
            equal(w.api.must(200, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 1000})["sandboxID"], s.id, "connect")
            for path in ("/templates", "/v2/templates"):
                check("base" not in str(w.api.must(200, "GET", path)), "templates of the team", path)
            for method, path, body in (("GET", "/sandboxes/" + s.id, None), ("POST", "/sandboxes/%s/refreshes" % s.id, {}),
                                       ("POST", "/sandboxes/%s/pause" % s.id, {}), ("POST", "/sandboxes/%s/snapshots" % s.id, {}),
                                       ("GET", "/sandboxes/%s/metrics" % s.id, None), ("GET", "/sandboxes/%s/logs" % s.id, None),
                                       ("POST", "/templates", {}), ("POST", "/v3/templates", {}), ("GET", "/snapshots", None),
                                       ("DELETE", "/templates/base", None),
                                       ("GET", "/templates/aliases/base", None), ("POST", "/sandboxes/%s/fork" % s.id, {}), ("GET", "/teams", None),
                                       ("GET", "/nowhere", None),
                                       ("PUT", "/sandboxes", {}), ("PATCH", "/health", None), ("GET", "/events/sandboxes", None)):
                for key in (True, None):
                    r = w.api(method, path, body, key=key)
                    equal((r.status, r.body), (404, REST_GAP), "%s %s" % (method, path))
            r = w.api("POST", "/v2/sandboxes", {"templateID": "base", "autoPause": True, "autoPauseMemory": False})
            equal((r.status, r.body), (404, REST_GAP), "snapshots of files alone")
            r = w.api("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 60, "memory": False})
            equal((r.status, r.body), (404, REST_GAP), "starting on the files alone")
            for path, body in (("/v2/sandboxes", {"templateID": "base", "autoPause": True, "autoPauseMemory": False}),
                               ("/sandboxes/%s/connect" % s.id, {"timeout": 60, "memory": False})):
                error_body(w.api("POST", path, body, key=None), 401)
            if w.where:
                guest(w, s)
        error_body(w.api("DELETE", "/sandboxes/" + NOBODY), 404, NOBODY)
        equal(w.stack.door("POST", "/_twin/teams", {"name": "scenario"}).status, 201, "doors stay open")
    with w.create() as s:
        equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "the full profile again")


def guest(w, s):
    e = s.envd
    equal(s.out("echo twin"), "twin\n", "Start")
    equal(e.write("/home/user/f", b"x").status, 200, "upload")
    equal(e.read("/home/user/f").body, b"x", "download")
    for method in ("Stat", "ListDir", "MakeDir", "Remove"):
        r = e.call("POST", "/filesystem.Filesystem/" + method, b'{"path":"/home/user/d"}', [("Content-Type", "application/json")])
        check(r.body != GAP, "%s passes" % method, r)
    for method in ("process.Process/List", "process.Process/Connect", "process.Process/Update", "process.Process/StreamInput",
                   "process.Process/SendInput", "process.Process/SendSignal", "process.Process/CloseStdin", "filesystem.Filesystem/Move",
                   "filesystem.Filesystem/WatchDir", "filesystem.Filesystem/CreateWatcher", "filesystem.Filesystem/GetWatcherEvents",
                   "filesystem.Filesystem/RemoveWatcher"):
        r = e.call("POST", "/" + method, b"{}", [("Content-Type", "application/json")])
        equal((r.status, r.body, r.header("content-type")), (404, GAP, "application/json"), method)
    for port, target in ((49999, "/contexts"), (49999, "/"), (3000, "/")):
        r = envd.Envd(w.where, s.id, s.token, port).call("GET", target)
        equal((r.status, r.body), (404, GAP), "port %d %s" % (port, target))
    r = envd.Envd(w.where, s.id, s.token, 49999).call("POST", "/execute", b"{}", [("Content-Type", "application/json")])
    equal(r.status, 502, "execute passes, and nothing listens: %r" % r)


def pauses(w):
    return w.stack.node("GET", "/v1/info").json().get("capabilities", {}).get("pause")


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


@scenario("clock: frozen, moved on with the ends on the way in order and before the answer, real again")
def clock(w):
    door = w.stack.door
    api = w.fresh_team()
    equal(door("GET", "/_twin/clock").json()["mode"], "real", "at first")
    try:
        r = door("POST", "/_twin/clock", {"mode": "frozen", "at": "2031-05-06T07:08:09Z"})
        equal((r.status, r.json()), (200, {"mode": "frozen", "now": "2031-05-06T07:08:09.000000Z"}), "frozen")
        rows = [w.create(api=api, timeout=t) for t in (30, 10, 20, 1000)]
        got = api.must(200, "GET", "/sandboxes/" + rows[0].id)
        equal(when(got["startedAt"]), when("2031-05-06T07:08:09Z"), "started at the frozen time")
        equal(when(got["endAt"]), when("2031-05-06T07:08:39Z"), "and ends by it")
        equal(set(api.listed()), {s.id for s in rows}, "all are there")
        equal(door("POST", "/_twin/clock", {"advance": 29}).json()["now"], "2031-05-06T07:08:38.000000Z", "moved on")
        equal(set(api.listed()), {rows[0].id, rows[3].id}, "what was due is gone at once")
        equal(api("GET", "/sandboxes/" + rows[1].id).status, 404, "by id, too")
        door("POST", "/_twin/clock", {"advance": 1})
        equal(api.listed(), [rows[3].id], "at its very end a lease is over")
        api.must(204, "POST", "/sandboxes/%s/timeout" % rows[3].id, {"timeout": 7200})
        door("POST", "/_twin/clock", {"mode": "frozen", "at": "2031-05-06T09:08:38Z"})
        equal(api.listed(), [rows[3].id], "extended")
        keeps = w.create(api=api, timeout=1, autoPause=True) if pauses(w) else None
        door("POST", "/_twin/clock", {"mode": "frozen", "at": "2031-05-06T09:08:39Z"})
        if keeps:
            equal(api.must(200, "GET", "/sandboxes/" + keeps.id)["state"], "paused", "one that persists is paused")
            door("POST", "/_twin/clock", {"advance": 86400})
            equal(api.listed(), [keeps.id], "and waits")
            equal(api("POST", "/sandboxes/%s/connect" % keeps.id, {"timeout": 10}).status, 201, "until it is resumed")
            door("POST", "/_twin/clock", {"advance": 10})
            equal(api.must(200, "GET", "/sandboxes/" + keeps.id)["state"], "paused", "paused again at its new end")
            equal(keeps.kill(), 204, "killed while paused")
        equal(api.listed(), [], "a leap ends it")
        eventually(w.stack.agrees, 5, "rows and machines agree")
    finally:
        equal(door("POST", "/_twin/clock", {"mode": "real"}).json()["mode"], "real", "real again")
    with w.create(api=api, timeout=1) as s:
        eventually(lambda: api("GET", "/sandboxes/" + s.id).status == 404, 4, "leases end by themselves again")
    for body, names in (({"mode": "slow"}, "mode"), ({"mode": 1}, "mode"), ({"advance": 5}, "advance"), ({"mode": "frozen", "advance": -1}, "advance"),
                        ({"mode": "frozen", "at": "yesterday"}, "at"), ({"mode": "real", "at": "2031-05-06T07:08:09Z"}, "at")):
        error_body(door("POST", "/_twin/clock", body), 400, names)
    equal(door("GET", "/_twin/clock").json()["mode"], "real", "nothing of them took effect")
