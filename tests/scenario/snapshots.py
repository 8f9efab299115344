"""Snapshots: taken, listed, started from, deleted; what they keep; crashes and races. Lists of templates."""

import concurrent.futures
import contextlib
import random
import threading
import urllib.parse

import wire
from tap import Skip, Suite, check, equal, eventually, one_of
from world import NOBODY, TEMPLATE_ID, TIME, Api, error_body

suite = Suite()
scenario = suite.scenario


def capable(w):
    if not w.stack.node("GET", "/v1/info").json()["capabilities"]["checkpoint"]:
        raise Skip("the node takes no checkpoints here")


def take(w, s, name=None, api=None):
    return (api or w.api).must(201, "POST", "/sandboxes/%s/snapshots" % s.id, {"name": name} if name else {})


def path_of(snapshot):
    return "/templates/" + urllib.parse.quote(snapshot, safe="")


def drop(w, *snapshots):
    for s in snapshots:
        w.api.must(204, "DELETE", path_of(s["snapshotID"] if isinstance(s, dict) else s))


def listed(api, query=""):
    return [s["snapshotID"] for s in api.must(200, "GET", "/snapshots" + query)]


def kept(w):
    """Checkpoints of the node."""
    return {c["id"] for c in w.stack.node("GET", "/v1/checkpoints").json()["checkpoints"]}


def slug(w):
    return next(n for n in w.template("slug-of")["names"]).split("/")[0]


@contextlib.contextmanager
def nothing_left(w):
    had = kept(w)
    yield
    # of what was there before the audit may have taken some away since
    check(kept(w) <= had, "what the node keeps", kept(w) - had)


@scenario("a snapshot without and with a name: answers, list, filters, delete with its tag")
def basic(w):
    capable(w)
    api = w.fresh_team()
    w_ = lambda s, name=None: take(w, s, name, api)
    with nothing_left(w), w.create(api=api, timeout=900) as s, w.create(api=api, timeout=900) as t:
        a = w_(s)
        check(TEMPLATE_ID.match(a["snapshotID"][:20]) and a["snapshotID"][20:] == ":default" and a["names"] == [], "without a name", a)
        b = w_(s, "Mine")
        name = b["names"][0]
        check(name.endswith("/mine") and b == {"snapshotID": name + ":default", "names": [name]}, "with a name", b)
        c = w_(t, name + ":v1")
        equal(c, {"snapshotID": name + ":v1", "names": [name]}, "with a tag")
        equal(api.must(200, "GET", "/snapshots"), [c, a], "list: one row for each, newest first, the newest tag")
        equal(listed(api, "?sandboxID=" + s.id), [b["snapshotID"], a["snapshotID"]], "of one sandbox")
        equal(listed(api, "?sandboxID=%s-6532622b" % t.id), [c["snapshotID"]], "with the old client part")
        equal((listed(api, "?sandboxID=" + NOBODY), listed(api, "?sandboxID=" + "i" * 40)), ([], []), "of another")
        for query, want in (("mine", c), (name, c), ("mine%3Av1", c), (urllib.parse.quote(name, safe=""), c), ("mine:default", b), (a["snapshotID"], a),
                            (a["snapshotID"][:20], a)):
            equal(listed(api, "?name=" + query), [want["snapshotID"]], "by name " + query)
        equal((listed(api, "?name=nosuch"), listed(api, "?name=mine:v2")), ([], []), "by a name that nobody has")
        for query in ("?name=a+b", "?name=", "?name=elsewhere/mine", "?sandboxID=a_b", "?limit=0", "?limit=101", "?nextToken=x"):
            error_body(api("GET", "/snapshots" + query), 400)
        equal(api("GET", "/templates").json(), [], "no list of templates has them")
        equal(api("DELETE", path_of(name + ":anything")).status, 204, "delete: the tag is not looked at")
        error_body(api("DELETE", path_of(b["snapshotID"])), 404, "not found")
        equal(api.must(200, "GET", "/snapshots"), [a], "all tags are gone")
        equal(api("DELETE", path_of(a["snapshotID"])).status, 204, "delete by id")
        equal(api.must(200, "GET", "/snapshots"), [], "list")


