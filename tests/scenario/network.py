"""Ways out of a sandbox, in a network that the test made (tests/lib/lab.py): what may be reached, and what never."""

import lab
import stack as stacks
import world
from tap import Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario

# Says who answered and whom it saw; fails at once when it is refused, and after so many seconds when nobody answers.
REACH = "timeout %d bash -c 'exec 3<>/dev/tcp/%s/%d && read -r line <&3 && echo $line'"
LONG, SHORT = 60, 2             # for one that is to answer, however busy the machine is; for one that is not


def reach(s, address, port=80, seconds=LONG):
    """What a server says to the sandbox, or None."""
    r = s.run(REACH % (seconds, address, port), login=False)
    return r.stdout.decode().split() if r.exit_code == 0 else None


def answering(s, asked, want):
    """Those of the addresses that answer; `want` are to."""
    return [a for a in asked if reach(s, a, seconds=LONG if a in want else SHORT) is not None]


def only(s, asked, want, text):
    equal(answering(s, asked, want), want, text)


@scenario("by default a sandbox reaches the internet, by the machine's address, and finds names", data=True)
def default(w):
    for body in ({}, {"allow_internet_access": True}, {"network": {"allowOut": [], "denyOut": []}}):
        with w.create(**body) as s:
            equal(reach(s, lab.ONE), [lab.ONE, lab.NODE], "who answered, and whom it saw")
            equal(reach(s, lab.TWO), [lab.TWO, lab.NODE], "another")
            equal(s.out("cat /etc/resolv.conf"), "nameserver %s\n" % lab.DNS, "name servers")
            equal(s.out("python3 -c 'import socket; print(socket.gethostbyname(\"some.example\"))'").strip(), lab.ONE, "a name is found")
            udp = "import socket; s=socket.socket(2,2); s.settimeout(60); s.sendto(b\"x\",(\"%s\",7)); print(s.recv(9))" % lab.ONE
            equal(s.out("python3 -c '%s'" % udp).strip(), "b'x'", "datagrams")
            equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["allowInternetAccess"], body.get("allow_internet_access"), "reported")


@scenario("never reached: other sandboxes, this machine, private and link-local addresses", data=True)
def never(w):
    with w.create() as a, w.create() as b:
        mine = {x: x.out("python3 -c 'import socket; s=socket.socket(2,2); s.connect((\"%s\",7)); print(s.getsockname()[0])'" % lab.ONE).strip() for x in (a, b)}
        check(mine[a] != mine[b] and all(x.startswith("198.1") for x in mine.values()), "addresses of their own", mine)
        b.envd.spawn("exec python3 -m http.server 8000 --bind 0.0.0.0 >/dev/null 2>&1")
        eventually(lambda: b.run("exec 3<>/dev/tcp/127.0.0.1/8000", login=False).exit_code == 0, 10, "b listens")
        equal(a.run("timeout 2 bash -c 'exec 3<>/dev/tcp/%s/8000'" % mine[b], login=False).exit_code != 0, True, "another sandbox")
        only(a, (lab.ONE,), [lab.ONE], "the internet is there")
        only(a, (lab.PRIVATE, lab.METADATA), [], "private and link-local")
        for address in (lab.NODE, mine[a][:-1] + "1", "169.254.0.1", "127.0.0.1", "0.0.0.0"):
            equal(reach(a, address, lab.HOST_PORT, SHORT), None, "this machine at %s" % address)
        code, _ = w.stack.lab.inside("timeout", "60", "bash", "-c", "exec 3<>/dev/tcp/%s/%d" % (lab.NODE, lab.HOST_PORT))
        equal(code, 0, "its service is there")
        equal(a.run("timeout 2 bash -c 'exec 3<>/dev/tcp/::ffff:%s/%d'" % (lab.NODE, lab.HOST_PORT), login=False).exit_code != 0, True, "nor as IPv6")
        equal(a.out("cat /proc/net/if_inet6 | grep -vw lo || true"), "", "no IPv6 address")


