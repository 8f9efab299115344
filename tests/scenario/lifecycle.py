"""Create, look, extend, connect, end: the API's own life of a sandbox (api.md 5)."""

import datetime
import re

from tap import Suite, check, equal, eventually, one_of, within
from world import NOBODY, SANDBOX_ID, TEMPLATE_ID, TIME, error_body

suite = Suite()
scenario = suite.scenario


def when(text):
    check(TIME.match(text), "a time has 3 or 6 digits and Z", text)
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def lease(detail):
    return when(detail["endAt"]) - when(detail["startedAt"])


def detail(w, s):
    return w.api.must(200, "GET", "/sandboxes/" + s.id)


@scenario("create v1 answers the Sandbox object; without secure there is no token")
def create_v1(w):
    with w.create(path="/sandboxes") as s:
        m = s.made
        check(SANDBOX_ID.match(m["sandboxID"]), "sandboxID", m)
        check(TEMPLATE_ID.match(m["templateID"]), "templateID", m)
        equal(m["alias"], "base", "alias")
        check(isinstance(m["clientID"], str) and m["clientID"], "clientID", m)
        v = tuple(int(x) for x in re.match(r"^(\d+)\.(\d+)\.(\d+)$", m["envdVersion"]).groups())
        check(v >= (0, 4, 0), "envdVersion is one that sends no default user", m)
        check("envdAccessToken" not in m, "no envd token unless secure", m)
        one_of(m.get("domain"), (None, w.stack.domain), "domain: the configured one, or none: clients keep their own")
        equal(m.get("trafficAccessToken"), None, "no traffic token")
        within(14.9, lease(detail(w, s)), 15.1, "v1's default lease")


@scenario("create v1 secure answers a token; GET and connect answer the same one")
def create_secure(w):
    with w.create(path="/sandboxes", secure=True, timeout=60) as s:
        check(re.match(r"^[0-9a-f]{64}$", s.token), "envdAccessToken is hex", s.made)
        equal(detail(w, s).get("envdAccessToken"), s.token, "token of GET")
        r = w.api.must(200, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 1})
        equal(r.get("envdAccessToken"), s.token, "token of connect")


@scenario("create v2 is always secured, lives 300 s by default, refuses secure:false")
def create_v2(w):
    with w.create() as s:
        check(s.token, "a token without asking", s.made)
        within(299.9, lease(detail(w, s)), 300.1, "v2's default lease")
    with w.create(secure=True) as s:
        check(s.token, "a stray secure:true is accepted", s.made)
    error_body(w.api("POST", "/v2/sandboxes", {"templateID": "base", "secure": False}), 400, "secure")


@scenario("two sandboxes have different ids and different tokens")
def distinct(w):
    with w.create() as a, w.create() as b:
        check(a.id != b.id and a.token != b.token, "ids and tokens differ", a.made, b.made)


@scenario("GET one answers SandboxDetail with all required fields")
def get_detail(w):
    with w.create(timeout=100, metadata={"k": "v", "ü": "☃ \" \\ \n"}) as s:
        d = detail(w, s)
        for k in ("sandboxID", "clientID", "templateID", "alias", "envdVersion", "startedAt", "endAt", "state",
                  "cpuCount", "memoryMB", "diskSizeMB"):
            check(k in d, "field %s" % k, d)
        equal(d["state"], "running", "state")
        equal(d["metadata"], {"k": "v", "ü": "☃ \" \\ \n"}, "metadata")
        equal(d["lifecycle"], {"autoResume": False, "onTimeout": "kill"}, "lifecycle")
        equal(d["volumeMounts"], [], "volumeMounts")
        check("trafficAccessToken" not in d, "no traffic token in the detail", d)
        within(99.9, lease(d), 100.1, "lease")
        for k in ("cpuCount", "memoryMB", "diskSizeMB"):
            check(isinstance(d[k], int) and d[k] >= 1, "%s is a positive number" % k, d)


