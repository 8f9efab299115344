"""What the tests of the clients share: one sandbox for many cases, and the end of a run."""

import os
import sys
import urllib.error
import urllib.request

import tap

tap.PATIENCE = max(tap.PATIENCE, 120)      # several of these runs go side by side


class Shared:
    """One sandbox for the cases that need no own, made at its first use."""

    def __init__(self, make):
        self.make, self.box = make, None

    def __call__(self):
        if self.box is None:
            self.box = self.make()
        return self.box

    def kill(self):
        if self.box is not None:
            self.box.kill()


def ask(s, port, path="/", **headers):
    """Status and text of a sandbox's port, as somebody outside asks for it."""
    url = os.environ.get("E2B_SANDBOX_URL") or "https://" + s.get_host(port)
    h = {"E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": str(port), **{k.replace("_", "-"): v for k, v in headers.items()}}
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, headers=h), timeout=300) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def leave(report):
    """The plan, and out: threads of a hung case do not keep us."""
    report.plan()
    sys.stdout.flush()
    os._exit(1 if report.failed else 0)


def main(suite, description, shared=None):
    """Runs the cases that were asked for; never returns."""
    args = tap.arguments(description).parse_args()
    report = tap.Reporter(os.environ.get("TAP_PREFIX", ""))
    try:
        for name, _, fn in suite.items:
            if tap.selected(name, args.only):
                report.run(name, fn, limit=1800)
    finally:
        if shared is not None:
            shared.kill()
    leave(report)
