"""The job that this process is a task of: its place in it, progress, orders.

Works without Norn just the same: then nothing is told to anybody, and SIGTERM
is the only order.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Callable, Dict, Generator, List, Mapping, NoReturn, Optional, Sequence, Type

from . import client as _client
from .outbox import LONGEST_PAUSE, Outbox, Pause, Times
from .protocol import BATCH, CONTINUE_LATER, STOP, Allocation, Checkpoint, Order, Report

POLL = 30.0  # seconds that Norn is asked to hold an answer back
FIRST_WAIT = 2.0  # seconds that the first question for the allocation waits for Norn
MOST_ASLEEP = 0.1  # seconds between two looks whether the pace is still what it was
REPEAT = 5.0  # seconds between two answers that are the same order


@dataclass(frozen=True)
class Stop:
    """That the job has to leave its devices: why, since when (time.monotonic), and
    with how many seconds of grace from then on; 0: not known."""

    since: float
    why: str = ""
    grace: float = 0.0
    size: int = 0


class Job:
    """This process as a task of a job. Made by norn.init()."""

    def __init__(
        self,
        env: Mapping[str, str],
        signals: Sequence[int] = (signal.SIGTERM,),
        interval: Optional[float] = None,
    ) -> None:
        self.id = env.get("NORN_JOB", "")
        self.run = _int(env.get("NORN_RUN"), 1)  # from 1
        self.rank = _int(env.get("RANK"), 0)
        self.world_size = max(1, _int(env.get("WORLD_SIZE"), 1))
        self.local_rank = _int(env.get("LOCAL_RANK"), 0)
        self.workers = _int(env.get("NORN_WORKERS"), 0)  # that take turns on the tasks there are; 0: tasks are the workers
        index = env.get("NORN_ARRAY_INDEX")
        self.array_index: Optional[int] = _int(index, 0) if index else None
        self._fallback = Allocation(
            job=self.id,
            run=self.run,
            tasks=self.world_size,
            devices=[d for d in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if d],
            gpus=_float(env.get("NORN_GPUS")),
        )
        self._pid = os.getpid()
        self._allocation: Optional[Allocation] = None
        self._allocation_known = threading.Event()
        self._stop: Optional[Stop] = None
        self._batch = 0
        self._batch_told = 0
        self._batch_calls: List[Callable[[int], None]] = []
        self._throttle = 0
        self._ordered = False  # an order was heard, which is newer than the allocation
        self._paced = False
        self._finished = False
        self._asking = threading.Lock()
        self._connect: Optional[Callable[[], Optional[_client.Client]]] = None  # to ask for the allocation again
        self._asker: Optional[_client.Client] = None
        self._asked, self._cores = float("-inf"), 0.0
        self._gpu_fraction = _float(env.get("NORN_GPU_MEMORY_FRACTION"))
        self._step = 0
        self._samples = 0
        self._closed = threading.Event()
        self._before: Dict[int, Any] = {}
        self._outbox: Optional[Outbox] = None
        self._listen_on(signals)
        client = _client.from_environment(env)
        self.managed = client is not None  # runs under Norn
        if client is None:
            self._allocation_known.set()
            return
        if interval is None:
            # People look at rank 0; the others tell about their memory.
            interval = 1.0 if self.rank == 0 else 10.0
        self._outbox = Outbox(client, self.rank, interval, self._heard)
        self._connect = lambda: _client.from_environment(env)
        ear = _client.from_environment(env)
        assert ear is not None
        threading.Thread(target=self._listen, args=(ear,), name="norn-orders", daemon=True).start()
        atexit.register(self.close)

    # Where it is.

    @property
    def resumed(self) -> bool:
        """The job has run before, and may have left a checkpoint."""
        return self.run > 1

    @property
    def allocation(self) -> Allocation:
        """What the task may use. Waits up to two seconds for Norn at the first call,
        and is what the environment tells when it does not answer."""
        self._allocation_known.wait(FIRST_WAIT)
        self._allocation_known.set()
        return self._allocation or self._fallback

    @property
    def elastic(self) -> bool:
        """The job may be started again with another number of tasks."""
        return self.allocation.elastic

    # Progress.

    def report(
        self,
        *,
        step: Optional[int] = None,
        steps: Optional[int] = None,
        epoch: Optional[float] = None,
        samples: Optional[int] = None,
        loss: Optional[float] = None,
        step_time: Optional[float] = None,
        step_time_alone: Optional[float] = None,
        compute_time: Optional[float] = None,
        sync_time: Optional[float] = None,
        grad_sqr: Optional[float] = None,
        grad_var: Optional[float] = None,
        batch: Optional[int] = None,
        noise: Optional[float] = None,
        local_batch: Optional[int] = None,
        accumulation: Optional[int] = None,
        lr: Optional[float] = None,
        stages: Optional[Mapping[str, float]] = None,
        gpu_memory: Optional[int] = None,
        quality: Optional[Mapping[str, float]] = None,
        embedding: Optional[Sequence[float]] = None,
    ) -> None:
        """Tells of progress. Returns at once, and never fails because of Norn."""
        values = {k: v for k, v in locals().items() if k != "self" and v is not None}
        self._step = self._step if step is None else int(step)
        self._samples = self._samples if samples is None else int(samples)
        if step is not None or samples is not None:
            values["at"] = time.monotonic()
        self._put(values)

    def measured(self, times: Times) -> None:
        """Takes in times of steps; their means go with the next report."""
        self._put({}, times)

    def step(self, samples: int = 0) -> Step:
        """Measures one optimiser step:

            with job.step(samples=256) as s:
                loss = forward_and_backward()
                with s.sync():
                    exchange_gradients()
                s.loss = loss
        """
        return Step(self, samples)

    def stepped(self, samples: int = 0, loss: Optional[float] = None) -> None:
        """Counts one optimiser step, of so many samples of all tasks together."""
        self.report(step=self._step + 1, samples=self._samples + samples or None, loss=loss)
        self._deliver()

    def checkpoint_saved(self, step: int, path: str = "") -> None:
        """Tells that a checkpoint is complete on disk. Is sent until it was heard."""
        self._put({"checkpoint": Checkpoint(int(step), os.path.abspath(path) if path else "")}, urgent=True)

    def finished(self) -> None:
        """Tells that all work is done. The process should exit with 0."""
        self._finished = True
        self._put({"finished": True}, urgent=True)

    def flush(self, timeout: float = 2.0) -> bool:
        """Waits until Norn has heard everything, and tells whether it has."""
        return self._outbox is None or self._outbox.flush(timeout)

    def close(self, timeout: Optional[float] = None) -> None:
        """Tells what is left, for at most timeout seconds. Done at exit anyway. By default
        it takes two at most, or ten after finished(), which nobody can tell later."""
        if timeout is None:
            timeout = 10.0 if self._finished else 2.0
        self._closed.set()
        if self._outbox is not None:
            self._outbox.close(timeout)

    def _put(self, values: Dict[str, Any], times: Optional[Times] = None, urgent: bool = False) -> None:
        if self._outbox is not None:
            # Numbers of other libraries become plain ones here, not in the thread.
            self._outbox.put(Report(**values).encode(), times, urgent)

    # Orders.

    def should_stop(self) -> bool:
        """The job has to leave its devices: save a checkpoint, and leave(). All tasks
        are told, but not at the same moment."""
        self._deliver()
        return self._stop is not None

    @property
    def stop(self) -> Optional[Stop]:
        """Why and until when it has to leave, if it has to."""
        return self._stop

    def grace_left(self) -> Optional[float]:
        """Seconds until the task is killed; None if it need not leave, or where that
        is not known."""
        stop = self._stop
        if stop is None:
            return None
        grace = stop.grace or (self._allocation or self._fallback).grace
        return max(0.0, stop.since + grace - time.monotonic()) if grace else None

    def leave(self) -> NoReturn:
        """Ends the process as one that was told to stop and has saved its state: it
        will be continued later."""
        self.close()
        raise SystemExit(CONTINUE_LATER)

    def vanish(self) -> NoReturn:
        """As leave(), at once, without what libraries do at the end of a process:
        their threads may abort one that has saved its state already."""
        self.close()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(CONTINUE_LATER)

    def cores(self, least: float = 1.0) -> float:
        """Cores that the job may use now, which a policy may change while it runs; 0
        where there is no limit, or none is known. Norn is asked, no more often than
        once in `least` seconds, for at most two seconds."""
        now = time.monotonic()
        with self._asking:
            if self._connect is not None and now - self._asked >= least:
                self._asked = now
                try:
                    if self._asker is None:
                        self._asker = self._connect()
                    if self._asker is not None:
                        self._cores = Allocation.decode(self._asker.call("GET", "/v1/task/allocation")).cpus
                except (_client.Away, _client.Refused, ValueError):
                    pass
        return self._cores

    @property
    def throttle(self) -> int:
        """For how many thousandths of the time the job is to leave its devices to
        others that share them."""
        return self._throttle

    def pace(self, worked: float, throttle: Optional[int] = None) -> None:
        """Leaves the devices to others for as long as Norn wants it after a step that has
        worked so many seconds, waiting for other tasks not counted. Returns at once
        where nobody else is to have them, or when the job has to stop. A program that
        calls it is not stopped in the middle of its steps; throttle is for tasks that
        have agreed on one."""
        if self._throttle > 0 and not self._paced:
            self._paced = True
            self._put({"paced": True}, urgent=True)
        slept = 0.0
        while self._stop is None:
            t = self._throttle if throttle is None else throttle
            if not 0 < t < 1000:  # at 1000 Norn stops the process
                return
            left = worked * t / (1000 - t) - slept
            if left <= 0:
                return
            began = time.monotonic()
            self._closed.wait(min(left, MOST_ASLEEP))
            slept += time.monotonic() - began

    def cap_memory(self) -> None:
        """Keeps this process to the memory that is meant for it: PyTorch's allocator, where
        torch was imported and the job shares its GPUs, and main memory, where the job
        has a limit, in equal parts for all tasks. What is more fails in this process,
        as an error, instead of in another one that shares the device."""
        self.cap_gpu_memory()
        mem = self.allocation.mem // self.world_size
        if mem > 0:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            if hard != resource.RLIM_INFINITY:
                mem = min(mem, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (mem, hard))

    def cap_gpu_memory(self) -> None:
        """As cap_memory(), of GPUs alone. norn.torch does it by itself."""
        torch: Any = sys.modules.get("torch")
        if 0 < self._gpu_fraction < 1 and torch is not None and torch.cuda.is_available():
            for device in range(torch.cuda.device_count()):
                torch.cuda.set_per_process_memory_fraction(self._gpu_fraction, device)

    def on_batch(self, call: Callable[[int], None]) -> None:
        """Has call(size) done when Norn wants another global batch size: in the
        thread of training, between two steps or in should_stop()."""
        self._batch_calls.append(call)

    @property
    def batch(self) -> int:
        """The global batch size that Norn wants; 0: it has said nothing."""
        return self._batch

    def _deliver(self) -> None:
        size = self._batch
        if size != self._batch_told:
            self._batch_told = size
            for call in self._batch_calls:
                call(size)

    def _heard(self, o: Order) -> None:
        """Takes in an order, in any thread and any number of times."""
        self._ordered, self._throttle = True, o.throttle
        if o.kind == BATCH:
            self._batch = o.batch
        elif o.kind == STOP:
            now, before = time.monotonic(), self._stop
            # What a signal has begun, an order explains.
            if before is None or not before.why:
                self._stop = Stop(now, o.why or "Norn wants the devices", o.grace, o.size)

    def _listen(self, ear: _client.Client) -> None:
        """Waits for orders until the task has to stop."""
        pause, last = Pause(), Order()
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                if self._allocation is None:
                    self._allocation = Allocation.decode(ear.call("GET", "/v1/task/allocation"))
                    if not self._ordered:
                        self._throttle = self._allocation.throttle
                    self._allocation_known.set()
                order = Order.decode(ear.call("GET", f"/v1/task/order?wait={POLL:.0f}", timeout=POLL + 10.0))
            except (_client.Away, ValueError):
                self._closed.wait(pause.failed())
                continue
            except _client.Refused:
                self._closed.wait(LONGEST_PAUSE)
                continue
            pause.worked()
            self._heard(order)
            if order.kind == STOP:
                break
            # An order is told again and again until it is carried out.
            if order == last:
                self._closed.wait(max(0.0, REPEAT - (time.monotonic() - began)))
            last = order
        ear.close()

    def _listen_on(self, signals: Sequence[int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may; orders still come
        for s in signals:
            self._before[s] = signal.signal(s, self._on_signal)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        if os.getpid() != self._pid:
            # A child that was forked off, such as a worker that loads data: it
            # has nothing to save.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self._stop is None:
            self._stop = Stop(time.monotonic())
        before = self._before.get(number)
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)


class Step:
    """One optimiser step that is measured. See Job.step."""

    def __init__(self, job: Job, samples: int) -> None:
        self.loss: Optional[float] = None
        self._job = job
        self._samples = samples
        self._sync = 0.0
        self._began = 0.0

    def __enter__(self) -> Step:
        self._began = time.perf_counter()
        return self

    @contextlib.contextmanager
    def sync(self) -> Generator[None, None, None]:
        """Measures what is spent waiting for others."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._sync += time.perf_counter() - began

    def __exit__(self, kind: Optional[Type[BaseException]], err: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is not None:
            return
        total = time.perf_counter() - self._began
        worked = max(0.0, total - self._sync)
        self._job.measured(Times(1, total, worked, self._sync))
        self._job.stepped(self._samples, self.loss)
        self._job.pace(worked)


def _int(s: Optional[str], default: int) -> int:
    try:
        return int(s or "")
    except ValueError:
        return default


def _float(s: Optional[str]) -> float:
    try:
        return float(s or "")
    except ValueError:
        return 0.0


_job: Optional[Job] = None


def init(signals: Sequence[int] = (signal.SIGTERM,), interval: Optional[float] = None) -> Job:
    """The job that this process is a task of; the same one at every call. Call it
    first of all, before slow imports: a stop that comes earlier ends the process.

    signals tell the task to stop (stop.signal of the job); reports are sent at most
    once each interval seconds, by default 1, and 10 in tasks other than the first.
    """
    global _job
    if _job is None or _job._pid != os.getpid():  # pyright: ignore[reportPrivateUsage]
        _job = Job(os.environ, signals, interval)
    return _job
