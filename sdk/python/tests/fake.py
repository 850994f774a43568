"""A Norn that is none: the task side of its API, with faults on demand."""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

TOKEN = "t0ken"
PATIENCE = 20.0  # seconds after which a test gives up waiting


class FakeNorn:
    """Listens on a Unix socket, keeps what it is told, and gives orders."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "norn.sock")
        self.cond = threading.Condition()
        self.reports: List[Dict[str, Any]] = []
        self.calls: List[Tuple[str, str]] = []
        self.order: Dict[str, Any] = {"kind": "go-on"}
        self.allocation: Dict[str, Any] = {"job": "17", "run": 2, "tasks": 1, "devices": ["slot0"], "gpus": 1, "elastic": True}
        # What is sent instead of an answer: status and body; None: as it should be.
        self.fault: Optional[Callable[[str], Optional[Tuple[int, bytes]]]] = None
        self.hung = threading.Event()  # set: no answers
        self._server: Optional[socketserver.BaseServer] = None
        self._open: List[socket.socket] = []
        self.start()

    def env(self, **more: str) -> Dict[str, str]:
        """The variables that a task of it finds."""
        return {"NORN_SOCKET": self.path, "NORN_TOKEN": TOKEN, "NORN_JOB": "17", "NORN_RUN": "2", "NORN_GPUS": "1", **more}

    def start(self) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)
        self._server = _Server(self.path, _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def die(self) -> None:
        """Is gone, with all connections, as a process that was killed."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        with self.cond:
            for s in self._open:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self._open = []
            self.cond.notify_all()

    def close(self) -> None:
        self.hung.clear()
        if self._server is not None:
            self.die()

    def say(self, **order: Any) -> None:
        with self.cond:
            self.order = order
            self.cond.notify_all()

    def wait(self, until: Callable[[], Any]) -> Any:
        """Waits until something holds of what it was told."""
        with self.cond:
            if not self.cond.wait_for(until, PATIENCE):
                raise AssertionError(f"was told only {self.reports} in {self.calls}")
            return until()

    def told(self, name: str) -> List[Any]:
        with self.cond:
            return [r[name] for r in self.reports if name in r]


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _handler(norn: FakeNorn) -> Any:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with norn.cond:
                norn._open.append(self.request)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.answer("GET", None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.answer("POST", json.loads(body, parse_constant=_no_constant))

        def answer(self, method: str, body: Any) -> None:
            url, server = urlsplit(self.path), norn._server
            with norn.cond:
                norn.calls.append((method, url.path))
                norn.cond.notify_all()
            while norn.hung.is_set():
                time.sleep(0.01)
            if norn._server is not server:
                return  # has died meanwhile
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return self.send(401, b'{"error":"who are you"}')
            fault = norn.fault(url.path) if norn.fault else None
            if fault is not None:
                return self.send(*fault)
            if (method, url.path) == ("GET", "/v1/task/allocation"):
                return self.send(200, json.dumps(norn.allocation).encode())
            if (method, url.path) == ("POST", "/v1/task/report"):
                with norn.cond:
                    norn.reports.append(body)
                    norn.cond.notify_all()
                return self.send(200, json.dumps(norn.order).encode())
            if (method, url.path) == ("GET", "/v1/task/order"):
                wait = float(parse_qs(url.query).get("wait", ["0"])[0])
                with norn.cond:
                    norn.cond.wait_for(lambda: norn.order["kind"] != "go-on" or norn._server is not server, wait)
                    order = dict(norn.order)
                return self.send(200, json.dumps(order).encode())
            return self.send(404, b"{}")

        def send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
