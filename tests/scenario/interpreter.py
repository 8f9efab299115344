"""The code interpreter on port 49999 of a sandbox (guest.md 7), with the kernels that this machine has."""

import contextlib
import json
import os
import shutil

import wire
from tap import Skip, Suite, check, equal, eventually

suite = Suite()
scenario = suite.scenario
TEMPLATE = dict(alias="code-interpreter-v1", command=["/run/hutch/hutch-interpreter"], readyPort=49999)


class Interpreter:
    def __init__(self, w, s):
        self.w, self.s = w, s
        self.headers = [("E2b-Sandbox-Id", s.id), ("E2b-Sandbox-Port", "49999"), ("Content-Type", "application/json")]

    def call(self, method, path, body=None, extra=()):
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        return wire.once(self.w.where, method, path, self.headers + list(extra), data)

    def events(self, code, token=True, **more):
        extra = [("X-Access-Token", self.s.token)] if token and self.s.token else []
        r = self.call("POST", "/execute", {"code": code, **more}, extra)
        equal(r.status, 200, "execute: %r" % r.body[:300])
        check(all(b < 0x80 for b in r.body), "pure ASCII", r.body[:300])
        lines = r.body.decode().split("\n")
        equal(lines.pop(), "", "the last line is ended")
        events = [json.loads(x) for x in lines]
        equal(events[-1], {"type": "end_of_execution"}, "the last event")
        return [e for e in events[:-1] if e["type"] != "keepalive"]

    def run(self, code, **more):
        """Result text, stdout, error name of a cell."""
        got = self.events(code, **more)
        text = next((e.get("text") for e in got if e["type"] == "result" and e["is_main_result"]), None)
        out = "".join(e["text"] for e in got if e["type"] == "stdout")
        return text, out, next((e["name"] for e in got if e["type"] == "error"), None)

    def context(self, **body):
        r = self.call("POST", "/contexts", body)
        equal(r.status, 200, "context: %r" % r.body[:300])
        return r.json()

    def start(self, code, **more):
        """A connection on which a cell has begun to run."""
        c = wire.Conn(self.w.where)
        c.start("POST", "/execute", self.headers, json.dumps({"code": code, **more}).encode())
        return c


def begun(c):
    """Reads until the cell has said so; what comes then."""
    resp, seen = c.head(), b""
    equal(resp.status, 200, "headers come at once")
    pieces = c.chunks(resp, "POST")
    for piece in pieces:
        seen += piece
        if b"begun" in seen:
            break
    return pieces


def clients(x):
    """Connections to the interpreter that it has not closed."""
    return int(x.s.out("ss -tnH state established state close-wait '( sport = :49999 )' | wc -l", user="root", login=False))


def kernels():
    out = set()
    for place in ("/usr/share/jupyter/kernels", "/usr/local/share/jupyter/kernels"):
        with contextlib.suppress(OSError):
            out |= set(os.listdir(place))
    return out


@contextlib.contextmanager
def interpreter(w, **more):
    if "python3" not in kernels():
        raise Skip("ipykernel is not installed (Debian: python3-ipykernel)")
    made = w.template(**{**TEMPLATE, **more})
    eventually(lambda: any(p["warm"] for p in w.stack.node("GET", "/v1/info").json()["pools"] if p["template"] == made["templateID"]), 300,
               "one with a kernel is ready")
    with w.create(template="code-interpreter-v1", envVars={"GLOBAL": "of create"}) as s:
        yield Interpreter(w, s)


@scenario("the kernel of a ready sandbox runs: health, the first cell, state, the order of events", data=True)
def basic(w):
    with interpreter(w) as x:
        r = x.call("GET", "/health")
        equal((r.status, r.body), (200, b'"OK"'), "health")
        got = x.events("print('hi \u00e9')\nx = 1\nx + 1")
        for e in got:
            e.pop("timestamp", None)
        equal(got, [{"type": "number_of_executions", "execution_count": 1}, {"type": "stdout", "text": "hi \u00e9\n"},
                    {"type": "result", "text": "2", "extra": {}, "is_main_result": True}], "events")
        equal(x.run("x += 1; x"), ("2", "", None), "state")
        got = x.events("1/0")
        equal([e["type"] for e in got], ["number_of_executions", "error"], "an error comes once")
        equal((got[1]["name"], got[1]["value"]), ("ZeroDivisionError", "division by zero"), "the error")
        check("\x1b" not in got[1]["traceback"] and "ZeroDivisionError" in got[1]["traceback"], "its traceback has no colours", got[1])
        equal(x.run("'quoted'")[0], "quoted", "quotes of a text")
        equal(x.run("import os; os.getcwd(), os.getuid()")[0], "('/home/user', 0)", "where and who")


