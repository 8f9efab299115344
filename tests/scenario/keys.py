"""Teams, keys, tokens, the operator's routes, rates, metrics and logs (api.md 2, 5.17 to 5.19, 10, 13)."""

import json
import os
import re
import secrets
import time
import urllib.parse

import envd
from tap import Suite, check, equal, eventually, within
from world import NOBODY, TIME, Api, error_body

suite = Suite()
scenario = suite.scenario
UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
NO_TEAM = "11111111-1111-4111-8111-111111111111"


def admin_token(w):
    with open(os.path.join(w.dir, "state/admin-token")) as f:
        return f.read().strip()


def admin(w, method, path, body=None, team=None, token=None):
    headers = [("X-Admin-Token", token or admin_token(w))] + ([("X-Team-ID", team)] if team else [])
    return w.api(method, path, body, headers, key=None)


class Team:
    def __init__(self, w, name=None):
        self.name = name or "team " + secrets.token_hex(6)
        r = w.stack.door("POST", "/_twin/teams", {"name": self.name})
        equal(r.status, 201, "team door: %r" % r.body)
        self.w, self.id, self.key = w, r.json()["teamID"], r.json()["apiKey"]
        self.api = Api(w.front, self.key)

    def token(self):
        return self.w.stack.ctl("key", "token", self.name).strip()


def bearer(w, token, method, path, body=None, **kw):
    return w.api(method, path, body, [("Authorization", "Bearer " + token)], key=None, **kw)


@scenario("an access token: its team with a working key, keys made, named, used and ended")
def manage(w):
    t = Team(w)
    token = t.token()
    r = bearer(w, token, "GET", "/teams")
    equal(r.status, 200, "teams: %r" % r.body)
    (team,) = r.json()
    equal((team["teamID"], team["name"], team["isDefault"]), (t.id, t.name, True), "its team")
    equal(Api(w.front, team["apiKey"])("GET", "/v2/sandboxes").status, 200, "the key of the login works")
    equal(bearer(w, token, "GET", "/teams").json(), [team], "the same again")

    r = bearer(w, token, "POST", "/api-keys", {"name": "ci"})
    equal(r.status, 201, "new key: %r" % r.body)
    k = r.json()
    check(UUID.match(k["id"]) and TIME.match(k["createdAt"]), "id and time", k)
    check(re.match(r"^e2b_[0-9a-f]{40}$", k["key"]), "key", k)
    equal(k["mask"], {"prefix": "e2b_", "valueLength": 40, "maskedValuePrefix": k["key"][4:6], "maskedValueSuffix": k["key"][-4:]}, "mask")
    equal((k["createdBy"], k["lastUsed"]), (None, None), "new")
    mine = Api(w.front, k["key"])
    equal(mine("GET", "/v2/sandboxes").status, 200, "it works")
    listed = {x["id"]: x for x in bearer(w, token, "GET", "/api-keys").json()}
    check("key" not in listed[k["id"]], "a key is shown once", listed)
    check(listed[k["id"]]["lastUsed"] is not None, "it was used", listed)
    equal(bearer(w, token, "PATCH", "/api-keys/" + k["id"], {"name": "cd"}).status, 200, "rename")
    equal([x["name"] for x in bearer(w, token, "GET", "/api-keys").json() if x["id"] == k["id"]], ["cd"], "renamed")
    equal(bearer(w, token, "DELETE", "/api-keys/" + k["id"]).status, 204, "delete")
    error_body(mine("GET", "/v2/sandboxes"), 401, "unknown")
    error_body(bearer(w, token, "DELETE", "/api-keys/" + k["id"]), 404, "id not found")

    r = bearer(w, token, "POST", "/access-tokens", {"name": "laptop"})
    equal(r.status, 201, "new token: %r" % r.body)
    check(re.match(r"^sk_e2b_[0-9a-f]{40}$", r.json()["token"]), "token", r.json())
    equal(bearer(w, r.json()["token"], "GET", "/teams").status, 200, "it works")
    equal(bearer(w, token, "DELETE", "/access-tokens/" + r.json()["id"]).status, 204, "delete")
    error_body(bearer(w, r.json()["token"], "GET", "/teams"), 401, "Invalid Access token.")


