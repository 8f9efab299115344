"""The published command line client against a running stack, with nothing but an API key.

Everything it needs comes from the environment: E2B_API_KEY, E2B_DOMAIN, over plain http E2B_API_URL and E2B_SANDBOX_URL, and E2B_CLI, the
program.
Sandboxes are made by the REST API; prints TAP.
"""

import atexit
import contextlib
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

import sdk  # noqa: E402
import tap  # noqa: E402
from tap import check, equal, eventually  # noqa: E402

suite = tap.Suite()
case = suite.scenario
HOME = tempfile.mkdtemp(prefix="hutch-cli-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)


def api(method, path, body=None):
    r = urllib.request.Request(os.environ.get("E2B_API_URL", "https://api." + os.environ["E2B_DOMAIN"]) + path, method=method,
                               data=None if body is None else json.dumps(body).encode(),
                               headers={"X-API-Key": os.environ["E2B_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(r, timeout=600) as answer:
        data = answer.read()
    return json.loads(data) if data else None


@contextlib.contextmanager
def sandbox(**body):
    s = api("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 1800, **body})["sandboxID"]
    try:
        yield s
    finally:
        with contextlib.suppress(OSError):
            api("DELETE", "/sandboxes/" + s)


def e2b(*args, fails=False, both=False, what="sandbox"):
    """Standard output of `e2b sandbox ARGS`; both: and what it says about errors, as when it fails."""
    p = subprocess.run([os.environ["E2B_CLI"], what, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600,
                       env={**os.environ, "HOME": HOME, "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1"})       # else each waits for npm's registry
    out, err = p.stdout.decode(), p.stderr.decode()
    check((p.returncode != 0) == fails, "e2b %s %s: exit %d" % (what, " ".join(args), p.returncode), out[-1500:], err[-1500:])
    return out + err if fails or both else out


@case("create, without a terminal: its lease and what happens at its end")
def create():
    said = e2b("create", "base", "--detach", "--timeout", "1200", "--lifecycle.ontimeout", "pause")
    made = re.search(r"\bi[a-z0-9]{20}\b", said)
    check(made, "it tells the id", said)
    try:
        x = api("GET", "/sandboxes/" + made.group(0))
        equal((x["state"], x["lifecycle"]["onTimeout"], x["alias"]), ("running", "pause", "base"), "sandbox")
        start, end = (datetime.datetime.fromisoformat(x[k].replace("Z", "+00:00")) for k in ("startedAt", "endAt"))
        equal(round((end - start).total_seconds()), 1200, "lease")
    finally:
        api("DELETE", "/sandboxes/" + made.group(0))


@case("list, as JSON and as a table, with filters")
def listing():
    with sandbox(metadata={"app": "cli"}) as s:
        rows = json.loads(e2b("list", "--format", "json"))
        check(s in [x["sandboxId"] for x in rows], "it is in the list", rows)
        check(s in e2b("list"), "and in the table")
        equal([x["sandboxId"] for x in json.loads(e2b("list", "--format", "json", "--metadata", "app=cli"))], [s], "by metadata")
        equal(json.loads(e2b("list", "--format", "json", "--metadata", "app=none")), [], "none")


@case("info")
def info():
    with sandbox() as s:
        x = json.loads(e2b("info", s, "--format", "json"))
        equal((x["sandboxId"], x["state"]), (s, "running"), "info")
        check(s in e2b("info", s), "as a table")


@case("logs")
def logs():
    with sandbox() as s:
        api("POST", "/sandboxes/%s/timeout" % s, {"timeout": 3600})
        out = e2b("logs", s)
        check("created" in out and "timeout set to" in out, "its life", out)
        lines = [json.loads(x) for x in e2b("logs", s, "--format", "json").splitlines() if x.startswith("{")]
        check(any("created" in json.dumps(x) for x in lines), "as JSON", lines)
        check("created" not in e2b("logs", s, "--level", "ERROR"), "all lines are of level info")
        e2b("exec", s, "echo", "noted-down")
        eventually(lambda: "noted-down" in e2b("logs", s), 10, "what the agent started")


@case("metrics")
def metrics():
    with sandbox() as s:
        eventually(lambda: api("GET", "/sandboxes/%s/metrics" % s), 15, "a sample")
        out = e2b("metrics", s)
        check(re.search(r"CPU", out, re.I) and re.search(r"mem", out, re.I), "a line of a sample", out)


@case("kill, of one that runs and one that does not; kill all by metadata")
def kill():
    with sandbox() as s:
        e2b("kill", s)
        check(s not in [x["sandboxID"] for x in api("GET", "/v2/sandboxes")], "it is gone")
        before = e2b("kill", s, both=True)
        check("not found" in before.lower() or "wasn't found" in before.lower(), "a second kill says so", before)
    with sandbox(metadata={"batch": "1"}) as a, sandbox(metadata={"batch": "1"}) as b, sandbox() as other:
        e2b("kill", "--all", "--metadata", "batch=1")
        left = [x["sandboxID"] for x in api("GET", "/v2/sandboxes")]
        check(a not in left and b not in left and other in left, "those of the batch", left)


@case("exec")
def execute():
    with sandbox() as s:
        check("hello" in e2b("exec", s, "echo", "hello"), "output of a command")


@case("pause and resume")
def pause():
    with sandbox() as s:
        e2b("pause", s)
        equal(api("GET", "/sandboxes/" + s)["state"], "paused", "paused")
        e2b("resume", s)
        equal(api("GET", "/sandboxes/" + s)["state"], "running", "running")


@case("snapshot create, list, delete; and a sandbox from one")
def snapshot():
    with sandbox() as s:
        said = e2b("snapshot", "create", s, "--name", "cli:v1")
        found = re.search(r"\S+/cli:v1", said)
        check(found, "it tells the id", said)
        rows = e2b("snapshot", "list", s)
        check("cli:v1" in rows, "list", rows)
        made = e2b("create", found.group(0), "--detach")
        other = re.search(r"\bi[a-z0-9]{20}\b", made)
        check(other, "a sandbox from it", made)
        api("DELETE", "/sandboxes/" + other.group(0))
        e2b("snapshot", "delete", found.group(0))
        check("cli:v1" not in e2b("snapshot", "list", s), "it is gone")


@case("template list")
def templates():
    rows = json.loads(e2b("list", "--format", "json", what="template"))
    check(isinstance(rows, list), "as JSON", rows)
    mine = [x["templateID"] for x in api("GET", "/templates")]
    said = e2b("list", what="template")
    check(all(x in said for x in mine), "as a table", said, mine)


@case("a wrong key is told")
def wrong_key():
    key = os.environ["E2B_API_KEY"]
    os.environ["E2B_API_KEY"] = "e2b_" + "0" * 40
    try:
        said = e2b("list", fails=True)
        check("401" in said or "unauthorized" in said.lower() or "Invalid API key" in said, "refused", said)
    finally:
        os.environ["E2B_API_KEY"] = key


if __name__ == "__main__":
    sdk.main(suite, __doc__)
