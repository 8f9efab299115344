"""Request smuggling: whatever a client sends, one request in is at most one at a guest, framed beyond doubt, at the right sandbox.

A table of odd requests goes to sandbox A, each with another request for sandbox B hidden in it. The servers in A and B keep every byte that
reaches them. How the web server judges a request is its affair (400 or not); what goes on to a guest has to be one plain request a connection.
Every request carries the number of its case: what a slow server passes on late is not taken for part of the next one.
"""

import re
import socket
import ssl
import struct
import threading

import wire
from addressing import guest, host
from tap import Suite, check, equal

suite = Suite()
scenario = suite.scenario

PORT = 3400
INNER = b"GET /smuggled@NNN HTTP/1.1\r\nHost: @B\r\nX-Hidden: 1\r\n\r\n"


def to_a(lines=b"", body=b"", line=b"POST /case@NNN HTTP/1.1", head=b"Host: @A\r\n"):
    return line + b"\r\n" + head + lines + b"\r\n" + body


def fields(*lines):
    return b"".join(x + b"\r\n" for x in lines)


NUMBER = b"X-Number: @NNN\r\n"        # where it cannot be in the target
N = len(INNER)
LEN = b"Content-Length: %d" % N
FIVE = b"Content-Length: 5"
CHUNKED = b"Transfer-Encoding: chunked"
EMPTY = b"0\r\n\r\n"
HELLO = b"5\r\nhello\r\n0\r\n\r\n"
BY_HEADERS = b"E2b-Sandbox-Id: @IA\r\nE2b-Sandbox-Port: %d\r\n" % PORT

