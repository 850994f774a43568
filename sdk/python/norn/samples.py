"""Which samples a step trains: a function of seed and epoch, whatever the number
of workers is.

Nouns: an epoch takes all samples once, in an Order; a step takes the next batch
of that order; its share is what one worker takes of it; a Pass is one forward and
backward through a part of a share.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Iterable, Iterator, List, Optional, Sequence

_WORD = (1 << 64) - 1


class Order:
    """A permutation of the numbers below n, made by seed and epoch alone. Each number
    is computed when it is asked for: nothing is stored, so that going on in the
    middle of a long epoch costs nothing.

    It is a Feistel network on the smallest even number of bits that holds n; numbers
    from n on are put through it again until they fall below n.
    """

    ROUNDS = 8

    def __init__(self, n: int, seed: int, epoch: int) -> None:
        if n < 1:
            raise ValueError("there are no samples")
        self._n = n
        self._half = max(1, ((n - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half) - 1
        raw = hashlib.blake2b(f"norn order {seed} {epoch}".encode(), digest_size=8 * self.ROUNDS).digest()
        self._keys = [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> int:
        if not 0 <= i < self._n:
            raise IndexError(i)
        half, mask = self._half, self._mask
        while True:
            left, right = i >> half, i & mask
            for key in self._keys:
                left, right = right, left ^ (_mix(right + key) & mask)
            i = left << half | right
            if i < self._n:
                return i


def _mix(x: int) -> int:
    """Finaliser of SplitMix64."""
    x &= _WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _WORD
    return x ^ (x >> 31)


def share(n: int, rank: int, world: int) -> range:
    """Which of n samples a worker takes: shares differ by one at most."""
    return range(n * rank // world, n * (rank + 1) // world)


@dataclass(frozen=True)
class Pass:
    """One forward and backward of one worker.

    indices are never empty: a worker that has no sample in a step, since there are
    more workers than samples, takes one that does not count.
    """

    indices: List[int]
    counted: int  # samples of indices that count: all or none
    batch: int  # samples of the step, of all workers
    number: int  # of the pass in its step, from 0
    last: bool  # of its step: the optimiser comes next
    worker: int = 0  # that takes it


def batches(n: int, offset: int, batch: int, drop_last: bool = False) -> Iterator[range]:
    """Positions of each step from offset to the end of the epoch."""
    while offset < n and not (drop_last and offset + batch > n):
        yield range(offset, min(offset + batch, n))
        offset += batch


def passes(
    order: Order, at: range, rank: int, world: int, most: Optional[int] = None, least: int = 1, split: Optional[Sequence[int]] = None
) -> List[Pass]:
    """The passes of one worker through the step at those positions: each of at most
    `most` samples, and at least so many passes as far as there are samples. split is
    how many samples each worker takes, by rank; without, shares are equal."""
    mine = share(len(at), rank, world)
    if split is not None:
        mine = range(sum(split[:rank]), sum(split[: rank + 1]))
    if len(mine) == 0:
        return [Pass([order[at[0]]], 0, len(at), 0, True, rank)]
    count = min(len(mine), max(least, 1 if most is None else -(-len(mine) // most)))
    out: List[Pass] = []
    for p in range(count):
        part = share(len(mine), p, count)
        indices = [order[at[mine[j]]] for j in part]
        out.append(Pass(indices, len(indices), len(at), p, p == count - 1, rank))
    return out


def turns(order: Order, at: range, mine: Iterable[int], workers: int, most: Optional[int] = None, least: int = 1) -> List[Pass]:
    """The passes of a process that takes the turns of some of so many workers, one worker
    after the other. Only the last of all is the last of the step."""
    out = [p for w in mine for p in passes(order, at, w, workers, most, least)]
    return [replace(p, last=False) for p in out[:-1]] + out[-1:]


def remaining_steps(n: int, offset: int, batch: int, drop_last: bool = False) -> int:
    """Steps from offset to the end of an epoch."""
    left = max(0, n - offset)
    return left // batch if drop_last else -(-left // batch)


@dataclass
class Position:
    """How far training has come."""

    epoch: int = 0
    offset: int = 0  # samples of the epoch that were trained
    step: int = 0  # optimiser steps, over all epochs
    samples: int = 0  # over all epochs


@dataclass(frozen=True)
class Work:
    """What there is to train."""

    samples: int  # of an epoch
    epochs: Optional[int]
    steps: Optional[int]
    drop_last: bool

    def over(self, at: Position) -> bool:
        return (self.epochs is not None and at.epoch >= self.epochs) or (self.steps is not None and at.step >= self.steps)

    def total(self, at: Position, batch: int) -> Optional[int]:
        """Steps of the whole job, if the batch stays as it is."""
        if self.epochs is None:
            return self.steps
        each = remaining_steps(self.samples, 0, batch, self.drop_last)
        here = remaining_steps(self.samples, at.offset, batch, self.drop_last)
        n = at.step + max(0, self.epochs - at.epoch - 1) * each + (here if at.epoch < self.epochs else 0)
        return n if self.steps is None else min(n, self.steps)
