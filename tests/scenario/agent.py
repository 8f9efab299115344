"""The agent by itself, as another control plane would run it in images of its own: what only POST /init can tell it."""

import json
import os
import subprocess

from tap import Suite, check, equal, eventually

suite = Suite()
scenario = suite.scenario

SERVER = """
import http.server, ssl
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
s = http.server.HTTPServer(("127.0.0.1", 8443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain("/opt/cert.pem", "/opt/key.pem")
s.socket = c.wrap_socket(s.socket, server_side=True)
s.serve_forever()
"""


def init(s, **body):
    """Status and body of POST /init of the second agent."""
    r = s.out("curl -s -o /tmp/body -w '%%{http_code}' -X POST http://127.0.0.1:40000/init --data @- <<'E'\n%s\nE\necho; cat /tmp/body" % json.dumps(body),
              user="root")
    status, text = r.split("\n", 1)
    return int(status), text


@scenario("init: an authority to trust, and an address for the host of events", data=True)
def host_files(w):
    tls = w.path("agent-tls")
    subprocess.run([w.stack.program("hutchctl"), "tls", "--dir", tls, "--domain", "e2b.local"], check=True, stdout=subprocess.DEVNULL)
    with w.create() as s:
        for name in ("cert.pem", "key.pem"):
            with open(os.path.join(tls, name), "rb") as f:
                equal(s.envd.write("/opt/" + name, f.read(), username="root").status, 200, name)
        with open(w.stack.program("hutch-envd"), "rb") as f:
            equal(s.envd.write("/opt/envd", f.read(), username="root").status, 200, "upload")
        s.out("chmod 755 /opt/envd", user="root")
        agent = s.envd.start("/opt/envd", ["--listen-port", "40000"], user="root")
        server = s.envd.start("python3", ["-c", SERVER], user="root")
        eventually(lambda: s.run("curl -s http://127.0.0.1:40000/health && curl -sk https://127.0.0.1:8443/").exit_code == 0, 20, "both answer")
        ask = "curl -sS https://events.e2b.local:8443/"
        check(s.run(ask).exit_code != 0, "nobody knows the host yet")
        equal(init(s, hyperloopIP="127.0.0.1"), (204, ""), "an address")
        check("certificate" in s.run(ask).stderr.decode(), "the host is known, its certificate is not trusted")
        with open(os.path.join(tls, "ca.pem"), encoding="ascii") as f:
            pem = f.read()
        equal(init(s, caBundle="-----BEGIN CERTIFICATE-----\nx")[0], 400, "no PEM")
        equal(init(s, caBundle=pem, timestamp="2026-01-02T00:00:00Z"), (204, ""), "an authority")
        equal(s.run(ask).exit_code, 0, "it is trusted")
        equal(init(s, caBundle=pem.replace("M", "N"), hyperloopIP="10.0.0.1", timestamp="2026-01-01T00:00:00Z"), (204, ""), "an older init")
        equal(s.run(ask).exit_code, 0, "changes nothing")
        env = s.out("curl -s http://127.0.0.1:40000/envs", user="root")
        equal(json.loads(env)["E2B_EVENTS_ADDRESS"], "http://127.0.0.1", "commands are told the address")
        equal(init(s, accessToken="t", caBundle=""), (204, ""), "a token")
        equal(init(s, accessToken="u", hyperloopIP="10.0.0.1")[0], 401, "who has no token")
        equal(s.out("getent hosts events.e2b.local").split()[0], "127.0.0.1", "changes nothing")
        equal(init(s, accessToken="t", volumeMounts=[{"nfs_target": "a:/b", "path": "/c"}]), (400, "volumeMounts is not supported here"), "what is not had")
        server.close()
        agent.close()
