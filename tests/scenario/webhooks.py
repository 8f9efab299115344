"""Lifecycle events and webhooks (api.md 14): lists, management, signed deliveries, receivers that fail, hang or go away."""

import base64
import contextlib
import hashlib
import json
import re
import secrets
import threading
import time

import fcgi
import local
from tap import Suite, can, check, equal, eventually
from world import NOBODY, TIME, error_body

suite = Suite()
scenario = suite.scenario

T = "sandbox.lifecycle."
TYPES = [T + x for x in ("created", "killed", "paused", "resumed", "updated", "checkpointed")]
UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
LABELS = {"created": "create", "killed": "kill", "updated": "update"}
SECRET = "pssst \u00e4"


class Receiver(local.Server):
    """What it answers is what `behave(number of the request)` says: a status, or None for no answer at all."""
    version = "HTTP/1.1"

    def __init__(self, behave=lambda n: 200):
        self.requests, self.behave, self.lock = [], behave, threading.Lock()
        super().__init__("/hook")

    def answer(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            self.requests.append((dict((k.lower(), v) for k, v in handler.headers.items()), body))
            n = len(self.requests)
        status = self.behave(n)
        if status is None:
            self.over.wait(60)
            handler.close_connection = True
            return
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def bodies(self):
        with self.lock:
            return [json.loads(b) for _, b in self.requests]

    def ids(self):
        return {b["id"] for b in self.bodies()}


@contextlib.contextmanager
def hook(api, url, events=TYPES, **more):
    h = api.must(201, "POST", "/events/webhooks", {"name": "w", "url": url, "events": events, "signatureSecret": SECRET, **more})
    try:
        yield h
    finally:
        api("DELETE", "/events/webhooks/" + h["id"])


def events(api, query=""):
    return api.must(200, "GET", "/events/sandboxes" + query)


def all_ids(api, types=TYPES):
    """Ids of all events of a team, oldest first."""
    out = []
    while True:
        page = events(api, "?limit=100&orderAsc=true&offset=%d&types=%s" % (len(out), "&types=".join(types)))
        out += [e["id"] for e in page]
        if len(page) < 100:
            return out


def signed(secret, body):
    return base64.b64encode(hashlib.sha256(secret.encode() + body).digest()).decode().rstrip("=")


@scenario("events of a team and of one sandbox: order, offset, limit, types, and they outlive the sandbox", data=True)
def listed(w):
    api = w.fresh_team()
    equal(events(api), [], "a team without a past")
    a = w.create(api=api, metadata={"k": "v"})
    api.must(204, "POST", "/sandboxes/%s/timeout" % a.id, {"timeout": 77})
    b = w.create(api=api)
    equal(a.kill(), 204, "kill")
    got = events(api)
    equal([e["type"][len(T):] for e in got], ["killed", "created", "updated", "created"], "newest first")
    equal([e["id"] for e in events(api, "?orderAsc=true")], [e["id"] for e in reversed(got)], "oldest first")
    equal(events(api, "?limit=1&offset=2"), got[2:3], "a page")
    equal(events(api, "?offset=99"), [], "past the end")
    equal(events(api, "?types=%screated&types=%skilled" % (T, T)), [got[0], got[1], got[3]], "two types")
    equal(api.must(200, "GET", "/events/sandboxes/" + a.id), [got[0], got[2], got[3]], "of one sandbox")
    equal(api.must(200, "GET", "/events/sandboxes/%s?types=%supdated" % (a.id, T)), [got[2]], "of one sandbox and type")
    equal(api.must(200, "GET", "/events/sandboxes/" + NOBODY), [], "of one that never was")
    equal(w.other().must(200, "GET", "/events/sandboxes/" + a.id), [], "asked by another team")
    for e in got:
        equal(sorted(e), sorted(["version", "id", "type", "eventData", "sandboxBuildId", "sandboxExecutionId", "sandboxId", "sandboxTeamId",
                                 "sandboxTemplateId", "timestamp"]), "fields of an event")
        check(UUID.match(e["id"]) and e["version"] == "v2" and TIME.match(e["timestamp"]), "an event", e)
    equal(got[3]["eventData"], {"sandbox_metadata": {"k": "v"}}, "data of a create")
    equal(got[1]["eventData"], None, "no data")
    equal(got[0]["eventData"]["kill_reason"], "request", "reason")
    check(TIME.match(got[2]["eventData"]["set_timeout"]), "new end of the lease", got[2])
    for bad, field in (("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("offset=-1", "offset"), ("orderAsc=yes", "orderAsc"),
                       ("types=created", "types"), ("types=%screated,%skilled" % (T, T), "types")):
        error_body(api("GET", "/events/sandboxes?" + bad), 400, field)
    error_body(api("GET", "/events/sandboxes", key=None), 401)
    b.kill()


@scenario("webhooks are made, read, changed and deleted; wrong fields are named")
def managed(w):
    api = w.fresh_team()
    good = {"name": "w", "url": "https://example.com/x", "events": [T + "killed", T + "created"], "signatureSecret": "s"}
    h = api.must(201, "POST", "/events/webhooks", good)
    equal(sorted(h), ["createdAt", "enabled", "events", "id", "name", "teamId", "url"], "fields; the secret is not among them")
    secret = "at rest %s" % secrets.token_hex(16)
    kept = api.must(201, "POST", "/events/webhooks", {**good, "name": "kept " + secret[-8:], "signatureSecret": secret})
    with open(w.path("state/db/data.mdb"), "rb") as f:
        records = f.read()
    check(b"kept " + secret[-8:].encode() in records and secret.encode() not in records, "the records do not hold the secret in clear")
    api.must(200, "DELETE", "/events/webhooks/" + kept["id"])
    check(UUID.match(h["id"]) and TIME.match(h["createdAt"]) and h["enabled"] is True, "a webhook", h)
    path = "/events/webhooks/" + h["id"]
    equal(api.must(200, "GET", path), h, "get")
    equal(api.must(200, "GET", "/events/webhooks"), [h], "list")
    equal(api.must(200, "PATCH", path, {}), h, "nothing changed")
    changed = api.must(200, "PATCH", path, {"enabled": False, "events": [T + "paused"], "name": "n"})
    equal(changed, {**h, "enabled": False, "events": [T + "paused"], "name": "n"}, "changed")
    other = w.other()
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        error_body(other(method, path, body), 404, h["id"])
    for field, values in (("name", ("", 5, "x" * 129)), ("url", ("", 5, "example.com", "ftp://example.com", "http://", "http://u:p@example.com/", "http://a b/",
                                                                  "http://" + "x" * 3000)),
                          ("enabled", ("yes", 1)), ("events", ([], "x", [5], ["created"], [T + "nothing"])), ("signatureSecret", ("", 5, "x" * 257))):
        for v in values:
            error_body(api("POST", "/events/webhooks", {**good, field: v}), 400, field)
            error_body(api("PATCH", path, {field: v}), 400, field)
        if field != "enabled":
            error_body(api("POST", "/events/webhooks", {k: v for k, v in good.items() if k != field}), 400, field)
    for body in (b"{", b"[]", b"5"):
        error_body(api("POST", "/events/webhooks", body), 400)
    equal(api.must(200, "GET", "/events/webhooks"), [changed], "nothing came of all that")
    for _ in range(19):
        api.must(201, "POST", "/events/webhooks", good)
    r = api("POST", "/events/webhooks", good)
    error_body(r, 429, "webhooks")
    equal(r.header("retry-after"), None, "waiting does not help")
    equal(api("DELETE", path).status, 200, "delete")
    error_body(api("DELETE", path), 404)
    api.must(201, "POST", "/events/webhooks", good)
    for x in api.must(200, "GET", "/events/webhooks"):
        equal(api("DELETE", "/events/webhooks/" + x["id"]).status, 200, "delete")


@scenario("addresses of this machine and private networks are refused unless the option allows them", data=True)
def private(w):
    conf = w.path("public-only.conf")
    with open(w.stack.conf) as f, open(conf, "w") as g:
        g.writelines(x for x in f if not x.startswith("webhook_private"))
    for url in ("http://127.0.0.1/", "http://localhost:8080/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/", "http://0x7f000001/"):
        body = json.dumps({"name": "w", "url": url, "events": TYPES, "signatureSecret": "s"}).encode()
        r = fcgi.cgi(w.stack.program("hutch-events"), conf, "POST", "/events/webhooks", [("X-API-Key", w.api.key), ("Content-Type", "application/json")], body)
        error_body(r, 400, "url", "private")


@scenario("each event comes signed, with its names in both spellings, and only if it was asked for", data=True)
def delivered(w):
    api = w.fresh_team()
    with Receiver() as rx, Receiver() as kills, hook(api, rx.url) as h, hook(api, kills.url, [T + "killed"]), hook(api, rx.url + "/off", enabled=False):
        s = w.create(api=api, metadata={"k": "\u00e4\"sandboxBuildId\":"})
        eventually(lambda: len(rx.ids()) == 1, 2, "the create is told")
        api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 1})
        eventually(lambda: len(rx.ids()) == 3, 5, "the change and the end of the lease are told")
        eventually(lambda: len(kills.ids()) == 1, 5, "the end is told to who wants to know of ends")
        known = {e["id"]: e for e in events(api)}
        for headers, body in rx.requests + kills.requests:
            equal(headers["e2b-signature"], signed(SECRET, body), "signature over the body as it came")
            equal(headers["e2b-signature-version"], "v1", "version")
            equal(headers["content-type"], "application/json", "type")
            b = json.loads(body)
            for k, v in known[b["id"]].items():
                equal(b[k], v, k)
                snake = re.sub("[A-Z]", lambda m: "_" + m.group(0).lower(), k)
                equal(b[snake], v, snake)
            equal((b["event_category"], b["event_label"]), ("lifecycle", LABELS[b["type"][len(T):]]), "older names")
        equal({x["e2b-webhook-id"] for x, _ in rx.requests}, {h["id"]}, "webhook")
        pairs = {(x["e2b-delivery-id"], json.loads(b)["id"]) for x, b in rx.requests}       # an attempt may be made again
        equal((len({d for d, _ in pairs}), len({i for _, i in pairs})), (len(pairs), 3), "each delivery has an id of its own")
        equal(kills.bodies()[0]["type"], T + "killed", "type")


