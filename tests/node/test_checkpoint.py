#!/usr/bin/env python3
"""Checkpoints of hutch-node on a real kernel, with the probe in the agent's place. Needs root."""

import contextlib
import os
import signal
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "lib"))
sys.path.insert(0, here)

from pool import at_once, capable, crash_under_load, run, sandbox_id    # noqa: E402
from tap import Suite, check, equal, eventually         # noqa: E402

suite = Suite()
scenario = suite.scenario


def there(box, path):
    return "ENOENT" not in box.ask("stat", path) and "No such" not in box.ask("stat", path)


def frozen(n):
    """Groups of sandboxes that do not run."""
    out = []
    for group in n.cgroups():
        for name, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            with contextlib.suppress(OSError), open(os.path.join(group, name)) as f:
                if f.read().strip() != word:
                    out.append(group)
    return out


def files(n):
    return n.files("state", "node", "ck")


@scenario("a checkpoint holds the files of its instant; the source goes on; what starts from it is a sandbox of its own")
def basic(n):
    capable(n, "checkpoint")
    n.pools(dict(cpu_count=2, memory_mb=160))
    with n.claim() as s:
        pid = n.listed()[s.id]["pid"]
        s.ask("write", "/before")
        c = n.checkpoint(s.id, "one")
        check(c["id"].startswith("ck_") and c["name"] == "one" and c["sandbox_id"] == s.id, "the checkpoint", c)
        equal((c["key"], c["bytes"] > 0, c["bytes"] < 8 << 20), ({"template": "base", "net": "none"}, True, True), "key and size: %r" % c)
        equal(n.checkpoint(s.id, "one")["id"], c["id"], "asked twice it is one")
        s.ask("write", "/after")
        equal(n.listed()[s.id]["pid"], pid, "the source is the same process")
        equal(frozen(n), [], "and runs")
        with n.claim_from(c["id"]) as t, n.claim_from(c["id"]) as u:
            row = n.listed()[t.id]
            equal((row["cpu_count"], row["mem_total_bytes"], row["template"]), (2, 160 << 20, "base"), "its shape")
            check(row["pid"] != pid and t.id != u.id, "machines of their own")
            t.ask("write", "/mine")
            equal([there(t, p) for p in ("/before", "/after", "/mine")], [True, False, True], "files of the first")
            equal([there(u, p) for p in ("/before", "/after", "/mine")], [True, False, False], "files of the second")
            equal(there(s, "/mine"), False, "nothing comes back to the source")
            n.must(204, "DELETE", "/v1/checkpoints/" + c["id"])
            equal(n.call("DELETE", "/v1/checkpoints/" + c["id"]).status, 404, "twice")
            check(there(t, "/before"), "what started from it has its disk")
        equal((n.checkpoints(), files(n)), ([], []), "nothing is left of it")
    eventually(n.agrees, 10, "nor of the sandboxes")


@scenario("what was deleted is not copied")
def deleted(n):
    capable(n, "checkpoint")
    n.pools(dict())
    with n.claim() as s:
        equal(s.ask("fill", "/big 20").split()[0], "20", "MiB written")
        big = n.checkpoint(s.id, "big")
        check(big["bytes"] > 20 << 20, "the copy holds them", big)
        s.ask("unlink", "/big")
        small = n.checkpoint(s.id, "small")
        check(small["bytes"] < 8 << 20, "the next one does not", small)
        for c in (big, small):
            n.must(204, "DELETE", "/v1/checkpoints/" + c["id"])


