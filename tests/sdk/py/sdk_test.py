"""The published Python client against a running stack, synchronous and asynchronous.

Everything it needs comes from the environment: E2B_API_KEY, E2B_DOMAIN, and over plain http E2B_API_URL and E2B_SANDBOX_URL.
Run with the interpreter of an environment that holds the client; prints TAP.
"""

import asyncio
import contextlib
import datetime
import hashlib
import io
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

import sdk  # noqa: E402
import tap  # noqa: E402
from e2b import AsyncSandbox, Sandbox, SandboxQuery, SandboxState, Secret, Template, Volume  # noqa: E402
from e2b.exceptions import AuthenticationException, NotFoundException, SandboxException, TimeoutException  # noqa: E402
from tap import Skip, check, equal, eventually, raises  # noqa: E402

suite = tap.Suite()
case = suite.scenario
NOBODY = "i" + "0" * 20
LONG = 600          # seconds: what bounds a hang and nothing else; the client's own minute would tell how busy the machine is


@contextlib.contextmanager
def sandbox(*args, **kw):
    s = Sandbox.create(*args, **{"request_timeout": LONG, **kw})
    try:
        yield s
    finally:
        s.kill()


shared = sdk.Shared(lambda: Sandbox.create(timeout=7200, request_timeout=LONG, envs={"GLOBAL": "from create"}))


def now():
    """The instance's time, whatever is done to the wall clock."""
    return datetime.datetime.fromtimestamp(float(os.environ["HUTCH_EPOCH"]) + time.monotonic(), datetime.timezone.utc)


def everything(**kw):
    p = Sandbox.list(**kw)
    out = []
    while p.has_next:
        out += p.next_items()
    return out


def ends_after(end, seconds, before, after):
    """The end of a lease that was given between two instants of our clock."""
    tap.within(-2, (end - before).total_seconds() - seconds, (after - before).total_seconds() + 2, "end of a lease of %d s" % seconds)


# ---- lifecycle ----

@case("create with timeout, metadata, envs; get_info tells them")
def create():
    with sandbox("base", timeout=1200, metadata={"app": "x", "odd key &=": "ü ☃"}, envs={"A": "1", "B": "two words"}) as s:
        i = s.get_info()
        equal((i.sandbox_id, i.metadata, i.state), (s.sandbox_id, {"app": "x", "odd key &=": "ü ☃"}, SandboxState.RUNNING), "info")
        check(abs((i.end_at - i.started_at).total_seconds() - 1200) < 1, "lease", i)
        equal(Sandbox.get_info(s.sandbox_id).template_id, i.template_id, "class method")
        equal(s.commands.run('echo "$A/$B"').stdout, "1/two words\n", "envs")
    with sandbox() as s:
        i = s.get_info()
        check(abs((i.end_at - i.started_at).total_seconds() - 300) < 1, "default lease is 300 s", i)


@case("an unknown template, a wrong key, too long a lease")
def refused():
    with raises(SandboxException, "no-such-template"):
        Sandbox.create("no-such-template")
    with raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)
    with raises(SandboxException, "400"):
        Sandbox.create(timeout=25 * 3600)


@case("list: pages, metadata and state filters")
def listing():
    mark = secrets.token_hex(6)
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(sandbox(metadata={"mark": mark, "user id": "n %d&=%%+/ü" % i})) for i in range(4)]
        ids = [s.sandbox_id for s in reversed(made)]
        q = lambda **m: SandboxQuery(metadata={"mark": mark, **m})
        for limit in (None, 1, 3, 4):
            equal([s.sandbox_id for s in everything(query=q(), limit=limit)], ids, "pages of %s" % limit)
        equal([s.sandbox_id for s in everything(query=q(**{"user id": "n 2&=%+/ü"}))], [made[2].sandbox_id], "odd characters")
        for state, n in (([SandboxState.RUNNING], 4), ([SandboxState.PAUSED], 0), ([SandboxState.RUNNING, SandboxState.PAUSED], 4)):
            equal(len(everything(query=SandboxQuery(metadata={"mark": mark}, state=state))), n, "state %s" % state)
    equal(everything(query=q()), [], "after the kills")


