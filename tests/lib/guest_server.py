"""What the tests run in a sandbox behind a port: python3 guest_server.py PORT. Standard library only, one thread.

Every connection takes one request, as a proxy sends it, and is closed after the answer. By path:
  /head        the head as it came, as JSON [first line, [name, value], ...]
  /count       reads the body to its end; JSON of its length, its SHA-256 and whether it came in chunks
  /seen        how much of the body of the upload that is under way has come
  /give/N      N bytes
  /events      a stream (text/event-stream, or application/x-ndjson with ?ndjson) of what is pushed; first an empty event
  /push/TEXT   to all open streams; answers how many there are
  /duplex      the body back, piece by piece, while it comes
  /trailers    chunked, with a trailer field
  /ws          a WebSocket that echoes
"""

import asyncio
import base64
import hashlib
import json
import struct
import sys

streams = set()
seen = 0


def fields_of(head):
    return [[k.strip().lower(), v.strip()] for k, _, v in (line.partition(":") for line in head.split("\r\n")[1:] if line)]


async def span(reader, left):
    """The next bytes in pieces; IncompleteReadError when fewer come."""
    global seen
    while left:
        piece = await reader.read(min(left, 1 << 18))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        seen += len(piece)
        yield piece


async def body(reader, fields):
    global seen
    seen = 0
    if "chunked" not in fields.get("transfer-encoding", "").lower():
        async for piece in span(reader, int(fields.get("content-length", 0))):
            yield piece
        return
    while True:
        n = int((await reader.readline()).split(b";")[0], 16)
        async for piece in span(reader, n):
            yield piece
        await reader.readline()
        if n == 0:
            return


def answer(writer, data, kind="application/json", status="200 OK"):
    writer.write(("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, kind, len(data))).encode() + data)


def begin(writer, kind, extra=""):
    writer.write(("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n%sConnection: close\r\n\r\n" % (kind, extra)).encode())


def chunk(writer, data):
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def give(writer, n):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % n)
    block = bytes(range(256)) * 1024
    while n:
        writer.write(block[:n])
        await writer.drain()
        n -= min(n, len(block))


async def events(reader, writer, ndjson):
    begin(writer, "application/x-ndjson" if ndjson else "text/event-stream")
    queue = asyncio.Queue()
    streams.add(queue)
    gone = asyncio.ensure_future(reader.read(1))
    try:
        chunk(writer, b"{}\n" if ndjson else b": hello\n\n")
        while True:
            item = asyncio.ensure_future(queue.get())
            await asyncio.wait({item, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not item.done():
                item.cancel()
                return
            text = item.result()
            chunk(writer, (json.dumps({"text": text}) + "\n" if ndjson else "data: %s\n\n" % text).encode())
            await writer.drain()
            if text == "end":
                writer.write(b"0\r\n\r\n")
                return
    finally:
        gone.cancel()
        streams.discard(queue)


def frame(kind, data):
    n = len(data)
    size = struct.pack("!B", n) if n < 126 else struct.pack("!BH", 126, n) if n < 65536 else struct.pack("!BQ", 127, n)
    return bytes([0x80 | kind]) + size + data


async def read_frame(reader):
    first, n = await reader.readexactly(2)
    n &= 127
    if n > 125:
        n = struct.unpack("!H" if n == 126 else "!Q", await reader.readexactly(2 if n == 126 else 8))[0]
    mask = await reader.readexactly(4)
    data = await reader.readexactly(n)
    key = int.from_bytes((mask * (n // 4 + 1))[:n], "big") if n else 0
    return first & 15, (int.from_bytes(data, "big") ^ key).to_bytes(n, "big") if n else b""


async def websocket(reader, writer, fields):
    key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    writer.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Host: %s\r\nSec-WebSocket-Accept: %s\r\n\r\n" % (
        fields.get("host"), base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())).encode())
    while True:
        kind, data = await read_frame(reader)
        writer.write(frame({8: 8, 9: 10}.get(kind, kind), data))
        await writer.drain()
        if kind == 8:
            return


async def serve(reader, writer):
    try:
        raw = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1")
        pairs = fields_of(raw)
        fields = dict(pairs)
        path, _, query = raw.split(" ")[1].partition("?")
        if path == "/count":
            digest, n = hashlib.sha256(), 0
            async for piece in body(reader, fields):
                digest.update(piece)
                n += len(piece)
            answer(writer, json.dumps({"n": n, "sha256": digest.hexdigest(), "chunked": "transfer-encoding" in fields}).encode())
        elif path == "/seen":
            answer(writer, b"%d" % seen)
        elif path.startswith("/give/"):
            await give(writer, int(path[6:]))
        elif path == "/events":
            await events(reader, writer, query == "ndjson")
        elif path.startswith("/push/"):
            for q in list(streams):
                q.put_nowait(path[6:])
            answer(writer, b"%d" % len(streams))
        elif path == "/duplex":
            begin(writer, "application/octet-stream")
            async for piece in body(reader, fields):
                chunk(writer, piece)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        elif path == "/trailers":
            begin(writer, "text/plain", "Trailer: X-Sum\r\n")
            chunk(writer, b"hello")
            writer.write(b"0\r\nX-Sum: 5\r\n\r\n")
        elif path == "/ws":
            await websocket(reader, writer, fields)
        elif raw.startswith("HEAD "):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n")
        else:
            rest = b"".join([p async for p in body(reader, fields)])
            answer(writer, json.dumps([raw.split("\r\n")[0]] + pairs + [["body", rest.decode("latin-1")]]).encode())
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(port):
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 20, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
