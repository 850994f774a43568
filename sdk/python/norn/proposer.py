"""Batch sizes that a job proposes by itself as it trains.

Nouns: a Proposer sees each step and says at the end of every few epochs with which global
batch to go on. A Range is the batches that are allowed; a logit is a batch of it as a real
number. norn.torch.Run takes any Proposer (proposer=), tells the scheduler of the batch, and
keeps to its wishes first. norn.torch.Arbiter is one that learns.

Sources: Qiao et al., "Pollux", OSDI 2021 (goodput); MacLellan and Dong, "Arbiter", arXiv
2205.08231 (range and logits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Protocol, Tuple

EDGE = 1e-4  # of a range, nearer to whose ends logits do not go


@dataclass(frozen=True)
class Trained:
    """A step of training: its number and epoch, from 0; global batch; seconds; the mean
    loss and the gradient noise scale in samples, where they are known."""

    step: int
    epoch: int
    batch: int
    seconds: float
    loss: Optional[float] = None
    noise: Optional[float] = None


class Proposer(Protocol):
    """What Run calls, on the first worker."""

    every: int  # epochs between two proposals

    def stepped(self, trained: Trained) -> None:
        """After each step."""
        ...

    def propose(self) -> int:
        """The global batch to go on with; called at the end of every so many epochs."""
        ...

    def state_dict(self) -> Dict[str, Any]:
        """What a checkpoint keeps of it."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Range:
    """Batches from least to most."""

    least: int
    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.least < self.most:
            raise ValueError(f"batches from {self.least} to {self.most}: there must be two or more, of a sample at least")

    def real(self, logit: float) -> float:
        """The batch of a logit, not rounded."""
        return (self.most - self.least) / (1 + math.exp(-max(-700.0, min(700.0, logit)))) + self.least

    def batch(self, logit: float) -> int:
        """The batch of a logit, rounded down."""
        return min(self.most, int(math.floor(self.real(logit) + 1e-6)))

    def logit(self, batch: float) -> float:
        q = min(1 - EDGE, max(EDGE, (batch - self.least) / (self.most - self.least)))
        return math.log(q / (1 - q))

    def clamp(self, batch: float) -> int:
        return int(min(self.most, max(self.least, round(batch))))


class Table:
    """Batches by epoch, that are known beforehand: {0: 128, 50: 256}."""

    every = 1

    def __init__(self, batches: Mapping[int, int]) -> None:
        if not batches or min(batches) < 0 or min(batches.values()) < 1:
            raise ValueError("a table has epochs from 0 on, and batches of 1 or more")
        self._batches, self._epoch = dict(batches), 0

    def stepped(self, trained: Trained) -> None:
        self._epoch = trained.epoch

    def propose(self) -> int:
        """The batch of the epoch that comes next: of the last entry up to it, or the first."""
        past = [e for e in self._batches if e <= self._epoch + 1]
        return self._batches[max(past) if past else min(self._batches)]

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self._epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._epoch = int(state["epoch"])


class Goodput:
    """Pollux' rule for a job by itself: the batch with which it makes most progress in a
    second, that is

        batch / seconds(batch) x (noise + first) / (noise + batch)

    where seconds are fitted as a + b x batch to the steps that were seen, and noise is the
    gradient noise scale. The most is at the root of a x noise / b. A proposal is at most twice
    the present batch, and at least half of it. As long as one batch alone was seen, twice that
    is tried, if noise says that it is no waste. Run needs noise=True for it.
    """

    def __init__(self, batches: Range, every: int = 1) -> None:
        self.every, self._range = every, batches
        self._seen: Dict[int, Tuple[float, int]] = {}  # by batch: mean seconds, and of how many steps
        self._noise: Optional[float] = None
        self._batch = 0

    def stepped(self, trained: Trained) -> None:
        mean, n = self._seen.get(trained.batch, (0.0, 0))
        n = min(n + 1, 100)
        self._seen[trained.batch] = (mean + (trained.seconds - mean) / n, n)
        self._batch, self._noise = trained.batch, trained.noise if trained.noise is not None else self._noise

    def best(self) -> Optional[float]:
        """The batch with most goodput; None: too little was seen."""
        if self._noise is None or len(self._seen) < 2:
            return None
        a, b = _line([(float(x), s, n) for x, (s, n) in self._seen.items()])
        if a <= 0:
            return float(self._range.least)  # a sample costs as much in small batches
        return math.inf if b <= 0 else math.sqrt(a * max(0.0, self._noise) / b)

    def propose(self) -> int:
        best = self.best()
        if best is None:
            best = 2.0 * self._batch if (self._noise or 0.0) > self._batch else float(self._batch)
        return self._range.clamp(min(2.0 * self._batch, max(self._batch / 2.0, best)))

    def state_dict(self) -> Dict[str, Any]:
        return {"seen": dict(self._seen), "noise": self._noise, "batch": self._batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._seen, self._noise, self._batch = dict(state["seen"]), state["noise"], int(state["batch"])


def _line(points: List[Tuple[float, float, int]]) -> Tuple[float, float]:
    """a and b of y = a + b x, by least squares over (x, y, weight)."""
    w = float(sum(n for _, _, n in points))
    mx, my = sum(x * n for x, _, n in points) / w, sum(y * n for _, y, n in points) / w
    b = sum(n * (x - mx) * (y - my) for x, y, n in points) / sum(n * (x - mx) ** 2 for x, _, n in points)
    return my - b * mx, b
