"""A network of our own for hutch-node: its machine's network namespace, and an internet behind it that is another one.

    sandbox -- (hutch) -- NODE 203.0.113.2 -- 203.0.113.1 INTERNET: 198.51.100.1, 198.51.100.2, 10.20.30.40, 169.254.169.254, name server

Nothing leaves the machine, and nothing of the machine's own network is touched.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import subprocess
import sys

from tap import Skip

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "internet.py")
NODE, GATEWAY, DNS = "203.0.113.2", "203.0.113.1", "203.0.113.53"
ONE, TWO, PRIVATE, METADATA = "198.51.100.1", "198.51.100.2", "10.20.30.40", "169.254.169.254"
HOST_PORT = 8099                # a service of the machine itself
OPTIONS = {"egress": "on", "egress_dns": DNS}


def ip(*args, **kw):
    return subprocess.run(["ip", *args], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **kw).stdout.decode()


class Lab:
    def __init__(self):
        if shutil.which("ip") is None:
            raise Skip("ip (iproute2) is not installed")
        word = secrets.token_hex(3)
        self.node, self.internet = "hutch-%s-node" % word, "hutch-%s-net" % word
        self.servers = []
        atexit.register(self.close)
        try:
            self.wire()
            self.serve(self.internet, "internet")
            self.serve(self.node, "host")
        except BaseException:
            self.close()
            raise

    @property
    def path(self):
        return "/run/netns/" + self.node

    def wire(self):
        for name in (self.node, self.internet):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.node, "link", "add", "up0", "type", "veth", "peer", "name", "net0", "netns", self.internet)
        ip("-n", self.node, "addr", "add", NODE + "/24", "dev", "up0")
        ip("-n", self.internet, "addr", "add", GATEWAY + "/24", "dev", "net0")
        for address in (DNS, ONE, TWO, PRIVATE, METADATA):
            ip("-n", self.internet, "addr", "add", address + "/32", "dev", "lo")
        ip("-n", self.node, "link", "set", "up0", "up")
        ip("-n", self.internet, "link", "set", "net0", "up")
        ip("-n", self.node, "route", "add", "default", "via", GATEWAY)

    def serve(self, where, what):
        p = subprocess.Popen(["ip", "netns", "exec", where, sys.executable, SERVER, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.servers.append(p)
        if p.stdout.readline() != b"ready\n":
            raise AssertionError("the lab's servers do not start")

    def inside(self, *args):
        """A command in the machine's namespace: exit code and output."""
        p = subprocess.run(["ip", "netns", "exec", self.node, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return p.returncode, p.stdout.decode("utf-8", "replace")

    def left(self):
        """What hutch has in the machine's network: interfaces, tables, routes, forwarding."""
        if not os.path.exists(self.path):
            return []
        out = ["interface " + line.split(":")[1].strip() for line in ip("-n", self.node, "-o", "link").splitlines() if ": hu" in line]
        if shutil.which("nft"):
            out += [line for line in self.inside("nft", "list", "tables")[1].splitlines() if line]
        out += ["route " + line for line in ip("-n", self.node, "route").splitlines() if line.startswith("198.1")]
        out += ["forwarding of up0"] if self.inside("cat", "/proc/sys/net/ipv4/conf/up0/forwarding")[1].strip() != "0" else []
        return out

    def close(self):
        for p in self.servers:
            p.kill()
            p.wait()
        self.servers = []
        for name in (self.node, self.internet):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", name)