@scenario("checkpoints: refusals")
def refusals(n):
    capable(n, "checkpoint")
    n.pools(dict())

    def error(status, method, path, body, text=""):
        r = n.call(method, path, body)
        equal(r.status, status, "%s %s %r: %r" % (method, path, body, r.body[:200]))
        check(text in r.json()["error"], "error text", r.body)
    with n.claim() as s:
        at = "/v1/sandboxes/%s/checkpoint" % s.id
        for name in ("", "a b", "-a", "a" * 64, "a/\u00e4"):
            error(400, "POST", at, {"name": name}, "name")
        error(400, "POST", at, {}, "name")
        error(400, "POST", at, {"name": "x", "max_bytes": "1"}, "max_bytes")
        error(400, "POST", at, b"[", "invalid request body")
        error(413, "POST", at, {"name": "x", "max_bytes": 4096}, "bytes")
        error(404, "POST", "/v1/sandboxes/sb_00000000000000000000/checkpoint", {"name": "x"}, "unknown sandbox")
        error(404, "POST", "/v1/checkpoints/ck_00000000000000000000/claim", {"claim_ref": "x", "init": {}}, "unknown checkpoint")
        equal((n.checkpoints(), files(n)), ([], []), "nothing of it was made")
        c = n.checkpoint(s.id, "x")
        with n.claim() as other:
            error(409, "POST", "/v1/sandboxes/%s/checkpoint" % other.id, {"name": "x"}, "another sandbox")
        error(400, "POST", "/v1/checkpoints/%s/claim" % c["id"], {"init": {}}, "claim_ref")
        n.must(204, "POST", "/v1/sandboxes/%s/hibernate" % s.id)
        error(409, "POST", at, {"name": "y"}, "hibernated")
        n.must(204, "DELETE", "/v1/checkpoints/" + c["id"])


@scenario("checkpoints of a daemon before: kept over SIGTERM and kill -9, taken of adopted sandboxes, gone after a purge")
def restart(n):
    capable(n, "checkpoint")
    n.pools(dict())
    made = []
    with n.claim() as s:
        for sig in (signal.SIGTERM, signal.SIGKILL):
            s.ask("write", "/x%d" % len(made))
            made.insert(0, n.checkpoint(s.id, "c%d" % len(made))["id"])
            n.stop(sig)
            n.start()
            equal(n.checkpoints(), made, "all are there, newest first")
        s.ask("write", "/adopted")
        made.insert(0, n.checkpoint(s.id, "adopted")["id"])
        with n.claim_from(made[0]) as t:
            check(there(t, "/x0") and there(t, "/adopted"), "files")
    n.stop()
    n.purge()
    equal(n.leftovers(), [], "after a purge")
    n.start()
    equal(n.checkpoints(), [], "none")


@scenario("kill -9 in the middle of checkpoints: sandboxes run, and what is listed is whole")
def crash(n):
    capable(n, "checkpoint")
    n.pools(dict())
    boxes = [n.claim() for _ in range(3)]
    for b in boxes:
        b.ask("write", "/kept")
    for round_ in range(5):
        begun = []

        def work(i):
            begun.append(1)
            n.call("POST", "/v1/sandboxes/%s/checkpoint" % boxes[i].id, {"name": "r%d-%d-%d" % (round_, i, len(begun))})
        crash_under_load(n, 3, work, lambda: len(begun) > 4 + round_)
        equal(set(n.listed()), {b.id for b in boxes}, "all sandboxes are there")
        equal(frozen(n), [], "and run")
        ids = n.checkpoints()
        equal(set(files(n)), {i + end for i in ids for end in (".img", ".json")}, "files are those of the list")
        for i in ids[:2]:
            with n.claim_from(i) as t:
                check(there(t, "/kept"), "file")
        for i in ids:
            n.must(204, "DELETE", "/v1/checkpoints/" + i)
    for b in boxes:
        equal(b.release(), 204, "release")
    eventually(n.agrees, 20, "nothing is left")


@scenario("checkpoint, hibernate, wake, release of one sandbox by many at once: it is released, and nothing is left but whole checkpoints")
def race(n):
    capable(n, "checkpoint")
    n.pools(dict())
    for _ in range(5):
        s = n.claim()

        def work(i):
            verb = ("checkpoint", "hibernate", "wake", "checkpoint", "release")[i % 5 if i > 9 else i % 4]
            return n.call("POST", "/v1/sandboxes/%s/%s" % (s.id, verb), {"name": "c%d" % i} if verb == "checkpoint" else None).status
        got = at_once(20, work)
        check(set(got) <= {200, 204, 404, 409}, "answers", got)
        equal(n.call("GET", "/v1/sandboxes/" + s.id).status, 404, "released")
        for c in n.checkpoints():
            with n.claim_from(c, sandbox_id()) as t:
                t.ask("pid")
            n.must(204, "DELETE", "/v1/checkpoints/" + c)
        equal(files(n), [], "files")
    eventually(n.agrees, 20, "nothing is left")


if __name__ == "__main__":
    sys.exit(run(suite))
