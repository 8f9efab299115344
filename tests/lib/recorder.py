"""A server for a sandbox that keeps what it is sent, byte by byte: python3 recorder.py PORT. Standard library only.

It answers each request with its number on the connection, as soon as it believes the request whole (by the most generous reading), offers to
go on, and keeps listening to what else comes. On PORT + 1: GET /take answers what came since the last time, as JSON: one text (latin-1) a
connection, empty ones left out; connections that are still open are waited for.
"""

import json
import re
import socket
import sys
import threading

lock = threading.Condition()
records, busy = [], 0


def whole(data):
    """Does a request seem to end at the end of data, or before it?"""
    head, sep, body = data.partition(b"\r\n\r\n")
    if not sep:
        head, sep, body = data.partition(b"\n\n")
    if not sep:
        return False
    if re.search(rb"(?im)^transfer.encoding\s*:.*chunked", head):
        return re.search(rb"(^|\n)0+\s*(;[^\n]*)?\r?\n(.+\r?\n)*\r?\n", body) is not None
    n = re.findall(rb"(?im)^content.length\s*:\s*\+?(\d+)", head)
    return len(body) >= max((int(x[:9]) for x in n), default=0)


def serve(c):
    global busy
    data, answered = b"", False
    c.settimeout(8)
    try:
        while True:
            piece = c.recv(65536)
            if not piece:
                break
            data += piece
            if not answered and whole(data):
                answered = True
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    except OSError:
        pass
    c.close()
    with lock:
        busy -= 1
        if data:
            records.append(data.decode("latin-1"))
        lock.notify_all()


def listen(port, fn):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(64)

    def loop():
        global busy
        while True:
            c = s.accept()[0]
            if fn is serve:
                with lock:
                    busy += 1
            threading.Thread(target=fn, args=(c,), daemon=True).start()
    return threading.Thread(target=loop)


def tell(c):
    c.recv(65536)
    with lock:
        lock.wait_for(lambda: busy == 0, 60)
        body = json.dumps(records).encode()
        records.clear()
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
    c.close()


if __name__ == "__main__":
    for t in (listen(int(sys.argv[1]), serve), listen(int(sys.argv[1]) + 1, tell)):
        t.start()
