"""Lists: filters, order, pages (api.md 5.5 - 5.7)."""

import datetime
import secrets
import threading
import urllib.parse

from tap import Suite, check, equal, eventually
from world import TIME, Api, error_body

suite = Suite()
scenario = suite.scenario


def encode(pairs, twice=True):
    """The SDKs' way: each part, then the pair list, then the query value."""
    q = lambda s: urllib.parse.quote(s, safe="")
    if not twice:
        return q("&".join("%s=%s" % (k, v) for k, v in pairs))
    return q(urllib.parse.urlencode([(q(k), q(v)) for k, v in pairs]))


@scenario("the list has the required fields, newest first, each sandbox once")
def fields(w):
    api = w.fresh_team()
    equal(api.must(200, "GET", "/v2/sandboxes"), [], "a new team's list")
    with w.create(api=api, metadata={"n": "1"}) as a, w.create(api=api) as b, w.create(api=api) as c:
        r = api("GET", "/v2/sandboxes")
        rows = r.json()
        equal([x["sandboxID"] for x in rows], [c.id, b.id, a.id], "order")
        equal(r.header("x-total-running"), "3", "X-Total-Running")
        equal(r.header("x-next-token"), None, "no token on the last page")
        for row in rows:
            for k in ("sandboxID", "clientID", "templateID", "alias", "envdVersion", "startedAt", "endAt", "state",
                      "cpuCount", "memoryMB", "diskSizeMB"):
                check(k in row, "field %s" % k, row)
            for k in ("envdAccessToken", "network", "lifecycle", "domain"):
                check(k not in row, "no %s in a list" % k, row)
            equal(row["state"], "running", "state")
            check(TIME.match(row["startedAt"]) and TIME.match(row["endAt"]), "times", row)
        equal(rows[2]["metadata"], {"n": "1"}, "metadata")
        equal([x["sandboxID"] for x in api.must(200, "GET", "/sandboxes")], [c.id, b.id, a.id], "the old list")
        equal([x["sandboxID"] for x in api.must(200, "GET", "/v2/sandboxes?order=asc")], [a.id, b.id, c.id], "asc")
        equal([x["sandboxID"] for x in api.must(200, "GET", "/v2/sandboxes?order=desc")], [c.id, b.id, a.id], "desc")


@scenario("pages: a token only when more follows, exact cover, both orders, growth in between")
def pages(w):
    api = w.fresh_team()
    made = [w.create(api=api) for _ in range(5)]
    try:
        want = [s.id for s in reversed(made)]
        for limit in (1, 2, 4, 5, 100):
            equal(api.listed("limit=%d" % limit), want, "pages of %d" % limit)
            equal(api.listed("order=asc&limit=%d" % limit), list(reversed(want)), "ascending pages of %d" % limit)
        r = api("GET", "/v2/sandboxes?limit=5")
        equal(r.header("x-next-token"), None, "exactly one full page has no token")
        r = api("GET", "/v2/sandboxes?limit=2")
        token = r.header("x-next-token")
        check(token, "a token", r.headers)
        equal(r.header("x-total-running"), "5", "the total counts before paging")
        made.append(w.create(api=api))
        rest = api.must(200, "GET", "/v2/sandboxes?limit=100&nextToken=" + urllib.parse.quote(token, safe=""))
        equal([x["sandboxID"] for x in rest], want[2:], "a newer sandbox does not disturb the following pages")
        error_body(api("GET", "/v2/sandboxes?order=asc&nextToken=" + urllib.parse.quote(token, safe="")), 400, "next token")
        gone = made[2]
        equal(gone.kill(), 204, "kill one")
        rest = api.must(200, "GET", "/v2/sandboxes?nextToken=" + urllib.parse.quote(token, safe=""))
        equal([x["sandboxID"] for x in rest], [i for i in want[2:] if i != gone.id], "a killed one just goes")
    finally:
        for s in made:
            s.kill()