CASES = {
    # ---- lengths
    "no length, but a body": to_a(b"", INNER),
    "length 0, but a body": to_a(fields(b"Content-Length: 0"), INNER),
    "length too short": to_a(fields(FIVE), b"hello" + INNER),
    "two lengths, the same": to_a(fields(FIVE, FIVE), b"hello" + INNER),
    "two lengths, short and long": to_a(fields(FIVE, LEN), INNER),
    "two lengths, long and short": to_a(fields(LEN, FIVE), INNER),
    "a list of lengths": to_a(fields(b"Content-Length: 5, 5"), b"hello" + INNER),
    "a list of two lengths": to_a(fields(b"Content-Length: 5, %d" % N), INNER),
    "length +5": to_a(fields(b"Content-Length: +5"), b"hello" + INNER),
    "length -5": to_a(fields(b"Content-Length: -5"), INNER),
    "length 005": to_a(fields(b"Content-Length: 005"), b"hello" + INNER),
    "length 0x5": to_a(fields(b"Content-Length: 0x5"), b"hello" + INNER),
    "length 5e0": to_a(fields(b"Content-Length: 5e0"), b"hello" + INNER),
    "length 5 5": to_a(fields(b"Content-Length: 5 5"), b"hello" + INNER),
    "length of 2^64 + 5": to_a(fields(b"Content-Length: 18446744073709551621"), b"hello" + INNER),
    "length of 2^63": to_a(fields(b"Content-Length: 9223372036854775808"), b"hello" + INNER),
    "empty length": to_a(fields(b"Content-Length:"), INNER),
    "length with a vertical tab": to_a(fields(b"Content-Length:\x0b5"), b"hello" + INNER),
    "length, blank before the colon": to_a(fields(b"Content-Length : 5"), b"hello" + INNER),
    "length, tab before the colon": to_a(fields(b"Content-Length\t: 5"), b"hello" + INNER),
    "length with an underscore": to_a(fields(b"Content_Length: 5"), b"hello" + INNER),
    "length in a folded line": to_a(b"X: 1\r\n Content-Length: 5\r\n", b"hello" + INNER),
    "folded length": to_a(b"Content-Length:\r\n 5\r\n", b"hello" + INNER),
    "GET with a body": to_a(fields(LEN), INNER, line=b"GET /case@NNN HTTP/1.1"),
    # ---- length and coding
    "CL.TE": to_a(fields(b"Content-Length: %d" % (N + 5), CHUNKED), EMPTY + INNER),
    "TE.CL": to_a(fields(CHUNKED, b"Content-Length: 4"), b"%x\r\n%s\r\n" % (N, INNER) + EMPTY),
    "TE.CL, coding last": to_a(fields(b"Content-Length: 4", CHUNKED), b"%x\r\n%s\r\n" % (N, INNER) + EMPTY),
    "TE.TE, the second unknown": to_a(fields(CHUNKED, b"Transfer-Encoding: x"), EMPTY + INNER),
    "TE.TE, the first unknown": to_a(fields(b"Transfer-Encoding: x", CHUNKED), EMPTY + INNER),
    "coding twice": to_a(fields(CHUNKED, CHUNKED), EMPTY + INNER),
    "chunked, chunked": to_a(fields(b"Transfer-Encoding: chunked, chunked"), EMPTY + INNER),
    "chunked, identity": to_a(fields(b"Transfer-Encoding: chunked, identity"), EMPTY + INNER),
    "identity, chunked": to_a(fields(b"Transfer-Encoding: identity, chunked"), EMPTY + INNER),
    "gzip, chunked": to_a(fields(b"Transfer-Encoding: gzip, chunked"), EMPTY + INNER),
    "identity and a length": to_a(fields(b"Transfer-Encoding: identity", FIVE), b"hello" + INNER),
    "xchunked and a length": to_a(fields(b"Transfer-Encoding: xchunked", b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "CHUNKED": to_a(fields(b"Transfer-Encoding: CHUNKED"), EMPTY + INNER),
    "quoted coding": to_a(fields(b'Transfer-Encoding: "chunked"', b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding with a blank before the colon": to_a(fields(b"Transfer-Encoding : chunked", b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding with a tab": to_a(fields(b"Transfer-Encoding:\tchunked", b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding with a vertical tab": to_a(fields(b"Transfer-Encoding:\x0bchunked", b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding with a parameter": to_a(fields(b"Transfer-Encoding: chunked;a=b", b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding in a folded line": to_a(b"X: 1\r\n Transfer-Encoding: chunked\r\n" + fields(b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "folded coding": to_a(b"Transfer-Encoding:\r\n chunked\r\n" + fields(b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding with an underscore": to_a(fields(b"Transfer_Encoding: chunked", b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding after a bare line feed": to_a(b"X: 1\nTransfer-Encoding: chunked\r\n" + fields(b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding after a bare carriage return": to_a(b"X: 1\rTransfer-Encoding: chunked\r\n" + fields(b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding after NUL": to_a(b"X: 1\0Transfer-Encoding: chunked\r\n" + fields(b"Content-Length: %d" % (N + 5)), EMPTY + INNER),
    "coding in HTTP/1.0": to_a(fields(CHUNKED), EMPTY + INNER, line=b"POST /case@NNN HTTP/1.0"),
    "coding and length in HTTP/1.0": to_a(fields(b"Connection: keep-alive", CHUNKED, b"Content-Length: %d" % (N + 5)), EMPTY + INNER,
                                          line=b"POST /case@NNN HTTP/1.0"),
    # ---- chunks
    "chunk extension": to_a(fields(CHUNKED), b"5;a=b\r\nhello\r\n" + EMPTY + INNER),
    "chunk extension with a line feed": to_a(fields(CHUNKED), b"5;a\nb\r\nhello\r\n" + EMPTY + INNER),
    "chunk size 0x5": to_a(fields(CHUNKED), b"0x5\r\nhello\r\n" + EMPTY + INNER),
    "chunk size +5": to_a(fields(CHUNKED), b"+5\r\nhello\r\n" + EMPTY + INNER),
    "chunk size -1": to_a(fields(CHUNKED), b"-1\r\nhello\r\n" + EMPTY + INNER),
    "chunk size with blanks": to_a(fields(CHUNKED), b"5 \r\nhello\r\n" + EMPTY + INNER),
    "chunk size after a blank": to_a(fields(CHUNKED), b" 5\r\nhello\r\n" + EMPTY + INNER),
    "chunk size over 64 bits": to_a(fields(CHUNKED), b"10000000000000005\r\nhello\r\n" + EMPTY + INNER),
    "chunk size empty": to_a(fields(CHUNKED), b"\r\nhello\r\n" + EMPTY + INNER),
    "chunk lines end in a line feed": to_a(fields(CHUNKED), b"5\nhello\n0\n\n" + INNER),
    "chunk too long": to_a(fields(CHUNKED), b"5\r\nhello!!\r\n" + EMPTY + INNER),
    "chunk size then a bare carriage return": to_a(fields(CHUNKED), b"5\rhello\r\n" + EMPTY + INNER),
    "last chunk 000": to_a(fields(CHUNKED), b"5\r\nhello\r\n000\r\n\r\n" + INNER),
    "trailer with a length": to_a(fields(CHUNKED), b"5\r\nhello\r\n0\r\n" + LEN + b"\r\n\r\n" + INNER),
    "trailer that names another sandbox": to_a(fields(CHUNKED), b"5\r\nhello\r\n0\r\nE2b-Sandbox-Id: @IB\r\nHost: @B\r\n\r\n" + INNER),
    "trailer without a colon": to_a(fields(CHUNKED), b"5\r\nhello\r\n0\r\n" + INNER),
    "body of no end": to_a(fields(CHUNKED), b"5\r\nhello\r\n"),
    # ---- heads
    "lines end in a line feed": to_a(b"", b"").replace(b"\r\n", b"\n") + INNER,
    "line without a colon": to_a(b"nonsense\r\n", INNER),
    "first field folded": b"POST /case@NNN HTTP/1.1\r\n Host: @B\r\nHost: @A\r\n\r\n" + INNER,
    "NUL in a value": to_a(b"X-Nul: a\0b\r\n", INNER),
    "NUL in a name": to_a(b"X\0Nul: a\r\n", INNER),
    "NUL in the target": to_a(b"", INNER, line=b"GET /ca\0se@NNN HTTP/1.1"),
    "blank in the target": to_a(b"", INNER, line=b"GET /ca se@NNN HTTP/1.1"),
    "two versions": to_a(b"", INNER, line=b"GET /case@NNN HTTP/1.1 HTTP/1.1"),
    "tabs in the first line": to_a(b"", INNER, line=b"GET\t/case@NNN\tHTTP/1.1"),
    "carriage return in the target": to_a(b"", INNER, line=b"GET /case@NNN\rX: HTTP/1.1"),
    "empty lines before": b"\r\n\r\n" + to_a(b"", INNER),
    "HTTP/0.9": b"GET /case@NNN\r\n" + INNER,
    "method in lower case": to_a(fields(FIVE), b"hello" + INNER, line=b"post /case@NNN HTTP/1.1"),
    "CONNECT": to_a(NUMBER, INNER, line=b"CONNECT @B:80 HTTP/1.1"),
    "asterisk": to_a(NUMBER, INNER, line=b"OPTIONS * HTTP/1.1"),
    "many small fields": to_a(b"".join(b"X-%d: 1\r\n" % i for i in range(90)), INNER),
    "Expect and no wait": to_a(fields(b"Expect: 100-continue", FIVE), b"hello" + INNER),
    "Expect of something else": to_a(fields(b"Expect: @B", FIVE), b"hello" + INNER),
    # ---- places
    "two hosts": to_a(b"Host: @B\r\n", INNER),
    "two hosts, the other first": to_a(b"Host: @A\r\n", INNER, head=b"Host: @B\r\n"),
    "list of hosts": to_a(b"", INNER, head=b"Host: @A, @B\r\n"),
    "host with a user": to_a(b"", INNER, head=b"Host: @A@@B\r\n"),
    "host with a path": to_a(b"", INNER, head=b"Host: @A/@B\r\n"),
    "no host": to_a(b"", INNER, head=b""),
    "absolute form of A, host B": to_a(b"", b"", line=b"GET http://@A/case@NNN HTTP/1.1", head=b"Host: @B\r\n"),
    "absolute form of B, host A": to_a(b"", b"", line=b"GET http://@B/case@NNN HTTP/1.1"),
    "absolute form of https": to_a(b"", b"", line=b"GET https://@A/case@NNN HTTP/1.1"),
    "target of two slashes": to_a(b"", b"", line=b"GET //@B/case@NNN HTTP/1.1"),
    "host A, headers of B": to_a(b"E2b-Sandbox-Id: @IB\r\nE2b-Sandbox-Port: %d\r\n" % PORT, b""),
    "headers of A, then of B": to_a(BY_HEADERS + b"E2b-Sandbox-Id: @IB\r\n", b"", head=b"Host: x\r\n"),
    "headers of A, port twice": to_a(BY_HEADERS + b"E2b-Sandbox-Port: 49983\r\n", b"", head=b"Host: x\r\n"),
    "list of ids": to_a(b"E2b-Sandbox-Id: @IA, @IB\r\nE2b-Sandbox-Port: %d\r\n" % PORT, b"", head=b"Host: x\r\n"),
    "id with an underscore too": to_a(BY_HEADERS + b"E2b_Sandbox_Id: @IB\r\n", b"", head=b"Host: x\r\n"),
    "host A, underscore of B": to_a(b"E2b_Sandbox_Id: @IB\r\nE2b_Sandbox_Port: %d\r\n" % PORT, b""),
    "Connection names the id": to_a(BY_HEADERS + b"Connection: E2b-Sandbox-Id\r\n", b"", head=b"Host: x\r\n"),
    "Connection names the port": to_a(BY_HEADERS + b"Connection: close, E2b-Sandbox-Port\r\n", b"", head=b"Host: x\r\n"),
    "Connection names host and length": to_a(fields(b"Connection: Host, Content-Length, Transfer-Encoding", FIVE), b"hello" + INNER),
    "path of A, headers of B": to_a(b"E2b-Sandbox-Id: @IB\r\nE2b-Sandbox-Port: %d\r\n" % PORT, b"", line=b"GET /_sandbox/@IA/%d/case@NNN HTTP/1.1" % PORT,
                                    head=b"Host: x\r\n"),
    "path of A that climbs to B": to_a(b"", b"", line=b"GET /_sandbox/@IA/%d/../../@IB/%d/case@NNN HTTP/1.1" % (PORT, PORT), head=b"Host: x\r\n"),
    "path of A with a line in it": to_a(NUMBER, b"", line=b"GET /_sandbox/@IA/%d/%%0d%%0aHost:%%20@B HTTP/1.1" % PORT, head=b"Host: x\r\n"),
    # ---- upgrades
    "upgrade with a body": to_a(fields(b"Connection: Upgrade", b"Upgrade: websocket", FIVE), b"hello" + INNER),
    "upgrade to h2c": to_a(fields(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), INNER),
    "HTTP/2 in clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
    "upgrade without Connection": to_a(fields(b"Upgrade: websocket"), INNER),
}

# Those that are no trick: the guest must get what was meant.
PLAIN = {
    "one with a length": (to_a(fields(FIVE), b"hello"), "hello"),
    "one in chunks": (to_a(fields(CHUNKED), HELLO), "hello"),
    "one by headers": (to_a(BY_HEADERS + b"Content-Length: 5\r\n", b"hello", head=b"Host: x\r\n"), "hello"),
}


def strict(text):
    """(target, fields, body) of a record that is one plain request and nothing more; body None when it was cut. Else AssertionError."""
    head, sep, body = text.partition("\r\n\r\n")
    check(sep, "a whole head", text[:400])
    check(not re.search(r"[^\r]\n|\r[^\n]|[\0\x0b\x7f]", head.replace("\r\n", "")), "no stray control byte in it", repr(text[:600]))
    lines = head.split("\r\n")
    m = re.fullmatch(r"([A-Za-z-]+) ([^ \t]+) HTTP/1\.[01]", lines[0])
    check(m, "a plain first line", lines[0])
    got = []
    for line in lines[1:]:
        f = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)", line)
        check(f, "a plain field", line)
        got.append((f.group(1).lower(), f.group(2).strip()))
    names = [k for k, _ in got]
    check(names.count("host") == 1, "one Host", head)
    lengths, codings = names.count("content-length"), names.count("transfer-encoding")
    check(lengths + codings <= 1, "one framing", head)
    values = dict(got)
    if codings:
        check(values["transfer-encoding"].lower() == "chunked", "the coding is chunked", head)
        return m.group(2), values, chunks(body)
    n = 0
    if lengths:
        check(re.fullmatch(r"\d{1,18}", values["content-length"]), "a plain length", head)
        n = int(values["content-length"])
    if "upgrade" in values:                 # behind it no HTTP is spoken: the guest's server refuses or takes all
        return m.group(2), values, None
    check(len(body) <= n, "nothing behind the request", repr(text))
    return m.group(2), values, body if len(body) == n else None


def chunks(body):
    out = ""
    while True:
        m = re.match(r"([0-9a-fA-F]{1,16})[ \t]*(;[^\r\n]*)?\r\n", body)
        if not m:
            check(re.fullmatch(r"[0-9a-fA-F]*[ \t]*(;[^\n]*)?\r?", body), "a plain size of a chunk", repr(body[:200]))
            return None
        n, body = int(m.group(1), 16), body[m.end():]
        if n == 0:
            m = re.match(r"([^\r\n:]+:[^\r\n]*\r\n)*\r\n", body)
            check(m is None or m.end() == len(body), "nothing behind the last chunk", repr(body))
            return out if m else None
        if len(body) < n + 2:
            return None
        check(body[n:n + 2] == "\r\n", "a chunk's end", repr(body[:n + 10]))
        out, body = out + body[:n], body[n + 2:]


class Pair:
    """Two sandboxes that keep what they are sent."""

    def __init__(self, w, a, b):
        self.w, self.a, self.b, self.number = w, a, b, 0
        for s in (a, b):
            guest(s, PORT, "recorder.py")

    def fill(self, raw):
        return self.place(raw).replace(b"@NNN", b"-%03d" % self.number)

    def place(self, raw):
        for mark, value in ((b"@IA", self.a.id), (b"@IB", self.b.id), (b"@A", host(self.w, self.a, PORT)), (b"@B", host(self.w, self.b, PORT))):
            raw = raw.replace(mark, value.encode())
        return raw

    def take(self, s):
        r = wire.once(self.w.where, "GET", "/take", host=host(self.w, s, PORT + 1))
        equal(r.status, 200, "what was recorded: %r" % r)
        return r.json()

    def judge(self, name, talk):
        """What reached the guests after a case."""
        seen = 0
        for s, other in ((self.a, self.b), (self.b, self.a)):
            for text in self.take(s):
                try:
                    target, values, _ = strict(text)
                except AssertionError as e:
                    raise AssertionError("%s: what reached the guest is no plain request: %s" % (name, e)) from None
                n = re.search(r"-(\d{3})$", target) or re.search(r"-(\d{3})$", values.get("x-number", ""))
                seen += n is None or int(n.group(1)) == self.number        # one of an earlier case: its client no longer listened for the answer
                place = values.get("e2b-sandbox-id") if not re.match(r"\d+-", values["host"]) else values["host"]
                check(s.id in (place or ""), "%s: it is at the sandbox that it names" % name, text)
                hidden = target.startswith("/smuggled")
                check(hidden == ("x-hidden" in values), "%s: two requests in one" % name, text)
                check(not hidden or s is self.b, "%s: the hidden request is not where the outer one went" % name, text)
        talk.listen(60, seen)       # slow, maybe
        check(seen <= talk.answers + talk.cut, "%s: %d requests at the guests, %d answers to the client" % (name, seen, talk.answers))
        talk.close()


class Talk:
    """Bytes sent as they are, and how many answers came; cut: 1 when a last one may have been lost."""

    def __init__(self, where, raw, seconds=0.3):
        self.answers = self.cut = 0
        self.conn = wire.Conn(where)
        self.conn.sock.settimeout(10)
        try:
            self.conn.send(raw)
        except OSError:
            self.cut = 1
        self.listen(seconds)

    def listen(self, seconds, enough=1000):
        """Counts answers until there are enough, none has come for so long, or the end."""
        if self.cut:
            return
        try:
            while self.answers < enough and self.conn.readable(seconds):
                self.conn.finish("GET")
                self.answers += 1
        except (wire.Cut, OSError, AssertionError, ValueError):
            self.cut = 1

    def close(self):
        self.conn.close()


def converse(where, raw):
    Talk(where, raw, 1).close()


@scenario("a table of ambiguous requests: at most one plain request reaches a guest, at the sandbox that it names", data=True)
def table(w):
    with w.create(timeout=900) as a, w.create(timeout=900) as b:
        p = Pair(w, a, b)
        for name, (raw, want) in PLAIN.items():
            equal(wire.raw(w.where, p.fill(raw)).body, b"ok", name + ": an answer")
            got = p.take(a)
            equal((len(got), p.take(b)), (1, []), name + ": one request")
            equal(strict(got[0])[2], want, "%s: the body at the guest" % name)
        for name, raw in CASES.items():
            for where in (w.where, w.stack.tls_where):
                p.number += 1
                p.judge(name, Talk(where, p.fill(raw)))


@scenario("pipelined requests to different places each reach their own", data=True)
def pipelined(w):
    with w.create() as a, w.create() as b:
        p = Pair(w, a, b)
        one = to_a(fields(FIVE), b"hello", line=b"POST /1 HTTP/1.1")
        two = to_a(fields(CHUNKED), HELLO, line=b"POST /2 HTTP/1.1", head=b"Host: @B\r\n")
        api = b"GET /v2/sandboxes?limit=1 HTTP/1.1\r\nHost: x\r\nX-API-Key: " + w.api.key.encode() + b"\r\n\r\n"
        last = to_a(b"Connection: close\r\n", b"", line=b"GET /3 HTTP/1.1")
        with wire.Conn(w.where) as c:
            c.send(p.fill(one + two + api + two + last))
            statuses = [c.finish().status for _ in range(5)]
        equal(statuses, [200] * 5, "answers, in order")
        equal(sorted(strict(x)[0] for x in p.take(a)), ["/1", "/3"], "at A")
        equal([strict(x)[0] for x in p.take(b)], ["/2", "/2"], "at B")


# ---- HTTP/2 that is to become HTTP/1.1 -------------------------------------------------------------------------------------

def h2_frame(kind, flags, stream, data):
    return struct.pack("!I", len(data))[1:] + struct.pack("!BBI", kind, flags, stream) + data


def h2_head(pairs):
    """Fields as literals without indexing (RFC 7541 6.2.2), lengths below 127 only."""
    out = b""
    for k, v in pairs:
        check(len(k) < 127 and len(v) < 127, "short fields only")
        out += b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v
    return out


def h2(w, pairs, body=None, last=True, seconds=1):
    """One request on a connection of its own; what comes is read to its end, or until nothing has come for so long."""
    context = ssl.create_default_context(cafile=w.stack.tls_where.ca)
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(w.stack.tls_where.address, wire.HANG) as plain, context.wrap_socket(plain, server_hostname="hutch.localhost") as c:
        equal(c.selected_alpn_protocol(), "h2", "protocol")
        data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, b"") + h2_frame(1, 4 | (body is None and last), 1, h2_head(pairs))
        if body is not None:
            data += h2_frame(0, int(last), 1, body)
        c.sendall(data)
        c.settimeout(seconds)
        got = b""
        try:
            while True:
                piece = c.recv(65536)
                if not piece:
                    break
                got += piece
                at, kinds = 0, set()
                while at + 9 <= len(got):
                    n = int.from_bytes(got[at:at + 3], "big")
                    kinds.add((got[at + 3], got[at + 4] & 1))
                    at += 9 + n
                if (0, 1) in kinds or (3, 0) in kinds or (7, 0) in kinds or (1, 1) in kinds:
                    break
        except (socket.timeout, OSError):
            pass
    return One()


class One:
    """A talk of one request."""
    answers, cut = 1, 0

    def listen(self, seconds, enough):
        pass

    def close(self):
        pass


@scenario("HTTP/2 fields that would be more than fields in HTTP/1.1 do not become it", data=True)
def downgrade(w):
    if not w.server.h2:
        with w.create() as s:
            context = ssl.create_default_context(cafile=w.stack.tls_where.ca)
            context.set_alpn_protocols(["h2", "http/1.1"])
            with socket.create_connection(w.stack.tls_where.address, wire.HANG) as plain, context.wrap_socket(plain, server_hostname="hutch.localhost") as c:
                equal(c.selected_alpn_protocol(), "http/1.1", "it has no HTTP/2")
            equal(s.envd.health(), 204, "well")
        return
    with w.create() as a, w.create() as b:
        p = Pair(w, a, b)
        at_a, at_b = p.fill(b"@A"), p.fill(b"@B")
        hidden = p.place(INNER)[:100]

        def base(path=b"/case@NNN", authority=at_a, method=b"POST", scheme=b"https"):
            return [(b":method", method), (b":path", path), (b":scheme", scheme), (b":authority", authority)]
        h2(w, base(), b"hello", seconds=wire.HANG)
        equal([strict(x)[2] for x in p.take(a)], ["hello"], "a plain one")
        for name, pairs, body in (
                ("length too short", base() + [(b"content-length", b"0")], hidden),
                ("length too long", base() + [(b"content-length", b"500")], hidden),
                ("two lengths", base() + [(b"content-length", b"5"), (b"content-length", b"100")], hidden),
                ("coding", base() + [(b"transfer-encoding", b"chunked")], b"0\r\n\r\n" + hidden),
                ("coding and length", base() + [(b"transfer-encoding", b"chunked"), (b"content-length", b"%d" % (len(hidden) + 5))], b"0\r\n\r\n" + hidden),
                ("Connection names the host", base() + [(b"connection", b"host")], b"x"),
                ("line end in a value", base() + [(b"x-y", b"1\r\ntransfer-encoding: chunked")], b"0\r\n\r\n" + hidden),
                ("line feed in a value", base() + [(b"x-y", b"1\ntransfer-encoding: chunked")], b"0\r\n\r\n" + hidden),
                ("line end in a name", base() + [(b"x\r\ntransfer-encoding", b"chunked")], b"0\r\n\r\n" + hidden),
                ("colon in a name", base() + [(b"transfer-encoding: chunked\r\nx", b"1")], b"0\r\n\r\n" + hidden),
                ("NUL in a value", base() + [(b"x-y", b"1\0")], b"x"),
                ("upper case name", base() + [(b"Transfer-Encoding", b"chunked")], b"0\r\n\r\n" + hidden),
                ("line end in the path", base(path=b"/case@NNN HTTP/1.1\r\nX: 1"), b"x"),
                ("blank in the path", base(path=b"/ca se@NNN"), b"x"),
                ("absolute path", base(path=b"https://" + at_b + b"/case@NNN"), b"x"),
                ("empty path", base(path=b""), b"x"),
                ("line end in the method", base(method=b"GET /x HTTP/1.1\r\nX: 1"), b"x"),
                ("blank in the method", base(method=b"GET /smuggled HTTP/1.1 "), b"x"),
                ("line end in the authority", base(authority=at_a + b"\r\nhost: " + at_b), b"x"),
                ("host besides the authority", base() + [(b"host", at_b)], b"x"),
                ("two authorities", base() + [(b":authority", at_b)], b"x"),
                ("two paths", base() + [(b":path", b"/smuggled")], b"x"),
                ("pseudo field behind others", [(b"x-y", b"1")] + base(), b"x"),
                ("no authority, two hosts", base()[:3] + [(b"host", at_a), (b"host", at_b)], b"x"),
                ("odd scheme", base(scheme=b"https://" + at_b + b"/"), b"x"),
                ("upgrade", base() + [(b"upgrade", b"websocket"), (b"connection", b"upgrade")], hidden),
                ("id of B twice", base(authority=b"x") + [(b"e2b-sandbox-id", a.id.encode()), (b"e2b-sandbox-id", b.id.encode()),
                                                          (b"e2b-sandbox-port", b"%d" % PORT)], b"x")):
            p.number += 1
            p.judge("HTTP/2, " + name, h2(w, [(k, p.fill(v)) for k, v in pairs], p.fill(body)))


@scenario("odd requests to the API do not turn into others", data=True)
def api_lane(w):
    key = b"X-API-Key: " + w.api.key.encode() + b"\r\n"
    with w.create() as s:
        hidden = b"DELETE /sandboxes/" + s.id.encode() + b" HTTP/1.1\r\nHost: x\r\n" + key + b"\r\n"
        n = len(hidden)
        for lines, body in ((b"Content-Length: %d\r\n" % n, hidden), (b"Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (n, hidden)),
                            (b"Content-Length: %d\r\nContent-Length: %d\r\n" % (n, n), hidden), (b"Content-Length : %d\r\n" % n, b""),
                            (b"Content-Length: 0%d\r\n" % n, hidden)):
            converse(w.where, b"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + key + lines + b"\r\n" + body)
            equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "a body stays a body: %r" % lines)
        threads = [threading.Thread(target=converse, args=(w.where, b"GET /v2/sandboxes HTTP/1.1\r\nHost: x\r\n" + key + b"Content-Length: %d\r\n\r\n" % n + hidden))
                   for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(w.api("GET", "/sandboxes/" + s.id).status, 200, "many at once")
