"""A trainer that stays, and the jobs that hand it their work."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

import norn.resident as resident
from norn.job import Job, Stop
from norn.protocol import Allocation


class Told(Job):
    """A job without Norn that remembers what it was to tell."""

    def __init__(self, name: str = "7", **merge: str) -> None:
        super().__init__({"NORN_JOB": name}, signals=())
        self.reports: List[Dict[str, Any]] = []
        self.saved: List[int] = []
        self.ended = False
        self._allocation = Allocation(job=name, merge=merge)

    def report(self, **values: Any) -> None:
        self.reports.append(values)

    def checkpoint_saved(self, step: int, path: str = "") -> None:
        self.saved.append(step)

    def finished(self) -> None:
        self.ended = True


class ResidentTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "s")

    def trainer(self, work: Any) -> resident.Trainer:
        """A trainer that does work with each session, in a thread."""
        trainer = resident.Trainer(self.path)

        def run() -> None:
            for s in trainer:
                work(s)

        threading.Thread(target=run, daemon=True).start()
        return trainer

    def test_work_is_done(self) -> None:
        def work(s: resident.Session) -> None:
            for step in range(1, 4):
                s.report(step=step, loss=1.0 / step)
            s.saved(3, "x.pt")
            s.done({"twice": 2 * s.request["n"], "merge": dict(s.merge), "job": s.job})

        self.trainer(work)
        for n in (4, 5):  # one after the other, by the same trainer
            job = Told(str(n), how="after", **{"with": "3"})
            got = resident.tune({"n": n}, job=job, path=self.path)
            self.assertEqual(got, {"twice": 2 * n, "merge": {"how": "after", "with": "3"}, "job": str(n)})
            self.assertEqual([r["step"] for r in job.reports], [1, 2, 3])
            self.assertEqual((job.saved, job.ended), ([3], True))

    def test_job_has_to_leave(self) -> None:
        begun = threading.Event()

        def work(s: resident.Session) -> None:
            begun.set()
            while not s.stopping:
                time.sleep(0.001)
            s.saved(9, "x.pt")
            s.left()

        self.trainer(work)
        job = Told()

        def stop() -> None:
            begun.wait(10)
            job._stop = Stop(time.monotonic(), "another job")

        threading.Thread(target=stop, daemon=True).start()
        with self.assertRaises(SystemExit) as left:
            resident.tune({}, job=job, path=self.path)
        self.assertEqual((left.exception.code, job.saved, job.ended), (75, [9], False))

    def test_failures(self) -> None:
        def work(s: resident.Session) -> None:
            if s.request == "raise":
                s.failed("no such task")
            elif s.request == "forget":
                return  # goes on to the next one without a word
            else:
                s._conn.close()  # as when it is killed

        self.trainer(work)
        for request, why in (("raise", "no such task"), ("forget", "went on to something else")):
            with self.assertRaisesRegex(resident.Broken, why):
                resident.tune(request, job=Told(), path=self.path)
        with mock.patch.object(resident, "PATIENCE", 0.1), self.assertRaisesRegex(resident.Broken, "no resident trainer listens"):
            resident.tune({}, job=Told(), path=self.path + "-none")
        with mock.patch.dict(os.environ), self.assertRaisesRegex(resident.Broken, "NORN_RESIDENT is not set"):
            os.environ.pop("NORN_RESIDENT", None)
            resident.tune({}, job=Told())

    def test_trainer_is_killed(self) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.path)
        server.listen(1)

        def once() -> None:
            conn, _ = server.accept()
            conn.recv(10)
            conn.close()

        threading.Thread(target=once, daemon=True).start()
        with self.assertRaisesRegex(resident.Broken, "has ended"):
            resident.tune({}, job=Told(), path=self.path)
        server.close()

    def test_job_is_killed(self) -> None:
        """The trainer notices, and goes on with the next one; who talks nonsense is left alone."""
        seen: List[str] = []

        def work(s: resident.Session) -> None:
            seen.append(s.job)
            while not s.stopping and s.job == "1":
                s.report(step=1)
            s.done()

        self.trainer(work)
        for hello in (b'{"tune": 1, "job": "1"}\n', b"[]\n", b"\xff\n", b""):
            conn = socket.socket(socket.AF_UNIX)
            conn.connect(self.path)
            conn.sendall(hello)
            conn.close()
        resident.tune({}, job=Told("2"), path=self.path)
        self.assertEqual(seen, ["1", "2"])

    def test_several_at_once(self) -> None:
        trainer = resident.Trainer(self.path)
        got: Dict[str, Any] = {}

        def hand(name: str) -> None:
            got[name] = resident.tune(name, job=Told(name, how="together"), path=self.path)

        jobs = [threading.Thread(target=hand, args=(n,), daemon=True) for n in ("1", "2")]
        for j in jobs:
            j.start()
        end = time.monotonic() + 10
        while len(trainer.sessions()) < 2 and time.monotonic() < end:
            time.sleep(0.001)
        for s in trainer.sessions():
            self.assertEqual(s.merge, {"how": "together"})
            s.done([s.request])
        for j in jobs:
            j.join(10)
        self.assertEqual(got, {"1": ["1"], "2": ["2"]})
        self.assertFalse(trainer.wait(0))


if __name__ == "__main__":

    unittest.main()
