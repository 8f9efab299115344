"""Names for a client of the tests: every name is this machine's, without a line of its files changed.

A small DNS server on a loopback address of its own (resolvers ask port 53 and no other), and a mount namespace in which the client sees
a resolv.conf that names it. So hosts like PORT-ID.hutch.localhost resolve where nothing else offers wildcards.
"""

import os
import socket
import struct
import threading


class Names:
    def __init__(self, directory):
        self.sock = None
        for n in range(2, 250):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            address = "127.%d.%d.%d" % (os.getpid() // 250 % 250 + 1, os.getpid() % 250 + 1, n)
            try:
                sock.bind((address, 53))
            except OSError:
                sock.close()
                continue
            self.sock, self.address = sock, address
            break
        if self.sock is None:
            raise AssertionError("no loopback address has port 53 free")
        self.resolv, self.switch = os.path.join(directory, "resolv.conf"), os.path.join(directory, "nsswitch.conf")
        with open(self.resolv, "w") as f:
            f.write("nameserver %s\noptions timeout:5 attempts:3\n" % self.address)
        with open("/etc/nsswitch.conf") as f:
            lines = [line for line in f if not line.startswith("hosts:")]
        with open(self.switch, "w") as f:
            f.writelines(lines + ["hosts: files dns\n"])
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                question, peer = self.sock.recvfrom(2048)
                answer = self.answer(question)
                if answer:
                    self.sock.sendto(answer, peer)
            except OSError:
                return

    @staticmethod
    def answer(q):
        """127.0.0.1 for every A question, no record for any other type (RFC 1035 4.1)."""
        end = 12
        while end < len(q) and q[end]:
            end += q[end] + 1
        end += 5
        if len(q) < end:
            return None
        (kind,) = struct.unpack("!H", q[end - 4:end - 2])
        records = struct.pack("!HHHIH4B", 0xc00c, 1, 1, 60, 4, 127, 0, 0, 1) if kind == 1 else b""
        return q[:2] + struct.pack("!HHHHH", 0x8580, 1, 1 if records else 0, 0, 0) + q[12:end] + records

    def command(self, argv):
        """argv, run where names are ours."""
        script = 'mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && mount --bind "$2" /etc/nsswitch.conf && shift 2 && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "names", self.resolv, self.switch, *argv]

    def close(self):
        self.sock.close()
