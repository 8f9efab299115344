"""The web servers that hutch works behind: what each needs, and what it can. docs/web-servers.md has the same as a table."""

import collections
import signal

Server = collections.namedtuple("Server", (
    "program",
    "lookups",          # parts of hutch that find sandboxes for it
    "reload_by",        # the signal that lets it read its files anew
    "early",            # an answer of a sandbox reaches the client before its upload has ended
    "duplex",           # request and answer flow at the same time (WebSockets always do)
    "h2",               # HTTP/2 over TLS
    "trailers",         # those of an answer pass; None: only where they come in a packet of their own
    "underscore",       # header names with an underscore pass to a sandbox
    "errors",           # status of what it refuses by itself (tests/scenario/differences.py), or one of several where versions differ
))

SERVERS = {
    "nginx": Server(program="nginx", lookups=["edge"], reload_by=signal.SIGHUP, early=True, duplex=True, h2=True, trailers=False, underscore=False, errors={
        "no host": 400, "length no number": 400, "unknown coding": 501, "body too large": 413, "target too long": 414, "field too large": 431,
        "method refused": 405, "unknown version": 505}),
    "lighttpd": Server(program="lighttpd", lookups=["relay"], reload_by=signal.SIGUSR1, early=True, duplex=True, h2=False, trailers=None, underscore=True, errors={
        "no host": 400, "length no number": 400, "unknown coding": 501, "body too large": 413, "target too long": 400, "field too large": 431,
        "method refused": 404, "unknown version": (505, 400)}),        # 1.4.69 and 1.4.79
    "apache": Server(program="apache2", lookups=["relay"], reload_by=signal.SIGUSR1, early=False, duplex=False, h2=False, trailers=False, underscore=True, errors={
        "no host": 400, "length no number": 400, "unknown coding": 400, "body too large": 413, "target too long": 414, "field too large": 400,
        "method refused": 405, "unknown version": 505}),
}