@scenario("the list is stable while sandboxes come and go: no id twice, none missing that was there all the time")
def stable(w):
    r = w.stack.door("POST", "/_twin/machine-pool", {"name": "list-rows", "kind": "none"})
    equal(r.status, 201, "pool: %r" % r.body)
    w.template("list-rows", pool="list-rows", public=True)
    api, over, wrong, walks = w.fresh_team(), threading.Event(), [], [0]
    stay = set()

    def come_and_go():
        mine = []
        while not over.is_set():
            mine.append(w.create(template="scenario/list-rows", api=api, timeout=3600))
            if len(mine) > 3:
                mine.pop(0).kill()
        for s in mine:
            s.kill()

    def walk(order, limit):
        while not over.is_set():
            ids = api.listed("order=%s&limit=%d" % (order, limit))
            walks[0] += 1
            if len(ids) != len(set(ids)) or not stay <= set(ids):
                wrong.append((order, limit, [i for i in ids if ids.count(i) > 1], stay - set(ids)))

    def guarded(fn, *args):
        try:
            fn(*args)
        except Exception as e:
            wrong.append(repr(e))
    stay |= {w.create(template="scenario/list-rows", api=api, timeout=3600).id for _ in range(7)}
    threads = [threading.Thread(target=guarded, args=x) for x in ((come_and_go,), (come_and_go,), (walk, "asc", 1), (walk, "desc", 2), (walk, "desc", 5))]
    for t in threads:
        t.start()
    try:
        eventually(lambda: walks[0] >= 30 or wrong, 300, "walks")
    finally:
        over.set()
        for t in threads:
            t.join(300)
        for i in stay:
            api("DELETE", "/sandboxes/" + i)
    equal(wrong, [], "walks that were not right")


@scenario("the token's own row may be killed before the next page")
def cursor_gone(w):
    api = w.fresh_team()
    made = [w.create(api=api) for _ in range(3)]
    try:
        r = api("GET", "/v2/sandboxes?limit=1")
        equal(r.json()[0]["sandboxID"], made[2].id, "first page")
        made[2].kill()
        rest = api.must(200, "GET", "/v2/sandboxes?nextToken=" + urllib.parse.quote(r.header("x-next-token"), safe=""))
        equal([x["sandboxID"] for x in rest], [made[1].id, made[0].id], "second page")
    finally:
        for s in made:
            s.kill()


@scenario("state filter: comma lists, %2C, absent state, unknown word")
def states(w):
    api = w.fresh_team()
    with w.create(api=api) as s:
        for q in ("state=running", "state=running,paused", "state=paused%2Crunning", ""):
            equal(api.listed(q), [s.id], "with %r" % q)
        r = api("GET", "/v2/sandboxes?state=paused")
        equal(r.json(), [], "paused")
        equal(r.header("x-total-running"), None, "no total unless running is asked for")
        for q in ("state=sleeping", "state=running,sleeping", "state=", "state=RUNNING"):
            error_body(api("GET", "/v2/sandboxes?" + q), 400, "state")


@scenario("metadata filter: triple encoding, odd characters, all pairs must match")
def metadata(w):
    api = w.fresh_team()
    odd = {"user id": "a&b=c", "plus+": "ü/☃%25", "app": "x"}
    with w.create(api=api, metadata=odd) as s, w.create(api=api, metadata={"app": "x"}) as t, w.create(api=api):
        equal(api.listed("metadata=" + encode([("app", "x")])), [t.id, s.id], "app=x")
        equal(api.listed("metadata=" + encode([("app", "x")], twice=False)), [t.id, s.id], "singly encoded")
        equal(api.listed("metadata=" + encode(list(odd.items()))), [s.id], "all odd pairs")
        equal(api.listed("metadata=user%252520id%3Da%252526b%25253Dc"), [s.id], "as the SDKs send it")
        equal(api.listed("metadata=" + encode([("app", "x"), ("user id", "other")])), [], "one pair differs")
        equal(api.listed("metadata=" + encode([("nokey", "x")])), [], "unknown key")
        equal([x["sandboxID"] for x in api.must(200, "GET", "/sandboxes?metadata=" + encode([("user id", "a&b=c")]))], [s.id],
              "the old list filters too")
        r = api("GET", "/v2/sandboxes?metadata=" + encode([("app", "x")]))
        equal(r.header("x-total-running"), "2", "the total counts after the filter")
        equal(api.listed("limit=1&metadata=" + encode([("app", "x")])), [t.id, s.id], "filter and pages")
    for bad in ("metadata=", "metadata=novalue", "metadata=a%3Db%3Dc", "metadata=a%3Db%26c", "metadata=%3Db",
                "metadata=" + encode([("a", "b"), ("a", "c")])):
        error_body(api("GET", "/v2/sandboxes?" + bad), 400, "metadata")