@case("set_timeout; a lease that ends is over for the client")
def lease():
    with sandbox(timeout=3600) as s:
        before = now()
        s.set_timeout(600)
        ends_after(s.get_info().end_at, 600, before, now())
        Sandbox.set_timeout(s.sandbox_id, 1)
        eventually(lambda: not s.is_running(), 3, "the lease ends")
        with raises(NotFoundException):
            s.get_info()
        with raises(NotFoundException):
            s.set_timeout(1)
        with raises((TimeoutException, NotFoundException)):
            s.commands.run("true")
        equal(s.kill(), False, "kill afterwards")


@case("connect from a fresh process reaches the same sandbox")
def connect():
    with sandbox(timeout=1200) as s:
        s.files.write("/tmp/mark", "here")
        code = "import sys; from e2b import Sandbox; s = Sandbox.connect(sys.argv[1]); print(s.files.read('/tmp/mark'), s.commands.run('echo run').stdout, end='')"
        out = subprocess.run([sys.executable, "-c", code, s.sandbox_id], stdout=subprocess.PIPE, check=True, timeout=LONG).stdout
        equal(out, b"here run\n", "what the other process saw")
        before = now()
        again = Sandbox.connect(s.sandbox_id, timeout=2400)
        end = again.get_info().end_at
        ends_after(end, 2400, before, now())
        Sandbox.connect(s.sandbox_id, timeout=1)
        equal(again.get_info().end_at, end, "connect never shortens")
        check(again.is_running(), "running")
        with raises(NotFoundException):
            Sandbox.connect(NOBODY)


@case("is_running and kill: True, then False")
def kill():
    s = Sandbox.create()
    equal((s.is_running(), s.kill(), s.is_running(), s.kill(), Sandbox.kill(s.sandbox_id), Sandbox.kill(NOBODY)), (True, True, False, False, False, False),
          "running, kill, running, kill, kill, unknown")


# ---- pause ----

def state_of(s):
    return Sandbox.get_info(s.sandbox_id).state


@case("pause and connect from a fresh process: files and running processes go on")
def pause():
    with sandbox(timeout=1200, envs={"COLOUR": "blue"}) as s:
        s.files.write("/home/user/kept", "here")
        counter = s.commands.run("i=0; while true; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done",
                                 background=True, timeout=0)
        eventually(lambda: s.files.exists("/tmp/count"), 5, "it counts")
        equal((s.pause(), s.pause(), s.is_running(), state_of(s)), (True, False, False, SandboxState.PAUSED), "pause, again, running, state")
        check(s.sandbox_id in [x.sandbox_id for x in everything(query=SandboxQuery(state=[SandboxState.PAUSED]))], "listed as paused")
        with raises((TimeoutException, NotFoundException)):
            s.commands.run("true")
        with raises(NotFoundException):
            s.set_timeout(60)
        code = ("import sys; from e2b import Sandbox; s = Sandbox.connect(sys.argv[1], timeout=600); "
                "print(s.files.read('/home/user/kept'), s.commands.run('echo $COLOUR').stdout, end='')")
        out = subprocess.run([sys.executable, "-c", code, s.sandbox_id], stdout=subprocess.PIPE, check=True, timeout=LONG).stdout
        equal(out, b"here blue\n", "what the other process saw")
        info = s.get_info()
        equal(info.state, SandboxState.RUNNING, "state")
        check(abs((info.end_at - info.started_at).total_seconds() - 600) < 1, "its lease", info)
        before = int(s.files.read("/tmp/count"))
        eventually(lambda: int(s.files.read("/tmp/count")) > before, 5, "it counts on")
        check(counter.pid in [p.pid for p in s.commands.list()], "the same process")
        s.pause()
        equal((s.kill(), s.kill()), (True, False), "kill of a paused one")


@case("pause without memory: files stay, processes do not")
def pause_disk():
    with sandbox(envs={"COLOUR": "red"}) as s:
        s.files.write("/home/user/kept", "here")
        s.commands.run("sleep 1000", background=True, timeout=0)
        equal(s.pause(keep_memory=False), True, "pause")
        again = Sandbox.connect(s.sandbox_id)
        equal((again.files.read("/home/user/kept"), again.commands.run("echo $COLOUR").stdout, again.commands.list()), ("here", "red\n", []),
              "file, variable, processes")


