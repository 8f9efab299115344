"""The agent as the published Python client sees it, synchronous and asynchronous: commands, terminals, files, watches, git.

Runs against a stack, and with E2B_DEBUG=true against an agent alone on localhost:49983, with no API at all. Every case is written once:
`await do(x)` takes what a call of either client gives, a value or something to wait for.
"""

import asyncio
import hashlib
import inspect
import io
import os
import secrets
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

import sdk  # noqa: E402
import tap  # noqa: E402
from e2b import AsyncSandbox, CommandExitException, Sandbox  # noqa: E402
from e2b.exceptions import AuthenticationException, InvalidArgumentException, NotFoundException, SandboxException, TimeoutException  # noqa: E402
from e2b.sandbox.commands.command_handle import PtySize  # noqa: E402
from tap import Skip, check, equal, raises  # noqa: E402

DEBUG = os.environ.get("E2B_DEBUG") == "true"
suite = tap.Suite()
case = suite.scenario
LONG = 600          # seconds: what bounds a hang and nothing else; the client's own minute would tell how busy the machine is


async def do(value):
    return await value if inspect.isawaitable(value) else value


async def until(fn, text):
    end = time.monotonic() + tap.PATIENCE
    while True:
        value = await fn()
        if value:
            return value
        check(time.monotonic() < end, text)
        await asyncio.sleep(0.02)


async def say(s, text, **kw):
    return (await do(s.commands.run(text, **kw))).stdout


async def lives(s, pid):
    return await say(s, "kill -0 %s 2>/dev/null && echo on || echo off" % pid) == "on\n"


# ---- commands ----

@case("run: stdout, stderr, exit code, callbacks in order")
async def run(s):
    out, err = [], []
    r = await do(s.commands.run("echo out; echo err >&2; sleep 0.05; echo out2", on_stdout=out.append, on_stderr=err.append))
    equal((r.stdout, r.stderr, r.exit_code), ("out\nout2\n", "err\n", 0), "result")
    equal(("".join(out), "".join(err)), ("out\nout2\n", "err\n"), "callbacks")
    try:
        await do(s.commands.run("echo no >&2; exit 7"))
        check(False, "exit 7 did not raise")
    except CommandExitException as e:
        equal((e.exit_code, e.stderr), (7, "no\n"), "exit 7")
        check(str(e), "it says something")
    with raises(CommandExitException):
        await do(s.commands.run("kill -9 $$"))
    try:
        await do(s.commands.run("no-such-program-at-all"))
    except CommandExitException as e:
        equal(e.exit_code, 127, "unknown program")


@case("run: cwd, envs, user")
async def where(s):
    mark = "" if DEBUG else "from create"
    equal(await say(s, "pwd"), "/home/user\n", "home")
    equal(await say(s, "pwd", cwd="/tmp"), "/tmp\n", "cwd")
    await do(s.files.make_dir("sub dir"))
    equal(await say(s, "pwd", cwd="sub dir"), "/home/user/sub dir\n", "relative cwd")
    with raises((InvalidArgumentException, SandboxException), "/no/such/dir"):
        await say(s, "pwd", cwd="/no/such/dir")
    equal(await say(s, 'echo "$GLOBAL $X"', envs={"X": "mine"}), mark + " mine\n", "envs")
    equal(await say(s, 'echo "$GLOBAL"', envs={"GLOBAL": "over"}), "over\n", "overridden")
    equal(await say(s, 'echo "$GLOBAL$X"'), mark + "\n", "only for that command")
    equal(await say(s, "whoami"), "user\n", "default user")
    equal(await say(s, "whoami; echo $HOME", user="root"), "root\n/root\n", "root")
    with raises((AuthenticationException, SandboxException), "nosuchuser"):
        await say(s, "true", user="nosuchuser")