@scenario("keys and tokens open only what is theirs")
def kinds(w):
    t, other = Team(w), Team(w)
    token = t.token()
    for method, path in (("GET", "/api-keys"), ("POST", "/api-keys"), ("PATCH", "/api-keys/" + NO_TEAM), ("DELETE", "/api-keys/" + NO_TEAM),
                         ("GET", "/teams"), ("POST", "/access-tokens"), ("GET", "/nodes"), ("GET", "/admin/sandboxes/running-counts"),
                         ("POST", "/admin/teams/%s/sandboxes/kill" % t.id), ("POST", "/admin/teams/%s/api-keys" % t.id)):
        body = {"name": "x"} if method in ("POST", "PATCH") else None
        error_body(t.api(method, path, body), 401, "authorization header is missing")
        error_body(w.api(method, path, body, key=None), 401)
    error_body(bearer(w, token, "GET", "/v2/sandboxes"), 401)
    error_body(bearer(w, token, "GET", "/nodes"), 401)
    error_body(w.api("GET", "/api-keys", headers=[("Authorization", "Bearer " + token), ("X-Team-ID", other.id)], key=None), 403)
    error_body(bearer(w, "sk_" + t.key, "GET", "/teams"), 401, "Invalid Access token.")
    theirs = bearer(w, other.token(), "POST", "/api-keys", {"name": "theirs"}).json()
    error_body(bearer(w, token, "DELETE", "/api-keys/" + theirs["id"]), 404)
    error_body(bearer(w, token, "PATCH", "/api-keys/" + theirs["id"], {"name": "x"}), 404)
    equal(Api(w.front, theirs["key"])("GET", "/v2/sandboxes").status, 200, "it stays")


