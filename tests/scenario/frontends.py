"""One binary, many ways in: plain CGI, FastCGI with N processes of M threads."""

import contextlib
import json
import os
import signal
import subprocess
import threading

import fcgi
import wire
from stack import alive, free_port
from tap import Skip, Suite, check, equal, eventually, one_of
from world import Api, Sandbox, WebFront, error_body

suite = Suite()
scenario = suite.scenario


@contextlib.contextmanager
def spawned(w, processes, threads):
    """hutch-sandboxes under spawn-fcgi on a socket of its own; ended by process id."""
    path = w.path("extra-%d-%d.sock" % (processes, threads))
    argv = ["spawn-fcgi", "-s", path, "-F", str(processes), "-M", "0666"] + w.stack.spawn_user() + \
        ["--", w.stack.program("hutch-sandboxes"), "-c", w.stack.conf, "-t", str(threads)]
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=True).stdout.decode()
    pids = [int(line.rsplit(":", 1)[1]) for line in out.splitlines() if "PID" in line]
    equal(len(pids), processes, "spawned: %s" % out)
    try:
        yield path, pids
    finally:
        for p in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGTERM)
        eventually(lambda: not any(alive(p) for p in pids), 10, "the responders end on SIGTERM")
        os.unlink(path)


def headers(w):
    return [("X-API-Key", w.api.key), ("Content-Type", "application/json")]


@scenario("the same binary as plain CGI: create, get, list, errors, kill", data=True)
def cgi(w):
    def call(method, target, body=None, key=True):
        return fcgi.cgi(w.stack.program("hutch-sandboxes"), w.stack.conf, method, target, headers(w) if key else [], body)
    r = call("POST", "/v2/sandboxes", b'{"templateID":"base","metadata":{"via":"cgi"}}')
    equal(r.status, 201, "create %r" % r)
    sid = r.json()["sandboxID"]
    equal(call("GET", "/sandboxes/" + sid).json()["metadata"], {"via": "cgi"}, "get")
    check(sid in [s["sandboxID"] for s in call("GET", "/v2/sandboxes").json()], "list")
    equal(w.api("GET", "/sandboxes/" + sid).status, 200, "seen through the web server too")
    error_body(call("GET", "/nowhere"), 404)
    error_body(call("PUT", "/sandboxes"), 405)
    error_body(call("GET", "/sandboxes/a%2Fb"), 400)
    error_body(call("GET", "/v2/sandboxes", key=False), 401)
    error_body(call("POST", "/v2/sandboxes", b"{"), 400)
    error_body(call("POST", "/v2/sandboxes", b"x" * (2 << 20)), 413)
    r = call("DELETE", "/sandboxes/" + sid)
    equal((r.status, r.body), (204, b""), "kill")
    equal(w.api("GET", "/sandboxes/" + sid).status, 404, "gone for the web server too")


@scenario("as CGI, arguments that a web server makes of a query change nothing", data=True)
def cgi_arguments(w):
    env = {"PATH": "/usr/bin:/bin", "HUTCH_CONFIG": w.stack.conf, **fcgi.cgi_params("GET", "/health?-n+-c+/nonexistent", [], None)}
    p = subprocess.run([w.stack.program("hutch-sandboxes"), "-n", "-c", "/nonexistent"], input=b"", stdout=subprocess.PIPE, env=env, timeout=120,
                       user="www-data", group="www-data",
               extra_groups=[], cwd="/")
    one_of(fcgi.parse(p.stdout).status, (200, 204), "health")


