#!/usr/bin/env python3
"""Runs the scenarios on a stack of their own and prints TAP.

    run.py --build DIR --front nginx|lighttpd|apache|cgi|fcgi [--only GLOB] [--keep]

One set for every front end; a scenario that needs the data plane is left out where there is none. After the last one
everything is stopped, and an audit looks for what is left: processes, mounts, control groups, loop devices, sockets.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]
sys.dont_write_bytecode = True

import lab  # noqa: E402
import stack as stacks  # noqa: E402
import tap  # noqa: E402
import world  # noqa: E402
from servers import SERVERS  # noqa: E402

# Ordered from the gentle to the rough.
MODULES = ("lifecycle", "listing", "access", "badinput", "edge", "traffic", "smuggling", "addressing", "lease", "pause",
           "snapshots", "webhooks", "pools", "startcmd", "agent", "interpreter", "twin", "vendor", "walk", "keys",
           "isolation", "network", "limits", "busybox", "differences",
           "frontends", "reload", "outage", "crash")


def front_of(kind, stack):
    if kind == "cgi":
        return world.CgiFront(stack)
    if kind == "fcgi":
        return world.FcgiFront(lambda program: stack.fcgi_socket(program.replace("hutch-", "")))
    return world.WebFront(stack.where)


def scenarios(kind, only):
    for module in MODULES:
        for name, needs, fn in __import__(module).suite.items:
            full = "%s: %s" % (module, name)
            if needs.get("data") and kind in ("cgi", "fcgi"):
                continue
            if tap.selected(full, only):
                yield full, fn


def main():
    p = tap.arguments(__doc__)
    p.add_argument("--build", default=os.environ.get("HUTCH_BUILD", os.getcwd()), help="directory with the built programs")
    p.add_argument("--front", default="nginx", choices=(*SERVERS, "cgi", "fcgi"))
    p.add_argument("--keep", action="store_true", help="leave the directory with its logs")
    args = p.parse_args()
    if args.list:
        for name, _ in scenarios(args.front, args.only):
            print(name)
        return 0
    tap.end_cleanly()
    report = tap.Reporter("%s: " % args.front)
    web = args.front if args.front in SERVERS else None
    try:
        stack = stacks.Stack(args.build, web, args.keep, lab=lab.Lab())
    except tap.Skip as e:
        print("1..0 # SKIP %s: %s" % (args.front, e))
        return 77
    try:
        stack.start()
        w = world.World(stack, args.front, front_of(args.front, stack))
        for name, fn in scenarios(args.front, args.only):
            failed = report.failed
            report.run(name, fn, w)
            if report.failed > failed:
                report.note("differences: %s" % (stack.differences() or "none")[:800])
    except Exception as e:
        report.not_ok("the stack", tap.describe(e))
    finally:
        stack.finish(report)
    report.plan()
    sys.stdout.flush()
    os._exit(1 if report.failed else 0)     # threads of a hung scenario do not keep us


if __name__ == "__main__":
    sys.exit(main())