@scenario("silence is filled with lines that keep the connection alive: of a cell that runs, and of one that waits for it", data=True)
def silence(w):
    with interpreter(w) as x:
        first = x.start("import time; print('begun', flush=True); time.sleep(7); print('done')")
        rest = begun(first)
        second = x.start("print('after')")
        for body, text in ((b"".join(rest), b"done"), (second.finish().body, b"after")):
            check(b'{"type":"keepalive"}\n' in body[:body.index(text)], "a line before the output", body)
            check(body.endswith(b'{"type":"end_of_execution"}\n'), "the end", body)
        first.close()
        second.close()


@scenario("variables: of the sandbox, of a cell, of a cell over the sandbox's; odd names and values", data=True)
def variables(w):
    with interpreter(w) as x:
        read = "import os; print(os.environ.get('GLOBAL'), os.environ.get('MINE'), os.environ.get('E2B_SANDBOX_ID'))"
        equal(x.run(read)[1], "of create None %s\n" % x.s.id, "of the sandbox")
        equal(x.run("  " + read, env_vars={"GLOBAL": "over", "MINE": "it's \"\n\u00e9\\ {}"})[1], "over it's \"\n\u00e9\\ {} %s\n" % x.s.id, "of a cell")
        equal(x.run(read)[1], "of create None %s\n" % x.s.id, "and as they were again")
        equal([e["execution_count"] for e in x.events("1") if "execution_count" in e], [4], "setting them counts as no cell")
        slow = "import time\ndef slow(*a):\n    time.sleep(2)\n    return type(os.environ).pop(os.environ, *a)\nos.environ.pop = slow; os.environ['MINE']"
        equal(x.run(slow, env_vars={"MINE": "slow"})[0], "slow", "of a cell whose client leaves with the answer")
        equal(x.run("os.environ.get('MINE')")[:2], (None, ""), "and it is taken back all the same")
        r = x.call("POST", "/execute", {"code": "1", "env_vars": {"A=B": "x"}})
        equal(r.status, 422, "a name that is none: %r" % r.body)


@scenario("contexts: made, listed, restarted, deleted; a directory of their own; what is not there", data=True)
def contexts(w):
    with interpreter(w) as x:
        first = x.call("GET", "/contexts").json()
        check(("python", "/home/user") in [(c["language"], c["cwd"]) for c in first], "the default one", first)
        c = x.context(cwd="/tmp")
        equal((c["language"], c["cwd"]), ("python", "/tmp"), "made")
        equal(x.call("GET", "/contexts").json()[-1], c, "the newest is listed last")
        equal(x.run("y = 5; import os; os.getcwd()", context_id=c["id"])[0], "/tmp", "its directory")
        equal(x.run("y")[2], "NameError", "the default one does not see its names")
        r = x.call("POST", "/contexts/%s/restart" % c["id"])
        equal((r.status, r.body), (200, b"null"), "restart")
        equal(x.run("y", context_id=c["id"])[2], "NameError", "names are gone")
        equal(x.run("import os; os.getcwd()", context_id=c["id"])[0], "/tmp", "its directory is the same")
        r = x.call("DELETE", "/contexts/" + c["id"])
        equal((r.status, r.body), (200, b"null"), "delete")
        for method, path, body in (("POST", "/execute", {"code": "1", "context_id": c["id"]}), ("DELETE", "/contexts/" + c["id"], None),
                                   ("POST", "/contexts/%s/restart" % c["id"], None)):
            r = x.call(method, path, body)
            equal((r.status, r.body), (404, b"Context %s not found" % c["id"].encode()), "%s %s" % (method, path))
        equal(x.call("GET", "/contexts").json(), first, "as at first")
        for cwd, place in (("proj", "/home/user/proj"), ("~", "/home/user"), ("~/proj/..", "/home/user")):
            x.s.out("mkdir -p proj")
            c = x.context(cwd=cwd)
            equal(c["cwd"], cwd, "told as it was given")
            equal(x.run("import os; os.getcwd()", context_id=c["id"])[0], place, "a directory that is said from home")
            x.call("DELETE", "/contexts/" + c["id"])
        for cwd in ("no/such", "~nobody"):
            r = x.call("POST", "/contexts", {"cwd": cwd})
            equal((r.status, r.body), (500, b"Failed to set working directory"), "no such directory")
        r = x.call("POST", "/contexts", {"cwd": "/no/such/place"})
        equal((r.status, r.body), (500, b"Failed to set working directory"), "no such directory")
        r = x.call("POST", "/contexts", {"language": "no-such-language"})
        check(r.status == 500 and b"no-such-language" in r.body, "no such kernel", r.status, r.body)
        r = x.call("POST", "/execute", {"code": "1", "language": "python", "context_id": first[-1]["id"]})
        equal((r.status, r.body), (400, b"Only one of context_id or language can be provided"), "both")
        default = next(c["id"] for c in first if c["language"] == "python")
        equal(x.call("DELETE", "/contexts/" + default).status, 200, "the default one")
        equal(x.run("1 + 1")[0], "2", "comes anew")