@scenario("the API as plain CGI behind the web server, with its file for that", data=True)
def cgi_behind(w):
    if w.kind != "apache":
        raise Skip("only Apache comes with a file for CGI")
    port = free_port()

    def files(etc):
        return {"apache.conf": w.stack.render("apache.conf", ETC=etc, PORT=port),
                "cgi.conf": w.stack.render("apache-cgi.conf", SBIN=os.path.dirname(w.stack.program("hutch-sandboxes")), CONF=w.stack.conf)}
    with w.stack.further_web(port, files):
        api = Api(WebFront(("127.0.0.1", port)), w.api.key)
        made = api.must(201, "POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"via": "cgi"}})
        sid = made["sandboxID"]
        equal(api.must(200, "GET", "/sandboxes/" + sid)["metadata"], {"via": "cgi"}, "get")
        check(sid in api.listed("metadata=via%3Dcgi"), "list")
        equal(Sandbox(w, api, made).out("echo on"), "on\n", "a command")
        error_body(api("GET", "/sandboxes/a%2Fb"), 400)
        error_body(api("PUT", "/sandboxes"), 405)
        error_body(api("GET", "/v2/sandboxes", key=None), 401)
        error_body(api("GET", "/teams", key=None, headers=[("Authorization", "Bearer no")]), 401)
        for path in ("/events/sandboxes", "/templates", "/teams/none/metrics"):
            equal(api("GET", path).status, w.api("GET", path).status, "%s: as behind the first server" % path)
        error_body(api("POST", "/v2/sandboxes", b"{"), 400)
        r = api("DELETE", "/sandboxes/" + sid)
        equal((r.status, r.body), (204, b""), "kill")
        equal(wire.once(("127.0.0.1", port), "GET", "/health", host="49983-%s.%s" % (sid, w.stack.domain)).status, 502, "the data plane is as ever")


@scenario("the teams responder works as CGI too", data=True)
def cgi_teams(w):
    r = fcgi.cgi(w.stack.program("hutch-teams"), w.stack.conf, "GET", "/teams", headers(w))
    equal(r.status, w.api("GET", "/teams").status, "same answer as behind the web server: %r" % r)


@scenario("three processes of four threads: concurrent requests, every process works", data=True)
def processes(w):
    with spawned(w, 3, 4) as (path, pids):
        wrong, made = [], []

        def client(i):
            for n in range(40):
                r = fcgi.call(path, "GET", "/v2/sandboxes?limit=1", headers(w))
                if r.status != 200:
                    wrong.append(r)
            r = fcgi.call(path, "POST", "/v2/sandboxes", headers(w), json.dumps({"templateID": "base", "metadata": {"i": str(i)}}).encode())
            if r.status == 201:
                made.append(r.json()["sandboxID"])
            else:
                wrong.append(r)
        threads = [threading.Thread(target=client, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(wrong, [], "failures")
        equal(len(set(made)), 12, "creates")
        for sid in made:
            equal(fcgi.call(path, "DELETE", "/sandboxes/" + sid, headers(w)).status, 204, "kill")
        equal([p for p in pids if not os.path.exists("/proc/%d" % p)], [], "processes that died")
        for p in pids:
            check(len(os.listdir("/proc/%d/task" % p)) >= 4, "threads of %d" % p)


@scenario("one process of four threads: three held requests leave the fourth thread serving", data=True)
def threads(w):
    with spawned(w, 1, 4) as (path, pids):
        held = []
        for _ in range(3):
            s = fcgi.connect(path)
            # Parameters without the end of the body: the thread waits for it.
            fcgi.begin(s, fcgi.cgi_params("POST", "/v2/sandboxes", headers(w) + [("Content-Length", "100")], None))
            s.sendall(fcgi.records(fcgi.STDIN, b'{"templateID":'))
            held.append(s)
        equal(fcgi.call(path, "GET", "/v2/sandboxes", headers(w)).status, 200, "answered meanwhile")
        for s in held:
            s.close()
        for _ in range(8):
            equal(fcgi.call(path, "GET", "/v2/sandboxes", headers(w)).status, 200, "all threads are free again")
        equal(len(pids), 1, "one process")


@scenario("bytes that are no FastCGI do not end the responder", data=True)
def garbage(w):
    with spawned(w, 1, 2) as (path, pids):
        for bad in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\xff" * 3000, b"\x01\x01\x00\x01\xff\xff\x00\x00", fcgi.record(fcgi.BEGIN, b""),
                    fcgi.record(fcgi.PARAMS, b"\xff\xff\xff\xff\xff\xff\xff\xff")):
            s = fcgi.connect(path)
            try:
                s.sendall(bad)
            except OSError:
                pass
            s.close()
        equal(fcgi.call(path, "GET", "/v2/sandboxes", headers(w)).status, 200, "still serving")
        check(os.path.exists("/proc/%d" % pids[0]), "still the same process")
        s = fcgi.connect(path)
        fcgi.begin(s, {"REQUEST_METHOD": "GET"})
        s.sendall(fcgi.record(fcgi.STDIN, b""))
        error_body(fcgi.parse(fcgi.read_output(s)[0]), None)
        s.close()


@scenario("a missing configuration or records directory is said in words, exit is not 0", data=True)
def bad_setup(w):
    for text, word in (("nonsense = 1\n", "nonsense"), ("db_dir = relative\n", "db_dir"), ("warm = -1\n", "warm"), ("warm = 1\nwarm = 2\n", "warm")):
        path = w.path("bad.conf")
        with open(path, "w") as f:
            f.write(text)
        p = subprocess.run([w.stack.program("hutch-sandboxes"), "-c", path, "-n"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=120)
        check(p.returncode != 0 and word in p.stderr.decode() and "bad.conf:" in p.stderr.decode(), "says what is wrong with %r" % text, p)
    p = subprocess.run([w.stack.program("hutch-sandboxes"), "-c", "/nonexistent/x.conf", "-n"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=120)
    check(p.returncode != 0 and "/nonexistent/x.conf" in p.stderr.decode(), "a missing file", p)
