"""HTTP to a running Norn, over its Unix socket or over TCP."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

LARGEST = 1 << 20  # bytes of an answer; more is no answer of Norn


class Away(Exception):
    """No answer that makes sense: Norn is away, restarts, or is too slow."""


class Refused(Exception):
    """Norn has answered that it will not: asking again in the same words is no use."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(f"{status}: {why}")
        self.status = status


class Client:
    """One connection, kept open from call to call. Not for several threads."""

    def __init__(self, socket_path: str = "", url: str = "", token: str = "") -> None:
        self._socket = socket_path
        self._url = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._open: Optional[http.client.HTTPConnection] = None

    def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, timeout: float = 2.0) -> Any:
        """The answer, as JSON data, or Away or Refused. No wait for Norn within it is
        longer than timeout seconds. A connection that Norn has closed meanwhile is
        made anew once."""
        kept = self._open is not None
        try:
            return self._call(method, path, body, timeout)
        except socket.timeout as err:
            raise Away("no answer in time") from err
        except (OSError, http.client.HTTPException, ValueError) as err:
            if not kept:
                raise Away(str(err)) from err
        try:
            return self._call(method, path, body, timeout)
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise Away(str(err)) from err

    def _call(self, method: str, path: str, body: Optional[Mapping[str, Any]], timeout: float) -> Any:
        try:
            conn = self._open or self._connect()
            self._open = conn
            conn.timeout = timeout
            if conn.sock is not None:
                conn.sock.settimeout(timeout)
            headers = dict(self._headers)
            data = None
            if body is not None:
                data = json.dumps(body, allow_nan=False).encode()
                headers["Content-Type"] = "application/json"
            conn.request(method, self._url.path.rstrip("/") + path, data, headers)
            answer = conn.getresponse()
            raw = answer.read(LARGEST + 1)
        except BaseException:
            self.close()
            raise
        if len(raw) > LARGEST or answer.will_close:
            self.close()
        if len(raw) > LARGEST:
            raise ValueError("the answer is too long")
        if 400 <= answer.status < 500 and answer.status not in (408, 425, 429):
            raise Refused(answer.status, raw[:200].decode("utf-8", "replace"))
        if answer.status != 200:
            self.close()
            raise Away(f"status {answer.status}")
        return json.loads(raw)

    def _connect(self) -> http.client.HTTPConnection:
        if self._socket:
            return _UnixConnection(self._socket)
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port)
        return http.client.HTTPConnection(host, port)

    def close(self) -> None:
        conn, self._open = self._open, None
        if conn is not None:
            conn.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("norn")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def from_environment(env: Optional[Mapping[str, str]] = None) -> Optional[Client]:
    """A client as the environment names it; None outside of Norn."""
    e = os.environ if env is None else env
    path, url, token = e.get("NORN_SOCKET", ""), e.get("NORN_URL", ""), e.get("NORN_TOKEN", "")
    if not token or not (path or url):
        return None
    try:
        if not path and urlsplit(url).scheme not in ("http", "https"):
            return None
        return Client(path, "" if path else url, token)
    except ValueError:
        return None
