"""kill -9 of each program in turn under load; then rows, machines, mounts and cgroups agree and no promise was broken."""

import threading
import time

import envd
import wire
from tap import Skip, Suite, equal, eventually, one_of

AWAY = (OSError, wire.Cut, AssertionError, envd.RpcError, StopIteration)    # what a client meets while a program is away

suite = Suite()
scenario = suite.scenario


class Load:
    """Clients that create, use and kill, and write down what was promised to them."""

    def __init__(self, w, clients=4):
        self.w, self.api = w, w.fresh_team()
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.alive, self.killed, self.odd = {}, set(), []
        self.done = 0
        self.threads = [threading.Thread(target=self.client, args=(i,), daemon=True) for i in range(clients)]

    def client(self, number):
        n = 0
        while not self.stop.is_set():
            n += 1
            try:
                self.step(keep=n % 4 == 0 and number == 0)
            except AWAY:
                time.sleep(0.01)       # a program is away; promises are judged at the end

    def step(self, keep):
        r = self.api("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 3600})
        if r.status != 201:
            if r.status not in (500, 502, 503, 504):
                self.odd.append("create: %r" % r)
            r.json()
            return
        sid = r.json()["sandboxID"]
        with self.lock:
            self.alive[sid] = r.json()["envdAccessToken"]
        try:
            e = envd.Envd(self.w.where, sid, self.alive[sid], timeout=60)
            got = e.run("echo $E2B_SANDBOX_ID", login=False).stdout.decode().strip()
            if got != sid:
                self.odd.append("%s answered as %s" % (sid, got))
            self.done += 1
        except AWAY:
            keep = False
        if not keep or len(self.alive) >= 12:
            self.kill(sid)

    def kill(self, sid):
        """Until it is answered: 204, or 404 when the answer to an earlier try was lost."""
        with self.lock:
            self.alive.pop(sid)            # from now on it may be either
        for turn in range(1000):
            try:
                status = self.api("DELETE", "/sandboxes/" + sid).status
            except AWAY:
                status = 0
            if status == 404 and turn == 0:
                self.odd.append("%s was 404 before it was killed" % sid)
            if status in (204, 404):
                with self.lock:
                    self.killed.add(sid)
                return
            if self.stop.wait(0.02) and turn > 100:
                return

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join(300)


def settle(w, load, text):
    eventually(lambda: reachable(w), 15, "%s: the API answers" % text)
    eventually(lambda: w.stack.agrees(), w.stack.repair_s * 3 + 20, "%s: rows, machines, mounts and cgroups agree (%s)" % (text, w.stack.differences()))
    w.stack.ctl("check")        # counts and indexes of the records
    listed = set(load.api.listed())
    equal(sorted(set(load.alive) - listed), [], "%s: acknowledged sandboxes that are gone" % text)
    equal(sorted(load.killed & listed), [], "%s: killed sandboxes that are back" % text)
    equal(load.odd, [], "%s: odd answers" % text)
    for sid, token in list(load.alive.items()):
        e = envd.Envd(w.where, sid, token)
        equal(e.health(), 204, "%s: health of %s" % (text, sid))
        equal(e.out("echo $E2B_SANDBOX_ID").strip(), sid, "%s: %s answers" % (text, sid))


def reachable(w):
    try:
        return w.api("GET", "/v2/sandboxes").status == 200
    except (OSError, wire.Cut):
        return False


def clean(w, load):
    for sid in load.api.listed():
        one_of(load.api("DELETE", "/sandboxes/" + sid).status, (204, 404), "kill")
    eventually(lambda: load.api.listed() == [] and w.stack.agrees(), 20, "nothing left (%s)" % w.stack.differences())


def crash(name, rounds):
    def run(w):
        if name not in w.stack.parts():
            raise Skip("%s is not used behind %s" % (name, w.kind))
        with Load(w) as load:
            for _ in range(rounds):
                done = load.done
                eventually(lambda: load.done >= done + 8, 30, "the load makes progress")
                w.stack.kill_part(name)
                w.stack.start_part(name)
            done = load.done
            eventually(lambda: load.done >= done + 8, 30, "the load goes on after the last kill")
        settle(w, load, name)
        clean(w, load)
    return run


for _name, _rounds in (("sandboxes", 4), ("teams", 1), ("events", 1), ("edge", 3), ("relay", 3), ("reaper", 3), ("node", 4), ("web", 2), ("doors", 1)):
    scenario("kill -9 of %s under load loses nothing" % _name, data=True)(crash(_name, _rounds))


@scenario("kill -9 of everything at once loses nothing", data=True)
def everything(w):
    with Load(w) as load:
        for _ in range(2):
            done = load.done
            eventually(lambda: load.done >= done + 8, 30, "the load makes progress")
            for name in w.stack.parts():
                w.stack.kill_part(name)
            for name in w.stack.parts():
                w.stack.start_part(name)
    settle(w, load, "all")
    clean(w, load)
