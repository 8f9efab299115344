"""The guest agent as SDKs call it: Connect JSON streams, files, health; through the web server."""

import base64
import json
import struct
import urllib.parse

import wire


class Stream:
    """An open server stream of envelopes."""

    def __init__(self, conn, resp):
        self.conn = conn
        self.resp = resp
        self.buffer = b""
        self.pieces = conn.chunks(resp)

    def next(self):
        """(flags, object) of the next envelope; None after a proper end of the body; Cut when it is cut."""
        while len(self.buffer) < 5 or len(self.buffer) < 5 + struct.unpack("!I", self.buffer[1:5])[0]:
            try:
                self.buffer += next(self.pieces)
            except StopIteration:
                if self.buffer:
                    raise AssertionError("part of an envelope at the end: %r" % self.buffer[:80]) from None
                return None
        n = struct.unpack("!I", self.buffer[1:5])[0]
        flags, body, self.buffer = self.buffer[0], self.buffer[5:5 + n], self.buffer[5 + n:]
        return flags, json.loads(body)

    def events(self):
        """Events until the end-stream envelope; raises RpcError when that carries one."""
        while True:
            item = self.next()
            if item is None:
                raise AssertionError("no end-stream envelope")
            flags, obj = item
            if flags & 2:
                if "error" in obj:
                    raise RpcError(200, obj["error"].get("code"), obj["error"].get("message"))
                if self.next() is not None:
                    raise AssertionError("bytes after the end-stream envelope")
                return
            yield obj.get("event", obj)

    def close(self):
        self.conn.close()


class RpcError(Exception):
    def __init__(self, status, code, message):
        super().__init__("%s %s: %s" % (status, code, message))
        self.status, self.code, self.message = status, code, message


class Result:
    def __init__(self):
        self.pid = None
        self.stdout = self.stderr = b""
        self.exit_code = None
        self.status = self.error = None

    def __repr__(self):
        return "<exit %r %r stdout=%r stderr=%r>" % (self.exit_code, self.status, self.stdout[-300:], self.stderr[-300:])


class Envd:
    def __init__(self, where, sandbox_id, token=None, port=49983, timeout=180):
        self.where, self.id, self.token, self.port, self.timeout = where, sandbox_id, token, port, timeout

    def headers(self, user=None, token=None, extra=()):
        h = [("E2b-Sandbox-Id", self.id), ("E2b-Sandbox-Port", str(self.port))]
        token = self.token if token is None else token
        if token:
            h.append(("X-Access-Token", token))
        if user:
            h.append(("Authorization", "Basic " + base64.b64encode(("%s:" % user).encode()).decode()))
        return h + list(extra)

    def call(self, method, target, body=None, extra=(), user=None, token=None):
        return wire.once(self.where, method, target, self.headers(user, token, extra), body, timeout=self.timeout)

    def health(self):
        return self.call("GET", "/health").status

    def rpc(self, method, message, user=None, extra=()):
        """Unary call; the answer's object, or RpcError."""
        r = self.call("POST", "/" + method, json.dumps(message).encode(),
                      [("Content-Type", "application/json"), ("Connect-Protocol-Version", "1")] + list(extra), user)
        if r.status != 200:
            j = r.json()
            raise RpcError(r.status, j.get("code"), j.get("message"))
        return r.json()

    def stream(self, method, message, user=None, extra=(), timeout=None, conn=None):
        """A streaming call, on a connection of its own or on conn, which is the stream's from now on."""
        body = json.dumps(message).encode()
        body = struct.pack("!BI", 0, len(body)) + body
        c = conn or wire.Conn(self.where, timeout or self.timeout)
        c.start("POST", "/" + method, self.headers(user, None, [
            ("Content-Type", "application/connect+json"), ("Connect-Protocol-Version", "1"),
            ("Keepalive-Ping-Interval", "50")] + list(extra)), body)
        resp = c.head()
        if resp.status != 200:
            resp.body = b"".join(c.chunks(resp))
            c.close()
            try:
                j = resp.json()
            except AssertionError:
                j = {"message": resp.text}
            raise RpcError(resp.status, j.get("code"), j.get("message"))
        return Stream(c, resp)

    def start(self, cmd, args=(), user=None, cwd=None, envs=None, stdin=False, timeout_ms=None, pty=None, tag=None):
        """An open Start stream (the caller closes it)."""
        process = {"cmd": cmd, "args": list(args)}
        if cwd is not None:
            process["cwd"] = cwd
        if envs:
            process["envs"] = envs
        message = {"process": process}
        if pty:
            message["pty"] = {"size": {"cols": pty[0], "rows": pty[1]}}
        else:
            message["stdin"] = stdin
        if tag:
            message["tag"] = tag
        extra = [("Connect-Timeout-Ms", str(timeout_ms))] if timeout_ms else []
        return self.stream("process.Process/Start", message, user, extra)

    def spawn(self, text, shell="/bin/bash", **kw):
        """Starts a shell command, waits for its start event, hangs up; the process goes on. Its pid."""
        s = self.start(shell, ["-c", text], **kw)
        try:
            return next(s.events())["start"]["pid"]
        finally:
            s.close()

    def run(self, text, shell="/bin/bash", login=True, **kw):
        """A shell command to its end."""
        s = self.start(shell, (["-l"] if login else []) + ["-c", text], **kw)
        try:
            return collect(s)
        finally:
            s.close()

    def out(self, text, **kw):
        """Standard output as text of a command that must succeed."""
        r = self.run(text, **kw)
        if r.exit_code != 0:
            raise AssertionError("%s: %r" % (text, r))
        return r.stdout.decode("utf-8", "replace")

    # ---- files ----
    def files_target(self, path, **query):
        query = {"path": path, **query}
        return "/files?" + urllib.parse.urlencode(query)

    def read(self, path, **query):
        return self.call("GET", self.files_target(path, **query))

    def content(self, path):
        """Bytes of a file; None where it does not answer with them (its error body is no content)."""
        r = self.read(path)
        return r.body if r.status == 200 else None

    def write(self, path, data, **query):
        return self.call("POST", self.files_target(path, **query), data, [("Content-Type", "application/octet-stream")])


def collect(stream):
    r = Result()
    out, err = [], []
    first = True
    for e in stream.events():
        if first and "start" not in e:
            raise AssertionError("the first event is not start: %r" % e)
        first = False
        if "start" in e:
            r.pid = e["start"]["pid"]
        elif "data" in e:
            d = e["data"]
            for key, where in (("stdout", out), ("stderr", err), ("pty", out)):
                if key in d:
                    where.append(base64.b64decode(d[key], validate=True))
        elif "end" in e:
            r.exit_code = e["end"].get("exitCode", 0)
            r.status = e["end"].get("status")
            r.error = e["end"].get("error")
    r.stdout, r.stderr = b"".join(out), b"".join(err)
    if r.exit_code is None:
        raise AssertionError("no end event: %r" % r)
    return r