@case("run: a timeout ends the command, in the sandbox too")
async def timeout(s):
    pid, limit = "", 0.7
    while not pid:          # a busy machine may need longer than that to start it: then it is given more time, until it has told its number
        check(limit < 120, "it starts")
        await do(s.files.write("/tmp/slow", ""))
        with raises(TimeoutException):
            await say(s, "echo $$ > /tmp/slow; exec sleep 300", timeout=limit)
        pid, limit = (await do(s.files.read("/tmp/slow"))).strip(), 2 * limit

    async def gone():
        return not await lives(s, pid)
    await until(gone, "the process ends")


@case("run: big output; split and broken UTF-8")
async def output(s):
    want = "".join("%d\n" % i for i in range(1, 400001))
    equal(hashlib.sha256((await say(s, "seq 1 400000")).encode()).hexdigest(), hashlib.sha256(want.encode()).hexdigest(), "2.7 MB")
    r = await do(s.commands.run("printf '\\xe2'; sleep 0.1; printf '\\x98'; sleep 0.1; printf '\\x83'; printf '\\xff\\xfe!'; printf '\\xc3' >&2"))
    equal(r.stdout, "☃\ufffd\ufffd!", "stdout")
    equal(r.stderr, "\ufffd", "stderr")


async def first_output(s, h, text):
    """Waits until a command's handle has its first output; the synchronous one reads only when it is asked."""
    if isinstance(s, Sandbox):
        h.kept = iter(h)          # the rest is wait()'s
        equal(next(h.kept)[0], text, "first output")
    else:
        async def there():
            return h.stdout == text
        await until(there, "first output")


@case("background: wait, list, connect, kill, disconnect")
async def background(s):
    await say(s, "rm -f /tmp/has-started /tmp/went-on")
    h = await do(s.commands.run("echo started; echo > /tmp/has-started; read x; echo got $x", background=True, stdin=True, cwd="/tmp", envs={"A": "1"},
                                timeout=0))
    await until(lambda: do(s.files.exists("/tmp/has-started")), "it started")
    await first_output(s, h, "started\n")        # else who connects now may be told it, too
    p = [x for x in await do(s.commands.list()) if x.pid == h.pid]
    equal(len(p), 1, "listed")
    equal((p[0].cmd, list(p[0].args[:2]), p[0].cwd, dict(p[0].envs)), ("/bin/bash", ["-l", "-c"], "/tmp", {"A": "1"}), "what is listed")
    c = await do(s.commands.connect(h.pid, timeout=0))
    await do(s.commands.send_stdin(h.pid, "word\n"))
    equal((await do(h.wait())).stdout, "started\ngot word\n", "output")
    r = await do(c.wait())
    equal((r.exit_code, r.stdout), (0, "got word\n"), "the connected one")
    equal([x for x in await do(s.commands.list()) if x.pid == h.pid], [], "an ended one is not listed")
    k = await do(s.commands.run("sleep 1000", background=True, timeout=0))
    equal(await do(k.kill()), True, "kill")
    with raises(CommandExitException):
        await do(k.wait())
    equal(await do(s.commands.kill(k.pid)), False, "again")
    equal(await lives(s, k.pid), False, "it is gone")
    equal(await do(s.commands.kill(999999)), False, "unknown")
    with raises(NotFoundException):
        await do(s.commands.connect(999999))
    d = await do(s.commands.run("for i in 1 2 3; do sleep 0.1; done; echo x > /tmp/went-on; sleep 1000", background=True, timeout=0))
    await do(d.disconnect())
    await until(lambda: do(s.files.exists("/tmp/went-on")), "it went on after the disconnect")
    equal(await do(s.commands.kill(d.pid)), True, "kill by pid")


@case("stdin: text, many lines, empty, close is end of file")
async def stdin(s):
    h = await do(s.commands.run("cat", background=True, stdin=True, timeout=0))
    for text in ("", "one\ntwo\n", "three ☃\n", "x" * 200000 + "\n"):
        await do(s.commands.send_stdin(h.pid, text))
    await do(s.commands.close_stdin(h.pid))
    r = await do(h.wait())
    equal(r.exit_code, 0, "exit")
    check(r.stdout == "one\ntwo\nthree ☃\n" + "x" * 200000 + "\n", "what cat said (%d characters)" % len(r.stdout))
    with raises(NotFoundException):
        await do(s.commands.send_stdin(h.pid, "late"))
    equal(await say(s, 'read x; echo "status $?"'), "status 1\n", "without stdin a read meets the end of file")


