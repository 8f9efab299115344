"""Mirroring another account: a second hutch as the vendor, its signed webhooks, refreshes, the budget of requests, and vendors that are
down, slow or hostile."""

import base64
import contextlib
import datetime
import hashlib
import json
import os
import pwd
import secrets
import subprocess

import local
import stack as stacks
import world
from tap import Skip, check, equal, eventually, Suite, within
from world import NOBODY, Api, error_body

suite = Suite()
scenario = suite.scenario

T = "sandbox.lifecycle."
SECRET = "of the vendor \u00e4"
DOOR = "/_twin/webhooks/e2b"
PARTS = ("sandboxes", "doors", "reaper")


def sign(body, secret=SECRET):
    return base64.b64encode(hashlib.sha256(secret.encode() + body).digest()).decode().rstrip("=")


def post(w, body, signature=None, delivery=True, version="v1"):
    """A webhook as the vendor would send it, through the web server."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    headers = [("Content-Type", "application/json"), ("e2b-signature", sign(body) if signature is None else signature)]
    headers += [("e2b-signature-version", version)] if version else []
    headers += [("e2b-delivery-id", secrets.token_hex(16) if delivery is True else delivery)] if delivery else []
    return w.front.request("POST", DOOR, headers, body)


def event(kind, sandbox=NOBODY, **more):
    return {"version": "v2", "id": secrets.token_hex(8), "type": T + kind, "eventData": None, "sandboxId": sandbox, **more}


def state(w):
    r = w.stack.door("GET", "/_twin/upstream")
    equal(r.status, 200, "state of the mirror: %r" % r.body)
    return r.json()


@contextlib.contextmanager
def secret_set(w):
    equal(w.stack.door("POST", DOOR + "/secret", {"secret": SECRET}).status, 204, "secret")
    try:
        yield
    finally:
        equal(w.stack.door("DELETE", DOOR + "/secret").status, 204, "no secret")


@contextlib.contextmanager
def mirroring(w, url, key, **options):
    """w mirrors the account for a while; the team that sees it is a new one."""
    path, user = w.path("upstream-key-" + secrets.token_hex(4)), pwd.getpwnam(stacks.USER)
    team = "mirror " + secrets.token_hex(4)
    with open(path, "w") as f:
        f.write(key + "\n")
    os.chmod(path, 0o600)
    os.chown(path, user.pw_uid, user.pw_gid)
    api = Api(w.front, w.team(team))
    with secret_set(w), w.stack.configured(*PARTS, **{"upstream_url": url, "upstream_key_file": path, "upstream_team": team,
                                                      "upstream_interval_s": 3600, **options}):
        yield api
    eventually(lambda: api.listed() == [], 10, "without upstream_url the mirrored rows are forgotten")
    os.remove(path)


@contextlib.contextmanager
def vendor_stack(w):
    """A second hutch, with its own web server, whose sandboxes are rows alone."""
    v = stacks.Stack(w.stack.build, w.stack.server, team_sandboxes=300, max_sandboxes=10, warm=0)
    try:
        v.start()
        other = world.World(v, w.kind, world.WebFront(v.where))
        equal(v.door("POST", "/_twin/machine-pool", {"kind": "none", "name": "rows"}).status, 201, "pool of the vendor")
        yield other
    finally:
        v.stop()
        left = v.leftovers()
        v.remove()
    equal(left, [], "nothing of the vendor is left")


def rows_of(api):
    return {s["sandboxID"]: s for s in api.must(200, "GET", "/v2/sandboxes")}


@scenario("a second hutch is mirrored: its rows and changes come by refresh, kills by webhook; nothing of our own is touched", data=True)
def two(w):
    with vendor_stack(w) as v:
        theirs = Api(v.front, v.team("account"))
        v.template("rows", "none", team="account", pool="rows")
        make = lambda **more: v.create("rows", api=theirs, **more)
        a = make(timeout=10000, metadata={"who": "a \u00e4", "n": "1"})
        b = make(timeout=20000)
        theirs.must(204, "POST", "/sandboxes/%s/pause" % b.id, {})
        with mirroring(w, v.stack.url, theirs.key, upstream_per_minute=60) as api:
            eventually(lambda: set(api.listed()) == {a.id, b.id}, 75, "the first refresh shows both")
            here, there = rows_of(api), rows_of(theirs)
            for i in (a.id, b.id):
                for field in ("templateID", "startedAt", "endAt", "state", "cpuCount", "memoryMB", "diskSizeMB", "envdVersion"):
                    equal(here[i][field], there[i][field], "%s of %s" % (field, i))
                equal(here[i].get("metadata"), there[i].get("metadata"), "metadata of " + i)
            mirrored(w, api, a.id)
            (template,) = theirs.must(200, "GET", "/v2/templates")
            shown = eventually(lambda: [t for t in api.must(200, "GET", "/v2/templates") if t["templateID"] == template["templateID"]], 75, "its template")
            for field in ("aliases", "cpuCount", "memoryMB", "diskSizeMB", "envdVersion", "buildID", "public"):
                equal(shown[0][field], template[field], "%s of the template" % field)
            error_body(api("DELETE", "/templates/" + template["templateID"]), 400, "mirrored")
            error_body(api("POST", "/v2/sandboxes", {"templateID": "rows"}), 400, "pool upstream")
            check(template["templateID"] not in [t["templateID"] for t in w.api.must(200, "GET", "/v2/templates")], "no other team sees it")
            by_webhook(w, v, api, theirs, a, make)
            full_page(w, api, theirs, make)


def mirrored(w, api, sandbox):
    """What is not ours is shown, and neither reached nor changed."""
    detail = api.must(200, "GET", "/sandboxes/" + sandbox)
    check("envdAccessToken" not in detail, "no token of ours for it", detail)
    r = w.front.request("GET", "/health", [("E2b-Sandbox-Id", sandbox), ("E2b-Sandbox-Port", "49983")])
    equal((r.status, r.json()["code"]), (502, 502), "guest traffic")
    path = "/sandboxes/" + sandbox
    for method, target, body in (("DELETE", path, None), ("POST", path + "/timeout", {"timeout": 5}), ("POST", path + "/refreshes", {"duration": 60}),
                                 ("POST", path + "/pause", {}), ("POST", path + "/connect", {"timeout": 5}), ("POST", path + "/resume", {"timeout": 5}),
                                 ("POST", path + "/snapshots", {}), ("PUT", path + "/network", {"denyOut": ["0.0.0.0/0"]}), ("POST", path + "/fork", {})):
        error_body(api(method, target, body), 400)
    equal(api("GET", path).status, 200, "it is still there")
    error_body(w.other()("GET", path), 404)
    error_body(w.stack.door("POST", "/_twin/clock", {"mode": "frozen"}), 409, "upstream_url")


def by_webhook(w, v, api, theirs, a, make):
    with w.create(timeout=10000) as ours:
        hook = theirs.must(201, "POST", "/events/webhooks", {"name": "to the mirror", "url": w.stack.url + DOOR, "signatureSecret": SECRET,
                                                             "events": [T + x for x in ("created", "killed", "paused", "resumed", "updated")]})
        c = make(timeout=10000)
        eventually(lambda: c.id in api.listed(), 75, "a webhook of a start brings a refresh")
        theirs.must(204, "POST", "/sandboxes/%s/timeout" % c.id, {"timeout": 15000})
        eventually(lambda: rows_of(api)[c.id]["endAt"] == rows_of(theirs)[c.id]["endAt"], 75, "and of another end, too")
        w.stack.kill_part("reaper")
        equal(a.kill(), 204, "killed at the vendor")
        d = make(timeout=10000)
        eventually(lambda: a.id not in api.listed(), 75, "a webhook removes it, though the reaper is dead")
        check(d.id not in api.listed(), "while a refresh needs it")
        w.stack.start_part("reaper")
        eventually(lambda: d.id in api.listed(), 75, "what was asked for before the reaper died is done after it")
        check(a.id not in api.listed(), "and what was killed does not come back")
        equal(w.api.must(200, "GET", "/sandboxes/" + ours.id)["state"], "running", "ours runs on")
        equal(theirs("DELETE", "/events/webhooks/" + hook["id"]).status, 200, "no more webhooks")
        for x in (c, d):
            equal(x.kill(), 204, "end")


def full_page(w, api, theirs, make):
    old = make(timeout=10000)
    equal(post(w, event("updated")).json(), {"effect": "refresh"}, "asked for")
    eventually(lambda: old.id in api.listed(), 75, "there before the page is full")
    many = [make(timeout=10000) for _ in range(100)]
    equal(old.kill(), 204, "killed without a webhook")
    post(w, event("updated"))
    eventually(lambda: state(w)["sandboxes"]["mayBeMore"] and many[-1].id in api.listed(), 75, "a full page")
    equal(state(w)["sandboxes"]["onPage"], 100, "one page of 100")
    check(old.id in api.listed(), "from a full page nothing is taken as gone")
    for s in many[1:]:
        equal(s.kill(), 204, "end")
    post(w, event("updated"))
    eventually(lambda: old.id not in api.listed(), 75, "from a shorter page it is")
    check(many[0].id in api.listed(), "what is on it stays")


@scenario("webhooks of the vendor: signature, strict body, repeated deliveries, a kill of one of ours", data=True)
def ingest(w):
    good = json.dumps(event("updated")).encode()
    error_body(post(w, good), 401, "signature")
    for bad in ({"secret": ""}, {"secret": 5}, {}, {"secret": "x" * 257}):
        error_body(w.stack.door("POST", DOOR + "/secret", bad), 400, "secret")
    with secret_set(w):
        with open(w.path("state/db/data.mdb"), "rb") as f:
            check(SECRET.encode() not in f.read(), "the records do not hold the secret in clear")
        equal(post(w, good).json(), {"effect": "refresh"}, "signed")
        equal(post(w, good, sign(good) + "=").status, 200, "padded")
        equal(post(w, good, sign(good).replace("+", "-").replace("/", "_")).status, 200, "the URL-safe alphabet")
        tampered = good.replace(b"updated", b"paused ")
        for body, signature, version in ((good, "", "v1"), (good, "x", "v1"), (good, sign(good)[:-1], "v1"), (good, sign(good, "other"), "v1"),
                                         (tampered, sign(good), "v1"), (good, sign(good), "v2"), (good, sign(good), None), (good, "!" * 43, "v1"),
                                         (good, "A" * 5000, "v1"), (good, sign(good[:-1]), "v1")):
            error_body(post(w, body, signature, version=version), 401, "signature")
        glued = hashlib.sha256(SECRET.encode() + good).digest()
        equal(len(glued), 32, "a hash that could be continued")
        for body, names in ((b"", "empty"), (b"{}", "type"), (b"[]", "object"), (b"{", "JSON"), (good + b"\x80" + bytes(8), "JSON"), (good + b"{}", "JSON"),
                            (b'{"type":5}', "type"), (json.dumps({"type": T + "killed"}).encode(), "sandboxId"),
                            (json.dumps(event("killed", "../x")).encode(), "sandboxId"), (json.dumps(event("killed", 5)).encode(), "sandboxId"),
                            (json.dumps(event("killed", sandbox_id=NOBODY[:-1] + "1")).encode(), "sandbox_id")):
            error_body(post(w, body), 400, names)
        error_body(post(w, good, delivery=None), 400, "e2b-delivery-id")
        error_body(post(w, good, delivery="x" * 257), 400, "e2b-delivery-id")
        equal(post(w, event("killed")).json(), {"effect": "removed"}, "of one that is not there")
        equal(post(w, {"type": T + "something new"}).json(), {"effect": "refresh"}, "a type that is not known")
        for key in ("sandboxId", "sandbox_id"):
            with w.create(timeout=900) as s, w.create(timeout=900) as other:
                body = {k: v for k, v in event("killed").items() if k != "sandboxId"}
                equal(post(w, {**body, key: s.id}, delivery="d-" + s.id).json(), {"effect": "removed"}, "one of ours")
                equal(w.api("GET", "/sandboxes/" + s.id).status, 404, "it is gone")
                eventually(lambda: s.id not in w.stack.machines().values(), 10, "and its machine")
                equal(post(w, {**body, key: other.id}, delivery="d-" + s.id).json(), {"effect": "repeated"}, "the same delivery")
                equal(w.api("GET", "/sandboxes/" + other.id).status, 200, "has no effect")
        error_body(w.front.request("GET", DOOR), 405, "GET")
        for path in (DOOR + "/secret", "/_twin/upstream", "/_twin/teams", DOOR + "/", "/_twin%2Fwebhooks/e2b"):
            equal(w.front.request("POST", path, [("Content-Type", "application/json")], b"{}").status, 404, "not public: " + path)
    error_body(post(w, good), 401, "signature")


# ---- a vendor that misbehaves ----

class Vendor(local.Server):
    """A server whose answers are what `behave(path)` says: (status, headers, body), or None for none at all."""

    def __init__(self):
        self.behave, self.paths, self.keys = (lambda path: (200, {}, b"[]")), [], set()
        super().__init__("/base/")

    def answer(self, handler):
        self.paths.append(handler.path)
        self.keys.add(handler.headers.get("X-API-Key"))
        said = self.behave(handler.path)
        if said is None:
            self.over.wait(120)
            return
        handler.send_response(said[0])
        for name, value in {"Content-Length": str(len(said[2])), **said[1]}.items():
            handler.send_header(name, value)
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(said[2])


def listed(sandbox, **more):
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"templateID": "t" * 20, "sandboxID": sandbox, "clientID": "6532622b", "startedAt": now.isoformat(),
            "endAt": (now + datetime.timedelta(hours=1)).isoformat(), "state": "running", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 512,
            "envdVersion": "0.6.13", **more}


def template(name, alias):
    return {"templateID": name, "buildID": "00000000-0000-4000-8000-000000000001", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 512, "public": False,
            "aliases": [alias], "names": ["x/" + alias], "createdAt": "2026-01-02T03:04:05.123456789Z", "updatedAt": "2026-01-02T03:04:05Z",
            "createdBy": None, "lastSpawnedAt": None, "spawnCount": 3, "buildCount": 1, "envdVersion": "0.6.13", "buildStatus": "ready"}


def answers(sandboxes, templates=(), **headers):
    def behave(path):
        return 200, headers, json.dumps(list(templates if "templates" in path else sandboxes)).encode()
    return behave


def sandbox_id():
    return "i" + secrets.token_hex(10)


def told(w, text):
    """Lines of the log about trouble with the list of sandboxes."""
    with open(w.path("log/reaper.log"), errors="replace") as f:
        return [x for x in f.read().splitlines() if "/v2/sandboxes?limit=100: " in x and text in x]


@scenario("a vendor that is down, slow or answers nonsense changes nothing and is told of once", data=True)
def hostile(w):
    only_once(w)
    key = "e2b_" + "5" * 40
    ids = [sandbox_id() for _ in range(3)]
    with Vendor() as v, w.create(timeout=10000) as ours:
        page = [listed(i, metadata={"n": str(n)}) for n, i in enumerate(ids)]
        v.behave = answers(page, [template("m" * 20, "theirs"), template("n" * 20, "base")])
        with mirroring(w, v.url, key, upstream_interval_s=2, upstream_timeout_s=5, upstream_per_minute=60) as api:
            eventually(lambda: set(api.listed()) == set(ids), 75, "mirrored")
            equal(v.keys, {key}, "the key of the file")
            equal(set(v.paths), {"/base/v2/sandboxes?limit=100", "/base/v2/templates?limit=100"}, "one page of each list")
            error_body(api("POST", "/v2/sandboxes", {"templateID": "theirs"}), 400, "pool upstream")
            before = rows_of(api)
            text = json.dumps(page).encode()
            claims = dict(page[0], sandboxID=ours.id, metadata={"now": "theirs"})
            bad = [
                ("HTML", lambda p: (200, {"Content-Type": "text/html"}, b"<html>sorry</html>"), "unexpected character"),
                ("a cut text", lambda p: (200, {}, text[:-1]), "ends too early"),
                ("an object", lambda p: (200, {}, b'{"a":1}'), "no array"),
                ("too many", answers([listed(sandbox_id()) for _ in range(101)]), "101 entries"),
                ("a wrong type", answers(page[:1] + [dict(page[1], cpuCount="2")]), "cpuCount"),
                ("a missing field", answers([{k: x for k, x in page[0].items() if k != "endAt"}]), "endAt"),
                ("a bad id", answers([dict(page[0], sandboxID="../../etc")]), "sandboxID"),
                ("a bad state", answers([dict(page[0], state="dead")]), "state"),
                ("a redirect", lambda p: (302, {"Location": "http://127.0.0.1:%d/elsewhere" % v.server.server_address[1]}, b""), "answered 302"),
                ("no right", lambda p: (401, {}, b'{"code":401,"message":"no"}'), "answered 401"),
                ("silence", lambda p: None, "Timeout was reached"),
            ]
            for name, behave, says in bad:
                tried, requests = len(v.paths), 4 if name in ("HTML", "silence") else 1
                v.behave = behave
                # so long, since requests of scenarios before may have used this minute's budget up
                eventually(lambda: len(v.paths) >= tried + requests and told(w, says), 75, "%s: asked for, and told of" % name)
                equal(rows_of(api), before, "%s changes nothing" % name)
                equal(len(told(w, says)), 1, "%s is told of once: %r" % (name, told(w, says)))
            check(state(w)["failures"] > 0, "failures are counted")
            check("/elsewhere" not in v.paths, "redirects are not followed")
            v.behave = answers(page[:1] + [claims])
            eventually(lambda: set(api.listed()) == {ids[0]}, 75, "well again: what is gone is gone")
            equal(w.api.must(200, "GET", "/sandboxes/" + ours.id).get("metadata"), None, "a page that names one of ours does not touch it")
            eventually(lambda: state(w)["failures"] == 0, 75, "no failures any more")
            v.behave = answers(page[:2], **{"X-Next-Token": "more"})
            eventually(lambda: set(api.listed()) == set(ids[:2]), 75, "grown")
            v.behave = answers(page[2:], **{"X-Next-Token": "more"})
            eventually(lambda: set(api.listed()) == set(ids), 75, "a page that is not the last takes nothing as gone")
            check(w.front.request("GET", "/health").status == 200, "nobody else was held up")


@scenario("the budget of requests to the vendor: one for all, over restarts and kills; Retry-After is kept to", data=True)
def budget(w):
    only_once(w)
    one = sandbox_id()
    with Vendor() as v:
        v.behave = answers([listed(one)])
        first = state(w)["rateBudget"]
        with mirroring(w, v.url, "e2b_" + "6" * 40, upstream_per_minute=4) as api:
            equal(state(w)["rateBudget"]["ceiling"], 4, "ceiling")
            eventually(lambda: one in api.listed(), 70, "refreshed once")

            kills = 0

            def ask():                           # each start refreshes at once, and a new program has no new budget
                nonlocal kills
                had = state(w)["rateBudget"]
                kills += 1
                w.stack.kill_part("reaper")
                w.stack.start_part("reaper")
                now = eventually(lambda: (lambda b: (b["sent"], b["refused"]) != (had["sent"], had["refused"]) and b)(state(w)["rateBudget"]), 0, "it asks")
                return now["refused"] > first["refused"]

            eventually(ask, 70, "asked for until the budget is used up")
            now = state(w)["rateBudget"]
            check(now["used"] <= 4, "used", now)
            # counted before it is sent: a kill may come in between
            within(0, now["sent"] - first["sent"] - len(v.paths), kills, "what is counted is what was sent")
            windows = 1 + round((stamp(now["resetsAt"]) - stamp(first["resetsAt"])).total_seconds() / 60)
            check(len(v.paths) <= 4 * windows, "never more than the ceiling in a minute", len(v.paths), windows)
            text = w.stack.door("GET", "/metrics").body.decode()
            check('hutch_upstream_requests_total{outcome="refused"}' in text and "hutch_upstream_budget_limit 4" in text, "metrics", text)
            out = w.stack.ctl("upstream")
            check("of 4 (allowance 60)" in out and v.url in out, "hutchctl upstream", out)
        v.behave = lambda p: (429, {"Retry-After": "7200"}, b'{"code":429,"message":"slow down"}')
        with mirroring(w, v.url, "e2b_" + "6" * 40, upstream_per_minute=60):
            held = eventually(lambda: state(w)["rateBudget"]["heldUntil"], 70, "held")
            sent = len(v.paths)
            at_most = datetime.datetime.fromtimestamp(w.now() + 305, datetime.timezone.utc)
            check(stamp(held) <= at_most, "300 s at the most", held)
            for _ in range(2):
                w.stack.kill_part("reaper")
                w.stack.start_part("reaper")
                post(w, event("updated"))
            eventually(lambda: state(w)["rateBudget"]["refused"] > now["refused"], 10, "refused while it is held")
            equal(len(v.paths), sent, "nothing was sent")


def only_once(w):
    if w.kind != "nginx":
        raise Skip("the same behind every web server: shown behind nginx")


def stamp(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


@scenario("settings of a mirrored account that cannot be are refused at the start", data=True)
def settings(w):
    only_once(w)
    path = w.path("upstream-key")
    for text, mode, options, says in (("e2b_ab", 0o644, {}, "chmod 600"), ("nonsense", 0o600, {}, "key"),
                                      ("e2b_ab", 0o600, {"upstream_url": "ftp://x"}, "upstream_url"),
                                      ("e2b_ab", 0o600, {"upstream_url": "http://api.example.com"}, "https"),
                                      ("e2b_ab", 0o600, {"upstream_url": "https://u:p@api.example.com"}, "upstream_url"),
                                      ("e2b_ab", 0o600, {"upstream_key_file": w.path("nowhere")}, "upstream_key_file")):
        with open(path, "w") as f:
            f.write(text + "\n")
        os.chmod(path, mode)
        os.chown(path, pwd.getpwnam(stacks.USER).pw_uid, -1)
        conf = w.path("try.conf")
        with open(w.stack.conf) as f, open(conf, "w") as to:
            to.write(f.read())
            to.writelines("%s = %s\n" % x for x in {"upstream_url": "https://api.example.com", "upstream_key_file": path, **options}.items())
        p = subprocess.run([w.stack.program("hutch-reaper"), "-n", "-c", conf], capture_output=True, timeout=120, user=stacks.USER, group=stacks.USER,
                           extra_groups=[], cwd="/")
        equal(p.returncode, 1, "%s: refused (%r)" % (says, p.stderr))
        check(says in p.stderr.decode(), "and says why: " + says, p.stderr)
