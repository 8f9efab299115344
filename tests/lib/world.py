"""What a scenario works with: front ends, teams, sandboxes."""

import contextlib
import json
import os
import re
import secrets
import urllib.parse

import envd
import fcgi
import wire
from servers import SERVERS
from tap import check, equal

SANDBOX_ID = re.compile(r"^i[a-z0-9]{20}$")
TEMPLATE_ID = re.compile(r"^[a-z0-9]{20}$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d{3}|\d{6})Z$")
NOBODY = "i" + "0" * 20                 # well formed, never given out


class WebFront:
    """The API behind a web server."""
    data = True

    def __init__(self, where):
        self.where = where

    def request(self, method, target, headers=(), body=None):
        return wire.once(self.where, method, target, headers, body)


class FcgiFront:
    """The API's responders, spoken to on their FastCGI sockets; program(path) says which."""
    data = False

    def __init__(self, socket_of):
        self.socket_of = socket_of

    def request(self, method, target, headers=(), body=None):
        return fcgi.call(self.socket_of(responder_of(target)), method, target, headers, body)


class CgiFront:
    data = False

    def __init__(self, stack):
        self.stack = stack

    def request(self, method, target, headers=(), body=None):
        return fcgi.cgi(self.stack.program(responder_of(target)), self.stack.conf, method, target, headers, body)


def responder_of(target):
    """As httpd-conf/ routes: what is of teams to hutch-teams, templates and snapshots to hutch-templates, /events to hutch-events, the rest of the API to hutch-sandboxes."""
    if re.match(r"^/(teams|api-keys|access-tokens|nodes|admin)(/|\?|$)", target):
        return "hutch-teams"
    if re.match(r"^/((v[23]/)?templates|snapshots)(/|\?|$)", target):
        return "hutch-templates"
    return "hutch-events" if re.match(r"^/events(/|\?|$)", target) else "hutch-sandboxes"


class Api:
    """Requests of one team."""

    def __init__(self, front, key):
        self.front, self.key = front, key

    def __call__(self, method, target, body=None, headers=(), key=True):
        """body: bytes as they are, or any value as JSON."""
        headers = list(headers)
        if key is True:
            key = self.key
        if key:
            headers.append(("X-API-Key", key))
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None and not any(k.lower() == "content-type" for k, _ in headers):
            headers.append(("Content-Type", "application/json"))
        return self.front.request(method, target, headers, body)

    def must(self, status, method, target, body=None, **kw):
        r = self(method, target, body, **kw)
        equal(r.status, status, "%s %s: status, body %r" % (method, target, r.body[:300]))
        return r.json() if r.body else None

    def listed(self, query=""):
        """Every id of the list, following the pages."""
        ids, token = [], None
        while True:
            q = query + ("&nextToken=" + urllib.parse.quote(token, safe="") if token else "")
            r = self("GET", "/v2/sandboxes" + ("?" + q.lstrip("&") if q else ""))
            equal(r.status, 200, "list: status, body %r" % r.body[:300])
            ids += [s["sandboxID"] for s in r.json()]
            token = r.header("x-next-token")
            if not token:
                return ids
            check(len(ids) < 100000, "the list has no end")


def error_body(r, status, *texts):
    """The answer is `status` and JSON {code, message}; every text stands in the message."""
    if status is not None:
        equal(r.status, status, "status (body %r)" % r.body[:300])
    check((r.header("content-type") or "").startswith("application/json"), "content type of an error", r.headers, r.body[:300])
    j = r.json()
    check(isinstance(j, dict) and isinstance(j.get("message"), str) and j["message"], "message of an error", j)
    equal(j.get("code"), r.status, "code of an error is the HTTP status")
    check(type(j["code"]) is int, "code of an error is an integer", j)
    for t in texts:
        check(t.lower() in j["message"].lower(), "the message names %r" % t, j["message"])
    return j


class Sandbox:
    def __init__(self, world, api, made):
        self.world, self.api, self.made = world, api, made
        self.id = made["sandboxID"]
        self.token = made.get("envdAccessToken")

    @property
    def envd(self):
        return envd.Envd(self.world.where, self.id, self.token)

    def out(self, text, **kw):
        return self.envd.out(text, **kw)

    def run(self, text, **kw):
        return self.envd.run(text, **kw)

    def kill(self):
        return self.api("DELETE", "/sandboxes/" + self.id).status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, wire.Cut):
            self.kill()


class World:
    """One running stack seen through one front end."""

    def __init__(self, stack, kind, front):
        self.stack, self.kind, self.front = stack, kind, front
        self.where = getattr(front, "where", None)
        self.server = SERVERS.get(kind)         # what the web server in front can
        self.dir = stack.dir
        self.api = Api(front, self.team("scenario"))

    def now(self):
        return self.stack.now()

    def team(self, name):
        """API key of a team of that name, made by the set-up door."""
        r = self.stack.door("POST", "/_twin/teams", {"name": name})
        equal(r.status, 201, "team door: %r" % r.body)
        return r.json()["apiKey"]

    def other(self):
        """Another team's API."""
        return Api(self.front, self.team("other"))

    def fresh_team(self):
        """A team without a sandbox."""
        return Api(self.front, self.team("team " + secrets.token_hex(6)))

    def template(self, alias, image="host", team="scenario", **more):
        r = self.stack.door("POST", "/_twin/templates", {"team": team, "alias": alias, "image": image, **more})
        equal(r.status, 201, "template door: %r" % r.body)
        return r.json()

    def create(self, template="base", api=None, path="/v2/sandboxes", **body):
        api = api or self.api
        return Sandbox(self, api, api.must(201, "POST", path, {"templateID": template, **body}))

    def path(self, name):
        return os.path.join(self.dir, name)
