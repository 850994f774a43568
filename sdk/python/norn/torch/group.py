"""The workers of a run: how they find each other and agree."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence, TypeVar

import torch
import torch.distributed as dist

from ..job import Job

T = TypeVar("T")

LONGEST_WAIT = 1800.0  # seconds, as PyTorch has it


class Agreement:
    """Numbers that all workers will have added up."""

    def __init__(self, numbers: torch.Tensor, work: Any) -> None:
        self._numbers = numbers
        self._work = work

    def wait(self) -> List[float]:
        """The sums: the same ones on every worker."""
        if self._work is not None:
            self._work.wait()
        return [float(v) for v in self._numbers.tolist()]


class Group:
    """The workers of a run: as many as RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    say, or this process alone. A process group that is there already is taken."""

    def __init__(self, job: Job, device: Optional[str] = None, backend: Optional[str] = None) -> None:
        self.device = _device(job, device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self._control: Any = None
        self._ours = False
        if job.world_size > 1 and not dist.is_initialized():
            _join(job, backend or ("nccl" if self.device.type == "cuda" and dist.is_nccl_available() else "gloo"))
            self._ours = True
        together = dist.is_available() and dist.is_initialized()
        self.world: int = dist.get_world_size() if together else 1
        self.rank: int = dist.get_rank() if together else 0
        if self.world > 1:
            # Agreements go their own way, on CPUs: they neither wait for gradients
            # nor make a GPU wait.
            self._control = dist.new_group(backend="gloo")

    def agree(self, numbers: Sequence[float]) -> Agreement:
        """Begins to add up numbers over all workers."""
        t = torch.tensor(numbers, dtype=torch.float64)
        return Agreement(t, None if self._control is None else dist.all_reduce(t, group=self._control, async_op=True))

    def from_first(self, what: T) -> T:
        """What rank 0 has given, for all."""
        if self._control is None:
            return what
        box = [what]
        dist.broadcast_object_list(box, src=0, group=self._control)
        return box[0]

    def gather(self, what: T) -> List[T]:
        """What each worker has given, by rank, for all."""
        if self._control is None:
            return [what]
        out: List[Any] = [None] * self.world
        dist.all_gather_object(out, what, group=self._control)
        return out

    def spread(self, tensors: Sequence[torch.Tensor]) -> None:
        """Makes tensors on the device those of rank 0."""
        by_type: Dict[torch.dtype, List[torch.Tensor]] = {}
        for t in tensors:
            by_type.setdefault(t.dtype, []).append(t)
        for some in by_type.values() if self.world > 1 else ():
            flat = torch.cat([t.reshape(-1) for t in some])
            dist.broadcast(flat, 0)
            for t, new in zip(some, flat.split([t.numel() for t in some])):
                t.copy_(new.view_as(t))

    def part(self) -> None:
        """Leaves the group, if it was made here."""
        if self._ours and dist.is_initialized():
            self._ours = False
            dist.destroy_process_group()


def _device(job: Job, name: Optional[str]) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and device.index is None:
        # A task may see its own GPU alone, or all of the machine.
        return torch.device("cuda", job.local_rank % max(1, torch.cuda.device_count()))
    return device


def _join(job: Job, backend: str) -> None:
    """Waits for the other workers. Who is told to stop meanwhile leaves at once: it
    has nothing to save, and the others may never come.

    So the wait is done here, in small steps: PyTorch's own does not let Python see
    the signal.
    """
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or not address or not port.isdigit():
        # torchrun has a meeting point of its own; what is missing, PyTorch tells.
        dist.init_process_group(backend, rank=job.rank, world_size=job.world_size)
        return
    patience = _Patience(job)
    while job.rank > 0 and not _listens(address, int(port)):
        patience.wait(f"rank 0 does not listen on {address}:{port}")
    soon, late = timedelta(seconds=10), timedelta(seconds=LONGEST_WAIT)
    store = dist.TCPStore(address, int(port), job.world_size, job.rank == 0, timeout=soon, wait_for_workers=False)
    here = store.add("norn/here", 1)
    while here < job.world_size:
        patience.wait(f"of {job.world_size} workers only {here} have come")
        here = store.add("norn/here", 0)
    store.set_timeout(late)
    if job.should_stop():
        job.leave()  # before what cannot be broken off
    dist.init_process_group(backend, store=dist.PrefixStore("norn", store), rank=job.rank, world_size=job.world_size)


class _Patience:
    """Waits, but not when the job has to stop, and not for ever."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._end = time.monotonic() + LONGEST_WAIT

    def wait(self, why: str) -> None:
        if self._job.should_stop():
            self._job.leave()
        if time.monotonic() > self._end:
            raise RuntimeError(f"the workers do not come together: {why}")
        time.sleep(0.05)


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 5.0).close()
    except OSError:
        return False
    return True