@scenario("bad requests: 422 in JSON, 404, 405; a preflight", data=True)
def refusals(w):
    with interpreter(w) as x:
        for body in (b"", b"{", b"[]", b'{"code":1}', b'{"code":"1","env_vars":[]}', b'{"code":"1","env_vars":{"A":1}}', b'{"code":"1","language":7}'):
            r = x.call("POST", "/execute", body)
            equal(r.status, 422, "%r: %r" % (body, r.body))
            check(r.json()["detail"][0]["msg"], "a message", r.body)
        equal(x.run("1", language=None, context_id=None, env_vars=None)[0], "1", "nulls")
        equal(x.call("GET", "/nothing").status, 404, "no route")
        equal(x.call("PUT", "/execute").status, 405, "no method")
        r = x.call("OPTIONS", "/execute", extra=[("Origin", "http://a"), ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "x-y")])
        equal((r.status, r.header("access-control-allow-origin"), r.header("access-control-allow-headers")), (200, "*", "x-y"), "preflight")


@scenario("a client that hangs up: its cell is interrupted, the context goes on; a cell that waits behind another is given up", data=True)
def hang_up(w):
    with interpreter(w) as x:
        c = x.start("import time\nz = 1\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)")
        begun(c)
        eventually(lambda: clients(x) == 1, 0, "nobody else asks")
        behind = x.start("z = 99")
        equal(behind.head().status, 200, "also to one that waits")
        equal(clients(x), 2, "the second is a connection of its own")
        behind.close()
        eventually(lambda: clients(x) == 1, 0, "the interpreter has seen that the second is gone, before the first goes")
        c.close()
        equal(x.run("z"), ("1", "", None), "the context is free, its state is there, and what was given up did not run")


@scenario("a kernel that dies ends its cell with an error, and the next cell finds a new one", data=True)
def death(w):
    with interpreter(w) as x:
        equal(x.run("import os; q = 1; os.kill(os.getpid(), 9)")[2], "ContextRestarting", "the cell's error")
        equal(x.run("1 + 1")[0], "2", "the next cell")
        equal(x.run("q")[2], "NameError", "it is a new kernel")
        x.s.out("pkill -KILL -f 'python_kernel[.]py'", user="root")
        eventually(lambda: x.run("2 + 2")[0] == "4", 20, "killed from outside while idle: found out by the next cell at the latest")
        c = x.start("import time; print('begun', flush=True); time.sleep(600)")
        rest = begun(c)
        context = next(c["id"] for c in x.call("GET", "/contexts").json() if c["language"] == "python")
        equal(x.call("POST", "/contexts/%s/restart" % context).status, 200, "restart under a cell")
        body = b"".join(rest)
        check(b"ContextRestarting" in body, "the cell is told", body)
        c.close()


