#!/usr/bin/env python3
"""Runs the published SDKs, unmodified and at pinned versions, on a stack of its own and prints TAP.

    run.py --build DIR --server NAME [--https] [--lang js|py|cli|code-js|code-py|desktop-py] [--newest] [--version V] [--only TEXT] [--cache DIR]

The clients are installed from their registries into --cache (default: sdk-cache in the build directory), once.
They get nothing but the variables that `run/env` of a quickstart has; with --https nothing but E2B_DOMAIN and the key, and
the authority that they trust: they make the addresses of the API and of every sandbox themselves. While they run, the memory
of every program is watched: transfers of 256 MiB must not show in it.

What tests the agent runs once more with it alone: in a sandbox, with nothing between client and a second hutch-envd on
localhost:49983 (the clients' E2B_DEBUG=true).
"""

import base64
import contextlib
import fcntl
import glob
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
sys.dont_write_bytecode = True

import envd as envds  # noqa: E402
import lab  # noqa: E402
import names  # noqa: E402
import sdk  # noqa: E402
import stack as stacks  # noqa: E402
import tap  # noqa: E402
import world  # noqa: E402
from servers import SERVERS  # noqa: E402

LANGS = ("js", "py", "cli", "code-js", "code-py", "desktop-py")
GROWTH = 96 << 20       # what a program may grow by during all tests: two hundred TLS connections at once are 55 MiB in Apache, a file is 256
HANG = 3600             # seconds after which a client's run counts as hung: no more than that, however busy the machine is
# The code interpreter's client leaves a timer for every cell; node would wait for each of them to run out.
NODE_TEST = ["node", "--test", "--test-force-exit", "--test-reporter=tap"]
PAUSES = (2, 5, 15, 45)  # seconds between tries to install: a registry has its moments


def versions(lang):
    """Oldest first."""
    found = (v for v in os.listdir(os.path.join(HERE, lang)) if re.match(r"^\d+\.\d+\.\d+$", v))
    return sorted(found, key=lambda v: [int(x) for x in v.split(".")])


