"""A trainer that stays: it loads a foundation model once, and jobs hand it their work
one after the other, or several together, instead of loading it themselves.

The trainer, which Norn starts as the job's `resident` says and keeps:

    trainer = norn.resident.Trainer()          # before slow imports
    model = load()
    for s in trainer:                          # the next piece of work
        state = start_from(s.request, s.merge)
        while not state.ended and not s.stopping:
            state.step()
            s.report(step=state.n, loss=state.loss)
        s.saved(state.n, save(state))
        s.done({"accuracy": ...}) if state.ended else s.left()

The job, a few lines that load nothing:

    result = norn.resident.tune({"data": "questions", "steps": 500})

They talk over the Unix socket $NORN_RESIDENT, one object of JSON a line. The job tells
tune, job, run and merge, and later perhaps stop; the trainer tells report, checkpoint,
and at last done, left or failed. A connection that breaks ends the work.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from .job import Job, init

LONGEST = 1 << 22  # bytes of a line
PATIENCE = 60.0  # seconds that a job waits until its trainer listens


class Broken(Exception):
    """There is no trainer, or it has failed: the job's work has not been done."""


class Session:
    """The work of one job, as the trainer sees it. Its methods may be called from any
    thread, and never fail because the job is gone: then stopping is true."""

    def __init__(self, conn: socket.socket, hello: Mapping[str, Any]) -> None:
        self.job = str(hello.get("job") or "")
        self.run = int(hello.get("run") or 1)
        self.request: Any = hello.get("tune")
        self.merge: Mapping[str, Any] = hello.get("merge") or {}  # how (together, after), with, checkpoint; empty: alone
        self.ended = False
        self._conn = conn
        self._lock = threading.Lock()
        self._stop = threading.Event()

    @property
    def stopping(self) -> bool:
        """It has to leave, or its job is gone: save its state, and say left()."""
        return self._stop.is_set()

    def report(self, **values: Any) -> None:
        """Tells of progress: what norn.Job.report takes."""
        self._send({"report": values})

    def saved(self, step: int, path: str) -> None:
        """Tells that a checkpoint is complete on disk."""
        self._send({"checkpoint": {"step": int(step), "path": os.path.abspath(path)}})

    def done(self, result: Any = None) -> None:
        """The work is done."""
        self._end({"done": result})

    def left(self) -> None:
        """The state is saved as it stands, to be continued later."""
        self._end({"left": True})

    def failed(self, why: object) -> None:
        """The work cannot be done."""
        self._end({"failed": str(why)})

    def _end(self, what: Dict[str, Any]) -> None:
        self.ended = True
        self._send(what)
        self._stop.set()
        try:
            self._conn.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _send(self, what: Dict[str, Any]) -> None:
        line = json.dumps(what).encode() + b"\n"
        with self._lock:
            try:
                self._conn.sendall(line)
            except OSError:
                self._stop.set()

    def _listen(self, lines: Iterator[bytes]) -> None:
        """Waits for an order to stop, or for the end of the job."""
        try:
            for line in lines:
                if json.loads(line).get("stop"):
                    self._stop.set()
        except (OSError, ValueError, AttributeError):
            pass
        self._stop.set()
        self._conn.close()


class Trainer:
    """The trainer's side. Listens from the moment it is made, so that jobs need not wait
    until the model is loaded to hand in their work."""

    def __init__(self, path: Optional[str] = None) -> None:
        path = path or os.environ.get("NORN_RESIDENT", "")
        if not path:
            raise Broken("a trainer finds in NORN_RESIDENT on which socket it is to listen: name it in `resident` of a job")
        self._cond = threading.Condition()
        self._sessions: List[Session] = []
        self._taken = 0
        self._server = socket.socket(socket.AF_UNIX)
        try:
            os.unlink(path)  # of a trainer before this one
        except FileNotFoundError:
            pass
        self._server.bind(path)
        self._server.listen(64)
        threading.Thread(target=self._accept, name="norn-resident", daemon=True).start()

    def __iter__(self) -> Iterator[Session]:
        """The work that is handed in, one piece after the other, for ever."""
        while True:
            self.wait()
            for s in self.sessions():
                yield s
                if not s.ended:
                    s.failed("the trainer went on to something else")

    def sessions(self) -> List[Session]:
        """All work that is there and not done, in the order in which it came."""
        with self._cond:
            self._sessions = [s for s in self._sessions if not s.ended]
            return list(self._sessions)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until there is work, and tells whether there is."""
        with self._cond:
            return self._cond.wait_for(lambda: any(not s.ended for s in self._sessions), timeout)

    def _accept(self) -> None:
        while True:
            conn, _ = self._server.accept()
            threading.Thread(target=self._greet, args=(conn,), name="norn-session", daemon=True).start()

    def _greet(self, conn: socket.socket) -> None:
        lines = _lines(conn)
        try:
            hello = json.loads(next(lines))
            session = Session(conn, hello)
        except (OSError, ValueError, TypeError, AttributeError, StopIteration):
            conn.close()
            return
        with self._cond:
            self._sessions.append(session)
            self._cond.notify_all()
        session._listen(lines)  # pyright: ignore[reportPrivateUsage]


def tune(request: Any, *, job: Optional[Job] = None, path: Optional[str] = None) -> Any:
    """Hands work to the trainer of this job, tells Norn of its progress, and returns the
    result. When the job has to leave, the trainer saves its state, and the process exits
    with 75. Raises Broken when the trainer is gone, or says that it has failed."""
    job = job or init()
    path = path or os.environ.get("NORN_RESIDENT", "")
    if not path:
        raise Broken("NORN_RESIDENT is not set: the job has no resident trainer")
    with _connect(job, path) as conn:
        hello = {"tune": request, "job": job.id, "run": job.run, "merge": dict(job.allocation.merge)}
        try:
            conn.sendall(json.dumps(hello).encode() + b"\n")
        except OSError:
            raise Broken("the resident trainer has ended") from None
        for what, value in _told(conn, job):
            if what == "report":
                job.report(**value)
            elif what == "checkpoint":
                job.checkpoint_saved(value["step"], value["path"])
            elif what == "done":
                job.finished()
                return value
            elif what == "left":
                job.leave()
            elif what == "failed":
                raise Broken(value)
    raise Broken("the resident trainer has ended")


def _told(conn: socket.socket, job: Job) -> Iterator[Tuple[str, Any]]:
    """What the trainer tells, until it closes. It hears when the job has to leave."""
    rest, asked = b"", False
    while True:
        try:
            if job.should_stop() and not asked:
                asked = True
                conn.sendall(b'{"stop": true}\n')
            if not select.select([conn], [], [], 0.1)[0]:
                continue
            part = conn.recv(1 << 16)
        except OSError:
            return
        if not part:
            return
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield from json.loads(line).items()


def _connect(job: Job, path: str) -> socket.socket:
    """Connects as soon as the trainer listens."""
    end = time.monotonic() + PATIENCE
    while True:
        conn = socket.socket(socket.AF_UNIX)
        try:
            conn.connect(path)
            return conn
        except OSError as err:
            conn.close()
            if job.should_stop():
                job.leave()
            if time.monotonic() > end:
                raise Broken(f"no resident trainer listens on {path}: {err}") from None
            time.sleep(0.02)


def _lines(conn: socket.socket) -> Iterator[bytes]:
    """The lines that come, until the other side has closed."""
    rest = b""
    while True:
        part = conn.recv(1 << 16)
        if not part:
            return
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
        if len(rest) > LONGEST:
            raise ValueError("a line is too long")


__all__ = ["Broken", "Session", "Trainer", "tune"]
