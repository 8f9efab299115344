#!/usr/bin/env python3
"""The kernels of our own, each alone at the end of a socket pair: what docs/interpreter.md promises of them. Prints TAP.

    test_drivers.py [--interpreter PROGRAM] [--kernels DIRECTORY] [--only TEXT]      without them: what $builddir and this tree hold
"""

import argparse
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import struct
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
sys.dont_write_bytecode = True

import tap  # noqa: E402
from tap import check, equal, eventually  # noqa: E402

LIMIT = 180         # only a hang takes as long
NODE = ["node", "--expose-internals", "--experimental-import-meta-resolve", "--no-force-async-hooks-checks"]


class Ended(Exception):
    pass


class Kernel:
    """A driver and what it has said."""

    def __init__(self, argv, cwd):
        ours, theirs = socket.socketpair()
        self.sock, self.rest, self.n = ours, b"", 0
        self.log = tempfile.TemporaryFile()

        def become():
            os.setpgid(0, 0)
            os.dup2(theirs.fileno(), 3)
        self.process = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=become, pass_fds=(3,))
        theirs.close()
        self.sock.settimeout(LIMIT)
        equal(self.next()["type"], "ready", "first message")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()
        try:
            self.process.wait(LIMIT)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def next(self):
        while b"\n" not in self.rest:
            piece = self.sock.recv(1 << 20)
            if not piece:
                raise Ended()
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def begin(self, code, silent=False, **more):
        self.n += 1
        self.id = "cell-%d" % self.n
        self.sock.sendall(json.dumps(dict(type="execute_request", id=self.id, content=dict(code=code, silent=silent, **more))).encode() + b"\n")

    def messages(self):
        """Of the cell that was begun, up to its end."""
        while True:
            m = self.next()
            equal(m["parent"], self.id, "parent", )
            yield m["type"], m.get("content")
            if m["type"] == "status" and m["content"]["execution_state"] == "idle":
                return

    def finish(self):
        got = Result(list(self.messages()))
        equal(got.all[0], ("status", {"execution_state": "busy"}), "busy comes first")
        return got

    def run(self, code, silent=False, **more):
        self.begin(code, silent, **more)
        return self.finish()

    def interrupt(self):
        self.sock.sendall(b'{"type":"interrupt_request"}\n')


class Result:
    def __init__(self, messages):
        self.all = messages
        self.out = "".join(c["text"] for t, c in messages if t == "stream" and c["name"] == "stdout")
        self.err = "".join(c["text"] for t, c in messages if t == "stream" and c["name"] == "stderr")
        self.count = next((c["execution_count"] for t, c in messages if t == "execute_input"), None)
        errors = [c for t, c in messages if t == "error"]
        results = [c["data"] for t, c in messages if t == "execute_result"]
        self.display = [c["data"] for t, c in messages if t == "display_data"]
        check(len(errors) <= 1 and len(results) <= 1, "at most one error and one result", messages)
        self.error = errors[0] if errors else None
        self.value = results[0]["text/plain"] if results else None
        for t, c in messages:
            check(t != "stream" or 0 < len(c["text"].encode()) <= 65536, "size of a text")


SUITE = []


def driver(kind, text):
    def add(fn):
        SUITE.append((kind, text, fn))
        return fn
    return add


# ---- every kernel ----------------------------------------------------------------------------------------------------------

WAIT = {"bash": "while :; do :; done", "javascript": "for (;;) ;"}
SAY = {"bash": "echo %s", "javascript": "console.log('%s')"}


@driver("*", "executions are counted from 1, silent ones are not and give no input")
def counting(k, kind):
    say = SAY[kind]
    equal(k.run(say % "a").count, 1, "first")
    r = k.run(say % "b", silent=True)
    equal((r.count, r.out), (None, "b\n"), "silent")
    equal(k.run(say % "c").count, 2, "second")


