"""Workers that take turns: a run has as many of them as it was asked for, on however many
processes there are, and the same parameters to the bit.

Nouns: a worker is what a process of the undisturbed run would be. A process takes the
turns of neighbouring workers, one after the other, in each step. The context of a worker
is what differs between workers: random numbers, the buffers of the model (such as the
statistics of batch normalisation), the gradient of its share of the batch.

Source: Li et al., "EasyScale: Elastic Training with Consistent Accuracy and Improved
Utilization on GPUs", SC 2023. Here random numbers follow from seed, step and worker, so
that no state of theirs is kept.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from ..samples import Pass, share
from . import state
from .group import Group

CHUNK = 1 << 20  # numbers that go from one process to the next at a time


def settle(device: torch.device, threads: Optional[int]) -> int:
    """Has kernels compute the same bits each time, and returns how many threads do so on
    CPUs: sums depend on that. None: one, where OMP_NUM_THREADS does not say otherwise."""
    if threads is None:
        threads = torch.get_num_threads() if os.environ.get("OMP_NUM_THREADS") else 1
    if device.type == "cpu":
        torch.set_num_threads(threads)
        return threads
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    return threads


class Turns:
    """The turns that this process takes.

    workers   of the whole run, at least as many as processes
    """

    def __init__(self, model: torch.nn.Module, group: Group, workers: int, seed: int) -> None:
        if workers < group.world:
            raise ValueError(f"{workers} workers cannot take turns on {group.world} processes: one at least for each")
        self.workers = workers
        self.mine: Sequence[int] = share(workers, group.rank, group.world)
        self._group, self._seed = group, seed
        self._params = [p for p in model.parameters() if p.requires_grad]
        self._buffers = list(model.buffers())
        self._worker = -1  # whose turn it is; -1: of none
        self._begun: List[torch.Tensor] = []  # buffers at the beginning of the step
        self._first: List[torch.Tensor] = []  # and of worker 0 at its end
        self._grads: List[Dict[torch.dtype, torch.Tensor]] = []
        self._seconds = 0.0

    def divide(self, shares: Sequence[int]) -> None:
        """Each process takes so many turns from the next step on, by rank."""
        before = sum(shares[: self._group.rank])
        self.mine = range(before, before + shares[self._group.rank])

    def begin(self, p: Pass, step: int) -> None:
        """Before the forward of a pass."""
        if p.worker != self._worker:
            if self._worker < 0:
                self._begun = [b.clone() for b in self._buffers]
            else:
                self._end()
                _copy(self._begun, self._buffers)
            self._worker = p.worker
        state.seed_rng(state.number(self._seed, step, p.worker, p.number))

    def _end(self) -> None:
        """The turn of a worker ends: its gradient is put aside."""
        if self._worker == 0:
            self._first = [b.clone() for b in self._buffers]
        mine = _flat(self._params)
        if self._group.rank == 0 and self._grads:  # it comes next in the sum
            for dtype, total in self._grads[0].items():
                total += mine[dtype]
        else:
            self._grads.append(mine)
        for q in self._params:
            q.grad = None

    def exchange(self) -> None:
        """After the last turn of a step: gradients become the sum of those of all workers, in
        their order, and buffers those of worker 0, as DistributedDataParallel has them."""
        self._end()
        self._worker = -1
        began = time.perf_counter()
        totals = self._grads[0]
        for dtype in totals:
            totals[dtype] = self._summed([g[dtype] for g in self._grads])
        self._grads = []
        if self._group.rank == 0:
            _copy(self._first, self._buffers)
        self._group.spread(self._buffers)
        _unflat(totals, self._params)
        self._seconds = time.perf_counter() - began

    def _summed(self, mine: List[torch.Tensor]) -> torch.Tensor:
        """The sum over all workers. It goes from process to process, each of which adds its
        own workers, and then to all: the order of additions is that of workers, however many
        processes there are."""
        rank, world = self._group.rank, self._group.world
        if world == 1:
            return mine[0]
        total = torch.empty_like(mine[0]) if rank > 0 else mine[0]
        sent: List[Any] = []
        for part, *rest in zip(total.split(CHUNK), *(g.split(CHUNK) for g in mine)):
            if rank > 0:
                dist.recv(part, rank - 1)
                for g in rest:
                    part += g
            if rank < world - 1:
                sent.append(dist.isend(part, rank + 1))
        for s in sent:
            s.wait()
        dist.broadcast(total, world - 1)
        return total

    # As of measure.Waiting: how long a step waits for others.

    def end(self) -> None:
        pass

    def seconds(self) -> float:
        """Of the last step."""
        return self._seconds


def _copy(from_: Sequence[torch.Tensor], to: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for a, b in zip(from_, to):
            b.copy_(a)


def _flat(params: Sequence[torch.Tensor]) -> Dict[torch.dtype, torch.Tensor]:
    """The gradients of all parameters of a type as one tensor, and behind them for each
    parameter whether it has one."""
    out: Dict[torch.dtype, torch.Tensor] = {}
    for dtype, some in _by_type(params).items():
        parts = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in some]
        has = torch.tensor([float(p.grad is not None) for p in some], dtype=dtype, device=some[0].device)
        out[dtype] = torch.cat([*(g.reshape(-1) for g in parts), has])
    return out


def _unflat(flat: Dict[torch.dtype, torch.Tensor], params: Sequence[torch.Tensor]) -> None:
    """Makes of it the gradients of those parameters of which some worker had one."""
    for dtype, some in _by_type(params).items():
        has = flat[dtype][-len(some) :].tolist()
        at = 0
        for p, n in zip(some, has):
            if n > 0:
                p.grad = flat[dtype][at : at + p.numel()].view_as(p)
            at += p.numel()


def _by_type(params: Sequence[torch.Tensor]) -> Dict[torch.dtype, List[torch.Tensor]]:
    out: Dict[torch.dtype, List[torch.Tensor]] = {}
    for p in params:
        out.setdefault(p.dtype, []).append(p)
    return out