@scenario("snapshots in pages: each once, in order, while others come and go")
def pages(w):
    capable(w)
    api = w.fresh_team()
    with nothing_left(w), w.create(api=api, timeout=900) as s:
        made = [take(w, s, api=api)["snapshotID"] for _ in range(7)][::-1]
        got, query = [], "?limit=2"
        while query:
            r = api("GET", "/snapshots" + query)
            equal(r.status, 200, "page: %r" % r.body)
            check(0 < len(r.json()) <= 2, "size of a page", r.json())
            got += [x["snapshotID"] for x in r.json()]
            if len(got) == 2:
                extra = take(w, s, api=api)["snapshotID"]
                api.must(204, "DELETE", path_of(made[4]))
            token = r.header("x-next-token")
            query = "?limit=2&nextToken=" + urllib.parse.quote(token, safe="") if token else None
        equal(got, made[:4] + made[5:], "all pages")
        r = api("GET", "/snapshots?limit=7")
        equal((len(r.json()), r.header("x-next-token")), (7, None), "a full last page has no token")
        for x in made[:4] + made[5:] + [extra]:
            api.must(204, "DELETE", path_of(x))


@scenario("refusals: states, teams, names, bounds; fork")
def refusals(w):
    capable(w)
    other = w.other()
    with nothing_left(w), w.create(timeout=900) as s:
        at = "/sandboxes/%s/snapshots" % s.id
        error_body(w.api("POST", at), 400, "body")
        for body in (b"[]", b"{", {"name": 7}, {"name": "a b"}, {"name": ""}, {"name": "x:"}, {"name": "elsewhere/x"}, {"name": "x" * 129}, {"memory": 1},
                     {"name": "x:" + "00000000-0000-4000-8000-000000000000"}):
            error_body(w.api("POST", at, body), 400)
        error_body(w.api("POST", at, {"name": "elsewhere/x"}), 400, "namespace 'elsewhere' must match your team")
        error_body(w.api("POST", "/sandboxes/%s/snapshots" % NOBODY, {}), 404)
        error_body(w.api("POST", "/sandboxes/a_b/snapshots", {}), 400)
        error_body(other("POST", at, {}), 404)
        error_body(w.api("POST", at, {"memory": True}), 400, "option memory = true cannot be had in pool local")
        drop(w, w.api.must(201, "POST", at, {"memory": False}))
        w.template("enrolled")
        error_body(w.api("POST", at, {"name": "enrolled"}), 409, "template")
        a = take(w, s, "held")
        r = w.stack.door("POST", "/_twin/templates", {"team": "scenario", "alias": "held", "image": "host"})
        equal((r.status, "snapshot" in r.text), (409, True), "a template of that name: %r" % r.body)
        error_body(other("DELETE", path_of(a["snapshotID"][:0] + a["names"][0])), 403)
        error_body(other("POST", "/v2/sandboxes", {"templateID": a["snapshotID"]}), 404)
        error_body(w.api("POST", "/v2/sandboxes", {"templateID": a["names"][0] + ":nosuch"}), 404, "tag 'nosuch' does not exist")
        equal(listed(other), [], "another team's list")
        fork = "/sandboxes/%s/fork" % s.id
        for body in ({"count": 0}, {"count": 101}, {"count": "1"}, {"timeout": -1}, b"["):
            error_body(w.api("POST", fork, body), 400)
        error_body(w.api("POST", fork, {"count": 2, "timeout": 30}), 400, "option fork cannot be had in pool local")
        error_body(w.api("POST", fork), 400, "option fork")
        error_body(w.api("POST", "/sandboxes/%s/fork" % NOBODY, {}), 404)
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {})
        error_body(w.api("POST", at, {}), 404)
        error_body(w.api("POST", fork, {}), 409, "paused")
        drop(w, a)


@scenario("a team keeps so many snapshots and so much, and no more")
def bounds(w):
    capable(w)
    api = w.fresh_team()
    with nothing_left(w), w.create(api=api, timeout=900) as s:
        at = "/sandboxes/%s/snapshots" % s.id
        with w.stack.configured("sandboxes", team_snapshots=2):
            for name in ("a", "b"):
                take(w, s, name, api)
            r = api("POST", at, {})
            error_body(r, 429, "maximum number of snapshots (2)")
            equal(r.header("retry-after"), None, "waiting does not help")
            api.must(204, "DELETE", "/templates/a")
            take(w, s, "c", api)
        with w.stack.configured("sandboxes", team_snapshot_mb=1):
            if w.kind in ("nginx", "lighttpd"):
                s.out("head -c 3000000 /dev/urandom > /home/user/big; sync /home/user/big")
                error_body(api("POST", at, {}), 429, "space")
        equal(sorted(listed(api, "?name=" + n)[0].split("/")[1] for n in "bc"), ["b:default", "c:default"], "those are there")
        equal(api("GET", "/sandboxes/" + s.id).json()["state"], "running", "the sandbox runs")
        for n in "bc":
            api.must(204, "DELETE", "/templates/" + n)


