"""A FastCGI client (one request a connection) and a CGI caller: the front ends without a web server."""

import contextlib
import socket
import struct
import subprocess
import urllib.parse

import wire

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7


def record(kind, data, request=1):
    return struct.pack("!BBHHBB", 1, kind, request, len(data), 0, 0) + data


def records(kind, data):
    out = b""
    for i in range(0, len(data), 65528):
        out += record(kind, data[i:i + 65528])
    return out


def _length(n):
    return struct.pack("!B", n) if n < 128 else struct.pack("!I", n | 0x80000000)


def pairs(params):
    out = b""
    for k, v in params.items():
        k, v = k.encode(), v.encode("utf-8", "surrogateescape")
        out += _length(len(k)) + _length(len(v)) + k + v
    return out


def cgi_params(method, target, headers, body):
    """The variables a web server gives (RFC 3875), REQUEST_URI as sent, PATH_INFO decoded."""
    path, _, query = target.partition("?")
    params = {
        "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_PROTOCOL": "HTTP/1.1", "SERVER_SOFTWARE": "test",
        "REQUEST_METHOD": method, "REQUEST_URI": target, "QUERY_STRING": query,
        "SCRIPT_NAME": urllib.parse.unquote(path, "latin-1").replace("\0", ""), "DOCUMENT_URI": path,
        "REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": "1", "SERVER_ADDR": "127.0.0.1", "SERVER_PORT": "80",
        "SERVER_NAME": "localhost", "HTTP_HOST": "localhost",
    }
    if body is not None:
        params["CONTENT_LENGTH"] = str(len(body))
    for k, v in headers:
        name = k.upper().replace("-", "_")
        params[name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + name] = v
    return params


def parse(output):
    """A CGI answer (header fields, empty line, body) as a Response."""
    head, sep, body = output.partition(b"\r\n\r\n")
    if not sep:
        head, sep, body = output.partition(b"\n\n")
    if not sep:
        raise AssertionError("not a CGI answer: %r" % output[:300])
    status, reason, fields = 200, "OK", []
    for line in head.decode("latin-1").splitlines():
        k, _, v = line.partition(":")
        if k.lower() == "status":
            status, _, reason = v.strip().partition(" ")
        else:
            fields.append((k.strip().lower(), v.strip()))
    r = wire.Response(int(status), reason, fields)
    r.body = body
    return r


def connect(path, timeout=wire.HANG):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(path)
    return s


def begin(s, params, role=1, keep=0):
    s.sendall(record(BEGIN, struct.pack("!HB5x", role, keep)) + records(PARAMS, pairs(params)) + record(PARAMS, b""))


def read_output(s):
    """(stdout, stderr) until the end-request record."""
    data, out, err = b"", b"", b""
    while True:
        while len(data) < 8:
            piece = s.recv(65536)
            if not piece:
                raise wire.Cut("responder closed", out)
            data += piece
        _, kind, _, n, pad, _ = struct.unpack("!BBHHBB", data[:8])
        while len(data) < 8 + n + pad:
            piece = s.recv(262144)
            if not piece:
                raise wire.Cut("responder closed", out)
            data += piece
        content, data = data[8:8 + n], data[8 + n + pad:]
        if kind == STDOUT:
            out += content
        elif kind == STDERR:
            err += content
        elif kind == END:
            return out, err


def call(path, method, target, headers=(), body=None, timeout=wire.HANG):
    """One request to the responder that listens on a unix socket."""
    with connect(path, timeout) as s:
        begin(s, cgi_params(method, target, headers, body))
        with contextlib.suppress(ConnectionError):      # it may have answered before it read all, as web servers know, too
            s.sendall(records(STDIN, body or b"") + record(STDIN, b""))
        return parse(read_output(s)[0])


def cgi(program, conf, method, target, headers=(), body=None, timeout=wire.HANG, user="www-data"):
    """One request to the same program as plain CGI, run as the web server would."""
    # No arguments: as CGI a responder ignores them, since a web server may make them of the query.
    e = {"PATH": "/usr/bin:/bin", "HUTCH_CONFIG": conf}
    e.update(cgi_params(method, target, headers, body))
    p = subprocess.run([program], input=body or b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=e, timeout=timeout,
                       cwd="/", user=user, group=user, extra_groups=[])
    if p.returncode != 0:
        raise AssertionError("%s: exit %d: %s" % (program, p.returncode, p.stderr.decode("utf-8", "replace")))
    return parse(p.stdout)