@scenario("the admin token: acts as a team, kills a team's sandboxes, counts, makes keys, shows and drains the node")
def operator(w):
    t = Team(w)
    error_body(admin(w, "GET", "/nodes", token="x" * 32), 401, "Invalid Access token.")
    error_body(admin(w, "GET", "/v2/sandboxes", team="x"), 400, "Invalid team ID")
    error_body(admin(w, "GET", "/v2/sandboxes", team=NO_TEAM), 404)
    with w.create(api=t.api) as s, w.create(api=t.api) as u, w.create() as bystander:
        equal([x["sandboxID"] for x in admin(w, "GET", "/v2/sandboxes", team=t.id).json()], [u.id, s.id], "acting as the team")
        check(admin(w, "GET", "/admin/sandboxes/running-counts").json()[t.id] == 2, "counted")
        equal(admin(w, "POST", "/admin/teams/%s/sandboxes/kill" % t.id).json(), {"killedCount": 2, "failedCount": 0}, "killed")
        error_body(t.api("GET", "/sandboxes/" + s.id), 404)
        equal(t.api("GET", "/v2/sandboxes").json(), [], "none is left")
        check(t.id not in admin(w, "GET", "/admin/sandboxes/running-counts").json(), "teams with none are left out")
        equal(w.api("GET", "/sandboxes/" + bystander.id).status, 200, "another team's runs on")
        eventually(lambda: s.id not in w.stack.machines().values() and u.id not in w.stack.machines().values(), 10, "their machines go")
    r = admin(w, "POST", "/admin/teams/%s/api-keys" % t.id, {"name": "boot"})
    equal(r.status, 201, "key: %r" % r.body)
    equal(Api(w.front, r.json()["key"])("GET", "/v2/sandboxes").status, 200, "it works")
    equal(admin(w, "DELETE", "/admin/teams/%s/api-keys/%s" % (t.id, r.json()["id"])).status, 204, "ended")
    error_body(admin(w, "DELETE", "/admin/teams/%s/api-keys/%s" % (t.id, r.json()["id"])), 404)
    error_body(admin(w, "POST", "/admin/teams/%s/api-keys" % NO_TEAM, {"name": "x"}), 404)

    (node,) = admin(w, "GET", "/nodes").json()
    equal((node["id"], node["status"]), ("local", "ready"), "node")
    check(node["metrics"]["cpuCount"] >= 1 and node["metrics"]["memoryTotalBytes"] > 0 and node["metrics"]["disks"], "its metrics", node)
    with w.create(api=t.api) as s:
        equal(admin(w, "POST", "/nodes/local", {"status": "draining"}).status, 204, "drain")
        try:
            error_body(t.api("POST", "/v2/sandboxes", {"templateID": "base"}), 503, "draining")
            drained = admin(w, "GET", "/nodes/local").json()
            equal(drained["status"], "draining", "status")
            check(drained["statusChangedAt"] > node["statusChangedAt"], "since when", drained)
            equal(t.api("GET", "/sandboxes/" + s.id).status, 200, "what runs goes on")
            t.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
            for path, body in (("connect", {"timeout": 30}), ("resume", {"timeout": 30})):
                error_body(t.api("POST", "/sandboxes/%s/%s" % (s.id, path), body), 503, "draining")
            equal(t.api.must(200, "GET", "/sandboxes/" + s.id)["state"], "paused", "it sleeps on")
        finally:
            equal(admin(w, "POST", "/nodes/local", {"status": "ready"}).status, 204, "back")
        equal(t.api("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 30}).status, 201, "and wakes again")
    with w.create(api=t.api):
        pass
    error_body(admin(w, "POST", "/nodes/local", {"status": "unhealthy"}), 409)
    error_body(admin(w, "POST", "/nodes/local", {"status": "x"}), 400, "status")
    error_body(admin(w, "POST", "/nodes/local", {}), 400, "status")
    error_body(admin(w, "GET", "/nodes/x"), 404)


@scenario("a blocked team looks and removes, a banned one does nothing, and what runs goes on")
def standing(w):
    t = Team(w)
    with w.create(api=t.api, timeout=900) as s, w.create(api=t.api, timeout=900) as sleeper, w.create() as bystander:
        t.api.must(204, "POST", "/sandboxes/%s/pause" % sleeper.id, {})
        changes = (("POST", "/v2/sandboxes", {"templateID": "base"}), ("POST", "/sandboxes", {"templateID": "base"}),
                   ("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 60}), ("POST", "/sandboxes/%s/pause" % s.id, {}),
                   ("POST", "/sandboxes/%s/connect" % sleeper.id, {"timeout": 60}), ("POST", "/v2/sandboxes/%s/connect" % sleeper.id, {}),
                   ("POST", "/events/webhooks", {"name": "w"}))
        looks = ("/v2/sandboxes", "/sandboxes", "/sandboxes/" + s.id, "/sandboxes/%s/logs" % s.id, "/sandboxes/%s/metrics" % s.id, "/events/sandboxes",
                 "/events/webhooks", "/teams/%s/metrics" % t.id)
        w.stack.ctl("team", "block", t.name, "--reason", "unpaid since M\u00e4rz")
        for method, path, body in changes:
            equal(error_body(t.api(method, path, body), 403)["message"], "team is blocked: unpaid since M\u00e4rz", path)
            equal(admin(w, method, path, body, team=t.id).status, 403, "for the operator as the team, too: " + path)
        for path in looks:
            equal(t.api("GET", path).status, 200, path)
        error_body(admin(w, "POST", "/admin/teams/%s/api-keys" % t.id, {"name": "x"}), 403, "blocked")
        error_body(t.api("POST", "/v2/sandboxes", {"templateID": "base"}, key="e2b_" + "0" * 40), 401)
        error_body(t.api("GET", "/sandboxes/" + bystander.id), 404)
        w.stack.ctl("team", "ban", t.name)
        for method, path, body in changes + tuple(("GET", p, None) for p in looks) + (("DELETE", "/sandboxes/" + s.id, None),):
            equal(error_body(t.api(method, path, body), 403)["message"], "team is banned", path)
        if w.where:
            equal(s.out("echo on"), "on\n", "what runs goes on")
        w.stack.ctl("team", "block", t.name)
        equal(error_body(t.api(*changes[0]), 403)["message"], "team is blocked", "without a reason")
        equal(sleeper.kill(), 204, "removing is allowed")
        w.stack.ctl("team", "unblock", t.name)
        t.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 60})
        equal(w.api("GET", "/sandboxes/" + bystander.id).status, 200, "another team's")


@scenario("key import: a key per namespace; a mistake names its line and changes nothing")
def key_file(w):
    path = os.path.join(w.dir, "keys-%s" % secrets.token_hex(4))
    a, b, name = "e2b_" + secrets.token_hex(20), "e2b_" + secrets.token_hex(20), "ns-" + secrets.token_hex(4)

    def write(text):
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o644)
        try:
            os.chown(path, 33, 33)
        finally:
            os.chmod(path, 0o600)
    write("# keys\n%s %s\n%s %s x\n" % (a, name, b, name))
    try:
        w.stack.ctl("keys", "import", path)
        check(False, "a third word passed")
    except AssertionError as e:
        check(":3:" in str(e), "the line is named", str(e))
    error_body(Api(w.front, a)("GET", "/v2/sandboxes"), 401)
    write("# keys\n%s %s\n\n%s  # of the default team\n" % (a, name, b))
    equal(w.stack.ctl("keys", "import", path).strip(), "2", "two are new")
    equal(w.stack.ctl("keys", "import", path).strip(), "0", "none is new")
    with w.create(api=Api(w.front, a)) as s:
        error_body(Api(w.front, b)("GET", "/sandboxes/" + s.id), 404)
        equal(w.api("GET", "/sandboxes/" + s.id).status, 404, "and of no other team")
        listed = w.stack.ctl("key", "list", name)
        check(a[4:6] + "..." + a[-4:] in listed and a not in listed, "listed by its ends", listed)


