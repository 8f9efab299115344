"""A local server with requests of its own making, for what hutch calls: receivers of webhooks, a vendor's API."""

import http.server
import threading


class Server:
    """Serves `answer(handler)` for every request until the block ends; `over` is set then, for answers that wait."""

    def __init__(self, path):
        self.over = threading.Event()
        own = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = own.version

            def do_GET(self):
                own.answer(self)

            do_POST = do_GET

            def log_message(self, *args):
                pass

        class Listening(http.server.ThreadingHTTPServer):
            request_queue_size = 128        # a connection that found the queue full would come a second later

        self.server = Listening(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *a: None
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = "http://127.0.0.1:%d%s" % (self.server.server_address[1], path)

    version = "HTTP/1.0"

    def answer(self, handler):
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