@contextlib.contextmanager
def alone_in(cache):
    """One run installs at a time: others that share the cache find what it left."""
    with open(os.path.join(cache, "lock"), "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def install(where, prepare, argv):
    """Once, whole or not at all: the mark is made last. prepare makes the directory, argv(where) is run in it, a few times if need be."""
    with alone_in(os.path.dirname(where)):
        for pause in (*PAUSES, None):
            if os.path.exists(os.path.join(where, "installed")):
                return
            shutil.rmtree(where, ignore_errors=True)
            os.makedirs(where)
            try:
                prepare(where)
                subprocess.run(argv, cwd=where, check=True, stdout=sys.stderr, timeout=1200)
            except subprocess.SubprocessError as e:
                if pause is None:
                    raise
                print("# %s: once more in %d s" % (e, pause), file=sys.stderr, flush=True)
                time.sleep(pause)
                continue
            open(os.path.join(where, "installed"), "w").close()


def install_package_json(path, where):
    install(where, lambda d: shutil.copy(path, d), ["npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--silent"])


def install_npm(kind, package, version, cache):
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise tap.Skip("node or npm is not installed")
    major, minor, _ = (int(x) for x in subprocess.check_output(["node", "-p", "process.versions.node"]).decode().split("."))
    if (major, minor) < (20, 18):
        raise tap.Skip("the client needs node 20.18.1, this one is %d.%d" % (major, minor))
    where = os.path.join(cache, "%s-%s" % (kind, version))
    install_package_json(os.path.join(HERE, kind, version, "package.json"), where)
    if not os.path.isdir(os.path.join(where, "node_modules", package)):
        raise OSError("npm installed no %s" % package)
    return where


def install_py(kind, version, cache):
    where = os.path.join(cache, "%s-%s" % (kind, version))
    python = os.path.join(where, "bin/python")
    install(where, lambda d: subprocess.run([sys.executable, "-m", "venv", d], check=True, stdout=sys.stderr, timeout=600),
            [python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "-r", os.path.join(HERE, kind, version, "requirements.txt")])
    return python


def there(what):
    """Is it on this machine, which image `host` shows?"""
    if what.startswith("/"):
        return os.path.exists(what)
    return subprocess.run(["/usr/bin/python3", "-c", "import " + what], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def java_kernel():
    """Directory of JJava's kernelspec, which the tests copy into their sandbox; none without Java."""
    places = (os.environ.get("HUTCH_KERNELS", ""), "/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels")
    found = (os.path.join(p, "java") for p in places if p and os.path.exists(os.path.join(p, "java/kernel.json")))
    return next(found, None) if there("/usr/bin/java") else None


def code_interpreter(w, env):
    """The template that these clients start, and what its cells can use."""
    if not there("ipykernel") or not there("/usr/bin/node"):
        raise tap.Skip("there is no kernel (Debian: python3-ipykernel nodejs)")
    w.template("code-interpreter-v1", command=["/run/hutch/hutch-interpreter"], readyPort=49999, memoryMB=1536)
    env.update({"CHARTS": str(int(there("matplotlib, pandas"))), "TYPESCRIPT": str(int(there("/usr/bin/esbuild"))),
                "R": str(int(there("/usr/share/jupyter/kernels/ir"))), "JAVA": java_kernel() or ""})


def code_commands(w, lang, version, cache, only, env):
    """The same for the clients of the code interpreter."""
    code_interpreter(w, env)
    if lang == "code-js":
        env["E2B_SDK"] = install_npm(lang, "@e2b/code-interpreter", version, cache)
        argv = NODE_TEST + (["--test-name-pattern=" + only] if only else [])
        return [argv + [os.path.join(HERE, "code-js/code.test.mjs")]]
    return [[install_py(lang, version, cache), os.path.join(HERE, "code-py/code_test.py")] + (["--only", only] if only else [])]


def desktop_commands(w, lang, version, cache, only, env):
    """The same for the client of desktops; its templates have stand-ins for what Debian lacks."""
    with open(os.path.join(HERE, lang, "stand-ins.sh"), encoding="utf-8") as f:
        command = ["/bin/sh", "-c", f.read()]
    for alias in ("desktop", "mcp-gateway"):
        w.template(alias, command=command, readyPort=48000, memoryMB=1024)
    programs = ("Xvfb", "xdpyinfo", "xrandr", "xset", "x11vnc", "xterm", "xdotool", "scrot", "netstat")
    env["DESKTOP"] = str(int(all(there("/usr/bin/" + p) for p in programs)))
    return [[install_py(lang, version, cache), os.path.join(HERE, lang, "desktop_test.py")] + (["--only", only] if only else [])]


def commands(w, lang, version, cache, only, env):
    """The client's test programs."""
    if lang == "desktop-py":
        return desktop_commands(w, lang, version, cache, only, env)
    if lang.startswith("code-"):
        return code_commands(w, lang, version, cache, only, env)
    if lang == "js":
        env["E2B_SDK"] = install_npm("js", "e2b", version, cache)
        argv = NODE_TEST + (["--test-name-pattern=" + only] if only else [])
        return [argv + [os.path.join(HERE, "js", f)] for f in ("sdk.test.mjs", "guest.test.mjs")]
    only = ["--only", only] if only else []
    if lang == "cli":
        env["E2B_CLI"] = os.path.join(install_npm("cli", "@e2b/cli", version, cache), "node_modules/.bin/e2b")
        return [[sys.executable, os.path.join(HERE, "cli/cli_test.py")] + only]
    return [[install_py(lang, version, cache), os.path.join(HERE, "py", f)] + only for f in ("sdk_test.py", "guest_test.py")]


class Watch(threading.Thread):
    """The largest memory of each program while a client runs."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.end = stack, threading.Event()
        self.first, self.most = stack.memory(), {}

    def run(self):
        while not self.end.wait(0.05):
            for k, v in self.stack.memory().items():
                self.most[k] = max(v, self.most.get(k, 0))

    def grown(self):
        self.end.set()
        self.join()
        typical = min((v for k, v in self.first.items() if k.startswith("agent ")), default=0)
        return {k: v - self.first.get(k, typical) for k, v in self.most.items() if v - self.first.get(k, typical) > GROWTH}


def relay_output(report, lines, name):
    """The client's own TAP lines, renumbered; what is no test line goes on as a comment."""
    passed = False
    for line in lines:
        line = line.decode("utf-8", "replace").rstrip("\n")
        m = re.match(r"^(not ok|ok) \d+ - (.*?)(?: # (SKIP|TODO)\b\s*(.*))?$", line)
        if not m:
            if passed and line.startswith("  "):
                continue            # node's details of a test that passed
            if line.strip() and not re.match(r"^(TAP version|1\.\.\d+|# Subtest|# (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) )", line):
                report.say("# " + line)
            continue
        word, text, directive, why = m.groups()
        passed = word == "ok"
        text = re.sub(r" # \d+\.\d+ s$", "", text)
        if directive:
            report.skip("%s: %s" % (name, text), why or "no reason given")
        elif word == "ok":
            report.ok("%s: %s" % (name, text))
        else:
            report.not_ok("%s: %s" % (name, text), "see the lines that follow")


def one(report, stack, w, lang, version, args):
    name = "%s %s%s" % (lang, version, " https" if args.https else "")
    env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_") and k.lower() not in ("http_proxy", "https_proxy", "all_proxy", "node_options")}
    if args.https:
        env.update({"NODE_EXTRA_CA_CERTS": stack.tls_where.ca, "SSL_CERT_FILE": stack.tls_where.ca})
    else:
        env.update({"E2B_API_URL": stack.url, "E2B_SANDBOX_URL": stack.url})
    env.update({"E2B_API_KEY": w.api.key, "E2B_DOMAIN": stack.domain,
                "HUTCH_EPOCH": str(stack.now() - time.monotonic()), "OTHER_API_KEY": w.team("other"), "E2B_SDK_VERSION": version, "INTERNET": "%s %s" % (lab.ONE, lab.TWO), "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        programs = commands(w, lang, version, args.cache, args.only[0] if args.only else None, env)
    except tap.Skip as e:
        report.skip(name, str(e))
        return
    except (subprocess.SubprocessError, OSError) as e:
        report.not_ok(name, "the client could not be installed: %s" % e)
        return
    watch = Watch(stack)
    watch.start()
    before = report.number
    for argv in programs:
        p = subprocess.Popen(args.names.command(argv) if args.https else argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        guard = threading.Timer(HANG, p.kill)
        guard.daemon = True
        guard.start()
        relay_output(report, p.stdout, name)
        status = p.wait()
        guard.cancel()
        if status < 0:
            report.not_ok("%s: the client's run" % name, "ended with %d after %d results" % (status, report.number - before))
    if report.number == before:
        report.not_ok("%s: the client's run" % name, "had no result")
    grown = watch.grown()
    if not args.only or "256" in args.only[0]:
        if grown:
            report.not_ok("%s: memory stays flat" % name, "\n".join("%s grew by %d MiB" % (k, v >> 20) for k, v in sorted(grown.items())))
        else:
            report.ok("%s: memory of every program stays flat" % name)


# ---- the agent alone ----

def bundle(lang, version, args):
    """A tar of what a client needs inside of a sandbox, and its command there."""
    out, only = io.BytesIO(), args.only[:1]
    with tarfile.open(fileobj=out, mode="w") as t:
        t.add(os.path.join(args.build, "hutch-envd"), "hutch-envd")
        if lang == "js":
            t.add(os.path.join(install_npm("js", "e2b", version, args.cache), "node_modules"), "node_modules")
            t.add(subprocess.check_output(["node", "-p", "process.execPath"]).decode().strip(), "node")      # in PATH may be a script for it
            for f in ("client.mjs", "guest.test.mjs"):
                t.add(os.path.join(HERE, "js", f), f)
            argv = ["./node", *NODE_TEST[1:]] + ["--test-name-pattern=" + x for x in only] + ["guest.test.mjs"]
        else:
            t.add(glob.glob(os.path.join(os.path.dirname(os.path.dirname(install_py(lang, version, args.cache))), "lib/python*/site-packages"))[0],
                  "site-packages")
            t.add(os.path.join(HERE, "py/guest_test.py"), "sdk/py/guest_test.py")
            for m in (tap, sdk):
                t.add(m.__file__, "lib/" + os.path.basename(m.__file__))
            argv = ["python3", "sdk/py/guest_test.py"] + [a for x in only for a in ("--only", x)]
    return out.getvalue(), argv


def output_lines(stream):
    rest = b""
    for e in stream.events():
        *lines, rest = (rest + b"".join(base64.b64decode(d) for d in e.get("data", {}).values())).split(b"\n")
        yield from lines
    if rest:
        yield rest


def alone(report, w, lang, version, args):
    name = "%s %s, agent alone" % (lang, version)
    before = report.number
    try:
        data, argv = bundle(lang, version, args)
        with w.create(template="roomy", timeout=2 * HANG) as s:
            if lang == "py" and s.out("python3 -c 'import sys; print(*sys.version_info[:2])'").split() != [str(x) for x in sys.version_info[:2]]:
                raise tap.Skip("the client is built for another Python than the sandbox has")
            envd = envds.Envd(s.envd.where, s.id, s.envd.token, timeout=HANG)
            tap.equal(envd.write("/opt/bundle.tar", data, username="root").status, 200, "upload")
            envd.out("cd /opt && tar xf bundle.tar && rm bundle.tar && chown -R user:user . && chown root:root hutch-envd", user="root")
            agent = envd.start("/opt/hutch-envd", ["--listen-port", "49983", "--default-user", "user"], user="root")
            tap.eventually(lambda: envd.run("curl -sf http://localhost:49983/health").exit_code == 0, 20, "the agent answers")
            st = envd.start("/bin/sh", ["-c", 'cd /opt && exec "$@" 2>&1', "sh", *argv],
                            envs={"E2B_DEBUG": "true", "E2B_SDK": "/opt", "PYTHONPATH": "/opt/site-packages",
                                                                                         "E2B_API_KEY": "e2b_" + "0" * 40, "PYTHONDONTWRITEBYTECODE": "1"})
            relay_output(report, output_lines(st), name)
            tap.equal(envd.run("curl -sf http://localhost:49983/health").exit_code, 0, "the agent still answers")
            agent.close()
    except tap.Skip as e:
        report.skip(name, str(e))
        return
    except Exception as e:
        report.not_ok(name, tap.describe(e))
    if report.number == before and not args.only:
        report.not_ok(name, "had no result")


def main():
    p = tap.arguments(__doc__)
    p.add_argument("--build", default=os.environ.get("HUTCH_BUILD", os.getcwd()))
    p.add_argument("--server", default="nginx", choices=tuple(SERVERS))
    p.add_argument("--https", action="store_true", help="https, with E2B_DOMAIN alone")
    p.add_argument("--lang", action="append", choices=LANGS)
    p.add_argument("--version", action="append")
    p.add_argument("--newest", action="store_true", help="only the newest version of each")
    p.add_argument("--cache")
    p.add_argument("--keep", action="store_true")
    args = p.parse_args()
    args.cache = os.path.abspath(args.cache or os.path.join(args.build, "sdk-cache"))
    os.makedirs(args.cache, exist_ok=True)
    args.names = None
    tap.end_cleanly()
    report = tap.Reporter("%s: " % args.server)
    try:
        # No program is killed here: the repair of half-made records, early as scenarios of that want it, would undo what is merely slow.
        stack = stacks.Stack(args.build, args.server, args.keep, domain_is="https" if args.https else None, lab=lab.Lab(), repair_s=60)
    except tap.Skip as e:
        print("1..0 # SKIP %s: %s" % (args.server, e))
        return 77
    try:
        stack.start()
        args.names = names.Names(stack.dir)
        w = world.World(stack, args.server, world.WebFront(stack.where))
        for name, kind in (("rows", "none"), ("js", "light")):
            stack.door("POST", "/_twin/machine-pool", {"name": name, "kind": kind})
            w.template("pool-" + name, pool=name)
        w.template("roomy", memoryMB=2048, diskSizeMB=4096)
        for lang in args.lang or LANGS:
            for version in versions(lang)[-1 if args.newest else 0:]:
                if not args.version or version in args.version:
                    one(report, stack, w, lang, version, args)
                    if lang in ("js", "py") and not args.https:
                        alone(report, w, lang, version, args)
        try:
            tap.eventually(stack.agrees, 2 * stack.repair_s, "rows and machines agree at the end")
        except tap.Failed as e:
            raise tap.Failed("%s: %s" % (e, stack.differences())) from None
    except Exception as e:
        report.not_ok("the stack", tap.describe(e))
    finally:
        stack.finish(report)
        if args.names:
            args.names.close()
    report.plan()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