@scenario("limits of one team: sandboxes at once and the length of a lease; 429 for them is worth a retry")
def limits(w):
    t = Team(w)
    w.stack.ctl("team", t.name, "--sandboxes", "1", "--hours", "2")
    with w.create(api=t.api) as s:
        r = t.api("POST", "/v2/sandboxes", {"templateID": "base"})
        error_body(r, 429, "maximum number of concurrent")
        equal(r.header("retry-after"), "1", "when to ask again")
        error_body(t.api("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 7201}), 400, "2 hours")
        error_body(t.api("POST", "/sandboxes/%s/connect" % s.id, {"timeout": 7201}), 400, "2 hours")


@scenario("samples of a sandbox: what it used, while it runs and after")
def metrics(w):
    t = Team(w)
    with w.create(api=t.api) as s:
        path = "/sandboxes/%s/metrics" % s.id
        eventually(lambda: t.api("GET", path).json(), 12, "a first sample")
        if w.kind not in ("cgi", "fcgi"):
            s.out("dd if=/dev/zero of=/tmp/fill bs=1M count=20 2>/dev/null; sync /tmp/fill")
            s.run("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
        before = len(t.api("GET", path).json())
        samples = eventually(lambda: (lambda x: len(x) > before and x)(t.api("GET", path).json()), 12, "another sample")
        x = samples[-1]
        detail = t.api.must(200, "GET", "/sandboxes/" + s.id)
        equal((x["cpuCount"], x["memTotal"]), (detail["cpuCount"], detail["memoryMB"] << 20), "limits")
        check(TIME.match(x["timestamp"]), "timestamp", x)
        within(w.now() - 120, x["timestampUnix"], w.now() + 5, "time in seconds")
        within(0, x["cpuUsedPct"], 100, "processors")
        within(1 << 14, x["memUsed"], x["memTotal"], "memory")
        within(1, x["diskUsed"], x["diskTotal"], "disk")
        if w.kind not in ("cgi", "fcgi"):
            check(max(y["cpuUsedPct"] for y in samples) > 0, "processor time shows", samples)
            check(x["diskUsed"] >= 20 << 20, "the file shows", samples)
        equal(t.api.must(200, "GET", path + "?start=%d&end=%d" % (x["timestampUnix"], x["timestampUnix"]))[-1], x, "a range")
        equal(t.api.must(200, "GET", path + "?end=1"), [], "none before")
        error_body(t.api("GET", path + "?start=5&end=4"), 400, "start")
        many = t.api.must(200, "GET", "/sandboxes/metrics?sandbox_ids=%s,%s" % (s.id, NOBODY))["sandboxes"]
        equal(list(many), [s.id], "the latest of many")
        equal(w.api.must(200, "GET", path), [], "another team's has none")
        equal(w.api.must(200, "GET", "/sandboxes/metrics?sandbox_ids=" + s.id), {"sandboxes": {}}, "nor here")
        team = "/teams/%s/metrics" % t.id
        eventually(lambda: any(y["concurrentSandboxes"] == 1 for y in t.api("GET", team).json()), 12, "the team's samples")
        equal(t.api.must(200, "GET", team + "/max?metric=concurrent_sandboxes")["value"], 1, "the most")
        check(t.api.must(200, "GET", team + "/max?metric=sandbox_start_rate")["value"] > 0, "starts")
        error_body(t.api("GET", team + "/max"), 400, "metric")
        error_body(t.api("GET", team + "/max?metric=x"), 400, "metric")
        error_body(w.api("GET", team), 403)
    equal(len(t.api.must(200, "GET", path)) >= 2, True, "they outlive it")


@scenario("logs of a sandbox: its life, a line each")
def logs(w):
    t = Team(w)
    with w.create(api=t.api) as s:
        t.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 900})
    path = "/sandboxes/%s/logs" % s.id
    r = t.api.must(200, "GET", path)
    lines = [json.loads(x["line"]) for x in r["logs"]]
    equal([x["event"].rsplit(".", 1)[1] for x in lines], ["created", "updated", "killed"], "oldest first")
    for x in lines:
        check(x["level"] == "info" and x["logger"] and x["message"] and x["sandboxID"] == s.id, "a line (T10)", x)
    check("request" in lines[2]["message"], "why it ended", lines[2])
    equal([x["message"] for x in r["logEntries"]], [x["message"] for x in lines], "entries")
    check(all(isinstance(v, str) for x in r["logEntries"] for v in x["fields"].values()), "fields are strings", r)
    equal(len(t.api.must(200, "GET", path + "?limit=1")["logs"]), 1, "limit")
    equal(t.api.must(200, "GET", path + "?start=%d" % ((w.now() + 60) * 1000))["logs"], [], "start")
    back = t.api.must(200, "GET", "/v2" + path)["logs"]
    equal(back, list(reversed(r["logEntries"])), "newest first")
    equal(t.api.must(200, "GET", "/v2" + path + "?direction=forward")["logs"], r["logEntries"], "forward")
    equal(t.api.must(200, "GET", "/v2" + path + "?search=killed")["logs"], back[:1], "search")
    equal(t.api.must(200, "GET", "/v2" + path + "?limit=2")["logs"], back[:2], "limit")
    equal(t.api.must(200, "GET", "/v2" + path + "?level=warn")["logs"], [], "level")
    equal(w.api.must(200, "GET", path), {"logs": [], "logEntries": []}, "another team's")
    equal(t.api.must(200, "GET", "/sandboxes/%s/logs" % NOBODY), {"logs": [], "logEntries": []}, "unknown")


@scenario("logs of a sandbox: what its agent noted", data=True)
def noted(w):
    t = Team(w)
    with w.create(api=t.api) as s:
        path = "/sandboxes/%s/logs" % s.id

        def entries(query=""):
            return t.api.must(200, "GET", "/v2%s%s" % (path, query))["logs"]

        def line(text):
            return eventually(lambda: [x for x in entries("?search=" + urllib.parse.quote(text)) if text in x["message"]], 10, "a line with %r" % text)[0]
        equal(s.run("exit 3", envs={"NAME": "hidden-value"}, tag="mine").exit_code, 3, "a command")
        begun, ended = line("started: /bin/bash -l -c exit 3"), line("ended: exit status 3")
        equal((begun["level"], ended["level"]), ("info", "info"), "levels")
        equal((begun["fields"]["tag"], begun["fields"]["pid"]), ("mine", ended["fields"]["pid"]), "fields")
        check(begun["fields"]["user"], "whose it is", begun)
        s.run("kill -9 $$")
        equal(line("ended: signal: killed")["level"], "warn", "killed by a signal")
        s.run("echo %s" % ("x" * 5000))
        check(len(line("echo xxx")["message"]) < 300, "a long command is cut")
        error_body(envd.Envd(w.where, s.id, "0" * 64).call("POST", "/process.Process/List", b"{}", [("Content-Type", "application/json")]), 401)
        equal(line("Request refused: wrong access token")["level"], "warn", "a wrong token")
        warned = entries("?level=warn")
        check(len(warned) >= 2 and all(x["level"] == "warn" for x in warned), "level", warned)
        equal(entries("?level=error"), [], "above all of them")
        everything = entries("?direction=forward")
        equal(everything, sorted(everything, key=lambda x: x["timestamp"]), "events and lines in order of time")
        check("created" in everything[0]["message"], "its life is in them too", everything[0])
        equal(entries("?direction=forward&limit=2"), everything[:2], "limit, forward")
        equal(entries("?limit=2"), everything[:-3:-1], "limit, backward")
        r = t.api.must(200, "GET", path)
        for x in r["logs"]:
            x = json.loads(x["line"])
            check(x["level"] and x["logger"] and x["message"] and x["timestamp"], "a line (T10)", x)
        for secret in (s.token, "hidden-value", "0" * 64):
            check(secret not in json.dumps(r), "nothing secret in it")
        equal(w.api.must(200, "GET", path), {"logs": [], "logEntries": []}, "another team's")
        equal(s.envd.call("GET", "/journal").status, 404, "the guest's own socket does not tell")
        equal(t.api("GET", "/v1/sandboxes/%s/journal" % s.id).status, 404, "nor does the API")
    check(everything[1] in entries(), "they outlive it")

    def last_words():
        with w.create(api=t.api) as s:
            s.run("exit 4")
        return any("ended: exit status 4" in x["message"] for x in t.api.must(200, "GET", "/v2/sandboxes/%s/logs" % s.id)["logs"])
    # A kill waits for a fifth of a second that a guest tells, which one on a busy machine may miss.
    check(any(last_words() for _ in range(10)), "never asked for until it was killed")


@scenario("numbers for Prometheus, on the operator's socket")
def prometheus(w):
    def value(name):
        r = w.stack.door("GET", "/metrics")
        equal(r.status, 200, "metrics")
        m = re.search(r"^%s (\S+)$" % re.escape(name), r.body.decode(), re.M)
        return float(m.group(1)) if m else 0.0
    names = ('hutch_sandbox_creates_total{outcome="started"}', 'hutch_sandbox_kills_total{reason="request"}',
             'hutch_requests_total{program="hutch-sandboxes",status="2xx"}', 'hutch_request_duration_seconds_count{program="hutch-sandboxes"}')
    before = [value(n) for n in names]
    with w.create():
        check(value('hutch_sandboxes{state="running"}') >= 1, "one runs")
    for n, b in zip(names, before):
        eventually(lambda: value(n) > b, 0, "%s grows" % n)
    equal(w.api("GET", "/metrics").status, 404, "not public")


@scenario("rates of a team: over all programs together, 429 with the headers, back after a while")
def rates(w):
    # Three at once, then one in ten seconds: so slow that none comes back while the three are used up.
    with w.stack.configured("sandboxes", rate_create=6, rate_burst_s=30):
        t, other = Team(w), Team(w)
        for left in (2, 1, 0):
            r = t.api("POST", "/v2/sandboxes", {"templateID": "nosuch"})
            error_body(r, 404)
            equal((r.header("ratelimit-limit"), r.header("ratelimit-remaining")), ("3", str(left)), "headers")
            check(int(r.header("ratelimit-reset")) >= 1, "reset", r.headers)
        begun = time.monotonic()
        r = t.api("POST", "/v2/sandboxes", {"templateID": "nosuch"})
        error_body(r, 429, "Rate limit exceeded")
        equal(r.header("ratelimit-remaining"), "0", "headers of the refusal")
        wait = int(r.header("retry-after"))
        within(1, wait, 10, "when there is one again")
        check(t.api("GET", "/v2/sandboxes").header("ratelimit-limit") is None, "other routes are not bounded")
        error_body(other.api("POST", "/v2/sandboxes", {"templateID": "nosuch"}), 404)
        eventually(lambda: t.api("POST", "/v2/sandboxes", {"templateID": "nosuch"}).status == 404, 20, "one more after a while")
        check(time.monotonic() - begun > wait - 1.01, "not before the time that was told", wait)


@scenario("anonymous callers: who brings no key is the default team, when that is wanted")
def anonymous(w):
    error_body(w.api("GET", "/v2/sandboxes", key=None), 401)
    with w.stack.configured("sandboxes", allow_anonymous="true"):
        equal(w.api("GET", "/v2/sandboxes", key=None).status, 200, "no key")
        equal(w.api("GET", "/v2/sandboxes", key="e2b_" + "0" * 40).status, 200, "a key that nobody has")
        with w.create() as s:
            error_body(w.api("GET", "/sandboxes/" + s.id, key=None), 404)
        with open(os.path.join(w.dir, "log/sandboxes.log")) as f:
            check("ANYONE" in f.read(), "the log warns")
    error_body(w.api("GET", "/v2/sandboxes", key=None), 401)