@scenario("metadata never given is absent; empty metadata and envVars are accepted")
def metadata_absent(w):
    with w.create() as s:
        check("metadata" not in detail(w, s), "no metadata", detail(w, s))
    with w.create(metadata={}, envVars={}) as s:
        one_of(detail(w, s).get("metadata", {}), ({},), "empty metadata")


@scenario("unknown fields and the accepted extras are taken")
def extras(w):
    with w.create(nonsense={"a": [1]}, allow_internet_access=True, mcp=None, autoPause=False, volumeMounts=[]) as s:
        equal(detail(w, s)["state"], "running", "state")


@scenario("an id with a client's suffix works; a template by id works")
def composite(w):
    with w.create() as s:
        equal(w.api.must(200, "GET", "/sandboxes/%s-6532622b" % s.id)["sandboxID"], s.id, "composite id")
        with w.create(template=s.made["templateID"]) as t:
            equal(t.made["templateID"], s.made["templateID"], "template by id")
    with w.create(template="base:default") as s:
        equal(s.made["alias"], "base", "template with the default tag")


@scenario("timeout moves the lease end both ways, and never past the longest lease")
def set_timeout(w):
    with w.create(timeout=100) as s:
        start = when(detail(w, s)["startedAt"])
        for seconds in (500, 90):
            before = w.now()
            equal(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": seconds}).status, 204, "timeout")
            within(before + seconds - 1, when(detail(w, s)["endAt"]), w.now() + seconds + 1, "end after timeout %d" % seconds)
        equal(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 10 ** 9}).status, 204, "a large one is capped")
        within(start + 86400 - 1, when(detail(w, s)["endAt"]), start + 86400 + 1, "end is startedAt + 24 h")


@scenario("timeout 0 ends the sandbox now")
def timeout_zero(w):
    with w.create(timeout=100) as s:
        equal(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 0}).status, 204, "timeout 0")
        eventually(lambda: w.api("GET", "/sandboxes/" + s.id).status == 404, 2, "GET is 404")
        error_body(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 10}), 404, s.id)


@scenario("connect v1 and v2 only ever extend; both answer the Sandbox")
def connect(w):
    with w.create(timeout=100) as s:
        end = when(detail(w, s)["endAt"])
        for path in ("/sandboxes/", "/v2/sandboxes/"):
            m = w.api.must(200, "POST", "%s%s/connect" % (path, s.id), {"timeout": 1})
            equal((m["sandboxID"], m["envdAccessToken"], m["templateID"]), (s.id, s.token, s.made["templateID"]), "connect")
            equal(when(detail(w, s)["endAt"]), end, "a shorter timeout changes nothing")
            equal(w.api("POST", "%s%s/connect" % (path, s.id), {"timeout": 0}).status, 200, "timeout 0 is accepted")
        before = w.now()
        w.api.must(200, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 200})
        within(before + 199, when(detail(w, s)["endAt"]), w.now() + 201, "v1 extends")
        before = w.now()
        w.api.must(200, "POST", "/v2/sandboxes/%s/connect" % s.id)
        within(before + 299, when(detail(w, s)["endAt"]), w.now() + 301, "v2 without a body extends to 300 s")
        error_body(w.api("POST", "/sandboxes/%s/connect" % s.id, {}), 400, "timeout")
        for path in ("/sandboxes/", "/v2/sandboxes/"):
            error_body(w.api("POST", "%s%s/connect" % (path, s.id), {"timeout": 86401}), 400, "24 hours")
            error_body(w.api("POST", "%s%s/connect" % (path, NOBODY), {"timeout": 10}), 404, NOBODY)


@scenario("refreshes extend only")
def refreshes(w):
    with w.create(timeout=100) as s:
        end = when(detail(w, s)["endAt"])
        equal(w.api("POST", "/sandboxes/%s/refreshes" % s.id, {}).status, 204, "no duration")
        equal(when(detail(w, s)["endAt"]), end, "15 s is less than there is")
        before = w.now()
        equal(w.api("POST", "/sandboxes/%s/refreshes" % s.id, {"duration": 600}).status, 204, "600 s")
        within(before + 599, when(detail(w, s)["endAt"]), w.now() + 601, "end")
        error_body(w.api("POST", "/sandboxes/%s/refreshes" % s.id, {"duration": 3601}), 400, "duration")


