"""The end of a lease: by the reaper, on time, never early; edge 502 and API 404 afterwards."""

import datetime
import statistics
import threading
import time

import wire
from tap import Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario


def end_of(api, s):
    t = api.must(200, "GET", "/sandboxes/" + s.id)["endAt"]
    return datetime.datetime.fromisoformat(t.replace("Z", "+00:00")).timestamp()


@scenario("a lease that ends is ended at once, not before; edge 502, API 404, not listed", data=True)
def on_time(w):
    late, trips = [], []
    for _ in range(3):
        with w.create(timeout=2) as s:
            end = end_of(w.api, s)
            e = s.envd
            while True:
                before = time.time()
                status = e.health()
                trips.append(time.time() - before)
                if status != 204:
                    break
                check(before < end + 20, "still there 20 s after its end")
                time.sleep(0.005)
            late.append(time.time() - end)
            equal(status, 502, "health after the end")
            check(late[-1] > -0.02, "ended %.3f s before its end" % -late[-1])
            error_body(w.api("GET", "/sandboxes/" + s.id), 404, s.id)
            error_body(w.api("DELETE", "/sandboxes/" + s.id), 404, s.id)
            check(s.id not in w.api.listed(), "not listed")
    # a busy machine is late with everything: 250 ms, and what some dozens of requests take on it
    bound = 0.25 + 50 * statistics.median(trips) + max(trips)
    check(statistics.median(late) <= bound, "ended %s s after the end, a request takes %.3f s" % (", ".join("%.3f" % x for x in late),
                                                                                                  statistics.median(trips)))


@scenario("streams open at the lease's end are cut", data=True)
def streams(w):
    with w.create(timeout=2) as s:
        st = s.envd.start("/bin/sleep", ["1000"])
        ev = st.events()
        next(ev)
        st.conn.sock.settimeout(60)
        end = end_of(w.api, s)
        try:
            item = st.next()
            check(False, "the stream ended cleanly or went on", item)
        except wire.Cut:
            check(time.time() > end - 0.02, "it was cut %.3f s before its end" % (end - time.time()))
        equal(s.envd.health(), 502, "health by then")


@scenario("an extension that lands first wins; a shortening ends earlier", data=True)
def moved(w):
    with w.create(timeout=4) as s, w.create(timeout=300) as t:
        old_end = end_of(w.api, s)
        w.api.must(204, "POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 60})
        w.api.must(204, "POST", "/sandboxes/%s/timeout" % t.id, {"timeout": 1})
        end = time.time() + 1
        eventually(lambda: t.envd.health() == 502, 3, "the shortened one ends")
        check(time.time() > end - 0.05, "not before its new end")
        eventually(lambda: time.time() > old_end + 0.3, 6, "the first end of the other passes")
        equal(s.envd.health(), 204, "the extended one lives")


@scenario("racing extensions and ends: each answer keeps its promise", data=True)
def races(w):
    """A 204 to an extension that was answered before the end means that the sandbox lives on."""
    wrong = []

    def one():
        s = w.create(timeout=2)
        try:
            end = end_of(w.api, s)
            while time.time() < end - 0.015:
                time.sleep(0.001)
            r = w.api("POST", "/sandboxes/%s/timeout" % s.id, {"timeout": 30})
            now = s.envd.health()
            if (r.status, now) not in ((204, 204), (404, 502)):
                wrong.append((r.status, now))
        finally:
            s.kill()
    for _ in range(3):
        threads = [threading.Thread(target=one) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
    equal(wrong, [], "answers to the extension and health afterwards")


@scenario("many leases that end together all end", data=True)
def together(w):
    api = w.fresh_team()
    for _ in range(10):
        w.create(api=api, timeout=2)
    check(len(api.listed()) > 0, "there")
    eventually(lambda: api.listed() == [], 6, "all ended")
    eventually(lambda: w.stack.agrees(), 5, "and their machines are gone")