@scenario("a context outlives its directory; a kernel that cannot be started is told of by an error and an end", data=True)
def lost_place(w):
    with interpreter(w) as x:
        x.s.out("mkdir gone")
        c = x.context(cwd="gone")["id"]
        x.s.out("rmdir gone")
        equal(x.run("import os; os._exit(1)", context_id=c)[2], "ContextRestarting", "its kernel ends")
        equal(x.run("import os; os.getcwd()", context_id=c)[0], "/home/user", "the next one stands at home")
        x.s.out("mv /usr/lib/python3/dist-packages/ipykernel /usr/lib/python3/dist-packages/away", user="root")
        x.run("import os; os._exit(1)", context_id=c)
        equal(x.run("1", context_id=c)[2], "WebSocketError", "there is no kernel")
        x.s.out("mv /usr/lib/python3/dist-packages/away /usr/lib/python3/dist-packages/ipykernel", user="root")
        equal(x.run("1", context_id=c)[0], "1", "there is one again")


FRAME = """
import datetime, decimal
import pandas as pd
pd.DataFrame({'day': [datetime.date(2024, 1, 2), None], 'price': [decimal.Decimal('1.50'), pd.NA], 'time': [pd.Timestamp('2024-01-02'), pd.NaT],
              'ratio': [0.5, float('nan')], 'took': [pd.Timedelta(seconds=1), pd.NaT], 7: ['x', 'y'], ('a', 1): [1, 2]})
"""


@scenario("data frames: values and names that JSON does not have are told as text, what is missing as null", data=True)
def frames(w):
    with interpreter(w) as x:
        if x.run("import pandas")[2] is not None:
            raise Skip("pandas is not installed (Debian: python3-pandas)")
        got = x.events(FRAME)
        equal([e["type"] for e in got], ["number_of_executions", "result"], "one result, no error, no warning")
        check("<table" in got[1]["html"], "as a table, too", got[1])
        data = got[1]["extra"].get("e2b/data") or got[1].get("data")
        took = data.pop("took")
        check(took[0].startswith("0 days 00:00:01") and took[1] is None, "spans of time", took)
        equal(data, {"day": ["2024-01-02", None], "price": ["1.50", None], "time": ["2024-01-02T00:00:00", None], "ratio": [0.5, None],
                     "7": ["x", "y"], "('a', 1)": [1, 2]}, "values")
        got = x.events("pd.DataFrame([[1, 2]], columns=['a', 'a'])")
        equal([e["type"] for e in got], ["number_of_executions", "result"], "a name that is there twice is no warning")


def installed(w, program):
    return shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is not None


@scenario("JavaScript and TypeScript: imports, await, state, results, errors, an endless loop; their default context is listed", data=True)
def javascript(w):
    if not installed(w, "node"):
        raise Skip("node is not installed (Debian: nodejs)")
    with interpreter(w) as x:
        check("javascript" in [c["language"] for c in x.call("GET", "/contexts").json()], "listed from the start")
        equal(x.run("import { readFileSync } from 'fs'\nconsole.log(typeof readFileSync)", language="js"), (None, "function\n", None), "import")
        equal(x.run("const a = await Promise.resolve(40); a + 2", language="JavaScript")[0], "42", "await")
        equal(x.run("a + process.env.MINE", language="js", env_vars={"MINE": "it's \u00e9"})[0], "40it's \u00e9", "state, variables")
        equal(x.run("process.env.MINE === undefined && process.env.GLOBAL", language="js")[0], "of create", "as they were")
        equal(x.run("throw new TypeError('no')", language="js")[2], "TypeError", "an error")
        c = x.start("console.log('begun'); for (;;);", language="js")
        begun(c)
        c.close()
        equal(x.run("a", language="js")[0], "40", "after an endless loop that nobody waits for")
        if installed(w, "esbuild"):
            equal(x.run("const m: string = 'typed'; console.log(m)", language="ts")[1], "typed\n", "TypeScript")
        else:
            equal(x.run("const m: string = 'typed'", language="ts")[2], "TypeScriptUnavailable", "TypeScript without esbuild")


