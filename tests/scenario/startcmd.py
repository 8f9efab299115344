"""Start commands of templates: run before the claim, as root, seen by no client; ready when their port answers; anew after a pause
that kept the disk alone."""

import concurrent.futures
import os
import secrets

from tap import Skip, Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario

# Answers on a port after a while, says who and what it is.
SERVER = """
import http.server, os, time
time.sleep(0.3)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = "{} {} {} {}".format(os.getuid(), os.getpid() == os.getpgrp() == os.getsid(0), os.getcwd(), os.environ.get("E2B_SANDBOX")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", 7000), H).serve_forever()
"""


def ask(s):
    return s.out("curl -sS http://127.0.0.1:7000/")


def warm(w, template):
    return next(p for p in w.stack.node("GET", "/v1/info").json()["pools"] if p["template"] == template)


@scenario("a start command runs in a sandbox before it is claimed, as root, in a session of its own; clients do not see it", data=True)
def runs(w):
    made = w.template("started", command=["python3", "-c", SERVER], readyPort=7000)
    eventually(lambda: warm(w, made["templateID"])["warm"] >= 1, 60, "one is ready")
    with w.create(template="started") as s:
        equal(ask(s), "0 True / true", "what the command is")
        equal(s.envd.rpc("process.Process/List", {}).get("processes", []), [], "it is no process of a client")
        check("listening" in s.out("cat /run/e2b/start.log", user="root"), "its output is kept")


@scenario("a claim that has to make its sandbox waits for the start command, too; a command that is not up in time is told", data=True)
def cold(w):
    w.template("started", command=["python3", "-c", SERVER], readyPort=7000)
    boxes = [w.create(template="started") for _ in range(3)]     # more than stand ready
    try:
        for s in boxes:
            equal(ask(s), "0 True / true", "it answers at once")
    finally:
        for s in boxes:
            s.kill()
    made = w.template("never", command=["sleep", "infinity"], readyPort=7000)
    with w.stack.configured("node", start_s=1):
        error_body(w.api("POST", "/v2/sandboxes", {"templateID": "never"}), 503, "start command", "port 7000")
    w.template("never", command=["sleep", "infinity"])
    eventually(lambda: warm(w, made["templateID"])["warm"] >= 1, 30, "without a port to wait for it is ready at once")


@scenario("claims that wait for start commands take turns, so that those of a crowd are up one after the other; a release or a stop ends their wait", data=True)
def turns(w):
    if os.cpu_count() > 16:
        raise Skip("it would take %d sandboxes" % (4 * os.cpu_count()))
    made = w.template("never", command=["sleep", "infinity"], readyPort=7000)
    ref = iter("i" + secrets.token_hex(10) for _ in range(1000))
    most, more = [[next(ref) for _ in range(k)] for k in (4 * os.cpu_count(), 3)]

    def claim(ref):
        return w.stack.node("POST", "/v1/claim", {"template": made["templateID"], "claim_ref": ref, "init": {"op": "init", "sandboxId": ref,
                                                                                                              "templateId": made["templateID"], "envVars": {}}})

    def rows(refs):
        return [r for r in w.stack.node("GET", "/v1/sandboxes").json()["sandboxes"] if r.get("claim_ref") in refs]

    def ended(claims, text):
        for r in (c.result() for c in claims):
            equal(r.status, 409, "a claim: %r" % r.body)
            check(text in r.json()["error"], "it says " + text, r.body)

    with w.stack.configured("node", start_s=45), concurrent.futures.ThreadPoolExecutor(len(most) + len(more)) as ex:
        first = [ex.submit(claim, x) for x in most]
        eventually(lambda: [r["pid"] > 0 for r in rows(most)] == [True] * len(most), 30, "as many as there are turns have begun")
        then = [ex.submit(claim, x) for x in more]
        eventually(lambda: len(rows(more)) == len(more), 10, "more of them are there")
        for r in rows(more) + rows(most)[:2]:
            equal(w.stack.node("POST", "/v1/sandboxes/%s/release" % r["id"]).status, 204, "release")
        ended(then, "before it started")
        eventually(lambda: sum(c.done() for c in first) == 2, 10, "two of them are released")
        w.stack.stop_part("node")
        ended(first, "while it started")
    w.template("never", command=["sleep", "infinity"])


@scenario("a command without a port to wait for; one that ends; one that cannot be run", data=True)
def others(w):
    for words in (["sleep", "infinity"], ["true"], ["/no/such/program"]):
        w.template("plain", command=words)
        with w.create(template="plain") as s:
            equal(s.out("echo works"), "works\n", "a sandbox of %r" % words)
    with w.create(template="plain") as s:
        eventually(lambda: "not found" in s.out("cat /run/e2b/start.log", user="root"), 10, "the log says why")
        eventually(lambda: [x["level"] for x in w.api.must(200, "GET", "/v2/sandboxes/%s/logs?search=start+command+ended" % s.id)["logs"]] == ["warn"], 10,
                   "the sandbox's logs say so, too")


@scenario("what a start command writes is bounded: the newest part is kept", data=True)
def bounded(w):
    w.template("noisy", command=["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end; sleep 600"])
    with w.create(template="noisy") as s:
        eventually(lambda: s.out("tail -c 4 /run/e2b/start.log", user="root") == "end\n", 20, "all is read")
        check(int(s.out("stat -c %s /run/e2b/start.log", user="root")) <= 256 << 10, "and only the end is kept")


@scenario("after a pause without memory the start command runs anew, and the sandbox is back once it is up", data=True)
def again(w):
    if not w.stack.node("GET", "/v1/info").json()["capabilities"].get("pause_disk"):
        raise Skip("the node keeps no disks here")
    w.template("started", command=["python3", "-c", SERVER], readyPort=7000)
    with w.create(template="started") as s:
        equal(ask(s), "0 True / true", "before")
        w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {"memory": False})
        w.api.must(201, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 300})
        equal(ask(s), "0 True / true", "after")
