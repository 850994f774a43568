"""Job against a Norn that answers, is away, hangs, or talks nonsense."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
from typing import Any, Callable, Iterator
from unittest import mock

import norn
from norn import outbox
from norn.client import Client
from norn.job import Job

from .fake import PATIENCE, FakeNorn

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class WithNorn(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.norn = FakeNorn(self.folder.name)
        self.addCleanup(self.norn.close)
        self.err = io.StringIO()
        self.enterContext311(contextlib.redirect_stderr(self.err))

    def enterContext311(self, c: Any) -> None:
        c.__enter__()
        self.addCleanup(c.__exit__, None, None, None)

    def tearDown(self) -> None:
        self.assertEqual(self.err.getvalue(), "", "a task must not be disturbed by messages")

    def job(self, **env: str) -> Job:
        job = Job(self.norn.env(**env), signals=(), interval=0.01)
        self.addCleanup(job.close, 0.5)
        return job

    def eventually(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, "never came true")
            time.sleep(0.005)

    @contextlib.contextmanager
    def pauses(self, first: float, longest: float) -> Iterator[None]:
        with mock.patch.object(outbox, "FIRST_PAUSE", first), mock.patch.object(outbox, "LONGEST_PAUSE", longest):
            yield


class Reports(WithNorn):
    def test_all_fields(self) -> None:
        job = self.job(RANK="3", WORLD_SIZE="4", LOCAL_RANK="1")
        self.assertEqual((job.rank, job.world_size, job.local_rank, job.run, job.resumed, job.id), (3, 4, 1, 2, True, "17"))
        job.report(
            step=5, steps=10, epoch=0.5, samples=320, loss=1.25, step_time=0.5, step_time_alone=0.25, compute_time=0.375, sync_time=0.125,
            grad_sqr=2.0, grad_var=3.0, batch=64, noise=1.5, local_batch=32, accumulation=2, lr=0.1, stages={"cpu": 0.25}, gpu_memory=7,
            quality={"accuracy": -1.0}, embedding=[0.5, 2],
        )  # fmt: skip
        job.checkpoint_saved(5, "/tmp/x")
        job.finished()
        self.assertTrue(job.flush(PATIENCE))
        told: dict[str, Any] = {}
        for r in self.norn.reports:
            told.update(r)
        self.assertGreater(told.pop("memory"), 0)
        self.assertGreater(told.pop("at"), 0)
        self.assertEqual(
            told,
            {
                "rank": 3, "step": 5, "steps": 10, "epoch": 0.5, "samples": 320, "loss": 1.25, "step_time": 0.5, "step_time_alone": 0.25,
                "compute_time": 0.375, "sync_time": 0.125, "grad_sqr": 2.0, "grad_var": 3.0, "batch": 64, "noise": 1.5, "local_batch": 32,
                "accumulation": 2, "lr": 0.1, "stages": {"cpu": 0.25}, "gpu_memory": 7, "quality": {"accuracy": -1.0},
                "embedding": [0.5, 2.0], "checkpoint": {"step": 5, "path": "/tmp/x"}, "finished": True,
            },
        )  # fmt: skip

    def test_what_is_no_number_is_left_out(self) -> None:
        job = self.job()
        job.report(step=1, loss=float("nan"), grad_var=-1.0, lr=float("inf"), quality={"a": float("nan"), "b": 1})
        self.assertTrue(job.flush(PATIENCE))
        r = self.norn.reports[0]
        self.assertEqual({k: r[k] for k in r if k not in ("memory", "at")}, {"rank": 0, "step": 1, "quality": {"b": 1.0}})

    def test_steps_go_with_the_time_at_which_they_were_counted(self) -> None:
        job = self.job()
        with mock.patch("norn.job.time.monotonic", side_effect=lambda: 1234.5):
            job.report(step=1)
        job.report(loss=0.5)
        self.assertTrue(job.flush(PATIENCE))
        told: dict[str, Any] = {}
        for r in self.norn.reports:
            told.update(r)
        self.assertEqual((told["step"], told["loss"], told["at"]), (1, 0.5, 1234.5))

    def test_an_embedding_is_whole_or_left_out(self) -> None:
        for bad in ([1.0, float("nan")], [-1.0], [0.0] * 257, []):
            self.assertEqual(norn.Report(embedding=bad).encode(), {"rank": 0})
        self.assertEqual(norn.Report(embedding=[0.0] * 256).encode()["embedding"], [0.0] * 256)

    def test_steps_are_measured_and_counted(self) -> None:
        job = self.job()
        with mock.patch("norn.job.time.perf_counter", side_effect=[10.0, 10.5, 10.75, 11.0]):
            with job.step(samples=64) as s:
                with s.sync():
                    pass
                s.loss = 0.5
        self.assertTrue(job.flush(PATIENCE))
        told: dict[str, Any] = {}
        for r in self.norn.reports:
            told.update(r)
        self.assertEqual([told[k] for k in ("step", "samples", "loss", "step_time", "sync_time", "compute_time")], [1, 64, 0.5, 1.0, 0.25, 0.75])
        with self.assertRaises(ZeroDivisionError), job.step(samples=64):
            raise ZeroDivisionError
        job.stepped(samples=36)
        self.norn.wait(lambda: self.norn.told("samples")[-1:] == [100] and self.norn.told("step")[-1:] == [2])

    def test_a_report_is_put_together_of_what_came_meanwhile(self) -> None:
        job = Job(self.norn.env(), signals=(), interval=3600)
        self.addCleanup(job.close)
        job.report(step=1)
        self.norn.wait(lambda: self.norn.told("step") == [1])
        for i in range(2, 1000):
            job.report(step=i)
        job.checkpoint_saved(999, "/c")  # does not wait for its turn
        self.norn.wait(lambda: self.norn.told("checkpoint"))
        self.assertEqual(self.norn.told("step"), [1, 999])

    def test_norn_dies_and_returns(self) -> None:
        with self.pauses(0.01, 0.05):
            job = self.job()
            job.report(step=1)
            self.norn.wait(lambda: self.norn.told("step") == [1])
            self.norn.die()
            for i in range(2, 20):
                job.report(step=i, loss=float(i))
                job.checkpoint_saved(i, f"/c{i}")
            self.assertFalse(job.flush(0.2))
            self.norn.start()
            self.norn.wait(lambda: self.norn.told("checkpoint") == [{"step": 19, "path": "/c19"}])
            self.assertEqual(self.norn.told("step"), [1, 19])
            self.assertEqual(self.norn.told("loss"), [19.0])

    def test_what_came_meanwhile_is_newer(self) -> None:
        with self.pauses(0.01, 0.05):
            self.norn.hung.set()
            job = self.job()
            job.report(step=1, loss=1.0)
            self.norn.wait(lambda: ("POST", "/v1/task/report") in self.norn.calls)
            job.report(step=2)  # while the first is under way
            self.norn.die()
            self.norn.hung.clear()
            self.norn.reports.clear()
            self.norn.start()
            self.norn.wait(lambda: self.norn.told("step")[-1:] == [2] and self.norn.told("loss")[-1:] == [1.0])
            self.assertEqual(self.norn.told("step")[-1], 2)

    def test_nobody_was_ever_there(self) -> None:
        self.norn.close()
        job = self.job()
        job.report(step=1)
        self.assertFalse(job.should_stop())
        self.enterContext311(mock.patch("norn.job.FIRST_WAIT", 0.05))
        self.assertEqual(job.allocation, norn.Allocation(job="17", run=2, tasks=1, gpus=1.0))
        job.close(0.05)

    def test_norn_hangs(self) -> None:
        # A call that waited for Norn would wait for an hour.
        with mock.patch.object(Client.call, "__defaults__", (None, 3600.0)):
            self.norn.hung.set()
            job = self.job()
            job.report(step=0)
            self.norn.wait(lambda: ("POST", "/v1/task/report") in self.norn.calls)
            for i in range(1000):
                job.report(step=i)
            job.checkpoint_saved(999, "/c")
            self.assertFalse(job.should_stop())
            job.close(0.01)
            self.assertEqual(self.norn.reports, [])
            self.norn.hung.clear()
            self.norn.wait(lambda: self.norn.told("checkpoint") == [{"step": 999, "path": "/c"}])

    def test_norn_is_too_slow(self) -> None:
        with self.pauses(0.01, 0.01), mock.patch.object(Client.call, "__defaults__", (None, 0.05)):
            self.norn.hung.set()
            job = self.job()
            job.checkpoint_saved(7, "/c")
            self.norn.wait(lambda: self.norn.calls.count(("POST", "/v1/task/report")) > 3)
            self.norn.hung.clear()
            self.norn.wait(lambda: self.norn.told("checkpoint"))

    def test_answers_that_make_no_sense(self) -> None:
        for body in (b"", b"<html>", b"[]", b'{"kind":7}', b"\xff\xfe", b"x" * (2 << 20), b'{"kind":"go-on"'):
            with self.subTest(body=body[:20]), self.pauses(0.01, 0.01):
                self.norn.reports.clear()
                self.norn.calls.clear()
                self.norn.fault = lambda path, body=body: (200, body)
                job = self.job()
                job.checkpoint_saved(4, "/c")
                self.norn.wait(lambda: len(self.norn.calls) > 3)
                self.assertFalse(job.should_stop())
                self.norn.fault = None
                self.norn.wait(lambda: self.norn.told("checkpoint"))
                job.close()

    def test_a_refused_report_goes_without_what_does_not_matter(self) -> None:
        with self.pauses(0.01, 0.01):
            for status in (400, 401, 500, 503):
                self.norn.reports.clear()
                self.norn.fault = lambda path, status=status: (status, b'{"error":"no"}')
                job = self.job()
                job.report(step=3)
                job.checkpoint_saved(3, "/c")
                self.norn.calls.clear()
                self.norn.wait(lambda: self.norn.calls.count(("POST", "/v1/task/report")) > 2)
                self.norn.fault = None
                self.norn.wait(lambda: self.norn.told("checkpoint") == [{"step": 3, "path": "/c"}])
                self.assertEqual(self.norn.told("step"), [] if status < 500 else [3])
                job.close()

    def test_another_tokens_job(self) -> None:
        job = Job({**self.norn.env(), "NORN_TOKEN": "wrong"}, signals=(), interval=0.01)
        job.report(step=1)
        self.norn.wait(lambda: ("POST", "/v1/task/report") in self.norn.calls)
        job.close()
        self.assertEqual(self.norn.reports, [])

    def test_what_is_left_is_told_at_exit(self) -> None:
        program = "import norn; j = norn.init(interval=3600); j.report(step=1); j.flush(); j.report(step=2); j.finished()"
        subprocess.run([sys.executable, "-c", program], env={**os.environ, **self.norn.env(), "PYTHONPATH": HERE}, check=True)
        self.assertEqual(self.norn.told("step")[-1], 2)
        self.assertEqual(self.norn.told("finished"), [True])

    def test_the_end_is_told_though_norn_comes_back_late(self) -> None:
        job = Job(self.norn.env(), signals=(), interval=3600)
        self.norn.die()
        back = threading.Timer(2.5, self.norn.start)
        back.start()
        self.addCleanup(back.join)
        job.report(quality={"accuracy": 0.5})
        job.finished()
        job.close()
        self.assertEqual(self.norn.told("finished"), [True])
        self.assertEqual(self.norn.told("quality"), [{"accuracy": 0.5}])

    def test_over_tcp(self) -> None:
        # The same, with a URL: a proxy of one connection each stands before the socket.
        import socketserver
        import threading

        path = self.norn.path

        class Proxy(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                import socket

                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(path)
                    t = threading.Thread(target=lambda: [self.request.sendall(b) for b in iter(lambda: s.recv(4096), b"")])
                    t.start()
                    for b in iter(lambda: self.request.recv(4096), b""):
                        s.sendall(b)
                    s.shutdown(socket.SHUT_WR)
                    t.join()

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy)
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        env = {**self.norn.env(), "NORN_SOCKET": "", "NORN_URL": f"http://127.0.0.1:{server.server_address[1]}/"}
        job = Job(env, signals=(), interval=0.01)
        job.report(step=8)
        self.assertTrue(job.flush(PATIENCE))
        self.assertEqual(self.norn.told("step"), [8])
        job.close()


class Orders(WithNorn):
    def test_allocation(self) -> None:
        job = self.job()
        self.assertEqual(job.allocation.devices, ["slot0"])
        self.assertTrue(job.elastic)

    def test_stop_comes_to_who_waits(self) -> None:
        job = self.job()
        self.norn.wait(lambda: ("GET", "/v1/task/order") in self.norn.calls)
        self.assertFalse(job.should_stop())
        self.assertIsNone(job.grace_left())
        self.norn.say(kind="stop", grace=30, why="job 18 is more urgent", size=1)
        self.eventually(job.should_stop)
        assert job.stop is not None
        self.assertEqual((job.stop.why, job.stop.grace, job.stop.size), ("job 18 is more urgent", 30.0, 1))
        left = job.grace_left()
        assert left is not None
        self.assertTrue(0 < left <= 30)

    def test_stop_is_the_answer_to_a_report(self) -> None:
        self.norn.fault = lambda path: (503, b"") if path == "/v1/task/order" else None
        job = self.job()
        self.norn.say(kind="stop", grace=5)
        job.report(step=1)
        self.eventually(job.should_stop)

    def test_batch(self) -> None:
        job = self.job()
        heard: list[int] = []
        job.on_batch(heard.append)
        self.norn.say(kind="batch", batch=512)
        self.eventually(lambda: job.batch == 512)
        self.assertEqual(heard, [], "calls are made by the thread of training")
        for _ in range(3):
            job.should_stop()
        self.assertEqual(heard, [512])
        self.norn.say(kind="batch", batch=256)
        job.report(step=1)
        self.eventually(lambda: job.batch == 256)
        job.stepped()
        self.assertEqual(heard, [512, 256])

    def test_pace(self) -> None:
        job = self.job()
        steps = iter(range(2, 1_000_000))

        def told(throttle: int) -> bool:  # an answer that was under way may be older
            job.report(step=next(steps))
            return job.throttle == throttle

        began = time.monotonic()
        with job.step():
            pass
        job.pace(1000.0)
        self.assertLess(time.monotonic() - began, 10, "nobody else is to have the devices")
        self.norn.say(kind="go-on", throttle=500)
        self.eventually(lambda: told(500))
        began = time.monotonic()
        job.pace(0.3)
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        with job.step():
            time.sleep(0.01)
        self.assertTrue(job.flush(PATIENCE))
        self.assertEqual(self.norn.told("paced"), [True])

        def later(**order: Any) -> None:
            self.norn.say(**order)
            self.eventually(lambda: job.should_stop() or told(0))

        threading.Timer(0.1, later, kwargs={"kind": "go-on"}).start()
        job.pace(1000.0)  # until that
        self.eventually(lambda: told(0))
        self.norn.say(kind="dance", throttle=5000)
        self.eventually(lambda: told(1000))
        job.pace(1000.0)  # which is for Norn to do
        threading.Timer(0.1, later, kwargs={"kind": "stop", "grace": 9}).start()
        job.pace(1000.0, throttle=900)
        self.assertTrue(job.should_stop())

    def test_throttled_from_the_beginning(self) -> None:
        self.norn.allocation["throttle"] = 250
        self.norn.allocation["gpu_mem"] = 1 << 30
        self.norn.order = {"kind": "go-on", "throttle": 250}
        job = self.job()
        self.assertEqual((job.allocation.throttle, job.allocation.gpu_mem), (250, 1 << 30))
        self.eventually(lambda: job.throttle == 250)

    def test_memory_is_capped(self) -> None:
        self.norn.allocation["mem"] = 8 << 30
        job = self.job(WORLD_SIZE="2", NORN_GPU_MEMORY_FRACTION="0.25")
        said: list[Any] = []
        torch = types.SimpleNamespace(
            cuda=types.SimpleNamespace(
                is_available=lambda: True,
                device_count=lambda: 2,
                set_per_process_memory_fraction=lambda part, device: said.append((part, device)),
            )
        )
        with mock.patch.dict(sys.modules, {"torch": torch}), mock.patch("resource.setrlimit", lambda what, to: said.append((what, to[0]))):
            job.cap_memory()
        self.assertEqual(said, [(0.25, 0), (0.25, 1), (resource.RLIMIT_DATA, 4 << 30)])

    def test_an_order_that_stands_is_not_asked_for_in_a_hurry(self) -> None:
        self.enterContext311(mock.patch("norn.job.REPEAT", 3600))
        job = self.job()
        self.norn.say(kind="batch", batch=512)
        self.eventually(lambda: job.batch == 512)
        for i in range(50):
            job.report(step=i)
            self.assertTrue(job.flush(PATIENCE))
        # Go-on, the order, and the order again; not once more for an hour.
        self.assertLessEqual(self.norn.calls.count(("GET", "/v1/task/order")), 3)

    def test_orders_of_a_later_version(self) -> None:
        job = self.job()
        self.norn.say(kind="dance")
        job.report(step=1)
        self.assertTrue(job.flush(PATIENCE))
        self.norn.say(kind="batch", batch=-3)
        job.report(step=2)
        self.assertTrue(job.flush(PATIENCE))
        self.assertEqual((job.should_stop(), job.batch), (False, 0))


class Signals(unittest.TestCase):
    def run_task(self, program: str, **env: str) -> subprocess.CompletedProcess[str]:
        base = {k: v for k, v in os.environ.items() if not k.startswith("NORN_")}
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
            env={**base, **env, "PYTHONPATH": HERE},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_term_without_norn(self) -> None:
        done = self.run_task("""
            import os, signal, norn
            job = norn.init()
            assert not job.managed and not job.should_stop() and norn.init() is job
            with job.step() as s:
                s.loss = 1.0
            os.kill(os.getpid(), signal.SIGTERM)
            while not job.should_stop():
                pass
            job.checkpoint_saved(1, "x")
            job.leave()
        """)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (75, "", ""))

    def test_another_signal_and_the_handler_before(self) -> None:
        done = self.run_task("""
            import os, signal, norn
            signal.signal(signal.SIGUSR1, lambda *a: print("before"))
            job = norn.init(signals=(signal.SIGUSR1,))
            os.kill(os.getpid(), signal.SIGUSR1)
            assert job.should_stop()
        """)
        self.assertEqual((done.returncode, done.stdout), (0, "before\n"), done.stderr)

    def test_a_forked_child_dies_by_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            fake = FakeNorn(folder)
            self.addCleanup(fake.close)
            done = self.run_task(
                """
                import os, signal, norn
                job = norn.init()
                pid = os.fork()
                if pid == 0:
                    job.report(step=1)
                    job.close()
                    os.kill(os.getpid(), signal.SIGTERM)
                    while True:
                        pass
                _, status = os.waitpid(pid, 0)
                assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
                assert not job.should_stop()
                """,
                **fake.env(),
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(fake.told("step"), [])

    def test_environment_that_makes_no_sense(self) -> None:
        bad = {"NORN_RUN": "x", "RANK": "", "WORLD_SIZE": "-1", "NORN_GPUS": "many", "NORN_URL": "http://[", "NORN_TOKEN": "t"}
        done = self.run_task("import norn; j = norn.init(); print(j.run, j.rank, j.world_size, j.managed)", **bad)
        self.assertEqual((done.returncode, done.stdout), (0, "1 0 1 False\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