@driver("*", "an endless loop is interrupted, variables stay; an interrupt while idle is nothing")
def interrupt(k, kind):
    k.interrupt()
    k.run("x=5")
    for _ in range(3):
        k.begin(SAY[kind] % "go" + "\n" + WAIT[kind])
        errors = []
        for t, c in k.messages():
            if t == "stream":
                k.interrupt()
            if t == "error":
                errors.append(c["ename"])
        equal(set(errors), {"KeyboardInterrupt"}, "error")        # one that is cut off while it is told is told again
    equal(k.run("echo $x" if kind == "bash" else "console.log(x)").out, "5\n", "variable")


@driver("*", "a cell that floods is held up, not kept: the kernel's memory stays small")
def flood(k, kind):
    k.begin("yes 0123456789abcdef" if kind == "bash" else "for (;;) console.log('0123456789abcdef'.repeat(64))")
    sizes = [-1]

    def stands():                      # nothing is read: what it goes on to write must not pile up
        sizes.append(struct.unpack("i", fcntl.ioctl(k.sock, termios.FIONREAD, b"\0" * 4))[0])
        return sizes[-1] == sizes[-2] > 0
    eventually(stands, LIMIT, "it is held up", step=0.5)
    rss = int(open("/proc/%d/statm" % k.process.pid).read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    check(rss < (16 << 20 if kind == "bash" else 160 << 20), "resident memory", rss)
    n = 0
    for t, c in k.messages():
        n += 1
        if n == 100:
            k.interrupt()
    equal(k.run(SAY[kind] % "on").out, "on\n", "it goes on")


@driver("*", "text of any size and character arrives whole; bytes that are no UTF-8 are replaced")
def characters(k, kind):
    big = "äß€𝄞" * 50000
    if kind == "bash":
        equal(k.run("s='%s'; printf %%s \"$s$s\"" % big).out, big * 2, "output")
        equal(k.run("printf 'a\\xffb\\xe2\\x82'").out, "a\ufffdb\ufffd\ufffd", "replaced")
        equal(k.run("printf '\\xe2\\x82'; sleep 0.05; printf '\\xac'").out, "€", "a character in two writes")
    else:
        equal(k.run("s = '%s'; process.stdout.write(s + s)" % big).out, big * 2, "output")
        equal(k.run("process.stdout.write('a\\ud800b')").out, "a\ufffdb", "replaced")


@driver("*", "the end of the connection ends it with all its children")
def ends(k, kind):
    k.run("sleep 1234 & echo $! > pid" if kind == "bash" else
          "require('fs').writeFileSync('pid', String(require('child_process').spawn('sleep', ['1234']).pid))")
    pid = int(open(os.path.join(k.cwd, "pid")).read())
    k.sock.close()
    k.process.wait(LIMIT)
    if kind == "bash":
        eventually(lambda: not running(pid), LIMIT, "the child has ended")
    else:                              # the interpreter kills the group
        os.kill(pid, signal.SIGKILL)


def running(pid):
    try:
        return open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


# ---- Bash ------------------------------------------------------------------------------------------------------------------

@driver("bash", "directory, variables, functions and options persist; output streams; a status is an error")
def bash_state(k, kind):
    r = k.run("cd /tmp; x=1; f() { echo f$x; }; shopt -s nullglob; export Y=2")
    equal((r.out, r.err, r.error), ("", "", None), "silent success")
    equal(k.run("pwd; f; echo $(shopt -q nullglob && echo set); printenv Y").out, "/tmp\nf1\nset\n2\n", "state")
    equal(k.run("(exit 7)").error, {"ename": "", "evalue": "7", "traceback": []}, "status")
    r = k.run("ls /nowhere; echo on")
    check("nowhere" in r.err and r.out == "on\n" and r.error is None, "errors go to stderr, the last status counts", r.all)
    equal(k.run("cat; read x; echo $?").out, "1\n", "no input")
    equal(k.run("for i in 1 2\ndo echo $i\ndone\ncat <<X\nhey $x\nX").out, "1\n2\nhey \n", "many lines")


@driver("bash", "a mistake in the grammar is an error and the shell lives; so do odd quotes and NUL")
def bash_syntax(k, kind):
    k.run("x=1")
    for bad in ("if then", "echo 'open", "fi", "echo $(", "cat <<X", "}"):
        r = k.run(bad)
        check(r.error is not None or bad == "cat <<X", "an error for " + bad, r.all)
    equal(k.run("echo a\0b").error["ename"], "ValueError", "NUL")
    equal(k.run("echo $x").out, "1\n", "it lives")
    r = k.run("")
    equal((r.out, r.error), ("", None), "empty")


@driver("bash", "exit ends the shell and says so; a new one takes its place")
def bash_exit(k, kind):
    k.run("x=1")
    for code in ("echo before; exit 3", "kill -9 $$", "exec true"):
        r = k.run(code)
        equal(r.error["ename"], "ShellEnded", "error of " + code)
        equal(k.run("echo [$x]").out, "[]\n", "a new shell")
    equal(k.run("echo before; exit").out, "before\n", "output before it")


@driver("bash", "what runs in the background holds up nothing; a shell that closed its output goes on")
def bash_background(k, kind):
    k.run("(while :; do echo tick; : > ticked; sleep 0.01; done) & p=$!")
    # the second of two ticks that are waited for was begun after the first, so its text is of this cell
    check("tick" in k.run("for i in 1 2; do rm -f ticked; until [ -e ticked ]; do sleep 0.01; done; done; echo x").out, "its output is of the cell that runs")
    k.run("kill $p")
    equal(k.run("exec > closed; echo in the file").out, "", "redirected for good")
    equal(open(os.path.join(k.cwd, "closed")).read(), "in the file\n", "file")
    k.run("echo more >&2")


@driver("bash", "a child is interrupted too, and one that minds it itself")
def bash_interrupt(k, kind):
    for code in ("echo go; sleep 1000", "python3 -c 'print(1, flush=True); import time; time.sleep(1000)'"):
        k.begin(code)
        errors = []
        for t, c in k.messages():
            if t == "stream" and c["name"] == "stdout":
                k.interrupt()
            if t == "error":
                errors.append(c["ename"])
        equal(errors, ["KeyboardInterrupt"], "error of " + code)


# ---- JavaScript and TypeScript ---------------------------------------------------------------------------------------------

def values(k, table, **more):
    for code, want in table:
        r = k.run(code, **more)
        equal((r.error, r.value), (None, want), code)


@driver("javascript", "the last expression is the result; declarations persist and may be made again")
def js_values(k, kind):
    values(k, [
        ("1 + 1", "2"), ("'text'", "'text'"), ("({a: [1, {b: 2}]})", "{ a: [ 1, { b: 2 } ] }"), ("undefined", None), ("null", "null"), ("", None),
        ("let a = 1", None), ("a", "1"), ("let a = 2; a + 1", "3"), ("const {b, c: [d = 9]} = {b: 1, c: []}, e = 5", None), ("[b, d, e]", "[ 1, 9, 5 ]"),
        ("const b = 7; b", "7"), ("class A { m() { return 'first' } }", None), ("new A().m()", "'first'"),
        ("class A { m() { return 'second' } }\nnew A().m()", "'second'"),
        ("function f(x) { return x * 2 }", None), ("f(4)", "8"), ("var v = 3", None), ("var v; v", "3"), ("let w; w", None),
        ("for (let i = 0; i < 3; i++) globalThis.last = i; last", "2"),
        ("if (true) { let inner = 1 }; typeof inner", "'undefined'"), ("const g = () => f(2), h = 1; g() + h", "5"), ("x = 1; x", "1"),
        ("// only a comment", None), ("[1, 2, 3].map(n => n * n)", "[ 1, 4, 9 ]"), ("new Map([[1, 2]]) instanceof Map", "true"),
        ("this === globalThis", "true"),
        ("let {m, ...others} = {m: 1, n: 2}; others", "{ n: 2 }"), ("export const exported = 1; exported", "1"),
        ("typeof require('fs').readFileSync", "'function'"),
    ])


@driver("javascript", "await at the top level, imports of every form, dynamic ones; they stay for later cells")
def js_async(k, kind):
    os.makedirs(os.path.join(k.cwd, "node_modules/only-esm"))
    open(os.path.join(k.cwd, "node_modules/only-esm/package.json"), "w").write('{"name": "only-esm", "type": "module", "exports": {"import": "./i.js"}}')
    open(os.path.join(k.cwd, "node_modules/only-esm/i.js"), "w").write("export const here = 1; export default function named() { return 'default' }")
    open(os.path.join(k.cwd, "mine.mjs"), "w").write("export const mine = 'mine'")
    values(k, [
        ("await Promise.resolve(4)", "4"), ("let y = await Promise.resolve(5)", None), ("y", "5"),
        ("const [p, {q}] = await Promise.all([1, {q: 2}]); p + q", "3"), ("p", "1"), ("for (var i = 0; i < 2; i++) await null; i", "2"), ("i", "2"),
        ("for (var z of [7, 8]) { var deep = z; await null }", None), ("[z, deep]", "[ 8, 8 ]"),
        ("for await (const n of [1, 2]) globalThis.seen = n; seen", "2"),
        ("await null; function later() { return 'hoisted' }", None), ("later()", "'hoisted'"), ("await null; class B {}", None), ("new B()", "B {}"),
        ("await null; let un; var keep = 1", None), ("[un, keep]", "[ undefined, 1 ]"), ("(async () => { await null; return 1 })() instanceof Promise", "true"),
        ("import fs from 'fs'\nimport { join as j, sep } from 'node:path'\nimport * as os from 'os'\nj('a', 'b') + sep", "'a/b/'"),
        ("typeof fs.readFileSync + typeof os.cpus", "'functionfunction'"), ("import 'node:util'", None),
        ("import def, { here } from 'only-esm'; [def(), here]", "[ 'default', 1 ]"),
        ("(await import('./mine.mjs')).mine", "'mine'"), ("import { mine } from './mine.mjs'; mine", "'mine'"),
        ("let t = import('path'); (await t).sep", "'/'"),
        ("process.chdir('/'); process.cwd()", "'/'"),
    ])
    equal(k.run("await new Promise((r, reject) => setTimeout(() => reject(new TypeError('slow')), 10))").error["evalue"], "slow", "rejected")
    equal(k.run("import x from 'no-such-module'").error["ename"], "Error", "module that is not there")


@driver("javascript", "errors: name, text and a stack without the kernel's own lines; what is thrown may be anything; it lives on")
def js_errors(k, kind):
    r = k.run("const ok = 1\n\nfunction bad() { throw new RangeError('no') }\nbad()")
    equal((r.error["ename"], r.error["evalue"]), ("RangeError", "no"), "error")
    check("[cell 1]:3" in "".join(r.error["traceback"]) and "javascript.mjs" not in str(r.error), "stack", r.error)
    equal(k.run("let let = 1").error["ename"], "SyntaxError", "grammar")
    equal(k.run("throw 5").error, {"ename": "Error", "evalue": "5", "traceback": ["Uncaught 5"]}, "a number")
    equal(k.run("throw null").error["evalue"], "null", "null")
    equal(k.run("nowhere").error["ename"], "ReferenceError", "unknown name")
    r = k.run("Promise.reject(new Error('loose')); setTimeout(() => { throw new Error('late') }, 1); await new Promise(r => setTimeout(r, 50)); 1")
    check(r.value == "1" and "loose" in r.err and "late" in r.err, "unhandled ones are told and end nothing", r.all)
    equal(k.run("new Proxy({}, { get() { throw new Error('trap') } }); 1").value, "1", "a hostile value")


@driver("javascript", "console and process write to the cell's streams, one message a call; display shows MIME bundles")
def js_output(k, kind):
    r = k.run("console.log('a', {b: 1}); console.error('e'); console.warn('w'); process.stdout.write('raw'); console.table([[1]])")
    equal([c["text"] for t, c in r.all if t == "stream"][:4], ["a { b: 1 }\n", "e\n", "w\n", "raw"], "texts")
    check("│" in r.out, "table")
    r = k.run("display({toMime: () => ({'text/html': '<b>', 'image/png': Buffer.from('x')})}); display(3)")
    equal([d.get("text/html") for d in r.display], ["<b>", None], "displayed")
    equal((r.display[0]["image/png"], r.display[1]["text/plain"]), ("eA==", "3"), "bytes in base64; text")


@driver("javascript", "an awaiting cell is interrupted; what it left over disturbs no later one; exit ends the kernel")
def js_interrupt(k, kind):
    k.begin("console.log('go'); await new Promise(() => {})")
    errors = []
    for t, c in k.messages():
        if t == "stream":
            k.interrupt()
        if t == "error":
            errors.append(c["ename"])
    equal(set(errors), {"KeyboardInterrupt"}, "error")
    equal(k.run("1").value, "1", "it lives")
    k.begin("process.exit(3)")
    try:
        list(k.messages())
        check(False, "the connection ends")
    except Ended:
        pass


@driver("javascript", "TypeScript: types, enums, generics, imports kept for later; its errors; JavaScript cells see the same variables")
def typescript(k, kind):
    if shutil.which("esbuild") is None:
        raise tap.Skip("esbuild is not installed")
    values(k, [
        ("interface P { name: string }\nconst p: P = { name: 'ada' }\np.name", "'ada'"), ("enum E { A = 3, B }; E.B", "4"),
        ("function id<T>(x: T): T { return x }\nid<number>(4)", "4"),
        ("let n: number = await Promise.resolve(2)", None), ("n as number", "2"), ("import { join } from 'path'", None), ("join('a', 'b')", "'a/b'"),
        ("import type { Stats } from 'fs'; 1", "1"), ("class C { constructor(private v: number) {} get() { return this.v } }\nnew C(6).get()", "6"),
    ], language="typescript")
    values(k, [("p.name + n", "'ada2'")])
    equal(k.run("let a: = 1", language="typescript").error["ename"], "SyntaxError", "grammar")


@driver("javascript", "TypeScript without its compiler: an error that names what to install")
def no_typescript(k, kind):
    k.run("process.env.PATH = '/nowhere'")
    r = k.run("let a: number = 1", language="typescript")
    check(r.error["ename"] == "TypeScriptUnavailable" and "esbuild" in r.error["evalue"], "error", r.error)
    equal(k.run("1").value, "1", "JavaScript goes on")


def main():
    p = argparse.ArgumentParser()
    here = os.path.dirname(os.path.abspath(__file__))
    p.add_argument("--interpreter", default=os.path.join(os.environ.get("builddir", "."), "hutch-interpreter"))
    p.add_argument("--kernels", default=os.path.join(here, "../../src/interpreter/kernels"))
    p.add_argument("--only", default="")
    a = p.parse_args()
    argv = {"bash": [os.path.abspath(a.interpreter), "--kernel", "bash"], "javascript": NODE + [os.path.join(os.path.abspath(a.kernels), "javascript.mjs")]}
    bad = n = 0
    for want, text, fn in SUITE:
        for kind in argv if want == "*" else [want]:
            name = "%s: %s" % (kind, text)
            if a.only not in name:
                continue
            n += 1
            if kind == "javascript" and shutil.which("node") is None:
                print("ok %d - %s # SKIP node is not installed" % (n, name))
                continue
            with tempfile.TemporaryDirectory() as d:
                try:
                    with Kernel(argv[kind], d) as k:
                        k.cwd = d
                        fn(k, kind)
                    print("ok %d - %s" % (n, name))
                except tap.Skip as e:
                    print("ok %d - %s # SKIP %s" % (n, name, e))
                except Exception as e:  # noqa: BLE001: each test stands for itself
                    bad += 1
                    print("not ok %d - %s\n# %s: %s" % (n, name, type(e).__name__, str(e).replace("\n", "\n# ")[:2000]))
                    k.log.seek(0)
                    print("# log: %r" % k.log.read()[-1000:])
            sys.stdout.flush()
    print("1..%d" % n)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
