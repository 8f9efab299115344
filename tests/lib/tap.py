"""A small runner: named scenarios, TAP on standard output, failures with where and why."""

import argparse
import contextlib
import fnmatch
import os
import signal
import sys
import threading
import time
import traceback


class Skip(Exception):
    """Raised by a scenario that cannot run here; the text says why."""


class Failed(AssertionError):
    pass


def check(condition, text, *details):
    """Fails the scenario unless the condition holds; details are shown as they are."""
    if not condition:
        shown = "".join("\n%s" % (d,) for d in details)
        raise Failed(text + shown)


def equal(got, want, text):
    check(got == want, text, "got:  %r" % (got,), "want: %r" % (want,))


def one_of(got, choices, text):
    check(got in choices, text, "got:    %r" % (got,), "one of: %r" % (choices,))


def within(low, value, high, text):
    check(low <= value <= high, text, "got %r, want from %r to %r" % (value, low, high))


PATIENCE = 90       # seconds at least: a shorter wait would tell how busy the machine is
LIMIT = 900         # seconds of one scenario: it ends one that hangs, and no other


def eventually(fn, seconds, text, step=0.02):
    """Waits until fn() is true; answers what fn said. Not a sleep: the condition ends it."""
    seconds = max(seconds, PATIENCE)
    end = time.monotonic() + seconds
    while True:
        value = fn()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed("%s: not within %g s" % (text, seconds))
        time.sleep(step)


def can(measure, text, tries=5):
    """A bound on time, which a busy machine misses now and then: measure() says what was too slow, or "". Once in time is proof that it can be
    kept; what is slow by itself is so each time."""
    said = []
    for _ in range(tries):
        why = measure()
        if not why:
            return
        said.append(why)
    raise Failed("%s: too slow %d times" % (text, tries) + "".join("\n" + x for x in said))


@contextlib.contextmanager
def raises(kind, text=""):
    """What stands in it raises an exception of that kind that says `text`."""
    try:
        yield
    except kind as e:
        check(text in str(e), "%s says %r" % (type(e).__name__, text), str(e))
        return
    check(False, "no %s was raised" % getattr(kind, "__name__", kind))


class Suite:
    """Scenarios in the order in which they were declared."""

    def __init__(self):
        self.items = []

    def scenario(self, name, **needs):
        """Declares a scenario. needs: what a front end must offer, e.g. data=True for the data plane."""
        def keep(fn):
            self.items.append((name, needs, fn))
            return fn
        return keep


class Reporter:
    def __init__(self, prefix="", out=sys.stdout):
        self.prefix = prefix
        self.out = out
        self.number = self.passed = self.failed = self.skipped = 0

    def say(self, line):
        self.out.write(line + "\n")
        self.out.flush()

    def note(self, text):
        for line in str(text).rstrip().splitlines():
            self.say("# " + line)

    def ok(self, name, seconds=None):
        self.number += 1
        self.passed += 1
        tail = "" if seconds is None else " # %.2f s" % seconds
        self.say("ok %d - %s%s%s" % (self.number, self.prefix, name, tail))

    def skip(self, name, why):
        self.number += 1
        self.skipped += 1
        self.say("ok %d - %s%s # SKIP %s" % (self.number, self.prefix, name, why))

    def not_ok(self, name, why):
        self.number += 1
        self.failed += 1
        self.say("not ok %d - %s%s" % (self.number, self.prefix, name))
        self.note(why)

    def run(self, name, fn, *args, limit=LIMIT):
        """One scenario; a hang is a failure after `limit` seconds, and then the run ends: its state is unknown."""
        box = {}

        def work():
            try:
                fn(*args)
                box["ok"] = True
            except Skip as e:
                box["skip"] = str(e)
            except BaseException as e:  # noqa: a scenario's any failure is a result
                box["why"] = describe(e)

        started = time.monotonic()
        t = threading.Thread(target=work, name=name, daemon=True)
        t.start()
        t.join(limit)
        if t.is_alive():
            frame = sys._current_frames().get(t.ident)
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            self.not_ok(name, "still running after %d s\n%s" % (limit, stack))
            return False
        if "ok" in box:
            self.ok(name, time.monotonic() - started)
        elif "skip" in box:
            self.skip(name, box["skip"])
        else:
            self.not_ok(name, box.get("why", "ended without a result"))
        return "why" not in box

    def plan(self):
        self.say("1..%d" % self.number)


def describe(e):
    if isinstance(e, Failed):
        frames = traceback.extract_tb(e.__traceback__)
        where = [f for f in frames if os.path.basename(f.filename) != "tap.py"]
        lines = ["%s:%d: %s" % (os.path.basename(f.filename), f.lineno, f.line) for f in where[-3:]]
        return "%s\nat %s" % (e, "\n   ".join(lines))
    return "".join(traceback.format_exception(type(e), e, e.__traceback__))


def end_cleanly():
    """SIGTERM and SIGHUP end the run as an exception does: what was started is stopped."""
    def leave(number, _):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def arguments(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--only", action="append", default=[], metavar="GLOB", help="run scenarios whose name matches")
    p.add_argument("--list", action="store_true", help="print the names and stop")
    return p


def selected(name, patterns):
    return not patterns or any(fnmatch.fnmatch(name, "*%s*" % p) for p in patterns)