@case("stdin streamed by the client (clients that have it)")
async def stream_input(s):
    if not hasattr(s.commands, "stream_input"):
        raise Skip("this client has no stream_input")
    lines = ["one\n", "two\n", b"three\n", "y" * 100000 + "\n"]

    async def stream(pid):
        if isinstance(s, Sandbox):
            return s.commands.stream_input(pid, lines)
        handle = s.commands.stream_input(pid)
        for line in lines:
            await handle.send(line)
        return await handle.close()
    h = await do(s.commands.run("cat", background=True, stdin=True, timeout=0))
    await stream(h.pid)
    await do(s.commands.close_stdin(h.pid))
    equal((await do(h.wait())).stdout, "one\ntwo\nthree\n" + "y" * 100000 + "\n", "what cat said")
    with raises(NotFoundException):
        await stream(999999)


@case("run: fifty at once")
async def many(s):
    if isinstance(s, Sandbox):
        raise Skip("one after the other is all that it can")
    outs = await asyncio.gather(*[say(s, "echo %d; sleep 0.2" % i, timeout=LONG, request_timeout=LONG) for i in range(50)])
    equal(outs, ["%d\n" % i for i in range(50)], "outputs")


# ---- terminals ----

class Terminal:
    """What a terminal has said, for either client."""

    def __init__(self):
        self.seen, self.handle, self.feed = bytearray(), None, None

    async def create(self, s, **kw):
        if isinstance(s, Sandbox):
            self.handle = s.pty.create(timeout=0, **kw)
            self.feed = iter(self.handle)
        else:
            self.handle = await s.pty.create(on_data=self.seen.extend, timeout=0, **kw)
        return self

    async def connect(self, s, pid):
        if isinstance(s, Sandbox):
            self.handle = s.pty.connect(pid, timeout=0)
            self.feed = iter(self.handle)
        else:
            self.handle = await s.pty.connect(pid, on_data=self.seen.extend, timeout=0)
        return self

    async def says(self, *words):
        end = time.monotonic() + tap.PATIENCE
        while not all(w in self.seen for w in words):
            if self.feed:
                self.seen.extend(next(self.feed)[2] or b"")
            else:
                await asyncio.sleep(0.02)
            check(time.monotonic() < end, "the terminal says %r" % (words,), bytes(self.seen))


@case("pty: input, size, resize, exit, a second client, kill")
async def pty(s):
    t = await Terminal().create(s, size=PtySize(rows=30, cols=90), cwd="/tmp", envs={"MINE": "yes"})
    pid = t.handle.pid
    await do(s.pty.send_stdin(pid, b"stty size; echo \"<$MINE $TERM $(pwd)>\"\n"))
    await t.says(b"30 90", b"<yes xterm-256color /tmp>")
    await do(s.pty.resize(pid, PtySize(rows=40, cols=120)))
    await do(s.pty.send_stdin(pid, b"stty size; echo is $(tput cols)\n"))
    await t.says(b"40 120", b"is 120")
    await do(s.pty.send_stdin(pid, b"exit 0\n"))
    equal((await do(t.handle.wait())).exit_code, 0, "exit")
    k = await Terminal().create(s, size=PtySize(rows=24, cols=80))
    again = await Terminal().connect(s, k.handle.pid)
    await do(s.pty.send_stdin(k.handle.pid, b"echo joined $((20 + 3))\n"))
    await again.says(b"joined 23")
    equal(await do(s.pty.kill(k.handle.pid)), True, "kill")
    with raises(CommandExitException):
        await do(again.handle.wait())
    equal(await do(s.pty.kill(k.handle.pid)), False, "again")


# ---- files ----

async def whole(stream):
    if inspect.isasyncgen(stream) or hasattr(stream, "__aiter__"):
        return b"".join([piece async for piece in stream])
    return b"".join(stream)