@scenario("Bash keeps one shell: directory, variables, a status that is no success, an interrupt", data=True)
def bash(w):
    with interpreter(w) as x:
        equal(x.run("pwd; A=1; cd /tmp", language="bash"), (None, "/home/user\n", None), "where it starts")
        equal(x.run("echo $A $PWD $MINE $GLOBAL", language="bash", env_vars={"MINE": "it's"})[1], "1 /tmp it's of create\n", "state, variables")
        equal(x.run("echo \"[$MINE]\"", language="bash")[1], "[]\n", "as they were")
        check(x.run("false", language="bash")[2] is not None, "no success is an error")
        c = x.start("echo begun; sleep 600", language="bash")
        begun(c)
        c.close()
        equal(x.run("echo $A", language="bash")[1], "1\n", "after a command that nobody waits for")


@scenario("R: results, state, variables taken back, UTF-8, a directory, an interrupt after which the next cell runs at once", data=True)
def r_language(w):
    if "ir" not in kernels():
        raise Skip("IRkernel is not installed (Debian: r-cran-irkernel)")
    with interpreter(w) as x:
        def r(code, **more):        # IRkernel shows values, it has no main result
            return [e["text"] for e in x.events(code, language="r", **more) if e["type"] == "result"]
        equal(r("x <- 41; getwd()"), ['[1] "/home/user"'], "where it starts")
        equal(x.run("cat(Sys.getenv(c('MINE', 'GLOBAL')))", language="R", env_vars={"MINE": "it's \"\u00e9\\"})[1], "it's \"\u00e9\\ of create", "variables")
        equal(r("Sys.getenv('MINE', 'none'); x + nchar('\u6f22')"), ['[1] "none"', "[1] 42"], "as they were; state; a letter is one")
        equal(x.run("stop('no')", language="r")[2], "ERROR", "an error")
        c = x.start("message('begun')\nwhile (TRUE) Sys.sleep(0.1)", language="r")
        begun(c)
        behind = x.start("x", language="r")
        c.close()
        check(b"[1] 41" in b"".join(behind.chunks(behind.head(), "POST")), "one that waited behind it")
        behind.close()
        png = [e for e in x.events("plot(1:3)", language="r") if e["type"] == "result"]
        check("png" in png[0], "a plot", list(png[0]))


def jjava():
    """JJava's files by name; the kernelspec refers to them by {resource_dir}. It is no Debian package: what installs the tests' needs has put it there."""
    for place in (os.environ.get("HUTCH_KERNELS", ""), "/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels"):
        where = os.path.join(place, "java")
        if place and os.path.exists(os.path.join(where, "kernel.json")) and shutil.which("java") is not None:
            return {f: open(os.path.join(where, f), "rb").read() for f in os.listdir(where)}
    raise Skip("JJava or Java is not installed (Python package jjava, Debian: default-jdk-headless)")


@scenario("Java: over TCP; results, state, output, errors, variables, a directory, an interrupt, a restart, counts without cells of ours", data=True)
def java(w):
    files = jjava()
    with interpreter(w, memoryMB=2048) as x:
        for name, data in files.items():
            equal(x.s.envd.write("/root/.local/share/jupyter/kernels/java/" + name, data, username="root").status, 200, name)
        c = x.context(language="Java", cwd="/tmp")
        def run(code, **more):
            return x.run(code, context_id=c["id"], **more)
        got = x.events("int a = 40;\na + 2", context_id=c["id"])
        equal([(e["type"], e.get("execution_count"), e.get("text")) for e in got],
              [("number_of_executions", 1, None), ("result", None, "42")], "a first cell is the first")
        equal(run("System.out.println(\"hi \u00e9 \" + a); System.err.println(\"warn\");")[:2], (None, "hi \u00e9 40\n"), "output, state")
        equal(run("1 / 0")[2], "RuntimeException", "an error")
        equal(run("int b = \"no\";")[2], "CompilationException", "what does not compile")
        read = "System.out.println(System.getProperty(\"MINE\") + \"|\" + System.getProperty(\"GLOBAL\"));"
        odd = "it's \"\u00e9\\u0041\\ \n\t1 \x7f$x"
        equal(run(read, env_vars={"MINE": odd, "GLOBAL": "over"})[1], odd + "|over\n", "variables of a cell")
        equal(run(read)[1], "null|of create\n", "and as they were")
        equal(run("new java.io.File(\"f\").getAbsolutePath()")[0], "/tmp/f", "its directory")
        equal([e["execution_count"] for e in x.events("a", context_id=c["id"]) if "execution_count" in e], [8], "cells of ours are not counted")
        for loop in ("while (true) Thread.sleep(10);", "while (true);"):
            k = x.start("System.out.println(\"begun\");\n" + loop, context_id=c["id"])
            begun(k)
            k.close()
            equal(run("a")[0], "40", "after %r that nobody waits for" % loop)
        equal(x.call("POST", "/contexts/%s/restart" % c["id"]).status, 200, "restart")
        equal(run("a")[2], "CompilationException", "a new kernel")
        equal(run("System.getProperty(\"user.dir\")")[0], "/tmp", "in its directory")
        equal(x.run("System.getProperty(\"user.dir\")", language="java")[0], "/home/user", "its default context")
        ports = "ss -ltnH | awk '{print $4}' | grep -Ec '127[.]249[.]99[.]1[]]?:'"
        eventually(lambda: x.s.out(ports, user="root").strip() == "10", 0, "five sockets of each kernel, at an address that nothing forwards to")
        equal(x.call("DELETE", "/contexts/" + c["id"]).status, 200, "delete")
        eventually(lambda: x.s.out("pgrep -fc 'jjava[.]jar' || true", user="root").strip() == "2", 20, "one kernel and its launcher are left")


