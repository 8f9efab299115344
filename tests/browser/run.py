#!/usr/bin/env python3
"""Runs a browser (Chromium of Debian, steered by playwright-core) on a stack of its own and prints TAP.

    run.py --build DIR --server nginx|lighttpd|apache [--cache DIR] [--shots DIR] [--only TEXT]

Packages come from npm at the versions in package.json, once, into --cache. Pictures of what was seen go to --shots.
"""

import os
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), x) for x in ("lib", "sdk")]
sys.dont_write_bytecode = True

import run as clients  # noqa: E402
import stack as stacks  # noqa: E402
import tap  # noqa: E402
import world  # noqa: E402
from servers import SERVERS  # noqa: E402


def install(cache):
    where = os.path.join(cache, "browser")
    clients.install_package_json(os.path.join(HERE, "package.json"), where)
    return where


def tests(report, stack, w, args, chromium):
    env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_") and k.lower() not in ("http_proxy", "https_proxy", "all_proxy", "node_options")}
    env.update({"E2B_API_URL": stack.url, "E2B_SANDBOX_URL": stack.url, "E2B_API_KEY": w.api.key, "E2B_DOMAIN": stack.domain, "CHROMIUM": chromium,
                "BROWSER_MODULES": install(args.cache), "SHOTS": args.shots})
    only = ["--test-name-pattern=" + x for x in args.only]
    p = subprocess.Popen([*clients.NODE_TEST, *only, os.path.join(HERE, "browser.test.mjs")], env=env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    guard = threading.Timer(clients.HANG, p.kill)
    guard.daemon = True
    guard.start()
    clients.relay_output(report, p.stdout, "browser")
    if p.wait() < 0 or not report.number:
        report.not_ok("browser: the run", "ended with %d" % p.returncode)
    guard.cancel()


def main():
    p = tap.arguments(__doc__)
    p.add_argument("--build", default=os.environ.get("HUTCH_BUILD", os.getcwd()))
    p.add_argument("--server", default="nginx", choices=tuple(SERVERS))
    p.add_argument("--cache")
    p.add_argument("--shots")
    args = p.parse_args()
    args.cache = os.path.abspath(args.cache or os.path.join(args.build, "sdk-cache"))
    args.shots = os.path.abspath(args.shots or os.path.join(args.cache, "shots-" + args.server))
    chromium = shutil.which("chromium")
    if chromium is None:
        print("1..0 # SKIP browser: chromium is not installed")
        return 77
    os.makedirs(args.shots, exist_ok=True)
    tap.end_cleanly()
    report = tap.Reporter("%s: " % args.server)
    stack = stacks.Stack(args.build, args.server, repair_s=60)       # as for the clients: what is slow is not half-made
    try:
        stack.start()
        tests(report, stack, world.World(stack, args.server, world.WebFront(stack.where)), args, chromium)
    except Exception as e:
        report.not_ok("the stack", tap.describe(e))
    finally:
        stack.finish(report)
    report.plan()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