@case("files: write and read text, bytes, stream")
async def files(s):
    equal((await do(s.files.write("text.txt", "ü ☃\n"))).path, "/home/user/text.txt", "path")
    equal(await do(s.files.read("text.txt")), "ü ☃\n", "text")
    data = secrets.token_bytes(300000)
    await do(s.files.write("/tmp/a/b/c/bytes", data))
    equal(bytes(await do(s.files.read("/tmp/a/b/c/bytes", format="bytes"))) == data, True, "bytes")
    equal(await whole(await do(s.files.read("/tmp/a/b/c/bytes", format="stream"))) == data, True, "stream")
    await do(s.files.write("from-file", io.BytesIO(data)))
    equal(bytes(await do(s.files.read("from-file", format="bytes"))) == data, True, "file object")
    await do(s.files.write("empty", ""))
    equal(await do(s.files.read("empty")), "", "empty")
    await do(s.files.write("text.txt", "short"))
    equal(await do(s.files.read("text.txt")), "short", "an overwrite truncates")
    with raises(NotFoundException):
        await do(s.files.read("no such file"))
    with raises(InvalidArgumentException, "directory"):
        await do(s.files.read("/tmp"))


@case("files: odd names, several in one call, either upload form, gzip")
async def uploads(s):
    for n in ("sp ace.txt", "ü☃.txt", 'q"uote.txt', "a+b&c=d#e?.txt", "apo'strophe", "%41.txt", "-dash"):
        await do(s.files.write("odd/" + n, n))
        equal(await do(s.files.read("odd/" + n)), n, "content of %s" % n)
    for opts in ({}, {"use_octet_stream": True}, {"use_octet_stream": False}, {"gzip": True}):
        try:
            infos = await do(s.files.write_files([{"path": "many/one", "data": "one"}, {"path": "/tmp/many/two", "data": b"two"},
                                                  {"path": "many/three ☃", "data": io.BytesIO(b"three")}], **opts))
        except TypeError as e:
            raise Skip("this client has no such option: %s" % e)
        equal(sorted(i.path for i in infos), ["/home/user/many/one", "/home/user/many/three ☃", "/tmp/many/two"], "paths with %r" % opts)
        got = [await do(s.files.read(p)) for p in ("many/one", "/tmp/many/two", "many/three ☃")]
        equal(got, ["one", "two", "three"], "contents with %r" % opts)
    text = "compresses well " * 20000
    await do(s.files.write("zipped", text, gzip=True))
    equal((await say(s, "wc -c < zipped")).strip(), str(len(text)), "stored as it was")
    equal(await do(s.files.read("zipped", gzip=True)), text, "and read")


@case("files: list with depth, types, order; get_info; links")
async def tree(s):
    await say(s, "rm -rf tree; mkdir -p tree/d1/d2/d3 && cd tree && echo hi > b.txt && echo a > d1/a && echo z > d1/d2/z && ln -s b.txt link && ln -s nowhere broken")

    async def names(**kw):
        return [e.path.replace("/home/user/tree/", "") + ("/" if e.type and e.type.value == "dir" else "")
                for e in await do(s.files.list("tree", **kw)) if e.name != "broken"]
    equal(await names(), ["b.txt", "d1/", "link"], "depth 1")
    equal(await names(depth=2), ["b.txt", "d1/", "d1/a", "d1/d2/", "link"], "depth 2")
    equal(await names(depth=4), ["b.txt", "d1/", "d1/a", "d1/d2/", "d1/d2/d3/", "d1/d2/z", "link"], "depth 4")
    i = await do(s.files.get_info("tree/b.txt"))
    equal((i.name, i.path, i.type.value, i.size, i.mode, i.permissions, i.owner, i.group),
          ("b.txt", "/home/user/tree/b.txt", "file", 3, 0o644, "-rw-r--r--", "user", "user"), "info")
    equal((await do(s.files.get_info("tree/link"))).symlink_target, "/home/user/tree/b.txt", "link")
    for fn in (s.files.get_info, s.files.list):
        with raises(NotFoundException):
            await do(fn("tree/none"))
    with raises(InvalidArgumentException):
        await do(s.files.list("tree/b.txt"))


