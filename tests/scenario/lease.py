"""The end of a lease: by the reaper, on time, never early; edge 502 and API 404 afterwards."""

import datetime
import statistics
import threading
import time

import wire
from tap import Suite, can, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario


def stamp(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def shorten(w, s, seconds):
    """The lease is to end so soon. Sandboxes get long leases, and short ones once all is ready: a slow machine takes its time for that."""
    w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": seconds})


def set_to(w, s):
    """The end that was set last, told by an event: events outlive the sandbox."""
    (last,) = w.api.must(200, "GET", "/events/sandboxes/%s?types=sandbox.lifecycle.updated&limit=1" % s.id)
    return stamp(last["eventData"]["set_timeout"])


@scenario("a lease that ends is ended at once, not before; edge 502, API 404, not listed", data=True)
def on_time(w):
    def three():
        late, trips, kills = [], [], []
        for _ in range(3):
            with w.create(timeout=300) as s, w.create(timeout=300) as other:
                e = s.envd
                shorten(w, s, 2)
                begun = w.now()
                while True:
                    before = w.now()
                    status = e.health()
                    trips.append(w.now() - before)
                    if status != 204:
                        break
                    check(before < begun + 90, "still there 90 s after its end")
                    time.sleep(0.005)
                late.append(before + trips[-1] - set_to(w, s))
                equal(status, 502, "health after the end")
                check(late[-1] > -0.02, "ended %.3f s before its end" % -late[-1])
                error_body(w.api("GET", "/sandboxes/" + s.id), 404, s.id)
                error_body(w.api("DELETE", "/sandboxes/" + s.id), 404, s.id)
                check(s.id not in w.api.listed(), "not listed")
                before = w.now()
                equal((other.kill(), other.envd.health()), (204, 502), "the same by a kill")
                kills.append(w.now() - before)
        # a busy machine is late with everything: 250 ms, and what some dozens of requests, or a kill, take on it
        bound = 0.25 + 50 * statistics.median(trips) + max(trips) + statistics.median(kills)
        return "" if statistics.median(late) <= bound else "ended %s s after the end, a request takes %.3f s" % (
            ", ".join("%.3f" % x for x in late), statistics.median(trips))
    can(three, "the end of a lease")


@scenario("streams open at the lease's end are cut", data=True)
def streams(w):
    with w.create(timeout=300) as s:
        st = s.envd.start("/bin/sleep", ["1000"])
        ev = st.events()
        next(ev)
        shorten(w, s, 2)
        try:
            item = st.next()
            check(False, "the stream ended cleanly or went on", item)
        except wire.Cut:
            now = w.now()
            end = set_to(w, s)
            check(now > end - 0.02, "it was cut %.3f s before its end" % (end - now))
        equal(s.envd.health(), 502, "health by then")


@scenario("an extension that lands first wins; a shortening ends earlier", data=True)
def moved(w):
    def extended(seconds):
        """Whether it lives, extended from an end so soon; None where that came before the extension did."""
        with w.create(timeout=300) as s:
            shorten(w, s, seconds)
            old_end = set_to(w, s)
            status = w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 300}).status
            if status == 404 and w.now() > old_end:
                return None
            equal(status, 204, "the extension")
            eventually(lambda: w.now() > old_end + 0.3, 0, "the first end passes")
            return s.envd.health() == 204
    equal(next(x for x in map(extended, (2, 10, 40, 80)) if x is not None), True, "the extended one lives")
    with w.create(timeout=300) as t:
        before = w.now()
        shorten(w, t, 1)
        eventually(lambda: t.envd.health() == 502, 3, "the shortened one ends")
        check(w.now() > before + 1 - 0.02, "not before its new end")


@scenario("racing extensions and ends: each answer keeps its promise", data=True)
def races(w):
    """A 204 to an extension that was answered before the end means that the sandbox lives on."""
    wrong, right = [], []

    def one():
        s = w.create(timeout=300)
        try:
            shorten(w, s, 2)
            end = set_to(w, s)
            while w.now() < end - 0.015:
                time.sleep(0.001)
            r = w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 300})
            now = s.envd.health()
            ((right if (r.status, now) in ((204, 204), (404, 502)) else wrong)).append((r.status, now))
        except Exception as e:  # noqa: whatever it is, it was no answer
            wrong.append(repr(e))
        finally:
            s.kill()
    for _ in range(3):
        threads = [threading.Thread(target=one) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    equal((wrong, len(right)), ([], 12), "answers to the extension and health afterwards")


@scenario("many leases that end together all end", data=True)
def together(w):
    api = w.fresh_team()
    made = [w.create(api=api, timeout=300) for _ in range(10)]
    equal(set(api.listed()), {s.id for s in made}, "there")
    for s in made:
        api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 2})
    eventually(lambda: api.listed() == [], 6, "all ended")
    eventually(lambda: w.stack.agrees(), 5, "and their machines are gone")
