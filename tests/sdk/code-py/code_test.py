"""The published Python client of the code interpreter against a running stack, synchronous and asynchronous.

Everything it needs comes from the environment: E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY, E2B_DOMAIN; CHARTS, R, TYPESCRIPT: there is what these need; JAVA: the directory of its kernel.
Run with the interpreter of an environment that holds the client; prints TAP.
"""

import asyncio
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

import sdk  # noqa: E402
import tap  # noqa: E402
from e2b.exceptions import InvalidArgumentException, NotFoundException  # noqa: E402
from e2b_code_interpreter import AsyncSandbox, Sandbox  # noqa: E402
from tap import Skip, check, equal, eventually, raises  # noqa: E402

suite = tap.Suite()
case = suite.scenario


LONG = 600          # seconds: what bounds a hang and nothing else; the client's own minute would tell how busy the machine is
shared = sdk.Shared(lambda: Sandbox.create(timeout=7200, request_timeout=LONG, envs={"GLOBAL": "of create"}))


def needs(what):
    if os.environ.get(what) != "1":
        raise Skip("no %s on this machine" % what.lower())


@case("run code: result, state, count, nothing extra")
def basic():
    s = shared()
    s.run_code("x = 1")
    r = s.run_code("x += 1; x")
    equal((r.text, r.execution_count, r.error, r.results[0].extra), ("2", 2, None, {}), "result")
    equal(s.run_code("'quoted'").text, "quoted", "quotes")


@case("output and errors come by their callbacks, characters that split lines too")
def callbacks():
    out, err, results, errors = [], [], [], []
    text = "\u00e9\u2028\u0085\u001c\U0001f600"
    r = shared().run_code("import sys\nprint(%r * 3000)\nprint('warn', file=sys.stderr)\ndisplay('shown')\n1/0" % text, on_stdout=lambda m: out.append(m.line),
                          on_stderr=lambda m: err.append(m.line), on_result=lambda m: results.append(m.text), on_error=lambda e: errors.append(e.name))
    equal("".join(out), text * 3000 + "\n", "stdout")
    equal(("".join(err), results, errors), ("warn\n", ["shown"], ["ZeroDivisionError"]), "the others")
    check("ZeroDivisionError" in r.error.traceback and "\x1b" not in r.error.traceback, "traceback", r.error.traceback)


@case("variables: of the sandbox, of a cell, indented cells")
def variables():
    s = shared()
    code = "    import os\n    print(os.environ.get('GLOBAL'), os.environ.get('MINE'))"
    equal("".join(s.run_code(code, envs={"MINE": "it's \"\u00e9\""}).logs.stdout), "of create it's \"\u00e9\"\n", "of a cell")
    equal("".join(s.run_code(code, envs={"GLOBAL": "over"}).logs.stdout), "over None\n", "over the sandbox's")
    equal("".join(s.run_code(code).logs.stdout), "of create None\n", "as they were")


@case("contexts: create, list, restart, remove")
def contexts():
    s = shared()
    c = s.create_code_context(language="python", cwd="/tmp")
    last = s.list_code_contexts()[-1]
    equal((last.id, last.language, last.cwd), (c.id, "python", "/tmp"), "listed last")
    check({"python", "javascript"} <= {x.language for x in s.list_code_contexts()}, "default ones")
    equal(s.run_code("import os; y = 1; os.getcwd()", context=c).text, "/tmp", "its directory")
    s.restart_code_context(c.id)
    equal(s.run_code("y", context=c).error.name, "NameError", "restarted")
    s.remove_code_context(c.id)
    check(c.id not in [x.id for x in s.list_code_contexts()], "removed")
    with raises(NotFoundException):
        s.run_code("1", context=c)
    with raises(InvalidArgumentException):
        s.run_code("1", context=c, language="python")


@case("all languages: JavaScript, TypeScript, Bash, R where they are; what is missing is named")
def languages():
    s = shared()
    equal("".join(s.run_code("console.log('Hello, World!')", language="js").logs.stdout), "Hello, World!\n", "js")
    equal(s.run_code("await Promise.resolve('Hello World!')", language="js").text, "Hello World!", "await")
    equal("".join(s.run_code("echo $((6 * 7)); pwd", language="bash").logs.stdout), "42\n/home/user\n", "bash")
    if os.environ.get("TYPESCRIPT") == "1":
        equal("".join(s.run_code("const m: string = 'typed'; console.log(m)", language="ts").logs.stdout), "typed\n", "ts")
    if os.environ.get("R") == "1":
        equal("".join(s.run_code('print("Hello, World!")', language="r").logs.stdout), '[1] "Hello, World!"\n', "r")
    with raises(Exception, "no-such-kernel"):
        s.run_code("1", language="no-such-kernel")


