"""Every operation of the API: served, with answers of the described form, or the declared gap; and what it answers to bad requests.

tests/data/operations.json is the vendor's description, operations-more.json what clients use beside it (api.md 14, 20). docs/api.md says which of them
are served. A served one has a recipe here, which must succeed, and from whose description bad requests are made: each must be 400, name the field, and
change no record.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import subprocess
import urllib.parse

from keys import Team, admin_token
from tap import Suite, check, equal, eventually
from world import NOBODY, error_body

suite = Suite()
scenario = suite.scenario

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = {"operations": [], "shapes": {}}
for file in ("operations.json", "operations-more.json"):
    with open(os.path.join(HERE, "../data", file)) as f:
        part = json.load(f)
    DATA["operations"] += part["operations"]
    DATA["shapes"].update(part["shapes"])
with open(os.path.join(HERE, "../../docs/api.md")) as f:
    DOCS = f.read()

HOOK = {"name": "walk", "url": "http://127.0.0.1:9/", "enabled": False, "events": ["sandbox.lifecycle.created"], "signatureSecret": "s"}


class Recipe:
    """How to make an operation succeed. who: credentials. before: what is to be done first to the sandbox of the path."""

    def __init__(self, status, body=None, query="", who="team", before=None):
        self.status, self.body, self.query, self.who, self.before = status, body, query, who, before


def pause(ground, sandbox):
    ground.api.must(204, "POST", "/sandboxes/%s/pause" % sandbox, {})


NEW = {"templateID": "base", "timeout": 30, "metadata": {"a": "b"}, "envVars": {"A": "b"}, "autoPause": False, "allow_internet_access": True}
RECIPES = {
    "GET /health": Recipe(200),
    "GET /sandboxes": Recipe(200),
    "POST /sandboxes": Recipe(201, {**NEW, "secure": True}),
    "GET /v2/sandboxes": Recipe(200),
    "POST /v2/sandboxes": Recipe(201, NEW),
    "GET /sandboxes/{sandboxID}": Recipe(200),
    "DELETE /sandboxes/{sandboxID}": Recipe(204),
    "POST /sandboxes/{sandboxID}/timeout": Recipe(204, {"timeout": 60}),
    "POST /sandboxes/{sandboxID}/refreshes": Recipe(204, {"duration": 60}),
    "PUT /sandboxes/{sandboxID}/network": Recipe(204, {"allowOut": ["192.0.2.1"], "denyOut": ["0.0.0.0/0"], "allow_internet_access": True}),
    "POST /sandboxes/{sandboxID}/connect": Recipe(200, {"timeout": 60}),
    "POST /v2/sandboxes/{sandboxID}/connect": Recipe(200, {"timeout": 60}),
    "POST /sandboxes/{sandboxID}/pause": Recipe(204, {"memory": True}),
    "POST /sandboxes/{sandboxID}/resume": Recipe(201, {"timeout": 60, "autoPause": False}, before=pause),
    "POST /sandboxes/{sandboxID}/snapshots": Recipe(201, {"name": "walk-snapshot"}),
    # checked as if it were served, then refused by name: no pool can fork yet
    "POST /sandboxes/{sandboxID}/fork": Recipe(400, {"count": 2, "timeout": 60}),
    "GET /snapshots": Recipe(200),
    "GET /templates": Recipe(200),
    "GET /v2/templates": Recipe(200),
    "GET /templates/{templateID}": Recipe(200),
    "DELETE /templates/{templateID}": Recipe(204),
    "GET /templates/aliases/{alias}": Recipe(200),
    "GET /sandboxes/metrics": Recipe(200, query="sandbox_ids={sandboxID}"),
    "GET /sandboxes/{sandboxID}/metrics": Recipe(200),
    "GET /sandboxes/{sandboxID}/logs": Recipe(200),
    "GET /v2/sandboxes/{sandboxID}/logs": Recipe(200),
    "GET /teams": Recipe(200, who="user"),
    "GET /teams/{teamID}/metrics": Recipe(200),
    "GET /teams/{teamID}/metrics/max": Recipe(200, query="metric=concurrent_sandboxes"),
    "GET /api-keys": Recipe(200, who="manager"),
    "POST /api-keys": Recipe(201, {"name": "walk"}, who="manager"),
    "PATCH /api-keys/{apiKeyID}": Recipe(200, {"name": "walked"}, who="manager"),
    "DELETE /api-keys/{apiKeyID}": Recipe(204, who="manager"),
    "POST /access-tokens": Recipe(201, {"name": "walk"}, who="user"),
    "DELETE /access-tokens/{accessTokenID}": Recipe(204, who="user"),
    "GET /nodes": Recipe(200, who="admin"),
    "GET /nodes/{nodeID}": Recipe(200, who="admin"),
    "POST /nodes/{nodeID}": Recipe(204, {"status": "ready"}, who="admin"),
    "GET /admin/sandboxes/running-counts": Recipe(200, who="admin"),
    "POST /admin/teams/{teamID}/sandboxes/kill": Recipe(200, who="admin"),
    "POST /admin/teams/{teamID}/api-keys": Recipe(201, {"name": "walk"}, who="admin"),
    "DELETE /admin/teams/{teamID}/api-keys/{apiKeyID}": Recipe(204, who="admin"),
    "GET /events/sandboxes": Recipe(200),
    "GET /events/sandboxes/{sandboxID}": Recipe(200),
    "POST /events/webhooks": Recipe(201, HOOK),
    "GET /events/webhooks": Recipe(200),
    "GET /events/webhooks/{webhookID}": Recipe(200),
    "PATCH /events/webhooks/{webhookID}": Recipe(200, {"name": "walked"}),
    "DELETE /events/webhooks/{webhookID}": Recipe(200),
    "GET /metrics": Recipe(200, who="door"),
    "POST /_twin/teams": Recipe(201, {"name": "scenario"}, who="door"),
    "POST /_twin/templates": Recipe(201, {"team": "scenario", "alias": "walk", "image": "host"}, who="door"),
    "POST /_twin/machine-pool": Recipe(201, {"name": "walk", "kind": "fake", "replies": [{"path": "/"}]}, who="door"),
    "GET /_twin/upstream": Recipe(200, who="door"),
    "POST /_twin/webhooks/e2b/secret": Recipe(204, {"secret": "walk"}, who="door"),
    "POST /_twin/webhooks/e2b": Recipe(200, {"type": "sandbox.lifecycle.killed", "sandboxId": NOBODY}, who="signer"),
    "DELETE /_twin/webhooks/e2b/secret": Recipe(204, who="door"),
    "GET /_twin/clock": Recipe(200, who="door"),
    "POST /_twin/clock": Recipe(200, {"mode": "real"}, who="door"),
}
# What any operation may answer beside what is described for it: a bad request, nobody there, not allowed, too much.
ALWAYS = (400, 401, 403, 404, 413, 429)
# Differences that docs/api.md declares: text, not JSON.
TEXT = {"GET /health": 200, "GET /metrics": 200}

SAMPLES = {"string": "x", "integer": 7, "number": 7.5, "boolean": True, "array": [], "object": {}}


# ---- forms ----

def resolve(shape):
    extra = {}
    while shape and "is" in shape:
        extra = {**{k: v for k, v in shape.items() if k != "is"}, **extra}
        shape = DATA["shapes"][shape["is"]]
    return {**(shape or {}), **extra}


def kind_of(shape):
    shape = resolve(shape)
    if "type" not in shape and (shape.get("fields") or shape.get("values") or shape.get("allOf")):
        return "object"
    return shape.get("type")


def kind_ok(kind, value):
    if kind == "integer":
        return type(value) is int
    if kind == "number":
        return type(value) in (int, float)
    return type(value) is {"string": str, "boolean": bool, "array": list, "object": dict}[kind]


FORMATS = {"uuid": re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"), "date-time": re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?Z$")}


def misfits(shape, value, where="$"):
    """What is not as described, in words."""
    shape = resolve(shape)
    for part in shape.get("allOf", ()):
        yield from misfits(part, value, where)
    for choice in ("oneOf", "anyOf"):
        if choice in shape and all(list(misfits(s, value, where)) for s in shape[choice]):
            yield "%s fits none of its forms" % where
    if value is None:
        if not shape.get("nullable") and "type" in shape:
            yield "%s is null" % where
        return
    if "type" in shape and not kind_ok(shape["type"], value):
        yield "%s is %r, not %s" % (where, value, shape["type"])
        return
    if "enum" in shape and value not in shape["enum"]:
        yield "%s is %r, not of %r" % (where, value, shape["enum"])
    if isinstance(value, str) and shape.get("format") in FORMATS and not FORMATS[shape["format"]].match(value):
        yield "%s is %r, no %s" % (where, value, shape["format"])
    if isinstance(value, dict):
        for name in shape.get("required", ()):
            if name not in value:
                yield "%s.%s is missing" % (where, name)
        for name, v in value.items():
            inner = shape.get("fields", {}).get(name, shape.get("values"))
            if inner is not None:
                yield from misfits(inner, v, "%s.%s" % (where, name))
    if isinstance(value, list) and "items" in shape:
        for i, v in enumerate(value):
            yield from misfits(shape["items"], v, "%s[%d]" % (where, i))


def fields_of(shape):
    """{name: shape} of an object's fields, and the set of required ones."""
    shape = resolve(shape)
    fields, required = dict(shape.get("fields", {})), set(shape.get("required", ()))
    for part in shape.get("allOf", ()):
        more, needed = fields_of(part)
        fields.update(more)
        required |= needed
    return fields, required


