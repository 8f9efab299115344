#!/bin/sh
# The start command of the templates `desktop` and `mcp-gateway` of the tests: programs that a sandbox of them is to have.
put() { mkdir -p "${1%/*}" && cat >"$1" && chmod 755 "$1"; }

put /usr/local/bin/startxfce4 <<'EOF'
#!/bin/sh
# Xvfb starts anew when its last client has left: one of them stays.
mkdir -p /tmp/session
for p in xfwm4 xfce4-session; do cp /bin/sleep "/tmp/session/$p"; done
cp /usr/bin/xterm /tmp/session/xfdesktop
/tmp/session/xfwm4 9999 & /tmp/session/xfdesktop -geometry 1x1+0+0 -e sleep 9999 &
exec /tmp/session/xfce4-session 9999
EOF

put /opt/noVNC/utils/novnc_proxy <<'EOF'
#!/bin/sh
# novnc_proxy --vnc HOST:PORT --listen PORT --web DIR
exec python3 -m http.server --bind 127.0.0.1 --directory "$6" "$4"
EOF
echo stand-in >/opt/noVNC/vnc.html

# It leaves a server behind it, which holds none of its own output.
put /usr/local/bin/mcp-gateway <<'EOF'
#!/usr/bin/python3
import http.server, json, os, socket, sys

config = json.loads(sys.argv[sys.argv.index("--config") + 1])
token = os.environ["GATEWAY_ACCESS_TOKEN"]
if "broken" in config:
    sys.exit("no server of that name")
os.makedirs("/etc/mcp-gateway", exist_ok=True)
with open(os.open("/etc/mcp-gateway/.token", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
    f.write(token)


class Gateway(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        allowed = self.headers.get("Authorization") == "Bearer " + token
        body = json.dumps(config).encode() if allowed else b"no"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.HTTPServer(("127.0.0.1", 50005), Gateway)
if os.fork():
    os._exit(0)
os.setsid()
null = os.open("/dev/null", os.O_RDWR)
for fd in range(3):
    os.dup2(null, fd)
server.serve_forever()
EOF

exec python3 -m http.server --bind 127.0.0.1 --directory /opt/noVNC 48000