MAKE = """
set -e
cd /home/user
mkdir -p tree/deep; echo one > tree/deep/f; chmod 640 tree/deep/f; ln tree/deep/f tree/hard; ln -s deep/f tree/soft; touch -d 2001-02-03 tree/old
python3 - <<'P'
import os
os.setxattr('/home/user/tree/deep/f', 'user.note', b'kept')
with open('/home/user/tree/sparse', 'wb') as f:
    f.truncate(50 << 20); f.seek(20 << 20); f.write(b'x')
P
"""
ROOT = """
set -e
echo changed > /etc/motd-of-mine; install -d -o user -m 0700 /opt/private; mkdir /usr/local/share/added; echo new > /usr/local/share/added/x
rm -rf /usr/share/doc; rm -f /usr/bin/yes; useradd -m fresh 2>/dev/null || true; chown fresh /opt/private; printf 'tool\n' > /usr/bin/own-tool; chmod 4755 /usr/bin/own-tool
mkdir -p /tmp/t; echo temporary > /tmp/t/x
"""
LOOK = """
cd /home/user
stat -c '%n %a %U %G %h %s %Y %F' tree tree/deep tree/deep/f tree/hard tree/soft tree/old tree/sparse | sort
readlink tree/soft; cat tree/soft
python3 -c "import os; print(os.getxattr('/home/user/tree/deep/f', 'user.note'), os.stat('/home/user/tree/sparse').st_blocks < 1000)"
stat -c '%n %a %U' /opt/private /usr/bin/own-tool /usr/local/share/added/x
cat /etc/motd-of-mine /usr/local/share/added/x /usr/bin/own-tool /tmp/t/x
ls -d /usr/share/doc /usr/bin/yes 2>&1
id fresh
"""


@scenario("what a snapshot keeps: owners, modes, times, links, attributes, changes of the root and of /usr; not processes, not identity", data=True)
def content(w):
    capable(w)
    with nothing_left(w), w.create(timeout=900, metadata={"of": "source"}, envVars={"SOURCE": "1"}) as s:
        s.out(MAKE)
        s.out(ROOT, user="root")
        want = s.run(LOOK).stdout
        for word in (b"deep/f 640 user", b"b'kept' True", b"own-tool 4755 root", b"changed", b"temporary", b"doc': No such file"):
            check(word in want, "the source has %r" % word, want)
        before = w.api.must(200, "GET", "/sandboxes/" + s.id)
        pid = s.out("sleep 1000 >/dev/null 2>&1 & echo $!; exec 3> /home/user/hole; rm /home/user/hole; head -c 30000000 /dev/zero >&3;"
                    "(sleep 1000 <&3 >/dev/null 2>&1) & true").split()[0].strip()
        a = take(w, s)
        s.out("echo later > /home/user/later; rm -r /home/user/tree")
        equal(s.out("kill -0 %s && echo there" % pid).strip(), "there", "processes of the source go on")
        after = w.api.must(200, "GET", "/sandboxes/" + s.id)
        equal({k: after[k] for k in after}, before, "what is said of the source")
        with w.create(template=a["snapshotID"], timeout=900) as t:
            made = w.api.must(200, "GET", "/sandboxes/" + t.id)
            equal((t.made["templateID"], t.made["alias"]), (s.made["templateID"], "base"), "it is of the source's template")
            check(t.id != s.id and t.token != s.token and "metadata" not in made, "an identity of its own", made)
            equal(t.run(LOOK).stdout, want, "what the snapshot keeps")
            equal(t.run("cat /home/user/later").exit_code, 1, "not what came after it")
            equal(t.out("echo ${SOURCE-unset} $E2B_SANDBOX_ID").split(), ["unset", t.id], "variables")
            equal(t.run("pgrep -x sleep").stdout, b"", "no process of the source")
            used = int(t.out("df -k --output=used / | tail -1"))
            check(used < 20000, "a file that was deleted while it was open takes no room", used)
            t.out("echo x > /home/user/own")
            with w.create(template=a["snapshotID"], timeout=900) as u:
                equal(u.run("cat /home/user/own").exit_code, 1, "each has a disk of its own")
            drop(w, a)
            equal(t.run(LOOK).stdout, want, "what started from it stays when it is deleted")
            b = take(w, t, "second")
            with w.create(template=b["snapshotID"]) as v:
                equal((v.run(LOOK).stdout, v.out("cat /home/user/own")), (want, "x\n"), "a snapshot of what started from one")
                equal(v.made["templateID"], s.made["templateID"], "template below")
            drop(w, b)


