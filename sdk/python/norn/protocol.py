"""What a task and a running Norn say to each other, as data (docs/protocol.md).

Nouns: a Report is what a task tells of its progress; an Order is what it is told
to do; an Allocation is what it may use.

Units: spans are seconds, memory is bytes, batch sizes are samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Sequence, cast

CONTINUE_LATER = 75
"""Exit status of a task that has left as it was told to (EX_TEMPFAIL)."""

GO_ON = "go-on"
STOP = "stop"
BATCH = "batch"


LONGEST_EMBEDDING = 256
"""Most numbers of an embedding."""


@dataclass(frozen=True)
class Checkpoint:
    """A state on disk that the job can go on from."""

    step: int
    path: str = ""


@dataclass
class Report:
    """Progress of a task. None is not told; a later report adds to earlier ones."""

    rank: int = 0
    step: Optional[int] = None
    steps: Optional[int] = None
    epoch: Optional[float] = None
    samples: Optional[int] = None
    at: Optional[float] = None  # when steps and samples stood so, by the task's own clock
    loss: Optional[float] = None
    step_time: Optional[float] = None
    step_time_alone: Optional[float] = None
    compute_time: Optional[float] = None
    sync_time: Optional[float] = None
    grad_sqr: Optional[float] = None
    grad_var: Optional[float] = None
    batch: Optional[int] = None  # global: samples of an optimiser step
    noise: Optional[float] = None  # gradient noise scale in samples; None: grad_var / grad_sqr
    local_batch: Optional[int] = None
    accumulation: Optional[int] = None
    lr: Optional[float] = None
    stages: Optional[Mapping[str, float]] = None
    memory: Optional[int] = None
    gpu_memory: Optional[int] = None
    quality: Optional[Mapping[str, float]] = None
    embedding: Optional[Sequence[float]] = None
    paced: Optional[bool] = None
    checkpoint: Optional[Checkpoint] = None
    finished: Optional[bool] = None

    def encode(self) -> Dict[str, Any]:
        """The report as JSON data. What JSON or Norn has no place for, such as a
        loss that is not a number or a negative time, is left out: a report must
        not be refused for it."""
        out: Dict[str, Any] = {"rank": int(self.rank)}
        for f in fields(self):
            v = getattr(self, f.name)
            if v is None or f.name == "rank":
                continue
            if isinstance(v, Checkpoint):
                out[f.name] = {"step": int(v.step), "path": str(v.path)}
            elif f.name in ("stages", "quality"):
                least = 0.0 if f.name == "stages" else -math.inf
                out[f.name] = {str(k): x for k, x in ((k, number(x, least)) for k, x in v.items()) if x is not None}
            elif f.name == "embedding":
                numbers = [x for x in (number(x, 0.0) for x in v) if x is not None]
                if 0 < len(numbers) == len(v) <= LONGEST_EMBEDDING:  # a part of it would mean something else
                    out[f.name] = numbers
            elif f.name in ("finished", "paced"):
                out[f.name] = bool(v)
            else:
                n = number(v, -math.inf if f.name == "loss" else 0.0)
                if n is not None:
                    out[f.name] = int(n) if f.name in WHOLE else n
        return out


WHOLE = frozenset({"step", "steps", "samples", "batch", "local_batch", "accumulation", "memory", "gpu_memory"})


@dataclass(frozen=True)
class Order:
    """What a task is told to do: GO_ON, STOP or BATCH."""

    kind: str = GO_ON
    grace: float = 0.0  # stop: seconds left before it is killed; 0: not told
    why: str = ""
    size: int = 0  # stop: tasks that it will be started with again; 0: not known
    batch: int = 0  # batch: global batch size
    throttle: int = 0  # any: thousandths of the time for which the job leaves its devices to others

    @staticmethod
    def decode(data: Any) -> Order:
        """Reads an order. A kind that is not known is GO_ON, so that a newer Norn
        does no harm; an answer that is no order at all is a ValueError."""
        d = record(data, "kind")
        throttle = min(1000, whole(d.get("throttle")))
        o = Order(d["kind"], number(d.get("grace"), 0.0) or 0.0, text(d.get("why")), whole(d.get("size")), whole(d.get("batch")), throttle)
        if o.kind not in (GO_ON, STOP, BATCH) or (o.kind == BATCH and o.batch < 1):
            return Order(throttle=throttle)
        return o


@dataclass(frozen=True)
class Allocation:
    """What a task may use."""

    job: str = ""
    run: int = 1
    tasks: int = 1
    devices: List[str] = field(default_factory=lambda: [])
    gpus: float = 0.0
    host: bool = False  # its devices are parts of the processors: it runs without a GPU
    cpus: float = 0.0
    mem: int = 0
    elastic: bool = False
    batch: int = 0
    stop_mode: str = ""
    grace: float = 0.0
    resumable: bool = False
    gpu_mem: int = 0  # of each GPU that it shares, what is meant for it; 0: not told
    throttle: int = 0  # as in an order
    merge: Mapping[str, Any] = field(default_factory=lambda: {})  # how (together, after), with (a job), checkpoint; empty: alone

    @staticmethod
    def decode(data: Any) -> Allocation:
        """Reads an allocation, or raises ValueError."""
        d = record(data, "job")
        return Allocation(
            job=d["job"],
            run=whole(d.get("run")) or 1,
            tasks=whole(d.get("tasks")) or 1,
            devices=texts(d.get("devices")),
            gpus=number(d.get("gpus"), 0.0) or 0.0,
            host=d.get("host") is True,
            cpus=number(d.get("cpus"), 0.0) or 0.0,
            mem=whole(d.get("mem")),
            elastic=d.get("elastic") is True,
            batch=whole(d.get("batch")),
            stop_mode=text(d.get("stop_mode")),
            grace=number(d.get("grace"), 0.0) or 0.0,
            resumable=d.get("resumable") is True,
            gpu_mem=whole(d.get("gpu_mem")),
            throttle=min(1000, whole(d.get("throttle"))),
            merge=cast(Dict[str, Any], d["merge"]) if isinstance(d.get("merge"), dict) else {},
        )


def record(data: Any, name: str) -> Dict[str, Any]:
    """data as an object that has a text of that name, or ValueError."""
    if isinstance(data, dict):
        d = cast(Dict[str, Any], data)
        if isinstance(d.get(name), str):
            return d
    raise ValueError(f"the answer is no object with {name!r}")


def number(v: Any, least: float) -> Optional[float]:
    """v as a finite number that is not below least, or None."""
    try:
        f = float(v)
    except (TypeError, ValueError, OverflowError):
        return None
    return f if math.isfinite(f) and f >= least else None


def whole(v: Any) -> int:
    """v as a whole number from 0, or 0."""
    return int(number(v, 0.0) or 0)


def text(v: Any) -> str:
    return v if isinstance(v, str) else ""


def texts(v: Any) -> List[str]:
    return [x for x in cast(List[Any], v) if isinstance(x, str)] if isinstance(v, list) else []