CASES = (
    # what a create asks for; what of ONE and TWO is reached then; what is reported
    ({"allow_internet_access": False}, [], {"allowPublicTraffic": True, "denyOut": ["0.0.0.0/0"]}),
    ({"network": {"denyOut": ["0.0.0.0/0"]}}, [], {"allowPublicTraffic": True, "denyOut": ["0.0.0.0/0"]}),
    ({"network": {"denyOut": [lab.ONE]}}, [lab.TWO], {"allowPublicTraffic": True, "denyOut": [lab.ONE]}),
    ({"network": {"denyOut": ["198.51.100.0/31", "::/0"]}}, [lab.TWO], {"allowPublicTraffic": True, "denyOut": ["198.51.100.0/31", "::/0"]}),
    ({"network": {"allowOut": [lab.ONE], "denyOut": ["0.0.0.0/0"]}}, [lab.ONE], {"allowPublicTraffic": True, "allowOut": [lab.ONE], "denyOut": ["0.0.0.0/0"]}),
    ({"network": {"allowOut": [lab.TWO + "/32"]}, "allow_internet_access": False}, [lab.TWO],
     {"allowPublicTraffic": True, "allowOut": [lab.TWO + "/32"], "denyOut": ["0.0.0.0/0"]}),
    ({"network": {"allowOut": [lab.ONE]}}, [lab.ONE, lab.TWO], {"allowPublicTraffic": True, "allowOut": [lab.ONE]}),
)


@scenario("what a create denies is not reached, what it allows is, and allow beats deny", data=True)
def created(w):
    for body, want, shown in CASES:
        for _ in range(2):      # one that was ready, and perhaps one that was not
            with w.create(**body) as s:
                only(s, (lab.ONE, lab.TWO), want, "reached with %r" % body)
                equal(w.api.must(200, "GET", "/sandboxes/" + s.id)["network"], shown, "reported of %r" % body)
    with w.create(network={"allowOut": [lab.PRIVATE, lab.METADATA, lab.NODE, "0.0.0.0/0"]}) as s:
        only(s, (lab.PRIVATE, lab.METADATA), [], "what is never reached cannot be allowed")
        equal(reach(s, lab.NODE, lab.HOST_PORT, SHORT), None, "nor this machine")


OPEN = r"""
import socket, sys
s = socket.create_connection((sys.argv[1], 80), 10)
f = s.makefile("rwb")
f.readline()
open("/tmp/open", "w").close()
try:
    while True:
        f.write(b"x\n"); f.flush()
        if not f.readline(): break
except OSError as e:
    print(type(e).__name__)
open("/tmp/cut", "w").close()
"""


@scenario("PUT network replaces all rules at once: what is left out is cleared, and what is open is cut", data=True)
def replaced(w):
    with w.create(network={"denyOut": ["0.0.0.0/0"], "allowOut": [lab.TWO], "allowPublicTraffic": False, "maskRequestHost": "a.example"},
                  timeout=3600) as s:
        only(s, (lab.ONE, lab.TWO), [lab.TWO], "at first")
        path = "/sandboxes/%s/network" % s.id
        kept = {"allowPublicTraffic": False, "maskRequestHost": "a.example"}
        for body, want, shown, internet in (({}, [lab.ONE, lab.TWO], {}, None), ({"denyOut": [lab.TWO]}, [lab.ONE], {"denyOut": [lab.TWO]}, None),
                                            ({"allow_internet_access": False}, [], {"denyOut": ["0.0.0.0/0"]}, False),
                                            ({"allowOut": [lab.ONE], "denyOut": ["0.0.0.0/0"]}, [lab.ONE], {"allowOut": [lab.ONE], "denyOut": ["0.0.0.0/0"]},
                                             False),
                                            ({"allow_internet_access": True}, [lab.ONE, lab.TWO], {}, True)):
            equal(w.api("PUT", path, body).status, 204, "PUT %r" % body)
            only(s, (lab.ONE, lab.TWO), want, "reached with %r" % body)
            detail = w.api.must(200, "GET", "/sandboxes/" + s.id)
            equal((detail["network"], detail["allowInternetAccess"]), ({**kept, **shown}, internet), "reported of %r" % body)
        s.envd.write("/tmp/open.py", OPEN.encode())
        s.envd.spawn("exec python3 /tmp/open.py %s" % lab.ONE)
        eventually(lambda: s.envd.read("/tmp/open").status == 200, 10, "a connection is open")
        w.api.must(204, "PUT", path, {"denyOut": [lab.ONE]})
        eventually(lambda: s.envd.read("/tmp/cut").status == 200, 10, "it is cut")
        for memory in (True, False):
            w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {"memory": memory})
            equal(w.api("PUT", path, {}).status, 404, "a paused one")
            w.api.must(201, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 3600})
            only(s, (lab.ONE, lab.TWO), [lab.TWO], "after a pause")
        for end in (w.stack.stop_part, w.stack.kill_part):
            end("node")
            error_body(w.api("PUT", path, {}), 503)
            w.stack.start_part("node")
            eventually(lambda: answering(s, (lab.ONE, lab.TWO), [lab.TWO]) == [lab.TWO], 20, "with a new daemon, the failed change undone")
            eventually(lambda: w.api("PUT", path, {"denyOut": [lab.ONE]}).status == 204, 20, "and it can be changed")
        events = w.api.must(200, "GET", "/events/sandboxes/%s?limit=100&types=sandbox.lifecycle.updated" % s.id)
        check(any((e["eventData"] or {}).get("network_egress", {}).get("denied_cidrs") == [lab.TWO] for e in events), "told as events", events)
        equal(w.other()("PUT", path, {}).status, 404, "another team's")
    equal(w.api("PUT", path, {}).status, 404, "gone")