@scenario("a source under load: what is copied is of one instant, and connections live on", data=True)
def under_load(w):
    capable(w)
    with nothing_left(w), w.create(timeout=900) as s:
        # two files that are always written in turn, the second after the first is on its disk: an instant never has the second ahead
        s.out("cat > /home/user/w.py <<'P'\nimport os\nn = 0\nwhile True:\n    n += 1\n    for f in ('/home/user/a', '/home/user/b'):\n"
              "        with open(f + '.new', 'w') as x:\n            x.write(str(n))\n        os.rename(f + '.new', f)\nP\n"
              "nohup python3 /home/user/w.py >/dev/null 2>&1 & until [ -s /home/user/b ]; do sleep 0.01; done")
        with concurrent.futures.ThreadPoolExecutor(1) as ex:
            stream = ex.submit(s.run, "touch /home/user/begun; for i in $(seq 40); do echo $i; sleep 0.05; done")
            s.out("until [ -e /home/user/begun ]; do sleep 0.01; done")
            made = [take(w, s)["snapshotID"] for _ in range(4)]
            equal(stream.result().stdout.split(), [b"%d" % i for i in range(1, 41)], "a stream that was open all the time")
        for x in made:
            with w.create(template=x, timeout=900) as t:
                a, b = (int(n) for n in t.out("cat /home/user/a; echo; cat /home/user/b").split())
                check(a - 1 <= b <= a, "of one instant", a, b)
        equal(s.run("pgrep -f w.py").exit_code, 0, "the writer goes on")
        drop(w, *made)


@scenario("a snapshot of one that was resumed from its disk, and of one that was started with pool sizes of its own", data=True)
def resumed(w):
    capable(w)
    t = w.template("sized", memoryMB=256, diskSizeMB=200, cpuCount=1)
    with nothing_left(w), w.create(template="sized", timeout=900) as s:
        s.out("echo kept > /home/user/f")
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {"memory": False})
        w.api.must(201, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 900})
        a = take(w, s)
        w.api.must(400, "DELETE", "/templates/" + t["templateID"])
        equal(s.kill(), 204, "kill")
        w.api.must(204, "DELETE", "/templates/" + t["templateID"])
        with w.create(template=a["snapshotID"]) as u:
            d = w.api.must(200, "GET", "/sandboxes/" + u.id)
            equal((d["memoryMB"], d["diskSizeMB"], d["cpuCount"], d["templateID"]), (256, 200, 1, t["templateID"]), "sizes")
            equal(u.out("cat /home/user/f"), "kept\n", "files, though source and template are gone")
        drop(w, a)


@scenario("a start from a snapshot runs the template's start command anew, and waits for its port", data=True)
def command(w):
    capable(w)
    w.template("commanded", command=["/bin/sh", "-c", "echo run >> /runs; cd /usr/share; exec python3 -m http.server 8123"], readyPort=8123)
    with nothing_left(w), w.create(template="commanded", timeout=900) as s:
        equal(s.out("cat /runs"), "run\n", "in the source")
        a = take(w, s)
        with w.create(template=a["snapshotID"], timeout=900) as t:
            equal(t.out("cat /runs"), "run\nrun\n", "in what started from it")
            equal(t.out("python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/\").status)'"), "200\n", "it is up")
        equal(s.out("cat /runs"), "run\n", "not in the source again")
        drop(w, a)


@scenario("snapshots over a restart of everything", data=True)
def restart(w):
    capable(w)
    with nothing_left(w), w.create(timeout=900) as s:
        s.out("echo kept > /home/user/f")
        a = take(w, s)
        w.stack.restart_all()
        b = take(w, s)                       # of one that was adopted
        check({a["snapshotID"], b["snapshotID"]} <= set(listed(w.api)), "listed")
        for x in (a, b):
            with w.create(template=x["snapshotID"]) as t:
                equal(t.out("cat /home/user/f"), "kept\n", "files")
        drop(w, a, b)