@case("lifecycle: the end of the lease pauses; traffic resumes where that is on")
def lifecycle():
    with sandbox(timeout=1, lifecycle={"on_timeout": "pause"}) as off, sandbox(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": True}) as on:
        eventually(lambda: state_of(off) == SandboxState.PAUSED and state_of(on) == SandboxState.PAUSED, 5, "paused")
        equal((off.is_running(), state_of(off)), (False, SandboxState.PAUSED), "off: stays paused")
        equal(on.commands.run("echo here").stdout, "here\n", "on: the command is run")
        equal(state_of(on), SandboxState.RUNNING, "on: state")
        Sandbox.connect(off.sandbox_id, timeout=1)
        eventually(lambda: state_of(off) == SandboxState.PAUSED, 5, "paused again")


@case("async: pause and connect")
def async_pause():
    async def work():
        s = await AsyncSandbox.create(timeout=1200, request_timeout=LONG)
        await s.files.write("/home/user/kept", "here")
        equal((await s.pause(), await s.is_running()), (True, False), "pause")
        again = await asyncio.gather(*[AsyncSandbox.connect(s.sandbox_id) for _ in range(5)])
        equal([await x.files.read("/home/user/kept") for x in again], ["here"] * 5, "files")
        await s.kill()
    asyncio.run(work())


# ---- commands ----

@case("a sandbox killed during a run: the run fails at once as ended")
def killed():
    s = Sandbox.create()
    h = s.commands.run("sleep 1000", background=True, timeout=0)
    s.kill()
    t = time.monotonic()
    with raises(TimeoutException):
        h.wait()
    check(time.monotonic() - t < 60, "at once")


# ---- files ----

@case("files: 256 MiB both ways, streamed")
def huge():
    s = shared()
    block = secrets.token_bytes((1 << 20) - 8)
    up, total = hashlib.sha256(), 256

    class Source(io.RawIOBase):
        """A file of `total` different blocks, never held as a whole."""
        n, rest = 0, b""

        def readable(self):
            return True

        def read(self, size=-1):
            if not self.rest and self.n < total:
                self.n += 1
                self.rest = self.n.to_bytes(8, "big") + block
            if size is None or size < 0:
                size = len(self.rest)
            out, self.rest = self.rest[:size], self.rest[size:]
            up.update(out)
            return out
    try:
        s.files.write("/home/user/huge", Source(), request_timeout=3 * LONG, use_octet_stream=True)
    except TypeError:
        s.files.write("/home/user/huge", Source(), request_timeout=3 * LONG)
    equal(s.files.get_info("/home/user/huge").size, total << 20, "size")
    down = hashlib.sha256()
    for piece in s.files.read("/home/user/huge", format="stream", request_timeout=3 * LONG):
        down.update(piece)
    equal(down.hexdigest(), up.hexdigest(), "what came back")
    equal(s.commands.run("sha256sum < /home/user/huge", timeout=LONG).stdout[:64], up.hexdigest(), "what is there")
    s.files.remove("/home/user/huge")


# ---- secure access ----

@case("secure: without or with a wrong token every call is AuthenticationException")
def secure():
    with sandbox(secure=True) as s:
        for name in ("_envd_access_token",):
            check(hasattr(s, name), "this client keeps the token in %s" % name, dir(s))
        from e2b.connection_config import ConnectionConfig
        from packaging.version import Version
        for token in (None, "0" * 64):
            headers = {"E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": "49983"}
            if token:
                headers["X-Access-Token"] = token
            kw = dict(sandbox_id=s.sandbox_id, sandbox_domain=None, envd_version=Version("0.5.7"), envd_access_token=token, traffic_access_token=None,
                      connection_config=ConnectionConfig(extra_sandbox_headers=headers))
            try:
                x = Sandbox(**kw)
            except TypeError as e:
                raise Skip("this client is built otherwise: %s" % e)
            for call in (lambda: x.commands.run("true"), lambda: x.files.read("/etc/passwd"), lambda: x.files.write("/tmp/x", "x"), lambda: x.files.list("/")):
                with raises(AuthenticationException):
                    call()
        equal(s.commands.run("echo in").stdout, "in\n", "with the token")


@case("secure: signed URLs; expired and forged ones are refused")
def signed():
    with sandbox(secure=True) as s:
        s.files.write("/home/user/a b+☃.txt", "signed")

        def fetch(url, data=None):
            u = urllib.parse.urlsplit(url)
            headers, shared = {"Content-Type": "application/octet-stream"}, os.environ.get("E2B_SANDBOX_URL")
            if shared:          # then the URL names no sandbox until the path does
                url = "%s/_sandbox/%s/49983%s?%s" % (shared.rstrip("/"), s.sandbox_id, u.path, u.query)
            r = urllib.request.Request(url, data, headers)
            try:
                with urllib.request.urlopen(r, timeout=LONG) as f:
                    return f.status, f.read()
            except urllib.error.HTTPError as e:
                return e.code, e.read()
        good = s.download_url("/home/user/a b+☃.txt", use_signature_expiration=1000)
        equal(fetch(good), (200, b"signed"), "download")
        status, body = fetch(good.replace("v1_", "v1_A", 1))
        equal((status, __import__("json").loads(body)), (401, {"code": 401, "message": "invalid signature"}), "forged")
        status, body = fetch(s.download_url("/home/user/a b+☃.txt", use_signature_expiration=-120))
        equal((status, __import__("json").loads(body)), (401, {"code": 401, "message": "signature is already expired"}), "expired")
        equal(fetch(s.upload_url("/home/user/up.txt"), b"uploaded")[0], 200, "upload")
        equal(s.files.read("/home/user/up.txt"), "uploaded", "uploaded")


@case("another team's sandbox is not found")
def other():
    key = os.environ.get("OTHER_API_KEY")
    if not key:
        raise Skip("OTHER_API_KEY is not set")
    s = shared()
    for fn in (lambda: Sandbox.get_info(s.sandbox_id, api_key=key), lambda: Sandbox.connect(s.sandbox_id, api_key=key),
               lambda: Sandbox.set_timeout(s.sandbox_id, 1, api_key=key)):
        with raises(NotFoundException):
            fn()
    equal(Sandbox.kill(s.sandbox_id, api_key=key), False, "kill")
    check(s.is_running(), "still running")


# ---- the same, asynchronous ----

@case("pool without machines: the lifecycle works, guest calls fail as not running")
def pool_none():
    with sandbox("pool-rows", timeout=600, metadata={"pool": "none"}) as s:
        equal(s.get_info().metadata, {"pool": "none"}, "get_info")
        s.set_timeout(1000)
        equal(s.is_running(), False, "is_running")
        with raises(TimeoutException):
            s.commands.run("true")
        with raises(SandboxException):
            s.files.read("/home/user/x")
        equal(Sandbox.connect(s.sandbox_id).sandbox_id, s.sandbox_id, "connect")


@case("light pool: files work, a shell is unimplemented, and files still work")
def pool_light():
    with sandbox("pool-js", timeout=600) as s:
        equal(s.is_running(), True, "is_running")
        s.files.write("/home/user/a.txt", "text")
        with raises(SandboxException, "not implemented"):
            s.commands.run("true")
        with raises(SandboxException, "not implemented"):
            s.commands.list()
        equal(s.files.read("/home/user/a.txt"), "text", "read")
        equal([x.name for x in s.files.list("/home/user") if x.name == "a.txt"], ["a.txt"], "list")
        s.files.remove("/home/user/a.txt")
        equal(s.files.exists("/home/user/a.txt"), False, "exists")


@case("async: lifecycle, list, connect, kill")
def async_life():
    async def work():
        mark = secrets.token_hex(6)
        s = await AsyncSandbox.create(timeout=1200, request_timeout=LONG, metadata={"mark": mark}, envs={"A": "1"})
        try:
            i = await s.get_info()
            equal((i.sandbox_id, i.metadata), (s.sandbox_id, {"mark": mark}), "info")
            p = AsyncSandbox.list(query=SandboxQuery(metadata={"mark": mark}))
            equal([x.sandbox_id for x in await p.next_items()], [s.sandbox_id], "list")
            before = now()
            await s.set_timeout(2400)
            ends_after((await s.get_info()).end_at, 2400, before, now())
            c = await AsyncSandbox.connect(s.sandbox_id)
            equal((await c.commands.run("echo $A")).stdout, "1\n", "connected")
            check(await c.is_running(), "running")
        finally:
            first = await s.kill()
        equal((first, await s.is_running(), await s.kill()), (True, False, False), "kill")
    asyncio.run(work())


ONE, TWO = (os.environ.get("INTERNET") or "0 0").split()


def reached(s):
    """Which of the lab's two addresses the sandbox reaches. What is closed is refused at once; the limit is for a connection that hangs."""
    command = "for a in %s %s; do timeout 100 bash -c \"exec 3<>/dev/tcp/$a/80 && head -n1 <&3\" >/dev/null 2>&1; echo $a $?; done" % (ONE, TWO)
    said = [line.split() for line in s.commands.run(command, timeout=LONG).stdout.splitlines()]
    check(len(said) == 2 and "124" not in [status for _, status in said], "each answers or is refused", said)
    return [a for a, status in said if status == "0"]


@case("network: internet by default, none, allowed and denied addresses; update_network replaces")
def network():
    equal(reached(shared()), [ONE, TWO], "by default")
    with sandbox(allow_internet_access=False) as s:
        equal(reached(s), [], "none")
    with sandbox(network={"deny_out": ["0.0.0.0/0"], "allow_out": [ONE]}) as s:
        equal(reached(s), [ONE], "allow beats deny")
        s.update_network({"deny_out": [ONE]})
        equal(reached(s), [TWO], "replaced")
        s.pause()
        s.connect()
        equal(reached(s), [TWO], "after a pause")
        s.update_network({})
        equal(reached(s), [ONE, TWO], "cleared")
        with raises(SandboxException, "denyOut"):
            s.update_network({"deny_out": ["example.com"]})


@case("network: private traffic takes the token; mask_request_host is what the server sees")
def traffic():
    with sandbox(network={"allow_public_traffic": False, "mask_request_host": "app.example:${PORT}"}) as s:
        check(len(s.traffic_access_token or "") == 64 and not shared().traffic_access_token, "tokens", s.traffic_access_token)
        s.files.write("/tmp/s.py", "import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n"
                      "        self.send_response(200); self.end_headers(); self.wfile.write(self.headers['Host'].encode())\n"
                      "http.server.HTTPServer(('127.0.0.1', 3000), H).serve_forever()\n")
        s.commands.run("python3 /tmp/s.py", background=True)
        token = {"e2b_traffic_access_token": s.traffic_access_token}
        eventually(lambda: sdk.ask(s, 3000, **token)[0] == 200, 40, "the server answers")
        equal(sdk.ask(s, 3000, **token), (200, "app.example:3000"), "what the server saw")
        status, text = sdk.ask(s, 3000)
        check(status == 403 and "is missing" in text, "without the token", status, text)
        equal(sdk.ask(s, 3000, e2b_traffic_access_token="x")[0], 403, "with another")
        equal(Sandbox.connect(s.sandbox_id).traffic_access_token, s.traffic_access_token, "the same at a connect")


@case("async: ten sandboxes and their commands at once")
def async_ten():
    async def work():
        boxes = await asyncio.gather(*[AsyncSandbox.create(envs={"N": str(i)}) for i in range(10)])
        try:
            outs = await asyncio.gather(*[s.commands.run("echo $N $E2B_SANDBOX_ID") for s in boxes])
            equal([o.stdout for o in outs], ["%d %s\n" % (i, s.sandbox_id) for i, s in enumerate(boxes)], "outputs")
        finally:
            gone = await asyncio.gather(*[s.kill() for s in boxes])
        equal(gone, [True] * 10, "kills")
    asyncio.run(work())


@case("async: a sandbox killed during a run")
def async_killed():
    async def work():
        s = await AsyncSandbox.create()
        h = await s.commands.run("sleep 1000", background=True, timeout=0)
        await s.kill()
        t = time.monotonic()
        try:
            await h.wait()
            check(False, "the run ended well")
        except TimeoutException:
            pass
        check(time.monotonic() - t < 60, "at once")
    asyncio.run(work())


@case("get_metrics: samples of a running sandbox")
def metrics():
    s = shared()
    samples = eventually(s.get_metrics, 15, "a sample")
    m = samples[-1]
    check(abs((m.timestamp - now()).total_seconds()) < 60, "timestamp", m)
    i = s.get_info()
    equal((m.cpu_count, m.mem_total), (i.cpu_count, i.memory_mb << 20), "limits")
    check(0 <= m.cpu_used_pct <= 100 and 0 < m.mem_used <= m.mem_total and 0 < m.disk_used <= m.disk_total, "values", m)
    equal(s.get_metrics(end=now() - datetime.timedelta(days=1)), [], "none of yesterday")
    eventually(lambda: s.get_metrics(start=now() - datetime.timedelta(minutes=5), end=now()), tap.PATIENCE, "a range")


def snapshots_of(p):
    out = []
    while p.has_next:
        out += [x.snapshot_id for x in p.next_items()]
    return out


@case("snapshots: create with and without a name, list, start from, delete")
def snapshots():
    mark = secrets.token_hex(5)
    with sandbox() as s:
        s.files.write("/home/user/kept", mark)
        a, b = s.create_snapshot(), s.create_snapshot(name="py-%s:v1" % mark)
        check(a.snapshot_id.endswith(":default") and b.snapshot_id.endswith("/py-%s:v1" % mark), "ids", a, b)
        s.files.write("/home/user/later", "x")
        equal(snapshots_of(s.list_snapshots()), [b.snapshot_id, a.snapshot_id], "list")
        equal(snapshots_of(Sandbox.list_snapshots(sandbox_id=s.sandbox_id, limit=1)), [b.snapshot_id, a.snapshot_id], "in pages")
        for x in (a, b):
            with sandbox(x.snapshot_id) as t:
                equal((t.files.read("/home/user/kept"), t.files.exists("/home/user/later")), (mark, False), "files")
                equal(t.get_info().template_id, s.get_info().template_id, "template")
        for x in (a, b):
            equal(Sandbox.delete_snapshot(x.snapshot_id), True, "delete")
        equal(Sandbox.delete_snapshot(a.snapshot_id), False, "a second time")
        s.pause()
        with raises(NotFoundException):
            s.create_snapshot()


@case("snapshots by the asynchronous client")
def snapshots_async():
    async def go():
        s = await AsyncSandbox.create()
        try:
            await s.files.write("/home/user/kept", "async")
            a = await s.create_snapshot()
            t = await AsyncSandbox.create(a.snapshot_id)
            equal(await t.files.read("/home/user/kept"), "async", "file")
            await t.kill()
            equal(await AsyncSandbox.delete_snapshot(a.snapshot_id), True, "delete")
        finally:
            await s.kill()
    asyncio.run(go())


@case("Template.exists")
def template_exists():
    equal((Template.exists("base"), Template.exists("no-such-template")), (True, False), "exists")


@case("families that are not served are errors in words")
def not_served():
    with sandbox() as s:
        try:
            s.fork()
            check(False, "fork did something")
        except Exception as e:
            check("option fork cannot be had in pool local" in str(e), "what it says", repr(e))
        for call in (Volume.list, lambda: Volume.create("v"), lambda: Secret.create("n", "v")):
            try:
                call()
                check(False, "%s did something" % call)
            except Exception as e:
                check("is not served" in str(e), "what it says", repr(e))
        equal(s.is_running(), True, "nothing of it did any harm")


@case("the client is the pinned one")
def pinned():
    from importlib.metadata import version
    if os.environ.get("E2B_SDK_VERSION"):
        equal(version("e2b"), os.environ["E2B_SDK_VERSION"], "version")


if __name__ == "__main__":
    sdk.main(suite, __doc__, shared)
