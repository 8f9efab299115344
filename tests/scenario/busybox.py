"""A template whose root has no C library: a directory with a static BusyBox and nothing else."""

import os
import shutil

import envd
from tap import Skip, Suite, check, equal, eventually
from world import error_body

suite = Suite()
scenario = suite.scenario


def make_root(path):
    busybox = shutil.which("busybox")
    if busybox is None:
        raise Skip("no busybox on this machine")
    with open(busybox, "rb") as f:
        if b"/ld-linux" in f.read(16384):
            raise Skip("this busybox is linked dynamically (Debian: busybox-static)")
    for d in ("bin", "etc", "home/user", "root", "tmp", "proc", "sys", "dev", "var"):
        os.makedirs(os.path.join(path, d), exist_ok=True)
    if not os.path.exists(os.path.join(path, "bin/busybox")):      # one that runs cannot be written
        shutil.copy(busybox, os.path.join(path, "bin/busybox"))
    for name in ("sh", "ls", "cat", "echo", "id", "sleep", "ps", "mount", "find", "wc", "dd", "env", "uname", "stat", "rm", "httpd", "kill"):
        link = os.path.join(path, "bin", name)
        if not os.path.islink(link):
            os.symlink("busybox", link)
    with open(os.path.join(path, "etc/passwd"), "w") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n")
    with open(os.path.join(path, "etc/group"), "w") as f:
        f.write("root:x:0:\nuser:x:1000:\n")
    os.chown(os.path.join(path, "home/user"), 1000, 1000)
    os.chmod(os.path.join(path, "tmp"), 0o1777)
    os.chmod(path, 0o755)
    return path


def template(w):
    root = make_root(w.path("busybox-root"))
    w.template("busybox", image=root, cpuCount=1, memoryMB=128, diskSizeMB=64)


@scenario("a root of BusyBox alone: commands, files, users, stdin, PTY-less shell", data=True)
def works(w):
    template(w)
    with w.create(template="busybox") as s:
        sh = dict(shell="/bin/sh", login=False)
        equal(s.out("echo hello; id -un; pwd", **sh), "hello\nuser\n/home/user\n", "a command")
        equal(s.out("id -u", user="root", **sh), "0\n", "root")
        check("libc" not in s.out("find / -name 'lib*' 2>/dev/null || true", **sh), "no C library in this root")
        names = set(s.out("ls -A /", **sh).split())
        check(names <= {"bin", "etc", "home", "root", "tmp", "proc", "sys", "dev", "var", "run"}, "its root", names)
        equal(s.envd.write("/home/user/f", b"bytes").status, 200, "upload")
        equal(s.envd.read("/home/user/f").body, b"bytes", "download")
        equal(s.out("stat -c %U:%G /home/user/f", **sh).strip(), "user:user", "owner")
        r = s.run("true")      # /bin/bash is missing: as a shell would say it
        equal(r.exit_code, 127, "a missing program: %r" % r)
        listing = s.envd.rpc("filesystem.Filesystem/ListDir", {"path": "/bin", "depth": 1})["entries"]
        check("busybox" in [e["name"] for e in listing], "ListDir", listing)
        st = s.envd.start("/bin/cat", [], stdin=True)
        ev = st.events()
        pid = next(ev)["start"]["pid"]
        s.envd.rpc("process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": "aGk="}})
        s.envd.rpc("process.Process/CloseStdin", {"process": {"pid": pid}})
        rest = list(ev)
        equal([e["data"]["stdout"] for e in rest if "data" in e], ["aGk="], "cat")
        st.close()


@scenario("the image of a template is not changed by its sandboxes", data=True)
def image_kept(w):
    template(w)
    sh = dict(shell="/bin/sh", login=False)
    with w.create(template="busybox") as s, w.create(template="busybox") as t:
        s.out("echo changed > /etc/passwd; rm -f /bin/busybox; echo x > /new", user="root", **sh)
        check("changed" not in open(w.path("busybox-root/etc/passwd")).read(), "the image's passwd")
        check(os.path.exists(w.path("busybox-root/bin/busybox")) and not os.path.exists(w.path("busybox-root/new")), "the image's files")
        equal(t.out("id -un; ls /new 2>/dev/null || echo none", **sh), "user\nnone\n", "the other sandbox")


@scenario("an image that is not there is refused by name; an empty one is a sandbox with nothing in it", data=True)
def odd_images(w):
    r = w.stack.door("POST", "/_twin/templates", {"team": "scenario", "alias": "absent", "image": w.path("no-such-root")})
    error_body(r, 400, "no-such-root")
    os.makedirs(w.path("empty-root"), exist_ok=True)
    w.template("empty", image=w.path("empty-root"), cpuCount=1, memoryMB=128, diskSizeMB=64)
    with w.create(template="empty") as s:
        equal(s.envd.health(), 204, "health")
        error_body(s.envd.write("/a/b", b"x", username="root"), 401, "root")       # no /etc/passwd: nobody is anybody
        try:
            s.run("true", user="root")
            check(False, "a command ran in an empty root")
        except envd.RpcError as e:
            equal(e.code, "unauthenticated", "a command's user")
    equal(os.listdir(w.path("empty-root")), [], "the image is as it was")
    with w.create() as s:
        equal(s.out("echo fine"), "fine\n", "other templates work")
    eventually(lambda: w.stack.agrees(), w.stack.repair_s * 3 + 15, "nothing is left (%s)" % w.stack.differences())