@scenario("startedAfter is inclusive, takes offsets and microseconds")
def started_after(w):
    api = w.fresh_team()
    with w.create(api=api) as a, w.create(api=api) as b:
        at = {s.id: s.api.must(200, "GET", "/sandboxes/" + s.id)["startedAt"] for s in (a, b)}
        t = datetime.datetime.fromisoformat(at[b.id].replace("Z", "+00:00"))
        east = t.astimezone(datetime.timezone(datetime.timedelta(hours=2))).isoformat()
        for text in (at[b.id], east):
            equal(api.listed("startedAfter=" + urllib.parse.quote(text, safe="")), [b.id], "from b's start (%s)" % text)
        later = (t + datetime.timedelta(microseconds=1)).isoformat()
        equal(api.listed("startedAfter=" + urllib.parse.quote(later, safe="")), [], "one microsecond later")
        equal(api.listed("startedAfter=" + urllib.parse.quote(at[a.id], safe="")), [b.id, a.id], "from a's start")
    for bad in ("yesterday", "", "2026-13-01T00:00:00Z", "1767225600"):
        error_body(api("GET", "/v2/sandboxes?startedAfter=" + bad), 400, "startedAfter")


@scenario("template filter: by id and alias; a tag is refused; an unknown one is an empty list")
def template(w):
    w.template("listed")
    with w.create() as a, w.create(template="listed") as b:
        equal([i for i in w.api.listed("template=listed") if i in (a.id, b.id)], [b.id], "by alias")
        equal([i for i in w.api.listed("template=" + a.made["templateID"]) if i in (a.id, b.id)], [a.id], "by id")
        r = w.api("GET", "/v2/sandboxes?template=nosuch")
        equal((r.status, r.json(), r.header("x-total-running")), (200, [], "0"), "unknown template")
        error_body(w.api("GET", "/v2/sandboxes?template=base%3Av1"), 400, "template")


@scenario("limit, order and nextToken out of bounds are 400, never clamped")
def bounds(w):
    for q, text in (("limit=0", "limit"), ("limit=101", "limit"), ("limit=-1", "limit"), ("limit=ten", "limit"), ("limit=", "limit"),
                    ("limit=1.5", "limit"), ("limit=99999999999999999999", "limit"), ("order=up", "order"), ("order=", "order"),
                    ("nextToken=garbage", "next token"), ("nextToken=%ff%fe", "next"), ("nextToken=" + "A" * 4000, "next")):
        error_body(w.api("GET", "/v2/sandboxes?" + q), 400, text)


@scenario("another team's sandboxes are never listed")
def teams_apart(w):
    api, other = w.fresh_team(), w.fresh_team()
    with w.create(api=api) as s:
        equal(api.listed(), [s.id], "own")
        equal(other.listed(), [], "the other team's list")
        equal(other.must(200, "GET", "/sandboxes"), [], "the other team's old list")


@scenario("an answer of many FastCGI records arrives whole")
def long_answer(w):
    name = "long " + secrets.token_hex(4)
    api = Api(w.front, w.team(name))
    w.stack.ctl("team", name, "--sandboxes", "500")
    equal(w.stack.door("POST", "/_twin/machine-pool", {"kind": "none", "name": "rows"}).status, 201, "pool")
    w.template("rows", "none", team=name, pool="rows")
    text = {"k": "v" * 20000, "\u00e4\"": "\\\n\u20ac" * 1000}
    ids = {w.create("rows", api=api, metadata=text, timeout=3600).id for _ in range(20)}      # as few as do: plain CGI starts a program for each
    r = api("GET", "/sandboxes")
    equal(r.status, 200, "status")
    check(len(r.body) > 5 * 65536, "it is long", len(r.body))
    equal({s["sandboxID"]: s["metadata"] for s in r.json()}, {i: text for i in ids}, "every one, whole")
    for i in ids:
        equal(api("DELETE", "/sandboxes/" + i).status, 204, "end")