@scenario("bad rules are 400 and name the field; what cannot be had is refused by name")
def bad(w):
    with w.create() as s:
        for body, status, names in (({"denyOut": ["x"]}, 400, "invalid denied CIDR"), ({"denyOut": ["a.example"]}, 400, "denyOut"),
                                    ({"denyOut": "x"}, 400, "denyOut"),
                                    ({"allowOut": [5]}, 400, "allowOut"), ({"allowOut": ["1.2.3.4/33"]}, 400, "allowOut"),
                                    ({"allowOut": ["1.2.3.4; drop"]}, 400, "allowOut"),
                                    ({"allowOut": ["a.example"]}, 400, "denyOut"), ({"allowOut": ["2001:db8::1"]}, 400, "IPv6"),
                                    ({"denyOut": ["10.0.0.1"] * 513}, 400, "512"),
                                    ({"allowOut": ["a.example"], "denyOut": ["0.0.0.0/0"]}, 400, "network.allowOut with a domain name"),
                                    ({"egressProxy": {"address": "192.0.2.1:1080"}}, 403, "network.egressProxy"),
                                    ({"rules": {"a.example": [{}]}}, 400, "network.rules")):
            error_body(w.api("PUT", "/sandboxes/%s/network" % s.id, body), status, names)
            error_body(w.api("POST", "/v2/sandboxes", {"templateID": "base", "network": body}), status, names)
        error_body(w.api("PUT", "/sandboxes/%s/network" % s.id, {"allow_internet_access": "no"}), 400, "allow_internet_access")
        many = ["10.%d.%d.0/24" % (i // 256, i % 256) for i in range(0, 1024, 2)]
        equal(w.api("PUT", "/sandboxes/%s/network" % s.id, {"denyOut": many, "allowOut": many}).status, 204, "as many as there may be")


RAW = r"""
import os, socket, struct, sys
def raw(source, to):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    udp = struct.pack(">HHHH", 9, 7, 9, 0) + b"x"
    s.sendto(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(to)) + udp, (to, 0))
for source in sys.argv[2:]:
    try:
        raw(source, sys.argv[1])
        print("sent", source)
    except OSError as e:
        print("refused", source, e.errno)
"""


@scenario("root in a sandbox changes nothing of it: interfaces, addresses, routes, rules, forged sources", data=True)
def root(w):
    with w.create(network={"denyOut": [lab.TWO]}, timeout=3600) as s:
        only(s, (lab.ONE, lab.TWO, lab.PRIVATE), [lab.ONE], "at first")
        for command in ("ip addr add 198.18.250.250/32 dev eth0", "ip link set eth0 down", "ip route del default", "ip route add 10.0.0.0/8 dev eth0",
                        "ip link add x type veth", "ip neigh replace 169.254.0.1 lladdr 02:00:00:00:00:01 dev eth0",
                        "nft list tables && nft delete table inet hutch", "nft add table inet x",
                        "iptables -F", "sysctl -w net.ipv4.ip_forward=1", "echo 1 > /proc/sys/net/ipv4/ip_forward",
                        "unshare -n true && ip netns add x", "nsenter --net=/proc/1/ns/net nft flush ruleset"):
            r = s.run(command, user="root", login=False)
            check(r.exit_code != 0, "root could %s" % command, r)
        s.envd.write("/tmp/raw.py", RAW.encode())
        r = s.run("python3 /tmp/raw.py %s 203.0.113.9 198.18.0.77 10.0.0.1" % lab.ONE, user="root")
        check(b"sent" not in r.stdout, "packets from addresses of others", r)
        r = s.run("python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)'", user="root")
        check(r.exit_code != 0, "no raw frames", r)
        only(s, (lab.ONE, lab.TWO, lab.PRIVATE), [lab.ONE], "as before")


@scenario("what is reached stays so over a pause and over restarts of hutch-node, killed or not", data=True)
def lasting(w):
    with w.create(network={"denyOut": [lab.TWO]}, timeout=3600) as s:
        only(s, (lab.ONE, lab.TWO, lab.PRIVATE), [lab.ONE], "at first")
        for memory in (True, False):
            w.api.must(204, "POST", "/sandboxes/%s/pause" % s.id, {"memory": memory})
            w.api.must(201, "POST", "/sandboxes/%s/connect" % s.id, {"timeout": 3600})
            only(s, (lab.ONE, lab.TWO, lab.METADATA), [lab.ONE], "after a pause")
        for end in (w.stack.stop_part, w.stack.kill_part):
            end("node")
            only(s, (lab.ONE, lab.TWO), [lab.ONE], "without the daemon")
            w.stack.start_part("node")
            only(s, (lab.ONE, lab.TWO, lab.PRIVATE), [lab.ONE], "with a new one")


@scenario("two daemons on one machine go out by the same uplink; the end of one leaves the other its way", data=True)
def two(w):
    other = stacks.Stack(w.stack.build, w.stack.server, lab=w.stack.lab)
    try:
        other.start()
        v = world.World(other, w.kind, world.WebFront(other.where))
        with v.create() as a, w.create() as b:
            for s in (a, b):
                only(s, (lab.ONE, lab.PRIVATE), [lab.ONE], "both")
        other.stop()
        with w.create() as b:
            only(b, (lab.ONE,), [lab.ONE], "the one that stays")
    finally:
        other.stop()
        other.remove()


@scenario("egress off: nothing of it is on the machine, and sandboxes have their loopback alone", data=True)
def off(w):
    with w.create() as s:
        only(s, (lab.ONE,), [lab.ONE], "at first")
        with w.stack.configured("node", egress="off"):
            info = w.stack.node("GET", "/v1/info").json()["capabilities"]
            equal((info["egress"], info["egress_error"]), (False, "option egress is off"), "told")
            eventually(lambda: not w.stack.lab.left(), 10, "the machine's network is as it was")
            only(s, (lab.ONE,), [], "one from before has no way out any more")
            with w.create(allow_internet_access=False) as t:
                only(t, (lab.ONE,), [], "nor has a new one")
            error_body(w.api("POST", "/v2/sandboxes", {"templateID": "base", "network": {"denyOut": [lab.ONE]}}), 400, "network.denyOut cannot be had")
            error_body(w.api("PUT", "/sandboxes/%s/network" % s.id, {"allowOut": [lab.ONE]}), 400, "network.allowOut cannot be had")
        for _ in range(4):      # those that stood ready meanwhile are no longer used
            with w.create() as t:
                only(t, (lab.ONE,), [lab.ONE], "on again")
        with w.stack.configured("node", egress="on"):   # nor does a further daemon take one for what it was
            only(s, (lab.ONE,), [], "one from before still has none")
            for _ in range(3):
                with w.create() as t:
                    only(t, (lab.ONE,), [lab.ONE], "after one more restart")
        check(w.stack.lab.left(), "what is on the machine then is seen by the audit")