@case("Java: result, state, output, an error, variables, a directory")
def java():
    where = os.environ.get("JAVA")
    if not where:
        raise Skip("no Java kernel on this machine")
    s = shared()
    for name in os.listdir(where):
        with open(os.path.join(where, name), "rb") as f:
            s.files.write("/root/.local/share/jupyter/kernels/java/" + name, f.read(), user="root")
    s.run_code("int x = 41;", language="java")
    r = s.run_code("System.out.println(\"hi\"); x + 1", language="java")
    equal((r.text, "".join(r.logs.stdout), r.execution_count, r.error), ("42", "hi\n", 2, None), "a cell")
    equal(s.run_code("1 / 0", language="java").error.name, "RuntimeException", "an error")
    read = 'System.out.println(System.getProperty("MINE"))'
    equal("".join(s.run_code(read, language="java", envs={"MINE": "it's \"\n"}).logs.stdout), "it's \"\n\n", "a variable")
    equal("".join(s.run_code(read, language="java").logs.stdout), "null\n", "and without it")
    equal("".join(s.run_code('System.out.println(System.getProperty("user.dir"))', language="java").logs.stdout), "/home/user\n", "its directory")


@case("display data, an own representation, JSON")
def displays():
    s = shared()
    r = s.run_code("class A:\n    def _repr_latex_(self):\n        return '$x$'\nfrom IPython.display import display\ndisplay({'text/latex': '$y$'}, raw=True)\nA()")
    equal([(x.latex, x.is_main_result) for x in r.results], [("$y$", False), ("$x$", True)], "latex")
    equal(list(r.results[0].formats()), ["latex"], "only what was shown")
    equal(s.run_code("{'a': [1, 2.5, None]}").results[0].json, {"a": [1, 2.5, None]}, "JSON")


@case("charts and data frames")
def charts():
    needs("CHARTS")
    s = shared()
    r = s.run_code("import pandas as pd, numpy as np\npd.DataFrame({'a': np.arange(2), 'b': ['x', 'y']})")
    equal(r.results[0].data, {"a": [0, 1], "b": ["x", "y"]}, "data")
    r = s.run_code("import matplotlib.pyplot as plt, datetime\nplt.plot([datetime.date(2024, 1, d) for d in (1, 2)], [1, 2], label='L')\n"
                   "plt.ylabel('V [mV]'); plt.show()")
    chart = r.results[0].chart
    equal((str(chart.type.value), chart.title, chart.x_label, chart.y_label, chart.y_unit, chart.x_scale.value),
          ("line", None, None, "V [mV]", "mV", "datetime"), "chart")
    equal([(e.label, [tuple(p) for p in e.points]) for e in chart.elements], [("L", [("2024-01-01", 1.0), ("2024-01-02", 2.0)])], "its points")
    check(r.results[0].png, "a picture, too")


@case("a timeout interrupts the cell, and the context goes on")
def interrupt():
    s = shared()
    with raises(Exception):
        s.run_code("import time; time.sleep(300)", timeout=1, request_timeout=10)      # older clients go by the longer of the two
    equal(s.run_code("1 + 1", timeout=200).text, "2", "the next cell, long before that one would have ended")


@case("a sandbox that is killed under an execution")
def killed():
    s = Sandbox.create(timeout=1200, request_timeout=LONG)
    started = []

    def end():
        try:
            eventually(lambda: s.files.exists("/tmp/runs"), LONG, "it runs")
            started.append(True)
        finally:
            s.kill()
    t = threading.Thread(target=end)
    t.start()
    with raises(Exception):
        s.run_code("open('/tmp/runs', 'w').close(); import time; time.sleep(1000)", timeout=3 * LONG)
    t.join()
    check(started, "it had begun")


@case("asynchronous: result, callbacks, contexts; many sandboxes' cells at a time")
def asynchronous():
    async def run():
        s = await AsyncSandbox.create(timeout=1200, request_timeout=LONG)
        try:
            out = []
            r = await s.run_code("print('hi'); 6 * 7", on_stdout=lambda m: out.append(m.line))
            equal((r.text, "".join(out)), ("42", "hi\n"), "result")
            c = await s.create_code_context()
            both = await asyncio.gather(s.run_code("a = 1; a"), s.run_code("a = 2; a", context=c))
            equal([x.text for x in both], ["1", "2"], "two contexts")
            equal([x.text for x in await asyncio.gather(*(s.run_code("%d" % i) for i in range(8)))], [str(i) for i in range(8)],
                  "cells that wait for one another")
        finally:
            await s.kill()
    asyncio.run(run())


if __name__ == "__main__":
    sdk.main(suite, __doc__, shared)
