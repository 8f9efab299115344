"""Starts ipykernel for hutch-interpreter: python_kernel.py CONNECTION_FILE

Nothing is written to a home directory and no setting of a user's profile is needed: history stays in memory, colours are off, and what
hutch_extras adds is loaded before the first cell. The kernel ends with the interpreter: descriptor 3 is the other end of a socket.

Output is held up rather than dropped or heaped up: the interpreter reads as fast as its client does, and a cell that prints faster waits.
"""

import os
import sys
import threading

sys.path.pop(0)                         # not the directory of this file: cells must not import from it

QUEUED = 8                              # messages that wait for the interpreter
PIECE = 1 << 20                         # characters of one message of output
AHEAD = 64                              # messages on their way to the thread that sends


def end_with_interpreter():
    try:
        os.read(3, 1)
    finally:
        os._exit(0)


def wait_for(thread, schedule):
    """Until the sending thread has done all that was given to it."""
    done = threading.Event()
    schedule(done.set)
    while thread.is_alive() and not done.wait(1):
        pass


def hold_up(app):
    """A cell waits for the sending thread, which waits for the interpreter."""
    pub = app.iopub_thread
    schedule, sender = pub.schedule, pub.thread

    def schedule_politely(f):
        schedule(f)
        if len(pub._events) > AHEAD and threading.current_thread() is not sender:
            wait_for(sender, schedule)
    pub.schedule = schedule_politely
    for stream in (sys.stdout, sys.stderr):
        write = stream.write

        def write_politely(text, write=write, stream=stream, pending=[0]):
            for at in range(0, len(text), PIECE) if len(text) > PIECE else (0,):
                part = text[at:at + PIECE] if len(text) > PIECE else text
                write(part)
                pending[0] += len(part)
                if pending[0] >= PIECE:
                    pending[0] = 0
                    schedule(stream._flush)
                    if threading.current_thread() is not sender:
                        wait_for(sender, schedule)
            return len(text)
        stream.write = write_politely


def main():
    os.set_inheritable(3, False)
    threading.Thread(target=end_with_interpreter, daemon=True).start()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.modules["debugpy"] = None       # nobody debugs here: half a second and 10 MB less
    try:
        import zmq
        from ipykernel.kernelapp import IPKernelApp
    except ImportError as e:
        sys.exit("hutch: %s has no ipykernel (Debian package python3-ipykernel): %s" % (sys.executable, e))
    del sys.modules["debugpy"]
    from traitlets.config import Config

    class App(IPKernelApp):
        def _bind_socket(self, s, port):
            if s.type == zmq.PUB:       # before the interpreter can connect
                s.set_hwm(QUEUED)
                s.setsockopt(zmq.XPUB_NODROP, 1)
            return super()._bind_socket(s, port)

    c = Config()
    c.IPKernelApp.connection_file = sys.argv[1]
    c.IPKernelApp.quiet = True
    c.IPKernelApp.log_level = 40
    c.InteractiveShell.colors = "NoColor"
    c.PlainTextFormatter.max_seq_length = 0
    c.HistoryManager.hist_file = ":memory:"
    c.HistoryManager.enabled = False
    c.ProfileDir.location = os.path.join(here, "profile")
    os.makedirs(c.ProfileDir.location, mode=0o700, exist_ok=True)
    app = App.instance(config=c)
    sys.argv[1:] = []
    app.initialize([])
    hold_up(app)
    scope = {"__name__": "hutch_extras"}
    with open(os.path.join(here, "hutch_extras.py")) as f:
        exec(compile(f.read(), "hutch_extras.py", "exec"), scope)
    scope["install"](app.shell, app.kernel)
    app.shell.display_formatter.format([])          # loads what showing a first result would
    sys.argv[:] = [""]
    sys.path.insert(0, "")
    app.start()


main()