@case("files: exists, make_dir, rename, remove; owners")
async def moves(s):
    made = [await do(x) for x in (s.files.exists("made"),)] + [await do(s.files.make_dir("made/deep")), await do(s.files.make_dir("made/deep")),
                                                               await do(s.files.exists("made/deep"))]
    equal(made, [False, True, False, True], "make")
    await do(s.files.write("made/f", "content"))
    equal((await do(s.files.rename("made/f", "made/g"))).path, "/home/user/made/g", "rename")
    equal((await do(s.files.read("made/g")), await do(s.files.exists("made/f"))), ("content", False), "moved")
    with raises(NotFoundException):
        await do(s.files.rename("made/none", "made/h"))
    equal(await say(s, "stat -c %U:%G:%a made made/deep made/g"), "user:user:755\nuser:user:755\nuser:user:644\n", "owners")
    await do(s.files.remove("made"))
    equal(await do(s.files.exists("made")), False, "removed")
    await do(s.files.remove("made"))
    await do(s.files.write("/root/f", "root only", user="root"))
    equal(await say(s, "stat -c %U /root/f", user="root"), "root\n", "root's file")


@case("files: metadata is replaced by each upload and told by list and get_info")
async def metadata(s):
    info = await do(s.files.write("tagged", "x", metadata={"purpose": "test", "Two-Words": "a b"}))
    want = {"purpose": "test", "two-words": "a b"}
    equal(info.metadata, want, "the upload's answer")
    equal((await do(s.files.get_info("tagged"))).metadata, want, "get_info")
    equal([e.metadata for e in await do(s.files.list(".")) if e.name == "tagged"], [want], "list")
    await do(s.files.rename("tagged", "tagged2"))
    equal((await do(s.files.get_info("tagged2"))).metadata, want, "renamed")
    await do(s.files.write("tagged2", "y", metadata={"other": "1"}))
    equal((await do(s.files.get_info("tagged2"))).metadata, {"other": "1"}, "replaced")
    await do(s.files.write("tagged2", "z"))
    check(not (await do(s.files.get_info("tagged2"))).metadata, "removed")


class Watch:
    """The events of a directory, for either client."""

    def __init__(self):
        self.got, self.handle = [], None

    async def open(self, s, path, **kw):
        if isinstance(s, Sandbox):
            self.handle = s.files.watch_dir(path, **kw)
        else:
            self.handle = await s.files.watch_dir(path, on_event=self.got.append, timeout=0, **kw)
        return self

    async def look(self):
        if hasattr(self.handle, "get_new_events"):
            self.got += self.handle.get_new_events()
        return [(e.name, e.type.value) for e in self.got]

    async def sees(self, *events):
        async def all_there():
            have = await self.look()
            return all(e in have for e in events)
        try:
            await until(all_there, "events")
        except tap.Failed:
            check(False, "the watch tells %r" % (events,), await self.look())


@case("files: watch_dir: the events of a new file, exactly; chmod, rename, remove")
async def watch(s):
    await say(s, "rm -rf watched; mkdir watched")
    w = await Watch().open(s, "watched")
    await do(s.files.write("watched/new", "x"))
    await w.sees(("new", "create"), ("new", "chmod"), ("new", "write"))
    equal(await w.look(), [("new", "create"), ("new", "chmod"), ("new", "write")], "no more, no less, in this order")
    await say(s, "mv watched/new watched/other && rm watched/other")
    await w.sees(("new", "rename"), ("other", "create"), ("other", "remove"))
    await do(w.handle.stop())


@case("files: watch_dir: recursive, new directories too; entries; what cannot be watched")
async def watch_tree(s):
    await say(s, "rm -rf deep; mkdir -p deep/tree deep/told")
    w = await Watch().open(s, "deep/tree", recursive=True)
    await do(s.files.write("deep/tree/a/b/file", "x"))
    await w.sees(("a", "create"), ("a/b/file", "write"))
    await do(w.handle.stop())
    try:
        t = await Watch().open(s, "deep/told", include_entry=True)
    except TypeError as e:
        raise Skip("this client has no such option: %s" % e)
    await do(s.files.write("deep/told/f", "four"))
    await t.sees(("f", "create"), ("f", "write"))
    equal([(e.entry.name, e.entry.path, e.entry.type.value) for e in t.got if e.type.value == "create"], [("f", "/home/user/deep/told/f", "file")], "entry")
    await do(t.handle.stop())
    with raises(NotFoundException):
        await Watch().open(s, "no/such")
    with raises(InvalidArgumentException):
        await Watch().open(s, "deep/told/f")