def query_of(op):
    query = op.get("query", {})
    return fields_of(query)[0] if "is" in query else query


# ---- requests ----

def name_of(op):
    return "%s %s" % (op["method"], op["path"])


class Ground:
    """A team of its own, with credentials of each kind, and things of it that paths name."""

    def __init__(self, w, keep=False):
        self.w, self.team, self.kept, self.prepared = w, Team(w), {} if keep else None, set()
        self.api, self.stack = self.team.api, contextlib.ExitStack()
        self.headers = {"team": [("X-API-Key", self.team.key)], "admin": [("X-Admin-Token", admin_token(w))]}
        self.headers["user"] = self.headers["manager"] = [("Authorization", "Bearer " + self.team.token())]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def call(self, recipe, method, target, body=None, none=False):
        if recipe and recipe.who == "door":
            return self.w.stack.door(method, target, body)
        if recipe and recipe.who == "signer":
            return self.signed(method, target, body)
        return self.api(method, target, body, [] if none else self.headers[recipe.who if recipe else "team"], key=None)

    def signed(self, method, target, body):
        """As the mirrored account signs its webhooks (api.md 14.3)."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        signature = base64.b64encode(hashlib.sha256(b"walk" + data).digest()).decode().rstrip("=")
        return self.w.stack.door(method, target, data, [("e2b-signature-version", "v1"), ("e2b-signature", signature),
                                                        ("e2b-delivery-id", secrets.token_hex(8))])

    def made(self, status, who, path, body):
        r = self.api("POST", path, body, self.headers[who], key=None)
        equal(r.status, status, "POST %s: %r" % (path, r.body))
        return r.json()

    def thing(self, name):
        """One that is there, made for this request."""
        if name == "sandboxID":
            return self.stack.enter_context(self.w.create(api=self.api, timeout=9000, metadata={"walk": "1"})).id
        if name == "teamID":
            return self.team.id
        if name in ("templateID", "alias"):
            t = self.w.template("walk-" + name.lower(), team=self.team.name)
            return t["templateID"] if name == "templateID" else t["aliases"][0]
        if name == "nodeID":
            return "local"
        if name == "apiKeyID":
            return self.made(201, "manager", "/api-keys", {"name": "thing"})["id"]
        if name == "accessTokenID":
            return self.made(201, "user", "/access-tokens", {"name": "thing"})["id"]
        if name == "webhookID":
            return self.made(201, "team", "/events/webhooks", HOOK)["id"]
        raise AssertionError("walk.py does not know how to make a %s" % name)

    def kept_thing(self, name, before):
        """The same one again where things are kept: who changes nothing needs no new one."""
        if self.kept is None:
            return self.thing(name)
        if (name, before) not in self.kept:
            self.kept[name, before] = self.thing(name)
        return self.kept[name, before]

    def target(self, op, recipe):
        """Path and query of a request that succeeds."""
        if recipe.who == "signer":
            equal(self.w.stack.door("POST", op["path"] + "/secret", {"secret": "walk"}).status, 204, "secret")
        text = op["path"] + ("?" + recipe.query if recipe.query else "")
        names = dict.fromkeys(re.findall(r"\{(\w+)\}", text))
        things = {n: self.kept_thing(n, recipe.before) for n in names}
        if recipe.before:
            if things["sandboxID"] not in self.prepared:
                self.prepared.add(things["sandboxID"])
                recipe.before(self, things["sandboxID"])
        return text.format(**things)


def nowhere(op):
    """The path with ids that nobody has."""
    known = {"sandboxID": NOBODY, "templateID": "0" * 20, "alias": "nosuch"}
    return re.sub(r"\{(\w+)\}", lambda m: known.get(m.group(1), "00000000-0000-4000-8000-000000000000"), op["path"])


def is_gap(op, path, r):
    """Nobody has the path, or others of its methods are all that is served (docs/api.md declares both)."""
    if r.status == 405 and r.body:
        allow = (r.header("allow") or "").split(", ")
        return op["method"] not in allow and r.json() == {"code": 405, "message": "method %s is not allowed here" % op["method"]}
    if r.status != 404 or not r.body:
        return False
    return r.json() == {"code": 404, "message": "%s %s is not served" % (op["method"], path)}


def described(op, r):
    """The answer is of a described status and form."""
    status = str(r.status)
    if TEXT.get(name_of(op)) == r.status:
        return
    check(status in op["statuses"] or r.status in ALWAYS, "%s answers %d, which is not described: %r" % (name_of(op), r.status, r.body[:300]))
    shape = op["statuses"].get(status)
    if r.status >= 400:
        error_body(r, r.status)
        shape = shape or {"is": "Error"}
    if shape is None:
        return
    bad = list(misfits(shape, r.json()))
    check(not bad, "%s: the answer %d is not as described" % (name_of(op), r.status), *bad)


# ---- what is served, by docs/api.md (which a unit test holds against the route tables) ----

def plain(path):
    return re.sub(r"\{\w+\}|:\w+", "*", path)


def documented():
    """Rows of the tables of all responders."""
    out = set()
    for part in re.split(r"^## ", DOCS, flags=re.M):
        if part.startswith("hutch-"):
            out |= set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", part, re.M))
    return {plain(x) for x in out}


def documented_twin():
    part = re.search(r"^## Profile twin$(.*?)(?=^## |\Z)", DOCS, re.M | re.S).group(1)
    return {plain(x) for x in re.findall(r"^- `([A-Z]+ /[^`]*)`$", part, re.M)} | {"GET /health"}


@scenario("descriptions, documentation and recipes name the same operations")
def complete(w):
    known, served = {plain(name_of(op)) for op in DATA["operations"]}, documented()
    equal(served - known, set(), "served, and in no description")
    equal(served, {plain(x) for x in RECIPES}, "what is served, and what has a recipe")
    equal(documented_twin() - served, set(), "served in profile twin only")


@scenario("every operation is served as described, or is the declared gap")
def every(w):
    gaps = 0
    for op in DATA["operations"]:
        path, name, recipe = nowhere(op), name_of(op), RECIPES.get(name_of(op))
        body = {} if "body" in op else None
        without, r = w.api(op["method"], path, body, key=None), w.api(op["method"], path, body)
        gap = is_gap(op, path, r)
        gaps += gap
        if op.get("signed"):
            check(gap or r.status == 401, "%s without a signature" % name, r)
        elif op.get("door"):
            check(gap, "%s is a door, and clients reach it" % name, r)
        else:
            check(gap == (recipe is None), "%s is %s, and has %s recipe" % (name, "a gap" if gap else "served", "no" if recipe is None else "a"), r)
        if gap:
            check(is_gap(op, path, without), "%s: a gap is one with and without a key" % name, without)
        else:
            described(op, without)
            described(op, r)
        print("# %-6s %-55s %s" % (op["method"], op["path"], "gap" if gap else "answers %d, without a key %d" % (r.status, without.status)), flush=True)
    print("# %d operations, %d gaps" % (len(DATA["operations"]), gaps), flush=True)


def recipes():
    for op in DATA["operations"]:
        if name_of(op) in RECIPES:
            yield op, RECIPES[name_of(op)]


def succeed(op, recipe, g):
    r = g.call(recipe, op["method"], g.target(op, recipe), recipe.body)
    equal(r.status, recipe.status, "%s: %r" % (name_of(op), r.body[:300]))
    described(op, r)
    if r.status == 201 and "sandboxID" in r.json():
        g.api("DELETE", "/sandboxes/" + r.json()["sandboxID"])


@scenario("what is served succeeds, and its answers have every field of the described form")
def good(w):
    with Ground(w) as g, w.create(api=g.api, timeout=9000, metadata={"walk": "1"}):
        for op, recipe in recipes():
            succeed(op, recipe, g)


@scenario("profile twin: what it serves succeeds as described; every other operation is the gap, byte for byte, with and without a key")
def twin(w):
    gap = b'{"code":404,"message":"the method is not implemented by this twin"}'
    served = documented_twin()
    with Ground(w) as g:
        parts = [p for p in w.stack.parts() if p in ("sandboxes", "templates", "teams", "events", "doors", "edge", "relay")]
        with w.stack.configured(*parts, profile="twin"):
            for op, recipe in recipes():
                if plain(name_of(op)) in served or op.get("door"):
                    succeed(op, recipe, g)
            for op in DATA["operations"]:
                if plain(name_of(op)) in served or op.get("door"):
                    continue
                for none in (False, True):
                    r = g.call(RECIPES.get(name_of(op)), op["method"], nowhere(op), {} if "body" in op else None, none)
                    equal((r.status, r.body), (404, gap), name_of(op))


# ---- bad requests ----

def sample(shape):
    """The least that fits."""
    shape = resolve(shape)
    if "enum" in shape:
        return shape["enum"][0]
    if kind_of(shape) == "object":
        fields, required = fields_of(shape)
        return {k: sample(fields[k]) for k in required}
    return SAMPLES.get(shape.get("type"), "x")


def wrong(shape, depth=0):
    """Values that do not fit: of another type, null, out of bounds, too long, of no choice; and objects and arrays that hold such."""
    shape, kind = resolve(shape), kind_of(shape)
    for other, value in SAMPLES.items():
        if kind is not None and other != kind and (kind, other) != ("number", "integer"):
            yield value
    if kind is not None and not shape.get("nullable"):
        yield None
    if kind == "integer":
        yield from (2 ** 80, -2 ** 80, 1.5)
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in shape:
                yield shape[bound] + step
        if shape.get("format") == "int32":
            yield 2 ** 31
    if "enum" in shape:
        yield "nonsense"
    elif shape.get("format") in ("uuid", "date-time"):
        yield "x"
    elif kind == "string":
        yield "x" * (shape.get("maxLength", 100000) + 1)
        yield "a\0b"
        if shape.get("minLength", 0) > 0:
            yield ""
    if kind == "array" and depth < 4:
        yield from ([bad] for bad in wrong(shape.get("items", {}), depth + 1))
        if shape.get("minItems", 0) > 0:
            yield []
    if kind == "object" and depth < 4:
        if "values" in shape:
            yield from ({"k": bad} for bad in wrong(shape["values"], depth + 1))
        fields, required = fields_of(shape)
        for name, inner in fields.items():
            yield from ({**sample(shape), name: bad} for bad in wrong(inner, depth + 1))
            if name in required:
                yield {k: v for k, v in sample(shape).items() if k != name}


def wrong_words(shape):
    """The same for a query parameter, as it is written there (undecoded)."""
    shape, kind = resolve(shape), kind_of(shape)
    yield from ("%zz", "%00", "%")
    if kind == "integer":
        yield from ("", "x", "1.5", "1e3", "0x10", "+1", "%2B1", "1x", "1,2", str(2 ** 80), str(-2 ** 80))
        if "minimum" in shape:
            yield str(shape["minimum"] - 1)
        if "maximum" in shape:
            yield str(shape["maximum"] + 1)
    if kind == "boolean":
        yield from ("", "1", "True", "yes", "null")
    if "enum" in shape:
        yield from ("", "nonsense", shape["enum"][0].upper(), shape["enum"][0] + "x")
    elif shape.get("format") == "uuid":
        yield from ("", "x", "1234")
    elif shape.get("format") == "date-time":
        yield from ("", "x", "2026-13-01T00:00:00Z", "2026-01-01%2000:00:00Z", "2026-01-01", "1700000000")
    elif kind == "string":
        yield "x" * (shape["maxLength"] + 1 if "maxLength" in shape else 10000)
    if kind == "array":
        if "enum" in resolve(shape.get("items", {})):
            yield from ("nonsense", "running,nonsense", "")
        if "maxItems" in shape:
            yield ",".join("i%020d" % i for i in range(shape["maxItems"] + 1))


def fitting_words(shape):
    """Values at the bounds of an integer, which must be taken."""
    shape = resolve(shape)
    return [str(shape[b]) for b in ("minimum", "maximum") if b in shape and kind_of(shape) == "integer"]


def bad_bodies(op, recipe):
    """(field, body) for every field."""
    fields, required = fields_of(op["body"])
    for name, shape in fields.items():
        for value in wrong(shape):
            yield name, {**recipe.body, name: value}
        if name in required:
            yield name, {k: v for k, v in recipe.body.items() if k != name}


# Tables that requests change; what the reaper samples and delivers goes on meanwhile.
TABLES = re.compile(r"^(?!.*samples|outbox|deliveries|seen)")


def records(w):
    """Every record of the tables that requests change."""
    out, table = set(), None
    dump = subprocess.run(["mdb_dump", "-a", w.path("state/db")], check=True, capture_output=True, timeout=300).stdout.decode()
    for line in dump.splitlines():
        if line.startswith("database="):
            table = line[9:]
        elif line.startswith(" ") and table and TABLES.match(table):
            out.add((table, line))
    return out


def refused(op, r, name, what):
    try:
        error_body(r, 400, name)
    except AssertionError as e:
        raise AssertionError("%s, %s: %s" % (name_of(op), what, e)) from None


def some(w, requests, n):
    """Plain CGI starts a program for each request: there every fourth has to do."""
    return itertools.islice(requests, n % 4, None, 4) if w.kind == "cgi" else requests


def negative_bodies(op, recipe, g, target, n):
    sent = 0
    for name, body in some(g.w, bad_bodies(op, recipe), n):
        refused(op, g.call(recipe, op["method"], target, body), name, "body %.300s" % json.dumps(body))
        sent += 1
    for junk in (b"[]", b"7", b"\"x\"", b"null", b"{", b"{} x", b"\xff", b'{"name":"\xff"}', b"[" * 1000):
        refused(op, g.call(recipe, op["method"], target, junk), "", "body %r" % junk)
        sent += 1
    return sent


def negative_queries(op, recipe, g, target, n):
    sent, path = 0, target.partition("?")[0]
    good_query = dict(urllib.parse.parse_qsl(target.partition("?")[2]))

    def ask(name, value):
        pairs = ["%s=%s" % (k, urllib.parse.quote(v, safe="")) for k, v in good_query.items() if k != name]
        return g.call(recipe, op["method"], path + "?" + "&".join(pairs + ([name + "=" + value] if value is not None else [])), recipe.body)
    for name, shape in query_of(op).items():
        for value in list(some(g.w, wrong_words(shape), n)) + ([None] if resolve(shape).get("required") is True else []):
            refused(op, ask(name, value), name, "%s=%.100s" % (name, value))
            sent += 1
        for value in fitting_words(shape):
            r = ask(name, value)
            check(r.status < 400, "%s: %s=%s is at a bound and fits" % (name_of(op), name, value), r)
            sent += 1
    return sent


@scenario("bad requests: every field and parameter of every operation, wrong in every way: 400, named, and no record is changed")
def negative(w):
    sent = 0
    eventually(w.stack.agrees, 20, "nothing of others is under way")
    with Ground(w, keep=True) as g, w.create(api=g.api, timeout=9000):
        for n, (op, recipe) in enumerate(recipes()):
            if recipe.body is None and not query_of(op):
                continue
            target = g.target(op, recipe)
            for who, path in (("team", "/v2/sandboxes"), ("user", "/teams")):       # the use of a key is noted, once an hour
                g.call(Recipe(200, who=who), "GET", path)
            before = records(w)
            check(any(t == "sandboxes" for t, _ in before), "a sandbox is in the records")
            sent += negative_queries(op, recipe, g, target, n)
            if "body" in op:
                sent += negative_bodies(op, recipe, g, target, n)
            changed = before ^ records(w)
            check(not changed, "%s: bad requests changed records" % name_of(op), *sorted(changed)[:6])
    print("# %d requests" % sent, flush=True)