@scenario("kill -9 of the node while snapshots are taken: whole or not there, and the sandbox runs", data=True)
def crash(w):
    capable(w)
    had = kept(w)
    with w.create(timeout=3600) as s:
        s.out("head -c 20000000 /dev/urandom > /home/user/big; md5sum < /home/user/big > /home/user/sum")
        for _ in range(4):
            got, stop, begun = [], threading.Event(), threading.Event()

            def work():
                while not stop.is_set():
                    begun.set()
                    with contextlib.suppress(OSError, wire.Cut):
                        got.append(w.api("POST", "/sandboxes/%s/snapshots" % s.id, {}))
            t = threading.Thread(target=work, daemon=True)
            t.start()
            check(begun.wait(20), "load")
            eventually(lambda: len(got) > 0 or w.stack.node("GET", "/v1/checkpoints").status == 200, 20, "load")
            w.stack.kill_part("node")
            w.stack.bring_up()
            stop.set()
            t.join(300)
            check(not t.is_alive(), "every call is answered")
            for r in got:
                one_of(r.status, (201, 409, 500, 502, 503), "status of %r" % r)
            made = [r.json()["snapshotID"] for r in got if r.status == 201]
            check(set(made) <= set(listed(w.api)), "acknowledged ones are there", made)
            eventually(lambda: w.api("GET", "/sandboxes/" + s.id).json()["state"] == "running", 20, "it runs")
            equal(s.out("md5sum < /home/user/big | cmp - /home/user/sum && echo same"), "same\n", "the source")
            for x in made[-1:]:
                with w.create(template=x) as u:
                    equal(u.out("md5sum < /home/user/big | cmp - /home/user/sum && echo same"), "same\n", "what started from it")
            drop(w, *listed(w.api, "?sandboxID=" + s.id))
        # one that nobody names any more is let be for as long as a call that makes it may take, a minute, and an audit comes once in a while
        eventually(lambda: kept(w) <= had, 300, "what a call that was cut off left behind goes with the next audit")


