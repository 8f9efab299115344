"""HTTP/1.1 over plain sockets: says exactly what it is told to say, reads exactly what comes.

No library between the test and the wire, so that a half request, an odd path or a duplicated header can be
sent, and a cut stream can be told from a finished one.
"""

import json
import select
import socket
import ssl
import time


HANG = 120          # seconds without a byte after which a peer counts as one that hangs


class Cut(Exception):
    """The peer closed (or reset) in the middle of an answer. `got` is what came of the body."""

    def __init__(self, text, got=b""):
        super().__init__(text)
        self.got = got


class Response:
    def __init__(self, status, reason, headers):
        self.status = status
        self.reason = reason
        self.headers = headers          # list of (lower-case name, value)
        self.trailers = []
        self.body = b""

    def header(self, name):
        """The first value, or None."""
        name = name.lower()
        for k, v in self.headers:
            if k == name:
                return v
        return None

    def all(self, name):
        return [v for k, v in self.headers if k == name.lower()]

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError as e:
            raise AssertionError("not JSON (%s): status %d, body %r" % (e, self.status, self.body[:400])) from None

    def __repr__(self):
        return "<%d %s %r>" % (self.status, self.header("content-type"), self.body[:300])


class Tls(tuple):
    """An address (host, port) that speaks TLS; `ca` is the file of the authority that it is held against."""

    def __new__(cls, host, port, ca, name="hutch.localhost"):
        self = super().__new__(cls, (host, port))
        self.ca, self.name, self.newest = ca, name, None
        return self

    @property
    def address(self):
        """The bare address, for who wants to speak something else there."""
        return tuple(self)

    def named(self, name):
        """The same, called by that name."""
        return Tls(self[0], self[1], self.ca, name)

    def at_most(self, version):
        """The same, with a client that knows no newer version of TLS."""
        other = self.named(self.name)
        other.newest = version
        return other

    def wrap(self, sock):
        context = ssl.create_default_context(cafile=self.ca)
        context.set_alpn_protocols(["http/1.1"])
        if self.newest:
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            context.maximum_version = self.newest
        return context.wrap_socket(sock, server_hostname=self.name)


class Conn:
    """One connection. `where` is (host, port), Tls, or the path of a unix socket."""

    def __init__(self, where, timeout=HANG):
        self.where = where
        if isinstance(where, str):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(where)
        else:
            self.sock = socket.create_connection(tuple(where), timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if isinstance(where, Tls):
                self.sock = where.wrap(self.sock)
        self.rest = b""

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- out ----
    def send(self, data):
        self.sock.sendall(data)

    def request_head(self, method, target, headers=(), host=None):
        lines = ["%s %s HTTP/1.1" % (method, target)]
        names = {k.lower() for k, _ in headers}
        if "host" not in names:
            if host is None:
                host = "localhost" if isinstance(self.where, str) else "%s:%d" % self.where
            lines.append("Host: " + host)
        lines += ["%s: %s" % (k, v) for k, v in headers]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def start(self, method, target, headers=(), body=None, host=None):
        """Sends a request with a Content-Length when there is a body, or could be one (as SDKs do: lighttpd insists on it)."""
        headers = list(headers)
        if body is None and method in ("POST", "PUT", "PATCH"):
            body = b""
        if body is not None and not any(k.lower() in ("content-length", "transfer-encoding") for k, _ in headers):
            headers.append(("Content-Length", str(len(body))))
        self.send(self.request_head(method, target, headers, host) + (body or b""))

    # ---- in ----
    def _more(self):
        try:
            data = self.sock.recv(262144)
        except (ConnectionError, ssl.SSLEOFError) as e:
            raise Cut("reset: %s" % e) from None
        if not data:
            raise Cut("closed")
        self.rest += data

    def read_line(self):
        while b"\n" not in self.rest:
            self._more()
        line, self.rest = self.rest.split(b"\n", 1)
        return line.rstrip(b"\r")

    def read_exact(self, n):
        while len(self.rest) < n:
            self._more()
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def head(self):
        """Status line and header fields of the next answer (100 Continue is passed over)."""
        while True:
            line = self.read_line().decode("latin-1")
            parts = line.split(" ", 2)
            if len(parts) < 2 or not parts[0].startswith("HTTP/"):
                raise AssertionError("not a status line: %r" % line)
            headers = []
            while True:
                h = self.read_line().decode("latin-1")
                if not h:
                    break
                k, _, v = h.partition(":")
                headers.append((k.strip().lower(), v.strip()))
            status = int(parts[1])
            if status != 100:
                return Response(status, parts[2] if len(parts) > 2 else "", headers)

    def chunks(self, resp, method="GET"):
        """The body as it comes, piece by piece; Cut when it ends before its end."""
        if method == "HEAD" or resp.status in (204, 304) or 100 <= resp.status < 200:
            return
        if "chunked" in (resp.header("transfer-encoding") or "").lower():
            while True:
                size = int(self.read_line().split(b";")[0], 16)
                if size == 0:
                    while line := self.read_line().decode("latin-1"):
                        k, _, v = line.partition(":")
                        resp.trailers.append((k.strip().lower(), v.strip()))
                    return
                left = size
                while left:
                    if not self.rest:
                        self._more()
                    piece, self.rest = self.rest[:left], self.rest[left:]
                    left -= len(piece)
                    yield piece
                if self.read_line():
                    raise AssertionError("no line end after a chunk")
        elif resp.header("content-length") is not None:
            left = int(resp.header("content-length"))
            while left:
                if not self.rest:
                    self._more()
                piece, self.rest = self.rest[:left], self.rest[left:]
                left -= len(piece)
                yield piece
        else:
            while True:
                if self.rest:
                    piece, self.rest = self.rest, b""
                    yield piece
                try:
                    self._more()
                except Cut as e:
                    if str(e) == "closed":
                        return
                    raise

    def finish(self, method="GET"):
        """The next whole answer."""
        resp = self.head()
        got = []
        try:
            for piece in self.chunks(resp, method):
                got.append(piece)
        except Cut as e:
            e.got = b"".join(got)
            raise
        resp.body = b"".join(got)
        return resp

    def request(self, method, target, headers=(), body=None, host=None):
        self.start(method, target, headers, body, host)
        return self.finish(method)

    def readable(self, seconds):
        """Whether something came, or the end, within that time."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        return bool(self.rest) or bool(select.select([self.sock], [], [], seconds)[0])

    def closed_by_peer(self, seconds=HANG):
        """True when the peer closes within that time, whatever it still sends."""
        self.sock.settimeout(seconds)
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                if not self.sock.recv(65536):
                    return True
        except ConnectionError:
            return True
        except OSError:
            return False
        return False


def once(where, method, target, headers=(), body=None, host=None, timeout=HANG):
    """One request on a connection of its own."""
    with Conn(where, timeout) as c:
        return c.request(method, target, list(headers) + [("Connection", "close")], body, host)


def raw(where, data, timeout=HANG):
    """Sends bytes as they are; answers the first whole answer, or None when none came within that time."""
    with Conn(where) as c:
        c.sock.settimeout(timeout)
        try:
            c.send(data)
        except ConnectionError:
            pass
        try:
            return c.finish()
        except (Cut, socket.timeout):
            return None
