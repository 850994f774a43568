"""What a task has to tell and Norn has not yet heard, and the thread that tells it.

Training never waits for Norn: what is told is put down here, newer values
replace older ones, and a thread sends what there is when Norn is there.
"""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from .client import Away, Client, Refused
from .protocol import Order

FIRST_PAUSE = 0.5  # seconds after a call that failed; doubled each time
LONGEST_PAUSE = 30.0
CLOSING_PAUSE = 0.2

KEPT = ("checkpoint", "finished")  # are sent again even when Norn has refused them


class Pause:
    """How long to wait after failures: doubled each time, and not the same in all
    tasks. Its random numbers are its own: those of training stay as they are."""

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(8))
        self._next = FIRST_PAUSE

    def failed(self) -> float:
        p, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        return p * self._random.uniform(0.75, 1.25)

    def worked(self) -> None:
        self._next = FIRST_PAUSE


@dataclass
class Times:
    """Sums over steps, in seconds."""

    steps: int = 0
    total: float = 0.0
    compute: float = 0.0
    sync: float = 0.0
    stages: Dict[str, float] = field(default_factory=lambda: {})

    def add(self, other: Times) -> None:
        self.steps += other.steps
        self.total += other.total
        self.compute += other.compute
        self.sync += other.sync
        for k, v in other.stages.items():
            self.stages[k] = self.stages.get(k, 0.0) + v

    def means(self) -> Dict[str, Any]:
        if self.steps == 0:
            return {}
        out: Dict[str, Any] = {"step_time": self.total / self.steps}
        if self.compute > 0 or self.sync > 0:
            out["compute_time"] = self.compute / self.steps
            out["sync_time"] = self.sync / self.steps
        if self.stages:
            out["stages"] = {k: v / self.steps for k, v in self.stages.items()}
        return out


class Outbox:
    """Sends reports of one task, at most one each interval seconds but for
    urgent ones. heard is called with the order of each answer, in its thread."""

    def __init__(self, client: Client, rank: int, interval: float, heard: Callable[[Order], None]) -> None:
        self._client = client
        self._rank = rank
        self._interval = interval
        self._heard = heard
        self._pid = os.getpid()
        self._cond = threading.Condition()
        self._values: Dict[str, Any] = {}
        self._times = Times()
        self._urgent = False
        self._sending = False
        self._closing = False
        self._not_before = 0.0
        self._pause = Pause()
        self._thread = threading.Thread(target=self._run, name="norn-report", daemon=True)
        self._thread.start()

    def put(self, values: Mapping[str, Any], times: Optional[Times] = None, urgent: bool = False) -> None:
        """Takes in values of a Report as JSON data, and times of steps. In a process that was
        forked off it does nothing: that one has no thread, and is not the task."""
        if os.getpid() != self._pid:
            return
        with self._cond:
            wake = urgent or not self._pending()
            self._values.update(values)
            if times is not None:
                self._times.add(times)
            self._urgent = self._urgent or urgent
            if wake:
                self._cond.notify_all()

    def flush(self, timeout: float) -> bool:
        """Waits until all was delivered, at most timeout seconds, and tells whether
        it was."""
        if os.getpid() != self._pid:
            return False
        with self._cond:
            self._urgent = self._urgent or self._pending()
            self._cond.notify_all()
            return self._cond.wait_for(lambda: not self._pending() and not self._sending, timeout)

    def close(self, timeout: float) -> None:
        """Sends what there is, for at most timeout seconds, and ends the thread."""
        if os.getpid() != self._pid:
            return
        with self._cond:
            self._closing = True
            self._cond.notify_all()
        self._thread.join(timeout)

    def _pending(self) -> bool:
        return bool(self._values) or self._times.steps > 0

    def _run(self) -> None:
        while True:
            with self._cond:
                self._cond.wait_for(lambda: self._pending() or self._closing)
                if not self._pending():
                    self._client.close()
                    return
                self._cond.wait_for(lambda: self._urgent or self._closing, max(0.0, self._not_before - time.monotonic()))
                taken = self._take()
            pause, left = self._send(*taken)
            with self._cond:
                self._sending = False
                if left is not None:
                    self._give_back(*left)
                self._not_before = time.monotonic() + pause
                closing = self._closing
                self._cond.notify_all()
            if closing and left is not None:
                time.sleep(CLOSING_PAUSE)

    def _take(self) -> Tuple[Dict[str, Any], Times]:
        taken = self._values, self._times
        self._values, self._times = {}, Times()
        self._urgent, self._sending = False, True
        return taken

    def _give_back(self, values: Dict[str, Any], times: Times) -> None:
        self._values = {**values, **self._values}
        self._times.add(times)

    def _send(self, values: Dict[str, Any], times: Times) -> Tuple[float, Optional[Tuple[Dict[str, Any], Times]]]:
        """Sends once. Returns how long to wait before the next time, and what is
        still to be delivered."""
        report = {**memory_used(), **times.means(), **values, "rank": self._rank}
        try:
            order = Order.decode(self._client.call("POST", "/v1/task/report", report))
        except (Away, ValueError):
            return self._pause.failed(), (values, times)
        except Refused:
            # Something in it is not to Norn's liking, or the run is not known
            # (any more). What matters is tried again, without the rest.
            kept = {k: values[k] for k in KEPT if k in values}
            return self._pause.failed(), (kept, Times()) if kept else None
        self._pause.worked()
        self._heard(order)
        return self._interval, None


def memory_used() -> Dict[str, int]:
    """Main memory of this process in bytes; nothing where it cannot be told."""
    try:
        with open("/proc/self/statm") as f:
            return {"memory": int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
    except (OSError, ValueError, IndexError):
        return {}