@scenario("20 clients at one sandbox: snapshot, pause, connect, timeout, kill; one outcome, nothing stuck")
def race(w):
    capable(w)
    for round_ in range(3):
        api = w.fresh_team()
        s = w.create(api=api, timeout=900)
        barrier, answers, lock = threading.Barrier(20), [], threading.Lock()
        rng = random.Random(round_)
        calls = [("POST", "snapshots", {}), ("POST", "pause", {}), ("POST", "connect", {"timeout": 900}), ("POST", "timeout", {"timeout": 800})]

        def client(i, plan):
            barrier.wait()
            for method, verb, body in plan:
                r = api(method, "/sandboxes/%s/%s" % (s.id, verb), body)
                with lock:
                    answers.append((verb, r.status))
            if i == 0:
                r = api("DELETE", "/sandboxes/" + s.id)
                with lock:
                    answers.append(("kill", r.status))
        threads = [threading.Thread(target=client, args=(i, [rng.choice(calls) for _ in range(4)]), daemon=True) for i in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(600)
        check(not any(t.is_alive() for t in threads), "every call is answered")
        allowed = {"snapshots": (201, 404, 409), "pause": (204, 404, 409), "connect": (200, 201, 404, 409), "timeout": (204, 404, 409), "kill": (204,)}
        for verb, status in answers:
            one_of(status, allowed[verb], "%s in %r" % (verb, answers))
        equal(api("GET", "/sandboxes/" + s.id).status, 404, "it was killed")
        made = listed(api)
        equal(len(made), sum(a == ("snapshots", 201) for a in answers), "snapshots are those that were acknowledged")
        for x in made:
            with w.create(template=x, api=api) as t:
                equal(api("GET", "/sandboxes/" + t.id).json()["state"], "running", "starts")
            api.must(204, "DELETE", path_of(x))
    eventually(w.stack.agrees, 30, "rows and machines agree")
    check("contradiction" not in w.stack.ctl("check"), "records")


@scenario("events: the source is told of as checkpointed, what starts from it as created")
def told(w):
    capable(w)
    with nothing_left(w), w.create(timeout=900) as s:
        a = take(w, s)
        with w.create(template=a["snapshotID"]) as t:
            types = [[e["type"].rsplit(".", 1)[1] for e in w.api.must(200, "GET", "/events/sandboxes/%s?orderAsc=true" % x.id)] for x in (s, t)]
        equal(types, [["created", "checkpointed"], ["created"]], "types")
        drop(w, a)


@scenario("lists of templates: fields, pages, credentials, teamID; by id, by alias; delete")
def templates(w):
    team = w.stack.door("POST", "/_twin/teams", {"name": "templates"}).json()
    api = Api(w.front, team["apiKey"])
    for i in range(5):
        w.template("tpl-%d" % i, team="templates", public=i == 0, cpuCount=1, memoryMB=256, diskSizeMB=64)
    rows = api.must(200, "GET", "/templates")
    equal([r["aliases"] for r in rows], [["tpl-%d" % i] for i in (4, 3, 2, 1, 0)], "newest first")
    r = rows[4]
    check(TEMPLATE_ID.match(r["templateID"]) and TIME.match(r["createdAt"]) and TIME.match(r["updatedAt"]), "fields", r)
    equal({k: r[k] for k in ("cpuCount", "memoryMB", "diskSizeMB", "public", "names", "createdBy", "lastSpawnedAt", "spawnCount", "buildCount",
                             "buildStatus")},
          {"cpuCount": 1, "memoryMB": 256, "diskSizeMB": 64, "public": True, "names": ["templates/tpl-0"], "createdBy": None, "lastSpawnedAt": None,
           "spawnCount": 0, "buildCount": 1, "buildStatus": "ready"}, "fields")
    equal(api.must(200, "GET", "/templates?teamID=" + team["teamID"]), rows, "with teamID")
    for query in ("?teamID=x", "?teamID=00000000-0000-4000-8000-000000000000"):
        for path in ("/templates", "/v2/templates"):
            error_body(api("GET", path + query), 400, "teamID")
    got, query = [], "?limit=2"
    while query:
        p = api("GET", "/v2/templates" + query)
        got += p.json()
        token = p.header("x-next-token")
        query = "?limit=2&nextToken=" + urllib.parse.quote(token, safe="") if token else None
    equal(got, rows, "pages")
    for query in ("?limit=0", "?limit=101", "?nextToken=x"):
        error_body(api("GET", "/v2/templates" + query), 400)
    token = w.stack.ctl("key", "token", "templates").split()[-1]
    equal(api("GET", "/templates", key=None, headers=[("Authorization", "Bearer " + token)]).json(), rows, "with an access token")
    error_body(api("GET", "/templates", key=None), 401)
    one = api.must(200, "GET", "/templates/" + r["templateID"])
    equal((one["templateID"], len(one["builds"]), one["builds"][0]["buildID"], one["builds"][0]["status"]), (r["templateID"], 1, r["buildID"], "ready"),
          "by id: %r" % one)
    error_body(api("GET", "/templates/%s?nextToken=x" % r["templateID"]), 400, "next token")
    error_body(api("GET", "/templates/tpl-0"), 404)
    error_body(w.other()("GET", "/templates/" + r["templateID"]), 403)
    equal(api.must(200, "GET", "/templates/aliases/tpl-0"), {"templateID": r["templateID"], "public": True}, "by alias")
    equal(api.must(200, "GET", "/templates/aliases/templates%2Ftpl-0%3Adefault")["templateID"], r["templateID"], "with namespace and tag")
    error_body(w.other()("GET", "/templates/aliases/tpl-0"), 403)
    error_body(w.other()("GET", "/templates/aliases/tpl-1"), 404)
    error_body(api("GET", "/templates/aliases/tpl-0%3Av1"), 404)
    error_body(api("GET", "/templates/aliases/elsewhere%2Ftpl-0"), 400)
    s = w.create(template="tpl-1", api=api, timeout=60)
    equal(api.must(200, "GET", "/templates")[3]["spawnCount"], 1, "spawnCount")
    error_body(api("DELETE", "/templates/tpl-1"), 400, "sandboxes of it")
    equal(s.kill(), 204, "kill")
    error_body(w.other()("DELETE", "/templates/" + r["templateID"]), 403)
    error_body(w.other()("DELETE", "/templates/tpl-1"), 404)
    error_body(api("DELETE", "/templates/tags", {"name": "x", "tags": ["y"]}), 404, "not served")
    for i in range(5):
        api.must(204, "DELETE", "/templates/templates%%2Ftpl-%d" % i)
        error_body(api("DELETE", "/templates/tpl-%d" % i), 404, "not found")
    equal(api.must(200, "GET", "/templates"), [], "none is left")
    error_body(api("POST", "/v2/sandboxes", {"templateID": "tpl-0"}), 404)
