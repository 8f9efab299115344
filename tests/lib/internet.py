"""The servers of a lab's network namespace (lab.py): python3 internet.py internet|host. Prints "ready" once they listen, and ends
with its standard input.

internet: TCP port 80 says who it is and whom it sees, then echoes lines; UDP port 7 of 198.51.100.1 echoes; UDP port 53 answers any name with 198.51.100.1.
host: a service of the machine itself.
"""

import socket
import socketserver
import struct
import sys
import threading


class Hello(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(("%s %s\n" % (self.request.getsockname()[0], self.client_address[0])).encode())
        for line in self.rfile:
            self.wfile.write(line)


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        sock.sendto(data, self.client_address)


class Names(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        end = data.index(b"\0", 12) + 5
        a = data[end - 4:end - 2] == b"\0\1"
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("198.51.100.1") if a else b""
        sock.sendto(data[:2] + struct.pack(">HHHHH", 0x8180, 1, 1 if a else 0, 0, 0) + data[12:end] + answer, self.client_address)


class Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


SERVERS = {
    "internet": ((Tcp, ("0.0.0.0", 80), Hello), (socketserver.UDPServer, ("198.51.100.1", 7), Echo), (socketserver.UDPServer, ("203.0.113.53", 53), Names)),
    "host": ((Tcp, ("0.0.0.0", 8099), Hello),),
}
servers = [kind(where, handler) for kind, where, handler in SERVERS[sys.argv[1]]]
for s in servers:
    threading.Thread(target=s.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()        # it ends with who started it