@scenario("a receiver that fails is asked again, then given up; each attempt is on record", data=True)
def failing(w):
    api = w.fresh_team()
    with Receiver(lambda n: 500 if n < 3 else 200) as flaky, Receiver(lambda n: 302) as dead, \
            hook(api, flaky.url) as a, hook(api, dead.url) as b, w.create(api=api) as s:
        eventually(lambda: len(flaky.requests) == 3 and len(dead.requests) == 4, 15, "three and four attempts")
        equal(len(flaky.ids()), 1, "of one event")

        def states(h):
            return [x.split()[1:4] for x in w.stack.ctl("deliveries", "--webhook", h["id"]).splitlines()]
        eventually(lambda: len(states(a)) == 3 and len(states(b)) == 4, 5, "all recorded")
        equal(states(a), [["done", "3", "200"], ["retry", "2", "500"], ["retry", "1", "500"]], "records of the one")
        equal(states(b)[:2], [["dead", "4", "302"], ["retry", "3", "302"]], "records of the other")
        check(s.id in w.stack.ctl("deliveries", "--failed", "--last", "1"), "the sandbox is named")


@scenario("a receiver that hangs delays nobody else", data=True)
def hanging(w):
    slow, quick = w.fresh_team(), w.fresh_team()
    with Receiver(lambda n: None) as stuck, Receiver() as good, hook(slow, stuck.url), hook(slow, stuck.url), hook(quick, good.url):
        for _ in range(8):
            w.create(api=slow).kill()
        eventually(lambda: len(stuck.requests) >= 16, 5, "it is given what it may have at once")

        def others():
            for _ in range(3):
                w.create(api=slow).kill()           # for one that hangs there is always something waiting
            had, began = len(good.ids()), time.monotonic()
            for _ in range(5):
                w.create(api=quick).kill()
            made = time.monotonic() - began
            eventually(lambda: len(good.ids()) == had + 10, 3, "all of the other's events")
            took = time.monotonic() - began - made
            return "" if took < 5 + 2 * made else "%.1f s after events that took %.1f s; one that hangs is waited for for 10 s" % (took, made)
        can(others, "deliveries beside a receiver that hangs")


@scenario("the reaper is killed while it delivers: every event comes at least once", data=True)
def crashed(w):
    api = w.fresh_team()
    done = threading.Event()
    with Receiver(lambda n: time.sleep(0.02) or (503 if n % 7 == 0 else 200)) as rx, hook(api, rx.url):

        def work():
            s = w.create(api=api)
            n = 0
            while n < 300 or not done.is_set():
                n += 1
                equal(api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 300 + n % 30}).status, 204, "an update")
            s.kill()
        t = threading.Thread(target=work)
        t.start()
        try:
            for _ in range(6):
                n = len(rx.requests)
                eventually(lambda n=n: len(rx.requests) > n + 15, 15, "deliveries are under way")
                w.stack.kill_part("reaper")
                w.stack.start_part("reaper")
        finally:
            done.set()
            t.join()
        want = all_ids(api)
        check(len(want) > 300, "there were events", len(want))
        eventually(lambda: set(want) <= rx.ids(), 300, "none is missing")
        equal(rx.ids() - set(want), set(), "and none was invented")
        for headers, body in rx.requests:
            equal(headers["e2b-signature"], signed(SECRET, body), "signature")
