"""Batches of unequal workers: each takes so many samples of a step that all are done at
the same time, fetching and computing together.

Nouns: a Cost is what a sample takes on a worker, in seconds, besides what every step
takes (overhead); a split is how many samples of a batch each worker takes, by rank.

Source: Liu, Ding, Cheng, Zhou, "Locality-Aware and Fault-Tolerant Batching for Machine
Learning on Distributed Datasets", IEEE TCC 2024 (LOFT), of whose model only the abstract
was at hand. With compute time alone it is LB-BSP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

GAIN = 0.05  # of a step, below which a split stays as it is
WEIGHT = 0.3  # of the newest measurement in an average


@dataclass(frozen=True)
class Cost:
    """What a sample takes on a worker.

    compute            seconds to compute its gradient
    local, remote      seconds to fetch it from this node, and from another one
    locality           part of the worker's samples that are on its node, 0 to 1
    overhead           seconds of a step, however many samples it has
    overlap            samples are fetched while others are computed
    """

    compute: float
    local: float = 0.0
    remote: float = 0.0
    locality: float = 1.0
    overhead: float = 0.0
    overlap: bool = False

    @property
    def fetch(self) -> float:
        return self.locality * self.local + (1 - self.locality) * self.remote

    @property
    def sample(self) -> float:
        """Seconds of a sample."""
        return max(self.compute, self.fetch) if self.overlap else self.compute + self.fetch

    def step(self, samples: int) -> float:
        """Seconds of a step with so many samples, without waiting for others."""
        return self.overhead + samples * self.sample


def locality(stored: int, batch: int, steps: int) -> float:
    """The part of a worker's samples that are on its node, if so many are stored there and
    used first, in an epoch of so many steps with so many samples each."""
    return 1.0 if batch * steps <= stored else stored / (batch * steps)


def longest(costs: Sequence[Cost], shares: Sequence[int]) -> float:
    """Seconds of a step: the slowest worker counts."""
    return max(c.step(n) for c, n in zip(costs, shares))


def equal(batch: int, workers: int) -> List[int]:
    """A batch in shares that differ by one at most."""
    return [batch * (r + 1) // workers - batch * r // workers for r in range(workers)]


def split(costs: Sequence[Cost], batch: int, least: int = 1, most: Optional[Sequence[int]] = None) -> List[int]:
    """The split of a batch whose step is shortest, with at least and at most so many samples
    a worker. Whole samples that are left over go one by one to who is done first with one more.
    """
    n = len(costs)
    top = [batch] * n if most is None else list(most)
    if batch < least * n or batch > sum(top) or any(t < least for t in top):
        raise ValueError(f"a batch of {batch} cannot be split over {n} workers with {least} to {top} samples each")
    each = [max(c.sample, 1e-12) for c in costs]

    def at(tau: float) -> List[float]:
        return [min(float(t), max(float(least), (tau - c.overhead) / k)) for c, k, t in zip(costs, each, top)]

    low, high = 0.0, max(c.overhead + batch * k for c, k in zip(costs, each))
    for _ in range(100):
        mid = (low + high) / 2
        if sum(at(mid)) < batch:
            low = mid
        else:
            high = mid
    shares = [int(x + 1e-9) for x in at(low)]
    while sum(shares) < batch:
        free = [r for r in range(n) if shares[r] < top[r]]
        shares[min(free, key=lambda r: costs[r].step(shares[r] + 1))] += 1
    return shares


class Meter:
    """Measures the costs of one worker over its steps: averages in which the newest step has
    a weight of 0.3. Once steps of two sizes were seen, overhead and time of a sample are
    told apart by regression."""

    def __init__(self) -> None:
        self._fetch = self._compute = 0.0
        self._weight = 0.0
        self._sums = [0.0] * 4  # decayed means: samples, seconds, samples^2, samples x seconds, of computing

    def add(self, samples: int, fetch: float, compute: float) -> None:
        """A step of so many samples has fetched and computed for so many seconds."""
        if samples < 1:
            return
        b = float(samples)
        self._weight = (1 - WEIGHT) * self._weight + WEIGHT
        self._fetch += WEIGHT * (fetch / b - self._fetch)
        self._compute += WEIGHT * (compute / b - self._compute)
        for i, v in enumerate((b, compute, b * b, b * compute)):
            self._sums[i] += WEIGHT * (v - self._sums[i])

    @property
    def numbers(self) -> Tuple[float, float, float]:
        """Seconds of fetching and of computing a sample, and overhead of a step; zeros
        while nothing was seen."""
        w = self._weight
        if w == 0:
            return 0.0, 0.0, 0.0
        b, c, bb, bc = (s / w for s in self._sums)
        spread = bb - b * b
        if spread > 1e-3 * bb:
            slope = (bc - b * c) / spread
            if 0 < slope * b <= c:
                return self._fetch / w, slope, c - slope * b
        return self._fetch / w, self._compute / w, 0.0


class Balance:
    """Decides how the batches of a run are split. by is "time" (fetching and computing:
    LOFT), "compute" (LB-BSP) or "equal". A split changes only where it makes a step at
    least 5 % shorter."""

    EVERY = 10  # steps between two looks

    def __init__(self, by: str, workers: int) -> None:
        if by not in ("time", "compute", "equal"):
            raise ValueError(f"batches are balanced by time, compute or equal, not {by!r}")
        self.by, self._workers = by, workers
        self.shares: List[int] = []  # of the last batch that was split
        self.meter = Meter()

    def split(self, batch: int) -> List[int]:
        """How a batch is split now: as the last one, in proportion."""
        old = sum(self.shares)
        if old == batch:
            return self.shares
        if old == 0 or batch < self._workers:
            return equal(batch, self._workers)
        ends = [batch * sum(self.shares[: r + 1]) // old for r in range(self._workers)]
        return [b - a for a, b in zip([0, *ends], ends)]

    def look(self, batch: int, numbers: Sequence[Tuple[float, float, float]]) -> bool:
        """Takes in what all workers have measured, by rank, and tells whether the split of
        the batch changes. All workers that are told the same decide the same."""
        if self.by == "equal" or batch < self._workers or any(c <= 0 for _, c, _ in numbers):
            return False
        costs = [Cost(c, local=f if self.by == "time" else 0.0, overhead=o) for f, c, o in numbers]
        now, best = self.split(batch), split(costs, batch)
        if longest(costs, best) >= (1 - GAIN) * longest(costs, now):
            return False
        self.shares = best
        return True
