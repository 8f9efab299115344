"""The published Python client of desktops against a running stack, and the gateway of tool servers that the plain client starts: both are commands of the client's own
in the sandbox, which must simply work where its image has the programs.

Everything it needs comes from the environment: E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY, E2B_DOMAIN; DESKTOP: the X programs are there. Templates `desktop` and
`mcp-gateway` have stand-ins for the window manager, noVNC and the gateway, which Debian lacks or has only with half of a desktop; the rest is real.
Run with the interpreter of an environment that holds the client; prints TAP.
"""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))

import sdk  # noqa: E402
import tap  # noqa: E402
from e2b import Sandbox as Plain  # noqa: E402
from e2b.exceptions import SandboxException  # noqa: E402
from e2b_desktop import Sandbox  # noqa: E402
from tap import Skip, check, equal, eventually, raises  # noqa: E402

suite = tap.Suite()
case = suite.scenario


def desktop():
    if os.environ.get("DESKTOP") != "1":
        raise Skip("no X programs on this machine (Debian: xvfb x11-utils x11-xserver-utils x11vnc xterm xdotool scrot net-tools)")
    s = Sandbox.create(resolution=(800, 600), timeout=7200, request_timeout=600)
    s.commands.run("xset r off")          # a key whose release comes late on a busy machine would repeat
    return s


shared = sdk.Shared(desktop)


@case("a desktop starts; its screen has the size that was asked for, a screenshot is a picture")
def screen():
    s = shared()
    equal(s.get_screen_size(), (800, 600), "size")
    shot = s.screenshot()
    equal(bytes(shot[:8]), b"\x89PNG\r\n\x1a\n", "a picture")
    equal((int.from_bytes(shot[16:20], "big"), int.from_bytes(shot[20:24], "big")), (800, 600), "of the screen")
    equal(b"".join(s.screenshot("stream"))[:8], b"\x89PNG\r\n\x1a\n", "as a stream")


@case("the pointer goes where it is sent; clicks, drags and the wheel")
def pointer():
    s = shared()
    s.move_mouse(123, 45)
    equal(s.get_cursor_position(), (123, 45), "place")
    for click in (s.left_click, s.right_click, s.middle_click, s.double_click):
        click(200, 210)
    equal(s.get_cursor_position(), (200, 210), "place of a click")
    s.drag((10, 20), (300, 400))
    equal(s.get_cursor_position(), (300, 400), "end of a drag")
    s.scroll("up", 2)


@case("what is typed reaches a program: keys, text of other scripts; its window is found")
def keyboard():
    s = shared()
    s.commands.run("xterm -class Typed -title typing -geometry 60x10+50+50 -e 'read x; echo \"$x\" >/tmp/typed; sleep 600'", background=True, timeout=0)
    eventually(lambda: s.commands.run("xdotool search --onlyvisible --class Typed || true").stdout.strip() != "", 30, "its window is shown")
    window = s.get_application_windows("Typed")[-1]
    equal(s.get_window_title(window), "typing", "title")
    s.commands.run("xdotool windowfocus --sync %s" % window)
    equal(s.get_current_window_id(), window, "in front")
    s.write("it's $HOME \"q\" -- and more than twenty-five characters")
    s.press("enter")
    eventually(lambda: s.commands.run("cat /tmp/typed 2>/dev/null || true").stdout == "it's $HOME \"q\" -- and more than twenty-five characters\n", 30, "typed")
    s.press(["ctrl", "c"])


@case("the screen is streamed: x11vnc, and a web server for it that is reached from outside")
def stream():
    s = shared()
    s.stream.start(require_auth=True)
    equal(len(s.stream.get_auth_key()), 16, "a password")
    check("6080" in s.stream.get_url() and s.sandbox_id in s.stream.get_url(), "its address", s.stream.get_url())
    equal(sdk.ask(s, 6080, "/vnc.html"), (200, "stand-in\n"), "answers at it")
    with raises(RuntimeError, "already running"):
        s.stream.start()
    s.stream.stop()
    eventually(lambda: s.commands.run("pgrep -x x11vnc || true").stdout == "", 30, "stopped")      # the client sends a signal and does not wait


CONFIG = {"github": {"token": "it's \"secret\""}}


@case("tool servers: create with mcp starts the gateway of template mcp-gateway with its token")
def mcp():
    s = Plain.create(mcp=CONFIG, timeout=1200, request_timeout=600)
    try:
        token = s.get_mcp_token()
        equal(sdk.ask(s, 50005, "/mcp", Authorization="Bearer " + token), (200, json.dumps(CONFIG)), "it serves what was asked for")
        equal(sdk.ask(s, 50005, "/mcp")[0], 401, "to who has the token")
        equal(Plain.connect(s.sandbox_id).get_mcp_token(), token, "a client that connects reads the token from its file")
    finally:
        s.kill()


@case("tool servers: a gateway that fails is told with what it wrote, and the sandbox is killed")
def mcp_failed():
    before = {s.sandbox_id for s in Plain.list().next_items()}
    with raises(SandboxException, "no server of that name"):
        Plain.create(mcp={"broken": {}})
    equal({s.sandbox_id for s in Plain.list().next_items()} - before, set(), "sandboxes that are left")


if __name__ == "__main__":
    sdk.main(suite, __doc__, shared)