@scenario("kill is 204, then 404 for everything")
def kill(w):
    s = w.create()
    equal(s.kill(), 204, "kill")
    equal(w.api("GET", "/sandboxes/" + s.id).status, 404, "GET")
    error_body(w.api("DELETE", "/sandboxes/" + s.id), 404, s.id)
    error_body(w.api("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 5}), 404, s.id)
    error_body(w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 5}), 404, s.id)
    check(s.id not in w.api.listed(), "not in the list")
    error_body(w.api("GET", "/sandboxes/" + NOBODY), 404, 'Sandbox "%s" doesn\'t exist or you don\'t have access to it' % NOBODY)


@scenario("a 204 has no body and a 201 is JSON with its length")
def framing(w):
    r = w.api("POST", "/v2/sandboxes", {"templateID": "base"})
    equal(r.status, 201, "create")
    check(r.header("content-type").startswith("application/json"), "content type", r.headers)
    r = w.api("DELETE", "/sandboxes/" + r.json()["sandboxID"])
    equal((r.status, r.body), (204, b""), "kill")
    for r in (w.api("GET", "/v2/sandboxes"), w.api("GET", "/v2/sandboxes", key=None), w.api("GET", "/nowhere")):
        equal(r.header("content-length"), str(len(r.body)), "Content-Length of %r" % r)


@scenario("the envd version, limits and names come from the template")
def from_template(w):
    t = w.template("sized", cpuCount=1, memoryMB=256, diskSizeMB=300)
    with w.create(template="sized") as s:
        d = detail(w, s)
        equal((d["cpuCount"], d["memoryMB"], d["diskSizeMB"], d["alias"]), (1, 256, 300, "sized"), "sizes")
        equal(d["templateID"], t["templateID"], "template id")
        equal(d["envdVersion"], s.made["envdVersion"], "envd version")
    again = w.template("sized", cpuCount=1, memoryMB=128, diskSizeMB=300)
    equal(again["templateID"], t["templateID"], "the same alias keeps its id")
    check(again["buildID"] != t["buildID"], "and gets a new build", again)
    with w.create(template="sized") as s:
        equal(detail(w, s)["memoryMB"], 128, "new sandboxes get the new size")


@scenario("health answers without a key")
def health(w):
    one_of(w.api("GET", "/health", key=None).status, (200, 204), "health")


@scenario("the door answers the same key for the same team, and says what is wrong")
def doors(w):
    a = w.stack.door("POST", "/_twin/teams", {"name": "same"}).json()
    b = w.stack.door("POST", "/_twin/teams", {"name": "same"}).json()
    equal(a, b, "same name, same team, same key")
    check(re.match(r"^e2b_[0-9a-f]{40}$", a["apiKey"]), "key", a)
    for body in ([], "x", {"name": ""}, {"name": 5}, {"name": "x" * 5000}):
        error_body(w.stack.door("POST", "/_twin/teams", body), 400)
    for body, text in (({"image": "host"}, "alias"), ({"alias": "x"}, "image"), ({"alias": "x", "image": 5}, "image"),
                       ({"alias": "a b", "image": "host"}, "alias"), ({"alias": "x", "image": "relative/path"}, "image"),
                       ({"alias": "x", "image": "host", "command": "sh"}, "command"),
                       ({"alias": "x", "image": "host", "envdVersion": "one"}, "envdVersion"),
                       ({"alias": "x", "image": "host", "cpuCount": 0}, "cpuCount"),
                       ({"alias": "x", "image": "host", "memoryMB": "1"}, "memoryMB")):
        error_body(w.stack.door("POST", "/_twin/templates", body), 400, text)
    error_body(w.stack.door("POST", "/_twin/templates", {"team": "no such team", "alias": "x", "image": "host"}), 404)
    error_body(w.stack.door("GET", "/_twin/nothing"), 404)