@scenario("a kernel of the image's own: a kernelspec that names its directory", data=True)
def own_kernel(w):
    with interpreter(w) as x:
        where = "/root/.local/share/jupyter/kernels/own"
        spec = {"argv": ["python3", "{resource_dir}/start.py", "-f", "{connection_file}"],
                "display_name": "own", "language": "python", "env": {"OWN": "$$1 ${HOME} $NONE_OF_IT"}}
        x.s.out("mkdir -p %s && echo 'from ipykernel.kernelapp import launch_new_instance as go; go()' >%s/start.py && cat >%s/kernel.json <<'E'\n%s\nE" %
                (where, where, where, json.dumps(spec)), user="root")
        equal(x.run("40 + 2", language="own")[:2], ("42", ""), "it runs cells")
        equal(x.run("import os; print(os.environ['OWN'])", language="own")[1], "$1 %s $NONE_OF_IT\n" % x.run("os.path.expanduser('~')", language="own")[0],
              "its variables")
        x.s.out("pkill -KILL -n -x hutch-interpret", user="root")
        eventually(lambda: x.s.run("pgrep -f own/start[.]py", user="root").exit_code == 1, 20, "it ends with the interpreter, of which it does not know")


@scenario("the interpreter killed from inside is back soon, with new kernels", data=True)
def recovery(w):
    with interpreter(w) as x:
        x.s.out("pkill -KILL -o -f python_kernel[.]py; pkill -KILL -n -x hutch-interpret", user="root")
        eventually(lambda: x.call("GET", "/health").status == 200, 30, "it is back")
        equal(x.run("x = 1; x")[0], "1", "and works")
        eventually(lambda: x.s.out("ls /run/hutch-interpreter | grep -c -- - || true", user="root").strip() == "1", 0, "nothing is left of the kernels that died")


@scenario("a language whose kernel is missing is told by name; floods of output arrive whole, and what is too long is told", data=True)
def floods(w):
    with interpreter(w) as x:
        if "ir" not in kernels():
            r = x.call("POST", "/contexts", {"language": "R"})
            equal((r.status, r.body), (500, b"Failed to create context: the r kernel is not installed in this sandbox (Debian package r-cran-irkernel)"), "R")
        equal(x.run("for i in range(50000): print(i)")[1], "".join("%d\n" % i for i in range(50000)), "many small ones")
        equal(len(x.run("print('x' * 20000000)")[1]), 20000001, "a large one")
        got = x.events("'y' * (60 << 20)")
        check("bytes left out" in "".join(e.get("text", "") for e in got if e["type"] == "stderr"), "a result that is too long", [e["type"] for e in got])
        c = x.start("while True: print('z' * 1000)")
        equal(c.head().status, 200, "one that prints for ever, and nobody reads")
        rss = int(x.s.out("sleep 3; grep VmRSS /proc/$(pgrep -o hutch-interp)/status", user="root").split()[1])
        check(rss < 300 << 10, "the interpreter's memory is bounded", "%d KiB" % rss)
        c.close()
        equal(x.run("'still here'")[0], "still here", "afterwards")
