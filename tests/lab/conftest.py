"""Where the real data files are, and a local server that misbehaves on request."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

BESIDE_THE_CHECKOUT = Path(__file__).parents[3].parent / "shared" / "data"


@pytest.fixture(scope="session")
def real_data():
    """A folder with the published files of MNIST and CIFAR10."""
    folder = Path(os.environ.get("GRADLINE_DATA") or BESIDE_THE_CHECKOUT)
    if not ((folder / "MNIST" / "raw").is_dir() and (folder / "cifar-10-batches-py").is_dir()):
        pytest.skip("MNIST and CIFAR10 are not here: set GRADLINE_DATA to a folder that has them")
    return folder


class FaultyServer:
    """Serves `files`; the n-th request for a path meets the n-th of its `faults` (None: it is served well)."""

    def __init__(self):
        self.files = {}
        self.faults = {}
        self.requests = []
        self.released = threading.Event()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                with outer._lock:
                    outer.requests.append((self.path, self.headers.get("Range")))
                    faults = outer.faults.get(self.path, [])
                    fault = faults.pop(0) if faults else None
                outer.answer(self, fault)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler, fault):
        content = self.files.get(handler.path)
        if content is None or isinstance(fault, int):
            handler.send_error(fault if isinstance(fault, int) else 404)
            return
        if fault == "other content":
            content = bytes(byte ^ 1 for byte in content)
        if fault == "other length":
            content = b"<html>please log in</html>"
        start, asked = 0, handler.headers.get("Range")
        if asked and fault != "no range":
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            handler.send_response(200)
        body = content[start:]
        if fault != "no length":
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if fault == "cut":
            handler.wfile.write(body[: len(body) // 2])
            return
        if fault == "hold":
            self.released.wait(30)
        handler.wfile.write(body + (b"more" if fault == "no length" else b""))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = FaultyServer()
    yield server
    server.close()