# ---- what is in the image ----

@case("image: the programs that clients take for granted, and sudo without a password")
async def image(s):
    equal(await say(s, 'for p in bash python3 curl git tput pgrep realpath ln touch sudo; do command -v $p >/dev/null || echo "no $p"; done'), "", "programs")
    equal(await say(s, "sudo -n id -u; echo $HOME; id -gn"), "0\n/home/user\nuser\n", "sudo, home, group")


@case("git: a repository, its state, a clone through a daemon on 127.0.0.1")
async def git(s):
    g = getattr(s, "git", None)
    if g is None:
        raise Skip("this client has no git")
    await say(s, "rm -rf /tmp/g; mkdir /tmp/g")
    await do(g.init("/tmp/g/repo", initial_branch="main"))
    await do(s.files.write("/tmp/g/repo/README.md", "hello\n"))
    equal((await do(g.status("/tmp/g/repo"))).is_clean, False, "a new file")
    await do(g.add("/tmp/g/repo"))
    await do(g.commit("/tmp/g/repo", "first", author_name="Bot", author_email="bot@example.com"))
    equal((await do(g.status("/tmp/g/repo"))).is_clean, True, "committed")
    await do(g.create_branch("/tmp/g/repo", "side"))
    await do(g.checkout_branch("/tmp/g/repo", "main"))
    b = await do(g.branches("/tmp/g/repo"))
    equal((b.current_branch, sorted(b.branches)), ("main", ["main", "side"]), "branches")
    await do(g.set_config("user.name", "Global"))
    equal(await do(g.get_config("user.name")), "Global", "configuration")
    await say(s, "git init -q --bare --initial-branch=main /tmp/g/remote.git")
    daemon = await do(s.commands.run("exec git daemon --reuseaddr --base-path=/tmp/g --export-all --enable=receive-pack --listen=127.0.0.1 --port=9418",
                                     background=True, timeout=0))

    async def answers():
        return (await say(s, "git ls-remote git://127.0.0.1/remote.git >/dev/null 2>&1 && echo yes || echo no")) == "yes\n"
    await until(answers, "the daemon answers")
    await do(g.remote_add("/tmp/g/repo", "origin", "git://127.0.0.1/remote.git"))
    await do(g.push("/tmp/g/repo", remote="origin", branch="main"))
    await do(g.clone("git://127.0.0.1/remote.git", path="/tmp/g/clone"))
    equal(await do(s.files.read("/tmp/g/clone/README.md")), "hello\n", "the clone")
    await do(daemon.kill())


async def all_cases(report, kind, only):
    s = await do((Sandbox if kind == "sync" else AsyncSandbox).create(timeout=7200, request_timeout=LONG, envs={"GLOBAL": "from create"}))
    try:
        for name, _, fn in suite.items:
            name = "%s: %s" % (kind, name)
            if not tap.selected(name, only):
                continue
            started = time.monotonic()
            try:
                await asyncio.wait_for(fn(s), 3 * LONG)
                report.ok(name, time.monotonic() - started)
            except Skip as e:
                report.skip(name, str(e))
            except BaseException as e:  # noqa: a case's any failure is a result
                report.not_ok(name, tap.describe(e))
    finally:
        if not DEBUG:
            await do(s.kill())


def main():
    args = tap.arguments(__doc__).parse_args()
    report = tap.Reporter(os.environ.get("TAP_PREFIX", ""))
    for kind in ("sync", "async"):
        asyncio.run(all_cases(report, kind, args.only))
    sdk.leave(report)


if __name__ == "__main__":
    main()
